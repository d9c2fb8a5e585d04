#include "store/mysql/batch.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/assert.hpp"
#include "store/verbs.hpp"

namespace once::mysql {

namespace {

// The sum of the pauses is short for a caller, and longer than another gateway holds a row.
constexpr std::array held_pauses = {Duration(2), Duration(6), Duration(20)};
// A claim needs three rounds if its row changes concurrently; the rest is for deadlocks.
constexpr unsigned most_rounds = 16;
// The most that a statement for one row takes besides its outcome.
constexpr std::size_t text_around = 4096;

bool takes_no_writes(unsigned number) {
  return number == sql_error::not_ready || number == sql_error::read_only_option ||
         number == sql_error::read_only_mode || number == sql_error::read_only_transaction;
}

bool passes_by_itself(unsigned number) {
  return number == sql_error::deadlock || number == sql_error::lock_wait_timeout ||
         number == sql_error::query_interrupted || number == sql_error::error_during_commit ||
         number == sql_error::null_value || number == sql_error::lock_nowait ||
         number == sql_error::tidb_write_conflict || number == sql_error::tidb_write_conflict_for_update ||
         number == sql_error::tidb_schema_changed;
}

bool is_full(unsigned number) {
  return number == sql_error::table_full || number == sql_error::disk_full || number == sql_error::out_of_memory;
}

}  // namespace

void Turns::ended() {
  const std::scoped_lock lock(mutex_);
  ++ends_;
  changed_.notify_all();
}

void Turns::wait(Duration at_most) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, at_most, [this, before = ends_] { return ends_ != before; });
}

namespace {

std::uint64_t first_bytes(const auto& blob) {
  std::uint64_t value = 0;
  std::memcpy(&value, blob.bytes.data(), sizeof value);
  return value;
}

// The id and the nonce are random, so this is as good as a hash.
std::uint64_t row_name(const OperationId& id, const Record& record) {
  return first_bytes(id) ^ std::rotl(first_bytes(record.nonce), 8) ^ static_cast<std::uint64_t>(record.state);
}

}  // namespace

bool DurableRows::has(const OperationId& id, const Record& record) const {
  const std::uint64_t row = row_name(id, record);
  return rows_[row % places].load(std::memory_order_relaxed) == row;
}

void DurableRows::add(const OperationId& id, const Record& record) {
  const std::uint64_t row = row_name(id, record);
  rows_[row % places].store(row, std::memory_order_relaxed);
}

Batch::Batch(std::span<Op* const> ops, const Shared& shared, std::chrono::nanoseconds deadline)
    : shared_(shared), deadline_(deadline) {
  items_.reserve(ops.size());
  for (Op* const op : ops) {
    op->record.reset();
    op->chunks.clear();
    op->error.clear();
    const bool locks_nothing =
        op->verb == Verb::claim || op->verb == Verb::lookup || op->verb == Verb::append || op->verb == Verb::read;
    items_.push_back({.op = op, .read = locks_nothing ? Read::plain : Read::locked});
  }
}

Batch::Ended Batch::run(Connection& connection) {
  in_transaction_ = false;
  one_by_one_ = false;
  confirms_ = connection.shows_before_durable();
  while (!all_answered()) {
    if (++rounds_ > most_rounds || monotonic_now() > deadline_) {
      fail_rest(StoreFault::refused, "MySQL: too many conflicts with other transactions");
      break;
    }
    wait_for_held_rows();
    Stop stop = read_rows(connection);
    if (stop.step == Step::on) {
      for (Item& item : items_) {
        if (!item.answered) settle(item);
      }
      stop = write_rows(connection);
    }
    if (stop.step == Step::on && all_answered()) stop = confirm(connection);
    if (stop.step == Step::leave) return stop.ended;
    if (stop.step == Step::again) shared_.counts.retried.fetch_add(1, std::memory_order_relaxed);
  }
  return Ended::all_answered;
}

// Used only when all remaining rows are held by others.
void Batch::wait_for_held_rows() {
  std::size_t rounds = held_pauses.size();
  for (const Item& item : items_) {
    if (!item.answered) rounds = std::min<std::size_t>(rounds, item.held_rounds);
  }
  if (rounds > 0) shared_.turns.wait(held_pauses[rounds - 1]);
}

