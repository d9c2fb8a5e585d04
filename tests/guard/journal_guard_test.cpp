// The library on the journal: what outlives the process, and what happens to work that did not.
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "guard/engine.hpp"
#include "tests/guard/crash.hpp"
#include "tests/unit/support/manual_clock.hpp"
#include "tests/unit/support/temporary_folder.hpp"

namespace once::guard::journal_guard_test {

using namespace std::chrono_literals;

class JournalGuard : public testing::Test {
 protected:
  Guard open(std::vector<std::string> encryption_secrets = {}) {
    auto opened = Engine::open({.store = "journal:" + folder_.path(),
                                .secret = "0123456789abcdef",
                                .encryption_secrets = std::move(encryption_secrets),
                                .logging = Logging::off},
                               clock_);
    EXPECT_TRUE(opened.has_value()) << opened.error().detail;
    return std::move(*opened);
  }
  static Request request() { return {.tenant = "acme", .scope = "copy", .inputs = {{"intake", 123}}}; }

  ManualClock clock_;
  TemporaryFolder folder_;
};

TEST_F(JournalGuard, work_killed_in_the_middle_is_taken_over_after_the_threshold_only) {
  killed_in([&](const auto& now) {
    Guard guard = open();
    std::ignore = guard.run(request(), [&] {
      now();
      return std::string("never");
    });
  });
  clock_.advance(4min);
  Guard guard = open();
  int runs = 0;
  const auto work = [&](const Running& running) {
    ++runs;
    EXPECT_EQ(running.attempt(), 2U);
    EXPECT_FALSE(running.lost());
    return std::string("done");
  };
  const auto early = guard.run(request(), work);
  EXPECT_EQ(early.status, Status::in_progress);
  EXPECT_EQ(early.reason, Reason::gone);
  EXPECT_EQ(early.retry_after, 1min);
  clock_.advance(1min);
  const auto taken = guard.run(request(), work);
  EXPECT_EQ(taken.value, "done");
  EXPECT_EQ(taken.attempt, 2U);
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(guard.counts().takeovers, 1U);
}

TEST_F(JournalGuard, what_was_returned_outlives_a_kill) {
  killed_in([&](const auto& now) {
    Guard guard = open();
    std::ignore = guard.run(request(), [] { return std::string("paid for"); });
    now();
  });
  Guard guard = open();
  const auto cached = guard.run(request(), [] { return std::string("again"); });
  EXPECT_EQ(cached.value, "paid for");
  EXPECT_TRUE(cached.cached());
}

TEST_F(JournalGuard, encrypted_values_are_read_with_the_key_they_were_written_with) {
  const std::string first(32, 'a');
  const std::string second(32, 'b');
  std::ignore = open({first}).run(request(), [] { return std::string("value"); });
  {
    Guard rotated = open({second, first});
    EXPECT_EQ(rotated.run(request(), [] { return std::string(); }).value, "value");
  }
  Guard without = open({second});
  EXPECT_FALSE(without.run(request(), [] { return std::string("again"); }).succeeded());
}

}  // namespace once::guard::journal_guard_test
