// Connections to one server: which are kept, which are taken again, and which are closed.
#include "http/upstream.hpp"

#include <atomic>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/http/loop_run.hpp"
#include "tests/unit/support/fake_server.hpp"

namespace once::http::upstream_test {

using namespace std::chrono_literals;

struct Ends {
  UpstreamConnectionPtr near;
  int far = -1;
};

struct Told final : PoolListener {
  void connection_free() override { ++times; }
  int times = 0;
};

struct World {
  explicit World(const PoolLimits& limits = {.max_idle = 2, .idle_max = 1h})
      : pool(std::make_unique<UpstreamPool>(run.loop, addresses, limits, response_head_limits, &open)) {}

  Task<Ends> connection() {
    UpstreamConnectionPtr near = co_await pool->connect(long_enough);
    EXPECT_NE(near, nullptr);
    co_return Ends{.near = std::move(near), .far = server.accept()};
  }
  // One that has done its work and rests; the server's end of it.
  Task<int> rested(std::string_view response = fine) {
    Ends ends = co_await connection();
    co_await answer_fully(*ends.near, ends.far, response);
    co_return ends.far;
  }
  // Two that were at work at the same time, so that neither is the other; the second one rested least.
  Task<std::vector<int>> two_rested() {
    Ends first = co_await connection();
    Ends second = co_await connection();
    co_await answer_fully(*first.near, first.far);
    co_await answer_fully(*second.near, second.far);
    first.near.reset();
    second.near.reset();
    co_return std::vector<int>{first.far, second.far};
  }
  void play(Task<void> (*story)(World&)) {
    run.play(story(*this));
    pool.reset();
    EXPECT_EQ(open, 0U);
  }

