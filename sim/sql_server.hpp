// A simulated database server: a batch is one transaction, and so is a backend's work. Committed data survives a
// restart; open transactions do not. Its clock decides.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "sim/history.hpp"
#include "sim/rows.hpp"
#include "sim/world.hpp"
#include "store/store.hpp"

namespace once::sim {

class SqlServer final : public Store, private RowsSearch {
 public:
  SqlServer(World& world, History& history, const Clock& clock) : world_(world), history_(history), clock_(clock) {}

  void execute(std::span<Op* const> batch) override;
  Traits traits() const override { return {.durable = Durable::yes, .shared = Shared::yes}; }

  Search* search() override { return this; }

  // Rolls back all open transactions. None can begin until the server is up again.
  void go_down();
  void come_up();

  // A backend's own transaction. It ends with commit() or roll_back(), or the server ends it.
  enum class Transaction : std::uint64_t {};
  Transaction begin();
  // once_finish(): records the outcome in the transaction and locks the row until it ends. Fails if the claim is not
  // current, or the transaction is gone; then nothing of it may be committed.
  bool finish(Transaction transaction, const OperationId& id, const Nonce& nonce, OutcomeBytes outcome);
  // Fails and commits nothing if the server has ended the transaction.
  bool commit(Transaction transaction, unsigned execution);
  void roll_back(Transaction transaction) { open_.erase(transaction); }
  // once_fail(), committed separately: a retry may execute.
  void fail(const OperationId& id, const Nonce& nonce, unsigned execution);

 private:
  struct Recorded {
    OperationId id;
    Record record;  // the record after the commit
  };

  Result<KeyPage> all() const override;
  bool locked(const OperationId& id) const;
  void execute_locked(Op& op, Time now);

  World& world_;
  History& history_;
  const Clock& clock_;
  Rows rows_;
  std::map<OperationId, Duration> ttls_;  // of each claim; a column of the row
  std::map<Transaction, std::optional<Recorded>> open_;
  std::uint64_t begun_ = 0;
  bool up_ = true;
};

}  // namespace once::sim
