// Connections to one server: which are kept, which are taken again, and which are closed.
#include "http/upstream.hpp"

#include <atomic>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/http/loop_run.hpp"
#include "tests/unit/support/fake_server.hpp"

namespace once::http {
namespace upstream_test {

using namespace std::chrono_literals;

struct Ends {
  UpstreamConnectionPtr near;
  int far = -1;
};

struct World {
  explicit World(const PoolLimits& limits)
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
  void play(Task<void> story) {
    run.start(std::move(story));
    run.run();
    pool.reset();
    EXPECT_EQ(open, 0U);
  }

  LoopRun run;
  FakeServer server;
  FakeServer elsewhere;
  Addresses addresses{server.endpoints()};
  std::atomic<std::uint64_t> open = 0;
  std::unique_ptr<UpstreamPool> pool;
};

Task<void> three_come_back_to_two_places(World& world) {
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
}

TEST(UpstreamPoolTest, in_a_full_pool_the_one_that_rested_longest_makes_room) {
  World world({.max_idle = 2, .idle_max = 1h});
  world.play(three_come_back_to_two_places(world));
}

Task<void> the_latest_is_taken_first(World& world) {
  const std::vector<int> far = co_await world.two_rested();
  const UpstreamConnectionPtr taken = world.pool->take_idle(1h);
  EXPECT_TRUE(taken && taken->reused());
  EXPECT_EQ(world.pool->busy(), 1U);
  co_await taken->socket().write_all("x", long_enough);
  char byte = 0;
  EXPECT_EQ(::recv(far[1], &byte, 1, MSG_DONTWAIT), 1) << "the one that rested least";
}

TEST(UpstreamPoolTest, the_connection_that_rested_least_is_taken) {
  World world({.max_idle = 2, .idle_max = 1h});
  world.play(the_latest_is_taken_first(world));
}

Task<void> rests_too_long_for_some(World& world) {
  co_await world.rested();
  co_await sleep_for(world.run.loop, 30ms);
  EXPECT_EQ(world.pool->take_idle(10ms), nullptr) << "as a keyed request asks";
  EXPECT_NE(world.pool->take_idle(1h), nullptr) << "as any other does";
}

TEST(UpstreamPoolTest, who_wants_a_young_connection_gets_no_old_one) {
  World world({.max_idle = 2, .idle_max = 1h});
  world.play(rests_too_long_for_some(world));
}

Task<void> all_are_closed_in_time(World& world) {
  const int far = co_await world.rested();
  while (world.pool->idle() > 0) co_await sleep_for(world.run.loop, 10ms);
  EXPECT_TRUE(closed_by_peer(far));
}

TEST(UpstreamPoolTest, a_connection_that_nobody_wants_is_closed) {
  World world({.max_idle = 2, .idle_max = 10ms});
  world.play(all_are_closed_in_time(world));
}

Task<void> keep_alive_is_believed(World& world) {
  co_await world.rested("HTTP/1.1 200 OK\r\nKeep-Alive: timeout=0\r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ(world.pool->idle(), 0U);
  co_await world.rested("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ(world.pool->idle(), 0U);
  co_await world.rested("HTTP/1.1 200 OK\r\nKeep-Alive: max=9, timeout=60\r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ(world.pool->idle(), 1U);
}

TEST(UpstreamPoolTest, what_the_server_says_of_keeping_it_counts) {
  World world({.max_idle = 2, .idle_max = 1h});
  world.play(keep_alive_is_believed(world));
}

// A backend may answer early, keep the connection, and read on when the next request is on it.
Task<void> answers_half_a_request(World& world) {
  Ends ends = co_await world.connection();
  EXPECT_EQ(::send(ends.far, fine.data(), fine.size(), MSG_NOSIGNAL), static_cast<ssize_t>(fine.size()));
  const auto read = co_await ends.near->read_head(Method::post, world.run.loop.now() + patience);
  EXPECT_EQ(read, UpstreamConnection::HeadRead::ok);
  EXPECT_TRUE(ends.near->ready().has_value()) << "the whole response is here";
  ends.near.reset();
  EXPECT_EQ(world.pool->idle(), 0U);
  EXPECT_TRUE(closed_by_peer(ends.far));
}

TEST(UpstreamPoolTest, a_connection_with_half_a_request_on_it_is_closed) {
  World world({.max_idle = 2, .idle_max = 1h});
  world.play(answers_half_a_request(world));
}

// Written as a whole for one request says nothing of the next.
Task<void> a_second_request_is_half_written(World& world) {
  const int far = co_await world.rested();
  UpstreamConnectionPtr again = world.pool->take_idle(1h);
  EXPECT_NE(again, nullptr);
  EXPECT_EQ(::send(far, fine.data(), fine.size(), MSG_NOSIGNAL), static_cast<ssize_t>(fine.size()));
  const auto read = co_await again->read_head(Method::post, world.run.loop.now() + patience);
  EXPECT_EQ(read, UpstreamConnection::HeadRead::ok);
  EXPECT_TRUE(again->ready().has_value());
  again.reset();
  EXPECT_TRUE(closed_by_peer(far));
}

TEST(UpstreamPoolTest, each_request_must_be_written_as_a_whole) {
  World world({.max_idle = 2, .idle_max = 1h});
  world.play(a_second_request_is_half_written(world));
}

Task<void> closed_while_it_rests(World& world) {
  const std::vector<int> far = co_await world.two_rested();
  ::shutdown(far[1], SHUT_WR);
  co_await sleep_for(world.run.loop, 30ms);
  const UpstreamConnectionPtr taken = world.pool->take_idle(1h);
  EXPECT_NE(taken, nullptr) << "the other one is still good";
  EXPECT_EQ(world.pool->idle(), 0U) << "the closed one is gone";
}

TEST(UpstreamPoolTest, a_connection_that_the_server_closed_is_not_taken) {
  World world({.max_idle = 2, .idle_max = 1h});
  world.play(closed_while_it_rests(world));
}

Task<void> the_server_moves(World& world) {
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
}

TEST(UpstreamPoolTest, connections_to_an_address_that_is_gone_are_not_used_again) {
  World world({.max_idle = 2, .idle_max = 1h});
  world.play(the_server_moves(world));
}

Task<void> one_address_stays(World& world) {
  const int far = co_await world.rested();
  world.addresses.publish({world.elsewhere.endpoint(), world.server.endpoint()});
  const UpstreamConnectionPtr taken = world.pool->take_idle(1h);
  EXPECT_NE(taken, nullptr);
  EXPECT_FALSE(closed_by_peer(far));
}

TEST(UpstreamPoolTest, connections_to_an_address_that_stays_are_kept) {
  World world({.max_idle = 2, .idle_max = 1h});
  world.play(one_address_stays(world));
}

Task<void> the_first_address_is_dead(World& world) {
  world.elsewhere.stop();
  world.addresses.publish({world.elsewhere.endpoint(), world.server.endpoint()});
  const Ends ends = co_await world.connection();
  EXPECT_GE(ends.far, 0);
}

TEST(UpstreamPoolTest, the_next_address_is_tried_when_one_is_refused) {
  World world({.max_idle = 2, .idle_max = 1h});
  world.play(the_first_address_is_dead(world));
}

Task<void> a_new_one_needs_room(World& world) {
  const std::vector<int> far = co_await world.two_rested();
  const Ends ends = co_await world.connection();
  EXPECT_EQ(world.pool->idle(), 1U);
  EXPECT_EQ(world.pool->busy(), 1U);
  EXPECT_TRUE(closed_by_peer(far[0]));
  EXPECT_FALSE(closed_by_peer(far[1]));
  EXPECT_EQ(world.open, 2U);
}

TEST(UpstreamPoolTest, connections_that_rest_make_room_under_a_limit) {
  World world({.max_idle = 2, .idle_max = 1h, .max_open = 2});
  world.play(a_new_one_needs_room(world));
}

struct Told final : PoolListener {
  void connection_free() override { ++times; }
  int times = 0;
};

Task<void> each_end_is_told(World& world, Told& told) {
  world.pool->listen(told);
  co_await world.rested();
  EXPECT_EQ(told.times, 1) << "given back";
  UpstreamConnectionPtr taken = world.pool->take_idle(1h);
  EXPECT_EQ(told.times, 1);
  taken.reset();
  EXPECT_EQ(told.times, 2) << "closed in the middle of it";
  world.server.stop();
  const UpstreamConnectionPtr none = co_await world.pool->connect(long_enough);
  EXPECT_EQ(none, nullptr);
  EXPECT_EQ(told.times, 3) << "never made";
  EXPECT_EQ(world.pool->busy(), 0U);
}

TEST(UpstreamPoolTest, whoever_listens_is_told_of_each_place_that_comes_free) {
  Told told;
  World world({.max_idle = 2, .idle_max = 1h});
  world.play(each_end_is_told(world, told));
}

Task<void> hangs_until_cancelled(World& world) {
  const UpstreamConnectionPtr none = co_await world.pool->connect(long_enough);
  EXPECT_EQ(none, nullptr);
}

Task<void> cancels(World& world) {
  co_await sleep_for(world.run.loop, 20ms);
  world.pool->cancel_connects();
}

TEST(UpstreamPoolTest, a_connect_that_hangs_can_be_cancelled) {
  World world({.max_idle = 2, .idle_max = 1h});
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
  world.play(hangs_until_cancelled(world));
  for (const int fd : fillers) ::close(fd);
  ::close(full);
}

}  // namespace upstream_test
}  // namespace once::http
