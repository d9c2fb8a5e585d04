// How calls end when something else does not end well: the store, the thread, the guard, the process that held the
// claim. On the library's own double, whose time and faults are the test's.
#include <pthread.h>

#include <atomic>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>

#include <gtest/gtest.h>
#include <once/fake.hpp>

#include "tests/unit/support/temporary_folder.hpp"

namespace once::guard::guard_ends_test {

using namespace std::chrono_literals;
using fake::Fault;
using fake::Step;
using fake::World;

Request request(std::string key = "k") {
  return {.tenant = "acme", .scope = "copy", .key = std::move(key), .lease = 1s};
}

std::string value() {
  return "value";
}

struct GuardEnds : testing::Test {
  World world;
  Guard mine = world.open();
  Guard theirs = world.open();
};

TEST_F(GuardEnds, failure_that_could_not_be_recorded_is_not_recorded) {
  const auto outcome = mine.run(request(), [&]() -> std::string {
    world.go_down();
    throw std::runtime_error("no money");
  });
  EXPECT_EQ(outcome.reason, Reason::not_recorded);
  EXPECT_EQ(outcome.detail, "as the test says");
  world.come_back();
  EXPECT_EQ(mine.look(request())->reason, Reason::at_work) << "the store has not heard of it";
}

TEST_F(GuardEnds, failure_of_work_that_was_taken_over_is_lost) {
  const auto outcome = mine.run(request(), [&]() -> std::string {
    world.advance(10min);
    EXPECT_TRUE(theirs.run(request(), value).succeeded());
    throw std::runtime_error("too late");
  });
  EXPECT_EQ(outcome.reason, Reason::lost);
  EXPECT_EQ(mine.run(request(), value).attempt, 2U);
}

TEST_F(GuardEnds, the_exception_of_the_work_is_kept_for_its_caller) {
  const auto outcome = mine.run(request(), []() -> std::string { throw std::out_of_range("what it says"); });
  EXPECT_EQ(outcome.reason, Reason::work_failed);
  EXPECT_EQ(outcome.detail, "the work threw") << "the text may hold secrets";
  ASSERT_NE(outcome.exception, nullptr);
  EXPECT_THROW(std::rethrow_exception(outcome.exception), std::out_of_range);
  EXPECT_EQ(mine.run(request(), value).exception, nullptr);
}

TEST_F(GuardEnds, an_end_that_is_repeated_is_done_whoever_has_claimed_since) {
  Claimed released = mine.claim(request());
  EXPECT_EQ(released.claim->release().status, EndStatus::done);
  Claimed failed = theirs.claim(request());
  ASSERT_TRUE(failed.claim.has_value());
  EXPECT_EQ(released.claim->release().status, EndStatus::done);
  EXPECT_EQ(released.claim->fail().status, EndStatus::lost);
  EXPECT_TRUE(failed.claim->fail().done());
  Claimed next = mine.claim(request());
  ASSERT_TRUE(next.claim.has_value());
  EXPECT_TRUE(failed.claim->fail().done());
  EXPECT_EQ(failed.claim->release().status, EndStatus::lost);
}

TEST_F(GuardEnds, an_end_that_the_store_does_not_take_says_so_and_may_be_repeated) {
  Claimed claimed = mine.claim(request());
  world.go_down();
  const EndResult down = claimed.claim->release();
  EXPECT_EQ(down.status, EndStatus::not_recorded);
  EXPECT_EQ(down.detail, "as the test says");
  world.come_back();
  EXPECT_TRUE(claimed.claim->release().done());
  EXPECT_FALSE(mine.look(request()).has_value());
}

TEST_F(GuardEnds, a_claim_outlives_its_guard) {
  std::optional<Guard> mine = world.open();
  Claimed claimed = mine->claim(request());
  mine.reset();
  EXPECT_EQ(theirs.claim(request()).outcome.reason, Reason::at_work);
  EXPECT_EQ(claimed.claim->succeed("7").value, "7");
  EXPECT_EQ(theirs.claim(request()).outcome.value, "7");
  // A guard that was opened as programs do, with a thread that renews.
  auto opened = Guard::open({.secret = "0123456789abcdef"});
  Claimed left = opened->claim(request());
  *opened = world.open();
  EXPECT_EQ(left.claim->recorded().reason, Reason::at_work);
}

TEST_F(GuardEnds, a_claim_in_progress_says_when_to_come_back) {
  Claimed claimed = mine.claim(request());
  const auto recorded = claimed.claim->recorded();
  EXPECT_EQ(recorded.status, Status::in_progress);
  EXPECT_EQ(recorded.retry_after, 1s);
}

TEST_F(GuardEnds, work_that_ends_its_thread_is_unknown) {
  for (const bool own_store : {true, false}) {
    SCOPED_TRACE(own_store);
    Guard guard = own_store ? *Guard::open({.secret = "0123456789abcdef"}) : world.open();
    bool reached = false;
    std::thread work([&] {
      std::ignore = guard.run(request(), []() -> std::string { pthread_exit(nullptr); });
      reached = true;
    });
    work.join();
    EXPECT_FALSE(reached);
    Request again = request();
    again.on_unknown = OnUnknown::retry;
    again.wait = 60s;
    const auto outcome = guard.run(again, value);
    EXPECT_TRUE(outcome.succeeded()) << outcome.stop_reason();
    EXPECT_EQ(outcome.attempt, 2U);
    EXPECT_EQ(guard.counts().takeovers, 1U);
  }
}

TEST(GuardOpening, what_is_thrown_on_the_way_is_an_error) {
  const support::TemporaryFolder folder;
  const auto opened =
      Guard::open({.store = "journal:" + folder.path(),
                   .secret = "0123456789abcdef",
                   .logging = Logging::off,
                   .now = []() -> std::chrono::sys_time<Duration> { throw std::runtime_error("late"); }});
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().detail, "the guard could not be opened: late");
}

TEST(GuardOpening, more_connections_than_any_server_has_are_a_mistake) {
  for (const std::size_t connections : {std::size_t{0}, std::numeric_limits<std::size_t>::max()}) {
    const auto opened = Guard::open({.secret = "0123456789abcdef", .connections = connections});
    ASSERT_FALSE(opened.has_value());
    EXPECT_EQ(opened.error().detail, "connections must be from 1 to 1024");
  }
}

TEST(GuardOpening, time_is_what_the_caller_says) {
  std::atomic<int> minutes = 0;
  const auto now = [&] { return std::chrono::sys_time<Duration>(std::chrono::minutes(30'000'000 + minutes)); };
  auto guard = Guard::open({.secret = "0123456789abcdef", .now = now});
  ASSERT_TRUE(guard.has_value());
  Request asked = request();
  asked.ttl = 10min;
  EXPECT_EQ(guard->run(asked, value).source, Source::fresh);
  minutes = 9;
  EXPECT_EQ(guard->run(asked, value).source, Source::cached);
  minutes = 11;
  EXPECT_EQ(guard->run(asked, value).source, Source::fresh);
}

}  // namespace once::guard::guard_ends_test
