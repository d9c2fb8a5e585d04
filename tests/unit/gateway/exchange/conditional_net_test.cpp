// Conditional requests on the network: which responses get a tag, and which writes are let in.
#include <gtest/gtest.h>

#include "tests/unit/support/sim_stage.hpp"

namespace once::sim {
namespace conditional_net_test {

using namespace std::chrono_literals;

constexpr std::size_t too_large = (std::size_t{1} << 20U) + 1;

void conditional(ServingSettings& all) {
  Policy& policy = all.routes[0].policy;
  policy.conditional = {.etag = Etags::on, .if_match = IfMatch::on};
  policy.methods.set(static_cast<std::size_t>(Method::put));
  policy.max_request_body = 1000;
  policy.max_large_request = 0;
  policy.wait_limit = 200ms;
}

std::string request(std::string_view line, std::string_view fields = "", std::string_view body = "") {
  return fmt::format("{} HTTP/1.1\r\nHost: api.test\r\n{}\r\n{}", line, fields, body);
}
std::string put(std::string_view fields, std::string_view body = "new", std::string_view path = "/doc") {
  return request(fmt::format("PUT {}", path), fmt::format("{}Content-Length: {}\r\n", fields, body.size()), body);
}

Message ask(Stage& stage, std::string_view text) {
  StageClient& client = stage.client();
  client.ask(text);
  stage.run(1s);
  return client.response();
}

void answer(const Stage::Served& served, std::string_view head, std::string_view body) {
  served.peer.send(fmt::format("HTTP/1.1 {}\r\nContent-Length: {}\r\n\r\n", head, body.size()));
  if (served.request.method != "HEAD") served.peer.send(body);
}

TEST(ConditionalOnNet, a_tag_is_given_to_whole_responses_that_are_not_too_large) {
  struct Case {
    std::string_view line, fields, head, body;
    bool tagged;
  };
  const std::string large(too_large, 'x');
  for (const auto& [line, fields, head, body, tagged] :
       {Case{"GET /doc", "", "200 OK", "first", true}, Case{"GET /doc", "", "200 OK", large, false},
        Case{"GET /doc", "Range: bytes=0-4\r\n", "206 Partial Content", "first", false},
        Case{"GET /doc", "", "404 Not Found", "first", false}, Case{"HEAD /doc", "", "200 OK", "first", false},
        Case{"GET /doc", "", "200 OK\r\nContent-Type: text/event-stream", "first", false},
        Case{"GET /doc", "", "200 OK\r\nETag: \"its-own\"", "first", true}}) {
    Stage stage(conditional);
    stage.serve = [&, head = head, body = body](const Stage::Served& served) { answer(served, head, body); };
    const Message response = ask(stage, request(line, fields));
    EXPECT_EQ(response.has("ETag"), tagged) << line << fields << head;
    if (response.framing != Message::Framing::none) EXPECT_EQ(response.body, body);
    stage.finish();
  }
}

TEST(ConditionalOnNet, a_chunked_response_is_tagged_and_one_that_is_slow_goes_on_without) {
  for (const bool slow : {false, true}) {
    Stage stage(conditional);
    stage.serve = [&](const Stage::Served& served) {
      served.peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n");
      stage.world.after(slow ? 1min : 0s, [peer = &served.peer] { peer->send("0\r\n\r\n"); });
    };
    StageClient& client = stage.client();
    client.ask(request("GET /doc"));
    stage.run(30s);
    EXPECT_TRUE(client.bytes.contains("first")) << "before it has ended";
    stage.run(1min);
    EXPECT_EQ(client.response().has("ETag"), !slow);
    EXPECT_EQ(client.response().body, "first");
    stage.finish();
  }
}

TEST(ConditionalOnNet, a_write_is_let_in_or_refused_before_it_is_sent) {
  struct Case {
    std::string_view fields;
    std::string path, body, state;  // the head of the response to GET
    int status;
  };
  for (const auto& [fields, path, body, state, status] :
       {Case{"If-Match: *\r\n", "/doc", "new", "200 OK", 200},
        Case{"If-Match: \"x\"\r\n", "/doc", "new", "200 OK", 412},
        Case{"If-Match: *\r\n", "/doc", "new", "404 Not Found", 412},
        Case{"If-None-Match: *\r\n", "/doc", "new", "404 Not Found", 200},
        Case{"If-None-Match: *\r\n", "/doc", "new", "200 OK", 412},
        Case{"If-Match: abc\r\n", "/doc", "new", "200 OK", 400},
        Case{"If-Match: \"open\r\n", "/doc", "new", "200 OK", 400},
        Case{"If-Match: *, \"a\"\r\n", "/doc", "new", "200 OK", 400},
        Case{"If-Match: *\r\n", "/doc", "new", "500 Broken", 502},
        Case{"If-Match: *\r\n", "/doc", "new", "403 Forbidden", 412},
        Case{"If-Match: *\r\n", "/doc", std::string(1001, 'x'), "200 OK", 413},
        Case{"", "/doc", "new", "500 Broken", 200}}) {
    for (const std::string_view key : {"", "Idempotency-Key: k\r\n"}) {
      Stage stage(conditional);
      std::size_t written = 0;
      stage.serve = [&, state = state](const Stage::Served& served) {
        if (!served.whole) return;
        if (served.request.method == "GET") return answer(served, state, "first");
        ++written;
        EXPECT_FALSE(served.request.has("If-Match") || served.request.has("If-None-Match"));
        answer(served, "200 OK", "written");
      };
      EXPECT_EQ(ask(stage, put(fmt::format("{}{}", fields, key), body, path)).status, status) << fields << state << key;
      EXPECT_EQ(written, status == 200 ? 1U : 0U) << fields << state << key;
      stage.finish();
    }
  }
}

// Its body is read first, so that a slow client holds up nobody; and asked for if it waits for that.
TEST(ConditionalOnNet, a_slow_uploader_does_not_make_another_writer_wait) {
  for (const bool chunked : {false, true}) {
    Stage stage(conditional);
    std::vector<std::string> written;
    stage.serve = [&](const Stage::Served& served) {
      if (!served.whole) return;
      if (served.request.method == "PUT") written.push_back(served.request.body);
      answer(served, "200 OK", "first");
    };
    StageClient& slow = stage.client();
    slow.ask(request("PUT /doc", chunked ? "If-Match: *\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n"
                                         : "If-Match: *\r\nExpect: 100-continue\r\nContent-Length: 6\r\n"));
    stage.run(1s);
    EXPECT_EQ(slow.interim.size(), 1U);
    slow.peer->send(chunked ? "3\r\nabc\r\n" : "abc");
    EXPECT_EQ(ask(stage, put("If-Match: *\r\n")).status, 200);
    slow.peer->send(chunked ? "3\r\ndef\r\n0\r\n\r\n" : "def");
    stage.run(1s);
    EXPECT_EQ(slow.response().status, 200);
    EXPECT_EQ(written, (std::vector<std::string>{"new", "abcdef"}));
    stage.finish();
  }
}

// The writer that is at the backend keeps the resource, also when its client has left, until the whole response is
// here.
TEST(ConditionalOnNet, a_resource_is_free_when_its_writer_has_ended_and_not_when_its_client_left) {
  const std::string whole = "HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n" + std::string(2000, 'x');
  for (const std::string_view key : {"", "Idempotency-Key: k\r\n"}) {
    for (const std::size_t early : {0U, 1000U}) {
      for (const std::size_t cut : {0U, 1U}) {
        Stage stage([](ServingSettings& all) {
          conditional(all);
          all.routes[0].policy.lease = 5min;
          all.routes[0].policy.record.max_body = 500;
        });
        Peer* backend = nullptr;
        stage.serve = [&](const Stage::Served& served) {
          if (!served.whole) return;
          if (served.request.method == "GET" || served.request.body == "next") return answer(served, "200 OK", "state");
          backend = &served.peer;
          served.peer.send(whole.substr(0, early));
        };
        StageClient& writer = stage.client();
        writer.ask(put(fmt::format("If-Match: *\r\n{}", key)));
        stage.run(1s);
        writer.peer->reset();
        stage.run(1s);
        // Another spelling of the path is the same resource.
        EXPECT_EQ(ask(stage, put("If-Match: *\r\n", "next", "/%64oc")).status, 409);
        ASSERT_NE(backend, nullptr);
        backend->send(whole.substr(early, whole.size() - early - cut));
        backend->close();
        stage.run(1s);
        EXPECT_EQ(ask(stage, put("If-Match: *\r\n", "next")).status, cut == 0 ? 200 : 409) << key << early;
        stage.finish();
      }
    }
  }
}

}  // namespace conditional_net_test
}  // namespace once::sim
