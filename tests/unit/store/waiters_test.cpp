// Who waits for an operation is told when it ends, by whichever thread, and never misses it.
#include "store/waiters.hpp"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/task.hpp"
#include "http/loop.hpp"
#include "tests/unit/support/virtual_time.hpp"

namespace once::store {
namespace waiters_test {

using namespace std::chrono_literals;

OperationId id_of(int first, int second = 0) {
  OperationId id;
  id.bytes[0] = static_cast<std::uint8_t>(first);
  id.bytes[1] = static_cast<std::uint8_t>(second);
  return id;
}

class WaitersTest : public testing::Test {
 protected:
  Task<void> wait(OperationId id, Duration limit, int& count) {
    Waiters::Ticket ticket(waiters, id, executor);
    co_await ticket.wait(limit);
    ++count;
  }

  ManualClock clock;
  VirtualExecutor executor{clock};
  Waiters waiters;
  int woken = 0;
};

TEST_F(WaitersTest, a_waiter_gives_up_at_its_limit) {
  spawn(wait(id_of(1), 10s, woken));
  executor.advance(10s - 1ms);
  EXPECT_EQ(woken, 0);
  executor.advance(1ms);
  EXPECT_EQ(woken, 1);
  waiters.notify(id_of(1));  // nobody is listed any more
  EXPECT_TRUE(executor.idle());
}

TEST_F(WaitersTest, all_who_wait_for_it_are_woken_and_nobody_else) {
  int others = 0;
  for (int i = 0; i < 10; ++i) spawn(wait(id_of(1), 10s, woken));
  spawn(wait(id_of(1, 1), 10s, others));  // in the same bucket
  spawn(wait(id_of(2), 10s, others));
  executor.advance(1s);
  waiters.notify(id_of(1));
  waiters.notify(id_of(1));  // twice, and it is woken once
  EXPECT_EQ(woken, 0);       // on its own executor, not from within
  executor.run_ready();
  EXPECT_EQ(woken, 10);
  EXPECT_EQ(others, 0);
  executor.advance(10s);
  EXPECT_EQ(woken, 10);
  EXPECT_EQ(others, 2);
  EXPECT_TRUE(executor.idle());
}

TEST_F(WaitersTest, an_end_between_looking_and_waiting_is_not_missed) {
  const auto look_then_wait = [](Waiters& told, Executor& home, int& done) -> Task<void> {
    Waiters::Ticket ticket(told, id_of(1), home);
    told.notify(id_of(1));  // after the look, before the wait
    co_await ticket.wait(10s);
    ++done;
    co_await ticket.wait(10s);  // told once, and no more than that
    ++done;
  };
  spawn(look_then_wait(waiters, executor, woken));
  EXPECT_EQ(woken, 1);
  executor.advance(9s);
  EXPECT_EQ(woken, 1);
  waiters.notify(id_of(1));
  executor.run_ready();
  EXPECT_EQ(woken, 2);
}

// On a real loop: both timers are of one tick, and what is told is posted before the limit is reached, or after it.
TEST_F(WaitersTest, told_and_timed_out_in_the_same_tick_is_woken_once) {
  for (const bool told_first : {true, false}) {
    struct Teller : Timer {
      Waiters* waiters = nullptr;
    } teller;
    teller.waiters = &waiters;
    teller.fire = [](Timer& timer) { static_cast<Teller&>(timer).waiters->notify(id_of(1)); };
    struct Stopper : Timer {
      http::Loop* loop = nullptr;
    } stopper;
    http::Loop loop;
    stopper.loop = &loop;
    stopper.fire = [](Timer& timer) { static_cast<Stopper&>(timer).loop->stop(); };
    const auto waits = [](Waiters& by, http::Loop& home, int& count) -> Task<void> {
      Waiters::Ticket ticket(by, id_of(1), home);
      co_await ticket.wait(20ms);
      ++count;
    };
    woken = 0;
    if (told_first) loop.arm(teller, 20ms);
    spawn(waits(waiters, loop, woken));
    if (!told_first) loop.arm(teller, 20ms);
    loop.arm(stopper, 60ms);
    loop.run();
    EXPECT_EQ(woken, 1);
  }
}

// Many rounds of: an operation ends in one thread while others, on loops of their own, look and wait for it.
class WaitingRounds {
 public:
  static constexpr int loops = 3;
  static constexpr int waiters_per_loop = 3;
  static constexpr int rounds = 2000;

  void run() {
    std::vector<std::unique_ptr<http::Loop>> all;
    std::vector<std::jthread> threads;
    for (int i = 0; i < loops; ++i) all.push_back(std::make_unique<http::Loop>());
    for (auto& loop : all) {
      threads.emplace_back([this, &loop] {
        for (int i = 0; i < waiters_per_loop; ++i) spawn(wait_every_round(*loop));
        loop->run();
      });
    }
    for (int round = 1; round <= rounds && !HasFailure(); ++round) {
      ended_.store(round);  // as a record in a store
      waiters_.notify(id_of(round % 2, 7));
      std::unique_lock lock(mutex_);
      const int expected = round * loops * waiters_per_loop;
      ASSERT_TRUE(arrival_.wait_for(lock, 20s, [&] { return arrived_ == expected; }))
          << "a wake-up was lost in round " << round;
    }
    for (auto& loop : all) loop->stop();
  }

 private:
  static bool HasFailure() { return testing::Test::HasFailure(); }

  Task<void> wait_every_round(http::Loop& loop) {
    for (int round = 1; round <= rounds; ++round) {
      {
        Waiters::Ticket ticket(waiters_, id_of(round % 2, 7), loop);
        while (ended_.load() < round) co_await ticket.wait(1h);
      }
      const std::scoped_lock lock(mutex_);
      ++arrived_;
      arrival_.notify_all();
    }
  }

  Waiters waiters_;
  std::atomic<int> ended_ = 0;
  std::mutex mutex_;
  std::condition_variable arrival_;
  int arrived_ = 0;
};

TEST(WaitersThreads, no_wake_up_is_lost_over_many_rounds) {
  WaitingRounds().run();
}

}  // namespace waiters_test
}  // namespace once::store
