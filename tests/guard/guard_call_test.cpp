// What a call takes and gives besides its value: stop tokens, errors, observations, health.
#include <atomic>
#include <expected>
#include <latch>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <tuple>
#include <variant>
#include <vector>

#include <gtest/gtest.h>
#include <once/fake.hpp>

namespace once::guard::guard_call_test {

using namespace std::chrono_literals;
using fake::Fault;
using fake::Step;
using fake::World;

Request request(Duration wait = 0s) {
  return {.tenant = "acme", .scope = "copy", .key = "k", .lease = 1h, .wait = wait};
}

std::string value() {
  return "value";
}

struct GuardStop : testing::Test {
  World world;
  Guard mine = world.open();
  Guard theirs = world.open();
};

TEST_F(GuardStop, a_stop_ends_the_wait_for_an_owner) {
  const Claimed held = theirs.claim(request());
  for (const bool runs : {true, false}) {
    SCOPED_TRACE(runs);
    std::stop_source stop;
    std::latch asked(1);
    std::thread stopper([&] {
      asked.wait();
      stop.request_stop();
    });
    world.on_step([&](Step step) {
      if (step == Step::look && !asked.try_wait()) asked.count_down();
    });
    const OutcomeFacts outcome = runs ? static_cast<OutcomeFacts>(mine.run(request(1h), value, stop.get_token()))
                                      : static_cast<OutcomeFacts>(mine.claim(request(1h), stop.get_token()).outcome);
    stopper.join();
    world.on_step({});
    EXPECT_EQ(outcome.status, Status::failed);
    EXPECT_EQ(outcome.reason, Reason::cancelled);
  }
}

TEST_F(GuardStop, one_that_came_before_the_call_leaves_nothing_behind) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(mine.run(request(), value, stop.get_token()).reason, Reason::cancelled);
  EXPECT_EQ(mine.claim(request(), stop.get_token()).outcome.reason, Reason::cancelled);
  EXPECT_FALSE(mine.look(request()).has_value());
}

TEST_F(GuardStop, work_sees_the_stop_and_is_recorded_as_it_ends) {
  std::stop_source stop;
  const auto outcome = mine.run(
      request(),
      [&](const Running& running) -> std::expected<std::string, std::string> {
        stop.request_stop();
        if (running.stop_token().stop_requested()) return std::unexpected("stopped");
        return "went on";
      },
      stop.get_token());
  EXPECT_EQ(outcome.reason, Reason::work_failed);
  EXPECT_EQ(outcome.detail, "stopped");
  EXPECT_EQ(mine.run(request(), value).attempt, 2U);
}

enum class Mistake : std::uint8_t { no_money = 1 };

TEST(GuardError, an_error_is_kept_as_it_is) {
  World world;
  Guard guard = world.open();
  const auto failed =
      guard.run(request(), []() -> std::expected<std::string, Mistake> { return std::unexpected(Mistake::no_money); });
  EXPECT_EQ(failed.reason, Reason::work_failed);
  EXPECT_EQ(failed.error, Mistake::no_money);
  EXPECT_EQ(failed.exception, nullptr);
  const auto done = guard.run(request(), []() -> std::expected<std::string, Mistake> { return "paid"; });
  EXPECT_EQ(done.value, "paid");
  EXPECT_FALSE(done.error.has_value());
  const Outcome<std::string> plain = done;
  EXPECT_EQ(plain.value, "paid");
}

TEST(GuardError, work_may_return_nothing) {
  World world;
  Guard guard = world.open();
  int runs = 0;
  const auto work = [&] { ++runs; };
  EXPECT_TRUE(guard.run(request(), work).succeeded());
  EXPECT_EQ(guard.run(request(), work).value, std::monostate());
  EXPECT_EQ(runs, 1);
  Request other = request();
  other.key = "l";
  bool fails = true;
  const auto may_fail = [&]() -> std::expected<void, std::string> {
    if (fails) return std::unexpected("not yet");
    return {};
  };
  EXPECT_EQ(guard.run(other, may_fail).error, "not yet");
  fails = false;
  EXPECT_TRUE(guard.run(other, may_fail).succeeded());
}

