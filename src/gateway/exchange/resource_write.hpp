// A write to a resource that Once knows more about than the write's key: one that takes its turn and is checked
// (conditional_write.hpp), one that ends a life (life.hpp), or both. The steps are the same with and without a key:
// begin(), the first byte if may_send(), answered(), end(). Without a key PassThrough asks it; with one,
// ResourceBackend does.
#pragma once

#include <optional>

#include "base/task.hpp"
#include "core/operation.hpp"
#include "core/problem.hpp"
#include "gateway/exchange/backend.hpp"
#include "gateway/exchange/conditional_write.hpp"
#include "gateway/exchange/life.hpp"

namespace once::gateway {

// Whether a request with this method is one.
inline bool writes_resource(const Policy& policy, Method method) {
  return takes_turns(policy, method) || ends_life(policy, method);
}

class ResourceWrite final : public SendPermit {
 public:
  // The ports outlive this.
  ResourceWrite(const ExchangePorts& ports, const OperationIds& ids, const WriteRequest& write);
  ResourceWrite(const ResourceWrite&) = delete;
  ResourceWrite& operator=(const ResourceWrite&) = delete;

  // A problem: the write must not be sent, and nothing is held.
  Task<std::optional<Problem>> begin();
  bool may_send() const override { return !condition_ || condition_->may_send(); }
  // The head of the response is here and nobody has been told. A problem: what to tell instead.
  Task<std::optional<Problem>> answered(int status);
  // `whole`: the whole response came, or nothing was sent. Others wait for this.
  Task<void> end(bool whole, int status);
  bool holds_resource() const { return condition_ && condition_->holds_resource(); }

  Backend& backend() const { return write_.backend; }

 private:
  const WriteRequest write_;
  std::optional<ConditionalWrite> condition_;
  std::optional<LifeEnd> life_;
};

// The backend of a keyed request that writes a resource. The key comes first: a replay is not checked and ends no life,
// and what is refused here was not executed.
class ResourceBackend final : public Backend {
 public:
  explicit ResourceBackend(ResourceWrite& write) : write_(write) {}

  // After an oversize answer the resource is still held: the write ends with the rest of the response.
  Task<BackendAnswer> send(const BackendRequest& request) override;

 private:
  ResourceWrite& write_;
};

// Reads the rest of a response whose client has left. True: it came whole. Nobody gets it, so it does not have for
// ever.
Task<bool> drain(http::ResponseSource& rest, const Timeouts& timeouts, const http::Loop& loop);

}  // namespace once::gateway
