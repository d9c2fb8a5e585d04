#include "sim/sim_service.hpp"

#include <utility>

#include <fmt/format.h>

#include "sim/byte_marks.hpp"

namespace once::sim {

namespace {

using namespace std::chrono_literals;

http::ServiceResponse answer_to(const http::ServiceRequest& request, int status) {
  return {.status = status,
          .body = fmt::format("{} asked{}", request.head.find("Authorization").value_or(""), body_end),
          .fields = fmt::format("{}: yes\r\n", framed_field)};
}

}  // namespace

SimService::SimService(Parts parts) : parts_(std::move(parts)), loop_(parts_.net) {
  loop_.listen(parts_.faults);
  http::ServiceHandler& handler = *this;
  const http::ServiceLimits limits{.max_connections = parts_.max_connections};
  service_ = std::make_unique<http::Service>(loop_, parts_.net.listen(parts_.listen), handler, limits);
  run = [](Work& work) { static_cast<SimService&>(work).service_->stop(); };
}

http::Admission SimService::admit(const http::ServiceRequest& request) {
  const std::string problem = parts_.judge(request);
  if (!problem.empty()) parts_.wrong(problem);
  if (!draw().one_in(5)) return {};
  return {.refusal = answer_to(request, 403)};
}

Task<http::ServiceResponse> SimService::handle(const http::ServiceRequest& request) {
  const std::string problem = parts_.judge(request);
  if (!problem.empty()) parts_.wrong(problem);
  const Duration takes = draw().one_in(2) ? 0ms : draw().below(Duration(2s));
  if (takes > 0ms) co_await sleep_for(loop_, takes);
  co_return answer_to(request, 200);
}

Reserved SimService::take_memory(std::size_t bytes) {
  if (memory_ + bytes > most_memory) return Reserved::no;
  memory_ += bytes;
  return Reserved::yes;
}

}  // namespace once::sim
