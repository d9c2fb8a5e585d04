// Requests that wait for another one's outcome: who wakes them, how long they wait, and what they find.
#include "core/outcome.hpp"
#include "tests/unit/gateway/exchange/exchange_world.hpp"

namespace once::gateway::exchange_wait_test {

using namespace std::chrono_literals;

class ExchangeWait : public EveryStore {
 protected:
  ExchangeWait() { world.policy.in_flight = InFlight::wait; }

  // The owner is at the backend for `takes`, and then what the script says happens.
  Call& owner_works(Duration takes, BackendScript script = BackendScript()) {
    Call& owner = world.send_when(after(takes, std::move(script)));
    EXPECT_TRUE(world.executor.run_until([&] { return world.backend.at_work() == 1; }));
    return owner;
  }
  void run_until_ended(const Call& call) { world.run_until_ended(call); }
  std::ptrdiff_t count(std::string_view line) const { return std::ranges::count(world.trace, line); }
};
INSTANTIATE_TEST_SUITE_P(Stores, ExchangeWait, every_setting(), name_of_setting);

TEST_P(ExchangeWait, a_waiter_is_woken_by_the_owner_and_gets_its_answer) {
  const Call& owner = owner_works(10s);
  const Call& waiter = world.send();
  world.executor.advance(1s);
  EXPECT_FALSE(waiter.ended());
  EXPECT_EQ(world.gateway.metrics.waiting.value(), 1U);
  run_until_ended(owner);
  const Time recorded = world.clock.now();
  run_until_ended(waiter);
  EXPECT_EQ(waiter.body(), owner.body());
  EXPECT_EQ(waiter.idempotency_status(), "replayed");
  EXPECT_LE(world.clock.now() - recorded, 5ms);
  EXPECT_EQ(world.backend.executions(), 1U);
}

TEST_P(ExchangeWait, an_owner_that_ends_between_the_claim_and_the_look_is_not_missed) {
  // At every moment around the owner's end.
  for (int late = -5; late <= 5; ++late) {
    World fresh(GetParam().shared, GetParam().execution);
    fresh.policy.in_flight = InFlight::wait;
    fresh.backend.then(after(1s, BackendScript()));
    const Call& owner = fresh.send();
    fresh.executor.advance(1s + Duration(late));
    const Time sent = fresh.clock.now();
    const Call& waiter = fresh.ask();
    EXPECT_TRUE(owner.ended());
    EXPECT_EQ(waiter.idempotency_status(), "replayed");
    EXPECT_LE(fresh.clock.now() - sent, 20ms);
  }
}

TEST_P(ExchangeWait, after_the_limit_the_client_is_told_to_come_back) {
  owner_works(5min);
  const Time sent = world.clock.now();
  const Call& waiter = world.send();
  run_until_ended(waiter);
  EXPECT_EQ(waiter.status(), 409);
  EXPECT_EQ(waiter.code(), "in-flight");
  EXPECT_EQ(waiter.retry_after(), "1");
  world.expect_since(sent, world.policy.wait_limit, world.policy.wait_limit + 1s);
}

TEST_P(ExchangeWait, nobody_waits_when_the_store_has_failed_for_good) {
  owner_works(5min);
  const Call& waiter = world.send();
  world.executor.advance(5s);
  EXPECT_FALSE(waiter.ended());
  const Time failed = world.clock.now();
  world.store.fail_for_good();
  run_until_ended(waiter);
  // Its owner is at the backend, unless another gateway has taken over.
  EXPECT_EQ(waiter.code(), GetParam().shared == Shared::yes ? "store-unavailable" : "in-flight");
  EXPECT_LE(world.clock.now() - failed, 1s);
}

TEST_P(ExchangeWait, a_waiter_whose_owner_could_not_record_anything_is_told_of_the_store) {
  const Call& owner = owner_works(5s);
  const Call& waiter = world.send();
  world.store.fail_when([this](const Op& op, std::size_t) {
    if (op.verb != Verb::finish) return Fault::none;
    world.store.fail_for_good();
    return Fault::before;
  });
  run_until_ended(owner);
  const Time failed = world.clock.now();
  run_until_ended(waiter);
  EXPECT_EQ(waiter.code(), "store-unavailable");
  EXPECT_LE(world.clock.now() - failed, 5ms);
  EXPECT_EQ(world.backend.executions(), 1U);
}

TEST_P(ExchangeWait, the_limit_is_for_all_owners_together) {
  owner_works(20s, answer_with(500));
  world.executor.advance(5s);
  // Of the two that wait one becomes the next owner; the other has waited 15 seconds by then.
  const Call& one = world.send_when(after(20s, answer_with(500)));
  const Call& two = world.send();
  const Time sent = world.clock.now();
  EXPECT_TRUE(world.executor.run_until([&] { return one.ended() || two.ended(); }));
  EXPECT_EQ((one.ended() ? one : two).status(), 409);
  EXPECT_LE(world.clock.now() - sent, world.policy.wait_limit + 1s);
}

TEST_P(ExchangeWait, the_next_request_of_a_connection_may_wait_as_long_as_the_first) {
  owner_works(5min);
  Call& waiter = world.ask();
  const Time sent = world.clock.now();
  waiter.start({});
  run_until_ended(waiter);
  EXPECT_EQ(waiter.code(), "in-flight");
  EXPECT_GE(world.clock.now() - sent, world.policy.wait_limit);
}

TEST_P(ExchangeWait, the_next_request_of_a_connection_has_nothing_of_the_one_before) {
  world.ask_when(answer_with(500));
  Call& call = world.ask_when(answer_with(201));
  EXPECT_EQ(call.reply().attempt, Attempt{2});
  EXPECT_EQ(call.reply().settled, ClaimEnd::succeeded);
  call.start({.content = 2});
  run_until_ended(call);
  EXPECT_EQ(call.idempotency_status(), "mismatch");
  EXPECT_EQ(call.reply().attempt, Attempt{});
  EXPECT_EQ(call.reply().settled, std::nullopt);
}

// Otherwise it would not tell other gateways when the owner ends.
TEST_P(ExchangeWait, the_store_knows_that_somebody_waits) {
  bool noted = false;
  world.store.fail_when([&noted](const Op& op, std::size_t) {
    noted = noted || op.waits == Waits::yes;
    return Fault::none;
  });
  owner_works(5s);
  world.executor.advance(1s);
  EXPECT_FALSE(noted);
  world.send();
  world.executor.advance(1s);
  EXPECT_TRUE(noted);
}

// It tried on after its client was told that the outcome is unknown.
TEST_P(ExchangeWait, a_waiter_is_woken_by_an_outcome_that_is_recorded_late) {
  if (GetParam().shared == Shared::yes) return;  // when the lease has ended, everybody knows
  bool down = true;
  world.store.fail_when(
      [&down](const Op& op, std::size_t) { return down && op.verb == Verb::finish ? Fault::before : Fault::none; });
  const Call& owner = owner_works(1s);
  const Call& waiter = world.send();
  world.policy.wait_limit = 1h;
  const Call& patient = world.send();
  run_until_ended(owner);
  run_until_ended(waiter);
  world.executor.advance(5s);
  EXPECT_FALSE(patient.ended());
  down = false;
  world.executor.run_until([&] { return world.state() == State::succeeded; });
  const Time recorded = world.clock.now();
  run_until_ended(patient);
  EXPECT_EQ(patient.idempotency_status(), "replayed");
  EXPECT_LE(world.clock.now() - recorded, 5ms);
}

TEST_P(ExchangeWait, when_the_owner_fails_exactly_one_waiter_tries_next) {
  owner_works(5s, answer_with(500));
  world.backend.then(after(5s, answer_with(201, "second attempt")));
  std::vector<const Call*> waiters;
  for (int i = 0; i < 8; ++i) waiters.push_back(&world.send());
  for (const Call* waiter : waiters) run_until_ended(*waiter);
  EXPECT_EQ(world.backend.executions(), 2U);
  EXPECT_EQ(world.backend.most_at_work(), 1U);
  EXPECT_EQ(world.backend.seen()[1].field("Idempotency-Attempt"), "2");
  EXPECT_EQ(std::ranges::count(waiters, "executed", &Call::idempotency_status), 1);
  EXPECT_EQ(std::ranges::count(waiters, "replayed", &Call::idempotency_status), 7);
  for (const Call* waiter : waiters) EXPECT_EQ(waiter->body(), "second attempt");
}

TEST_P(ExchangeWait, when_nothing_was_sent_one_waiter_is_the_first) {
  owner_works(1s, fails_with(Delivery::not_sent));
  const Call& one = world.send();
  const Call& two = world.send();
  run_until_ended(one);
  run_until_ended(two);
  EXPECT_EQ(world.backend.executions(), 2U);
  EXPECT_EQ(world.backend.seen()[1].field("Idempotency-Attempt"), "1");
  EXPECT_EQ(one.body(), two.body());
}

TEST_P(ExchangeWait, an_unknown_outcome_ends_the_waiting_too) {
  owner_works(1s, fails_with(Delivery::lost));
  const Call& waiter = world.send();
  run_until_ended(waiter);
  EXPECT_EQ(waiter.code(), "outcome-unknown");
  EXPECT_LE(world.backend.executions(), 1U);
}

TEST_P(ExchangeWait, another_request_under_the_key_does_not_wait) {
  owner_works(10s);
  const Time sent = world.clock.now();
  EXPECT_EQ(world.ask({.content = 2}).status(), 422);
  EXPECT_LE(world.clock.now() - sent, 5ms);
}

TEST_P(ExchangeWait, another_key_is_not_woken) {
  owner_works(3s);
  world.send_when(after(1s, BackendScript()), {.key = 2});
  const Call& waiter = world.send();
  world.executor.advance(2s);
  EXPECT_FALSE(waiter.ended());
  run_until_ended(waiter);
  EXPECT_EQ(waiter.status(), 201);
}

TEST_P(ExchangeWait, a_store_that_fails_while_somebody_waits_is_asked_again) {
  owner_works(2s);
  world.store.fail_next(Verb::lookup, Fault::before, 3);
  const Call& waiter = world.send();
  run_until_ended(waiter);
  EXPECT_EQ(waiter.status(), 201);
  EXPECT_EQ(world.backend.executions(), 1U);
}

TEST_P(ExchangeWait, a_client_that_leaves_takes_its_request_with_it) {
  const Call& owner = owner_works(10s, answer_with(500));
  Call& waiter = world.send();
  world.executor.advance(2s);
  ASSERT_FALSE(waiter.ended());
  waiter.leave();
  EXPECT_FALSE(waiter.ended()) << "not from within the socket that noticed it";
  const auto looked = count("lookup: done");
  world.executor.run_ready();
  EXPECT_EQ(waiter.code(), "in-flight");
  EXPECT_EQ(count("lookup: done"), looked) << "one that left asks the store for nothing";
  EXPECT_EQ(world.gateway.metrics.waiting.value(), 0U);
  EXPECT_FALSE(waiter.listened_to());
  run_until_ended(owner);
  EXPECT_EQ(world.backend.executions(), 1U) << "the owner failed, and nobody is there to try next";
}

TEST_P(ExchangeWait, a_client_that_left_before_the_wait_does_not_wait) {
  owner_works(10s);
  Call& waiter = world.send();
  waiter.leave();
  world.run_until_ended(waiter);
  EXPECT_EQ(waiter.code(), "in-flight");
  EXPECT_EQ(world.backend.at_work(), 1U) << "the owner still works";
}

TEST_P(ExchangeWait, an_owner_is_not_stopped_by_its_client_leaving) {
  Call& owner = owner_works(1s);
  owner.leave();
  EXPECT_FALSE(owner.listened_to());
  run_until_ended(owner);
  EXPECT_EQ(owner.status(), 201);
  EXPECT_EQ(world.state(), State::succeeded);
}

class ExchangeWaitElsewhere : public testing::Test {
 protected:
  ExchangeWaitElsewhere() { world.policy.in_flight = InFlight::wait; }

