// Responses that are too large to be held back: while the rest comes the backend is at work, so the operation is not
// executed again, and how it ends decides what is recorded.
#include "tests/unit/gateway/exchange/exchange_world.hpp"

namespace once::gateway::exchange_oversize_test {

using namespace std::chrono_literals;
using Kind = http::BodyChunk::Kind;

using ExchangeOversize = EveryStore;
INSTANTIATE_TEST_SUITE_P(Stores, ExchangeOversize, every_setting(), name_of_setting);

// Three parts, of which the first is here and the others take a second each.
BackendScript large(int status, Kind ends_with = Kind::end) {
  BackendScript script = answer_with(status, std::string(12, 'x'));
  script.delivery = Delivery::oversize;
  script.body = "one ";
  script.rest = {"two ", "last"};
  script.each = 1s;
  script.ends_with = ends_with;
  return script;
}
constexpr std::string_view whole = "one two last";

TEST_P(ExchangeOversize, no_second_execution_begins_while_it_comes_whatever_its_status) {
  world.policy.on_unknown = OnUnknown::retry;
  world.policy.record.gateway_errors = GatewayErrors::unknown;
  for (const int status : {200, 429, 500, 502}) {
    const int key = status % 256;
    const Call& first = world.send_when(large(status), {.key = key, .streams = true});
    world.executor.advance(1500ms);
    const Call& retry = world.send({.key = key, .streams = true});
    world.run_until_ended(retry);
    EXPECT_EQ(retry.code(), "in-flight") << status;
    world.executor.run_to_the_end();
    EXPECT_EQ(first.stream(), "one two last (end)") << status;
  }
  EXPECT_EQ(world.backend.executions(), 4U);
}

TEST_P(ExchangeOversize, when_it_has_come_whole_its_status_says_what_is_recorded) {
  struct Case {
    int status;
    GatewayErrors gateway_errors;
    std::optional<State> state;
    std::string_view told;
  };
  for (const Case& c : {Case{200, GatewayErrors::failed, State::succeeded, "executed"},
                        Case{500, GatewayErrors::failed, State::failed, "executed"},
                        Case{429, GatewayErrors::failed, std::nullopt, "executed"},
                        Case{502, GatewayErrors::unknown, State::unknown, "unknown"}}) {
    const int key = c.status % 256;
    world.policy.record.gateway_errors = c.gateway_errors;
    const Call& call = world.stream_when(large(c.status), {.key = key, .streams = true});
    EXPECT_EQ(call.told(), whole);
    EXPECT_EQ(call.idempotency_status(), c.told) << c.status;
    EXPECT_EQ(world.state(key), c.state) << c.status;
  }
}

TEST_P(ExchangeOversize, one_that_breaks_off_is_unknown_whatever_its_status) {
  world.policy.on_unknown = OnUnknown::hold;
  for (const int status : {200, 429, 500}) {
    const int key = status % 256;
    world.backend.then(large(status, Kind::broken));
    EXPECT_EQ(world.stream({.key = key, .streams = true}).stream_end(), Kind::broken) << status;
    EXPECT_EQ(world.state(key), State::unknown) << status;
    EXPECT_EQ(world.ask({.key = key}).code(), "outcome-unknown") << status;
  }
  EXPECT_EQ(world.backend.executions(), 3U);
}

TEST_P(ExchangeOversize, a_failure_that_cannot_be_recorded_does_not_end_cleanly) {
  if (GetParam().shared == Shared::no) return;  // without a lease it is tried until it is done
  world.store.fail_every(Verb::finish);
  EXPECT_EQ(world.stream_when(large(500)).stream_end(), Kind::broken);
}

// A write to a resource is told before its end only if its response is too large.
TEST_P(ExchangeOversize, a_write_to_a_resource_is_recorded_at_its_end) {
  const Ask write{.streams = true, .writes_resource = true};
  world.policy.on_unknown = OnUnknown::hold;
  const Call& broken = world.send_when(large(200, Kind::broken), write);
  world.executor.advance(1500ms);
  EXPECT_EQ(world.state(), State::started);
  world.executor.run_to_the_end();
  EXPECT_EQ(world.state(), State::unknown);
  EXPECT_FALSE(broken.reply().came_whole);
  world.backend.then(large(200));
  Ask other = write;
  other.key = 2;
  const Call& call = world.stream(other);
  EXPECT_EQ(world.state(2), State::succeeded);
  EXPECT_TRUE(call.reply().came_whole);
  EXPECT_EQ(world.ask(other).code(), "response-not-kept");
}

class BypassedOversize : public EveryStore {
 protected:
  BypassedOversize() {
    world.policy.store_down = StoreDown::bypass;
    world.policy.on_unknown = OnUnknown::hold;
  }
};
INSTANTIATE_TEST_SUITE_P(Stores, BypassedOversize, every_setting(), name_of_setting);

TEST_P(BypassedOversize, no_second_execution_begins_beside_it) {
  world.store.go_down();
  const Call& first = world.send_when(large(200), streaming);
  ASSERT_TRUE(world.executor.run_until([&] { return !first.told().empty(); }));
  EXPECT_EQ(first.idempotency_status(), "bypassed");
  EXPECT_EQ(first.header("Idempotency-Attempt"), "");
  EXPECT_EQ(first.told(), "one ");
  const Call& down = world.send(streaming);
  world.run_until_ended(down);
  EXPECT_EQ(world.backend.executions(), 1U);
  world.store.heal();
  world.executor.run_to_the_end();
  EXPECT_EQ(first.stream(), "one two last (end)");
  EXPECT_EQ(world.ask().idempotency_status(), "executed") << "nothing was recorded";
}

// The claim was made all the same, so what became of the request is recorded under it, at its end.
TEST_P(BypassedOversize, how_it_ended_is_recorded_if_its_claim_was_made) {
  world.by_others = true;
  for (const Kind end : {Kind::end, Kind::broken}) {
    const int key = end == Kind::end ? 1 : 2;
    world.store.fail_next(Verb::claim, Fault::after, 2);
    const Call& call = world.send_when(large(200, end), {.key = key, .streams = true});
    ASSERT_TRUE(world.executor.run_until([&] { return !call.told().empty(); }));
    EXPECT_EQ(call.idempotency_status(), "bypassed");
    EXPECT_EQ(world.state(key), State::started) << "while it comes";
    world.executor.run_to_the_end();
    EXPECT_EQ(call.stream_end(), end);
    EXPECT_EQ(world.ask({.key = key}).code(), end == Kind::end ? "response-not-kept" : "outcome-unknown");
  }
  EXPECT_EQ(world.backend.executions(), 2U);
}

// The store is back, and the claim of a retry was handed to the request at work.
TEST_P(BypassedOversize, one_that_breaks_off_under_a_claim_of_a_retry_is_unknown) {
  world.store.go_down();
  const Call& first = world.send_when(large(200, Kind::broken), streaming);
  ASSERT_TRUE(world.executor.run_until([&] { return !first.told().empty(); }));
  world.store.heal();
  EXPECT_EQ(world.ask().code(), "in-flight");
  world.executor.run_to_the_end();
  EXPECT_EQ(first.stream_end(), Kind::broken);
  EXPECT_EQ(world.state(), State::unknown);
  EXPECT_EQ(world.backend.executions(), 1U);
}

}  // namespace once::gateway::exchange_oversize_test
