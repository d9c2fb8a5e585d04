#include "core/headers.hpp"

#include <string>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "core/outcome.hpp"

namespace once::core::headers_test {

std::string upper(std::string text) {
  for (char& c : text) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - ('a' - 'A'));
  }
  return text;
}

TEST(Headers, names_are_compared_without_case) {
  EXPECT_TRUE(same_name("Content-Type", "content-TYPE"));
  EXPECT_FALSE(same_name("Content-Type", "Content-Typ"));
  EXPECT_FALSE(same_name("Content-Type", "Content_Type"));
  EXPECT_TRUE(same_name("", ""));
}

TEST(Headers, only_letters_have_case) {
  EXPECT_FALSE(same_name("a\rb", "a-b"));  // differ in the bit that tells upper from lower
  EXPECT_FALSE(same_name("@", "`"));
  EXPECT_FALSE(is_hop_by_hop("Keep\rAlive"));
}

TEST(Headers, what_belongs_to_a_connection_is_hop_by_hop) {
  for (const std::string name : {"Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate",
                                 "Proxy-Authorization", "TE", "Trailer", "Transfer-Encoding", "Upgrade"}) {
    EXPECT_TRUE(is_hop_by_hop(name)) << name;
    EXPECT_TRUE(is_hop_by_hop(upper(name))) << name;
    EXPECT_FALSE(is_hop_by_hop(name + "x")) << name;
    EXPECT_FALSE(is_hop_by_hop(name.substr(1))) << name;
  }
  for (const char* name : {"Content-Type", "Via", "Alt-Svc", "Authorization", "Trace", "", "Connectiom"}) {
    EXPECT_FALSE(is_hop_by_hop(name)) << name;
  }
}

TEST(Headers, a_connection_header_names_others) {
  EXPECT_TRUE(named_in_connection("close", "Close"));
  EXPECT_TRUE(named_in_connection("keep-alive,\tX-Secret ,close", "x-secret"));
  EXPECT_TRUE(named_in_connection(" , ,x", "X"));
  EXPECT_FALSE(named_in_connection("x-secret-2, x", "x-secret"));
  EXPECT_FALSE(named_in_connection("x-secret x-other", "x-secret"));
  EXPECT_FALSE(named_in_connection("", "x"));
  EXPECT_FALSE(named_in_connection("a,,b", ""));
}

TEST(Headers, a_backend_cannot_say_what_only_the_gateway_says) {
  for (const char* name : {"Idempotency-Status", "Idempotency-Replayed", "Idempotent-Replayed", "Idempotency-Expires",
                           "Original-Request-Id", "Idempotency-Policy"}) {
    EXPECT_TRUE(is_reserved_response_header(name)) << name;
    EXPECT_TRUE(is_reserved_response_header(upper(name))) << name;
    EXPECT_FALSE(is_stored(name, RecordPolicy())) << name;
  }
  EXPECT_FALSE(is_reserved_response_header("Idempotency-Key"));
}

TEST(Headers, a_client_cannot_say_what_only_the_gateway_says) {
  for (const char* name : {"Idempotency-Attempt", "Idempotency-Fence", "Idempotency-Claim"}) {
    EXPECT_TRUE(is_reserved_request_header(name)) << name;
    EXPECT_TRUE(is_reserved_request_header(upper(name))) << name;
  }
  EXPECT_FALSE(is_reserved_request_header("Idempotency-Key"));
  EXPECT_FALSE(is_reserved_request_header("X-Idempotency-Key"));
}

TEST(Headers, what_belongs_to_one_reply_is_not_stored) {
  for (const char* name : {"Set-Cookie", "Date", "Content-Length", "X-Request-Id", "Connection", "Transfer-Encoding"}) {
    EXPECT_FALSE(is_stored(name, default_record_policy())) << name;
    EXPECT_FALSE(is_stored(upper(name), default_record_policy())) << name;
  }
  for (const char* name : {"Content-Type", "ETag", "Location", "Via", "Alt-Svc", "Stream-Next-Offset",
                           "Content-Encoding", "Data", "Set-Cookies"}) {
    EXPECT_TRUE(is_stored(name, default_record_policy())) << name;
  }
}

TEST(Headers, an_operator_can_keep_more_headers_out_of_the_store) {
  RecordPolicy policy;
  policy.drop_headers = {"Access-Control-Allow-Origin", "X-Trace"};
  EXPECT_FALSE(is_stored("access-control-allow-origin", policy));
  EXPECT_FALSE(is_stored("X-TRACE", policy));
  EXPECT_TRUE(is_stored("X-Trace-2", policy));
}

TEST(Headers, cookies_are_stored_only_when_asked_for) {
  RecordPolicy policy;
  EXPECT_FALSE(is_stored("Set-Cookie", policy));
  policy.set_cookie = SetCookie::keep;
  EXPECT_TRUE(is_stored("set-cookie", policy));
}

TEST(Methods, every_name_is_read_back) {
  for (const Method method : {Method::get, Method::head, Method::post, Method::put, Method::patch, Method::delete_,
                              Method::options, Method::connect, Method::trace, Method::query}) {
    EXPECT_EQ(parse_method(method_name(method)), method);
  }
}

TEST(Methods, case_counts_and_the_rest_is_other) {
  for (const char* name : {"post", "Post", "", "POSTS", "PURGE", "PROPFIND"}) {
    EXPECT_EQ(parse_method(name), Method::other) << name;
  }
  EXPECT_EQ(method_name(Method::other), "");
}

TEST(Methods, safe_ones_ask_for_nothing_to_be_done) {
  for (const Method method : {Method::get, Method::head, Method::options, Method::trace, Method::query}) {
    EXPECT_TRUE(is_safe(method));
  }
  for (const Method method :
       {Method::post, Method::put, Method::patch, Method::delete_, Method::connect, Method::other}) {
    EXPECT_FALSE(is_safe(method));
  }
}

TEST(Methods, a_set_holds_what_it_was_given) {
  const MethodSet set = methods({Method::post, Method::other});
  EXPECT_TRUE(contains(set, Method::post));
  EXPECT_TRUE(contains(set, Method::other));
  EXPECT_FALSE(contains(set, Method::patch));
}

RC_GTEST_PROP(HeadersProperty, case_never_matters, (const std::string& name)) {
  RC_ASSERT(same_name(name, upper(name)));
  RC_ASSERT(is_stored(name, default_record_policy()) == is_stored(upper(name), default_record_policy()));
}

TEST(Headers, methods_in_other_letters_are_misspelled) {
  for (const std::string_view name : {"post", "Post", "dELETE", "get"}) EXPECT_TRUE(misspells_method(name)) << name;
  for (const std::string_view name : {"POST", "GET", "PURGE", "purge", "posts", ""}) {
    EXPECT_FALSE(misspells_method(name)) << name;
  }
}

}  // namespace once::core::headers_test
