#include <once/outcome.hpp>

#include "base/assert.hpp"

namespace once::guard {

std::string_view name(Status status) {
  switch (status) {
    case Status::succeeded: return "succeeded";
    case Status::in_progress: return "in_progress";
    case Status::failed: return "failed";
  }
  ONCE_ASSERT(false);
}

std::string_view name(Reason reason) {
  switch (reason) {
    case Reason::none: return "none";
    case Reason::at_work: return "at_work";
    case Reason::gone: return "gone";
    case Reason::work_failed: return "work_failed";
    case Reason::lost: return "lost";
    case Reason::not_recorded: return "not_recorded";
    case Reason::unknown: return "unknown";
    case Reason::mismatch: return "mismatch";
    case Reason::not_kept: return "not_kept";
    case Reason::expired: return "expired";
    case Reason::unreadable: return "unreadable";
    case Reason::invalid: return "invalid";
    case Reason::store_unavailable: return "store_unavailable";
    case Reason::store_full: return "store_full";
    case Reason::internal: return "internal";
    case Reason::forked: return "forked";
    case Reason::cancelled: return "cancelled";
  }
  ONCE_ASSERT(false);
}

}  // namespace once::guard
