// Checks what a store evicts, and what callers are charged for, against what is stored.
#include <algorithm>

#include <fmt/format.h>

#include "sim/history.hpp"

namespace once::sim {

namespace {

// The approximate size of a record without its response.
constexpr std::size_t bytes_of_record = 250;
// Labels and other overhead that the model does not know.
constexpr std::size_t not_known = 1500;
// Records that expire this soon may be gone by another clock.
constexpr Duration soon = std::chrono::seconds(10);

}  // namespace

std::size_t History::Fact::stored_bytes() const {
  std::size_t bytes = outcome && state == State::succeeded ? outcome->size() : 0;
  if (!has_chunks()) return bytes;
  for (const OutcomeBytes& chunk : chunks) bytes += chunk->size();
  return bytes;
}

bool History::is_evictable(const Fact& fact) const {
  switch (fact.state) {
    case Fact::State::none:
    case Fact::State::started: return false;
    case Fact::State::succeeded:
    case Fact::State::failed: return !has_expired(fact);
    case Fact::State::unknown: return !has_expired(fact) && !fact.chunks.empty();
  }
  return false;
}

// Other holders may have at most about twice as much: the model allows half for overhead.
void History::check_share(const TenantTag& holder) {
  std::map<TenantTag, std::size_t> bytes;
  std::set<TenantTag> evictable;
  for (const auto& [id, key] : keys_) {
    if (key.now.state == Fact::State::none || has_expired(key.now)) continue;
    bytes[key.holder] += bytes_of_record + key.now.stored_bytes();
    if (is_evictable(key.now)) evictable.insert(key.holder);
  }
  for (const TenantTag& other : evictable) {
    if (bytes[other] <= 2 * bytes[holder] + not_known) continue;
    return violated(
        fmt::format("a holder of {} bytes lost an answer, while another one has {}", bytes[holder], bytes[other]));
  }
}

void History::evicted(const Evicted& what, const std::function<void(const Evicted&)>& told) {
  TenantTag caller{};
  if (what.tenant.size() == caller.size()) std::ranges::copy(what.tenant, caller.begin());
  const std::size_t before = counted_ ? counted_(caller) : 0;
  told(what);
  if (leaves_out(what.id)) return;
  Key& key = keys_[what.id];
  world_.note(fmt::format("store: evicts {}", name(what.id)));
  const bool part = what.left == Evicted::Left::record;
  const bool may_go = is_evictable(key.now) || (!part && has_expired(key.now));
  if (!may_go) violated(fmt::format("key {} was evicted, and it is {}", name(what.id), to_text(key.now)));
  check_share(what.holder);
  const bool lives = what.expires_at - what.now > soon;
  if (counted_ && lives && before >= what.bytes && counted_(caller) > before - what.bytes) {
    violated(fmt::format("key {}: {} bytes were evicted and are counted all the same", name(what.id), what.bytes));
  }
  if (part) {
    key.now.drop_chunks();
  } else {
    key.now = {};
    ++key.generation;
  }
  changed(key);
}

void History::check_refused(const Op& op) {
  if (!evicts_ || op.verb != Verb::claim) return;
  const auto found = std::ranges::find_if(keys_, [this](const auto& each) { return is_evictable(each.second.now); });
  if (found == keys_.end()) return;
  violated(
      fmt::format("key {} was refused for want of room, and {} could be evicted", name(op.id), name(found->first)));
}

void History::check_quotas() {
  if (!counted_) return;
  std::map<std::string, std::size_t> stored;
  for (const auto& [id, key] : keys_) {
    const Fact& held = key.now;
    const bool lives = clock_->now() + soon < held.charged_until && !has_expired(held);
    const bool of_requests = !held.resolved_by && key.tenant.size() == TenantTag().size();
    if (held.state != Fact::State::none && lives && of_requests) stored[key.tenant] += held.stored_bytes();
  }
  for (const auto& [tenant, bytes] : stored) {
    TenantTag caller{};
    std::ranges::copy(tenant, caller.begin());
    const std::size_t counted = counted_(caller);
    if (counted >= bytes) continue;
    violated(fmt::format("a caller has {} bytes in the store, and is charged for {}", bytes, counted));
  }
}

}  // namespace once::sim
