#include "store/server/connection_pool.hpp"

#include <atomic>
#include <cerrno>
#include <latch>
#include <thread>

#include <gtest/gtest.h>

#include "tests/unit/support/loopback.hpp"

namespace once::store {
namespace connection_pool_test {

struct FakeConnection {
  int number = 0;
  Descriptor socket{};

  int descriptor() const { return socket.get(); }
};

constexpr auto never = std::chrono::nanoseconds::max();

class ConnectionPoolTest : public testing::Test {
 protected:
  ConnectionPool<FakeConnection>::Connect connect() {
    return [this](std::chrono::nanoseconds) -> Result<std::unique_ptr<FakeConnection>> {
      const int number = ++tries;
      if (down) {
        return std::unexpected(Error{
            .source = ErrorSource::store, .retryable = Retryable::yes, .detail = "try " + std::to_string(number)});
      }
      return std::make_unique<FakeConnection>(number);
    };
  }

  std::atomic<int> tries = 0;
  std::atomic<bool> down = false;
  ServerCounts counts;
};

// What was written and not sent yet must not reach the server later.
// In steps of a minute it would find out by itself.
TEST_F(ConnectionPoolTest, who_waits_is_woken_by_a_connection_that_is_given_back) {
  ConnectionPool<FakeConnection> pool(1, counts, connect());
  for (int i = 0; i < 20; ++i) {
    auto held = pool.take(never);
    ASSERT_TRUE(held.has_value());
    std::atomic<bool> took = false;
    std::latch about_to_wait(1);
    std::thread waiter([&] {
      about_to_wait.count_down();
      took = pool.take(monotonic_now() + std::chrono::seconds(50)).has_value();
    });
    about_to_wait.wait();
    for (int turns = 0; turns < 1000; ++turns) std::this_thread::yield();
    const auto until = monotonic_now() + std::chrono::seconds(20);
    held = std::unexpected(Error());
    while (!took && monotonic_now() < until) std::this_thread::yield();
    EXPECT_TRUE(took) << "nobody woke it";
    waiter.join();
    if (!took) return;
  }
}

TEST_F(ConnectionPoolTest, those_that_nobody_uses_can_be_dropped) {
  ConnectionPool<FakeConnection> pool(2, counts, connect());
  {
    const auto one = pool.take(never);
    const auto other = pool.take(never);
    ASSERT_TRUE(one.has_value() && other.has_value());
  }
  {
    const auto used = pool.take(never);
    ASSERT_TRUE(used.has_value());
    pool.drop_idle();
    EXPECT_EQ(counts.read().connections, 1U);
    const auto fresh = pool.take(never);
    ASSERT_TRUE(fresh.has_value());
    EXPECT_EQ((*fresh)->number, 3) << "there is room for another one";
  }
  EXPECT_EQ(counts.read().connections, 2U);
}

TEST_F(ConnectionPoolTest, a_connection_that_is_dropped_is_reset) {
  const LoopbackListener server;
  Descriptor near = connect_to_loopback(server.port());
  const Descriptor far = server.accept();
  ConnectionPool<FakeConnection> pool(1, counts, connect());
  {
    auto lease = pool.take(never);
    ASSERT_TRUE(lease.has_value());
    (*lease)->socket = std::move(near);
    lease->drop();
  }
  char byte = 0;
  EXPECT_EQ(::recv(far.get(), &byte, 1, 0), -1);
  EXPECT_EQ(errno, ECONNRESET);
}

TEST_F(ConnectionPoolTest, a_connection_given_back_is_used_again_and_a_dropped_one_is_not) {
  ConnectionPool<FakeConnection> pool(2, counts, connect());
  for (int takes = 0; takes < 2; ++takes) EXPECT_EQ((*pool.take(never))->number, 1);
  EXPECT_EQ(counts.read().connects, 1U);
  EXPECT_EQ(counts.read().connections, 1U);
  pool.take(never)->drop();
  EXPECT_EQ(counts.read().connections, 0U);
  EXPECT_EQ((*pool.take(never))->number, 2);
}

TEST_F(ConnectionPoolTest, there_are_never_more_than_the_limit) {
  ConnectionPool<FakeConnection> pool(3, counts, connect());
  std::atomic<int> in_use = 0;
  std::atomic<int> most = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 16; ++i) {
      threads.emplace_back([&] {
        for (int round = 0; round < 200; ++round) {
          auto lease = pool.take(never);
          const int now = ++in_use;
          int seen = most;
          while (seen < now && !most.compare_exchange_weak(seen, now)) {
          }
          --in_use;
          if (round % 50 == 0) lease->drop();
        }
      });
    }
  }
  EXPECT_LE(most, 3);
  EXPECT_LE(counts.read().connections, 3U);
}

