// The journal's bytes, as docs/reference/journal-format.md has them. The literals were made by another program than the
// one that is tested: they stay as they are for as long as files of these versions are to be read.
#include <gtest/gtest.h>

#include "store/journal/format.hpp"
#include "tests/unit/support/journal_machine.hpp"

namespace once::journal {
namespace journal_format_test {

template <class Blob>
Blob counted_from(std::uint8_t first) {
  Blob blob;
  for (std::uint8_t& byte : blob.bytes) byte = first++;
  return blob;
}

const auto journal_id = counted_from<JournalId>(0xa0);
const auto id = counted_from<OperationId>(0x00);
const auto other_id = counted_from<OperationId>(0x60);
const auto fingerprint = counted_from<Fingerprint>(0x20);
const auto nonce = counted_from<Nonce>(0x40);
constexpr Time then{Duration(1'767'225'600'000)};

constexpr std::string_view header_hex =
    "4f4e43454a524e4c050000004b445d98a0a1a2a3a4a5a6a7a8a9aaabacadaeaf07000000000000000010000000000000"
    "290000000000000000a8da769b010600";
constexpr std::string_view header_of_first_hex =
    "4f4e43454a524e4c0500000048c7366aa0a1a2a3a4a5a6a7a8a9aaabacadaeaf07000000000000000010000000000000"
    "290000000000000000a8da769b010601";
constexpr std::string_view header_of_version_5_hex =
    "4f4e43454a524e4c030000003d4ce87ba0a1a2a3a4a5a6a7a8a9aaabacadaeaf07000000000000000010000000000000"
    "290000000000000000a8da769b010500";
constexpr std::string_view header_of_version_4_hex =
    "4f4e43454a524e4c030000004ad44a68a0a1a2a3a4a5a6a7a8a9aaabacadaeaf07000000000000000010000000000000"
    "290000000000000000a8da769b010400";
// By version 7, one that version 6 can read and one that it cannot.
constexpr std::string_view header_for_version_6_hex =
    "4f4e43454a524e4c0600000033b7a062a0a1a2a3a4a5a6a7a8a9aaabacadaeaf07000000000000000010000000000000"
    "290000000000000000a8da769b010700";
constexpr std::string_view header_for_version_7_hex =
    "4f4e43454a524e4c070000009943cec6a0a1a2a3a4a5a6a7a8a9aaabacadaeaf07000000000000000010000000000000"
    "290000000000000000a8da769b010700";
constexpr std::string_view put_hex =
    "7d000000988b957201010603020000002a00000000000000e8abda769b0100000004017c9b0100000001020304050607"
    "08090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f3031323334353637"
    "38393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f7894da769b01000068656c6c6f000000";
// Up to its outcome, which is 65,536 times an x.
constexpr std::string_view large_put_hex =
    "7d000100c04769fe01014603020000002a00000000000000e8abda769b0100000004017c9b0100000001020304050607"
    "08090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f3031323334353637"
    "38393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f7894da769b01000004d51846ff";
// Its body is in 3 chunks.
constexpr std::string_view put_in_chunks_hex =
    "870000007254982601014703020000002a00000000000000e8abda769b0100000004017c9b0100000001020304050607"
    "08090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f3031323334353637"
    "38393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f7894da769b01000009f393a7bd010300000068656c6c6f00";
constexpr std::string_view leased_hex =
    "8000000011ec83e901000c03020000002a00000000000000e8abda769b0100000004017c9b0100000001020304050607"
    "08090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f3031323334353637"
    "38393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f7894da769b0100001821db769b010000";
constexpr std::string_view remove_hex =
    "300000005dd31ce902000000000000002b00000000000000606162636465666768696a6b6c6d6e6f7071727374757677"
    "78797a7b7c7d7e7f";
// Number 3 of the claim with fence 42.
constexpr std::string_view chunk_hex =
    "49000000960968e880000000030000002a00000000000000000102030405060708090a0b0c0d0e0f1011121314151617"
    "18191a1b1c1d1e1f404142434445464748494a4b4c4d4e4f646174613a20310a0a00000000000000";
constexpr std::string_view mark_hex = "18000000cf40c30403000000000000001001000000000000d0afda769b010000";

// The first segment of a journal, by version 5: a mark, a claim, its outcome, another claim, its release, a third
// claim.
constexpr std::string_view file_hex =
    "4f4e43454a524e4c03000000741d4a17a0a1a2a3a4a5a6a7a8a9aaabacadaeaf01000000000000000000000000000000"
    "000000000000000000a8da769b0105011800000022da0edc0300000000000000400000000000000000a8da769b010000"
    "700000003e484c8f0100000001000000010000000000000000a8da769b0100000004017c9b0100000001020304050607"
    "08090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f3031323334353637"
    "38393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f7a0000009ef37c9301010200010000000100000000000000"
    "00a8da769b0100000004017c9b010000000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
    "202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f"
    "74686520616e7377657200000000000070000000191c3bfc0100000001000000020000000000000000a8da769b010000"
    "0004017c9b010000606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f2021222324252627"
    "28292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f300000009e4592e8"
    "02000000000000000200000000000000606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f"
    "70000000b52c56950100000001000000030000000000000000a8da769b0100000004017c9b0100002021222324252627"
    "28292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f202122232425262728292a2b2c2d2e2f3031323334353637"
    "38393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f";

SegmentHeader header() {
  return {.journal = journal_id,
          .number = SegmentNumber{7},
          .previous_end = 4096,
          .last_fence = Fence{41},
          .created_at = then};
}

// Of the segment that the frames are in.
std::uint32_t salt() {
  return 0x82ae413c;
}

Record record() {
  Record made;
  made.state = State::succeeded;
  made.attempt = Attempt{2};
  made.fence = Fence{42};
  made.fingerprint = fingerprint;
  made.nonce = nonce;
  made.started_at = then + std::chrono::seconds(1);
  made.lease_until = Time::max();
  made.expires_at = then + std::chrono::hours(24);
  made.outcome = std::make_shared<const std::string>("hello");
  made.previous_state = State::unknown;
  made.previous_started_at = then - std::chrono::seconds(5);
  return made;
}

TEST(JournalFormat, a_header_is_these_bytes) {
  SegmentHeader made = header();
  EXPECT_EQ(to_hex(encode(made)), header_hex);
  const auto read = decode_header(*from_hex(header_hex));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->journal, journal_id);
  EXPECT_EQ(read->number, SegmentNumber{7});
  EXPECT_EQ(read->previous_end, 4096U);
  EXPECT_EQ(read->last_fence, Fence{41});
  EXPECT_EQ(read->created_at, then);
  EXPECT_EQ(read->needs, 5U);
  EXPECT_EQ(read->written_by, 6U);
  EXPECT_EQ(read->salt, made.salt);
}

TEST(JournalFormat, a_header_says_whether_a_process_began_with_it) {
  SegmentHeader made = header();
  made.begins_run = true;
  EXPECT_EQ(to_hex(encode(made)), header_of_first_hex);
  EXPECT_TRUE(decode_header(*from_hex(header_of_first_hex))->begins_run);
  EXPECT_EQ(decode_header(*from_hex(header_of_first_hex))->created_at, then);
  EXPECT_FALSE(decode_header(*from_hex(header_hex))->begins_run);
}

TEST(JournalFormat, a_header_says_which_version_can_read_it) {
  const auto later = decode_header(*from_hex(header_for_version_6_hex));
  ASSERT_TRUE(later.has_value());
  EXPECT_EQ(later->written_by, 7U);
  EXPECT_EQ(later->created_at, then);
  const std::string newer = *from_hex(header_for_version_7_hex);
  EXPECT_EQ(decode_header(newer).error(), HeaderFault::newer_version);
  EXPECT_EQ(needed_version(newer), 7U);
  EXPECT_TRUE(decode_header(newer, 7).has_value());
  EXPECT_TRUE(decode_header(*from_hex(header_hex), 5).has_value()) << "version 5 can read what version 6 writes";
  EXPECT_EQ(decode_header(*from_hex(header_hex), 4).error(), HeaderFault::newer_version);
  EXPECT_EQ(decode_header(*from_hex(header_of_version_5_hex))->written_by, 5U);
  EXPECT_EQ(decode_header(*from_hex(header_of_version_4_hex)).error(), HeaderFault::older_version);
  EXPECT_EQ(writer_of(*from_hex(header_of_version_4_hex)), 4U);
}

TEST(JournalFormat, what_a_later_version_marks_as_not_needed_is_skipped) {
  for (const char kind : {'\x81', '\xc8', '\xff'}) {
    const auto seen = glance(std::string(24, kind));
    ASSERT_TRUE(seen.has_value());
    EXPECT_EQ(seen->kind, Kind::skipped);
    EXPECT_FALSE(glance(std::string(23, kind)).has_value());
  }
  EXPECT_FALSE(glance(std::string(24, '\x7f')).has_value());
  std::string payload(112, '\0');
  payload[0] = 1;
  payload[2] = 64 | 32 | 2;
  EXPECT_FALSE(glance(payload + std::string("\1t\1r")).has_value());
  EXPECT_FALSE(glance(payload + std::string("\1t\1r\5four")).has_value());
  const std::string whole = payload + std::string("\1t\1r\4fourthe answer");
  ASSERT_TRUE(glance(whole).has_value());
  EXPECT_EQ(labels_of(whole).route, "r");
  EXPECT_EQ(*decode_put(whole).outcome, "the answer");
}

TEST(JournalFormat, frames_are_these_bytes) {
  std::string put;
  append_put(put, salt(), id, record());
  EXPECT_EQ(to_hex(put), put_hex);
  EXPECT_EQ(put.size(), put_frame_size(record()));
  std::string remove;
  append_remove(remove, salt(), other_id, Fence{43});
  EXPECT_EQ(to_hex(remove), remove_hex);
  EXPECT_EQ(remove.size(), remove_frame_size);
  std::string mark;
  append_mark(mark, salt(), 272, then + std::chrono::seconds(2));
  EXPECT_EQ(to_hex(mark), mark_hex);
  EXPECT_EQ(mark.size(), mark_frame_size);
}

TEST(JournalFormat, a_large_put_has_a_sum_of_its_head) {
  Record large = record();
  large.outcome = std::make_shared<const std::string>(head_sum_from, 'x');
  std::string out;
  append_put(out, salt(), id, large);
  EXPECT_EQ(out.size(), put_frame_size(large));
  EXPECT_EQ(to_hex(std::string_view(out).substr(0, large_put_hex.size() / 2)), large_put_hex);
  const auto payload = decode_frame(out, salt());
  ASSERT_TRUE(payload.has_value() && glance(*payload).has_value());
  EXPECT_TRUE(JournalModel::same(decode_put(*payload), large));

  std::string head = from_hex(large_put_hex)->substr(frame_overhead);
  EXPECT_TRUE(has_whole_head(head));
  EXPECT_TRUE(has_whole_head(head + "xxx"));
  EXPECT_FALSE(has_whole_head(std::string_view(head).substr(0, head.size() - 1)));
  for (std::size_t bit = 0; bit < (head.size() - head_sum_part) * 8; ++bit) {
    head[bit / 8] = static_cast<char>(head[bit / 8] ^ 1 << bit % 8);
    EXPECT_FALSE(has_whole_head(head)) << bit;
    head[bit / 8] = static_cast<char>(head[bit / 8] ^ 1 << bit % 8);
  }
}

TEST(JournalFormat, a_put_whose_body_is_in_chunks_is_these_bytes) {
  Record kept = record();
  kept.body_kept = BodyKept::in_chunks;
  std::string out;
  append_put(out, salt(), id, kept, {}, 3);
  EXPECT_EQ(to_hex(out), put_in_chunks_hex);
  EXPECT_EQ(out.size(), put_frame_size(kept));
  const auto payload = decode_frame(out, salt());
  ASSERT_TRUE(payload.has_value());
  const auto seen = glance(*payload);
  ASSERT_TRUE(seen.has_value());
  EXPECT_EQ(seen->body_kept, BodyKept::in_chunks);
  EXPECT_EQ(chunk_count(*payload), 3U);
  EXPECT_TRUE(has_whole_head(*payload));
  EXPECT_TRUE(JournalModel::same(decode_put(*payload), kept));
  EXPECT_EQ(chunk_count(*decode_frame(*from_hex(put_hex), salt())), 0U);
}

// It takes 4 bytes of the extra part for a sum, skips the rest, and goes by the flag for a body that is not kept.
TEST(JournalFormat, version_5_reads_a_body_in_chunks_as_not_kept) {
  const std::string bytes = *from_hex(put_in_chunks_hex);
  const std::string_view payload = *decode_frame(bytes, salt());
  constexpr std::size_t extra_at = 120;
  ASSERT_EQ(payload[extra_at], 9);
  std::string as_they_see_it(payload);
  EXPECT_EQ(as_they_see_it[2], 64 | 4 | 2 | 1);
  as_they_see_it.replace(extra_at, 10, "\4" + std::string(payload.substr(extra_at + 1, 4)));
  ASSERT_TRUE(glance(as_they_see_it).has_value());
  EXPECT_EQ(glance(as_they_see_it)->body_kept, BodyKept::no);
  EXPECT_EQ(decode_put(as_they_see_it).body_kept, BodyKept::no);
  EXPECT_EQ(*decode_put(as_they_see_it).outcome, "hello");
  EXPECT_TRUE(has_whole_head(as_they_see_it));
  // Nor is a part of a later version taken for one that is about chunks.
  as_they_see_it.replace(extra_at, 5, "\x0e" + std::string(payload.substr(extra_at + 1, 4)) + "\2something");
  EXPECT_EQ(decode_put(as_they_see_it).body_kept, BodyKept::no);
}

TEST(JournalFormat, a_small_put_has_no_sum_of_its_head) {
  EXPECT_FALSE(has_whole_head(*decode_frame(*from_hex(put_hex), salt())));
  EXPECT_FALSE(has_whole_head(*decode_frame(*from_hex(mark_hex), salt())));
  EXPECT_FALSE(has_whole_head(""));
}

TEST(JournalFormat, a_put_with_a_lease_of_its_own_is_these_bytes_and_keeps_it) {
  Record leased = record();
  leased.state = State::started;
  leased.outcome = nullptr;
  leased.lease_until = then + std::chrono::seconds(31);
  std::string out;
  append_put(out, salt(), id, leased);
  EXPECT_EQ(to_hex(out), leased_hex);
  EXPECT_EQ(out.size(), put_frame_size(leased));
  const auto payload = decode_frame(out, salt());
  ASSERT_TRUE(payload.has_value());
  const auto seen = glance(*payload);
  ASSERT_TRUE(seen.has_value());
  EXPECT_EQ(seen->lease_until, leased.lease_until);
  const Record read = decode_put(*payload);
  EXPECT_TRUE(JournalModel::same(read, leased));
  EXPECT_EQ(read.lease_until, leased.lease_until);
  EXPECT_EQ(read.previous_started_at, leased.previous_started_at);
}

TEST(JournalFormat, labels_stand_before_the_outcome) {
  const Labels labels{.tenant = "acme", .route = "/payments"};
  std::string out;
  append_put(out, salt(), id, record(), labels);
  EXPECT_EQ(out.size(), put_frame_size(record(), labels));
  const auto payload = decode_frame(out, salt());
  ASSERT_TRUE(payload.has_value());
  ASSERT_TRUE(glance(*payload).has_value());
  EXPECT_EQ(labels_of(*payload).tenant, "acme");
  EXPECT_EQ(labels_of(*payload).route, "/payments");
  EXPECT_TRUE(JournalModel::same(decode_put(*payload), record()));
  EXPECT_EQ(*decode_put(*payload).outcome, *record().outcome);
  EXPECT_TRUE(payload->contains(std::string("\4acme\11/payments") + *record().outcome));
}

TEST(JournalFormat, labels_are_cut_and_never_reach_past_the_payload) {
  const std::string longer(300, 'x');
  std::string out;
  append_put(out, salt(), id, record(), {.tenant = longer, .route = longer});
  const auto payload = decode_frame(out, salt());
  ASSERT_TRUE(payload.has_value());
  EXPECT_EQ(labels_of(*payload).tenant, longer.substr(0, 255));
  EXPECT_EQ(labels_of(*payload).route, longer.substr(0, 255));
  EXPECT_TRUE(JournalModel::same(decode_put(*payload), record()));
  std::string bytes(112, '\0');
  bytes[0] = 1;
  bytes[2] = 32;
  EXPECT_FALSE(glance(bytes).has_value());
  EXPECT_FALSE(glance(bytes + "\5abc").has_value());
  EXPECT_FALSE(glance(bytes + std::string("\3abc")).has_value());
  EXPECT_TRUE(glance(bytes + std::string("\3abc\1x")).has_value());
}

TEST(JournalFormat, a_chunk_is_these_bytes) {
  const ChunkName name{.id = id, .nonce = nonce, .fence = Fence{42}, .number = 3};
  std::string out;
  append_chunk(out, salt(), name, "data: 1\n\n");
  EXPECT_EQ(to_hex(out), chunk_hex);
  EXPECT_EQ(out.size(), frame_size(chunk_head + 9));
  const auto payload = decode_frame(out, salt());
  ASSERT_TRUE(payload.has_value());
  const auto seen = glance(*payload);
  ASSERT_TRUE(seen.has_value());
  EXPECT_EQ(seen->kind, Kind::chunk);
  EXPECT_EQ(chunk_name(*seen), name);
  EXPECT_EQ(chunk_bytes(*payload), "data: 1\n\n");
  EXPECT_EQ(chunk_bytes(payload->substr(0, chunk_head)), "");
  EXPECT_TRUE(glance(payload->substr(0, chunk_head)).has_value());
  EXPECT_FALSE(glance(payload->substr(0, chunk_head - 1)).has_value());
}

TEST(JournalFormat, a_put_that_is_read_back_is_the_record_without_its_lease) {
  const std::string bytes = *from_hex(put_hex);
  const auto payload = decode_frame(bytes, salt());
  ASSERT_TRUE(payload.has_value());
  const auto seen = glance(*payload);
  ASSERT_TRUE(seen.has_value());
  EXPECT_EQ(seen->kind, Kind::put);
  EXPECT_EQ(seen->id, id);
  EXPECT_EQ(seen->fence, Fence{42});
  EXPECT_EQ(seen->expires_at, record().expires_at);
  const Record read = decode_put(*payload);
  EXPECT_TRUE(JournalModel::same(read, record()));
  EXPECT_EQ(read.previous_state, State::unknown);
  EXPECT_EQ(read.previous_started_at, record().previous_started_at);
  EXPECT_EQ(read.lease_until, Time::min());
  std::string again;
  append_payload(again, salt(), *payload);
  EXPECT_EQ(again, bytes);
}

TEST(JournalFormat, every_kind_of_record_comes_back_as_it_was) {
  std::vector<Record> records = {record()};
  // Each record, and with this change.
  const auto or_with = [&](auto... changes) {
    for (std::size_t i = 0, count = records.size(); i < count; ++i) {
      (changes(records.emplace_back(Record(records[i]))), ...);
    }
  };
  or_with([](Record& made) { made.state = State::started; }, [](Record& made) { made.state = State::failed; },
          [](Record& made) { made.state = State::unknown; }, [](Record& made) { made.state = State::tombstone; });
  or_with([](Record& made) { made.attempt = Attempt{1}; }, [](Record& made) { made.attempt = Attempt{4'000'000'000}; });
  or_with([](Record& made) { made.outcome = nullptr; }, [](Record& made) { made.outcome = outcome_of(0); },
          [](Record& made) { made.outcome = outcome_of(100'000); });
  or_with([](Record& made) { made.body_kept = BodyKept::no; });
  or_with([](Record& made) { made.lease_until = then + std::chrono::seconds(30); });
  or_with([](Record& made) { made.forget_at = made.expires_at + std::chrono::hours(3); },
          [](Record& made) { made.forget_at = Time::max(); });
  for (const Record& made : records) {
    std::string out;
    append_put(out, 5, id, made);
    EXPECT_EQ(out.size(), put_frame_size(made));
    EXPECT_EQ(out.size() % frame_alignment, 0U);
    EXPECT_EQ(claimed_frame_size(out), out.size());
    const std::size_t outcome = made.outcome ? made.outcome->size() : 0;
    EXPECT_LE(out.size(), largest_put_overhead + frame_alignment + outcome);
    const auto payload = decode_frame(out, 5);
    ASSERT_TRUE(payload.has_value());
    const auto seen = glance(*payload);
    ASSERT_TRUE(seen.has_value());
    const Record read = decode_put(*payload);
    EXPECT_TRUE(JournalModel::same(read, made));
    const Time forget_at = JournalModel::forget_at(made);
    EXPECT_EQ(seen->forget_at, forget_at);
    EXPECT_EQ(read.forget_at, forget_at);
    const bool leased = made.state == State::started && made.lease_until != Time::max();
    EXPECT_EQ(seen->lease_until, leased ? made.lease_until : Time::min());
    EXPECT_EQ(read.lease_until, seen->lease_until);
    if (made.attempt != Attempt{1}) EXPECT_EQ(read.previous_started_at, made.previous_started_at);
  }
}

TEST(JournalFormat, a_frame_is_valid_in_its_own_segment_only) {
  const std::string bytes = *from_hex(put_hex);
  EXPECT_TRUE(decode_frame(bytes, salt()).has_value());
  EXPECT_FALSE(decode_frame(bytes, salt() + 1).has_value());
  EXPECT_FALSE(decode_frame(bytes, 0).has_value());
}

TEST(JournalFormat, what_is_cut_or_unknown_is_no_frame) {
  const std::string bytes = *from_hex(put_hex);
  for (std::size_t size = 0; size < bytes.size() - 3; ++size) {
    EXPECT_FALSE(decode_frame(std::string_view(bytes).substr(0, size), salt()).has_value());
  }
  EXPECT_FALSE(decode_frame(std::string(64, '\0'), 0).has_value());
  EXPECT_FALSE(glance("").has_value());
  EXPECT_FALSE(glance(std::string(112, '\4')).has_value());
  std::string payload(112, '\0');
  payload[0] = 1;
  EXPECT_TRUE(glance(payload).has_value());
  for (const std::size_t at : {1U, 2U, 3U}) {
    std::string strange = payload;
    strange[at] = 77;
    EXPECT_FALSE(glance(strange).has_value()) << "state, flags or previous state that nobody writes";
  }
  EXPECT_FALSE(glance(payload + "x").has_value());
  EXPECT_FALSE(glance(payload.substr(1)).has_value());
}

TEST(JournalFormat, headers_say_what_is_wrong_with_them) {
  std::string bytes = *from_hex(header_hex);
  EXPECT_EQ(decode_header(std::string_view(bytes).substr(0, 63)).error(), HeaderFault::damaged);
  EXPECT_EQ(decode_header(std::string(64, '\0')).error(), HeaderFault::damaged);
  bytes[63] = 1;
  EXPECT_EQ(decode_header(bytes).error(), HeaderFault::damaged);
}

TEST(JournalFormat, the_note_of_an_end_is_whole_or_says_nothing) {
  const std::string note = to_note({.segment = SegmentNumber{7}, .offset = 4096});
  EXPECT_EQ(note, "0000000007.segment 4096\n");
  const auto end = parse_note(note);
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->segment, SegmentNumber{7});
  EXPECT_EQ(end->offset, 4096U);
  for (std::size_t size = 0; size < note.size(); ++size) EXPECT_FALSE(parse_note(note.substr(0, size))) << size;
  EXPECT_FALSE(parse_note("4711"));
}

TEST(JournalFormat, segments_have_one_name_each) {
  EXPECT_EQ(segment_name(SegmentNumber{1}), "0000000001.segment");
  EXPECT_EQ(parse_segment_name("0000000001.segment"), SegmentNumber{1});
  EXPECT_EQ(parse_segment_name("4294967295.segment"), SegmentNumber{4294967295});
  for (const char* name : {"1.segment", "00000000001.segment", "0000000000.segment", "next.segment", ".segment",
                           "0000000001.segment.damaged", "-000000001.segment", "9999999999.segment", "lock", ""}) {
    EXPECT_FALSE(parse_segment_name(name).has_value()) << name;
  }
}

TEST(JournalFormat, a_file_of_version_5_can_be_read) {
  JournalMachine machine(1);
  machine.platter.put("0000000001.segment", *from_hex(file_hex));
  ASSERT_TRUE(machine.start()) << machine.refusal;
  EXPECT_EQ(machine.store().stats().keys, 2U);
  const Op first = machine.run({.verb = Verb::claim, .id = id, .nonce = {{9}}, .fingerprint = fingerprint});
  ASSERT_EQ(first.verdict, Verdict::replay);
  EXPECT_EQ(*first.record->outcome, "the answer");
  const Op third = machine.run({.verb = Verb::claim,
                                .id = counted_from<OperationId>(0x20),
                                .nonce = {{9}},
                                .fingerprint = fingerprint,
                                .terms = {.on_unknown = OnUnknown::hold}});
  EXPECT_EQ(third.verdict, Verdict::held) << "its owner died";
  const Op second = machine.run({.verb = Verb::claim, .id = other_id, .nonce = {{9}}, .fingerprint = fingerprint});
  EXPECT_EQ(second.verdict, Verdict::execute) << "it was released";
  EXPECT_EQ(second.record->fence, Fence{4});
}

}  // namespace journal_format_test
}  // namespace once::journal
