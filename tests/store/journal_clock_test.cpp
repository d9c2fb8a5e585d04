// A clock that is wrong deletes nothing that would be needed once it is set right.
#include <gtest/gtest.h>

#include "tests/unit/support/journal_machine.hpp"

namespace once::store {
namespace journal_clock_test {

using std::chrono::hours;
using std::chrono::seconds;

constexpr std::uint64_t keys = 300;

class JournalClock : public testing::Test {
 protected:
  // With keys in several segments, each for a day.
  void begin() {
    machine_ = std::make_unique<JournalMachine>(1, JournalSettings{.segment_bytes = 16 << 10});
    ASSERT_TRUE(machine_->start());
    for (std::uint64_t key = 0; key < keys; ++key) {
      ASSERT_EQ(machine_->run(claim_op(key, key, hours(24))).verdict, Verdict::execute);
      ASSERT_EQ(machine_->run(finish_op(key, key, outcome_of(100, key), hours(24))).status, OpStatus::done);
    }
  }
  JournalStats stats() { return machine_->store().stats(); }
  void expect_all_replayed() {
    for (std::uint64_t key = 0; key < keys; ++key) {
      const Op op = machine_->run(claim_op(key, key + 1'000'000));
      ASSERT_EQ(op.verdict, Verdict::replay) << key << ' ' << op.error;
      ASSERT_EQ(*op.record->outcome, *outcome_of(100, key)) << key;
    }
  }
  void tick() {
    machine_->clock.advance(seconds(1));
    machine_->store().maintain();
  }

  std::unique_ptr<JournalMachine> machine_;
};

TEST_F(JournalClock, clock_that_jumps_ahead_deletes_nothing_for_a_while) {
  for (const bool at_start : {false, true}) {
    SCOPED_TRACE(at_start ? "between two runs" : "while it runs");
    begin();
    const auto jump = [&](Duration by) {
      machine_->clock.jump(by);
      if (!at_start) return;
      machine_->close();
      ASSERT_TRUE(machine_->start());
    };
    const std::uint64_t segments = stats().segments;
    jump(hours(48));
    for (int i = 0; i < 60; ++i) tick();
    EXPECT_GT(stats().clock_ahead, hours(47));
    if (!at_start) EXPECT_EQ(stats().clock_ahead, hours(48));
    EXPECT_EQ(stats().keys, keys);
    EXPECT_GE(stats().segments, segments);
    jump(-hours(48));
    tick();
    EXPECT_EQ(stats().clock_ahead, Duration::zero());
    expect_all_replayed();
  }
}

// A machine that was off for days looks the same: it is believed after a while.
TEST_F(JournalClock, clock_ahead_is_believed_after_a_while) {
  begin();
  machine_->clock.jump(hours(48));
  machine_->close();
  ASSERT_TRUE(machine_->start());
  for (Duration passed{}; passed < journal::DeletionTime::grace - seconds(1); passed += seconds(1)) tick();
  EXPECT_EQ(stats().keys, keys);
  for (int i = 0; i < 5; ++i) tick();
  EXPECT_EQ(stats().keys, 0U);
  EXPECT_EQ(stats().segments, 1U);
  EXPECT_EQ(stats().clock_ahead, Duration::zero());
}

}  // namespace journal_clock_test
}  // namespace once::store
