#include "store/verbs.hpp"

#include "base/sometimes.hpp"

namespace once::store {

bool is_same_claim(const Record& record, const Op& claim) {
  return record.state == State::started && record.nonce == claim.nonce && record.fingerprint == claim.fingerprint;
}

bool is_ended_claim(const Record& record, const Op& claim, Time now) {
  sometimes<"store: a released claim arrives again">(record.nonce == released_nonce(claim.nonce));
  if (record.nonce == released_nonce(claim.nonce)) return true;
  return record.nonce == claim.nonce && record.state != State::started && !forgotten(record, now);
}

Written renew(Record& record, const Op& op, Time now) {
  if (record.nonce != op.nonce || record.state != State::started) return Written::no;
  record.lease_until = saturating_add(now, op.terms.lease);
  return Written::yes;
}

namespace {

void end(Record& record, const Op& op, Time now) {
  record.state = op.final_state;
  record.body_kept = op.body_kept;
  record.outcome = op.outcome;
  keep_for(record, op.terms.ttl, now);
}

}  // namespace

Written finish(Record& record, const Op& op, Time now) {
  if (record.nonce != op.nonce) return Written::no;
  if (record.state == op.final_state && record.state != State::started) return Written::already;
  const bool learned_more = record.state == State::unknown && op.final_state != State::started;
  sometimes<"store: an owner learns what became of an unknown outcome">(learned_more);
  if (record.state != State::started && !learned_more) return Written::no;
  end(record, op, now);
  return Written::yes;
}

Written resolve(Record& record, const Op& op, Time now) {
  const bool open = record.state == State::unknown || (record.state == State::started && now >= record.lease_until);
  const bool same_claim = record.nonce == op.nonce;
  const bool same_state = record.state == op.seen_state && open;
  sometimes<"store: resolve refused, the record changed">(!same_claim || !same_state);
  if (!same_claim || !same_state) return Written::no;
  end(record, op, now);
  return Written::yes;
}

bool may_append(const Record& record, const Op& op) {
  return record.nonce == op.nonce && record.state == State::started;
}

bool may_release(const Record& record, const Op& op) {
  return record.nonce == op.nonce && record.state == State::started;
}

bool may_forget(const Record& record, const Op& op, Time now) {
  const State state = expired(record, now) ? State::tombstone : record.state;
  const bool same_state = state == op.seen_state;
  const bool live = state == State::started && now < record.lease_until;
  sometimes<"store: forget refused, the lease runs">(record.nonce == op.nonce && same_state && live);
  return record.nonce == op.nonce && same_state && !live && !forgotten(record, now);
}

}  // namespace once::store
