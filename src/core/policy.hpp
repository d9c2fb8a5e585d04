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
using MethodSet = std::bitset<11>;  // by Method

enum class Required : std::uint8_t { no, yes };

// A part of a request that a key is made from, for clients that send none.
struct KeySource {
  enum class Kind : std::uint8_t { header, json };
  Kind kind = Kind::header;
  std::string name;  // of the header, or a JSON pointer into the body
};

struct KeyPolicy {
  std::string header = "Idempotency-Key";
  Required required = Required::no;
  std::size_t max_length = 255;
  std::vector<KeySource> derive;  // empty: no key is made
};

// Where the caller's identity is read from. Several make a tuple.
struct CallerSource {
  enum class Kind : std::uint8_t {
    header,
    proxy_header,  // set by a trusted proxy; from anybody else it is missing
    cookie,
    jwt,           // a claim of a verified token
    mtls_subject,  // whom the verified client certificate names
    client_ip,     // the address, through trusted proxies
  };
  Kind kind = Kind::header;
  std::string name = "Authorization";  // of the header, cookie or claim; a claim may be a JSON pointer
};

// What becomes of a request with a key when one of these is missing: refused, or one of those that share a caller named
// nobody.
enum class CallerMissing : std::uint8_t { anonymous, reject };

enum class ScopePart : std::uint8_t { caller, method, path, life };

struct FingerprintPolicy {
  enum class Body : std::uint8_t {
    automatic,  // multipart by its parts, everything else by its bytes
    raw,        // the bytes
    json,       // as automatic; JSON by its value: order of members, white space, spelling of numbers do not matter
    form,       // as automatic; form fields by decoded names and values
    multipart,  // as automatic, and stays so if that learns more types
    none,       // not at all
  };
  Body body = Body::automatic;
  // JSON pointers (RFC 6901). With `include`, only these are compared; `exclude` leaves out.
  std::vector<std::string> include;
  std::vector<std::string> exclude;
};

// With ScopePart::life: keys die with the resource that their path names.
struct LifePolicy {
  // For how long the end of a life is remembered: longer than any key of it. Zero: keys of this route have no lives.
  Duration remembered{};
};

// What a retry gets while the first request is still at work.
enum class InFlight : std::uint8_t { reject, wait };

using StatusSet = std::bitset<600>;  // by status code

// What a 502, 503 or 504 from the backend itself means.
enum class GatewayErrors : std::uint8_t { failed, unknown };

// What becomes of a response that is framed only by the end of its connection, so that one that was cut off looks like
// a shorter one.
enum class Unframed : std::uint8_t {
  whole,    // recorded if it is provably whole, otherwise unknown
  keep,     // recorded
  unknown,  // unknown
};

// Which responses are recorded as they stream, chunk by chunk.
enum class StreamRecording : std::uint8_t {
  automatic,  // server-sent events and JSON by lines
  always,     // every response that would be recorded
  off,        // none: held back until they are whole, up to 1 MiB
};

// A cookie often is a session, and a session is not for everyone who retries: dropped unless it is asked for.
enum class SetCookie : std::uint8_t { drop, keep };

struct RecordPolicy {
  StatusSet statuses;  // recorded as succeeded
  StatusSet refusals;  // the backend says nothing was done: the claim is released
  GatewayErrors gateway_errors = GatewayErrors::failed;
  Unframed unframed = Unframed::whole;
  std::size_t max_body = 1U << 20U;  // larger responses are recorded without their body
  StreamRecording stream = StreamRecording::automatic;
  std::size_t max_stream = std::size_t{16} << 20U;  // a larger stream is recorded without its body
  Duration abandon_after{};                         // of a stream that nobody reads; zero: it goes on to its end
  SetCookie set_cookie = SetCookie::drop;
  std::vector<std::string> drop_headers;  // not stored, beside hop-by-hop ones
};

// What to do with a keyed request when the store does not answer.
enum class StoreDown : std::uint8_t { reject, bypass };

