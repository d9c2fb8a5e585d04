// One connection to PostgreSQL, for one thread at a time. Every wait has a deadline.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "store/postgres/statements.hpp"
#include "store/postgres/values.hpp"
#include "store/server/server_clock.hpp"
#include "store/server/settings.hpp"

struct pg_conn;

namespace once::postgres {

// Why a round trip failed.
struct Fault {
  enum class Kind : std::uint8_t {
    rolled_back,   // reported by the server: nothing was changed
    lost,          // no answer came: the result is unknown
    unreplicated,  // committed at the server, but the synchronous standby may not have it
  };
  Kind kind = Kind::lost;
  std::string sqlstate;  // if rolled_back
  std::string detail;    // never contains what was sent
};

struct Wait {
  std::chrono::nanoseconds until;  // a time of monotonic_now()
  int wake = -1;                   // a descriptor that ends the wait when it is readable
};

struct Target;  // a host with all libpq options

class Connection {
 public:
  enum class Use : std::uint8_t {
    batches,  // checks the schema and prepares the statements, for send() and sync()
    plain,    // for query()
  };

  // Tries every host of the URL, each for settings.connect_timeout, all of them until the deadline (monotonic_now()).
  // Retryable::no: the error is permanent.
  static Result<std::unique_ptr<Connection>> open(const std::string& url, const ServerSettings& settings, Use use,
                                                  int wake = -1,
                                                  std::chrono::nanoseconds until = std::chrono::nanoseconds::max());

  // Data or the end of the stream arrived while the connection was idle: the server is closing it.
  bool stale() const;
  // Whether a fault occurred, after which it cannot be used.
  bool broken() const { return broken_; }
  int descriptor() const;
  // Whether a connection pooler is in between, which may run each transaction in another session, so that session state
  // cannot be used.
  bool pooled() const { return pooled_; }
  // Whether the server's texts may contain any Unicode character.
  bool unicode() const { return unicode_; }
  ServerClock& clock() { return clock_; }
  const ServerClock& clock() const { return clock_; }

  // Adds a statement to the next sync().
  void send(Statement statement, const Parameters& parameters);
  // Adds a statement that makes the commit wait for the synchronous standby even if nothing else is written, and so for
  // all earlier commits.
  void send_confirmation();
  // Sends all statements in one round trip and one transaction; returns their results in order.
  std::expected<std::vector<Rows>, Fault> sync(Wait wait);

  // Runs statements without parameters; returns the rows of the last one as text.
  std::expected<Rows, Fault> query(const std::string& sql, Wait wait);
  // On a listening connection: waits for a notification and returns its payload; nothing if it was woken or timed out.
  std::expected<std::optional<std::string>, Fault> notification(Wait wait);

 private:
  enum class Ready : std::uint8_t { yes, no };

  struct Close {
    void operator()(pg_conn* connection) const;
  };
  using Handle = std::unique_ptr<pg_conn, Close>;

  explicit Connection(Handle handle) : handle_(std::move(handle)) {}

  static Result<Handle> connect_to_any(const std::string& url, const ServerSettings& settings, Wait wait);
  static Result<Handle> connect_to(const Target& target, Wait wait);
  Result<void> set_up(const ServerSettings& settings, Use use, Wait wait);
  Result<void> find_pooler(Wait wait);
  Result<void> check_schema(Wait wait);
  Result<void> set_session(const ServerSettings& settings, Wait wait);
  void begin_transaction();
  void send_text(const std::string& sql);
  void note_sent(int accepted);
  Ready wait_for_result(Wait wait);
  std::unexpected<Fault> lost();
  std::optional<Fault> read_one(std::vector<Rows>& results, Wait wait);
  static void take_notice(void* connection, const pg_result* notice);

  Handle handle_;
  ServerClock clock_;
  std::size_t sent_ = 0;           // since the last sync()
  std::string transaction_begin_;  // with a pooler: the session settings, made per transaction
  bool begun_ = false;             // whether they were sent since the last sync()
  bool all_accepted_ = true;
  bool all_sent_ = false;  // to the kernel, since the last sync()
  bool broken_ = false;
  bool unreplicated_ = false;  // the server reported it since the last sync()
  bool pooled_ = false;
  bool unicode_ = true;
};

// For StoreType::check.
Result<void> check_url(const std::string& url);

// A remote host of the URL whose certificate is not verified, according to the URL and libpq's environment. Empty:
// there is none.
std::string unverified_host(const std::string& url);

// Why this server version (as libpq encodes it: 150004 is 15.4) cannot be used. Empty: it can.
std::string unsupported(int version);

// "message (SQLSTATE)", as reported by the server.
std::string text_of(const Fault& fault);

}  // namespace once::postgres
