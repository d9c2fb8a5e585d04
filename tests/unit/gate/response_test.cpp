// Responses of handlers, and the replies that are made of them.
#include "gate/response.hpp"

#include <string>

#include <gmock/gmock.h>

#include "tests/unit/gate/gate_world.hpp"

namespace once::gate::response_test {

TEST(PreparedResponses, fields_are_those_that_were_given) {
  const auto prepared = prepare({.status = 200,
                                 .fields = {{"A", "1"}, {"a", " 2 "}, {"Transfer-Encoding", "chunked"}, {"Date", "x"}},
                                 .body = "body"});
  ASSERT_TRUE(prepared.has_value()) << prepared.error();
  const http::ResponseHead& head = (*prepared)->head;
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.reason, "OK");
  ASSERT_EQ(head.fields.size(), 3U);
  EXPECT_EQ(head.fields[1].value, "2");
  EXPECT_TRUE((*prepared)->dated);
}

TEST(PreparedResponses, what_could_become_another_response_is_refused) {
  EXPECT_FALSE(prepare({.status = 101}).has_value());
  EXPECT_FALSE(prepare({.status = 600}).has_value());
  EXPECT_FALSE(prepare({.reason = "a\r\nb: c"}).has_value());
  EXPECT_FALSE(prepare({.fields = {{"a", "1\nb: 2"}}}).has_value());
  EXPECT_FALSE(prepare({.fields = {{"a", "1\r\nb: 2"}}}).has_value());
  EXPECT_FALSE(prepare({.fields = {{"a\r\nb", "1"}}}).has_value());
  EXPECT_FALSE(prepare({.fields = {{"", "1"}}}).has_value());
  EXPECT_FALSE(prepare({.fields = {{"a b", "1"}}}).has_value());
  EXPECT_FALSE(prepare({.fields = {{"a", std::string("1\0", 2)}}}).has_value());
}

TEST(Replies, date_and_length_are_left_to_the_server_of_the_program) {
  gateway::Reply reply;
  reply.status = 200;
  reply.reason = "Fine";
  reply.fields.add("Date", "now");
  reply.fields.add("A", "b: c");
  reply.body = "body";
  const Reply replayed = sendable(reply, nullptr);
  EXPECT_EQ(replayed.reason, "Fine");
  EXPECT_EQ(replayed.fields, (std::vector<Field>{{"A", "b: c"}, {"Content-Length", "4"}}));
  EXPECT_EQ(replayed.body, "body");
  PreparedResponse streamed;
  streamed.body_kept = BodyKept::no;
  streamed.dated = true;
  streamed.length = "99";
  reply.body = streamed.body;
  const Reply sent = sendable(reply, &streamed);
  EXPECT_TRUE(sent.body_is_yours);
  EXPECT_EQ(sent.fields, (std::vector<Field>{{"Date", "now"}, {"A", "b: c"}, {"Content-Length", "99"}}));
}

// The handler has recorded its outcome in a transaction: that is what its client gets, whatever it streams.
TEST(Replies, recorded_outcome_takes_the_place_of_a_stream) {
  PreparedResponse streamed;
  streamed.body_kept = BodyKept::no;
  gateway::Reply reply;
  reply.status = 201;
  reply.body = "committed";
  const Reply sent = sendable(reply, &streamed);
  EXPECT_FALSE(sent.body_is_yours);
  EXPECT_EQ(sent.body, "committed");
}

}  // namespace once::gate::response_test