  void other_works(Duration takes, BackendScript script = BackendScript()) {
    world.backend.then(after(takes, std::move(script)));
    world.other.send(world.policy);
    ASSERT_TRUE(world.executor.run_until([&] { return world.backend.at_work() == 1; }));
  }

  World world;
};

TEST_F(ExchangeWaitElsewhere, an_owner_in_another_process_is_looked_for) {
  other_works(10s);
  const Time sent = world.clock.now();
  EXPECT_EQ(world.ask().idempotency_status(), "replayed");
  world.expect_since(sent, 9s, 11s + 50ms);
  // Fast at first, then once a second: 50, 100, 200, 400, 800 milliseconds and nine more.
  EXPECT_LE(std::ranges::count(world.trace, "lookup: done"), 17);
}

TEST_F(ExchangeWaitElsewhere, a_short_wait_is_not_made_long_by_looking_seldom) {
  other_works(100ms);
  const Time sent = world.clock.now();
  world.ask();
  EXPECT_LE(world.clock.now() - sent, 250ms);
}

TEST_F(ExchangeWaitElsewhere, the_limit_holds_for_owners_elsewhere_too) {
  other_works(5min);
  const Time sent = world.clock.now();
  EXPECT_EQ(world.ask().code(), "in-flight");
  world.expect_since(sent, world.policy.wait_limit, world.policy.wait_limit + 100ms);
}

// Its record says unknown, so there is no owner to wait for; and it cannot be claimed.
class ExchangeWaitForCommit : public ExchangeWaitElsewhere {
 protected:
  ExchangeWaitForCommit() {
    world.policy.on_unknown = OnUnknown::retry;
    world.after_execution(fails_with(Delivery::timed_out));
    world.store.fail_every(Verb::claim, Fault::locked);
  }
  auto claims() const { return std::ranges::count(world.trace, "claim: in flight"); }
};

TEST_F(ExchangeWaitForCommit, a_backend_that_does_not_commit_is_waited_for_within_the_limit) {
  const Time sent = world.clock.now();
  EXPECT_EQ(world.ask().code(), "in-flight");
  world.expect_since(sent, world.policy.wait_limit, world.policy.wait_limit + 1s);
  // Two between pauses that grow to a second.
  EXPECT_LE(claims(), 2 * (world.policy.wait_limit / 1s + 6));
}

TEST_F(ExchangeWaitForCommit, a_backend_that_commits_has_answered_those_who_wait) {
  const Call& waiter = world.send();
  EXPECT_FALSE(world.executor.run_until([&] { return waiter.ended() || claims() >= 5; }) && waiter.ended());
  Op commit{.verb = Verb::finish, .id = operation(1), .nonce = world.record()->nonce, .terms = {.ttl = 1h}};
  commit.outcome = std::make_shared<const std::string>(encode({.status = 202, .body = "committed"}));
  world.store.run_inside(commit);
  world.by_others = true;
  world.store.heal();
  world.run_until_ended(waiter);
  EXPECT_EQ(waiter.body(), "committed");
  EXPECT_EQ(world.backend.executions(), 1U);
}

// A process that died renews nothing.
TEST_F(ExchangeWaitElsewhere, when_the_owner_dies_its_lease_ends_and_the_policy_decides) {
  struct Row {
    OnUnknown policy;
    std::string answer;
    std::string retry_after;
  };
  int key = 0;
  for (const Row& row :
       {Row{OnUnknown::retry, "201 executed done", ""}, Row{OnUnknown::takeover, "409 unknown outcome-unknown", "30"},
        Row{OnUnknown::hold, "409 unknown outcome-unknown", ""}}) {
    SCOPED_TRACE(++key);
    Op claim{.verb = Verb::claim, .id = operation(key), .nonce = Nonce{{9}}, .fingerprint = fingerprint_of(1)};
    claim.terms.lease = 10s;
    world.store.run_inside(claim);
    world.policy.on_unknown = row.policy;
    const Time sent = world.clock.now();
    const Call& call = world.ask({.key = key});
    world.expect_since(sent, 10s, 11s + 50ms);
    EXPECT_EQ(call.answer(), row.answer);
    EXPECT_EQ(call.retry_after(), row.retry_after);
  }
  EXPECT_EQ(world.backend.executions(), 1U);
}

}  // namespace once::gateway::exchange_wait_test
