// Whoever always finds its socket ready gives the loop back all the same.
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "http/socket.hpp"
#include "tests/unit/http/loop_run.hpp"

namespace once::http::socket_turn_test {

constexpr std::size_t many = 100 * most_steps_at_once;
constexpr std::size_t few = 16 * most_steps_at_once;  // each event of a turn brings a budget of its own

class SocketTurnTest : public testing::Test {
 protected:
  SocketTurnTest() {
    const Pair pair = local_pair();
    near = std::make_unique<Socket>(run.loop, pair.near);
    far = std::make_unique<Socket>(run.loop, pair.far);
    const Pair second = local_pair();
    other_near = std::make_unique<Socket>(run.loop, second.near);
    other_far = std::make_unique<Socket>(run.loop, second.far);
  }

  // Somebody else, whose bytes come while the loop is busy.
  Task<void> other_reads() {
    std::array<char, 10> room{};
    const IoResult got = co_await other_far->read_some(room, long_enough);
    EXPECT_EQ(got.status, Io::ok);
    other_served = true;
  }
  Task<void> other_writes() { co_await other_near->write_all("me too", long_enough); }

  // Every write and every read of this one succeeds at once.
  Task<void> echo_to_itself() {
    std::string room(piece.size(), '\0');
    while (steps < many && !other_served) {
      const IoResult sent = co_await near->write_all(piece, long_enough);
      const IoResult got = co_await far->read_some(room, long_enough);
      if (sent.status != Io::ok || got.status != Io::ok) co_return;
      steps += 2;
      if (steps == 4) co_await other_writes();
    }
  }

  void use_up_budget() {
    while (!run.loop.spent()) run.loop.spend(0);
  }
  Task<void> read_when_spent(Duration limit) {
    std::array<char, 10> room{};
    co_await near->write_all("hello", long_enough);
    co_await far->readable(long_enough);
    use_up_budget();
    got = co_await far->read_some(room, limit);
  }
  Task<void> cancel_when_spent() {
    std::array<char, 10> room{};
    use_up_budget();
    far->cancel();
    got = co_await far->read_some(room, long_enough);
    far.reset();  // with nothing left of it on the loop
  }

  LoopRun run;
  std::unique_ptr<Socket> near;
  std::unique_ptr<Socket> far;
  std::unique_ptr<Socket> other_near;
  std::unique_ptr<Socket> other_far;
  std::string piece = "x";
  IoResult got{Io::failed, 0};
  std::size_t steps = 0;
  bool other_served = false;
};

TEST_F(SocketTurnTest, small_steps) {
  run.play(other_reads(), echo_to_itself());
  EXPECT_TRUE(other_served);
  EXPECT_LT(steps, few);
}

TEST_F(SocketTurnTest, large_steps) {
  piece.assign(std::size_t{16} << 10U, 'x');
  run.play(other_reads(), echo_to_itself());
  EXPECT_TRUE(other_served);
  EXPECT_LT(steps, 16 * 2 * most_bytes_at_once / piece.size());
}

// Bytes that were here in time are not late because others had their turn.
TEST_F(SocketTurnTest, a_read_without_patience_gets_what_is_here) {
  run.play(read_when_spent(Duration::zero()));
  EXPECT_EQ(got.status, Io::ok);
  EXPECT_EQ(got.bytes, 5U);
}

TEST_F(SocketTurnTest, a_wait_for_a_turn_can_be_cancelled) {
  run.play(cancel_when_spent());
  EXPECT_EQ(got.status, Io::cancelled);
}

}  // namespace once::http::socket_turn_test
