// The store fails: at each step in turn, then at several. What the client gets, what the record says afterwards, and
// that nothing is executed twice.
#include <map>

#include "tests/unit/gateway/exchange/exchange_world.hpp"

namespace once::gateway::exchange_fault_test {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::Not;

using ExchangeFault = EveryStore;
INSTANTIATE_TEST_SUITE_P(Stores, ExchangeFault, every_setting(), name_of_setting);

TEST_P(ExchangeFault, a_claim_that_failed_is_tried_again) {
  world.store.fail_next(Verb::claim, Fault::before);
  EXPECT_EQ(world.ask().status(), 201);
  EXPECT_THAT(world.trace, ElementsAre("claim: failed", "claim: execute", "send: attempt 1", "finish succeeded: done",
                                       "reply: 201 executed"));
  EXPECT_EQ(world.gateway.metrics.store_errors.value(), 1U);
}

TEST_P(ExchangeFault, a_claim_whose_answer_was_lost_is_the_same_claim_when_sent_again) {
  world.store.fail_next(Verb::claim, Fault::after);
  const Call& call = world.ask();
  EXPECT_THAT(world.trace, ElementsAre("claim: failed", "claim: execute", "send: attempt 1", "finish succeeded: done",
                                       "reply: 201 executed"));
  EXPECT_EQ(call.reply().attempt, Attempt{1});
}

// Otherwise a client would wait for twice the time that a call of the store may take.
TEST_P(ExchangeFault, a_claim_that_took_the_time_of_a_call_is_not_tried_again) {
  world.store.limit_time(5s);
  world.store.fail_when([this](const Op& op, std::size_t) {
    if (op.verb != Verb::claim) return Fault::none;
    world.clock.advance(5s);
    return Fault::after;
  });
  EXPECT_EQ(world.ask().code(), "store-unavailable");
  EXPECT_THAT(world.trace, ElementsAre("claim: failed", "reply: 503 rejected"));
  world.store.heal();
  world.executor.run_to_the_end();
  EXPECT_EQ(world.trace.back(), "release: done") << "it was made";
}

TEST_P(ExchangeFault, without_a_claim_nothing_is_sent) {
  world.store.fail_next(Verb::claim, Fault::before, 2);
  const Call& call = world.ask();
  EXPECT_THAT(world.trace, ElementsAre("claim: failed", "claim: failed", "reply: 503 rejected"));
  EXPECT_EQ(call.code(), "store-unavailable");
  EXPECT_EQ(call.retry_after(), "1");
  EXPECT_TRUE(call.retryable());
  EXPECT_EQ(call.idempotency_status(), "");
  EXPECT_EQ(world.backend.executions(), 0U);
  // There was nothing to take back after all.
  world.executor.run_to_the_end();
  EXPECT_EQ(world.trace.back(), "release: lost");
  EXPECT_EQ(world.ask().reply().attempt, Attempt{1});
}

TEST_P(ExchangeFault, a_claim_that_was_made_but_never_confirmed_is_taken_back) {
  world.store.fail_next(Verb::claim, Fault::after, 2);
  EXPECT_EQ(world.ask().code(), "store-unavailable");
  EXPECT_EQ(world.state(), State::started);
  EXPECT_EQ(world.ask().code(), "in-flight");
  world.executor.run_to_the_end();
  EXPECT_EQ(world.trace.back(), "release: done");
  EXPECT_FALSE(world.record().has_value());
  EXPECT_EQ(world.backend.executions(), 0U);
  EXPECT_EQ(world.ask().reply().attempt, Attempt{1});
}

// The store times out, and what it was asked comes to it later than what it was asked next.
struct ExchangeLateClaim : testing::Test {
  // The next claim is answered as failed and does not reach the store.
  void withhold_next() {
    world.store.fail_when([this](const Op& op, std::size_t) {
      if (op.verb != Verb::claim || late) return Fault::none;
      late = op;
      return Fault::before;
    });
  }
  void arrive() { world.store.run_inside(*late); }

