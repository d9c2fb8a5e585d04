// A client's connection, byte by byte: requests that come in pieces, stop anywhere or end anywhere, and replies that
// nobody takes.
#include <gtest/gtest.h>

#include "tests/unit/support/held_offload.hpp"
#include "tests/unit/support/sim_stage.hpp"

namespace once::sim {
namespace connection_net_test {

using namespace std::chrono_literals;

constexpr std::string_view keyed =
    "POST /orders HTTP/1.1\r\nHost: api.test\r\nAuthorization: me\r\nIdempotency-Key: k1\r\nContent-Length: 11\r\n\r\n"
    "hello world";
constexpr std::string_view chunked =
    "POST /orders HTTP/1.1\r\nHost: api.test\r\nIdempotency-Key: k1\r\nTransfer-Encoding: chunked\r\n\r\n"
    "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n";
constexpr std::string_view unkeyed = "GET /orders HTTP/1.1\r\nHost: api.test\r\n\r\n";

TEST(ConnectionOnNet, a_request_split_at_every_byte_is_answered) {
  for (const std::string_view request : {keyed, chunked, unkeyed}) {
    for (std::size_t at = 1; at < request.size(); ++at) {
      Stage stage;
      StageClient& client = stage.ask(request.substr(0, at), 50ms);
      client.peer->send(request.substr(at));
      stage.run(1s);
      EXPECT_EQ(client.response().status, 200) << at;
      EXPECT_EQ(client.response().body, "ok") << at;
      EXPECT_EQ(stage.requests, 1U) << at;
    }
  }
}

TEST(ConnectionOnNet, a_client_that_leaves_at_any_byte_costs_nothing_but_its_connection) {
  for (const bool resets : {false, true}) {
    for (const std::string_view request : {keyed, chunked}) {
      for (std::size_t at = 0; at <= request.size(); ++at) {
        Stage stage;
        StageClient& client = stage.ask(request.substr(0, at), 20ms);
        resets ? client.peer->reset() : client.peer->close();
        stage.run(1s);
        // A whole request is executed, whoever is still there.
        const bool whole = at == request.size();
        EXPECT_EQ(stage.requests, whole ? 1U : 0U) << at;
        EXPECT_EQ(stage.ask(request).response().field("Idempotency-Status"), whole ? "replayed" : "executed") << at;
      }
    }
  }
}

TEST(ConnectionOnNet, a_request_that_stops_is_given_up_and_not_sent) {
  for (std::size_t at = 1; at < keyed.size(); ++at) {
    Stage stage;
    StageClient& client = stage.ask(keyed.substr(0, at), 2min);
    EXPECT_EQ(client.response().status, 408) << at;
    EXPECT_TRUE(client.over()) << at;
    EXPECT_EQ(stage.requests, 0U) << at;
  }
}

TEST(ConnectionOnNet, pipelined_requests_are_answered_in_order) {
  Stage stage;
  stage.serve = [](const Stage::Served& served) {
    if (!served.whole) return;
    served.peer.send(fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", served.request.target.size(),
                                 served.request.target));
  };
  StageClient& client = stage.client();
  for (unsigned i = 0; i < 3; ++i) client.reader.expect("GET");
  client.peer->send(
      "GET /a HTTP/1.1\r\nHost: x\r\n\r\nGET /bb HTTP/1.1\r\nHost: x\r\n\r\nGET /ccc HTTP/1.1\r\nHost: x\r\n\r\n");
  stage.run(1s);
  ASSERT_EQ(client.responses.size(), 3U);
  EXPECT_EQ(client.responses[0].body, "/a");
  EXPECT_EQ(client.responses[1].body, "/bb");
  EXPECT_EQ(client.responses[2].body, "/ccc");
}

TEST(ConnectionOnNet, bad_framing_is_refused_and_what_follows_is_no_request) {
  constexpr std::string_view smuggled = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n";
  for (const std::string_view bad :
       {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcd",
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
        "GET  / HTTP/1.1\r\nHost: x\r\n\r\n", "GET / HTTP/1.1\r\nHost : x\r\n\r\n", "GET / HTTP/1.1\r\n\r\n"}) {
    Stage stage;
    StageClient& client = stage.ask(std::string(bad) + std::string(smuggled), 1min);
    EXPECT_GE(client.response().status, 400) << bad;
    EXPECT_TRUE(client.over()) << bad;
    EXPECT_EQ(stage.requests, 0U) << bad;
  }
}

TEST(ConnectionOnNet, a_client_that_takes_nothing_is_cut_off) {
  Stage stage({}, {.capacity = 4096});
  stage.answer("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + std::string(100'000, 'x'));
  StageClient& client = stage.client();
  client.peer->set_reading(false);
  client.ask(keyed);
  stage.run(1min);
  EXPECT_EQ(stage.gateway->sum(&Metrics::slow_clients), 1U);
  EXPECT_EQ(stage.gateway->shared().usage.body_bytes, 0U);
  EXPECT_TRUE(client.reset);
}

// A client that pipelines behind its last request: bytes that nobody reads must not reset the connection under the
// response.
TEST(ConnectionOnNet, a_large_response_arrives_although_the_client_has_sent_more_than_was_asked_for) {
  for (const std::string_view asked :
       {"POST /orders HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        "GET /orders HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "GET /orders HTTP/1.0\r\nHost: x\r\n\r\n"}) {
    for (const bool at_once : {true, false}) {
      Stage stage({}, {.capacity = 4096});
      stage.answer("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + std::string(100'000, 'x'));
      StageClient& client = stage.client();
      client.peer->set_reading(false);
      client.ask(at_once ? std::string(asked) + std::string(unkeyed) : std::string(asked));
      stage.run(1s);
      if (!at_once) client.peer->send(unkeyed);
      stage.run(1s);
      client.peer->set_reading(true);
      stage.run(1min);
      EXPECT_EQ(client.response().body.size(), 100'000U) << asked << at_once;
      EXPECT_TRUE(client.ended) << asked << at_once;
      EXPECT_FALSE(client.reset) << asked << at_once;
      EXPECT_EQ(stage.requests, 1U) << "what follows is no request";
    }
  }
}

TEST(ConnectionOnNet, a_request_that_was_here_before_is_refused_and_one_from_another_gateway_is_not) {
  Stage stage;
  std::string via;
  stage.serve = [&via](const Stage::Served& served) {
    via = served.request.field("Via");
    if (served.whole) served.peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  };
  const auto status_with = [&](const std::string& seen) {
    StageClient& client =
        stage.ask("GET /orders HTTP/1.1\r\nHost: x\r\nVia: 2 edge (a, b), HTTP/1.1  " + seen + " (c)\r\n\r\n");
    return client.response().status;
  };
  stage.ask(unkeyed);
  ASSERT_TRUE(via.starts_with("1.1 once"));
  const std::string name = via.substr(4);
  EXPECT_EQ(status_with(name + "0"), 200);
  EXPECT_EQ(status_with(name), 508);
  EXPECT_EQ(stage.requests, 2U);
  StageClient& with_key = stage.ask("POST /orders HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nVia: 1.1 " + name +
                                    "\r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ(with_key.response().status, 508);
}

// Newcomers displace idle connections, which end a moment later: they must not count twice.
TEST(ConnectionOnNet, no_more_connections_are_open_than_may_be) {
  Stage stage([](ServingSettings& all) { all.limits.max_connections = 2; });
  std::uint64_t most = 0;
  const auto fault = stage.gateway->net().faults;
  stage.gateway->net().faults = [&](NetCall call) {
    most = std::max(most, stage.gateway->sum(&Metrics::connections_open));
    return fault(call);
  };
  stage.client();
  stage.client();
  stage.run(5s);
  for (int newcomers = 0; newcomers < 4; ++newcomers) stage.client().ask(unkeyed);
  stage.run(1s);
  EXPECT_EQ(stage.gateway->sum(&Metrics::connections_displaced), 2U);
  EXPECT_EQ(stage.gateway->sum(&Metrics::connections_refused), 2U);
  EXPECT_EQ(most, 2U);
  EXPECT_EQ(stage.gateway->sum(&Metrics::connections_open), 2U);
  EXPECT_EQ(stage.gateway->shared().connections.load(), 2U);
  stage.finish();
}

constexpr std::string_view event_stream =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n";

std::string keyed_as(std::string_view key) {
  return fmt::format("POST /orders HTTP/1.1\r\nHost: api.test\r\nIdempotency-Key: {}\r\nContent-Length: 2\r\n\r\nhi",
                     key);
}

// How clients leave while their requests are executed.
enum class Leaves : std::uint8_t { with_an_end, with_a_reset, behind_unread_bytes };

void leave(StageClient& client, Leaves how) {
  if (how == Leaves::behind_unread_bytes) client.peer->send("GET");
  how == Leaves::with_a_reset ? client.peer->reset() : client.peer->close();
}

// Two requests whose clients leave have all connections that there may be. `answer` is the beginning of the backend's
// response, and `rest` comes after the test.
struct LeftBehind {
  LeftBehind(Leaves how, std::string_view answer, std::string_view rest)
      : stage([](ServingSettings& all) { all.limits.max_connections = 2; }), rest(rest) {
    stage.serve = [this, answer](const Stage::Served& served) {
      if (!served.whole) return;
      if (!served.request.has("Idempotency-Key")) served.peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
      if (!served.request.has("Idempotency-Key")) return;
      served.peer.send(answer);
      at_work.push_back(&served.peer);
    };
    for (const std::string_view key : {"k1", "k2"}) {
      StageClient& client = stage.ask(keyed_as(key), 100ms);
      leave(client, how);
    }
    stage.run(100ms);
  }

  // The backend goes on to its end, and a retry has its whole response.
  void ends_well() {
    for (Peer* peer : at_work) peer->send(rest);
    stage.run(1s);
    for (const std::string_view key : {"k1", "k2"}) {
      EXPECT_EQ(stage.ask(keyed_as(key)).response().field("Idempotency-Status"), "replayed");
    }
    EXPECT_EQ(at_work.size(), 2U);
    stage.finish();
  }

  Stage stage;
  std::string rest;
  std::vector<Peer*> at_work;
};

TEST(ConnectionOnNet, clients_that_left_give_back_their_places_while_their_requests_go_on) {
  constexpr std::string_view whole = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
  constexpr std::string_view last_event = "9\r\ndata: 2\n\n\r\n0\r\n\r\n";
  for (const Leaves how : {Leaves::with_an_end, Leaves::with_a_reset, Leaves::behind_unread_bytes}) {
    for (const bool streams : {false, true}) {
      SCOPED_TRACE(fmt::format("{} {}", static_cast<int>(how), streams));
      LeftBehind left(how, streams ? event_stream : "", streams ? last_event : whole);
      EXPECT_EQ(left.stage.gateway->shared().connections.load(), 0U);
      EXPECT_EQ(left.stage.gateway->shared().usage.in_flight.load(), 2U);
      for (int newcomers = 0; newcomers < 2; ++newcomers) EXPECT_EQ(left.stage.ask(unkeyed).response().body, "ok");
      // As many descriptors as two clients and four backends have; listener and spare come on top.
      EXPECT_LE(left.stage.gateway->net().open_descriptors(), 2U + 4U + 2U);
      left.ends_well();
    }
  }
}

// Most clients that close their side have left. One that has not is served as long as there are descriptors.
TEST(ConnectionOnNet, a_client_that_closed_its_side_only_gets_its_response_unless_its_descriptor_is_needed) {
  for (const std::size_t newcomers : {1U, 2U}) {
    Stage stage([](ServingSettings& all) { all.limits.max_connections = 2; });
    Peer* backend = nullptr;
    stage.serve = [&](const Stage::Served& served) {
      if (served.whole) backend = &served.peer;
    };
    StageClient& half_closed = stage.client();
    half_closed.ask(keyed);
    half_closed.peer->end();
    stage.run(100ms);
    for (std::size_t i = 0; i < newcomers; ++i) stage.client();
    stage.run(100ms);
    EXPECT_EQ(half_closed.over(), newcomers == 2);
    backend->send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    stage.run(1s);
    EXPECT_EQ(half_closed.response().body, newcomers == 2 ? "" : "ok");
  }
}

// A connection is not what limits a client that leaves each one behind.
TEST(ConnectionOnNet, an_address_leaves_no_more_requests_behind_than_it_may_have_connections) {
  for (const std::size_t of_address : {0U, 2U}) {
    LeftBehind left(Leaves::with_a_reset, "", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    ServingSettings changed = left.stage.gateway->worker().generation()->settings();
    if (of_address != 0) changed.limits.max_connections = 100;
    changed.limits.max_connections_per_address = of_address;
    ASSERT_TRUE(left.stage.gateway->reload(changed));
    StageClient& more = left.stage.ask(keyed_as("k3"));
    EXPECT_EQ(more.response().status, 503);
    EXPECT_EQ(more.response().field("Retry-After"), "1");
    left.ends_well();
  }
}

TEST(ConnectionOnNet, a_client_that_leaves_its_request_behind_survives_every_call_that_fails) {
  fails_nowhere([](Stage& stage) {
    stage.answer(std::string(event_stream) + "0\r\n\r\n");
    StageClient& client = stage.client();
    client.ask(keyed);
    client.peer->end();
    stage.run(1s);
    StageClient& again = stage.client();
    again.ask(keyed);
    again.peer->reset();
    stage.run(1s);
  });
}

// Its place is taken: a client that goes on sending must not keep the connection, which nobody counts any more.
TEST(ConnectionOnNet, a_displaced_upload_is_reset_at_once) {
  Stage stage([](ServingSettings& all) { all.limits.max_connections = 1; });
  stage.serve = [](const Stage::Served&) {};
  StageClient& slow = stage.client();
  slow.ask("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n");
  for (int second = 0; second < 20; ++second) {
    slow.peer->send("x");
    stage.run(1s);
  }
  stage.ask(unkeyed, 100ms);
  EXPECT_EQ(stage.gateway->sum(&Metrics::connections_displaced), 1U);
  slow.peer->send("x");
  stage.run(1s);
  EXPECT_TRUE(slow.reset);
}

// The memory of a response is counted for as long as its client has not read it.
TEST(ConnectionOnNet, a_response_that_waits_for_its_client_is_counted) {
  Stage stage({}, {.capacity = 4096});
  stage.answer("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + std::string(100'000, 'x'));
  StageClient& client = stage.client();
  client.peer->set_reading(false);
  client.ask(keyed);
  stage.run(5s);
  EXPECT_GE(stage.gateway->shared().usage.body_bytes, 100'000U);
  client.peer->set_reading(true);
  stage.run(5s);
  EXPECT_EQ(client.response().body.size(), 100'000U);
  EXPECT_EQ(stage.gateway->shared().usage.body_bytes, 0U);
}

// Readers of a large response take memory for as long as they read.
TEST(ConnectionOnNet, many_readers_at_one_address_keep_nobody_else_from_a_replay_or_a_record) {
  const std::string large(1'500'000, 'x');
  Stage stage(
      [](ServingSettings& all) {
        all.limits.max_body_memory = std::size_t{2} << 20U;
        all.routes[0].policy.record.max_body = 2'000'000;
      },
      {.capacity = 4096});
  stage.answer(fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", large.size(), large));
  stage.ask(keyed_as("k1"), 5s);
  EXPECT_EQ(stage.clients[0]->response().body.size(), large.size());
  for (int readers = 0; readers < 40; ++readers) {
    StageClient& reader = stage.client();
    reader.peer->set_reading(false);
    reader.ask(keyed_as("k1"));
  }
  stage.run(100ms);
  // Before any of them is slow enough to be displaced.
  StageClient& replay = stage.client("198.51.100.7");
  replay.ask(keyed_as("k1"));
  StageClient& first = stage.client("198.51.100.8");
  first.ask(keyed_as("k2"));
  stage.run(800ms);
  EXPECT_EQ(replay.response().field("Idempotency-Status"), "replayed");
  EXPECT_EQ(replay.response().body.size(), large.size());
  EXPECT_EQ(first.response().body.size(), large.size());
  EXPECT_EQ(stage.gateway->sum(&Metrics::bodies_dropped), 0U);
}

TEST(ConnectionOnNet, whole_requests_survive_every_call_that_fails) {
  fails_nowhere([](Stage& stage) {
    stage.ask(keyed, 200ms);
    stage.ask(keyed);
  });
  fails_nowhere([](Stage& stage) {
    StageClient& client = stage.ask(chunked.substr(0, 100), 200ms);
    client.peer->send(chunked.substr(100));
    stage.run(1s);
  });
  fails_nowhere([](Stage& stage) {
    StageClient& client = stage.client();
    client.ask(keyed);
    client.ask(unkeyed);
    stage.run(1s);
  });
}

// A stage that reads large bodies beside its loop.
struct ReadsBeside {
  explicit ReadsBeside(const std::function<void(ServingSettings&)>& change = {}) : stage(change) {
    stage.gateway->shared().offload = &offload;
  }

  // While `client` waits, another one is served.
  void other_is_served(const StageClient& client) {
    stage.run(1s);
    EXPECT_TRUE(client.responses.empty());
    EXPECT_EQ(stage.ask("GET /page HTTP/1.1\r\nHost: api.test\r\n\r\n").response().status, 200);
    offload.go_on();
    stage.run(1s);
  }

  HeldOffload offload;  // outlives the stage
  Stage stage;
};

TEST(ConnectionOnNet, a_large_body_is_compared_beside_the_loop) {
  using Body = FingerprintPolicy::Body;
  struct Case {
    Body body;
    std::string_view type;
    std::string_view begin;
    std::string_view end;
  };
  for (const Case& each :
       {Case{Body::json, "application/json", "[\"", "\"]"},
        Case{Body::form, "application/x-www-form-urlencoded", "a=", "&b=1"},
        Case{Body::json, "multipart/form-data; boundary=b", "--b\r\nA: b\r\n\r\n", "\r\n--b--\r\n"}}) {
    ReadsBeside world([&each](ServingSettings& all) { all.routes.front().policy.fingerprint.body = each.body; });
    const auto ask = [&](std::size_t size) -> StageClient& {
      const std::string body = fmt::format("{}{}{}", each.begin, std::string(size, 'x'), each.end);
      StageClient& client = world.stage.client();
      client.ask(fmt::format(
          "POST /orders HTTP/1.1\r\nHost: api.test\r\nIdempotency-Key: k{}\r\nContent-Type: {}\r\nContent-Length: "
          "{}\r\n\r\n{}",
          size, each.type, body.size(), body));
      return client;
    };
    world.offload.holds = true;
    const StageClient& large = ask(http::most_bytes_at_once);
    world.other_is_served(large);
    EXPECT_EQ(large.response().field("Idempotency-Status"), "executed");
    EXPECT_EQ(world.offload.jobs, 2U) << "held, and done";
    const StageClient& again = ask(http::most_bytes_at_once);
    world.stage.run(1s);
    EXPECT_EQ(again.response().field("Idempotency-Status"), "replayed");
    EXPECT_EQ(world.offload.jobs, 3U);
    // A small one costs no other thread.
    ask(1000);
    world.stage.run(1s);
    EXPECT_EQ(world.offload.jobs, 3U);
  }
}

// Nothing of a client that has left is missing when its body was read.
TEST(ConnectionOnNet, a_client_may_leave_while_its_body_is_compared) {
  ReadsBeside world;
  world.offload.holds = true;
  StageClient& client = world.stage.ask(
      fmt::format("POST /orders HTTP/1.1\r\nHost: api.test\r\nIdempotency-Key: k\r\nContent-Length: {}\r\n\r\n{}",
                  1'000'000, std::string(1'000'000, 'x')));
  client.peer->reset();
  world.stage.run(1s);
  EXPECT_EQ(world.stage.requests, 0U);
  world.offload.go_on();
  world.stage.run(1s);
  EXPECT_EQ(world.stage.requests, 1U);
}

TEST(ConnectionOnNet, an_event_is_looked_for_beside_the_loop) {
  std::string events;
  while (events.size() < 400'000) events += fmt::format("id: {}\ndata: {}\n\n", events.size(), std::string(900, 'x'));
  const std::size_t before_last = events.rfind("id: ", events.rfind("id: ") - 1);
  ReadsBeside world;
  world.stage.serve = [&](const Stage::Served& served) {
    if (!served.whole) return;
    const bool keyed = served.request.has("Idempotency-Key");
    const std::string_view body = keyed ? std::string_view(events) : "ok";
    served.peer.send(fmt::format("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {}\r\n\r\n{}",
                                 body.size(), body));
  };
  const auto ask = [&](std::string_view fields) -> StageClient& {
    StageClient& client = world.stage.client();
    client.ask(fmt::format(
        "POST /chat HTTP/1.1\r\nHost: api.test\r\nIdempotency-Key: k\r\n{}Content-Length: 2\r\n\r\nhi", fields));
    return client;
  };
  const StageClient& first = ask("");
  world.stage.run(5s);
  EXPECT_TRUE(first.response().body == events);
  world.offload.holds = true;
  const std::string id = events.substr(before_last + 4, events.find('\n', before_last) - before_last - 4);
  const StageClient& resumed = ask(fmt::format("Last-Event-ID: {}\r\n", id));
  world.other_is_served(resumed);
  EXPECT_EQ(resumed.response().body, events.substr(events.rfind("id: ")));
  EXPECT_EQ(world.stage.executed.at("k"), 1U);
}

}  // namespace connection_net_test
}  // namespace once::sim
