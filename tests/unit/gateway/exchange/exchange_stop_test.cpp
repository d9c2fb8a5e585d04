// A caller stops a stream: what is recorded then, what its readers see, and what there is nothing to stop of.
#include "core/headers.hpp"
#include "tests/unit/gateway/exchange/exchange_world.hpp"

namespace once::gateway::exchange_stop_test {

using namespace std::chrono_literals;
using Kind = http::BodyChunk::Kind;

using ExchangeStop = EveryStore;
INSTANTIATE_TEST_SUITE_P(Stores, ExchangeStop, every_setting(), name_of_setting);

BackendScript five_parts() {
  return streams({"a", "b", "c", "d", "e"}, 1s);
}

TEST_P(ExchangeStop, what_was_recorded_stands_and_nothing_follows) {
  const Call& owner = world.send_when(five_parts(), streaming);
  world.executor.advance(1500ms);
  const Call& there = world.other.send(world.policy, streaming);
  world.executor.advance(1s);
  Call& stop = world.ask(stopping);
  EXPECT_EQ(stop.status(), 204);
  EXPECT_EQ(stop.header(stopped_field), "true");
  world.executor.run_to_the_end();
  EXPECT_EQ(owner.stream(), "ab (broken)") << "its head did not say that it would be stopped";
  EXPECT_EQ(there.stream(), "ab (broken)");
  const auto record = world.record();
  ASSERT_TRUE(record && record->outcome);
  EXPECT_EQ(record->state, State::succeeded);
  EXPECT_EQ(record->body_kept, BodyKept::in_chunks);
  EXPECT_TRUE(decode(*record->outcome)->headers.contains("Idempotency-Stopped: true\r\n"));
  EXPECT_EQ(world.backend.executions(), 1U);
}

// Nobody would be told otherwise before the next part comes, or a second has passed.
TEST_P(ExchangeStop, everybody_in_this_process_is_told_at_once) {
  world.policy.in_flight = InFlight::wait;
  const Call& owner = world.send_when(streams({"a", "b", "c"}, 9700ms), streaming);
  world.executor.run_until([&] { return owner.told() == "a"; });
  const Call& reader = world.send(streaming);
  const Call& waiter = world.send();  // takes no streams
  world.executor.advance(4300ms);
  EXPECT_FALSE(waiter.ended());
  const Call& stop = world.send(stopping);
  world.run_until_ended(stop);
  const Time stopped = world.clock.now();
  EXPECT_TRUE(world.executor.run_until([&] { return owner.stream_end() && reader.stream_end() && waiter.ended(); }));
  EXPECT_LE(world.clock.now() - stopped, 20ms);
  EXPECT_EQ(reader.stream_end(), Kind::broken);
  EXPECT_EQ(waiter.header(stopped_field), "true");
}

// What remains of it takes room like an answer, so stopping is no way to fill the store for nothing.
TEST_P(ExchangeStop, what_remains_is_charged_to_its_caller) {
  for (int key = 1; key <= 4; ++key) {
    world.send_when(streams(std::vector<std::string>(5, std::string(1000, 'x')), 1s), {.key = key, .streams = true});
    world.executor.advance(3500ms);
    TestGateway& gateway = key % 2 == 0 ? world.gateway : world.other;
    const Call& stop = gateway.send(world.policy, {.key = key, .what = Asks::stop});
    world.executor.run_to_the_end();
    EXPECT_EQ(stop.header(stopped_field), "true");
  }
  EXPECT_GT(world.kept(), 4 * 3000U);
  EXPECT_EQ(world.counted(), world.kept());
}

TEST_P(ExchangeStop, another_gateway_can_do_it_and_it_can_be_repeated) {
  const Call& owner = world.send_when(five_parts(), streaming);
  world.executor.advance(2500ms);
  for (int repeat = 0; repeat < 2; ++repeat) {
    const Call& stop = world.ask_other(stopping);
    EXPECT_EQ(stop.status(), 204);
    EXPECT_EQ(stop.header(stopped_field), "true");
  }
  world.executor.run_to_the_end();
  EXPECT_EQ(owner.stream(), "ab (broken)");
}

// An operator has forgotten the key since, or a store in memory has evicted the answer.
TEST_P(ExchangeStop, a_stream_stays_stopped_though_its_record_is_gone) {
  bool gone = false;
  BackendScript script = five_parts();
  script.when_gone = [&gone] { gone = true; };
  const Call& owner = world.send_when(script, streaming);
  world.executor.advance(2500ms);
  ASSERT_EQ(world.ask(stopping).header(stopped_field), "true");
  Op forget{.verb = Verb::forget, .id = operation(1), .nonce = world.record()->nonce, .seen_state = State::succeeded};
  world.store.run_inside(forget);
  ASSERT_FALSE(world.record());
  world.executor.run_to_the_end();
  EXPECT_TRUE(gone) << "the request to the backend is ended";
  EXPECT_EQ(owner.told(), "ab");
  EXPECT_FALSE(world.record()) << "what was forgotten is not claimed again";
}

TEST_P(ExchangeStop, a_retry_gets_what_was_recorded_to_its_end) {
  world.send_when(five_parts(), streaming);
  world.executor.advance(2500ms);
  world.ask(stopping);
  world.executor.run_to_the_end();
  for (TestGateway* gateway : {&world.gateway, &world.other}) {
    const Call& again = gateway->send(world.policy, streaming);
    world.executor.run_to_the_end();
    EXPECT_EQ(again.stream(), "ab (end)");
    EXPECT_EQ(again.header(stopped_field), "true");
    EXPECT_EQ(again.idempotency_status(), "replayed");
  }
  EXPECT_EQ(world.backend.executions(), 1U);
}

TEST_P(ExchangeStop, a_stream_whose_readers_saw_more_than_is_recorded_is_not_kept) {
  world.policy.record.max_stream = 1;
  const Call& owner = world.send_when(five_parts(), streaming);
  world.executor.advance(3500ms);
  EXPECT_EQ(owner.told(), "abc");
  EXPECT_EQ(world.ask(stopping).header(stopped_field), "true");
  world.executor.run_to_the_end();
  EXPECT_EQ(owner.stream_end(), Kind::broken);
  EXPECT_EQ(world.record()->body_kept, BodyKept::no);
  EXPECT_EQ(world.ask().code(), "response-not-kept");
  EXPECT_EQ(world.ask(stopping).header(stopped_field), "true");
  EXPECT_EQ(world.backend.executions(), 1U);
}

// Another gateway does not know of them: what is recorded says itself that it is a part.
TEST_P(ExchangeStop, elsewhere_a_part_that_was_recorded_is_no_answer) {
  world.policy.record.max_stream = 1;
  const Call& owner = world.send_when(five_parts(), streaming);
  world.executor.advance(3500ms);
  EXPECT_EQ(owner.told(), "abc");
  const Call& stop = world.other.send(world.policy, stopping);
  world.executor.run_to_the_end();
  EXPECT_EQ(stop.header(stopped_field), "true");
  EXPECT_EQ(owner.stream_end(), Kind::broken);
  for (TestGateway* gateway : {&world.gateway, &world.other}) {
    const Call& again = gateway->send(world.policy, streaming);
    world.executor.run_to_the_end();
    EXPECT_EQ(again.code(), "response-not-kept");
  }
  EXPECT_EQ(world.backend.executions(), 1U);
}

// It is found out where a response that was stopped ends, however many chunks it has.
TEST_P(ExchangeStop, of_any_length) {
  for (int parts = 1; parts <= 9; ++parts) {
    for (const bool more : {false, true}) {
      world.policy.record.max_stream = more ? static_cast<std::size_t>(parts) : 1000;
      const int key = 2 * parts + static_cast<int>(more);
      world.send_when(streams(std::vector<std::string>(20, "x"), 1s), {.key = key, .streams = true});
      world.executor.advance(std::chrono::seconds(parts + static_cast<int>(more)) + 500ms);
      const Call& stop = world.ask_other({.key = key, .what = Asks::stop});
      EXPECT_EQ(stop.header(stopped_field), "true");
      const Call& again = world.stream({.key = key, .streams = true});
      EXPECT_EQ(again.code(), more ? "response-not-kept" : "") << parts;
      EXPECT_EQ(again.told(), more ? "" : std::string(static_cast<std::size_t>(parts), 'x'));
    }
  }
}

// Nobody is told a byte after the frozen part, although it need not be recorded.
TEST_P(ExchangeStop, a_stream_that_passes_its_limit_just_then_is_stopped) {
  world.policy.record.max_stream = 1;
  const Call& owner = world.send_when(five_parts(), streaming);
  world.executor.advance(1500ms);
  const Call& stop = world.other.send(world.policy, stopping);
  world.executor.run_to_the_end();
  EXPECT_EQ(stop.header(stopped_field), "true");
  EXPECT_EQ(owner.stream(), "a (broken)");
  EXPECT_EQ(world.stream().stream(), "a (end)");
}

TEST_P(ExchangeStop, a_response_that_has_ended_is_not_changed) {
  world.stream_when(five_parts());
  const Call& stop = world.ask(stopping);
  EXPECT_EQ(stop.status(), 204);
  EXPECT_EQ(stop.header(stopped_field), "false");
  EXPECT_EQ(world.ask().body(), "abcde");
}

TEST_P(ExchangeStop, what_does_not_stream_is_not_stopped) {
  EXPECT_EQ(world.ask(stopping).code(), "key-not-found");

  BackendScript cut = five_parts();
  cut.ends_with = Kind::broken;
  world.stream_when(cut, {.key = 2, .streams = true});
  EXPECT_EQ(world.ask({.key = 2, .what = Asks::stop}).code(), "outcome-unknown");
  EXPECT_EQ(world.state(2), State::unknown);

  const Call& working = world.send_when(after(5s, answer_with(201)), {.key = 3});
  world.executor.advance(1s);
  EXPECT_EQ(world.ask({.key = 3, .what = Asks::stop}).code(), "in-flight");
  world.executor.run_to_the_end();
  EXPECT_EQ(working.status(), 201);
}

TEST_P(ExchangeStop, a_store_that_fails_is_told_and_the_stream_goes_on) {
  world.store.fail_when([](const Op& op, std::size_t) {
    return op.verb == Verb::finish && op.body_kept == BodyKept::in_chunks ? Fault::before : Fault::none;
  });
  const Call& owner = world.send_when(five_parts(), streaming);
  world.executor.advance(2500ms);
  EXPECT_EQ(world.ask(stopping).code(), "store-unavailable");
  world.executor.run_to_the_end();
  EXPECT_EQ(owner.stream(), "abcde (end)");
}

}  // namespace once::gateway::exchange_stop_test
