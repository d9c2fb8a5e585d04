// Requests without a key whose backend upgrades, fails, falls silent or closes a kept connection: what is switched,
// what is sent again, and what the client is told.
#include <gtest/gtest.h>

#include "tests/unit/support/sim_stage.hpp"

namespace once::sim {
namespace upgrade_net_test {

using namespace std::chrono_literals;

constexpr std::string_view fine = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

std::string request(std::string_view line, std::string_view fields, std::string_view body = "") {
  return fmt::format("{} HTTP/1.1\r\nHost: api.test\r\n{}\r\n{}", line, fields, body);
}
std::string offering(std::string_view protocols, std::string_view fields = "") {
  return fmt::format("Connection: keep-alive, Upgrade\r\nUpgrade: {}\r\n{}", protocols, fields);
}

Message ask(Stage& stage, std::string_view text) {
  StageClient& client = stage.client();
  client.ask(text);
  stage.run(1s);
  return client.response();
}

TEST(UpgradeOnNet, only_protocols_that_are_allowed_are_offered_and_not_beside_a_body) {
  struct Case {
    std::string_view protocols, fields, body, offered;
  };
  for (const auto& [protocols, fields, body, offered] :
       {Case{"websocket", "", "", "websocket"}, Case{"WebSocket/13", "", "", "WebSocket/13"}, Case{"echo", "", "", ""},
        Case{"TLS/1.0", "", "", ""}, Case{"HTTP/2.0", "", "", ""}, Case{"echo, websocket", "", "", "websocket"},
        Case{"x-websocket", "", "", ""}, Case{"", "", "", ""},
        Case{"websocket", "Content-Length: 0\r\n", "", "websocket"},
        Case{"websocket", "Content-Length: 5\r\n", "hello", ""},
        Case{"websocket", "Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n", ""}}) {
    Stage stage;
    std::string seen = "nothing";
    stage.serve = [&](const Stage::Served& served) {
      seen = served.request.field("Upgrade");
      if (served.whole) served.peer.send(fine);  // a backend may decline
    };
    EXPECT_EQ(ask(stage, request("POST /socket", offering(protocols, fields), body)).body, "ok") << protocols << fields;
    EXPECT_EQ(seen, offered) << protocols << fields;
    stage.finish();
  }
}

TEST(UpgradeOnNet, a_backend_switches_only_to_what_it_was_offered) {
  struct Case {
    std::string_view asked, to;
    int status;
  };
  for (const auto& [asked, to, status] :
       {Case{"websocket", "Upgrade: websocket\r\n", 101}, Case{"websocket", "Upgrade: h2c\r\n", 502},
        Case{"websocket", "Upgrade: websocket, h2c\r\n", 502}, Case{"websocket", "", 502},
        Case{"", "Upgrade: websocket\r\n", 502}}) {
    // As large as the buffer for a head.
    for (const std::size_t padding : {0U, 8000U}) {
      Stage stage;
      stage.serve = [&, to = to](const Stage::Served& served) {
        stage.connections[served.connection]->reader.begin_tunnel();
        served.peer.send(
            fmt::format("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n{}X-Padding: {}\r\n\r\n", to,
                        std::string(padding, 'p')));
      };
      StageClient& client = stage.client();
      client.ask(request("GET /socket", asked.empty() ? "" : offering(asked)));
      stage.run(1s);
      const int got = client.interim.empty() ? client.response().status : client.interim[0].status;
      EXPECT_EQ(got, status) << asked << to;
      if (status == 101) {
        // One side may close before the other.
        stage.connections[0]->peer->end();
        stage.run(1s);
        client.peer->send("hello");
        client.peer->end();
        stage.run(1s);
        EXPECT_EQ(stage.connections[0]->tunnelled, "hello");
      }
      stage.finish();
    }
  }
}

TEST(ResendOnNet, only_what_changes_nothing_is_sent_again_when_a_kept_connection_turns_out_closed) {
  struct Case {
    std::string_view line, fields, interim;
    std::size_t sent;
    int status;
  };
  constexpr std::string_view hints = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
  for (const Mode mode : {Mode::enforce, Mode::shadow}) {
    for (const auto& [line, fields, interim, sent, status] :
         {Case{"GET /2", "", "", 2, 200}, Case{"OPTIONS /2", "", "", 2, 200}, Case{"POST /2", "", "", 1, 502},
          Case{"DELETE /2", "", "", 1, 502}, Case{"POST /2", "Idempotency-Key: k\r\n", "", 1, 502},
          Case{"GET /2", "Idempotency-Key: k\r\n", "", 1, 502},
          Case{"GET /2", "X-HTTP-Method-Override: DELETE\r\n", "", 1, 502},
          Case{"GET /2", "X_Method_Override: DELETE\r\n", "", 1, 502},
          // The client has seen something of a response.
          Case{"GET /2", "", hints, 1, 502}}) {
      Stage stage([&](ServingSettings& all) { all.routes[0].policy.mode = mode; });
      std::size_t times = 0;
      stage.serve = [&, interim = interim](const Stage::Served& served) {
        if (!served.whole) return;
        if (served.request.target != "/2") return served.peer.send(fine);
        if (++times == 2) return served.peer.send(fine);
        served.peer.send(interim);
        served.peer.close();
      };
      EXPECT_EQ(ask(stage, request("GET /1", "")).status, 200);
      EXPECT_EQ(ask(stage, request(line, fields)).status, status) << line << fields << interim;
      EXPECT_EQ(times, sent) << line << fields << interim;
      stage.finish();
    }
  }
}

TEST(BackendOnNet, one_that_does_not_answer_or_falls_silent_is_given_up) {
  for (const std::string_view early : {"", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"}) {
    Stage stage([](ServingSettings& all) { all.routes[0].policy.timeouts = {.response = 1min, .stream_idle = 2min}; });
    stage.serve = [&](const Stage::Served& served) { served.peer.send(early); };
    StageClient& client = stage.client();
    client.ask(request("GET /page", ""));
    stage.run(110s);
    EXPECT_FALSE(client.over()) << "a long poll may be as silent as stream_idle says";
    stage.run(2min);
    EXPECT_EQ(early.empty() ? client.response().status : 504, 504);
    EXPECT_EQ(client.reset, !early.empty());
    EXPECT_TRUE(stage.connections[0]->ended || stage.connections[0]->reset);
    stage.finish();
  }
}

TEST(BackendOnNet, a_client_that_leaves_before_or_in_the_middle_of_its_events_frees_the_backend) {
  constexpr std::string_view events = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
  for (const std::string& asked : {request("GET /events", ""), request("POST /events", "Content-Length: 2\r\n", "{}"),
                                   request("POST /events", "Transfer-Encoding: chunked\r\n", "2\r\n{}\r\n")}) {
    for (const bool begun : {false, true}) {
      for (const bool resets : {false, true}) {
        Stage stage;
        stage.serve = [&](const Stage::Served& served) {
          if (begun) served.peer.send(std::string(events) + "data: 1\n\n");
        };
        StageClient& client = stage.client();
        client.ask(asked);
        stage.run(1s);
        resets ? client.peer->reset() : client.peer->close();
        stage.run(1s);
        ASSERT_EQ(stage.connections.size(), 1U);
        const Stage::Connection& backend = *stage.connections[0];
        if (!begun && !backend.ended && !backend.reset) backend.peer->send(events);
        stage.run(1s);
        EXPECT_TRUE(backend.ended || backend.reset) << asked << begun << resets;
        stage.finish();
      }
    }
  }
}

TEST(BackendOnNet, one_that_cannot_be_reached_is_told_and_the_key_stays_free) {
  for (const std::string_view key : {"", "Idempotency-Key: k\r\n"}) {
    Stage stage([](ServingSettings& all) { all.upstreams[0].servers[0].port = 9; });
    for (int i = 0; i < 2; ++i) {
      const Message response = ask(stage, request("POST /x", key));
      EXPECT_EQ(response.status, 502);
      EXPECT_TRUE(response.body.contains("\"bad-gateway\"")) << response.body;
    }
    EXPECT_EQ(stage.store.stats().records, 0U);
    stage.finish();
  }
}

}  // namespace upgrade_net_test
}  // namespace once::sim
