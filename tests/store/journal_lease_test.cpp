// Leases of claims that are held outside of the process, over restarts: an owner that could not renew gets a moment,
// and one that had its chance does not.
#include <gtest/gtest.h>

#include "tests/unit/support/journal_machine.hpp"

namespace once::store {
namespace journal_lease_test {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr Duration lease = seconds(30);

class JournalLease : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(machine_.start()); }

  Op claim(std::uint64_t by) {
    Op op = claim_op(1, by, 2 * lease);
    op.terms.owner = Owner::outside;
    op.terms.lease = lease;
    op.terms.on_unknown = OnUnknown::retry;
    return machine_.run(op);
  }
  // Time goes by, and the journal looks at the clock.
  void wait(Duration time) {
    machine_.clock.advance(time);
    machine_.store().maintain();
  }
  // Something is written, and with it a mark: at this time the process was there.
  void write() {
    ++key_;
    ASSERT_EQ(machine_.run(claim_op(key_, key_)).verdict, Verdict::execute);
    ASSERT_EQ(machine_.run(finish_op(key_, key_, outcome_of(50))).status, OpStatus::done);
  }
  void restart() {
    machine_.kill();
    ASSERT_TRUE(machine_.start()) << machine_.refusal;
  }

  JournalMachine machine_{1, {.segment_bytes = 4096, .cache_bytes = 0}};
  std::uint64_t key_ = 100;
};

TEST_F(JournalLease, one_that_lapsed_before_the_end_has_lapsed_after_the_start) {
  ASSERT_EQ(claim(1).verdict, Verdict::execute);
  wait(lease + seconds(1));
  write();
  restart();
  EXPECT_EQ(claim(2).verdict, Verdict::execute);
}

TEST_F(JournalLease, one_that_lapsed_before_an_orderly_end_without_anything_written_has_lapsed) {
  ASSERT_EQ(claim(1).verdict, Verdict::execute);
  wait(lease + seconds(1));
  machine_.close();
  machine_.clock.advance(minutes(5));
  ASSERT_TRUE(machine_.start());
  EXPECT_EQ(claim(2).verdict, Verdict::execute);
}

TEST_F(JournalLease, one_that_ran_at_the_end_gets_a_moment_after_the_start) {
  ASSERT_EQ(claim(1).verdict, Verdict::execute);
  wait(lease - seconds(1));
  write();
  machine_.clock.advance(minutes(10));
  restart();
  EXPECT_EQ(claim(2).verdict, Verdict::in_flight);
  wait(journal::lease_after_restart + seconds(1));
  EXPECT_EQ(claim(2).verdict, Verdict::execute);
}

TEST_F(JournalLease, a_run_that_was_too_short_for_its_owner_to_renew_takes_nothing_away) {
  ASSERT_EQ(claim(1).verdict, Verdict::execute);
  write();
  for (int starts = 0; starts < 3; ++starts) {
    machine_.clock.advance(minutes(10));
    restart();
    wait(seconds(5));
    write();
    EXPECT_EQ(claim(2).verdict, Verdict::in_flight) << starts;
  }
  EXPECT_EQ(machine_
                .run({.verb = Verb::renew,
                      .id = numbered<OperationId>(1),
                      .nonce = numbered<Nonce>(1),
                      .terms = {.lease = lease, .owner = Owner::outside}})
                .status,
            OpStatus::done);
}

TEST_F(JournalLease, a_run_in_which_its_owner_did_not_renew_was_its_moment) {
  ASSERT_EQ(claim(1).verdict, Verdict::execute);
  write();
  restart();
  for (int i = 0; i < 4; ++i) wait(seconds(10));
  write();
  restart();
  EXPECT_EQ(claim(2).verdict, Verdict::execute);
}

// What was not known to be on disk is written again by the process that finds it, and is not its own.
TEST_F(JournalLease, a_claim_that_was_copied_at_a_start_is_that_of_the_run_before) {
  ASSERT_EQ(claim(1).verdict, Verdict::execute);
  machine_.clock.advance(minutes(10));
  restart();
  wait(seconds(5));
  write();
  restart();
  EXPECT_EQ(claim(2).verdict, Verdict::in_flight);
}

// The segments of the run that wrote it are gone by then.
TEST_F(JournalLease, a_claim_that_was_copied_at_a_start_keeps_its_moment_over_the_next_start) {
  ASSERT_EQ(claim(1).verdict, Verdict::execute);
  machine_.clock.advance(lease - seconds(5));
  restart();
  wait(seconds(10));
  write();
  restart();
  EXPECT_EQ(claim(2).verdict, Verdict::in_flight);
}

TEST_F(JournalLease, a_clock_that_was_ahead_before_the_claim_says_nothing_of_it) {
  for (int i = 0; i < 120; ++i) wait(seconds(30));
  write();
  machine_.clock.jump(-hours(1));
  machine_.store().maintain();
  ASSERT_EQ(claim(1).verdict, Verdict::execute);
  write();
  restart();
  EXPECT_EQ(claim(2).verdict, Verdict::in_flight);
}

// Lists say the same as claims do.
TEST_F(JournalLease, operators_see_it_lapsed) {
  ASSERT_EQ(claim(1).verdict, Verdict::execute);
  wait(lease + seconds(1));
  write();
  restart();
  const auto found = machine_.store().search()->get(numbered<OperationId>(1));
  ASSERT_TRUE(found.has_value());
  ASSERT_EQ(found->keys.size(), 1U);
  EXPECT_LE(found->keys[0].lease_until, machine_.clock.now());
}

// Its first segment is gone, or it was a repair.
TEST(PastRunsTest, a_run_of_which_nothing_is_known_takes_nothing_away) {
  const auto at = [](std::uint32_t segment) { return journal::Address{journal::SegmentNumber{segment}, 64}; };
  const Time start{hours(1000)};
  journal::PastRuns runs;
  runs.set({{.begin = at(1), .opened_at = start}}, at(3), start + hours(3));
  EXPECT_EQ(runs.lease(start + minutes(1), at(2)), start + hours(3) + journal::lease_after_restart);
  EXPECT_EQ(runs.lease(Time::min(), at(2)), Time::min());
  EXPECT_EQ(runs.lease(start + minutes(1), at(3)), start + minutes(1)) << "this process wrote it";
  runs.set({{.begin = at(1), .opened_at = start, .last_mark = start + hours(1)}}, at(3), start + hours(3));
  EXPECT_EQ(runs.lease(start + minutes(1), at(2)), start + minutes(1));
}

}  // namespace journal_lease_test
}  // namespace once::store