TEST_F(ConnectionPoolTest, while_the_server_is_down_few_try_and_all_are_told_why) {
  down = true;
  ConnectionPool<FakeConnection> pool(4, counts, connect());
  for (int i = 0; i < 1000; ++i) {
    const auto lease = pool.take(never);
    ASSERT_FALSE(lease.has_value());
    ASSERT_TRUE(lease.error().detail.starts_with("try "));
  }
  EXPECT_LT(tries, 100);
  EXPECT_EQ(counts.read().connect_failures, static_cast<std::uint64_t>(tries));
  EXPECT_EQ(counts.read().connections, 0U);

  down = false;
  const std::chrono::nanoseconds deadline = monotonic_now() + std::chrono::seconds(30);
  while (!pool.take(never).has_value()) ASSERT_LT(monotonic_now(), deadline);
}

TEST_F(ConnectionPoolTest, one_that_waits_gets_the_place_of_one_that_could_not_connect) {
  std::latch connecting(1);
  std::latch may_fail(1);
  std::atomic<int> number = 0;
  ConnectionPool<FakeConnection> pool(
      1, counts, [&](std::chrono::nanoseconds) -> Result<std::unique_ptr<FakeConnection>> {
        if (++number > 1) return std::make_unique<FakeConnection>(2);
        connecting.count_down();
        may_fail.wait();
        return std::unexpected(Error{.source = ErrorSource::store, .retryable = Retryable::yes, .detail = "down"});
      });
  std::jthread first([&] { EXPECT_FALSE(pool.take(never).has_value()); });
  connecting.wait();
  // Told at once, as it was tried a moment ago; one that was late may find that moment over, and is connected.
  std::jthread second([&] {
    const auto taken = pool.take(never);
    EXPECT_TRUE(!taken.has_value() || number > 1);
  });
  may_fail.count_down();
}

TEST_F(ConnectionPoolTest, nobody_waits_past_the_end_of_its_call) {
  std::vector<std::chrono::nanoseconds> told;
  ConnectionPool<FakeConnection> pool(1, counts,
                                      [&](std::chrono::nanoseconds until) -> Result<std::unique_ptr<FakeConnection>> {
                                        told.push_back(until);
                                        return std::make_unique<FakeConnection>(1);
                                      });
  const auto taken = pool.take(never);
  ASSERT_TRUE(taken.has_value());
  EXPECT_EQ(told, std::vector{never}) << "whoever connects knows by when";
  const auto late = pool.take(monotonic_now() + std::chrono::milliseconds(1));
  ASSERT_FALSE(late.has_value());
  EXPECT_TRUE(late.error().detail.contains("in use")) << late.error().detail;
}

TEST_F(ConnectionPoolTest, one_that_was_made_elsewhere_ends_the_pause) {
  down = true;
  ConnectionPool<FakeConnection> pool(1, counts, connect());
  EXPECT_FALSE(pool.take(never).has_value());
  pool.add(std::make_unique<FakeConnection>(7));
  pool.add(std::make_unique<FakeConnection>(8));  // one too many
  EXPECT_EQ((*pool.take(never))->number, 7);
  EXPECT_EQ(counts.read().connections, 1U);
}

}  // namespace connection_pool_test
}  // namespace once::store
