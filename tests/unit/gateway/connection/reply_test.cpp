// Replies as they are written: dates, marks and lengths.
#include "gateway/connection/reply.hpp"

#include <gtest/gtest.h>

namespace once::gateway::reply_test {

const Wording plain;

Marks bare(Ending ending) {
  return {.ending = ending, .request_id = "r", .extra = {}, .expires_at = {}, .replay_header = {}, .wording = plain};
}

Time at(std::int64_t seconds) {
  return Time(std::chrono::seconds(seconds));
}

TEST(HttpDate, known_answers) {
  EXPECT_EQ(http_date(at(0)), "Thu, 01 Jan 1970 00:00:00 GMT");
  EXPECT_EQ(http_date(at(784'111'777)), "Sun, 06 Nov 1994 08:49:37 GMT");  // of RFC 9110
  EXPECT_EQ(http_date(at(951'782'400)), "Tue, 29 Feb 2000 00:00:00 GMT");
  EXPECT_EQ(http_date(at(1'709'251'199)), "Thu, 29 Feb 2024 23:59:59 GMT");
  EXPECT_EQ(http_date(at(1'767'225'599)), "Wed, 31 Dec 2025 23:59:59 GMT");
  EXPECT_EQ(http_date(at(1'767'225'600)), "Thu, 01 Jan 2026 00:00:00 GMT");
  EXPECT_EQ(http_date(at(4'102'444'800)), "Fri, 01 Jan 2100 00:00:00 GMT");
  EXPECT_EQ(http_date(at(253'402'300'799)), "Fri, 31 Dec 9999 23:59:59 GMT");
  // Cut, not rounded: a date is never ahead of its time.
  EXPECT_EQ(http_date(Time(std::chrono::milliseconds(1'999))), "Thu, 01 Jan 1970 00:00:01 GMT");
}

const StoredResponse stored{.status = 201,
                            .reason = "Created",
                            .headers = "Content-Type: text/plain\r\n",
                            .body = "made",
                            .original_request_id = "first"};

TEST(ReplyTest, a_first_response_says_executed_and_nothing_of_a_replay) {
  Reply reply;
  write_response(reply, stored,
                 {.ending = Ending::executed,
                  .request_id = "r1",
                  .extra = FieldsView::of_lines("Set-Cookie: s\r\n"),
                  .expires_at = at(0),
                  .replay_header = {},
                  .wording = plain});
  EXPECT_EQ(reply.fields.lines(),
            "Content-Type: text/plain\r\nSet-Cookie: s\r\nIdempotency-Status: executed\r\n"
            "Idempotency-Expires: Thu, 01 Jan 1970 00:00:00 GMT\r\nX-Request-Id: r1\r\n");
  EXPECT_EQ(reply.reason, "Created");
  EXPECT_EQ(reply.body, "made");
  EXPECT_EQ(reply.status, 201);
  EXPECT_EQ(reply.ending, Ending::executed);
}

TEST(ReplyTest, a_replay_says_so_and_whose) {
  Reply reply;
  write_response(reply, stored,
                 {.ending = Ending::replayed,
                  .request_id = "r2",
                  .extra = {},
                  .expires_at = {},
                  .replay_header = "Idempotent-Replayed",
                  .wording = plain});
  EXPECT_EQ(reply.fields.lines(),
            "Content-Type: text/plain\r\nIdempotency-Status: replayed\r\nIdempotent-Replayed: true\r\n"
            "Original-Request-Id: first\r\nX-Request-Id: r2\r\n");
}

TEST(ReplyTest, a_body_is_sent_only_where_the_status_has_one) {
  for (int status = 200; status <= 599; ++status) {
    Reply reply;
    write_response(reply, {.status = status, .body = "HTTP/1.1 200 OK\r\n\r\n"}, bare(Ending::replayed));
    const bool has_none = status == 204 || status == 205 || status == 304;
    EXPECT_EQ(reply.body.empty(), has_none) << status << ": the client would read it as another response";
  }
}

TEST(ReplyTest, a_length_is_said_where_there_may_be_a_body) {
  for (int status = 200; status <= 599; ++status) {
    EXPECT_EQ(says_length(status), status != 204 && status != 304) << status;
  }
}

struct EndlessSource final : http::ResponseSource {
  Task<http::BodyChunk> next(Duration) override {
    co_return http::BodyChunk{.kind = http::BodyChunk::Kind::end, .data = {}};
  }
  void done() override { ++times_done; }
  int times_done = 0;
};

TEST(ReplyTest, what_streams_is_let_go_with_the_reply) {
  EndlessSource source;
  Reply reply;
  reply.source = http::ResponseSourcePtr(&source);
  write_response(reply, stored, bare(Ending::executed));
  reply.reset();
  EXPECT_EQ(source.times_done, 1);
  EXPECT_TRUE(reply.fields.empty());
  EXPECT_EQ(reply.status, 0);
}

TEST(ReplyTest, a_problem_is_not_to_be_cached_and_says_when_to_come_back) {
  Problem problem = core::problem(ProblemKind::in_flight, "wait");
  problem.retry_after_seconds = 7;
  Reply reply;
  reply.outcome = std::make_shared<const std::string>("of the request before");
  write_problem(reply, problem, {.type_base = "urn:", .wording = plain}, "r1", Ending::in_flight);
  EXPECT_EQ(reply.status, 409);
  EXPECT_EQ(reply.outcome, nullptr);
  EXPECT_EQ(reply.body, to_json(problem, "urn:"));
  EXPECT_EQ(reply.reason, "Conflict");
  EXPECT_EQ(reply.fields.find("Content-Type"), "application/problem+json");
  EXPECT_EQ(reply.fields.find("Cache-Control"), "no-store");
  EXPECT_EQ(reply.fields.find("Retry-After"), "7");
  EXPECT_EQ(reply.fields.find("Idempotency-Status"), "in-flight");
  EXPECT_EQ(reply.fields.find("X-Request-Id"), "r1");
}

TEST(ReplyTest, a_request_id_of_the_backend_stays_where_stripes_libraries_look) {
  const Wording stripe{.error_object = true};
  for (const std::string_view given : {"Request-Id: req_1\r\n", "request-id: req_1\r\n", ""}) {
    StoredResponse response = stored;
    response.headers = given;
    Reply reply;
    write_response(reply, response,
                   {.ending = Ending::executed,
                    .request_id = "r",
                    .extra = {},
                    .expires_at = {},
                    .replay_header = {},
                    .wording = stripe});
    EXPECT_EQ((reply.fields.find("Request-Id") == "r"), given.empty());
    EXPECT_EQ(reply.fields.find("X-Request-Id"), "r");
  }
}

TEST(ReplyTest, a_problem_that_must_not_be_retried_says_so_where_libraries_look) {
  for (const ProblemRow& row : all_problems()) {
    for (const bool stripe : {false, true}) {
      Problem problem = core::problem(row.kind, "detail");
      problem.retry_after_seconds = 500;
      const Wording wording{.error_object = stripe};
      Reply reply;
      write_problem(reply, problem, {.type_base = "urn:", .wording = wording}, "r1", Ending::rejected);
      const bool again = row.retryable == Retryable::yes;
      EXPECT_EQ((reply.fields.find("X-Should-Retry") == "false"), !again) << row.name;
      EXPECT_EQ((reply.fields.find("Stripe-Should-Retry") == "false"), !again && stripe) << row.name;
      EXPECT_EQ((reply.fields.find("Retry-After") == "30"), again) << row.name;
      EXPECT_EQ(reply.fields.has("Retry-After"), again) << row.name;
      EXPECT_EQ((reply.fields.find("Request-Id") == "r1"), stripe) << row.name;
      EXPECT_EQ(reply.body.contains("\"error\":{\"type\":"), stripe) << row.name;
    }
  }
}

TEST(ReplyTest, a_problem_that_is_not_about_a_key_says_nothing_of_one) {
  Reply reply;
  write_problem(reply, problem(ProblemKind::bad_request, "no"), {.type_base = "urn:", .wording = plain}, "",
                Ending::rejected);
  EXPECT_FALSE(reply.fields.has("Idempotency-Status"));
  EXPECT_FALSE(reply.fields.has("X-Request-Id"));
  EXPECT_FALSE(reply.fields.has("Retry-After"));
}

}  // namespace once::gateway::reply_test
