#include "guard/engine.hpp"

#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "core/outcome.hpp"
#include "guard/caught.hpp"
#include "store/late_claim.hpp"

namespace once::guard {

namespace {

using namespace std::chrono_literals;

// Owners in other processes tell nobody here unless the store does, so it is looked again: soon at first.
constexpr std::chrono::nanoseconds first_look = 20ms;
constexpr std::chrono::nanoseconds slowest_look = 1s;
constexpr std::chrono::nanoseconds first_retry = 20ms;
// How long a claim that was given up may take to reach a shared store that answers other calls.
constexpr std::chrono::nanoseconds latest_arrival = 10s;
constexpr std::string_view fixed_reason = "the work threw";

// When its record has expired there is nothing left to end.
std::chrono::nanoseconds longest_stay(const ClaimTerms& terms) {
  return std::min<Duration>(terms.ttl, 24h) + std::min<Duration>(terms.lease, 24h);
}

// True: another call's claim has been handed to this one since, and is the one at hand now.
bool take_handed(Op& op, const Executions::Entry* work) {
  const std::optional<Nonce> handed = work == nullptr ? std::nullopt : work->handed();
  if (!handed || *handed == op.nonce) return false;
  op.nonce = *handed;
  return true;
}

}  // namespace

Engine::Engine(const Options& options, std::string_view secret, const Clock& clock, std::unique_ptr<Log> log,
               std::unique_ptr<Backing> backing)
    : log_(std::move(log)),
      operations_(secret),
      max_value_(options.max_value),
      shared_(backing->store().traits().shared == Shared::yes),
      clock_(clock),
      backing_(std::move(backing)),
      renewer_(backing_->store()),
      late_ends_(backing_->store(), [this] { tell_waiting(); }) {
  backing_->store().tell_ends([this](const OperationId& /*id*/) { tell_waiting(); });
  backing_->start();
}

Nonce Engine::new_nonce() {
  const std::scoped_lock lock(random_mutex_);
  return random_.nonce();
}

void Engine::tell_waiting() {
  ends_.fetch_add(1);
  if (waiting_.load() == 0) return;
  const std::scoped_lock lock(waiting_mutex_);
  ended_.notify_all();
}

void Engine::hold_late_claim(Op& op, Time asked) {
  if (!may_have_lapsed(op, clock_.now() - asked)) return;
  Op renewal = renewal_of(op);
  const Time renewed = clock_.now();
  backing_->run(renewal);
  judge_renewal(op, renewal, clock_.now() - renewed);
}

void Engine::enter(Op& op, Executions::Entry& work) {
  switch (work.enter(op)) {
    case Executions::Entered::yes: return;
    case Executions::Entered::handed_over:
      op.verdict = Verdict::in_flight;
      op.nonce = new_nonce();
      return;
    case Executions::Entered::other_request:
      Op release;
      release.verb = Verb::release;
      release.id = op.id;
      release.nonce = op.nonce;
      release.terms = op.terms;
      end_claim(release);
      op.verdict = Verdict::mismatch;
      return;
  }
}

// A claim that was handed over too late to be used is nobody's. It is taken back if the outcome stands; otherwise it
// may be all that keeps the work from being done again.
void Engine::leave(const Op& op, Executions::Entry& work) {
  const std::optional<Nonce> handed = work.leave();
  if (!handed || *handed == op.nonce) return;
  Op end;
  end.verb = op.status == OpStatus::done ? Verb::release : Verb::finish;
  end.id = op.id;
  end.nonce = *handed;
  end.terms = op.terms;
  end.final_state = State::unknown;
  end_claim(end);
}

void Engine::end_claim(Op& end) {
  backing_->run(end);
  if (end.status != OpStatus::failed) return;
  late_ends_.add(end, {.limit = longest_stay(end.terms)});
}

// Perhaps it stands, or will when it arrives, and nothing was done under it.
void Engine::release_later(const Op& claim) {
  Op release;
  release.verb = Verb::release;
  release.id = claim.id;
  release.nonce = claim.nonce;
  release.terms = claim.terms;
  late_ends_.add(release, {.limit = longest_stay(claim.terms), .on_its_way = shared_ ? latest_arrival : 0ns});
}

void Engine::claim_or_wait(Op& op, Duration wait, Executions::Entry& work) {
  const bool waits = wait > Duration::zero();
  const std::chrono::nanoseconds deadline = waits ? monotonic_now() + std::min<Duration>(wait, 24h) : 0ns;
  std::chrono::nanoseconds look = shared_ ? first_look : slowest_look;
  if (waits) waiting_.fetch_add(1);
  bool asked_again = false;
  bool uncertain = false;  // a claim got no answer, and may stand all the same
  Time asked = clock_.now();
  while (true) {
    const std::uint64_t ends_before = ends_.load();
    backing_->run(op);
    uncertain = uncertain || (op.status == OpStatus::failed && op.fault == StoreFault::unavailable);
    // Perhaps it was made, and nobody else would know whose it is. The same nonce is the same claim.
    if (may_ask_again(op, backing_->store(), clock_.now() - asked) && !std::exchange(asked_again, true)) continue;
    const bool granted = op.status == OpStatus::done && op.verdict == Verdict::execute;
    hold_late_claim(op, asked);
    uncertain = granted ? op.status == OpStatus::failed : uncertain;
    if (op.status == OpStatus::done && op.verdict == Verdict::execute) enter(op, work);
    if (!waits || op.status != OpStatus::done || op.verdict != Verdict::in_flight) break;
    const std::chrono::nanoseconds left = deadline - monotonic_now();
    if (left <= 0ns) break;
    wait_for_end(op, ends_before, std::min(look, left));
    look = std::min(look * 2, slowest_look);
    asked = clock_.now();
  }
  if (waits) waiting_.fetch_sub(1);
  if (uncertain) release_later(op);
}

void Engine::wait_for_end(Op& claimed, std::uint64_t ends_before, std::chrono::nanoseconds pause) {
  if (shared_) {
    Op note;  // so that whoever ends it tells us
    note.id = claimed.id;
    note.waits = Waits::yes;
    backing_->run(note);
    if (note.record && note.record->state != State::started) return;
  }
  // Its lease may end before anybody says anything.
  const std::chrono::nanoseconds lease_left =
      std::min<Duration>(std::max<Duration>(claimed.record->lease_until - claimed.now, 1ms), slowest_look / 1ms * 1ms);
  std::unique_lock lock(waiting_mutex_);
  ended_.wait_for(lock, std::min(pause, lease_left), [&] { return ends_.load() != ends_before; });
}

void Engine::finish(Op& op, Duration lease, Executions::Entry* work) {
  op.verb = Verb::finish;
  take_handed(op, work);
  const std::chrono::nanoseconds deadline = monotonic_now() + lease;
  std::chrono::nanoseconds pause = first_retry;
  while (true) {
    op.record.reset();
    backing_->run(op);
    if (op.status == OpStatus::lost && take_handed(op, work)) continue;
    if (op.status != OpStatus::failed || monotonic_now() + pause > deadline) break;
    if (backing_->store().failed_for_good()) break;
    std::mutex alone;
    std::condition_variable never;
    std::unique_lock lock(alone);
    never.wait_for(lock, pause);
    pause = std::min(pause * 2, slowest_look);
  }
  if (work != nullptr && op.status == OpStatus::failed && !shared_) {
    late_ends_.add(op, {.limit = std::chrono::nanoseconds::max()});
  }
  if (work != nullptr) leave(op, *work);
  tell_waiting();
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

void Engine::run(const Request& request, const detail::Work& work, OutcomeFacts& outcome) {
  auto op = operations_.read(request);
  if (!op) {
    outcome.reason = Reason::invalid;
    outcome.detail = std::move(op.error());
  } else {
    op->nonce = new_nonce();
    Executions::Entry entry(executions_);
    claim_or_wait(*op, request.wait, entry);
    if (op->status == OpStatus::done && op->verdict == Verdict::execute) {
      perform({.request = request, .work = work, .op = *op, .entry = entry}, outcome);
    } else {
      tell_verdict(*op, work, outcome);
    }
  }
  count(outcome);
}

void Engine::perform(const Call& call, OutcomeFacts& outcome) {
  const auto& [request, work, op, entry] = call;
  count_attempt(*op.record);
  outcome.attempt = static_cast<std::uint32_t>(op.record->attempt);
  outcome.fence = static_cast<std::uint64_t>(op.record->fence);
  Lease lease{.id = op.id, .nonce = op.nonce, .length = request.lease, .work = &entry};
  Running running;
  running.attempt_ = outcome.attempt;
  running.fence_ = outcome.fence;
  running.owner_ = &lease;

  detail::Work::Result result;
  OutcomeBytes bytes;
  std::string thrown;
  bool succeeded = false;
  const auto body = [&] {
    succeeded = work.perform(work.state, running, result);
    if (succeeded) bytes = outcome_of(request, work, result);
  };
  const auto ended = [&] {
    if (!shared_) return caught(body, thrown);  // the process is the owner
    const Renewer::Keeping keeping(renewer_, lease);
    return caught(body, thrown);
  }();
  if (ended == Ended::threw || !succeeded) {
    if (ended == Ended::threw) {
      const bool say = request.failure_text == FailureText::exception && !thrown.empty();
      result.why = say ? std::move(thrown) : std::string(fixed_reason);
    }
    return work_failed(call, std::move(result.why), outcome);
  }
  op.final_state = State::succeeded;
  op.body_kept = bytes ? BodyKept::yes : BodyKept::no;
  op.outcome = bytes;
  finish(op, request.lease, &entry);
  switch (op.status) {
    case OpStatus::done: break;
    case OpStatus::lost: outcome.reason = Reason::lost; return;
    case OpStatus::failed:
      outcome.reason = Reason::not_recorded;
      outcome.detail = std::move(op.error);
      return;
  }
  outcome.status = Status::succeeded;
  // What the work recorded itself, in a transaction of its own, is what everybody gets.
  const OutcomeBytes& stands = op.record ? op.record->outcome : nullptr;
  if (stands && stands != bytes && (!bytes || *stands != *bytes)) {
    tell_recorded(*op.record, Source::fresh, work, outcome);
  }
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
  if (op.status == OpStatus::lost) {
    // Taken over; or the work committed its outcome in a transaction of its own, and failed after that.
    Op seen;
    seen.id = op.id;
    backing_->run(seen);
    if (seen.record && seen.record->nonce == op.nonce && seen.record->state == State::succeeded) {
      return tell_recorded(*seen.record, Source::fresh, call.work, outcome);
    }
  }
  outcome.reason = Reason::work_failed;
  outcome.detail = std::move(why);
}

}  // namespace once::guard
