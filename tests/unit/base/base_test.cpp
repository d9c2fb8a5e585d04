#include <deque>

#include <gtest/gtest.h>

#include "base/bytes.hpp"
#include "base/executor.hpp"
#include "base/random.hpp"
#include "base/sha256.hpp"
#include "base/task.hpp"

namespace once::base::base_test {

std::string hex(const Digest& digest) {
  return to_hex(std::string_view(reinterpret_cast<const char*>(digest.data()), digest.size()));
}

TEST(Bytes, hex_both_ways) {
  EXPECT_EQ(to_hex(std::string_view("\x00\xff\x10", 3)), "00ff10");
  EXPECT_EQ(from_hex("00FF10"), std::string("\x00\xff\x10", 3));
  EXPECT_FALSE(from_hex("0").has_value());
  EXPECT_FALSE(from_hex("0g").has_value());
}

TEST(Sha256, known_answers) {
  Sha256 hash;
  hash.update("abc");
  EXPECT_EQ(hex(hash.digest()), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Sha256, parts_are_bound_by_their_lengths) {
  Sha256 one;
  one.update_part("ab");
  one.update_part("c");
  Sha256 two;
  two.update_part("a");
  two.update_part("bc");
  EXPECT_NE(one.digest(), two.digest());
}

// RFC 4231 uses bare data, ours are length-prefixed parts: computed with an independent HMAC over the framed bytes.
TEST(HmacSha256, matches_an_independent_implementation) {
  HmacSha256::Stream stream = HmacSha256("secret").start();
  stream.update_part("a");
  stream.update_part("bc");
  EXPECT_EQ(hex(stream.digest()), "cfab45ea0a85c63ad6e4d77543d1c286907caede701d3004cdc652e11db34d63");
  HmacSha256::Stream long_secret = HmacSha256(std::string(100, 'k')).start();
  long_secret.update_part("");
  EXPECT_EQ(hex(long_secret.digest()), "d34c5d3be9e516d5ab7f910f3b127a72dbad68022343a5f9f427ca2f6f242116");
}

TEST(Random, nonces_differ_across_the_block_boundary) {
  SystemRandom random;
  Nonce last = random.nonce();
  for (int i = 0; i < 1000; ++i) {
    const Nonce next = random.nonce();
    EXPECT_NE(next, last);
    EXPECT_NE(next, Nonce());
    last = next;
  }
}

Task<int> answer() {
  co_return 42;
}

Task<int> deep(int depth) {
  if (depth == 0) co_return 0;
  const int below = co_await deep(depth - 1);
  co_return below + 1;
}

TEST(Task, hands_its_result_to_the_one_that_awaits) {
  int got = 0;
  const auto run = [](int& out) -> Task<void> {
    out = co_await answer();
    out += co_await deep(1000);
  };
  spawn(run(got));
  EXPECT_EQ(got, 1042);
}

// Runs what is armed in the order it falls due.
class FakeExecutor final : public Executor {
 public:
  void post(Work& work) override { work.run(work); }
  void arm(Timer& timer, Duration after) override {
    timer.previous = &timer;
    timer.due = after.count();
    armed_.push_back(&timer);
  }
  void disarm(Timer& timer) override {
    timer.previous = nullptr;
    std::erase(armed_, &timer);
  }
  void fire_all() {
    while (!armed_.empty()) {
      Timer& timer = *armed_.front();
      disarm(timer);
      timer.fire(timer);
    }
  }

 private:
  std::deque<Timer*> armed_;
};

TEST(Executor, a_sleeper_resumes_when_its_timer_fires) {
  FakeExecutor executor;
  bool woke = false;
  const auto sleeper = [](Executor& on, bool& out) -> Task<void> {
    co_await sleep_for(on, std::chrono::seconds(1));
    out = true;
  };
  spawn(sleeper(executor, woke));
  EXPECT_FALSE(woke);
  executor.fire_all();
  EXPECT_TRUE(woke);
}

}  // namespace once::base::base_test
