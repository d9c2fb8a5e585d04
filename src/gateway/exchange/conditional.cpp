#include "gateway/exchange/conditional.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/backoff.hpp"
#include "core/headers.hpp"
#include "http/trace_context.hpp"

namespace once::gateway {

using http::Framing;

namespace {

// Many writers that claim and release one record by turns can make a store give up on one of them, with nothing done.
constexpr int most_refusals = 5;
constexpr Backoff refused_pauses(std::chrono::milliseconds(50), std::chrono::milliseconds(400));
// A GET may be sent again: the connection may have been closed while it rested.
constexpr int most_reads = 2;

bool starts_with_name(std::string_view name, std::string_view start) {
  return name.size() >= start.size() && same_name(name.substr(0, start.size()), start);
}

bool is_condition(std::string_view name) {
  return same_name(name, "If-Match") || same_name(name, "If-None-Match");
}

// What has no end cannot have a tag.
bool never_ends(const http::ResponseHead& head) {
  const std::string_view type = head.find("Content-Type").value_or("");
  return starts_with_name(type, "text/event-stream") || starts_with_name(type, "multipart/x-mixed-replace");
}

// What of a write also says which representation is meant and who asks. The rest is about the body, about conditions,
// or would make something else than a GET of it.
bool selects(std::string_view name, const Policy& policy) {
  constexpr std::array others = {
      std::string_view("Expect"),      std::string_view("Range"),     std::string_view("Digest"),
      std::string_view("Repr-Digest"), std::string_view("Prefer"),    std::string_view("Accept-Encoding"),
      std::string_view("Want-Digest"), std::string_view("Signature"), std::string_view("Signature-Input")};
  const auto named = [name](std::string_view other) { return same_name(name, other); };
  if (starts_with_name(name, "Content-") || starts_with_name(name, "If-")) return false;
  return !overrides_method(name) && std::ranges::none_of(others, named) && !same_name(name, policy.key.header);
}

http::RequestHead as_get(const http::RequestHead& write, const Policy& policy) {
  http::RequestHead get = write;
  get.method = Method::get;
  get.method_text = "GET";
  get.framing = {};
  get.upgrade = false;
  get.expects_continue = false;
  std::erase_if(get.fields, [&](const http::Field& field) { return !selects(field.name, policy); });
  return get;
}

// Nothing if a condition cannot be understood.
std::optional<Precondition> read_precondition(const http::RequestHead& head) {
  Precondition precondition;
  for (const http::Field& field : head.fields) {
    if (same_name(field.name, "If-Match") && !precondition.match.add(field.value)) return std::nullopt;
    if (same_name(field.name, "If-None-Match") && !precondition.none_match.add(field.value)) return std::nullopt;
  }
  return precondition;
}

}  // namespace

bool overrides_method(std::string_view name) {
  return same_variable(name, "X-HTTP-Method-Override") || same_variable(name, "X-HTTP-Method") ||
         same_variable(name, "X-Method-Override");
}

bool tags_response(const Policy& policy, const http::RequestHead& head) {
  return policy.conditional.etag == Etags::on && policy.mode == Mode::enforce && head.method == Method::get &&
         !head.upgrade && head.framing.kind == Framing::Kind::none && !head.find("Range");
}

Tagging begin_tagging(const ConditionalPolicy& policy, http::RequestHead& head) {
  Tagging tagging{.policy = policy, .none_match = {}};
  bool conditional = false;
  bool understood = true;
  for (const http::Field& field : head.fields) {
    if (!same_name(field.name, "If-None-Match")) continue;
    conditional = true;
    understood = tagging.none_match.add(field.value) && understood;
  }
  // A condition on what one has that cannot be understood is met by nothing, and the whole answer is never wrong.
  if (!understood) tagging.none_match = TagList();
  std::erase_if(head.fields, [conditional](const http::Field& field) {
    // With If-None-Match the date does not count, and a backend that knows only dates must not decide by it.
    return same_name(field.name, "Accept-Encoding") || (conditional && same_name(field.name, "If-Modified-Since"));
  });
  return tagging;
}

bool may_be_tagged(const ConditionalPolicy& policy, const http::ResponseHead& head) {
  if (head.status != 200 || head.find("ETag") || never_ends(head)) return false;
  return head.framing.kind != Framing::Kind::length || head.framing.length <= policy.max_body;
}

std::string etag_of(const http::ResponseHead& head, std::string_view body) {
  return make_etag({.content_type = head.find("Content-Type").value_or(""),
                    .content_encoding = head.find("Content-Encoding").value_or(""),
                    .body = body});
}

bool describes_body(std::string_view name) {
  if (same_name(name, "Last-Modified") || same_name(name, "Digest") || same_name(name, "Repr-Digest")) return true;
  return starts_with_name(name, "Content-") && !same_name(name, "Content-Location") &&
         !starts_with_name(name, "Content-Security-Policy");
}

WriteEnd end_of_write(int status, const Policy& policy) {
  const bool of_a_proxy = status == 502 || status == 503 || status == 504;
  return of_a_proxy && policy.record.gateway_errors == GatewayErrors::unknown ? WriteEnd::unknown : WriteEnd::known;
}

Task<bool> drain(http::ResponseSource& rest, const Timeouts& timeouts, const http::Loop& loop) {
  using Kind = http::BodyChunk::Kind;
  const auto deadline = loop.now() + timeouts.response;
  while (true) {
    const Duration left = std::max(Duration::zero(), std::chrono::ceil<Duration>(deadline - loop.now()));
    const http::BodyChunk chunk = co_await rest.next(std::min(timeouts.stream_idle, left));
    if (chunk.kind == Kind::data && loop.now() < deadline) continue;
    co_return chunk.kind == Kind::end;
  }
}

void strip_conditions(http::RequestHead& head) {
  std::erase_if(head.fields, [](const http::Field& field) { return is_condition(field.name); });
}

Problem not_held() {
  Problem lost = problem(ProblemKind::resource_busy, "The claim on the resource was lost; nothing was executed.");
  lost.retry_after_seconds = retry_soon_seconds;
  return lost;
}

void WriteGuard::count(PreconditionResult result) {
  ports_.metrics.preconditions[static_cast<std::size_t>(result)].add();
}

Problem WriteGuard::refuse(PreconditionResult result, Problem problem) {
  count(result);
  return problem;
}

Task<std::optional<Problem>> WriteGuard::enter(const GuardedWrite& write) {
  write_ = &write;
  claimed_ = false;
  strips_conditions_ = false;
  owner_.begin(OwnerWait::Ends::unheard, write.policy.wait_limit);  // a claim may lapse, in every store
  auto asked = read_precondition(write.head);
  if (!asked) {
    co_return refuse(PreconditionResult::invalid,
                     problem(ProblemKind::bad_request, "If-Match or If-None-Match is not a list of entity tags."));
  }
  precondition_ = *std::move(asked);
  if (precondition_.empty() && write.policy.conditional.if_match == IfMatch::required) {
    co_return refuse(
        PreconditionResult::missing,
        problem(ProblemKind::precondition_required,
                "This write needs If-Match with the current ETag of the resource, or If-None-Match: * to create it."));
  }
  std::optional<Problem> refused = co_await claim();
  if (refused) co_return refused;
  if (claimed_) {
    lease_.start(op_, asked_.held_since, &work_);
  } else {
    lease_.start_unclaimed(op_, work_);
  }
  // A writer that asks for nothing is still one at a time, or a checked one would not be alone.
  if (!precondition_.empty()) refused = co_await check();
  if (!refused) refused = co_await hold();
  if (!refused && strips_conditions_) count(PreconditionResult::passed);
  entered_ = true;
  if (refused) co_await leave(WriteEnd::known);
  co_return refused;
}

// True in `claimed_` when the resource is ours.
Task<std::optional<Problem>> WriteGuard::claim() {
  const Policy& policy = write_->policy;
  // Neither host nor query: names of one resource that differ in them must not let two writers in.
  const std::array<std::string_view, 2> parts = {"resource", write_->resource};
  op_ = Op();
  op_.verb = Verb::claim;
  op_.id = ids_.make(parts, "");
  op_.route = "(resource)";  // what operators see of it; no pattern of a route looks so
  op_.terms = {.on_unknown = OnUnknown::retry,
               .takeover_after = Duration::zero(),
               .lease = policy.lease,
               .ttl = 2 * policy.lease,
               .owner = Owner::outside};  // lapses with its lease in every store: see leave()
  while (true) {
    co_await ask_for_resource();
    if (op_.status == OpStatus::failed) {
      std::optional<Problem> refused = go_without_claim();
      if (refused || work_.enter_unclaimed(op_.id, op_.fingerprint) == Executions::Entered::yes) co_return refused;
      // Another write of this process is at work.
      if (asked_.stands == Stands::perhaps) claimant_.take_back_later(op_);
      op_.verdict = Verdict::in_flight;
    } else if (op_.verdict == Verdict::execute) {
      claimed_ = work_.enter(op_) == Executions::Entered::yes;
      if (claimed_) co_return std::nullopt;
      op_.verdict = Verdict::in_flight;  // another write of this process is at work, and has the claim now
    }
    bool owner_ended = false;
    if (op_.verdict == Verdict::in_flight) owner_ended = co_await owner_.wait(op_.id, write_->presence);
    if (owner_ended) continue;
    Problem answer = problem(ProblemKind::resource_busy, "Another write to this resource is still running.");
    answer.retry_after_seconds = retry_soon_seconds;
    co_return refuse(PreconditionResult::busy, std::move(answer));
  }
}

Task<void> WriteGuard::ask_for_resource() {
  Backoff pauses = refused_pauses;
  for (int refusals = 1; true; ++refusals) {
    asked_ = co_await claimant_.claim(op_, Hold::later);
    const bool refused = op_.status == OpStatus::failed && op_.fault == StoreFault::refused;
    if (!refused || refusals == most_refusals || ports_.store.store().failed_for_good()) co_return;
    if (asked_.stands == Stands::perhaps) claimant_.take_back_later(op_);
    co_await sleep_for(ports_.home, pauses.next());
  }
}

// The store did not take the claim. A problem: nor may the write be sent without it.
std::optional<Problem> WriteGuard::go_without_claim() {
  const bool full = op_.fault == StoreFault::full;
  ports_.log.error("resource not claimed",
                   {{"request", write_->request_id}, {"error", op_.error}, {"trace", http::trace_id(write_->head)}});
  if (write_->policy.store_down == StoreDown::bypass && !full) return std::nullopt;
  if (asked_.stands == Stands::perhaps) claimant_.take_back_later(op_);
  Problem answer = problem(full ? ProblemKind::store_full : ProblemKind::store_unavailable,
                           "The resource could not be claimed for this write; nothing was executed.");
  answer.retry_after_seconds = retry_soon_seconds;
  return refuse(PreconditionResult::no_store, std::move(answer));
}

// As the one who writes would see it.
Task<BackendAnswer> WriteGuard::read_current() {
  const http::RequestHead get = as_get(write_->head, write_->policy);
  added_.assign("X-Request-Id: ").append(write_->request_id).append("\r\n");
  const BackendRequest request{.head = get,
                               .body = {},
                               .added_fields = added_,
                               .timeouts = write_->policy.timeouts,
                               .max_response_body = write_->policy.conditional.max_body,
                               .strip_prefix = write_->strip_prefix,
                               .origin = write_->origin};
  BackendAnswer answer;
  for (int tries = 0; tries < most_reads; ++tries) {
    answer = co_await write_->backend.send(request);
    if (answer.delivery != Delivery::lost) break;
  }
  co_return answer;
}

Task<std::optional<Problem>> WriteGuard::check() {
  CurrentState current;
  {
    const BackendAnswer answer = co_await read_current();
    const bool answered = is_answered(answer.delivery);
    const int status = answered ? answer.head->status : 0;
    if (!answered || status >= 500 || status == 429) {
      Problem unread = problem(ProblemKind::bad_gateway, "The resource could not be read; nothing was executed.");
      if (answer.delivery == Delivery::timed_out) unread.status = 504;
      unread.retry_after_seconds = retry_soon_seconds;
      co_return refuse(PreconditionResult::unreadable, std::move(unread));
    }
    const bool absent = status == 404 || status == 410;
    if (!absent && (status < 200 || status >= 300)) {
      co_return refuse(PreconditionResult::unreadable,
                       problem(ProblemKind::precondition_failed,
                               "The current state of the resource is unknown: the backend answered " +
                                   std::to_string(status) + " to a GET. Nothing was executed."));
    }
    if (!absent && answer.head->find("ETag")) {
      count(PreconditionResult::left_to_backend);
      co_return std::nullopt;
    }
    current.exists = !absent;
    // One that was cut off is in no state that a client can have seen, so the write is refused.
    if (status == 200 && answer.delivery != Delivery::oversize) current.tag = etag_of(*answer.head, answer.body);
  }
  if (!holds(precondition_, current)) {
    Problem failed = problem(ProblemKind::precondition_failed,
                             current.exists ? "The resource has changed: its current state does not match the "
                                              "precondition of this write."
                                            : "The resource does not exist.");
    if (current.tag) failed.fields.append("ETag: ").append(*current.tag).append("\r\n");
    co_return refuse(PreconditionResult::failed, std::move(failed));
  }
  strips_conditions_ = true;
  co_return std::nullopt;
}

// The lease is renewed on the way. If half of it went by all the same, the store is asked before anything is sent.
Task<std::optional<Problem>> WriteGuard::hold() {
  if (!claimed_) co_return std::nullopt;
  const ClaimResult held = co_await claimant_.hold(op_, asked_.held_since);
  lease_.renewed(held.held_since);
  if (op_.status == OpStatus::done && op_.verdict == Verdict::execute) co_return std::nullopt;
  co_return refuse(PreconditionResult::busy, not_held());
}

Task<void> WriteGuard::leave(WriteEnd end) {
  entered_ = false;
  write_ = nullptr;
  co_await lease_.stop();
  const bool claimed = std::exchange(claimed_, false);
  const std::optional<Nonce> handed = work_.leave();
  if (end == WriteEnd::unknown) co_return;
  OpStatus released = OpStatus::done;
  if (claimed) {
    released = co_await release(op_.nonce);
  } else if (asked_.stands == Stands::perhaps) {
    claimant_.take_back_later(op_);
  }
  if (handed) released = co_await release(*handed);
  if (released == OpStatus::lost) ports_.metrics.claims_lost.add();
  ports_.waiters.notify(op_.id);
}

Task<OpStatus> WriteGuard::release(Nonce nonce) {
  Op release = end_of(op_, Verb::release, nonce);
  co_await claimant_.end_soon(release);
  co_return release.status;
}

namespace {

// Of the key and of the resource.
class BothPermits final : public SendPermit {
 public:
  BothPermits(const SendPermit* key, const SendPermit* resource) : key_(key), resource_(resource) {}

