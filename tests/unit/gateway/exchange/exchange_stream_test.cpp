// Responses that are recorded as they stream: what is told when, and what stays of it when something fails.
#include "tests/unit/gateway/exchange/exchange_world.hpp"

namespace once::gateway::exchange_stream_test {

using namespace std::chrono_literals;
using testing::ElementsAre;
using Kind = http::BodyChunk::Kind;

using ExchangeStream = EveryStore;
INSTANTIATE_TEST_SUITE_P(Stores, ExchangeStream, every_setting(), name_of_setting);

// A stream of three parts, one a second.
BackendScript three_parts() {
  return streams({"one ", "two ", "three"}, 1s);
}
constexpr std::string_view all_three = "one two three";

TEST_P(ExchangeStream, every_part_is_recorded_before_it_is_told) {
  EXPECT_EQ(world.stream_when(three_parts()).stream(), "one two three (end)");
  EXPECT_THAT(world.trace, testing::ElementsAre("claim: execute", "send: attempt 1", "append: done", "append: done",
                                                "told: one ", "append: done", "told: two ", "append: done",
                                                "told: three", "finish succeeded: done", "reply: 200 executed"));
  EXPECT_EQ(world.ask().answer(), "200 replayed one two three");
  EXPECT_EQ(world.backend.executions(), 1U);
}

// With a length the last byte is the end, and nobody may take a response for whole that is not recorded.
BackendScript three_parts_with_length() {
  BackendScript script = three_parts();
  script.head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 13\r\n\r\n";
  return script;
}

TEST_P(ExchangeStream, the_end_of_a_length_is_told_when_all_is_recorded) {
  EXPECT_EQ(world.stream_when(three_parts_with_length()).stream(), "one two three (end)");
  const auto recorded = std::ranges::find(world.trace, "finish succeeded: done");
  EXPECT_EQ(std::ranges::find(world.trace, "told: three"), world.trace.end());
  EXPECT_LT(std::ranges::find(world.trace, "told: thre"), recorded);
  EXPECT_NE(std::ranges::find(recorded, world.trace.end(), "told: e"), world.trace.end());
}

TEST_P(ExchangeStream, the_end_of_a_length_that_could_not_be_recorded_is_never_told) {
  if (GetParam().shared == Shared::no) return;  // without a lease it is tried until it is done
  world.store.fail_every(Verb::finish);
  EXPECT_EQ(world.stream_when(three_parts_with_length()).stream(), "one two thre (broken)");
}

TEST_P(ExchangeStream, what_comes_while_an_append_is_under_way_gathers) {
  if (GetParam().execution == Execution::at_once) return;
  world.backend.then(streams({"a", "b", "c", "d"}));  // all at once
  EXPECT_EQ(world.stream().told(), "abcd");
  EXPECT_EQ(std::ranges::count(world.trace, "append: done"), 3) << "the head, the first part, and the rest together";
}

TEST_P(ExchangeStream, without_a_client_that_takes_streams_nothing_is_attached) {
  world.send_when(three_parts(), streaming);
  world.executor.advance(1500ms);
  EXPECT_EQ(world.ask().code(), "in-flight");
}

// The owner gives the key back, and another request takes it before the one that waits looks again.
TEST_P(ExchangeStream, a_request_that_waits_gets_no_stream_of_another_request) {
  world.policy.in_flight = InFlight::wait;
  world.backend.then(after(1s, answer_with(429)));
  world.backend.then(three_parts());
  const Call& owner = world.send(streaming);
  world.executor.advance(500ms);
  const Call& waiter = world.other.send(world.policy, streaming);
  world.run_until_ended(owner);
  EXPECT_EQ(world.stream({.content = 2, .streams = true}).told(), all_three);
  EXPECT_EQ(waiter.told(), "");
  EXPECT_EQ(waiter.status(), 422);
}

// Whoever is told so by nobody looks again after a second.
TEST_P(ExchangeStream, who_waits_for_a_stream_is_woken_by_its_head_its_chunks_and_its_end) {
  world.policy.in_flight = InFlight::wait;
  BackendScript script = streams({"one ", "two"}, 10s);
  script.takes = 10s;
  const Call& owner = world.send_when(script, streaming);
  world.executor.advance(500ms);
  const Call& waiter = world.send(streaming);
  const auto comes_to = [&](auto&& of_owner, auto&& of_waiter) {
    EXPECT_TRUE(world.executor.run_until(of_owner));
    const Time told = world.clock.now();
    EXPECT_TRUE(world.executor.run_until(of_waiter));
    EXPECT_LE(world.clock.now() - told, 10ms);
  };
  comes_to([&] { return owner.reply().status != 0; }, [&] { return waiter.reply().status != 0; });
  comes_to([&] { return owner.told() == "one "; }, [&] { return waiter.told() == "one "; });
  comes_to([&] { return owner.told() == "one two"; }, [&] { return waiter.told() == "one two"; });
  comes_to([&] { return world.state() == State::succeeded; },
           [&] { return owner.stream_end().has_value() && waiter.stream_end().has_value(); });
  EXPECT_EQ(waiter.idempotency_status(), "attached");
}

TEST_P(ExchangeStream, who_reads_what_is_too_large_to_record_is_woken_by_each_part) {
  world.policy.record.max_stream = 2;
  const Call& owner = world.send_when(streams({"abc", "def", "ghi", "jkl"}, 9700ms), streaming);
  EXPECT_TRUE(world.executor.run_until([&] { return owner.told() == "abcdef"; }));
  for (const std::string_view all : {"abcdefghi", "abcdefghijkl"}) {
    const Time before = world.clock.now();
    EXPECT_TRUE(world.executor.run_until([&] { return owner.told() == all; }));
    EXPECT_LE(world.clock.now() - before, 9720ms);
  }
}

TEST_P(ExchangeStream, a_reader_goes_on_where_it_was) {
  world.send_when(streams({"id: 1\n\n", "id: 2\n\n", "id: 3\n\n"}, 1s), streaming);
  world.executor.advance(2500ms);
  for (TestGateway* gateway : {&world.gateway, &world.other}) {
    const Call& by_id = gateway->send(world.policy, streaming, "Last-Event-ID: 1\r\n");
    const Call& by_offset = gateway->send(world.policy, streaming, "Idempotency-Offset: 9\r\n");
    world.executor.run_to_the_end();
    EXPECT_EQ(by_id.header("Idempotency-Offset"), "7");
    EXPECT_TRUE(by_id.told() + by_id.body() == "id: 2\n\nid: 3\n\n") << by_id.told();
    EXPECT_TRUE(by_offset.told() + by_offset.body() == ": 2\n\nid: 3\n\n") << by_offset.told();
  }
}

TEST_P(ExchangeStream, a_reader_with_a_part_of_another_attempt_begins_anew) {
  world.send_when(streams({"id: 1\n\n", "id: 2\n\n", "id: 3\n\n"}, 1s), streaming);
  world.executor.advance(2500ms);
  constexpr std::string_view all = "id: 1\n\nid: 2\n\nid: 3\n\n";
  for (const bool ended : {false, true}) {
    for (TestGateway* gateway : {&world.gateway, &world.other}) {
      for (const std::string part : {"Last-Event-ID: 1\r\n", "Idempotency-Offset: 7\r\n"}) {
        const Call& same = gateway->send(world.policy, streaming, part + "Idempotency-Attempt: 1\r\n");
        const Call& another = gateway->send(world.policy, streaming, part + "Idempotency-Attempt: 2\r\n");
        if (ended) world.executor.run_to_the_end();
        world.executor.run_until([&] { return same.ended() && another.ended(); });
        EXPECT_EQ(same.header("Idempotency-Offset"), "7");
        EXPECT_EQ(another.header("Idempotency-Offset"), "");
        if (ended) EXPECT_EQ(another.body(), all);
      }
    }
    world.executor.run_to_the_end();
  }
}

TEST_P(ExchangeStream, a_client_that_leaves_changes_nothing) {
  Call& call = world.send_when(three_parts(), streaming);
  world.executor.advance(1500ms);
  call.leave();
  world.executor.run_to_the_end();
  EXPECT_EQ(call.stream_end(), Kind::broken);
  EXPECT_EQ(world.ask().body(), all_three);
}

TEST_P(ExchangeStream, a_stream_that_nobody_reads_is_ended_where_the_route_says_so) {
  world.policy.record.abandon_after = 3s;
  Call& call = world.send_when(streams({"a", "b", "c", "d", "e", "f", "g"}, 1s), streaming);
  world.executor.advance(1500ms);
  call.leave();
  const Call& other = world.send(streaming);
  world.executor.advance(2s);
  EXPECT_EQ(other.told(), "abc");
  world.executor.run_to_the_end();
  EXPECT_EQ(other.told(), "abcdefg") << "somebody reads it";
  EXPECT_EQ(world.state(), State::succeeded);

  Call& last = world.send_when(streams({"a", "b", "c", "d", "e", "f", "g"}, 1s), {.key = 2, .streams = true});
  world.executor.advance(1500ms);
  last.leave();
  world.executor.run_to_the_end();
  EXPECT_EQ(world.state(2), State::unknown);
  world.policy.on_unknown = OnUnknown::hold;
  const Call& prefix = world.stream({.key = 2, .streams = true});
  EXPECT_EQ(prefix.told(), "abcde") << "three seconds after the second part, which found nobody";
  EXPECT_EQ(prefix.stream_end(), Kind::broken);
}

TEST_P(ExchangeStream, a_reader_that_comes_back_keeps_the_stream_going) {
  world.policy.record.abandon_after = 3s;
  Call& first = world.send_when(streams({"a", "b", "c", "d", "e", "f", "g", "h", "i"}, 1s), streaming);
  world.executor.advance(1500ms);
  first.leave();
  world.executor.advance(2s);  // "b" and "c" have found nobody
  Call& back = world.send(streaming);
  world.executor.advance(2s);
  EXPECT_EQ(back.told(), "abcde");
  back.leave();
  world.executor.advance(2s);  // it counts from then on, not from when the first one left
  EXPECT_EQ(world.stream().stream(), "abcdefghi (end)");
  EXPECT_EQ(world.state(), State::succeeded);
}

TEST_P(ExchangeStream, a_stream_that_breaks_off_is_unknown_and_keeps_its_prefix) {
  for (const Kind ending : {Kind::broken, Kind::timed_out}) {
    const int key = ending == Kind::broken ? 1 : 2;
    world.backend.then(ending_with(ending, three_parts()));
    EXPECT_EQ(world.stream({.key = key, .streams = true}).stream(), "one two three (broken)") << "never a clean end";
    EXPECT_EQ(world.state(key), State::unknown);
    world.policy.on_unknown = OnUnknown::hold;
    for (TestGateway* gateway : {&world.gateway, &world.other}) {
      const Call& again = gateway->send(world.policy, {.key = key, .streams = true});
      world.executor.run_to_the_end();
      EXPECT_EQ(again.idempotency_status(), "unknown");
      EXPECT_EQ(again.stream(), "one two three (broken)");
    }
  }
  EXPECT_EQ(world.backend.executions(), 2U);
}

TEST_P(ExchangeStream, a_prefix_that_the_store_cannot_give_just_now_is_worth_a_retry) {
  world.stream_when(ending_with(Kind::broken, three_parts()));
  world.policy.on_unknown = OnUnknown::hold;
  world.store.fail_every(Verb::read);
  EXPECT_EQ(world.ask(streaming).code(), "store-unavailable");
  world.store.heal();
  EXPECT_EQ(world.stream().told(), all_three);
}

TEST_P(ExchangeStream, readers_of_a_new_attempt_see_only_that) {
  world.stream_when(ending_with(Kind::broken, three_parts()));
  world.policy.on_unknown = OnUnknown::retry;
  const Call& owner = world.send_when(streams({"new ", "attempt"}, 1s), streaming);
  world.executor.advance(1500ms);
  const Call& there = world.other.send(world.policy, streaming);
  world.executor.run_to_the_end();
  EXPECT_EQ(owner.told(), "new attempt");
  EXPECT_EQ(there.stream(), "new attempt (end)");
}

TEST_P(ExchangeStream, a_stream_that_is_too_large_goes_on_and_is_not_kept) {
  world.policy.record.max_stream = 6;
  EXPECT_EQ(world.stream_when(three_parts()).stream(), "one two three (end)");
  EXPECT_EQ(world.record()->body_kept, BodyKept::no);
  EXPECT_EQ(world.ask().code(), "response-not-kept");
  world.backend.then(ending_with(Kind::broken, three_parts()));
  EXPECT_EQ(world.stream({.key = 2, .streams = true}).stream_end(), Kind::broken);
  EXPECT_EQ(world.state(2), State::unknown) << "it broke off";
}

TEST_P(ExchangeStream, a_full_store_stops_the_recording_and_not_the_stream) {
  world.store.fail_when(
      [](const Op& op, std::size_t) { return op.verb == Verb::append && op.chunk == 2 ? Fault::full : Fault::none; });
  EXPECT_EQ(world.stream_when(three_parts()).stream(), "one two three (end)");
  EXPECT_EQ(world.record()->body_kept, BodyKept::no);
}

// The claim and the first chunks find room; the two streams together do not.
TEST_P(ExchangeStream, streams_over_the_quota_go_on_unrecorded) {
  Ask ask = streaming;
  ask.quota = 2000;
  BackendScript large = streams({std::string(1500, 'a'), "b", "c"}, 1s);
  world.backend.then(large);
  world.backend.then(large);
  const Call& first = world.send(ask);
  ask.key = 2;
  const Call& second = world.stream(ask);
  for (const Call* call : {&first, &second}) {
    EXPECT_EQ(call->told(), std::string(1500, 'a') + "bc");
    EXPECT_EQ(call->stream_end(), Kind::end);
  }
  EXPECT_EQ(world.record(1)->body_kept, BodyKept::no);
  EXPECT_EQ(world.record(2)->body_kept, BodyKept::no);
  EXPECT_LT(world.gateway.counted_for_caller(), 2000U) << "chunks that are not kept are given back";
}

// A gateway that cannot renew its leases.
class ExchangeStreamLease : public testing::Test {
 protected:
  ExchangeStreamLease() {
    world.policy.on_unknown = OnUnknown::retry;
    world.policy.lease = 2s;
    world.store.fail_every(Verb::renew);
  }
  // Of a stream that nobody owns any more: its record, while it is not ended.
  std::optional<Record> lapsed() {
    auto record = world.record();
    const bool open = record && record->state == State::started && world.clock.now() >= record->lease_until;
    return open ? record : std::nullopt;
  }

