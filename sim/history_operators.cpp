// Checks what operators see and do: a change is made only to what was seen, never while an owner is executing, by at
// most one operator, and its result is reported correctly.
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/assert.hpp"
#include "sim/history.hpp"
#include "sim/names.hpp"

namespace once::sim {

std::string resolved_body(unsigned decision) {
  return fmt::format("resolved={}", decision);
}

unsigned History::operator_decides(const KeyInfo& seen) {
  decisions_.push_back({.id = seen.id, .nonce = seen.nonce, .seen = seen.state});
  return static_cast<unsigned>(decisions_.size() - 1);
}

void History::sends(unsigned decision, Op& op) {
  OperatorDecision& sent = decisions_[decision];
  sent.verb = op.verb;
  sent.final_state = op.final_state;
  sent.outcome = op.outcome;
  if (op.nonce != sent.nonce || op.seen_state != sent.seen) {
    violated(fmt::format("key {}: operator {} looked at {} by {}, and what is {} by {} is to be changed", name(op.id),
                         decision, text_of(sent.seen), short_hex(sent.nonce), text_of(op.seen_state),
                         short_hex(op.nonce)));
  }
  std::memcpy(op.fingerprint.bytes.data(), &decision, sizeof decision);
}

unsigned History::errand_of(const Op& op) {
  unsigned decision = 0;
  std::memcpy(&decision, op.fingerprint.bytes.data(), sizeof decision);
  return decision;
}

// If the clock was set back, a record that had expired may or may not exist.
bool History::may_be(const Fact& fact, const Nonce& nonce, State state) const {
  if (fact.state == Fact::State::none || fact.nonce != nonce) return false;
  if (state == State::tombstone) return !is_live(fact) && fact.expires_at <= latest_;
  const bool perhaps_live = fact.state == Fact::State::started && clock_->now() < fact.perhaps_live_until;
  return (!has_expired(fact) || perhaps_live) && fact.state == state_of(state);
}

void History::shown(const KeyInfo& info) {
  store_clock_at(clock_->now());
  Key& key = keys_[info.id];
  const auto fits = [&](const Fact& fact) { return may_be(fact, info.nonce, info.state); };
  if (fits(key.now)) {
    if (info.state == State::tombstone) shown_as_tombstone(key);
    return;
  }
  if (std::ranges::any_of(key.perhaps, fits)) return;
  violated(fmt::format("key {} is shown as {} by {}, but it is {}", name(info.id), text_of(info.state),
                       short_hex(info.nonce), to_text(key.now)));
}

void History::listed(const std::vector<KeyInfo>& keys) {
  store_clock_at(clock_->now());
  for (const KeyInfo& info : keys) shown(info);
  for (const auto& [id, key] : keys_) {
    const auto may_be_gone = [this](const Fact& fact) {
      return fact.state == Fact::State::none || fact.forget_at() <= latest_;
    };
    if (may_be_gone(key.now) || std::ranges::any_of(key.perhaps, may_be_gone)) continue;
    if (std::ranges::find(keys, id, &KeyInfo::id) != keys.end()) continue;
    violated(fmt::format("key {} is not shown, but it is {}", name(id), to_text(key.now)));
  }
}

// Whether nothing prevents the change, so that the store must make it.
bool History::must_be_done(const Key& key, const Op& op) const {
  const Fact& held = key.now;
  const bool tombstone = op.seen_state == State::tombstone;
  const bool may_have_aged = (tombstone ? held.forget_at() : held.expires_at) <= latest_;
  // If the clock was set back, an expired record that the store still has is no tombstone any more.
  const bool may_be_back = tombstone && !has_expired(held);
  const bool perhaps_live = clock_->now() < held.perhaps_live_until;
  const bool may_differ = may_have_aged || may_be_back || perhaps_live || !key.perhaps.empty();
  return !is_live(held) && !may_differ && may_be(held, op.nonce, op.seen_state);
}

void History::operated(Key& key, const Op& op) {
  const unsigned number = errand_of(op);
  ONCE_ASSERT(number < decisions_.size());
  OperatorDecision& decision = decisions_[number];
  const std::string who = fmt::format("key {}: operator {}", name(op.id), number);
  const Fact& held = key.now;
  if (op.status == OpStatus::lost) {
    if (must_be_done(key, op)) violated(who + " was refused, and nothing stood in the way");
    return;
  }
  if (decision.done && !decision.lost) violated(who + " did it twice");
  if (decision.received == Effect::none) violated(who + " was answered that nothing was changed, and then it was");
  if (!may_be(held, decision.nonce, decision.seen)) {
    violated(fmt::format("{} changed what is {}, and had seen {} by {}", who, to_text(held), text_of(decision.seen),
                         short_hex(decision.nonce)));
  }
  if (held.state == Fact::State::started) {
    if (clock_->now() < held.lease_until) violated(who + " took the claim away while the owner's lease runs");
    if (live_owners_are_left_alone_ && at_backend_.contains(held.nonce)) {
      violated(who + " took the claim away while the owner is running and can reach the store");
    }
  }
  const bool open = held.state == Fact::State::started || held.state == Fact::State::unknown;
  if (op.verb == Verb::resolve && !open) violated(who + " resolved what has an outcome");
  decision.done = true;
  key.now = after_write(key, op);
  if (op.verb == Verb::forget) ++key.generation;
  if (!only_acknowledged_counts_) is_recorded(key);
  changed(key);
}

void History::operator_received(unsigned decision, Effect effect) {
  OperatorDecision& made = decisions_[decision];
  made.received = effect;
  if (made.lost) return;
  if (effect == Effect::none && made.done) {
    violated(
        fmt::format("key {}: operator {} was answered that nothing was changed, and it was", name(made.id), decision));
  }
  if (effect != Effect::done || made.done) return;
  // Success is also right if another operator or the owner had the same effect, or if a key to forget is gone.
  const Fact& now = keys_[made.id].now;
  const bool gone = now.state == Fact::State::none || now.nonce != made.nonce || now.forget_at() <= latest_;
  const bool by_another = std::ranges::any_of(
      decisions_, [&](const OperatorDecision& each) { return each.done && each.asks_the_same(made); });
  const bool by_its_owner = made.verb == Verb::resolve && now.nonce == made.nonce &&
                            now.state == state_of(made.final_state) && !made.outcome && !now.outcome;
  if (by_another || by_its_owner || (gone && made.verb == Verb::forget)) return;
  violated(fmt::format("key {}: operator {} was answered that it was done, and it is {}", name(made.id), decision,
                       to_text(now)));
}

std::uint64_t History::operations_by_hand() const {
  return static_cast<std::uint64_t>(std::ranges::count(decisions_, true, &OperatorDecision::done));
}

}  // namespace once::sim
