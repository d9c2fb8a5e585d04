#include "admin/store_probe.hpp"

#include <gtest/gtest.h>
#include <poll.h>

#include "tests/unit/store/lane_doubles.hpp"

namespace once::admin::store_probe_test {

using namespace std::chrono_literals;

class StoreProbes : public testing::Test {
 protected:
  // Until the store's thread has noted the answer to what was asked at `now`.
  void wait_for_answer(Instant now) {
    const auto until = monotonic_now() + patience;
    while (probe_.undecided(now) && monotonic_now() < until) ::poll(nullptr, 0, 1);
    ASSERT_FALSE(probe_.undecided(now));
  }

  ScriptedStore store_;
  ThreadLanes lanes_{store_};
  StoreProbe probe_{lanes_};
};

TEST_F(StoreProbes, many_who_ask_cost_one_question) {
  for (int count = 0; count < 100; ++count) probe_.ask(0s, 1s);
  store_.wait_for_batches(1);
  EXPECT_TRUE(probe_.undecided(0s));
  store_.permit(1);
  wait_for_answer(0s);
  EXPECT_EQ(probe_.state(0s), StoreProbe::State::up);
  for (int count = 0; count < 100; ++count) probe_.ask(999ms, 1s);
  EXPECT_FALSE(probe_.undecided(999ms));
  EXPECT_EQ(store_.batches().size(), 1U);
  probe_.ask(1s, 1s);
  store_.wait_for_batches(2);
  store_.permit(1);
  wait_for_answer(1s);
}

TEST_F(StoreProbes, a_failure_is_kept_for_the_log) {
  store_.script = [](std::span<Op* const> ops) {
    for (Op* op : ops) answer_failed(*op, StoreFault::unavailable, "host db7 refused user once");
  };
  store_.permit(1);
  probe_.ask(0s, 1s);
  wait_for_answer(0s);
  EXPECT_EQ(probe_.state(0s), StoreProbe::State::down);
  EXPECT_EQ(probe_.error(), "host db7 refused user once");
}

TEST_F(StoreProbes, silence_is_waited_for_only_so_long) {
  probe_.ask(0s, 1s);
  EXPECT_TRUE(probe_.undecided(3s));
  EXPECT_FALSE(probe_.undecided(3s + 1ns));
  EXPECT_EQ(probe_.state(3s + 1ns), StoreProbe::State::down);
  EXPECT_EQ(probe_.error(), "no answer");
  probe_.ask(10s, 1s);
  EXPECT_FALSE(probe_.undecided(10s)) << "it is still the first question";
  store_.permit(1);
  lanes_.stop();
}

}  // namespace once::admin::store_probe_test
