// Messages between client and backend, with a key and without: which fields, lengths, interim responses and connections
// go on, and what becomes of a response that is not whole.
#include <array>

#include <gtest/gtest.h>

#include "tests/unit/support/sim_stage.hpp"

namespace once::sim {
namespace messages_net_test {

using namespace std::chrono_literals;

constexpr std::string_view fine = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
constexpr std::array keys = {"", "Idempotency-Key: k\r\n"};

// The backend answers /again as usual, and everything else with these bytes.
void answer_with(Stage& stage, std::string raw, bool closes = false) {
  stage.serve = [raw = std::move(raw), closes](const Stage::Served& served) {
    if (!served.whole) return;
    served.peer.send(served.request.target == "/again" ? fine : raw);
    if (closes) served.peer.close();
  };
}

std::string request(std::string_view method, std::string_view fields, std::string_view version = "1.1") {
  return fmt::format("{} /x HTTP/{}\r\nHost: api.test\r\n{}\r\n", method, version, fields);
}

// Whether another request is served on the connection.
bool serves_on(Stage& stage, StageClient& client) {
  const std::size_t before = client.responses.size();
  client.ask("GET /again HTTP/1.1\r\nHost: api.test\r\n\r\n");
  stage.run(1s);
  return client.responses.size() == before + 1 && client.responses.back().body == "ok";
}

TEST(MessagesOnNet, a_response_has_a_length_where_it_may_and_leaves_its_connection_usable) {
  struct Case {
    std::string_view method, status, fields, length;  // of the client
  };
  for (const auto& [method, status, fields, length] :
       {Case{"HEAD", "200 OK", "Content-Length: 1234\r\n", "1234"}, Case{"HEAD", "200 OK", "", ""},
        Case{"HEAD", "200 OK", "Transfer-Encoding: chunked\r\n", ""}, Case{"GET", "204 No Content", "", ""},
        Case{"GET", "304 Not Modified", "Content-Length: 1234\r\n", "1234"}, Case{"GET", "304 Not Modified", "", ""},
        Case{"POST", "304 Not Modified", "", ""}, Case{"POST", "205 Reset Content", "Content-Length: 0\r\n", "0"},
        // RFC 9110 8.6: no length with 204, whatever the backend says.
        Case{"GET", "204 No Content", "Content-Length: 0\r\n", ""},
        Case{"POST", "204 No Content", "Content-Length: 0\r\n", ""},
        Case{"HEAD", "204 No Content", "Content-Length: 5\r\n", ""},
        // A Connection field cannot take the length away.
        Case{"POST", "200 OK", "Connection: Content-Length\r\nContent-Length: 0\r\n", "0"}}) {
    for (const std::string_view key : keys) {
      SCOPED_TRACE(fmt::format("{} {} {}{}", method, status, fields, key));
      Stage stage;
      answer_with(stage, fmt::format("HTTP/1.1 {}\r\nETag: \"1\"\r\n{}\r\n", status, fields));
      StageClient& client = stage.client();
      client.ask(request(method, key));
      stage.run(1s);
      EXPECT_EQ(std::to_string(client.response().status), status.substr(0, 3));
      EXPECT_EQ(client.response().field("ETag"), "\"1\"");
      EXPECT_EQ(client.response().field("Content-Length"), length);
      EXPECT_FALSE(client.response().has("Transfer-Encoding"));
      EXPECT_TRUE(serves_on(stage, client));
      stage.finish();
    }
  }
}

TEST(MessagesOnNet, interim_responses_come_before_the_final_one_and_not_to_http_1_0) {
  for (const std::string_view version : {"1.0", "1.1"}) {
    for (const std::string_view key : keys) {
      SCOPED_TRACE(fmt::format("{} {}", version, key));
      Stage stage;
      answer_with(stage,
                  "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\nConnection: X-Hop\r\n"
                  "X-Hop: 1\r\nContent-Length: 0\r\n\r\n"
                  "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n5\r\nhello\r\n0\r\nX-T: "
                  "1\r\n\r\n");
      StageClient& client = stage.client();
      client.ask(request("POST", fmt::format("{}Connection: keep-alive\r\n", key), version));
      stage.run(1s);
      EXPECT_EQ(client.response().status, 201);
      EXPECT_EQ(client.response().body, "hello");
      EXPECT_EQ(client.response().has("Trailer") || client.response().has("X-T"), false);
      EXPECT_EQ(client.bytes.contains("X-T"), false) << "trailers are dropped";
      if (version == "1.0") {
        EXPECT_EQ(client.interim.size(), 0U);
        EXPECT_NE(client.response().framing, Message::Framing::chunked);
      } else {
        ASSERT_EQ(client.interim.size(), 2U);
        EXPECT_EQ(client.interim[0].status, 100);
        EXPECT_EQ(client.interim[1].field("Link"), "</a.css>");
        EXPECT_FALSE(client.interim[1].has("X-Hop") || client.interim[1].has("Content-Length"));
        EXPECT_TRUE(serves_on(stage, client));
      }
      stage.finish();
    }
  }
}

// Counted for each request, not for the connection.
TEST(MessagesOnNet, a_backend_may_send_many_interim_responses_and_not_any_number) {
  std::string many;
  for (int i = 0; i < 200; ++i) many += "HTTP/1.1 102 Processing\r\n\r\n";
  for (const std::string_view key : keys) {
    Stage stage;
    answer_with(stage, many + std::string(fine));
    StageClient& client = stage.client();
    for (int i = 0; i < 3; ++i) {
      client.ask(request("POST", key.empty() ? "" : fmt::format("Idempotency-Key: k{}\r\n", i)));
      stage.run(1s);
    }
    EXPECT_EQ(client.responses.size(), 3U);
    EXPECT_EQ(client.interim.size(), 600U);
    answer_with(stage, many + many);
    StageClient& other = stage.client();
    other.ask(request("POST", key));
    stage.run(1s);
    ASSERT_EQ(other.responses.size(), 1U);
    EXPECT_EQ(other.responses.back().status, 502);
    stage.finish();
  }
}

TEST(MessagesOnNet, what_belongs_to_the_connection_stays_there_in_both_directions) {
  constexpr std::string_view own =
      "Connection: keep-alive, X-Hop\r\nConnection: x-hop-2\r\nKeep-Alive: timeout=5\r\nX-Hop: 1\r\nX-HOP-2: 2\r\n"
      "Proxy-Connection: keep-alive\r\nProxy-Authorization: Basic x\r\nTE: trailers\r\nUpgrade: h2c\r\nX-Kept: 3\r\n";
  for (const std::string_view key : keys) {
    Stage stage;
    Message got;
    stage.serve = [&](const Stage::Served& served) {
      if (!served.whole) return;
      got = served.request;
      served.peer.send(fmt::format("HTTP/1.1 200 OK\r\n{}Content-Length: 2\r\n\r\nok", own));
    };
    StageClient& client = stage.client();
    client.ask(request("POST", fmt::format("{}{}Transfer-Encoding: chunked\r\nTrailer: X-T\r\n", key, own)) +
               "5\r\nhello\r\n0\r\nX-T: 1\r\nIdempotency-Claim: 2\r\n\r\n");
    stage.run(1s);
    for (const Message& message : {got, client.response()}) {
      for (const std::string_view name : {"Keep-Alive", "X-Hop", "X-Hop-2", "Proxy-Connection", "Proxy-Authorization",
                                          "TE", "Upgrade", "Trailer", "X-T"}) {
        EXPECT_FALSE(message.has(name)) << name;
      }
      EXPECT_EQ(message.field("X-Kept"), "3");
    }
    EXPECT_EQ(got.body, "hello");
    EXPECT_EQ(got.field("Content-Length"), key.empty() ? "" : "5");
    stage.finish();
  }
}

// Each of them decides what the request is or whose. Nothing reaches the backend.
TEST(MessagesOnNet, a_connection_field_cannot_name_what_a_request_is_and_whose) {
  for (const std::string_view name :
       {"Host", "content-length", "Content-Type", "Authorization", "Cookie", "Idempotency-Key", "Idempotency_Key",
        "X-Forwarded-Proto", "x-forwarded-for", "Forwarded", "X-Real-IP"}) {
    for (const std::string_view key : keys) {
      Stage stage;
      StageClient& client = stage.client();
      client.ask(request(
          "POST",
          fmt::format("{}Authorization: a\r\nConnection: X-Other,,{} , x\r\nContent-Length: 0\r\n", key, name)));
      stage.run(1s);
      EXPECT_EQ(client.response().status, 400) << name;
      EXPECT_EQ(stage.connections.size(), 0U) << name;
      stage.finish();
    }
  }
}

TEST(MessagesOnNet, a_connection_is_kept_or_closed_as_both_versions_say) {
  struct Case {
    std::string_view version, connection;
    bool kept;
    std::string_view said;
  };
  for (const auto& [version, connection, kept, said] :
       {Case{"1.1", "", true, ""}, Case{"1.1", "Connection: keep-alive\r\n", true, ""},
        Case{"1.1", "Connection: x-other, Close\r\n", false, "close"}, Case{"1.0", "", false, "close"},
        Case{"1.0", "Connection: keep-alive\r\n", true, "keep-alive"}}) {
    for (const std::string_view key : keys) {
      Stage stage;
      for (int round = 0; round < 2; ++round) {  // executed, and replayed
        StageClient& client = stage.client();
        client.ask(request("POST", fmt::format("{}{}", connection, key), version));
        stage.run(1s);
        EXPECT_EQ(client.response().status, 200) << version << connection << key;
        EXPECT_EQ(client.response().field("Connection"), said) << version << connection << key;
        EXPECT_EQ(client.over(), !kept);
        if (kept) EXPECT_TRUE(serves_on(stage, client));
      }
      stage.finish();
    }
  }
}

TEST(MessagesOnNet, every_response_has_one_date) {
  for (const std::string_view date : {"", "Date: Mon, 01 Jan 2001 00:00:00 GMT\r\n"}) {
    Stage stage([](ServingSettings& all) { all.routes[0].policy.cors.origins = {"https://app.test"}; });
    answer_with(stage, fmt::format("HTTP/1.1 200 OK\r\n{}Content-Length: 0\r\n\r\n", date));
    for (const std::string& each :
         {request("POST", ""), request("POST", keys[1]), request("POST", keys[1]), request("GET", "Bad name: x\r\n"),
          request("POST", "Idempotency-Key: a b\r\n"),
          request("OPTIONS", "Origin: https://app.test\r\nAccess-Control-Request-Method: POST\r\n")}) {
      StageClient& client = stage.client();
      client.ask(each);
      stage.run(1s);
      const std::string& head = client.response().head_text;
      const std::size_t at = head.find("\r\nDate: ");
      EXPECT_NE(at, std::string::npos) << each << head;
      EXPECT_EQ(head.find("\r\nDate: ", at + 1), std::string::npos) << each;
    }
    EXPECT_EQ(stage.clients[0]->response().field("Date").starts_with("Mon, 01 Jan 2001"), !date.empty());
    stage.finish();
  }
}

TEST(MessagesOnNet, an_options_goes_only_as_far_as_it_may) {
  for (const std::string_view target : {"/", "*"}) {
    Stage stage;
    std::string forwards;
    stage.serve = [&](const Stage::Served& served) {
      forwards = served.request.field("Max-Forwards");
      served.peer.send(fine);
    };
    StageClient& client = stage.client();
    client.ask(fmt::format("OPTIONS {} HTTP/1.1\r\nHost: api.test\r\nMax-Forwards: 0\r\n\r\n", target));
    stage.run(1s);
    EXPECT_EQ(client.response().status, 204);
    EXPECT_EQ(stage.requests, 0U);
    client.ask(fmt::format("OPTIONS {} HTTP/1.1\r\nHost: api.test\r\nMax-Forwards: 2\r\n\r\n", target));
    stage.run(1s);
    EXPECT_EQ(forwards, "1");
    stage.finish();
  }
}

// A refused request ends its connection, and disturbs neither the one before it nor what is said of a HEAD.
TEST(MessagesOnNet, a_refusal_behind_a_request_is_whole) {
  for (const std::string_view method : {"HEAD", "POST"}) {
    Stage stage;
    answer_with(stage, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    StageClient& client = stage.client();
    client.reader.expect(std::string(method));
    client.reader.expect("broken");
    client.peer->send(request(method, method == "HEAD" ? "" : keys[1]) + "broken\r\n\r\nGET /hidden HTTP/1.1\r\n\r\n");
    stage.run(1min);
    ASSERT_EQ(client.responses.size(), 2U) << client.bytes;
    EXPECT_EQ(client.responses[0].status, 200);
    EXPECT_EQ(client.responses[1].status, 400);
    EXPECT_NE(client.responses[1].body, "");
    EXPECT_TRUE(client.over());
    EXPECT_EQ(stage.requests, 1U);
    stage.finish();
  }
}

// Expect: 100-continue: a keyed body is asked for when everything else is fine, and a backend is asked without a key.
TEST(MessagesOnNet, a_body_is_asked_for_once_and_only_if_it_is_wanted) {
  struct Case {
    std::string_view key;
    bool early;        // the body comes with the head
    int backend_says;  // before it has the body
    std::size_t asked;
    int status;
  };
  constexpr int late = 1100;  // a 100 when Once has asked for the body
  for (const auto& [key, early, backend_says, asked, status] :
       {Case{"k", false, 0, 1, 200}, Case{"k", true, 0, 0, 200}, Case{"a b", false, 0, 0, 400},
        Case{"", false, 100, 1, 200}, Case{"", false, 0, 1, 200}, Case{"", false, late, 1, 200},
        Case{"", false, 417, 0, 417}}) {
    SCOPED_TRACE(fmt::format("{} {} {}", key, early, backend_says));
    Stage stage;
    stage.serve = [&, said = backend_says](const Stage::Served& served) {
      if (served.whole) return served.peer.send(fine);
      EXPECT_EQ(served.request.field("Expect"), key.empty() ? "100-continue" : "");
      if (said == 100) served.peer.send("HTTP/1.1 100 Continue\r\n\r\n");
      if (said == late) {
        stage.world.after(5s, [peer = &served.peer] { peer->send("HTTP/1.1 100 Continue\r\n\r\n"); });
      }
      if (said == 417) served.peer.send("HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n");
    };
    StageClient& client = stage.client();
    client.ask(request("POST", fmt::format("{}Expect: 100-continue\r\nContent-Length: 5\r\n",
                                           key.empty() ? "" : fmt::format("Idempotency-Key: {}\r\n", key))) +
               (early ? "hello" : ""));
    stage.run(10s);
    EXPECT_EQ(client.interim.size(), asked);
    if (!early && asked == 1) client.peer->send("hello");
    stage.run(1s);
    EXPECT_EQ(client.response().status, status);
    stage.finish();
  }
}

// Whatever is wrong with it: nobody knows what the backend did, so it is not executed again.
TEST(MessagesOnNet, a_keyed_response_that_is_not_whole_is_an_unknown_outcome) {
  using Fault = http::ResponseFault;
  constexpr std::string_view chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
  struct Case {
    std::string raw;
    std::optional<Fault> fault;  // counted; without one it is cut off
  };
  const std::vector<Case> all = {
      {"", {}},
      {"HTTP/1.1 200 OK\r\nContent-Le", {}},
      {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", {}},
      {std::string(chunked) + "5\r\nhel", {}},
      {std::string(chunked) + "2\r\nhe\r\n", {}},
      {std::string(chunked) + "0\r\nX-T: 1\r\n", {}},
      {"HTTP/1.1 103 Early Hints\r\n\r\n", {}},
      {std::string(chunked) + "zz\r\n", Fault::chunk},
      {std::string(chunked) + "0\r\n" + std::string(100'000, 'T'), Fault::chunk},
      {"HTTP/1.1 abc\r\n\r\n", Fault::status_line},
      {"SSH-2.0-OpenSSH_9.2\r\n\r\n", Fault::status_line},
      {"HTTP/2.0 200 OK\r\n\r\n", Fault::version},
      {"HTTP/1.1 200 OK\r\nX : 1\r\n\r\n", Fault::field},
      {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc", Fault::framing},
      {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", Fault::framing},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", Fault::coding},
      {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n", Fault::unasked_switch},
      {"HTTP/1.1 200 OK\r\n" + std::string(140'000, 'X'), Fault::too_large},
  };
  for (const auto& [raw, fault] : all) {
    SCOPED_TRACE(raw.substr(0, 100));
    Stage stage;
    answer_with(stage, raw, true);
    for (const int status : {502, 409}) {
      StageClient& client = stage.client();
      client.ask(request("POST", keys[1]));
      stage.run(10s);
      EXPECT_EQ(client.response().status, status);
      EXPECT_EQ(client.response().field("Idempotency-Status"), "unknown");
    }
    EXPECT_EQ(stage.requests, 1U);
    for (std::size_t i = 0; i < http::response_fault_count; ++i) {
      const bool counted = fault && i == static_cast<std::size_t>(*fault);
      EXPECT_EQ(stage.gateway->worker().metrics().malformed_responses[i].value(), counted ? 1U : 0U) << i;
    }
    // Without a key it is lost, and what is wrong with one backend connection disturbs no other.
    StageClient& plain = stage.client();
    plain.ask(request("POST", ""));
    stage.run(10s);
    for (const Message& got : plain.responses) EXPECT_EQ(got.status, 502);
    EXPECT_TRUE(plain.reset || plain.responses.size() == 1);
    StageClient& next = stage.client();
    EXPECT_TRUE(serves_on(stage, next));
    stage.finish();
  }
}

TEST(MessagesOnNet, a_status_that_does_not_exist_is_an_error_of_the_backend) {
  for (const std::string_view status : {"999", "600", "042"}) {
    for (const std::string_view key : keys) {
      Stage stage;
      answer_with(stage, fmt::format("HTTP/1.1 {} Odd\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nodd", status));
      StageClient& client = stage.client();
      client.ask(request("POST", key));
      stage.run(1s);
      EXPECT_EQ(client.response().status, 502) << status;
      EXPECT_EQ(client.response().body, "odd");
      EXPECT_EQ(client.response().field("Idempotency-Status"), key.empty() ? "" : "executed");
      stage.finish();
    }
  }
}

// Hosts are tenants: the host is part of every scope, however it is written, and a proxy's word counts if it is
// trusted.
TEST(MessagesOnNet, another_host_has_keys_of_its_own) {
  struct Case {
    bool trusted;
    std::string_view host, more, said;
  };
  for (const bool trusted : {false, true}) {
    Stage stage([&](ServingSettings& all) {
      if (trusted) all.trusted_proxies.add("203.0.113.1");
    });
    for (const auto& [only_trusted, host, more, said] :
         {Case{false, "a.example", "", "executed"}, Case{false, "A.Example.:80", "", "replayed"},
          Case{false, "a.example:443", "", "replayed"}, Case{false, "a.example:8080", "", "executed"},
          Case{false, "b.example", "", "executed"},
          Case{true, "b.example", "X-Forwarded-Host: c.example\r\n", trusted ? "executed" : "replayed"},
          Case{true, "b.example", "Forwarded: host=d.example\r\n", trusted ? "executed" : "replayed"}}) {
      StageClient& client = stage.client();
      client.ask(fmt::format("POST /x HTTP/1.1\r\nHost: {}\r\n{}{}\r\n", host, more, keys[1]));
      stage.run(1s);
      EXPECT_EQ(client.response().field("Idempotency-Status"), said) << trusted << host << more;
    }
    stage.executed.clear();  // it counts keys, not operations
    stage.finish();
  }
}

// A script of an allowed origin may read every kind of answer, also a refusal.
TEST(MessagesOnNet, every_kind_of_answer_says_which_origin_may_read_it) {
  Stage stage([](ServingSettings& all) {
    Policy& policy = all.routes[0].policy;
    policy.cors.origins = {"https://app.test"};
    policy.caller_missing = CallerMissing::reject;
    policy.max_request_body = 1000;
    policy.max_large_request = 0;
    policy.conditional = {.etag = Etags::on, .if_match = IfMatch::required};
  });
  stage.serve = [](const Stage::Served& served) {
    if (served.request.target == "/lost") return served.peer.close();
    if (served.whole) served.peer.send(fine);
  };
  struct Case {
    std::string_view line, fields;
    int status;
  };
  std::string tag;
  for (const auto& [line, fields, status] :
       {Case{"GET /x", "", 200}, Case{"GET /x", "If-None-Match: *\r\n", 304},
        Case{"POST /x", "Idempotency-Key: k\r\nAuthorization: a\r\n", 200},
        Case{"POST /x", "Idempotency-Key: k\r\nAuthorization: a\r\n", 200},
        Case{"POST /x?other", "Idempotency-Key: k\r\nAuthorization: a\r\n", 422},
        Case{"POST /x", "Idempotency-Key: k\r\n", 401},
        Case{"POST /x", "Idempotency-Key: k\r\nAuthorization: a\r\nAuthorization: b\r\n", 400},
        Case{"POST /x", "Idempotency-Key: a b\r\nAuthorization: a\r\n", 400},
        Case{"POST /x", "Idempotency-Key: k2\r\nAuthorization: a\r\nContent-Length: 2000\r\n", 413},
        Case{"PUT /x", "Authorization: a\r\n", 428},
        Case{"GET /x", "Idempotency-Key: none\r\nAuthorization: a\r\nIdempotency-Lookup: POST\r\n", 404},
        Case{"POST /lost", "", 502}, Case{"POST /lost", "Idempotency-Key: l\r\nAuthorization: a\r\n", 502}}) {
    StageClient& client = stage.client();
    client.ask(fmt::format("{} HTTP/1.1\r\nHost: api.test\r\nOrigin: https://app.test\r\n{}\r\n", line, fields));
    stage.run(1s);
    EXPECT_EQ(client.response().status, status) << line << fields;
    EXPECT_EQ(client.response().field("Access-Control-Allow-Origin"), "https://app.test") << line << fields;
    EXPECT_TRUE(client.response().has("Access-Control-Expose-Headers")) << line << fields;
    EXPECT_TRUE(client.bytes.contains("Vary: Origin")) << line << fields;
  }
  stage.finish();
}

}  // namespace messages_net_test
}  // namespace once::sim
