// The journal on a disk whose calls fail, one after the other, and on one that is full.
#include <gtest/gtest.h>

#include "tests/unit/support/journal_machine.hpp"

namespace once::store {
namespace journal_fault_test {

using Condition = JournalStats::Condition;
constexpr Duration a_second = std::chrono::seconds(1);
constexpr JournalSettings tiny{.segment_bytes = 4096, .cache_bytes = 4096};

void expect_everything_refused(JournalMachine& machine) {
  for (Op op : {claim_op(1, 901), claim_op(77, 902), owner_op(Verb::renew, 1, 903), owner_op(Verb::release, 1, 904),
                finish_op(1, 905, outcome_of(10)), lookup_op(1)}) {
    EXPECT_FALSE(machine.store().answer_at_once(op));
    const Op answered = machine.run(op);
    EXPECT_EQ(answered.status, OpStatus::failed);
    EXPECT_EQ(answered.fault, StoreFault::refused);
    EXPECT_NE(answered.error.find("needs a restart"), std::string::npos) << answered.error;
  }
}

struct Fault {
  DiskCall call;
  std::uint64_t nth;
  DiskFault fault;
};

enum class Ending : std::uint8_t { kill, power };

// One life in which one call fails; true if it came to that call.
bool live_with(const Fault& fault, Ending ending) {
  SCOPED_TRACE(std::string(name_of(fault.call)) + " number " + std::to_string(fault.nth) +
               (fault.fault == DiskFault::no_space ? " finds no space" : " fails") +
               (ending == Ending::kill ? ", then a kill" : ", then no power"));
  const std::uint64_t seed = fault.nth * 97 + std::to_underlying(fault.call);
  JournalMachine machine(seed, tiny);
  JournalModel model;
  model.bodies_may_go = fault.fault == DiskFault::no_space;
  JournalWorkload workload(7);
  EXPECT_TRUE(machine.start());
  for (int i = 0; i < 12; ++i) workload.step(machine, model);
  machine.kill();
  machine.platter.fail(fault.call, fault.nth, fault.fault);
  const std::uint64_t before = machine.platter.calls(fault.call);
  if (machine.start()) {
    model.lapse();
    for (int i = 0; i < 30; ++i) {
      workload.step(machine, model);
      machine.store().maintain();
    }
    const bool failed = machine.store().stats().condition == Condition::failed;
    if (failed) expect_everything_refused(machine);
    // Nothing that a write can make good again, and nothing was at stake: the rest goes on.
    if (fault.call == DiskCall::read || fault.call == DiskCall::open) EXPECT_FALSE(failed);
  }
  EXPECT_EQ(machine.platter.syncs_after_failure(), 0U);
  const bool reached = machine.platter.calls(fault.call) >= before + fault.nth;
  ending == Ending::kill ? machine.kill() : machine.lose_power();
  for (int starts = 0; starts < 2; ++starts) {
    EXPECT_TRUE(machine.start()) << machine.refusal;
    if (testing::Test::HasFailure()) return false;
    model.lapse();
    model.check(machine);
    machine.lose_power();
  }
  return reached && !testing::Test::HasFailure();
}

class JournalFault : public testing::TestWithParam<DiskCall> {};

TEST_P(JournalFault, whichever_call_fails_nothing_told_is_lost) {
  for (const DiskFault fault : {DiskFault::failed, DiskFault::no_space}) {
    for (const Ending ending : {Ending::kill, Ending::power}) {
      std::uint64_t nth = 1;
      const std::uint64_t step = GetParam() == DiskCall::read ? 3 : 1;
      while (live_with({.call = GetParam(), .nth = nth, .fault = fault}, ending)) nth += step;
      EXPECT_GT(nth, 1U) << "no such call was made";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Disk, JournalFault, testing::ValuesIn(every_disk_call),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(JournalFaults, a_sync_that_failed_is_not_asked_again_and_everything_is_refused) {
  JournalMachine machine(1);
  ASSERT_TRUE(machine.start());
  ASSERT_EQ(machine.run(claim_op(1, 1)).status, OpStatus::done);
  machine.platter.fail(DiskCall::sync, 1, DiskFault::failed);
  const Op lost = machine.run(finish_op(1, 1, outcome_of(10)));
  EXPECT_EQ(lost.status, OpStatus::failed);
  EXPECT_EQ(lost.fault, StoreFault::unavailable);
  EXPECT_FALSE(lost.record.has_value());
  EXPECT_EQ(machine.store().stats().condition, Condition::failed);
  const std::uint64_t calls = machine.platter.all_calls();
  expect_everything_refused(machine);
  machine.clock.advance(std::chrono::hours(2));
  machine.store().maintain();
  machine.close();
  EXPECT_EQ(machine.platter.all_calls(), calls) << "a journal that failed leaves the disk alone";
}

// What a reader sees after a sync that failed need not be on disk.
TEST(JournalFaults, what_is_read_back_after_a_failed_sync_is_made_certain_before_it_is_told) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    JournalMachine machine(seed, tiny);
    ASSERT_TRUE(machine.start());
    ASSERT_EQ(machine.run(claim_op(1, 1)).status, OpStatus::done);
    machine.platter.fail(DiskCall::sync, 1, DiskFault::failed);
    ASSERT_EQ(machine.run(finish_op(1, 1, outcome_of(3000, 5))).status, OpStatus::failed);
    machine.kill();
    ASSERT_TRUE(machine.start()) << machine.refusal;
    const Op told = machine.run(lookup_op(1));
    ASSERT_TRUE(told.record.has_value());
    machine.lose_power();
    ASSERT_TRUE(machine.start()) << machine.refusal;
    const Op again = machine.run(lookup_op(1));
    ASSERT_TRUE(again.record.has_value());
    EXPECT_EQ(again.record->state, told.record->state);
  }
}

// Of a batch that ran out of space, whole records may lie behind the next one, which is the one that counts.
TEST(JournalFaults, what_a_write_without_space_left_behind_never_comes_back) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    JournalMachine machine(seed, tiny);
    ASSERT_TRUE(machine.start());
    for (const std::uint64_t key : {1U, 2U}) ASSERT_EQ(machine.run(claim_op(key, key)).status, OpStatus::done);
    machine.platter.set_space(machine.platter.bytes());
    machine.platter.fail(DiskCall::write, 1, DiskFault::no_space);
    std::vector<Op> batch = {finish_op(1, 1, nullptr), finish_op(2, 2, nullptr)};
    for (Op& op : batch) op.final_state = State::unknown;
    machine.run(batch);
    ASSERT_EQ(batch[1].status, OpStatus::failed);
    ASSERT_EQ(machine.run(finish_op(2, 2, nullptr)).status, OpStatus::done);
    machine.kill();
    machine.platter.set_space({});
    ASSERT_TRUE(machine.start()) << machine.refusal;
    EXPECT_EQ(machine.run(lookup_op(2)).record->state, State::succeeded);
  }
}

// The segment is cut off behind what is in it, which is nothing yet: the next one must not be measured by that.
TEST(JournalFaults, a_disk_that_was_full_at_the_first_write_is_used_again) {
  JournalMachine machine(1);
  ASSERT_TRUE(machine.start());
  machine.platter.set_space(machine.platter.bytes());
  machine.platter.fail(DiskCall::write, 1, DiskFault::no_space);
  ASSERT_EQ(machine.run(claim_op(1, 1)).status, OpStatus::failed);
  ASSERT_EQ(machine.run(claim_op(1, 1)).fault, StoreFault::full);
  machine.platter.set_space({});
  for (int calls = 0; calls < 2; ++calls) {
    machine.clock.advance(std::chrono::seconds(2));
    machine.store().maintain();
  }
  const Op op = machine.run(claim_op(1, 1));
  EXPECT_EQ(op.status, OpStatus::done) << op.error;
}

class FullJournal : public testing::Test {
 protected:
  // Claims until one is refused; returns how many were given.
  std::uint64_t claim_until_full() {
    for (;; ++next_) {
      const Op op = machine_.run(claim_op(next_, next_));
      if (op.status == OpStatus::failed) {
        EXPECT_EQ(op.fault, StoreFault::full) << op.error;
        return next_;
      }
    }
  }
  void finish_all_and_check(std::uint64_t given) {
    for (std::uint64_t key = 0; key < given; ++key) {
      const Op op = machine_.run(finish_op(key, key, outcome_of(2000, key)));
      ASSERT_EQ(op.status, OpStatus::done) << key << ": " << op.error;
    }
    expect_all_finished(given);
    machine_.lose_power();
    machine_.platter.set_space({});
    ASSERT_TRUE(machine_.start()) << machine_.refusal;
    expect_all_finished(given);
  }
  void expect_all_finished(std::uint64_t given) {
    for (std::uint64_t key = 0; key < given; ++key) {
      const Op op = machine_.run(claim_op(key, 1000000 + key));
      ASSERT_EQ(op.status, OpStatus::done) << op.error;
      ASSERT_TRUE(op.verdict == Verdict::replay || op.verdict == Verdict::not_kept);
      if (op.verdict == Verdict::replay) ASSERT_EQ(*op.record->outcome, *outcome_of(2000, key));
    }
  }
  void tick() {
    machine_.clock.advance(a_second);
    machine_.store().maintain();
  }

