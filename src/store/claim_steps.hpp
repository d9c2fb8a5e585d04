// The decisions of the claim protocol, without I/O. Each class gets the store's answer and returns the next op, or how
// long to wait; claimant.hpp drives them. Rules that they all follow:
// - A claim whose answer was lost is sent again with the same nonce: it is the same claim.
// - Lanes and drivers resend within one call, and answers can be late. So the lease of a claim may have ended by the
//   time it is granted. It is renewed before any work is done under it.
// - A claim without an answer may exist, or may reach the store later. It has no owner, so it is released.
// - Another request of this process may get a newer claim for work that is already running (executions.hpp). The work
//   then renews and records under that claim.
#pragma once

#include <cstdint>
#include <optional>

#include "base/backoff.hpp"
#include "base/clock.hpp"
#include "store/executions.hpp"
#include "store/store.hpp"

namespace once::store {

// Whether a claim exists in the store.
enum class Stands : std::uint8_t {
  no,
  yes,      // it is granted
  perhaps,  // there was no answer: it may exist, or may still arrive
};

// When to renew a claim whose lease may have ended: as soon as it is granted, or later by the caller (Claimant::hold),
// who has other work to do before it uses the claim.
enum class Hold : std::uint8_t { at_once, later };

struct ClaimResult {
  Stands stands = Stands::no;
  bool overtaken = false;  // granted, but taken over before it could be renewed
  Time asked{};            // when the claim was first asked for
  Time held_since{};       // when its lease was last asked for: it lasts at least from then on
};

// A claim, from the first request until it can be relied on. The op has the result: a claim that was taken over before
// it could be renewed is in_flight; one that could not be renewed in time has failed.
class ClaimSteps {
 public:
  // The op has a unique nonce and outlives this.
  explicit ClaimSteps(Op& claim, Hold hold = Hold::at_once) : claim_(claim), hold_(hold) {}
  // For a claim that was granted, whose lease was asked for at `since`: renews it if it may have ended.
  ClaimSteps(Op& granted, Time since) : claim_(granted), stage_(Stage::answered) {
    result_.asked = result_.held_since = since;
  }

  // The next op for the store; the first call returns the first one. Null: decided.
  Op* next(const Store& store, Time now);

  const ClaimResult& result() const { return result_; }

 private:
  enum class Stage : std::uint8_t { unasked, asked, answered, renewed, decided };

  Op* decide();

  Op& claim_;
  const Hold hold_ = Hold::at_once;
  Stage stage_ = Stage::unasked;
  bool unanswered_ = false;  // at least once
  ClaimResult result_;
  std::optional<Op> renewal_;
};

// Keeps the lease of a claim alive while its owner works. The driver calls due() when a renewal is due, reports the
// answer, and does the waiting.
class LeaseSteps {
 public:
  // `held_since` is when the lease was asked for. With `work`, a newer claim that is handed to it is renewed from then
  // on.
  void start(const Op& claim, Time held_since, const Executions::Entry* work);
  // For a claim that failed: nothing is renewed until a claim is handed to `work`.
  void start_unclaimed(const Op& failed, Time now, const Executions::Entry& work);

  // The time until the first renewal.
  Duration first(Time now) const;
  // The time between the starts of two renewals.
  Duration every() const { return op_.terms.lease / renewals_per_lease; }
  // The pause after a renewal that failed, or took until the next one was due.
  Duration soon() const { return op_.terms.lease / retries_per_lease; }

  // The next renewal op. Null: the claim is lost, and no newer one was handed over.
  Op* due(Time now);
  // `renewal` has the answer to due().
  void answered(const Op& renewal);
  // Other code has renewed the lease with a request sent at `asked`.
  void renewed(Time asked);

  bool lost() const { return lost_; }
  // Whether the claim is lost for good.
  bool over() const { return lost_ && work_ == nullptr; }
  // Whether the first claim is still valid and its lease was renewed in time. False after a newer claim was handed
  // over: that one is for work that is already running.
  bool holds_first(Time now) const;

 private:
  // A renewal starts when two thirds of the lease are left.
  static constexpr int renewals_per_lease = 3;
  static constexpr int retries_per_lease = 30;

  Op op_;
  Nonce first_{};     // of the first claim
  Time asked_at_;     // when the last successful renewal was sent
  Time asking_at_{};  // when the current renewal was sent
  const Executions::Entry* work_ = nullptr;
  bool lost_ = false;  // the current claim is lost
};

// How long an op is retried.
struct Patience {
  Duration limit{};  // zero: it is tried once
  // A claim that has not arrived yet cannot be ended: how long to retry after the store reports that it does not have
  // the claim.
  Duration on_its_way{};
};

// How long to retry the end of a claim: until its record has expired. In a store that is not shared, only this process
// can end its claims.
Patience patience_for_end(const Op& end, Stands claim, Shared shared);

// Retries a finish, a release or an append until the store has accepted it or patience ends; also a claim that waits
// for the previous owner. An append that the store refuses because it is full, or because it has lost earlier chunks,
// is not retried.
class EndSteps {
 public:
  // The op outlives this. With `work`, the newest claim that was handed to it is the one that is ended.
  EndSteps(Op& end, const Patience& patience, const Executions::Entry* work = nullptr);

  // For an op that has already failed: the pause before the next try. nullopt: do not retry.
  std::optional<Duration> first(const Store& store);
  // The op was answered, `since` after the first try: the pause before the next try. nullopt: do not retry.
  std::optional<Duration> again(const Store& store, Duration since);

 private:
  Op& end_;
  const Patience patience_;
  const Executions::Entry* work_;
  Backoff backoff_;
  Duration pause_{};      // before the last try
  Duration waited_{};     // total
  Duration not_there_{};  // since the store first reported that it does not have the claim
};

// What a lookup says about the claim with this nonce.
enum class Standing : std::uint8_t {
  unseen,      // the store did not answer
  nothing,     // no record exists
  started,     // the claim exists
  succeeded,   // finished by its owner, or in its name
  failed,      //
  unknown,     //
  expired,     // its outcome is no longer returned
  released,    // it was released, and there was no claim since
  taken_over,  // another owner has, or had, a claim
};
Standing standing_of(const Op& lookup, const Nonce& nonce);

// Whether an answered lookup shows an owner that is executing.
bool owner_works(const Op& look);

// Whether a finish is done although its own outcome was not recorded: the backend had committed another one in this
// owner's name, which retries get.
bool another_outcome_stands(const Op& finish);

// Whether another claim of the same operation replaced a lost one: then it is in the op.
enum class NewerClaim : std::uint8_t { none, taken };

// Puts a newer claim that was handed to this work into the op.
NewerClaim take_handed(Op& op, const Executions::Entry* work);

// Ends the claim with this nonce, of the same operation as `claim`: releases it, or finishes it as unknown.
Op end_of(const Op& claim, Verb verb, const Nonce& nonce);

}  // namespace once::store
