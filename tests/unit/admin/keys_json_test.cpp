#include "admin/keys_json.hpp"

#include <gtest/gtest.h>

#include "core/outcome.hpp"

namespace once {
namespace {

constexpr Time now{Duration(1'763'225'643'007)};

KeyInfo unknown_key() {
  KeyInfo key{.state = State::unknown, .fence = Fence{7}, .started_at = now, .expires_at = Time::max()};
  key.id.bytes[0] = 0xab;
  return key;
}

TEST(KeyJson, is_what_the_contract_says) {
  const std::string json = key_json(unknown_key(), now);
  const auto tree = JsonTree::parse(json);
  ASSERT_TRUE(tree.has_value()) << json;
  EXPECT_EQ(tree->find("id")->string()->size(), 64U);
  EXPECT_EQ(*tree->find("state")->string(), "unknown");
  EXPECT_TRUE(tree->find("tenant")->is_null());
  EXPECT_TRUE(tree->find("lease_until")->is_null());
  EXPECT_TRUE(tree->find("expires_at")->is_null()) << "never";
  EXPECT_EQ(*tree->find("started_at")->string(), "2025-11-15T16:54:03.007Z");
  EXPECT_EQ(tree->find("fence")->number()->text, "7");
}

TEST(KeyJson, a_claim_without_a_lease_is_live_for_ever) {
  KeyInfo key = unknown_key();
  key.state = State::started;
  key.lease_until = Time::max();
  EXPECT_TRUE(is_live(key, now));
  key.lease_until = now;
  EXPECT_FALSE(is_live(key, now));
}

TEST(Version, changes_with_every_claim_and_end_and_hides_the_nonce) {
  const KeyInfo key = unknown_key();
  KeyInfo other = key;
  other.nonce.bytes[3] = 1;
  EXPECT_NE(version_of(key), version_of(other));
  EXPECT_FALSE(version_of(other).contains(to_hex(other.nonce)));
  other = key;
  other.state = State::failed;
  EXPECT_NE(version_of(key), version_of(other));
  other = key;
  other.fence = Fence{8};
  EXPECT_NE(version_of(key), version_of(other));
  other = key;
  other.outcome_bytes = 5;
  EXPECT_EQ(version_of(key), version_of(other));
}

TEST(ReadList, takes_filters_and_refuses_what_is_none) {
  const auto list = read_list("state=unknown&tenant=a%2Fb&older_than=5m&limit=7&cursor=1.2", now);
  ASSERT_TRUE(list.has_value()) << list.error();
  EXPECT_EQ(list->filter.state, State::unknown);
  EXPECT_EQ(list->filter.tenant, "a/b");
  EXPECT_EQ(list->filter.started_before, now - std::chrono::minutes(5));
  EXPECT_EQ(list->limit, 7U);
  EXPECT_EQ(list->cursor, "1.2");
  EXPECT_EQ(read_list("", now)->limit, 50U);
  for (const std::string_view wrong :
       {"limit=0", "limit=1001", "limit=x", "state=x", "newer_than=5", "tenant=%zz", "x=1"}) {
    EXPECT_FALSE(read_list(wrong, now).has_value()) << wrong;
  }
}

TEST(ReadFind, takes_a_request_or_a_claim) {
  const auto request = read_find(R"({"key":"k","path":"/p","headers":[["A","b"]]})");
  ASSERT_TRUE(request.has_value()) << request.error();
  ASSERT_TRUE(request->request.has_value());
  EXPECT_EQ(request->request->method, "POST");
  EXPECT_EQ(request->request->headers.front().second, "b");
  EXPECT_EQ(request->request->key, "k");
  EXPECT_EQ(read_find(R"({"path":"/p"})")->request->key, std::nullopt) << "derived";
  const auto claim = read_find(R"({"scope":"s","key":"k"})");
  ASSERT_TRUE(claim.has_value()) << claim.error();
  EXPECT_EQ(claim->tenant, "local");
  for (const std::string_view wrong :
       {"", "[]", "{}", R"({"key":1,"path":"/p"})", R"({"path":"/p","headers":{"A":"b"}})", R"({"scope":"s"})",
        R"({"path":"/p","keys":"x"})", R"({"path":"/p","headers":[["A"]]})"}) {
    EXPECT_FALSE(read_find(wrong).has_value()) << wrong;
  }
}

TEST(ReadAction, makes_the_response_that_retries_get) {
  const auto action = read_action(
      Action::resolve,
      R"({"version":"v","state":"succeeded","response":{"status":201,"headers":[["X-A","b"],["Connection","close"]],)"
      R"("body_base64":"AAECAw=="}})");
  ASSERT_TRUE(action.has_value()) << action.error();
  const auto stored = decode(*action->outcome);
  ASSERT_TRUE(stored.has_value());
  EXPECT_EQ(stored->status, 201);
  EXPECT_EQ(stored->headers, "X-A: b\r\n") << "what belongs to a connection is left out";
  EXPECT_EQ(stored->body, std::string_view("\0\1\2\3", 4));
}

TEST(ReadAction, refuses_what_it_does_not_understand) {
  for (const std::string_view wrong :
       {"{}", R"({"version":""})", R"({"version":"v"})", R"({"version":"v","state":"unknown"})",
        R"({"version":"v","state":"failed","response":{"status":200}})",
        R"({"version":"v","state":"succeeded","response":{"status":199}})",
        R"({"version":"v","state":"succeeded","response":{"status":200,"headers":[["A b","c"]]}})",
        R"({"version":"v","state":"succeeded","response":{"status":200,"headers":[["A","c\r\nX: y"]]}})",
        R"({"version":"v","state":"succeeded","response":{"status":200,"body_base64":"%%%%"}})",
        R"({"version":"v","state":"succeeded","response":{"status":200,"body":"a","body_base64":"AAAA"}})"}) {
    EXPECT_FALSE(read_action(Action::resolve, wrong).has_value()) << wrong;
  }
  EXPECT_TRUE(read_action(Action::forget, R"({"version":"v"})").has_value());
}

}  // namespace
}  // namespace once
