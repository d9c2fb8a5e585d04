// What happened at the backend, what is recorded of it, and what this client gets: every row of that table.
#include <regex>

#include "core/route_label.hpp"
#include "tests/unit/gateway/exchange/exchange_world.hpp"

namespace once::gateway::exchange_outcome_test {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

using ExchangeOutcome = EveryStore;
INSTANTIATE_TEST_SUITE_P(Stores, ExchangeOutcome, every_setting(), name_of_setting);

TEST_P(ExchangeOutcome, a_backend_that_cannot_be_reached_leaves_no_trace_of_the_claim) {
  const Call& call = world.ask_when(fails_with(Delivery::not_sent));
  EXPECT_THAT(world.trace, ElementsAre("claim: execute", "send: attempt 1", "release: done", "reply: 502 rejected"));
  EXPECT_EQ(call.code(), "bad-gateway");
  EXPECT_EQ(call.retry_after(), "");
  EXPECT_TRUE(call.retryable());
  EXPECT_FALSE(world.record().has_value());
  EXPECT_EQ(world.ask().reply().attempt, Attempt{1});
}

TEST_P(ExchangeOutcome, every_status_is_recorded_as_the_policy_says) {
  const std::vector<int> refusals = {401, 402, 403, 407, 408, 413, 425, 429};
  int key = 0;
  for (int status = 200; status <= 599; ++status) {
    // Enough of each class, and every one that is special.
    if (status % 100 > 31 && status % 100 != 99) continue;
    key = key % 250 + 1;
    world.executor.advance(25h);
    const Call& call = world.ask_when(answer_with(status, status == 204 || status == 304 ? "" : "body"), {.key = key});
    EXPECT_EQ(call.status(), status);
    EXPECT_EQ(call.idempotency_status(), "executed");
    const auto record = world.record(key);
    if (std::ranges::count(refusals, status) > 0) {
      EXPECT_FALSE(record.has_value()) << status;
    } else {
      ASSERT_TRUE(record.has_value()) << status;
      EXPECT_EQ(record->state, status < 500 ? State::succeeded : State::failed) << status;
      EXPECT_EQ(call.header("Idempotency-Expires").empty(), status >= 500) << status;
      EXPECT_EQ(record->outcome != nullptr, status < 500) << status;
    }
  }
}

TEST_P(ExchangeOutcome, every_execution_is_counted_once_by_what_became_of_it) {
  world.policy.on_unknown = OnUnknown::retry;
  int key = 1;
  for (const auto& [script, settled] :
       {std::pair(answer_with(201), ClaimEnd::succeeded), std::pair(answer_with(500), ClaimEnd::failed),
        std::pair(answer_with(429), ClaimEnd::released), std::pair(fails_with(Delivery::not_sent), ClaimEnd::released),
        std::pair(fails_with(Delivery::lost), ClaimEnd::unknown),
        std::pair(fails_with(Delivery::timed_out), ClaimEnd::unknown)}) {
    std::array<std::uint64_t, claim_end_count> expected{};
    for (std::size_t i = 0; i < claim_end_count; ++i) expected[i] = world.gateway.outcomes(ClaimEnd(i));
    ++expected[static_cast<std::size_t>(settled)];
    world.ask_when(script, {.key = key});
    for (std::size_t i = 0; i < claim_end_count; ++i) {
      EXPECT_EQ(world.gateway.outcomes(ClaimEnd(i)), expected[i]) << name_of(ClaimEnd(i)) << " after key " << key;
    }
    ++key;
  }
  world.ask({.key = 1});  // a replay is no execution
  EXPECT_EQ(world.gateway.outcomes(ClaimEnd::succeeded), 1U);
}

TEST_P(ExchangeOutcome, a_refusal_is_passed_on_and_the_next_request_is_the_first_again) {
  const Call& call = world.ask_when(answer_with(429, "slow down", "Retry-After: 7\r\n"));
  EXPECT_THAT(world.trace, ElementsAre("claim: execute", "send: attempt 1", "release: done", "reply: 429 executed"));
  EXPECT_EQ(call.body(), "slow down");
  EXPECT_EQ(call.retry_after(), "7");
  EXPECT_EQ(call.header("Idempotency-Expires"), "");
  // The fingerprint no longer binds either.
  EXPECT_EQ(world.ask({.content = 2}).reply().attempt, Attempt{1});
}

TEST_P(ExchangeOutcome, a_release_gives_back_the_failed_attempt_before_it) {
  world.after_execution(answer_with(500));
  world.ask_when(fails_with(Delivery::not_sent));
  const auto record = world.record();
  ASSERT_TRUE(record.has_value());
  EXPECT_EQ(record->state, State::failed);
  EXPECT_EQ(record->attempt, Attempt{1});
  EXPECT_EQ(world.ask({.content = 2}).status(), 422);
  EXPECT_EQ(world.ask().reply().attempt, Attempt{2});
}

TEST_P(ExchangeOutcome, a_release_does_not_make_an_unknown_outcome_known) {
  world.policy.on_unknown = OnUnknown::retry;
  world.after_execution(fails_with(Delivery::timed_out));
  world.ask_when(fails_with(Delivery::not_sent));
  EXPECT_EQ(world.state(), State::unknown);
  world.policy.on_unknown = OnUnknown::hold;
  EXPECT_EQ(world.ask().code(), "outcome-unknown");
  EXPECT_EQ(world.backend.executions(), 2U);
}

TEST_P(ExchangeOutcome, a_failure_goes_to_the_client_and_not_into_the_store) {
  const Call& call = world.ask_when(answer_with(503, "busy", "Retry-After: 3\r\n"));
  EXPECT_THAT(world.trace,
              ElementsAre("claim: execute", "send: attempt 1", "finish failed: done", "reply: 503 executed"));
  EXPECT_EQ(call.body(), "busy");
  EXPECT_EQ(call.retry_after(), "3");
  EXPECT_EQ(call.header("Idempotency-Expires"), "");
  EXPECT_EQ(world.record()->outcome, nullptr);
}

TEST_P(ExchangeOutcome, a_gateway_behind_us_may_not_know_either) {
  world.policy.record.gateway_errors = GatewayErrors::unknown;
  const Call& call = world.ask_when(answer_with(504, "upstream timed out"));
  EXPECT_THAT(world.trace,
              ElementsAre("claim: execute", "send: attempt 1", "finish unknown: done", "reply: 504 unknown"));
  EXPECT_EQ(call.body(), "upstream timed out");
  EXPECT_EQ(call.idempotency_status(), "unknown");
  EXPECT_EQ(world.state(), State::unknown);
  EXPECT_EQ(world.ask().status(), 409);
  // 500 is the backend's own, and means what it says.
  world.ask_when(answer_with(500), {.key = 2});
  EXPECT_EQ(world.state(2), State::failed);
}

TEST_P(ExchangeOutcome, what_nobody_knows_is_recorded_and_said_as_unknown) {
  int key = 0;
  for (const auto& [delivery, status] : {std::pair(Delivery::lost, "502"), std::pair(Delivery::timed_out, "504"),
                                         std::pair(Delivery::truncated, "502")}) {
    SCOPED_TRACE(static_cast<int>(delivery));
    world.trace.clear();
    world.backend.then(fails_with(delivery));
    EXPECT_EQ(world.ask({.key = ++key}).answer(), std::string(status) + " unknown outcome-unknown");
    EXPECT_THAT(world.trace, ElementsAre("claim: execute", "send: attempt 1", "finish unknown: done",
                                         std::string("reply: ") + status + " unknown"));
    EXPECT_EQ(world.state(key), State::unknown);
  }
}

TEST_P(ExchangeOutcome, an_unknown_outcome_leaves_a_line_in_the_log_and_a_known_one_none) {
  world.ask({.key = 1});
  world.ask_when(answer_with(503), {.key = 2});
  world.ask_when(fails_with(Delivery::not_sent), {.key = 3});
  EXPECT_EQ(world.gateway.logged(), "");
  world.ask_when(fails_with(Delivery::lost), {.key = 4});
  const std::string line = world.gateway.logged();
  EXPECT_THAT(line, HasSubstr(R"("level":"warn","message":"outcome unknown","request":"request-4")"));
  EXPECT_THAT(line, HasSubstr(R"("operation":"0404040404040404","method":"POST","route":"/payments")"));
  for (int key = 5; key < 100; ++key) world.ask_when(fails_with(Delivery::timed_out), {.key = key});
  EXPECT_EQ(std::ranges::count(world.gateway.logged(), '\n'), 10) << "a flood is limited, and counted";
}

TEST_P(ExchangeOutcome, a_record_names_the_request_of_its_latest_attempt) {
  world.policy.on_unknown = OnUnknown::retry;
  world.ask_when(fails_with(Delivery::lost));
  const auto details = [&] { return details_in(world.store.route_label(operation(1))); };
  EXPECT_EQ(details(), (RequestDetails{.method = "POST", .path = "/payments", .request_id = "request-1"}));
  world.ask();
  EXPECT_EQ(details()->request_id, "request-2");
  EXPECT_EQ(world.ask().idempotency_status(), "replayed");
  EXPECT_EQ(details()->request_id, "request-2") << "a replay is no attempt";
}

TEST_P(ExchangeOutcome, what_a_client_is_told_of_an_unknown_outcome_is_what_its_retry_will_meet) {
  int key = 0;
  const auto told_under = [&](OnUnknown policy) -> const Call& {
    world.policy.on_unknown = policy;
    world.backend.then(fails_with(Delivery::lost));
    return world.ask({.key = ++key});
  };
  const Call& retry = told_under(OnUnknown::retry);
  EXPECT_EQ(retry.retry_after(), "1");
  EXPECT_TRUE(retry.retryable());
  const Call& takeover = told_under(OnUnknown::takeover);
  EXPECT_EQ(takeover.retry_after(), "30") << "in five minutes, but nobody should sleep for that long in one go";
  EXPECT_EQ(takeover.header("X-Should-Retry"), "");
  EXPECT_TRUE(takeover.retryable());
  const Call& hold = told_under(OnUnknown::hold);
  EXPECT_EQ(hold.retry_after(), "");
  EXPECT_EQ(hold.header("X-Should-Retry"), "false");
  EXPECT_FALSE(hold.retryable());
}

BackendScript oversize(std::string head) {
  BackendScript script = fails_with(Delivery::oversize);
  script.head = std::move(head);
  return script;
}

TEST_P(ExchangeOutcome, a_response_too_large_to_keep_is_recorded_before_it_streams) {
  BackendScript large = oversize("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 12\r\n\r\n");
  large.body = "abcd";
  large.rest = {"efgh", "ijkl"};
  const Call& call = world.ask_when(large);
  EXPECT_THAT(world.trace,
              ElementsAre("claim: execute", "send: attempt 1", "finish succeeded: done", "reply: 200 executed"));
  EXPECT_EQ(call.body(), "abcd");
  ASSERT_NE(call.reply().source, nullptr);
  EXPECT_EQ(call.reply().streamed_length, 12U);
  EXPECT_EQ(world.record()->body_kept, BodyKept::no);
  EXPECT_EQ(world.ask().code(), "response-not-kept");
}

TEST_P(ExchangeOutcome, a_large_failure_is_a_failure_and_a_large_refusal_a_refusal) {
  const Call& call = world.ask_when(oversize("HTTP/1.1 500 Broken\r\nTransfer-Encoding: chunked\r\n\r\n"));
  EXPECT_EQ(call.status(), 500);
  EXPECT_NE(call.reply().source, nullptr);
  EXPECT_FALSE(call.reply().streamed_length.has_value());
  EXPECT_EQ(world.state(), State::failed);
  world.ask_when(oversize("HTTP/1.1 429 Slow Down\r\nTransfer-Encoding: chunked\r\n\r\n"), {.key = 2});
  EXPECT_FALSE(world.record(2).has_value());
}

TEST_P(ExchangeOutcome, no_store_releases_and_is_not_passed_on) {
  const Call& call = world.ask_when(answer_with(200, "accepted, not done", "idempotency-policy: No-Store\r\n"));
  EXPECT_THAT(world.trace, ElementsAre("claim: execute", "send: attempt 1", "release: done", "reply: 200 executed"));
  EXPECT_EQ(call.body(), "accepted, not done");
  EXPECT_THAT(call.reply().fields.lines(), Not(HasSubstr("olicy")));
  EXPECT_FALSE(world.record().has_value());
  // It is said of one response, not of the next one on the same exchange.
  EXPECT_EQ(world.ask().status(), 201);
  EXPECT_EQ(world.state(), State::succeeded);
}

TEST_P(ExchangeOutcome, final_is_replayed_whatever_its_status) {
  world.backend.then(answer_with(500, "broken for good", "Idempotency-Policy: final\r\n"));
  EXPECT_THAT(world.ask().reply().fields.lines(), Not(HasSubstr("olicy")));
  EXPECT_EQ(world.state(), State::succeeded);
  EXPECT_EQ(world.ask().answer(), "500 replayed broken for good");
  EXPECT_EQ(world.backend.executions(), 1U);
}

TEST_P(ExchangeOutcome, retry_is_executed_again_whatever_its_status) {
  const Call& call = world.ask_when(answer_with(202, "come again", "Idempotency-Policy: retry, final\r\n"));
  EXPECT_EQ(call.status(), 202);
  EXPECT_THAT(call.reply().fields.lines(), Not(HasSubstr("olicy")));
  EXPECT_EQ(call.header("Idempotency-Expires"), "");
  EXPECT_EQ(world.state(), State::failed);
  EXPECT_EQ(world.ask().answer(), "201 executed done");
  EXPECT_EQ(world.record()->attempt, Attempt{2});
  EXPECT_EQ(world.backend.executions(), 2U);
}

TEST_P(ExchangeOutcome, a_backend_may_say_how_long_its_answer_is_kept) {
  world.policy.tombstone = std::chrono::hours(2);
  const Call& call = world.ask_when(answer_with(201, "for a minute", "Idempotency-Policy: ttl=60\r\n"));
  EXPECT_THAT(call.reply().fields.lines(), Not(HasSubstr("olicy")));
  const Time now = world.clock.now();
  EXPECT_EQ(world.record()->expires_at, now + std::chrono::seconds(60));
  EXPECT_EQ(world.record()->forget_at, now + std::chrono::seconds(60) + std::chrono::hours(2));
  std::string expires;
  append_http_date(expires, now + std::chrono::seconds(60));
  EXPECT_EQ(call.header("Idempotency-Expires"), expires);
  // Of one answer, not of the next.
  world.ask({.key = 2});
  EXPECT_GE(world.record(2)->expires_at, now + world.policy.ttl);
}

TEST_P(ExchangeOutcome, a_response_larger_than_may_be_kept_is_recorded_even_if_it_says_no_store) {
  world.ask_when(oversize("HTTP/1.1 200 OK\r\nIdempotency-Policy: no-store\r\nTransfer-Encoding: chunked\r\n\r\n"));
  EXPECT_EQ(world.state(), State::succeeded);
  EXPECT_EQ(world.record()->body_kept, BodyKept::no);
}

TEST_P(ExchangeOutcome, what_belongs_to_the_connection_or_to_once_is_neither_passed_on_nor_stored) {
  world.policy.record.drop_headers = {"X-Debug"};
  world.backend.then(answer_with(200, "done",
                                 "Connection: keep-alive, X-Hop\r\nKeep-Alive: timeout=5\r\nX-Hop: 1\r\n"
                                 "Idempotency-Status: replayed\r\nIdempotency-Replayed: true\r\n"
                                 "Original-Request-Id: forged\r\nIdempotency-Expires: never\r\n"
                                 "X-Debug: 1\r\nX-Kept: 1\r\n"));
  const Call& first = world.ask();
  const Call& retry = world.ask();
  for (const Call* call : {&first, &retry}) {
    EXPECT_EQ(call->header("X-Hop"), "");
    EXPECT_EQ(call->header("Connection"), "");
    EXPECT_EQ(call->header("Keep-Alive"), "");
    EXPECT_EQ(call->header("X-Kept"), "1");
    EXPECT_THAT(call->reply().fields.lines(), Not(HasSubstr("forged")));
    EXPECT_THAT(call->reply().fields.lines(), Not(HasSubstr("never")));
  }
  EXPECT_EQ(first.idempotency_status(), "executed");
  EXPECT_EQ(first.header("Idempotency-Replayed"), "");
  EXPECT_EQ(first.header("X-Debug"), "1");
  EXPECT_EQ(retry.idempotency_status(), "replayed");
  EXPECT_EQ(retry.header("X-Debug"), "");
}

TEST_P(ExchangeOutcome, an_exchange_that_is_used_again_remembers_nothing) {
  // Every kind of end after every other; each must look like the first of its kind.
  const std::vector<BackendScript> scripts = {answer_with(201, "kept", "X-One: 1\r\nSet-Cookie: s=1\r\n"),
                                              answer_with(500, "no"),
                                              answer_with(429, "later"),
                                              answer_with(200, "not kept", "Idempotency-Policy: no-store\r\n"),
                                              fails_with(Delivery::lost),
                                              fails_with(Delivery::not_sent)};
  int key = 1;
  std::vector<std::string> firsts;
  for (const BackendScript& script : scripts) {
    world.backend.then(script);
    firsts.emplace_back(world.ask({.key = ++key}).reply().fields.lines());
  }
  for (std::size_t first = 0; first < scripts.size(); ++first) {
    for (std::size_t second = 0; second < scripts.size(); ++second) {
      world.backend.then(scripts[first]);
      world.backend.then(scripts[second]);
      Call& call = world.ask({.key = ++key});
      call.start({.key = ++key});
      world.run_until_ended(call);
      const std::regex numbered("request-[0-9]+|[0-9:]+ GMT");
      EXPECT_EQ(std::regex_replace(std::string(call.reply().fields.lines()), numbered, "-"),
                std::regex_replace(firsts[second], numbered, "-"));
    }
  }
}

// A response that ended with its connection may have been cut off, unless its body proves that it is whole.
TEST_P(ExchangeOutcome, a_response_without_length_is_unknown_unless_it_is_whole_json_or_the_route_keeps_it) {
  struct Row {
    std::string type;
    std::string body;
    Unframed unframed;
    std::string told;
    std::string retry;
  };
  const std::string cut = R"({"id": "ch_1", "amount":)";
  const std::string whole = R"({"id": "ch_1"})";
  const Row rows[] = {
      {"application/json", cut, Unframed::whole, "200 unknown " + cut, "409 unknown outcome-unknown"},
      {"application/json", whole, Unframed::whole, "200 executed " + whole, "200 replayed " + whole},
      {"application/json\r\nContent-Encoding: gzip", "{}", Unframed::whole, "200 unknown {}",
       "409 unknown outcome-unknown"},
      {"application/json\r\nContent-Encoding: identity", "{}", Unframed::whole, "200 executed {}", "200 replayed {}"},
      {"text/plain", "until the end", Unframed::keep, "200 executed until the end", "200 replayed until the end"},
  };
  int key = 0;
  for (const Row& row : rows) {
    SCOPED_TRACE(row.type + ": " + row.body);
    world.policy.record.unframed = row.unframed;
    BackendScript script = fails_with(Delivery::unframed);
    script.head = "HTTP/1.1 200 OK\r\nContent-Type: " + row.type + "\r\n\r\n";
    script.body = row.body;
    EXPECT_EQ(world.ask_when(script, {.key = ++key}).answer(), row.told);
    EXPECT_EQ(world.ask({.key = key}).answer(), row.retry);
  }
  EXPECT_EQ(world.backend.executions(), 5U);
}

}  // namespace once::gateway::exchange_outcome_test
