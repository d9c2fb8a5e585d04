#include "guard/engine.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include "base/assert.hpp"
#include "core/outcome.hpp"
#include "guard/caught.hpp"

namespace once::guard {

namespace {

using namespace std::chrono_literals;

constexpr Duration longest_wait = 24h;
constexpr std::string_view fixed_reason = "the work threw";

// pthread_exit() in the work unwinds the thread: code after the call is skipped, destructors run.
template <class F>
struct UnlessReturned {
  explicit UnlessReturned(F the_action) : action(std::move(the_action)) {}
  ~UnlessReturned() {
    if (!returned) action();
  }
  UnlessReturned(const UnlessReturned&) = delete;
  UnlessReturned& operator=(const UnlessReturned&) = delete;

  F action;
  bool returned = false;
};

}  // namespace

Engine::Engine(const Options& options, std::string_view secret, const Clock& clock, std::unique_ptr<Log> log,
               std::unique_ptr<Backing> backing)
    : log_(std::move(log)),
      operations_(secret),
      max_value_(options.max_value),
      shared_(backing->store().traits().shared == Shared::yes),
      observe_(options.observe),
      clock_(clock),
      backing_(std::move(backing)),
      background_(backing_->store(), clock, [this](const OperationId& id) { notify_waiting(id); }) {
  backing_->store().notify_of_ends([this](const OperationId& id) { notify_waiting(id); });
  backing_->start();
}

void Engine::entered(Executions::Entered how, Op& op) {
  switch (how) {
    case Executions::Entered::yes: return;
    case Executions::Entered::handed_over: op.verdict = Verdict::in_flight; return;
    case Executions::Entered::other_request: op.verdict = Verdict::mismatch; return;
  }
}

ClaimResult Engine::claim_or_wait(Op& op, Duration wait, Executions::Entry& work, const std::stop_token& stop) {
  BlockingClaimant claimant = this->claimant();
  claimant.begin_wait(std::min<Duration>(wait, longest_wait));
  StopPresence presence(stop);
  const std::stop_callback wake(stop, [&] { notify_waiting(op.id); });
  while (true) {
    const ClaimResult claimed = claimant.claim(op);
    if (op.status == OpStatus::failed && claimed.stands == Stands::perhaps) claimant.take_back_later(op);
    if (claimed.stands == Stands::yes) entered(claimant.enter(op, work), op);
    const bool in_flight = op.status == OpStatus::done && op.verdict == Verdict::in_flight;
    if (!in_flight || wait <= Duration::zero()) return claimed;
    const WaitEnd end = claimant.wait_for_owner(op.id, presence);
    if (end == WaitEnd::limit || end == WaitEnd::left) return claimed;
  }
}

void Engine::finish(Op& op, Duration lease, Executions::Entry* work) {
  op.verb = Verb::finish;
  op.record.reset();
  BlockingClaimant claimant = this->claimant();
  claimant.end(op, lease, work);
  if (work != nullptr && op.status == OpStatus::failed && !shared_) claimant.end_later(op, Stands::yes);
  if (work != nullptr) claimant.leave(op, *work);
  notify_waiting(op.id);
}

void Engine::count_attempt(const Record& record) {
  if (record.attempt == Attempt{1}) return;
  auto& counter = record.previous_state == State::failed ? counts_.retries : counts_.takeovers;
  counter.fetch_add(1, std::memory_order_relaxed);
}

void Engine::count(const OutcomeFacts& outcome) {
  auto& counter = outcome.status == Status::in_progress   ? counts_.in_progress
                  : outcome.status == Status::succeeded   ? (outcome.cached() ? counts_.cached : counts_.fresh)
                  : outcome.reason == Reason::work_failed ? counts_.failed
                  : outcome.reason == Reason::lost        ? counts_.lost
                                                          : counts_.refused;
  counter.fetch_add(1, std::memory_order_relaxed);
}

Counts Engine::counts() const {
  const auto value = [](const std::atomic<std::uint64_t>& count) { return count.load(std::memory_order_relaxed); };
  return {.fresh = value(counts_.fresh),
          .cached = value(counts_.cached),
          .in_progress = value(counts_.in_progress),
          .failed = value(counts_.failed),
          .lost = value(counts_.lost),
          .refused = value(counts_.refused),
          .takeovers = value(counts_.takeovers),
          .retries = value(counts_.retries)};
}

void Engine::destroy(Engine* engine) {
  if (!engine->process_.forked()) {
    // The last call may have ended on the guard's own loop, whose thread cannot join itself.
    if (engine->loop_.is_own_thread()) return std::thread([engine] { delete engine; }).detach();
    delete engine;
    return;
  }
  static std::atomic<Engine*> left = nullptr;  // keeps it reachable, so that it is not reported as a leak
  engine->left_before_ = left.exchange(engine);
}

bool Engine::forked(OutcomeFacts& outcome) const {
  if (!process_.forked()) return false;
  outcome.status = Status::failed;
  outcome.reason = Reason::forked;
  outcome.detail = "the guard was opened before a fork(): open one in the child";
  return true;
}

void Engine::run(const Request& request, const detail::Work& work, OutcomeFacts& outcome) {
  if (forked(outcome)) return;
  Observation observation(observe_, Observed::Call::run, &request);
  auto op = operations_.read(request);
  if (!op) {
    outcome.reason = Reason::invalid;
    outcome.detail = std::move(op.error());
  } else if (!cancelled(work.stop, outcome)) {
    Executions::Entry entry(executions_);
    const ClaimResult claimed = claim_or_wait(*op, request.wait, entry, work.stop);
    observation.claimed();
    const Call call{
        .request = request, .work = work, .op = *op, .entry = entry, .claimed = claimed, .observation = observation};
    if (op->status == OpStatus::done && op->verdict == Verdict::execute) {
      perform(call, outcome);
    } else if (op->status != OpStatus::done || op->verdict != Verdict::in_flight || !cancelled(work.stop, outcome)) {
      set_verdict(*op, work, outcome);
    }
  }
  count(outcome);
  observation.ended(outcome);
}

std::expected<std::chrono::nanoseconds, std::string> Engine::ping() {
  OutcomeFacts facts;
  if (forked(facts)) return std::unexpected(std::move(facts.detail));
  Op lookup;
  const std::chrono::nanoseconds began = monotonic_now();
  ask(lookup);
  if (lookup.status == OpStatus::failed) return std::unexpected(std::move(lookup.error));
  return monotonic_now() - began;
}

void Engine::perform(const Call& call, OutcomeFacts& outcome) {
  const auto& [request, work, op, entry, claimed, observation] = call;
  count_attempt(*op.record);
  outcome.attempt = static_cast<std::uint32_t>(op.record->attempt);
  outcome.fence = static_cast<std::uint64_t>(op.record->fence);
  Lease lease{.id = op.id, .nonce = op.nonce};
  LeaseSteps steps;
  steps.start(op, claimed.held_since, &entry);
  Running running;
  running.attempt_ = outcome.attempt;
  running.fence_ = outcome.fence;
  running.owner_ = &lease;
  running.stop_ = work.stop;

  detail::Work::Result result;
  OutcomeBytes bytes;
  Thrown thrown;
  bool succeeded = false;
  const auto body = [&] {
    succeeded = work.perform(work.state, running, result) == detail::Work::Ended::well;
    if (succeeded) bytes = outcome_of(request, work, result);
  };
  const auto ended = [&] {
    UnlessReturned left([&] { leave_unknown(call); });
    std::optional<Background::Keeping> keeping;
    if (shared_) keeping.emplace(background_, lease, steps);  // otherwise the process is the owner
    const Ended how = caught(body, thrown);
    left.returned = true;
    return how;
  }();
  observation.worked();
  if (forked(outcome)) return;  // the work has forked, and this is the child
  if (ended == Ended::threw || !succeeded) {
    if (ended == Ended::threw) {
      const bool with_text = request.failure_text == FailureText::exception && !thrown.what.empty();
      result.why = with_text ? std::move(thrown.what) : std::string(fixed_reason);
      outcome.exception = std::move(thrown.exception);
    }
    return work_failed(call, std::move(result.why), outcome);
  }
  op.final_state = State::succeeded;
  op.body_kept = bytes ? BodyKept::yes : BodyKept::no;
  op.outcome = bytes;
  finish(op, request.lease, &entry);
  observation.recorded();
  switch (op.status) {
    case OpStatus::done: break;
    case OpStatus::lost: outcome.reason = Reason::lost; return;
    case OpStatus::failed:
      outcome.reason = Reason::not_recorded;
      outcome.detail = std::move(op.error);
      return;
  }
  outcome.status = Status::succeeded;
  // If the work committed an outcome in its own transaction, that is the outcome for all callers.
  if (another_outcome_stands(op)) set_recorded(*op.record, Source::fresh, work, outcome);
}

OutcomeBytes Engine::outcome_of(const Request& request, const detail::Work& work,
                                const detail::Work::Result& result) const {
  std::optional<std::string> cut;
  std::string_view stored = result.stored;
  if (!request.store_only.empty() || !request.never_store.empty()) {
    cut = sanitise(stored, {.store_only = request.store_only, .never_store = request.never_store});
    if (!cut) return nullptr;
    stored = *cut;
  }
  if (stored.size() > max_value_) return nullptr;
  std::string fields = "Content-Type: ";
  fields.append(work.media_type).append("\r\n");
  auto bytes = std::make_shared<std::string>();
  encode_into(*bytes, {.status = 200, .reason = "OK", .headers = fields, .body = stored});
  return bytes;
}

void Engine::work_failed(const Call& call, std::string why, OutcomeFacts& outcome) {
  Op& op = call.op;
  op.final_state = State::failed;
  op.outcome = nullptr;
  finish(op, call.request.lease, &call.entry);
  call.observation.recorded();
  // The claim was taken over; or the work committed its outcome in its own transaction and failed afterwards.
  if (op.status == OpStatus::lost && claimant().find_committed(op) == Committed::yes) {
    return set_recorded(*op.record, Source::fresh, call.work, outcome);
  }
  switch (op.status) {
    case OpStatus::done:
      outcome.reason = Reason::work_failed;
      outcome.detail = std::move(why);
      return;
    case OpStatus::lost: outcome.reason = Reason::lost; return;
    case OpStatus::failed:
      outcome.reason = Reason::not_recorded;
      outcome.detail = std::move(op.error);
      return;
  }
}

void Engine::leave_unknown(const Call& call) {
  if (process_.forked()) return;
  const Nonce newest = call.entry.leave().value_or(call.op.nonce);
  claimant().end_later(end_of(call.op, Verb::finish, newest), Stands::yes);
}

}  // namespace once::guard
