// Renews the leases of a guard's owners while they work: one thread for all of them, started with the first one. Stores
// that end with the process have owners that need none.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "store/executions.hpp"
#include "store/store.hpp"

namespace once::guard {

// An owner at work. It stays where it is while it is kept.
struct Lease {
  OperationId id;
  Nonce nonce;
  Duration length{};
  Owner owner = Owner::process;
  std::atomic<bool> lost = false;
  // Of work that this process is doing: another call here may be given a new claim for it, which is renewed instead.
  const Executions::Entry* work = nullptr;

  Nonce newest() const {
    const std::optional<Nonce> handed = work == nullptr ? std::nullopt : work->handed();
    return handed.value_or(nonce);
  }
};

class Renewer {
 public:
  explicit Renewer(Store& store) : store_(store) {}
  ~Renewer();
  Renewer(const Renewer&) = delete;
  Renewer& operator=(const Renewer&) = delete;

  // While it lives, the lease is renewed every third of its length. A renewal that failed is tried again soon, so that
  // many may get lost before the lease does.
  class Keeping {
   public:
    Keeping(Renewer& renewer, Lease& lease) : renewer_(renewer), serial_(renewer.add(lease)) {}
    ~Keeping() { renewer_.remove(serial_); }
    Keeping(const Keeping&) = delete;
    Keeping& operator=(const Keeping&) = delete;

   private:
    Renewer& renewer_;
    std::uint64_t serial_;
  };

 private:
  struct Kept {
    Lease* lease;
    std::chrono::nanoseconds due;
    std::optional<Nonce> lost{};  // not asked for again
  };
  struct Renewal {
    std::uint64_t serial;
    Op op;
  };

  std::uint64_t add(Lease& lease);
  void remove(std::uint64_t serial);
  void loop();
  std::vector<Renewal> take_due(std::chrono::nanoseconds now);
  void execute(std::vector<Renewal>& renewals);
  void note(const Renewal& renewal);
  std::chrono::nanoseconds next_due() const;

  Store& store_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::map<std::uint64_t, Kept> kept_;
  std::uint64_t last_serial_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace once::guard
