// Keys that die with their resource, in virtual time: what ends a life, what is left of its keys, and a store that
// fails at every point of it.
#include "gateway/exchange/life.hpp"

#include "tests/unit/gateway/exchange/exchange_world.hpp"

namespace once::gateway::life_test {

using namespace std::chrono_literals;
using testing::ElementsAre;

const OperationId marker = operation(99);

class Life : public EveryStore {
 protected:
  Life() {
    world.policy.life.remembered = 48h;
    const auto parsed = http::parse(text_, http::HeadLimits(), head_);
    ONCE_ASSERT(parsed.parsed == http::Parsed::complete);
  }

  Call& ask() { return world.ask({.life = marker}); }

  std::optional<Problem> run(Task<std::optional<Problem>> task) {
    bool ended = false;
    std::optional<Problem> result;
    spawn(keep(std::move(task), result, ended));
    EXPECT_TRUE(world.executor.run_until([&] { return ended; })) << "it never ends";
    return result;
  }
  std::optional<Problem> begin() {
    LifeEnd end(world.gateway.ports(), world.policy, marker, head_, "id");
    return run(end.begin());
  }
  std::optional<Problem> answered(int status) {
    LifeEnd end(world.gateway.ports(), world.policy, marker, head_, "id");
    return run(end.answered(status));
  }

 private:
  static Task<void> keep(Task<std::optional<Problem>> task, std::optional<Problem>& result, bool& ended) {
    result = co_await std::move(task);
    ended = true;
  }

