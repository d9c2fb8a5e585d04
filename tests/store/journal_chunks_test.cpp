// Chunks of streaming responses in the journal: what a crash or damage leaves of them, where they are carried, and what
// they may take. The contract and the drawn workloads of the other tests append and read as well.
#include "tests/unit/support/journal_chunks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/journal/format.hpp"
#include "store/journal/repair.hpp"

namespace once::store {
namespace journal_chunks_test {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::HasSubstr;

TEST_F(JournalChunks, a_write_torn_at_any_byte_leaves_the_chunks_before_it_or_the_whole_body) {
  begin({.segment_bytes = 64 << 10, .cache_bytes = 0});
  stream(1, 3);
  stream(2, 0);
  const std::string name = segments().back();
  const std::string old = machine_->platter.content(name);
  std::vector<Op> batch = {append_op(1, 1, 3), claim_op(3, 3), append_op(2, 2, 0), claim_op(4, 4)};
  machine_->run(batch);
  append(1, 4);
  append(1, 5);
  keep(1);
  const std::string whole = machine_->platter.content(name);
  const auto begin = static_cast<std::size_t>(std::ranges::mismatch(old, whole).in1 - old.begin());
  const std::size_t end = whole.find_last_not_of('\0') + 1;
  ASSERT_GT(end, begin + 5 * 72 + 2 * 120);
  std::size_t seen = 3;
  bool kept = false;
  for (std::size_t cut = begin; cut <= end + 8; ++cut) {
    SCOPED_TRACE("cut at " + std::to_string(cut));
    machine_ = std::make_unique<JournalMachine>(cut, tiny_segments);
    machine_->platter.put(name, whole.substr(0, cut) + std::string(whole.size() - cut, '\0'));
    ASSERT_TRUE(machine_->start()) << machine_->refusal;
    const Op op = run(read_op(1));
    const std::size_t found = chunks_in(op);
    ASSERT_GE(found, seen);
    const std::vector<bool> of_the_batch = {found > 3, run(lookup_op(3)).record.has_value(),
                                            chunks_in(run(read_op(2))) == 1, run(lookup_op(4)).record.has_value()};
    ASSERT_TRUE(std::ranges::is_sorted(of_the_batch, std::greater())) << "a batch is read in its order";
    ASSERT_TRUE(of_the_batch.back() || found < 5) << "what is behind the batch is there, and not all of it";
    seen = found;
    const bool is_kept = op.record->state == State::succeeded;
    ASSERT_TRUE(is_kept || !kept);
    kept = is_kept;
    // What was doubtful is certain now.
    restart();
    kept ? expect_kept(1, 6) : expect_chunks(1, found);
  }
  EXPECT_EQ(seen, 6U);
  EXPECT_TRUE(kept);
}

TEST_F(JournalChunks, a_restart_keeps_those_of_open_records_only) {
  begin();
  stream(1, 5);
  stream(2, 5);
  finish(2, State::unknown);
  stream(3, 5);
  finish(3, State::succeeded);
  stream(4, 5);
  ASSERT_EQ(run(owner_op(Verb::release, 4, 4)).status, OpStatus::done);
  stream(5, 5);
  finish(5, State::unknown);
  Op takeover = claim_op(5, 55);
  takeover.terms.on_unknown = OnUnknown::retry;
  ASSERT_EQ(run(takeover).verdict, Verdict::execute);
  for (int i = 0; i < 3; ++i) {
    expect_chunks(1, 5);
    expect_chunks(2, 5);
    for (const std::uint64_t key : {3U, 4U, 5U}) expect_chunks(key, 0);
    restart();
  }
  Op last = append_op(5, 55, 0);
  EXPECT_EQ(run(last).status, OpStatus::done);
  expect_chunks(5, 1);
}

// A claim that was released may be made again with the nonce it had.
TEST_F(JournalChunks, those_of_a_released_claim_are_not_of_the_next_with_its_nonce) {
  begin();
  stream(1, 4);
  ASSERT_EQ(run(owner_op(Verb::release, 1, 1)).status, OpStatus::done);
  stream(1, 1);
  expect_chunks(1, 1);
  restart();
  expect_chunks(1, 1);
}

// The release of a second attempt leaves the first one as it was, with the fence of the second.
TEST_F(JournalChunks, those_of_a_released_second_attempt_are_gone) {
  begin();
  stream(1, 2);
  finish(1, State::unknown);
  Op second = claim_op(1, 11);
  second.terms.on_unknown = OnUnknown::retry;
  ASSERT_EQ(run(second).verdict, Verdict::execute);
  ASSERT_EQ(run(append_op(1, 11, 0)).status, OpStatus::done);
  ASSERT_EQ(run(owner_op(Verb::release, 1, 11)).status, OpStatus::done);
  for (int i = 0; i < 2; ++i) {
    const Op op = run(read_op(1));
    ASSERT_TRUE(op.record.has_value());
    EXPECT_EQ(op.record->state, State::unknown);
    EXPECT_TRUE(op.chunks.empty());
    restart();
  }
}

TEST_F(JournalChunks, a_damaged_one_is_found_at_the_start_and_a_repair_keeps_those_before_it_or_no_body) {
  for (const bool kept : {false, true}) {
    SCOPED_TRACE(kept ? "kept" : "open");
    begin();
    stream(1, 60);
    stream(2, 3);
    if (kept) keep(1);
    if (kept) keep(2);
    ASSERT_GE(segments().size(), 2U);
    machine_->close();
    const std::uint32_t lost = long_chunk(1, kept ? 40 : 10);
    damage(bytes_of(1, lost));
    EXPECT_FALSE(machine_->start());
    EXPECT_THAT(machine_->refusal, HasSubstr(damaged_in_));
    SimulatedDisk disk(machine_->platter);
    SeededRandom random(1);
    const auto report = journal::repair(disk, machine_->clock, random, [](const journal::SegmentReport&) {});
    ASSERT_TRUE(report.has_value());
    EXPECT_EQ(report->damage.size(), 1U);
    EXPECT_EQ(report->records, kept ? 4U : 2U) << "chunks are not records";
    machine_->kill();
    ASSERT_TRUE(machine_->start()) << machine_->refusal;
    if (kept) {
      expect_not_kept(1);
      expect_kept(2, 3);
      continue;
    }
    expect_chunks(1, lost);
    expect_chunks(2, 3);
    // The owner goes on after the gap: nothing may be appended there.
    const Op after_gap = run(append_op(1, 1, 60));
    EXPECT_EQ(after_gap.status, OpStatus::failed);
    EXPECT_EQ(after_gap.fault, StoreFault::no_chunks);
  }
}

TEST_F(JournalChunks, one_that_is_damaged_while_it_runs_fails_its_own_reads_only) {
  for (const bool kept : {false, true}) {
    SCOPED_TRACE(kept ? "kept" : "open");
    begin();
    stream(1, 20);
    stream(2, 20);
    if (kept) keep(1);
    const std::uint32_t lost = long_chunk(1, 5);
    damage(bytes_of(1, lost));
    std::vector<Op> ops = {read_op(1), read_op(2), claim_op(3, 3), claim_op(1, 77)};
    machine_->run(ops);
    EXPECT_EQ(ops[0].status, OpStatus::failed);
    EXPECT_EQ(ops[0].fault, StoreFault::refused);
    EXPECT_THAT(ops[0].error, HasSubstr(damaged_in_));
    EXPECT_TRUE(ops[0].chunks.empty() && !ops[0].record);
    EXPECT_EQ(chunks_in(ops[1]), 20U);
    EXPECT_EQ(ops[2].verdict, Verdict::execute);
    EXPECT_EQ(ops[3].verdict, kept ? Verdict::replay : Verdict::in_flight);
    EXPECT_EQ(chunks_in(run(read_op(1, lost + 1))), 19 - lost);
    EXPECT_EQ(stats().condition, JournalStats::Condition::well);
  }
}

TEST_F(JournalChunks, open_streams_and_kept_bodies_survive_the_cleaning_of_their_segments) {
  begin();
  stream(1, 10);
  stream(2, 10);
  finish(2, State::unknown);
  stream(3, 10);
  stream(4, 10);
  fill(8000);
  for (std::uint32_t i = 10; i < 20; ++i) append(4, i);
  fill(8000);
  keep(4);
  const std::string first = segments().front();
  std::uint32_t next = 10;
  for (int round = 0; round < 20; ++round) {
    fill(8000);
    append(1, next++);
    maintain(5);
    if (round == 10) restart();
  }
  EXPECT_FALSE(machine_->platter.holds(first));
  EXPECT_GT(stats().carried, 50U);
  const auto expect_all = [&] {
    expect_chunks(1, next);
    expect_chunks(2, 10);
    expect_chunks(3, 10);
    expect_kept(4, 20);
  };
  expect_all();
  EXPECT_EQ(chunks_in(run(read_op(1, 7))), next - 7);
  EXPECT_EQ(chunks_in(run(read_op(4, 13))), 7U);
  restart();
  expect_all();
  fill(40'000);
  maintain();
  expect_all();
}

TEST_F(JournalChunks, those_of_a_stream_that_ended_or_was_forgotten_hold_no_segment) {
  begin();
  for (std::uint64_t key = 1; key <= 15; ++key) stream(key, 40);
  EXPECT_GT(stats().segments, 5U);
  const std::uint64_t index = stats().index_bytes;
  for (std::uint64_t key = 1; key <= 10; ++key) finish(key, key % 2 == 0 ? State::succeeded : State::failed);
  for (std::uint64_t key = 11; key <= 15; ++key) {
    keep(key);
    Op forget = owner_op(Verb::forget, key, key);
    forget.seen_state = State::succeeded;
    ASSERT_EQ(run(forget).status, OpStatus::done);
    expect_chunks(key, 0);
  }
  EXPECT_LT(stats().index_bytes, index);
  maintain();
  // One of the claims is in nearly every segment; what they leave is carried.
  fill(8000);
  maintain();
  EXPECT_LE(stats().segments, 4U);
  EXPECT_LE(stats().carried, 20U) << "chunks were carried too";
}

TEST_F(JournalChunks, those_of_a_record_that_is_remembered_go_when_it_expires) {
  for (const bool kept : {false, true}) {
    SCOPED_TRACE(kept ? "kept" : "unknown");
    begin({.segment_bytes = 4096, .cache_bytes = kept ? std::size_t{1} << 20U : 0});
    Op claim = claim_op(1, 1, minutes(1));
    claim.terms.tombstone = hours(24 * 7);
    ASSERT_EQ(run(claim).verdict, Verdict::execute);
    for (std::uint32_t i = 0; i < 200; ++i) append(1, i);
    kept ? keep(1, minutes(1)) : finish(1, State::unknown, minutes(1));
    const std::uint64_t index = stats().index_bytes;
    const Time ended_at = machine_->clock.now();
    machine_->clock.advance(minutes(2));
    maintain();
    EXPECT_LE(stats().index_bytes, index - 200 * 8);
    const Op late = run(read_op(1));
    ASSERT_TRUE(late.record.has_value());
    EXPECT_EQ(late.record->state, State::tombstone);
    EXPECT_TRUE(late.chunks.empty());
    // A clock that is set back does not bring back an empty body.
    const Duration passed = machine_->clock.now() - ended_at;
    machine_->clock.advance(-passed);
    if (kept) expect_not_kept(1);
    machine_->clock.advance(passed);
    fill(8000);
    maintain();
    EXPECT_LE(stats().segments, 4U);
    restart();
    expect_chunks(1, 0);
    EXPECT_EQ(run(lookup_op(1)).record->state, State::tombstone);
  }
}

// A stream that goes on for longer than its record lives: what it appended is not copied again and again meanwhile.
TEST_F(JournalChunks, those_of_a_long_stream_are_not_carried_again_and_again) {
  begin();
  ASSERT_EQ(run(claim_op(1, 1, minutes(1))).verdict, Verdict::execute);
  for (std::uint32_t i = 0; i < 300; ++i) append(1, i);
  machine_->clock.advance(minutes(2));
  maintain(200);
  EXPECT_LE(stats().carried, 301U);
  expect_chunks(1, 300);
}

TEST_F(JournalChunks, a_full_disk_refuses_more_and_keeps_room_for_the_outcome_without_its_body) {
  begin({.segment_bytes = 16 << 10, .max_disk = 128 << 10, .cache_bytes = 0});
  for (std::uint64_t key = 1; key <= 5; ++key) ASSERT_EQ(run(claim_op(key, key)).verdict, Verdict::execute);
  std::uint32_t appended = 0;
  const auto large = [](std::uint32_t number) {
    Op op = append_op(1, 1, number);
    op.outcome = outcome_of(2000, number);
    return op;
  };
  Op refused = run(large(0));
  for (; refused.status == OpStatus::done && appended < 1000; refused = run(large(++appended))) store().maintain();
  ASSERT_EQ(refused.status, OpStatus::failed);
  EXPECT_EQ(refused.fault, StoreFault::full);
  EXPECT_GT(appended, 20U);
  EXPECT_LT(appended, 64U);
  EXPECT_EQ(run(read_op(1)).chunks.size(), appended);
  for (std::uint64_t key = 2; key <= 5; ++key) {
    EXPECT_EQ(run(finish_op(key, key, outcome_of(100, key))).status, OpStatus::done);
  }
  Op end = keep_op(1);
  end.outcome = outcome_of(200'000);
  end = run(end);
  ASSERT_EQ(end.status, OpStatus::done);
  EXPECT_EQ(end.record->body_kept, BodyKept::no);
  expect_not_kept(1);
  // The end of the stream gives back what it took.
  maintain();
  stream(6, 100);
  keep(6);
  expect_kept(6, 100);
}

TEST_F(JournalChunks, the_memory_for_their_places_is_limited) {
  JournalSettings settings{.segment_bytes = 1 << 20, .cache_bytes = 0};
  begin(settings);
  settings.max_memory = stats().index_bytes + 3000;
  begin(settings);
  ASSERT_EQ(run(claim_op(1, 1)).verdict, Verdict::execute);
  std::uint32_t appended = 0;
  Op refused = run(append_op(1, 1, 0));
  while (refused.status == OpStatus::done && appended < 1000) refused = run(append_op(1, 1, ++appended));
  EXPECT_EQ(refused.fault, StoreFault::full);
  EXPECT_THAT(refused.error, HasSubstr("max_memory"));
  EXPECT_GT(appended, 100U);
  EXPECT_LT(appended, 400U);
  EXPECT_LE(stats().index_bytes, settings.max_memory);
  expect_chunks(1, appended);
  finish(1, State::succeeded);
  stream(2, 100);
}

TEST_F(JournalChunks, after_a_sync_that_failed_nothing_is_told_until_a_restart) {
  begin();
  stream(1, 3);
  machine_->platter.fail(DiskCall::sync, 1, DiskFault::failed);
  const Op in_doubt = run(append_op(1, 1, 3));
  EXPECT_EQ(in_doubt.status, OpStatus::failed);
  EXPECT_EQ(in_doubt.fault, StoreFault::unavailable);
  for (const Op& op : {append_op(1, 1, 3), append_op(1, 1, 0), read_op(1)}) {
    Op answered = op;
    EXPECT_FALSE(store().answer_at_once(answered));
    answered = run(op);
    EXPECT_EQ(answered.status, OpStatus::failed);
    EXPECT_EQ(answered.fault, StoreFault::refused);
    EXPECT_TRUE(answered.chunks.empty());
  }
  machine_->kill();
  ASSERT_TRUE(machine_->start());
  const std::size_t found = chunks_in(run(read_op(1)));
  EXPECT_GE(found, 3U);
  EXPECT_LE(found, 4U);
  restart();
  expect_chunks(1, found);
}

TEST_F(JournalChunks, a_batch_of_appends_takes_one_sync) {
  begin({.segment_bytes = 1 << 20});
  std::vector<Op> ops;
  for (std::uint64_t key = 1; key <= 50; ++key) {
    stream(key, 1);
    ops.push_back(append_op(key, key, 1));
  }
  const std::uint64_t syncs = machine_->platter.calls(DiskCall::sync);
  const std::uint64_t writes = machine_->platter.calls(DiskCall::write);
  machine_->run(ops);
  EXPECT_EQ(machine_->platter.calls(DiskCall::sync), syncs + 1);
  EXPECT_EQ(machine_->platter.calls(DiskCall::write), writes + 1);
  for (const Op& op : ops) EXPECT_EQ(op.status, OpStatus::done);
}

// A read that finds no new chunk needs neither the disk nor a thread that waits for it.
TEST_F(JournalChunks, a_read_without_chunks_is_answered_at_once) {
  begin({.segment_bytes = 1 << 20});
  stream(1, 2);
  Op read = read_op(1, 2);
  read.chunks.push_back(outcome_of(1));
  EXPECT_TRUE(store().answer_at_once(read));
  EXPECT_TRUE(read.record.has_value() && read.chunks.empty());
  read = read_op(1, 1);
  EXPECT_FALSE(store().answer_at_once(read));
  const OperationId id = numbered<OperationId>(1);
  EXPECT_EQ(store().part_of(id), 0U) << "its owner appends";
  finish(1, State::unknown);
  EXPECT_NE(store().part_of(id), 0U) << "it is only read";
  finish(1, State::succeeded);
  EXPECT_EQ(store().part_of(id), 0U);
}

TEST_F(JournalChunks, an_owner_outside_appends_after_a_restart) {
  begin();
  Op claim = claim_op(1, 1);
  claim.terms.owner = Owner::outside;
  claim.terms.lease = minutes(5);
  ASSERT_EQ(run(claim).verdict, Verdict::execute);
  for (std::uint32_t i = 0; i < 4; ++i) append(1, i);
  restart();
  append(1, 3);
  append(1, 4);
  Op renew = owner_op(Verb::renew, 1, 1);
  renew.terms = {.lease = minutes(5), .owner = Owner::outside};
  ASSERT_EQ(run(renew).status, OpStatus::done);
  append(1, 5);
  expect_chunks(1, 6);
  fill(40'000);
  maintain();
  expect_chunks(1, 6);
  restart();
  expect_chunks(1, 6);
}

}  // namespace journal_chunks_test
}  // namespace once::store
