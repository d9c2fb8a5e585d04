// Looking at what a peer has sent without taking it, and handing a connection to another socket.
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "http/socket.hpp"
#include "tests/unit/http/loop_run.hpp"

namespace once::http::socket_peek_test {

using namespace std::chrono_literals;

struct Peeks {
  std::vector<std::string> seen;
  Io end = Io::ok;
};

// Until nothing more comes, or for `most` bytes.
Task<void> peek(Socket& socket, std::size_t most, Duration limit, Peeks& peeks) {
  std::array<char, 100> room{};
  std::size_t seen = 0;
  while (seen < most) {
    const IoResult got = co_await socket.peek_more(room, seen, limit);
    peeks.end = got.status;
    if (got.status != Io::ok) co_return;
    EXPECT_GT(got.bytes, seen);
    seen = got.bytes;
    peeks.seen.emplace_back(room.data(), seen);
  }
}

Task<void> send_in_pieces(Loop& loop, std::unique_ptr<Socket>& socket, std::string_view bytes) {
  for (const char byte : bytes) {
    const std::string_view piece(&byte, 1);
    co_await socket->write_all(piece, long_enough);
    co_await sleep_for(loop, 2ms);
  }
}

Task<void> send_and_close(Loop& loop, std::unique_ptr<Socket>& socket, std::string_view bytes) {
  co_await send_in_pieces(loop, socket, bytes);
  socket.reset();
}

struct PeekTest : testing::Test {
  explicit PeekTest(const Pair& pair = tcp_pair())
      : near(std::make_unique<Socket>(run.loop, pair.near)), far(std::make_unique<Socket>(run.loop, pair.far)) {}

  LoopRun run;
  std::unique_ptr<Socket> near;
  std::unique_ptr<Socket> far;
  Peeks peeks;
};

TEST_F(PeekTest, each_look_has_everything_from_the_first_byte_on) {
  run.play(peek(*near, 3, long_enough, peeks), send_in_pieces(run.loop, far, "abc"));
  ASSERT_FALSE(peeks.seen.empty());
  EXPECT_EQ(peeks.seen.back(), "abc");
  for (const std::string& seen : peeks.seen) EXPECT_TRUE(std::string_view("abc").starts_with(seen)) << seen;
}

TEST_F(PeekTest, an_end_before_more_has_come_is_told) {
  run.play(peek(*near, 3, long_enough, peeks), send_and_close(run.loop, far, "ab"));
  EXPECT_EQ(peeks.end, Io::end);
}

TEST_F(PeekTest, what_was_seen_before_is_not_enough) {
  run.play(peek(*near, 3, 50ms, peeks), send_in_pieces(run.loop, far, "ab"));
  EXPECT_EQ(peeks.end, Io::timed_out);
  EXPECT_EQ(peeks.seen.back(), "ab");
}

Task<void> peek_and_hand_over(Loop& loop, std::unique_ptr<Socket>& socket, std::string& got) {
  Peeks peeks;
  co_await peek(*socket, 3, long_enough, peeks);
  const auto other = std::make_unique<Socket>(loop, socket->release());
  socket.reset();
  std::array<char, 3> room{};
  const IoResult read = co_await other->read_some(room, long_enough);
  got.assign(room.data(), read.bytes);
}

TEST_F(PeekTest, another_socket_reads_what_was_only_looked_at) {
  std::string got;
  run.play(peek_and_hand_over(run.loop, near, got), send_in_pieces(run.loop, far, "abc"));
  EXPECT_EQ(got, "abc");
}

}  // namespace once::http::socket_peek_test
