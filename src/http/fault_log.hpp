// Counts and logs what the process's loops report: broken invariants of connections, and running out of descriptors.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/log.hpp"
#include "http/fault.hpp"

namespace once::http {

class FaultLog final : public FaultListener {
 public:
  explicit FaultLog(const Log& log) : log_(log) {}

  // Thread-safe.
  void connection_fault(const ConnectionFault& fault) override;
  std::uint64_t count() const { return count_.load(std::memory_order_relaxed); }

  void out_of_descriptors(const NoDescriptor& what) override;
  std::uint64_t out_of_descriptors(DescriptorUse use) const { return of(use).load(std::memory_order_relaxed); }
  // The total over all uses, and the time of the last one; min(): never.
  std::uint64_t out_of_descriptors() const;
  std::chrono::nanoseconds last_out_of_descriptors() const {
    return std::chrono::nanoseconds(last_out_.load(std::memory_order_relaxed));
  }

 private:
  using Counts = std::array<std::atomic<std::uint64_t>, descriptor_use_count>;

  const std::atomic<std::uint64_t>& of(DescriptorUse use) const { return out_[static_cast<std::size_t>(use)]; }

  const Log& log_;
  std::atomic<std::uint64_t> count_ = 0;
  Counts out_{};
  std::atomic<std::int64_t> last_out_ = std::chrono::nanoseconds::min().count();
};

}  // namespace once::http
