#include "base/synchronized.hpp"

#include <concepts>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

namespace once::base::synchronized_test {

TEST(Synchronized, changes_of_two_threads_are_not_lost) {
  Synchronized<int> number(0);
  const auto count = [&number] {
    for (int i = 0; i < 10'000; ++i) ++*number.lock();
  };
  std::thread other(count);
  count();
  other.join();
  EXPECT_EQ(*number.lock(), 20'000);
}

TEST(Synchronized, one_that_is_const_can_only_be_looked_at) {
  static_assert(std::same_as<decltype(*std::declval<const Synchronized<int>&>().lock()), const int&>);
  const Synchronized<std::pair<int, int>> both(1, 2);
  EXPECT_EQ(both.lock()->second, 2);
  EXPECT_EQ(both.unlocked().first, 1);
}

TEST(Synchronized, others_may_change_the_value_while_one_waits) {
  Synchronized<int> number(0);
  std::condition_variable changed;
  auto held = number.lock();
  std::thread other([&] {
    *number.lock() = 7;  // not before wait() has released the lock
    changed.notify_one();
  });
  EXPECT_EQ(*held, 0);
  held.wait(changed, [&] { return *held == 7; });
  EXPECT_EQ(*held, 7);
  held.unlock();
  other.join();
  held.lock();
  EXPECT_EQ(*held, 7);
}

TEST(SynchronizedDeathTest, the_value_is_not_reached_without_the_lock) {
  Synchronized<int> number(0);
  auto held = number.lock();
  held.unlock();
  EXPECT_DEATH(*held = 1, "owns_lock");
}

}  // namespace once::base::synchronized_test
