// The decisions of the claim protocol, without I/O. Each class gets the store's answer and returns the next op, or how
// long to wait; claimant.hpp drives them. Rules that they all follow:
// - A claim whose answer was lost is sent again with the same nonce: it is the same claim.
// - Lanes and drivers resend within one call, and answers can be late. So the lease of a claim may have ended by the
//   time it is granted. It is renewed before any work is done under it.
// - A claim without an answer may exist, or may reach the store later. Nobody owns it, so it is released.
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

// Whether a claim stands in the store.
enum class Stands : std::uint8_t {
  no,
  yes,      // it is ours
  perhaps,  // no answer came: the claim may exist, or may still reach the store
};

// When to renew a claim whose lease may have ended: as soon as it is granted, or later by the caller (Claimant::hold),
// who has other work to do before it uses the claim.
enum class Hold : std::uint8_t { at_once, later };

struct ClaimResult {
  Stands stands = Stands::no;
  bool overtaken = false;  // it was granted, and taken over before it could be renewed
  Time asked{};            // when the claim was asked for the first time
  Time held_since{};       // when its lease was asked for the last time: the lease runs at least from then on
};

// A claim, from the first request until it can be relied on. The result is in the op: a claim that was taken over
// before it could be renewed is in_flight; one that could not be renewed in time has failed.
class ClaimSteps {
 public:
  // The op has a nonce that no other claim has, and outlives this.
  explicit ClaimSteps(Op& claim, Hold hold = Hold::at_once) : claim_(claim), hold_(hold) {}
  // A claim that was granted, and whose lease was asked for at `since`: renewed if it may be over by now.
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

// Keeps the lease of a claim while its owner is at work. The driver calls due() when a renewal is due and reports the
// answer. Waiting is up to the driver.
class LeaseSteps {
 public:
  // `held_since`: when the lease was asked for. With `work`, a claim that is handed to it is renewed from then on.
  void start(const Op& claim, Time held_since, const Executions::Entry* work);
  // There is nothing to renew until a claim is handed over.
  void start_unclaimed(const Op& failed, Time now, const Executions::Entry& work);

  // How long until the first renewal.
  Duration first(Time now) const;
  // From the start of one renewal to the start of the next.
  Duration every() const { return op_.terms.lease / renewals_per_lease; }
  // After a renewal that failed, or took so long that the next one is due.
  Duration soon() const { return op_.terms.lease / retries_per_lease; }

  // The next renewal. Null: the claim is lost, and no newer one was handed over.
  Op* due(Time now);
  // `renewal` has the answer to due().
  void answered(const Op& renewal);
  // The lease was renewed by other code, which asked for it at that time.
  void renewed(Time asked);

  bool lost() const { return lost_; }
  // The claim is lost for good.
  bool over() const { return lost_ && work_ == nullptr; }
  // The claim that it was started with is still ours, and its lease has been renewed in time. A claim that was handed
  // over since is for a request that was sent.
  bool holds_first(Time now) const;

 private:
  // Two thirds of a lease are left when a renewal sets out.
  static constexpr int renewals_per_lease = 3;
  static constexpr int retries_per_lease = 30;

  Op op_;
  Nonce first_{};     // the claim that it was started with
  Time asked_at_;     // for the last renewal that was done
  Time asking_at_{};  // for the one under way
  const Executions::Entry* work_ = nullptr;
  bool lost_ = false;  // the claim at hand is not ours
};

// How long an op is retried.
struct Patience {
  Duration limit{};  // zero: it is asked once
  // A claim that is still on its way cannot be ended yet: how long to retry after the store said that it does not have
  // the claim.
  Duration on_its_way{};
};

// How long the end of a claim is retried: until its record has expired. In a store that is not shared, only this
// process can end its claims.
Patience patience_for_end(const Op& end, Stands claim, Shared shared);

// Retries a finish, a release or an append until the store has accepted it or patience ends; also a claim that waits
// for the previous owner. An append that the store refuses because it is full, or because it has lost earlier chunks,
// is not retried.
class EndSteps {
 public:
  // The op outlives this. `work`: the newest claim that was handed to it is the one that is ended.
  EndSteps(Op& end, const Patience& patience, const Executions::Entry* work = nullptr);

  // For an op that has already failed: how long until the next try. Nothing: do not retry.
  std::optional<Duration> first(const Store& store);
  // The op was answered, `since` after the first try: how long until the next try. Nothing: that was the last one.
  std::optional<Duration> again(const Store& store, Duration since);

 private:
  Op& end_;
  const Patience patience_;
  const Executions::Entry* work_;
  Backoff backoff_;
  Duration pause_{};      // before the last try
  Duration waited_{};     // in all
  Duration not_there_{};  // since the store answered that it does not have the claim
};

// What a lookup says about the claim with this nonce.
enum class Standing : std::uint8_t {
  unseen,      // the store did not answer
  nothing,     // there is no record
  started,     // it stands
  succeeded,   // it was finished, by its owner or in its name
  failed,      //
  unknown,     //
  expired,     // its outcome is no longer returned
  released,    // it was released, and there was no claim since
  taken_over,  // another owner has, or had, a claim
};
Standing standing_of(const Op& lookup, const Nonce& nonce);

// Whether the owner is at work, as far as a look-up that was answered says.
bool owner_works(const Op& look);

// A finish was done, and what every retry gets is not what it brought: the first outcome stands, recorded by the
// backend in this owner's name.
bool another_outcome_stands(const Op& finish);

// True: a newer claim has been handed to this work, and is the op's now.
bool take_handed(Op& op, const Executions::Entry* work);

// Ends the claim with this nonce, of the same operation as `claim`: releases it, or finishes it as unknown.
Op end_of(const Op& claim, Verb verb, const Nonce& nonce);

}  // namespace once::store
