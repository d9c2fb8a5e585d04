// Keyed requests that are too large for memory: nothing is claimed before they are whole, and a retry is compared.
#include <gtest/gtest.h>

#include "tests/unit/support/faulty_spool.hpp"
#include "tests/unit/support/sim_stage.hpp"

namespace once::sim {
namespace large_request_net_test {

using namespace std::chrono_literals;

constexpr std::size_t in_memory = 1024;
constexpr std::size_t on_disk = std::size_t{1} << 20U;
constexpr std::size_t pieces = 700'000;  // more than two of spool_piece

void small_memory(ServingSettings& all) {
  Policy& policy = all.routes.front().policy;
  policy.max_request_body = in_memory;
  policy.max_large_request = on_disk;
  policy.fingerprint.body = FingerprintPolicy::Body::json;
}

std::string bytes(std::size_t size) {
  std::string body(size, '\0');
  for (std::size_t i = 0; i < size; ++i) body[i] = static_cast<char>('a' + i % 23);
  return body;
}

std::string head(std::string_view fields) {
  return fmt::format("POST /files HTTP/1.1\r\nHost: api.test\r\nAuthorization: me\r\nIdempotency-Key: k1\r\n{}\r\n\r\n",
                     fields);
}

std::string announced(std::string_view body, std::string_view type = "text/plain") {
  return head(fmt::format("Content-Type: {}\r\nContent-Length: {}", type, body.size())) + std::string(body);
}

// Of another client.
std::string other(std::string_view body) {
  return fmt::format("POST /files HTTP/1.1\r\nHost: a\r\nIdempotency-Key: other\r\nContent-Length: {}\r\n\r\n{}",
                     body.size(), body);
}

std::string chunked(std::string_view body) {
  constexpr std::size_t chunk = 10'000;
  std::string all = head("Content-Type: text/plain\r\nTransfer-Encoding: chunked");
  for (std::size_t at = 0; at < body.size(); at += chunk) {
    const std::string_view part = body.substr(at, chunk);
    all.append(fmt::format("{:x}\r\n{}\r\n", part.size(), part));
  }
  return all + "0\r\n\r\n";
}

// A stage with a spool.
class Spooling {
 public:
  explicit Spooling(const std::function<void(ServingSettings&)>& change = {})
      : stage([&change](ServingSettings& all) {
          small_memory(all);
          if (change) change(all);
        }) {
    stage.gateway->shared().spool = &disk.spool;
    stage.serve = [this](const Stage::Served& served) {
      if (!served.whole) return;
      got = served.request.body;
      served.peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    };
  }

  Message ask(std::string_view request, Duration time = 30s) {
    StageClient& client = stage.ask(request, time);
    return client.response();
  }
  std::string status(std::string_view request) { return ask(request).field("Idempotency-Status"); }

  // Nothing is left of any request.
  ~Spooling() {
    stage.finish();
    EXPECT_EQ(disk.spool.bytes(), 0U);
    EXPECT_EQ(disk.open, 0U);
  }

