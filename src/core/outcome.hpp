// Decides what to record of a request's result at the backend, and encodes recorded responses.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/backend_policy.hpp"
#include "core/policy.hpp"
#include "core/record.hpp"

namespace once::core {

// How far the request and its response got.
enum class Delivery : std::uint8_t {
  not_sent,   // no byte of the request was written
  busy,       // no byte of the request was written, because no connection was free in time
  lost,       // bytes were written, then the connection broke before a response began
  timed_out,  // bytes were written, and no whole response came in time
  truncated,  // the response began but did not end
  whole,      // a whole response within record.max_body
  unframed,   // whole, but ended by the end of its connection: the body may have been cut off
  oversize,   // larger than record.max_body: the status is known, the body is relayed
  streaming,  // recorded as it streams: the status is known, the body is still to come
};

// Whether the backend's final status and headers are known.
constexpr bool is_answered(Delivery delivery) {
  return delivery == Delivery::whole || delivery == Delivery::unframed || delivery == Delivery::oversize ||
         delivery == Delivery::streaming;
}

// Whether any byte of the request may have reached the backend.
constexpr bool was_sent(Delivery delivery) {
  return delivery != Delivery::not_sent && delivery != Delivery::busy;
}

// A response that ended with its connection.
struct UnframedResponse {
  std::string_view content_type;
  std::string_view body;
  bool encoded = false;        // it has a Content-Encoding, so the body is not plain text of its type
  bool end_announced = false;  // TLS close_notify proved that the backend ended it, not the network
};

// `whole` if the response is proven complete and record.unframed accepts proof, else `unframed`. A JSON body without
// Content-Encoding is proof if it is an object, an array or a string, because those end visibly.
Delivery weigh(const UnframedResponse& response, const RecordPolicy& policy);

struct Settlement {
  enum class Kind : std::uint8_t {
    release,  // undo the claim
    succeed,  // record the response; every retry gets it
    fail,     // record a failure: a retry executes again, the fingerprint still binds
    unknown,  // it is unknown whether the work was done
  };
  Kind kind = Kind::unknown;
  BodyKept body_kept = BodyKept::yes;  // `no` only with succeed

  bool operator==(const Settlement&) const = default;
};

// `status` is used if is_answered(). A status in both `refusals` and `statuses` is a refusal, because refusals are more
// specific. The backend's Idempotency-Policy overrides both, except that `no-store` and `retry` are ignored for an
// oversize response: the backend is still executing, and a second execution could start beside it. Whether a body is
// complete matters only if it would be recorded: failures and refusals are decided by the status.
Settlement settle(Delivery delivery, int status, const BackendPolicy& backend, const RecordPolicy& policy);

// {{200, 299}, {404, 404}}: inclusive ranges. Values outside 0-599 are ignored.
StatusSet statuses(std::initializer_list<std::pair<int, int>> ranges);
bool contains(const StatusSet& set, int status);

StatusSet default_statuses();  // 2xx 3xx 4xx; refusals among them take precedence
StatusSet default_refusals();  // 401 402 403 407 408 413 425 429
RecordPolicy default_record_policy();

// A body that stays in its appended chunks.
struct BodyInChunks {
  std::optional<std::uint64_t> length = std::nullopt;  // nullopt: it was stopped; its length is that of its chunks

  bool operator==(const BodyInChunks&) const = default;
};

// A response to record. Holds views of the message or of the encoded outcome.
struct StoredResponse {
  int status = 200;
  std::string_view reason = {};
  std::string_view headers = {};  // "Name: value\r\n" each, as the backend sent them, filtered
  std::string_view body = {};
  std::string_view original_request_id = {};
  std::string_view large_body = {};                      // describe_large_body() of a request too large for memory
  std::optional<BodyInChunks> in_chunks = std::nullopt;  // then `body` is empty

  bool operator==(const StoredResponse&) const = default;
};

// The layout, fixed and little endian. A change of it is a new version; old versions stay readable.
//
//   0   u8   version, 1
//   1   u8   0
//   2   u16  status, 0-999
//   4   u32  length of reason
//   8   u32  length of original_request_id
//   12  u32  length of headers
//   16  u64  length of body
//   24  reason, original_request_id, headers, body; nothing after them
//
// A response whose body stays in chunks has version 2. In place of the body it has 8 bytes: its length, or 2^64 - 1 if
// that is not recorded. Programs that know version 1 only never look at it: their stores say that no body was kept.
//
// `large_body` is the first header, `Idempotency-Request-Body`, which no backend can set. Programs that do not know it
// send it with a replay.
std::string encode(const StoredResponse& response);

// Replaces the content of `out`; allocates at most once, and not at all if its capacity is enough.
void encode_into(std::string& out, const StoredResponse& response);

// Returns views into `bytes`. nullopt unless every length fits exactly; safe on any input.
std::optional<StoredResponse> decode(std::string_view bytes);

}  // namespace once::core
