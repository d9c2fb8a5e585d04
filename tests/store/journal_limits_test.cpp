// The journal over a long time and at its limits: what has expired is given back, what lives longer pins nothing, and
// what is full has room again.
#include <gtest/gtest.h>

#include "tests/unit/support/journal_machine.hpp"

namespace once::store {
namespace journal_limits_test {

using Condition = JournalStats::Condition;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr std::uint64_t segment_bytes = 16 << 10;

class JournalLimits : public testing::Test {
 protected:
  void begin(const JournalSettings& settings) {
    machine_ = std::make_unique<JournalMachine>(1, settings);
    ASSERT_TRUE(machine_->start());
  }
  JournalStore& store() { return machine_->store(); }
  JournalStats stats() { return machine_->store().stats(); }

  // Claims a key and finishes it.
  Op record(std::uint64_t key, Duration ttl, std::size_t size = 100) {
    Op claim = machine_->run(claim_op(key, key, ttl));
    if (claim.status != OpStatus::done) return claim;
    EXPECT_EQ(claim.verdict, Verdict::execute);
    Op finish = machine_->run(finish_op(key, key, outcome_of(size, key), ttl));
    EXPECT_EQ(finish.status, OpStatus::done) << finish.error;
    return finish;
  }
  void expect_replayed(std::uint64_t key, std::size_t size = 100) {
    const Op op = machine_->run(claim_op(key, key + 1'000'000));
    ASSERT_EQ(op.verdict, Verdict::replay) << key << ' ' << op.error;
    ASSERT_EQ(*op.record->outcome, *outcome_of(size, key)) << key;
  }
  // Finished keys that are remembered for a day after their minute.
  void remember(std::uint64_t keys) {
    for (std::uint64_t key = 0; key < keys; ++key) {
      Op claim = claim_op(key, 1, minutes(1));
      claim.terms.tombstone = hours(24);
      ASSERT_EQ(machine_->run(claim).verdict, Verdict::execute);
      ASSERT_EQ(machine_->run(finish_op(key, 1, outcome_of(2000), minutes(1))).status, OpStatus::done);
    }
  }
  void restart() {
    machine_->lose_power();
    ASSERT_TRUE(machine_->start()) << machine_->refusal;
  }
  void tick(Duration by = seconds(1)) {
    machine_->clock.advance(by);
    store().maintain();
  }
  // The numbers are of real files.
  void expect_honest() {
    ASSERT_LE(machine_->platter.bytes(), stats().disk_bytes);
    ASSERT_GE(machine_->platter.bytes() + (stats().segments + 2) * 64, stats().disk_bytes);
  }

