// How a waiter decides between looking again, claiming and giving up: pure steps, from what each look says.
#include "store/owner_wait.hpp"

#include <gtest/gtest.h>

namespace once::store {
namespace owner_wait_test {

using namespace std::chrono_literals;

constexpr Time noon{std::chrono::hours(12)};

Op at_work(Duration lease_left) {
  Op look;
  look.status = OpStatus::done;
  look.now = noon;
  look.record.emplace();
  look.record->state = State::started;
  look.record->lease_until = noon + lease_left;
  return look;
}

Op nothing() {
  Op look;
  look.status = OpStatus::done;
  look.now = noon;
  return look;
}

Op ended() {
  Op look = at_work(1h);
  look.record->state = State::succeeded;
  return look;
}

Op failed() {
  Op look;
  answer_failed(look, StoreFault::unavailable, "away");
  return look;
}

// Pauses for as long as it is told.
std::optional<Duration> step(OwnerWaitSteps& steps, const Op& look) {
  const auto pause = steps.pause_after(look);
  if (pause) steps.paused(*pause);
  return pause;
}

TEST(OwnerWaitSteps, an_owner_that_has_ended_is_not_waited_for) {
  for (const Op& look : {ended(), nothing(), at_work(0ms), at_work(-1s)}) {
    OwnerWaitSteps steps(Shared::yes, 10s);
    EXPECT_EQ(steps.pause_after(look), std::nullopt);
    EXPECT_TRUE(steps.owner_ended());
    EXPECT_FALSE(steps.waited());
  }
}

TEST(OwnerWaitSteps, looks_get_rarer_where_nobody_tells_of_ends) {
  OwnerWaitSteps steps(Shared::yes, 1h);
  for (const Duration expected : {50ms, 100ms, 200ms, 400ms, 800ms, 1000ms, 1000ms}) {
    EXPECT_EQ(step(steps, at_work(1h)), expected);
  }
  EXPECT_TRUE(steps.waited());
}

TEST(OwnerWaitSteps, looks_are_rare_where_owners_tell_of_their_ends) {
  OwnerWaitSteps steps(Shared::no, 1h);
  EXPECT_EQ(step(steps, at_work(24h)), 1s);
  EXPECT_EQ(step(steps, at_work(24h)), 1s);
}

TEST(OwnerWaitSteps, a_lease_that_ends_sooner_is_looked_at_then_in_every_store) {
  for (const Shared shared : {Shared::no, Shared::yes}) {
    OwnerWaitSteps steps(shared, 1h);
    EXPECT_EQ(step(steps, at_work(7ms)), 7ms);
    EXPECT_EQ(step(steps, at_work(0ms)), std::nullopt);
    EXPECT_TRUE(steps.owner_ended());
  }
}

TEST(OwnerWaitSteps, the_limit_is_for_all_owners_together) {
  OwnerWaitSteps steps(Shared::no, 2500ms);
  EXPECT_EQ(step(steps, at_work(1h)), 1s);
  EXPECT_EQ(step(steps, ended()), std::nullopt);
  EXPECT_TRUE(steps.owner_ended());
  EXPECT_EQ(step(steps, at_work(1h)), 1s);
  EXPECT_EQ(step(steps, at_work(1h)), 500ms);
  EXPECT_EQ(step(steps, at_work(1h)), std::nullopt);
  EXPECT_FALSE(steps.owner_ended());
}

TEST(OwnerWaitSteps, without_a_limit_to_spend_there_is_one_look) {
  OwnerWaitSteps steps(Shared::yes, 0s);
  EXPECT_EQ(steps.pause_after(at_work(1h)), std::nullopt);
  EXPECT_FALSE(steps.owner_ended());
}

TEST(OwnerWaitSteps, a_pause_that_took_no_time_counts_all_the_same) {
  OwnerWaitSteps steps(Shared::yes, 3ms);
  for (int looks = 0; looks < 3; ++looks) {
    ASSERT_TRUE(steps.pause_after(at_work(1h)).has_value());
    steps.paused(0ms);
  }
  EXPECT_EQ(steps.pause_after(at_work(1h)), std::nullopt);
}

TEST(OwnerWaitSteps, the_next_owner_is_looked_at_often_again) {
  OwnerWaitSteps steps(Shared::yes, 1h);
  step(steps, at_work(1h));
  step(steps, at_work(1h));
  EXPECT_EQ(step(steps, ended()), std::nullopt);
  EXPECT_EQ(step(steps, at_work(1h)), 50ms);
}

// A backend that is about to commit its outcome: nobody owns the record, and it cannot be claimed.
TEST(OwnerWaitSteps, a_record_that_cannot_be_claimed_although_nobody_owns_it_is_waited_for) {
  OwnerWaitSteps steps(Shared::yes, 1h);
  EXPECT_EQ(step(steps, at_work(0ms)), std::nullopt) << "claim at once";
  for (const Duration expected : {50ms, 100ms, 200ms}) {
    EXPECT_EQ(step(steps, at_work(0ms)), expected) << "sent away: wait first";
    EXPECT_EQ(step(steps, at_work(0ms)), std::nullopt) << "then claim again";
    EXPECT_TRUE(steps.owner_ended());
    EXPECT_EQ(step(steps, at_work(0ms)), std::nullopt) << "a wait with a pause allows another claim at once";
  }
}

TEST(OwnerWaitSteps, a_store_that_does_not_answer_says_nothing_of_the_owner) {
  OwnerWaitSteps steps(Shared::yes, 1h);
  EXPECT_EQ(step(steps, failed()), 50ms);
  EXPECT_EQ(step(steps, failed()), 100ms);
  EXPECT_EQ(step(steps, ended()), std::nullopt);
  EXPECT_TRUE(steps.owner_ended());
}

}  // namespace owner_wait_test
}  // namespace once::store
