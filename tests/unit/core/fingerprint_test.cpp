#include "core/fingerprint.hpp"

#include <string>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace once::core::fingerprint_test {

using Body = FingerprintPolicy::Body;

Fingerprint raw(std::string_view method, std::string_view target, std::string_view type, std::string_view body) {
  return fingerprint(FingerprintPolicy(), method, target, type, body);
}

Fingerprint json(std::string_view body, std::string_view type = "application/json", FingerprintPolicy policy = {}) {
  policy.body = Body::json;
  return fingerprint(policy, "POST", "/pay", type, body);
}

TEST(Fingerprint, everything_the_request_asks_for_counts) {
  const Fingerprint one = raw("POST", "/pay?x=1", "text/plain", "body");
  EXPECT_EQ(one, raw("POST", "/pay?x=1", "text/plain", "body"));
  EXPECT_NE(one, raw("PUT", "/pay?x=1", "text/plain", "body"));
  EXPECT_NE(one, raw("POST", "/pay?x=2", "text/plain", "body"));
  EXPECT_NE(one, raw("POST", "/pay?x=1", "text/html", "body"));
  EXPECT_NE(one, raw("POST", "/pay?x=1", "text/plain", "body2"));
}

TEST(Fingerprint, bytes_do_not_move_between_parts) {
  EXPECT_NE(raw("POST", "/a", "b", ""), raw("POST", "/ab", "", ""));
  EXPECT_NE(raw("POST", "/", "a", "b"), raw("POST", "/", "", "ab"));
  EXPECT_NE(raw("POST", "/", "ab", ""), raw("POST", "/", "a", "b"));
}

TEST(Fingerprint, a_media_type_counts_without_case_and_parameters) {
  const Fingerprint one = raw("POST", "/", "application/json", "{}");
  EXPECT_EQ(one, raw("POST", "/", "Application/JSON", "{}"));
  EXPECT_EQ(one, raw("POST", "/", " application/json ; charset=utf-8", "{}"));
  EXPECT_EQ(one, raw("POST", "/", "application/json;charset=UTF-8", "{}"));
  EXPECT_NE(one, raw("POST", "/", "", "{}"));
  EXPECT_EQ(raw("POST", "/", "", ""), raw("POST", "/", " \t", ""));
  EXPECT_EQ(raw("POST", "/", "", ""), raw("POST", "/", "; charset=utf-8", ""));
}

TEST(Fingerprint, a_media_type_of_any_length_counts_in_full) {
  const std::string type(255, 'a');
  EXPECT_EQ(raw("POST", "/", type, ""), raw("POST", "/", std::string(255, 'A'), ""));
  EXPECT_NE(raw("POST", "/", type, ""), raw("POST", "/", type + "a", ""));
  EXPECT_NE(raw("POST", "/", type + "a", ""), raw("POST", "/", type + "b", ""));
}

TEST(Fingerprint, a_json_body_counts_by_its_value) {
  EXPECT_EQ(json(R"({"amount":10,"to":"b"})"), json("{ \"to\":\"\\u0062\", \"amount\":1.0e1 }"));
  EXPECT_NE(json(R"({"amount":9007199254740993})"), json(R"({"amount":9007199254740992})"));
  EXPECT_EQ(json("{ }", "application/vnd.api+JSON; v=1"), json("{}", "application/vnd.api+json"));
}

TEST(Fingerprint, json_is_looked_at_only_under_a_json_media_type) {
  EXPECT_NE(json("{ }", "text/plain"), json("{}", "text/plain"));
  EXPECT_NE(json("{ }", ""), json("{}", ""));
}

TEST(Fingerprint, a_body_without_canonical_form_counts_by_its_bytes) {
  EXPECT_EQ(json("{\"a\":1,\"a\":2}"), json("{\"a\":1,\"a\":2}"));
  EXPECT_NE(json("{\"a\":1,\"a\":2}"), json("{\"a\":1, \"a\":2}"));
  EXPECT_EQ(json("{broken"), fingerprint(FingerprintPolicy(), "POST", "/pay", "application/json", "{broken"));
}

TEST(Fingerprint, a_canonical_body_and_the_same_raw_bytes_differ) {
  EXPECT_NE(json("{}"), fingerprint(FingerprintPolicy(), "POST", "/pay", "application/json", "{}"));
}

TEST(Fingerprint, include_and_exclude_choose_what_counts) {
  FingerprintPolicy exclude;
  exclude.exclude = {"/at"};
  EXPECT_EQ(json(R"({"a":1,"at":1})", "application/json", exclude),
            json(R"({"at":2,"a":1})", "application/json", exclude));
  EXPECT_NE(json(R"({"a":1})", "application/json", exclude), json(R"({"a":2})", "application/json", exclude));
  FingerprintPolicy include;
  include.include = {"/a"};
  EXPECT_EQ(json(R"({"a":1,"at":1})", "application/json", include),
            json(R"({"at":2,"a":1})", "application/json", include));
  EXPECT_NE(json("{}", "application/json", include), json(R"({"a":null})", "application/json", include));
}

TEST(Fingerprint, what_is_json) {
  for (const char* type : {"application/json", "APPLICATION/JSON", "application/json; charset=utf-8",
                           "application/problem+json", " application/ld+JSON\t;x"}) {
    EXPECT_TRUE(is_json(type)) << type;
  }
  for (const char* type : {"", "+json", "text/plain", "application/jsonl", "application/json-seq", "json",
                           "text/plain; x=+json", ";application/json"}) {
    EXPECT_FALSE(is_json(type)) << type;
  }
}

// Golden bytes, computed with Python's hashlib: fingerprints are stored, so these values must never change.
TEST(Fingerprint, is_stable_across_releases) {
  EXPECT_EQ(to_hex(raw("POST", "/pay?x=1", "Application/Json; charset=utf-8", "{\"b\": 1}")),
            "07c4c4c2c04b6e0c84a4ad861dc337cc2b0e7f15fe5950eba1cd2f23be9a3f6b");
  EXPECT_EQ(to_hex(json("{\"b\": 10, \"a\":\"\\u0041\"}")),
            "fa3bbdbb9e508ed5c32c45b1022f8c4f75c947fc2597d2fe49c7b80c75278c4f");
}

RC_GTEST_PROP(FingerprintProperty, raw_bodies_are_equal_only_if_their_bytes_are,
              (const std::string& a, const std::string& b)) {
  RC_ASSERT((raw("POST", "/", "", a) == raw("POST", "/", "", b)) == (a == b));
}

}  // namespace once::core::fingerprint_test