Script Batch::reading(Held held) {
  Script script;
  script.ask_clock();
  Script::Locks locks;
  const auto lock = [&] {
    if (!std::exchange(in_transaction_, true)) script.begin();
    script.lock(std::exchange(locks, {}), held);
  };
  std::vector<OperationId> see;
  for (Item& item : items_) {
    if (item.answered) continue;
    item.seen.reset();
    item.locked.reset();
    item.streamed_by.reset();
    item.op->chunks.clear();
    item.change = Change::none;
    if (item.read != Read::locked) see.push_back(item.op->id);
    if (item.read == Read::plain || item.left_out) continue;
    locks.ids.push_back(item.op->id);
    if (item.op->verb == Verb::claim) {
      locks.claims.push_back(item.op->id);
    } else {
      locks.owners.push_back(item.op->nonce);
    }
    if (one_by_one_) lock();
    // Statements 0 and 1 are the clock and BEGIN.
    item.lock_statement = one_by_one_ ? script.size() - 1 : 2;
  }
  if (!locks.ids.empty()) lock();
  if (!see.empty()) script.see(see);
  // Read after the records: if a record changes meanwhile, its earlier chunks are still there.
  for (const Item& item : items_) {
    if (item.answered || item.op->verb != Verb::read) continue;
    script.see_chunks(item.op->id, item.op->chunk, item.op->chunk_bytes);
  }
  return script;
}

// A server that refuses locks needs one more round trip for each row that is held.
Batch::Stop Batch::read_rows(Connection& connection) {
  for (Item& item : items_) item.left_out = false;
  while (true) {
    const Script script = reading(connection.held());
    clock_asked_ = monotonic_now();
    const auto take = [&](std::size_t statement, const RowView& row) { take_row(row, script.part(statement)); };
    const auto ran = connection.run(script.text(), take, script.size());
    if (ran) break;
    const bool refused =
        refused_lock(ran.error(), connection.held()) && script.part(ran.error().statement) == Script::Part::locked;
    if (!refused || !leave_out(ran.error().statement) || monotonic_now() > deadline_) {
      return after_error(connection, ran.error(), script);
    }
    if (!roll_back(connection)) return {.step = Step::leave, .ended = Ended::not_begun};
  }
  if (!unreadable_) return {};
  fail_rest(StoreFault::refused, "MySQL: once_operations has a row that this version cannot read");
  return {.step = roll_back(connection) ? Step::again : Step::leave, .ended = Ended::broken};
}

bool Batch::leave_out(std::size_t lock_statement) {
  Item* held = nullptr;
  for (Item& item : items_) {
    if (item.answered || item.read == Read::plain || item.left_out || item.lock_statement != lock_statement) continue;
    if (held != nullptr) {
      one_by_one_ = true;
      return true;
    }
    held = &item;
  }
  if (held != nullptr) held->left_out = true;
  return held != nullptr;
}

void Batch::take_row(const RowView& view, Script::Part part) {
  if (part == Script::Part::clock) return take_clock(view);
  if (part == Script::Part::chunks) return take_chunk(view);
  std::optional<Row> row = read_row(view);
  Item* const item = row ? find(row->id) : nullptr;
  if (item == nullptr) {
    unreadable_ = true;
    return;
  }
  (part == Script::Part::locked ? item->locked : item->seen) = std::move(row);
}

void Batch::take_clock(const RowView& view) {
  const std::string_view text = view[0].value_or("");
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  unreadable_ = unreadable_ || error != std::errc() || end != text.data() + text.size();
  clock_us_ = value;
}

void Batch::take_chunk(const RowView& view) {
  const std::optional<Chunk> chunk = read_chunk(view);
  const std::optional<std::string_view> bytes = view[3];
  Item* const item = chunk ? find(chunk->id) : nullptr;
  if (item == nullptr || !bytes) {
    unreadable_ = true;
    return;
  }
  item->streamed_by = chunk->nonce;
  // A sweep may be removing the chunks: then another owner is executing, or they are obsolete.
  if (chunk->number != item->op->chunk + item->op->chunks.size()) return;
  item->op->chunks.push_back(std::make_shared<const std::string>(*bytes));
}

Batch::Item* Batch::find(const OperationId& id) {
  const auto at = std::ranges::lower_bound(items_, id, {}, [](const Item& item) { return item.op->id; });
  return at == items_.end() || at->op->id != id ? nullptr : &*at;
}

// The latest time that the server's clock can show at the deadline, in microseconds: no caller waits for claims made
// after it.
std::int64_t Batch::claims_until() const {
  return clock_us_ + std::chrono::ceil<std::chrono::microseconds>(deadline_ - clock_asked_).count();
}