  std::unique_ptr<JournalMachine> machine_;
};

TEST_F(JournalLimits, segments_whose_records_have_all_expired_are_dropped_whole) {
  begin({.segment_bytes = segment_bytes});
  const std::uint64_t index = stats().index_bytes;
  for (std::uint64_t key = 0; key < 1500; ++key) record(key, minutes(1));
  EXPECT_GT(stats().segments, 20U);
  EXPECT_GT(stats().index_bytes, 2 * index);
  tick(minutes(2));
  for (int i = 0; i < 5; ++i) tick();
  EXPECT_EQ(stats().keys, 0U);
  EXPECT_EQ(stats().expired, 1500U);
  EXPECT_EQ(stats().segments, 1U);
  EXPECT_EQ(stats().carried, 0U);
  EXPECT_LE(stats().disk_bytes, 2 * segment_bytes);
  EXPECT_EQ(stats().index_bytes, index);
  EXPECT_EQ(stats().cache_bytes, 0U);
  expect_honest();
}

TEST_F(JournalLimits, a_few_keys_that_live_for_days_pin_nothing) {
  begin({.segment_bytes = segment_bytes, .cache_bytes = 0});
  std::uint64_t key = 0;
  std::vector<std::uint64_t> lasting;
  for (int round = 0; round < 150; ++round) {
    for (int i = 0; i < 10; ++i) record(++key, minutes(1));
    record(++key, hours(24 * 7));
    lasting.push_back(key);
    tick(seconds(10));
    // About twice what counts, and a few segments.
    const std::uint64_t live = lasting.size() * 240 + 70 * 240;
    ASSERT_LE(stats().disk_bytes, 3 * live + 6 * segment_bytes) << round;
    if (round % 10 == 0) expect_honest();
  }
  EXPECT_GT(stats().carried, 0U);
  EXPECT_LT(stats().carried, 10 * lasting.size()) << "each was copied again and again";
  for (const std::uint64_t each : lasting) expect_replayed(each);
  restart();
  for (const std::uint64_t each : lasting) expect_replayed(each);
}

TEST_F(JournalLimits, what_was_carried_is_not_carried_again_because_its_new_neighbours_expired) {
  begin({.segment_bytes = segment_bytes, .cache_bytes = 0});
  constexpr std::uint64_t lasting = 100;
  std::uint64_t key = 0;
  for (; key < lasting; ++key) record(key, hours(24 * 7), 1000);
  // Enough that expires at once for all of the above to be carried, and then hardly anything.
  for (int i = 0; i < 2000; ++i) record(++key, seconds(1));
  for (int i = 0; i < 20; ++i) tick(minutes(1));
  const std::uint64_t carried = stats().carried;
  EXPECT_GT(carried, 0U);
  for (int i = 0; i < 300; ++i) {
    record(++key, seconds(1));
    tick(minutes(1));
  }
  EXPECT_LE(stats().carried, carried + 2 * lasting) << "each was copied again and again";
  for (std::uint64_t each = 0; each < lasting; ++each) expect_replayed(each, 1000);
}

TEST_F(JournalLimits, what_is_remembered_gives_back_the_disk_of_its_outcome) {
  begin({.segment_bytes = segment_bytes, .cache_bytes = 0});
  constexpr std::uint64_t keys = 400;
  remember(keys);
  EXPECT_GT(stats().disk_bytes, keys * 2000);
  // Also when the journal was opened again in between.
  restart();
  const auto expect_gone = [&] {
    for (std::uint64_t key = 0; key < keys; ++key) {
      const Op late = machine_->run(claim_op(key, 2));
      ASSERT_EQ(late.verdict, Verdict::gone) << key;
      ASSERT_EQ(late.record->outcome, nullptr);
    }
  };
  tick(minutes(2));
  expect_gone();
  for (int i = 0; i < 100; ++i) tick();
  EXPECT_EQ(stats().keys, keys);
  EXPECT_LT(stats().disk_bytes, keys * 400 + 6 * segment_bytes);
  EXPECT_LE(stats().carried, 2 * keys) << "each was copied again and again";
  expect_gone();
  restart();
  expect_gone();
  tick(hours(24));
  for (int i = 0; i < 5; ++i) tick();
  EXPECT_EQ(stats().keys, 0U);
  EXPECT_LE(stats().disk_bytes, 2 * segment_bytes);
  EXPECT_EQ(machine_->run(claim_op(7, 3)).verdict, Verdict::execute);
}

TEST_F(JournalLimits, a_clock_set_back_shows_clients_and_operators_the_same_record) {
  begin({.segment_bytes = segment_bytes, .cache_bytes = 4 << 20});
  constexpr std::uint64_t keys = 400;
  remember(keys);
  tick(minutes(2));
  for (int i = 0; i < 100; ++i) tick();
  ASSERT_GT(stats().carried, 0U);
  machine_->clock.advance(-minutes(4));
  std::uint64_t tombstones = 0;
  for (std::uint64_t key = 0; key < keys; ++key) {
    const auto page = store().search()->get(numbered<OperationId>(key));
    ASSERT_TRUE(page && page->keys.size() == 1);
    const State shown = page->keys.front().state;
    ASSERT_TRUE(shown == State::tombstone || shown == State::succeeded);
    if (shown == State::tombstone) ++tombstones;
    ASSERT_EQ(machine_->run(claim_op(key, 2)).verdict, shown == State::tombstone ? Verdict::gone : Verdict::replay);
    Op forget = owner_op(Verb::forget, key, 1);
    forget.seen_state = shown;
    ASSERT_EQ(machine_->run(forget).status, OpStatus::done) << key;
  }
  EXPECT_GT(tombstones, 0U);
}

TEST_F(JournalLimits, what_is_not_remembered_is_never_told_as_expired) {
  begin({.segment_bytes = segment_bytes, .cache_bytes = 0});
  constexpr std::uint64_t keys = 400;
  const Duration ttl = std::chrono::milliseconds(60'500);
  for (std::uint64_t key = 0; key < keys; ++key) record(key, ttl, 2000);
  // Cleaned within the second in which they expire, and then the clock is set back.
  tick(ttl);
  for (int i = 0; i < 20; ++i) store().maintain();
  machine_->clock.advance(-minutes(1));
  for (std::uint64_t key = 0; key < keys; ++key) {
    const Verdict verdict = machine_->run(claim_op(key, 2)).verdict;
    ASSERT_TRUE(verdict == Verdict::replay || verdict == Verdict::execute) << key;
  }
}

TEST_F(JournalLimits, nothing_grows_in_thousands_of_rounds) {
  begin({.segment_bytes = segment_bytes, .segment_age = minutes(10), .cache_bytes = 32 << 10});
  JournalStats most;
  for (std::uint64_t round = 0; round < 3000; ++round) {
    record(round, seconds(40), 50 + round % 200);
    if (round % 5 == 0) machine_->run(claim_op(10'000 + round, 1, seconds(20)));
    if (round % 5 == 1) machine_->run(finish_op(10'000 + round - 1, 1, nullptr, seconds(20)));
    tick();
    const JournalStats now = stats();
    if (round == 500) most = now;
    if (round < 500) {
      most.disk_bytes = std::max(most.disk_bytes, now.disk_bytes);
      continue;
    }
    ASSERT_LE(now.disk_bytes, most.disk_bytes + 2 * segment_bytes) << round;
    ASSERT_LE(now.index_bytes, most.index_bytes * 3 / 2) << round;
    ASSERT_LE(now.keys, most.keys + 20) << round;
    ASSERT_LE(now.cache_bytes, 64U << 10U) << round;
    ASSERT_LE(now.live_claims, 1U);
    ASSERT_EQ(now.condition, Condition::well);
  }
  EXPECT_EQ(stats().bodies_dropped, 0U);
  EXPECT_EQ(stats().refused, 0U);
  expect_honest();
  tick(hours(1));
  for (int i = 0; i < 200; ++i) tick();
  EXPECT_EQ(stats().keys, 0U);
  EXPECT_EQ(stats().segments, 1U);
}

TEST_F(JournalLimits, a_quiet_journal_leaves_the_disk_alone) {
  begin({.segment_bytes = segment_bytes});
  record(1, hours(24));
  for (int i = 0; i < 5; ++i) tick(hours(2));
  const std::uint64_t calls = machine_->platter.all_calls();
  for (int i = 0; i < 100; ++i) tick(minutes(1));
  EXPECT_EQ(machine_->platter.all_calls(), calls);
  expect_replayed(1);
}

TEST_F(JournalLimits, max_disk_is_never_passed_and_room_comes_back_with_time) {
  constexpr std::uint64_t max_disk = 12 * segment_bytes;
  begin({.segment_bytes = segment_bytes, .max_disk = max_disk, .cache_bytes = 0});
  std::uint64_t key = 0;
  for (int rounds = 0; rounds < 3; ++rounds) {
    Op last;
    while ((last = record(++key, minutes(5), 300)).status == OpStatus::done) {
      ASSERT_LE(machine_->platter.bytes(), max_disk);
      if (key % 10 == 0) tick(Duration(10));
    }
    EXPECT_EQ(last.fault, StoreFault::full);
    EXPECT_EQ(stats().condition, Condition::full);
    EXPECT_GT(machine_->platter.bytes(), max_disk / 2);
    EXPECT_GE(key, 300U);
    tick(minutes(6));
    for (int i = 0; i < 5; ++i) tick();
    EXPECT_EQ(stats().condition, Condition::well);
    expect_honest();
  }
}

// No segment is free of keys that live on, and all the disk is taken: only carrying forward helps, and it needs room.
TEST_F(JournalLimits, a_full_journal_with_lasting_keys_in_every_segment_can_be_cleaned) {
  constexpr std::uint64_t max_disk = 12 * segment_bytes;
  begin({.segment_bytes = segment_bytes, .max_disk = max_disk, .cache_bytes = 0});
  std::vector<std::uint64_t> lasting;
  std::uint64_t key = 0;
  for (;;) {
    const bool lasts = ++key % 10 == 0;
    if (record(key, lasts ? hours(24 * 7) : minutes(5), 300).status != OpStatus::done) break;
    if (lasts) lasting.push_back(key);
    ASSERT_LE(machine_->platter.bytes(), max_disk);
  }
  ASSERT_GT(lasting.size(), 20U);
  tick(minutes(6));
  for (int i = 0; i < 20; ++i) {
    tick();
    ASSERT_LE(machine_->platter.bytes(), max_disk);
  }
  EXPECT_EQ(stats().condition, Condition::well);
  EXPECT_LT(stats().disk_bytes, max_disk / 2);
  EXPECT_EQ(record(++key, minutes(5)).status, OpStatus::done);
  for (const std::uint64_t each : lasting) expect_replayed(each, 300);
}

// Whoever writes what is of no use at once must not fill the disk for everybody: while space is short, a call cleans
// several segments.
TEST_F(JournalLimits, what_was_replaced_gives_its_space_back_as_fast_as_it_is_written) {
  constexpr std::uint64_t max_disk = 40 * segment_bytes;
  begin({.segment_bytes = segment_bytes, .max_disk = max_disk, .cache_bytes = 0});
  for (std::uint64_t key = 0; key < 400; ++key) {
    ASSERT_EQ(record(2 * key, hours(24)).status, OpStatus::done) << key;  // one that lasts, in every segment
    const std::uint64_t stream = 2 * key + 1;
    ASSERT_EQ(machine_->run(claim_op(stream, stream, hours(24))).verdict, Verdict::execute) << key;
    for (std::uint32_t chunk = 0; chunk < 30; ++chunk) {
      Op append = append_op(stream, stream, chunk);
      append.outcome = outcome_of(1500);
      ASSERT_EQ(machine_->run(append).status, OpStatus::done) << key;
    }
    ASSERT_EQ(machine_->run(finish_op(stream, stream, outcome_of(10), hours(24))).status, OpStatus::done) << key;
    tick(std::chrono::milliseconds(100));
    ASSERT_LE(machine_->platter.bytes(), max_disk);
  }
  EXPECT_EQ(stats().refused, 0U);
}

TEST_F(JournalLimits, a_journal_that_is_full_of_what_counts_is_not_copied_over_and_over) {
  begin({.segment_bytes = segment_bytes, .max_disk = 12 * segment_bytes, .cache_bytes = 0});
  std::uint64_t key = 0;
  while (record(++key, hours(24), 1000).status == OpStatus::done) tick(Duration(10));
  for (int i = 0; i < 50; ++i) tick();
  const std::uint64_t carried = stats().carried;
  for (int i = 0; i < 300; ++i) tick();
  EXPECT_EQ(stats().carried, carried);
}

TEST_F(JournalLimits, large_records_that_count_are_not_copied_over_and_over) {
  begin({.segment_bytes = 4 << 20, .cache_bytes = 0});
  for (std::uint64_t key = 0; key < 8; ++key) {
    machine_->run(claim_op(key, key));
    machine_->run(finish_op(key, key, std::make_shared<const std::string>(std::size_t{3} << 20U, 'x')));
  }
  for (int i = 0; i < 20; ++i) tick();
  EXPECT_EQ(stats().carried, 0U);
}

TEST_F(JournalLimits, many_segments_are_fine_when_they_are_full_and_are_joined_when_they_are_not) {
  begin({.segment_bytes = 1024, .segment_age = minutes(1), .cache_bytes = 0});
  std::uint64_t key = 0;
  while (stats().segments < 530) record(++key, hours(24 * 7), 700);
  for (int i = 0; i < 20; ++i) tick();
  EXPECT_EQ(stats().carried, 0U);
  begin({.segment_bytes = segment_bytes, .segment_age = minutes(1), .cache_bytes = 0});
  for (key = 0; key < 700; ++key) {
    record(key, hours(24 * 7), 10);
    tick(minutes(1));
  }
  EXPECT_LE(stats().segments, 514U);
  for (std::uint64_t each = 0; each < key; ++each) expect_replayed(each, 10);
}

TEST_F(JournalLimits, max_memory_refuses_new_keys_only_and_room_comes_back_with_time) {
  begin({.max_memory = 160 << 10, .cache_bytes = 64 << 10});
  std::uint64_t key = 0;
  Op last;
  while ((last = record(++key, minutes(5), 10)).status == OpStatus::done) ASSERT_LT(key, 10'000U);
  EXPECT_EQ(last.fault, StoreFault::full);
  EXPECT_NE(last.error.find("max_memory"), std::string::npos);
  EXPECT_EQ(stats().condition, Condition::full);
  EXPECT_LE(stats().index_bytes, 96U << 10U);
  EXPECT_LE(stats().cache_bytes, 64U << 10U);
  EXPECT_GT(key, 1000U);
  for (std::uint64_t each = 1; each < key; each += 100) expect_replayed(each, 10);
  tick(minutes(6));
  for (int i = 0; i < 5; ++i) tick();
  EXPECT_EQ(stats().condition, Condition::well);
  EXPECT_EQ(record(++key, minutes(5)).status, OpStatus::done);
}

// Large ones between small ones, most of which expire: the large ones are carried, and room for outcomes stays.
TEST_F(JournalLimits, outcomes_larger_than_what_is_carried_at_once_are_carried_within_the_limit) {
  constexpr std::uint64_t max_disk = 44 * segment_bytes;
  begin({.segment_bytes = segment_bytes, .max_disk = max_disk, .cache_bytes = 0});
  std::uint64_t key = 1000;
  for (std::uint64_t large = 0; large < 5; ++large) {
    record(large, hours(24 * 7), 40'000);
    for (int i = 0; i < 200; ++i) record(++key, minutes(1));
  }
  for (int i = 0; i < 60; ++i) {
    tick(seconds(5));
    ASSERT_LE(machine_->platter.bytes(), max_disk);
  }
  EXPECT_GE(stats().carried, 3U);
  EXPECT_EQ(stats().keys, 5U);
  for (int i = 0; i < 2; ++i) {
    for (std::uint64_t large = 0; large < 5; ++large) expect_replayed(large, 40'000);
    restart();
  }
  EXPECT_EQ(stats().bodies_dropped, 0U);
}

TEST_F(JournalLimits, with_room_no_body_is_left_out_and_no_key_refused) {
  begin({.segment_bytes = 4096, .cache_bytes = 0});
  std::uint64_t key = 0;
  for (std::size_t size = 1; size <= 60; ++size) {
    std::vector<Op> claims;
    std::vector<Op> finishes;
    for (std::size_t i = 0; i < size; ++i) {
      ++key;
      claims.push_back(claim_op(key, key));
      finishes.push_back(finish_op(key, key, outcome_of(i * 7 % 90, key)));
    }
    machine_->run(claims);
    for (const Op& op : claims) ASSERT_EQ(op.status, OpStatus::done) << op.error;
    machine_->run(finishes);
    for (const Op& op : finishes) ASSERT_EQ(op.status, OpStatus::done) << op.error;
    if (size % 3 == 0) tick();
  }
  EXPECT_EQ(stats().bodies_dropped, 0U);
  EXPECT_EQ(stats().refused, 0U);
}

TEST_F(JournalLimits, a_crash_while_records_are_carried_forward_loses_none) {
  constexpr std::uint64_t lasting = 12;
  for (std::uint64_t stop = 1;; ++stop) {
    SCOPED_TRACE("stopped at call " + std::to_string(stop));
    machine_ = std::make_unique<JournalMachine>(stop, JournalSettings{.segment_bytes = 4096, .cache_bytes = 0});
    ASSERT_TRUE(machine_->start());
    std::uint64_t key = 1000;
    for (std::uint64_t each = 0; each < lasting; ++each) {
      record(each, hours(24 * 7), 300);
      for (int i = 0; i < 10; ++i) record(++key, seconds(5), 60);
    }
    machine_->clock.advance(minutes(1));
    machine_->platter.stop_at(stop);
    for (int i = 0; i < 4; ++i) store().maintain();
    const bool stopped = machine_->platter.stopped();
    EXPECT_GT(stopped ? 1U : stats().carried, 0U) << "nothing was carried";
    stop % 3 == 0 ? machine_->kill() : machine_->lose_power();
    ASSERT_TRUE(machine_->start()) << machine_->refusal;
    for (std::uint64_t each = 0; each < lasting; ++each) expect_replayed(each, 300);
    if (!stopped) break;
  }
}

// Its owner could not renew while the process was down, and gets a moment to say so, wherever the record is by then.
TEST_F(JournalLimits, a_claim_held_outside_keeps_its_moment_after_a_restart_when_it_is_carried) {
  begin({.segment_bytes = 4096, .cache_bytes = 0});
  Op held = claim_op(1, 1, hours(24));
  held.terms.lease = seconds(10);
  held.terms.owner = Owner::outside;
  ASSERT_EQ(machine_->run(held).verdict, Verdict::execute);
  for (std::uint64_t key = 100; key < 200; ++key) record(key, seconds(5));
  machine_->clock.advance(minutes(1));
  machine_->kill();
  ASSERT_TRUE(machine_->start()) << machine_->refusal;
  for (int i = 0; i < 5; ++i) tick(seconds(0));
  ASSERT_GT(stats().carried, 0U);
  EXPECT_EQ(machine_->run(claim_op(1, 2)).verdict, Verdict::in_flight) << "its owner may be at work";
  tick(journal::lease_after_restart);
  EXPECT_NE(machine_->run(claim_op(1, 2)).verdict, Verdict::in_flight) << "it had its moment";
}

// Without syncs, what was carried is nowhere for certain until its segment is synced, and the old one has it.
TEST_F(JournalLimits, what_is_dropped_without_syncs_is_certain_elsewhere) {
  constexpr std::uint64_t lasting = 10;  // as many as are in the first segment
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    machine_ = std::make_unique<JournalMachine>(
        seed, JournalSettings{.sync = Sync::never, .segment_bytes = 4096, .cache_bytes = 0});
    ASSERT_TRUE(machine_->start());
    std::uint64_t key = 1000;
    for (std::uint64_t each = 0; each < lasting; ++each) record(each, hours(24 * 7), 100);
    for (int i = 0; i < 60; ++i) record(++key, seconds(5), 60);
    machine_->clock.advance(minutes(1));
    store().maintain();
    EXPECT_GE(stats().carried, lasting);
    EXPECT_GT(stats().segments_dropped, 0U);
    restart();
    for (std::uint64_t each = 0; each < lasting; ++each) expect_replayed(each, 100);
  }
}

TEST_F(JournalLimits, a_segment_ends_when_it_is_old_so_that_it_can_expire) {
  begin({.segment_age = hours(1)});
  record(1, minutes(90));
  tick(minutes(59));
  EXPECT_EQ(stats().segments, 1U);
  tick(minutes(1));
  EXPECT_EQ(stats().segments, 2U);
  record(2, hours(24));
  tick(hours(1));
  tick();
  EXPECT_EQ(stats().segments_dropped, 1U);
  expect_replayed(2);
}

// Cleaning copies what is needed, and of what has expired only a tombstone. A claim whose lease runs has not expired.
TEST_F(JournalLimits, a_claim_that_is_at_work_is_carried_as_it_is_when_its_time_has_passed) {
  for (const Owner owner : {Owner::process, Owner::outside}) {
    for (const Duration tombstone : {Duration::zero(), Duration(hours(1))}) {
      begin({.segment_bytes = 4096, .cache_bytes = 0});
      Op held = claim_op(1, 1, seconds(5));
      held.terms.lease = hours(1);
      held.terms.owner = owner;
      held.terms.tombstone = tombstone;
      ASSERT_EQ(machine_->run(held).verdict, Verdict::execute);
      for (std::uint64_t key = 100; key < 200; ++key) record(key, seconds(5));
      machine_->clock.advance(minutes(1));
      for (int i = 0; i < 5; ++i) tick(seconds(0));
      ASSERT_GT(stats().carried, 0U);
      // A claim of the process runs for as long as the process.
      for (int i = 0; i < 50 && owner == Owner::process; ++i) tick(hours(1));
      EXPECT_EQ(stats().keys, 1U);
      EXPECT_EQ(machine_->run(claim_op(1, 2)).verdict, Verdict::in_flight);
      const Op found = machine_->run(lookup_op(1));
      ASSERT_TRUE(found.record.has_value());
      EXPECT_EQ(found.record->state, State::started);
      EXPECT_EQ(machine_->run(finish_op(1, 1, outcome_of(5))).status, OpStatus::done);
      EXPECT_EQ(machine_->run(claim_op(1, 3)).verdict, Verdict::replay);
    }
  }
}

TEST_F(JournalLimits, a_claim_that_was_taken_up_again_after_a_restart_is_not_swept) {
  begin({.segment_bytes = segment_bytes});
  ASSERT_EQ(machine_->run(claim_op(1, 1, minutes(1))).status, OpStatus::done);
  machine_->kill();
  ASSERT_TRUE(machine_->start());
  ASSERT_EQ(machine_->run(owner_op(Verb::renew, 1, 1)).status, OpStatus::done);
  for (int i = 0; i < 5; ++i) tick(hours(1));
  EXPECT_EQ(machine_->run(claim_op(1, 2)).verdict, Verdict::in_flight);
  EXPECT_EQ(machine_->run(finish_op(1, 1, outcome_of(5))).status, OpStatus::done);
  EXPECT_EQ(stats().live_claims, 0U);
}

TEST_F(JournalLimits, a_clock_that_is_set_back_loses_nothing_and_stops_nothing) {
  begin({.segment_bytes = segment_bytes, .segment_age = hours(1), .cache_bytes = 0});
  for (std::uint64_t key = 0; key < 100; ++key) record(key, hours(2));
  tick(-hours(24 * 365));
  for (std::uint64_t key = 0; key < 100; ++key) expect_replayed(key);
  for (std::uint64_t key = 200; key < 300; ++key) record(key, minutes(1));
  tick(minutes(2));
  tick();
  EXPECT_EQ(stats().keys, 100U) << "what was written since has expired by the clock as it is";
  machine_->kill();
  ASSERT_TRUE(machine_->start());
  for (std::uint64_t key = 0; key < 100; ++key) expect_replayed(key);
  record(400, hours(2));
  const std::uint64_t ended = stats().segments + stats().segments_dropped;
  tick(minutes(61));
  EXPECT_GT(stats().segments + stats().segments_dropped, ended) << "segments still end by their age";
}

TEST_F(JournalLimits, operators_do_not_take_the_room_that_is_kept_for_owners) {
  begin({.segment_bytes = segment_bytes, .max_disk = 2 * segment_bytes, .cache_bytes = 0});
  constexpr std::uint64_t others = 1000;
  for (std::uint64_t key = others; key < others + 20; ++key) {
    ASSERT_EQ(machine_->run(claim_op(key, key)).verdict, Verdict::execute);
    Op unknown = finish_op(key, key, nullptr);
    unknown.final_state = State::unknown;
    ASSERT_EQ(machine_->run(unknown).status, OpStatus::done);
  }
  std::uint64_t owners = 0;
  while (machine_->run(claim_op(owners, owners)).status == OpStatus::done) ++owners;
  ASSERT_GT(owners, 20U);
  std::uint64_t refused = 0;
  for (std::uint64_t key = others; key < others + 20; ++key) {
    Op resolve = finish_op(key, key, outcome_of(300));
    resolve.verb = Verb::resolve;
    Op learned = finish_op(key, key, outcome_of(300));
    Op forget = owner_op(Verb::forget, key, key);
    for (const Op& op : {machine_->run(resolve), machine_->run(learned), machine_->run(forget)}) {
      if (op.verb == Verb::resolve && op.status == OpStatus::done) EXPECT_EQ(op.record->body_kept, BodyKept::yes);
      if (op.status != OpStatus::failed) continue;
      EXPECT_EQ(op.fault, StoreFault::full) << op.error;
      ++refused;
    }
  }
  EXPECT_GT(refused, 30U);
  for (std::uint64_t key = 0; key < owners; ++key) {
    const Op op = machine_->run(finish_op(key, key, outcome_of(300)));
    ASSERT_EQ(op.status, OpStatus::done) << key << " of " << owners << ' ' << op.error;
  }
}

}  // namespace journal_limits_test
}  // namespace once::store
