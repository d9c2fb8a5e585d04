// The backend as the exchange sees it: sends one request, returns one answer, and says how far delivery got. The real
// one is http_backend.hpp; tests and the simulator have their own.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/task.hpp"
#include "core/fields.hpp"
#include "core/headers.hpp"
#include "core/outcome.hpp"
#include "core/policy.hpp"
#include "core/problem.hpp"
#include "gateway/identity/origin.hpp"
#include "http/head.hpp"
#include "http/upstream.hpp"

namespace once::gateway {

// Receives interim responses (1xx) while the backend works. They are never recorded.
class InterimSink {
 public:
  virtual Task<void> interim(const http::ResponseHead& head) = 0;

 protected:
  ~InterimSink() = default;
};

// A request body that is not in memory as a whole. It can be read again from any offset.
class BodySource {
 public:
  virtual std::uint64_t size() const = 0;
  // Bytes from `offset`, which is inside the body; valid until the next call. nullopt if they cannot be read.
  virtual Task<std::optional<std::string_view>> read(std::uint64_t offset) = 0;

 protected:
  ~BodySource() = default;
};

// Keeps a request body alive while it is still being sent, which may take longer than the exchange.
class BodyKeeper {
 public:
  virtual void sending_began() = 0;
  virtual void sending_ended() = 0;

 protected:
  ~BodyKeeper() = default;
};

// Whether the claim of a request is still valid. Asked immediately before its first byte is sent, because waiting for a
// connection may outlast the claim.
class SendPermit {
 public:
  virtual bool may_send() const = 0;

 protected:
  ~SendPermit() = default;
};

// Counts of one request at the backend, for the access log.
struct UpstreamUse {
  std::string_view server;  // the last one tried; lives as long as the generation
  std::chrono::nanoseconds took{};
};

// A response that may be recorded as it streams is collected up to this size before it is handed over unfinished.
inline constexpr std::size_t most_collected = std::size_t{1} << 20U;

struct BackendRequest {
  const http::RequestHead& head;
  std::string_view body;
  FieldsView added_fields;  // by Once, for the backend
  const Timeouts& timeouts;
  std::size_t max_response_body;  // the largest body that is recorded; a longer one is streamed to the caller
  InterimSink* interim = nullptr;
  std::string_view strip_prefix = {};  // of the path, before it is sent
  const Origin* origin = nullptr;      // the origin of the request
  http::CollectRoom* room = nullptr;   // memory for the response body; null: unlimited
  const SendPermit* permit = nullptr;  // null: always allowed. If refused, the delivery is not_sent
  UpstreamUse* use = nullptr;          // filled in, unless it is null
  // The policy that decides which responses are recorded as they stream. Such a response is handed over with its head
  // (Delivery::streaming); one larger than `most_collected` is handed over with the part read so far. Null: none is.
  const RecordPolicy* streams_by = nullptr;
  BodySource* large_body = nullptr;  // instead of `body`, unless it is null
  // Keeps the body alive. Null: the body is in memory and is sent as a whole before the response is read.
  BodyKeeper* keeper = nullptr;
};

struct BackendAnswer {
  Delivery delivery = Delivery::not_sent;
  bool end_announced = false;  // the transport proved the end of an unframed response
  // Set if is_answered(delivery); its views live as long as `source`.
  const http::ResponseHead* head = nullptr;
  std::optional<http::ResponseFault> fault = std::nullopt;  // set if the response was truncated because it is malformed
  int begun_status = 0;            // the status of the head, if the body was truncated or timed out
  std::string_view body;           // oversize, streaming: the first part of the body
  http::ResponseSourcePtr source;  // oversize, streaming: the rest of the body
  // Set if the request was refused before it was sent, or lost for a reason other than its connection: the answer to
  // give instead.
  std::optional<Problem> refused = std::nullopt;
};

// What the Idempotency-Policy field of the response asks for.
inline BackendPolicy backend_policy_in(const http::ResponseHead& head) {
  BackendPolicy policy;
  for (const http::Field& field : head.fields) {
    if (same_name(field.name, "Idempotency-Policy")) policy.add(field.value);
  }
  return policy;
}

class Backend {
 public:
  virtual ~Backend() = default;
  // Sends the request at most once; `delivery` reports any uncertainty.
  virtual Task<BackendAnswer> send(const BackendRequest& request) = 0;
};

}  // namespace once::gateway
