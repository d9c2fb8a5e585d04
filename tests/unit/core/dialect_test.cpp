#include "core/dialect.hpp"

#include <algorithm>

#include <gtest/gtest.h>

#include "core/headers.hpp"
#include "core/outcome.hpp"

namespace once::core::dialect_test {

using Scope = std::vector<ScopePart>;

Policy policy_of(std::string_view name) {
  const auto policy = dialect(name);
  EXPECT_TRUE(policy.has_value()) << name;
  return policy.value_or(Policy());
}

TEST(Dialect, there_are_five_and_ietf_is_the_default) {
  EXPECT_EQ(std::vector<std::string_view>(dialect_names().begin(), dialect_names().end()),
            (std::vector<std::string_view>{"ietf", "stripe", "platform", "workflow", "streams"}));
  EXPECT_EQ(dialect_names().front(), Policy().dialect);
  EXPECT_FALSE(dialect("IETF"));
  EXPECT_FALSE(dialect(""));
}

TEST(Dialect, each_is_a_whole_policy_under_its_own_name) {
  for (const std::string_view name : dialect_names()) {
    const Policy policy = policy_of(name);
    EXPECT_EQ(policy.dialect, name);
    EXPECT_TRUE(contains(policy.methods, Method::post)) << name;
    EXPECT_EQ(contains(policy.record.statuses, 500), name == "stripe") << name;
    EXPECT_TRUE((default_statuses() & ~policy.record.statuses).none()) << name;
    const StatusSet declined = name == "stripe" ? statuses({{402, 402}}) : StatusSet();
    EXPECT_EQ(policy.record.refusals, default_refusals() & ~declined) << name;
    EXPECT_EQ(policy.key.required, Required::no) << name;
    EXPECT_EQ(policy.ttl, std::chrono::hours(24)) << name;
    EXPECT_FALSE(policy.scope.empty()) << name;
  }
}

TEST(Dialect, a_replay_header_is_one_that_no_backend_can_fake) {
  for (const std::string_view name : dialect_names()) {
    EXPECT_TRUE(is_reserved_response_header(policy_of(name).wording.replay_header)) << name;
  }
}

void expect_keys(std::string_view name, std::string_view header, std::size_t max_length, const MethodSet& methods,
                 const Scope& scope) {
  SCOPED_TRACE(name);
  const Policy policy = policy_of(name);
  EXPECT_EQ(policy.key.header, header);
  EXPECT_EQ(policy.key.max_length, max_length);
  EXPECT_EQ(policy.methods, methods);
  EXPECT_EQ(policy.scope, scope);
}

TEST(Dialect, which_requests_have_keys) {
  using enum Method;
  using enum ScopePart;
  expect_keys("ietf", "Idempotency-Key", 255, methods({post, patch}), {caller, method, path});
  expect_keys("stripe", "Idempotency-Key", 255, methods({post, delete_}), {caller});
  expect_keys("platform", "X-Idempotency-Key", 255, methods({post, put, patch}), {caller});
  expect_keys("workflow", "Idempotency-Key", 255, methods({post, put, patch}), {caller, path});
  expect_keys("streams", "Idempotency-Key", 256, methods({post}), {path});
  EXPECT_EQ(policy_of("stripe").scope_headers, (std::vector<std::string>{"Stripe-Account", "Stripe-Context"}));
  EXPECT_EQ(policy_of("ietf").caller.front().name, "Authorization");
  ASSERT_EQ(policy_of("workflow").caller.size(), 1U);
  EXPECT_EQ(policy_of("workflow").caller.front().kind, CallerSource::Kind::proxy_header);
  EXPECT_EQ(policy_of("workflow").caller.front().name, "X-Org-Id");
}

void expect_answers(std::string_view name, InFlight in_flight, OnUnknown on_unknown, int mismatch,
                    std::string_view replay_header) {
  SCOPED_TRACE(name);
  const Policy policy = policy_of(name);
  EXPECT_EQ(policy.in_flight, in_flight);
  EXPECT_EQ(policy.on_unknown, on_unknown);
  EXPECT_EQ(policy.wording.mismatch_status, mismatch);
  EXPECT_EQ(policy.wording.in_flight_status, 409);
  EXPECT_EQ(policy.wording.replay_header, replay_header);
  EXPECT_EQ(policy.wording.error_object, name == "stripe");
}

TEST(Dialect, how_retries_are_answered) {
  expect_answers("ietf", InFlight::wait, OnUnknown::hold, 422, "Idempotency-Replayed");
  expect_answers("stripe", InFlight::wait, OnUnknown::hold, 400, "Idempotent-Replayed");
  expect_answers("platform", InFlight::reject, OnUnknown::takeover, 422, "Idempotent-Replayed");
  expect_answers("workflow", InFlight::reject, OnUnknown::takeover, 422, "Idempotent-Replayed");
  expect_answers("streams", InFlight::wait, OnUnknown::hold, 409, "Idempotency-Replayed");
  EXPECT_EQ(policy_of("stripe").wording.mismatch_code, "idempotency_error");
  EXPECT_EQ(policy_of("stripe").wording.in_flight_code, "idempotency_key_in_use");
  EXPECT_EQ(policy_of("platform").wording.in_flight_detail, "Request is being processed");
  const Wording streams = policy_of("streams").wording;
  EXPECT_EQ(streams.mismatch_code, "IDEMPOTENCY_MISMATCH");
  EXPECT_EQ(streams.mismatch_type, "idempotency-mismatch");
  EXPECT_EQ(streams.mismatch_title, "Idempotency Key Mismatch");
}

}  // namespace once::core::dialect_test
