// Leases: renewed while the backend works, not needed where the owner is the process, and what happens when one is
// lost all the same.
#include "tests/unit/gateway/exchange/exchange_world.hpp"

namespace once::gateway::exchange_lease_test {

using namespace std::chrono_literals;

std::ptrdiff_t count(const Trace& trace, std::string_view line) {
  return std::ranges::count(trace, line);
}

struct ExchangeLease : testing::Test {
  World world;
};

TEST_F(ExchangeLease, a_slow_backend_is_waited_for_and_nobody_takes_over) {
  for (const Execution execution : {Execution::at_once, Execution::in_a_lane}) {
    World world(Shared::yes, execution);
    world.policy.on_unknown = OnUnknown::retry;  // the next request would execute the moment the lease ends
    const Call& owner = world.send_when(after(world.policy.lease * 10, BackendScript()));
    while (!owner.ended()) {
      world.executor.advance(world.policy.lease / 2);
      const Call& retry = world.ask_other();
      EXPECT_TRUE(retry.code() == "in-flight" || owner.ended()) << retry.code();
    }
    EXPECT_EQ(owner.status(), 201);
    EXPECT_EQ(world.backend.executions(), 1U);
    EXPECT_GE(count(world.trace, "renew: done"), 29);
    EXPECT_LE(count(world.trace, "renew: done"), 30);
    EXPECT_EQ(world.gateway.metrics.leases_renewed.value(),
              static_cast<std::uint64_t>(count(world.trace, "renew: done")));
  }
}

TEST_F(ExchangeLease, without_sharing_nothing_is_renewed_and_nothing_lapses) {
  for (const Execution execution : {Execution::at_once, Execution::in_a_lane}) {
    World world(Shared::no, execution);
    world.policy.on_unknown = OnUnknown::retry;
    const Call& owner = world.send_when(after(world.policy.lease * 10, BackendScript()));
    world.executor.advance(world.policy.lease * 9);
    EXPECT_EQ(world.ask().code(), "in-flight");
    world.run_until_ended(owner);
    EXPECT_EQ(owner.status(), 201);
    EXPECT_EQ(count(world.trace, "renew: done"), 0);
  }
}

TEST_F(ExchangeLease, a_claim_outlives_its_expiry_while_the_owner_works) {
  world.policy.ttl = 1min;
  const Call& owner = world.send_when(after(5min, BackendScript()));
  world.executor.advance(4min);
  EXPECT_EQ(world.ask().code(), "in-flight");
  world.run_until_ended(owner);
  EXPECT_EQ(owner.status(), 201);
  EXPECT_EQ(world.ask().idempotency_status(), "replayed");
}

TEST_F(ExchangeLease, two_of_three_renewals_may_fail) {
  world.policy.on_unknown = OnUnknown::retry;
  world.store.fail_when([renewals = 0](const Op& op, std::size_t) mutable {
    return op.verb == Verb::renew && ++renewals % 3 != 0 ? Fault::before : Fault::none;
  });
  const Call& owner = world.send_when(after(world.policy.lease * 10, BackendScript()));
  while (!owner.ended()) {
    world.executor.advance(1s);
    if (owner.ended()) break;
    const Call& retry = world.ask_other();
    if (!owner.ended()) ASSERT_EQ(retry.code(), "in-flight");
  }
  EXPECT_EQ(owner.status(), 201);
  EXPECT_EQ(world.backend.executions(), 1U);
  EXPECT_GE(world.gateway.metrics.store_errors.value(), 19U);
}

TEST_F(ExchangeLease, a_renewal_that_failed_is_tried_again_long_before_its_next_turn) {
  world.store.fail_when([renewals = 0](const Op& op, std::size_t) mutable {
    return op.verb == Verb::renew && ++renewals == 1 ? Fault::before : Fault::none;
  });
  const Call& owner = world.send_when(after(world.policy.lease * 2, BackendScript()));
  world.executor.advance(world.policy.lease / 3 + world.policy.lease / 10);
  EXPECT_EQ(std::ranges::count(world.trace, "renew: failed"), 1);
  EXPECT_EQ(std::ranges::count(world.trace, "renew: done"), 1);
  world.run_until_ended(owner);
}

// A store that gives up on a call only after a while: the next renewal does not wait for its turn after that.
TEST_F(ExchangeLease, two_renewals_that_were_lost_slowly_do_not_end_a_lease) {
  world.policy.on_unknown = OnUnknown::retry;
  world.store.fail_when([renewals = 0](const Op& op, std::size_t) mutable {
    return op.verb == Verb::renew && ++renewals % 3 != 0 ? Fault::before : Fault::none;
  });
  VirtualLanes slow(world.store, world.executor, 8s);
  TestGateway gateway(slow, world.executor, world.clock, world.backend, world.trace, 3);
  world.by_others = true;
  world.backend.then(after(world.policy.lease * 4, BackendScript()));
  const Call& owner = gateway.send(world.policy);
  EXPECT_TRUE(world.executor.run_until([&] { return world.backend.executions() == 1; }));
  while (!owner.ended()) {
    world.executor.advance(1s);
    if (owner.ended()) break;
    const Call& retry = world.ask_other();
    if (!owner.ended() && retry.idempotency_status() != "replayed") ASSERT_EQ(retry.code(), "in-flight");
  }
  EXPECT_EQ(owner.status(), 201);
  EXPECT_EQ(world.backend.executions(), 1U);
}

// The backend answers just while a renewal is on its way: the two must not overtake each other.
TEST_F(ExchangeLease, a_renewal_on_its_way_arrives_before_the_outcome_is_recorded) {
  VirtualLanes slow(world.store, world.executor, 500ms);
  TestGateway gateway(slow, world.executor, world.clock, world.backend, world.trace, 3);
  world.by_others = true;
  world.backend.then(after(world.policy.lease / 3 + 100ms, BackendScript()));
  const Call& call = gateway.send(world.policy);
  world.run_until_ended(call);
  EXPECT_THAT(world.trace, testing::ElementsAre("claim: execute", "send: attempt 1", "renew: done",
                                                "finish succeeded: done", "reply: 201 executed"));
  const std::size_t lines = world.trace.size();
  world.executor.run_to_the_end();
  EXPECT_EQ(world.trace.size(), lines) << world.trace.back();
}

TEST_F(ExchangeLease, after_the_answer_nothing_is_renewed_any_more) {
  for (const BackendScript& script : {answer_with(201), answer_with(500), answer_with(429), fails_with(Delivery::lost),
                                      fails_with(Delivery::not_sent)}) {
    world.ask_when(after(15s, script), {.key = 7});
    world.trace.clear();
    world.executor.advance(world.policy.lease * 3);
    EXPECT_EQ(world.trace, Trace());
    world.executor.advance(world.policy.ttl);
  }
}

// A gateway that cannot reach the store while another one can.
class LostClaim : public testing::Test {
 protected:
  LostClaim() {
    world.policy.on_unknown = OnUnknown::retry;
    world.backend.then(after(2min, answer_with(201, "slow")));
    owner = &world.send();
    world.executor.advance(1s);
    // Only the owner renews, and none of it arrives.
    world.store.fail_every(Verb::renew);
  }

