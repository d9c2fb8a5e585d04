// What is known of an operation, and what its next request is told: every row of the decision table.
#include "tests/unit/gateway/exchange/exchange_world.hpp"

namespace once::gateway::exchange_verdict_test {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

using ExchangeVerdict = EveryStore;
INSTANTIATE_TEST_SUITE_P(Stores, ExchangeVerdict, every_setting(), name_of_setting);

TEST_P(ExchangeVerdict, a_first_request_is_claimed_then_sent_then_recorded_then_answered) {
  const Call& call = world.ask();
  EXPECT_THAT(world.trace,
              ElementsAre("claim: execute", "send: attempt 1", "finish succeeded: done", "reply: 201 executed"));
  EXPECT_EQ(call.answer(), "201 executed done");
  EXPECT_EQ(call.header("X-Request-Id"), "request-1");
  EXPECT_EQ(call.header("Idempotency-Expires"), "Fri, 02 Jan 2026 00:00:00 GMT");
  EXPECT_EQ(call.header("Idempotency-Replayed"), "");
  EXPECT_EQ(call.reply().attempt, Attempt{1});
}

TEST_P(ExchangeVerdict, the_claim_stands_in_the_store_when_the_first_byte_goes_out) {
  world.backend.on_send = [&](const ScriptedBackend::Seen& seen) {
    const auto record = world.record();
    ASSERT_TRUE(record.has_value());
    EXPECT_EQ(record->state, State::started);
    EXPECT_EQ(seen.field("Idempotency-Claim"), to_hex(operation(1)) + "." + to_hex(record->nonce));
    EXPECT_EQ(seen.field("Idempotency-Fence"), std::to_string(static_cast<std::uint64_t>(record->fence)));
    EXPECT_EQ(seen.field("Idempotency-Attempt"), "1");
    EXPECT_EQ(seen.field("X-Request-Id"), "request-1");
    EXPECT_EQ(seen.body, "amount=1");
  };
  world.ask();
  EXPECT_EQ(world.backend.executions(), 1U);
}

TEST_P(ExchangeVerdict, nothing_of_the_reply_is_there_while_the_outcome_is_on_its_way_to_the_store) {
  Call* call = nullptr;
  world.backend.then(after(until_told, BackendScript()));
  world.store.fail_when([&](const Op& op, std::size_t) {
    if (op.verb == Verb::finish) {
      EXPECT_FALSE(call->ended());
      EXPECT_EQ(call->reply().status, 0);
      EXPECT_TRUE(call->reply().fields.empty());
    }
    return Fault::none;
  });
  call = &world.send();
  world.executor.run_until([&] { return world.backend.untold() == 1; });
  world.backend.answer(0, BackendScript());
  EXPECT_TRUE(world.executor.run_until([&] { return call->ended(); }));
  EXPECT_EQ(world.state(), State::succeeded);
}

TEST_P(ExchangeVerdict, a_retry_gets_the_same_answer_marked_as_a_replay) {
  world.after_execution(answer_with(201, "id=7",
                                    "Content-Type: text/plain\r\nETag: \"7\"\r\nSet-Cookie: s=1\r\n"
                                    "Date: Thu, 01 Jan 2026 00:00:00 GMT\r\nX-Request-Id: theirs\r\n"));
  world.executor.advance(1h);
  const Call& first = *world.gateway.calls().front();
  const Call& retry = world.ask();
  EXPECT_THAT(world.trace, ElementsAre("claim: replay", "reply: 201 replayed"));
  EXPECT_EQ(world.backend.executions(), 1U);
  EXPECT_EQ(retry.status(), first.status());
  EXPECT_EQ(retry.body(), first.body());
  EXPECT_EQ(retry.reply().reason, "Reason");
  EXPECT_EQ(retry.header("ETag"), "\"7\"");
  EXPECT_EQ(retry.header("Content-Type"), "text/plain");
  EXPECT_EQ(retry.header("Idempotency-Replayed"), "true");
  EXPECT_EQ(retry.header("Original-Request-Id"), "request-1");
  EXPECT_EQ(retry.header("X-Request-Id"), "request-2");
  EXPECT_EQ(retry.header("Idempotency-Expires"), first.header("Idempotency-Expires"));
  // A session belongs to the first client's reply alone, and the date is that of the reply.
  EXPECT_EQ(first.header("Set-Cookie"), "s=1");
  EXPECT_EQ(retry.header("Set-Cookie"), "");
  EXPECT_EQ(first.header("Date"), "Thu, 01 Jan 2026 00:00:00 GMT");
  EXPECT_THAT(retry.header("Date"), HasSubstr("01 Jan 2026 01:00:0"));
}

TEST_P(ExchangeVerdict, after_its_time_a_key_is_as_if_never_used) {
  world.after_execution(answer_with(201, "first"));
  world.backend.then(answer_with(201, "second"));
  world.executor.advance(world.policy.ttl - 1s);
  EXPECT_EQ(world.ask().body(), "first");
  world.executor.advance(1s);
  const Call& later = world.ask();
  EXPECT_EQ(later.body(), "second");
  EXPECT_EQ(later.reply().attempt, Attempt{1});
}

// The ttl is shorter than the time for which the first request may be at the backend.
TEST_P(ExchangeVerdict, a_key_at_work_or_unknown_does_not_expire_while_its_request_can_be_at_the_backend) {
  world.policy.on_unknown = OnUnknown::hold;
  world.policy.ttl = 2s;
  const Timeouts& timeouts = world.policy.timeouts;
  // It may wait for a connection before it is connected, and be answered long after its last byte was sent.
  const Duration longest = 2 * timeouts.connect + 2 * timeouts.response + timeouts.stream_idle;
  world.send_when(after(until_told, BackendScript()));
  ASSERT_TRUE(world.executor.run_until([&] { return world.backend.untold() == 1; }));
  EXPECT_GE(world.record()->expires_at - world.record()->started_at, longest);
  world.backend.answer(0, fails_with(Delivery::lost));
  world.executor.run_ready();
  world.executor.advance(world.policy.timeouts.response);
  EXPECT_EQ(world.ask().code(), "outcome-unknown");
  world.executor.advance(longest);
  EXPECT_EQ(world.ask().status(), 201) << "unknown, and expired";

  BackendScript cut = streams({"a", "b"});
  cut.head =
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nIdempotency-Policy: ttl=1\r\n"
      "Transfer-Encoding: chunked\r\n\r\n";
  cut.ends_with = http::BodyChunk::Kind::broken;
  world.ask_when(cut, {.key = 2, .streams = true});
  world.executor.advance(longest / 2);
  EXPECT_EQ(world.state(2), State::unknown);
}

TEST_P(ExchangeVerdict, an_outcome_expires_after_its_own_ttl) {
  world.policy.ttl = 2s;
  world.backend.then(answer_with(500));
  for (const int key : {1, 2}) {  // failed, and succeeded
    world.ask({.key = key});
    world.executor.advance(1900ms);
    EXPECT_EQ(world.state(key), key == 1 ? State::failed : State::succeeded);
    world.executor.advance(200ms);
    EXPECT_FALSE(world.record(key));
  }
}

TEST_P(ExchangeVerdict, the_key_with_another_request_is_a_mismatch_worded_as_the_dialect_says) {
  world.after_execution(BackendScript());
  const Call& call = world.ask({.content = 2});
  EXPECT_THAT(world.trace, ElementsAre("claim: mismatch", "reply: 422 mismatch"));
  EXPECT_EQ(call.code(), "key-mismatch");
  EXPECT_EQ(call.idempotency_status(), "mismatch");
  EXPECT_EQ(call.retry_after(), "");
  EXPECT_FALSE(call.retryable());

  world.policy = *dialect("stripe");
  const Call& stripe = world.ask({.content = 2});
  EXPECT_EQ(stripe.status(), 400);
  EXPECT_EQ(stripe.code(), "idempotency_error");
  EXPECT_THAT(stripe.body(), HasSubstr("\"error\":{\"type\":\"idempotency_error\""));
  EXPECT_EQ(world.backend.executions(), 1U);
}

TEST_P(ExchangeVerdict, a_failed_attempt_is_followed_by_another) {
  world.after_execution(answer_with(500, "no"));
  const Call& retry = world.ask();
  EXPECT_THAT(world.trace,
              ElementsAre("claim: execute", "send: attempt 2", "finish succeeded: done", "reply: 201 executed"));
  EXPECT_EQ(retry.reply().attempt, Attempt{2});
  EXPECT_EQ(world.gateway.counts().retries_after_failure.value(), 1U);
  EXPECT_EQ(world.gateway.counts().takeovers.value(), 0U);
  const auto& seen = world.backend.seen();
  EXPECT_GT(std::stoull(seen[1].field("Idempotency-Fence")), std::stoull(seen[0].field("Idempotency-Fence")));
  EXPECT_NE(seen[1].field("Idempotency-Claim"), seen[0].field("Idempotency-Claim"));
}

TEST_P(ExchangeVerdict, while_the_owner_is_at_work_a_retry_is_told_to_come_back) {
  world.send_when(after(20s, BackendScript()));
  world.executor.advance(1s);
  world.trace.clear();
  const Call& retry = world.ask();
  EXPECT_THAT(world.trace, ElementsAre("claim: in flight", "reply: 409 in-flight"));
  EXPECT_EQ(retry.code(), "in-flight");
  EXPECT_EQ(retry.idempotency_status(), "in-flight");
  EXPECT_EQ(retry.retry_after(), "1");
  EXPECT_TRUE(retry.retryable());

  world.policy = *dialect("platform");
  EXPECT_THAT(world.ask().body(), HasSubstr("Request is being processed"));
  world.policy = *dialect("stripe");
  world.policy.in_flight = InFlight::reject;
  EXPECT_EQ(world.ask().code(), "idempotency_key_in_use");
  EXPECT_EQ(world.backend.executions(), 1U);
}

TEST_P(ExchangeVerdict, an_unknown_outcome_may_be_tried_again_at_once_if_the_route_says_so) {
  world.policy.on_unknown = OnUnknown::retry;
  world.after_execution(fails_with(Delivery::lost));
  const Call& retry = world.ask();
  EXPECT_THAT(world.trace,
              ElementsAre("claim: execute", "send: attempt 2", "finish succeeded: done", "reply: 201 executed"));
  EXPECT_EQ(retry.status(), 201);
  EXPECT_EQ(world.gateway.counts().takeovers.value(), 1U);
  EXPECT_EQ(world.gateway.counts().retries_after_failure.value(), 0U);
}

TEST_P(ExchangeVerdict, an_unknown_outcome_is_taken_over_when_the_time_has_come_and_not_before) {
  world.after_execution(fails_with(Delivery::lost));
  const Time started = world.record()->started_at;
  world.clock.set(started + 4min);
  const Call& early = world.ask();
  EXPECT_THAT(world.trace, ElementsAre("claim: too early", "reply: 409 unknown"));
  EXPECT_EQ(early.code(), "outcome-unknown");
  EXPECT_EQ(early.idempotency_status(), "unknown");
  EXPECT_EQ(early.retry_after(), "30") << "not a minute: clients sleep for as long as it says";
  EXPECT_TRUE(early.retryable());
  world.clock.set(started + 5min - 10s);
  EXPECT_EQ(world.ask().retry_after(), "10");

  world.clock.set(started + 5min - 100ms);
  EXPECT_EQ(world.ask().retry_after(), "1");
  world.clock.set(started + 5min);
  EXPECT_EQ(world.ask().status(), 201);
  EXPECT_EQ(world.backend.executions(), 2U);
}

TEST_P(ExchangeVerdict, an_unknown_outcome_is_held_until_somebody_resolves_it) {
  world.policy.on_unknown = OnUnknown::hold;
  world.after_execution(fails_with(Delivery::lost));
  world.executor.advance(1h);
  const Call& held = world.ask();
  EXPECT_THAT(world.trace, ElementsAre("claim: held", "reply: 409 unknown"));
  EXPECT_EQ(held.code(), "outcome-unknown");
  EXPECT_EQ(held.idempotency_status(), "unknown");
  EXPECT_EQ(held.retry_after(), "");
  EXPECT_TRUE(held.reply().known_key);
  EXPECT_EQ(world.backend.executions(), 1U);
  world.executor.advance(world.policy.ttl);
  const Call& anew = world.ask();
  EXPECT_EQ(anew.status(), 201);
  EXPECT_FALSE(anew.reply().known_key);
}

TEST_P(ExchangeVerdict, a_response_that_was_not_kept_is_never_a_second_execution) {
  BackendScript large = answer_with(200, "a large one");
  large.delivery = Delivery::oversize;
  world.after_execution(large);
  const Call& retry = world.ask();
  EXPECT_THAT(world.trace, ElementsAre("claim: not kept", "reply: 409 replayed"));
  EXPECT_EQ(retry.code(), "response-not-kept");
  EXPECT_EQ(retry.idempotency_status(), "replayed");
  EXPECT_FALSE(retry.retryable());
  EXPECT_EQ(world.backend.executions(), 1U);
}

TEST_P(ExchangeVerdict, an_expired_key_that_is_remembered_is_not_executed_again) {
  world.policy.tombstone = 1h;
  world.after_execution(answer_with(201, "done"));
  world.executor.advance(world.policy.ttl - 1s);
  EXPECT_EQ(world.ask().idempotency_status(), "replayed");
  world.executor.advance(2s);
  world.trace.clear();
  const Call& late = world.ask();
  EXPECT_THAT(world.trace, ElementsAre("claim: gone", "reply: 410 rejected"));
  EXPECT_EQ(late.code(), "key-expired");
  EXPECT_FALSE(late.retryable());
  EXPECT_EQ(late.header("Idempotency-Expires"), "");
  EXPECT_EQ(world.backend.executions(), 1U);
  // Whatever is asked for by now: it is remembered as long as it was asked for then.
  world.policy.tombstone = Duration::zero();
  world.executor.advance(1h - 10s);
  EXPECT_EQ(world.ask().status(), 410);
  world.executor.advance(20s);
  EXPECT_EQ(world.ask().idempotency_status(), "executed");
  EXPECT_EQ(world.backend.executions(), 2U);
}

TEST_P(ExchangeVerdict, an_answer_from_before_tombstones_were_asked_for_leaves_none) {
  world.after_execution(answer_with(201, "done"));
  world.policy.tombstone = 1h;
  world.executor.advance(world.policy.ttl + 1s);
  EXPECT_EQ(world.ask().idempotency_status(), "executed");
}

TEST(ExchangeVerdictFromElsewhere, a_tombstone_is_gone) {
  World world;
  class Tombstones final : public Store {
   public:
    void execute(std::span<Op* const> batch) override {
      for (Op* op : batch) {
        op->status = OpStatus::done;
        op->verdict = Verdict::gone;
        op->record = Record{.state = State::tombstone};
      }
    }
    Traits traits() const override { return {.inline_execution = true}; }
  } tombstones;
  VirtualLanes lanes(tombstones, world.executor);
  TestGateway gateway(lanes, world.executor, world.clock, world.backend, world.trace, 1);
  const Call& call = gateway.send(world.policy);
  ASSERT_TRUE(call.ended());
  EXPECT_EQ(call.answer(), "410 - key-expired");
  EXPECT_EQ(world.backend.executions(), 0U);
}

TEST(ExchangeVerdictFromElsewhere, an_outcome_that_cannot_be_read_is_not_executed_again) {
  World world;
  world.by_others = true;
  Op claim{.verb = Verb::claim, .id = operation(1), .nonce = Nonce{{9}}, .fingerprint = fingerprint_of(1)};
  world.store.run_inside(claim);
  Op finish{.verb = Verb::finish, .id = operation(1), .nonce = Nonce{{9}}};
  finish.outcome = std::make_shared<const std::string>("written by somebody else");
  world.store.run_inside(finish);
  const Call& call = world.ask();
  EXPECT_EQ(call.status(), 503);
  EXPECT_EQ(call.code(), "store-unavailable");
  EXPECT_EQ(world.backend.executions(), 0U);
}

}  // namespace once::gateway::exchange_verdict_test
