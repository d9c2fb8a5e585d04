// An operation that this process has at work itself is not started again, whatever the store says: the store came back
// empty, the lease lapsed, or it is down and the route bypasses it.
#include "tests/unit/gateway/exchange/exchange_world.hpp"

namespace once::gateway::exchange_at_work_test {

using namespace std::chrono_literals;

// The first request is at the backend until it is told.
class HeldRequest : public testing::Test {
 protected:
  void send() {
    world.backend.then(after(until_told, BackendScript()));
    first = &world.send();
    EXPECT_TRUE(world.executor.run_until([&] { return world.backend.untold() == 1; }));
  }
  void answer(BackendScript script) {
    world.backend.answer(0, std::move(script));
    world.run_until_ended(*first);
  }
  // The backend answers now. The first request and its retry get that, and there was no other execution.
  void expect_executed_once() {
    answer(answer_with(201, "first"));
    EXPECT_EQ(first->answer(), "201 executed first");
    EXPECT_EQ(world.ask().answer(), "201 replayed first");
    EXPECT_EQ(world.backend.executions(), 1U);
  }

  World world;
  Call* first = nullptr;
};

class AtWork : public HeldRequest {
 protected:
  AtWork() { send(); }
};

TEST_F(AtWork, a_store_that_came_back_empty_does_not_make_it_execute_twice) {
  world.lose_record();
  EXPECT_EQ(world.ask().code(), "in-flight");
  EXPECT_EQ(world.state(), State::started);
  expect_executed_once();
  EXPECT_EQ(world.gateway.metrics.claims_lost.value(), 0U);
}

TEST_F(AtWork, its_outcome_is_recorded_in_a_store_that_came_back_empty) {
  world.lose_record();
  expect_executed_once();
}

TEST_F(AtWork, an_unknown_outcome_is_recorded_in_a_store_that_came_back_empty) {
  world.policy.on_unknown = OnUnknown::hold;
  world.lose_record();
  answer(fails_with(Delivery::lost));
  EXPECT_EQ(first->code(), "outcome-unknown");
  EXPECT_EQ(world.ask().code(), "outcome-unknown");
  EXPECT_EQ(world.backend.executions(), 1U);
}

// Nor does the store know it when somebody asks for it.
TEST_F(AtWork, a_lookup_finds_a_running_request_after_the_store_lost_its_data) {
  world.lose_record();
  EXPECT_EQ(world.ask({.what = Asks::look_up}).code(), "in-flight");
  EXPECT_EQ(world.ask({.what = Asks::stop}).code(), "in-flight");
  answer(BackendScript());
  EXPECT_EQ(world.ask({.key = 2, .what = Asks::look_up}).code(), "key-not-found");
}

TEST_F(AtWork, another_request_with_its_key_is_a_mismatch_though_the_store_came_back_empty) {
  world.lose_record();
  EXPECT_EQ(world.ask({.content = 2}).status(), 422);
  EXPECT_FALSE(world.record()) << "it has claimed nothing";
  expect_executed_once();
}

// Another gateway claims the lost operation and fails before this one has claimed it again.
TEST_F(AtWork, an_operation_that_somebody_else_executed_meanwhile_is_not_claimed_anew) {
  world.lose_record();
  bool looked = false;
  world.store.fail_when([&](const Op& op, std::size_t) {
    const bool claims_anew = looked && op.verb == Verb::claim && !world.record();
    looked = looked || op.verb == Verb::lookup;
    if (!claims_anew) return Fault::none;
    Op claim{.verb = Verb::claim, .id = op.id, .nonce = {{9}}, .fingerprint = op.fingerprint, .terms = op.terms};
    world.store.run_inside(claim);
    Op fail{.verb = Verb::finish, .id = op.id, .nonce = claim.nonce, .terms = op.terms, .final_state = State::failed};
    world.store.run_inside(fail);
    return Fault::none;
  });
  answer(answer_with(201, "first"));
  EXPECT_EQ(first->code(), "outcome-unknown");
  EXPECT_EQ(world.state(), State::failed);
  EXPECT_EQ(world.record()->attempt, Attempt{1});
}

TEST_F(AtWork, the_claim_that_it_was_given_is_kept_alive) {
  world.lose_record();
  EXPECT_EQ(world.ask().code(), "in-flight");
  for (int i = 0; i < 20; ++i) {
    world.executor.advance(world.policy.lease / 2);
    ASSERT_EQ(world.ask_other().code(), "in-flight");
  }
  answer(answer_with(201, "first"));
  EXPECT_EQ(first->status(), 201);
  EXPECT_EQ(world.backend.executions(), 1U);
}

TEST_F(AtWork, a_renewal_that_was_lost_before_does_not_end_that) {
  world.lose_record();
  world.executor.advance(world.policy.lease * 2);
  EXPECT_THAT(world.trace, testing::Contains("renew: lost"));
  EXPECT_EQ(world.ask().code(), "in-flight");
  world.executor.advance(world.policy.lease * 5);
  EXPECT_EQ(world.state(), State::started);
  EXPECT_GT(world.record()->lease_until, world.clock.now());
  expect_executed_once();
}

TEST_F(AtWork, one_that_waits_gets_the_answer) {
  world.lose_record();
  world.policy.in_flight = InFlight::wait;
  const Call& retry = world.send();
  world.executor.advance(1s);
  EXPECT_FALSE(retry.ended());
  answer(answer_with(201, "first"));
  world.run_until_ended(retry);
  EXPECT_EQ(retry.body(), "first");
  EXPECT_EQ(world.backend.executions(), 1U);
}

TEST_F(AtWork, a_lease_that_lapsed_is_not_taken_over_from_itself) {
  world.policy.on_unknown = OnUnknown::retry;
  world.store.fail_every(Verb::renew);
  world.executor.advance(world.policy.lease * 2);
  EXPECT_EQ(world.ask().code(), "in-flight");
  world.store.heal();
  world.executor.advance(world.policy.lease * 2);
  expect_executed_once();
}

// What the store calls unknown is known here to be at work.
TEST_F(AtWork, a_lease_that_lapsed_under_hold_is_in_flight) {
  for (const OnUnknown on_unknown : {OnUnknown::hold, OnUnknown::takeover}) {
    world.policy.on_unknown = on_unknown;
    world.store.fail_every(Verb::renew);
    world.executor.advance(world.policy.lease * 2);
    EXPECT_EQ(world.ask().code(), "in-flight");
    world.store.heal();
    world.executor.advance(world.policy.lease * 2);
  }
  expect_executed_once();
}

TEST_F(AtWork, while_the_store_is_down_nobody_is_told_that_nothing_was_executed) {
  world.store.go_down();
  const Call& retry = world.ask();
  EXPECT_EQ(retry.code(), "store-unavailable");
  EXPECT_FALSE(retry.body().contains("nothing was executed"));
  EXPECT_EQ(world.ask({.key = 2}).code(), "store-unavailable");
  world.store.heal();
  expect_executed_once();
}

// Its attempt was taken over by the other gateway, whose client has its answer.
TEST_F(AtWork, what_may_be_answered_elsewhere_is_not_called_in_flight) {
  world.policy.on_unknown = OnUnknown::retry;
  world.store.fail_every(Verb::renew);
  world.executor.advance(world.policy.lease * 2);
  world.backend.then(answer_with(201, "second"));
  ASSERT_EQ(world.ask_other().body(), "second");
  for (const InFlight in_flight : {InFlight::reject, InFlight::wait}) {
    for (const StoreDown store_down : {StoreDown::reject, StoreDown::bypass}) {
      world.policy.in_flight = in_flight;
      world.policy.store_down = store_down;
      world.store.go_down();
      const Call& retry = world.ask();
      EXPECT_EQ(retry.status(), 503);
      EXPECT_EQ(retry.code(), "store-unavailable");
      world.store.heal();
      EXPECT_EQ(world.ask().body(), "second");
    }
  }
  answer(answer_with(201, "first"));
  EXPECT_EQ(world.backend.executions(), 2U);
}

// The store went away after it had said that the owner is at work.
TEST_F(AtWork, a_wait_that_never_heard_from_the_store_does_not_end_as_in_flight) {
  world.policy.in_flight = InFlight::wait;
  Call& waits = world.other.send(world.policy);
  world.executor.advance(1s);
  world.store.go_down();
  world.run_until_ended(waits);
  EXPECT_EQ(waits.code(), "store-unavailable");
  world.store.heal();
  answer(answer_with(201, "first"));
}

TEST_F(AtWork, an_unknown_outcome_stays_unknown_under_the_claim_that_was_handed_over) {
  world.lose_record();
  EXPECT_EQ(world.ask().code(), "in-flight");
  answer(fails_with(Delivery::lost));
  EXPECT_EQ(first->code(), "outcome-unknown");
  EXPECT_EQ(world.state(), State::unknown);
  EXPECT_EQ(world.ask().code(), "outcome-unknown");
  EXPECT_EQ(world.backend.executions(), 1U);
}

// What the store could not be told is not forgotten: the claim that was handed over stands until it lapses.
TEST_F(AtWork, an_outcome_that_cannot_be_recorded_frees_nothing) {
  world.lose_record();
  EXPECT_EQ(world.ask().code(), "in-flight");
  world.store.fail_when([](const Op& op, std::size_t) {
    return op.verb == Verb::finish || op.verb == Verb::renew ? Fault::before : Fault::none;
  });
  answer(answer_with(201, "first"));
  EXPECT_EQ(first->code(), "outcome-unknown");
  world.store.heal();
  world.executor.advance(world.policy.lease * 2);
  EXPECT_EQ(world.ask().code(), "outcome-unknown");
  EXPECT_EQ(world.backend.executions(), 1U);
}

TEST_F(AtWork, what_was_refused_is_free_again) {
  world.lose_record();
  EXPECT_EQ(world.ask().code(), "in-flight");
  answer(answer_with(429));
  EXPECT_EQ(first->status(), 429);
  EXPECT_FALSE(world.record());
  EXPECT_EQ(world.ask().status(), 201);
  EXPECT_EQ(world.backend.executions(), 2U);
}

TEST_F(AtWork, a_bypass_does_not_send_it_again) {
  world.policy.store_down = StoreDown::bypass;
  world.store.go_down();
  EXPECT_EQ(world.ask().code(), "store-unavailable");
  world.store.heal();
  expect_executed_once();
}

// The failed attempt is recorded, and the next request is given the claim before the first one knows that.
TEST(AtWorkNoMore, a_claim_that_comes_too_late_to_be_used_is_taken_back) {
  World world;
  PickedLanes lanes(world.store);
  TestGateway gateway(lanes, world.executor, world.clock, world.backend, world.trace, 3);
  world.policy.in_flight = InFlight::reject;
  world.backend.then(answer_with(500, "failed"));
  const Call& first = gateway.send(world.policy);
  lanes.execute(0);
  lanes.tell(0);
  ASSERT_TRUE(world.executor.run_until([&] { return lanes.waiting() == 1; }));  // it wants to record the failure
  const Call& second = gateway.send(world.policy);
  lanes.execute(0);
  lanes.execute(1);
  lanes.tell(1);
  world.executor.run_ready();
  EXPECT_EQ(second.code(), "in-flight");
  EXPECT_FALSE(first.ended());
  lanes.tell(0);
  world.executor.run_ready();
  ASSERT_EQ(lanes.waiting(), 1U);  // the release of the second claim
  lanes.execute(0);
  lanes.tell(0);
  world.executor.run_ready();
  EXPECT_EQ(first.status(), 500);
  EXPECT_EQ(world.state(), State::failed);
  EXPECT_EQ(world.record()->attempt, Attempt{1});
  EXPECT_EQ(world.backend.executions(), 1U);
  EXPECT_EQ(world.ask().status(), 201);
}

class Bypassed : public HeldRequest {
 protected:
  Bypassed() {
    world.policy.store_down = StoreDown::bypass;
    world.store.go_down();
    send();
  }
};

TEST_F(Bypassed, a_retry_is_not_sent_beside_it) {
  EXPECT_EQ(world.ask().code(), "store-unavailable");
  answer(answer_with(201, "unprotected"));
  EXPECT_EQ(first->idempotency_status(), "bypassed");
  EXPECT_EQ(world.backend.executions(), 1U);
}

TEST_F(Bypassed, its_outcome_is_recorded_if_the_store_is_back_and_somebody_has_claimed_it) {
  world.store.heal();
  EXPECT_EQ(world.ask().code(), "in-flight");
  world.executor.advance(world.policy.lease * 5);
  answer(answer_with(201, "recorded after all"));
  EXPECT_EQ(first->idempotency_status(), "executed");
  EXPECT_EQ(world.ask().body(), "recorded after all");
  EXPECT_EQ(world.backend.executions(), 1U);
}

}  // namespace once::gateway::exchange_at_work_test
