#include "store/postgres/batch.hpp"

#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "store/verbs.hpp"

namespace once::postgres {

namespace {

// In every round of a race some op succeeds, so this limit is reached only if the same one loses again and again.
constexpr int most_rounds = 12;
// The limit for all waits for locked rows in one batch, because later batches of the lane wait too.
constexpr Duration patience = std::chrono::milliseconds(300);
// Bytes of outcomes per statement; the server accepts at most a gigabyte, and keeps all of it in memory.
constexpr std::size_t most_bytes = std::size_t{16} << 20U;

constexpr std::string_view row_is_locked = "the row is locked by another transaction";
constexpr Attempt released_attempt{0};
constexpr std::string_view contended = "other transactions kept changing the row";

Statement statement_of(Verb verb) {
  switch (verb) {
    case Verb::claim: return Statement::claim;
    case Verb::renew: return Statement::renew;
    case Verb::finish: return Statement::finish;
    case Verb::release: return Statement::release;
    case Verb::forget: return Statement::forget;
    case Verb::resolve: return Statement::resolve;
    case Verb::append: return Statement::append;
    case Verb::read: return Statement::read_chunks;
    case Verb::lookup: return Statement::read;
  }
  ONCE_ASSERT(false);
}

// The statement that writes to a row that was read.
Statement write_of(Verb verb) {
  return verb == Verb::claim ? Statement::take : statement_of(verb);
}

bool answers_nothing(Statement statement) {
  return statement == Statement::seize || statement == Statement::wait || statement == Statement::hold ||
         statement == Statement::hurry;
}

// Whether the op locks the first chunk while it writes. The first append creates that chunk.
bool holds_chunks(const Op& op) {
  return op.verb == Verb::append ? op.chunk > 0 : op.verb == Verb::finish && op.body_kept == BodyKept::in_chunks;
}

std::size_t outcome_bytes(const Op& op) {
  return brings_bytes(op.verb) && op.outcome ? op.outcome->size() : 0;
}

bool same_row(const Record& a, const Record& b) {
  return a.fence == b.fence && a.state == b.state && a.lease_until == b.lease_until && a.expires_at == b.expires_at;
}

}  // namespace

struct Batch::Row {
  OperationId id{};
  Time now{};
  bool made = false;
  bool found = false;
  bool none = true;  // the row is missing, or counts as absent: forgotten or released
  Record record{};
};

BodyKept kept_of(const Rows& rows, std::size_t row) {
  if (rows.boolean(row, Column::body_kept)) return BodyKept::yes;
  const bool in_chunks = rows.int8(row, Column::chunks_fence) == rows.int8(row, Column::fence);
  return in_chunks ? BodyKept::in_chunks : BodyKept::no;
}

Record record_of(const Rows& rows, std::size_t row) {
  Record record{.state = static_cast<State>(rows.int2(row, Column::state)),
                .body_kept = kept_of(rows, row),
                .attempt = Attempt{static_cast<std::uint32_t>(rows.int4(row, Column::attempt))},
                .fence = Fence{static_cast<std::uint64_t>(rows.int8(row, Column::fence))},
                .fingerprint = rows.blob<Fingerprint>(row, Column::fingerprint),
                .nonce = rows.blob<Nonce>(row, Column::nonce),
                .started_at = rows.time(row, Column::started_at),
                .lease_until = rows.time(row, Column::lease_until),
                .expires_at = rows.time(row, Column::expires_at),
                .forget_at = rows.time(row, Column::forget_at),
                .outcome = nullptr,
                .previous_state = static_cast<State>(rows.int2(row, Column::previous_state)),
                .previous_started_at = {}};
  if (!rows.null(row, Column::previous_started_at)) {
    record.previous_started_at = rows.time(row, Column::previous_started_at);
  }
  return record;
}

bool is_as_none(const Record& record, Time now) {
  return record.attempt == released_attempt || forgotten(record, now);
}

Batch::Row Batch::row_of(const Rows& rows, std::size_t row) {
  Row found{.id = rows.blob<OperationId>(row, Column::id),
            .now = rows.time(row, Column::now),
            .made = rows.boolean(row, Column::made)};
  if (rows.null(row, Column::state)) return found;
  found.found = true;
  found.record = record_of(rows, row);
  if (!rows.null(row, Column::outcome)) {
    found.record.outcome = std::make_shared<const std::string>(rows.bytes(row, Column::outcome));
  }
  found.none = is_as_none(found.record, found.now);
  return found;
}

void Batch::answer(Item& item, OpStatus status) {
  item.op->status = status;
  item.step = Step::answered;
}

Batch::Batch(std::span<Op* const> ops, std::chrono::nanoseconds until) : until_(until) {
  items_.reserve(ops.size());
  for (Op* const op : ops) {
    op->record.reset();
    op->chunks.clear();
    op->error.clear();
    items_.push_back({.op = op});
  }
  std::ranges::sort(items_, {}, [](const Item& item) { return item.op->id; });
}

void Batch::add(Statement statement, Item& item, Locked locked) {
  const bool brings =
      statement == Statement::finish || statement == Statement::resolve || statement == Statement::append;
  const std::size_t bytes = brings ? outcome_bytes(*item.op) : 0;
  auto sent = std::ranges::find_if(sent_, [&](const Sent& each) {
    return each.statement == statement && each.locked == locked && each.bytes + bytes <= most_bytes;
  });
  if (sent == sent_.end()) {
    sent = sent_.insert(sent_.end(), {.statement = statement, .locked = locked, .items = {}, .bytes = 0});
  }
  sent->items.push_back(&item);
  sent->bytes += bytes;
  item.matched = false;
  if (!answers_nothing(statement)) ++item.rounds;
}

// Whether its next write takes the operation away from an owner. An expired record with an owner looks like a
// tombstone.
bool Batch::seizes(const Item& item) {
  if (item.step == Step::read || item.step == Step::answered) return false;
  const Op& op = *item.op;
  if (op.verb == Verb::claim) return item.step != Step::first && item.seen && item.seen->state == State::started;
  if (op.verb == Verb::resolve) return op.seen_state == State::started;
  return op.verb == Verb::forget && (op.seen_state == State::started || op.seen_state == State::tombstone);
}

void Batch::plan() {
  for (Item& item : items_) {
    const bool writes = item.step == Step::first || item.step == Step::locked;
    if (writes && holds_chunks(*item.op)) add(Statement::hold, item);
  }
  // Register waiters before reading: an owner that ends afterwards sees the registration, one that ended before is seen
  // by the read.
  for (Item& item : items_) {
    const bool looks = item.op->verb == Verb::lookup || item.op->verb == Verb::read;
    if (item.step == Step::first && item.op->waits == Waits::yes && looks) {
      add(Statement::wait, item);
    }
  }
  for (Item& item : items_) {
    if (item.step != Step::alone && seizes(item)) add(Statement::seize, item, Locked::skip);
  }
  for (Item& item : items_) {
    // Rows that were seized are locked by this transaction.
    const Locked locked = seizes(item) ? Locked::skip : Locked::unlikely;
    switch (item.step) {
      case Step::first: add(statement_of(item.op->verb), item, locked); break;
      case Step::take: add(Statement::take, item, locked); break;
      case Step::read: add(Statement::read, item); break;
      case Step::locked: add(write_of(item.op->verb), item, Locked::skip); break;
      case Step::alone:
      case Step::answered: break;
    }
  }
}

void Batch::plan_alone() {
  for (Item& item : items_) {
    if (item.step != Step::alone) continue;
    if (patience_ == std::chrono::nanoseconds::zero()) patience_ = monotonic_now() + patience;
    if (monotonic_now() >= patience_) {
      give_up_on_lock(item);
      continue;
    }
    alone_ = true;
    sent_.push_back({.statement = Statement::hurry, .locked = Locked::wait, .items = {}, .bytes = 0});
    if (holds_chunks(*item.op)) add(Statement::hold, item);
    if (seizes(item)) add(Statement::seize, item, Locked::wait);
    return add(write_of(item.op->verb), item, Locked::wait);
  }
}

bool Batch::send_round(Connection& connection) {
  sent_.clear();
  alone_ = false;
  for (Item& item : items_) {
    if (item.step == Step::answered || item.rounds < most_rounds) continue;
    answer_failed(*item.op, StoreFault::refused, contended);
    item.step = Step::answered;
  }
  plan();
  if (sent_.empty()) plan_alone();
  sent_at_ = monotonic_now();
  for (const Sent& sent : sent_) connection.send(sent.statement, parameters_of(sent, connection));
  return !sent_.empty();
}

void Batch::receive(Connection& connection, const std::vector<Rows>& results) {
  ONCE_ASSERT(results.size() == sent_.size());
  for (std::size_t i = 0; i < sent_.size(); ++i) {
    const Sent& sent = sent_[i];
    if (answers_nothing(sent.statement)) continue;
    for (std::size_t row = 0; row < results[i].size(); ++row) {
      const Row found = row_of(results[i], row);
      connection.clock().learn(found.now, sent_at_);
      const auto item =
          std::ranges::lower_bound(sent.items, found.id, {}, [](const Item* each) { return each->op->id; });
      if (item == sent.items.end() || (*item)->op->id != found.id) continue;
      (*item)->matched = true;
      settle(**item, found, sent.statement);
      if (sent.statement == Statement::read_chunks) take_chunks(*(*item)->op, results[i], row);
    }
    for (Item* const item : sent.items) {
      if (!item->matched) miss(*item);
    }
  }
}

void Batch::settle(Item& item, const Row& row, Statement statement) {
  item.op->now = row.now;
  switch (statement) {
    case Statement::claim:
    case Statement::take: return settle_claim(item, row);
    case Statement::renew:
    case Statement::finish:
    case Statement::release:
    case Statement::forget:
    case Statement::resolve: return settle_done(item, row);
    case Statement::append: return answer(item, row.made ? OpStatus::done : OpStatus::lost);
    case Statement::read:
    case Statement::read_chunks: return settle_read(item, row);
    case Statement::seize:
    case Statement::wait:
    case Statement::hold:
    case Statement::sweep:
    case Statement::hurry:
    case Statement::page:
    case Statement::count:
    case Statement::page_started:
    case Statement::page_failed:
    case Statement::page_unknown:
    case Statement::count_started:
    case Statement::count_failed:
    case Statement::count_unknown:
    case Statement::estimate: break;
  }
  ONCE_ASSERT(false);
}

void Batch::settle_claim(Item& item, const Row& row) {
  Op& op = *item.op;
  if (!row.found) return;  // it arrived too late, or the server's clock was set forward: retry with that clock
  const Record* const record = row.none ? nullptr : &row.record;
  const bool mine = row.made || (record != nullptr && !expired(*record, row.now) && is_same_claim(*record, op));
  op.verdict = mine ? Verdict::execute : decide(facts_of(record, op.fingerprint, op.terms, row.now));
  if (!mine && op.verdict == Verdict::execute && is_ended_claim(row.record, op, row.now))
    op.verdict = Verdict::in_flight;
  if (mine || op.verdict != Verdict::execute) {
    op.record = row.record;
    if (!mine) age(*op.record, row.now);
    return answer(item, OpStatus::done);
  }
  // The row is to be taken over. If that was tried and the row is unchanged, another transaction holds it.
  const bool unchanged = item.seen && same_row(*item.seen, row.record);
  item.seen = row.record;
  item.seen_is_none = row.none;
  item.step = unchanged ? Step::locked : Step::take;
}

void Batch::settle_done(Item& item, const Row& row) {
  Op& op = *item.op;
  if (writes_outcome(op.verb)) {
    op.record = row.record;
    op.record->outcome = op.outcome;
  }
  answer(item, OpStatus::done);
}

void Batch::settle_read(Item& item, const Row& row) {
  Op& op = *item.op;
  Record record = row.record;
  age(record, row.now);
  Written written = Written::no;
  switch (op.verb) {
    case Verb::read:
    case Verb::lookup:
      if (!row.none) op.record = std::move(record);
      return answer(item, OpStatus::done);
    case Verb::renew: written = renew(record, op, row.now); break;
    case Verb::finish: written = finish(record, op, row.now); break;
    case Verb::release: written = may_release(record, op) ? Written::yes : Written::no; break;
    case Verb::resolve: written = resolve(record, op, row.now); break;
    case Verb::forget: written = may_forget(record, op, row.now) ? Written::yes : Written::no; break;
    case Verb::append:
    case Verb::claim: ONCE_ASSERT(false);
  }
  if (row.none || written == Written::no) return answer(item, OpStatus::lost);
  if (written == Written::yes) {
    item.step = Step::locked;  // the op may write the row, but its statement did not: the row is locked
    return;
  }
  op.record = row.record;
  answer(item, OpStatus::done);
}

// Chunks are returned only with the record that they belong to; an expired record is returned as another one.
void Batch::take_chunks(Op& op, const Rows& rows, std::size_t row) {
  if (!op.record || !may_have_chunks(*op.record) || rows.null(row, Column::chunks)) return;
  for (const std::string_view chunk : rows.bytes_array(row, Column::chunks)) {
    op.chunks.push_back(std::make_shared<const std::string>(chunk));
  }
}

void Batch::miss(Item& item) {
  if (item.step == Step::locked) {
    item.step = Step::alone;
    return;
  }
  if (item.op->verb != Verb::claim) {
    item.step = Step::read;
    return;
  }
  if (item.step == Step::alone) item.seen.reset();  // it was not locked
  item.step = Step::first;
}

bool Batch::was_blocked() {
  if (!alone_) return false;
  give_up_on_lock(*sent_.back().items.front());
  return true;
}

// If the row of a claim that could take over is held, its owner is about to finish it.
void Batch::give_up_on_lock(Item& item) {
  Op& op = *item.op;
  item.step = Step::answered;
  if (op.verb != Verb::claim || item.seen_is_none) return answer_failed(op, StoreFault::unavailable, row_is_locked);
  op.verdict = Verdict::in_flight;
  op.record = item.seen;
  answer(item, OpStatus::done);
}

std::vector<Op*> Batch::fail_rest(StoreFault fault, std::string_view why) {
  std::vector<Op*> failed;
  for (Item& item : items_) {
    if (item.step == Step::answered) continue;
    answer_failed(*item.op, fault, why);
    item.step = Step::answered;
    failed.push_back(item.op);
  }
  return failed;
}

}  // namespace once::postgres
