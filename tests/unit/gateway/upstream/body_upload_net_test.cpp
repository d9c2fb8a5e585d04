// Bodies that are sent while the response is read: backends that answer before they have read everything.
#include <gtest/gtest.h>

#include "tests/unit/support/faulty_spool.hpp"
#include "tests/unit/support/sim_stage.hpp"

namespace once::sim {
namespace body_upload_net_test {

using namespace std::chrono_literals;

constexpr std::size_t in_memory = 200'000;
constexpr std::size_t large = 700'000;
constexpr std::string_view fine = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
constexpr std::string_view refusal = "HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno";
constexpr std::string_view events = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n";

std::string body_of(std::size_t size) {
  std::string body(size, '\0');
  for (std::size_t i = 0; i < size; ++i) body[i] = static_cast<char>('a' + i % 23);
  return body;
}

std::string post(std::size_t size, std::string_view key = "k1") {
  return fmt::format(
      "POST /files HTTP/1.1\r\nHost: api.test\r\nAuthorization: me\r\nIdempotency-Key: {}\r\nContent-Length: "
      "{}\r\n\r\n{}",
      key, size, body_of(size));
}

// Connections to the backend and back hold little of what is sent.
class Uploading {
 public:
  explicit Uploading(const std::function<void(ServingSettings&)>& change = {})
      : stage(
            [&change](ServingSettings& all) {
              all.routes.front().policy.max_request_body = in_memory;
              all.routes.front().policy.timeouts.response = 30s;
              if (change) change(all);
            },
            {.capacity = 20'000}) {
    stage.gateway->shared().spool = &disk.spool;
  }

  StageClient& ask(std::string_view request) {
    StageClient& client = stage.client();
    client.ask(request);
    return client;
  }
  std::string status(std::string_view request) {
    StageClient& client = ask(request);
    run_until([&client] { return client.over() || !client.responses.empty(); });
    return client.response().field("Idempotency-Status");
  }
  // The part that was recorded, and no end.
  void expect_unknown() {
    StageClient& client = ask(post(large));
    run_until([&client] { return client.over(); });
    EXPECT_NE(client.bytes.find("Idempotency-Status: unknown\r\n"), std::string::npos) << client.bytes;
    EXPECT_TRUE(client.responses.empty());
  }
  // Another request: how many connections there are with it.
  std::size_t connections_of_next() {
    stage.answer(std::string(fine));
    EXPECT_EQ(status(post(5, "next")), "executed");
    return stage.connections.size();
  }
  Peer& backend() { return *stage.connections.at(0)->peer; }
  template <class Condition>
  void run_until(const Condition& holds) {
    for (unsigned i = 0; i < 1000 && !holds(); ++i) stage.run(10ms);
    EXPECT_TRUE(holds());
  }

  ~Uploading() {
    stage.finish();
    EXPECT_EQ(disk.spool.bytes(), 0U);
    EXPECT_EQ(disk.open, 0U);
    EXPECT_EQ(stage.gateway->shared().usage.body_bytes, 0U);
  }

  FaultySpool disk;  // outlives the stage
  Stage stage;
};

// It reads on when its response was taken, as a program does that answers while it reads.
TEST(BodyUpload, reaches_a_backend_that_answers_while_it_reads) {
  for (const std::size_t size : {in_memory, large}) {
    Uploading world;
    std::string got;
    const std::string echoed(300'000, 'e');
    world.stage.serve = [&](const Stage::Served& served) {
      if (served.whole) {
        got = served.request.body;
        return;
      }
      served.peer.set_reading(false);
      served.peer.send(fmt::format("{}Content-Length: {}\r\n\r\n{}", events, echoed.size(), echoed));
    };
    StageClient& client = world.ask(post(size));
    world.run_until([&] { return client.bytes.size() > echoed.size(); });
    EXPECT_EQ(got, "");
    world.backend().set_reading(true);
    world.run_until([&client] { return !client.responses.empty(); });
    EXPECT_EQ(client.response().field("Idempotency-Status"), "executed");
    EXPECT_EQ(client.response().body, echoed);
    EXPECT_EQ(got, body_of(size));
    EXPECT_EQ(world.connections_of_next(), 2U) << "it may not have read what the system took";
    EXPECT_EQ(world.status(post(size)), "replayed");
  }
}

TEST(BodyUpload, stops_when_it_is_refused) {
  enum class Then : std::uint8_t { reads_no_more, reads_on, closes };
  for (const std::size_t size : {in_memory, large}) {
    for (const Then then : {Then::reads_no_more, Then::reads_on, Then::closes}) {
      Uploading world;
      world.stage.serve = [then](const Stage::Served& served) {
        served.peer.send(refusal);
        if (then == Then::reads_no_more) served.peer.set_reading(false);
        if (then == Then::closes) served.peer.close();
      };
      StageClient& client = world.ask(post(size));
      world.stage.run(1s);
      EXPECT_EQ(client.response().status, 413);
      EXPECT_EQ(client.response().field("Idempotency-Status"), "executed");
      EXPECT_EQ(world.disk.open, 0U);
      world.stage.run(5s);
      EXPECT_EQ(world.stage.requests, 0U);  // the rest of it was not sent
      if (then == Then::reads_no_more) world.backend().set_reading(true);
      EXPECT_EQ(world.connections_of_next(), 2U);
    }
  }
}

// It may still use what it reads.
TEST(BodyUpload, goes_on_when_it_succeeded_early) {
  for (const std::size_t size : {in_memory, large}) {
    Uploading world;
    std::string got;
    world.stage.serve = [&got](const Stage::Served& served) {
      if (served.whole) got = served.request.body;
      if (!served.whole) served.peer.send(fine);
    };
    EXPECT_EQ(world.status(post(size)), "executed");
    EXPECT_EQ(got, body_of(size));
    EXPECT_EQ(world.connections_of_next(), 2U) << "it may not have read what the system took";
    EXPECT_EQ(world.status(post(size)), "replayed");
  }
}

TEST(BodyUpload, that_succeeded_early_may_be_closed_by_its_backend) {
  Uploading world;
  world.stage.serve = [](const Stage::Served& served) {
    served.peer.send(fine);
    served.peer.set_reading(false);
    served.peer.close();
  };
  EXPECT_EQ(world.status(post(large)), "executed");
  EXPECT_EQ(world.status(post(large)), "replayed");
  EXPECT_EQ(world.connections_of_next(), 2U);
}

// Its backend may still read, too slowly for us to notice: half a request is no success.
TEST(BodyUpload, that_succeeded_early_and_is_cut_off_is_unknown) {
  for (const bool streams : {false, true}) {
    Uploading world;
    world.stage.serve = [streams](const Stage::Served& served) {
      served.peer.send(streams ? fmt::format("{}Content-Length: 9\r\n\r\ndata: 1\n\n", events) : std::string(fine));
      served.peer.set_reading(false);
    };
    StageClient& client = world.ask(post(large));
    world.stage.run(29s);
    EXPECT_EQ(client.responses.size(), 0U);
    world.stage.run(2s);
    EXPECT_TRUE(streams ? client.over() : client.response().field("Idempotency-Status") == "unknown") << client.bytes;
    EXPECT_EQ(client.responses.size(), streams ? 0U : 1U);
    world.backend().set_reading(true);
    if (streams) world.expect_unknown();
    if (!streams) EXPECT_EQ(world.status(post(large)), "unknown");
    EXPECT_EQ(world.connections_of_next(), 2U);
  }
}

TEST(BodyUpload, that_succeeded_early_and_cannot_be_read_any_more_is_unknown) {
  Uploading world;
  world.stage.serve = [&world](const Stage::Served& served) {
    if (served.whole) return;
    world.disk.fails_at = world.disk.calls + 1;
    served.peer.send(fine);
  };
  EXPECT_EQ(world.status(post(large)), "unknown");
  EXPECT_EQ(world.status(post(large)), "unknown");
  EXPECT_EQ(world.stage.requests, 0U);
}

// The response is whole, and the request is still being sent.
TEST(BodyUpload, ends_when_its_caller_stops_it) {
  Uploading world;
  world.stage.serve = [](const Stage::Served& served) {
    served.peer.send(fmt::format("{}Content-Length: 9\r\n\r\ndata: 1\n\n", events));
    served.peer.set_reading(false);
  };
  StageClient& client = world.ask(post(large));
  world.stage.run(1s);
  StageClient& stop = world.ask(
      "DELETE /files HTTP/1.1\r\nHost: api.test\r\nAuthorization: me\r\nIdempotency-Key: k1\r\nIdempotency-Stop: "
      "POST\r\n\r\n");
  world.stage.run(5s);
  EXPECT_EQ(stop.response().status, 204);
  EXPECT_TRUE(client.over());
  EXPECT_EQ(world.disk.open, 0U);
  EXPECT_EQ(world.status(post(large)), "replayed");
}

TEST(BodyUpload, times_out_with_a_backend_that_neither_reads_nor_answers) {
  for (const std::size_t size : {in_memory, large}) {
    Uploading world;
    world.stage.serve = [](const Stage::Served& served) { served.peer.set_reading(false); };
    StageClient& client = world.ask(post(size));
    world.stage.run(29s);
    EXPECT_EQ(client.responses.size(), 0U);
    world.stage.run(2s);
    EXPECT_EQ(client.response().status, 504);
    EXPECT_EQ(client.response().field("Idempotency-Status"), "unknown");
    EXPECT_EQ(world.disk.open, 0U);
  }
}

// The time for the response counts from the end of the request.
TEST(BodyUpload, may_take_longer_than_the_response) {
  enum class Answers : std::uint8_t { at_the_end, with_its_head_first, with_an_event_stream };
  for (const Answers how : {Answers::at_the_end, Answers::with_its_head_first, Answers::with_an_event_stream}) {
    Uploading world;
    bool whole = false;
    world.stage.serve = [&whole, how](const Stage::Served& served) {
      const bool head_first = how == Answers::with_its_head_first;
      if (!served.whole && head_first) served.peer.send(fine.substr(0, fine.size() - 2));
      if (!served.whole && how == Answers::with_an_event_stream) {
        served.peer.send(fmt::format("{}Content-Length: 2\r\n\r\n", events));
      }
      if (!served.whole) return;
      whole = true;
      served.peer.send(how == Answers::at_the_end ? fine : "ok");
    };
    StageClient& client = world.ask(post(large));
    world.run_until([&] { return !world.stage.connections.empty(); });
    for (unsigned i = 0; i < 200 && !whole; ++i) {
      world.backend().set_reading(false);
      world.stage.run(25s);
      world.backend().set_reading(true);
      world.stage.run(Duration(1));
    }
    EXPECT_TRUE(whole);
    world.stage.run(5s);
    EXPECT_EQ(client.response().body, "ok");
    EXPECT_EQ(client.response().field("Idempotency-Status"), "executed");
  }
}

// After that its backend has as long as for any other request.
TEST(BodyUpload, that_is_not_answered_times_out) {
  Uploading world;
  world.stage.serve = [](const Stage::Served& served) {
    if (!served.whole) served.peer.send(fine.substr(0, fine.size() - 1));
  };
  StageClient& client = world.ask(post(large));
  world.stage.run(29s);
  EXPECT_EQ(client.responses.size(), 0U);
  world.stage.run(32s);
  EXPECT_EQ(client.response().status, 504);
}

// Nobody reads the response any more, but the sender of the body still waits for the disk.
TEST(BodyUpload, ends_after_its_request) {
  Uploading world([](ServingSettings& all) { all.routes.front().policy.record.abandon_after = 1s; });
  world.stage.serve = [&world](const Stage::Served& served) {
    if (served.whole) return;
    world.disk.hangs = true;
    served.peer.send(fmt::format("{}Content-Length: 100\r\n\r\ndata: 1\n\n", events));
  };
  StageClient& client = world.ask(post(large));
  world.run_until([&] { return client.bytes.ends_with("data: 1\n\n"); });
  client.peer->close();
  for (int i = 0; i < 5; ++i) {
    world.stage.run(1s);
    world.backend().send("data: 2\n\n");
  }
  world.stage.run(1s);
  EXPECT_EQ(world.disk.open, 1U);
  world.disk.go_on();
  world.stage.run(1s);
  EXPECT_EQ(world.disk.open, 0U);
  EXPECT_TRUE(world.stage.connections[0]->ended || world.stage.connections[0]->reset);
  world.expect_unknown();
}

TEST(BodyUpload, that_cannot_be_read_cuts_its_response_off) {
  Uploading world;
  world.stage.serve = [&world](const Stage::Served& served) {
    if (served.whole) return;
    world.disk.fails_at = world.disk.calls + 1;
    served.peer.send(fmt::format("{}Content-Length: 100\r\n\r\ndata: 1\n\n", events));
  };
  StageClient& client = world.ask(post(large));
  world.stage.run(5s);
  EXPECT_EQ(client.responses.size(), 0U);
  EXPECT_TRUE(client.over());
  EXPECT_EQ(world.disk.open, 0U);
  world.stage.run(1s);
  world.expect_unknown();
  EXPECT_EQ(world.stage.requests, 0U);
}

TEST(BodyUpload, survives_every_call_to_the_network_that_fails) {
  fails_nowhere([](Stage& stage) {
    stage.serve = [](const Stage::Served& served) {
      const bool first = served.request.field("Idempotency-Key") == "echo";
      if (first && !served.whole) served.peer.send(fmt::format("{}Content-Length: 4\r\n\r\nab", events));
      if (served.whole) served.peer.send(first ? "cd" : fine);
    };
    stage.ask(post(80'000, "echo"));
    stage.ask(post(80'000, "early"));
  });
}

}  // namespace body_upload_net_test
}  // namespace once::sim