  World world;
  Call* owner = nullptr;
};

TEST_F(LostClaim, an_owner_that_lost_its_claim_records_nothing_and_says_so) {
  world.executor.advance(world.policy.lease + 1s);
  world.backend.then(answer_with(201, "second attempt"));
  const Call& other = world.ask_other();
  EXPECT_EQ(other.body(), "second attempt");
  EXPECT_EQ(other.reply().attempt, Attempt{2});
  EXPECT_EQ(world.other.counts().takeovers.value(), 1U);

  world.run_until_ended(*owner);
  EXPECT_EQ(owner->answer(), "503 unknown outcome-unknown");
  EXPECT_EQ(world.gateway.metrics.claims_lost.value(), 1U);
  EXPECT_EQ(world.gateway.outcomes(ClaimEnd::lost), 1U);
  EXPECT_EQ(world.gateway.outcomes(ClaimEnd::succeeded), 0U);
  EXPECT_EQ(world.other.outcomes(ClaimEnd::succeeded), 1U);
  EXPECT_GE(world.gateway.metrics.renewals_failed.value(), 2U);
  EXPECT_EQ(count(world.trace, "finish succeeded: lost"), 1);
  EXPECT_EQ(world.ask().body(), "second attempt");
  const auto& seen = world.backend.seen();
  EXPECT_GT(std::stoull(seen[1].field("Idempotency-Fence")), std::stoull(seen[0].field("Idempotency-Fence")));
}

TEST_F(LostClaim, while_the_new_owner_works_the_old_one_changes_nothing) {
  world.executor.advance(world.policy.lease + 1s);
  world.backend.then(after(10min, answer_with(201, "second attempt")));
  const Call& other = world.other.send(world.policy);
  world.store.heal();
  world.run_until_ended(*owner);
  EXPECT_EQ(owner->status(), 503);
  EXPECT_FALSE(other.ended());
  EXPECT_EQ(world.state(), State::started);
  EXPECT_EQ(world.record()->attempt, Attempt{2});
  // Once told that it is lost, the old owner renews no more; the new one does.
  EXPECT_EQ(count(world.trace, "renew: lost"), 1);
  world.run_until_ended(other);
  EXPECT_EQ(other.body(), "second attempt");
}

TEST_F(LostClaim, a_lapsed_claim_that_nobody_took_is_still_the_owners_to_finish) {
  world.executor.advance(world.policy.lease * 2);
  world.run_until_ended(*owner);
  EXPECT_EQ(owner->status(), 201);
  EXPECT_EQ(world.ask().body(), "slow");
  EXPECT_EQ(world.backend.executions(), 1U);
}

TEST_F(LostClaim, a_lapsed_claim_that_nobody_took_is_revived_by_a_renewal) {
  world.executor.advance(world.policy.lease * 2);
  world.store.heal();
  world.executor.advance(world.policy.lease / 3);
  EXPECT_EQ(world.ask_other().code(), "in-flight");
  EXPECT_EQ(world.backend.executions(), 1U);
}

TEST_F(LostClaim, a_release_by_one_who_lost_the_claim_leaves_it_to_the_new_owner) {
  world.policy.on_unknown = OnUnknown::retry;
  const Call& refused = world.send_when(after(2min, answer_with(429)), {.key = 2});
  world.executor.advance(world.policy.lease + 1s);
  world.backend.then(after(10min, BackendScript()));
  const Call& other = world.other.send(world.policy, {.key = 2});
  world.run_until_ended(refused);
  EXPECT_EQ(refused.status(), 429);
  EXPECT_EQ(world.state(2), State::started);
  EXPECT_EQ(world.gateway.metrics.claims_lost.value(), 1U);
  world.store.heal();
  world.run_until_ended(other);
  EXPECT_EQ(other.status(), 201);
}

// The backend is waited for, and so is a connection to it.
class LostBeforeSent : public testing::Test {
 protected:
  LostBeforeSent() {
    world.policy.on_unknown = OnUnknown::retry;
    world.backend.connects_in = world.policy.lease * 3;
    owner = &world.send();
    world.executor.advance(1s);
    world.store.fail_every(Verb::renew);
    world.executor.advance(world.policy.lease + 1s);
    world.backend.connects_in = Duration::zero();
  }

