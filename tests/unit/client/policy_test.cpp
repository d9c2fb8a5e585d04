// What is retried, row by row; how long is waited; and that docs/guides/client.md has the same table.
#include "client/policy.hpp"

#include <fstream>
#include <sstream>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace once::client::policy_test {

using namespace std::chrono_literals;
using enum Happened;

struct Expected {
  Happened happened;
  bool retried;
  bool retried_if_asked;
};

// Written out a second time on purpose: a change of the table has to be meant.
constexpr auto expectations = std::to_array<Expected>({
    {not_resolved, true, true},        {not_connected, true, true},       {not_trusted, false, false},
    {lost_before_sending, true, true}, {timed_out, true, true},           {lost_after_sending, true, true},
    {not_http, false, false},          {answer_too_large, false, false},  {broken_off, false, false},
    {new_attempt, false, false},       {not_protected, false, false},     {success, false, false},
    {redirect, false, false},          {request_timeout, true, true},     {in_flight, true, true},
    {unknown_for_now, true, true},     {unknown_held, false, false},      {conflict, false, false},
    {mismatch, false, false},          {too_early, true, true},           {too_many_requests, true, true},
    {client_error, false, false},      {server_error, false, true},       {not_implemented, false, false},
    {bad_gateway, true, true},         {unavailable, true, true},         {gateway_timeout, true, true},
    {outcome_unknown, true, true},     {said_not_to_retry, false, false}, {cancelled, false, false},
});

Verdict verdict(const Options& options, Happened happened) {
  return next_step(options, {.happened = happened, .left = 1h}).verdict;
}

TEST(ClientPolicy, every_row_is_retried_or_not_as_written) {
  ASSERT_EQ(expectations.size(), rows().size());
  for (const Expected& expected : expectations) {
    SCOPED_TRACE(name(expected.happened));
    Options options;
    EXPECT_EQ(verdict(options, expected.happened), expected.retried ? Verdict::again : Verdict::done);
    options.server_errors = RetryServerErrors::yes;
    EXPECT_EQ(verdict(options, expected.happened), expected.retried_if_asked ? Verdict::again : Verdict::done);
  }
}

struct Case {
  Reply reply;
  Happened happened;
};

TEST(ClientPolicy, every_answer_has_its_row) {
  using Says = Reply::Says;
  const auto cases = std::to_array<Case>({
      {{.status = 200}, success},
      {{.status = 299}, success},
      {{.status = 301}, redirect},
      {{.status = 308}, redirect},
      {{.status = 400}, client_error},
      {{.status = 404}, client_error},
      {{.status = 408}, request_timeout},
      {{.status = 409}, conflict},
      {{.status = 409, .retry_after = 1s}, conflict},
      {{.status = 409, .problem_code = "IDEMPOTENCY_MISMATCH"}, conflict},
      {{.status = 409, .problem_code = "response-not-kept"}, conflict},
      {{.status = 409, .problem_code = "in-flight"}, in_flight},
      {{.status = 409, .problem_code = "idempotency_key_in_use"}, in_flight},
      {{.status = 409, .idempotency_status = "in-flight"}, in_flight},
      {{.status = 409, .problem_code = "outcome-unknown", .retry_after = 1s}, unknown_for_now},
      {{.status = 409, .idempotency_status = "unknown", .retry_after = 1s}, unknown_for_now},
      {{.status = 409, .problem_code = "outcome-unknown"}, unknown_held},
      {{.status = 410, .problem_code = "key-expired"}, client_error},
      {{.status = 422}, mismatch},
      {{.status = 425}, too_early},
      {{.status = 429}, too_many_requests},
      {{.status = 500}, server_error},
      {{.status = 501}, not_implemented},
      {{.status = 502}, bad_gateway},
      {{.status = 502, .says = Says::retryable}, bad_gateway},
      {{.status = 502, .says = Says::not_retryable}, said_not_to_retry},
      {{.status = 502, .problem_code = "outcome-unknown"}, outcome_unknown},
      {{.status = 502, .problem_code = "bad-gateway"}, bad_gateway},
      {{.status = 503}, unavailable},
      {{.status = 503, .problem_code = "outcome-unknown"}, outcome_unknown},
      {{.status = 504}, gateway_timeout},
      {{.status = 504, .idempotency_status = "unknown"}, outcome_unknown},
      {{.status = 500, .problem_code = "outcome-unknown"}, server_error},
      {{.status = 502, .problem_code = "outcome-unknown", .says = Says::not_retryable}, said_not_to_retry},
      {{.status = 504, .says = Says::not_retryable}, said_not_to_retry},
      {{.status = 505}, not_implemented},
      {{.status = 507}, server_error},
  });
  for (const Case& each : cases) {
    SCOPED_TRACE(fmt::format("{} {}", each.reply.status, each.reply.problem_code));
    EXPECT_EQ(name(classify(each.reply)), name(each.happened));
  }
}

