// A guard without its template types: claims, runs the work, records. One object for all threads.
#pragma once

#include <atomic>
#include <expected>
#include <memory>
#include <mutex>
#include <string>

#include <once/guard.hpp>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/random.hpp"
#include "guard/async_loop.hpp"
#include "guard/background.hpp"
#include "guard/backing.hpp"
#include "guard/blocking.hpp"
#include "guard/caught.hpp"
#include "guard/observation.hpp"
#include "guard/operation.hpp"
#include "guard/own_process.hpp"
#include "guard/stop_presence.hpp"
#include "store/executions.hpp"
#include "store/waiters.hpp"

namespace once::guard {

// Shared by all threads of a guard.
class SharedRandom final : public Random {
 public:
  void fill(std::span<std::uint8_t> out) override {
    const std::scoped_lock lock(mutex_);
    random_.fill(out);
  }

 private:
  std::mutex mutex_;
  SystemRandom random_;
};

class Engine final : public std::enable_shared_from_this<Engine>, private ClaimantHost {
 public:
  using Opened = std::expected<Guard, OpenError>;
  // The clock for leases, takeover and expiry in a store that is not shared. It outlives the guard.
  static Opened open(const Options& options, const Clock& clock, std::shared_ptr<const void> kept_alive = nullptr);
  // For a store that is already open; it has a fixed secret.
  static Guard open_on(const Options& options, const Clock& clock, std::unique_ptr<Store> store,
                       std::shared_ptr<const void> kept_alive);

  Engine(const Options& options, std::string_view secret, const Clock& clock, std::unique_ptr<Log> log,
         std::unique_ptr<Backing> backing);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // In a forked child nothing is destroyed: it would wait for threads that do not exist there.
  static void destroy(Engine* engine);

  void run(const Request& request, const detail::Work& work, OutcomeFacts& outcome);
  Claimed claim(const Request& request, const std::stop_token& stop = {});
  // These run on the guard's own loop and keep the engine alive.
  void claim_async(Request request, Then<Claimed> then, std::stop_token stop);
  void succeed_async(std::shared_ptr<Held> held, std::string value, std::string media_type,
                     Then<Outcome<std::string>> then);
  void fail_async(std::shared_ptr<Held> held, Then<EndResult> then);
  void release_async(std::shared_ptr<Held> held, Then<EndResult> then);
  std::optional<Outcome<std::string>> look(const Request& request);
  std::expected<std::chrono::nanoseconds, std::string> ping();
  Counts counts() const;

  // Whether this is a forked child, where no call is possible: then sets the outcome.
  bool forked(OutcomeFacts& outcome) const;

  // Used by claims that their holder ends (held.hpp).
  Background& background() { return background_; }
  std::size_t max_value() const { return max_value_; }
  const Observation::Observe& observe() const { return observe_; }
  void ask(Op& op) { claimant().ask(op); }
  void release(Op& op) { claimant().release(op); }
  // Retries for the length of a lease, so that a short outage of the store does not lose an outcome. `work` is the
  // execution of run(), which ends with this. If the process is the owner, only it can end the claim, so it retries as
  // long as the guard exists.
  void finish(Op& op, Duration lease, Executions::Entry* work = nullptr);
  void notify_waiting(const OperationId& id) { waiters_.notify(id); }
  void count(const OutcomeFacts& outcome);

 private:
  void store_failed(const Op& /*op*/) override {}
  void retries(const Op& /*op*/) override {}
  void end_in_background(Op end, Stands claim, std::shared_ptr<const void> /*kept_alive*/) override {
    background_.end(std::move(end), claim);
  }
  // A claimant for one call.
  BlockingClaimant claimant() { return {backing_->lanes(), waiters_, clock_, random_, *this}; }

