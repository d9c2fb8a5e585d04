#include "claims/claims.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "base/assert.hpp"
#include "base/text.hpp"
#include "gateway/limits/shared_outcomes.hpp"
#include "store/search.hpp"

namespace once::claims {

using http::ServiceRequest;
using http::ServiceResponse;

namespace {

constexpr std::string_view collection = "/v1/claims";
constexpr Duration longest_wait = std::chrono::minutes(1);  // of a long poll
constexpr std::size_t scopes_with_metrics = 20;             // of each tenant; its others are counted together

// The memory of an answer, held until its client has read it.
class HeldAnswer {
 public:
  HeldAnswer(Gateway& gateway, std::size_t bytes) : gateway_(gateway), bytes_(bytes) {}
  HeldAnswer(const HeldAnswer&) = delete;
  HeldAnswer& operator=(const HeldAnswer&) = delete;
  ~HeldAnswer() { gateway_.give_back_memory(HeldFor::replay, bytes_); }

 private:
  Gateway& gateway_;
  std::size_t bytes_;
};

// The size of the value in the record. Reserve memory for it before the answer is built, which takes as much again.
std::size_t value_size(const Op& op) {
  std::size_t size = op.record && op.record->outcome ? op.record->outcome->size() : 0;
  for (const OutcomeBytes& chunk : op.chunks) size += chunk->size();
  return size;
}

std::string_view query_of(const http::RequestHead& head) {
  return head.target.substr(std::min(head.path.size() + 1, head.target.size()));
}

Op op_of(const ClaimHandle& handle, Verb verb) {
  Op op;
  op.verb = verb;
  op.id = handle.id;
  op.nonce = handle.nonce;
  return op;
}

// Counts one long poll while it lasts.
class Poll {
 public:
  explicit Poll(ClaimsMetrics& metrics) : metrics_(metrics) { metrics_.waiting.add(); }
  Poll(const Poll&) = delete;
  Poll& operator=(const Poll&) = delete;
  ~Poll() { metrics_.waiting.subtract(); }

 private:
  ClaimsMetrics& metrics_;
};

// The client of a long poll. When the service stops, long polls end with the current state.
class Asker final : public Presence {
 public:
  Asker(const bool& client_left, const std::atomic<bool>& stopping) : client_left_(client_left), stopping_(stopping) {}

  bool listen(Listener& /*listener*/) override { return !has_left(); }
  void stop_listening() override {}
  bool has_left() override { return client_left_ || stopping_.load(std::memory_order_relaxed); }