  World world;
  Call* owner = nullptr;
};

TEST_F(LostBeforeSent, an_owner_that_was_told_so_sends_nothing) {
  world.backend.then(after(10min, answer_with(201, "successor")));
  const Call& successor = world.other.send(world.policy);
  EXPECT_TRUE(world.executor.run_until([&] { return world.backend.executions() == 1; }));
  world.store.heal();
  world.run_until_ended(*owner);
  EXPECT_THAT(world.trace, testing::Contains("renew: lost"));
  EXPECT_EQ(owner->status(), 409);
  EXPECT_EQ(owner->code(), "in-flight");
  EXPECT_TRUE(owner->retryable());
  EXPECT_EQ(world.backend.executions(), 1U);
  world.run_until_ended(successor);
  EXPECT_EQ(successor.body(), "successor");
}

TEST_F(LostBeforeSent, an_owner_that_cannot_know_sends_nothing) {
  world.store.go_down();
  world.run_until_ended(*owner);
  EXPECT_EQ(owner->code(), "store-unavailable");
  EXPECT_EQ(world.backend.executions(), 0U);
  world.store.heal();
  world.executor.run_to_the_end();
  EXPECT_FALSE(world.record());
}

TEST_F(LostBeforeSent, one_that_can_renew_again_sends) {
  world.store.heal();
  world.run_until_ended(*owner);
  EXPECT_EQ(owner->status(), 201);
  EXPECT_EQ(world.backend.executions(), 1U);
}

TEST(LateClaim, one_whose_lease_is_over_when_it_is_known_is_renewed_before_anything_is_sent) {
  World world;
  bool made = false;
  world.store.fail_when([&](const Op& op, std::size_t) {
    if (op.verb != Verb::claim || std::exchange(made, true)) return Fault::none;
    return Fault::after;
  });
  world.backend.on_send = [&](const auto&) { EXPECT_EQ(world.trace[world.trace.size() - 2], "renew: done"); };
  const Call& call = world.send();
  EXPECT_TRUE(world.executor.run_until([&] { return made; }));
  world.clock.advance(world.policy.lease + 1s);  // that long it took to give up on the answer
  world.run_until_ended(call);
  EXPECT_EQ(call.status(), 201);
  EXPECT_EQ(count(world.trace, "renew: done"), 1);
  EXPECT_EQ(world.backend.executions(), 1U);
}

TEST(LateClaim, one_that_cannot_be_renewed_sends_nothing) {
  World world;
  bool made = false;
  world.store.fail_when([&](const Op& op, std::size_t) {
    if (op.verb == Verb::renew) return Fault::before;
    if (op.verb != Verb::claim || std::exchange(made, true)) return Fault::none;
    return Fault::after;
  });
  const Call& call = world.send();
  EXPECT_TRUE(world.executor.run_until([&] { return made; }));
  world.clock.advance(world.policy.lease + 1s);
  world.run_until_ended(call);
  EXPECT_EQ(call.code(), "store-unavailable");
  EXPECT_EQ(world.backend.executions(), 0U);
}

// A gateway whose answers from the store the test holds back.
struct Withheld {
  explicit Withheld(World& the_world)
      : world(the_world), gateway(lanes, world.executor, world.clock, world.backend, world.trace, 3) {
    world.by_others = true;
  }

