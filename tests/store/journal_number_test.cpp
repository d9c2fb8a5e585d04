// Numbers of segments that have grown large: files that were begun millions of segments ago, the highest number there
// is, and an index that has few bits for them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/journal/format.hpp"
#include "store/journal/repair.hpp"
#include "tests/unit/support/journal_machine.hpp"

namespace once::store {
namespace journal_number_test {

using journal::SegmentNumber;
using testing::HasSubstr;

constexpr JournalSettings tiny{.segment_bytes = 4096, .cache_bytes = 0};
constexpr std::uint32_t beyond_places = std::uint32_t{1} << 24U;
constexpr std::uint32_t highest = 0xffff'ffff;

// As if all segments before it had been dropped.
void begin_with(Platter& platter, std::uint32_t number) {
  journal::SegmentHeader header{.journal = {{7}}, .number = SegmentNumber{number}};
  platter.put(journal::segment_name(header.number), journal::encode(header));
}

void record(JournalMachine& machine, std::uint64_t key) {
  ASSERT_EQ(machine.run(claim_op(key, key)).verdict, Verdict::execute) << key;
  ASSERT_EQ(machine.run(finish_op(key, key, outcome_of(400, key))).status, OpStatus::done) << key;
}

void expect_replayed(JournalMachine& machine, std::uint64_t keys) {
  for (std::uint64_t key = 0; key < keys; ++key) {
    const Op op = machine.run(claim_op(key, key + 1000));
    ASSERT_EQ(op.verdict, Verdict::replay) << key << ' ' << op.error;
    ASSERT_EQ(*op.record->outcome, *outcome_of(400, key)) << key;
  }
}

TEST(JournalNumberTest, more_segments_than_a_place_has_bits_for) {
  for (const std::uint32_t first : {beyond_places - 4, beyond_places - 1, beyond_places, 2 * beyond_places - 3}) {
    JournalMachine machine(1, tiny);
    begin_with(machine.platter, first);
    for (std::uint64_t round = 0; round < 3; ++round) {
      ASSERT_TRUE(machine.start()) << machine.refusal;
      expect_replayed(machine, round * 30);
      for (std::uint64_t key = round * 30; key < (round + 1) * 30; ++key) record(machine, key);
      EXPECT_GT(machine.store().stats().segments, 3U);
      expect_replayed(machine, (round + 1) * 30);
      round == 1 ? machine.kill() : machine.close();
    }
    SimulatedDisk disk(machine.platter);
    EXPECT_TRUE(journal::verify(disk, [](const journal::SegmentReport&) {})->damage.empty());
  }
}

TEST(JournalNumberTest, the_highest_number_is_refused_and_nothing_is_lost) {
  JournalMachine machine(1, tiny);
  begin_with(machine.platter, highest - 4);
  ASSERT_TRUE(machine.start()) << machine.refusal;
  std::uint64_t keys = 0;
  while (!machine.store().failed_for_good()) {
    ASSERT_LT(keys, 100U);
    if (machine.run(claim_op(keys, keys)).status != OpStatus::done) break;
    if (machine.run(finish_op(keys, keys, outcome_of(400, keys))).status != OpStatus::done) break;
    ++keys;
  }
  EXPECT_GT(keys, 10U);
  EXPECT_TRUE(machine.platter.holds("4294967295.segment"));
  machine.kill();
  EXPECT_FALSE(machine.start());
  EXPECT_THAT(machine.refusal, HasSubstr("4294967295.segment: there are no higher numbers"));
}

TEST(JournalNumberTest, a_repair_that_would_need_a_higher_number_is_refused) {
  JournalMachine machine(1, tiny);
  begin_with(machine.platter, highest);
  machine.platter.flip("4294967295.segment", 20, 1);
  const auto before = machine.platter.content("4294967295.segment");
  SimulatedDisk disk(machine.platter);
  SeededRandom random(1);
  const auto repaired = journal::repair(disk, machine.clock, random, [](const journal::SegmentReport&) {});
  ASSERT_FALSE(repaired.has_value());
  EXPECT_THAT(repaired.error().detail, HasSubstr("there are no higher numbers"));
  EXPECT_EQ(machine.platter.content("4294967295.segment"), before);
}

// Everything that is known of a place follows when the index begins to count anew, also while claims are held outside
// from before the start and records are carried forward.
TEST(JournalNumberTest, the_index_counts_anew_while_everything_goes_on) {
  for (std::uint64_t seed = 1; seed <= seeds(20); ++seed) {
    SCOPED_TRACE(seed);
    JournalSettings settings = tiny;
    settings.count_anew_after = 2;
    settings.segment_age = std::chrono::minutes(1);
    JournalMachine machine(seed, settings);
    begin_with(machine.platter, beyond_places - 10);
    JournalModel model;
    JournalWorkload workload(seed);
    workload.ttl = std::chrono::minutes(20);
    for (int start = 0; start < 4; ++start) {
      ASSERT_TRUE(machine.start()) << machine.refusal;
      model.lapse();
      for (int i = 0; i < 120; ++i) {
        workload.step(machine, model);
        machine.clock.advance(std::chrono::seconds(20));
        machine.store().maintain();
        ASSERT_FALSE(HasFailure());
      }
      EXPECT_GT(machine.store().stats().segments_dropped, 3U);
      machine.kill();
    }
  }
}

TEST(JournalNumberTest, a_lease_from_before_the_start_is_still_known_when_the_index_counts_anew) {
  JournalSettings settings = tiny;
  settings.count_anew_after = 2;
  JournalMachine machine(1, settings);
  ASSERT_TRUE(machine.start());
  for (std::uint64_t key = 0; key < 20; ++key) record(machine, key);
  Op outside = claim_op(500, 1);
  outside.terms.owner = Owner::outside;
  outside.terms.lease = std::chrono::seconds(60);
  ASSERT_EQ(machine.run(outside).verdict, Verdict::execute);
  machine.kill();
  machine.clock.advance(std::chrono::minutes(10));
  ASSERT_TRUE(machine.start());
  for (std::uint64_t key = 0; key < 20; ++key) {
    ASSERT_EQ(machine
                  .run({.verb = Verb::forget,
                        .id = numbered<OperationId>(key),
                        .nonce = numbered<Nonce>(key),
                        .seen_state = State::succeeded})
                  .status,
              OpStatus::done);
  }
  for (int i = 0; i < 5; ++i) machine.store().maintain();
  EXPECT_GT(machine.store().stats().segments_dropped, 1U);
  // It goes on for a moment after a restart; what this process has written does not.
  EXPECT_EQ(machine.run(claim_op(500, 2)).verdict, Verdict::in_flight);
  Op own = claim_op(501, 1);
  own.terms.owner = Owner::outside;
  own.terms.lease = Duration(1);
  ASSERT_EQ(machine.run(own).verdict, Verdict::execute);
  machine.clock.advance(Duration(2));
  EXPECT_NE(machine.run(claim_op(501, 2)).verdict, Verdict::in_flight);
}

}  // namespace journal_number_test
}  // namespace once::store
