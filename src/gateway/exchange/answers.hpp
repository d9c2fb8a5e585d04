// Once's own replies to a keyed request (conflicts, problems), in the form that the route's dialect defines.
#pragma once

#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "core/policy.hpp"
#include "core/problem.hpp"
#include "gateway/connection/reply.hpp"
#include "gateway/metrics.hpp"
#include "store/store.hpp"

namespace once::gateway {

// The Retry-After value of replies whose request may succeed on an immediate retry.
constexpr int retry_soon_seconds = 1;

class Answers {
 public:
  Answers(Reply& reply, const Policy& policy, std::string_view request_id, std::string_view errors_base)
      : reply_(reply), policy_(policy), request_id_(request_id), errors_base_(errors_base) {}

  void problem(ProblemKind kind, std::string detail, Ending ending);

  void mismatch();
  void in_flight();
  void not_kept();
  void expired();
  // A lookup found no record.
  void not_found(std::string detail);
  // The response is recorded, but there is no memory to read it at the moment.
  void no_memory();
  // The outcome is unknown since an earlier request: until `takeover_at`, or until someone resolves it.
  void too_early(Time takeover_at, Time now);
  void held();
  // The outcome of this request became unknown. The policy decides what a retry gets.
  void unknown(int status, std::string detail);
  void store_fault(StoreFault fault);
  // The same for an operation that this process is executing: another gateway may have taken it over and recorded it.
  void store_fault_at_work();
  // The request must not be sent to the backend; `answer` says why.
  void refused(Problem answer);
  // Nothing was executed, so the client may retry at once.
  void not_reached(Ending ending);
  // Nothing was executed because the upstream is busy; the client may retry after a moment.
  void upstream_busy(Ending ending);

 private:
  void write(Problem answer, Ending ending);

  Reply& reply_;
  const Policy& policy_;
  std::string_view request_id_;
  std::string_view errors_base_;
};

}  // namespace once::gateway