 private:
  const bool& client_left_;
  const std::atomic<bool>& stopping_;
};

}  // namespace

Claims::Claims(const ClaimsSettings& settings, std::string_view secret, std::string errors_base,
               const ClaimsPorts& ports)
    : settings_(settings),
      ports_(ports),
      answers_(std::move(errors_base)),
      tenants_(settings.tokens),
      identities_(secret),
      thread_(*this, &ports.gateway.faults(),
              {.max_body = settings.max_body, .max_connections = settings.max_connections}),
      claimant_({.store = ports.store, .home = thread_.loop(), .clock = clock_, .random = random_}, *this),
      progress_({.store = ports.store,
                 .waiters = ports.waiters,
                 .home = thread_.loop(),
                 .clock = clock_,
                 .claimant = claimant_},
                settings.max_progress) {}

void Claims::begin_stop() {
  stopping_.store(true, std::memory_order_relaxed);
  thread_.begin_stop();
}

void Claims::stop() {
  begin_stop();
  thread_.stop();
}

ServiceResponse Claims::refuse(http::Refused what, std::string_view why) {
  switch (what) {
    case http::Refused::bad_request:
      ports_.metrics.count(ClaimsVerb::other, ClaimsResult::invalid);
      return answers_.problem_response(ProblemKind::bad_request, std::string(why));
    case http::Refused::body_too_large:
      ports_.metrics.bodies_refused.add();
      return answers_.problem_response(ProblemKind::body_too_large, "The limit is claims.max_body.");
    case http::Refused::too_many_connections:
      ports_.metrics.connections_refused.add();
      return answers_.problem_response(ProblemKind::too_many_connections, "The limit is claims.max_connections.");
    case http::Refused::no_memory: return answers_.no_memory().response;
  }
  ONCE_ASSERT(false);
}

Claims::Route Claims::route_of(const http::RequestHead& head) {
  std::string_view path = head.path;
  if (path == "/openapi.json") return {.verb = ClaimsVerb::other, .allow = "GET", .handle = {}};
  if (path == collection) {
    const bool get = head.method == Method::get || head.method == Method::head;
    return {.verb = get ? ClaimsVerb::lookup : ClaimsVerb::claim, .allow = "GET, POST", .handle = {}};
  }
  if (!path.starts_with(collection)) return {};
  path.remove_prefix(collection.size());
  if (path == "/lookup") return {.verb = ClaimsVerb::lookup, .allow = "POST", .handle = {}};
  if (path == "/follow") return {.verb = ClaimsVerb::follow, .allow = "GET, POST", .handle = {}};
  const auto parts = split(path, '/');
  if (parts.size() != 3 || !parts[0].empty()) return {};
  for (const ClaimsVerb verb :
       {ClaimsVerb::renew, ClaimsVerb::progress, ClaimsVerb::succeed, ClaimsVerb::fail, ClaimsVerb::release}) {
    if (parts[2] == name_of(verb)) return {.verb = verb, .allow = "POST", .handle = parts[1]};
  }
  return {};
}

std::optional<ClaimsAnswer> Claims::refused(const http::RequestHead& head, const Route& route) const {
  if (route.allow.empty()) return answers_.not_found();
  const bool get = head.method == Method::get || head.method == Method::head;
  const bool allowed =
      (get && route.allow.contains("GET")) || (head.method == Method::post && route.allow.contains("POST"));
  if (!allowed) return answers_.not_allowed(route.allow);
  if (route.verb != ClaimsVerb::other && !tenants_.of(head)) return answers_.unauthorized();
  return std::nullopt;
}

http::Admission Claims::admit(const ServiceRequest& request) {
  const Route route = route_of(request.head);
  auto refusal = refused(request.head, route);
  if (!refusal) return {.max_body = route.verb == ClaimsVerb::other ? 0 : settings_.max_body};
  ports_.metrics.count(route.verb, refusal->result);
  return {.refusal = std::move(refusal->response)};
}

Task<ServiceResponse> Claims::handle(const ServiceRequest& request) {
  const Route route = route_of(request.head);
  ClaimsAnswer answered = co_await answer(request, route);
  ports_.metrics.count(route.verb, answered.result);
  co_return std::move(answered.response);
}

Reserved Claims::hold(std::size_t bytes, std::shared_ptr<const void>& held) {
  if (bytes <= SharedOutcomes::largest_uncounted) return Reserved::yes;
  if (ports_.gateway.take_memory(HeldFor::replay, bytes) == Reserved::no) return Reserved::no;
  held = std::make_shared<HeldAnswer>(ports_.gateway, bytes);
  return Reserved::yes;
}

// Answers a request that was admitted.
Task<ClaimsAnswer> Claims::answer(const ServiceRequest& request, Route route) {
  if (route.verb == ClaimsVerb::other) {
    co_return ClaimsAnswer{
        .response = {.status = 200, .content_type = "application/json", .body = std::string(openapi_document())},
        .result = ClaimsResult::done};
  }
  const auto tenant = tenants_.of(request.head);
  if (!tenant) co_return answers_.unauthorized();
  const Call call{.request = request, .tenant = *tenant};
  if (route.verb == ClaimsVerb::claim) {
    ClaimsAnswer claimed = co_await claim(call);
    co_return claimed;
  }
  if (route.verb == ClaimsVerb::lookup) {
    ClaimsAnswer found = co_await lookup(call);
    co_return found;
  }
  if (route.verb == ClaimsVerb::follow) {
    ClaimsAnswer followed = co_await follow(call);
    co_return followed;
  }
  const auto handle = identities_.read(*tenant, route.handle);
  if (!handle) co_return answers_.lost();
  ClaimsAnswer ended;
  if (route.verb == ClaimsVerb::renew) ended = co_await renew(call, *handle);
  if (route.verb == ClaimsVerb::progress) ended = co_await progress(call, *handle);
  if (route.verb == ClaimsVerb::succeed) ended = co_await succeed(call, *handle);
  if (route.verb == ClaimsVerb::fail) ended = co_await fail(call, *handle);
  if (route.verb == ClaimsVerb::release) ended = co_await release(call, *handle);
  co_return ended;
}

void Claims::store_failed(const Op& op) {
  if (op.fault == StoreFault::full) ports_.gateway.beside().store_full.add();
  ports_.log.error("a claim could not be stored", {{"operation", to_hex(prefix_of(op.id))}, {"error", op.error}});
}

Task<ClaimsAnswer> Claims::claim(Call call) {
  const auto asked = read_claim(call.request.body, longest_wait);
  if (!asked) co_return answers_.invalid(asked.error());
  Op op;
  op.verb = Verb::claim;
  op.id = identities_.operation(call.tenant, asked->name.scope, asked->name.kind, asked->name.key);
  op.nonce = identities_.owner(call.tenant, op.id, asked->nonce ? *asked->nonce : random_.nonce());
  if (asked->fingerprint) op.fingerprint = identities_.fingerprint(*asked->fingerprint);
  op.terms = asked->terms;
  op.tenant = call.tenant;
  op.route = asked->name.scope;
  ScopeMetrics& of_scope = ports_.metrics.by_scope.of(call.tenant, asked->name.scope, scopes_with_metrics);
  OwnerWait owner = owner_wait(asked->name.wait);
  while (true) {
    const ClaimResult claimed = co_await claimant_.claim_as_named(op);
    if (claimed.stands == Stands::yes) {
      count_acquired(op, of_scope);
      break;
    }
    if (claimed.overtaken) continue;  // the store now shows who has it
    const bool in_flight = op.status == OpStatus::done && op.verdict == Verdict::in_flight;
    // The record has this claim's own nonce: the request is a late copy of a claim that its owner has ended. Waiting
    // does not help.
    const bool ended = op.record && (op.record->nonce == op.nonce || op.record->nonce == released_nonce(op.nonce));
    if (!in_flight || ended || asked->name.wait <= Duration::zero()) break;
    Op seen;
    seen.status = OpStatus::done;  // kept if too many clients wait already, because then the store is not asked
    const WaitEnd waited = co_await wait_for_owner(owner, op.id, call.request.client_left, seen);
    // Do not claim for a client that has left: the claim would have no owner until its lease ends.
    if (waited != WaitEnd::limit && waited != WaitEnd::left) continue;
    // The store went down meanwhile: its last answer may be outdated.
    if (seen.status == OpStatus::failed) answer_failed(op, seen.fault, seen.error);
    break;
  }
  std::shared_ptr<const void> held;
  if (hold(value_size(op), held) == Reserved::no) {
    of_scope.count(ClaimsResult::error);
    co_return answers_.no_memory();
  }
  ClaimsAnswer claimed = answers_.claimed(op, Identities::text_of({.id = op.id, .nonce = op.nonce}));
  claimed.response.held = std::move(held);
  of_scope.count(claimed.result);
  co_return claimed;
}

OwnerWait Claims::owner_wait(Duration limit) {
  return OwnerWait({.store = ports_.store, .waiters = ports_.waiters, .home = thread_.loop(), .clock = clock_}, limit);
}

void Claims::count_acquired(const Op& claim, ScopeMetrics& of_scope) {
  if (claim.record->attempt == Attempt{1}) return;
  const bool failed = claim.record->previous_state == State::failed;
  (failed ? ports_.metrics.retries_after_failure : ports_.metrics.takeovers).add();
  (failed ? of_scope.retries_after_failure : of_scope.takeovers).add();
}

Task<ClaimsAnswer> Claims::lookup(Call call) {
  const http::RequestHead& head = call.request.head;
  const auto asked = head.method == Method::post ? read_lookup(call.request.body, longest_wait)
                                                 : read_lookup_query(query_of(head), longest_wait);
  if (!asked) co_return answers_.invalid(asked.error());
  Op op;
  op.id = identities_.operation(call.tenant, asked->scope, asked->kind, asked->key);
  co_await claimant_.ask(op);
  if (op.status == OpStatus::done && owner_works(op) && asked->wait > Duration::zero()) {
    OwnerWait owner = owner_wait(asked->wait);
    co_await wait_for_owner(owner, op.id, call.request.client_left, op);
  }
  std::shared_ptr<const void> held;
  if (hold(value_size(op), held) == Reserved::no) co_return answers_.no_memory();
  ClaimsAnswer found = answers_.found(op);
  found.response.held = std::move(held);
  co_return found;
}

Task<ClaimsAnswer> Claims::follow(Call call) {
  const http::RequestHead& head = call.request.head;
  const auto asked = head.method == Method::post ? read_follow(call.request.body, longest_wait)
                                                 : read_follow_query(query_of(head), longest_wait);
  if (!asked) co_return answers_.invalid(asked.error());
  const OperationId id = identities_.operation(call.tenant, asked->name.scope, asked->name.kind, asked->name.key);
  ProgressPlace place = asked->place;
  Op seen;
  co_await progress_.read(id, place, seen);
  const bool waits = seen.status == OpStatus::done && seen.chunks.empty() && owner_works(seen);
  if (waits && asked->name.wait > Duration::zero() && may_wait()) {
    const Poll poll(ports_.metrics);
    Asker asker(call.request.client_left, stopping_);
    co_await progress_.wait(id, asked->name.wait, asker, place, seen);
  }
  std::shared_ptr<const void> held;
  if (hold(value_size(seen), held) == Reserved::no) co_return answers_.no_memory();
  ClaimsAnswer followed = answers_.followed(seen, place);
  followed.response.held = std::move(held);
  co_return followed;
}

bool Claims::may_wait() {
  if (ports_.metrics.waiting.value() < settings_.max_waiting) return true;
  ports_.metrics.waits_refused.add();
  return false;
}

Task<WaitEnd> Claims::wait_for_owner(OwnerWait& owner, OperationId id, const bool& client_left, Op& seen) {
  if (!may_wait()) co_return WaitEnd::limit;
  const Poll poll(ports_.metrics);
  Asker asker(client_left, stopping_);
  const WaitEnd end = co_await owner.wait(id, &asker, seen);
  co_return end;
}

Task<ClaimsAnswer> Claims::renew(Call call, ClaimHandle handle) {
  const auto asked = read_renew(call.request.body);
  if (!asked) co_return answers_.invalid(asked.error());
  Duration lease = asked->value_or(default_claim_lease);
  if (!*asked) {
    Op seen;
    seen.id = handle.id;
    co_await claimant_.ask(seen);
    if (seen.status == OpStatus::failed) co_return answers_.store_failed(seen);
    lease = unasked_lease(seen, handle.nonce);
  }
  Op op = op_of(handle, Verb::renew);
  op.terms.lease = lease;
  op.terms.owner = Owner::outside;
  co_await claimant_.ask(op);
  if (op.status != OpStatus::done) co_return answers_.not_done(op);
  co_return answers_.renewed(op.now + lease);
}

Task<ClaimsAnswer> Claims::progress(Call call, ClaimHandle handle) {
  const auto asked = read_progress(call.request.body);
  if (!asked) co_return answers_.invalid(asked.error());
  Op op;
  const Appended appended = co_await progress_.append(handle, *asked, op);
  switch (appended) {
    case Appended::done: co_return answers_.appended(asked->number);
    case Appended::not_done: co_return answers_.not_done(op);
    case Appended::gap:
      co_return answers_.invalid(fmt::format(
          "Pieces before piece {} are missing. They are numbered from 0 and appended one at a time.", asked->number));
    case Appended::too_much: break;
  }
  ports_.metrics.progress_refused.add();
  co_return answers_.too_much_progress();
}

// Without its own ttl an outcome is kept as long as the claim asked, which is in its record.
Task<void> Claims::finish(Op& op) {
  if (op.terms.ttl == Duration::zero()) {
    op.terms.ttl = ClaimTerms().ttl;
    Op seen;
    seen.id = op.id;
    co_await claimant_.ask(seen);
    if (seen.status == OpStatus::failed) {
      answer_failed(op, seen.fault, seen.error);
      co_return;
    }
    const bool mine = standing_of(seen, op.nonce) == Standing::started;
    if (mine) op.terms.ttl = seen.record->expires_at - seen.record->started_at;
  }
  co_await claimant_.ask(op);
  if (op.status == OpStatus::done) ports_.waiters.notify(op.id);
}

Task<ClaimsAnswer> Claims::succeed(Call call, ClaimHandle handle) {
  const auto asked = read_succeed(call.request.body);
  if (!asked) co_return answers_.invalid(asked.error());
  Op op = op_of(handle, Verb::finish);
  op.terms.ttl = asked->ttl.value_or(Duration::zero());
  op.final_state = State::succeeded;
  op.outcome = outcome_of(asked->value);
  co_await finish(op);
  if (op.status != OpStatus::done) co_return answers_.not_done(op);
  ClaimsAnswer ended = answers_.succeeded(op, asked->value);
  if (hold(ended.response.body.size(), ended.response.held) == Reserved::no) co_return answers_.no_memory();
  co_return ended;
}

Task<ClaimsAnswer> Claims::fail(Call call, ClaimHandle handle) {
  const auto reason = read_fail(call.request.body);
  if (!reason) co_return answers_.invalid(reason.error());
  Op op = op_of(handle, Verb::finish);
  op.terms.ttl = Duration::zero();
  op.final_state = State::failed;
  co_await finish(op);
  if (op.status != OpStatus::done) co_return answers_.not_done(op);
  ports_.log.info("work failed",
                  {{"tenant", call.tenant}, {"operation", to_hex(prefix_of(op.id))}, {"reason", *reason}});
  co_return answers_.failed(op);
}

Task<ClaimsAnswer> Claims::release(Call call, ClaimHandle handle) {
  const auto asked = read_release(call.request.body);
  if (!asked) co_return answers_.invalid(asked.error());
  Op op = op_of(handle, Verb::release);
  co_await claimant_.release(op);
  if (op.status != OpStatus::done) co_return answers_.not_done(op);
  ports_.waiters.notify(op.id);
  co_return answers_.released();
}

}  // namespace once::claims
