// Responses whose body stays in its chunks, in the journal: they live as long as their record and no longer, whatever
// is carried, cut off, damaged or dropped around them. A body is told whole or not at all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/journal/format.hpp"
#include "store/journal/repair.hpp"
#include "tests/unit/support/journal_chunks.hpp"

namespace once::store {
namespace journal_kept_chunks_test {

using std::chrono::hours;
using std::chrono::minutes;
using testing::HasSubstr;

class JournalKeptChunks : public JournalChunks {
 protected:
  void stream_and_keep(std::uint64_t key, std::uint32_t chunks, Duration ttl = hours(24)) {
    stream(key, chunks);
    keep(key, ttl);
  }

  // A journal written by hand.
  class Segment {
   public:
    Segment(std::uint32_t number, std::uint64_t previous_end, Time now)
        : header_{.journal = {{7}},
                  .number = journal::SegmentNumber{number},
                  .previous_end = previous_end,
                  .created_at = now},
          bytes_(journal::encode(header_)),
          now_(now) {}

    Segment& put(std::uint64_t key, State state, BodyKept kept, std::uint32_t chunks = 0) {
      Record record;
      record.state = state;
      record.body_kept = kept;
      record.fence = Fence{key};
      record.fingerprint = {{1}};
      record.nonce = numbered<Nonce>(key);
      record.started_at = now_;
      record.expires_at = record.forget_at = now_ + hours(24);
      if (state == State::succeeded) record.outcome = outcome_of(10, key);
      journal::append_put(bytes_, header_.salt, numbered<OperationId>(key), record, {}, chunks);
      return *this;
    }
    Segment& chunk(std::uint64_t key, std::uint32_t number) {
      const Nonce nonce = numbered<Nonce>(key);
      journal::append_chunk(bytes_, header_.salt,
                            {.id = numbered<OperationId>(key), .nonce = nonce, .fence = Fence{key}, .number = number},
                            *chunk_of(nonce, number));
      return *this;
    }
    const std::string& done() {
      journal::append_mark(bytes_, header_.salt, bytes_.size(), now_);
      return bytes_;
    }

