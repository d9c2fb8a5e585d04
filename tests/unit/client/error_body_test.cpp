#include "client/error_body.hpp"

#include <gtest/gtest.h>

namespace once::client::error_body_test {

using Says = Reply::Says;

TEST(ClientErrorBody, problem_document) {
  const ErrorBody body = read_error_body(
      R"({"type":"urn:x","status":409,"code":"in-flight","retryable":true,"more":[1,{"code":"no"},null]})");
  EXPECT_EQ(body.code, "in-flight");
  EXPECT_EQ(body.says, Says::retryable);
  EXPECT_EQ(read_error_body(R"( { "retryable" : false } )").says, Says::not_retryable);
}

TEST(ClientErrorBody, error_object) {
  const auto* text = R"({"error":{"type":"idempotency_error","code":"idempotency_key_in_use","retryable":false}})";
  EXPECT_EQ(read_error_body(text).code, "idempotency_key_in_use");
  EXPECT_EQ(read_error_body(text).says, Says::nothing) << "only a problem document's own word counts";
  EXPECT_EQ(read_error_body(R"({"error":{"code":"inner"},"code":"outer"})").code, "outer");
}

TEST(ClientErrorBody, text_for_people) {
  EXPECT_EQ(read_error_body(R"({"code":"x","detail":"Give \"a\"."})").detail, R"(Give "a".)");
  EXPECT_EQ(read_error_body(R"({"error":{"message":"inner","detail":"no"}})").detail, "inner");
  EXPECT_EQ(read_error_body(R"({"error":{"message":"inner"},"detail":"outer","message":"no"})").detail, "outer");
  EXPECT_EQ(read_error_body(R"({"detail":["no"]})").detail, "");
}

TEST(ClientErrorBody, what_is_not_understood_says_nothing) {
  for (const std::string& text :
       {std::string(""), std::string("<html>"), std::string(R"(["code","in-flight"])"), std::string(R"({"code":409})"),
        std::string(R"({"data":{"code":"in-flight"}})"), std::string(R"({"code":"in-flight")"),
        std::string(R"({"code":"in-flight"} x)"), std::string(1000, '['), R"({"a":)" + std::string(1000, '[')}) {
    SCOPED_TRACE(text.substr(0, 60));
    EXPECT_EQ(read_error_body(text).code, "");
    EXPECT_EQ(read_error_body(text).says, Says::nothing);
  }
}

}  // namespace once::client::error_body_test
