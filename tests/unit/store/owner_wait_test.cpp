// How a waiter decides between looking again, claiming and giving up: pure steps, from what each look says.
#include "store/owner_wait.hpp"

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

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

struct Row {
  std::string_view story;
  Shared shared;
  Duration limit;
  std::vector<std::pair<Op, std::optional<Duration>>> looks;  // and the pause after each; none: it is over
  bool owner_ended;                                           // by the last look
};

std::vector<Row> rows() {
  constexpr std::nullopt_t over = std::nullopt;
  const Op busy = at_work(1h);
  const Op lapsed = at_work(0ms);
  return {{"an owner that has ended is not waited for", Shared::yes, 10s, {{ended(), over}}, true},
          {"nor one that is not there", Shared::yes, 10s, {{nothing(), over}}, true},
          {"nor one whose lease ends now", Shared::yes, 10s, {{lapsed, over}}, true},
          {"or has ended", Shared::yes, 10s, {{at_work(-1s), over}}, true},
          {"looks get rarer where nobody tells of ends",
           Shared::yes,
           1h,
           {{busy, 50ms}, {busy, 100ms}, {busy, 200ms}, {busy, 400ms}, {busy, 800ms}, {busy, 1s}, {busy, 1s}},
           false},
          {"looks are rare where owners tell of their ends", Shared::no, 1h, {{busy, 1s}, {busy, 1s}}, false},
          {"a lease that ends sooner is looked at then", Shared::yes, 1h, {{at_work(7ms), 7ms}, {lapsed, over}}, true},
          {"in every store", Shared::no, 1h, {{at_work(7ms), 7ms}, {lapsed, over}}, true},
          {"the limit is for all owners together",
           Shared::no,
           2500ms,
           {{busy, 1s}, {ended(), over}, {busy, 1s}, {busy, 500ms}, {busy, over}},
           false},
          {"without a limit to spend there is one look", Shared::yes, 0s, {{busy, over}}, false},
          {"the next owner is looked at often again",
           Shared::yes,
           1h,
           {{busy, 50ms}, {busy, 100ms}, {ended(), over}, {busy, 50ms}},
           false},
          // A backend that is about to commit its outcome. Claim at once; sent away: wait first, then claim again. A
          // wait with a pause allows another claim at once.
          {"a record that cannot be claimed although nobody owns it is waited for",
           Shared::yes,
           1h,
           {{lapsed, over},
            {lapsed, 50ms},
            {lapsed, over},
            {lapsed, over},
            {lapsed, 100ms},
            {lapsed, over},
            {lapsed, over},
            {lapsed, 200ms},
            {lapsed, over}},
           true},
          {"a store that does not answer says nothing of the owner",
           Shared::yes,
           1h,
           {{failed(), 50ms}, {failed(), 100ms}, {ended(), over}},
           true}};
}

TEST(OwnerWaitSteps, each_look_says_how_long_to_pause) {
  for (const Row& row : rows()) {
    SCOPED_TRACE(row.story);
    OwnerWaitSteps steps(row.shared, row.limit);
    bool paused = false;
    for (std::size_t i = 0; i < row.looks.size(); ++i) {
      SCOPED_TRACE(i);
      EXPECT_EQ(step(steps, row.looks[i].first), row.looks[i].second);
      paused = paused || row.looks[i].second.has_value();
      EXPECT_EQ(steps.waited(), paused);
    }
    EXPECT_EQ(steps.owner_ended(), row.owner_ended);
  }
}

TEST(OwnerWaitSteps, a_pause_that_took_no_time_counts_all_the_same) {
  OwnerWaitSteps steps(Shared::yes, 3ms);
  for (int looks = 0; looks < 3; ++looks) {
    ASSERT_TRUE(steps.pause_after(at_work(1h)).has_value());
    steps.paused(0ms);
  }
  EXPECT_EQ(steps.pause_after(at_work(1h)), std::nullopt);
}

}  // namespace owner_wait_test
}  // namespace once::store
