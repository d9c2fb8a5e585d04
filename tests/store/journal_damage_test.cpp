// A journal whose files are not as they were left: what was certain and is damaged keeps it from opening, and the
// message says where; what may be left of a torn write is cut.
#include <cstring>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/crc32c.hpp"
#include "sim/random.hpp"
#include "store/journal/format.hpp"
#include "store/journal/repair.hpp"
#include "tests/unit/support/journal_machine.hpp"

namespace once::store {
namespace journal_damage_test {

using journal::header_size;
using testing::HasSubstr;
using testing::Not;

constexpr std::uint64_t key_count = 13;
constexpr JournalSettings small{.segment_bytes = 1024, .cache_bytes = 0};

class JournalDamage : public testing::Test {
 protected:
  // A journal of a few segments, left by a kill. Outcomes of odd sizes, so that frames have padding.
  void SetUp() override {
    ASSERT_TRUE(machine_.start());
    for (std::uint64_t key = 0; key < key_count; ++key) {
      ASSERT_EQ(machine_.run(claim_op(key, key)).status, OpStatus::done);
      ASSERT_EQ(machine_.run(finish_op(key, key, outcome_of(20 + key * 3, key))).status, OpStatus::done);
    }
    machine_.kill();
    for (const std::string& name : machine_.platter.names()) {
      if (journal::parse_segment_name(name)) names_.push_back(name);
    }
    ASSERT_GE(names_.size(), 4U);
  }

  // The journal with one change made to it.
  std::unique_ptr<JournalMachine> changed(auto&& change) {
    auto copy = std::make_unique<JournalMachine>(1, small);
    for (const std::string& name : names_) copy->platter.put(name, machine_.platter.content(name));
    change(copy->platter);
    return copy;
  }
  std::unique_ptr<JournalMachine> flipped(const std::string& name, std::uint64_t offset) {
    return changed([&](Platter& platter) { platter.flip(name, offset, static_cast<unsigned>(offset % 8)); });
  }

  static std::uint64_t number_in(const std::string& bytes, std::size_t at, std::size_t size) {
    std::uint64_t number = 0;
    std::memcpy(&number, bytes.data() + at, size);
    return number;
  }
  // Where a sealed segment ends: its successor says so.
  std::uint64_t end_of(std::size_t index) {
    return journal::decode_header(machine_.platter.content(names_[index + 1]))->previous_end;
  }
  struct Piece {
    std::uint64_t begin = 0;
    std::uint64_t payload_end = 0;
    std::uint64_t end = 0;
    journal::Glance seen{};
  };
  std::vector<Piece> frames_of(const std::string& name, std::uint64_t end) {
    const std::string bytes = machine_.platter.content(name);
    const std::uint32_t salt = journal::decode_header(bytes)->salt;
    std::vector<Piece> pieces;
    for (std::uint64_t at = header_size; at < end;) {
      const auto payload = journal::decode_frame(std::string_view(bytes).substr(at), salt);
      if (!payload) break;
      const std::uint64_t size = journal::frame_size(payload->size());
      pieces.push_back({at, at + journal::frame_overhead + payload->size(), at + size, *journal::glance(*payload)});
      at += size;
    }
    return pieces;
  }
  static void expect_all_there(JournalMachine& machine) {
    for (std::uint64_t key = 0; key < key_count; ++key) {
      const Op op = machine.run(lookup_op(key));
      ASSERT_TRUE(op.record.has_value()) << key << ' ' << op.error;
      ASSERT_EQ(*op.record->outcome, *outcome_of(20 + key * 3, key));
    }
  }
  static std::string path(const std::string& name) { return "/simulated/" + name; }

