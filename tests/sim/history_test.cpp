// The model that the simulator checks against: what it demands of an expired key when the store's clock is set back. A
// store may turn the record into a tombstone for good, or go by its clock alone, but it cannot do both.
#include "sim/history.hpp"

#include <gtest/gtest.h>

#include "sim/process.hpp"

namespace once::sim {
namespace {

using namespace std::chrono_literals;

class ExpiredKey : public testing::Test {
 protected:
  // Claimed, left by its owner, expired, and remembered.
  void SetUp() override {
    history_.set_store_clock(clock_);
    Op claim{.verb = Verb::claim,
             .id = {{1}},
             .nonce = {{2}},
             .terms = {.lease = 1s, .ttl = 10s, .tombstone = 1h},
             .status = OpStatus::done,
             .verdict = Verdict::execute};
    claim.record = claimed(nullptr, claim.fingerprint, claim.nonce, claim.terms, clock_.now());
    key_ = info_of(claim.id, *claim.record, clock_.now());
    history_.store_acted(claim);
    clock_.jump(20s);
    history_.shown(as(State::tombstone));
    ASSERT_TRUE(history_.violations().empty());
  }
  KeyInfo as(State state) const {
    KeyInfo info = key_;
    info.state = state;
    return info;
  }
  void refuse_to_forget_the_tombstone() {
    Op forget{.verb = Verb::forget, .id = key_.id, .nonce = key_.nonce, .seen_state = State::tombstone};
    history_.sends(history_.sets_out(as(State::tombstone)), forget);
    forget.status = OpStatus::lost;
    history_.store_acted(forget);
  }
  bool violated() const { return !history_.violations().empty(); }

  World world_{1, false};
  SkewedClock clock_{world_, 0ms};
  History history_{world_};
  KeyInfo key_;
};

TEST_F(ExpiredKey, must_be_forgotten) {
  refuse_to_forget_the_tombstone();
  EXPECT_TRUE(violated());
}

TEST_F(ExpiredKey, need_not_be_forgotten_when_the_clock_was_set_back) {
  clock_.jump(-15s);
  refuse_to_forget_the_tombstone();
  EXPECT_FALSE(violated());
}

TEST_F(ExpiredKey, must_be_forgotten_when_it_is_a_tombstone_after_the_clock_was_set_back) {
  clock_.jump(-15s);
  history_.shown(as(State::tombstone));
  refuse_to_forget_the_tombstone();
  EXPECT_TRUE(violated());
}

TEST_F(ExpiredKey, may_be_what_it_was_when_the_clock_was_set_back) {
  clock_.jump(-15s);
  history_.shown(as(State::started));
  EXPECT_FALSE(violated());
}

TEST_F(ExpiredKey, is_not_what_it_was_after_it_was_shown_as_a_tombstone) {
  clock_.jump(-15s);
  history_.shown(as(State::tombstone));
  history_.shown(as(State::started));
  EXPECT_TRUE(violated());
}

TEST_F(ExpiredKey, is_not_found_as_what_it_was_after_it_was_shown_as_a_tombstone) {
  clock_.jump(-15s);
  history_.shown(as(State::tombstone));
  Record record = claimed(nullptr, {}, key_.nonce, {.lease = 1s, .ttl = 10s, .tombstone = 1h}, key_.started_at);
  history_.found_after_restart(key_.id, record);
  EXPECT_TRUE(violated());
}

}  // namespace
}  // namespace once::sim