  // Claims, and waits for a running owner as long as the request says. Enters `work` if the caller is to execute. A
  // stop ends the wait.
  ClaimResult claim_or_wait(Op& op, Duration wait, Executions::Entry& work, const std::stop_token& stop);
  // The claim was granted: the caller executes, unless a call of run() in this process is already executing. Then that
  // call gets the claim.
  static void entered(Executions::Entered how, Op& op);
  void count_attempt(const Record& record);
  // Prepares a claim. nullopt: the outcome says why it is impossible.
  std::optional<Op> read_claim(const Request& request, const std::stop_token& stop, OutcomeFacts& outcome) const;
  struct Answered {
    const Request& request;
    const Op& op;
    const ClaimResult& result;
    const std::stop_token& stop;
  };
  void conclude_claim(const Answered& answered, Claimed& claimed);
  void observe_claimed(const Claimed& claimed, Observation& observation);

  Claimant claimant_on_loop() {
    return {{.store = backing_->lanes(), .home = loop_, .clock = clock_, .random = random_}, *this};
  }
  Task<void> claim_on_loop(std::shared_ptr<Engine> alive, Request request, Then<Claimed> then, std::stop_token stop);
  Task<ClaimResult> claim_or_wait_on_loop(Claimant& claimant, Op& op, Duration wait, Executions::Entry& work,
                                          const std::stop_token& stop);
  Task<void> succeed_on_loop(std::shared_ptr<Held> held, std::string value, std::string media_type,
                             Then<Outcome<std::string>> then);
  Task<void> fail_on_loop(std::shared_ptr<Held> held, Then<EndResult> then);
  Task<void> release_on_loop(std::shared_ptr<Held> held, Then<EndResult> then);
  // A call of run() that executes the work.
  struct Call {
    const Request& request;
    const detail::Work& work;
    Op& op;
    Executions::Entry& entry;
    ClaimResult claimed;
    Observation& observation;
  };
  void perform(const Call& call, OutcomeFacts& outcome);
  void work_failed(const Call& call, std::string why, OutcomeFacts& outcome);
  // The work ended its thread.
  void leave_unknown(const Call& call);
  OutcomeBytes outcome_of(const Request& request, const detail::Work& work, const detail::Work::Result& result) const;

  struct AtomicCounts {
    std::atomic<std::uint64_t> fresh{0}, cached{0}, in_progress{0}, failed{0}, lost{0}, refused{0}, takeovers{0},
        retries{0};
  };

  static Guard made(std::unique_ptr<Engine> engine, std::shared_ptr<const void> kept_alive);

  std::shared_ptr<const void> kept_alive_;  // keeps what the other members use alive
  const OwnProcess process_;
  Engine* left_before_ = nullptr;  // used in a forked child
  std::unique_ptr<Log> log_;
  const Operations operations_;
  const std::size_t max_value_;
  const bool shared_;
  const Observation::Observe observe_;
  const Clock& clock_;
  AtomicCounts counts_;
  Executions executions_;
  SharedRandom random_;
  Waiters waiters_;

  std::unique_ptr<Backing> backing_;  // its threads use the members above
  Background background_;
  AsyncLoop loop_;  // its thread uses all members
};

// Sets the result from a record, or from another owner's claim. `work` reads the body if there is a value.
void set_verdict(const Op& claim, const detail::Work& work, OutcomeFacts& outcome);
void set_recorded(const Record& record, Source source, const detail::Work& work, OutcomeFacts& outcome);
void set_store_failed(const Op& op, OutcomeFacts& outcome);
// The outcome for a lookup of a claim's operation. Sets nothing if there is no record.
void set_seen(Op& lookup, Outcome<std::string>& outcome);
// Whether the caller has asked to stop: then sets the outcome.
bool cancelled(const std::stop_token& stop, OutcomeFacts& outcome);
void set_internal(const Thrown& thrown, OutcomeFacts& outcome);
// When to retry while the owner's lease ends at `until`.
Duration retry_after(Time until, Time now);
// Work that only reads a recorded value into a string.
detail::Work reading(std::optional<std::string>& value);

}  // namespace once::guard
