// A socket's peer while nobody reads, and sockets that are destroyed while events for them are on their way.
#include <memory>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "http/socket.hpp"
#include "tests/unit/http/loop_run.hpp"

namespace once::http::socket_watch_test {

using namespace std::chrono_literals;
using Peer = Socket::Peer;

// Writes down what it is told, and ends the wait.
struct Noted final : Socket::Watcher {
  explicit Noted(Loop& on, bool stop = true) : loop(on), stops(stop) {}
  void peer_moved(Peer what) override {
    ++times;
    told = what;
    if (stops) loop.stop();
  }
  Loop& loop;
  const bool stops;
  std::optional<Peer> told;
  int times = 0;
};

// Lets the loop run until it has fetched whatever the kernel has to say by now.
Task<void> look_around(Loop& loop) {
  co_await sleep_for(loop, 20ms);
}

void make_move(Peer what, int fd) {
  switch (what) {
    case Peer::bytes: ASSERT_EQ(::send(fd, "x", 1, 0), 1); break;
    case Peer::end: ::shutdown(fd, SHUT_WR); break;
    case Peer::gone: {
      const linger reset{.l_onoff = 1, .l_linger = 0};
      ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
      ::close(fd);
      break;
    }
  }
}

// One end of a connection is ours, the other one moves.
struct WatchedPair {
  explicit WatchedPair(const Pair& pair) : socket(run.loop, pair.near), far(pair.far) {}
  ~WatchedPair() { ::close(far); }

  LoopRun run;
  Socket socket;
  int far;
};

class SocketWatch : public testing::TestWithParam<Peer> {
 protected:
  void move() {
    make_move(GetParam(), pair.far);
    if (GetParam() == Peer::gone) pair.far = -1;
  }