  // Whatever it has asked for by now, and its answers.
  void answer_all() {
    world.executor.run_ready();
    while (lanes.waiting() > 0) {
      lanes.execute_next();
      world.executor.run_ready();
    }
  }
  void run_to_the_end() {
    answer_all();
    while (!world.executor.idle()) {
      world.executor.advance(1s);
      answer_all();
    }
  }

  World& world;
  PickedLanes lanes{world.store};
  TestGateway gateway;
};

// Lanes and drivers ask again inside of one call, and an answer may be held up: the exchange sees one answer, late.
TEST(LateClaim, one_whose_answer_came_after_its_lease_is_not_executed_beside_its_successor) {
  World world;
  world.policy.on_unknown = OnUnknown::retry;
  Withheld slow(world);
  const Call& late = slow.gateway.send(world.policy);
  slow.lanes.execute_next();
  world.clock.advance(world.policy.lease + 1s);
  world.backend.then(after(10s, answer_with(201, "successor")));
  const Call& successor = world.other.send(world.policy);
  EXPECT_TRUE(world.executor.run_until([&] { return world.backend.executions() > 0; }));
  slow.run_to_the_end();
  EXPECT_EQ(successor.body(), "successor");
  EXPECT_EQ(late.code(), "in-flight");
  EXPECT_EQ(world.backend.executions(), 1U);
  EXPECT_EQ(count(world.trace, "renew: lost"), 1);
}

// Half of a lease is the limit; and a clock that was set back meanwhile proves nothing.
TEST(LateClaim, one_whose_answer_took_half_of_its_lease_is_renewed_and_executed) {
  const Duration half = impatient_policy().lease / 2;
  for (const auto& [took, renewals] : {std::pair(half, 1), std::pair(half - 1ms, 0), std::pair(Duration(-1h), 1)}) {
    SCOPED_TRACE(took.count());
    World world;
    Withheld slow(world);
    const Call& call = slow.gateway.send(world.policy);
    slow.lanes.execute_next();
    world.clock.advance(took);
    slow.run_to_the_end();
    EXPECT_EQ(call.status(), 201);
    EXPECT_EQ(count(world.trace, "renew: done"), renewals);
  }
}

TEST(LateClaim, one_whose_renewal_is_as_late_sends_nothing_and_is_taken_back) {
  World world;
  Withheld slow(world);
  const Call& call = slow.gateway.send(world.policy);
  for (int answers = 0; answers < 2; ++answers) {
    slow.lanes.execute_next();
    world.clock.advance(world.policy.lease / 2);
    world.executor.run_ready();
  }
  EXPECT_EQ(call.code(), "store-unavailable");
  slow.run_to_the_end();
  EXPECT_EQ(world.backend.executions(), 0U);
  EXPECT_FALSE(world.record().has_value());
}

}  // namespace once::gateway::exchange_lease_test
