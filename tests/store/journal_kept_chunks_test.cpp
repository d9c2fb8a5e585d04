// Responses whose body stays in its chunks, in the journal: they live as long as their record and no longer, whatever
// is carried, cut off, damaged or dropped around them. A body is told whole or not at all.
#include <gtest/gtest.h>

#include "store/journal/format.hpp"
#include "tests/unit/support/journal_chunks.hpp"

namespace once::store {
namespace journal_kept_chunks_test {

using std::chrono::hours;
using std::chrono::minutes;

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

// A program that does not know chunks carries the record forward and drops their segment.
TEST_F(JournalKeptChunks, those_behind_a_gap_are_not_read) {
  Segment segment(1, 0, ManualClock().now());
  segment.put(1, State::started, BodyKept::yes);
  for (const std::uint32_t number : {0U, 1U, 3U, 4U}) segment.chunk(1, number);
  begin_with(std::vector{segment.done()});
  expect_chunks(1, 2);
  // Those behind it hold nothing up either.
  for (int i = 0; i < 5; ++i) {
    machine_->clock.advance(hours(2));
    store().maintain();
  }
  expect_chunks(1, 2);
}

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

}  // namespace journal_kept_chunks_test
}  // namespace once::store
