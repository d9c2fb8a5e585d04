// A backend that does its work and commits its outcome in one transaction. It answers only after the commit, as
// docs/reference/guarantees.md requires. Faults may occur before, between and after the steps.
#include <memory>

#include <fmt/format.h>

#include "core/outcome.hpp"
#include "sim/backend.hpp"

namespace once::sim {

namespace {

using namespace std::chrono_literals;

constexpr Duration longest_stall = 20s;
// How long a server may hold the locks of a dead client.
constexpr Duration longest_lock = 5s;

}  // namespace

void SimBackend::work(const Request& request, Plan plan) {
  Draw& draw = world_.draw;
  const auto job = std::make_shared<Job>(Job{.request = request, .plan = plan});
  const auto any = [&] { return draw.one_of({Step::begin, Step::finish, Step::commit}); };
  if (plan == Plan::dies_before) job->dies_before = any();
  if (!healed_ && draw.percent(setup_.transaction_stalls)) job->stalls_before = any();
  if (!healed_ && draw.percent(setup_.answers_early)) job->answered_before = any();
  go_on(job, Step::begin);
}

void SimBackend::go_on(const std::shared_ptr<Job>& job, Step step) {
  Duration takes = world_.draw.between(0ms, healed_ ? 20ms : setup_.backend_takes) / 3;
  if (job->stalls_before == step) takes += world_.draw.between(100ms, longest_stall);
  world_.after(takes, [this, job, step] { take(job, step); });
}

void SimBackend::take(const std::shared_ptr<Job>& job, Step step) {
  const Request& request = job->request;
  if (job->answered_before == step) {
    const bool lost = world_.draw.one_in(3);
    end(request,
        {.delivery = lost ? Delivery::lost : Delivery::whole, .status = world_.draw.one_of({500, 503, 429, 408, 425})});
  }
  if (job->dies_before == step) {
    world_.after(world_.draw.between(0ms, longest_lock), [this, job] { database_->roll_back(job->transaction); });
    return end(request, {.delivery = Delivery::lost});
  }
  const Response failure{.delivery = Delivery::whole, .status = world_.draw.one_of({500, 503})};
  switch (step) {
    case Step::begin: job->transaction = database_->begin(); return go_on(job, Step::finish);
    case Step::finish: {
      const std::string body =
          fmt::format("{} execution={}{}", body_of(request.asked), request.execution, committed_mark);
      auto outcome = std::make_shared<const std::string>(encode({.status = 201, .body = body}));
      if (!database_->finish(job->transaction, request.id, request.nonce, std::move(outcome))) {
        return end(request, failure);
      }
      return go_on(job, Step::commit);
    }
    case Step::commit:
      if (!database_->commit(job->transaction, request.execution)) return end(request, failure);
      if (!healed_ && world_.draw.percent(setup_.commits_in_doubt)) return end(request, failure);
      return go_on(job, Step::answer);
    case Step::answer: return answer(*job);
  }
}

// The work fails. The backend records that before it answers, or dies.
void SimBackend::fail(const Request& request) {
  const Duration takes = world_.draw.between(0ms, setup_.backend_takes);
  world_.after(takes, [this, request] {
    database_->fail(request.id, request.nonce, request.execution);
    const bool lost = world_.draw.one_in(2);
    end(request, {.delivery = lost ? Delivery::lost : Delivery::whole, .status = 500});
  });
}

void SimBackend::answer(const Job& job) {
  Draw& draw = world_.draw;
  switch (job.plan) {
    case Plan::refuses:
    case Plan::fails:
    case Plan::dies_before:
    case Plan::hangs: return;
    case Plan::dies_after: return end(job.request, {.delivery = Delivery::lost});
    case Plan::truncates: return end(job.request, {.delivery = Delivery::truncated});
    case Plan::answers: break;
  }
  Response response{.delivery = Delivery::whole, .status = 201, .mark = committed_mark};
  if (!healed_ && draw.percent(setup_.answers_other)) {
    response.status = draw.one_of({201, 201, 500, 503, 429, 408});
    response.mark = " rendered otherwise";
  }
  end(job.request, response);
}

}  // namespace once::sim
