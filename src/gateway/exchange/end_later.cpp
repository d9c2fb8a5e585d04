#include "gateway/exchange/end_later.hpp"

#include <algorithm>
#include <utility>

#include "base/task.hpp"
#include "gateway/exchange/store_failure.hpp"

namespace once {

namespace {

using std::chrono::milliseconds;

// Between two tries; each doubles it.
constexpr Duration first_late_try = milliseconds(20);
constexpr Duration slowest_early_try = milliseconds(1000);
// When the store has been away for longer than a lease.
constexpr Duration slowest_late_try = std::chrono::seconds(5);
// More would fill the memory, and the store would be met by all of them when it comes back.
constexpr std::uint64_t most_unsettled = 10'000;

Task<void> tries(ExchangePorts ports, Op op, Patience patience, [[maybe_unused]] OutcomeBytes counted) {
  ports.metrics.unsettled.add();
  op.tenant = {};  // views of a request that is over
  op.route = {};
  Duration waited{};
  Duration not_there{};  // since the store answered that it does not have the claim
  Duration pause = first_late_try;
  while (waited < patience.limit && !ports.store.store().failed_for_good()) {
    co_await sleep_for(ports.home, pause);
    waited += pause;
    co_await ports.store.run(op, ports.home);
    if (op.status == OpStatus::done) break;
    const bool answered = op.status == OpStatus::lost;
    if (answered) not_there += pause;
    if (answered && not_there >= patience.on_its_way) break;
    if (!answered) count_store_failure(ports.metrics, op);
    pause = std::min(pause * 2, !answered && waited < patience.often ? slowest_early_try : slowest_late_try);
  }
  ports.metrics.unsettled.subtract();
  ports.waiters.notify(op.id);
}

}  // namespace

void try_later(const ExchangePorts& ports, Op op, Patience patience, OutcomeBytes counted) {
  spawn(tries(ports, std::move(op), patience, std::move(counted)));
}

void end_claim_later(const ExchangePorts& ports, const Op& claim, Verb verb, Patience patience) {
  Op end = claim;
  end.verb = verb;
  end.final_state = State::unknown;
  end.body_kept = BodyKept::yes;
  end.outcome.reset();
  end_as_known_later(ports, std::move(end), patience, nullptr);
}

void end_as_known_later(const ExchangePorts& ports, Op end, Patience patience, OutcomeBytes counted) {
  if (ports.metrics.unsettled.value() >= most_unsettled) return;
  try_later(ports, std::move(end), patience, std::move(counted));
}

}  // namespace once
