// The library on every kind of server that owners in several processes share.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <once/guard.hpp>

#include "base/random.hpp"
#include "store/catalog/catalog.hpp"
#include "tests/store/server_under_test.hpp"

namespace once::guard::shared_guard_test {

using namespace std::chrono_literals;

class SharedGuard : public testing::Test {
 protected:
  SharedGuard() { request_ = {.tenant = "acme", .scope = "copy", .key = to_hex(random_.nonce())}; }
  static Guard open() {
    const std::string url = contract::server_url();
    const StoreSchema* const schema = find_store(url)->schema;
    if (schema != nullptr) EXPECT_TRUE(schema->apply(url, ServerSettings()).has_value());
    auto opened = Guard::open({.store = url,
                               .secret = "0123456789abcdef",
                               .encryption_secrets = {"0123456789abcdef"},
                               .logging = Logging::off});
    EXPECT_TRUE(opened.has_value()) << opened.error().detail;
    return std::move(*opened);
  }

  SystemRandom random_;
  Request request_;
  Guard guard = open();
  Guard other = open();
};

TEST_F(SharedGuard, callers_of_two_guards_do_it_once) {
  request_.wait = 60s;
  std::atomic<int> runs = 0;
  std::vector<std::thread> callers;
  callers.reserve(20);
  for (std::size_t i = 0; i < 20; ++i) {
    callers.emplace_back([&, i] {
      const auto outcome = (i % 2 == 0 ? guard : other).run(request_, [&] {
        ++runs;
        return std::string("value");
      });
      EXPECT_EQ(outcome.value, "value") << outcome.stop_reason();
    });
  }
  for (std::thread& each : callers) each.join();
  EXPECT_EQ(runs, 1);
}

TEST_F(SharedGuard, an_owner_that_stood_still_has_lost) {
  const auto lost = guard.run(request_, [&] {
    contract::advance_server_clock(31s);
    EXPECT_EQ(other.run(request_, [] { return std::string("theirs"); }).reason, Reason::gone);
    contract::advance_server_clock(5min);
    EXPECT_EQ(other.run(request_, [] { return std::string("theirs"); }).attempt, 2U);
    return std::string("mine");
  });
  EXPECT_EQ(lost.status, Status::failed);
  EXPECT_EQ(lost.reason, Reason::lost);
  EXPECT_FALSE(lost.value.has_value());
  EXPECT_EQ(guard.counts().lost, 1U);
  EXPECT_EQ(guard.run(request_, [] { return std::string(); }).value, "theirs");
}

// Its lease has lapsed and the store would let anybody take over; but the work is being done, here.
TEST_F(SharedGuard, work_that_this_guard_is_doing_is_not_started_again) {
  request_.on_unknown = OnUnknown::retry;
  const auto first = guard.run(request_, [&] {
    for (int i = 0; i < 2; ++i) {
      contract::advance_server_clock(31s);
      EXPECT_EQ(guard.run(request_, [] { return std::string("second"); }).reason, Reason::at_work);
      contract::advance_server_clock(31s);
      EXPECT_EQ(guard.claim(request_).outcome.reason, Reason::at_work);
    }
    EXPECT_EQ(other.run(request_, [] { return std::string("theirs"); }).reason, Reason::at_work)
        << "the work has the claim that was given last";
    return std::string("first");
  });
  EXPECT_EQ(first.value, "first") << "recorded under the newest claim: " << first.detail;
  EXPECT_EQ(other.run(request_, [] { return std::string("third"); }).value, "first");
}

TEST_F(SharedGuard, who_waits_for_work_that_this_guard_is_doing_gets_its_value) {
  request_.on_unknown = OnUnknown::retry;
  std::thread second;
  const auto first = guard.run(request_, [&] {
    contract::advance_server_clock(31s);
    EXPECT_EQ(guard.run(request_, [] { return std::string("second"); }).reason, Reason::at_work);
    second = std::thread([this, asked = request_]() mutable {
      asked.wait = 60s;
      EXPECT_EQ(guard.run(asked, [] { return std::string("second"); }).value, "first");
    });
    return std::string("first");
  });
  second.join();
  EXPECT_EQ(first.value, "first");
}

TEST_F(SharedGuard, a_long_work_keeps_its_claim) {
  request_.lease = 500ms;
  request_.on_unknown = OnUnknown::retry;
  const std::string key = request_.key;
  for (int left = 4; left >= 0; --left) {
    request_.key = key + std::to_string(left);
    request_.wait = {};
    auto claimed = guard.claim(request_);
    ASSERT_TRUE(claimed.claim.has_value());
    // Longer than three leases of real time.
    request_.wait = 1600ms;
    const Reason reason = other.run(request_, [] { return std::string("second"); }).reason;
    // A machine or a server that pauses for longer than the lease loses it, but not every time.
    if (reason != Reason::at_work && left > 0) continue;
    EXPECT_EQ(reason, Reason::at_work);
    EXPECT_FALSE(claimed.claim->lost());
    EXPECT_EQ(claimed.claim->succeed("1").value, "1");
    break;
  }
}

}  // namespace once::guard::shared_guard_test
