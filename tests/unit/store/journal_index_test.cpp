#include <gtest/gtest.h>

#include "base/log.hpp"
#include "store/journal/appender.hpp"
#include "store/journal/index.hpp"
#include "store/journal/system_disk.hpp"
#include "tests/unit/support/manual_clock.hpp"
#include "tests/unit/support/temporary_folder.hpp"

namespace once::journal {
namespace journal_index_test {

OperationId key(std::uint8_t shard, std::uint16_t number) {
  OperationId id;
  id.bytes[0] = static_cast<std::uint8_t>(number);
  id.bytes[3] = static_cast<std::uint8_t>(number >> 8U);
  id.bytes[SlotTable::tag_size] = shard;
  return id;
}

class JournalIndex : public testing::Test {
 protected:
  void insert(Index& index, const OperationId& id) {
    index.insert(*index.change(*writer_, id), id, never_expires, Place(SegmentOrdinal{1}, 64, 64));
  }
  static std::uint64_t slot_bytes(const Index& index) {
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < Index::shard_count; ++i) bytes += index.look_at(i)->slots.bytes();
    return bytes;
  }

  TemporaryFolder folder_;
  SystemDisk disk_{folder_.path()};
  ManualClock clock_;
  Log log_{clock_, 2, LogLevel::off, LogFormat::text};
  JournalSettings settings_;
  Counters counters_;
  Synchronized<Appender> appender_{disk_, log_, settings_, counters_};
  Locked<Appender> writer_ = appender_.lock();
};

TEST_F(JournalIndex, its_bytes_follow_the_slots) {
  Index index(settings_);
  EXPECT_EQ(index.bytes(), slot_bytes(index));
  for (std::uint16_t i = 0; i < 1000; ++i) insert(index, key(5, i));
  const std::uint64_t grown = index.bytes();
  EXPECT_GE(grown, 1000 * sizeof(SlotTable::Slot));
  EXPECT_EQ(grown, slot_bytes(index));
  EXPECT_EQ(index.sizes().keys, 1000U);

  const auto shard = index.change_at(*writer_, 5);
  for (std::uint16_t i = 0; i < 1000; ++i) shard->slots.erase(*shard->slots.find(key(5, i)));
  index.give_back_memory(*shard);
  EXPECT_LT(index.bytes(), grown);
  EXPECT_EQ(index.bytes(), Index::shard_count * shard->slots.bytes());
}

TEST_F(JournalIndex, a_key_for_which_a_shard_has_to_grow_needs_memory) {
  settings_.cache_bytes = 1000;
  settings_.max_memory = Index(settings_).bytes() + settings_.cache_bytes;
  Index index(settings_);
  std::uint16_t keys = 0;
  while (index.has_memory_for(key(5, keys))) insert(index, key(5, keys++));
  EXPECT_GE(keys, 10U);
  EXPECT_EQ(index.look_at(5)->slots.growth() > 0, true);
  EXPECT_TRUE(index.has_memory_for(key(6, 0)));
  EXPECT_EQ(index.bytes() + settings_.cache_bytes, settings_.max_memory);
}

TEST_F(JournalIndex, a_replay_is_answered_from_memory_and_an_execution_is_not) {
  Index index(settings_);
  const Time now = clock_.now();
  Op claim{.verb = Verb::claim, .id = key(5, 1), .fingerprint = {{1}}, .terms = {.ttl = std::chrono::hours(1)}};
  EXPECT_FALSE(index.answer(claim, now));
  Record record{.state = State::succeeded, .fingerprint = claim.fingerprint};
  record.expires_at = record.forget_at = now + std::chrono::hours(1);
  index.change(*writer_, claim.id)->keep(claim.id, Record(record));
  ASSERT_TRUE(index.answer(claim, now));
  EXPECT_EQ(claim.verdict, Verdict::replay);
  EXPECT_FALSE(index.answer(claim, record.expires_at));

  record.state = State::failed;
  index.change(*writer_, claim.id)->keep(claim.id, Record(record));
  EXPECT_FALSE(index.answer(claim, now));
  claim.verb = Verb::lookup;
  EXPECT_TRUE(index.answer(claim, now));
  EXPECT_EQ(claim.record->state, State::failed);
}

}  // namespace journal_index_test
}  // namespace once::journal