  World world;
  std::optional<Op> late;
};

TEST_F(ExchangeLateClaim, is_taken_back_when_asking_again_said_something_else) {
  world.policy.on_unknown = OnUnknown::hold;
  world.backend.then(after(3s, answer_with(500, "")));
  const Call& owner = world.other.send(world.policy);
  world.executor.advance(100ms);
  withhold_next();
  EXPECT_EQ(world.ask().code(), "in-flight");
  world.run_until_ended(owner);
  arrive();
  EXPECT_EQ(world.record()->nonce, late->nonce) << "nobody owns it";
  world.executor.run_to_the_end();
  EXPECT_EQ(world.ask().status(), 201);
  EXPECT_EQ(world.backend.executions(), 2U);
}

TEST_F(ExchangeLateClaim, does_not_keep_its_own_request_waiting) {
  world.policy.on_unknown = OnUnknown::hold;
  world.policy.in_flight = InFlight::wait;
  world.policy.wait_limit = 30s;
  world.backend.then(after(3s, answer_with(500, "")));
  const Call& owner = world.other.send(world.policy);
  world.executor.advance(100ms);
  withhold_next();
  const Call& retry = world.send();
  world.run_until_ended(owner);
  arrive();
  world.run_until_ended(retry);
  EXPECT_EQ(retry.status(), 201);
  EXPECT_EQ(world.backend.executions(), 2U);
}

TEST_F(ExchangeLateClaim, is_taken_back_when_the_store_did_not_answer_at_all) {
  world.policy.on_unknown = OnUnknown::hold;
  world.store.fail_when([&](const Op& op, std::size_t) {
    if (op.verb != Verb::claim) return Fault::none;
    late = op;
    return Fault::before;
  });
  EXPECT_EQ(world.ask().code(), "store-unavailable");
  world.store.heal();
  world.executor.advance(2s);
  EXPECT_EQ(world.trace.back(), "release: lost");
  arrive();
  world.executor.run_to_the_end();
  EXPECT_FALSE(world.record().has_value());
}

// A store that is down until then: it makes the first claims, whose answers are lost, and takes none of them back.
void down_until(World& world, Time healed) {
  world.store.fail_when([&world, healed, claims = 0](const Op& op, std::size_t) mutable {
    if (op.verb == Verb::claim && ++claims <= 2) return Fault::after;
    return op.verb != Verb::claim && world.clock.now() < healed ? Fault::before : Fault::none;
  });
}

TEST_P(ExchangeFault, a_claim_is_taken_back_as_soon_as_the_store_answers_again) {
  down_until(world, world.clock.now() + 10s);
  world.ask();
  world.executor.advance(9s);
  EXPECT_EQ(world.state(), State::started);
  world.executor.advance(3s);
  EXPECT_FALSE(world.record().has_value());
}

// In a store that is not shared the process is the owner of its claims, so nobody else will ever end this one. And
// nothing was sent, so it must not read as unknown when the lease is over.
TEST_P(ExchangeFault, a_claim_is_taken_back_however_long_after_its_lease_the_store_comes_back) {
  world.policy.on_unknown = OnUnknown::hold;
  int key = 0;
  for (const Duration down : {world.policy.lease + 30s, world.policy.lease * 20}) {
    ++key;
    down_until(world, world.clock.now() + down);
    EXPECT_EQ(world.ask({.key = key}).code(), "store-unavailable");
    world.executor.advance(down + 1min);
    EXPECT_FALSE(world.record(key).has_value());
    EXPECT_EQ(world.ask({.key = key}).status(), 201);
  }
  EXPECT_EQ(world.backend.executions(), 2U);
}

TEST(ExchangeOutage, a_claim_whose_record_has_expired_is_not_taken_back_for_ever) {
  World world;
  world.store.fail_when([claims = 0](const Op& op, std::size_t) mutable {
    return op.verb == Verb::claim && ++claims <= 2 ? Fault::after : Fault::before;
  });
  world.ask();
  EXPECT_EQ(world.gateway.metrics.unsettled.value(), 1U);
  world.executor.advance(world.policy.ttl + world.policy.lease + 1min);
  EXPECT_EQ(world.gateway.metrics.unsettled.value(), 0U);
}

TEST_P(ExchangeFault, a_waiter_hears_that_a_claim_was_taken_back) {
  world.policy.in_flight = InFlight::wait;
  world.store.fail_next(Verb::claim, Fault::after, 2);
  world.ask();
  EXPECT_EQ(world.ask().status(), 201);
  EXPECT_EQ(world.backend.executions(), 1U);
}

TEST_P(ExchangeFault, a_full_store_is_not_asked_twice_and_not_bypassed) {
  for (const StoreDown store_down : {StoreDown::reject, StoreDown::bypass}) {
    world.trace.clear();
    world.policy.store_down = store_down;
    world.store.fail_next(Verb::claim, Fault::full);
    const Call& call = world.ask();
    EXPECT_THAT(world.trace, ElementsAre("claim: failed", "reply: 503 rejected"));
    EXPECT_EQ(call.code(), "store-full");
    EXPECT_EQ(call.retry_after(), "1");
  }
  EXPECT_EQ(world.gateway.metrics.store_full.value(), 2U);
  EXPECT_EQ(world.gateway.metrics.store_errors.value(), 0U) << "it works, and has no room";
  EXPECT_EQ(world.backend.executions(), 0U);
}

TEST_P(ExchangeFault, a_route_may_prefer_an_unprotected_request_to_none) {
  world.policy.store_down = StoreDown::bypass;
  world.store.go_down();
  const Call& call = world.ask_when(answer_with(201, "unprotected", "Set-Cookie: s=1\r\n"));
  EXPECT_THAT(world.trace, ElementsAre("claim: failed", "claim: failed", "send: attempt -", "reply: 201 bypassed"));
  EXPECT_EQ(call.body(), "unprotected");
  EXPECT_EQ(call.idempotency_status(), "bypassed");
  EXPECT_EQ(call.header("Set-Cookie"), "s=1");
  EXPECT_EQ(call.header("Idempotency-Expires"), "");
  EXPECT_EQ(world.backend.seen()[0].field("Idempotency-Claim"), "");
  EXPECT_EQ(world.backend.seen()[0].field("X-Request-Id"), "request-1");
}

TEST_P(ExchangeFault, a_bypassed_request_says_what_became_of_it) {
  world.policy.store_down = StoreDown::bypass;
  world.store.go_down();
  const std::map<Delivery, std::string> told = {{Delivery::not_sent, "502 bypassed bad-gateway"},
                                                {Delivery::lost, "502 bypassed backend-lost"},
                                                {Delivery::truncated, "502 bypassed backend-lost"},
                                                {Delivery::timed_out, "504 bypassed gateway-timeout"}};
  for (const auto& [delivery, expected] : told) {
    const Call& call = world.ask_when(fails_with(delivery));
    EXPECT_EQ(call.answer(), expected);
    EXPECT_EQ(call.retryable(), delivery == Delivery::not_sent);
  }
  EXPECT_NE(world.ask_when(fails_with(Delivery::oversize)).reply().source, nullptr);
}

// The claim was made, and nobody else could have worked under it. Once the request was forwarded, a claim that may
// stand must not be taken back: the next request would execute it again.
TEST_P(ExchangeFault, what_a_bypassed_client_was_told_is_recorded_if_its_claim_was_made) {
  world.by_others = true;
  world.policy.store_down = StoreDown::bypass;
  world.policy.on_unknown = OnUnknown::hold;
  struct Row {
    BackendScript script;
    std::string told;
    std::optional<State> state;
    std::string retry;
  };
  const Row rows[] = {
      {answer_with(201, "paid", "Idempotency-Policy: ttl=60\r\n"), "201 bypassed paid", State::succeeded,
       "201 replayed paid"},
      {answer_with(500), "500 bypassed done", State::failed, "201 executed done"},
      {fails_with(Delivery::lost), "502 bypassed backend-lost", State::unknown, "409 unknown outcome-unknown"},
      {fails_with(Delivery::not_sent), "502 bypassed bad-gateway", std::nullopt, "201 executed done"},
  };
  int key = 0;
  for (const Row& row : rows) {
    SCOPED_TRACE(row.told);
    world.store.fail_next(Verb::claim, Fault::after, 2);
    EXPECT_EQ(world.ask_when(row.script, {.key = ++key}).answer(), row.told);
    world.executor.advance(10s);
    EXPECT_EQ(world.state(key), row.state);
    EXPECT_EQ(world.ask({.key = key}).answer(), row.retry);
  }
  EXPECT_EQ(world.backend.executions(), 6U);
}

TEST_P(ExchangeFault, a_claim_is_not_taken_back_while_its_bypassed_request_is_at_the_backend) {
  world.by_others = true;
  world.policy.store_down = StoreDown::bypass;
  world.store.fail_next(Verb::claim, Fault::after, 2);
  const Call& call = world.send_when(after(10s, BackendScript()));
  world.executor.advance(5s);
  EXPECT_EQ(world.ask().code(), "in-flight");
  EXPECT_EQ(world.state(), State::started);
  world.run_until_ended(call);
  EXPECT_EQ(world.backend.executions(), 1U);
}

TEST_P(ExchangeFault, an_outcome_is_recorded_however_often_it_takes) {
  for (const Fault fault : {Fault::before, Fault::after}) {
    for (std::size_t times = 1; times <= 8; ++times) {
      const int key = static_cast<int>(fault) * 100 + static_cast<int>(times);
      world.store.fail_next(Verb::finish, fault, times);
      const Call& call = world.ask({.key = key});
      EXPECT_EQ(call.status(), 201);
      EXPECT_NE(call.header("Idempotency-Expires"), "");
      EXPECT_EQ(world.state(key), State::succeeded);
      EXPECT_EQ(world.ask({.key = key}).idempotency_status(), "replayed");
    }
  }
  EXPECT_EQ(world.backend.executions(), 16U);
  EXPECT_EQ(world.gateway.metrics.record_retries.value(), 72U);
}

TEST_P(ExchangeFault, an_outcome_that_cannot_be_recorded_is_unknown_to_its_client) {
  world.store.fail_every(Verb::finish);
  const Time sent = world.clock.now();
  const Call& call = world.ask();
  EXPECT_EQ(call.status(), 503);
  EXPECT_EQ(call.code(), "outcome-unknown");
  EXPECT_EQ(world.gateway.outcomes(ClaimEnd::unrecorded), 1U);
  EXPECT_EQ(world.gateway.outcomes(ClaimEnd::succeeded), 0U);
  EXPECT_EQ(call.idempotency_status(), "unknown");
  EXPECT_EQ(call.retry_after(), "30");
  world.expect_since(sent, world.policy.lease, world.policy.lease + 5s);
  // Whoever asks next must not execute it: it was executed.
  const Call& retry = world.ask();
  EXPECT_EQ(retry.status(), 409);
  EXPECT_EQ(world.backend.executions(), 1U);
  EXPECT_EQ(world.trace.back(), "reply: 409 " + std::string(name_of(retry.reply().ending)));
  world.store.heal();
}

TEST_P(ExchangeFault, a_client_does_not_wait_for_a_store_that_has_failed_for_good) {
  world.backend.on_send = [this](const auto&) { world.store.fail_for_good(); };
  const Time sent = world.clock.now();
  const Call& call = world.ask();
  EXPECT_EQ(call.status(), 503);
  EXPECT_EQ(call.code(), "outcome-unknown");
  EXPECT_LE(world.clock.now() - sent, 10ms);
  EXPECT_EQ(std::ranges::count(world.trace, "finish succeeded: failed"), 1);
  EXPECT_EQ(world.gateway.metrics.unsettled.value(), 0U);
}

TEST_P(ExchangeFault, a_key_is_not_in_flight_for_ever_after_an_outcome_could_not_be_recorded) {
  world.store.fail_every(Verb::finish);
  world.ask();
  world.store.heal();
  world.executor.advance(5s);
  const Call& retry = world.ask();
  EXPECT_NE(retry.code(), "in-flight");
  EXPECT_EQ(world.backend.executions(), 1U);
  world.executor.advance(world.policy.takeover_after);
  EXPECT_EQ(world.ask().status(), 201);
}

TEST_P(ExchangeFault, an_unknown_outcome_that_cannot_be_recorded_is_unknown_all_the_same) {
  world.store.fail_every(Verb::finish);
  EXPECT_EQ(world.ask_when(fails_with(Delivery::timed_out)).status(), 504);
  EXPECT_EQ(world.ask().status(), 409);
  EXPECT_EQ(world.backend.executions(), 1U);
  world.store.heal();
}

TEST_P(ExchangeFault, a_client_does_not_wait_for_a_release_that_does_not_get_through) {
  world.store.fail_next(Verb::release, Fault::before, 5);
  world.backend.then(answer_with(429, "slow down"));
  const Time sent = world.clock.now();
  EXPECT_EQ(world.ask().body(), "slow down");
  EXPECT_LE(world.clock.now() - sent, 10ms);
  EXPECT_EQ(world.state(), State::started);
  world.executor.run_to_the_end();
  EXPECT_FALSE(world.record().has_value());
  EXPECT_EQ(std::ranges::count(world.trace, "release: failed"), 5);
  EXPECT_EQ(world.trace.back(), "release: done");
}

TEST_P(ExchangeFault, a_release_whose_answer_was_lost_is_done) {
  world.store.fail_next(Verb::release, Fault::after);
  EXPECT_EQ(world.ask_when(fails_with(Delivery::not_sent)).status(), 502);
  world.executor.run_to_the_end();
  EXPECT_EQ(world.trace.back(), "release: lost");
  EXPECT_FALSE(world.record().has_value());
}

// A late release must not take the next owner's claim away.
TEST_P(ExchangeFault, a_late_release_releases_only_its_own_claim) {
  world.store.fail_next(Verb::release, Fault::after);
  world.ask_when(fails_with(Delivery::not_sent));
  const Call& next = world.send_when(after(5s, BackendScript()));
  world.run_until_ended(next);
  EXPECT_EQ(next.status(), 201);
  EXPECT_EQ(world.state(), State::succeeded);
}

TEST(ExchangeOutage, an_outage_does_not_pile_up_claims_to_be_taken_back_without_end) {
  World world(Shared::no, Execution::at_once);
  world.store.go_down();
  Call& call = world.ask();
  for (int i = 0; i < 10'100; ++i) {
    call.start({});
    world.run_until_ended(call);
  }
  EXPECT_EQ(call.code(), "store-unavailable");
  EXPECT_LE(world.gateway.metrics.unsettled.value(), 10'000U);
  world.store.heal();
  world.executor.run_to_the_end();
  EXPECT_EQ(world.gateway.metrics.unsettled.value(), 0U);
}

// The script of a request, replayed with every combination of its first steps failing.
TEST_P(ExchangeFault, whichever_steps_fail_nothing_is_executed_twice_and_what_was_told_stays_true) {
  const std::vector<BackendScript> scripts = {answer_with(201, "first"), answer_with(500), answer_with(429),
                                              fails_with(Delivery::lost), fails_with(Delivery::not_sent)};
  constexpr std::array faults = {Fault::none, Fault::before, Fault::after};
  constexpr std::size_t failing_steps = 4;
  for (std::size_t script = 0; script < scripts.size(); ++script) {
    for (std::size_t mask = 0; mask < 3 * 3 * 3 * 3; ++mask) {
      SCOPED_TRACE(testing::Message() << "script " << script << ", mask " << mask);
      World fresh(GetParam().shared, GetParam().execution);
      fresh.policy.on_unknown = OnUnknown::hold;
      fresh.backend.then(scripts[script]);
      fresh.store.fail_when([&](const Op&, std::size_t step) {
        std::size_t digits = mask;
        for (std::size_t i = 0; i < step; ++i) digits /= 3;
        return step < failing_steps ? faults[digits % 3] : Fault::none;
      });
      const Call& first = fresh.ask();
      const bool sent = fresh.backend.executions() == 1;
      EXPECT_EQ(sent, first.code() != "store-unavailable");
      fresh.executor.run_to_the_end();
      fresh.store.heal();
      if (!sent) fresh.ask();  // as if this were the first
      EXPECT_EQ(fresh.backend.executions(), 1U);
      const Call& second = fresh.ask();
      const Call& third = fresh.ask();
      if (scripts[script].delivery == Delivery::lost) {
        EXPECT_EQ(second.code(), "outcome-unknown");
        EXPECT_EQ(third.code(), "outcome-unknown");
        EXPECT_EQ(fresh.backend.executions(), 1U);
        continue;
      }
      const bool done_at_first = script == 0;
      EXPECT_EQ(second.status(), 201);
      EXPECT_EQ(second.body(), done_at_first ? "first" : "done");
      EXPECT_EQ(second.idempotency_status(), done_at_first ? "replayed" : "executed");
      EXPECT_EQ(third.body(), second.body());
      EXPECT_EQ(third.idempotency_status(), "replayed");
      EXPECT_EQ(fresh.backend.executions(), done_at_first ? 1U : 2U);
    }
  }
}

}  // namespace once::gateway::exchange_fault_test
