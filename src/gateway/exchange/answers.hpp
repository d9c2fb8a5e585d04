// What Once itself says to the client of a keyed request, in the words of the route's dialect.
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

// What Retry-After says where a retry may go through at once.
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
  // There is nothing that a lookup could give.
  void not_found(std::string detail);
  // The response is recorded, but does not fit into memory at this moment.
  void no_memory();
  // Outcome unknown since an earlier request: until when, or for good.
  void too_early(Time takeover_at, Time now);
  void held();
  // Outcome unknown just now. What a retry will meet is the policy's to say.
  void unknown(int status, std::string detail);
  void store_fault(StoreFault fault);
  // The same while this process has the operation at work: another gateway may have taken it over and recorded it.
  void store_fault_at_work();
  // The backend was not to be asked.
  void refused(Problem answer);
  // Nothing was executed: a retry may go through at once.
  void not_reached(Ending ending);
  // The same, in a moment.
  void upstream_busy(Ending ending);

 private:
  void write(Problem answer, Ending ending);

  Reply& reply_;
  const Policy& policy_;
  std::string_view request_id_;
  std::string_view errors_base_;
};

}  // namespace once::gateway
