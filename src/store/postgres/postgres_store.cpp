#include "store/postgres/postgres_store.hpp"

namespace once {

Result<std::unique_ptr<PostgresStore>> PostgresStore::open(const std::string& /*url*/, const ServerSettings& /*settings*/, const Log& /*log*/) {
  return std::unexpected(Error{.source = ErrorSource::store, .retryable = Retryable::no, .detail = "not built"});
}

PostgresStore::PostgresStore() = default;
PostgresStore::~PostgresStore() = default;

void PostgresStore::execute(std::span<Op* const> batch) {
  for (Op* op : batch) answer_failed(*op, StoreFault::refused, "not built");
}

Traits PostgresStore::traits() const {
  return {.durable = Durable::yes, .shared = Shared::yes, .inline_execution = false};
}

void PostgresStore::tell_ends(std::function<void(const OperationId&)> /*told*/) {}

Result<Swept> PostgresStore::sweep(std::size_t /*limit*/) {
  return Swept();
}

}  // namespace once