  Told told;
  LoopRun run;
  FakeServer server;
  FakeServer elsewhere;
  Addresses addresses{server.endpoints()};
  std::atomic<std::uint64_t> open = 0;
  std::unique_ptr<UpstreamPool> pool;
};

TEST(UpstreamPoolTest, in_a_full_pool_the_one_that_rested_longest_makes_room) {
  World world;
  world.play([](World& world) -> Task<void> {
    Ends first = co_await world.connection();
    Ends second = co_await world.connection();
    Ends third = co_await world.connection();
    for (Ends* ends : {&first, &second, &third}) {
      co_await answer_fully(*ends->near, ends->far);
      ends->near.reset();
    }
    EXPECT_EQ(world.pool->idle(), 2U);
    EXPECT_TRUE(closed_by_peer(first.far));
    EXPECT_FALSE(closed_by_peer(second.far));
    EXPECT_FALSE(closed_by_peer(third.far));
  });
}

TEST(UpstreamPoolTest, the_connection_that_rested_least_is_taken) {
  World world;
  world.play([](World& world) -> Task<void> {
    const std::vector<int> far = co_await world.two_rested();
    const UpstreamConnectionPtr taken = world.pool->take_idle(1h);
    EXPECT_TRUE(taken && taken->reused());
    EXPECT_EQ(world.pool->busy(), 1U);
    co_await taken->socket().write_all("x", long_enough);
    char byte = 0;
    EXPECT_EQ(::recv(far[1], &byte, 1, MSG_DONTWAIT), 1) << "the one that rested least";
  });
}

TEST(UpstreamPoolTest, a_connection_that_nobody_wants_is_closed) {
  World world({.max_idle = 2, .idle_max = 10ms});
  world.play([](World& world) -> Task<void> {
    const int far = co_await world.rested();
    while (world.pool->idle() > 0) co_await sleep_for(world.run.loop, 10ms);
    EXPECT_TRUE(closed_by_peer(far));
  });
}

TEST(UpstreamPoolTest, connections_to_an_address_that_is_gone_are_not_used_again) {
  World world;
  world.play([](World& world) -> Task<void> {
    Ends at_work = co_await world.connection();
    const int rests = co_await world.rested();
    world.addresses.publish(world.elsewhere.endpoints());
    EXPECT_EQ(world.pool->take_idle(1h), nullptr);
    EXPECT_TRUE(closed_by_peer(rests));
    EXPECT_FALSE(closed_by_peer(at_work.far)) << "what is at work ends in peace";
    co_await answer_fully(*at_work.near, at_work.far);
    at_work.near.reset();
    EXPECT_EQ(world.pool->idle(), 0U) << "and is not kept";
    const UpstreamConnectionPtr next = co_await world.pool->connect(long_enough);
    EXPECT_NE(next, nullptr);
    EXPECT_TRUE(world.elsewhere.called());
  });
}

TEST(UpstreamPoolTest, connections_to_an_address_that_stays_are_kept) {
  World world;
  world.play([](World& world) -> Task<void> {
    const int far = co_await world.rested();
    world.addresses.publish({world.elsewhere.endpoint(), world.server.endpoint()});
    const UpstreamConnectionPtr taken = world.pool->take_idle(1h);
    EXPECT_NE(taken, nullptr);
    EXPECT_FALSE(closed_by_peer(far));
  });
}

TEST(UpstreamPoolTest, the_next_address_is_tried_when_one_is_refused) {
  World world;
  world.play([](World& world) -> Task<void> {
    world.elsewhere.stop();
    world.addresses.publish({world.elsewhere.endpoint(), world.server.endpoint()});
    const Ends ends = co_await world.connection();
    EXPECT_GE(ends.far, 0);
  });
}

TEST(UpstreamPoolTest, connections_that_rest_make_room_under_a_limit) {
  World world({.max_idle = 2, .idle_max = 1h, .max_open = 2});
  world.play([](World& world) -> Task<void> {
    const std::vector<int> far = co_await world.two_rested();
    const Ends ends = co_await world.connection();
    EXPECT_EQ(world.pool->idle(), 1U);
    EXPECT_EQ(world.pool->busy(), 1U);
    EXPECT_TRUE(closed_by_peer(far[0]));
    EXPECT_FALSE(closed_by_peer(far[1]));
    EXPECT_EQ(world.open, 2U);
  });
}

TEST(UpstreamPoolTest, whoever_listens_is_told_of_each_place_that_comes_free) {
  World world;
  world.play([](World& world) -> Task<void> {
    world.pool->listen(world.told);
    co_await world.rested();
    EXPECT_EQ(world.told.times, 1) << "given back";
    UpstreamConnectionPtr taken = world.pool->take_idle(1h);
    EXPECT_EQ(world.told.times, 1);
    taken.reset();
    EXPECT_EQ(world.told.times, 2) << "closed in the middle of it";
    world.server.stop();
    const UpstreamConnectionPtr none = co_await world.pool->connect(long_enough);
    EXPECT_EQ(none, nullptr);
    EXPECT_EQ(world.told.times, 3) << "never made";
    EXPECT_EQ(world.pool->busy(), 0U);
  });
}

Task<void> cancels(World& world) {
  co_await sleep_for(world.run.loop, 20ms);
  world.pool->cancel_connects();
}

TEST(UpstreamPoolTest, a_connect_that_hangs_can_be_cancelled) {
  World world;
  // Nobody accepts there and its queue is full: the kernel leaves further attempts without an answer.
  const int full = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const Endpoint any = *resolve_listener("127.0.0.1:0");
  ASSERT_EQ(::bind(full, reinterpret_cast<const sockaddr*>(&any.address), any.size), 0);
  ASSERT_EQ(::listen(full, 0), 0);
  const Endpoint endpoint = bound_endpoint(full);
  std::vector<int> fillers;
  for (int i = 0; i < 4; ++i) fillers.push_back(*start_connect(kernel_net(), endpoint));
  world.addresses.publish({endpoint});
  world.run.start(cancels(world));
  world.play([](World& world) -> Task<void> {
    const UpstreamConnectionPtr none = co_await world.pool->connect(long_enough);
    EXPECT_EQ(none, nullptr);
  });
  for (const int fd : fillers) ::close(fd);
  ::close(full);
}

}  // namespace once::http::upstream_test