  WatchedPair pair{tcp_pair()};
};
INSTANTIATE_TEST_SUITE_P(Moves, SocketWatch, testing::Values(Peer::bytes, Peer::end, Peer::gone));

TEST_P(SocketWatch, the_watcher_is_told_once_what_the_peer_did) {
  Noted noted(pair.run.loop);
  EXPECT_EQ(pair.socket.watch(noted), std::nullopt);
  move();
  pair.run.loop.run();
  EXPECT_EQ(noted.told, GetParam());
  EXPECT_EQ(noted.times, 1);
}

TEST_P(SocketWatch, what_already_happened_is_said_at_once) {
  move();
  const auto look_then_watch = [](Socket& watched, Loop& loop, Peer expected) -> Task<void> {
    co_await look_around(loop);
    Noted noted(loop);
    EXPECT_EQ(watched.watch(noted), expected);
    EXPECT_EQ(noted.times, 0);
  };
  pair.run.play(look_then_watch(pair.socket, pair.run.loop, GetParam()));
}

TEST_P(SocketWatch, a_connection_whose_peer_moved_is_not_quiet) {
  EXPECT_TRUE(pair.socket.quiet());
  EXPECT_FALSE(pair.socket.disturbed());
  move();
  pair.run.play(look_around(pair.run.loop));
  EXPECT_TRUE(pair.socket.disturbed());
  EXPECT_FALSE(pair.socket.quiet());
}

struct SocketWatchTest : testing::Test {
  WatchedPair pair{local_pair()};
  Noted noted{pair.run.loop, false};
};

TEST_F(SocketWatchTest, what_happens_after_the_first_move_is_not_told) {
  pair.socket.watch(noted);
  const auto moves_twice = [](Loop& loop, int fd) -> Task<void> {
    make_move(Peer::bytes, fd);
    co_await look_around(loop);
    make_move(Peer::bytes, fd);
    co_await look_around(loop);
  };
  pair.run.play(moves_twice(pair.run.loop, pair.far));
  EXPECT_EQ(noted.times, 1);
}

TEST_F(SocketWatchTest, who_stopped_watching_is_told_nothing) {
  pair.socket.watch(noted);
  pair.socket.unwatch();
  make_move(Peer::bytes, pair.far);
  pair.run.play(look_around(pair.run.loop));
  EXPECT_EQ(noted.times, 0);
}

TEST_F(SocketWatchTest, nothing_is_taken_from_the_reader_by_watching) {
  pair.socket.watch(noted);
  make_move(Peer::bytes, pair.far);
  const auto looks_then_reads = [](Socket& watched, Noted& watcher) -> Task<void> {
    std::array<char, 10> room{};
    const IoResult got = co_await watched.read_some(room, long_enough);
    EXPECT_EQ(got.bytes, 1U);
    EXPECT_EQ(watcher.times, 0);  // whoever reads sees it for himself
  };
  pair.run.play(looks_then_reads(pair.socket, noted));
}

// Both sockets are ready in the same batch of events; whoever comes first destroys the other one.
TEST(SocketLifetime, a_socket_destroyed_by_another_ones_coroutine_hears_nothing_any_more) {
  LoopRun run;
  const Pair one = local_pair();
  const Pair two = local_pair();
  auto first = std::make_unique<Socket>(run.loop, one.near);
  auto second = std::make_unique<Socket>(run.loop, two.near);
  make_move(Peer::bytes, one.far);
  make_move(Peer::bytes, two.far);
  const auto reads = [](std::unique_ptr<Socket>& mine, std::unique_ptr<Socket>& others) -> Task<void> {
    std::array<char, 10> room{};
    co_await mine->read_some(room, long_enough);
    others.reset();
    mine.reset();
  };
  run.play(reads(first, second));
  ::close(one.far);
  ::close(two.far);
}

TEST(SocketLifetime, a_descriptor_used_again_within_a_batch_does_not_inherit_events) {
  LoopRun run;
  const Pair one = local_pair();
  const Pair two = local_pair();
  const Pair three = local_pair();
  auto first = std::make_unique<Socket>(run.loop, one.near);
  auto second = std::make_unique<Socket>(run.loop, two.near);
  make_move(Peer::bytes, one.far);
  make_move(Peer::bytes, two.far);
  const auto replaces = [](Loop& loop, Socket& mine, std::unique_ptr<Socket>& others, int fd) -> Task<void> {
    std::array<char, 10> room{};
    co_await mine.read_some(room, long_enough);
    others.reset();
    others = std::make_unique<Socket>(loop, fd);
    EXPECT_FALSE(others->disturbed());
    const IoResult got = co_await others->read_some(room, 20ms);
    EXPECT_EQ(got.status, Io::timed_out);
  };
  run.play(replaces(run.loop, *first, second, three.near));
  for (const int fd : {one.far, two.far, three.far}) ::close(fd);
}

TEST(SocketLifetime, reader_and_writer_of_one_socket_wake_from_one_event_and_the_last_destroys_it) {
  for (const bool reset : {false, true}) {
    LoopRun run;
    const Pair pair = tcp_pair();
    shrink_send_buffer(pair);
    auto socket = std::make_unique<Socket>(run.loop, pair.near);
    int waiting = 2;
    const auto reads = [](std::unique_ptr<Socket>& shared, int& left) -> Task<void> {
      std::array<char, 10> room{};
      const IoResult got = co_await shared->read_some(room, long_enough);
      EXPECT_NE(got.status, Io::timed_out);
      if (--left == 0) shared.reset();
    };
    const auto writes = [](std::unique_ptr<Socket>& shared, int& left) -> Task<void> {
      static const std::string large(4'000'000, 'x');
      const IoResult sent = co_await shared->write_all(large, long_enough);
      EXPECT_EQ(sent.status, Io::failed);
      if (--left == 0) shared.reset();
    };
    run.start(reads(socket, waiting));
    run.start(writes(socket, waiting));
    if (reset) {
      make_move(Peer::gone, pair.far);
    } else {
      ::close(pair.far);  // with unread bytes: a reset as well, after an end for some
    }
    run.run();
    EXPECT_EQ(socket, nullptr);
  }
}

TEST(SocketLifetime, a_socket_may_be_destroyed_by_the_coroutine_that_its_own_cancel_woke) {
  LoopRun run;
  const Pair pair = local_pair();
  auto socket = std::make_unique<Socket>(run.loop, pair.near);
  const auto reads = [](std::unique_ptr<Socket>& mine) -> Task<void> {
    std::array<char, 10> room{};
    const IoResult got = co_await mine->read_some(room, long_enough);
    EXPECT_EQ(got.status, Io::cancelled);
    mine.reset();
  };
  run.start(reads(socket));
  socket->cancel();
  run.run();
  ::close(pair.far);
}

TEST(SocketLifetime, destroying_a_cancelled_socket_that_nobody_waits_on_forgets_the_cancel) {
  LoopRun run;
  const Pair pair = local_pair();
  auto socket = std::make_unique<Socket>(run.loop, pair.near);
  socket->cancel();
  socket.reset();
  run.play(look_around(run.loop));
  ::close(pair.far);
}

}  // namespace once::http::socket_watch_test
