#include "core/dialect.hpp"

#include <algorithm>

#include <gtest/gtest.h>

#include "core/headers.hpp"
#include "core/outcome.hpp"

namespace once::core {
namespace dialect_test {

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

TEST(Dialect, ietf) {
  const Policy policy = policy_of("ietf");
  EXPECT_EQ(policy.in_flight, InFlight::wait);
  EXPECT_EQ(policy.on_unknown, OnUnknown::hold);
  EXPECT_EQ(policy.key.header, "Idempotency-Key");
  EXPECT_EQ(policy.key.max_length, 255U);
  EXPECT_EQ(policy.methods, methods({Method::post, Method::patch}));
  EXPECT_EQ(policy.caller.front().name, "Authorization");
  EXPECT_EQ(policy.scope, (Scope{ScopePart::caller, ScopePart::method, ScopePart::path}));
  EXPECT_EQ(policy.wording.mismatch_status, 422);
  EXPECT_EQ(policy.wording.in_flight_status, 409);
  EXPECT_EQ(policy.wording.replay_header, "Idempotency-Replayed");
  EXPECT_FALSE(policy.wording.error_object);
}

TEST(Dialect, stripe) {
  const Policy policy = policy_of("stripe");
  EXPECT_EQ(policy.in_flight, InFlight::wait);
  EXPECT_EQ(policy.on_unknown, OnUnknown::hold);
  EXPECT_EQ(policy.key.header, "Idempotency-Key");
  EXPECT_EQ(policy.methods, methods({Method::post, Method::delete_}));
  EXPECT_EQ(policy.scope, Scope{ScopePart::caller});
  EXPECT_EQ(policy.scope_headers, (std::vector<std::string>{"Stripe-Account", "Stripe-Context"}));
  EXPECT_EQ(policy.wording.mismatch_status, 400);
  EXPECT_EQ(policy.wording.mismatch_code, "idempotency_error");
  EXPECT_EQ(policy.wording.in_flight_status, 409);
  EXPECT_EQ(policy.wording.in_flight_code, "idempotency_key_in_use");
  EXPECT_EQ(policy.wording.replay_header, "Idempotent-Replayed");
  EXPECT_TRUE(policy.wording.error_object);
}

TEST(Dialect, platform) {
  const Policy policy = policy_of("platform");
  EXPECT_EQ(policy.key.header, "X-Idempotency-Key");
  EXPECT_EQ(policy.methods, methods({Method::post, Method::put, Method::patch}));
  EXPECT_EQ(policy.scope, Scope{ScopePart::caller});
  EXPECT_EQ(policy.wording.mismatch_status, 422);
  EXPECT_EQ(policy.wording.in_flight_status, 409);
  EXPECT_EQ(policy.in_flight, InFlight::reject);
  EXPECT_EQ(policy.on_unknown, OnUnknown::takeover);
  EXPECT_EQ(policy.wording.in_flight_detail, "Request is being processed");
  EXPECT_EQ(policy.wording.replay_header, "Idempotent-Replayed");
}

TEST(Dialect, workflow) {
  const Policy policy = policy_of("workflow");
  EXPECT_EQ(policy.key.header, "Idempotency-Key");
  EXPECT_EQ(policy.key.max_length, 255U);
  EXPECT_EQ(policy.methods, methods({Method::post, Method::put, Method::patch}));
  ASSERT_EQ(policy.caller.size(), 1U);
  EXPECT_EQ(policy.caller.front().kind, CallerSource::Kind::proxy_header);
  EXPECT_EQ(policy.caller.front().name, "X-Org-Id");
  EXPECT_EQ(policy.in_flight, InFlight::reject);
  EXPECT_EQ(policy.on_unknown, OnUnknown::takeover);
  EXPECT_EQ(policy.scope, (Scope{ScopePart::caller, ScopePart::path}));
  EXPECT_EQ(policy.wording.mismatch_status, 422);
  EXPECT_EQ(policy.wording.in_flight_status, 409);
  EXPECT_EQ(policy.wording.replay_header, "Idempotent-Replayed");
}

TEST(Dialect, streams) {
  const Policy policy = policy_of("streams");
  EXPECT_EQ(policy.in_flight, InFlight::wait);
  EXPECT_EQ(policy.on_unknown, OnUnknown::hold);
  EXPECT_EQ(policy.key.header, "Idempotency-Key");
  EXPECT_EQ(policy.key.max_length, 256U);
  EXPECT_EQ(policy.methods, methods({Method::post}));
  EXPECT_EQ(policy.scope, Scope{ScopePart::path});
  EXPECT_EQ(policy.wording.mismatch_status, 409);
  EXPECT_EQ(policy.wording.mismatch_code, "IDEMPOTENCY_MISMATCH");
  EXPECT_EQ(policy.wording.mismatch_type, "idempotency-mismatch");
  EXPECT_EQ(policy.wording.mismatch_title, "Idempotency Key Mismatch");
  EXPECT_EQ(policy.wording.in_flight_status, 409);
  EXPECT_EQ(policy.wording.replay_header, "Idempotency-Replayed");
}

}  // namespace dialect_test
}  // namespace once::core