  bool may_send() const override {
    return (key_ == nullptr || key_->may_send()) && (resource_ == nullptr || resource_->may_send());
  }

 private:
  const SendPermit* key_;
  const SendPermit* resource_;
};

}  // namespace

Task<BackendAnswer> GuardedBackend::send(const BackendRequest& request) {
  const GuardedWrite write{.policy = policy_,
                           .backend = backend_,
                           .head = request.head,
                           .request_id = request_id_,
                           .resource = resource_,
                           .strip_prefix = request.strip_prefix,
                           .origin = request.origin};
  BackendAnswer answer;
  answer.refused = co_await guard_.enter(write);
  if (answer.refused) co_return answer;
  http::RequestHead head = request.head;
  if (guard_.strips_conditions()) strip_conditions(head);
  const SendPermit* const resource = guard_.permit();
  const BothPermits permit(request.permit, resource);
  const BackendRequest checked{.head = head,
                               .body = request.body,
                               .added_fields = request.added_fields,
                               .timeouts = request.timeouts,
                               .max_response_body = request.max_response_body,
                               .interim = request.interim,
                               .strip_prefix = request.strip_prefix,
                               .origin = request.origin,
                               .room = request.room,
                               .permit = &permit,
                               .use = request.use};
  answer = co_await backend_.send(checked);
  const bool unsent = answer.delivery == Delivery::not_sent && !answer.refused;
  if (unsent && resource != nullptr && !resource->may_send()) answer.refused = not_held();
  switch (answer.delivery) {
    case Delivery::not_sent:
    case Delivery::busy: co_await guard_.leave(WriteEnd::known); break;
    case Delivery::whole:
    case Delivery::unframed: co_await guard_.leave(end_of_write(answer.head->status, policy_)); break;
    case Delivery::lost:
    case Delivery::timed_out:
    case Delivery::truncated: co_await guard_.leave(WriteEnd::unknown); break;
    case Delivery::oversize: break;
  }
  co_return answer;
}

}  // namespace once::gateway
