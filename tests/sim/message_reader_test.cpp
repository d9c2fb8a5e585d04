// The simulator's own parser of messages: what it must refuse, whoever wrote it.
#include "sim/message_reader.hpp"

#include <gtest/gtest.h>

namespace once::sim {
namespace message_reader_test {

std::string problem_of(MessageReader::Of of, std::string_view bytes) {
  MessageReader reader(of);
  reader.expect("GET");
  reader.feed(bytes);
  return reader.problem();
}

TEST(MessageReader, reads_messages_however_they_are_split) {
  constexpr std::string_view text =
      "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
      "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno";
  for (std::size_t at = 0; at <= text.size(); ++at) {
    MessageReader reader(MessageReader::Of::responses);
    reader.expect("GET");
    reader.expect("GET");
    std::vector<Message> got;
    reader.on_message = [&](const Message& message) { got.push_back(message); };
    reader.feed(text.substr(0, at));
    reader.feed(text.substr(at));
    ASSERT_EQ(got.size(), 2U) << at << reader.problem();
    EXPECT_EQ(got[0].body, "hello world");
    EXPECT_EQ(got[1].status, 404);
    EXPECT_EQ(got[1].body, "no");
    EXPECT_FALSE(reader.in_message());
  }
}

TEST(MessageReader, a_response_without_a_length_ends_with_its_connection) {
  MessageReader reader(MessageReader::Of::responses);
  reader.expect("GET");
  std::string body;
  reader.on_message = [&](const Message& message) { body = message.body; };
  reader.feed("HTTP/1.1 200 OK\r\n\r\nhello");
  EXPECT_TRUE(body.empty());
  reader.end();
  EXPECT_EQ(body, "hello");
}

TEST(MessageReader, refuses_what_is_not_well_framed) {
  for (const std::string_view bad : {
           "HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n",
           "HTTP/1.1 2000 OK\r\n\r\n",
           "HTTP/1.0 200 OK\r\n\r\n",
           "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
           "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
           "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
           "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
           "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n",
           "HTTP/1.1 200 OK\r\nNo field\r\n\r\n",
           "HTTP/1.1 200 OK\r\nSpace : x\r\n\r\n",
           "HTTP/1.1 200 OK\r\n folded\r\n\r\n",
           "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
           "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxx\r\n",
           "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\n",
       }) {
    EXPECT_NE(problem_of(MessageReader::Of::responses, bad), "") << bad;
  }
  for (const std::string_view bad : {"GET  / HTTP/1.1\r\n\r\n", "GET / HTTP/1.0\r\n\r\n", "GET /\r\n\r\n"}) {
    EXPECT_NE(problem_of(MessageReader::Of::requests, bad), "") << bad;
  }
}

TEST(MessageReader, a_switch_of_protocols_ends_messages) {
  MessageReader reader(MessageReader::Of::responses);
  reader.expect("GET");
  std::string tunnelled;
  reader.on_tunnel = [&](std::string_view bytes) { tunnelled.append(bytes); };
  reader.feed("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\nno HTTP");
  EXPECT_TRUE(reader.in_tunnel());
  EXPECT_EQ(tunnelled, "no HTTP");
}

}  // namespace message_reader_test
}  // namespace once::sim
