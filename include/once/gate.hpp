// The gateway's engine inside of your process, with your handler in place of the backend: for HTTP requests that should
// be executed once, without a proxy in front. Same configuration file, stores, operation ids and replies as the
// gateway, so a service can move between the two without losing a key. docs/guides/gate.md has the guide.
//
// For work that is not an HTTP request use once::Guard. For other languages: once/once.h.
//
//   auto gate = once::Gate::open({.config_file = "once.yaml"});
//   auto begun = gate->begin(request);                    // waits for an owner as the route says
//   if (begun.reply) return send(*begun.reply);           // replay, conflict, mismatch, problem
//   if (!begun.claim) return send(handle(request));       // no key: not protected
//   Response made = handle(request, *begun.claim);        // attempt, fence, and the token that once_finish takes
//   return send(gate->finish(*begun.claim, made));        // recorded first, then sent
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace once::gate {

struct Field {
  std::string name;
  std::string value;

  bool operator==(const Field&) const = default;
};

enum class Logging : std::uint8_t { standard_error, off };

struct Options {
  std::string config_file = {};  // the gateway's file; empty: the built-in settings
  std::string config_text = {};  // or the file's text
  // Override those of the file, as with `once serve --set`: {"store", "postgres://…"}, {"defaults.ttl", "48h"}.
  std::vector<Field> settings = {};
  Logging logging = Logging::standard_error;
  // Receives the log instead: one JSON object per line, without newline, on a thread of the gate. Must not block.
  // Exceptions are ignored.
  std::function<void(std::string_view line)> log = {};
};

// Why a gate could not be opened. Never contains a secret or a password.
struct OpenError {
  enum class Kind : std::uint8_t { settings, store, system };
  Kind kind = Kind::settings;
  std::string detail;
};

// How the server represents fields that a client sent twice.
enum class RepeatedFields : std::uint8_t {
  kept,    // as separate fields
  joined,  // joined into one field with commas: CGI, WSGI, fetch
};

struct Request {
  std::string method;
  std::string target;         // as the client sent it, not decoded, with its query
  std::vector<Field> fields;  // as received, including Host
  std::string body = {};
  std::string peer = {};         // numeric address of the client; empty: a Unix socket
  std::string scheme = "http";   // or "https"
  std::string caller = {};       // the caller as your program has verified it; empty: as in the route's `caller`
  std::string tls_subject = {};  // of a verified client certificate
  std::string tls_issuer = {};
  // If joined, a comma in the key or in a header that identifies the caller counts as two fields, and is refused like
  // two.
  RepeatedFields repeated_fields = RepeatedFields::kept;
};

enum class BodyKept : std::uint8_t {
  yes,
  no,  // too large, or a stream: status and fields are recorded, and you send the body yourself
};

struct Response {
  int status = 200;
  std::string reason = {};  // empty: the standard phrase
  std::vector<Field> fields = {};
  std::string body = {};
  BodyKept body_kept = BodyKept::yes;
};

// The kind of a reply: the value of Idempotency-Status.
enum class Ending : std::uint8_t {
  executed,
  replayed,
  in_flight,
  mismatch,
  unknown,
  bypassed,
  rejected,  // a problem with the request or the store: nothing was executed
  passed,
};

// How the claim of a reply ended.
enum class Settled : std::uint8_t {
  none,  // there was no claim
  succeeded,
  failed,
  unknown,
  released,
  lost,        // another attempt took it over: nothing of this one is recorded
  unrecorded,  // the store did not accept the outcome
};

struct Reply {
  int status = 0;
  std::string reason = {};
  // all fields to send, without Connection, Transfer-Encoding and Date, which servers add
  std::vector<Field> fields = {};
  std::string body = {};
  Ending ending = Ending::rejected;
  Settled settled = Settled::none;
  unsigned attempt = 0;
  bool body_is_yours = false;  // finished with BodyKept::no
};

struct HeldRequest;

// The right to run the handler, kept alive by its gate. Copies are the same claim. If the last copy is destroyed
// without a finish, the outcome is unknown, and that is counted. May outlive its gate.
class Claim {
 public:
  explicit Claim(std::shared_ptr<HeldRequest> held) : held_(std::move(held)) {}

  unsigned attempt() const;
  std::uint64_t fence() const;
  // For once_finish(claim, …) in a transaction of your own: see docs/guides/exactly-once.md. A capability: do not log
  // it.
  const std::string& token() const;
  const std::string& operation() const;  // the operation id in hex
  const std::string& request_id() const;
  // The fields that a backend behind the gateway would get: X-Request-Id, Idempotency-Attempt and so on.
  const std::vector<Field>& fields() const;
  // record.max_body: larger responses are not kept.
  std::size_t max_body() const;
  // A claim is unprotected if the store is down and the route has store_down: bypass.
  bool is_protected() const;
  // Whether another attempt may have taken over: then later results are not recorded.
  bool lost() const;

 private:
  friend class Gate;
  std::shared_ptr<HeldRequest> held_;
};

// A reply to send, or a claim to execute the handler under. With neither, the request is not protected: send its
// handler's response with these fields added.
struct Begun {
  std::optional<Reply> reply = std::nullopt;
  std::optional<Claim> claim = std::nullopt;
  std::vector<Field> fields = {};

  bool passes() const { return !reply && !claim; }
};

enum class Drained : std::uint8_t { all, timed_out };

class Front;

// Thread-safe: any number of threads may call it at once. In a forked child the first call opens it again.
class Gate {
 public:
  // Never throws.
  [[nodiscard]] static std::expected<Gate, OpenError> open(const Options& options);
  Gate(Gate&& other) noexcept;
  Gate& operator=(Gate&& other) noexcept;
  // Held claims lapse. Waits a moment for threads and connections to end.
  ~Gate();

  // Blocks this thread, also while another request with the same key is executing. A stop ends that wait with a 503:
  // nothing was executed.
  [[nodiscard]] Begun begin(const Request& request, const std::stop_token& stop = {});
  // `then` is called once, on a thread of the gate. The gate may be destroyed there. It must neither block nor throw.
  void begin(Request request, std::move_only_function<void(Begun)> then, const std::stop_token& stop = {});

  // Records the outcome, then returns the reply to send.
  [[nodiscard]] Reply finish(const Claim& claim, const Response& response);
  void finish(const Claim& claim, const Response& response, std::move_only_function<void(Reply)> then);
  // The handler ended without a response, and may have done something: the outcome is unknown.
  [[nodiscard]] Reply abandon(const Claim& claim);
  // Nothing was done: undoes the claim.
  [[nodiscard]] Reply release(const Claim& claim);

  // Begins nothing new: begin() returns a 503. Waits until every claim has ended and is recorded.
  [[nodiscard]] Drained drain(std::chrono::milliseconds deadline);

  // In Prometheus text format.
  std::string metrics() const;

 private:
  explicit Gate(std::unique_ptr<Front> front);
  std::unique_ptr<Front> front_;
};

}  // namespace once::gate

namespace once {

using Gate = gate::Gate;

}  // namespace once
