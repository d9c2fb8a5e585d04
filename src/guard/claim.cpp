// Claims that their holder ends: the two halves of a run.
#include <utility>

#include "base/assert.hpp"
#include "core/outcome.hpp"
#include "guard/engine.hpp"

namespace once::guard {

// A claim's other side. It stays where it is, since the renewer knows it.
struct Held {
  enum class Over : std::uint8_t { no, failed, released };

  Held(Engine& the_engine, const Op& claimed, Time held_since, const Request& request)
      : alive(the_engine.weak_from_this().lock()),
        engine(the_engine),
        lease{.id = claimed.id, .nonce = claimed.nonce},
        lease_length(request.lease),
        ttl(request.ttl),
        sanitise{.store_only = request.store_only, .never_store = request.never_store},
        handle(handle_of(claimed.id, claimed.nonce)),
        attempt(static_cast<std::uint32_t>(claimed.record->attempt)),
        fence(static_cast<std::uint64_t>(claimed.record->fence)) {
    LeaseSteps steps;
    steps.start(claimed, held_since, nullptr);
    keeping.emplace(the_engine.background(), lease, steps);
  }

  Op op(Verb verb) const {
    Op made;
    made.verb = verb;
    made.id = lease.id;
    made.nonce = lease.nonce;
    made.terms.ttl = ttl;
    return made;
  }
  void end(Over how) {
    over = how;
    keeping.reset();
  }
  OutcomeFacts facts() const {
    OutcomeFacts facts;
    facts.attempt = attempt;
    facts.fence = fence;
    return facts;
  }

