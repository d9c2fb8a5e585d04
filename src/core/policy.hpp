// All settings that can differ between routes, as plain data without behaviour. config/ fills it in; a dialect is a
// named starting point (core/dialect.hpp).
#pragma once

#include <algorithm>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "core/decision.hpp"

namespace once::core {

enum class Method : std::uint8_t { get, head, post, put, patch, delete_, options, connect, trace, query, other };
using MethodSet = std::bitset<11>;  // indexed by Method

enum class Required : std::uint8_t { no, yes };

// A part of a request from which a key is derived, for clients that send none.
struct KeySource {
  enum class Kind : std::uint8_t { header, json };
  Kind kind = Kind::header;
  std::string name;  // the name of the header, or a JSON pointer into the body
};

struct KeyPolicy {
  std::string header = "Idempotency-Key";
  Required required = Required::no;
  std::size_t max_length = 255;
  std::vector<KeySource> derive;  // empty: no key is derived
};

// Where the caller's identity is read from. Several sources form a tuple.
struct CallerSource {
  enum class Kind : std::uint8_t {
    header,
    proxy_header,  // set by a trusted proxy; ignored from any other peer
    cookie,
    jwt,           // a claim of a verified token
    mtls_subject,  // the subject of the verified client certificate
    client_ip,     // the address, taken through trusted proxies
  };
  Kind kind = Kind::header;
  std::string name = "Authorization";  // of the header, cookie or claim; a claim may be a JSON pointer
};

// What to do with a keyed request without a complete caller: refuse it, or treat it as one shared anonymous caller.
enum class CallerMissing : std::uint8_t { anonymous, reject };

enum class ScopePart : std::uint8_t { caller, method, path, life };

struct FingerprintPolicy {
  enum class Body : std::uint8_t {
    automatic,  // multipart by its parts, everything else by its bytes
    raw,        // the bytes
    json,       // like automatic, but JSON by value: member order, white space and number notation do not matter
    form,       // like automatic, but form fields by decoded names and values
    multipart,  // like automatic, and stays so if automatic learns more types
    none,       // the body is not compared
  };
  Body body = Body::automatic;
  // JSON pointers (RFC 6901). With `include`, only these values are compared; `exclude` leaves values out.
  std::vector<std::string> include;
  std::vector<std::string> exclude;
};

// Used with ScopePart::life: keys end with the resource in their path.
struct LifePolicy {
  // How long the end of a life is remembered: longer than any key of it is recorded. Zero: keys of this route have no
  // lives.
  Duration remembered{};
};

// What a retry gets while the first request is executing.
enum class InFlight : std::uint8_t { reject, wait };

using StatusSet = std::bitset<600>;  // indexed by status code

// The meaning of a 502, 503 or 504 from the backend itself.
enum class GatewayErrors : std::uint8_t { failed, unknown };

// How to treat a response that is framed only by the end of its connection, so that a truncated one looks complete.
enum class Unframed : std::uint8_t {
  whole,    // recorded if provably complete, otherwise unknown
  keep,     // always recorded
  unknown,  // always unknown
};

// Which responses are recorded as they stream, chunk by chunk.
enum class StreamRecording : std::uint8_t {
  automatic,  // server-sent events and line-delimited JSON
  always,     // every response that would be recorded
  off,        // none: responses are held back until complete, up to 1 MiB
};

// A cookie is often a session, which must not go to everyone who retries: dropped by default.
enum class SetCookie : std::uint8_t { drop, keep };

struct RecordPolicy {
  StatusSet statuses;  // recorded as succeeded
  StatusSet refusals;  // the backend did nothing: the claim is released
  GatewayErrors gateway_errors = GatewayErrors::failed;
  Unframed unframed = Unframed::whole;
  std::size_t max_body = 1U << 20U;  // larger responses are recorded without their body
  StreamRecording stream = StreamRecording::automatic;
  std::size_t max_stream = std::size_t{16} << 20U;  // a larger stream is recorded without its body
  Duration abandon_after{};                         // end a stream that has had no reader for this long; zero: never
  SetCookie set_cookie = SetCookie::drop;
  std::vector<std::string> drop_headers;  // not stored, besides hop-by-hop headers
};

// What to do with a keyed request when the store does not answer.
enum class StoreDown : std::uint8_t { reject, bypass };

// The wording of the gateway's own responses: only what differs between dialects.
struct Wording {
  int mismatch_status = 422;
  std::string mismatch_code = "key-mismatch";
  std::string mismatch_type = "key-mismatch";  // appended to errors_base
  std::string mismatch_title = "The key was used for another request";
  int in_flight_status = 409;
  std::string in_flight_code = "in-flight";
  std::string in_flight_detail = "A request with this key is still being processed.";
  std::string replay_header = "Idempotency-Replayed";
  // The format of Stripe's client libraries: an `error` object with type, code and message in problems, the header
  // Stripe-Should-Retry besides X-Should-Retry, and Request-Id besides X-Request-Id.
  bool error_object = false;
};

// Whether to add an ETag to responses without one.
enum class Etags : std::uint8_t { off, on };

// Whether Once checks If-Match and If-None-Match on writes.
enum class IfMatch : std::uint8_t { off, on, required };

// Conditional requests for backends that do not support them.
struct ConditionalPolicy {
  Etags etag = Etags::off;
  IfMatch if_match = IfMatch::off;
};

// CORS for browser scripts of other origins. No origins: left to the backend.
struct CorsPolicy {
  std::vector<std::string> origins;  // https://app.example, or just *
  bool credentials = false;
};

struct Timeouts {
  Duration connect = std::chrono::seconds(5);
  Duration response = std::chrono::seconds(60);    // from the last byte sent to the backend to its complete response
  Duration stream_idle = std::chrono::minutes(5);  // pass-through: the longest silence while a response streams
};

// Whether a route protects requests, or only records what it would have done.
enum class Mode : std::uint8_t { enforce, shadow };

struct Policy {
  std::string dialect = "ietf";
  KeyPolicy key;
  MethodSet methods;  // the methods for which keys are honoured
  std::vector<CallerSource> caller = {CallerSource()};
  std::vector<ScopePart> scope = {ScopePart::caller, ScopePart::method, ScopePart::path};
  std::vector<std::string> scope_headers;  // the account that a caller acts for: part of the scope, present or not
  LifePolicy life;
  FingerprintPolicy fingerprint;
  Duration ttl = std::chrono::hours(24);
  Duration tombstone{};  // how long a key is remembered after its expiry
  Duration lease = std::chrono::seconds(30);
  OnUnknown on_unknown = OnUnknown::hold;
  InFlight in_flight = InFlight::wait;
  StoreDown store_down = StoreDown::reject;
  CallerMissing caller_missing = CallerMissing::anonymous;
  bool caller_missing_chosen = false;  // set explicitly: in production no callers share an identity by default
  Mode mode = Mode::enforce;
  Duration takeover_after = std::chrono::minutes(5);
  Duration wait_limit = std::chrono::seconds(30);  // with in_flight: wait, reply 409 after this
  RecordPolicy record;
  std::size_t max_request_body = 8U << 20U;  // keyed bodies are kept in memory up to this size …
  // … and on disk up to this size; 0: never. Larger ones get 413.
  std::size_t max_large_request = std::size_t{1} << 30U;
  Timeouts timeouts;
  ConditionalPolicy conditional;
  CorsPolicy cors;
  Wording wording;
};

// How long after its claim a backend may still be executing a request whose gateway died: it waited for a free
// connection, was connected and sent, and is answered.
inline Duration longest_at_backend(const Timeouts& timeouts) {
  return 2 * timeouts.connect + 2 * timeouts.response + timeouts.stream_idle;
}

// The terms that the store needs to decide a claim. Their ttl is for started and unknown records: a second execution
// must not begin beside the first because the key expired. Outcomes are recorded with the policy's ttl.
inline ClaimTerms terms_of(const Policy& policy) {
  return {.on_unknown = policy.on_unknown,
          .takeover_after = policy.takeover_after,
          .lease = policy.lease,
          .ttl = std::max(policy.ttl, longest_at_backend(policy.timeouts)),
          .tombstone = policy.tombstone};
}

}  // namespace once::core
