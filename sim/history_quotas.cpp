// Checks what a store evicts, and what callers are charged for, against what is stored.
#include <algorithm>

#include <fmt/format.h>

#include "sim/history.hpp"

namespace once::sim {

namespace {

// The approximate size of a record without its response.
constexpr std::size_t bytes_of_record = 250;
// Labels and other overhead that the model does not know.
constexpr std::size_t unknown_overhead = 1500;
// Holders with less than this count as equally light.
constexpr std::size_t smallest_compared = 4096;
// Records that expire this soon may have expired by another clock.
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

std::map<TenantTag, History::Holding> History::holdings() const {
  std::map<TenantTag, Holding> all;
  for (const auto& [id, key] : keys_) {
    if (key.now.state == Fact::State::none || has_expired(key.now)) continue;
    Holding& holding = all[key.holder];
    const std::size_t bytes = bytes_of_record + key.now.stored_bytes();
    holding.bytes += bytes;
    if (is_evictable(key.now)) holding.has_evictable = true;
    const bool at_work = key.now.state == Fact::State::started;
    if (at_work || key.now.state == Fact::State::unknown) holding.pinned += at_work ? bytes : bytes_of_record;
  }
  return all;
}

// The most that `bytes` of the model may take in the store, with its overhead.
std::size_t History::at_most(std::size_t bytes) {
  return 2 * bytes + unknown_overhead;
}

void History::check_share(const TenantTag& holder) {
  auto held = holdings();
  const std::size_t loser = held[holder].bytes;
  for (const auto& [other, holding] : held) {
    if (!holding.has_evictable || holding.bytes <= at_most(loser)) continue;
    return violated(fmt::format("a holder of {} bytes lost an answer, while another one has {}", loser, holding.bytes));
  }
}

void History::evicted(const Evicted& what, const std::function<void(const Evicted&)>& notify) {
  TenantTag caller{};
  if (what.tenant.size() == caller.size()) std::ranges::copy(what.tenant, caller.begin());
  const std::size_t before = counted_ ? counted_(caller) : 0;
  notify(what);
  if (leaves_out(what.id)) return;
  Key& key = keys_[what.id];
  world_.note(fmt::format("store: evicts {}", name(what.id)));
  const bool part = what.left == Evicted::Left::record;
  const bool may_go = is_evictable(key.now) || (!part && has_expired(key.now));
  if (!may_go) violated(fmt::format("key {} was evicted, and it is {}", name(what.id), to_text(key.now)));
  if (!has_expired(key.now)) check_share(what.holder);
  const bool lives = what.expires_at - what.now > soon;
  if (counted_ && lives && before >= what.bytes && counted_(caller) > before - what.bytes) {
    violated(fmt::format("key {}: {} bytes were evicted and are still counted", name(what.id), what.bytes));
  }
  if (part) {
    key.now.drop_chunks();
  } else {
    key.now = {};
    ++key.generation;
  }
  changed(key);
}

// A claim may be refused only if nothing could be evicted: neither of its holder nor of a heavier one.
void History::check_refused(const Op& op) {
  if (evicts_at_ == 0 || op.verb != Verb::claim) return;
  auto held = holdings();
  const Holding mine = held[op.holder];
  if (at_most(mine.pinned) > evicts_at_ / 4 * 3) return;
  const bool is_light = at_most(mine.bytes) <= smallest_compared;
  for (const auto& [other, holding] : held) {
    const bool may_lose = other == op.holder || is_light || holding.bytes > at_most(mine.bytes);
    if (!holding.has_evictable || !may_lose) continue;
    return violated(
        fmt::format("key {} of a holder of {} bytes was refused for lack of space, although a holder of {} bytes had a "
                    "record to evict",
                    name(op.id), mine.bytes, holding.bytes));
  }
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