Script Batch::writing(const Connection& connection) {
  std::vector<NewRow> inserts;
  std::vector<OperationId> inserted;
  std::vector<NewRow> finishes;
  bool changes = false;
  for (Item& item : items_) {
    if (item.answered || item.change == Change::none) continue;
    if (item.change == Change::finish && !drop_too_large_outcome(connection, item)) continue;
    if (item.change == Change::append && !fits(connection, item.op->outcome)) {
      item.change = Change::none;
      item.answered = true;
      answer_failed(*item.op, StoreFault::full, "MySQL: the chunk is larger than max_allowed_packet");
      continue;
    }
    changes = true;
    if (item.change == Change::finish) {
      finishes.push_back(item.written);
    }
    if (item.change != Change::insert) continue;
    inserts.push_back(item.written);
    inserted.push_back(item.op->id);
  }
  Script script;
  if (changes && !in_transaction_) script.begin();
  if (!inserts.empty()) script.insert(inserts, claims_until());
  for (const NewRow& finish : finishes) {
    const Record& record = finish.row.record;
    if (record.body_kept == BodyKept::in_chunks) script.hold_chunks(finish.row.id, record.nonce);
  }
  if (!finishes.empty()) script.finish(finishes);
  finishes_ = {.statement = script.size() - 1, .count = finishes.size()};
  for (Item& item : items_) {
    if (!item.answered) write_item(script, item);
  }
  if (changes || in_transaction_) script.commit();
  if (!inserted.empty()) script.see(inserted);
  return script;
}

void Batch::write_item(Script& script, Item& item) const {
  switch (item.change) {
    case Change::none:
    case Change::insert:
    case Change::finish: return;  // written with the others
    case Change::renew: script.renew(item.written.row, item.was); break;
    case Change::replace: script.replace(item.written, item.was); break;
    case Change::remove: script.remove(item.op->id, item.was); break;
    case Change::append:
      if (item.op->chunk > 0) script.hold_chunks(item.op->id, item.op->nonce);
      script.append({.id = item.op->id, .nonce = item.op->nonce, .number = item.op->chunk},
                    item.op->outcome ? std::string_view(*item.op->outcome) : std::string_view());
      break;
  }
  item.statement = script.size() - 1;
}

bool Batch::fits(const Connection& connection, const OutcomeBytes& bytes) {
  return !bytes || escaped_size(*bytes) + text_around <= connection.max_packet();
}

// If no statement can carry the outcome, records only the success. An operator's outcome is refused instead: returns
// false, and the op is answered.
bool Batch::drop_too_large_outcome(const Connection& connection, Item& item) {
  Record& record = item.written.row.record;
  if (fits(connection, record.outcome)) return true;
  if (item.op->verb == Verb::resolve) {
    item.change = Change::none;
    item.answered = true;
    answer_failed(*item.op, StoreFault::full, "MySQL: the response is larger than max_allowed_packet");
    return false;
  }
  record.outcome = nullptr;
  record.body_kept = BodyKept::no;
  item.op->record = record;
  return true;
}

Batch::Stop Batch::write_rows(Connection& connection) {
  const Script script = writing(connection);
  if (script.size() == 0) return {};
  for (Item& item : items_) {
    if (item.change == Change::insert) item.seen.reset();
  }
  const auto take = [&](std::size_t statement, const RowView& row) { take_row(row, script.part(statement)); };
  const auto ran = connection.run(script.text(), take, script.size());
  const bool committed =
      ran || (ran.error().statement > 0 && script.part(ran.error().statement - 1) == Script::Part::commit);
  if (committed) {
    in_transaction_ = false;
    if (answer_written(connection) == Wrote::yes) note_committed();
    // Only reading them back shows which of these inserts succeeded.
    maybe_written_ = maybe_written_ || (!ran && std::ranges::any_of(items_, [](const Item& item) {
                       return !item.answered && item.change == Change::insert;
                     }));
    settle_inserted();
  }
  if (!ran) return after_error(connection, ran.error(), script);
  return {};
}

// A row that had changed since it was read is read again.
Batch::Wrote Batch::answer_written(const Connection& connection) {
  Wrote wrote = Wrote::no;
  const bool all_finished = connection.changed(finishes_.statement) == 2 * finishes_.count;
  for (Item& item : items_) {
    if (item.answered || item.change == Change::none || item.change == Change::insert) continue;
    const std::uint64_t changed = connection.changed(item.statement);
    // An append that already existed counts two.
    const bool written = item.change == Change::finish   ? all_finished
                         : item.change == Change::append ? changed > 0
                                                         : changed == 1;
    // A renewal to the same lease end changes nothing, so its commit does not sync.
    if (written && item.change != Change::renew) wrote = Wrote::yes;
    if (written && item.change == Change::finish && confirms_) {
      shared_.durable.add(item.op->id, item.written.row.record);
    }
    item.change = Change::none;
    if (written) answer(item, OpStatus::done);
  }
  return wrote;
}