  JournalMachine machine_{1, small};
  std::vector<std::string> names_;
};

TEST_F(JournalDamage, the_journal_is_whole_without_any) {
  const auto copy = changed([](Platter&) {});
  ASSERT_TRUE(copy->start()) << copy->refusal;
  expect_all_there(*copy);
}

TEST_F(JournalDamage, a_bit_anywhere_in_a_sealed_segment_is_found_and_its_place_told) {
  const std::string& name = names_[1];
  for (const Piece& frame : frames_of(name, end_of(1))) {
    for (std::uint64_t at = frame.begin; at < frame.end; ++at) {
      SCOPED_TRACE("bit in byte " + std::to_string(at));
      const auto copy = flipped(name, at);
      if (at >= frame.payload_end) {  // padding says nothing
        ASSERT_TRUE(copy->start());
        expect_all_there(*copy);
        continue;
      }
      ASSERT_FALSE(copy->start());
      ASSERT_THAT(copy->refusal, HasSubstr(path(name) + ", offset " + std::to_string(frame.begin) + ":"));
    }
  }
}

TEST_F(JournalDamage, a_bit_anywhere_in_a_header_is_found) {
  for (const std::string& name : {names_.front(), names_[1], names_.back()}) {
    for (std::uint64_t at = 0; at < header_size; ++at) {
      const auto copy = flipped(name, at);
      ASSERT_FALSE(copy->start()) << name << ' ' << at;
      ASSERT_THAT(copy->refusal, HasSubstr(path(name) + ", offset 0:"));
    }
  }
}

TEST_F(JournalDamage, a_bit_in_the_last_segment_is_found_up_to_the_last_mark_and_cut_behind_it) {
  const std::string& name = names_.back();
  std::uint64_t certain = header_size;
  const std::vector<Piece> frames = frames_of(name, machine_.platter.content(name).size());
  ASSERT_GE(frames.size(), 4U);
  for (const Piece& frame : frames) {
    if (frame.seen.kind == journal::Kind::mark) certain = std::max(certain, frame.seen.durable_up_to);
  }
  ASSERT_GT(certain, header_size);
  for (const Piece& frame : frames) {
    for (std::uint64_t at = frame.begin; at < frame.payload_end; ++at) {
      SCOPED_TRACE("bit in byte " + std::to_string(at));
      const auto copy = flipped(name, at);
      if (at < certain) {
        ASSERT_FALSE(copy->start());
        ASSERT_THAT(copy->refusal, HasSubstr(path(name) + ", offset " + std::to_string(frame.begin) + ":"));
        continue;
      }
      ASSERT_TRUE(copy->start()) << copy->refusal;
      for (const Piece& each : frames) {
        if (each.end > certain || each.seen.kind != journal::Kind::put) continue;
        ASSERT_TRUE(copy->run({.verb = Verb::lookup, .id = each.seen.id}).record.has_value());
      }
    }
  }
}

TEST_F(JournalDamage, after_a_second_of_quiet_and_after_an_orderly_end_nothing_may_be_cut) {
  for (const bool closes : {false, true}) {
    JournalMachine machine(2, small);
    ASSERT_TRUE(machine.start());
    machine.run(claim_op(1, 1));
    machine.run(finish_op(1, 1, outcome_of(100)));
    const std::string name = journal::segment_name(journal::SegmentNumber{1});
    const std::uint64_t end = machine.platter.content(name).find_last_not_of('\0') + 1;
    machine.clock.advance(std::chrono::seconds(1));
    if (!closes) machine.store().maintain();
    machine.close();
    machine.platter.flip(name, end - 10, 3);
    EXPECT_FALSE(machine.start());
    EXPECT_THAT(machine.refusal, HasSubstr(path(name)));
  }
}

TEST_F(JournalDamage, a_list_leaves_out_a_record_that_cannot_be_read) {
  JournalMachine machine(2, small);
  ASSERT_TRUE(machine.start());
  for (const std::uint64_t number : {1U, 2U, 3U}) {
    machine.run(claim_op(number, number));
    machine.run(finish_op(number, number, outcome_of(3000, number)));
  }
  const auto list = [&] { return machine.store().search()->scan({}, "", 10); };
  auto whole = list();
  ASSERT_TRUE(whole.has_value());
  ASSERT_EQ(whole->keys.size(), 3U);
  for (const KeyInfo& key : whole->keys) EXPECT_EQ(key.outcome_bytes, 3000U);
  const OperationId lost = claim_op(2, 2).id;
  std::size_t found = 0;
  for (const std::string& name : machine.platter.names()) {
    const std::size_t at = machine.platter.content(name).rfind(lost.view());
    if (at == std::string::npos) continue;
    machine.platter.flip(name, at, 0);
    ++found;
  }
  ASSERT_GE(found, 1U);
  const auto rest = list();
  ASSERT_TRUE(rest.has_value());
  EXPECT_EQ(rest->keys.size(), 2U);
  for (const KeyInfo& key : rest->keys) EXPECT_NE(key.id, lost);
  EXPECT_FALSE(machine.store().search()->get(lost).has_value()) << "whoever asks for it is told";
}

TEST_F(JournalDamage, garbage_behind_the_last_record_is_cut) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const auto copy = changed([&](Platter& platter) {
      std::string bytes = platter.content(names_.back());
      const std::size_t end = (bytes.find_last_not_of('\0') + 8) / 8 * 8;
      const std::string garbage = *outcome_of(100 + seed, seed);
      bytes.resize(std::max(bytes.size(), end + garbage.size()));
      bytes.replace(end, garbage.size(), garbage);
      platter.put(names_.back(), bytes);
    });
    ASSERT_TRUE(copy->start()) << copy->refusal;
    expect_all_there(*copy);
    copy->lose_power();
    ASSERT_TRUE(copy->start()) << copy->refusal;
    expect_all_there(*copy);
  }
}