   private:
    journal::SegmentHeader header_;
    std::string bytes_;
    Time now_;
  };
  void begin_with(std::span<const std::string> files) {
    machine_ = std::make_unique<JournalMachine>(1, tiny_segments);
    for (std::uint32_t i = 0; i < files.size(); ++i) {
      machine_->platter.put(journal::segment_name(journal::SegmentNumber{i + 1}), files[i]);
    }
    ASSERT_TRUE(machine_->start()) << machine_->refusal;
  }
};

TEST_F(JournalKeptChunks, survive_restarts) {
  begin();
  stream_and_keep(1, 50);
  stream_and_keep(2, 1);
  stream_and_keep(3, 0);
  stream(4, 5);
  finish(4, State::succeeded);
  stream(5, 7);
  finish(5, State::unknown);
  keep(5);
  for (int i = 0; i < 3; ++i) {
    expect_kept(1, 50);
    expect_kept(2, 1);
    expect_kept(3, 0);
    expect_chunks(4, 0);
    expect_kept(5, 7);
    EXPECT_EQ(run(append_op(1, 1, 50)).status, OpStatus::lost);
    EXPECT_EQ(run(claim_op(1, 77)).verdict, Verdict::replay);
    restart();
  }
}

TEST_F(JournalKeptChunks, a_write_torn_at_any_byte_leaves_a_stream_or_its_whole_body) {
  begin({.segment_bytes = 64 << 10, .cache_bytes = 0});
  stream(1, 3);
  const std::string name = segments().back();
  const std::string old = machine_->platter.content(name);
  append(1, 3);
  keep(1);
  const std::string whole = machine_->platter.content(name);
  const auto begin = static_cast<std::size_t>(std::ranges::mismatch(old, whole).in1 - old.begin());
  const std::size_t end = whole.find_last_not_of('\0') + 1;
  bool kept = false;
  for (std::size_t cut = begin; cut <= end + 8; ++cut) {
    SCOPED_TRACE("cut at " + std::to_string(cut));
    machine_ = std::make_unique<JournalMachine>(cut, tiny_segments);
    machine_->platter.put(name, whole.substr(0, cut) + std::string(whole.size() - cut, '\0'));
    ASSERT_TRUE(machine_->start()) << machine_->refusal;
    const Op op = run(read_op(1));
    ASSERT_TRUE(op.record.has_value());
    const bool is_kept = op.record->state == State::succeeded;
    ASSERT_TRUE(is_kept || !kept);
    kept = is_kept;
    if (kept) {
      ASSERT_EQ(chunks_in(op), 4U);
      // What was doubtful is certain now.
      restart();
      expect_kept(1, 4);
    } else {
      ASSERT_GE(chunks_in(op), 3U);
    }
  }
  EXPECT_TRUE(kept);
}

TEST_F(JournalKeptChunks, are_carried_with_their_record) {
  begin();
  stream(1, 10);
  fill(8000);
  for (std::uint32_t i = 10; i < 20; ++i) append(1, i);
  fill(8000);
  keep(1);
  stream_and_keep(2, 30);
  const std::string first = segments().front();
  for (int round = 0; round < 20; ++round) {
    fill(8000);
    maintain(5);
    if (round == 10) restart();
  }
  EXPECT_FALSE(machine_->platter.holds(first));
  EXPECT_GT(stats().carried, 50U);
  expect_kept(1, 20);
  expect_kept(2, 30);
  EXPECT_EQ(chunks_in(run(read_op(1, 13))), 7U);
  restart();
  expect_kept(1, 20);
  expect_kept(2, 30);
}

// The cleaner copies the record and its chunks in the order of their segment, and not all of them at once.
TEST_F(JournalKeptChunks, are_found_on_either_side_of_their_record) {
  const Time now = ManualClock().now();
  std::vector<std::string> files;
  files.push_back(Segment(1, 0, now)
                      .put(1, State::started, BodyKept::yes)
                      .chunk(1, 0)
                      .chunk(2, 1)
                      .put(3, State::succeeded, BodyKept::in_chunks, 1)
                      .done());
  files.push_back(Segment(2, files.back().size(), now)
                      .put(1, State::succeeded, BodyKept::in_chunks, 3)
                      .chunk(1, 1)
                      .chunk(2, 0)
                      .chunk(4, 0)
                      .put(4, State::succeeded, BodyKept::yes)
                      .done());
  files.push_back(Segment(3, files.back().size(), now)
                      .chunk(1, 2)
                      .chunk(1, 0)
                      .put(2, State::succeeded, BodyKept::in_chunks, 2)
                      .chunk(3, 0)
                      .done());
  begin_with(files);
  for (int i = 0; i < 2; ++i) {
    expect_kept(1, 3);
    expect_kept(2, 2);
    expect_kept(3, 1);
    expect_chunks(4, 0);
    restart();
  }
}

// An earlier version of the program carries the record and drops the segments of its chunks.
TEST_F(JournalKeptChunks, a_body_that_is_not_whole_is_not_kept) {
  const Time now = ManualClock().now();
  std::vector<std::string> files;
  files.push_back(Segment(1, 0, now)
                      .chunk(1, 0)
                      .chunk(1, 1)
                      .put(1, State::succeeded, BodyKept::in_chunks, 3)
                      .put(2, State::succeeded, BodyKept::in_chunks, 3)
                      .chunk(3, 1)
                      .chunk(3, 2)
                      .put(3, State::succeeded, BodyKept::in_chunks, 3)
                      .put(4, State::succeeded, BodyKept::in_chunks, 0)
                      .chunk(5, 0)
                      .put(5, State::succeeded, BodyKept::in_chunks, 1)
                      .done());
  begin_with(files);
  for (int i = 0; i < 2; ++i) {
    for (const std::uint64_t key : {1U, 2U, 3U}) expect_not_kept(key);
    expect_kept(4, 0);
    expect_kept(5, 1);
    const auto listed = store().search()->scan({}, "", 10);
    ASSERT_TRUE(listed.has_value());
    ASSERT_EQ(listed->keys.size(), 5U);
    for (const KeyInfo& key : listed->keys) {
      const bool whole = key.id == numbered<OperationId>(4) || key.id == numbered<OperationId>(5);
      EXPECT_EQ(key.body_kept, whole ? BodyKept::in_chunks : BodyKept::no);
    }
    fill(40'000);
    maintain();
    restart();
  }
}

TEST_F(JournalKeptChunks, a_repair_keeps_a_body_whole_or_not_at_all) {
  begin();
  stream_and_keep(1, 60);
  stream_and_keep(2, 20);
  machine_->close();
  damage(bytes_of(1, long_chunk(1, 40)));
  EXPECT_FALSE(machine_->start());
  EXPECT_THAT(machine_->refusal, HasSubstr(damaged_in_));
  SimulatedDisk disk(machine_->platter);
  SeededRandom random(1);
  const auto report = journal::repair(disk, machine_->clock, random, [](const journal::SegmentReport&) {});
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->damage.size(), 1U);
  machine_->kill();
  ASSERT_TRUE(machine_->start()) << machine_->refusal;
  expect_not_kept(1);
  expect_kept(2, 20);
}

TEST_F(JournalKeptChunks, one_that_is_damaged_while_it_runs_fails_reads_of_it_only) {
  begin();
  stream_and_keep(1, 20);
  const std::uint32_t lost = long_chunk(1, 5);
  damage(bytes_of(1, lost));
  const Op op = run(read_op(1));
  EXPECT_EQ(op.status, OpStatus::failed);
  EXPECT_EQ(op.fault, StoreFault::refused);
  EXPECT_EQ(chunks_in(run(read_op(1, lost + 1))), 19 - lost);
  EXPECT_EQ(run(claim_op(1, 77)).verdict, Verdict::replay);
}

TEST_F(JournalKeptChunks, go_when_their_record_expires) {
  begin();
  const std::uint64_t index = stats().index_bytes;
  for (std::uint64_t key = 1; key <= 5; ++key) stream_and_keep(key, 100, minutes(10));
  EXPECT_GT(stats().index_bytes, index + 5 * 100 * 8);
  EXPECT_GT(stats().segments, 10U);
  machine_->clock.advance(minutes(9));
  maintain();
  for (std::uint64_t key = 1; key <= 5; ++key) expect_kept(key, 100);
  machine_->clock.advance(minutes(2));
  maintain();
  EXPECT_EQ(stats().index_bytes, index);
  fill(4000);
  maintain();
  EXPECT_LE(stats().segments, 3U);
  EXPECT_EQ(run(claim_op(1, 1)).verdict, Verdict::execute);
  expect_chunks(1, 0);
  append(1, 0);
  expect_chunks(1, 1);
  restart();
  expect_chunks(1, 1);
}

TEST_F(JournalKeptChunks, of_a_record_that_is_remembered_go_when_it_expires) {
  begin({.segment_bytes = 4096, .cache_bytes = 1 << 20});
  Op claim = claim_op(1, 1);
  claim.terms.tombstone = hours(24 * 7);
  ASSERT_EQ(run(claim).verdict, Verdict::execute);
  for (std::uint32_t i = 0; i < 200; ++i) append(1, i);
  keep(1, minutes(10));
  const std::uint64_t index = stats().index_bytes;
  const Time kept_at = machine_->clock.now();
  machine_->clock.advance(minutes(11));
  maintain();
  EXPECT_LE(stats().index_bytes, index - 200 * 8);
  const Op late = run(read_op(1));
  ASSERT_TRUE(late.record.has_value());
  EXPECT_EQ(late.record->state, State::tombstone);
  EXPECT_TRUE(late.chunks.empty());
  // A clock that is set back does not bring back an empty body.
  const Duration passed = machine_->clock.now() - kept_at;
  machine_->clock.advance(-passed);
  expect_not_kept(1);
  machine_->clock.advance(passed);
  fill(8000);
  maintain();
  EXPECT_LE(stats().segments, 4U);
  restart();
  expect_chunks(1, 0);
  EXPECT_EQ(run(lookup_op(1)).record->state, State::tombstone);
}

TEST_F(JournalKeptChunks, hold_no_segment_when_their_key_is_forgotten) {
  begin();
  for (std::uint64_t key = 1; key <= 5; ++key) stream_and_keep(key, 100);
  for (std::uint64_t key = 1; key <= 5; ++key) {
    Op forget = owner_op(Verb::forget, key, key);
    forget.seen_state = State::succeeded;
    ASSERT_EQ(run(forget).status, OpStatus::done);
    expect_chunks(key, 0);
  }
  fill(4000);
  maintain();
  EXPECT_LE(stats().segments, 3U);
  EXPECT_EQ(stats().carried, 0U);
}

// 2 MB in a thousand chunks.
TEST_F(JournalKeptChunks, take_eight_bytes_of_memory_each) {
  begin({.segment_bytes = 64 << 20, .cache_bytes = 0});
  ASSERT_EQ(run(claim_op(1, 1)).verdict, Verdict::execute);
  const std::uint64_t index = stats().index_bytes;
  constexpr std::uint32_t count = 1000;
  for (std::uint32_t i = 0; i < count; ++i) append(1, i);
  EXPECT_LE(stats().index_bytes, index + 200 + count * 16);
  keep(1);
  EXPECT_LE(stats().index_bytes, index + 200 + count * 8);
  restart();
  EXPECT_LE(stats().index_bytes, index + 200 + count * 8);
  expect_kept(1, count);
}

// From any number on, without those before it.
TEST_F(JournalKeptChunks, are_read_a_part_at_a_time) {
  begin({.segment_bytes = 16 << 10, .cache_bytes = 1 << 20});
  constexpr std::uint32_t count = 400;
  stream_and_keep(1, count);
  restart();
  expect_kept(1, count);
  std::uint32_t next = 0;
  std::size_t reads = 0;
  while (next < count) {
    Op op = read_op(1, next);
    op.chunk_bytes = 500;
    const std::uint64_t before = machine_->platter.calls(DiskCall::read);
    op = run(op);
    ASSERT_EQ(op.status, OpStatus::done) << op.error;
    const std::size_t found = chunks_in(op);
    ASSERT_GE(found, 1U);
    EXPECT_LE(machine_->platter.calls(DiskCall::read) - before, found + 12);
    std::size_t bytes = 0;
    for (const OutcomeBytes& chunk : op.chunks) bytes += chunk->size();
    EXPECT_LE(bytes, 500U);
    next += static_cast<std::uint32_t>(found);
    ++reads;
  }
  EXPECT_EQ(next, count);
  EXPECT_GT(reads, 20U);
  const OperationId id = numbered<OperationId>(1);
  EXPECT_NE(store().part_of(id), 0U) << "they are read from disk";
  Op end = read_op(1, count);
  EXPECT_TRUE(store().answer_at_once(end));
  EXPECT_EQ(end.record->body_kept, BodyKept::in_chunks);
}

TEST_F(JournalKeptChunks, a_full_disk_drops_the_body_and_keeps_the_success) {
  begin({.segment_bytes = 16 << 10, .max_disk = 128 << 10, .cache_bytes = 0});
  ASSERT_EQ(run(claim_op(1, 1)).verdict, Verdict::execute);
  Op refused{.status = OpStatus::done};
  for (std::uint32_t i = 0; i < 1000 && refused.status == OpStatus::done; ++i) {
    refused = append_op(1, 1, i);
    refused.outcome = outcome_of(2000, i);
    refused = run(refused);
    store().maintain();
  }
  ASSERT_EQ(refused.fault, StoreFault::full);
  Op end = keep_op(1);
  end.outcome = outcome_of(200'000);
  end = run(end);
  ASSERT_EQ(end.status, OpStatus::done);
  EXPECT_EQ(end.record->body_kept, BodyKept::no);
  expect_not_kept(1);
  maintain();
  stream_and_keep(2, 100);
  expect_kept(2, 100);
}

}  // namespace journal_kept_chunks_test
}  // namespace once::store
