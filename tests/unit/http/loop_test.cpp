// The loop: work from other threads, timers, and stopping.
#include "http/loop.hpp"

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/http/loop_run.hpp"

namespace once::http::loop_test {

using namespace std::chrono_literals;

struct Posted : Work {
  std::vector<std::pair<int, int>>* seen = nullptr;
  Loop* loop = nullptr;
  int thread = 0;
  int number = 0;
  std::size_t stop_after = 0;
};

TEST(LoopTest, work_from_eight_threads_all_runs_and_each_threads_in_order) {
  constexpr int threads = 8;
  constexpr int each = 5000;
  Loop loop;
  std::vector<std::pair<int, int>> seen;  // touched by the loop's thread alone
  std::vector<std::vector<Posted>> work(threads, std::vector<Posted>(each));
  std::jthread running([&] { loop.run(); });
  {
    std::vector<std::jthread> posters;
    for (int thread = 0; thread < threads; ++thread) {
      posters.emplace_back([&, thread] {
        for (int number = 0; number < each; ++number) {
          Posted& posted = work[static_cast<std::size_t>(thread)][static_cast<std::size_t>(number)];
          posted.seen = &seen;
          posted.loop = &loop;
          posted.thread = thread;
          posted.number = number;
          posted.stop_after = threads * each;
          posted.run = [](Work& done) {
            auto& self = static_cast<Posted&>(done);
            self.seen->emplace_back(self.thread, self.number);
            if (self.seen->size() == self.stop_after) self.loop->stop();
          };
          loop.post(posted);
        }
      });
    }
  }
  running.join();
  ASSERT_EQ(seen.size(), static_cast<std::size_t>(threads * each));
  std::array<int, threads> next{};
  for (const auto& [thread, number] : seen) ASSERT_EQ(number, next[static_cast<std::size_t>(thread)]++);
}

TEST(LoopTest, work_may_post_work_and_what_was_posted_before_the_loop_ran_is_not_lost) {
  struct Again : Work {
    Loop* loop = nullptr;
    int left = 100;
  } again;
  Loop loop;
  again.loop = &loop;
  again.run = [](Work& work) {
    auto& self = static_cast<Again&>(work);
    if (--self.left == 0) {
      self.loop->stop();
    } else {
      self.loop->post(self);
    }
  };
  loop.post(again);
  loop.run();
  EXPECT_EQ(again.left, 0);
}

// What the loop's own thread posts waits for the rest of the turn, and not for anything else.
TEST(LoopTest, own_work_runs_when_the_turn_ends) {
  struct Step : Work {
    Loop* loop = nullptr;
    std::string* seen = nullptr;
    char name = ' ';
    Step* then = nullptr;
  };
  Loop loop;
  std::string seen;
  std::array<Step, 4> steps;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    steps[i].loop = &loop;
    steps[i].seen = &seen;
    steps[i].name = static_cast<char>('a' + i);
    steps[i].run = [](Work& work) {
      auto& self = static_cast<Step&>(work);
      self.seen->push_back(self.name);
      if (self.then != nullptr) self.loop->post(*self.then);
      if (self.name == 'd') self.loop->stop();
    };
  }
  steps[0].then = &steps[2];  // a posts c, which runs after b although b was posted from outside
  steps[2].then = &steps[3];
  const std::array<Work*, 2> from_outside = {&steps[0], &steps[1]};
  loop.post_all(from_outside);
  loop.run();
  EXPECT_EQ(seen, "abcd");
}

TEST(LoopTest, stop_from_any_thread_wakes_a_loop_that_has_nothing_to_do) {
  for (int round = 0; round < 200; ++round) {
    Loop loop;
    std::jthread running([&] { loop.run(); });
    loop.stop();
  }
}

TEST(LoopTest, a_loop_that_was_stopped_before_it_ran_returns_at_once) {
  Loop loop;
  loop.stop();
  loop.run();
}

Task<void> note_after(Loop& loop, Duration after, std::vector<Duration>& order) {
  const auto before = monotonic_now();
  co_await sleep_for(loop, after);
  EXPECT_GE(monotonic_now() - before, after);
  order.push_back(after);
}

TEST(LoopTest, sleepers_wake_in_order_and_never_early) {
  LoopRun run;
  std::vector<Duration> order;
  for (const Duration after : {40ms, 0ms, 20ms, 1ms, 60ms, 5ms}) run.start(note_after(run.loop, after, order));
  run.run();
  ASSERT_EQ(order.size(), 6U);
  EXPECT_EQ(order.front(), 0ms);  // did not even suspend
  EXPECT_EQ(order.back(), 60ms);
  EXPECT_EQ(order[4], 40ms);
  EXPECT_EQ(order[3], 20ms);
}

}  // namespace once::http::loop_test
