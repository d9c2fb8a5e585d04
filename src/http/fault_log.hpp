// Counts and logs the broken invariants of connections, of every loop in the process.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/log.hpp"
#include "http/fault.hpp"

namespace once::http {

class FaultLog final : public FaultListener {
 public:
  explicit FaultLog(const Log& log) : log_(log) {}

  // From any thread.
  void connection_fault(const ConnectionFault& fault) override;
  std::uint64_t count() const { return count_.load(std::memory_order_relaxed); }

 private:
  const Log& log_;
  std::atomic<std::uint64_t> count_ = 0;
};

}  // namespace once::http
