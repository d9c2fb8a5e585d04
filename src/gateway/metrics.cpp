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

std::string_view name_of(PreconditionResult result) {
  switch (result) {
    case PreconditionResult::passed: return "passed";
    case PreconditionResult::failed: return "failed";
    case PreconditionResult::missing: return "missing";
    case PreconditionResult::invalid: return "invalid";
    case PreconditionResult::left_to_backend: return "left-to-backend";
    case PreconditionResult::unreadable: return "unreadable";
    case PreconditionResult::busy: return "busy";
    case PreconditionResult::no_store: return "no-store";
  }
  return "";
}

}  // namespace once
