// The buffer of a connection: what is unread moves when it must, what is pinned never does.
#include "http/buffer.hpp"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace once::http::buffer_test {

void read_into(Buffer& buffer, std::string_view bytes) {
  const std::span<char> room = buffer.room();
  ASSERT_GE(room.size(), bytes.size());
  std::ranges::copy(bytes, room.begin());
  buffer.commit(bytes.size());
}

TEST(BufferTest, an_empty_buffer_has_no_room_until_it_grows) {
  Buffer buffer;
  EXPECT_TRUE(buffer.empty());
  EXPECT_TRUE(buffer.room().empty());
  buffer.grow(16);
  EXPECT_EQ(buffer.room().size(), 16U);
  buffer.grow(8);
  EXPECT_EQ(buffer.capacity(), 16U);
}

TEST(BufferTest, pinned_bytes_stay_where_they_are) {
  Buffer buffer;
  buffer.grow(8);
  read_into(buffer, "headbody");
  const std::string_view head = buffer.unread().substr(0, 4);
  buffer.pin(4);
  EXPECT_EQ(buffer.unread(), "body");
  buffer.consume(2);
  EXPECT_EQ(buffer.room().size(), 2U);
  read_into(buffer, "xy");
  EXPECT_EQ(buffer.unread(), "dyxy");
  EXPECT_EQ(head, "head");
  EXPECT_TRUE(buffer.room().empty());
  buffer.consume(4);
  EXPECT_EQ(buffer.room().size(), 4U);
  EXPECT_EQ(head, "head");
  buffer.unpin();
  EXPECT_EQ(buffer.room().size(), 8U);
}

TEST(BufferTest, the_next_request_moves_to_the_front) {
  Buffer buffer;
  buffer.grow(8);
  read_into(buffer, "onetwo");
  buffer.pin(3);
  buffer.unpin();
  EXPECT_EQ(buffer.unread(), "two");
  buffer.rewind();
  EXPECT_EQ(buffer.unread(), "two");
  EXPECT_EQ(buffer.room().size(), 5U);
  buffer.pin(3);
  EXPECT_TRUE(buffer.empty());
  buffer.clear();
  EXPECT_EQ(buffer.room().size(), 8U);
}

TEST(BufferTest, a_window_is_larger_for_as_long_as_the_head_is_pinned) {
  Windows windows;
  Buffer buffer;
  buffer.grow(8);
  read_into(buffer, "headbod");
  EXPECT_FALSE(buffer.filled());
  read_into(buffer, "y");
  EXPECT_TRUE(buffer.filled());
  const std::string_view head = buffer.unread().substr(0, 4);
  buffer.pin(4);
  EXPECT_TRUE(buffer.try_widen(windows));
  EXPECT_EQ(buffer.unread(), "body");
  EXPECT_EQ(buffer.room().size(), Windows::size - 4);
  read_into(buffer, std::string(Windows::size - 4, 'x'));
  EXPECT_EQ(head, "head");
  buffer.consume(Windows::size - 3);
  // The next request lies behind the body.
  buffer.unpin();
  EXPECT_EQ(buffer.unread(), "xxx");
  EXPECT_EQ(buffer.capacity(), 8U);
  EXPECT_EQ(windows.taken(), 0U);
}

TEST(BufferTest, a_window_is_given_back_however_the_buffer_ends) {
  Windows windows;
  for (const int end : {0, 1, 2, 3, 4}) {
    Buffer buffer;
    buffer.grow(8);
    EXPECT_TRUE(buffer.try_widen(windows));
    EXPECT_EQ(windows.taken(), 1U);
    read_into(buffer, "more than eight bytes");
    buffer.rewind();
    EXPECT_EQ(buffer.unread(), "more than eight bytes") << "which do not fit anywhere else";
    if (end == 0) buffer.clear();
    if (end == 1) buffer.release();
    if (end == 2) buffer.grow(2 * Windows::size);
    if (end == 3) buffer.commit(Windows::size);  // breaks it
    if (end != 3) EXPECT_EQ(windows.taken(), end == 4 ? 1U : 0U);
  }
  EXPECT_EQ(windows.taken(), 0U);
}

TEST(BufferTest, without_a_window_it_goes_on_as_it_is) {
  Windows windows;
  for (std::size_t i = 0; i < Windows::most; ++i) EXPECT_TRUE(windows.take());
  Buffer buffer;
  buffer.grow(8);
  read_into(buffer, "abcdefgh");
  EXPECT_FALSE(buffer.try_widen(windows));
  buffer.consume(3);
  EXPECT_EQ(buffer.room().size(), 3U);
}

// The memory stays, for whoever still looks at the head.
void expect_broken(Buffer& buffer, std::string_view pinned) {
  buffer.rewind();
  buffer.grow(100);
  EXPECT_TRUE(buffer.empty());
  EXPECT_TRUE(buffer.room().empty());
  EXPECT_EQ(pinned, "ab");
}

TEST(BufferTest, misuse_breaks_it_for_good) {
  for (const int misuse : {0, 1, 2, 3}) {
    Buffer buffer;
    buffer.grow(4);
    read_into(buffer, "abcd");
    const std::string_view head = buffer.unread().substr(0, 2);
    buffer.pin(2);
    if (misuse == 0) buffer.consume(3);
    if (misuse == 1) buffer.commit(1);
    if (misuse == 2) buffer.pin(1);
    if (misuse == 3) buffer.grow(8);
    expect_broken(buffer, head);
  }
}

// Against a plain string, in any order of calls that the contract allows.
RC_GTEST_PROP(BufferProperty, behaves_as_a_queue_behind_a_pinned_head, ()) {
  Windows windows;
  Buffer buffer;
  std::string pinned;
  std::string unread;
  const char* pinned_at = nullptr;
  buffer.grow(*rc::gen::inRange<std::size_t>(1, 40));
  char next = 'a';
  for (int steps = *rc::gen::inRange(0, 80); steps > 0; --steps) {
    switch (*rc::gen::inRange(0, 7)) {
      case 0:
      case 1: {
        const std::span<char> room = buffer.room();
        const auto size = *rc::gen::inRange<std::size_t>(0, room.size() + 1);
        for (char& c : room.first(size)) unread.push_back(c = next = next == 'z' ? 'a' : static_cast<char>(next + 1));
        buffer.commit(size);
        break;
      }
      case 2: {
        const auto size = *rc::gen::inRange<std::size_t>(0, unread.size() + 1);
        buffer.consume(size);
        unread.erase(0, size);
        break;
      }
      case 3:
        if (pinned.empty()) {
          buffer.rewind();
          const auto size = *rc::gen::inRange<std::size_t>(0, unread.size() + 1);
          pinned_at = buffer.unread().data();
          buffer.pin(size);
          pinned = unread.substr(0, size);
          unread.erase(0, size);
        }
        break;
      case 4:
        buffer.unpin();
        pinned.clear();
        break;
      case 5: RC_ASSERT(buffer.try_widen(windows)); break;
      default:
        if (pinned.empty()) {
          buffer.unpin();
          buffer.grow(*rc::gen::inRange<std::size_t>(1, 80));
        }
        break;
    }
    RC_ASSERT(buffer.unread() == unread);
    RC_ASSERT(buffer.empty() == unread.empty());
    if (!pinned.empty()) RC_ASSERT(std::string_view(pinned_at, pinned.size()) == pinned);
    // Without room it is really full.
    if (buffer.room().empty()) RC_ASSERT(pinned.size() + unread.size() >= buffer.capacity());
  }
}

}  // namespace once::http::buffer_test
