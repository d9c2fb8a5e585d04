#include "http/fault_log.hpp"

namespace once::http {

void FaultLog::connection_fault(const ConnectionFault& fault) {
  count_.fetch_add(1, std::memory_order_relaxed);
  log_.error("connection ended, invariant broken",
             {{"invariant", fault.invariant}, {"file", fault.file}, {"line", fault.line}});
}

}  // namespace once::http
