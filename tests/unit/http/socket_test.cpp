// Sockets on a loop: whole transfers, time limits, ends of every kind, and sockets that go away in the middle of it.
#include "http/socket.hpp"

#include <memory>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "tests/unit/http/loop_run.hpp"

namespace once::http::socket_test {

using namespace std::chrono_literals;

class SocketTest : public testing::Test {
 protected:
  void connect(const Pair& pair) {
    near = std::make_unique<Socket>(run.loop, pair.near);
    far = std::make_unique<Socket>(run.loop, pair.far);
  }

  static Task<void> read(Socket& socket, Duration limit, IoResult& result, std::string& bytes) {
    std::array<char, 100> room{};
    result = co_await socket.read_some(room, limit);
    bytes.assign(room.data(), result.bytes);
  }
  static Task<void> write(Socket& socket, std::string_view bytes, Duration limit, IoResult& result) {
    result = co_await socket.write_all(bytes, limit);
  }
  static Task<void> read_to_the_end(Socket& socket, std::string& bytes) {
    std::array<char, 1500> room{};
    while (true) {
      const IoResult got = co_await socket.read_some(room, long_enough);
      if (got.status == Io::end) co_return;
      EXPECT_EQ(got.status, Io::ok);
      if (got.status != Io::ok) co_return;
      bytes.append(room.data(), got.bytes);
    }
  }

