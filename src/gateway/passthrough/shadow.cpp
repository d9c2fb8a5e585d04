#include "gateway/passthrough/shadow.hpp"

#include <utility>

namespace once::gateway {

namespace {

// The most shadow requests of one worker at a time; beyond it the store is too slow.
constexpr std::size_t most_open = 10'000;
Shadowed shadowed(Verdict verdict) {
  switch (verdict) {
    case Verdict::execute: return Shadowed::executed;
    case Verdict::replay:
    case Verdict::not_kept: return Shadowed::replayed;  // shadow records have no body
    case Verdict::mismatch: return Shadowed::mismatch;
    case Verdict::in_flight: return Shadowed::in_flight;
    case Verdict::too_early:
    case Verdict::held: return Shadowed::unknown;
    case Verdict::gone: return Shadowed::expired;
  }
  return Shadowed::executed;
}

Delivery delivery_of(int status, std::optional<ProblemKind> problem) {
  if (status >= 200) return Delivery::whole;
  if (problem == ProblemKind::bad_gateway || problem == ProblemKind::upstream_busy) return Delivery::not_sent;
  if (problem == ProblemKind::gateway_timeout) return Delivery::timed_out;
  return Delivery::lost;
}

}  // namespace

Shadow::Shadow(Worker& worker, GenerationUse generation, const RoutedPolicy& routed, const http::RequestHead& head,
               std::string_view request_id)
    : worker_(worker),
      shared_(worker.shared()),
      generation_(std::move(generation)),
      policy_(*routed.policy),
      route_(routed.route),
      head_(head),
      request_id_(request_id),
      body_(shared_.usage),
      ports_(worker.exchange_ports(nullptr)),
      claimant_(ports_),
      lease_(shared_.store, worker.loop(), shared_.clock, worker.metrics()) {}

void Shadow::decide(Shadowed verdict) {
  verdict_ = verdict;
  worker_.metrics().shadow[static_cast<std::size_t>(verdict)].add();
  if (verdict != Shadowed::executed) {
    shared_.log.info("shadow", {{"request", request_id_}, {"route", route_}, {"verdict", name_of(verdict)}});
  }
  body_.release();
  if (line_) worker_.access().write(*line_, name_of(verdict));
}

void Shadow::account(const AccessLine& line) {
  if (verdict_) {
    worker_.access().write(line, name_of(*verdict_));
    return;
  }
  method_ = line.method;
  path_ = line.path;
  trace_ = line.trace;
  client_ = line.client;
  line_ = line;
  line_->request_id = request_id_;
  line_->method = method_;
  line_->path = path_;
  line_->client = client_;
  line_->trace = trace_;
}

void Shadow::begin(RequestKey key, const IdentityRules& rules, const RequestFacts& facts) {
  if (key.problem) {
    decide(key.problem->kind == ProblemKind::key_required ? Shadowed::key_required : Shadowed::key_invalid);
    return;
  }
  identity_.emplace(rules, facts, policy_);
  if (const auto refused = identity_->caller_problem()) {
    decide(refused->kind == ProblemKind::bad_request ? Shadowed::bad_request : Shadowed::caller_refused);
    return;
  }
  if (identity_->is_anonymous()) worker_.metrics().without_caller.add();
  key_ = std::move(key.given);
}

void Shadow::body_part(std::string_view data) {
  if (verdict_) return;
  if (body_.size() + data.size() > policy_.max_request_body) {
    decide(Shadowed::body_too_large);
    return;
  }
  const bool announced = head_.framing.kind == http::Framing::Kind::length;
  const std::size_t expected = announced ? static_cast<std::size_t>(head_.framing.length) : 0;
  const Reserved room = body_.append(data, expected, generation_->settings().limits.max_body_memory);
  if (room == Reserved::no) decide(Shadowed::overloaded);
}

void Shadow::body_ended() {
  if (verdict_) return;
  const auto id = identity_->operation(key_, body_.view());
  if (!id) {
    decide(Shadowed::key_required);
    return;
  }
  if (worker_.held() >= most_open) {
    decide(Shadowed::store_error);
    return;
  }
  op_.verb = Verb::claim;
  op_.id = *id;
  op_.fingerprint = identity_->fingerprint(body_.view());
  if (!identity_->caller().empty()) {
    tenant_ = shared_.ids.tenant(identity_->caller());
    op_.tenant = {tenant_.data(), tenant_.size()};
  }
  body_.release();
  claiming_ = true;
  spawn(keep_books(shared_from_this()));
}

void Shadow::answered(const http::ResponseHead& head) {
  answer_.status = head.status;
  answer_.unframed = head.framing.kind == http::Framing::Kind::until_close;
  for (const http::Field& field : head.fields) {
    if (same_name(field.name, "Idempotency-Policy")) answer_.policy.add(field.value);
  }
}

void Shadow::end(std::optional<ProblemKind> problem) {
  if (!verdict_ && !claiming_) decide(Shadowed::incomplete);
  answer_.delivery = delivery_of(answer_.status, problem);
  // The body was not checked for completeness, so only `unframed: unknown`, which needs no such check, is applied.
  const bool unproven = answer_.unframed && policy_.record.unframed == Unframed::unknown;
  if (unproven && answer_.delivery == Delivery::whole) answer_.delivery = Delivery::unframed;
  answer_.known.set();
}

Task<void> Shadow::keep_books(std::shared_ptr<Shadow> self) {
  // Until this has ended, the store must not be handed over and the worker must not end its drain.
  self->worker_.hold();
  self->worker_.metrics().may_need_store.add();
  co_await self->claim_and_finish();
  self->worker_.metrics().may_need_store.subtract();
  self->worker_.let_go();
}

Task<void> Shadow::claim_and_finish() {
  op_.terms = terms_of(policy_);
  op_.route = route_;
  const ClaimResult claimed = co_await claimant_.claim(op_);
  if (op_.status != OpStatus::done) {
    if (claimed.stands == Stands::perhaps) claimant_.take_back_later(op_);
    decide(Shadowed::store_error);
    co_return;
  }
  decide(shadowed(op_.verdict));
  if (op_.verdict != Verdict::execute) co_return;
  const bool leases = shared_.store.store().traits().shared == Shared::yes;
  if (leases) lease_.start(op_, claimed.held_since);
  co_await answer_.known;
  co_await lease_.stop();
  settle_claim();
  co_await claimant_.end_soon(op_);
}

void Shadow::settle_claim() {
  const Settlement settlement = settle(answer_.delivery, answer_.status, answer_.policy, policy_.record);
  op_.verb = Verb::finish;
  switch (settlement.kind) {
    case Settlement::Kind::release: op_.verb = Verb::release; break;
    case Settlement::Kind::succeed: {
      op_.final_state = State::succeeded;
      op_.terms.ttl = answer_.policy.ttl.value_or(policy_.ttl);
      op_.body_kept = BodyKept::no;
      auto outcome = std::make_shared<std::string>();
      encode_into(*outcome, {.status = answer_.status, .original_request_id = request_id_});
      op_.outcome = std::move(outcome);
      break;
    }
    case Settlement::Kind::fail:
      op_.final_state = State::failed;
      op_.terms.ttl = policy_.ttl;
      break;
    case Settlement::Kind::unknown: op_.final_state = State::unknown; break;
  }
}

}  // namespace once::gateway
