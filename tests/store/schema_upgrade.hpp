// What the tests of both SQL schemas need: work that goes on while a schema changes, and a count in steps.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <list>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/clock.hpp"
#include "store/search.hpp"
#include "tests/unit/support/layers.hpp"

namespace once::schema_upgrade {

// Does pieces of work over and over, each kind on a thread of its own, until it goes.
class Load {
 public:
  Load() = default;
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;
  ~Load() { stop_ = true; }

  // `make` is called on the new thread, and gives what is done there again and again.
  void add(std::function<std::function<void()>()> make) {
    std::atomic<int>& done = done_.emplace_back(0);
    threads_.emplace_back([this, &done, make = std::move(make)] {
      for (const std::function<void()> work = make(); !stop_; ++done) work();
    });
  }

  // Whether every kind gets on.
  bool goes_on() const {
    constexpr int enough = 20;
    std::vector<int> goals;
    for (const std::atomic<int>& done : done_) goals.push_back(done + enough);
    const auto reached = [&] {
      return std::equal(done_.begin(), done_.end(), goals.begin(), [](int done, int goal) { return done >= goal; });
    };
    const auto until = monotonic_now() + std::chrono::minutes(1);
    while (!reached() && monotonic_now() < until) std::this_thread::yield();
    return reached();
  }

 private:
  std::atomic<bool> stop_{false};
  std::list<std::atomic<int>> done_;
  std::list<std::jthread> threads_;  // last, so that they end first
};

struct Counted {
  CountsByState by_state{};
  int steps = 0;
};

inline Counted count_all(Search& search) {
  Counted counted;
  std::string cursor;
  do {
    const auto part = search.count(cursor);
    EXPECT_TRUE(part.has_value()) << part.error().detail;
    if (!part) break;
    for (std::size_t i = 0; i < counted.by_state.size(); ++i) counted.by_state.at(i) += part->by_state.at(i);
    cursor = part->next;
    ++counted.steps;
  } while (!cursor.empty());
  return counted;
}

// One unknown key is found, and at once.
inline void expect_only_unknown(Search& search, const OperationId& id) {
  const auto found = search.scan({.state = State::unknown}, "", 10);
  ASSERT_TRUE(found.has_value()) << found.error().detail;
  ASSERT_EQ(found->keys.size(), 1U);
  EXPECT_EQ(found->keys.front().id, id);
  EXPECT_TRUE(found->next.empty()) << "one step was enough";
}

}  // namespace once::schema_upgrade
