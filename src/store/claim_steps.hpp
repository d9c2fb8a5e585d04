// The decisions of the claim protocol, without I/O. Each class is told what the store answered and says what to ask
// next, or how long to wait; claimant.hpp drives them. What holds for all of them:
// - A claim whose answer was lost is sent again with the same nonce: it is the same claim.
// - Lanes and drivers resend inside of one call, and an answer may be held up on its way. So a claim can be granted to
//   a caller whose lease is over by then. It is renewed before anything is done under it.
// - A claim that got no answer may stand, or may reach the store later. Nobody owns it, so it is taken back.
// - Another request of this process may be given a newer claim for work that is under way (executions.hpp). The work
//   renews and records under that one from then on.
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
  perhaps,  // no answer came: it may have been made, or may reach the store yet
};

// When a claim whose lease may be over is renewed: as soon as it is granted, or by the caller (Claimant::hold), who has
// something to do before it acts on the claim.
enum class Hold : std::uint8_t { at_once, later };

struct ClaimResult {
  Stands stands = Stands::no;
  bool overtaken = false;  // it was granted, and another owner had it before it could be held
  Time asked{};            // when the claim was asked for the first time
  Time held_since{};       // when its lease was asked for the last time: the lease runs at least from then on
};

// A claim, from the first time that it is asked for until it can be relied on. The answer is in the op: a claim that
// was taken over before it could be held is in flight, one that could not be held in time has failed.
class ClaimSteps {
 public:
  // The op has a nonce that no other claim has, and outlives this.
  explicit ClaimSteps(Op& claim, Hold hold = Hold::at_once) : claim_(claim), hold_(hold) {}
  // A claim that was granted, and whose lease was asked for at `since`: renewed if it may be over by now.
  ClaimSteps(Op& granted, Time since) : claim_(granted), stage_(Stage::answered) {
    result_.asked = result_.held_since = since;
  }

  // What to ask the store now; the first call says what to ask first. Null: it is decided.
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

// Keeps the lease of a claim while its owner is at work. The driver asks for due() when a renewal is due and reports
// the answer; how time passes is the driver's business.
class LeaseSteps {
 public:
  // `held_since`: when the lease was asked for. With `work`, a claim that is handed to it is renewed from then on.
  void start(const Op& claim, Time held_since, const Executions::Entry* work);
  // There is nothing to renew until a claim is handed over.
  void start_unclaimed(const Op& failed, Time now, const Executions::Entry& work);

  // How long until the first renewal.
  Duration first(Time now) const;
  // From the time one is asked for to the next one.
  Duration every() const { return op_.terms.lease / renewals_per_lease; }
  // After one that failed, or took so long that the next one is due.
  Duration soon() const { return op_.terms.lease / retries_per_lease; }

  // What to ask for. Null: the claim is lost, and no other one was handed over.
  Op* due(Time now);
  // `renewal` has the answer to due().
  void answered(const Op& renewal);
  // Somebody else has renewed it, and asked for that then.
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

// How long an op is tried on.
struct Patience {
  Duration limit{};  // zero: it is asked once
  // A claim that may still be on its way is not there to be ended yet: for how long an end goes on after the store said
  // that it does not have the claim.
  Duration on_its_way{};
};

// For the end of a claim: until its record has expired. In a store that is not shared only its owner, this process, can
// end it.
Patience patience_for_end(const Op& end, Stands claim, Shared shared);

// A finish or a release that is asked again until the store has taken it or patience ends; also a claim that waits for
// the owner before it.
class EndSteps {
 public:
  // The op outlives this. `work`: the newest claim that was handed to it is the one that is ended.
  EndSteps(Op& end, const Patience& patience, const Executions::Entry* work = nullptr);

  // For an op that has failed already: how long until it is asked. Nothing: it is not worth asking.
  std::optional<Duration> first(const Store& store);
  // The op has been answered, `since` after it was asked for the first time: how long until it is asked again. Nothing:
  // that was the last time.
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

// What a look-up says of the claim with this nonce.
enum class Standing : std::uint8_t {
  unseen,      // the store did not answer
  nothing,     // there is no record
  started,     // it stands
  succeeded,   // it was finished, by its owner or in its name
  failed,      //
  unknown,     //
  expired,     // what it recorded is not told any more
  released,    // it was taken back, and nobody has claimed since
  taken_over,  // somebody else has, or had, a claim
};
Standing standing_of(const Op& lookup, const Nonce& nonce);

// Whether the owner is at work, as far as a look-up that was answered says.
bool owner_works(const Op& look);

// A finish was done, and what every retry gets is not what it brought: the first outcome stands, recorded by the
// backend in this owner's name.
bool another_outcome_stands(const Op& finish);

// True: a newer claim has been handed to this work, and is the op's now.
bool take_handed(Op& op, const Executions::Entry* work);

// Ends the claim with this nonce, of the same operation as `claim`: it is taken back, or finished as unknown.
Op end_of(const Op& claim, Verb verb, const Nonce& nonce);

}  // namespace once::store
