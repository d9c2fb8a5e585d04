#include "gateway/connection/unkeyed_handler.hpp"

#include <utility>

#include "core/headers.hpp"
#include "gateway/exchange/answers.hpp"
#include "gateway/identity/life_marker.hpp"
#include "gateway/passthrough/shadow.hpp"

namespace once::gateway {

namespace {

// What a request that passed through is answered with if the backend gave no response.
Problem passed_problem(const PassedResult& result, Method method) {
  Problem answer = problem(*result.problem, result.detail);
  if (answer.kind == ProblemKind::outcome_unknown) {
    answer.status = 503;
    answer.retryable = Retryable::no;
  }
  // Asking again for what changes nothing is always safe.
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
      tag_room_(shared_.load),
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
  const Policy* policy = request.route.policy;
  const Method method = io_.head.method;
  if (policy != nullptr && (guards_write(*policy, method) || ends_life(*policy, method))) {
    co_await answer_guarded(request);
    co_return;
  }
  request.store_need.end();
  co_await pass(request, nullptr);
}

Task<void> UnkeyedHandler::answer_shadowed(RequestContext& request, RequestKey key) {
  const std::shared_ptr<Shadow> shadow =
      std::make_shared<Shadow>(worker_, request.generation, request.route, io_.head, request.id());
  request.shadow = shadow;
  shadow->begin(std::move(key), request.rules(), request.facts());
  const auto problem = co_await pass(request, shadow.get());
  shadow->end(problem);
}

// The problem that the request was answered with, if by us.
Task<std::optional<ProblemKind>> UnkeyedHandler::pass(RequestContext& request, PassObserver* observer) {
  const Policy* policy = request.route.policy;
  PassedRequest passed = passed_request(request);
  passed.observer = observer;
  std::optional<Tagging> tagging;
  if (policy != nullptr && tags_response(*policy, io_.head)) {
    tag_room_.begin(request.settings().limits.max_body_memory);
    passed.tag_room = &tag_room_;
    passed.tagging = &tagging.emplace(begin_tagging(policy->conditional, io_.head));
  }
  const PassedResult result = co_await pass_.run(passed);
  co_await finish(request, result);
  co_return result.problem;
}

// A body that comes slowly is waited for by nobody but its own client: the resource is claimed when it is here.
Task<void> UnkeyedHandler::answer_guarded(RequestContext& request) {
  const Policy& policy = *request.route.policy;
  bool whole = reader_.take_body_at_hand(policy.max_request_body);
  if (!whole) whole = co_await reader_.read_body(request, policy.max_request_body);
  if (!whole) co_return;
  PassedRequest passed = passed_request(request);
  passed.body = reader_.body();
  const GuardedWrite write{.policy = policy,
                           .backend = passed.backend,
                           .head = io_.head,
                           .request_id = request.id(),
                           .resource = request.path,
                           .strip_prefix = passed.strip_prefix,
                           .origin = passed.origin,
                           .presence = &presence_};
  std::optional<LifeEnd> end;
  std::optional<Problem> refused = co_await enter(request, write, passed, end);
  if (refused) {
    co_await writer_.write_problem(request, *std::move(refused));
    co_return;
  }
  const PassedResult result = co_await pass_.run(passed);
  if (guards_write(policy, io_.head.method)) {
    const WriteEnd known = result.whole ? end_of_write(result.status, policy) : WriteEnd::unknown;
    co_await guard_->leave(known);
  }
  co_await finish(request, result);
}

Task<std::optional<Problem>> UnkeyedHandler::enter(const RequestContext& request, const GuardedWrite& write,
                                                   PassedRequest& passed, std::optional<LifeEnd>& end) {
  const Policy& policy = *request.route.policy;
  const bool guarded = guards_write(policy, io_.head.method);
  std::optional<Problem> refused;
  if (guarded) refused = co_await guard().enter(write);
  if (!refused && ends_life(policy, io_.head.method)) {
    const AskedHost host(io_.head, request.settings().hosts, request.origin.peer());
    passed.life_end =
        &end.emplace(ports_, policy, life_marker(shared_.ids, host, request.path), io_.head, request.id());
    refused = co_await end->begin();
    if (refused && guarded) co_await guard_->leave(WriteEnd::known);
  }
  if (refused || !guarded) co_return refused;
  if (guard_->waited() && left_while_waiting()) {
    co_await guard_->leave(WriteEnd::known);
    Problem answer =
        problem(ProblemKind::resource_busy, "The client closed its connection while the write waited for its turn.");
    answer.retry_after_seconds = retry_soon_seconds;
    co_return answer;
  }
  if (guard_->strips_conditions()) strip_conditions(io_.head);
  passed.permit = guard_->permit();
  co_return std::nullopt;
}

// Nothing was sent yet, so a client that leaves takes its request with it: what it wrote would come after what it may
// have written since. Most who close their side in a queue have left; the one who has not is told that it may ask
// again.
bool UnkeyedHandler::left_while_waiting() {
  const auto peer = io_.socket.peer_now();
  return peer == http::Socket::Peer::end || peer == http::Socket::Peer::gone;
}

WriteGuard& UnkeyedHandler::guard() {
  if (!guard_) guard_ = std::make_unique<WriteGuard>(ports_, shared_.ids);
  return *guard_;
}

Task<void> UnkeyedHandler::finish(RequestContext& request, const PassedResult& result) {
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
}

}  // namespace once::gateway
