// The backend as the exchange sees it: one request out, one answer back, and how far it got. http_backend.hpp is the
// real one; tests and the simulator have their own.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/task.hpp"
#include "core/headers.hpp"
#include "core/outcome.hpp"
#include "core/policy.hpp"
#include "core/problem.hpp"
#include "gateway/identity/origin.hpp"
#include "http/head.hpp"
#include "http/upstream.hpp"

namespace once::gateway {

// Where interim responses (1xx) go while the backend works. Nothing is recorded of them.
class InterimSink {
 public:
  virtual Task<void> interim(const http::ResponseHead& head) = 0;

 protected:
  ~InterimSink() = default;
};

// The body of a request that is not in memory as a whole. It can be read again.
class BodySource {
 public:
  virtual std::uint64_t size() const = 0;
  // Some bytes from the offset on, which is within the body; good until the next call. None: they cannot be read.
  virtual Task<std::optional<std::string_view>> read(std::uint64_t offset) = 0;

 protected:
  ~BodySource() = default;
};

// Keeps the body of a request while it is sent beside the response, which may take longer than the exchange.
class BodyKeeper {
 public:
  virtual void sending_began() = 0;
  virtual void sending_ended() = 0;

 protected:
  ~BodyKeeper() = default;
};

// Whether the claim that a request is sent under still stands. Asked immediately before its first byte: waiting for a
// connection may take longer than the claim lasts.
class SendPermit {
 public:
  virtual bool may_send() const = 0;

 protected:
  ~SendPermit() = default;
};

// What a request cost at the backend, for the access log.
struct UpstreamUse {
  std::string_view server;  // the last one that it was sent to, or tried; lives as long as the generation
  std::chrono::nanoseconds took{};
};

// Of a response that can be recorded as it streams, so much is held until it is whole.
inline constexpr std::size_t most_collected = std::size_t{1} << 20U;

struct BackendRequest {
  const http::RequestHead& head;
  std::string_view body;
  std::string_view added_fields;  // "Name: value\r\n" each: what Once tells the backend
  const Timeouts& timeouts;
  std::size_t max_response_body;  // that is recorded; a longer one is handed over as it comes in
  InterimSink* interim = nullptr;
  std::string_view strip_prefix = {};  // of the path, before it is sent
  const Origin* origin = nullptr;      // where the request came from
  http::CollectRoom* room = nullptr;   // for the body of the response; null: there is always some
  const SendPermit* permit = nullptr;  // null: always. Without it the delivery is not_sent
  UpstreamUse* use = nullptr;          // filled in, unless it is null
  // A response that this records as it streams is handed over with its head (Delivery::streaming), and one that it
  // records and that is larger than `most_collected` with the part read so far. Null: none is.
  const RecordPolicy* streams_by = nullptr;
  BodySource* large_body = nullptr;  // instead of `body`, unless it is null
  // Of the body. Null: it is in memory, and sent as a whole before the response is read.
  BodyKeeper* keeper = nullptr;
};

struct BackendAnswer {
  Delivery delivery = Delivery::not_sent;
  bool end_announced = false;  // of an unframed response
  // If is_answered(delivery); views that live as long as `source`.
  const http::ResponseHead* head = nullptr;
  std::optional<http::ResponseFault> fault = std::nullopt;  // truncated: because it is malformed
  int begun_status = 0;                                     // truncated or timed_out in its body: what its head said
  std::string_view body;                                    // oversize, streaming: the first part of it
  http::ResponseSourcePtr source;                           // oversize, streaming: the rest of the body
  // Not sent, because it must not be, or lost, because of something else than its connection: what to answer instead.
  std::optional<Problem> refused = std::nullopt;
};

// What the backend says of its response in Idempotency-Policy.
inline BackendPolicy policy_said_in(const http::ResponseHead& head) {
  BackendPolicy said;
  for (const http::Field& field : head.fields) {
    if (same_name(field.name, "Idempotency-Policy")) said.add(field.value);
  }
  return said;
}

class Backend {
 public:
  virtual ~Backend() = default;
  // Never sent twice: whatever cannot be known for certain is said in `delivery`.
  virtual Task<BackendAnswer> send(const BackendRequest& request) = 0;
};

}  // namespace once::gateway
