// A broken invariant of one connection ends that connection, and nothing else.
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "http/buffer.hpp"
#include "http/socket.hpp"
#include "tests/unit/http/loop_run.hpp"

namespace once::http::socket_fault_test {

class SocketFaultTest : public testing::Test, private FaultListener, private Socket::Watcher {
 protected:
  SocketFaultTest() {
    run.loop.listen(static_cast<FaultListener&>(*this));
    const Pair pair = tcp_pair();
    near = std::make_unique<Socket>(run.loop, pair.near);
    far = std::make_unique<Socket>(run.loop, pair.far);
  }

  Task<void> read(Socket& socket, std::span<char> room, IoResult& result) {
    result = co_await socket.read_some(room, long_enough);
  }
  Task<void> write(Socket& socket, std::string_view bytes, IoResult& result) {
    result = co_await socket.write_all(bytes, long_enough);
  }
  // The peer must not take what it got for the whole.
  Task<void> close_and_look() {
    near.reset();
    while (seen_by_peer.status == Io::ok) seen_by_peer = co_await far->read_some(other_room, long_enough);
  }
  void peer_moved(Socket::Peer) override {}
  Socket::Watcher& watcher() { return *this; }

  LoopRun run;
  std::unique_ptr<Socket> near;
  std::unique_ptr<Socket> far;
  std::array<char, 100> room{};
  std::array<char, 100> other_room{};
  IoResult first{Io::ok, 0};
  IoResult second{Io::ok, 0};
  IoResult later{Io::ok, 0};
  IoResult seen_by_peer{Io::ok, 0};
  std::vector<std::string> faults;

 private:
  void connection_fault(const ConnectionFault& fault) override { faults.emplace_back(fault.invariant); }
};

TEST_F(SocketFaultTest, a_second_reader_ends_the_connection) {
  run.start(read(*near, room, first));
  run.start(read(*near, other_room, second));
  EXPECT_EQ(second.status, Io::failed) << "at once";
  near->restore();
  run.play(write(*near, "not this", later));
  EXPECT_EQ(first.status, Io::cancelled) << "the one that was there before";
  EXPECT_EQ(later.status, Io::failed) << "for good";
  EXPECT_EQ(faults.size(), 1U);
}

TEST_F(SocketFaultTest, the_peer_sees_a_reset) {
  run.play(read(*near, {}, first), close_and_look());
  EXPECT_EQ(first.status, Io::failed) << "there was no room";
  EXPECT_EQ(seen_by_peer.status, Io::failed);
  EXPECT_EQ(faults.size(), 1U);
}

TEST_F(SocketFaultTest, a_second_writer_ends_the_connection) {
  const std::string large(std::size_t{64} << 20U, 'x');
  run.play(write(*near, large, first), write(*near, "y", second));
  EXPECT_EQ(first.status, Io::cancelled);
  EXPECT_LT(first.bytes, large.size());
  EXPECT_EQ(second.status, Io::failed);
  EXPECT_EQ(second.bytes, 0U);
  EXPECT_EQ(faults.size(), 1U);
}

TEST_F(SocketFaultTest, a_second_watcher_is_told_that_the_peer_is_gone) {
  EXPECT_EQ(near->watch(watcher()), std::nullopt);
  EXPECT_EQ(near->watch(watcher()), Socket::Peer::gone);
  run.play(read(*near, room, first));
  EXPECT_EQ(first.status, Io::failed);
  EXPECT_EQ(faults.size(), 1U);
}

TEST_F(SocketFaultTest, a_broken_buffer_ends_the_connection) {
  Buffer buffer;
  buffer.grow(16);
  buffer.commit(4);
  buffer.consume(5);
  EXPECT_TRUE(buffer.empty());
  for (const bool again : {false, true}) {
    EXPECT_TRUE(buffer.room().empty()) << again;
    buffer.rewind();
    buffer.clear();
    buffer.unpin();
    buffer.release();
    buffer.grow(32);
    EXPECT_TRUE(buffer.empty());
  }
  run.play(read(*near, buffer.room(), first));
  EXPECT_EQ(first.status, Io::failed);
  EXPECT_EQ(faults.size(), 1U);
}

}  // namespace once::http::socket_fault_test
