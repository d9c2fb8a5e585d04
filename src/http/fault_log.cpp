#include "http/fault_log.hpp"

#include <sys/resource.h>

#include "base/assert.hpp"

namespace once::http {

void FaultLog::connection_fault(const ConnectionFault& fault) {
  count_.fetch_add(1, std::memory_order_relaxed);
  log_.error("connection ended, invariant broken",
             {{"invariant", fault.invariant}, {"file", fault.file}, {"line", fault.line}});
}

std::string_view name_of(DescriptorUse use) {
  switch (use) {
    case DescriptorUse::client: return "client";
    case DescriptorUse::upstream: return "upstream";
    case DescriptorUse::service: return "service";
  }
  ONCE_ASSERT(false);
}

void FaultLog::out_of_descriptors(const NoDescriptor& what) {
  out_[static_cast<std::size_t>(what.use)].fetch_add(1, std::memory_order_relaxed);
  last_out_.store(what.now.count(), std::memory_order_relaxed);
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  log_.error("out of file descriptors",
             {{"for", name_of(what.use)}, {"error", what.error}, {"limit", std::uint64_t{limit.rlim_cur}}});
}

std::uint64_t FaultLog::out_of_descriptors() const {
  std::uint64_t sum = 0;
  for (const auto& count : out_) sum += count.load(std::memory_order_relaxed);
  return sum;
}

}  // namespace once::http