// Reads the owner of a row that did not exist: the claim is granted if the row has its nonce. Otherwise the next round
// decides.
void Batch::settle_inserted() {
  // An earlier try of the same claim may have inserted the row meanwhile.
  const auto made_now = [](const Item& item) {
    return item.seen && item.seen->record.nonce == item.op->nonce &&
           item.seen->record.started_at == item.written.row.record.started_at;
  };
  const bool any_made =
      std::ranges::any_of(items_, [&](const Item& item) { return item.change == Change::insert && made_now(item); });
  if (any_made) note_committed();
  for (Item& item : items_) {
    if (item.answered || item.change != Change::insert) continue;
    item.change = Change::none;
    if (!item.seen || !is_same_claim(item.seen->record, *item.op)) continue;
    item.op->verdict = Verdict::execute;
    if (!made_now(item)) note_read(item, item.seen->record);
    item.op->record = std::move(item.seen->record);
    answer(item, OpStatus::done);
  }
}

// Writes nothing permanent: a commit that is on disk proves that all earlier commits are too.
Batch::Stop Batch::confirm(Connection& connection) {
  if (std::ranges::none_of(items_, [](const Item& item) { return item.unconfirmed.has_value(); })) return {};
  Script script;
  script.begin();
  script.write_nothing();
  script.commit();
  const auto ran = connection.run(script.text(), {}, script.size());
  if (!ran) return after_error(connection, ran.error(), script);
  note_committed();
  return {};
}

// A commit that followed all reads is on disk, so every row that was read is on disk too.
void Batch::note_committed() {
  for (Item& item : items_) {
    if (item.unconfirmed) shared_.durable.add(item.op->id, *item.unconfirmed);
    item.unconfirmed.reset();
  }
}

Batch::Stop Batch::after_error(Connection& connection, const SqlError& error, const Script& script) {
  last_error_ = error.detail;
  for (Item& item : items_) {
    if (!item.unconfirmed) continue;
    item.unconfirmed.reset();
    item.answered = false;
    item.op->record.reset();
    item.op->chunks.clear();
  }
  if (error.kind == SqlError::Kind::lost) {
    // The script is sent as a whole, so every part that commits may have been executed.
    const bool at_stake =
        std::ranges::any_of(items_, [](const Item& item) { return !item.answered && item.change != Change::none; });
    if (!at_stake && !maybe_written_) return {.step = Step::leave, .ended = Ended::not_begun};
    for (const Item& item : items_) {
      if (!item.answered) shared_.counts.indeterminate.fetch_add(1, std::memory_order_relaxed);
    }
    fail_rest(StoreFault::unavailable, error.detail);
    return {.step = Step::leave, .ended = Ended::broken};
  }
  const bool surely_rolled_back = error.number == sql_error::deadlock || error.number == sql_error::lock_wait_timeout;
  if (script.part(error.statement) == Script::Part::commit && !surely_rolled_back) maybe_written_ = true;
  if (!roll_back(connection)) return {.step = Step::leave, .ended = Ended::not_begun};
  if (takes_no_writes(error.number)) return {.step = Step::leave, .ended = Ended::unfit};
  if (passes_by_itself(error.number)) return {.step = Step::again};
  fail_rest(is_full(error.number) ? StoreFault::full : StoreFault::refused, error.detail);
  return {};
}

// A lock timeout rolls back only its statement; the rest of the transaction would stay.
bool Batch::roll_back(Connection& connection) {
  in_transaction_ = false;
  for (Item& item : items_) item.change = Change::none;
  return connection.run("ROLLBACK").has_value();
}

void Batch::fail_rest(StoreFault fault, std::string_view why) {
  for (Item& item : items_) {
    if (item.answered && !item.unconfirmed) continue;
    item.unconfirmed.reset();
    item.answered = true;
    answer_failed(*item.op, maybe_written_ ? StoreFault::unavailable : fault, why);
  }
}

bool Batch::all_answered() const {
  return std::ranges::all_of(items_, &Item::answered);
}

void Batch::answer(Item& item, OpStatus status) {
  item.op->status = status;
  item.answered = true;
  if (status == OpStatus::lost) item.op->record.reset();
}

void Batch::answer_read(Item& item, const Record& read, OpStatus status) {
  note_read(item, read);
  answer(item, status);
}

// A running owner may be reported before its claim is durable, because clients do not rely on that.
void Batch::note_read(Item& item, const Record& read) const {
  const bool relied_on = read.state != State::started || read.nonce == item.op->nonce;
  if (!confirms_ || !relied_on || shared_.durable.has(item.op->id, read)) return;
  item.unconfirmed = read;
  item.unconfirmed->outcome.reset();
}

}  // namespace once::mysql
