// A gateway stands still while its request is at the backend: its lease ends, and another gateway executes again. What
// becomes of the first execution, and what a retry gets that reaches the first gateway.
#include "tests/unit/gateway/exchange/exchange_world.hpp"

namespace once::gateway {
namespace exchange_stood_still_test {

using namespace std::chrono_literals;

// `world.gateway` has sent the request and stands still. Its response is there when it goes on.
class StoodStill : public testing::Test {
 protected:
  StoodStill() {
    world.policy.on_unknown = OnUnknown::retry;
    world.backend.then(after(until_told, BackendScript()));
    first = &world.send();
    EXPECT_TRUE(world.executor.run_until([&] { return world.backend.untold() == 1; }));
    stand_still();
  }

  // None of its renewals is sent, until its lease has ended.
  void stand_still() {
    world.store.fail_when([owner = world.record()->nonce](const Op& op, std::size_t) {
      return op.verb == Verb::renew && op.nonce == owner ? Fault::before : Fault::none;
    });
    world.executor.advance(world.policy.lease * 2);
  }

  // Another gateway executes again.
  const Call& execute_again(BackendScript script) {
    world.backend.then(std::move(script));
    const Call& again = world.other.send(world.policy);
    EXPECT_TRUE(world.executor.run_until([&] { return again.ended(); }));
    return again;
  }
  const Call& retry_elsewhere() {
    const Call& retry = world.other.send(world.policy);
    EXPECT_TRUE(world.executor.run_until([&] { return retry.ended(); }));
    return retry;
  }

  void first_is_answered(BackendScript script = answer_with(201, "first")) {
    world.store.heal();
    world.backend.answer(0, std::move(script));
    EXPECT_TRUE(world.executor.run_until([&] { return first->ended(); }));
  }
  void every_retry_gets(std::string_view body) {
    for (int i = 0; i < 2; ++i) {
      const Call& here = world.ask();
      EXPECT_EQ(here.body(), body);
      EXPECT_EQ(here.idempotency_status(), "replayed");
      EXPECT_EQ(retry_elsewhere().body(), body);
    }
  }

  World world;
  Call* first = nullptr;
};

// The second execution's outcome is not known: a claim is granted, and the first execution gets it.
TEST_F(StoodStill, after_an_unknown_outcome_a_retry_waits_for_the_first_execution) {
  EXPECT_EQ(execute_again(fails_with(Delivery::lost)).code(), "outcome-unknown");
  world.policy.in_flight = InFlight::wait;
  const Call& retry = world.send();
  world.executor.advance(1s);
  EXPECT_FALSE(retry.ended());
  EXPECT_EQ(world.record()->state, State::started);
  EXPECT_EQ(world.record()->attempt, Attempt{3}) << "the claim that was handed over";
  first_is_answered();
  EXPECT_TRUE(world.executor.run_until([&] { return retry.ended(); }));
  EXPECT_EQ(first->status(), 201);
  EXPECT_EQ(first->idempotency_status(), "executed");
  EXPECT_EQ(retry.body(), "first");
  EXPECT_EQ(retry.idempotency_status(), "replayed");
  every_retry_gets("first");
  EXPECT_EQ(world.backend.executions(), 2U);
}

// A failure is an answer, and no outcome: a retry may get another one.
TEST_F(StoodStill, after_a_failure_too) {
  EXPECT_EQ(execute_again(answer_with(500, "second")).body(), "second");
  EXPECT_EQ(world.ask().code(), "in-flight");
  EXPECT_EQ(world.record()->attempt, Attempt{3});
  first_is_answered();
  EXPECT_EQ(first->body(), "first");
  every_retry_gets("first");
  EXPECT_EQ(world.backend.executions(), 2U);
}

// Nothing was done the second time.
TEST_F(StoodStill, after_a_refusal_too) {
  EXPECT_EQ(execute_again(answer_with(429, "second")).body(), "second");
  EXPECT_EQ(world.ask().code(), "in-flight");
  first_is_answered();
  every_retry_gets("first");
  EXPECT_EQ(world.backend.executions(), 2U);
}

// What is recorded stands: a retry gets it although the first execution is still running, which records nothing.
TEST_F(StoodStill, after_a_recorded_outcome_the_first_execution_has_none) {
  EXPECT_EQ(execute_again(answer_with(201, "second")).body(), "second");
  every_retry_gets("second");
  first_is_answered();
  EXPECT_EQ(first->status(), 503);
  EXPECT_EQ(first->code(), "outcome-unknown");
  EXPECT_FALSE(first->body().contains("first"));
  every_retry_gets("second");
  EXPECT_EQ(world.record()->attempt, Attempt{2});
  EXPECT_EQ(world.backend.executions(), 2U);
}

// The other gateway runs: no claim is granted, so none is handed over.
TEST_F(StoodStill, while_another_gateway_executes_the_first_execution_gets_no_claim) {
  world.backend.then(after(until_told, BackendScript()));
  const Call& second = world.other.send(world.policy);
  EXPECT_TRUE(world.executor.run_until([&] { return world.backend.untold() == 2; }));
  EXPECT_EQ(world.ask().code(), "in-flight");
  EXPECT_EQ(world.record()->attempt, Attempt{2});
  first_is_answered();
  EXPECT_EQ(first->code(), "outcome-unknown");
  EXPECT_EQ(world.record()->state, State::started) << "it has ended nothing";
  world.backend.answer(0, answer_with(201, "second"));
  EXPECT_TRUE(world.executor.run_until([&] { return second.ended(); }));
  EXPECT_EQ(second.body(), "second");
  every_retry_gets("second");
  EXPECT_EQ(world.backend.executions(), 2U);
}

// It stands still again, so the claim that was handed over is lost like its first one.
TEST_F(StoodStill, a_claim_that_was_handed_over_lapses_as_well) {
  EXPECT_EQ(execute_again(fails_with(Delivery::lost)).code(), "outcome-unknown");
  EXPECT_EQ(world.ask().code(), "in-flight");
  stand_still();
  EXPECT_EQ(execute_again(answer_with(201, "third")).body(), "third");
  first_is_answered();
  EXPECT_EQ(first->code(), "outcome-unknown");
  every_retry_gets("third");
  EXPECT_EQ(world.backend.executions(), 3U);
}

}  // namespace exchange_stood_still_test
}  // namespace once::gateway