struct Seen {
  Observed::Call call;
  std::string scope;
  Status status;
  Reason reason;
  Source source;
  unsigned attempt;
  bool claimed, worked, recorded;

  bool operator==(const Seen&) const = default;
};

TEST(GuardObserve, every_call_is_told_with_what_it_spent_its_time_on) {
  World world;
  std::vector<Seen> seen;
  const auto observe = [&](const Observed& each) {
    seen.push_back({.call = each.call,
                    .scope = std::string(each.scope),
                    .status = each.status,
                    .reason = each.reason,
                    .source = each.source,
                    .attempt = each.attempt,
                    .claimed = each.claiming > 0ns,
                    .worked = each.working >= 1ms,
                    .recorded = each.recording > 0ns});
    throw std::runtime_error("dropped");
  };
  Guard guard = world.open({.observe = observe});
  using enum Observed::Call;
  const auto slow = [](const Running& running) -> std::string {
    const auto until = std::chrono::steady_clock::now() + 1ms;
    while (std::chrono::steady_clock::now() < until) std::this_thread::yield();
    if (running.attempt() == 1) throw std::runtime_error("first");
    return "second";
  };
  EXPECT_EQ(guard.run(request(), slow).reason, Reason::work_failed);
  EXPECT_EQ(guard.run(request(), slow).value, "second");
  EXPECT_EQ(guard.run(request(), slow).value, "second");
  Request other = request();
  other.key = "l";
  Claimed claimed = guard.claim(other);
  EXPECT_TRUE(claimed.claim->fail().done());
  Claimed again = guard.claim(other);
  EXPECT_TRUE(again.claim->succeed("1").succeeded());
  const std::vector<Seen> expected = {
      {run, "copy", Status::failed, Reason::work_failed, Source::fresh, 1, true, true, true},
      {run, "copy", Status::succeeded, Reason::none, Source::fresh, 2, true, true, true},
      {run, "copy", Status::succeeded, Reason::none, Source::cached, 2, true, false, false},
      {claim, "copy", Status::in_progress, Reason::none, Source::fresh, 1, true, false, false},
      {fail, "", Status::failed, Reason::work_failed, Source::fresh, 1, false, false, true},
      {claim, "copy", Status::in_progress, Reason::none, Source::fresh, 2, true, false, false},
      {succeed, "", Status::succeeded, Reason::none, Source::fresh, 2, false, false, true}};
  EXPECT_EQ(seen, expected);
}

TEST(GuardPing, says_whether_the_store_answers) {
  World world;
  Guard guard = world.open();
  EXPECT_TRUE(guard.ping().has_value());
  world.go_down();
  EXPECT_EQ(guard.ping(), std::unexpected(std::string("as the test says")));
  world.come_back();
  EXPECT_TRUE(guard.ping().has_value());
}

TEST(FakeWorld, faults_are_those_of_a_real_store) {
  World world;
  Guard mine = world.open();
  Guard theirs = world.open();
  world.fail(Step::claim, Fault::full);
  EXPECT_EQ(mine.run(request(), value).reason, Reason::store_full);
  world.fail(Step::claim, Fault::answer_lost);
  EXPECT_TRUE(mine.run(request(), value).succeeded()) << "it asks again, with the same nonce";
  EXPECT_TRUE(theirs.run(request(), value).cached());
  Request brief = request();
  brief.key = "l";
  brief.lease = 100ms;
  world.fail(Step::finish, Fault::answer_lost, 1'000'000);
  EXPECT_EQ(mine.run(brief, value).reason, Reason::not_recorded);
  EXPECT_TRUE(theirs.run(brief, value).cached()) << "it was recorded all the same";
  world.fail(Step::finish, Fault::refused, 0);
  world.advance(25h);
  EXPECT_EQ(theirs.run(request(), value).source, Source::fresh);
  world.go_down();
  EXPECT_EQ(mine.run(request(), value).reason, Reason::store_unavailable);
}

}  // namespace once::guard::guard_call_test
