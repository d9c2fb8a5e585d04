// A gateway on the simulated network, with a store in memory, one backend and any number of clients, all in virtual
// time. A story says what clients send and what the backend answers. fails_nowhere() tells it once, and then once for
// every call to the network that the gateway makes, with that call failing.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/outcome.hpp"
#include "sim/message_reader.hpp"
#include "sim/sim_gateway.hpp"
#include "store/memory/memory_store.hpp"
#include "tests/unit/support/faulty_store.hpp"

namespace once::sim {

// The world's time.
class WorldClock final : public Clock {
 public:
  explicit WorldClock(const World& world) : world_(world) {}
  Time now() const override { return world_.now(); }

 private:
  const World& world_;
};

// One connection of a client.
class StageClient {
 public:
  StageClient(Network& network, const http::Endpoint& gateway, std::string_view address)
      : peer(network.connect(gateway, Network::address(address, 40'000))) {
    if (!peer) return;
    peer->on_bytes = [this](std::string_view got) {
      bytes.append(got);
      reader.feed(got);
    };
    peer->on_end = [this] {
      ended = true;
      reader.end();
    };
    peer->on_reset = [this] { reset = true; };
    reader.on_message = [this](const Message& message) { responses.push_back(message); };
    reader.on_head = [this](const Message& message) {
      if (message.status < 200) interim.push_back(message);
    };
    reader.on_tunnel = [this](std::string_view got) { tunnelled.append(got); };
  }

  // Bytes of a request whose answer is expected.
  void ask(std::string_view request) {
    reader.expect(std::string(request.substr(0, request.find(' '))));
    peer->send(request);
  }

  bool over() const { return ended || reset; }
  // The only response, or one that fails every comparison.
  Message response() const { return responses.size() == 1 ? responses.front() : Message(); }

  std::unique_ptr<Peer> peer;
  MessageReader reader{MessageReader::Of::responses};
  std::vector<Message> responses;
  std::vector<Message> interim;
  std::string bytes;
  std::string tunnelled;
  bool ended = false;
  bool reset = false;
};

class Stage {
 public:
  // A request as the backend has it, and the connection to answer it on.
  struct Served {
    Message request;
    Peer& peer;
    std::size_t connection;  // the first is 0
    bool whole;
  };

  struct Connection {
    std::unique_ptr<Peer> peer;
    MessageReader reader{MessageReader::Of::requests};
    bool ended = false;
    bool reset = false;
    std::string tunnelled;
  };

  explicit Stage(std::function<void(ServingSettings&)> change = {}, Weather weather = {})
      : world(1, false),
        network(world, weather),
        clock(world),
        store(clock, MemoryLimits{.shards = 1}),
        lanes(store),
        gateway(std::make_unique<SimGateway>(SimGateway::Parts{.network = network,
                                                               .store = lanes,
                                                               .waiters = waiters,
                                                               .clock = clock,
                                                               .settings = settings(change),
                                                               .listen = gateway_at()})) {
    network.serve(backend_at(), [this](std::unique_ptr<Peer> peer) { accept(std::move(peer)); });
    gateway->net().faults = [this](NetCall call) { return fault(call); };
  }

  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;
  ~Stage() { finish(); }

  static http::Endpoint gateway_at() { return Network::address("192.0.2.1", 80); }
  static http::Endpoint backend_at() { return Network::address("192.0.2.9", 9000); }

  static ServingSettings settings(const std::function<void(ServingSettings&)>& change) {
    ServingSettings all;
    Upstream upstream{.name = "backend"};
    upstream.servers.push_back({.host = "192.0.2.9", .port = 9000});
    all.upstreams.push_back(upstream);
    Route route{.path = "/**", .upstream = "backend"};
    route.policy.record = default_record_policy();
    route.policy.methods.set(static_cast<std::size_t>(Method::post));
    all.routes.push_back(route);
    all.upgrades = {"websocket"};
    if (change) change(all);
    return all;
  }

  StageClient& client(std::string_view address = "203.0.113.1") {
    clients.push_back(std::make_unique<StageClient>(network, gateway_at(), address));
    return *clients.back();
  }

  // A client that sends this, and what happens in the time after it.
  StageClient& ask(std::string_view request, Duration time = std::chrono::seconds(1)) {
    StageClient& asks = client();
    asks.ask(request);
    run(time);
    return asks;
  }

  void run(Duration length) { world.run_until(world.now() + length); }

  // What the backend does with a request, once its head is here; `whole`: and once more with its body, unless it has
  // none.
  std::function<void(const Served&)> serve = [](const Served& served) {
    if (served.whole) served.peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  };

  // The backend answers every request with this, once it has it as a whole.
  void answer(std::string response) {
    serve = [response = std::move(response)](const Served& served) {
      if (served.whole) served.peer.send(response);
    };
  }

  // The end of every story, if it does not end earlier. Nothing is left, and everybody got what is well framed.
  void finish() {
    if (std::exchange(finished_, true)) return;
    for (const auto& each : clients) {
      if (each->peer) each->peer->set_reading(true);
    }
    run(std::chrono::minutes(10));
    for (const auto& each : clients) {
      if (each->peer) each->peer->close();
    }
    for (const auto& each : connections) each->peer->close();
    gateway->drain({.limit = std::chrono::hours(1)});
    run(std::chrono::minutes(10));
    EXPECT_TRUE(gateway->stopped());
    if (!gateway->stopped()) gateway->die();
    EXPECT_EQ(gateway->left_over(), std::vector<std::string>());
    if (!unwatched) EXPECT_EQ(gateway->faults(), std::vector<std::string>());
    for (const auto& each : clients) EXPECT_EQ(each->reader.problem(), "") << each->bytes;
    for (const auto& each : connections) EXPECT_EQ(each->reader.problem(), "");
    for (const auto& [key, times] : executed) EXPECT_LE(times, 1U) << key;
  }

  // Requests that the backend has as a whole, by key.
  std::map<std::string, unsigned> executed;
  std::size_t requests = 0;  // with and without

  World world;
  Network network;
  WorldClock clock;
  MemoryStore store;
  support::InlineLanes lanes;
  Waiters waiters;
  std::unique_ptr<SimGateway> gateway;
  std::vector<std::unique_ptr<StageClient>> clients;
  std::vector<std::unique_ptr<Connection>> connections;

  std::uint64_t fails_at = 0;  // the number of the call; 0: none
  NetFault fails_with = NetFault::none;
  unsigned fails_for = 1;  // so many calls in a row
  std::uint64_t calls = 0;
  bool unwatched = false;  // a descriptor could not be watched, which is a broken invariant of its connection

 private:
  bool finished_ = false;

  NetFault fault(NetCall call) {
    ++calls;
    const bool fails = fails_at != 0 && calls >= fails_at && calls < fails_at + fails_for;
    if (fails && call == NetCall::add && fails_with == NetFault::no_descriptors) unwatched = true;
    return fails ? fails_with : NetFault::none;
  }

  void accept(std::unique_ptr<Peer> peer) {
    connections.push_back(std::make_unique<Connection>());
    Connection& connection = *connections.back();
    const std::size_t number = connections.size() - 1;
    connection.peer = std::move(peer);
    connection.peer->on_bytes = [&connection](std::string_view got) { connection.reader.feed(got); };
    connection.peer->on_end = [&connection] {
      connection.ended = true;
      connection.peer->close();
    };
    connection.peer->on_reset = [&connection] { connection.reset = true; };
    connection.reader.on_tunnel = [&connection](std::string_view got) { connection.tunnelled.append(got); };
    connection.reader.on_head = [this, &connection, number](const Message& message) {
      if (message.framing != Message::Framing::none) serve({message, *connection.peer, number, false});
    };
    connection.reader.on_message = [this, &connection, number](const Message& message) {
      ++requests;
      if (message.has("Idempotency-Key")) ++executed[message.field("Idempotency-Key")];
      serve({message, *connection.peer, number, true});
    };
  }
};

// Tells the story as it is, and then with each call to the network failing in turn, in every way. The story gives the
// stage back when everything has been sent; what must hold in any case is checked by Stage::finish().
inline void fails_nowhere(const std::function<void(Stage&)>& story,
                          const std::function<void(ServingSettings&)>& change = {}) {
  std::uint64_t calls = 0;
  {
    Stage stage(change);
    story(stage);
    stage.run(std::chrono::minutes(1));
    calls = stage.calls;
    stage.finish();
  }
  EXPECT_GT(calls, 5U);
  for (const NetFault fault :
       {NetFault::again, NetFault::interrupted, NetFault::brief, NetFault::reset, NetFault::no_descriptors}) {
    for (const unsigned times : {1U, 20U}) {
      for (std::uint64_t call = 1; call <= calls; ++call) {
        SCOPED_TRACE(fmt::format("call {} of {} fails {} times: {}", call, calls, times, name_of(fault)));
        Stage stage(change);
        stage.fails_at = call;
        stage.fails_with = fault;
        stage.fails_for = times;
        story(stage);
        stage.finish();
        if (testing::Test::HasFailure()) return;
      }
    }
  }
}

}  // namespace once::sim