// How the gateway words its own answers. What differs between dialects, and nothing else.
struct Wording {
  int mismatch_status = 422;
  std::string mismatch_code = "key-mismatch";
  std::string mismatch_type = "key-mismatch";  // what follows errors_base
  std::string mismatch_title = "The key was used for another request";
  int in_flight_status = 409;
  std::string in_flight_code = "in-flight";
  std::string in_flight_detail = "A request with this key is still being processed.";
  std::string replay_header = "Idempotency-Replayed";
  // What Stripe's client libraries look for: an `error` object with type, code and message in problems, the header
  // Stripe-Should-Retry beside X-Should-Retry, and Request-Id beside X-Request-Id.
  bool error_object = false;
};

// Whether responses that have no ETag are given one.
enum class Etags : std::uint8_t { off, on };

// Whether Once checks If-Match and If-None-Match on writes.
enum class IfMatch : std::uint8_t { off, on, required };

// Conditional requests for backends that have none of their own.
struct ConditionalPolicy {
  Etags etag = Etags::off;
  IfMatch if_match = IfMatch::off;
};

// What browsers are told about scripts of other origins. No origins: nothing, that is the backend's to do.
struct CorsPolicy {
  std::vector<std::string> origins;  // https://app.example, or * alone
  bool credentials = false;
};

struct Timeouts {
  Duration connect = std::chrono::seconds(5);
  Duration response = std::chrono::seconds(60);    // from the last byte sent to the backend to its whole response
  Duration stream_idle = std::chrono::minutes(5);  // pass-through: silence from the backend while a response streams
};

// Whether a route protects, or only keeps the books and says what it would have done.
enum class Mode : std::uint8_t { enforce, shadow };

struct Policy {
  std::string dialect = "ietf";
  KeyPolicy key;
  MethodSet methods;  // where keys are honoured
  std::vector<CallerSource> caller = {CallerSource()};
  std::vector<ScopePart> scope = {ScopePart::caller, ScopePart::method, ScopePart::path};
  std::vector<std::string> scope_headers;  // for whom a caller acts: part of the scope, given or not
  LifePolicy life;
  FingerprintPolicy fingerprint;
  Duration ttl = std::chrono::hours(24);
  Duration tombstone{};  // how long after its expiry a key is remembered
  Duration lease = std::chrono::seconds(30);
  OnUnknown on_unknown = OnUnknown::hold;
  InFlight in_flight = InFlight::wait;
  StoreDown store_down = StoreDown::reject;
  CallerMissing caller_missing = CallerMissing::anonymous;
  bool caller_missing_chosen = false;  // somebody said so: in production nobody shares a caller by default
  Mode mode = Mode::enforce;
  Duration takeover_after = std::chrono::minutes(5);
  Duration wait_limit = std::chrono::seconds(30);  // in_flight: wait gives up after this, with a 409
  RecordPolicy record;
  std::size_t max_request_body = 8U << 20U;  // keyed requests are held in memory; larger ones …
  // … are put aside on disk up to this size; 0: none. Beyond it they get 413.
  std::size_t max_large_request = std::size_t{1} << 30U;
  Timeouts timeouts;
  ConditionalPolicy conditional;
  CorsPolicy cors;
  Wording wording;
};

// How long the backend can still be at work on a request whose gateway died after it had claimed the key.
inline Duration longest_at_backend(const Timeouts& timeouts) {
  return timeouts.connect + timeouts.response + timeouts.stream_idle;
}

// What the store needs of it to settle a claim. The ttl is for a record that is started or unknown: a second execution
// must not begin beside the first because the key expired. An outcome is recorded with the ttl of the policy.
inline ClaimTerms terms_of(const Policy& policy) {
  return {.on_unknown = policy.on_unknown,
          .takeover_after = policy.takeover_after,
          .lease = policy.lease,
          .ttl = std::max(policy.ttl, longest_at_backend(policy.timeouts)),
          .tombstone = policy.tombstone};
}

}  // namespace once::core
