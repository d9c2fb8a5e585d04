// The background thread of a guard: renews the leases of running work, and ends claims that a call could not end
// before it returned. Started on first use. Claims that are left when the guard is closed lapse.
//
// It calls the store directly and not through the lanes, so that renewals do not queue behind claims. Ops of one
// operation may overlap, as those of two processes can.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "guard/own_process.hpp"
#include "store/claim_steps.hpp"
#include "store/store.hpp"

namespace once::guard {

// A running owner. It must not move while it is registered.
struct Lease {
  OperationId id;
  Nonce nonce;
  std::atomic<bool> lost = false;
};

class Background {
 public:
  // `ended` is called for each claim that was ended.
  Background(Store& store, const Clock& clock, std::function<void(const OperationId&)> ended)
      : store_(store), clock_(clock), ended_(std::move(ended)) {}
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // Renews the lease while this object exists.
  class Keeping {
   public:
    Keeping(Background& all, Lease& lease, const LeaseSteps& steps) : all_(all), serial_(all.keep(lease, steps)) {}
    ~Keeping() { all_.let_go(serial_); }
    Keeping(const Keeping&) = delete;
    Keeping& operator=(const Keeping&) = delete;

   private:
    Background& all_;
    std::uint64_t serial_;
  };

  // Thread-safe.
  void end(Op end, Stands claim);

 private:
  using Nanoseconds = std::chrono::nanoseconds;

  struct Kept {
    Lease* lease;
    LeaseSteps steps;
    Nanoseconds due;
  };
  struct Renewal {
    std::uint64_t serial;
    Op op;  // a copy, because the owner may end meanwhile
  };
  struct LateEnd {
    LateEnd(Op the_op, const Patience& patience) : op(std::move(the_op)), steps(op, patience) {}
    Op op;
    EndSteps steps;
    Nanoseconds began{};
    Nanoseconds due{};
  };

  std::uint64_t keep(Lease& lease, const LeaseSteps& steps);
  void let_go(std::uint64_t serial);
  void wake();
  void loop();
  std::vector<Renewal> due_renewals(Nanoseconds now);
  std::list<LateEnd> due_ends(Nanoseconds now);
  void execute(std::vector<Renewal>& renewals, std::list<LateEnd>& ends);
  void note(const Renewal& renewal);
  // The time until the next renewal or retry.
  Nanoseconds until_next(Nanoseconds now) const;

  const OwnProcess process_;
  Store& store_;
  const Clock& clock_;
  const std::function<void(const OperationId&)> ended_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::map<std::uint64_t, Kept> kept_;
  std::uint64_t last_serial_ = 0;
  std::list<LateEnd> ends_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace once::guard
