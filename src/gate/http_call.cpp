#include "gate/http_call.hpp"

#include <utility>

#include "base/bytes.hpp"
#include "base/text.hpp"
#include "core/headers.hpp"
#include "gate/engine.hpp"
#include "gateway/exchange/answers.hpp"
#include "gateway/identity/request_id.hpp"
#include "http/trace_context.hpp"

namespace once::gate {

namespace {

constexpr int handler_failed_status = 500;

std::string_view value_of(const std::vector<Field>& fields, std::string_view name) {
  for (const Field& field : fields) {
    if (field.name == name) return field.value;
  }
  return {};
}

}  // namespace

HttpCall::HttpCall(Engine& engine, Request request, std::uint64_t tag, Completion<BeginResult> then)
    : Call(tag),
      engine_(engine),
      text_(std::move(request)),
      began_(engine.loop().now()),
      origin_(text_.peer(), text_.is_secure() ? Origin::Transport::tls : Origin::Transport::plain),
      route_(engine.routes().none()),
      wording_(&engine.routes().common_wording()),
      exchange_(engine.ports()),
      loss_(engine.loop()),
      begun_(std::move(then)) {
  origin_.trust(engine.serving().trusted_proxies);
}

IdentityRules HttpCall::rules() const {
  return {.settings = engine_.serving(),
          .routes = engine_.routes(),
          .ids = engine_.ids(),
          .tokens = engine_.tokens(),
          .clock = engine_.clock()};
}

RequestFacts HttpCall::facts() {
  return {.head = text_.head,
          .peer = text_.peer(),
          .trust = origin_.peer(),
          .transport = text_.is_secure() ? Origin::Transport::tls : Origin::Transport::plain,
          .tls_subject = text_.request.tls_subject,
          .tls_issuer = text_.request.tls_issuer,
          .fields_joined = text_.are_fields_joined(),
          .verified_caller = text_.request.caller};
}

Task<void> HttpCall::run() {
  engine_.warn_of_settings();
  if (auto bad = text_.parse(engine_.serving().limits)) {
    refuse(*std::move(bad));
    co_return;
  }
  append_id_of(text_.head, engine_.random(), request_id_);
  RoutedRequest routed = route_request(rules(), facts(), path_);
  route_ = routed.route;
  if (route_.policy != nullptr) wording_ = &route_.policy->wording;
  if (routed.refused) {
    refuse(*std::move(routed.refused));
    co_return;
  }
  RequestKey key = find_request_key(route_.policy, text_.head);
  switch (key.kind) {
    case RequestKey::Kind::not_covered:
    case RequestKey::Kind::none: pass(key); co_return;
    case RequestKey::Kind::refused: refuse(*std::move(key.problem)); co_return;
    case RequestKey::Kind::given:
    case RequestKey::Kind::derived: break;
  }
  co_await answer_keyed(key.given);
}

Task<void> HttpCall::answer_keyed(const std::optional<Key>& key) {
  const Policy& policy = *route_.policy;
  const Limits& limits = engine_.serving().limits;
  Metrics& metrics = engine_.metrics();
  const Usage::Share share = engine_.usage().begin(limits.max_in_flight);
  if (!share) {
    metrics.overloaded[static_cast<std::size_t>(Overload::in_flight)].add();
    Problem answer = problem(ProblemKind::overloaded, "Too many requests with a key are in progress. Retry later.");
    answer.retry_after_seconds = retry_soon_seconds;
    refuse(std::move(answer));
    co_return;
  }
  const RequestIdentity identity(rules(), facts(), policy);
  if (auto refused = identity.caller_problem()) {
    refuse(*std::move(refused));
    co_return;
  }
  if (identity.is_anonymous() && text_.request.caller.empty()) metrics.without_caller.add();
  KeyQuota quota(engine_.quotas(), limits, engine_.clock());
  if (limits.caller.any() && !quota.begin(tenant_.of(engine_.ids(), identity.caller()))) {
    refuse_limit(KeyQuota::too_many_at_work);
    co_return;
  }
  const std::string_view body = text_.request.body;
  if (body.size() > policy.max_request_body) {
    refuse(problem(ProblemKind::body_too_large, "The request body is larger than this route accepts."));
    co_return;
  }
  auto operation = identity.operation(key, body);
  if (!operation) {
    refuse(std::move(operation.error()));
    co_return;
  }
  operation_ = to_hex(*operation);
  quota.charge(identity.limited_address());
  if (quota.is_limited()) {
    const auto refusal = co_await refuse_new_key(quota, *operation, engine_.lanes(), engine_.loop());
    if (refusal) {
      refuse_limit(*refusal);
      co_return;
    }
  }
  KeyedRequest keyed = keyed_request(identity, *operation);
  keyed.quota = &quota;
  {
    const AtWork::Entry at_work(metrics.at_work, engine_.loop().now());
    co_await exchange_.run(keyed, reply_);
  }
  quota.settle(reply_);
  complete_call();
}

KeyedRequest HttpCall::keyed_request(const RequestIdentity& identity, const OperationId& operation) {
  return {.policy = *route_.policy,
          .backend = *this,
          .counts = engine_.counts(route_),
          .head = text_.head,
          .body = text_.request.body,
          .id = operation,
          .fingerprint = identity.fingerprint(text_.request.body),
          .request_id = request_id_,
          .tenant = tenant_of(identity.caller(), engine_.ids(), tenant_),
          .route = route_.route,
          .holder = engine_.evicts() ? identity.holder(tenant_) : TenantTag(),
          .origin = &origin_,
          .presence = this};
}

// The exchange has a durable claim: the handler may run. Its time is unlimited: the lease is renewed while the claim is
// held.
Task<BackendAnswer> HttpCall::send(const BackendRequest& request) {
  BackendAnswer answer;
  if (cancelled()) co_return answer;
  if (request.permit != nullptr && !request.permit->may_send()) {
    answer.refused = problem(ProblemKind::store_unavailable, "The store answered too late; nothing was executed.");
    co_return answer;
  }
  engine_.note_handed_out();
  hand_out(request);
  co_await ended_;
  if (request.permit != nullptr) loss_.stop();
  engine_.note_ended(how_ == End::dropped);
  answer = answer_of_handler();
  co_return answer;
}

void HttpCall::hand_out(const BackendRequest& request) {
  ClaimFacts facts{.operation = operation_,
                   .request_id = request_id_,
                   .fields = fields_of(request.added_fields),
                   .max_body = request.max_response_body};
  facts.attempt = static_cast<unsigned>(parse_number(value_of(facts.fields, "Idempotency-Attempt")).value_or(0));
  facts.fence = parse_number(value_of(facts.fields, "Idempotency-Fence")).value_or(0);
  facts.token = value_of(facts.fields, "Idempotency-Claim");
  auto lost = std::make_shared<std::atomic<bool>>(false);
  if (request.permit != nullptr) loss_.start(*request.permit, lost);
  begun_.complete(std::make_shared<HeldRequest>(engine_.core(), *this, std::move(facts), std::move(lost)));
}

BackendAnswer HttpCall::answer_of_handler() {
  BackendAnswer answer;
  switch (how_) {
    case End::answered: {
      const bool kept = response_->body_kept == BodyKept::yes;
      const bool small = response_->body.size() <= route_.policy->record.max_body;
      answer.delivery = kept && small ? Delivery::whole : Delivery::oversize;
      answer.head = &response_->head;
      answer.body = response_->body;
      break;
    }
    case End::not_done:
      answer.delivery = Delivery::not_sent;
      answer.refused = problem(ProblemKind::upstream_busy, "The request was not executed. Retry later.");
      answer.refused->retry_after_seconds = retry_soon_seconds;
      break;
    case End::unknown:
    case End::dropped:
      answer.delivery = Delivery::lost;
      answer.refused = problem(ProblemKind::outcome_unknown,
                               "The handler ended without a response; it is unknown whether the request was executed.");
      answer.refused->status = handler_failed_status;
      break;
  }
  return answer;
}

void HttpCall::end(End how, std::unique_ptr<PreparedResponse> response, Completion<FinishResult> then) {
  how_ = how;
  response_ = std::move(response);
  finished_ = std::move(then);
  ended_.set();
}

void HttpCall::refuse(Problem answer) {
  const ProblemForm form{.type_base = engine_.ports().errors_base, .wording = *wording_};
  write_problem(reply_, std::move(answer), form, request_id_, gateway::Ending::rejected);
  complete_call();
}

void HttpCall::refuse_limit(const CallerTable::Refusal& refusal) {
  engine_.metrics().over_limit[static_cast<std::size_t>(refusal.limit)].add();
  engine_.log().warn("caller over a limit", {{"request", request_id_},
                                             {"limit", name_of(refusal.limit)},
                                             {"client", text_.peer()},
                                             {"trace", http::trace_id(text_.head)}});
  refuse(limit_problem(refusal));
}

void HttpCall::pass(const RequestKey& key) {
  Fields fields;
  add_request_id(fields, request_id_, *wording_);
  if (key.ignored) fields.add("Idempotency-Status", "bypassed");
  account(gateway::Ending::passed, 0);
  begun_.complete(Pass{.fields = fields_of(fields.view()), .request_id = request_id_});
}

void HttpCall::complete_call() {
  account(reply_.ending, reply_.status);
  if (begun_ && cancelled()) {
    begun_.complete(Cancelled());
  } else if (begun_) {
    begun_.complete(sendable(reply_, nullptr));
  } else {
    finished_.complete(sendable(reply_, response_.get()));
  }
}

void HttpCall::account(gateway::Ending ending, int status) {
  Metrics& metrics = engine_.metrics();
  const auto index = static_cast<std::size_t>(ending);
  const auto spent = engine_.loop().net().now() - began_;
  metrics.requests[index].add();
  engine_.counts(route_).requests[index].add();
  metrics.duration_ns[index].observe(static_cast<std::uint64_t>(spent.count()));
  if (status >= 100) metrics.responses[static_cast<std::size_t>(status / 100)].add();
}

}  // namespace once::gate
