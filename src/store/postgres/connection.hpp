// One connection to PostgreSQL, used by one thread at a time. Nothing here waits for longer than it was told.
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

// Why a round trip did not work.
struct Fault {
  enum class Kind : std::uint8_t {
    rolled_back,   // the server said so: nothing was changed
    lost,          // the answer never came: nobody knows
    unreplicated,  // committed at the server, but the synchronous standby may not have it
  };
  Kind kind = Kind::lost;
  std::string sqlstate;  // of rolled_back
  std::string detail;    // never what was sent
};

struct Wait {
  std::chrono::nanoseconds until;  // of monotonic_now()
  int wake = -1;                   // a descriptor that ends the wait when it can be read
};

struct Target;  // a host, and all that libpq wants to know

class Connection {
 public:
  enum class Use : std::uint8_t {
    batches,  // the schema is checked, the statements are prepared; send() and sync()
    plain,    // query()
  };

  // Tries every host of the URL, each for settings.connect_timeout, all of it until then (monotonic_now()).
  // Retryable::no: trying again will not help.
  static Result<std::unique_ptr<Connection>> open(const std::string& url, const ServerSettings& settings, Use use,
                                                  int wake = -1,
                                                  std::chrono::nanoseconds until = std::chrono::nanoseconds::max());

  // Something arrived, or the end did, while nobody used it: the server does not want it any more.
  bool stale() const;
  // After a fault: it cannot be used again.
  bool broken() const { return broken_; }
  int descriptor() const;
  // There is a pooler in between, which may give each transaction to another session of the server: nothing is kept in
  // one.
  bool pooled() const { return pooled_; }
  // The server's texts may be any Unicode.
  bool unicode() const { return unicode_; }
  ServerClock& clock() { return clock_; }
  const ServerClock& clock() const { return clock_; }

  // Adds to what the next sync() sends.
  void send(Statement statement, const Parameters& parameters);
  // The same. Its commit waits for the synchronous standby also if nothing else is written, and so for everything that
  // was committed before it.
  void send_confirmation();
  // All that was sent, in one round trip and one transaction: what each returned, in order.
  std::expected<std::vector<Rows>, Fault> sync(Wait wait);

  // Statements without parameters, the rows of the last one, in text.
  std::expected<Rows, Fault> query(const std::string& sql, Wait wait);
  // Of a connection that listens: waits for a notification and gives its payload; nothing if it was woken, or timed
  // out.
  std::expected<std::optional<std::string>, Fault> notification(Wait wait);

 private:
  enum class Ready : std::uint8_t { yes, no };

  struct Finish {
    void operator()(pg_conn* connection) const;
  };
  using Handle = std::unique_ptr<pg_conn, Finish>;

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
  std::string transaction_begin_;  // pooled: what a session would be set to, for one transaction
  bool begun_ = false;             // that was sent since the last sync()
  bool all_accepted_ = true;
  bool all_sent_ = false;  // to the kernel, since the last sync()
  bool broken_ = false;
  bool unreplicated_ = false;  // the server said so since the last sync()
  bool pooled_ = false;
  bool unicode_ = true;
};

// As StoreType::check.
Result<void> check_url(const std::string& url);

// A host of the URL that is another machine and whose certificate is not verified, as the URL and libpq's environment
// say. Empty: there is none.
std::string unverified_host(const std::string& url);

// Why this server cannot be used, by its version as libpq counts them: 150004 is 15.4. Empty: it can.
std::string unsupported(int version);

// "message (SQLSTATE)", of what the server said.
std::string text_of(const Fault& fault);

}  // namespace once::postgres
