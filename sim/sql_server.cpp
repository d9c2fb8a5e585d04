#include "sim/sql_server.hpp"

#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "core/decision.hpp"
#include "store/verbs.hpp"

namespace once::sim {

void SqlServer::execute(std::span<Op* const> batch) {
  const Time now = clock_.now();
  for (Op* op : batch) {
    if (locked(op->id)) {
      execute_locked(*op, now);
    } else if (rows_.execute(*op, now) == Rows::Changed::yes && op->verb == Verb::claim) {
      ttls_[op->id] = op->terms.ttl;
    }
    if (op->status != OpStatus::failed) history_.store_acted(*op);
  }
}

// Executes an op whose row is locked by a backend's transaction, without waiting: committed data can be read, and
// writes fail.
void SqlServer::execute_locked(Op& op, Time now) {
  switch (op.verb) {
    case Verb::read:
    case Verb::lookup: rows_.execute(op, now); return;
    case Verb::claim: {
      const Record* committed = rows_.find(op.id);
      ONCE_ASSERT(committed != nullptr);
      op.now = now;
      op.status = OpStatus::done;
      op.error.clear();
      op.record = *committed;
      age(*op.record, now);
      op.verdict = decide(facts_of(committed, op.fingerprint, op.terms, now));
      if (op.verdict == Verdict::execute) op.verdict = Verdict::in_flight;
      return;
    }
    case Verb::renew:
    case Verb::finish:
    case Verb::release:
    case Verb::forget:
    case Verb::append:
    case Verb::resolve: return answer_failed(op, StoreFault::unavailable, "locked by another transaction");
  }
}

bool SqlServer::locked(const OperationId& id) const {
  return std::ranges::any_of(open_, [&](const auto& each) { return each.second && each.second->id == id; });
}

// Locks do not block readers.
Result<KeyPage> SqlServer::all() const {
  if (!up_) return server_down();
  KeyPage page;
  rows_.list(page, clock_.now());
  return page;
}

void SqlServer::go_down() {
  open_.clear();
  up_ = false;
}

void SqlServer::come_up() {
  up_ = true;
  for (const OperationId& id : history_.ids()) history_.found_after_restart(id, rows_.at(id));
}

SqlServer::Transaction SqlServer::begin() {
  const Transaction transaction{++begun_};
  if (up_) open_[transaction];
  return transaction;
}

bool SqlServer::finish(Transaction transaction, const OperationId& id, const Nonce& nonce, OutcomeBytes outcome) {
  const auto open = open_.find(transaction);
  if (open == open_.end()) return false;
  const Time now = clock_.now();
  const Record* row = rows_.find(id);
  const bool there = row != nullptr && !expired(*row, now) && !locked(id);
  const bool owner = there && row->nonce == nonce;
  if (!owner || (row->state != State::started && row->state != State::unknown)) {
    world_.note("database: a backend's claim is not current, its transaction is rolled back");
    open_.erase(open);
    return false;
  }
  Recorded recorded{.id = id, .record = *row};
  recorded.record.state = State::succeeded;
  recorded.record.nonce = nonce;
  recorded.record.body_kept = BodyKept::yes;
  recorded.record.outcome = std::move(outcome);
  keep_for(recorded.record, ttls_.at(id), now);
  open->second = std::move(recorded);
  return true;
}

bool SqlServer::commit(Transaction transaction, unsigned execution) {
  const auto open = open_.find(transaction);
  if (open == open_.end()) return false;
  const std::optional<Recorded> recorded = std::move(open->second);
  open_.erase(open);
  ONCE_ASSERT(recorded.has_value());
  rows_.put(recorded->id, recorded->record);
  history_.committed(recorded->id, recorded->record, execution);
  return true;
}

void SqlServer::fail(const OperationId& id, const Nonce& nonce, unsigned execution) {
  if (!up_ || locked(id) || rows_.find(id) == nullptr) return;
  Op op{.verb = Verb::finish, .id = id, .nonce = nonce, .terms = {.ttl = ttls_.at(id)}, .final_state = State::failed};
  rows_.execute(op, clock_.now());
  if (op.status == OpStatus::done) history_.backend_failed(execution);
  history_.store_acted(op);
}

}  // namespace once::sim
