// Requests on routes in shadow mode: they pass as if there were no Once, and nothing of them waits for the books.
#include "gateway/connection/client.hpp"
#include "gateway/identity/found_key.hpp"
#include "gateway/passthrough/shadow.hpp"

namespace once {

Task<void> Client::answer_shadow(const RoutedPolicy& routed) {
  const Policy& policy = *routed.policy;
  const FoundKey found = find_key(io_.head, policy.key.header);
  if (found.count == 0 && policy.key.derive.empty() && policy.key.required == Required::no) {
    co_await answer_unkeyed(routed);
    co_return;
  }
  shadow_ = std::make_shared<Shadow>(worker_, generation_, routed, io_.head, request_id_);
  shadow_->begin(found, caller_facts(policy));
  co_await answer_unkeyed(routed, shadow_.get());
  shadow_->end(passed_as_);
}

}  // namespace once
