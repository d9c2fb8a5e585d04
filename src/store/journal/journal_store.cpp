#include "store/journal/journal_store.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/assert.hpp"
#include "store/verbs.hpp"

namespace once {

using journal::append_mark;
using journal::append_put;
using journal::append_remove;
using journal::expiry_second;
using journal::ExpirySecond;
using journal::Place;
using journal::Shard;
using journal::SlotTable;

using Condition = JournalStats::Condition;

namespace {

// A batch is written in pieces of this size, so that a thousand large outcomes need no buffer for all of them.
constexpr std::uint64_t most_per_write = std::uint64_t{8} << 20U;

// Of an op that does not say them, those that are read back may be as long as any.
std::uint64_t most_labels(const Op& op) {
  if (!op.tenant.empty() || !op.route.empty())
    return std::min(2 + op.tenant.size() + op.route.size(), journal::largest_labels);
  const bool writes_again = op.verb == Verb::renew || writes_outcome(op.verb) || op.verb == Verb::release;
  return writes_again ? journal::largest_labels : 0;
}

std::uint64_t most_bytes(const Op& op) {
  const bool with_outcome = writes_outcome(op.verb) && op.outcome != nullptr;
  return journal::frame_size(journal::largest_put_overhead + most_labels(op) +
                             (with_outcome ? journal::head_sum_part + op.outcome->size() : 0));
}

}  // namespace

JournalStore::JournalStore(Disk& disk, const Clock& clock, const Log& log, const JournalSettings& settings)
    : disk_(disk),
      clock_(clock),
      log_(log),
      settings_(settings),
      shard_cache_bytes_(settings.cache_bytes / std::tuple_size_v<decltype(shards_)>),
      segments_(disk, {.segment_bytes = settings.segment_bytes, .max_disk = settings.max_disk}) {}

JournalStore::~JournalStore() {
  // A journal that was closed in order has nothing doubtful at its end.
  const std::scoped_lock lock(writing_);
  if (!failure_.empty() || segments_.count() == 0) return;
  if (const auto synced = segments_.sync(); !synced || segments_.room() < journal::mark_frame_size) return;
  frames_.clear();
  append_mark(frames_, segments_.salt(), segments_.durable_up_to(), deletes_by_);
  if (segments_.append(frames_)) [[maybe_unused]]
    const auto synced = segments_.sync();
}

void JournalStore::execute(std::span<Op* const> batch) {
  Reads reads;
  std::unique_lock lock(writing_);
  // Where it is known beforehand that something has to be read, one sync is enough for all.
  if (std::ranges::any_of(batch, [](const Op* op) { return takes_labels(*op); })) want_all(batch, reads);
  for (;;) {
    if (!failure_.empty()) reads.wanted.clear();  // a journal that failed leaves the disk alone
    if (reads.wanted.empty()) batch = execute_locked(batch, reads, lock);
    if (batch.empty()) return;
    if (!failure_.empty()) continue;
    lock.unlock();
    read_all(reads);
    lock.lock();
    for (const Read& each : reads.done) segments_.keep_open(each.from);
  }
}

std::span<Op* const> JournalStore::execute_locked(std::span<Op* const> batch, Reads& reads,
                                                  std::unique_lock<std::mutex>& lock) {
  const Time now = clock_.now();
  while (!batch.empty() && reads.wanted.empty()) {
    std::size_t count = 0;
    std::uint64_t bytes = journal::mark_frame_size;
    while (count < batch.size() && (count == 0 || bytes + most_bytes(*batch[count]) <= most_per_write)) {
      bytes += most_bytes(*batch[count++]);
    }
    if (failure_.empty()) make_room({.bytes = bytes, .ops = count}, lock, now);
    batch = batch.subspan(execute_some(batch.first(count), reads, now));
  }
  if (!batch.empty()) want_all(batch.subspan(1), reads);  // what the others need is read along with it
  return batch;
}

std::size_t JournalStore::execute_some(std::span<Op* const> batch, Reads& reads, Time now) {
  changes_.clear();
  frames_.clear();
  // With millions of keys each is somewhere else in memory: waited for all together, not one by one.
  for (const Op* op : batch) {
    const Shard& shard = shard_of(op->id);
    shard.slots.fetch(op->id);
    shard.hot.fetch(op->id);
  }
  std::size_t executed = 0;
  for (Op* op : batch) {
    op->now = now;
    op->status = OpStatus::done;
    op->record.reset();
    op->error.clear();
    if (!failure_.empty()) {
      answer_failed(*op, StoreFault::refused, failure_);
    } else {
      decide(*op, reads, now);
    }
    if (!reads.wanted.empty()) break;
    ++executed;
  }
  if (!changes_.empty()) commit(now);
  return executed;
}

// Afterwards room_ says how much may be written.
void JournalStore::make_room(const Wanted& wanted, std::unique_lock<std::mutex>& lock, Time now) {
  const auto must_roll = [&] { return segments_.room() < wanted.bytes; };
  const auto reserved = [&] { return outcomes_of(live_claims_ + wanted.ops); };
  const auto least = [&] { return journal::header_size + reserved() + (must_roll() ? wanted.bytes : 0); };
  const auto lacks_spare = [&] {
    return segments_.spare_capacity() < least() && segments_.room() < wanted.bytes + reserved();
  };
  // A sync that fails says so once: whoever asks at the same time may be told that all is well. So no roll meanwhile.
  background_.wait(lock, [&] { return !(making_spare_ && lacks_spare()) && !(syncing_ && must_roll()); });
  // Making one here keeps everybody waiting, but maintain() was too late.
  if (lacks_spare() && failure_.empty()) {
    if (const auto made = segments_.ensure_spare(wanted.need, least()); !made) no_room_or_fail(made.error());
  }
  const bool helps = segments_.spare_capacity() > journal::header_size + segments_.room();
  if (must_roll() && helps && failure_.empty()) {
    if (const auto rolled = roll(now); !rolled) no_room_or_fail(rolled.error());
  }
  room_ = segments_.room();
}

void JournalStore::no_room_or_fail(const DiskError& error) {
  if (error.fault == DiskFault::no_space) {
    set_full(error);
  } else {
    fail(error);
  }
}

DiskResult<void> JournalStore::roll(Time now) {
  auto rolled = segments_.roll({.journal = journal_, .last_fence = Fence{last_fence_}, .now = now});
  if (rolled) marked_up_to_ = segments_.tail();
  publish_sizes();
  return rolled;
}

// What the outcomes of so many claims take, if their bodies have to be left out.
std::uint64_t JournalStore::outcomes_of(std::uint64_t claims) {
  constexpr std::uint64_t slack = 512;  // an idle mark, and a release of what was never counted
  constexpr std::uint64_t alone = journal::mark_frame_size + journal::largest_put_overhead;  // as a batch of its own
  return claims * alone + slack;
}

// What has to stay free in the active segment, unless there is a spare with room enough.
std::uint64_t JournalStore::reserve(std::uint64_t claims) const {
  const std::uint64_t bytes = outcomes_of(claims);
  return segments_.spare_capacity() >= journal::header_size + bytes ? 0 : bytes;
}

void JournalStore::decide(Op& op, Reads& reads, Time now) {
  const std::optional<Found> found = load(op, reads, now);
  if (!found) return;
  switch (op.verb) {
    case Verb::claim: return claim(op, found->record, now);
    case Verb::renew: return renew_lease(op, *found, now);
    case Verb::finish:
    case Verb::resolve: return finish_claim(op, *found, now);
    case Verb::release: return release_claim(op, *found);
    case Verb::forget: return forget_record(op, found->record, now);
    case Verb::lookup:
      if (found->record != nullptr) op.record = *found->record;
      return;
  }
  ONCE_ASSERT(false);
}

void JournalStore::claim(Op& op, const Record* found, Time now) {
  if (found != nullptr && is_same_claim(*found, op)) {
    op.verdict = Verdict::execute;
    op.record = *found;
    return;
  }
  op.verdict = ::once::decide(facts_of(found, op.fingerprint, op.terms, now));
  if (op.verdict == Verdict::execute && found != nullptr && is_ended_claim(*found, op, now)) {
    op.verdict = Verdict::in_flight;
  }
  if (op.verdict != Verdict::execute) {
    op.record = *found;
    return;
  }
  Record record = claimed(found, op.fingerprint, op.nonce, op.terms, now);
  const journal::Labels labels{.tenant = op.tenant, .route = op.route};
  Shard& shard = shard_of(op.id);
  std::size_t growth = 0;
  {
    const std::scoped_lock lock(shard.mutex);
    growth = found != nullptr ? 0 : shard.slots.growth();
  }
  const std::uint64_t index_limit = settings_.max_memory - std::min(settings_.max_memory, settings_.cache_bytes);
  const bool no_memory = growth > 0 && counters_.index_bytes.load(std::memory_order_relaxed) + growth > index_limit;
  // What room is left then is for the outcomes of claims that were given, with their bodies.
  const bool full = found == nullptr && condition_.load(std::memory_order_relaxed) == Condition::full && !has_room();
  if (no_memory || full || segments_.over_limit() ||
      with_frames(journal::put_frame_size(record, labels)) + reserve(live_claims_ + changes_.size() + 1) > room_) {
    counters_.refused.fetch_add(1, std::memory_order_relaxed);
    if (no_memory) set_full({.fault = DiskFault::no_space, .detail = "journal.max_memory is reached"});
    return answer_failed(op, StoreFault::full,
                         no_memory ? "journal.max_memory is reached" : "no room on disk for new keys");
  }
  record.fence = Fence{++last_fence_};
  if (op.terms.owner == Owner::process) record.lease_until = Time::max();
  op.record = record;
  put(op, std::move(record), labels);
}

void JournalStore::renew_lease(Op& op, const Found& found, Time now) {
  Record record = found.record == nullptr ? Record() : *found.record;
  if (found.record == nullptr || renew(record, op, now) == Written::no) {
    op.status = OpStatus::lost;
    return;
  }
  if (Shard::is_live(*found.record)) return;
  if (op.terms.owner == Owner::outside) {
    // Written, or a restart would not know that the owner is still at work.
    if (no_room_for(journal::put_frame_size(record))) {
      return answer_failed(op, StoreFault::full, "no room on disk to renew a lease");
    }
    return put(op, std::move(record), found.labels);
  }
  // It lapsed when the process ended, and its owner is back. Nothing to write: a next end would make it lapse again.
  record.lease_until = Time::max();
  Shard& shard = shard_of(op.id);
  const std::scoped_lock lock(shard.mutex);
  shard.slots.find(op.id)->expires = journal::never_expires;
  shard.keep(op.id, std::move(record), shard_cache_bytes_);
  ++live_claims_;
}

void JournalStore::finish_claim(Op& op, const Found& found, Time now) {
  Record record = found.record == nullptr ? Record() : *found.record;
  const bool resolves = op.verb == Verb::resolve;
  const Written written = found.record == nullptr ? Written::no
                          : resolves              ? resolve(record, op, now)
                                                  : finish(record, op, now);
  if (written == Written::no) {
    op.status = OpStatus::lost;
    return;
  }
  if (written == Written::already) {
    op.record = std::move(record);
    return;
  }
  // Nor may it take what carrying forward needs to go on.
  const std::uint64_t carrying = segments_.over_limit() ? segments_.oldest().live_bytes / 8 * 9 : 0;
  const std::uint64_t reserved = reserve(live_claims_ + changes_.size()) + carrying;
  journal::Labels labels = found.labels;
  if (with_frames(journal::put_frame_size(record, labels)) + reserved > room_) {
    if (resolves) return answer_failed(op, StoreFault::full, "no room on disk for the response");
    labels = {};
    record.outcome = nullptr;
    record.body_kept = BodyKept::no;
    counters_.bodies_dropped.fetch_add(1, std::memory_order_relaxed);
    if (!Shard::is_live(*found.record) && no_room_for(journal::put_frame_size(record))) {
      return answer_failed(op, StoreFault::full, "no room on disk for the outcome: the claim has no reserved space");
    }
  }
  op.record = record;
  put(op, std::move(record), labels);
}

// Room is kept free for the outcomes of live claims only: the owners of leased ones may be dead and never ask for it,
// and operators have none. What is kept free is not theirs.
bool JournalStore::no_room_for(std::uint64_t frame) const {
  return with_frames(frame) + reserve(live_claims_ + changes_.size()) > room_;
}

void JournalStore::release_claim(Op& op, const Found& found) {
  if (found.record == nullptr || !may_release(*found.record, op)) {
    op.status = OpStatus::lost;
    return;
  }
  std::optional<Record> left = released(*found.record);
  const std::uint64_t frame = left ? journal::put_frame_size(*left) : journal::remove_frame_size;
  if (!Shard::is_live(*found.record) && no_room_for(frame)) {
    return answer_failed(op, StoreFault::full, "no room on disk for the release: the claim has no reserved space");
  }
  if (left) {
    put(op, *std::move(left), found.labels);
  } else {
    remove(op, found.record->fence);
  }
}

void JournalStore::forget_record(Op& op, const Record* found, Time now) {
  if (found == nullptr || !may_forget(*found, op, now)) {
    op.status = OpStatus::lost;
    return;
  }
  if (no_room_for(journal::remove_frame_size)) return answer_failed(op, StoreFault::full, "no room on disk to forget");
  remove(op, found->fence);
}

// What the batch takes with one more frame. The first brings a mark with it.
std::uint64_t JournalStore::with_frames(std::uint64_t size) const {
  return (frames_.empty() ? journal::mark_frame_size : frames_.size()) + size;
}

// Labels give way before anything else does.
void JournalStore::put(Op& op, Record&& record, const journal::Labels& labels) {
  if (frames_.empty()) append_mark(frames_, segments_.salt(), segments_.durable_up_to(), deletes_by_);
  const std::uint64_t begin = frames_.size();
  const bool fits =
      with_frames(journal::put_frame_size(record, labels)) + reserve(live_claims_ + changes_.size()) <= room_;
  append_put(frames_, segments_.salt(), op.id, record, fits ? labels : journal::Labels());
  const Place place(segments_.ordinal(segments_.active()), segments_.tail() + begin, frames_.size() - begin,
                    record.state);
  changes_.push_back({.op = &op, .record = std::move(record), .place = place});
}

void JournalStore::remove(Op& op, Fence fence) {
  if (frames_.empty()) append_mark(frames_, segments_.salt(), segments_.durable_up_to(), deletes_by_);
  append_remove(frames_, segments_.salt(), op.id, fence);
  changes_.push_back({.op = &op, .removes = true});
}

DiskResult<void> JournalStore::write_frames() {
  if (auto written = segments_.append(frames_); !written) return written;
  counters_.bytes_written.fetch_add(frames_.size(), std::memory_order_relaxed);
  if (settings_.sync != Sync::always) return {};
  counters_.syncs.fetch_add(1, std::memory_order_relaxed);
  return segments_.sync();
}

void JournalStore::commit(Time now) {
  if (const auto written = write_frames(); !written) {
    // Space ran out in a file that was meant to have it: what was there before is whole, and a new segment will say
    // where that ends. After any other error nothing is known.
    no_room_or_fail(written.error());
    for (const Change& change : changes_) answer_failed(*change.op, StoreFault::unavailable, written.error().detail);
    return;
  }
  last_write_ = now;
  for (Change& change : changes_) apply(change);
  publish_sizes();
}

void JournalStore::apply(Change& change) {
  const OperationId& id = change.op->id;
  Shard& shard = shard_of(id);
  const std::scoped_lock lock(shard.mutex);
  SlotTable::Slot* slot = shard.slots.find(id);
  if (const auto* node = shard.hot.find(id); node != nullptr && Shard::is_live(node->record)) --live_claims_;
  if (slot != nullptr) count_live(slot->place, -1);
  if (change.removes) {
    if (slot != nullptr) shard.slots.erase(*slot);
    shard.forget(id);
    return;
  }
  const bool live = Shard::is_live(change.record);
  const Time ends = journal::is_leased(change.record) ? std::max(change.record.forget_at, change.record.lease_until)
                                                      : change.record.forget_at;
  const ExpirySecond expires = live ? journal::never_expires : expiry_second(ends);
  if (slot != nullptr) {
    slot->place = change.place;
    slot->expires = expires;
  } else {
    counters_.index_bytes.fetch_add(shard.slots.growth(), std::memory_order_relaxed);
    shard.slots.insert(id, expires, change.place);
  }
  count_live(change.place, 1);
  journal::Segment& segment = segments_.segment(change.place.segment());
  segment.expires_by = std::max(segment.expires_by, change.record.expires_at);
  if (live) ++live_claims_;
  shard.keep(id, std::move(change.record), shard_cache_bytes_);
}

void JournalStore::count_live(Place place, int by) {
  journal::Segment& segment = segments_.segment(place.segment());
  segment.live += static_cast<std::uint64_t>(by);
  segment.live_bytes += static_cast<std::uint64_t>(by) * place.about_size();
}

bool JournalStore::answer_at_once(Op& op) {
  if (op.verb != Verb::claim && op.verb != Verb::lookup) return false;
  if (condition_.load(std::memory_order_relaxed) == Condition::failed) return false;
  const Time now = clock_.now();
  Shard& shard = shard_of(op.id);
  const std::scoped_lock lock(shard.mutex);
  RecordTable::Node* node = shard.hot.find(op.id);
  if (node == nullptr || expired(node->record, now)) return false;
  if (op.verb == Verb::claim) {
    if (is_same_claim(node->record, op)) return false;
    op.verdict = ::once::decide(facts_of(&node->record, op.fingerprint, op.terms, now));
    if (op.verdict == Verdict::execute) return false;
    if (!Shard::is_live(node->record)) shard.finished.take(*node);
  }
  op.now = now;
  op.status = OpStatus::done;
  op.error.clear();
  op.record = node->record;
  return true;
}

void JournalStore::fail(const DiskError& error) {
  if (!failure_.empty()) return;
  failure_ = fmt::format("the journal has failed and needs a restart: {}", error.detail);
  condition_.store(Condition::failed, std::memory_order_relaxed);
  log_.error("the journal has failed; keyed requests are refused until a restart", {{"error", error.detail}});
}

void JournalStore::set_full(const DiskError& error) {
  auto well = Condition::well;
  if (!condition_.compare_exchange_strong(well, Condition::full, std::memory_order_relaxed)) return;
  log_.warn("the journal is full; new keys are refused", {{"reason", error.detail}});
}

void JournalStore::publish_sizes() {
  counters_.disk_bytes.store(segments_.disk_bytes(), std::memory_order_relaxed);
  counters_.segments.store(segments_.count(), std::memory_order_relaxed);
  counters_.live_claims.store(live_claims_, std::memory_order_relaxed);
}

JournalStats JournalStore::stats() const {
  JournalStats stats{.condition = condition_.load(std::memory_order_relaxed),
                     .index_bytes = counters_.index_bytes.load(std::memory_order_relaxed),
                     .disk_bytes = counters_.disk_bytes.load(std::memory_order_relaxed),
                     .segments = counters_.segments.load(std::memory_order_relaxed),
                     .live_claims = counters_.live_claims.load(std::memory_order_relaxed),
                     .bytes_written = counters_.bytes_written.load(std::memory_order_relaxed),
                     .syncs = counters_.syncs.load(std::memory_order_relaxed),
                     .refused = counters_.refused.load(std::memory_order_relaxed),
                     .bodies_dropped = counters_.bodies_dropped.load(std::memory_order_relaxed),
                     .expired = counters_.expired.load(std::memory_order_relaxed),
                     .carried = counters_.carried.load(std::memory_order_relaxed),
                     .segments_dropped = counters_.segments_dropped.load(std::memory_order_relaxed),
                     .read_back = counters_.read_back.load(std::memory_order_relaxed),
                     .clock_ahead = counters_.clock_ahead.load(std::memory_order_relaxed)};
  for (const Shard& shard : shards_) {
    const std::scoped_lock lock(shard.mutex);
    stats.keys += shard.slots.used();
    stats.cache_bytes += shard.hot.bytes();
  }
  return stats;
}

}  // namespace once