TEST_F(JournalDamage, a_segment_that_is_missing_is_named) {
  const auto copy = changed([&](Platter& platter) { platter.take(names_[1]); });
  EXPECT_FALSE(copy->start());
  EXPECT_THAT(copy->refusal, HasSubstr(path(names_[1]) + ", offset 0: the segment is missing"));
}

TEST_F(JournalDamage, a_sealed_segment_that_is_too_short_is_found) {
  const auto copy =
      changed([&](Platter& platter) { platter.put(names_[1], platter.content(names_[1]).substr(0, end_of(1) - 1)); });
  EXPECT_FALSE(copy->start());
  EXPECT_THAT(copy->refusal, HasSubstr(path(names_[1])));
}

// As long as the next header says: far longer than what is left of the file.
TEST_F(JournalDamage, what_is_missing_of_a_sealed_segment_is_told_and_the_rest_is_kept) {
  const std::uint64_t cut = frames_of(names_[1], end_of(1)).at(1).end;
  const auto copy =
      changed([&](Platter& platter) { platter.put(names_[1], platter.content(names_[1]).substr(0, cut)); });
  EXPECT_FALSE(copy->start());
  const std::string place = fmt::format("{}, offset {}: ", path(names_[1]), cut);
  EXPECT_THAT(copy->refusal, HasSubstr(place + fmt::format("{} bytes are missing", end_of(1) - cut)));
  SimulatedDisk disk(copy->platter);
  const auto report = journal::verify(disk, [](const journal::SegmentReport&) {});
  ASSERT_TRUE(report.has_value());
  ASSERT_EQ(report->damage.size(), 1U);
  EXPECT_EQ(report->damage[0].offset, cut);
}

// What a repair left when it was interrupted: files that cannot be read, below a beginning that makes them obsolete.
TEST_F(JournalDamage, an_unreadable_file_below_the_beginning_is_put_aside_for_good) {
  const auto copy = changed([&](Platter& platter) {
    platter.flip(names_[1], header_size + 20, 1);
    SimulatedDisk disk(platter);
    ManualClock clock;
    SeededRandom random(1);
    ASSERT_TRUE(journal::repair(disk, clock, random, [](const journal::SegmentReport&) {}).has_value());
    platter.put(names_[0], "unreadable");
  });
  ASSERT_TRUE(copy->start()) << copy->refusal;
  EXPECT_FALSE(copy->platter.holds(names_[0]));
  EXPECT_TRUE(copy->platter.holds(names_[0] + ".damaged"));
  copy->kill();
  EXPECT_TRUE(copy->start()) << copy->refusal;
}

