// Requests that pass through, byte by byte in both directions: uploads, downloads, tunnels and shadow mode.
#include <gtest/gtest.h>

#include "tests/unit/support/sim_stage.hpp"

namespace once::sim {
namespace passthrough_net_test {

using namespace std::chrono_literals;

constexpr std::string_view get = "GET /page HTTP/1.1\r\nHost: api.test\r\n\r\n";
constexpr std::string_view upload =
    "PUT /file HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n";
constexpr std::string_view upload_by_length =
    "PUT /file HTTP/1.1\r\nHost: api.test\r\nContent-Length: 11\r\n\r\nhello world";
constexpr std::string_view by_length = "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world";
constexpr std::string_view in_chunks =
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n";
constexpr std::string_view websocket =
    "GET /socket HTTP/1.1\r\nHost: api.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
constexpr std::string_view switching =
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";

TEST(PassThroughOnNet, a_response_split_at_every_byte_reaches_the_client) {
  for (const std::string_view response : {by_length, in_chunks}) {
    for (std::size_t at = 1; at < response.size(); ++at) {
      Stage stage;
      stage.serve = [&](const Stage::Served& served) {
        served.peer.send(response.substr(0, at));
        stage.world.after(50ms, [&, peer = &served.peer] { peer->send(response.substr(at)); });
      };
      EXPECT_EQ(stage.ask(get).response().body, "hello world") << at;
    }
  }
}

// So many calls to the network, of the gateway.
struct Calls {
  explicit Calls(Stage& stage) {
    stage.gateway->net().faults = [this](NetCall call) {
      if (call == NetCall::receive) ++received;
      if (call == NetCall::send) ++sent;
      return NetFault::none;
    };
  }
  std::size_t received = 0;
  std::size_t sent = 0;
};

std::string letters(std::size_t size) {
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>('a' + i % 23);
  return text;
}

TEST(PassThroughOnNet, a_large_body_goes_through_in_large_pieces) {
  const std::string body = letters(std::size_t{1} << 20U);
  const std::string length = fmt::format("Content-Length: {}\r\n\r\n{}", body.size(), body);
  const std::string chunk = fmt::format("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{}\r\n0\r\n\r\n", body.size(), body);
  for (const std::string& framed : {length, chunk}) {
    for (const bool uploads : {false, true}) {
      Stage stage({}, {.capacity = 2 * body.size()});
      std::string uploaded;
      stage.serve = [&](const Stage::Served& served) {
        if (!served.whole) return;
        uploaded = served.request.body;
        served.peer.send(uploads ? std::string(by_length) : "HTTP/1.1 200 OK\r\n" + framed);
      };
      StageClient& client = stage.client();
      Calls calls(stage);
      client.ask(uploads ? "PUT /file HTTP/1.1\r\nHost: api.test\r\n" + framed : std::string(get));
      stage.run(1s);
      EXPECT_EQ(client.response().status, 200);
      EXPECT_TRUE((uploads ? uploaded : client.response().body) == body);
      EXPECT_LE(calls.received, 24U);
      EXPECT_LE(calls.sent, 24U);
      stage.finish();
    }
  }
}

// It does not fit into the first buffer, and is here as a whole.
TEST(PassThroughOnNet, a_body_of_ten_kilobytes_is_sent_with_its_head) {
  const std::string body = letters(10'000);
  Stage stage;
  std::string uploaded;
  stage.serve = [&](const Stage::Served& served) {
    if (!served.whole) return;
    uploaded = served.request.body;
    served.peer.send(by_length);
  };
  StageClient& client = stage.client();
  Calls calls(stage);
  client.ask(fmt::format("PUT /file HTTP/1.1\r\nHost: api.test\r\nContent-Length: {}\r\n\r\n{}", body.size(), body));
  stage.run(1s);
  EXPECT_EQ(client.response().status, 200);
  EXPECT_EQ(uploaded, body);
  EXPECT_EQ(calls.sent, 2U);
  stage.finish();
}

// Whether all windows are taken or not.
TEST(PassThroughOnNet, a_large_body_needs_no_window) {
  const std::string body = letters(100'000);
  Stage stage;
  http::Windows& windows = stage.gateway->worker(0).loop().windows();
  while (windows.take()) continue;
  stage.serve = [&](const Stage::Served& served) {
    if (!served.whole) return;
    served.peer.send(fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", body.size(), served.request.body));
  };
  StageClient& client =
      stage.ask(fmt::format("PUT /file HTTP/1.1\r\nHost: api.test\r\nContent-Length: {}\r\n\r\n{}", body.size(), body));
  EXPECT_EQ(client.response().body, body);
  while (windows.taken() > 0) windows.give_back();
}

TEST(PassThroughOnNet, large_bodies_survive_every_call_that_fails) {
  const std::string body = letters(150'000);
  const std::string request =
      fmt::format("PUT /file HTTP/1.1\r\nHost: api.test\r\nContent-Length: {}\r\n\r\n{}", body.size(), body);
  fails_nowhere([&](Stage& stage) {
    stage.serve = [&](const Stage::Served& served) {
      if (!served.whole) return;
      EXPECT_TRUE(served.request.method == "GET" || served.request.body == body);
      served.peer.send(fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", body.size(), body));
    };
    StageClient& client = stage.client();
    client.ask(request + std::string(get));
    client.reader.expect("GET");
    stage.run(1s);
    for (const Message& got : client.responses) EXPECT_TRUE(got.status != 200 || got.body == body);
  });
}

// Half a response must not look like a whole one.
TEST(PassThroughOnNet, a_response_that_ends_at_any_byte_is_no_whole_one) {
  for (const bool resets : {false, true}) {
    for (const std::string_view response : {by_length, in_chunks}) {
      for (std::size_t at = 0; at < response.size(); ++at) {
        Stage stage;
        stage.serve = [&](const Stage::Served& served) {
          served.peer.send(response.substr(0, at));
          stage.world.after(10ms, [&, peer = &served.peer] { resets ? peer->reset() : peer->close(); });
        };
        StageClient& client = stage.ask(get);
        for (const Message& got : client.responses) EXPECT_EQ(got.status, 502) << at << client.bytes;
        EXPECT_TRUE(client.responses.size() == 1 || client.reset) << at << client.bytes;
      }
    }
  }
}

// For a client of HTTP/1.0 the end of the connection is the end of a response in chunks.
TEST(PassThroughOnNet, a_broken_response_has_no_clean_end_for_http_1_0) {
  const std::string half(in_chunks.substr(0, in_chunks.find(" world")));
  for (const std::string& response : {half, half.substr(0, half.size() - 3) + "zz\r\n"}) {
    Stage stage;
    stage.serve = [&](const Stage::Served& served) {
      served.peer.send(response);
      served.peer.close();
    };
    StageClient& client = stage.ask("GET /page HTTP/1.0\r\nHost: api.test\r\n\r\n");
    EXPECT_TRUE(client.bytes.ends_with("hello")) << client.bytes;
    EXPECT_TRUE(client.reset);
    EXPECT_FALSE(client.ended);
  }
}

// For a client of HTTP/1.0 the end of the connection is the end of the response. The rest of its upload is still read.
TEST(PassThroughOnNet, a_response_that_is_cut_during_an_upload_has_no_clean_end) {
  Stage stage;
  stage.serve = [](const Stage::Served& served) {
    served.peer.send(in_chunks.substr(0, 60));
    served.peer.close();
  };
  StageClient& client = stage.ask("PUT /file HTTP/1.0\r\nHost: api.test\r\nContent-Length: 100\r\n\r\nhello", 10s);
  EXPECT_TRUE(client.bytes.ends_with("hello")) << client.bytes;
  EXPECT_TRUE(client.reset);
  EXPECT_FALSE(client.ended);
}

TEST(PassThroughOnNet, a_response_until_close_is_passed_on_with_an_end_of_its_own) {
  Stage stage;
  stage.serve = [](const Stage::Served& served) {
    served.peer.send("HTTP/1.1 200 OK\r\n\r\nhello");
    served.peer.close();
  };
  StageClient& client = stage.ask(get);
  EXPECT_EQ(client.response().body, "hello");
  EXPECT_EQ(client.response().framing, Message::Framing::chunked);
}

TEST(PassThroughOnNet, an_upload_split_at_every_byte_reaches_the_backend) {
  for (std::size_t at = 1; at < upload.size(); ++at) {
    Stage stage;
    std::string body;
    stage.serve = [&](const Stage::Served& served) {
      if (!served.whole) return;
      body = served.request.body;
      served.peer.send(by_length);
    };
    StageClient& client = stage.ask(upload.substr(0, at), 50ms);
    client.peer->send(upload.substr(at));
    stage.run(1s);
    EXPECT_EQ(body, "hello world") << at;
    EXPECT_EQ(client.response().status, 200) << at;
  }
}

TEST(PassThroughOnNet, an_upload_that_ends_at_any_byte_is_no_request) {
  for (const bool resets : {false, true}) {
    for (const std::string_view request : {upload, upload_by_length}) {
      for (std::size_t at = 0; at < request.size(); ++at) {
        Stage stage;
        StageClient& client = stage.ask(request.substr(0, at), 50ms);
        resets ? client.peer->reset() : client.peer->close();
        stage.run(1s);
        EXPECT_EQ(stage.requests, 0U) << at;
        for (const auto& connection : stage.connections) EXPECT_TRUE(connection->ended || connection->reset) << at;
      }
    }
  }
}

// What the backend still expects of the first request would be taken from the next one.
TEST(PassThroughOnNet, an_answer_before_the_end_of_the_upload_ends_the_connection) {
  Stage stage;
  stage.serve = [](const Stage::Served& served) {
    if (!served.whole || served.request.method == "GET") served.peer.send(by_length);
  };
  StageClient& client = stage.ask(upload.substr(0, 80));
  EXPECT_EQ(client.response().status, 200);
  EXPECT_TRUE(client.response().has("Connection"));
  EXPECT_EQ(stage.ask(get).response().status, 200);
  EXPECT_EQ(stage.connections.size(), 2U);
}

TEST(PassThroughOnNet, a_tunnel_carries_bytes_both_ways) {
  for (const bool early : {false, true}) {
    Stage stage;
    stage.serve = [&](const Stage::Served& served) {
      stage.connections[served.connection]->reader.begin_tunnel();
      served.peer.send(std::string(switching) + "from the backend");
    };
    StageClient& client = stage.ask(early ? std::string(websocket) + "from the client" : std::string(websocket), 100ms);
    if (!early) client.peer->send("from the client");
    stage.run(100ms);
    EXPECT_EQ(client.tunnelled, "from the backend");
    ASSERT_EQ(stage.connections.size(), 1U);
    EXPECT_EQ(stage.connections[0]->tunnelled, "from the client");
    client.peer->end();
    stage.run(1s);
    EXPECT_TRUE(stage.connections[0]->ended);
  }
}

TEST(PassThroughOnNet, a_tunnel_lives_as_long_as_one_side_speaks) {
  Stage stage;
  stage.serve = [&](const Stage::Served& served) {
    stage.connections[served.connection]->reader.begin_tunnel();
    served.peer.send(switching);
  };
  StageClient& client = stage.client();
  client.ask(websocket);
  for (int i = 0; i < 10; ++i) {
    stage.run(2min);
    client.peer->send("x");
  }
  stage.run(1s);
  EXPECT_EQ(stage.connections[0]->tunnelled, "xxxxxxxxxx");
  EXPECT_FALSE(client.over());
  stage.run(6min);
  EXPECT_TRUE(client.over()) << "nobody speaks";
}

// A protocol in the tunnel may say nothing of its own end.
TEST(PassThroughOnNet, a_tunnel_that_is_reset_has_no_clean_end_on_the_other_side) {
  for (const bool by_client : {false, true}) {
    Stage stage;
    stage.serve = [&](const Stage::Served& served) {
      stage.connections[served.connection]->reader.begin_tunnel();
      served.peer.send(std::string(switching) + "half of it");
    };
    StageClient& client = stage.ask(websocket, 100ms);
    client.peer->send("half of it");
    stage.run(100ms);
    ASSERT_EQ(stage.connections.size(), 1U);
    Stage::Connection& backend = *stage.connections[0];
    EXPECT_EQ(client.tunnelled, "half of it");
    EXPECT_EQ(backend.tunnelled, "half of it");
    (by_client ? client.peer : backend.peer)->reset();
    stage.run(1s);
    EXPECT_TRUE(by_client ? backend.reset : client.reset);
    EXPECT_FALSE(by_client ? backend.ended : client.ended);
  }
}

// A body would be read by its upload and by the tunnel at the same time.
TEST(PassThroughOnNet, a_request_with_a_body_switches_nothing) {
  Stage stage;
  stage.serve = [](const Stage::Served& served) {
    if (!served.whole) served.peer.send(switching);
  };
  StageClient& client = stage.ask(
      "PUT /socket HTTP/1.1\r\nHost: api.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
      "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
  client.peer->send("6\r\n world\r\n");
  stage.run(1s);
  EXPECT_EQ(client.response().status, 502);
  EXPECT_TRUE(client.tunnelled.empty());
}

void a_get(Stage& stage) {
  stage.serve = [](const Stage::Served& served) { served.peer.send(in_chunks); };
  stage.ask(get);
}

void an_upload_in_two_parts(Stage& stage) {
  stage.answer(std::string(by_length));
  StageClient& client = stage.ask(upload.substr(0, 80), 100ms);
  client.peer->send(upload.substr(80));
  stage.run(1s);
}

void an_upload_that_is_answered_early(Stage& stage) {
  stage.serve = [](const Stage::Served& served) {
    if (!served.whole || served.request.method == "GET") served.peer.send(by_length);
  };
  stage.ask(upload.substr(0, 80), 100ms);
  stage.ask(get);
}

void a_tunnel(Stage& stage) {
  stage.serve = [&](const Stage::Served& served) {
    stage.connections[served.connection]->reader.begin_tunnel();
    served.peer.send(std::string(switching) + "one");
  };
  StageClient& client = stage.ask(websocket, 100ms);
  client.peer->send("two");
  stage.run(100ms);
  client.peer->end();
  stage.run(1s);
}

void a_response_that_is_cut(Stage& stage) {
  stage.serve = [](const Stage::Served& served) {
    served.peer.send(in_chunks.substr(0, 60));
    served.peer.close();
  };
  stage.ask(get);
}

TEST(PassThroughOnNet, every_story_survives_every_call_that_fails) {
  for (const auto& story :
       {a_get, an_upload_in_two_parts, an_upload_that_is_answered_early, a_tunnel, a_response_that_is_cut}) {
    fails_nowhere(story);
    if (HasFailure()) return;
  }
}

void in_shadow(ServingSettings& settings) {
  settings.routes[0].policy.mode = Mode::shadow;
}

void a_keyed_request_in_shadow(Stage& stage) {
  stage.answer(std::string(by_length));
  stage.ask("POST /orders HTTP/1.1\r\nHost: api.test\r\nIdempotency-Key: k1\r\nContent-Length: 5\r\n\r\nhello");
}

TEST(ShadowOnNet, every_request_passes_and_is_kept_count_of) {
  Stage stage(in_shadow);
  a_keyed_request_in_shadow(stage);
  a_keyed_request_in_shadow(stage);
  EXPECT_EQ(stage.requests, 2U);
  for (const auto& client : stage.clients) {
    EXPECT_EQ(client->response().status, 200);
    EXPECT_FALSE(client->response().has("Idempotency-Status"));
  }
  stage.executed.clear();  // a shadow protects nobody
}

TEST(ShadowOnNet, a_shadow_survives_every_call_that_fails) {
  fails_nowhere(a_keyed_request_in_shadow, in_shadow);
}

}  // namespace passthrough_net_test
}  // namespace once::sim
