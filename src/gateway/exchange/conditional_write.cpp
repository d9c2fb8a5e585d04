#include "gateway/exchange/conditional_write.hpp"

#include <array>
#include <utility>

#include "base/backoff.hpp"
#include "gateway/exchange/answers.hpp"
#include "http/trace_context.hpp"

namespace once::gateway {

namespace {

// When many writers claim and release the same record, a store may refuse some of these ops without executing them.
constexpr int most_refusals = 5;
constexpr Backoff refused_pauses(std::chrono::milliseconds(50), std::chrono::milliseconds(400));
// A GET is safe to send again: its connection may have been closed while it was idle.
constexpr int most_reads = 2;

}  // namespace

Problem resource_busy(std::string detail) {
  Problem busy = problem(ProblemKind::resource_busy, std::move(detail));
  busy.retry_after_seconds = retry_soon_seconds;
  return busy;
}

void ConditionalWrite::count(PreconditionResult result) {
  ports_.metrics.preconditions[static_cast<std::size_t>(result)].add();
}

Problem ConditionalWrite::refuse(PreconditionResult result, Problem problem) {
  count(result);
  return problem;
}

Task<std::optional<Problem>> ConditionalWrite::begin() {
  auto asked = read_precondition(write_.head);
  if (!asked) {
    co_return refuse(PreconditionResult::invalid,
                     problem(ProblemKind::bad_request, "If-Match or If-None-Match is not a list of entity tags."));
  }
  precondition_ = *std::move(asked);
  if (precondition_.empty() && write_.policy.conditional.if_match == IfMatch::required) {
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
  // A write without conditions takes its turn too, or checked writes would not be serialised against it.
  if (!precondition_.empty()) refused = co_await check();
  if (!refused) refused = co_await hold();
  // Nothing was sent yet. If the client left while it waited, drop its request: executed now, it could overwrite a
  // newer write of the same client. A client that only half-closed its connection can retry.
  if (!refused && owner_.waited() && write_.presence != nullptr && write_.presence->has_left()) {
    refused = refuse(PreconditionResult::busy,
                     resource_busy("The client closed its connection while the write waited for its turn."));
  }
  entered_ = true;
  if (refused) co_await end(WriteEnd::known);
  if (!refused && checked_) {
    count(PreconditionResult::passed);
    strip_conditions(write_.head);
  }
  co_return refused;
}

// Sets `claimed_` if the claim was granted.
Task<std::optional<Problem>> ConditionalWrite::claim() {
  const Policy& policy = write_.policy;
  // Only the path identifies the resource: host and query must not let two writers in at once.
  const std::array<std::string_view, 2> parts = {"resource", write_.resource};
  op_.verb = Verb::claim;
  op_.id = ids_.make(parts, "");
  op_.route = "(resource)";  // what operators see; no route pattern looks like this
  op_.terms = {.on_unknown = OnUnknown::retry,
               .takeover_after = Duration::zero(),
               .lease = policy.lease,
               .ttl = 2 * policy.lease,
               .owner = Owner::outside};  // lapses with its lease in every store: see end()
  while (true) {
    co_await ask_for_resource();
    if (op_.status == OpStatus::failed) {
      std::optional<Problem> refused = go_without_claim();
      if (refused || work_.enter_unclaimed(op_.id, op_.fingerprint) == Executions::Entered::yes) co_return refused;
      // Another write of this process is executing.
      if (asked_.stands == Stands::perhaps) claimant_.take_back_later(op_);
      op_.verdict = Verdict::in_flight;
    } else if (op_.verdict == Verdict::execute) {
      claimed_ = work_.enter(op_) == Executions::Entered::yes;
      if (claimed_) co_return std::nullopt;
      op_.verdict = Verdict::in_flight;  // another write of this process is executing and has the claim now
    }
    bool owner_ended = false;
    if (op_.verdict == Verdict::in_flight) {
      const WaitEnd end = co_await owner_ends(owner_, ports_, op_.id, write_.presence);
      owner_ended = end == WaitEnd::owner_ended;
    }
    if (owner_ended) continue;
    co_return refuse(PreconditionResult::busy, resource_busy("Another write to this resource is still running."));
  }
}

Task<void> ConditionalWrite::ask_for_resource() {
  Backoff pauses = refused_pauses;
  for (int refusals = 1; true; ++refusals) {
    asked_ = co_await claimant_.claim(op_, Hold::later);
    const bool refused = op_.status == OpStatus::failed && op_.fault == StoreFault::refused;
    if (!refused || refusals == most_refusals || ports_.store.store().failed_for_good()) co_return;
    if (asked_.stands == Stands::perhaps) claimant_.take_back_later(op_);
    co_await sleep_for(ports_.home, pauses.next());
  }
}

// The store did not take the claim. Returns a problem if the write must not be sent without one.
std::optional<Problem> ConditionalWrite::go_without_claim() {
  const bool full = op_.fault == StoreFault::full;
  ports_.log.error("resource not claimed",
                   {{"request", write_.request_id}, {"error", op_.error}, {"trace", http::trace_id(write_.head)}});
  if (write_.policy.store_down == StoreDown::bypass && !full) return std::nullopt;
  if (asked_.stands == Stands::perhaps) claimant_.take_back_later(op_);
  Problem answer = problem(full ? ProblemKind::store_full : ProblemKind::store_unavailable,
                           "The resource could not be claimed for this write; nothing was executed.");
  answer.retry_after_seconds = retry_soon_seconds;
  return refuse(PreconditionResult::no_store, std::move(answer));
}

// Reads the resource as the writer would see it.
Task<BackendAnswer> ConditionalWrite::read_current() {
  const http::RequestHead get = as_get(write_.head, write_.policy);
  added_.clear();
  added_.add("X-Request-Id", write_.request_id);
  const BackendRequest request{.head = get,
                               .body = {},
                               .added_fields = added_.view(),
                               .timeouts = write_.policy.timeouts,
                               .max_response_body = most_tagged_body,
                               .strip_prefix = write_.strip_prefix,
                               .origin = write_.origin};
  BackendAnswer answer;
  for (int tries = 0; tries < most_reads; ++tries) {
    answer = co_await write_.backend.send(request);
    if (answer.delivery != Delivery::lost) break;
  }
  co_return answer;
}

Task<std::optional<Problem>> ConditionalWrite::check() {
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
    // A truncated response is no state that a client can have seen, so the write is refused.
    if (status == 200 && answer.delivery != Delivery::oversize) current.tag = etag_of(*answer.head, answer.body);
  }
  if (!holds(precondition_, current)) {
    Problem failed = problem(ProblemKind::precondition_failed,
                             current.exists ? "The resource has changed: its current state does not match the "
                                              "precondition of this write."
                                            : "The resource does not exist.");
    if (current.tag) failed.fields.add("ETag", *current.tag);
    co_return refuse(PreconditionResult::failed, std::move(failed));
  }
  checked_ = true;
  co_return std::nullopt;
}

// The lease is renewed while the resource is read. If half of it has passed anyway, ask the store before sending.
Task<std::optional<Problem>> ConditionalWrite::hold() {
  if (!claimed_) co_return std::nullopt;
  const ClaimResult held = co_await claimant_.hold(op_, asked_.held_since);
  lease_.renewed(held.held_since);
  if (op_.status == OpStatus::done && op_.verdict == Verdict::execute) co_return std::nullopt;
  co_return refuse(PreconditionResult::busy, resource_busy(std::string(resource_lost)));
}

Task<void> ConditionalWrite::end(WriteEnd end) {
  if (!std::exchange(entered_, false)) co_return;
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

Task<OpStatus> ConditionalWrite::release(Nonce nonce) {
  Op release = end_of(op_, Verb::release, nonce);
  co_await claimant_.end_soon(release);
  co_return release.status;
}

}  // namespace once::gateway
