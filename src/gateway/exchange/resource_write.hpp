// A write that involves its resource and not only its key: it takes turns and is checked (conditional_write.hpp), ends
// a life (life.hpp), or both. Steps: begin(), send if may_send(), answered(), end(). Without a key PassThrough runs
// them; with one, ResourceBackend does.
#pragma once

#include <optional>

#include "base/task.hpp"
#include "core/operation.hpp"
#include "core/problem.hpp"
#include "gateway/exchange/backend.hpp"
#include "gateway/exchange/conditional_write.hpp"
#include "gateway/exchange/life.hpp"

namespace once::gateway {

// Whether a request with this method is such a write.
inline bool writes_resource(const Policy& policy, Method method) {
  return takes_turns(policy, method) || ends_life(policy, method);
}

class ResourceWrite final : public SendPermit {
 public:
  // The ports outlive this.
  ResourceWrite(const ExchangePorts& ports, const OperationIds& ids, const WriteRequest& write);
  ResourceWrite(const ResourceWrite&) = delete;
  ResourceWrite& operator=(const ResourceWrite&) = delete;

  // A problem: do not send the write; nothing is held.
  Task<std::optional<Problem>> begin();
  bool may_send() const override { return !condition_ || condition_->may_send(); }
  // Call when the head of the response is here and nothing was sent to the client. A problem: send it instead.
  Task<std::optional<Problem>> answered(int status);
  // `whole`: the whole response arrived, or nothing was sent. Other writers wait for this call.
  Task<void> end(bool whole, int status);
  bool holds_resource() const { return condition_ && condition_->holds_resource(); }

  Backend& backend() const { return write_.backend; }

 private:
  const WriteRequest write_;
  std::optional<ConditionalWrite> condition_;
  std::optional<LifeEnd> life_;
};

// The backend of a keyed request that writes to a resource. The key is checked first: a replay is not checked and ends
// no life, and what is refused here was not executed.
class ResourceBackend final : public Backend {
 public:
  explicit ResourceBackend(ResourceWrite& write) : write_(write) {}

  // After an oversize answer the resource stays claimed until the rest of the response ends.
  Task<BackendAnswer> send(const BackendRequest& request) override;

 private:
  ResourceWrite& write_;
};

// Reads and discards the rest of a response whose client has left, within the timeouts.
Task<http::Transfer> drain(http::ResponseSource& rest, const Timeouts& timeouts, const http::Loop& loop);

}  // namespace once::gateway
