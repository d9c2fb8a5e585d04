#include "sim/rows.hpp"

#include <algorithm>
#include <limits>

#include "base/assert.hpp"
#include "core/decision.hpp"
#include "store/verbs.hpp"

namespace once::sim {

Rows::Changed Rows::execute(Op& op, Time now) {
  op.now = now;
  op.status = OpStatus::done;
  op.record.reset();
  op.chunks.clear();
  op.error.clear();
  if (op.verb == Verb::claim) return claim(op, now);
  const auto row = records_.find(op.id);
  if (op.verb == Verb::lookup || op.verb == Verb::read) {
    if (row == records_.end() || forgotten(row->second, now)) return Changed::no;
    op.record = row->second;
    age(*op.record, now);
    if (op.verb == Verb::read) chunks_.read_into(op, *op.record);
    return Changed::no;
  }
  // Operators may delete expired records that are remembered.
  const bool there = row != records_.end() && (op.verb == Verb::forget || !expired(row->second, now));
  if (there) {
    const Changed changed = write(op, row->second, now);
    chunks_.record_changed(op.id, find(op.id));
    return changed;
  }
  op.status = OpStatus::lost;
  return Changed::no;
}

Rows::Changed Rows::claim(Op& op, Time now) {
  const Record* before = find(op.id);
  if (before != nullptr && !expired(*before, now) && is_same_claim(*before, op)) {
    op.verdict = Verdict::execute;
    op.record = *before;
    return Changed::no;
  }
  op.verdict = decide(facts_of(before, op.fingerprint, op.terms, now));
  if (op.verdict == Verdict::execute && before != nullptr && is_ended_claim(*before, op, now)) {
    op.verdict = Verdict::in_flight;
  }
  if (op.verdict != Verdict::execute) {
    op.record = *before;
    age(*op.record, now);
    return Changed::no;
  }
  Record record = claimed(before, op.fingerprint, op.nonce, op.terms, now);
  // Fences come from the clock and earlier fences, because a deleted record leaves none.
  const auto clock = static_cast<std::uint64_t>(now.time_since_epoch().count()) * 1000;
  last_fence_ = std::max({last_fence_ + 1, static_cast<std::uint64_t>(record.fence), clock});
  record.fence = Fence{last_fence_};
  op.record = record;
  records_[op.id] = record;
  chunks_.record_changed(op.id, &record);
  return Changed::yes;
}

Rows::Changed Rows::write(Op& op, Record& record, Time now) {
  Written written = Written::no;
  switch (op.verb) {
    case Verb::renew: written = renew(record, op, now); break;
    case Verb::finish:
      written = finish(record, op, now);
      if (written != Written::no) op.record = record;
      break;
    case Verb::resolve:
      written = resolve(record, op, now);
      if (written != Written::no) op.record = record;
      break;
    case Verb::release:
      if (may_release(record, op)) {
        written = Written::yes;
        put(op.id, released(record));
      }
      break;
    case Verb::forget:
      if (may_forget(record, op, now)) {
        written = Written::yes;
        put(op.id, std::nullopt);
      }
      break;
    case Verb::append:
      if (!may_append(record, op)) break;
      if (op.chunk > chunks_at(op.id).size()) {
        answer_failed(op, StoreFault::no_chunks, "earlier chunks are lost");
        return Changed::no;
      }
      written = Written::yes;
      chunks_.append(op);
      break;
    case Verb::claim:
    case Verb::read:
    case Verb::lookup: ONCE_ASSERT(false);
  }
  if (written == Written::no) op.status = OpStatus::lost;
  return written == Written::yes ? Changed::yes : Changed::no;
}

const Record* Rows::find(const OperationId& id) const {
  const auto row = records_.find(id);
  return row == records_.end() ? nullptr : &row->second;
}

void Rows::clear() {
  records_.clear();
  chunks_ = ChunkLists();
}

std::optional<Record> Rows::at(const OperationId& id) const {
  const Record* record = find(id);
  return record == nullptr ? std::nullopt : std::optional(*record);
}

std::vector<OutcomeBytes> Rows::chunks_at(const OperationId& id) const {
  Op op{.verb = Verb::read, .id = id, .chunk_bytes = std::numeric_limits<std::size_t>::max()};
  if (const Record* record = find(id)) chunks_.read_into(op, *record);
  return op.chunks;
}

void Rows::put(const OperationId& id, const std::optional<Record>& record, const std::vector<OutcomeBytes>& chunks) {
  chunks_.record_changed(id, record ? &*record : nullptr);
  if (!record) {
    records_.erase(id);
    return;
  }
  records_[id] = *record;
  for (std::uint32_t i = 0; i < chunks.size(); ++i) {
    chunks_.append({.verb = Verb::append, .id = id, .nonce = record->nonce, .outcome = chunks[i], .chunk = i});
  }
  last_fence_ = std::max(last_fence_, static_cast<std::uint64_t>(record->fence));
}

void Rows::list(KeyPage& page, Time now) const {
  page.now = now;
  for (const auto& [id, record] : records_) {
    if (!forgotten(record, now)) page.keys.push_back(info_of(id, record, now));
  }
}

std::unexpected<Error> server_down() {
  return std::unexpected(
      Error{.source = ErrorSource::store, .retryable = Retryable::yes, .detail = "the server is down"});
}

Result<KeyPage> RowsSearch::scan(const KeyFilter& filter, std::string_view /*cursor*/, std::size_t /*limit*/) {
  auto page = all();
  if (page) std::erase_if(page->keys, [&](const KeyInfo& info) { return !fits(info, filter); });
  return page;
}

Result<KeyPage> RowsSearch::find(const IdPrefix& prefix) {
  auto page = all();
  if (page) std::erase_if(page->keys, [&](const KeyInfo& info) { return !begins_with(info.id, prefix); });
  return page;
}

Result<KeyCounts> RowsSearch::count(std::string_view /*cursor*/) {
  const auto page = all();
  if (!page) return std::unexpected(page.error());
  KeyCounts counts;
  for (const KeyInfo& info : page->keys) ++counts.by_state.at(static_cast<std::size_t>(info.state));
  return counts;
}

}  // namespace once::sim
