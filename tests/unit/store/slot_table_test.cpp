#include "store/journal/slot_table.hpp"

#include <map>

#include <gtest/gtest.h>

#include "sim/draw.hpp"

namespace once::journal {
namespace slot_table_test {

TEST(Place, holds_what_was_put_into_it) {
  for (const std::uint32_t segment : {1U, 2U, 77U, std::to_underlying(Place::last_segment)}) {
    for (const std::uint64_t offset : {std::uint64_t{64}, std::uint64_t{4096}, Place::largest_offset - 8}) {
      for (const std::uint64_t size : {16U, 120U, 4096U, 1U << 30U}) {
        const Place place(SegmentOrdinal{segment}, offset, size);
        EXPECT_EQ(place.segment(), SegmentOrdinal{segment});
        EXPECT_EQ(place.offset(), offset);
        EXPECT_FALSE(place.empty());
      }
    }
  }
  EXPECT_TRUE(Place().empty());
}

TEST(Place, that_is_later_is_greater_whatever_its_size) {
  EXPECT_LT(Place(SegmentOrdinal{1}, 64, 1 << 20), Place(SegmentOrdinal{1}, 72, 16));
  EXPECT_LT(Place(SegmentOrdinal{1}, Place::largest_offset - 8, 1 << 20), Place(SegmentOrdinal{2}, 64, 16));
}

// A reader takes an eighth more than what it says and has the record in one go.
TEST(Place, knows_about_the_size) {
  for (std::uint64_t size = 16; size < (std::uint64_t{8} << 30U); size += 8 + size / 100 / 8 * 8) {
    const std::uint64_t about = Place(SegmentOrdinal{1}, 64, size).about_size();
    ASSERT_LE(about, size);
    ASSERT_GE(about + about / 8, size);
  }
}

TEST(Place, knows_the_state_of_its_record) {
  for (const State state : {State::started, State::succeeded, State::failed, State::unknown, State::tombstone}) {
    const Place place(SegmentOrdinal{77}, 4096, 300, state);
    EXPECT_EQ(place.state(), state);
    EXPECT_EQ(place.offset(), 4096U);
    EXPECT_EQ(place.about_size(), Place(SegmentOrdinal{77}, 4096, 300).about_size());
    EXPECT_LT(place, Place(SegmentOrdinal{77}, 4104, 16));
  }
}

TEST(ExpirySecond, is_never_before_the_time_itself) {
  for (const std::int64_t at : {1LL, 999LL, 1000LL, 1001LL, 1'767'225'600'123LL}) {
    const ExpirySecond expiry = expiry_second(Time(Duration(at)));
    EXPECT_FALSE(has_passed(expiry, Time(Duration(at - 1))));
    EXPECT_TRUE(has_passed(expiry, Time(Duration(at + 999))));
  }
  EXPECT_TRUE(has_passed(removed_already, Time(Duration(1))));
  EXPECT_FALSE(has_passed(never_expires, Time::max()));
  EXPECT_NE(expiry_second(Time::max()), never_expires);
  EXPECT_NE(expiry_second(Time::min()), removed_already);
}

// Ids that all want to be in the last few slots, so that many are pushed around the end; or anywhere.
OperationId id_of(std::uint64_t number, bool crowded) {
  OperationId id;
  Draw draw(number);
  for (std::uint8_t& byte : id.bytes) byte = static_cast<std::uint8_t>(draw.next());
  if (crowded) id.bytes[3] = id.bytes[2] = 0xff;
  return id;
}

class SlotTableTest : public testing::TestWithParam<bool> {};

TEST_P(SlotTableTest, is_like_a_map) {
  const bool crowded = GetParam();
  SlotTable table;
  std::map<OperationId, Place> map;
  Draw draw(1);
  for (std::uint64_t step = 0; step < 20'000; ++step) {
    const std::uint64_t most = crowded ? 150 : 2000;
    const OperationId id = id_of(draw.below(most), crowded);
    const Place place(SegmentOrdinal{1}, 64 + step * 8, 120);
    SlotTable::Slot* slot = table.find(id);
    ASSERT_EQ(slot != nullptr, map.contains(id));
    if (slot != nullptr) ASSERT_EQ(slot->place, map[id]);
    const bool shrinks = step / 5000 % 2 == 1;
    if (slot != nullptr && draw.below(10) < (shrinks ? 8U : 3U)) {
      table.erase(*slot);
      map.erase(id);
    } else if (slot == nullptr && !(shrinks && draw.one_in(2))) {
      const std::size_t before = table.bytes();
      const std::size_t growth = table.growth();
      ASSERT_EQ(table.insert(id, ExpirySecond{7}, place).place, place);
      ASSERT_EQ(table.bytes(), before + growth);
      map[id] = place;
    }
    if (draw.one_in(500)) table.give_back_memory();
    ASSERT_EQ(table.used(), map.size());
  }
  std::size_t seen = 0;
  for (std::size_t i = 0; i < table.size(); ++i) seen += table.at(i).place.empty() ? 0 : 1;
  EXPECT_EQ(seen, map.size());
  for (const auto& [id, place] : map) {
    ASSERT_NE(table.find(id), nullptr);
    EXPECT_EQ(table.find(id)->place, place);
  }
}

INSTANTIATE_TEST_SUITE_P(Ids, SlotTableTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "crowded" : "anywhere"; });

// As the sweep does it: a slot that was emptied is looked at again, as another may have moved into it.
TEST(SlotTable, nobody_is_missed_when_all_are_erased_in_one_pass) {
  for (const bool crowded : {false, true}) {
    SlotTable table;
    for (std::uint64_t i = 0; i < 500; ++i) {
      table.insert(id_of(i, crowded), ExpirySecond{i % 3 == 0 ? 9U : 1U}, Place(SegmentOrdinal{1}, 64 + i * 8, 120));
    }
    for (std::size_t i = 0; i < table.size();) {
      SlotTable::Slot& slot = table.at(i);
      if (!slot.place.empty() && slot.expires == ExpirySecond{1}) {
        table.erase(slot);
      } else {
        ++i;
      }
    }
    EXPECT_EQ(table.used(), 167U);
    for (std::uint64_t i = 0; i < 500; ++i) EXPECT_EQ(table.find(id_of(i, crowded)) != nullptr, i % 3 == 0);
  }
}

// As a scan for operators goes: range by range, while keys come and go.
TEST(SlotTable, ranges_of_ids_together_show_each_slot_once) {
  constexpr std::uint64_t end = std::uint64_t{1} << 32U;
  for (const bool crowded : {false, true}) {
    SlotTable table;
    for (std::uint64_t i = 0; i < 500; ++i) {
      table.insert(id_of(i, crowded), {}, Place(SegmentOrdinal{1}, 64 + i * 8, 120, State::unknown));
    }
    std::map<Place, int> seen;
    std::uint64_t others = 500;
    for (std::uint64_t from = 0; from < end;) {
      const std::uint64_t to =
          crowded && from >= end - (end >> 12U) ? from + (end >> 18U) : std::min(end, from + (end >> 6U));
      table.visit(from, to, [&](std::uint64_t bits, const SlotTable::Slot& slot) {
        EXPECT_TRUE(bits >= from && bits < to);
        if (slot.place.state() == State::unknown) ++seen[slot.place];
      });
      from = to;
      for (int i = 0; i < 5; ++i) table.insert(id_of(others++, crowded), {}, Place(SegmentOrdinal{2}, 64, 120));
    }
    EXPECT_EQ(seen.size(), 500U);
    for (const auto& [place, times] : seen) EXPECT_EQ(times, 1);
  }
}

TEST(SlotTable, gives_memory_back_and_grows_again) {
  SlotTable table;
  const std::size_t least = table.bytes();
  for (int rounds = 0; rounds < 3; ++rounds) {
    for (std::uint64_t i = 0; i < 1000; ++i) table.insert(id_of(i, false), {}, Place(SegmentOrdinal{1}, 64, 120));
    EXPECT_LE(table.bytes(), 1000 * 48U) << "a key costs at most 48 bytes";
    for (std::uint64_t i = 0; i < 1000; ++i) table.erase(*table.find(id_of(i, false)));
    table.give_back_memory();
    EXPECT_EQ(table.bytes(), least);
  }
}

}  // namespace slot_table_test
}  // namespace once::journal