  const std::shared_ptr<Engine> alive;  // null if whoever made the engine keeps it
  Engine& engine;
  Lease lease;
  Duration lease_length;
  Duration ttl;
  Sanitise sanitise;
  std::string handle;
  unsigned attempt;
  std::uint64_t fence;
  Over over = Over::no;
  std::optional<Background::Keeping> keeping;  // until it has ended
};

namespace {

EndResult result_of(Op& end) {
  switch (end.status) {
    case OpStatus::done: return {.ending = Ending::done};
    case OpStatus::lost: return {.ending = Ending::lost};
    case OpStatus::failed: return {.ending = Ending::not_recorded, .detail = std::move(end.error)};
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

Claim::Claim(std::unique_ptr<Held> held) : held_(std::move(held)) {}
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

Outcome<std::string> Claim::succeed(std::string_view value, std::string_view media_type) {
  Outcome<std::string> outcome;
  static_cast<OutcomeFacts&>(outcome) = held_->facts();
  if (held_->engine.forked(outcome)) return outcome;
  Observation observation(held_->engine.observe(), Observed::Call::succeed);
  Op op = held_->op(Verb::finish);
  op.final_state = State::succeeded;
  std::optional<std::string> stored = std::string(value);
  const Sanitise& what = held_->sanitise;
  if (!what.store_only.empty() || !what.never_store.empty()) stored = sanitise(value, what);
  op.body_kept = stored && stored->size() <= held_->engine.max_value() ? BodyKept::yes : BodyKept::no;
  if (op.body_kept == BodyKept::yes) {
    std::string fields = "Content-Type: ";
    fields.append(media_type).append("\r\n");
    op.outcome = std::make_shared<const std::string>(
        encode({.status = 200, .reason = "OK", .headers = fields, .body = *stored}));
  }
  held_->engine.finish(op, held_->lease_length);
  observation.recorded();
  if (op.status == OpStatus::done) {
    held_->keeping.reset();
    outcome.status = Status::succeeded;
    outcome.value = std::string(value);
    if (another_outcome_stands(op)) tell_recorded(*op.record, Source::fresh, reading(outcome.value), outcome);
  } else {
    outcome.reason = op.status == OpStatus::lost ? Reason::lost : Reason::not_recorded;
    outcome.detail = std::move(op.error);
  }
  held_->engine.count(outcome);
  observation.ended(outcome);
  return outcome;
}

EndResult Claim::fail() {
  OutcomeFacts counted = held_->facts();
  if (held_->engine.forked(counted)) return {.ending = Ending::forked, .detail = std::move(counted.detail)};
  if (held_->over == Held::Over::failed) return {};
  Observation observation(held_->engine.observe(), Observed::Call::fail);
  Op op = held_->op(Verb::finish);
  op.final_state = State::failed;
  held_->engine.finish(op, held_->lease_length);
  observation.recorded();
  if (op.status == OpStatus::done) held_->end(Held::Over::failed);
  EndResult result = result_of(op);
  counted.reason = result.done()                   ? Reason::work_failed
                   : result.ending == Ending::lost ? Reason::lost
                                                   : Reason::not_recorded;
  held_->engine.count(counted);
  observation.ended(counted);
  return result;
}

EndResult Claim::release() {
  OutcomeFacts facts;
  if (held_->engine.forked(facts)) return {.ending = Ending::forked, .detail = std::move(facts.detail)};
  if (held_->over == Held::Over::released) return {};  // by now it may be somebody else's
  Op op = held_->op(Verb::release);
  held_->engine.release(op);
  held_->engine.tell_waiting(held_->lease.id);
  if (op.status == OpStatus::done) held_->end(Held::Over::released);
  if (op.status == OpStatus::lost) held_->keeping.reset();
  return result_of(op);
}

Outcome<std::string> Claim::recorded() {
  Outcome<std::string> outcome;
  static_cast<OutcomeFacts&>(outcome) = held_->facts();
  if (held_->engine.forked(outcome)) return outcome;
  Op seen = held_->op(Verb::lookup);
  held_->engine.ask(seen);
  switch (standing_of(seen, held_->lease.nonce)) {
    case Standing::unseen: tell_store_failed(seen, outcome); break;
    case Standing::nothing:
    case Standing::expired:
    case Standing::released:
    case Standing::taken_over: outcome.reason = Reason::lost; break;
    case Standing::failed: outcome.reason = Reason::work_failed; break;
    case Standing::succeeded:
      held_->keeping.reset();
      held_->engine.tell_waiting(held_->lease.id);
      tell_recorded(*seen.record, Source::fresh, reading(outcome.value), outcome);
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
  OutcomeFacts& outcome = claimed.outcome;
  if (forked(outcome)) return claimed;
  Observation observation(observe_, Observed::Call::claim, &request);
  auto op = operations_.read(request);
  if (!op || cancelled(stop, outcome)) {
    if (!op) outcome.reason = Reason::invalid;
    if (!op) outcome.detail = std::move(op.error());
    count(outcome);
    observation.ended(outcome);
    return claimed;
  }
  op->terms.owner = Owner::outside;  // its holder may forget it while the process lives on
  // Only to see whether a call of run() has it at work: a holder may forget its claim, so it is not in the set itself.
  Executions::Entry entry(executions_);
  const ClaimResult result = claim_or_wait(*op, request.wait, entry, stop);
  observation.claimed();
  if (op->status == OpStatus::done && op->verdict == Verdict::execute) {
    count_attempt(*op->record);
    claimed.claim = Claim(std::make_unique<Held>(*this, *op, result.held_since, request));
    OutcomeFacts acquired;
    acquired.status = Status::in_progress;
    acquired.attempt = claimed.claim->attempt();
    observation.ended(acquired);
    return claimed;
  }
  if (op->status != OpStatus::done || op->verdict != Verdict::in_flight || !cancelled(stop, outcome)) {
    tell_verdict(*op, reading(claimed.outcome.value), outcome);
  }
  count(outcome);
  observation.ended(outcome);
  return claimed;
}

// What a claim would be told, and a failed one as failed.
void tell_seen(Op& lookup, Outcome<std::string>& outcome) {
  if (lookup.status != OpStatus::done) return tell_store_failed(lookup, outcome);
  if (!lookup.record) return;
  const Facts facts = facts_of(&*lookup.record, lookup.fingerprint, lookup.terms, lookup.now);
  lookup.verdict = decide(facts);
  if (lookup.verdict != Verdict::execute) return tell_verdict(lookup, reading(outcome.value), outcome);
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
  tell_seen(*op, outcome);
  return outcome;
}

}  // namespace once::guard
