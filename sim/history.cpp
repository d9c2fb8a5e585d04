#include "sim/history.hpp"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

#include "sim/names.hpp"
#include "store/journal/format.hpp"

namespace once::sim {

namespace {

std::string op_text(const Op& op) {
  std::string text = fmt::format("{} key {} by {}", name_of(op.verb), to_hex(op.id).substr(0, 8), short_hex(op.nonce));
  if (writes_outcome(op.verb)) text += fmt::format(" as {}", text_of(op.final_state));
  if (op.status == OpStatus::failed) return text + ": failed, " + op.error;
  if (op.status == OpStatus::lost) return text + ": lost";
  if (op.verb == Verb::claim) return fmt::format("{}: {}", text, name_of(op.verdict));
  return text + ": done";
}

}  // namespace

std::string body_of(const Asked& asked) {
  return fmt::format("operation={} content={}", asked.operation, asked.content);
}

std::optional<Asked> parse_request(std::string_view authorization, std::string_view body) {
  Asked asked;
  const std::string text = std::string(authorization).append(" ").append(body);
  if (std::sscanf(text.c_str(), "caller-%u operation=%u content=%u", &asked.caller, &asked.operation, &asked.content) !=
      3) {
    return std::nullopt;
  }
  return asked;
}

void History::violated(const std::string& what) {
  world_.note("VIOLATION " + what);
  violations_.push_back(what);
}

std::string History::name(const OperationId& id) const {
  return to_hex(id).substr(0, 8);
}

std::string History::to_text(const Fact& fact) {
  switch (fact.state) {
    case Fact::State::none: return "none";
    case Fact::State::started: return "started by " + short_hex(fact.nonce);
    case Fact::State::succeeded: return "succeeded by " + short_hex(fact.nonce);
    case Fact::State::failed: return "failed by " + short_hex(fact.nonce);
    case Fact::State::unknown: return "unknown by " + short_hex(fact.nonce);
  }
  return "";
}

History::Fact::State History::state_of(State state) {
  switch (state) {
    case State::started: return Fact::State::started;
    case State::succeeded: return Fact::State::succeeded;
    case State::failed: return Fact::State::failed;
    case State::unknown: return Fact::State::unknown;
    case State::tombstone: return Fact::State::none;
  }
  return Fact::State::none;
}

std::vector<OperationId> History::ids() const {
  std::vector<OperationId> all;
  for (const auto& [id, key] : keys_) all.push_back(id);
  return all;
}

History::Fact History::after_claim(const Op& op) const {
  return {.state = Fact::State::started,
          .nonce = op.nonce,
          .fingerprint = op.fingerprint,
          .claimed_at = clock_->now(),
          .lease_until = saturating_add(clock_->now(), op.terms.lease),
          .expires_at = saturating_add(clock_->now(), op.terms.ttl),
          .charged_until = saturating_add(clock_->now(), op.terms.ttl),
          .remembered = op.terms.tombstone,
          .leased = op.terms.owner == Owner::outside};
}

History::Fact History::after_write(const Key& key, const Op& op) const {
  Fact fact = key.now;
  switch (op.verb) {
    case Verb::renew:
      fact.lease_until = saturating_add(clock_->now(), op.terms.lease);
      fact.lapsed = false;
      break;
    case Verb::release:
      if (key.before.state == Fact::State::none) return key.before;
      fact = key.before;
      fact.nonce = released_nonce(op.nonce);
      break;
    case Verb::forget: return {};
    case Verb::finish:
    case Verb::resolve:
      fact.state = state_of(op.final_state);
      fact.outcome = op.body_kept == BodyKept::no ? nullptr : op.outcome;
      fact.in_chunks = op.final_state == State::succeeded && op.body_kept == BodyKept::in_chunks;
      fact.stopped = is_stop(op);
      // A store without room drops the body and reports that.
      if (op.record && op.record->body_kept == BodyKept::no) {
        fact.outcome = nullptr;
        fact.in_chunks = false;
      }
      fact.expires_at = saturating_add(clock_->now(), op.terms.ttl);
      fact.charged_until = fact.stopped ? std::min(fact.charged_until, fact.expires_at) : fact.expires_at;
      fact.resolved_by = op.verb == Verb::resolve ? std::optional(errand_of(op)) : std::nullopt;
      if (!fact.has_chunks()) fact.drop_chunks();
      break;
    case Verb::claim:
    case Verb::append:
    case Verb::read:
    case Verb::lookup: break;
  }
  return fact;
}

void History::asks(const Op& op) {
  if (!left_out_route_.empty() && op.route == left_out_route_) left_out_.insert(op.id);
}

void History::store_acted(const Op& op) {
  if (leaves_out(op.id)) return;
  Key& key = keys_[op.id];
  store_clock_at(clock_->now());
  world_.note(fmt::format("store: {}", op_text(op)));
  if (op.status == OpStatus::failed) {
    // A full store wrote nothing. After any other failure the write may have happened, although no client got an
    // answer.
    if (op.fault == StoreFault::full) return check_refused(op);
    if (op.verb == Verb::claim) {
      key.perhaps.push_back({.state = Fact::State::started,
                             .nonce = op.nonce,
                             .fingerprint = op.fingerprint,
                             .claimed_at = clock_->now(),
                             .expires_at = saturating_add(clock_->now(), op.terms.ttl),
                             .remembered = op.terms.tombstone,
                             .leased = op.terms.owner == Owner::outside,
                             .lapsed = true});
    } else if (op.verb == Verb::append) {
      append_failed(key, op);
    } else if (op.verb != Verb::lookup && op.verb != Verb::read && key.now.nonce == op.nonce) {
      key.perhaps.push_back(after_write(key, op));
    }
    return;
  }
  if (op.verb == Verb::claim && op.verdict == Verdict::execute) granted(key, op);
  if (op.verb == Verb::claim && op.verdict == Verdict::gone) check_gone(key, op);
  if (op.verb == Verb::claim && op.verdict == Verdict::replay) check_replay(key, op);
  if (op.verb == Verb::forget || op.verb == Verb::resolve) operated(key, op);
  if (op.verb == Verb::append) appended(key, op);
  if (op.verb == Verb::read) check_chunks(key, op);
  if ((op.verb == Verb::renew || op.verb == Verb::finish || op.verb == Verb::release) && op.status == OpStatus::done) {
    wrote(key, op);
  }
}

void History::store_answered_at_once(const Op& op) {
  if (leaves_out(op.id)) return;
  store_clock_at(clock_->now());
  if (op.verb == Verb::claim && op.verdict == Verdict::gone) check_gone(keys_[op.id], op);
  if (op.verb == Verb::claim && op.verdict == Verdict::replay) check_replay(keys_[op.id], op);
}

bool History::is_live(const Fact& fact) const {
  return fact.state == Fact::State::started && clock_->now() < fact.lease_until;
}

bool History::has_expired(const Fact& fact) const {
  return !is_live(fact) && (fact.aged || fact.expires_at <= clock_->now());
}

// The store has only a tombstone left. If the record has not expired by its clock now, that clock was set back.
void History::shown_as_tombstone(Key& key) const {
  if (!has_expired(key.now)) key.now.aged = true;
}

// Every retry must get exactly what was recorded.
void History::check_replay(const Key& key, const Op& op) {
  const Fact& held = key.now;
  const bool kept = held.state == Fact::State::succeeded && !has_expired(held);
  if (kept && op.record->body_kept != BodyKept::no && gives(held, *op.record)) return;
  violated(fmt::format("key {}: claim {} was given another answer than the recorded one; it is {}", name(op.id),
                       short_hex(op.nonce), to_text(held)));
}

// A key may be reported as expired only after its expiry.
void History::check_gone(Key& key, const Op& op) {
  const auto may_be = [this](const Fact& fact) {
    return fact.state != Fact::State::none && fact.expires_at <= latest_ && fact.remembered > Duration::zero();
  };
  if (may_be(key.now)) return shown_as_tombstone(key);
  if (std::ranges::any_of(key.perhaps, may_be)) return;
  violated(fmt::format("key {}: claim {} was answered that the key has expired, but it is {}", name(op.id),
                       short_hex(op.nonce), to_text(key.now)));
}

void History::check_grant(const Key& key, const Op& op, bool live) {
  const Fact& held = key.now;
  const std::string who = fmt::format("key {}: claim {}", name(op.id), short_hex(op.nonce));
  if (live_owners_are_left_alone_ && at_backend_.contains(began_under(held.nonce))) {
    violated(who + " was granted while the owner is running and can reach the store");
  }
  if (held.nonce == op.nonce || held.nonce == released_nonce(op.nonce)) {
    violated(who + " arrived late, when it had ended, and was given anew");
  }
  if (held.fingerprint != op.fingerprint) violated(who + " is for another request than the record");
  if (live) violated(who + " was given while the owner's lease runs");
  if (has_expired(held)) violated(who + " was given while the expired key is remembered");
  if (held.state == Fact::State::succeeded) violated(who + " was given after a success");
  if ((held.state == Fact::State::started && !live) || held.state == Fact::State::unknown) {
    if (op.terms.on_unknown == OnUnknown::hold) violated(who + " was given although the key is on hold");
    if (op.terms.on_unknown == OnUnknown::takeover &&
        clock_->now() < saturating_add(held.claimed_at, op.terms.takeover_after)) {
      violated(who + " took over too early");
    }
  }
}

void History::granted(Key& key, const Op& op) {
  const Fact& held = key.now;
  made_.insert(op.nonce);
  for (auto& [lost, claims] : lost_by_store_) claims += lost.first == op.id ? 1 : 0;
  const bool live = is_live(held);
  // The record may have been deleted before the clock was set back.
  const bool had_ended = held.state != Fact::State::started || latest_ >= held.lease_until;
  const bool gone = held.state == Fact::State::none || (latest_ >= held.forget_at() && had_ended);
  const bool sent_again = held.state == Fact::State::started && held.nonce == op.nonce;
  // The same claim arrived again. If the first one had expired, this is a new claim.
  if (sent_again && (!gone || op.record->started_at == held.claimed_at)) return;
  if (!gone) check_grant(key, op, live);
  if (op.record->fence <= key.fence) violated(fmt::format("key {}: a fence did not grow", name(op.id)));
  key.fence = op.record->fence;
  // If the clock was set back, an expired record may be valid again: the attempt number shows which.
  const bool was_there = held.state != Fact::State::none && op.record->attempt > Attempt{1};
  if (gone && !was_there) {
    key.effects = 0;
    ++key.generation;
  }
  ends_as(key, End::open);
  key.before = gone && !was_there ? Fact() : held;
  // A release restores the previous attempt, which has no owner any more.
  if (key.before.state == Fact::State::started) key.before.state = Fact::State::unknown;
  key.before.nonce = Nonce();
  key.before.drop_chunks();
  key.before.stopped = false;
  std::vector<OutcomeBytes> earlier;
  if (held.nonce == op.nonce) earlier = held.chunks;
  acknowledged_chunks_.erase(op.nonce);  // a copy of the claim that arrived after others
  key.now = after_claim(op);
  key.holder = op.holder;
  key.tenant = op.tenant;
  key.now.earlier = std::move(earlier);
  key.perhaps.clear();
  if (key.before.state != Fact::State::none) {
    key.before.expires_at = key.now.expires_at;
    key.before.remembered = key.now.remembered;
  }
  changed(key);
}

void History::wrote(Key& key, const Op& op) {
  if (key.now.state == Fact::State::none || key.now.nonce != op.nonce) {
    return violated(fmt::format("key {}: {} wrote without owning the claim", name(op.id), short_hex(op.nonce)));
  }
  const bool already =
      op.verb == Verb::finish && key.now.state != Fact::State::started && after_write(key, op).state == key.now.state;
  if (already) return;
  const Nonce sent_under = op.verb == Verb::finish ? began_under(op.nonce) : op.nonce;
  const auto execution = std::ranges::find(executions_, sent_under, &Execution::nonce);
  const bool has_result =
      execution != executions_.end() && (execution->received || execution->committed || execution->recorded_failure);
  const bool stop = is_stop(op) && asked_to_stop_.contains(op.id);
  if (op.verb == Verb::finish && op.final_state != State::unknown && !has_result && !stop) {
    violated(fmt::format("key {}: {} recorded an outcome that no request produced", name(op.id), short_hex(op.nonce)));
  }
  if (op.verb == Verb::release && execution != executions_.end()) {
    if (!has_result) {
      violated(
          fmt::format("key {}: {} released after its bytes went to the backend", name(op.id), short_hex(op.nonce)));
    }
  }
  const bool open =
      key.now.state == Fact::State::started || (op.verb == Verb::finish && key.now.state == Fact::State::unknown);
  if (!open) violated(fmt::format("key {}: {} wrote over what was recorded", name(op.id), short_hex(op.nonce)));
  key.now = after_write(key, op);
  // The owner has given up, although its connection to the backend may still be open.
  if (op.verb == Verb::finish && op.final_state == State::unknown) at_backend_.erase(sent_under);
  if (!only_acknowledged_counts_) is_recorded(key);
  changed(key);
}

void History::is_recorded(Key& key) {
  if (key.now.state != Fact::State::succeeded) return;
  ends_as(key, key.now.stopped ? End::stopped : End::ended);
  if (key.now.stopped) is_stopped(key.now);
  if (key.now.resolved_by) {
    OperatorDecision& decision = decisions_[*key.now.resolved_by];
    decision.done = true;
    decision.fingerprint = key.now.fingerprint;
    decision.recorded = key.generation;
  }
  // If an operator resolved the key without a response, the owner may still record its own.
  if (!key.now.resolved_by || !key.now.outcome) recorded_[began_under(key.now.nonce)] = key.generation;
}

void History::owner_ended() {
  owners_end_with_store_ = true;
  for (auto& [id, key] : keys_) {
    Fact& held = key.now;
    if (held.state != Fact::State::started) continue;
    if (!held.leased) held.lease_until = Time::min();
    held.lapsed = held.lease_until <= latest_;
  }
}

// Whether a replay of this record gives what was recorded. Chunks of an expired record are deleted before it.
bool History::gives(const Fact& fact, const Record& record) const {
  const bool may_lack_chunks = fact.in_chunks && fact.expires_at <= latest_;
  if (record.body_kept == BodyKept::no) return fact.outcome == nullptr || may_lack_chunks;
  if (fact.in_chunks != (record.body_kept == BodyKept::in_chunks)) return false;
  return fact.outcome && record.outcome && *fact.outcome == *record.outcome;
}

bool History::is_as(const Fact& fact, const std::optional<Record>& record) const {
  const bool nothing = fact.state == Fact::State::none;
  if (!record) return nothing || fact.forget_at() <= latest_;
  if (nothing || record->nonce != fact.nonce) return false;
  if (fact.aged && record->state != State::tombstone) return false;
  switch (record->state) {
    case State::started: return fact.state == Fact::State::started;
    case State::succeeded: return fact.state == Fact::State::succeeded && gives(fact, *record);
    case State::failed: return fact.state == Fact::State::failed;
    case State::unknown: return fact.state == Fact::State::unknown;
    case State::tombstone: return fact.expires_at <= latest_;
  }
  return false;
}

void History::found_after_restart(const OperationId& id, const std::optional<Record>& record) {
  Key& key = keys_[id];
  const auto fits = [&](const Fact& fact) { return is_as(fact, record); };
  // An owner outside the process that has the store gets time to renew, if its lease had not ended before.
  const auto extend = [this](Fact& fact) {
    if (!fact.leased || fact.state != Fact::State::started) return;
    const Time until = clock_->now() + lease_after_restart;
    fact.perhaps_live_until = std::max(fact.perhaps_live_until, until);
    if (!fact.lapsed) fact.lease_until = std::max(fact.lease_until, until);
  };
  if (owners_end_with_store_) {
    extend(key.now);
    std::ranges::for_each(key.perhaps, extend);
  }
  // An unacknowledged outcome may have been written without its body for lack of room.
  const bool no_body = record && record->state == State::succeeded && record->body_kept == BodyKept::no;
  for (Fact& fact : key.perhaps) {
    if (!no_body || fact.state != Fact::State::succeeded) continue;
    fact.outcome = nullptr;
    fact.drop_chunks();
  }
  if (!fits(key.now)) {
    const auto written = std::ranges::find_if(key.perhaps, fits);
    if (written == key.perhaps.end()) {
      violated(
          fmt::format("key {} is {} after the restart, but it was {}", name(id),
                      record ? fmt::format("{} by {}", text_of(record->state), short_hex(record->nonce)) : "forgotten",
                      to_text(key.now)));
    } else {
      if (written->state == Fact::State::none || key.now.expires_at <= latest_) ++key.generation;
      key.now = *written;
      is_recorded(key);
    }
  }
  if (record && record->state == State::tombstone) key.now.aged = true;
  // If no record is left because the clock was ahead, another restart may find it again after the clock was set back.
  std::erase_if(key.perhaps, [&](const Fact& fact) { return record || !fits(fact); });
}

void History::changed(Key& key) {
  if (!lag_ && !only_acknowledged_counts_) return;
  key.since.push_back({.now = key.now, .before = key.before, .at = world_.now()});
}

void History::store_emptied() {
  for (auto& [id, key] : keys_) {
    if (key.now.state == Fact::State::none) continue;
    stopped_.erase(began_under(key.now.nonce));
    const unsigned generation = key.generation + 1;
    key = {.generation = generation, .ends = std::move(key.ends)};
    ends_as(key, End::open);
  }
  for (OperatorDecision& decision : decisions_) decision.lost = decision.lost || decision.done;
}

void History::acknowledged(const OperationId& id) {
  if (leaves_out(id)) return;
  Key& key = keys_[id];
  key.safe = {.now = key.now, .before = key.before};
  key.since.clear();
  is_recorded(key);
}

void History::failed_over(const OperationId& id, const std::optional<Record>& record,
                          const std::vector<OutcomeBytes>& chunks) {
  Key& key = keys_[id];
  while (lag_ && !key.since.empty() && key.since.front().at + *lag_ < world_.now()) {
    key.safe = key.since.front();
    key.since.erase(key.since.begin());
  }
  const auto fits = [&](const Version& version) {
    if (!is_as(version.now, record)) return false;
    if (!record) return true;
    if (version.now.chunks != chunks && (chunks.empty() || version.now.earlier != chunks)) return false;
    // Compare the times, too: versions before and after a renewal or a release may differ in nothing else.
    return version.now.expires_at == record->expires_at &&
           (record->state != State::started || version.now.lease_until == record->lease_until);
  };
  const auto newest = std::ranges::find_if(key.since.rbegin(), key.since.rend(), fits);
  const bool nothing_lost = newest == key.since.rbegin();
  if (newest != key.since.rend()) {
    key.safe = *newest;
  } else if (!fits(key.safe)) {
    violated(fmt::format("key {} is {} after the failover, but it was {}", name(id),
                         record ? fmt::format("{} by {}", text_of(record->state), short_hex(record->nonce)) : "none",
                         to_text(key.safe.now)));
  }
  if (!nothing_lost) {
    ++key.generation;
    for (OperatorDecision& decision : decisions_) decision.lost = decision.lost || (decision.done && decision.id == id);
    if (!key.safe.now.stopped) stopped_.erase(began_under(key.now.nonce));
    key.now = key.safe.now;
    key.before = key.safe.before;
    ends_as(key, End::open);
    if (!only_acknowledged_counts_) is_recorded(key);
  }
  // Another clock is used from now on, and without a record it alone determines the fences.
  key.fence = record ? record->fence : Fence{};
  check_chunks_after_failover(id, key.now);
  key.since.clear();
}

}  // namespace once::sim
