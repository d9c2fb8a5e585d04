#include "gateway/exchange/resource_write.hpp"

#include <algorithm>
#include <utility>

namespace once::gateway {

namespace {

// Requires the permits of both the key and the resource.
class BothPermits final : public SendPermit {
 public:
  BothPermits(const SendPermit* key, const SendPermit& resource) : key_(key), resource_(resource) {}

  bool may_send() const override { return (key_ == nullptr || key_->may_send()) && resource_.may_send(); }

 private:
  const SendPermit* key_;
  const SendPermit& resource_;
};

}  // namespace

ResourceWrite::ResourceWrite(const ExchangePorts& ports, const OperationIds& ids, const WriteRequest& write)
    : write_(write) {
  if (takes_turns(write.policy, write.head.method)) condition_.emplace(ports, ids, write_);
  if (write.life) life_.emplace(ports, write_.policy, *write.life, write_.head, write_.request_id);
}

Task<std::optional<Problem>> ResourceWrite::begin() {
  std::optional<Problem> refused;
  if (condition_) refused = co_await condition_->begin();
  if (!refused && life_) refused = co_await life_->begin();
  if (refused) co_await end(true, 0);
  co_return refused;
}

Task<std::optional<Problem>> ResourceWrite::answered(int status) {
  std::optional<Problem> half;
  if (life_) half = co_await life_->answered(status);
  co_return half;
}

Task<void> ResourceWrite::end(bool whole, int status) {
  const bool of_a_proxy = status == 502 || status == 503 || status == 504;
  const bool known = whole && (!of_a_proxy || write_.policy.record.gateway_errors != GatewayErrors::unknown);
  const WriteEnd end = known ? WriteEnd::known : WriteEnd::unknown;
  if (condition_) co_await condition_->end(end);
}

Task<BackendAnswer> ResourceBackend::send(const BackendRequest& request) {
  BackendAnswer answer;
  answer.refused = co_await write_.begin();
  if (answer.refused) co_return answer;
  const BothPermits permit(request.permit, write_);
  BackendRequest permitted = request;
  permitted.permit = &permit;
  answer = co_await write_.backend().send(permitted);
  // The status decides whether the write ends a life, even if the body was truncated.
  const int reported = is_answered(answer.delivery) ? answer.head->status : answer.begun_status;
  if (reported != 0) {
    std::optional<Problem> half = co_await write_.answered(reported);
    if (half) {
      answer = BackendAnswer();
      answer.delivery = Delivery::lost;
      answer.refused = std::move(half);
    }
  } else if (answer.delivery == Delivery::not_sent && !answer.refused && !write_.may_send()) {
    answer.refused = resource_busy(std::string(resource_lost));
  }
  if (answer.delivery == Delivery::oversize) co_return answer;
  const bool whole = is_answered(answer.delivery) || !was_sent(answer.delivery);
  const int status = is_answered(answer.delivery) ? answer.head->status : 0;
  co_await write_.end(whole, status);
  co_return answer;
}

Task<http::Transfer> drain(http::ResponseSource& rest, const Timeouts& timeouts, const http::Loop& loop) {
  using Kind = http::BodyChunk::Kind;
  const auto deadline = loop.now() + timeouts.response;
  while (true) {
    const Duration left = std::max(Duration::zero(), std::chrono::ceil<Duration>(deadline - loop.now()));
    const http::BodyChunk chunk = co_await rest.next(std::min(timeouts.stream_idle, left));
    if (chunk.kind == Kind::data && loop.now() < deadline) continue;
    co_return chunk.kind == Kind::end ? http::Transfer::whole : http::Transfer::cut_off;
  }
}

}  // namespace once::gateway
