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

// What happens after a claim was made outside.
struct Act {
  enum class Kind : std::uint8_t { wait, write, renew, kill, close };
  Kind kind;
  Duration time{};
};
// Time goes by, and the journal looks at the clock.
constexpr Act waits(Duration time) {
  return {Act::Kind::wait, time};
}
// Something is written, and with it a mark: at this time the process was there.
constexpr Act writes{Act::Kind::write};
constexpr Act renews{Act::Kind::renew};
// The process is killed, or ends in order, and another one starts so much later.
constexpr Act killed(Duration down = {}) {
  return {Act::Kind::kill, down};
}
constexpr Act closed(Duration down) {
  return {Act::Kind::close, down};
}

class JournalLease : public testing::Test {
 protected:
  void SetUp() override { begin(0); }
  void begin(std::size_t cache_bytes) {
    machine_ = std::make_unique<JournalMachine>(1, JournalSettings{.segment_bytes = 4096, .cache_bytes = cache_bytes});
    ASSERT_TRUE(machine_->start());
  }
  Op claim(std::uint64_t by) {
    Op op = claim_op(1, by, 2 * lease);
    op.terms.owner = Owner::outside;
    op.terms.lease = lease;
    op.terms.on_unknown = OnUnknown::retry;
    return machine_->run(op);
  }
  Op renew() {
    Op op = owner_op(Verb::renew, 1, 1);
    op.terms = {.lease = lease, .owner = Owner::outside};
    return machine_->run(op);
  }
  void write() {
    ++key_;
    ASSERT_EQ(machine_->run(claim_op(key_, key_)).verdict, Verdict::execute);
    ASSERT_EQ(machine_->run(finish_op(key_, key_, outcome_of(50))).status, OpStatus::done);
  }
  void play(const Act& act) {
    switch (act.kind) {
      case Act::Kind::wait:
        machine_->clock.advance(act.time);
        machine_->store().maintain();
        return;
      case Act::Kind::write: return write();
      case Act::Kind::renew: ASSERT_EQ(renew().status, OpStatus::done); return;
      case Act::Kind::kill: machine_->kill(); break;
      case Act::Kind::close: machine_->close(); break;
    }
    machine_->clock.advance(act.time);
    ASSERT_TRUE(machine_->start()) << machine_->refusal;
  }

  std::unique_ptr<JournalMachine> machine_;
  std::uint64_t key_ = 100;
};

TEST_F(JournalLease, over_restarts_runs_as_long_as_its_owner_could_have_renewed) {
  constexpr Duration moment = journal::lease_after_restart;
  struct Row {
    std::string_view story;
    std::vector<Act> acts;
    bool runs;
  };
  const std::vector<Row> rows = {
      {"one that lapsed before the end has lapsed", {waits(lease + seconds(1)), writes, killed()}, false},
      {"so has one before an orderly end, with nothing written",
       {waits(lease + seconds(1)), closed(minutes(5))},
       false},
      {"one that ran at the end gets a moment", {waits(lease - seconds(1)), writes, killed(minutes(10))}, true},
      {"and no more than that",
       {waits(lease - seconds(1)), writes, killed(minutes(10)), waits(moment + seconds(1))},
       false},
      {"in which it can be renewed",
       {writes, killed(minutes(10)), waits(moment - seconds(1)), renews, waits(lease - seconds(1))},
       true},
      {"a renewal is remembered", {waits(lease - seconds(1)), renews, killed(), waits(lease - seconds(1))}, true},
      {"and lapses in its time", {waits(lease - seconds(1)), renews, killed(), waits(lease + seconds(1))}, false},
      {"runs too short for its owner to renew take nothing away",
       {writes, killed(minutes(10)), waits(seconds(5)), writes, killed(minutes(10)), waits(seconds(5)), writes,
        killed(minutes(10)), waits(seconds(5)), writes},
       true},
      {"a run in which its owner did not renew was its moment",
       {writes, killed(), waits(seconds(10)), waits(seconds(10)), waits(seconds(10)), waits(seconds(10)), writes,
        killed()},
       false},
      // What was not known to be on disk is written again by the process that finds it, and is not its own.
      {"a claim that was copied at a start is that of the run before",
       {killed(minutes(10)), waits(seconds(5)), writes, killed()},
       true},
      // The segments of the run that wrote it are gone by then.
      {"a claim that was copied at a start keeps its moment over the next start",
       {killed(lease - seconds(5)), waits(seconds(10)), writes, killed()},
       true}};
  for (const std::size_t cache_bytes : {std::size_t{0}, std::size_t{1} << 20U}) {
    for (const Row& row : rows) {
      SCOPED_TRACE(testing::Message() << row.story << ", cache of " << cache_bytes);
      begin(cache_bytes);
      ASSERT_EQ(claim(1).verdict, Verdict::execute);
      for (const Act& act : row.acts) play(act);
      EXPECT_EQ(claim(2).verdict, row.runs ? Verdict::in_flight : Verdict::execute);
      EXPECT_EQ(renew().status, row.runs ? OpStatus::done : OpStatus::lost);
    }
  }
}

TEST_F(JournalLease, of_a_claim_that_stands_after_a_restart_is_the_same_and_it_may_be_ended) {
  const Op before = claim(1);
  ASSERT_EQ(before.verdict, Verdict::execute);
  play(killed());
  const Op same = claim(1);
  ASSERT_EQ(same.verdict, Verdict::execute);
  EXPECT_EQ(same.record->attempt, Attempt{1});
  EXPECT_EQ(same.record->lease_until, before.record->lease_until);
  EXPECT_EQ(machine_->run(finish_op(1, 1, outcome_of(5))).status, OpStatus::done);
  play(killed());
  EXPECT_EQ(claim(2).verdict, Verdict::replay);
}

TEST_F(JournalLease, a_clock_that_was_ahead_before_the_claim_says_nothing_of_it) {
  for (int i = 0; i < 120; ++i) play(waits(seconds(30)));
  write();
  machine_->clock.jump(-hours(1));
  machine_->store().maintain();
  ASSERT_EQ(claim(1).verdict, Verdict::execute);
  write();
  play(killed());
  EXPECT_EQ(claim(2).verdict, Verdict::in_flight);
}

// Lists say the same as claims do.
TEST_F(JournalLease, operators_see_it_lapsed) {
  ASSERT_EQ(claim(1).verdict, Verdict::execute);
  for (const Act& act : {waits(lease + seconds(1)), writes, killed()}) play(act);
  const auto found = machine_->store().search()->get(numbered<OperationId>(1));
  ASSERT_TRUE(found.has_value());
  ASSERT_EQ(found->keys.size(), 1U);
  EXPECT_LE(found->keys[0].lease_until, machine_->clock.now());
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
