#include "gate/held.hpp"

#include <utility>

#include "gate/core.hpp"
#include "gate/http_call.hpp"
#include "gate/work_call.hpp"

namespace once::gate {

HeldRequest::HeldRequest(std::shared_ptr<Core> the_core, HttpCall& the_call, ClaimFacts the_facts, LostFlag the_lost)
    : facts(std::move(the_facts)), lost(std::move(the_lost)), core_(std::move(the_core)), call_(&the_call) {}

bool HeldRequest::is_here() const {
  return core_->is_here();
}

HeldRequest::~HeldRequest() {
  if (!core_->is_here() || ended_.exchange(true)) return;
  core_->post([call = call_] { call->end(HttpCall::End::dropped, nullptr, {}); });
}

Ask HeldRequest::finish(std::unique_ptr<PreparedResponse> response, Completion<FinishResult> then) {
  return end(How::answered, std::move(response), std::move(then));
}

Ask HeldRequest::abandon(Completion<FinishResult> then) {
  return end(How::unknown, nullptr, std::move(then));
}

Ask HeldRequest::release(Completion<FinishResult> then) {
  return end(How::not_done, nullptr, std::move(then));
}

Ask HeldRequest::end(How how, std::unique_ptr<PreparedResponse> response, Completion<FinishResult> then) {
  if (!core_->is_here() || ended_.exchange(true)) {
    then.dismiss();
    return core_->is_here() ? Ask::ended : Ask::forked;
  }
  HttpCall::End as = HttpCall::End::answered;
  if (how == How::unknown) as = HttpCall::End::unknown;
  if (how == How::not_done) as = HttpCall::End::not_done;
  const Mailbox::Posted posted =
      core_->post([call = call_, as, made = std::move(response), done = std::move(then)]() mutable {
        call->end(as, std::move(made), std::move(done));
      });
  return posted == Mailbox::Posted::yes ? Ask::taken : Ask::stopped;
}

HeldWork::HeldWork(std::shared_ptr<Core> the_core, WorkCall& the_call, ClaimFacts the_facts, LostFlag the_lost)
    : facts(std::move(the_facts)), lost(std::move(the_lost)), core_(std::move(the_core)), call_(&the_call) {}

bool HeldWork::is_here() const {
  return core_->is_here();
}

HeldWork::~HeldWork() {
  if (core_->is_here()) order({});
}

Ask HeldWork::order(WorkOrder order) {
  if (!core_->is_here()) {
    order.then.dismiss();
    return Ask::forked;
  }
  const Mailbox::Posted posted =
      core_->post([call = call_, given = std::move(order)]() mutable { call->take(std::move(given)); });
  return posted == Mailbox::Posted::yes ? Ask::taken : Ask::stopped;
}

}  // namespace once::gate
