#include "core/decision.hpp"

#include <algorithm>

#include "base/assert.hpp"

namespace once::core {

namespace {

// Calls `visit` with every combination of facts.
constexpr void for_each_fact(auto&& visit) {
  for (const Found found :
       {Found::nothing, Found::started, Found::succeeded, Found::failed, Found::unknown, Found::tombstone}) {
    for (const Same same : {Same::no, Same::yes}) {
      for (const Lease lease : {Lease::live, Lease::lapsed}) {
        for (const OnUnknown on_unknown : {OnUnknown::retry, OnUnknown::takeover, OnUnknown::hold}) {
          for (const Takeover takeover : {Takeover::not_yet, Takeover::due}) {
            for (const BodyKept kept : {BodyKept::yes, BodyKept::no, BodyKept::in_chunks}) {
              visit(Facts{found, same, lease, on_unknown, takeover, kept});
            }
          }
        }
      }
    }
  }
}

consteval bool total() {
  bool every_fact_has_a_row = true;
  for_each_fact([&](const Facts& facts) {
    bool fits = false;
    for (const auto& row : decision::table) fits = fits || row.fits(facts);
    every_fact_has_a_row = every_fact_has_a_row && fits;
  });
  return every_fact_has_a_row;
}

consteval bool no_dead_row() {
  std::array<bool, decision::table.size()> used{};
  for_each_fact([&](const Facts& facts) {
    for (std::size_t i = 0; i < decision::table.size(); ++i) {
      if (decision::table[i].fits(facts)) {
        used[i] = true;
        return;
      }
    }
  });
  for (const bool row_used : used) {
    if (!row_used) return false;
  }
  return true;
}

static_assert(total(), "a combination of facts has no verdict");
static_assert(no_dead_row(), "a row of the table can never be reached");

Found found_of(State state) {
  switch (state) {
    case State::started: return Found::started;
    case State::succeeded: return Found::succeeded;
    case State::failed: return Found::failed;
    case State::unknown: return Found::unknown;
    case State::tombstone: return Found::tombstone;
  }
  ONCE_ASSERT(false);
}

Lease lease_of(const Record& record, Time now) {
  return record.state == State::started && now < record.lease_until ? Lease::live : Lease::lapsed;
}

}  // namespace

Time saturating_add(Time now, Duration after) {
  return after > Time::max() - now ? Time::max() : now + after;
}

bool expired(const Record& record, Time now) {
  return record.expires_at <= now && lease_of(record, now) == Lease::lapsed;
}

bool forgotten(const Record& record, Time now) {
  return record.forget_at <= now && expired(record, now);
}

void age(Record& record, Time now) {
  if (!expired(record, now)) return;
  record.state = State::tombstone;
  record.outcome.reset();
}

void keep_for(Record& record, Duration ttl, Time now) {
  const bool for_ever = record.forget_at == Time::max();
  const Duration remembered = std::max(record.forget_at - record.expires_at, Duration::zero());
  record.expires_at = saturating_add(now, ttl);
  record.forget_at = for_ever ? Time::max() : saturating_add(record.expires_at, remembered);
}

Facts facts_of(const Record* record, const Fingerprint& fingerprint, const ClaimTerms& terms, Time now) {
  if (record == nullptr || forgotten(*record, now)) {
    return {.found = Found::nothing,
            .same_fingerprint = Same::no,
            .lease = Lease::lapsed,
            .on_unknown = terms.on_unknown,
            .takeover = Takeover::not_yet,
            .body_kept = BodyKept::no};
  }
  const bool due = saturating_add(record->started_at, terms.takeover_after) <= now;
  const bool same = record->fingerprint == fingerprint;
  const bool tombstone = expired(*record, now) || record->state == State::tombstone;
  return {.found = tombstone ? Found::tombstone : found_of(record->state),
          .same_fingerprint = same ? Same::yes : Same::no,
          .lease = lease_of(*record, now),
          .on_unknown = terms.on_unknown,
          .takeover = due ? Takeover::due : Takeover::not_yet,
          .body_kept = record->body_kept};
}

Record claimed(const Record* previous, const Fingerprint& fingerprint, const Nonce& nonce, const ClaimTerms& terms,
               Time now) {
  Record record;
  if (previous != nullptr) {
    // The fence outlives the record: an owner from before the expiry still has an older one.
    record.fence = Fence{static_cast<std::uint64_t>(previous->fence) + 1};
    if (!forgotten(*previous, now)) {
      record.attempt = Attempt{static_cast<std::uint32_t>(previous->attempt) + 1};
      record.previous_state = previous->state == State::started ? State::unknown : previous->state;
      record.previous_started_at = previous->started_at;
    }
  }
  record.state = State::started;
  record.fingerprint = fingerprint;
  record.nonce = nonce;
  record.started_at = now;
  record.lease_until = saturating_add(now, terms.lease);
  record.expires_at = saturating_add(now, terms.ttl);
  record.forget_at = saturating_add(record.expires_at, terms.tombstone);
  return record;
}

Nonce released_nonce(const Nonce& nonce) {
  Nonce swapped = nonce;
  std::ranges::rotate(swapped.bytes, swapped.bytes.begin() + swapped.bytes.size() / 2);
  return swapped;
}

std::optional<Record> released(const Record& record) {
  ONCE_ASSERT(record.state == State::started);
  if (record.attempt == Attempt{1}) return std::nullopt;
  Record before = record;
  before.state = record.previous_state;
  before.attempt = Attempt{static_cast<std::uint32_t>(record.attempt) - 1};
  before.started_at = record.previous_started_at;
  before.nonce = released_nonce(record.nonce);
  return before;
}

Record trace_of_release(const Record& record) {
  Record trace = record;
  trace.state = State::failed;
  trace.nonce = released_nonce(record.nonce);
  trace.expires_at = Time();
  trace.forget_at = Time();
  return trace;
}

}  // namespace once::core
