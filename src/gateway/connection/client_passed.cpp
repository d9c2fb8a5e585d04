// Requests without a key: those that stream by, and writes under guard, whose body is whole before their resource is
// claimed.
#include "core/headers.hpp"
#include "gateway/connection/client.hpp"

namespace once {

PassedRequest Client::passed_request(const RoutedPolicy& routed) {
  static const Timeouts default_timeouts;
  const ServingSettings& settings = generation_->settings();
  return {.backend = generation_->backend(routed.upstream),
          .worker = worker_,
          .timeouts = routed.policy != nullptr ? routed.policy->timeouts : default_timeouts,
          .request_id = request_id_,
          .wording = *wording_,
          .safe_idle_max = settings.pool.idle_max,
          .unsafe_idle_max = settings.pool.keyed_idle_max,
          .upgrades = settings.upgrades,
          .has_key = has_key_,
          .key_ignored = key_ignored_,
          .closing = worker_.draining(),
          .strip_prefix = routed.strip_prefix,
          .origin = origin(),
          .cors = cors_ ? &*cors_ : nullptr,
          .use = &upstream_use_};
}

Task<void> Client::answer_unkeyed(const RoutedPolicy& routed, PassObserver* observer) {
  const Policy* policy = routed.policy;
  if (policy != nullptr && (guards_write(*policy, io_.head.method) || ends_life(*policy, io_.head.method))) {
    co_await answer_guarded(routed);
    co_return;
  }
  may_need_store(observer != nullptr);
  PassedRequest request = passed_request(routed);
  request.observer = observer;
  std::optional<Tagging> tagging;
  if (policy != nullptr && tags_response(*policy, io_.head)) {
    tag_room_.begin(generation_->settings().limits.max_body_memory);
    request.tag_room = &tag_room_;
    request.tagging = &tagging.emplace(begin_tagging(policy->conditional, io_.head));
  }
  const PassedResult result = co_await pass_.run(request);
  co_await answer_passed(result);
}

// A body that comes slowly is waited for by nobody but its own client: the resource is claimed when it is here.
Task<void> Client::answer_guarded(const RoutedPolicy& routed) {
  const Policy& policy = *routed.policy;
  std::optional<BodyRead> read = body_at_hand(policy.max_request_body);
  if (!read) read = co_await read_body(policy.max_request_body);
  if (*read != BodyRead::whole) {
    co_await refuse_body(*read);
    co_return;
  }
  PassedRequest request = passed_request(routed);
  request.body = whole_body_;
  const GuardedWrite write{.policy = policy,
                           .backend = request.backend,
                           .head = io_.head,
                           .request_id = request_id_,
                           .resource = normal_path_,
                           .strip_prefix = request.strip_prefix,
                           .origin = request.origin,
                           .presence = this};
  const bool guarded = guards_write(policy, io_.head.method);
  std::optional<Problem> refused;
  if (guarded) refused = co_await guard().enter(write);
  std::optional<LifeEnd> end;
  if (!refused && ends_life(policy, io_.head.method)) {
    request.life_end = &end.emplace(exchange_.ports(), policy, life_marker(shared_.ids, asked_host(), normal_path_),
                                    io_.head, request_id_);
    refused = co_await end->begin();
    if (refused && guarded) co_await guard_->leave(WriteEnd::known);
  }
  if (refused) {
    co_await write_problem_reply(*std::move(refused));
    co_return;
  }
  if (guarded && guard_->waited() && left_while_waiting()) {
    co_await guard_->leave(WriteEnd::known);
    Problem answer =
        problem(ProblemKind::resource_busy, "The client closed its connection while the write waited for its turn.");
    answer.retry_after_seconds = retry_soon_seconds;
    co_await write_problem_reply(std::move(answer));
    co_return;
  }
  if (guarded && guard_->strips_conditions()) strip_conditions(io_.head);
  if (guarded) request.permit = guard_->permit();
  const PassedResult result = co_await pass_.run(request);
  if (guarded) co_await guard_->leave(result.whole ? end_of_write(result.status, policy) : WriteEnd::unknown);
  co_await answer_passed(result);
}

// Nothing was sent yet, so a client that leaves takes its request with it: what it wrote would come after what it may
// have written since. Most who close their side in a queue have left; the one who has not is told that it may ask
// again.
bool Client::left_while_waiting() {
  const auto peer = io_.socket.peer_now();
  return peer == http::Socket::Peer::end || peer == http::Socket::Peer::gone;
}

// Of a keyed write whose response was too large to keep: its end is known only now.
Task<void> Client::leave_after_stream(const Policy& policy, bool relayed) {
  bool whole = relayed && reply_.source != nullptr;
  if (!relayed && reply_.source) whole = co_await drain(*reply_.source, policy.timeouts, worker_.loop());
  reply_.source.reset();
  co_await guard_->leave(whole ? end_of_write(reply_.status, policy) : WriteEnd::unknown);
}

WriteGuard& Client::guard() {
  if (!guard_) guard_ = std::make_unique<WriteGuard>(exchange_.ports(), shared_.ids);
  return *guard_;
}

Task<void> Client::answer_passed(const PassedResult& result) {
  reply_.ending = Ending::passed;
  if (result.problem == ProblemKind::request_timeout) worker_.metrics().slow_clients.add();
  if (result.fault) {
    worker_.metrics().malformed_responses[static_cast<std::size_t>(*result.fault)].add();
    shared_.log.warn("malformed response",
                     {{"request", request_id_}, {"operation", ""}, {"reason", name_of(*result.fault)}});
  }
  passed_as_ = result.problem;
  if (result.problem) {
    Problem answer = problem(*result.problem, result.detail);
    if (answer.kind == ProblemKind::outcome_unknown) {
      answer.status = 503;
      answer.retryable = Retryable::no;
    }
    // Asking again for what changes nothing is always safe.
    if (is_safe(io_.head.method) && row_of(answer.kind).status >= 500) answer.retryable = Retryable::yes;
    const bool busy = answer.kind == ProblemKind::upstream_busy || answer.kind == ProblemKind::resource_busy;
    if (busy) answer.retry_after_seconds = retry_soon_seconds;
    co_await write_problem_reply(answer);
    reply_.ending = Ending::passed;
    co_return;
  }
  reply_.status = result.status;
  keep_ = result.keep;
  body_unread_ = !io_.body.ended();
}

}  // namespace once