TEST(ClientPolicy, window_doubles_up_to_the_longest) {
  const Options options{.first_backoff = 100ms, .longest_backoff = 1s};
  EXPECT_EQ(backoff_window(options, 1), 100ms);
  EXPECT_EQ(backoff_window(options, 2), 200ms);
  EXPECT_EQ(backoff_window(options, 4), 800ms);
  EXPECT_EQ(backoff_window(options, 5), 1s);
  EXPECT_EQ(backoff_window(options, 4'000'000'000U), 1s);
}

TEST(ClientPolicy, wait_is_anywhere_between_nothing_and_the_window) {
  const Options options{.first_backoff = 100ms, .longest_backoff = 1s};
  Duration least = 1h;
  Duration most = 0s;
  for (std::uint64_t chance = 0; chance < 10'000; ++chance) {
    const Next next = next_step(options, {.happened = unavailable, .tries = 3, .left = 1h, .chance = chance});
    ASSERT_EQ(next.verdict, Verdict::again);
    least = std::min(least, next.wait);
    most = std::max(most, next.wait);
  }
  EXPECT_EQ(least, 0ms);
  EXPECT_EQ(most, 400ms);
}

TEST(ClientPolicy, retry_after_is_the_least_and_jitter_comes_on_top) {
  const Options options{.first_backoff = 100ms};
  const auto wait = [&](std::uint64_t chance) {
    return next_step(options, {.happened = unavailable, .retry_after = 7s, .left = 1h, .chance = chance}).wait;
  };
  EXPECT_EQ(wait(0), 7s);
  EXPECT_EQ(wait(100), 7100ms);
  EXPECT_EQ(wait(101), 7s);
}

TEST(ClientPolicy, waits_for_a_time_the_server_named_without_jitter_rather_than_not_at_all) {
  const Options options{.first_backoff = 100ms};
  const Next next = next_step(options, {.happened = unavailable, .retry_after = 7s, .left = 7050ms, .chance = 100});
  EXPECT_EQ(next.verdict, Verdict::again);
  EXPECT_EQ(next.wait, 7s);
}

TEST(ClientPolicy, gives_up_at_once_when_the_wait_would_pass_the_deadline) {
  const Options options{.first_backoff = 100ms};
  EXPECT_EQ(next_step(options, {.happened = unavailable, .retry_after = 7s, .left = 7s}).verdict, Verdict::deadline);
  EXPECT_EQ(next_step(options, {.happened = unavailable, .left = 50ms, .chance = 50}).verdict, Verdict::deadline);
  EXPECT_EQ(next_step(options, {.happened = unavailable, .left = 0ms}).verdict, Verdict::deadline);
  // A zero from the server is no reason to hammer it until the deadline.
  EXPECT_EQ(next_step(options, {.happened = unavailable, .retry_after = 0s, .left = 50ms, .chance = 50}).verdict,
            Verdict::deadline);
}

TEST(ClientPolicy, budget_counts_tries_after_the_first) {
  const Options options{.max_retries = 2};
  EXPECT_EQ(next_step(options, {.happened = unavailable, .tries = 2, .left = 1h}).verdict, Verdict::again);
  EXPECT_EQ(next_step(options, {.happened = unavailable, .tries = 3, .left = 1h}).verdict, Verdict::retries_spent);
  EXPECT_EQ(next_step({.max_retries = 0}, {.happened = unavailable, .left = 1h}).verdict, Verdict::retries_spent);
  // What is final is final, whatever is left of the budget.
  EXPECT_EQ(next_step(options, {.happened = success, .tries = 3, .left = 0s}).verdict, Verdict::done);
}

TEST(ClientPolicy, page_has_the_same_table) {
  std::ifstream file(ONCE_CLIENT_PAGE);
  std::stringstream page;
  page << file.rdbuf();
  for (const Row& row : rows()) {
    const auto retried = [&] {
      switch (row.retried) {
        case Retried::never: return "no";
        case Retried::always: return "yes";
        case Retried::if_asked: return "if asked";
      }
      return "";
    };
    const std::string line = fmt::format("| {} | `{}` | {} | {} |\n", row.what, row.name, retried(), row.why);
    EXPECT_TRUE(page.str().contains(line)) << "docs/guides/client.md lacks: " << line;
  }
}

}  // namespace once::client::policy_test
