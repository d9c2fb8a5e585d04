#include "store/redis/redis_store.hpp"

namespace once {

Result<std::unique_ptr<RedisStore>> RedisStore::open(const std::string& /*url*/, const ServerSettings& /*settings*/, const Log& /*log*/) {
  return std::unexpected(Error{.source = ErrorSource::store, .retryable = Retryable::no, .detail = "not built"});
}

RedisStore::RedisStore() = default;
RedisStore::~RedisStore() = default;

void RedisStore::execute(std::span<Op* const> batch) {
  for (Op* op : batch) answer_failed(*op, StoreFault::refused, "not built");
}

Traits RedisStore::traits() const {
  return {.durable = Durable::yes, .shared = Shared::yes, .inline_execution = false};
}

void RedisStore::tell_ends(std::function<void(const OperationId&)> /*told*/) {}

Result<Swept> RedisStore::sweep(std::size_t /*limit*/) {
  return Swept();
}

}  // namespace once