  const std::string text_ = "DELETE /payments HTTP/1.1\r\nHost: api\r\n\r\n";
  http::RequestHead head_;
};
INSTANTIATE_TEST_SUITE_P(Stores, Life, every_setting(), name_of_setting);

TEST(LifeMarker, is_of_a_resource_of_one_host_and_no_claim_of_a_write) {
  const OperationIds ids("secret");
  const auto marker = [&ids](const std::string& host, std::string_view resource) {
    const std::string text = "DELETE /a HTTP/1.1\r\nHost: " + host + "\r\n\r\n";
    http::RequestHead head;
    EXPECT_EQ(http::parse(text, http::HeadLimits(), head).parsed, http::Parsed::complete);
    return life_marker(ids, AskedHost(head, HostNames(), PeerTrust::client), resource);
  };
  EXPECT_EQ(marker("h", "/a"), marker("H", "/a"));
  EXPECT_NE(marker("h", "/a"), marker("h", "/b"));
  EXPECT_NE(marker("h", "/a"), marker("other", "/a")) << "one tenant must not end the keys of another";
  const std::array<std::string_view, 2> resource = {"resource", "/a"};
  EXPECT_NE(marker("h", "/a"), ids.make(resource, ""));
}

TEST(LifePolicyTest, a_method_ends_lives_or_has_keys_that_die) {
  Policy policy;
  EXPECT_FALSE(ends_life(policy, Method::delete_) || is_of_life(policy, Method::post));
  policy.life.remembered = 1h;
  EXPECT_TRUE(ends_life(policy, Method::delete_) && is_of_life(policy, Method::post));
  EXPECT_FALSE(ends_life(policy, Method::post) || is_of_life(policy, Method::delete_));
  policy.mode = Mode::shadow;
  EXPECT_FALSE(ends_life(policy, Method::delete_));
}

TEST_P(Life, a_key_executes_once_in_each_life) {
  for (std::size_t lives = 1; lives < 4; ++lives) {
    EXPECT_EQ(ask().idempotency_status(), "executed");
    EXPECT_EQ(ask().idempotency_status(), "replayed");
    EXPECT_EQ(world.backend.executions(), lives);
    EXPECT_FALSE(answered(204));
  }
}

TEST_P(Life, only_success_ends_it) {
  ask();
  for (const int status : {300, 304, 404, 410, 500, 503}) {
    EXPECT_FALSE(answered(status));
    EXPECT_EQ(ask().idempotency_status(), "replayed") << status;
  }
}

TEST_P(Life, before_the_first_end_a_claim_costs_one_lookup) {
  ask();
  EXPECT_THAT(world.trace, ElementsAre("lookup: done", "claim: execute", "send: attempt 1", "finish succeeded: done",
                                       "reply: 201 executed"));
}

TEST_P(Life, the_keys_of_the_present_life_outlive_the_memory_of_the_last_end) {
  answered(204);
  world.executor.advance(47h);
  ask();
  world.executor.advance(2h);
  EXPECT_FALSE(world.store.record(marker).has_value());
  EXPECT_EQ(ask().idempotency_status(), "replayed");
}

TEST_P(Life, a_backend_cannot_keep_a_key_for_longer_than_the_end_of_its_life_is_remembered) {
  world.backend.then(answer_with(201, "old life", "Idempotency-Policy: ttl=31536000\r\n"));
  EXPECT_EQ(ask().body(), "old life");
  answered(204);
  world.executor.advance(world.policy.life.remembered + 1s);
  ASSERT_FALSE(world.store.record(marker).has_value());
  EXPECT_EQ(ask().idempotency_status(), "executed");
  EXPECT_EQ(world.backend.executions(), 2U);
}

// The marker may be as old as the claim, and the outcome counts from its end.
TEST_P(Life, a_slow_request_does_not_outlive_the_end_of_its_life_either) {
  world.policy.ttl = 47h;
  const Call& slow = world.send_when(after(2h, answer_with(201, "old life")), {.life = marker});
  world.executor.advance(1s);
  answered(204);
  EXPECT_TRUE(world.executor.run_until([&] { return slow.ended(); }, 3h));
  world.executor.advance(world.policy.life.remembered - 2h + 1min);
  ASSERT_FALSE(world.store.record(marker).has_value());
  EXPECT_EQ(ask().idempotency_status(), "executed");
}

TEST_P(Life, a_longer_ttl_of_the_backend_counts_while_the_end_is_remembered_for_longer) {
  world.backend.then(answer_with(201, "kept", "Idempotency-Policy: ttl=144000\r\n"));
  ask();
  world.executor.advance(39h);
  EXPECT_EQ(ask().idempotency_status(), "replayed");
}

TEST_P(Life, a_key_that_is_held_is_free_in_the_next_life) {
  world.policy.on_unknown = OnUnknown::hold;
  world.backend.then(fails_with(Delivery::lost));
  ask();
  EXPECT_EQ(ask().code(), "outcome-unknown");
  answered(204);
  EXPECT_EQ(ask().idempotency_status(), "executed");
}

TEST_P(Life, a_store_that_does_not_say_whether_a_life_ended_gets_nothing_sent) {
  ask();
  answered(204);
  for (const Verb failing : {Verb::lookup, Verb::forget}) {
    world.store.fail_next(failing, Fault::before, 2);
    EXPECT_EQ(ask().code(), "store-unavailable");
    EXPECT_EQ(world.backend.executions(), 1U);
  }
  world.store.heal();
  EXPECT_EQ(ask().idempotency_status(), "executed");
}

TEST_P(Life, a_store_that_does_not_say_so_is_bypassed_where_the_route_prefers_that) {
  world.policy.store_down = StoreDown::bypass;
  world.store.fail_next(Verb::lookup, Fault::before, 2);
  EXPECT_EQ(ask().idempotency_status(), "bypassed");
}

TEST_P(Life, an_end_is_tried_until_the_store_answers_and_is_one_end) {
  ask();
  world.store.fail_next(Verb::claim, Fault::after, 3);
  EXPECT_FALSE(answered(204));
  EXPECT_EQ(world.store.record(marker)->attempt, Attempt{1});
  EXPECT_EQ(ask().idempotency_status(), "executed");
  EXPECT_EQ(ask().idempotency_status(), "replayed");
}

TEST_P(Life, an_end_need_not_be_finished_to_be_one) {
  ask();
  world.store.fail_next(Verb::finish, Fault::before);
  EXPECT_FALSE(answered(204));
  EXPECT_EQ(ask().idempotency_status(), "executed");
  EXPECT_FALSE(answered(204));
  EXPECT_EQ(ask().idempotency_status(), "executed");
}

// A store whose row is locked by another end says so, and so does a journal that was opened with an end not finished.
TEST_P(Life, an_end_waits_for_one_that_holds_the_marker) {
  ask();
  Op held{.verb = Verb::claim, .id = marker, .nonce = Nonce{{7}}};
  held.terms = {.lease = 1s, .owner = Owner::outside};
  Op* const batch = &held;
  world.store.execute({&batch, 1});
  ASSERT_EQ(held.verdict, Verdict::execute);
  EXPECT_FALSE(answered(204));
  EXPECT_EQ(ask().idempotency_status(), "executed");
}

TEST_P(Life, nobody_is_told_of_an_end_that_is_not_recorded) {
  ask();
  world.store.go_down();
  const auto told = answered(204);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->kind, ProblemKind::outcome_unknown);
  EXPECT_EQ(told->status, 503);
  const auto refused = begin();
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->kind, ProblemKind::store_unavailable);
  world.policy.store_down = StoreDown::bypass;
  EXPECT_FALSE(answered(204) || begin());
}

}  // namespace once::gateway::life_test
