// The background thread of a guard: does what claim_upkeep.hpp says is due. Started on first use. When the guard is
// closed, ends that are still due are dropped, and their claims lapse.
//
// It calls the store directly and not through the lanes, so that renewals do not queue behind claims. Ops of one
// operation may overlap, as those of two processes can.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "base/clock.hpp"
#include "guard/claim_upkeep.hpp"
#include "guard/own_process.hpp"

namespace once::guard {

class Background {
 public:
  // `ended` is called for each claim that was ended.
  Background(Store& store, const Clock& clock, std::function<void(const OperationId&)> ended)
      : store_(store), upkeep_(store, clock), ended_(std::move(ended)) {}
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
  std::uint64_t keep(Lease& lease, const LeaseSteps& steps);
  void let_go(std::uint64_t serial);
  void wake();
  void loop();

  const OwnProcess process_;
  Store& store_;
  ClaimUpkeep upkeep_;  // guarded by the mutex
  const std::function<void(const OperationId&)> ended_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace once::guard
