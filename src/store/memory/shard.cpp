#include "store/memory/shard.hpp"

#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "base/sometimes.hpp"
#include "core/route_label.hpp"
#include "store/verbs.hpp"

namespace once::memory {

namespace {

// Two per claim is twice what claims can add, so memory of expired records is freed as fast as it is needed.
constexpr std::size_t looked_at_per_claim = 2;
// Done in groups, not on every claim: visiting neighbours in the slab is cheap, but each single visit is a cache miss.
constexpr std::uint64_t claims_per_look = 16;
constexpr std::size_t looked_at_when_full = 8;

// When a tombstone is forgotten, or any other record expires.
Time ages_at(const Record& record) {
  return record.state == State::tombstone ? record.forget_at : record.expires_at;
}

}  // namespace

std::optional<MemoryShard::Need> MemoryShard::execute(Op& op, Time now, Grant grant) {
  op.now = now;
  op.status = OpStatus::done;
  op.record.reset();
  op.chunks.clear();
  op.error.clear();
  const std::scoped_lock lock(mutex_);
  grant_ = grant;
  budgeted_ += grant.bytes;
  switch (op.verb) {
    case Verb::claim: claim(op, now); break;
    case Verb::renew: renew_lease(op, now); break;
    case Verb::finish:
    case Verb::resolve: finish_claim(op, now); break;
    case Verb::release: release_claim(op, now); break;
    case Verb::forget: forget_record(op, now); break;
    case Verb::lookup:
    case Verb::read: lookup(op, now); break;
    case Verb::append: append_chunk(op, now); break;
  }
  settle_budget();
  return std::exchange(need_, std::nullopt);
}

void MemoryShard::settle_budget() {
  const std::size_t used = bytes();
  if (used == budgeted_) return;
  budget_.add(used - budgeted_);
  budgeted_ = used;
}

void MemoryShard::claim(Op& op, Time now) {
  if (now >= nothing_ages_before_ && ++claims_seen_ % claims_per_look == 0) {
    look_at_some(claims_per_look * looked_at_per_claim, now);
  }
  Node* node = find(op.id, now);
  if (node != nullptr && is_same_claim(node->record, op)) {
    op.verdict = Verdict::execute;
    op.record = node->record;
    return;
  }
  const Record* previous = node == nullptr ? nullptr : &node->record;
  op.verdict = decide(facts_of(previous, op.fingerprint, op.terms, now));
  if (op.verdict == Verdict::execute && previous != nullptr && is_ended_claim(*previous, op, now)) {
    op.verdict = Verdict::in_flight;
  }
  if (op.verdict != Verdict::execute) {
    ONCE_ASSERT(node != nullptr);
    if (op.verdict == Verdict::replay || op.verdict == Verdict::not_kept) {
      holders_.link_again(holder_of(*node), *node, Holders::End::newest);
    }
    op.record = node->record;
    return;
  }
  const Room room = take_room_for_claim(op, node, now);
  if (room == Room::later) return;
  if (room == Room::no) {
    sometimes<"memory: new key refused">();
    ++stats_.refused;
    return answer_failed(op, StoreFault::full,
                         "memory store full: nothing can be evicted for a claim of this address or caller");
  }
  if (node == nullptr) {
    node = &add(op);
  } else {
    relabel(*node, op);
  }
  Record record = claimed(previous, op.fingerprint, op.nonce, op.terms, now);
  record.fence = Fence{++last_fence_};
  if (never_lapses(op)) record.lease_until = Time::max();
  op.record = record;
  write(*node, std::move(record));
}

void MemoryShard::renew_lease(Op& op, Time now) {
  Node* node = find(op.id, now);
  if (node == nullptr || renew(node->record, op, now) == Written::no) {
    op.status = OpStatus::lost;
    return;
  }
  if (never_lapses(op)) node->record.lease_until = Time::max();
}

void MemoryShard::finish_claim(Op& op, Time now) {
  Node* node = find(op.id, now);
  if (node == nullptr) {
    op.status = OpStatus::lost;
    return;
  }
  Record record = node->record;
  const bool resolves = op.verb == Verb::resolve;
  const Written written = resolves ? resolve(record, op, now) : finish(record, op, now);
  if (written == Written::no) {
    op.status = OpStatus::lost;
    return;
  }
  if (written == Written::yes) {
    const std::size_t before = RecordTable::outcome_bytes(node->record.outcome);
    const std::size_t after = RecordTable::outcome_bytes(record.outcome);
    Room room = Room::yes;
    if (after > before) room = take_room(after - before, now);
    if (room == Room::later) {
      need_ = {.bytes = after - before, .holder = labels_.holder_of(node->label)};
      return;
    }
    if (room == Room::no) {
      sometimes<"memory: no room for what an operator resolved">(resolves);
      if (resolves) return answer_failed(op, StoreFault::full, "memory store full: no room for the response");
      record.outcome = nullptr;
      record.body_kept = BodyKept::no;
      sometimes<"memory: no room for the response">();
      ++stats_.bodies_dropped;
    }
    write(*node, std::move(record));
  }
  op.record = node->record;
}

void MemoryShard::release_claim(Op& op, Time now) {
  Node* node = find(op.id, now);
  if (node == nullptr || !may_release(node->record, op)) {
    op.status = OpStatus::lost;
    return;
  }
  if (std::optional<Record> left = released(node->record)) {
    write(*node, *std::move(left));
  } else {
    remove(*node);
  }
}

void MemoryShard::forget_record(Op& op, Time now) {
  Node* node = find(op.id, now);
  if (node == nullptr || !may_forget(node->record, op, now)) {
    op.status = OpStatus::lost;
    return;
  }
  remove(*node);
}

void MemoryShard::lookup(Op& op, Time now) {
  const Node* node = find(op.id, now);
  if (node == nullptr) return;
  op.record = node->record;
  if (op.verb == Verb::read) chunks_.read_into(op, node->record);
}

void MemoryShard::append_chunk(Op& op, Time now) {
  Node* node = find(op.id, now);
  if (node == nullptr || !may_append(node->record, op)) {
    op.status = OpStatus::lost;
    return;
  }
  if (op.chunk > chunks_.count(op.id, op.nonce)) {
    sometimes<"memory: chunk after a gap">();
    return answer_failed(op, StoreFault::no_chunks, "an earlier chunk of the response is missing");
  }
  const Room room = take_room_for_chunk(*node, ChunkLists::cost(op.outcome) + ChunkLists::list_overhead, now);
  if (room == Room::later) return;
  sometimes<"memory: no room for a chunk">(room == Room::no);
  if (room == Room::no) return answer_failed(op, StoreFault::full, "memory store full: no room for the response");
  const Usage before = usage_of(*node);
  chunks_.append(op);
  account(*node, before);
}

MemoryShard::Node* MemoryShard::find(const OperationId& id, Time now) {
  Node* node = table_.find(id);
  return node != nullptr && age_or_forget(*node, now) ? node : nullptr;
}

bool MemoryShard::age_or_forget(Node& node, Time now) {
  if (!expired(node.record, now)) return true;
  if (forgotten(node.record, now)) {
    ++stats_.expired;
    remove(node);
    return false;
  }
  if (node.record.state == State::tombstone) return true;
  sometimes<"memory: becomes a tombstone">();
  Record record = node.record;
  age(record, now);
  write(node, std::move(record));
  return true;
}

MemoryShard::Node& MemoryShard::add(const Op& claim) {
  Node& node = table_.add(claim.id);
  node.record.state = State::started;
  node.label = labels_.take(claim);
  account(node, Usage());
  set_details(node, request_text(parts_of(claim.route).request));
  return node;
}

// Another caller, or another address, may claim an operation that was not executed before.
void MemoryShard::relabel(Node& node, const Op& claim) {
  set_details(node, request_text(parts_of(claim.route).request));
  const std::uint32_t label = labels_.take(claim);
  if (label == node.label) {
    labels_.give_back(label);
    return;
  }
  sometimes<"memory: claimed by another holder">();
  const bool linked = is_evictable(node);
  const Usage usage = usage_of(node);
  if (linked) holders_.unlink(holder_of(node), node);
  holders_.add(holder_of(node), Usage() - usage);
  labels_.give_back(std::exchange(node.label, label));
  holders_.add(holder_of(node), usage);
  if (linked) holders_.link(holder_of(node), node, Holders::End::newest);
}

void MemoryShard::write(Node& node, Record&& record) {
  const bool was_linked = is_evictable(node);
  const Usage before = usage_of(node);
  table_.write(node, std::move(record));
  chunks_.record_changed(node.id, &node.record);
  account(node, before);
  nothing_ages_before_ = std::min(nothing_ages_before_, ages_at(node.record));
  earliest_looked_at_ = std::min(earliest_looked_at_, ages_at(node.record));
  link_as_it_is(node, was_linked);
}

void MemoryShard::set_details(Node& node, RequestText details) {
  const Usage before = usage_of(node);
  details_bytes_ -= details_of(node);
  node.details = std::move(details);
  details_bytes_ += details_of(node);
  account(node, before);
}

void MemoryShard::remove(Node& node) {
  set_details(node, nullptr);
  if (is_evictable(node)) holders_.unlink(holder_of(node), node);
  holders_.add(holder_of(node), Usage() - usage_of(node));
  chunks_.record_changed(node.id, nullptr);
  table_.remove(node);
  labels_.give_back(std::exchange(node.label, 0));
}

Usage MemoryShard::usage_of(const Node& node) const {
  const std::size_t chunks = chunks_.bytes_of(node.id);
  const std::size_t rest = RecordTable::node_bytes + RecordTable::outcome_bytes(node.record.outcome) + details_of(node);
  switch (node.record.state) {
    case State::started: return {.bytes = rest + chunks, .pinned = rest + chunks, .running = chunks};
    case State::unknown: return {.bytes = rest + chunks, .pinned = rest};
    case State::succeeded:
    case State::failed:
    case State::tombstone: return {.bytes = rest + chunks};
  }
  ONCE_ASSERT(false);
}

// Records that prevent a second execution stay. Of an unknown one, only the beginning of its response can be evicted.
bool MemoryShard::is_evictable(const Node& node) const {
  switch (node.record.state) {
    case State::started: return false;
    case State::unknown: return chunks_.bytes_of(node.id) > 0;
    case State::succeeded:
    case State::failed:
    case State::tombstone: return true;
  }
  ONCE_ASSERT(false);
}

// A tombstone is evicted first: it has no response.
void MemoryShard::link_as_it_is(Node& node, bool was_linked) {
  const bool linked = is_evictable(node);
  const auto end = node.record.state == State::tombstone ? Holders::End::oldest : Holders::End::newest;
  if (linked && was_linked) {
    holders_.link_again(holder_of(node), node, end);
  } else if (linked) {
    holders_.link(holder_of(node), node, end);
  } else if (was_linked) {
    holders_.unlink(holder_of(node), node);
  }
}

MemoryShard::Room MemoryShard::take_room_for_claim(const Op& claim, const Node* node, Time now) {
  const std::size_t bytes = RecordTable::node_bytes + labels_.cost(claim) + cost_of(parts_of(claim.route).request);
  // While the store has room, no holder is over its limit, so most claims need no look-up of their holder.
  std::shared_ptr<Holder> holder;
  if (budget_.used() > budget_.most_pinned_by_one()) holder = labels_.find_holder(claim);
  const bool pins = node == nullptr || node->record.state == State::failed;
  if (pins && holder != nullptr && !may_pin(*holder, bytes)) return Room::no;
  if (node != nullptr) return Room::yes;
  const Room room = take_room(bytes, now);
  if (room == Room::later) need_ = {.bytes = bytes, .holder = std::move(holder)};
  return room;
}

MemoryShard::Room MemoryShard::take_room_for_chunk(const Node& node, std::size_t bytes, Time now) {
  const std::shared_ptr<Holder>& holder = labels_.holder_of(node.label);
  if (holder->running() + bytes > budget_.most_running_of_one() || !budget_.has_room_for_chunks(bytes)) return Room::no;
  if (!may_pin(*holder, bytes)) return Room::no;
  const Room room = take_room(bytes, now);
  if (room == Room::later) need_ = {.bytes = bytes, .holder = holder};
  return room;
}

MemoryShard::Room MemoryShard::take_room(std::size_t bytes, Time now) {
  if (bytes <= grant_.bytes) return Room::yes;
  // One large outcome must not evict everything else, especially as it might not fit even then.
  if (bytes > budget_.most() / 2) return Room::no;
  const std::size_t missing = bytes - grant_.bytes;
  bool taken = budget_.try_take(missing);
  if (!taken && now >= nothing_ages_before_) {
    look_at_some(looked_at_when_full, now);
    const std::size_t granted = this->bytes() + grant_.bytes;
    budget_.add(granted - budgeted_);
    budgeted_ = granted;
    taken = budget_.try_take(missing);
  }
  if (taken) {
    grant_.bytes += missing;
    budgeted_ += missing;
    return Room::yes;
  }
  return grant_.is_last ? Room::no : Room::later;
}

void MemoryShard::evict(const OperationId& id, Time now, const std::function<void(const Evicted&)>& notify) {
  const std::scoped_lock lock(mutex_);
  Node* const node = table_.find(id);
  if (node == nullptr || !is_evictable(*node)) return;
  if (forgotten(node->record, now)) {
    ++stats_.expired;
    remove(*node);
    settle_budget();
    return;
  }
  const Record& record = node->record;
  const std::string tenant(labels_.of(node->label).tenant);
  const std::size_t kept = record.outcome == nullptr ? 0 : record.outcome->size();
  const Evicted evicted{.id = id,
                        .holder = labels_.tag_of(node->label),
                        .tenant = tenant,
                        .bytes = kept + chunks_.data_of(id),
                        .expires_at = record.expires_at,
                        .now = now,
                        .left = record.state == State::unknown ? Evicted::Left::record : Evicted::Left::nothing};
  ++stats_.evictions;
  sometimes<"memory: evicts a response">(evicted.left == Evicted::Left::nothing);
  if (evicted.left == Evicted::Left::record) {
    sometimes<"memory: evicts the recorded part of an unknown outcome">();
    holders_.unlink(holder_of(*node), *node);
    const Usage before = usage_of(*node);
    chunks_.record_changed(id, nullptr);
    account(*node, before);
  } else {
    remove(*node);
  }
  settle_budget();
  if (notify) notify(evicted);
}

// Every record was visited since the last round: the times found are valid until a record is written.
void MemoryShard::begin_round() {
  hand_ = 0;
  nothing_ages_before_ = std::exchange(earliest_looked_at_, Time::max());
}

void MemoryShard::look_at_some(std::size_t limit, Time now) {
  const std::size_t nodes = table_.size();
  for (std::size_t i = 0; i < std::min(limit, nodes); ++i) {
    if (hand_ >= nodes) begin_round();
    Node& node = table_.at(hand_++);
    if (age_or_forget(node, now)) earliest_looked_at_ = std::min(earliest_looked_at_, ages_at(node.record));
  }
}

MemoryShard::Swept MemoryShard::sweep(std::size_t limit, Time now) {
  const std::scoped_lock lock(mutex_);
  const std::size_t nodes = table_.size();
  if (hand_ >= nodes) begin_round();
  const std::uint64_t expired_before = stats_.expired;
  Swept swept{.looked = std::min(limit, nodes - hand_)};
  look_at_some(swept.looked, now);
  settle_budget();
  swept.removed = static_cast<std::size_t>(stats_.expired - expired_before);
  swept.to_the_end = hand_ >= nodes;
  return swept;
}

void MemoryShard::add_to(MemoryStats& total) const {
  const std::scoped_lock lock(mutex_);
  total.records += table_.records();
  total.evictions += stats_.evictions;
  total.expired += stats_.expired;
  total.refused += stats_.refused;
  total.bodies_dropped += stats_.bodies_dropped;
}

}  // namespace once::memory
