// What a client may take of time, memory and places before it is refused or cut off: slow heads and bodies, idle
// connections, requests in progress, bodies in memory.
#include <gtest/gtest.h>

#include "tests/unit/support/sim_stage.hpp"

namespace once::sim {
namespace limits_net_test {

using namespace std::chrono_literals;

constexpr std::string_view fine = "HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok";

// With a key or without, and with these fields behind it.
std::string post(std::string_view key, std::string_view fields, std::string_view caller = "me") {
  return fmt::format("POST /orders HTTP/1.1\r\nHost: api.test\r\nAuthorization: {}\r\n{}{}\r\n", caller,
                     key.empty() ? "" : fmt::format("Idempotency-Key: {}\r\n", key), fields);
}

Message ask(Stage& stage, std::string_view request) {
  StageClient& client = stage.client();
  client.ask(request);
  stage.run(1s);
  return client.response();
}

Message ask_soon(Stage& stage, std::string_view request) {
  StageClient& client = stage.client();
  client.ask(request);
  stage.run(10ms);
  return client.response();
}

void expect_timed_out(const StageClient& client) {
  EXPECT_EQ(client.response().status, 408);
  EXPECT_EQ(client.response().field("Connection"), "close");
  EXPECT_TRUE(client.over());
}

TEST(LimitsOnNet, a_head_that_trickles_is_given_up) {
  Stage stage([](ServingSettings& all) { all.timeouts.header = 5min; });
  StageClient& client = stage.client();
  client.ask("P");
  for (const char byte : std::string_view("OST / HTTP/1.1\r\n")) {
    if (client.over()) break;
    client.peer->send({&byte, 1});
    stage.run(1min);
  }
  expect_timed_out(client);
  EXPECT_EQ(stage.requests, 0U);
  stage.finish();
}

TEST(LimitsOnNet, a_late_head_behind_a_request_is_another_request) {
  for (const std::size_t size : {100U, 8192U, 20'000U}) {  // a full buffer has just moved
    Stage stage;
    StageClient& client = stage.client();
    client.ask(post("k", "Content-Length: 0\r\n"));
    stage.run(1s);
    client.ask("POST /second HTTP/1.1\r\nX: " + std::string(size, 'y'));
    stage.run(1min);
    ASSERT_EQ(client.responses.size(), 2U) << size;
    EXPECT_EQ(client.responses[1].status, 408);
    EXPECT_FALSE(client.responses[1].has("Idempotency-Status"));
    EXPECT_EQ(stage.requests, 1U);
    stage.finish();
  }
}

// `moves`: a byte comes every three minutes, which is never ten minutes of silence.
Message slow_body(Stage& stage, std::string_view key, bool chunked, unsigned pieces) {
  StageClient& client = stage.client();
  client.ask(post(key, chunked ? "Transfer-Encoding: chunked\r\n" : fmt::format("Content-Length: {}\r\n", pieces)));
  for (unsigned i = 0; i < pieces && !client.over(); ++i) {
    client.peer->send(chunked ? "1\r\nx\r\n" : "x");
    stage.run(3min);
  }
  if (chunked && !client.over()) client.peer->send("0\r\n\r\n");
  stage.run(1s);
  return client.response();
}

TEST(LimitsOnNet, a_body_may_take_long_while_it_moves_unless_it_is_slower_than_the_least_rate) {
  for (const bool too_slow : {false, true}) {
    for (const bool chunked : {false, true}) {
      for (const std::string_view key : {"k", ""}) {
        Stage stage([&](ServingSettings& all) {
          all.timeouts.body_idle = 10min;
          all.limits.min_rate = too_slow ? 1 : 0;
        });
        EXPECT_EQ(slow_body(stage, key, chunked, 8).status, too_slow ? 408 : 200) << chunked << key;
        EXPECT_EQ(stage.requests, too_slow ? 0U : 1U);
        EXPECT_EQ(stage.gateway->sum(&Metrics::slow_clients), too_slow ? 1U : 0U);
        stage.finish();
      }
    }
  }
}

TEST(LimitsOnNet, an_upload_beside_its_response_may_be_slow) {
  Stage stage([](ServingSettings& all) {
    all.timeouts.body_idle = 10min;
    all.limits.min_rate = 1000;
    all.routes[0].policy.timeouts.stream_idle = 24h;
  });
  stage.serve = [](const Stage::Served& served) {
    served.peer.send(served.whole ? "2\r\nok\r\n0\r\n\r\n" : "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
  };
  const Message response = slow_body(stage, "", true, 8);
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.body, "ok");
  stage.finish();
}

TEST(LimitsOnNet, an_idle_connection_is_closed_quietly_and_one_in_use_is_not) {
  Stage stage([](ServingSettings& all) {
    all.timeouts.idle = 10min;
    all.routes[0].policy.timeouts.response = 24h;
    all.routes[0].policy.timeouts.stream_idle = 24h;
  });
  std::vector<Peer*> waiting;
  stage.serve = [&](const Stage::Served& served) {
    if (served.request.target == "/orders") waiting.push_back(&served.peer);
    if (served.request.target != "/orders") served.peer.send(fine);
  };
  StageClient& fresh = stage.client();
  StageClient& used = stage.client();
  used.ask("GET /page HTTP/1.1\r\nHost: api.test\r\n\r\n");
  StageClient& keyed = stage.client();
  keyed.ask(post("k", ""));
  StageClient& unkeyed = stage.client();
  unkeyed.ask(post("", ""));
  stage.run(9min);
  EXPECT_FALSE(fresh.over() || used.over());
  stage.run(20min);
  EXPECT_TRUE(fresh.ended && used.ended);
  EXPECT_EQ(fresh.bytes, "");
  ASSERT_EQ(waiting.size(), 2U);
  for (Peer* const peer : waiting) peer->send(fine);
  stage.run(1s);
  EXPECT_EQ(keyed.response().status, 201);
  EXPECT_EQ(unkeyed.response().status, 201);
  stage.finish();
}

// A refusal does not wait for the body, which would cost time and memory.
TEST(LimitsOnNet, too_many_requests_in_progress_are_refused_before_their_body) {
  for (const bool of_caller : {false, true}) {
    Stage stage(
        [&](ServingSettings& all) { (of_caller ? all.limits.caller.in_flight : all.limits.max_in_flight) = 1; });
    Peer* backend = nullptr;
    stage.serve = [&](const Stage::Served& served) {
      served.request.has("Idempotency-Key") ? void(backend = &served.peer) : served.peer.send(fine);
    };
    StageClient& first = stage.client();
    first.ask(post("k1", ""));
    stage.run(100ms);
    StageClient& second = stage.client();
    second.ask(post("k2", "Content-Length: 1000000\r\n"));
    stage.run(100ms);
    EXPECT_EQ(second.response().status, of_caller ? 429 : 503);
    EXPECT_EQ(second.response().field("Retry-After"), "1");
    EXPECT_EQ(second.response().field("Connection"), "close");
    EXPECT_EQ(ask(stage, post("", "")).status, 201) << "no key";
    ASSERT_NE(backend, nullptr);
    backend->send(fine);
    stage.run(100ms);
    EXPECT_EQ(first.response().status, 201);
    stage.serve = [](const Stage::Served& served) { served.peer.send(fine); };
    EXPECT_EQ(ask(stage, post("k2", "")).status, 201);
    stage.finish();
  }
}

TEST(LimitsOnNet, bodies_in_memory_are_limited_by_what_has_come_and_not_by_what_was_announced) {
  Stage stage([](ServingSettings& all) {
    all.limits.max_body_memory = 1'000'000;
    all.timeouts.body_idle = 1h;
    all.limits.min_rate = 0;
  });
  const auto announced = [&](std::string_view key, std::size_t size) -> StageClient& {
    StageClient& client = stage.client();
    client.ask(post(key, fmt::format("Content-Length: {}\r\n", size)));
    return client;
  };
  for (int i = 0; i < 20; ++i) announced(fmt::format("announced{}", i), 900'000);
  StageClient& holder = announced("k1", 800'000);
  holder.peer->send(std::string(799'999, 'x'));
  stage.run(1s);
  EXPECT_EQ(announced("k2", 300'000).responses.size(), 0U);
  stage.run(1s);
  EXPECT_EQ(stage.clients.back()->response().status, 503);
  StageClient& chunked = stage.client();
  chunked.ask(post("k3", "Transfer-Encoding: chunked\r\n") + "493e0\r\n" + std::string(300'000, 'x') + "\r\n");
  stage.run(5s);
  EXPECT_EQ(chunked.response().status, 503);
  EXPECT_EQ(ask(stage, post("small", "Content-Length: 3\r\n") + "abc").status, 200);
  EXPECT_EQ(ask(stage, post("", "Content-Length: 900000\r\n") + std::string(900'000, 'x')).status, 200) << "no key";
  holder.peer->send("x");
  stage.run(1s);
  EXPECT_EQ(holder.response().status, 200);
  EXPECT_EQ(ask(stage, post("k2", "Content-Length: 300000\r\n") + std::string(300'000, 'x')).status, 200);
  stage.finish();
}

TEST(LimitsOnNet, a_keyed_body_over_the_limit_is_refused_by_its_length_or_while_it_is_read) {
  struct Case {
    std::string_view key;
    std::string fields, body;
    int status;
  };
  const std::string at_limit(1000, 'x');
  for (const auto& [key, fields, body, status] :
       {Case{"k", "Content-Length: 1001\r\n", "", 413}, Case{"k", "Content-Length: 1000\r\n", at_limit, 200},
        Case{"k", "Transfer-Encoding: chunked\r\n", "3e8\r\n" + at_limit + "\r\n1\r\nx\r\n", 413},
        Case{"k", "Transfer-Encoding: chunked\r\n", "3e8\r\n" + at_limit + "\r\n0\r\n\r\n", 200},
        Case{"k", "Content-Length: 5000\r\n", std::string(5000, 'x'), 413},
        Case{"k", "Content-Length: 1001\r\nExpect: 100-continue\r\n", "", 413},
        Case{"", "Content-Length: 5000\r\n", std::string(5000, 'x'), 200}}) {
    Stage stage([](ServingSettings& all) {
      all.routes[0].policy.max_request_body = 1000;
      all.routes[0].policy.max_large_request = 0;
    });
    StageClient& client = stage.client();
    client.ask(post(key, fields) + body);
    stage.run(1min);
    EXPECT_EQ(client.response().status, status) << key << fields;
    EXPECT_EQ(client.interim.size(), 0U);
    EXPECT_EQ(client.over(), status == 413);
    EXPECT_EQ(stage.requests, status == 413 ? 0U : 1U);
    stage.finish();
  }
}

TEST(LimitsOnNet, one_connection_too_many_is_told_so) {
  Stage stage([](ServingSettings& all) { all.limits.max_connections = 1; });
  Peer* backend = nullptr;
  stage.serve = [&](const Stage::Served& served) { backend = &served.peer; };
  StageClient& first = stage.client();
  first.ask(post("k", ""));
  stage.run(100ms);
  StageClient& second = stage.client();
  second.reader.expect("GET");
  stage.run(1s);
  EXPECT_EQ(second.response().status, 503);
  EXPECT_EQ(second.response().field("Retry-After"), "1");
  EXPECT_TRUE(second.over());
  EXPECT_EQ(stage.gateway->sum(&Metrics::connections_refused), 1U);
  backend->send(fine);
  stage.run(1s);
  EXPECT_EQ(first.response().status, 201);
  stage.finish();
}

// New keys are refused over the rate; retries of known ones and other callers are not, and a refused key is free later.
TEST(LimitsOnNet, new_keys_of_one_caller_come_at_their_rate) {
  Stage stage([](ServingSettings& all) { all.limits.caller.new_keys = 1; });
  std::vector<int> statuses;
  for (int i = 0; i < 5; ++i) statuses.push_back(ask_soon(stage, post(fmt::format("k{}", i), "")).status);
  EXPECT_EQ(statuses, (std::vector<int>{200, 200, 429, 429, 429}));
  EXPECT_EQ(ask_soon(stage, post("k0", "")).field("Idempotency-Status"), "replayed");
  EXPECT_EQ(ask_soon(stage, post("k0", "Content-Length: 1\r\n") + "x").status, 422);
  EXPECT_EQ(ask_soon(stage, post("k0", "", "other")).field("Idempotency-Status"), "executed");
  stage.run(2s);
  EXPECT_EQ(ask_soon(stage, post("k4", "")).field("Idempotency-Status"), "executed");
  stage.executed.clear();  // two callers have the key k0
  stage.finish();
}

// Clients that are just fast enough not to be cut off make room for a newcomer, if their address has many of them.
TEST(LimitsOnNet, slow_connections_of_an_address_that_has_many_make_room) {
  for (const std::string_view data :
       {"GET /large HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST /x HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k\r\nContent-Length: 9999\r\n\r\nx",
        "GET / HTTP/1.1\r\nHost: a"}) {
    for (const std::size_t rate : {100U, 0U}) {
      SCOPED_TRACE(fmt::format("{} {}", data, rate));
      Stage stage(
          [&](ServingSettings& all) {
            all.limits.max_connections = 4;
            all.limits.min_rate = rate;
            all.timeouts.body_idle = 1h;
            all.timeouts.header = 5min;
          },
          {.capacity = 4096});
      stage.serve = [](const Stage::Served& served) {
        const std::size_t size = served.request.target == "/large" ? 1'000'000 : 2;
        if (served.whole) {
          served.peer.send(
              fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", size, std::string(size, 'x')));
        }
      };
      const auto slow = [&](std::string_view address) -> StageClient& {
        StageClient& client = stage.client(address);
        client.peer->set_reading(false);
        client.ask(data);
        return client;
      };
      StageClient& lone = slow("203.0.113.3");
      for (int i = 0; i < 3; ++i) slow("203.0.113.1");
      stage.run(20s);
      StageClient& newcomer = stage.client("203.0.113.2");
      newcomer.ask("GET /page HTTP/1.1\r\nHost: a\r\n\r\n");
      stage.run(2s);
      EXPECT_EQ(stage.gateway->sum(&Metrics::connections_displaced), 1U);
      EXPECT_EQ(newcomer.response().status, 200);
      EXPECT_FALSE(lone.over());
      stage.finish();
    }
  }
}

// Limits are those of the client that the PROXY header names, not of the load balancer.
TEST(LimitsOnNet, a_client_behind_a_load_balancer_has_limits_of_its_own) {
  Stage stage([](ServingSettings& all) {
    all.proxy_protocol.plain = true;
    all.proxy_protocol.from.add("203.0.113.1");
    all.limits.max_connections_per_address = 1;
  });
  std::vector<std::string> seen;
  stage.serve = [&](const Stage::Served& served) {
    seen.push_back(served.request.field("X-Forwarded-For"));
    served.peer.send(fine);
  };
  const auto from = [&](std::string_view address) -> StageClient& {
    StageClient& client = stage.client();
    client.reader.expect("GET");
    client.peer->send(
        fmt::format("PROXY TCP4 {} 192.0.2.9 4711 443\r\nGET /page HTTP/1.1\r\nHost: api.test\r\n\r\n", address));
    stage.run(1s);
    return client;
  };
  EXPECT_EQ(from("198.51.100.1").response().status, 201);
  EXPECT_EQ(from("198.51.100.2").response().status, 201);
  EXPECT_EQ(from("198.51.100.1").response().status, 503);
  EXPECT_EQ(seen, (std::vector<std::string>{"198.51.100.1", "198.51.100.2"}));
  stage.finish();
}

}  // namespace limits_net_test
}  // namespace once::sim