  World world;
};

TEST_F(ExchangeStreamLease, an_owner_that_lost_its_claim_appends_nothing_and_cuts_its_readers) {
  world.backend.then(streams({"old ", "old ", "old ", "old "}, 1500ms));
  world.backend.then(streams({"new ", "new"}, 100ms));
  const Call& first = world.send(streaming);
  world.executor.advance(2500ms);
  const Call& second = world.other.send(world.policy, streaming);
  world.executor.run_to_the_end();
  EXPECT_EQ(second.stream(), "new new (end)");
  EXPECT_TRUE(std::string_view("old old old old ").starts_with(first.told())) << first.told();
  EXPECT_EQ(first.stream_end(), Kind::broken);
  EXPECT_EQ(decode(*world.record()->outcome)->body, "new new");
}

TEST_P(ExchangeStream, a_store_that_came_back_empty_gets_all_of_it_again) {
  world.policy.on_unknown = OnUnknown::retry;
  const Call& owner = world.send_when(three_parts(), streaming);
  world.executor.advance(1500ms);
  world.lose_record();
  world.executor.advance(1s);
  const Call& there = world.other.send(world.policy, streaming);
  world.executor.run_to_the_end();
  for (const Call* reader : {&owner, &there}) EXPECT_EQ(reader->stream(), "one two three (end)");
  EXPECT_EQ(world.ask().body(), all_three);
  EXPECT_EQ(world.backend.executions(), 1U);
}

// What was told is not held any more, so the store cannot have it again.
TEST_P(ExchangeStream, a_long_stream_that_the_store_lost_is_unknown_and_not_forgotten_before_it_is_cut_off) {
  world.policy.on_unknown = OnUnknown::hold;
  bool at_work_at_its_end = false;
  BackendScript script = streams({std::string(40'000, 'a'), std::string(40'000, 'b'), "c", "d"}, 1s);
  script.when_gone = [&] { at_work_at_its_end = world.gateway.ports().executions.has(operation(1)); };
  const Call& owner = world.send_when(script, streaming);
  world.executor.advance(2500ms);
  world.lose_record();
  world.executor.run_to_the_end();
  EXPECT_EQ(owner.told().size(), 80'000U);
  EXPECT_EQ(owner.stream_end(), Kind::broken);
  EXPECT_TRUE(at_work_at_its_end);
  EXPECT_EQ(world.state(), State::unknown);
  for (TestGateway* gateway : {&world.gateway, &world.other}) {
    const Call& retry = gateway->send(world.policy, streaming);
    world.executor.run_to_the_end();
    EXPECT_EQ(retry.code(), "outcome-unknown");
  }
  EXPECT_EQ(world.backend.executions(), 1U);
}

TEST_P(ExchangeStream, a_stream_that_is_too_large_is_claimed_anew_in_an_empty_store) {
  world.policy.record.max_stream = 6;
  const Call& owner = world.send_when(streams({"one ", "two ", "three"}, 20s), streaming);
  world.executor.advance(45s);
  world.lose_record();
  world.executor.run_to_the_end();
  EXPECT_EQ(owner.stream(), "one two three (end)");
  EXPECT_EQ(world.ask().code(), "response-not-kept");
  EXPECT_EQ(world.backend.executions(), 1U);
}

// The lease lapses while the owner is at work, and the owner comes back.
TEST_F(ExchangeStreamLease, who_was_told_unknown_gets_no_clean_end) {
  world.policy.on_unknown = OnUnknown::hold;
  bool told = false;
  world.store.fail_when([&](const Op& op, std::size_t) {
    const bool lapsed = world.record() && world.clock.now() >= world.record()->lease_until;
    const bool fails = told ? op.verb == Verb::read && lapsed : op.verb == Verb::renew;
    return fails ? Fault::before : Fault::none;
  });
  const Call& owner = world.send_when(streams({"one ", "two ", "three"}, 1500ms), streaming);
  world.executor.advance(2500ms);
  const Call& there = world.ask_other(streaming);
  ASSERT_EQ(there.idempotency_status(), "unknown");
  told = true;
  world.executor.run_to_the_end();
  EXPECT_EQ(there.told(), all_three);
  EXPECT_EQ(owner.stream_end(), Kind::end);
  EXPECT_EQ(there.stream_end(), Kind::broken);
  const Call& retry = world.other.send(world.policy, streaming);
  world.executor.run_to_the_end();
  EXPECT_EQ(retry.idempotency_status(), "replayed");
}

// The owner records the end between the claim of the retry and its look at the chunks.
TEST_F(ExchangeStreamLease, an_answer_that_is_recorded_by_now_is_replayed) {
  world.policy.on_unknown = OnUnknown::hold;
  world.store.fail_when([this](const Op& op, std::size_t) {
    if (op.verb == Verb::renew) return Fault::before;
    const auto record = op.verb == Verb::read ? lapsed() : std::nullopt;
    if (!record) return Fault::none;
    Op finish{.verb = Verb::finish, .id = op.id, .nonce = record->nonce, .terms = {.ttl = 1h}};
    finish.body_kept = BodyKept::in_chunks;
    finish.outcome = std::make_shared<const std::string>(encode({.status = 200,
                                                                 .reason = "OK",
                                                                 .headers = "Content-Type: text/event-stream\r\n",
                                                                 .in_chunks = BodyInChunks{.length = 4}}));
    world.store.run_inside(finish);
    return Fault::none;
  });
  world.send_when(streams({"one "}, 1500ms), streaming);
  world.executor.advance(2500ms);
  const Call& there = world.other.send(world.policy, streaming);
  world.executor.run_to_the_end();
  EXPECT_EQ(there.idempotency_status(), "replayed");
  EXPECT_EQ(there.stream(), "one  (end)");
}

// Another response is recorded for a stream whose lease has lapsed, just before the store is asked to do `verb`.
class ExchangeStreamResolved : public ExchangeStreamLease {
 protected:
  ExchangeStreamResolved() { world.policy.on_unknown = OnUnknown::takeover; }
  void resolve_before(Verb verb) {
    world.store.fail_when([this, verb](const Op& op, std::size_t) {
      if (op.verb == Verb::renew) return Fault::before;
      const auto record = op.verb == verb ? lapsed() : std::nullopt;
      if (!record) return Fault::none;
      Op resolve{.verb = Verb::resolve, .id = op.id, .nonce = record->nonce, .final_state = State::succeeded};
      resolve.seen_state = State::started;
      resolve.outcome = std::make_shared<const std::string>(
          encode({.status = 201, .reason = "Created", .headers = "", .body = "another one than it was"}));
      resolve.terms.ttl = 1h;
      world.store.run_inside(resolve);
      return Fault::none;
    });
  }
  void TearDown() override { EXPECT_EQ(decode(*world.record()->outcome)->body, "another one than it was"); }
};

TEST_F(ExchangeStreamResolved, where_another_outcome_stands_the_stream_does_not_end_cleanly) {
  resolve_before(Verb::finish);
  EXPECT_EQ(world.stream_when(three_parts()).stream(), "one two three (broken)");
}

TEST_F(ExchangeStreamResolved, a_reader_elsewhere_gets_nothing_of_another_outcome) {
  resolve_before(Verb::read);
  world.send_when(streams({"one ", "two"}, 1500ms), streaming);
  world.executor.advance(1600ms);
  const Call& there = world.other.send(world.policy, streaming);
  world.executor.run_to_the_end();
  EXPECT_EQ(there.stream(), "one  (broken)");
}

TEST_F(ExchangeStreamLease, a_claim_that_is_handed_over_gets_all_of_the_stream) {
  const Call& owner = world.send_when(streams({"a ", "b ", "c ", "d"}, 1500ms), streaming);
  world.executor.advance(2500ms);
  const Call& retry = world.send(streaming);  // gets the lapsed claim, and this process has it at work
  world.executor.advance(100ms);
  world.store.heal();
  world.executor.advance(2s);
  const Call& there = world.other.send(world.policy, streaming);
  world.executor.run_to_the_end();
  EXPECT_EQ(there.code(), "");
  for (const Call* reader : {&owner, &retry, &there}) EXPECT_EQ(reader->stream(), "a b c d (end)");
  EXPECT_EQ(world.backend.executions(), 1U);
}

}  // namespace once::gateway::exchange_stream_test
