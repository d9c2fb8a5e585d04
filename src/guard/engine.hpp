// A guard without its types: claims, has the work done, records. One object for all threads of a guard.
#pragma once

#include <atomic>
#include <condition_variable>
#include <expected>
#include <memory>
#include <mutex>
#include <string>

#include <once/guard.hpp>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/random.hpp"
#include "guard/backing.hpp"
#include "guard/late_ends.hpp"
#include "guard/operation.hpp"
#include "guard/renewer.hpp"
#include "store/executions.hpp"

namespace once::guard {

class Engine {
 public:
  using Opened = std::expected<Guard, OpenError>;
  // Leases, takeover and expiry in a store that is not shared go by this clock, which outlives the guard.
  static Opened open(const Options& options, const Clock& clock);

  Engine(const Options& options, std::string_view secret, const Clock& clock, std::unique_ptr<Log> log,
         std::unique_ptr<Backing> backing);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  void run(const Request& request, const detail::Work& work, OutcomeFacts& outcome);
  Claimed claim(const Request& request);
  std::optional<Outcome<std::string>> look(const Request& request);
  Counts counts() const;

  // For claims.
  Renewer& renewer() { return renewer_; }
  std::size_t max_value() const { return max_value_; }
  void ask(Op& op) { backing_->run(op); }
  // Tries again for as long as the owner's lease may last: what was done should not be forgotten for a store that was
  // away for a moment. `work`: of a call of run(), which ends with this. Where the process is the owner nobody else can
  // end its claim, so that the outcome is tried on for as long as the guard lives.
  void finish(Op& op, Duration lease, Executions::Entry* work = nullptr);
  void tell_waiting();
  void count(const OutcomeFacts& outcome);

 private:
  Nonce new_nonce();
  // A claim whose lease may be over by the time it is known is renewed before any work is done.
  void hold_late_claim(Op& op, Time asked);
  // Claims, and waits for an owner at work for as long as the request says. `work` is entered if it is to be executed.
  void claim_or_wait(Op& op, Duration wait, Executions::Entry& work);
  // The claim is ours: execute it, unless a call of run() has it at work here. Then that call gets the claim.
  void enter(Op& op, Executions::Entry& work);
  void leave(const Op& op, Executions::Entry& work);
  // A claim that nobody works under: taken back, or unknown. Tried on in the background if it has to be.
  void end_claim(Op& end);
  void release_later(const Op& claim);
  void wait_for_end(Op& claimed, std::uint64_t ends_before, std::chrono::nanoseconds pause);
  void count_attempt(const Record& record);
  // A call of run() that is to execute.
  struct Call {
    const Request& request;
    const detail::Work& work;
    Op& op;
    Executions::Entry& entry;
  };
  void perform(const Call& call, OutcomeFacts& outcome);
  void work_failed(const Call& call, std::string why, OutcomeFacts& outcome);
  OutcomeBytes outcome_of(const Request& request, const detail::Work& work, const detail::Work::Result& result) const;

  struct AtomicCounts {
    std::atomic<std::uint64_t> fresh{0}, cached{0}, in_progress{0}, failed{0}, lost{0}, refused{0}, takeovers{0},
        retries{0};
  };

  std::unique_ptr<Log> log_;
  const Operations operations_;
  const std::size_t max_value_;
  const bool shared_;
  const Clock& clock_;
  AtomicCounts counts_;
  Executions executions_;
  std::mutex random_mutex_;
  SystemRandom random_;

  // Those who wait for an owner. Ends are counted, so that one between asking and waiting is not missed.
  std::mutex waiting_mutex_;
  std::condition_variable ended_;
  std::atomic<std::uint64_t> ends_{0};
  std::atomic<unsigned> waiting_{0};

  std::unique_ptr<Backing> backing_;  // its threads use what stands above
  Renewer renewer_;
  LateEnds late_ends_;
};

// What a claim that is not ours, or a record, says. The body is read by `work`, if it has a value.
void tell_verdict(const Op& claim, const detail::Work& work, OutcomeFacts& outcome);
void tell_recorded(const Record& record, Source source, const detail::Work& work, OutcomeFacts& outcome);
void tell_store_failed(const Op& op, OutcomeFacts& outcome);
// Work that is only read, into a string.
detail::Work reading(std::optional<std::string>& value);

}  // namespace once::guard
