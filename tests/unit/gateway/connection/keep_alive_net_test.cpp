// Requests one after the other on one connection: what is counted for the first is neither forgotten nor counted again,
// and what it held is free for the next.
#include <gtest/gtest.h>

#include "tests/unit/support/sim_stage.hpp"

namespace once::sim {
namespace keep_alive_net_test {

using namespace std::chrono_literals;

std::string post_of(std::string_view caller, std::string_view key) {
  return fmt::format(
      "POST /orders HTTP/1.1\r\nHost: api.test\r\nAuthorization: {}\r\nIdempotency-Key: {}\r\n"
      "Content-Length: 5\r\n\r\nhello",
      caller, key);
}

// Each request is charged to whoever sent it, and nothing of the request before is charged again or forgotten.
TEST(KeepAliveOnNet, stored_bytes_are_counted_from_request_to_request_of_a_connection) {
  Stage stage([](ServingSettings& all) { all.limits.caller.stored_bytes = 2500; });
  const std::string answer = fmt::format("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{}", std::string(1000, 'x'));
  stage.answer(std::string(answer));
  StageClient& client = stage.client();
  struct Step {
    std::string_view caller;
    std::string_view key;
    int status;
    std::string_view what;
  };
  for (const Step& step :
       {Step{"a", "a1", 200, "executed"}, Step{"a", "a1", 200, "replayed"}, Step{"a", "a1", 200, "replayed"},
        Step{"a", "a2", 200, "executed"}, Step{"b", "b1", 200, "executed"}, Step{"a", "a3", 200, "executed"},
        Step{"a", "a4", 429, ""}, Step{"b", "b2", 200, "executed"}, Step{"a", "a2", 200, "replayed"},
        Step{"b", "b3", 200, "executed"}, Step{"b", "b4", 429, ""}, Step{"a", "a5", 429, ""}}) {
    SCOPED_TRACE(step.key);
    client.responses.clear();
    client.ask(post_of(step.caller, step.key));
    stage.run(1s);
    EXPECT_EQ(client.response().status, step.status);
    EXPECT_EQ(client.response().field("Idempotency-Status"), step.what);
  }
  EXPECT_EQ(stage.requests, 6U);
}

TEST(KeepAliveOnNet, the_memory_of_bodies_is_free_again_for_the_next_request_of_a_connection) {
  Stage stage([](ServingSettings& all) { all.limits.max_body_memory = 400'000; });
  StageClient& client = stage.client();
  for (int i = 0; i < 6; ++i) {
    client.responses.clear();
    client.ask(
        fmt::format("POST /orders HTTP/1.1\r\nHost: api.test\r\nIdempotency-Key: k{}\r\n"
                    "Content-Length: 150000\r\n\r\n{}",
                    i, std::string(150'000, 'b')));
    stage.run(1s);
    EXPECT_EQ(client.response().status, 200) << i;
    EXPECT_EQ(stage.gateway->shared().usage.body_bytes, 0U) << i;
  }
}

// Its response is recorded, and what it still reads is in memory.
TEST(KeepAliveOnNet, a_slow_client_does_not_hold_up_a_handover_of_the_store) {
  Stage stage({}, {.capacity = 4096});
  stage.answer("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + std::string(100'000, 'x'));
  StageClient& client = stage.client();
  client.peer->set_reading(false);
  client.ask(post_of("me", "k1"));
  stage.run(1s);
  EXPECT_EQ(stage.requests, 1U);
  EXPECT_EQ(stage.gateway->worker(0).metrics().may_need_store.value(), 0U);
}

}  // namespace keep_alive_net_test
}  // namespace once::sim
