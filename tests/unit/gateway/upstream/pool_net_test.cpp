// Connections to a backend, byte by byte: which are used again, which are not, and what becomes of a request whose
// connection was closed while it idled.
#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/support/sim_stage.hpp"

namespace once::sim {
namespace pool_net_test {

using namespace std::chrono_literals;

std::string post(std::string_view key, std::size_t size = 5) {
  return fmt::format("POST /orders HTTP/1.1\r\nHost: api.test\r\nIdempotency-Key: {}\r\nContent-Length: {}\r\n\r\n{}",
                     key, size, std::string(size, 'b'));
}
constexpr std::string_view get = "GET /page HTTP/1.1\r\nHost: api.test\r\n\r\n";
constexpr std::string_view fine = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

int status_of(Stage& stage, std::string_view request) {
  StageClient& client = stage.ask(request, 500ms);
  return client.response().status;
}

TEST(PoolOnNet, a_connection_is_used_again) {
  Stage stage;
  EXPECT_EQ(status_of(stage, post("a")), 200);
  EXPECT_EQ(status_of(stage, post("b")), 200);
  EXPECT_EQ(status_of(stage, get), 200);
  EXPECT_EQ(stage.connections.size(), 1U);
}

TEST(PoolOnNet, a_connection_whose_request_was_not_written_is_not_used_again) {
  for (const bool reused : {false, true}) {
    Stage stage({}, {.capacity = 2000});
    stage.serve = [](const Stage::Served& served) {
      if (served.whole) return served.peer.send(fine);
      if (served.request.length < 1000) return;
      // Answers the large one at once, and reads no more of it for a while.
      served.peer.send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno");
      served.peer.set_reading(false);
    };
    if (reused) EXPECT_EQ(status_of(stage, post("first")), 200);
    StageClient& large = stage.client();
    large.ask(post("large", 50'000));
    // The gateway gives up writing, and reads the answer.
    for (unsigned i = 0; i < 1000 && large.responses.empty(); ++i) stage.run(100ms);
    EXPECT_EQ(large.response().status, 413);
    stage.connections[0]->peer->set_reading(true);
    EXPECT_EQ(status_of(stage, post("b")), 200);
    EXPECT_EQ(stage.connections.size(), 2U);
  }
}

TEST(PoolOnNet, a_connection_whose_response_was_not_read_is_not_used_again) {
  Stage stage({}, {.capacity = 4000});
  stage.serve = [](const Stage::Served& served) {
    if (served.request.method == "GET") {
      served.peer.send("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + std::string(100'000, 'x'));
    } else if (served.whole) {
      served.peer.send(fine);
    }
  };
  StageClient& leaves = stage.client();
  leaves.peer->set_reading(false);
  leaves.ask(get);
  stage.run(100ms);
  leaves.peer->reset();
  stage.run(100ms);
  EXPECT_EQ(status_of(stage, post("b")), 200);
  EXPECT_EQ(stage.connections.size(), 2U);
}

// The write is told of the reset, and the kernel says it once: to the read it looks like an end.
TEST(PoolOnNet, an_unframed_response_before_a_reset_is_not_whole) {
  Stage stage({}, {.capacity = 2000});
  stage.serve = [&](const Stage::Served& served) {
    if (served.whole) return;
    served.peer.set_reading(false);
    served.peer.send("HTTP/1.1 500 Internal Server Error\r\n\r\nhalf of it");
    stage.world.after(10ms, [peer = &served.peer] { peer->reset(); });
  };
  StageClient& client = stage.ask(post("large", 50'000), 1min);
  EXPECT_EQ(client.response().status, 502);
  EXPECT_EQ(client.response().field("Idempotency-Status"), "unknown");
}

TEST(PoolOnNet, bytes_behind_a_response_end_the_connection) {
  for (const Duration later : {0ms, 20ms}) {
    Stage stage;
    stage.serve = [&](const Stage::Served& served) {
      if (!served.whole) return;
      served.peer.send(fine);
      stage.world.after(later, [peer = &served.peer] { peer->send(fine); });
    };
    EXPECT_EQ(status_of(stage, post("a")), 200);
    stage.answer("HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nnu");
    EXPECT_EQ(status_of(stage, post("b")), 201);
    EXPECT_EQ(stage.connections.size(), 2U);
  }
}

TEST(PoolOnNet, a_connection_that_was_closed_while_it_idled_is_not_used) {
  for (const bool resets : {false, true}) {
    Stage stage;
    EXPECT_EQ(status_of(stage, post("a")), 200);
    resets ? stage.connections[0]->peer->reset() : stage.connections[0]->peer->close();
    stage.run(10ms);
    StageClient& client = stage.ask(post("b"), 500ms);
    EXPECT_EQ(client.response().field("Idempotency-Status"), "executed");
    EXPECT_EQ(client.response().status, 200);
    EXPECT_EQ(stage.connections.size(), 2U);
  }
}

TEST(PoolOnNet, one_that_the_backend_closes_after_its_answer_is_not_used) {
  Stage stage;
  stage.answer("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
  EXPECT_EQ(status_of(stage, post("a")), 200);
  EXPECT_EQ(status_of(stage, post("b")), 200);
  EXPECT_EQ(stage.connections.size(), 2U);
}

// Half of what the backend promises: it may close the connection in the same moment.
TEST(PoolOnNet, a_connection_idles_no_longer_than_the_backend_promises) {
  struct Case {
    std::string_view promise;
    Duration idles;
    std::size_t connections;
  };
  for (const Case& c :
       {Case{"Keep-Alive: timeout=2\r\n", 1100ms, 2}, Case{"Keep-Alive: timeout=2\r\n", 900ms, 1},
        Case{"keep-alive: max=100,  Timeout=2\r\n", 1100ms, 2}, Case{"Keep-Alive: timeout=0\r\n", 1ms, 2},
        Case{"Keep-Alive: max=2\r\n", 1100ms, 1}, Case{"Keep-Alive: timeout=60\r\n", 3s, 1}, Case{"", 3s, 1}}) {
    SCOPED_TRACE(c.promise);
    Stage stage;
    stage.answer(fmt::format("HTTP/1.1 200 OK\r\n{}Content-Length: 2\r\n\r\nok", c.promise));
    StageClient& client = stage.client();
    for (int i = 0; i < 2; ++i) {
      client.ask(get);
      stage.run(10ms);
      EXPECT_EQ(client.responses.size(), static_cast<std::size_t>(i + 1));
      stage.run(c.idles - 10ms);
    }
    EXPECT_EQ(stage.connections.size(), c.connections);
  }
}

TEST(PoolOnNet, a_backend_that_goes_on_announcing_is_given_up) {
  for (const std::size_t interim : {http::most_interim_responses, http::most_interim_responses + 1}) {
    Stage stage({}, {.capacity = 100'000});
    stage.serve = [&](const Stage::Served& served) {
      if (!served.whole) return;
      std::string response;
      for (std::size_t i = 0; i < interim; ++i) response.append("HTTP/1.1 103 Early Hints\r\n\r\n");
      served.peer.send(response.append(fine));
    };
    EXPECT_EQ(status_of(stage, get), interim > http::most_interim_responses ? 502 : 200);
  }
}

TEST(PoolOnNet, without_descriptors_idle_connections_make_room) {
  Stage stage;
  EXPECT_EQ(status_of(stage, get), 200);
  stage.gateway->net().most_descriptors = stage.gateway->net().open_descriptors();
  stage.run(2s);  // too old for a keyed request
  StageClient& client = *stage.clients.front();
  client.responses.clear();
  client.ask(post("b"));
  stage.run(500ms);
  EXPECT_EQ(client.response().status, 200);
  stage.gateway->net().most_descriptors = 1000;
}

// So many keyed requests at a time, answered together.
void wave(Stage& stage, std::size_t count, unsigned number) {
  std::vector<Peer*> asked;
  stage.serve = [&asked](const Stage::Served& served) {
    if (served.whole) asked.push_back(&served.peer);
  };
  while (stage.clients.size() < count) stage.client();
  for (std::size_t i = 0; i < count; ++i) stage.clients[i]->ask(post(fmt::format("{}-{}", number, i)));
  stage.run(100ms);
  EXPECT_EQ(asked.size(), count);
  for (Peer* peer : asked) peer->send(fine);
  stage.run(100ms);
}

std::size_t idle(const Stage& stage) {
  return static_cast<std::size_t>(
      std::ranges::count_if(stage.connections, [](const auto& each) { return !each->ended && !each->reset; }));
}

TEST(PoolOnNet, as_many_connections_are_kept_as_were_in_use) {
  constexpr std::size_t many = 200;
  Stage stage([](ServingSettings& all) { all.pool.idle_max = 1h; });
  for (unsigned number = 0; number < 20; ++number) wave(stage, many, number);
  EXPECT_EQ(stage.connections.size(), many);
  // None that idled for a second is used for a key, and the new ones take the place of the old.
  stage.run(2s);
  wave(stage, many, 20);
  EXPECT_EQ(stage.connections.size(), 2 * many);
  EXPECT_EQ(idle(stage), many);
  // Less is kept as less is needed.
  for (unsigned number = 21; number < 71; ++number) {
    wave(stage, 10, number);
    stage.run(300ms);
  }
  EXPECT_LE(idle(stage), 20U);
  EXPECT_EQ(stage.connections.size(), 2 * many);
}

TEST(PoolOnNet, requests_one_after_the_other_survive_every_call_that_fails) {
  fails_nowhere([](Stage& stage) {
    status_of(stage, post("a"));
    status_of(stage, post("b"));
    status_of(stage, get);
  });
}

TEST(PoolOnNet, a_backend_that_closes_survives_every_call_that_fails) {
  fails_nowhere([](Stage& stage) {
    stage.serve = [](const Stage::Served& served) {
      if (!served.whole) return;
      served.peer.send(fine);
      if (served.connection % 2 == 0) served.peer.close();
    };
    status_of(stage, post("a"));
    status_of(stage, post("b"));
  });
}

}  // namespace pool_net_test
}  // namespace once::sim
