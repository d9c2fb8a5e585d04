// What all keyed requests take together.
#include "gateway/limits/usage.hpp"

#include <vector>

#include <gtest/gtest.h>

#include "gateway/connection/client_io.hpp"
#include "gateway/limits/address_limit.hpp"
#include "gateway/limits/reader_memory.hpp"

namespace once::gateway::usage_test {

using namespace std::chrono_literals;

TEST(LoadTest, requests_at_work) {
  Usage usage;
  {
    const Usage::Share first = usage.begin(2);
    Usage::Share second = usage.begin(2);
    EXPECT_TRUE(first && second);
    EXPECT_FALSE(usage.begin(2));
    second = Usage::Share();
    EXPECT_TRUE(usage.begin(2));
  }
  EXPECT_EQ(usage.in_flight, 0U);
}

TEST(LoadTest, a_body_is_counted_as_it_comes_and_until_its_memory_is_given_back) {
  Usage usage;
  constexpr std::size_t most = 1'000'000;
  {
    HeldBody body(usage);
    EXPECT_TRUE(body.may_take(most, most));
    EXPECT_FALSE(body.may_take(most + 1, most));
    EXPECT_EQ(usage.body_bytes, 0U);  // announcing costs nothing
    const std::string piece(50'000, 'x');
    for (int i = 0; i < 6; ++i) EXPECT_EQ(body.append(piece, 300'000, most), Reserved::yes);
    EXPECT_EQ(body.size(), 300'000U);
    EXPECT_GE(usage.body_bytes, 300'000U);
    EXPECT_LE(usage.body_bytes, 400'000U);

    HeldBody other(usage);
    EXPECT_FALSE(other.may_take(700'001, most));
    EXPECT_EQ(other.append(std::string(700'001, 'y'), 0, most), Reserved::no);
    EXPECT_EQ(other.size(), 0U);

    body.clear();
    EXPECT_EQ(usage.body_bytes, 0U);  // a large one keeps nothing
    EXPECT_EQ(body.append(piece.substr(0, 1000), 0, most), Reserved::yes);
    body.clear();
    EXPECT_GT(usage.body_bytes, 0U);
    EXPECT_LE(usage.body_bytes, 65'536U);
  }
  EXPECT_EQ(usage.body_bytes, 0U);
}

TEST(LoadTest, all_of_the_memory_can_be_taken_and_not_a_byte_more) {
  Usage usage;
  EXPECT_EQ(usage.take(HeldFor::response, 101, 100), Reserved::no);
  EXPECT_EQ(usage.take(HeldFor::response, 60, 100), Reserved::yes);
  EXPECT_EQ(usage.take(HeldFor::replay, 41, 100), Reserved::no);
  EXPECT_EQ(usage.take(HeldFor::replay, 40, 100), Reserved::yes);
  EXPECT_EQ(usage.take(HeldFor::tag, 1, 100), Reserved::no);
  EXPECT_EQ(usage.body_bytes, 100U);
}

TEST(PaceTest, a_client_has_the_grace_and_what_it_earned) {
  Pace pace{.least_rate = 100, .grace = 1s};
  EXPECT_EQ(pace.left(), 1s);
  pace.waited = 400ms;
  EXPECT_EQ(pace.left(), 600ms);
  pace.bytes = 20;  // 200 ms
  EXPECT_EQ(pace.left(), 800ms);
  pace.bytes = 1'000'000;
  EXPECT_EQ(pace.left(), 1s);  // never longer silent than the grace
  pace.waited = 2h;
  pace.bytes = 100;
  EXPECT_EQ(pace.left(), 0s);
  pace.least_rate = 0;
  EXPECT_EQ(pace.left(), 1s);
}

TEST(ReaderMemoryTest, one_callers_readers_leave_as_much_for_the_others) {
  constexpr std::size_t most = 1600;  // of which readers may hold 800
  Usage usage;
  ReaderMemory memory(usage);
  const TenantTag one{'a'};
  const TenantTag other{'b'};
  std::vector<ReaderMemory::Room> rooms;
  while (auto room = memory.take(one, 100, most)) rooms.push_back(*std::move(room));
  EXPECT_EQ(rooms.size(), 4U);
  EXPECT_TRUE(memory.take(other, 100, most));
  while (auto room = memory.take(other, 100, most)) rooms.push_back(*std::move(room));
  EXPECT_EQ(rooms.size(), 6U);
  EXPECT_TRUE(memory.take({'c'}, 100, most));
  EXPECT_EQ(usage.body_bytes, 600U);
  rooms.clear();
  EXPECT_EQ(usage.body_bytes, 0U);
}

TEST(ReaderMemoryTest, readers_leave_room_to_record) {
  Usage usage;
  ReaderMemory memory(usage);
  ASSERT_EQ(usage.take(HeldFor::request, 1600, 1600), Reserved::yes);
  std::vector<ReaderMemory::Room> rooms;
  for (char caller = 'a'; auto room = memory.take({caller}, 100, 1600); ++caller) rooms.push_back(*std::move(room));
  EXPECT_EQ(rooms.size(), 2U);
  EXPECT_EQ(usage.take(HeldFor::response, 200, 2000), Reserved::yes);
}

// However little there may be, one reads at a time.
TEST(ReaderMemoryTest, one_reader_always_finds_room_among_readers) {
  Usage usage;
  ReaderMemory memory(usage);
  const auto room = memory.take({'a'}, 1000, 1000);
  EXPECT_TRUE(room);
  EXPECT_FALSE(memory.take({'b'}, 1000, 1000));
}

http::PeerNetwork network(std::uint8_t last) {
  http::PeerNetwork made;
  made.bytes[15] = last;
  return made;
}

TEST(AddressLimitTest, connections_are_counted_for_each_network) {
  AddressTable table;
  AddressTable::Share first = table.enter(network(1), 2);
  const AddressTable::Share second = table.enter(network(1), 2);
  EXPECT_TRUE(first && second);
  EXPECT_FALSE(table.enter(network(1), 2));
  EXPECT_TRUE(table.enter(network(2), 2));
  EXPECT_EQ(second.count(), 2U);
  first = AddressTable::Share();
  EXPECT_EQ(first.count(), 0U);
  EXPECT_EQ(second.count(), 1U);
  EXPECT_TRUE(table.enter(network(1), 2));
}

TEST(AddressLimitTest, a_client_that_left_is_no_connection_any_more) {
  AddressTable table;
  {
    AddressTable::Share left = table.enter(network(1), 1);
    left.client_left();
    left.client_left();
    AddressTable::Share moved = std::move(left);
    const AddressTable::Share next = table.enter(network(1), 1);
    EXPECT_TRUE(next);
    EXPECT_EQ(next.count(), 1U);
    EXPECT_EQ(next.left(), 1U);
    moved = AddressTable::Share();
    EXPECT_EQ(next.left(), 0U);
  }
  EXPECT_TRUE(table.enter(network(1), 1));
}

}  // namespace once::gateway::usage_test
