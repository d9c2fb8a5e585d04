// Calls that hold no thread of their caller's.
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <future>
#include <latch>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <once/fake.hpp>

namespace once::guard::guard_async_test {

using namespace std::chrono_literals;
using fake::Step;
using fake::World;

constexpr auto patience = 60s;

Request request(Duration wait = 0s) {
  return {.tenant = "acme", .scope = "copy", .key = "k", .lease = 1h, .wait = wait};
}

// What a callback was given, and on which thread.
template <class T>
struct Called {
  struct Call {
    T result;
    std::thread::id thread;
  };

  Then<T> then() {
    return [promise = std::move(promise)](T result) mutable {
      promise.set_value({.result = std::move(result), .thread = std::this_thread::get_id()});
    };
  }
  Call get() {
    if (future.wait_for(patience) != std::future_status::ready) throw std::runtime_error("it was never called");
    return future.get();
  }

  std::promise<Call> promise;
  std::future<Call> future = promise.get_future();
};

Claimed claim(Guard& guard, const Request& asked) {
  Called<Claimed> called;
  guard.claim_async(asked, called.then());
  return called.get().result;
}

unsigned threads_of_this_process() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("Threads:")) return static_cast<unsigned>(std::stoul(line.substr(8)));
  }
  throw std::runtime_error("no Threads in /proc/self/status");
}

struct GuardAsync : testing::Test {
  World world;
  Guard mine = world.open();
  Guard theirs = world.open();
};

TEST_F(GuardAsync, claim_and_value_are_told_on_a_thread_of_the_guards) {
  Called<Claimed> claimed;
  mine.claim_async(request(), claimed.then());
  auto [granted, thread] = claimed.get();
  ASSERT_TRUE(granted.claim.has_value());
  EXPECT_NE(thread, std::this_thread::get_id());
  EXPECT_EQ(mine.look(request())->reason, Reason::at_work);
  Called<Outcome<std::string>> recorded;
  granted.claim->succeed_async("7", "text/plain", recorded.then());
  const auto outcome = recorded.get();
  EXPECT_EQ(outcome.result.value, "7");
  EXPECT_EQ(outcome.thread, thread) << "one thread for all of them";
  EXPECT_EQ(claim(mine, request()).outcome.value, "7");
  EXPECT_EQ(mine.counts().fresh, 1U);
  EXPECT_EQ(mine.counts().cached, 1U);
}

TEST_F(GuardAsync, any_number_of_calls_waits_without_a_thread_each) {
  constexpr std::size_t calls = 500;
  Claimed owner = theirs.claim(request());
  const unsigned threads_before = threads_of_this_process();
  std::vector<Called<Claimed>> waiting(calls);
  for (Called<Claimed>& each : waiting) mine.claim_async(request(1h), each.then());
  EXPECT_LE(threads_of_this_process(), threads_before + 1);
  EXPECT_TRUE(owner.claim->succeed("7").succeeded());
  for (Called<Claimed>& each : waiting) EXPECT_EQ(each.get().result.outcome.value, "7");
}

TEST_F(GuardAsync, an_end_of_the_same_guard_wakes_those_who_wait) {
  // In a store that is not shared nobody looks again before a second has passed.
  auto guard = Guard::open({.secret = "0123456789abcdef"});
  Claimed owner = guard->claim(request());
  Called<Claimed> waiting;
  guard->claim_async(request(1h), waiting.then());
  Called<EndResult> released;
  owner.claim->release_async(released.then());
  EXPECT_TRUE(released.get().result.done());
  EXPECT_TRUE(waiting.get().result.claim.has_value());
}

TEST_F(GuardAsync, a_stop_ends_the_wait) {
  const Claimed owner = mine.claim(request());
  std::stop_source stop;
  Called<Claimed> waiting;
  std::latch looked(1);
  world.on_step([&](Step step) {
    if (step == Step::look && !looked.try_wait()) looked.count_down();
  });
  mine.claim_async(request(1h), waiting.then(), stop.get_token());
  looked.wait();  // it waits for the owner
  stop.request_stop();
  EXPECT_EQ(waiting.get().result.outcome.reason, Reason::cancelled);
  world.on_step({});
}

TEST_F(GuardAsync, the_guard_may_be_gone_before_its_calls_have_ended) {
  Claimed owner = theirs.claim(request());
  Called<Claimed> waiting;
  {
    Guard mine = world.open();
    mine.claim_async(request(1h), waiting.then());
  }
  EXPECT_TRUE(owner.claim->fail().done());
  Claimed next = waiting.get().result;
  ASSERT_TRUE(next.claim.has_value());
  EXPECT_EQ(next.claim->attempt(), 2U);
  Called<Outcome<std::string>> recorded;
  next.claim->succeed_async("7", "text/plain", recorded.then());
  next.claim.reset();
  EXPECT_EQ(recorded.get().result.value, "7");
}

TEST_F(GuardAsync, ends_say_how_they_ended_and_may_be_repeated) {
  const auto fail = [](Claimed& claimed) {
    Called<EndResult> called;
    claimed.claim->fail_async(called.then());
    return called.get().result.status;
  };
  const auto release = [](Claimed& claimed) {
    Called<EndResult> called;
    claimed.claim->release_async(called.then());
    return called.get().result.status;
  };
  Claimed first = claim(mine, request());
  EXPECT_EQ(release(first), EndStatus::done);
  Claimed second = claim(theirs, request());
  EXPECT_EQ(release(first), EndStatus::done);
  EXPECT_EQ(fail(first), EndStatus::lost);
  EXPECT_EQ(fail(second), EndStatus::done);
  Claimed third = claim(mine, request());
  EXPECT_EQ(third.claim->attempt(), 2U);
  EXPECT_EQ(fail(second), EndStatus::done);
  world.go_down();
  EXPECT_EQ(release(third), EndStatus::not_recorded);
}

TEST_F(GuardAsync, what_a_callback_throws_is_dropped) {
  mine.claim_async(request(), [](Claimed) { throw std::runtime_error("dropped"); });
  EXPECT_EQ(claim(mine, {.scope = ""}).outcome.reason, Reason::invalid);
}

}  // namespace once::guard::guard_async_test
