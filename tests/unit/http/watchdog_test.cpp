#include "http/watchdog.hpp"

#include <thread>

#include <gtest/gtest.h>

namespace once::http::watchdog_test {

using namespace std::chrono_literals;

class LoopThread {
 public:
  explicit LoopThread(Loop& loop) : loop_(loop), thread_([&loop] { loop.run(); }) {}
  LoopThread(const LoopThread&) = delete;
  LoopThread& operator=(const LoopThread&) = delete;
  ~LoopThread() { loop_.stop(); }

 private:
  Loop& loop_;
  std::jthread thread_;
};

TEST(Watchdog, sends_no_pings_while_it_is_off) {
  Loop loop;
  Watchdog watchdog;
  watchdog.watch(loop);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(watchdog.due(i * 1h));
  EXPECT_EQ(watchdog.look_every(), 0s);
}

TEST(Watchdog, there_is_a_sign_when_every_loop_has_had_a_turn_since_the_last_one) {
  Watchdog watchdog;
  Loop turns;
  Loop hangs;
  watchdog.set_limit(8s);
  watchdog.watch(turns);
  watchdog.watch(hangs);
  EXPECT_EQ(watchdog.look_every(), 1s);
  const LoopThread turning(turns);
  EXPECT_FALSE(watchdog.due(0s));
  wait_for_turn(turns);
  for (int i = 1; i < 100; ++i) EXPECT_FALSE(watchdog.due(i * 1s)) << "one of them has had none";
  const LoopThread turning_again(hangs);
  wait_for_turn(hangs);
  EXPECT_TRUE(watchdog.due(100s));
  wait_for_turn(turns);
  wait_for_turn(hangs);
  EXPECT_TRUE(watchdog.due(102s)) << "asked again with the last sign";
}

TEST(Watchdog, a_loop_that_ended_is_not_waited_for) {
  Watchdog watchdog;
  Loop turns;
  Loop ended;
  watchdog.set_limit(8s);
  watchdog.watch(turns);
  watchdog.watch(ended);
  const LoopThread turning(turns);
  EXPECT_FALSE(watchdog.due(0s));
  wait_for_turn(turns);
  EXPECT_FALSE(watchdog.due(1s));
  watchdog.forget(ended);
  EXPECT_TRUE(watchdog.due(2s));
}

TEST(Watchdog, asks_no_more_than_four_times_within_the_limit) {
  Watchdog watchdog;
  Loop loop;
  watchdog.set_limit(8s);
  watchdog.watch(loop);
  const LoopThread turning(loop);
  int signs = 0;
  for (int i = 0; i < 16; ++i) {
    if (watchdog.due(i * 500ms)) ++signs;
    wait_for_turn(loop);
  }
  EXPECT_EQ(signs, 4);
}

}  // namespace once::http::watchdog_test
