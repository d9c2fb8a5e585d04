// Two versions of the program on one journal, one after the other: the next one adds what this one skips, and what this
// one writes the one before it can read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/journal/format.hpp"
#include "store/journal/repair.hpp"
#include "store/journal/scan.hpp"
#include "tests/unit/support/journal_machine.hpp"

namespace once::store {
namespace journal_versions_test {

using journal::SegmentHeader;
using journal::SegmentNumber;
using testing::HasSubstr;

constexpr std::uint8_t next_version = journal::format_version + 1;
constexpr JournalSettings small{.segment_bytes = 2048, .cache_bytes = 0};

Record finished(std::uint64_t key, const ManualClock& clock, OutcomeBytes outcome) {
  Record record;
  record.state = State::succeeded;
  record.fence = Fence{key};
  record.fingerprint = {{1}};
  record.nonce = numbered<Nonce>(key);
  record.started_at = clock.now();
  record.expires_at = record.forget_at = clock.now() + std::chrono::hours(24);
  record.outcome = std::move(outcome);
  return record;
}

// The payload of a put with a part that only the next version knows: a flag, and a length and bytes before the outcome.
std::string with_unknown_part(std::string_view payload, std::size_t before_outcome, std::string_view part) {
  std::string changed(payload);
  changed[2] = static_cast<char>(changed[2] | 64);
  changed.insert(before_outcome, std::string(1, static_cast<char>(part.size())) + std::string(part));
  return changed;
}

// A segment of the next version, of which this one can read all that it needs: puts, among frames of kinds that are
// new.
std::string segment_of_next_version(const ManualClock& clock, std::uint32_t needs) {
  SegmentHeader header{.journal = {{7}}, .created_at = clock.now(), .needs = needs, .written_by = next_version};
  std::string bytes = journal::encode(header);
  journal::append_payload(bytes, header.salt, std::string(40, '\x81'));
  for (std::uint64_t key = 1; key <= 5; ++key) {
    const journal::Labels labels{.tenant = "acme", .route = "/payments"};
    std::string frame;
    journal::append_put(frame, 0, numbered<OperationId>(key), finished(key, clock, outcome_of(300, key)), labels);
    const std::string_view payload = *journal::decode_frame(frame, 0);
    const std::string part(key % 2 == 0 ? 255 : key, 'x');
    journal::append_payload(bytes, header.salt, with_unknown_part(payload, payload.size() - 300, part));
    journal::append_payload(bytes, header.salt, std::string(24 + key, '\xff'));
  }
  journal::append_mark(bytes, header.salt, bytes.size(), clock.now());
  return bytes;
}

void expect_replayed(JournalMachine& machine, std::uint64_t first, std::uint64_t last) {
  for (std::uint64_t key = first; key <= last; ++key) {
    const Op op = machine.run(claim_op(key, key + 1000));
    ASSERT_EQ(op.verdict, Verdict::replay) << key << ' ' << op.error;
    ASSERT_EQ(*op.record->outcome, *outcome_of(300, key)) << key;
  }
}

class JournalVersions : public testing::Test {
 protected:
  void record(std::uint64_t key) {
    ASSERT_EQ(machine_.run(claim_op(key, key)).verdict, Verdict::execute) << key;
    ASSERT_EQ(machine_.run(finish_op(key, key, outcome_of(300, key))).status, OpStatus::done) << key;
  }
  std::vector<std::string> segments() const {
    std::vector<std::string> found;
    for (const std::string& name : machine_.platter.names()) {
      if (journal::parse_segment_name(name)) found.push_back(name);
    }
    return found;
  }

