#include "gateway/connection/cors.hpp"

#include <gmock/gmock.h>

#include "base/assert.hpp"

namespace once::gateway::cors_test {

using testing::HasSubstr;
using testing::Not;

class Cors : public testing::Test {
 protected:
  Cors() { policy.cors.origins = {"https://app.example", "https://other.example"}; }

  const http::RequestHead& request(const std::string& fields, const std::string& method = "GET") {
    text_ = method + " / HTTP/1.1\r\nHost: api\r\n" + fields + "\r\n";
    ONCE_ASSERT(http::parse(text_, http::HeadLimits(), head_).parsed == http::Parsed::complete);
    return head_;
  }
  std::string applied(const std::string& fields, std::string_view lines) {
    Fields response;
    response.add(FieldsView::of_lines(lines));
    CorsGrant(policy, request(fields)).apply(response);
    return std::string(response.lines());
  }

  Policy policy;

 private:
  std::string text_;
  http::RequestHead head_;
};

const std::string ours =
    "Access-Control-Expose-Headers: Idempotency-Status, Original-Request-Id, Idempotency-Expires, Idempotency-Attempt, "
    "Idempotency-Offset, Idempotency-Stopped, X-Request-Id, Retry-After, X-Should-Retry, ETag, Idempotency-Replayed";

TEST_F(Cors, what_was_said_to_another_origin_is_replaced) {
  EXPECT_EQ(applied("Origin: https://app.example\r\n",
                    "access-control-allow-origin: https://other.example\r\n"
                    "Access-Control-Allow-Credentials: true\r\nAccess-Control-Allow-Methods: GET\r\nX: y\r\n"),
            "X: y\r\nAccess-Control-Allow-Origin: https://app.example\r\n" + ours + "\r\nVary: Origin\r\n");
}

TEST_F(Cors, what_the_backend_exposes_stays_exposed) {
  EXPECT_THAT(applied("Origin: https://app.example\r\n",
                      "Access-Control-Expose-Headers: X-Total, etag,,\r\n"
                      "Access-Control-Expose-Headers: X-More\r\n"),
              HasSubstr(ours + ", X-Total, X-More\r\n"));
}

TEST_F(Cors, vary_is_said_once) {
  for (const char* vary : {"Vary: Accept, origin\r\n", "Vary: *\r\n"}) {
    const std::string head = applied("Origin: https://app.example\r\n", vary);
    EXPECT_THAT(head, HasSubstr(vary));
    EXPECT_THAT(head, Not(HasSubstr("Vary: Origin")));
  }
  EXPECT_THAT(applied("Origin: https://app.example\r\n", "Vary: Accept\r\n"), HasSubstr("Vary: Accept\r\n"));
}

TEST_F(Cors, an_origin_that_is_not_listed_gets_the_backends_own_fields) {
  for (const char* origin :
       {"", "Origin: https://evil.example\r\n", "Origin: null\r\n", "Origin: https://APP.example\r\n",
        "Origin: https://app.example\r\nOrigin: https://other.example\r\n",
        "Origin: https://app.example.evil.example\r\n"}) {
    EXPECT_EQ(applied(origin, "Access-Control-Allow-Origin: *\r\n"),
              "Access-Control-Allow-Origin: *\r\nVary: Origin\r\n")
        << origin;
  }
}

TEST_F(Cors, credentials_and_everybody) {
  policy.cors.credentials = true;
  EXPECT_THAT(
      applied("Origin: https://other.example\r\n", ""),
      HasSubstr("Access-Control-Allow-Origin: https://other.example\r\nAccess-Control-Allow-Credentials: true\r\n"));
  policy.cors = {.origins = {"*"}, .credentials = false};
  EXPECT_THAT(applied("Origin: https://any.example\r\n", ""), HasSubstr("Access-Control-Allow-Origin: *\r\n"));
}

TEST_F(Cors, a_preflight_is_granted_what_it_asks_for_and_the_key) {
  const auto& head = request(
      "Origin: https://app.example\r\nAccess-Control-Request-Method: PUT\r\n"
      "Access-Control-Request-Headers: content-type, x-tenant,\r\n",
      "OPTIONS");
  EXPECT_TRUE(is_preflight(head));
  Reply reply;
  EXPECT_EQ(answer_preflight(policy, head, "id", reply), Preflight::answered);
  EXPECT_EQ(reply.status, 204);
  EXPECT_EQ(reply.fields.lines(),
            "Access-Control-Allow-Origin: https://app.example\r\n"
            "Access-Control-Allow-Methods: PUT\r\n"
            "Access-Control-Allow-Headers: content-type, x-tenant, Idempotency-Key\r\nAccess-Control-Max-Age: 600\r\n"
            "Vary: Origin, Access-Control-Request-Method, Access-Control-Request-Headers\r\nX-Request-Id: id\r\n");
}

TEST_F(Cors, a_preflight_of_a_lookup_or_a_stop_may_be_about_any_operation) {
  const auto methods = [&](const std::string& method, const std::string& headers) {
    const auto& head = request("Origin: https://app.example\r\nAccess-Control-Request-Method: " + method +
                                   "\r\nAccess-Control-Request-Headers: " + headers + "\r\n",
                               "OPTIONS");
    Method asked{};
    const auto found = preflight_routes(head, asked);
    return std::vector<Method>(found.begin(), found.end());
  };
  const std::vector<Method> operations = {Method::post, Method::put, Method::patch, Method::delete_};
  EXPECT_EQ(methods("GET", "idempotency-key,idempotency-lookup"), operations);
  EXPECT_EQ(methods("DELETE", "Authorization, Idempotency-Stop"), operations);
  EXPECT_EQ(methods("DELETE", "authorization"), std::vector<Method>{Method::delete_});
}

TEST_F(Cors, a_preflight_for_what_is_no_name_is_refused) {
  Reply reply;
  for (const char* fields : {"Access-Control-Request-Method: PU T\r\n", "Access-Control-Request-Method: \r\n",
                             "Access-Control-Request-Method: GET\r\nAccess-Control-Request-Method: PUT\r\n",
                             "Access-Control-Request-Method: PUT\r\nAccess-Control-Request-Headers: a, b c\r\n",
                             "Access-Control-Request-Method: PUT\r\nAccess-Control-Request-Headers: a:b\r\n"}) {
    const auto& head = request(std::string("Origin: https://app.example\r\n") + fields, "OPTIONS");
    EXPECT_EQ(answer_preflight(policy, head, "id", reply), Preflight::malformed) << fields;
  }
  EXPECT_FALSE(is_preflight(request("Origin: https://app.example\r\n", "OPTIONS")));
  EXPECT_FALSE(is_preflight(request("Access-Control-Request-Method: PUT\r\n", "OPTIONS")));
}

}  // namespace once::gateway::cors_test