  FaultySpool disk;  // outlives the stage
  Stage stage;
  std::string got;  // the body that the backend has
};

TEST(LargeRequest, is_executed_once_and_replayed) {
  const std::string body = bytes(pieces);
  for (const std::string& request : {announced(body), chunked(body)}) {
    Spooling world;
    EXPECT_EQ(world.status(request), "executed");
    EXPECT_EQ(world.got, body);
    EXPECT_EQ(world.disk.spool.bytes(), 0U);
    // However it is framed, it is the same body.
    EXPECT_EQ(world.status(announced(body)), "replayed");
    EXPECT_EQ(world.status(chunked(body)), "replayed");
    EXPECT_EQ(world.stage.requests, 1U);
    EXPECT_EQ(world.disk.spool.files(), 3U);
  }
}

TEST(LargeRequest, at_every_size_around_the_limits) {
  for (const std::size_t limit : {in_memory, std::size_t{256} << 10U, on_disk}) {
    for (const std::size_t size : {limit - 1, limit, limit + 1}) {
      const std::string body = bytes(size);
      for (const std::string& request : {announced(body), chunked(body)}) {
        Spooling world;
        const Message answer = world.ask(request);
        EXPECT_EQ(answer.status, size > on_disk ? 413 : 200) << size;
        EXPECT_EQ(world.got, size > on_disk ? "" : body) << size;
        EXPECT_EQ(world.disk.spool.files() > 0, size > in_memory && (size <= on_disk || request == chunked(body)))
            << size;
      }
    }
  }
}

TEST(LargeRequest, with_another_body_is_a_mismatch) {
  const std::string body = bytes(pieces);
  for (const std::size_t at : {std::size_t{0}, pieces / 2, pieces - 1}) {
    Spooling world;
    EXPECT_EQ(world.status(announced(body)), "executed");
    std::string other = body;
    other[at] = '!';
    EXPECT_EQ(world.ask(announced(other)).status, 422);
    EXPECT_EQ(world.ask(announced(body.substr(1))).status, 422);
    EXPECT_EQ(world.stage.requests, 1U);
  }
}

TEST(LargeRequest, of_several_parts_is_compared_without_its_boundary) {
  const auto form = [](std::string_view boundary, std::string_view content) {
    return announced(fmt::format("--{0}\r\nA: b\r\n\r\n{1}\r\n--{0}--\r\n", boundary, content),
                     fmt::format("multipart/form-data; boundary={}", boundary));
  };
  const std::string content = bytes(pieces);
  Spooling world;
  EXPECT_EQ(world.status(form("first", content)), "executed");
  EXPECT_EQ(world.status(form("second-one", content)), "replayed");
  EXPECT_EQ(world.status(form("third", bytes(pieces - 1))), "mismatch");
  EXPECT_EQ(world.stage.requests, 1U);
}

TEST(LargeRequest, of_a_client_that_leaves_claims_nothing) {
  const std::string request = announced(bytes(pieces));
  for (const std::size_t sent : {std::size_t{100}, std::size_t{2000}, request.size() / 2, request.size() - 1}) {
    for (const bool resets : {false, true}) {
      Spooling world;
      StageClient& client = world.stage.ask(request.substr(0, sent), 5s);
      resets ? client.peer->reset() : client.peer->close();
      world.stage.run(1s);
      EXPECT_EQ(world.stage.requests, 0U) << sent;
      EXPECT_EQ(world.disk.open, 0U) << sent;
      EXPECT_EQ(world.status(request), "executed") << sent;
    }
  }
}

TEST(LargeRequest, that_stops_coming_is_given_up) {
  Spooling world;
  EXPECT_EQ(world.ask(announced(bytes(pieces)).substr(0, pieces / 2), 2min).status, 408);
  EXPECT_EQ(world.stage.requests, 0U);
  EXPECT_EQ(world.disk.open, 0U);
}

TEST(LargeRequest, that_is_still_coming_when_the_gateway_stops_is_refused) {
  Spooling world;
  StageClient& client = world.stage.ask(announced(bytes(pieces)).substr(0, pieces / 2));
  EXPECT_EQ(world.disk.open, 1U);
  world.stage.gateway->drain({.limit = 1h, .unread_grace = 1s});
  world.stage.run(5s);
  EXPECT_EQ(client.response().status, 503);
  EXPECT_EQ(world.disk.open, 0U);
  EXPECT_EQ(world.stage.requests, 0U);
}

// Whichever call to the disk fails: nothing was sent and the key is free, or something was and the outcome is unknown.
TEST(LargeRequest, survives_every_call_to_the_disk_that_fails) {
  const std::string content = bytes(pieces);
  const std::string form = fmt::format("--b\r\nA: b\r\n\r\n{}\r\n--b--\r\n", content);
  for (const std::string& request :
       {announced(content), chunked(content), announced(form, "multipart/form-data; boundary=b")}) {
    std::uint64_t calls = 0;
    {
      Spooling good;
      EXPECT_EQ(good.status(request), "executed");
      calls = good.disk.calls;
    }
    EXPECT_GE(calls, 7U);
    for (const SpoolFault fault : {SpoolFault::full, SpoolFault::failed}) {
      for (std::uint64_t call = 1; call <= calls; ++call) {
        SCOPED_TRACE(fmt::format("call {} of {}", call, calls));
        Spooling world;
        bool began = false;
        world.stage.serve = [&](const Stage::Served& served) {
          began = true;
          if (served.whole) served.peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        };
        world.disk.fails_at = call;
        world.disk.fails_with = fault;
        const Message answer = world.ask(request);
        EXPECT_EQ(answer.status, 503);
        const bool sent = began;
        EXPECT_EQ(answer.field("Idempotency-Status"), sent ? "unknown" : "");
        EXPECT_EQ(world.stage.requests, 0U);
        EXPECT_EQ(world.disk.open, 0U);
        EXPECT_EQ(world.status(request), sent ? "unknown" : "executed");
      }
    }
  }
}

// Others are served meanwhile, and whatever happened to the client or the gateway is found out afterwards.
TEST(LargeRequest, waits_for_a_disk_that_hangs) {
  const std::string request = announced(bytes(pieces));
  enum class Meanwhile : std::uint8_t { nothing, client_leaves, gateway_stops };
  for (const auto meanwhile : {Meanwhile::nothing, Meanwhile::client_leaves, Meanwhile::gateway_stops}) {
    Spooling world;
    world.disk.hangs = true;
    StageClient& client = world.stage.ask(request.substr(0, request.size() - 1), 5min);
    EXPECT_FALSE(client.over());
    EXPECT_EQ(world.ask("GET /other HTTP/1.1\r\nHost: a\r\n\r\n").status, 200);
    if (meanwhile == Meanwhile::client_leaves) client.peer->reset();
    if (meanwhile == Meanwhile::gateway_stops) world.stage.gateway->drain({.limit = 1h, .unread_grace = 1s});
    world.stage.run(5s);
    world.disk.go_on();
    if (meanwhile == Meanwhile::nothing) client.peer->send(request.substr(request.size() - 1));
    world.stage.run(5s);
    if (meanwhile == Meanwhile::nothing) EXPECT_EQ(client.response().field("Idempotency-Status"), "executed");
    if (meanwhile == Meanwhile::gateway_stops) EXPECT_EQ(client.response().status, 503);
    EXPECT_EQ(world.stage.requests, meanwhile == Meanwhile::nothing ? 2U : 1U);
    EXPECT_EQ(world.disk.open, 0U);
  }
}

TEST(LargeRequest, finds_no_room_on_disk) {
  const std::string body = bytes(pieces);
  for (const std::string& request : {announced(body), chunked(body)}) {
    Spooling world([](ServingSettings& all) { all.limits.max_spool = 600'000; });
    const Message answer = world.ask(request);
    EXPECT_EQ(answer.status, 503);
    EXPECT_NE(answer.body.find("\"overloaded\""), std::string::npos) << answer.body;
    EXPECT_EQ(answer.field("Retry-After"), "1");
    EXPECT_EQ(world.stage.requests, 0U);
    EXPECT_EQ(world.disk.spool.bytes(), 0U);
  }
}

TEST(LargeRequest, takes_little_of_the_memory) {
  Spooling world([](ServingSettings& all) { all.limits.max_body_memory = 300'000; });
  std::size_t most = 0;
  world.stage.serve = [&](const Stage::Served& served) {
    most = std::max<std::size_t>(most, world.stage.gateway->shared().usage.body_bytes);
    if (served.whole) served.peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  };
  EXPECT_EQ(world.status(announced(bytes(pieces))), "executed");
  EXPECT_EQ(most, std::size_t{256} << 10U);
  EXPECT_EQ(world.stage.gateway->shared().usage.body_bytes, 0U);
  // Two at a time do not fit.
  StageClient& other = world.stage.ask(announced(bytes(pieces)).substr(0, 400'000));
  EXPECT_EQ(world.ask(announced(bytes(pieces))).status, 503);
  other.peer->close();
}

// One that came fast at first and drips now makes room for others, however much it has sent.
TEST(LargeRequest, that_drips_loses_its_place_when_the_space_is_needed) {
  struct Case {
    std::size_t max_spool;
    std::size_t max_body_memory;
    std::size_t rate;
    bool displaced;
  };
  constexpr std::size_t plenty = std::size_t{1} << 30U;
  for (const Case& each :
       {Case{900'000, plenty, 200, true}, Case{900'000, plenty, 20'000, false}, Case{plenty, 400'000, 200, true}}) {
    SCOPED_TRACE(fmt::format("{} on disk, {} in memory, {} a second", each.max_spool, each.max_body_memory, each.rate));
    Spooling world([&each](ServingSettings& all) {
      all.limits.max_spool = each.max_spool;
      all.limits.max_body_memory = each.max_body_memory;
    });
    StageClient& drips = world.stage.client();
    drips.ask(head("Content-Length: 800000") + bytes(400'000));
    for (int second = 0; second < 15; ++second) {
      world.stage.run(1s);
      drips.peer->send(bytes(each.rate));
    }
    world.stage.run(500ms);
    EXPECT_FALSE(drips.over());
    EXPECT_EQ(world.ask(other(bytes(pieces)), 1s).status, 503);
    EXPECT_EQ(drips.over(), each.displaced);
    EXPECT_EQ(world.stage.gateway->sum(&Metrics::connections_displaced), each.displaced ? 1U : 0U);
    // It finds room when it is sent again.
    EXPECT_EQ(world.ask(other(bytes(pieces)), 1s).status, each.displaced ? 200 : 503);
    if (!each.displaced) drips.peer->close();
  }
}

// Nobody is displaced for a request that could never fit.
TEST(LargeRequest, larger_than_the_space_displaces_nobody) {
  Spooling world([](ServingSettings& all) { all.limits.max_spool = 600'000; });
  StageClient& drips = world.stage.ask(head("Content-Length: 500000") + bytes(400'000), 15s);
  EXPECT_EQ(world.ask(other(bytes(pieces)), 1s).status, 503);
  EXPECT_FALSE(drips.over());
  drips.peer->close();
}

TEST(LargeRequest, is_refused_where_it_is_off) {
  Spooling world([](ServingSettings& all) { all.routes.front().policy.max_large_request = 0; });
  EXPECT_EQ(world.ask(announced(bytes(in_memory + 1))).status, 413);
  EXPECT_EQ(world.ask(chunked(bytes(in_memory + 1))).status, 413);
  EXPECT_EQ(world.disk.calls, 0U);
}

TEST(LargeRequest, has_no_key_from_its_body) {
  Spooling world([](ServingSettings& all) {
    all.routes.front().policy.key.derive = {{.kind = KeySource::Kind::json, .name = "/order"}};
  });
  const std::string body = bytes(in_memory + 1);
  const Message answer =
      world.ask(fmt::format("POST /files HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{}", body.size(), body));
  EXPECT_EQ(answer.status, 413);
  EXPECT_NE(answer.body.find("derive a key"), std::string::npos) << answer.body;
  EXPECT_EQ(world.status(announced(body)), "executed");
}

std::string expecting(std::size_t size, std::string_view fields = "") {
  return head(fmt::format("Content-Type: text/plain\r\n{}Expect: 100-continue\r\nContent-Length: {}", fields, size));
}

// One that waits until it is asked for its body.
StageClient& waits_for_continue(Spooling& world, const std::string& head, std::string_view body) {
  StageClient& client = world.stage.ask(head);
  if (client.interim.size() == 1 && client.interim.front().status == 100) client.peer->send(body);
  world.stage.run(5s);
  return client;
}

TEST(LargeRequest, is_asked_for_and_compared_if_it_may_be_the_recorded_one) {
  const std::string body = bytes(pieces);
  std::string other = body;
  other[pieces / 2] = '!';
  struct Case {
    std::string_view body;
    std::string_view status;
  };
  Spooling world;
  for (const Case& each : {Case{body, "executed"}, Case{body, "replayed"}, Case{other, "mismatch"}}) {
    const StageClient& client = waits_for_continue(world, expecting(pieces), each.body);
    EXPECT_EQ(client.interim.size(), 1U) << each.status;
    EXPECT_EQ(client.response().field("Idempotency-Status"), each.status);
  }
  EXPECT_EQ(world.status(announced(other)), "mismatch");
  EXPECT_EQ(world.stage.requests, 1U);
  // One that may be small is compared, too.
  for (const std::string& request :
       {expecting(in_memory), head("Expect: 100-continue\r\nTransfer-Encoding: chunked")}) {
    StageClient& small = waits_for_continue(world, request, "");
    EXPECT_EQ(small.interim.size(), 1U);
    small.peer->close();
  }
}

TEST(LargeRequest, is_not_asked_for_if_its_head_says_that_it_is_another_one) {
  const std::string body = bytes(pieces);
  constexpr std::string_view digest = "Content-Digest: sha-512=:eA==:, sha-256=:eHh4:\r\n";
  Spooling world;
  const StageClient& first = waits_for_continue(world, expecting(pieces, digest), body);
  EXPECT_EQ(first.response().field("Idempotency-Status"), "executed");
  EXPECT_FALSE(first.response().has("Idempotency-Request-Body"));
  for (const std::string& request : {expecting(pieces - 1), expecting(pieces, "Content-Digest: sha-256=:eHh5:\r\n")}) {
    const StageClient& other = waits_for_continue(world, request, body);
    EXPECT_TRUE(other.interim.empty());
    EXPECT_EQ(other.response().status, 422);
    EXPECT_EQ(other.response().field("Idempotency-Status"), "mismatch");
    EXPECT_EQ(other.response().field("Connection"), "close");
  }
  const StageClient& again = waits_for_continue(world, expecting(pieces, digest), body);
  EXPECT_EQ(again.interim.size(), 1U);
  EXPECT_EQ(again.response().field("Idempotency-Status"), "replayed");
  EXPECT_FALSE(again.response().has("Idempotency-Request-Body"));
  EXPECT_EQ(world.stage.requests, 1U);
  EXPECT_EQ(world.disk.spool.files(), 2U);
}

// The boundary of several parts may be longer than that of the first try.
TEST(LargeRequest, of_several_parts_is_always_asked_for) {
  const auto form = [](std::string_view boundary) {
    return fmt::format("--{0}\r\nA: b\r\n\r\n{1}\r\n--{0}--\r\n", boundary, bytes(pieces));
  };
  Spooling world;
  for (const std::string_view boundary : {"first", "second-one"}) {
    const std::string body = form(boundary);
    const std::string fields = fmt::format("Content-Type: multipart/form-data; boundary={}\r\n", boundary);
    const StageClient& client = waits_for_continue(
        world, head(fmt::format("{}Expect: 100-continue\r\nContent-Length: {}", fields, body.size())), body);
    EXPECT_EQ(client.interim.size(), 1U);
    EXPECT_EQ(client.response().field("Idempotency-Status"), boundary == "first" ? "executed" : "replayed");
  }
  EXPECT_EQ(world.stage.requests, 1U);
}

TEST(LargeRequest, whose_backend_leaves_in_the_middle_is_unknown) {
  Spooling world;
  world.stage.serve = [](const Stage::Served& served) { served.peer.reset(); };
  EXPECT_EQ(world.status(announced(bytes(pieces))), "unknown");
  EXPECT_EQ(world.status(announced(bytes(pieces))), "unknown");
  EXPECT_EQ(world.disk.open, 0U);
}

TEST(LargeRequest, that_is_answered_early_gets_that_answer) {
  Spooling world;
  world.stage.serve = [](const Stage::Served& served) {
    if (!served.whole) served.peer.send("HTTP/1.1 409 Conflict\r\nContent-Length: 2\r\n\r\nno");
  };
  const Message answer = world.ask(announced(bytes(pieces)));
  EXPECT_EQ(answer.status, 409);
  EXPECT_EQ(answer.body, "no");
  EXPECT_EQ(world.disk.open, 0U);
}

TEST(LargeRequest, survives_every_call_to_the_network_that_fails) {
  std::vector<std::unique_ptr<FaultySpool>> disks;  // each outlives its stage
  fails_nowhere(
      [&disks](Stage& stage) {
        FaultySpool& disk = *disks.emplace_back(std::make_unique<FaultySpool>());
        stage.gateway->shared().spool = &disk.spool;
        for (int attempt = 0; attempt < 2; ++attempt) stage.ask(chunked(bytes(in_memory * 2)));
      },
      small_memory);
  for (const auto& disk : disks) EXPECT_EQ(disk->open, 0U);
}

}  // namespace large_request_net_test
}  // namespace once::sim