  JournalMachine machine_{1, small};
};

TEST_F(JournalVersions, what_the_next_version_has_written_is_read_and_written_on) {
  machine_.platter.put("0000000001.segment", segment_of_next_version(machine_.clock, journal::format_version));
  ASSERT_TRUE(machine_.start()) << machine_.refusal;
  EXPECT_EQ(machine_.store().stats().keys, 5U);
  expect_replayed(machine_, 1, 5);
  const auto listed = machine_.store().search()->scan({}, "", 10);
  ASSERT_TRUE(listed.has_value());
  ASSERT_EQ(listed->keys.size(), 5U);
  for (const KeyInfo& key : listed->keys) {
    EXPECT_EQ(key.route, "/payments");
    EXPECT_EQ(key.outcome_bytes, 300U);
  }
  for (std::uint64_t key = 6; key <= 20; ++key) record(key);
  machine_.kill();
  ASSERT_TRUE(machine_.start()) << machine_.refusal;
  expect_replayed(machine_, 1, 20);
}

// Rolled back and forth: the next version finds all of its own again, with the parts that only it knows.
TEST_F(JournalVersions, what_is_carried_forward_keeps_what_only_the_next_version_knows) {
  machine_.platter.put("0000000001.segment", segment_of_next_version(machine_.clock, journal::format_version));
  ASSERT_TRUE(machine_.start()) << machine_.refusal;
  for (std::uint64_t round = 0; round < 40; ++round) {
    const std::uint64_t key = 100 + round;
    record(key);
    Op forget = owner_op(Verb::forget, key, key);
    forget.seen_state = State::succeeded;
    ASSERT_EQ(machine_.run(forget).status, OpStatus::done);
    machine_.store().maintain();
  }
  EXPECT_FALSE(machine_.platter.holds("0000000001.segment"));
  expect_replayed(machine_, 1, 5);
  std::string all;
  for (const std::string& name : segments()) all += machine_.platter.content(name);
  EXPECT_THAT(all, HasSubstr(std::string(255, 'x')));
}

// Neither is damage, so a repair does not set them aside.
TEST_F(JournalVersions, what_this_version_cannot_read_is_refused_and_left_alone) {
  const auto segment = [&](std::uint32_t needs, std::uint8_t writer) {
    SegmentHeader header{.journal = {{7}}, .created_at = machine_.clock.now(), .needs = needs, .written_by = writer};
    return journal::encode(header);
  };
  for (const auto& [bytes, refusal] :
       {std::pair(segment_of_next_version(machine_.clock, next_version),
                  "0000000001.segment: written by a newer version of Once; it needs version 7 of the journal's format, "
                  "and this program knows up to 6"),
        std::pair(segment(3, 4),
                  "0000000001.segment: written in version 4 of the journal's format, and this program reads 5 and 6: "
                  "run the version of Once in between until the records in this file have expired"),
        std::pair(segment(1, 0),
                  "written in version 1 or 2 of the journal's format, and this program reads 5 and 6")}) {
    machine_.platter.put("0000000001.segment", bytes);
    EXPECT_FALSE(machine_.start());
    EXPECT_THAT(machine_.refusal, HasSubstr(refusal));
    SimulatedDisk disk(machine_.platter);
    SeededRandom random(1);
    EXPECT_FALSE(journal::repair(disk, machine_.clock, random, [](const journal::SegmentReport&) {}).has_value());
    EXPECT_EQ(machine_.platter.content("0000000001.segment"), bytes);
  }
}

// Version 5 reads a header that needs version 5, kinds 1 to 3 and flags below 128. It skips kinds from 129 on if those
// have at least 24 bytes, and what is new in the part that the flag 64 announces, and calls anything else damage.
TEST_F(JournalVersions, what_this_version_writes_the_one_before_can_read) {
  ASSERT_TRUE(machine_.start());
  for (std::uint64_t key = 1; key <= 20; ++key) record(key);
  Op outside = claim_op(50, 50);
  outside.terms.owner = Owner::outside;
  outside.tenant = "acme";
  ASSERT_EQ(machine_.run(outside).verdict, Verdict::execute);
  ASSERT_EQ(machine_.run(owner_op(Verb::release, 50, 50)).status, OpStatus::done);
  ASSERT_EQ(machine_.run(claim_op(51, 51)).verdict, Verdict::execute);
  ASSERT_EQ(machine_.run(finish_op(51, 51, outcome_of(journal::head_sum_from, 51))).status, OpStatus::done);
  ASSERT_EQ(machine_.run(claim_op(52, 52)).verdict, Verdict::execute);
  ASSERT_EQ(machine_.run(claim_op(53, 53)).verdict, Verdict::execute);
  for (std::uint32_t i = 0; i < 5; ++i) {
    ASSERT_EQ(machine_.run(append_op(52, 52, i)).status, OpStatus::done);
    ASSERT_EQ(machine_.run(append_op(53, 53, i)).status, OpStatus::done);
  }
  Op in_chunks = finish_op(53, 53, outcome_of(20, 53));
  in_chunks.body_kept = BodyKept::in_chunks;
  ASSERT_EQ(machine_.run(in_chunks).status, OpStatus::done);
  machine_.kill();
  ASSERT_TRUE(machine_.start());
  record(21);
  machine_.close();
  ASSERT_GT(segments().size(), 4U);
  SimulatedDisk disk(machine_.platter);
  const auto chain = journal::read_chain(disk);
  ASSERT_TRUE(chain.has_value());
  std::uint64_t bodies_in_chunks = 0;
  for (const journal::SegmentFile& segment : chain->segments) {
    const auto header = journal::decode_header(machine_.platter.content(segment.name), journal::oldest_version);
    ASSERT_TRUE(header.has_value());
    EXPECT_EQ(header->written_by, journal::format_version);
    const auto walked = journal::walk(disk, segment, journal::OnDamage::stop, [&](const journal::Frame& frame) {
      const auto kind = static_cast<std::uint8_t>(frame.payload[0]);
      EXPECT_TRUE((kind >= 1 && kind <= 3) || (kind >= 128 && frame.payload.size() >= 24));
      if (frame.seen.kind != journal::Kind::put) return;
      EXPECT_LT(static_cast<std::uint8_t>(frame.payload[2]), 128);
      if (frame.seen.body_kept != BodyKept::in_chunks) return;
      ++bodies_in_chunks;
      EXPECT_EQ(static_cast<std::uint8_t>(frame.payload[2]) & 1, 1) << "they must not take the head for the whole";
    });
    ASSERT_TRUE(walked.has_value());
    EXPECT_TRUE(walked->damage.empty());
  }
  EXPECT_EQ(bodies_in_chunks, 1U);
}

}  // namespace journal_versions_test
}  // namespace once::store