TEST_F(JournalDamage, a_segment_of_another_journal_is_named) {
  JournalMachine other(99, small);
  ASSERT_TRUE(other.start());
  for (std::uint64_t key = 0; key < key_count; ++key) other.run(claim_op(key, key));
  for (const std::size_t index : {std::size_t{1}, names_.size() - 1}) {
    const auto copy = changed([&](Platter& platter) {
      journal::SegmentHeader header = *journal::decode_header(platter.content(names_[index]));
      header.journal = journal::decode_header(other.platter.content(names_[0]))->journal;
      platter.put(names_[index], journal::encode(header) + platter.content(names_[index]).substr(header_size));
    });
    EXPECT_FALSE(copy->start());
    EXPECT_THAT(copy->refusal, HasSubstr(path(names_[index]) + ", offset 0: the segment belongs to another journal"));
  }
}

TEST_F(JournalDamage, two_segments_that_were_exchanged_are_found) {
  const auto copy = changed([&](Platter& platter) {
    const std::string first = platter.content(names_[1]);
    platter.put(names_[1], platter.content(names_[2]));
    platter.put(names_[2], first);
  });
  EXPECT_FALSE(copy->start());
  EXPECT_THAT(copy->refusal, HasSubstr("the number of another segment"));
}

TEST_F(JournalDamage, refusing_to_open_changes_nothing) {
  const auto copy = flipped(names_[1], header_size + 20);
  std::vector<std::string> before;
  for (const std::string& name : names_) before.push_back(copy->platter.content(name));
  EXPECT_FALSE(copy->start());
  EXPECT_EQ(copy->platter.names(), names_);
  for (std::size_t i = 0; i < names_.size(); ++i) EXPECT_EQ(copy->platter.content(names_[i]), before[i]);
}

TEST_F(JournalDamage, other_files_in_the_folder_are_left_alone) {
  const auto copy = changed([&](Platter& platter) {
    for (const char* name : {"lock", "1.segment", "0000000001.segment.bak", "00000000002.segment", "notes.txt"}) {
      platter.put(name, "something else");
    }
  });
  ASSERT_TRUE(copy->start()) << copy->refusal;
  expect_all_there(*copy);
  EXPECT_EQ(copy->platter.content("1.segment"), "something else");
}

// While it runs: one damaged record is one key that cannot be answered, and never one that executes again.
TEST_F(JournalDamage, that_comes_while_it_runs_is_told_and_nothing_is_executed_twice) {
  const auto copy = changed([](Platter&) {});
  ASSERT_TRUE(copy->start());
  const auto frames = frames_of(names_[1], end_of(1));
  for (const Piece& frame : frames) {
    if (frame.seen.kind == journal::Kind::put) copy->platter.flip(names_[1], frame.begin + 60, 2);
  }
  int damaged = 0;
  for (std::uint64_t key = 0; key < key_count; ++key) {
    const Op op = copy->run(claim_op(key, 100 + key));
    if (op.status == OpStatus::done) {
      EXPECT_EQ(op.verdict, Verdict::replay);
      continue;
    }
    ++damaged;
    EXPECT_EQ(op.fault, StoreFault::refused);
    EXPECT_THAT(op.error, HasSubstr(path(names_[1])));
    EXPECT_THAT(op.error, HasSubstr("offset "));
  }
  EXPECT_GT(damaged, 0);
  EXPECT_EQ(copy->run(claim_op(500, 500)).verdict, Verdict::execute);
  EXPECT_EQ(copy->store().stats().condition, JournalStats::Condition::well);
}

}  // namespace journal_damage_test
}  // namespace once::store
