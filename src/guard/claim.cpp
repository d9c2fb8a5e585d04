// Claims without run(): the holder records an outcome or releases the claim itself.
#include <utility>

#include "base/assert.hpp"
#include "core/outcome.hpp"
#include "guard/held.hpp"

namespace once::guard {

namespace {

EndResult result_of(Op& end) {
  switch (end.status) {
    case OpStatus::done: return {.status = EndStatus::done};
    case OpStatus::lost: return {.status = EndStatus::lost};
    case OpStatus::failed: return {.status = EndStatus::not_recorded, .detail = std::move(end.error)};
  }
  ONCE_ASSERT(false);
}

}  // namespace

detail::Work reading(std::optional<std::string>& value) {
  return {.state = &value,
          .perform = nullptr,
          .read =
              [](void* state, std::string_view bytes) {
                static_cast<std::optional<std::string>*>(state)->emplace(bytes);
                return true;
              },
          .media_type = {}};
}

Claim::Claim(std::shared_ptr<Held> held) : held_(std::move(held)) {}
Claim::Claim(Claim&& other) noexcept = default;
Claim& Claim::operator=(Claim&& other) noexcept = default;
Claim::~Claim() = default;

const std::string& Claim::handle() const {
  return held_->handle;
}
unsigned Claim::attempt() const {
  return held_->attempt;
}
std::uint64_t Claim::fence() const {
  return held_->fence;
}
bool Claim::lost() const {
  return held_->lease.lost.load(std::memory_order_relaxed);
}

Op Held::success(std::string_view value, std::string_view media_type) const {
  Op made = op(Verb::finish);
  made.final_state = State::succeeded;
  std::optional<std::string> stored = std::string(value);
  if (!sanitise.store_only.empty() || !sanitise.never_store.empty()) stored = guard::sanitise(value, sanitise);
  made.body_kept = stored && stored->size() <= engine.max_value() ? BodyKept::yes : BodyKept::no;
  if (made.body_kept == BodyKept::yes) {
    std::string fields = "Content-Type: ";
    fields.append(media_type).append("\r\n");
    made.outcome = std::make_shared<const std::string>(
        encode({.status = 200, .reason = "OK", .headers = fields, .body = *stored}));
  }
  return made;
}

Outcome<std::string> Held::succeeded(Op& end, std::string value, Observation& observation) {
  Outcome<std::string> outcome;
  static_cast<OutcomeFacts&>(outcome) = facts();
  if (end.status == OpStatus::done) {
    keeping.reset();
    outcome.status = Status::succeeded;
    outcome.value = std::move(value);
    if (another_outcome_stands(end)) set_recorded(*end.record, Source::fresh, reading(outcome.value), outcome);
  } else {
    outcome.reason = end.status == OpStatus::lost ? Reason::lost : Reason::not_recorded;
    outcome.detail = std::move(end.error);
  }
  engine.count(outcome);
  observation.ended(outcome);
  return outcome;
}

EndResult Held::failed(Op& end, Observation& observation) {
  OutcomeFacts outcome = facts();
  if (end.status == OpStatus::done) this->end(Over::failed);
  EndResult result = result_of(end);
  outcome.reason = result.done()                      ? Reason::work_failed
                   : result.status == EndStatus::lost ? Reason::lost
                                                      : Reason::not_recorded;
  engine.count(outcome);
  observation.ended(outcome);
  return result;
}

EndResult Held::released(Op& end) {
  if (end.status == OpStatus::done) this->end(Over::released);
  if (end.status == OpStatus::lost) keeping.reset();
  return result_of(end);
}

Outcome<std::string> Claim::succeed(std::string_view value, std::string_view media_type) {
  Outcome<std::string> forked;
  if (held_->engine.forked(forked)) return forked;
  Observation observation(held_->engine.observe(), Observed::Call::succeed);
  Op op = held_->success(value, media_type);
  held_->engine.finish(op, held_->lease_length);
  observation.recorded();
  return held_->succeeded(op, std::string(value), observation);
}

EndResult Claim::fail() {
  OutcomeFacts facts;
  if (held_->engine.forked(facts)) return {.status = EndStatus::forked, .detail = std::move(facts.detail)};
  if (held_->over == Held::Over::failed) return {};
  Observation observation(held_->engine.observe(), Observed::Call::fail);
  Op op = held_->op(Verb::finish);
  op.final_state = State::failed;
  held_->engine.finish(op, held_->lease_length);
  observation.recorded();
  return held_->failed(op, observation);
}

EndResult Claim::release() {
  OutcomeFacts facts;
  if (held_->engine.forked(facts)) return {.status = EndStatus::forked, .detail = std::move(facts.detail)};
  if (held_->over == Held::Over::released) return {};  // another owner may have it by now
  Op op = held_->op(Verb::release);
  held_->engine.release(op);
  held_->engine.notify_waiting(held_->lease.id);
  return held_->released(op);
}

Outcome<std::string> Claim::recorded() {
  Outcome<std::string> outcome;
  static_cast<OutcomeFacts&>(outcome) = held_->facts();
  if (held_->engine.forked(outcome)) return outcome;
  Op seen = held_->op(Verb::lookup);
  held_->engine.ask(seen);
  switch (standing_of(seen, held_->lease.nonce)) {
    case Standing::unseen: set_store_failed(seen, outcome); break;
    case Standing::nothing:
    case Standing::expired:
    case Standing::released:
    case Standing::taken_over: outcome.reason = Reason::lost; break;
    case Standing::failed: outcome.reason = Reason::work_failed; break;
    case Standing::succeeded:
      held_->keeping.reset();
      held_->engine.notify_waiting(held_->lease.id);
      set_recorded(*seen.record, Source::fresh, reading(outcome.value), outcome);
      break;
    case Standing::started:
    case Standing::unknown:
      outcome.status = Status::in_progress;
      outcome.reason = Reason::at_work;
      outcome.retry_after = retry_after(seen.record->lease_until, seen.now);
      break;
  }
  return outcome;
}

Claimed Engine::claim(const Request& request, const std::stop_token& stop) {
  Claimed claimed;
  if (forked(claimed.outcome)) return claimed;
  Observation observation(observe_, Observed::Call::claim, &request);
  if (auto op = read_claim(request, stop, claimed.outcome)) {
    // Only checks whether a call of run() is executing it: a holder may drop its claim, so holders are not registered.
    Executions::Entry entry(executions_);
    const ClaimResult result = claim_or_wait(*op, request.wait, entry, stop);
    conclude_claim({.request = request, .op = *op, .result = result, .stop = stop}, claimed);
  }
  observe_claimed(claimed, observation);
  return claimed;
}

std::optional<Op> Engine::read_claim(const Request& request, const std::stop_token& stop, OutcomeFacts& outcome) const {
  auto op = operations_.read(request);
  if (!op) {
    outcome.reason = Reason::invalid;
    outcome.detail = std::move(op.error());
    return std::nullopt;
  }
  if (cancelled(stop, outcome)) return std::nullopt;
  op->terms.owner = Owner::outside;  // its holder may drop it while the process lives
  return std::move(*op);
}

void Engine::conclude_claim(const Answered& answered, Claimed& claimed) {
  const auto& [request, op, result, stop] = answered;
  if (op.status == OpStatus::done && op.verdict == Verdict::execute) {
    count_attempt(*op.record);
    claimed.claim = Claim(std::make_shared<Held>(*this, op, result.held_since, request));
  } else if (op.status != OpStatus::done || op.verdict != Verdict::in_flight || !cancelled(stop, claimed.outcome)) {
    set_verdict(op, reading(claimed.outcome.value), claimed.outcome);
  }
}

void Engine::observe_claimed(const Claimed& claimed, Observation& observation) {
  observation.claimed();
  if (!claimed.claim) {
    count(claimed.outcome);
    return observation.ended(claimed.outcome);
  }
  OutcomeFacts acquired;
  acquired.status = Status::in_progress;
  acquired.attempt = claimed.claim->attempt();
  observation.ended(acquired);
}

// Reports a record as a claim would, but a failed one as failed.
void set_seen(Op& lookup, Outcome<std::string>& outcome) {
  if (lookup.status != OpStatus::done) return set_store_failed(lookup, outcome);
  if (!lookup.record) return;
  const Facts facts = facts_of(&*lookup.record, lookup.fingerprint, lookup.terms, lookup.now);
  lookup.verdict = decide(facts);
  if (lookup.verdict != Verdict::execute) return set_verdict(lookup, reading(outcome.value), outcome);
  outcome.attempt = static_cast<std::uint32_t>(lookup.record->attempt);
  outcome.reason = lookup.record->state == State::failed ? Reason::work_failed : Reason::unknown;
}

std::optional<Outcome<std::string>> Engine::look(const Request& request) {
  Outcome<std::string> outcome;
  if (forked(outcome)) return outcome;
  auto op = operations_.read(request);
  if (!op) {
    outcome.reason = Reason::invalid;
    outcome.detail = std::move(op.error());
    return outcome;
  }
  op->verb = Verb::lookup;
  ask(*op);
  if (op->status == OpStatus::done && !op->record) return std::nullopt;
  set_seen(*op, outcome);
  return outcome;
}

}  // namespace once::guard
