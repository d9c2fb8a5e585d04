#include "gateway/metrics.hpp"

namespace once {

std::string_view name_of(Ending ending) {
  switch (ending) {
    case Ending::passed: return "passed";
    case Ending::executed: return "executed";
    case Ending::replayed: return "replayed";
    case Ending::in_flight: return "in-flight";
    case Ending::mismatch: return "mismatch";
    case Ending::unknown: return "unknown";
    case Ending::bypassed: return "bypassed";
    case Ending::rejected: return "rejected";
  }
  return "";
}

}  // namespace once
