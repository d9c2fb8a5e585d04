#include "gateway/connection/unkeyed_handler.hpp"

#include <utility>

#include "core/headers.hpp"
#include "gateway/exchange/answers.hpp"
#include "gateway/passthrough/shadow.hpp"

namespace once::gateway {

namespace {

// The problem to answer if the backend sent no response to a request that passed through.
Problem passed_problem(const PassedResult& result, Method method) {
  Problem answer = problem(*result.problem, result.detail);
  if (answer.kind == ProblemKind::outcome_unknown) {
    answer.status = 503;
    answer.retryable = Retryable::no;
  }
  // Safe methods can always be retried.
  if (is_safe(method) && row_of(answer.kind).status >= 500) answer.retryable = Retryable::yes;
  const bool busy = answer.kind == ProblemKind::upstream_busy || answer.kind == ProblemKind::resource_busy;
  if (busy) answer.retry_after_seconds = retry_soon_seconds;
  return answer;
}

}  // namespace

UnkeyedHandler::UnkeyedHandler(Worker& worker, ClientIo& io, RequestReader& reader, ReplyWriter& writer,
                               const ExchangePorts& ports)
    : worker_(worker),
      shared_(worker.shared()),
      io_(io),
      reader_(reader),
      writer_(writer),
      ports_(ports),
      presence_(io.socket),
      tag_room_(shared_.usage),
      pass_(io, worker.metrics()) {}

PassedRequest UnkeyedHandler::passed_request(RequestContext& request) {
  static const Timeouts default_timeouts;
  const ServingSettings& settings = request.settings();
  const Policy* policy = request.route.policy;
  return {.backend = request.generation->backend(request.route.upstream),
          .worker = worker_,
          .timeouts = policy != nullptr ? policy->timeouts : default_timeouts,
          .request_id = request.id(),
          .wording = *request.wording,
          .safe_idle_max = settings.pool.idle_max,
          .unsafe_idle_max = settings.pool.keyed_idle_max,
          .upgrades = settings.upgrades,
          .has_key = request.key_ignored,
          .key_ignored = request.says_ignored,
          .closing = worker_.draining(),
          .strip_prefix = request.route.strip_prefix,
          .origin = &request.origin,
          .cors = request.cors ? &*request.cors : nullptr,
          .use = &request.upstream_use};
}

Task<void> UnkeyedHandler::answer(RequestContext& request) {
  const std::unique_ptr<ResourceWrite> write = request.resource_write(ports_, &presence_);
  if (write) {
    co_await answer_write(request, *write);
  } else {
    request.store_need.end();
    co_await pass(request, nullptr);
  }
}

Task<void> UnkeyedHandler::answer_shadowed(RequestContext& request, RequestKey key) {
  const std::shared_ptr<Shadow> shadow =
      std::make_shared<Shadow>(worker_, request.generation, request.route, io_.head, request.id());
  request.shadow = shadow;
  shadow->begin(std::move(key), request.rules(), request.facts());
  const auto problem = co_await pass(request, shadow.get());
  shadow->end(problem);
}

// Returns the problem if Once answered the request itself.
Task<std::optional<ProblemKind>> UnkeyedHandler::pass(RequestContext& request, PassObserver* observer) {
  const Policy* policy = request.route.policy;
  PassedRequest passed = passed_request(request);
  passed.observer = observer;
  std::optional<Tagging> tagging;
  if (policy != nullptr && tags_response(*policy, io_.head)) {
    tag_room_.begin(request.settings().limits.max_body_memory);
    passed.tag_room = &tag_room_;
    passed.tagging = &tagging.emplace(begin_tagging(io_.head));
  }
  const PassedResult result = co_await pass_.run(passed);
  co_await account(request, result);
  co_return result.problem;
}

// Read the body first: the write takes its turn only when it is complete, so slow clients delay no others.
Task<void> UnkeyedHandler::answer_write(RequestContext& request, ResourceWrite& write) {
  const Policy& policy = *request.route.policy;
  const bool at_hand = reader_.take_body_at_hand(policy.max_request_body);
  const BodyBounds bounds{.in_memory = policy.max_request_body};
  auto body = RequestReader::MessageRead::whole;
  if (!at_hand) body = co_await reader_.read_body(request, bounds);
  if (body != RequestReader::MessageRead::whole) co_return;
  std::optional<Problem> refused = co_await write.begin();
  if (refused) {
    co_await writer_.write_problem(request, *std::move(refused));
    co_return;
  }
  PassedRequest passed = passed_request(request);
  passed.write = &write;
  passed.body = reader_.body();
  const PassedResult result = co_await pass_.run(passed);
  co_await write.end(result.whole, result.status);
  co_await account(request, result);
}

Task<void> UnkeyedHandler::account(RequestContext& request, const PassedResult& result) {
  Reply& reply = writer_.reply();
  reply.ending = Ending::passed;
  if (result.problem == ProblemKind::request_timeout) worker_.metrics().slow_clients.add();
  if (result.fault) {
    worker_.metrics().malformed_responses[static_cast<std::size_t>(*result.fault)].add();
    shared_.log.warn("malformed response",
                     {{"request", request.id()}, {"operation", ""}, {"reason", name_of(*result.fault)}});
  }
  if (result.problem) {
    co_await writer_.write_problem(request, passed_problem(result, io_.head.method));
    reply.ending = Ending::passed;
    co_return;
  }
  reply.status = result.status;
  request.keep = result.keep;
  request.body_unread = !io_.body.ended();
  request.replied = result.whole;
}

}  // namespace once::gateway
