#include "admin/search_thread.hpp"

#include <unistd.h>

#include <atomic>
#include <functional>
#include <latch>

#include <gtest/gtest.h>

#include "base/task.hpp"
#include "http/loop.hpp"

namespace once::admin::search_thread_test {

class SearchThreadTest : public testing::Test {
 protected:
  Task<void> ask(std::function<void()> job) {
    ++open_;
    const bool done = co_await thread_.run(std::move(job), loop_) == SearchThread::Ran::yes;
    ++(done ? done_ : refused_);
    if (--open_ == 0) loop_.stop();
  }
  // It is at work, and goes on when told so.
  void begin_one_that_hangs() {
    spawn(ask([this] {
      begun_.count_down();
      go_.wait();
    }));
    begun_.wait();
  }

  http::Loop loop_;
  SystemClock clock_;
  Log log_{clock_, STDERR_FILENO, LogLevel::error, LogFormat::json};
  SearchThread thread_{nullptr, Duration::zero(), log_};
  std::latch begun_{1};
  std::latch go_{1};
  std::atomic<int> ran_ = 0;
  std::size_t open_ = 0;
  std::size_t done_ = 0;
  std::size_t refused_ = 0;
};

TEST_F(SearchThreadTest, no_more_wait_than_so_many) {
  begin_one_that_hangs();
  for (std::size_t i = 0; i < SearchThread::most_waiting + 3; ++i) spawn(ask([this] { ++ran_; }));
  EXPECT_EQ(refused_, 3U);
  go_.count_down();
  loop_.run();
  EXPECT_EQ(done_, 1 + SearchThread::most_waiting);
  EXPECT_EQ(ran_, static_cast<int>(SearchThread::most_waiting));
}

TEST_F(SearchThreadTest, what_waits_when_it_stops_is_not_begun_and_told) {
  begin_one_that_hangs();
  for (int i = 0; i < 5; ++i) spawn(ask([this] { ++ran_; }));
  thread_.stop();
  spawn(ask([this] { ++ran_; }));
  EXPECT_EQ(refused_, 1U);
  go_.count_down();
  loop_.run();
  EXPECT_EQ(done_, 1U);
  EXPECT_EQ(refused_, 6U);
  EXPECT_EQ(ran_, 0);
}

}  // namespace once::admin::search_thread_test