  JournalMachine machine_{1, {.segment_bytes = 64 << 10, .cache_bytes = 0}};
  std::uint64_t next_ = 0;
};

TEST_F(FullJournal, every_claim_that_was_given_is_finished_and_only_new_keys_are_refused) {
  ASSERT_TRUE(machine_.start());
  machine_.platter.set_space(machine_.platter.bytes() + (100 << 10));
  const std::uint64_t given = claim_until_full();
  EXPECT_GT(given, 200U);
  EXPECT_EQ(machine_.store().stats().condition, Condition::full);
  EXPECT_GT(machine_.store().stats().refused, 0U);
  EXPECT_EQ(machine_.run(lookup_op(0)).status, OpStatus::done);
  EXPECT_EQ(machine_.run(owner_op(Verb::renew, 1, 1)).status, OpStatus::done);
  EXPECT_EQ(machine_.run(claim_op(1, 555)).verdict, Verdict::in_flight);
  finish_all_and_check(given);
}

TEST_F(FullJournal, has_room_again_when_the_disk_has) {
  ASSERT_TRUE(machine_.start());
  machine_.platter.set_space(machine_.platter.bytes());
  claim_until_full();
  for (int i = 0; i < 5; ++i) tick();
  EXPECT_EQ(machine_.store().stats().condition, Condition::full);
  machine_.platter.set_space({});
  for (int i = 0; i < 3; ++i) tick();
  EXPECT_EQ(machine_.run(claim_op(next_, next_)).status, OpStatus::done);
  tick();
  EXPECT_EQ(machine_.store().stats().condition, Condition::well);
}

TEST_F(FullJournal, a_full_disk_is_tried_once_a_second_and_not_with_every_request) {
  ASSERT_TRUE(machine_.start());
  machine_.platter.set_space(machine_.platter.bytes());
  claim_until_full();
  const std::uint64_t creates = machine_.platter.calls(DiskCall::create);
  for (int i = 0; i < 50; ++i) {
    machine_.clock.advance(Duration(20));
    machine_.store().maintain();
    EXPECT_EQ(machine_.run(claim_op(next_, next_)).fault, StoreFault::full);
  }
  EXPECT_LE(machine_.platter.calls(DiskCall::create), creates + 2);
}

TEST_F(FullJournal, a_claim_and_a_large_outcome_in_one_batch_leave_room_for_both) {
  ASSERT_TRUE(machine_.start());
  ASSERT_EQ(machine_.run(claim_op(100000, 100000)).status, OpStatus::done);
  machine_.platter.set_space(machine_.platter.bytes());
  for (; machine_.store().stats().live_claims < 120; ++next_) machine_.run(claim_op(next_, next_));
  std::vector<Op> batch;
  for (int i = 0; i < 60; ++i, ++next_) batch.push_back(claim_op(next_, next_));
  batch.push_back(finish_op(100000, 100000, outcome_of(60 << 10)));
  machine_.run(batch);
  std::uint64_t given = 0;
  for (std::uint64_t key = 0; key < next_; ++key) {
    given += machine_.run(lookup_op(key)).record.has_value() ? 1 : 0;
  }
  EXPECT_EQ(batch.back().status, OpStatus::done);
  for (std::uint64_t key = 0; key < next_; ++key) {
    if (!machine_.run(lookup_op(key)).record) continue;
    const Op op = machine_.run(finish_op(key, key, outcome_of(2000)));
    ASSERT_EQ(op.status, OpStatus::done) << op.error;
  }
  EXPECT_GT(given, 100U);
  EXPECT_LE(machine_.store().stats().disk_bytes, machine_.platter.bytes());
}

TEST_F(FullJournal, starts_on_a_full_disk) {
  ASSERT_TRUE(machine_.start());
  machine_.platter.set_space(machine_.platter.bytes() + (20 << 10));
  const std::uint64_t given = claim_until_full();
  machine_.kill();
  ASSERT_TRUE(machine_.start()) << machine_.refusal;
  for (std::uint64_t key = 0; key < given; ++key) {
    ASSERT_TRUE(machine_.run(lookup_op(key)).record.has_value());
  }
  EXPECT_EQ(machine_.run(finish_op(0, 0, nullptr)).status, OpStatus::done);
}

TEST_F(FullJournal, says_how_much_it_needs_when_it_cannot_start) {
  ASSERT_TRUE(machine_.start());
  ASSERT_EQ(machine_.run(claim_op(0, 0)).status, OpStatus::done);
  ASSERT_EQ(machine_.run(finish_op(0, 0, outcome_of(2000, 0))).status, OpStatus::done);
  machine_.kill();
  machine_.platter.set_space(0);
  ASSERT_FALSE(machine_.start());
  EXPECT_TRUE(machine_.refusal.contains("the disk is full, and the journal needs ")) << machine_.refusal;
  machine_.platter.set_space({});
  ASSERT_TRUE(machine_.start()) << machine_.refusal;
  expect_all_finished(1);
}

}  // namespace journal_fault_test
}  // namespace once::store
