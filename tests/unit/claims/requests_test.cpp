#include "claims/requests.hpp"

#include <gtest/gtest.h>

namespace once::claims::requests_test {

using namespace std::chrono_literals;

constexpr Duration longest = 1min;

TEST(ClaimRequest, has_defaults) {
  const auto asked = read_claim(R"({"scope":"s","key":"k"})", longest);
  ASSERT_TRUE(asked.has_value()) << asked.error();
  EXPECT_EQ(asked->name.scope, "s");
  EXPECT_EQ(asked->name.kind, KeyKind::given);
  EXPECT_EQ(asked->name.key, "k");
  EXPECT_EQ(asked->name.wait, 0ms);
  EXPECT_EQ(asked->terms.ttl, 24h);
  EXPECT_EQ(asked->terms.lease, 30s);
  EXPECT_EQ(asked->terms.takeover_after, 5min);
  EXPECT_EQ(asked->terms.on_unknown, OnUnknown::takeover);
  EXPECT_EQ(asked->terms.owner, Owner::outside);
  EXPECT_FALSE(asked->nonce.has_value());
  EXPECT_FALSE(asked->fingerprint.has_value());
}

TEST(ClaimRequest, has_every_member) {
  const auto asked = read_claim(
      R"({"scope":"s","inputs":{"b":1.0,"a":null},"fingerprint":[2,1],"ttl":"7d","lease":"1m","takeover_after":"0s",)"
      R"("on_unknown":"hold","wait":"10s","nonce":"000102030405060708090a0b0c0d0e0F"})",
      longest);
  ASSERT_TRUE(asked.has_value()) << asked.error();
  EXPECT_EQ(asked->name.kind, KeyKind::inputs);
  EXPECT_EQ(asked->name.key, R"({"a":null,"b":1})");
  EXPECT_EQ(asked->fingerprint, "[2,1]");
  EXPECT_EQ(asked->terms.ttl, 24h * 7);
  EXPECT_EQ(asked->terms.lease, 1min);
  EXPECT_EQ(asked->terms.takeover_after, 0ms);
  EXPECT_EQ(asked->terms.on_unknown, OnUnknown::hold);
  EXPECT_EQ(asked->name.wait, 10s);
  ASSERT_TRUE(asked->nonce.has_value());
  EXPECT_EQ(to_hex(*asked->nonce), "000102030405060708090a0b0c0d0e0f");
}

TEST(ClaimRequest, a_longer_wait_is_cut) {
  EXPECT_EQ(read_claim(R"({"scope":"s","key":"k","wait":"1h"})", longest)->name.wait, longest);
  EXPECT_EQ(read_lookup_query("scope=s&key=k&wait=1h", longest)->wait, longest);
}

TEST(ClaimRequest, mistakes_are_named) {
  const auto mistake = [](std::string_view body) {
    const auto asked = read_claim(body, longest);
    return asked ? "" : asked.error();
  };
  EXPECT_EQ(mistake(R"({"key":"k"})"), R"("scope" is missing.)");
  EXPECT_EQ(mistake(R"({"scope":"s","key":"k","leese":"1s"})"), R"(Unknown member "leese"; did you mean "lease"?)");
  EXPECT_EQ(mistake(R"({"scope":"s","key":"k","lease":"1h","ttl":"1h"})"), R"("lease" must be shorter than "ttl".)");
  EXPECT_EQ(mistake(R"({"scope":"s","key":"k","lease":"25h"})"),
            R"("lease" must be a duration from 1s to 24h, such as "30s".)");
  EXPECT_EQ(mistake(R"({"scope":"s","key":"a\u0000b"})"),
            R"("key" must have 1 to 255 bytes, and no control characters.)");
  EXPECT_EQ(mistake(R"({"scope":"s","key":null})"), R"("key" must be a string.)");
}

TEST(LookupQuery, is_percent_decoded) {
  const auto asked = read_lookup_query("scope=a%20b+c&key=%c3%a9%26%3D&wait=1s", longest);
  ASSERT_TRUE(asked.has_value()) << asked.error();
  EXPECT_EQ(asked->scope, "a b c");
  EXPECT_EQ(asked->key, "\xc3\xa9&=");
  EXPECT_EQ(asked->wait, 1s);
  for (const char* bad :
       {"", "scope=a", "key=a", "scope=a&key=%", "scope=a&key=%4", "scope=a&key=%4x", "scope=a&key=%ff",
        "scope=a&key=%00", "scope=a&key=b&key=c", "scope=a&key=b&other=c", "scope=&key=b"}) {
    EXPECT_FALSE(read_lookup_query(bad, longest).has_value()) << bad;
  }
}

TEST(ProgressRequest, has_a_number_and_any_json) {
  const auto asked = read_progress(R"({"data": [1.0, "a"] ,"number":7})");
  ASSERT_TRUE(asked.has_value()) << asked.error();
  EXPECT_EQ(asked->number, 7U);
  EXPECT_EQ(asked->data, R"([1.0, "a"])");
  for (const char* bad :
       {"", R"({"number":0})", R"({"data":0})", R"({"number":-1,"data":0})", R"({"number":1.0,"data":0})",
        R"({"number":"1","data":0})", R"({"number":1000000001,"data":0})",
        R"({"number":99999999999999999999,"data":0})", R"({"number":0,"data":0,"x":0})"}) {
    EXPECT_FALSE(read_progress(bad).has_value()) << bad;
  }
}

TEST(FollowRequest, begins_at_the_first_piece_unless_it_says_otherwise) {
  const auto all = read_follow(R"({"scope":"s","key":"k"})", longest);
  ASSERT_TRUE(all.has_value()) << all.error();
  EXPECT_EQ(all->place.from, 0U);
  EXPECT_FALSE(all->place.fence.has_value());
  for (const auto& asked : {read_follow(R"({"scope":"s","key":"k","from":3,"fence":7,"wait":"1h"})", longest),
                            read_follow_query("scope=s&key=k&from=3&fence=7&wait=1h", longest)}) {
    ASSERT_TRUE(asked.has_value()) << asked.error();
    EXPECT_EQ(asked->name.key, "k");
    EXPECT_EQ(asked->name.wait, longest);
    EXPECT_EQ(asked->place.from, 3U);
    EXPECT_EQ(asked->place.fence, Fence{7});
  }
  for (const char* bad : {"scope=s&key=k&from=x", "scope=s&key=k&fence=", "scope=s&key=k&from=-1", "scope=s&from=1",
                          "scope=s&key=k&from=1&from=1"}) {
    EXPECT_FALSE(read_follow_query(bad, longest).has_value()) << bad;
  }
}

TEST(OwnerRequests, take_an_empty_body_where_nothing_is_needed) {
  EXPECT_FALSE(read_renew("").value().has_value());
  EXPECT_EQ(read_renew(R"({"lease":"5s"})").value(), 5s);
  EXPECT_EQ(read_fail(""), "");
  EXPECT_EQ(read_fail(R"({"reason":"no"})"), "no");
  EXPECT_EQ(read_fail(R"({"reason":")" + std::string(1000, 'x') + "\"}")->size(), longest_reason);
  EXPECT_TRUE(read_release("").has_value());
  EXPECT_TRUE(read_release("{}").has_value());
  EXPECT_FALSE(read_release(R"({"x":1})").has_value());
  EXPECT_FALSE(read_succeed("").has_value());
}

TEST(OwnerRequests, a_value_is_the_bytes_that_were_sent) {
  const std::string body = R"({"ttl":"1h", "value" : {"b": 1.0, "a": [ ]} })";
  const auto asked = read_succeed(body);
  ASSERT_TRUE(asked.has_value()) << asked.error();
  EXPECT_EQ(asked->value, R"({"b": 1.0, "a": [ ]})");
  EXPECT_EQ(asked->ttl, 1h);
  EXPECT_EQ(read_succeed(R"({"value":null})")->value, "null");
}

}  // namespace once::claims::requests_test
