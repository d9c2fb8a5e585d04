#include "store/memory/shard.hpp"

#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "core/route_label.hpp"
#include "store/verbs.hpp"

namespace once::memory {

namespace {

// Two a claim is twice what a claim can add, so the memory of expired records comes back as fast as it is needed.
constexpr std::size_t looked_at_per_claim = 2;
// Not on every claim: neighbours in the slab are cheap to look at together, and a cache miss each one by one.
constexpr std::uint64_t claims_per_look = 16;
constexpr std::size_t cache_line = 64;
constexpr std::size_t looked_at_when_full = 8;

// When there is something to do about it.
Time ages_at(const Record& record) {
  return record.state == State::tombstone ? record.forget_at : record.expires_at;
}

}  // namespace

void MemoryShard::execute(Op& op, Time now) {
  op.now = now;
  op.status = OpStatus::done;
  op.record.reset();
  op.chunks.clear();
  op.error.clear();
  const std::scoped_lock lock(mutex_);
  switch (op.verb) {
    case Verb::claim: return claim(op, now);
    case Verb::renew: return renew_lease(op, now);
    case Verb::finish:
    case Verb::resolve: return finish_claim(op, now);
    case Verb::release: return release_claim(op, now);
    case Verb::forget: return forget_record(op, now);
    case Verb::lookup:
    case Verb::read: return lookup(op, now);
    case Verb::append: return append_chunk(op, now);
  }
  ONCE_ASSERT(false);
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
    if (op.verdict == Verdict::replay || op.verdict == Verdict::not_kept) file(*node);
    op.record = node->record;
    return;
  }
  if (node == nullptr) {
    const auto [route, request] = parts_of(op.route);
    const std::size_t labels = labels_.cost(op.tenant, route) + cost_of(request);
    if (!make_room(RecordTable::node_bytes + labels, nullptr, now)) {
      ++stats_.refused;
      return answer_failed(op, StoreFault::full, "memory store full: every record is a live claim");
    }
    node = &table_.add(op.id);
  }
  Record record = claimed(previous, op.fingerprint, op.nonce, op.terms, now);
  record.fence = Fence{++last_fence_};
  if (never_lapses(op)) record.lease_until = Time::max();
  op.record = record;
  set_labels(*node, op.tenant, op.route);
  write(*node, std::move(record));
}

void MemoryShard::renew_lease(Op& op, Time now) {
  Node* node = find(op.id, now);
  if (node == nullptr || renew(node->record, op, now) == Written::no) {
    op.status = OpStatus::lost;
    return;
  }
  if (never_lapses(op)) node->record.lease_until = Time::max();
  file(*node);
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
    if (after > before && !make_room(after - before, node, now)) {
      if (resolves) return answer_failed(op, StoreFault::full, "memory store full: no room for the response");
      record.outcome = nullptr;
      record.body_kept = BodyKept::no;
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
    return answer_failed(op, StoreFault::no_chunks, "an earlier chunk of the response is missing");
  }
  if (!make_room(ChunkLists::cost(op.outcome) + ChunkLists::list_overhead, node, now)) {
    return answer_failed(op, StoreFault::full, "memory store full: no room for the response");
  }
  chunks_.append(op);
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
  Record record = node.record;
  age(record, now);
  write(node, std::move(record));
  return true;
}

void MemoryShard::write(Node& node, Record&& record) {
  table_.write(node, std::move(record));
  chunks_.record_changed(node.id, &node.record);
  nothing_ages_before_ = std::min(nothing_ages_before_, ages_at(node.record));
  earliest_looked_at_ = std::min(earliest_looked_at_, ages_at(node.record));
  file(node);
}

void MemoryShard::set_labels(Node& node, std::string_view tenant, std::string_view route_label) {
  const auto [route, request] = parts_of(route_label);
  const std::uint32_t label = labels_.take(tenant, route);
  labels_.give_back(std::exchange(node.label, label));
  if (node.details != nullptr) details_bytes_ -= cost_of(node.details.get());
  node.details = request_text(request);
  details_bytes_ += cost_of(request);
}

void MemoryShard::remove(Node& node) {
  set_labels(node, {}, {});
  chunks_.record_changed(node.id, nullptr);
  table_.remove(node);
}

void MemoryShard::file(Node& node) {
  switch (node.record.state) {
    case State::started: return (node.record.lease_until == Time::max() ? claims_ : leased_).take(node);
    case State::succeeded:
    case State::failed: return finished_.take(node);
    case State::tombstone: return tombstones_.take(node);
    case State::unknown: return unresolved_.take(node);
  }
  ONCE_ASSERT(false);
}

bool MemoryShard::make_room(std::size_t bytes, const Node* keep, Time now) {
  if (this->bytes() + bytes <= max_bytes_) return true;
  // One large outcome does not push out everything else, least of all to find that it does not fit even then.
  if (bytes > max_bytes_ / 2) return false;
  if (now >= nothing_ages_before_) look_at_some(looked_at_when_full, now);
  while (this->bytes() + bytes > max_bytes_) {
    Node* node = victim(keep, now);
    if (node == nullptr) return false;
    ++(forgotten(node->record, now) ? stats_.expired : stats_.evictions);
    remove(*node);
    fetch_next_victims();
  }
  return true;
}

// Those that go next were not touched for long, and waiting for them to come from memory is most of the cost of
// forgetting one. The next is in the cache since the last call, so what it points to can be fetched now.
void MemoryShard::fetch_next_victims() const {
  const Link& list = tombstones_.empty() ? finished_ : tombstones_;
  if (list.empty()) return;
  const auto* next = static_cast<const Node*>(list.next);
  table_.fetch(next->id);
  __builtin_prefetch(next->record.outcome.get());
  if (next->next == &list) return;
  const auto* second = reinterpret_cast<const char*>(static_cast<const Node*>(next->next));
  for (std::size_t line = 0; line < sizeof(Node); line += cache_line) __builtin_prefetch(second + line);
}

MemoryShard::Node* MemoryShard::victim(const Node* keep, Time now) {
  for (Link* list : {&tombstones_, &finished_, &unresolved_}) {
    Link* oldest = list->next;
    if (oldest == keep) oldest = oldest->next;
    if (oldest != list) return static_cast<Node*>(oldest);
  }
  for (Link* link = leased_.next; link != &leased_; link = link->next) {
    auto* node = static_cast<Node*>(link);
    if (node->record.lease_until <= now && node != keep) return node;
  }
  return nullptr;
}

// Every record was looked at since the last one: what is known now holds until a record is written.
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
  swept.removed = static_cast<std::size_t>(stats_.expired - expired_before);
  swept.to_the_end = hand_ >= nodes;
  return swept;
}

void MemoryShard::add_to(MemoryStats& total) const {
  const std::scoped_lock lock(mutex_);
  total.records += table_.records();
  total.bytes += bytes();
  total.evictions += stats_.evictions;
  total.expired += stats_.expired;
  total.refused += stats_.refused;
  total.bodies_dropped += stats_.bodies_dropped;
}

}  // namespace once::memory
