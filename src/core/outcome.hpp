// The outcome of a request at the backend: what to record, and the encoding of a recorded response.
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
  busy,       // the same: no connection was free for it in time
  lost,       // bytes were written, then the connection broke before the response began
  timed_out,  // bytes were written, and no whole response came in time
  truncated,  // the response began and did not end
  whole,      // a whole response within record.max_body
  unframed,   // the same, but it ended with its connection: its body may have been cut off
  oversize,   // a response larger than record.max_body: its status is known, its body streams by
  streaming,  // a response that is recorded as it streams: its status is known, its body is still to come
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
  bool encoded = false;        // there is a Content-Encoding, so the body is not what the type says
  bool end_announced = false;  // by TLS (close_notify), so that it was not the network that ended it
};

// Whole if that is proven, and record.unframed lets a proof count; unframed otherwise. A JSON document proves it if it
// is an object, an array or a string: those have an end of their own. A body with a Content-Encoding is no such
// document.
Delivery weigh(const UnframedResponse& response, const RecordPolicy& policy);

struct Settlement {
  enum class Kind : std::uint8_t {
    release,  // as if never claimed
    succeed,  // recorded; every retry gets it
    fail,     // a retry executes again; the fingerprint still binds
    unknown,  // nobody knows what was done
  };
  Kind kind = Kind::unknown;
  BodyKept body_kept = BodyKept::yes;  // no only for succeed

  bool operator==(const Settlement&) const = default;
};

// `status` counts if is_answered(). A status both in `refusals` and in `statuses` is a refusal: the narrower statement
// wins over the range. What the backend said of it wins over both; but `no-store` and `retry` do not count for
// oversize: while such a response still streams the backend is at work, and a second execution could begin beside it.
// Whether a body is whole matters only if it would be recorded: a failure or a refusal is known by its status.
Settlement settle(Delivery delivery, int status, const BackendPolicy& said, const RecordPolicy& policy);

// {{200, 299}, {404, 404}}: ranges with both ends in it. What lies outside 0-599 is ignored.
StatusSet statuses(std::initializer_list<std::pair<int, int>> ranges);
bool contains(const StatusSet& set, int status);

StatusSet default_statuses();  // 2xx 3xx 4xx; refusals among them win
StatusSet default_refusals();  // 401 402 403 407 408 413 425 429
RecordPolicy default_record_policy();

// A body that stays in the chunks in which it was appended.
struct BodyInChunks {
  std::optional<std::uint64_t> length = std::nullopt;  // nullopt: it was stopped, and is as long as its chunks are

  bool operator==(const BodyInChunks&) const = default;
};

// A response as it is recorded. Views; the bytes belong to the message or to the encoded outcome.
struct StoredResponse {
  int status = 200;
  std::string_view reason = {};
  std::string_view headers = {};  // "Name: value\r\n" each, as the backend sent them, already filtered
  std::string_view body = {};
  std::string_view original_request_id = {};
  std::string_view large_body = {};  // of the request, if it was too large for memory: describe_large_body()
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

// Replaces the content of `out`; allocates at most once, and not at all if it has the room.
void encode_into(std::string& out, const StoredResponse& response);

// Views into `bytes`. nullopt unless every length fits exactly; safe on any bytes.
std::optional<StoredResponse> decode(std::string_view bytes);

}  // namespace once::core