  LoopRun run;
  std::unique_ptr<Socket> near;
  std::unique_ptr<Socket> far;
  IoResult result{Io::failed, 0};
  IoResult other{Io::failed, 0};
  std::string bytes;
};

TEST_F(SocketTest, a_read_waits_for_bytes_and_gives_what_is_there) {
  connect(local_pair());
  run.play(read(*near, long_enough, result, bytes), write(*far, "hello", long_enough, other));
  EXPECT_EQ(result.status, Io::ok);
  EXPECT_EQ(bytes, "hello");
  EXPECT_EQ(other.bytes, 5U);
}

TEST_F(SocketTest, a_large_write_in_pieces_arrives_whole_and_in_order) {
  for (const bool tcp : {false, true}) {
    LoopRun fresh;
    const Pair pair = tcp ? tcp_pair() : local_pair();
    shrink_send_buffer(pair);
    auto writer = std::make_unique<Socket>(fresh.loop, pair.near);
    Socket reader(fresh.loop, pair.far);
    const std::string head(100'000, 'h');
    const std::string body(700'000, 'b');
    const auto write_pieces = [](std::unique_ptr<Socket>& socket, std::string_view one, std::string_view two,
                                 IoResult& sent) -> Task<void> {
      const WriteAll::Pieces pieces = {one, "", two, "end"};
      sent = co_await socket->write_all(pieces, long_enough);
      socket.reset();
    };
    std::string got;
    IoResult sent{Io::failed, 0};
    fresh.play(write_pieces(writer, head, body, sent), read_to_the_end(reader, got));
    EXPECT_EQ(sent.status, Io::ok);
    EXPECT_EQ(sent.bytes, head.size() + body.size() + 3);
    EXPECT_EQ(got, head + body + "end");
  }
}

TEST_F(SocketTest, a_write_of_nothing_is_done) {
  connect(local_pair());
  run.play(write(*near, "", long_enough, result));
  EXPECT_EQ(result.status, Io::ok);
  EXPECT_EQ(result.bytes, 0U);
}

TEST_F(SocketTest, a_read_gives_up_at_its_limit_and_not_before) {
  connect(local_pair());
  const auto before = monotonic_now();
  run.play(read(*near, 30ms, result, bytes));
  EXPECT_EQ(result.status, Io::timed_out);
  EXPECT_GE(monotonic_now() - before, 30ms);
}

TEST_F(SocketTest, a_write_that_gives_up_says_how_much_went_out) {
  const Pair pair = local_pair();
  shrink_send_buffer(pair);
  connect(pair);
  const std::string large(1'000'000, 'x');
  run.play(write(*near, large, 30ms, result));
  EXPECT_EQ(result.status, Io::timed_out);
  EXPECT_GT(result.bytes, 0U);
  EXPECT_LT(result.bytes, large.size());
  std::string arrived(large.size(), '-');
  std::size_t size = 0;
  while (true) {
    const ssize_t got = ::recv(pair.far, arrived.data() + size, arrived.size() - size, 0);
    if (got <= 0) break;
    size += static_cast<std::size_t>(got);
  }
  EXPECT_EQ(size, result.bytes);
}

TEST_F(SocketTest, bytes_before_the_end_are_read_before_the_end_is) {
  connect(tcp_pair());
  const auto write_and_end = [](Socket& socket) -> Task<void> {
    co_await socket.write_all("last words", long_enough);
    socket.shut_down_writing();
  };
  run.play(write_and_end(*far), read_to_the_end(*near, bytes));
  EXPECT_EQ(bytes, "last words");
}

TEST_F(SocketTest, a_reset_is_a_failure_for_the_reader_and_for_the_writer) {
  connect(tcp_pair());
  far->reset_on_close();
  run.start(read(*near, long_enough, result, bytes));
  far.reset();
  run.run();
  EXPECT_EQ(result.status, Io::failed);

  LoopRun fresh;
  const Pair pair = tcp_pair();
  shrink_send_buffer(pair);
  Socket writer(fresh.loop, pair.near);
  auto peer = std::make_unique<Socket>(fresh.loop, pair.far);
  const std::string large(2'000'000, 'x');
  fresh.start(write(writer, large, long_enough, other));
  peer->reset_on_close();
  peer.reset();
  fresh.run();
  EXPECT_EQ(other.status, Io::failed);
  EXPECT_LT(other.bytes, large.size());
}

TEST_F(SocketTest, a_reset_that_is_taken_back_is_an_end) {
  connect(tcp_pair());
  far->reset_on_close();
  far->end_on_close();
  run.start(read(*near, long_enough, result, bytes));
  far.reset();
  run.run();
  EXPECT_EQ(result.status, Io::end);
}

TEST_F(SocketTest, cancel_wakes_reader_and_writer_but_not_from_within) {
  const Pair pair = local_pair();
  shrink_send_buffer(pair);
  connect(pair);
  bool inside = false;
  const auto waits = [](Socket& socket, bool& in_cancel, IoResult& ended, bool writes) -> Task<void> {
    static const std::string large(1'000'000, 'x');
    std::array<char, 10> room{};
    if (writes) {
      ended = co_await socket.write_all(large, long_enough);
    } else {
      ended = co_await socket.read_some(room, long_enough);
    }
    EXPECT_FALSE(in_cancel);
  };
  run.start(waits(*near, inside, result, false));
  run.start(waits(*near, inside, other, true));
  inside = true;
  near->cancel();
  near->cancel();
  inside = false;
  run.run();
  EXPECT_EQ(result.status, Io::cancelled);
  EXPECT_EQ(other.status, Io::cancelled);
  EXPECT_GT(other.bytes, 0U);
}

TEST_F(SocketTest, what_comes_after_a_cancel_is_cancelled_until_it_is_restored) {
  connect(local_pair());
  const auto script = [](Socket& one, Socket& two) -> Task<void> {
    std::array<char, 10> room{};
    one.cancel();
    const IoResult read = co_await one.read_some(room, long_enough);
    EXPECT_EQ(read.status, Io::cancelled);
    const IoResult written = co_await one.write_all("x", long_enough);
    EXPECT_EQ(written.status, Io::cancelled);
    EXPECT_EQ(written.bytes, 0U);
    EXPECT_EQ(co_await one.readable(long_enough), Io::cancelled);
    EXPECT_EQ(co_await one.connected(long_enough), Io::cancelled);
    one.restore();
    co_await one.write_all("ping", long_enough);
    const IoResult got = co_await two.read_some(room, long_enough);
    EXPECT_EQ(std::string_view(room.data(), got.bytes), "ping");
    co_await two.write_all("pong", long_enough);
    const IoResult back = co_await one.read_some(room, long_enough);
    EXPECT_EQ(back.status, Io::ok);
  };
  run.play(script(*near, *far));
}

TEST_F(SocketTest, a_cancel_that_is_restored_at_once_wakes_nobody) {
  connect(local_pair());
  run.start(read(*near, 50ms, result, bytes));
  near->cancel();
  near->restore();
  run.run();
  EXPECT_EQ(result.status, Io::timed_out);
}

TEST_F(SocketTest, connecting_succeeds_or_is_refused) {
  const auto listeners = listen_on(*resolve_listener("127.0.0.1:0"), 1);
  ASSERT_TRUE(listeners.has_value());
  const Endpoint endpoint = bound_endpoint(listeners->front());
  const auto connects = [](Loop& loop, Endpoint to, Io& ended) -> Task<void> {
    const auto fd = start_connect(kernel_net(), to);
    EXPECT_TRUE(fd.has_value());
    Socket socket(loop, *fd);
    ended = co_await socket.connected(long_enough);
  };
  const auto accepts = [](Loop& loop, int fd) -> Task<void> {
    Socket listener(loop, fd);
    int accepted = listener.accept().fd;
    while (accepted < 0) {
      EXPECT_EQ(co_await listener.readable(long_enough), Io::ok);
      accepted = listener.accept().fd;
    }
    ::close(accepted);
  };
  Io ended = Io::cancelled;
  run.play(connects(run.loop, endpoint, ended), accepts(run.loop, listeners->front()));
  EXPECT_EQ(ended, Io::ok);

  // Nobody listens there any more.
  LoopRun fresh;
  fresh.play(connects(fresh.loop, endpoint, ended));
  EXPECT_EQ(ended, Io::failed);
}

// A peer that takes a little now and then is never silent, and far too slow.
TEST_F(SocketTest, a_peer_that_takes_too_little_is_given_up) {
  const Pair pair = local_pair();
  shrink_send_buffer(pair);
  connect(pair);
  near->set_least_rate(1'000'000'000);
  const std::string large(10'000'000, 'x');
  const auto trickle = [](Loop& loop, Socket& socket, const IoResult& written) -> Task<void> {
    std::array<char, 5000> room{};
    for (int i = 0; i < 1000 && written.status == Io::failed; ++i) {
      co_await sleep_for(loop, 5ms);
      const IoResult got = co_await socket.read_some(room, long_enough);
      if (got.status != Io::ok) co_return;
    }
  };
  run.play(write(*near, large, 100ms, result), trickle(run.loop, *far, result));
  EXPECT_EQ(result.status, Io::timed_out);
  EXPECT_GT(result.bytes, 0U);
  EXPECT_TRUE(near->write_timed_out());
}

}  // namespace once::http::socket_test
