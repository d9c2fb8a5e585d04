// Bugs that are planted on purpose, to prove that the simulator finds them. In a release planted() is false at compile
// time and leaves nothing behind; with ONCE_BUGS, which only the dev preset sets, tests/sim picks one.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

namespace once {

enum class Bug : std::uint8_t {
  none,
  finish_without_nonce,         // any owner may record an outcome
  renew_without_nonce,          // any owner may renew
  reply_before_record,          // the client is told although recording failed
  lease_not_renewed,            // a slow backend loses its claim
  release_after_sent,           // a lost connection frees the key
  mismatch_ignored,             // another request under the key gets the answer
  caller_not_in_id,             // callers share keys
  expires_by_wrong_clock,       // expiry counts from when the claim was made, by a clock that is ahead
  takeover_too_early,           // takeover_after is not waited for
  hold_executes,                // hold is treated as retry
  tombstone_executes,           // a key that is remembered is executed again
  unknown_as_failed,            // a lost response counts as a failure
  recovery_frees_claims,        // claims in flight at a crash are forgotten
  recovery_skips_checksums,     // a torn tail is read as if it were whole
  journal_without_sync,         // told before it is on disk
  transaction_without_nonce,    // a backend's transaction is committed whoever owns the claim
  claim_past_open_transaction,  // a claim is given while a backend is about to commit
  answer_over_committed,        // the client is told what came over the wire, not what was committed
  waits_without_pause,          // a record that is about to be committed is claimed again and again
  refused_hides_unavailable,    // a claim that may have been made is forgotten when asking again is refused
  replicas_not_waited_for,      // a write counts before the replica has it
  replays_not_waited_for,       // what others wrote is told before the replica has it
  replica_far_behind,           // a failover loses more than the last writes
  forget_ignores_state,         // an operator drops what the owner has finished since
  resolve_ignores_nonce,        // an operator settles what somebody else has claimed since
  resolve_over_outcome,         // an operator settles what the owner has finished since
  operator_ends_live_claim,     // an operator takes away what its owner is at
  version_ignored,              // an operator changes something else than what was looked at
  unknown_told_as_none,         // an operator is told that nothing was changed, and nobody knows
  finish_over_resolved,         // an owner that comes back writes over what an operator said
  tombstone_not_forgotten,      // an operator cannot drop a key that has expired and is remembered
  starts_what_is_at_work,       // a process starts an operation that it has at work itself
  late_claim_counts,            // a claim that arrives when it has ended begins anew
  first_claim_forgotten,        // a claim that was given up is not taken back when asking again says something else
  sends_what_is_lost,           // an owner that has lost its claim while it connects sends all the same
};

inline constexpr std::array bug_names = {
    std::pair(std::string_view("finish_without_nonce"), Bug::finish_without_nonce),
    std::pair(std::string_view("renew_without_nonce"), Bug::renew_without_nonce),
    std::pair(std::string_view("reply_before_record"), Bug::reply_before_record),
    std::pair(std::string_view("lease_not_renewed"), Bug::lease_not_renewed),
    std::pair(std::string_view("release_after_sent"), Bug::release_after_sent),
    std::pair(std::string_view("mismatch_ignored"), Bug::mismatch_ignored),
    std::pair(std::string_view("caller_not_in_id"), Bug::caller_not_in_id),
    std::pair(std::string_view("expires_by_wrong_clock"), Bug::expires_by_wrong_clock),
    std::pair(std::string_view("takeover_too_early"), Bug::takeover_too_early),
    std::pair(std::string_view("hold_executes"), Bug::hold_executes),
    std::pair(std::string_view("tombstone_executes"), Bug::tombstone_executes),
    std::pair(std::string_view("unknown_as_failed"), Bug::unknown_as_failed),
    std::pair(std::string_view("recovery_frees_claims"), Bug::recovery_frees_claims),
    std::pair(std::string_view("recovery_skips_checksums"), Bug::recovery_skips_checksums),
    std::pair(std::string_view("journal_without_sync"), Bug::journal_without_sync),
    std::pair(std::string_view("transaction_without_nonce"), Bug::transaction_without_nonce),
    std::pair(std::string_view("claim_past_open_transaction"), Bug::claim_past_open_transaction),
    std::pair(std::string_view("answer_over_committed"), Bug::answer_over_committed),
    std::pair(std::string_view("waits_without_pause"), Bug::waits_without_pause),
    std::pair(std::string_view("refused_hides_unavailable"), Bug::refused_hides_unavailable),
    std::pair(std::string_view("replicas_not_waited_for"), Bug::replicas_not_waited_for),
    std::pair(std::string_view("replays_not_waited_for"), Bug::replays_not_waited_for),
    std::pair(std::string_view("replica_far_behind"), Bug::replica_far_behind),
    std::pair(std::string_view("forget_ignores_state"), Bug::forget_ignores_state),
    std::pair(std::string_view("resolve_ignores_nonce"), Bug::resolve_ignores_nonce),
    std::pair(std::string_view("resolve_over_outcome"), Bug::resolve_over_outcome),
    std::pair(std::string_view("operator_ends_live_claim"), Bug::operator_ends_live_claim),
    std::pair(std::string_view("version_ignored"), Bug::version_ignored),
    std::pair(std::string_view("unknown_told_as_none"), Bug::unknown_told_as_none),
    std::pair(std::string_view("finish_over_resolved"), Bug::finish_over_resolved),
    std::pair(std::string_view("tombstone_not_forgotten"), Bug::tombstone_not_forgotten),
    std::pair(std::string_view("starts_what_is_at_work"), Bug::starts_what_is_at_work),
    std::pair(std::string_view("late_claim_counts"), Bug::late_claim_counts),
    std::pair(std::string_view("first_claim_forgotten"), Bug::first_claim_forgotten),
    std::pair(std::string_view("sends_what_is_lost"), Bug::sends_what_is_lost),
};

#ifdef ONCE_BUGS
inline Bug planted_bug = Bug::none;  // set before anything runs
inline bool planted(Bug bug) {
  return planted_bug == bug;
}
#else
constexpr bool planted(Bug /*bug*/) {
  return false;
}
#endif

}  // namespace once
