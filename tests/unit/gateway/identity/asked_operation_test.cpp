// An operator finds the operation that a request is, or was, on a connection.
#include "gateway/identity/asked_operation.hpp"

#include <gmock/gmock.h>

#include "core/headers.hpp"
#include "tests/unit/gateway/identity/identity_world.hpp"

namespace once::gateway::asked_operation_test {

using testing::HasSubstr;

class AskedOperationTest : public testing::Test, protected IdentityWorld {
 protected:
  AskedOperationTest() {
    asked_.target = "http://api.test/payments";
    asked_.headers = {{"Authorization", "a"}};
    asked_.key = "k";
    asked_.peer = "203.0.113.9";
  }

  std::expected<OperationId, std::string> found() {
    const IdentityRules by = rules();
    return operation_of(by.settings, by.routes, by.ids, asked_, by.clock);
  }

  // The operation of a request that comes in on a connection.
  OperationId served(const std::string& fields, std::string_view body = "") {
    const RequestFacts facts = request("POST /payments", fields);
    const IdentityRules by = rules();
    const RoutedRequest routed = route_request(by, facts, scratch);
    const RequestKey key = find_request_key(routed.route.policy, head);
    const auto id = RequestIdentity(by, facts, *routed.route.policy).operation(key.given, body);
    EXPECT_TRUE(id.has_value());
    return id.value_or(OperationId());
  }

  AskedRequest asked_;
};

TEST_F(AskedOperationTest, the_operation_is_that_of_the_request_that_was_served) {
  route("/**");
  EXPECT_EQ(found(), served("Authorization: a\r\nIdempotency-Key: k\r\n"));
  asked_.headers = {{"Authorization", "b"}};
  EXPECT_NE(found(), served("Authorization: a\r\nIdempotency-Key: k\r\n"));
}

// Records of shadow mode have ids of their own.
TEST_F(AskedOperationTest, a_key_of_a_route_in_shadow_mode_is_found) {
  Policy& policy = route("/**");
  const auto enforced = found();
  policy.mode = Mode::shadow;
  EXPECT_NE(found(), enforced);
  EXPECT_EQ(found(), served("Authorization: a\r\nIdempotency-Key: k\r\n"));
}

TEST_F(AskedOperationTest, the_key_may_be_among_the_headers_and_one_that_is_given_counts_first) {
  route("/**");
  const OperationId id = served("Authorization: a\r\nIdempotency-Key: k\r\n");
  asked_.headers.emplace_back("Idempotency-Key", "other");
  EXPECT_EQ(found(), id);
  asked_.headers.back().second = "\"k\"";
  asked_.key = std::nullopt;
  EXPECT_EQ(found(), id);
}

TEST_F(AskedOperationTest, a_derived_key_is_made_from_the_body) {
  Policy& policy = route("/**");
  policy.key.derive = {{.kind = KeySource::Kind::json, .name = "/order"}};
  asked_.key = std::nullopt;
  asked_.body = R"({"order": 7})";
  EXPECT_EQ(found(), served("Authorization: a\r\n", R"({"order": 7})"));
  asked_.body = "";
  EXPECT_THAT(found().error(), HasSubstr("json:/order"));
}

TEST_F(AskedOperationTest, what_would_not_be_served_is_said) {
  Policy& policy = route("/payments/**");
  policy.methods = methods({Method::post, Method::get});
  const auto error = [&](std::string method, std::string target) {
    asked_.method = std::move(method);
    asked_.target = std::move(target);
    const auto id = found();
    return id ? std::string() : id.error();
  };
  EXPECT_EQ(error("POST", "http://api.test/payments"), "");
  EXPECT_THAT(error("POST", "http://api.test/other"), HasSubstr("No route protects"));
  EXPECT_THAT(error("PUT", "http://api.test/payments"), HasSubstr("No route protects"));
  EXPECT_THAT(error("GET", "http://api.test/payments"), HasSubstr("No route protects")) << "a GET is never protected";
  EXPECT_THAT(error("post", "http://api.test/payments"), HasSubstr("in capitals"));
  EXPECT_THAT(error("POST", "http://api.test/%2E%2E/payments"), testing::Not(""));
  EXPECT_THAT(error("POST", "/payments"), HasSubstr("host"));
  asked_.key = "\x01";
  EXPECT_THAT(error("POST", "http://api.test/payments"), HasSubstr("Idempotency-Key: "));
  asked_.key = std::nullopt;
  EXPECT_THAT(error("POST", "http://api.test/payments"), HasSubstr("key is"));
  asked_.key = "k";
  asked_.headers = {};
  policy.caller_missing = CallerMissing::reject;
  EXPECT_THAT(error("POST", "http://api.test/payments"), HasSubstr("Authorization"));
}

TEST_F(AskedOperationTest, headers_of_a_proxy_count_if_the_peer_is_one) {
  Policy& policy = route("/**");
  policy.caller = {{.kind = CallerSource::Kind::proxy_header, .name = "X-Org-Id"}};
  asked_.headers = {{"X-Org-Id", "acme"}};
  const auto untrusted = found();
  settings.trusted_proxies.add("203.0.113.0/24");
  EXPECT_NE(found(), untrusted);
  asked_.headers = {{"X-Org-Id", "other"}};
  EXPECT_NE(found(), untrusted);
}

}  // namespace once::gateway::asked_operation_test
