#include "store/mysql/mysql_store.hpp"

namespace once {

Result<std::unique_ptr<MysqlStore>> MysqlStore::open(const std::string& /*url*/, const ServerSettings& /*settings*/, const Log& /*log*/) {
  return std::unexpected(Error{.source = ErrorSource::store, .retryable = Retryable::no, .detail = "not built"});
}

MysqlStore::MysqlStore() = default;
MysqlStore::~MysqlStore() = default;

void MysqlStore::execute(std::span<Op* const> batch) {
  for (Op* op : batch) answer_failed(*op, StoreFault::refused, "not built");
}

Traits MysqlStore::traits() const {
  return {.durable = Durable::yes, .shared = Shared::yes, .inline_execution = false};
}

void MysqlStore::tell_ends(std::function<void(const OperationId&)> /*told*/) {}

Result<Swept> MysqlStore::sweep(std::size_t /*limit*/) {
  return Swept();
}

}  // namespace once
