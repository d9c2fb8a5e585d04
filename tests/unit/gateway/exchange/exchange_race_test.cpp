// Two gateways on one store, with everything that can happen in an order that RapidCheck draws: which op reaches the
// store next and whether its answer comes back, when the backend answers and how, and how time passes.
#include <map>
#include <set>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/unit/gateway/exchange/exchange_world.hpp"

namespace once::gateway::exchange_race_test {

using namespace std::chrono_literals;

template <class T>
T drawn(std::initializer_list<T> choices) {
  return *rc::gen::elementOf(std::vector<T>(choices));
}

class Race {
 public:
  Race() {
    policy_.lease = 30s;
    policy_.on_unknown = drawn({OnUnknown::retry, OnUnknown::takeover, OnUnknown::hold});
    policy_.in_flight = drawn({InFlight::reject, InFlight::wait});
    backend_.otherwise = after(until_told, BackendScript());
    backend_.on_send = [this](const ScriptedBackend::Seen& seen) { sent(seen); };
    store_.fail_when([this](const Op&, std::size_t) { return next_fault_; });
  }

  void step() {
    switch (*rc::gen::weightedElement<int>({{2, 0}, {8, 1}, {4, 2}, {2, 3}})) {
      case 0:
        if (asked_ < 8) ask(gateway(*rc::gen::arbitrary<bool>()));
        break;
      case 1: {
        PickedLanes& lanes = *rc::gen::arbitrary<bool>() ? one_ : two_;
        next_fault_ = *rc::gen::weightedElement<Fault>({{8, Fault::none}, {1, Fault::before}, {1, Fault::after}});
        if (lanes.waiting() > 0) lanes.execute_next();
        break;
      }
      case 2:
        if (backend_.untold() > 0) {
          backend_.answer(*rc::gen::inRange<std::size_t>(0, backend_.untold()), drawn_answer());
        }
        break;
      default: executor_.advance(drawn<Duration>({1ms, 60ms, 11s, 31s, 6min})); break;
    }
    executor_.run_ready();
    look_at_replies();
  }

  // Everybody gets to the end, and one more asks.
  void settle() {
    next_fault_ = Fault::none;
    while (backend_.untold() > 0 || one_.waiting() > 0 || two_.waiting() > 0 || !executor_.idle()) {
      if (one_.waiting() > 0) {
        one_.execute_next();
      } else if (two_.waiting() > 0) {
        two_.execute_next();
      } else if (backend_.untold() > 0) {
        backend_.answer(0, drawn_answer());
      } else {
        executor_.advance(1s);
      }
      executor_.run_ready();
      look_at_replies();
    }
    for (TestGateway* each : {&first_, &second_}) {
      for (const auto& call : each->calls()) RC_ASSERT(call->ended());
      RC_ASSERT(each->metrics.in_flight.value() == 0U);
      RC_ASSERT(each->metrics.waiting.value() == 0U);
    }
  }

  void ask(TestGateway& gateway) {
    ++asked_;
    gateway.send(policy_);
  }
  TestGateway& gateway(bool which) { return which ? first_ : second_; }

 private:
  static BackendScript drawn_answer() {
    const std::string unique = std::to_string(*rc::gen::inRange(0, 1'000'000'000));
    return drawn<BackendScript>({answer_with(201, unique), answer_with(201, unique), answer_with(500), answer_with(429),
                                 fails_with(Delivery::lost), fails_with(Delivery::not_sent)});
  }

  // A byte goes to the backend: the claim is in the store, it is the live one, and no other request went out under it.
  void sent(const ScriptedBackend::Seen& seen) {
    RC_ASSERT(!told_);  // somebody was told of an outcome: never again
    const std::string claim = seen.field("Idempotency-Claim");
    RC_ASSERT(claims_used_.insert(claim).second);
    const auto fence = std::stoull(seen.field("Idempotency-Fence"));
    fences_.push_back(fence);
    const auto record = store_.record(operation(1));
    // The store may have moved on between its answer and now, but only if this claim's lease has ended since.
    const bool still_ours = record && claim.ends_with(to_hex(record->nonce));
    if (still_ours) {
      RC_ASSERT(record->state == State::started);
      RC_ASSERT(static_cast<std::uint64_t>(record->fence) == fence);
      for (const std::uint64_t earlier : fences_) RC_ASSERT(earlier <= fence);
    }
  }

  void look_at_replies() {
    for (TestGateway* each : {&first_, &second_}) {
      for (const auto& call : each->calls()) {
        if (!call->ended() || call->status() != 201) continue;
        if (told_) RC_ASSERT(*told_ == call->body());
        told_ = call->body();
        const auto record = store_.record(operation(1));
        RC_ASSERT(record.has_value());
        RC_ASSERT(record->state == State::succeeded);
      }
    }
  }

  Trace trace_;
  ManualClock clock_;
  VirtualExecutor executor_{clock_};
  FaultyStore store_{clock_, Shared::yes, Execution::in_a_lane, trace_};
  PickedLanes one_{store_};
  PickedLanes two_{store_};
  ScriptedBackend backend_{executor_, trace_};
  Policy policy_ = *dialect("ietf");
  TestGateway first_{one_, executor_, clock_, backend_, trace_, 1};
  TestGateway second_{two_, executor_, clock_, backend_, trace_, 2};
  Fault next_fault_ = Fault::none;
  int asked_ = 0;
  std::set<std::string> claims_used_;
  std::vector<std::uint64_t> fences_;
  std::optional<std::string> told_;
};

RC_GTEST_PROP(ExchangeRace, whatever_the_order_an_outcome_that_was_told_is_the_only_one_and_nothing_follows_it, ()) {
  Race race;
  const int steps = *rc::gen::inRange(1, 120);
  for (int i = 0; i < steps; ++i) race.step();
  race.settle();
  race.ask(race.gateway(true));
  race.settle();
}

}  // namespace once::gateway::exchange_race_test
