// The library as a program uses it, on the stores that need no server. Time is virtual where it matters.
#include <algorithm>
#include <atomic>
#include <fstream>
#include <iterator>
#include <latch>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "base/bytes.hpp"
#include "base/sha256.hpp"
#include "core/json_canonical.hpp"
#include "guard/engine.hpp"
#include "guard/operation.hpp"
#include "tests/unit/support/faulty_store.hpp"
#include "tests/unit/support/manual_clock.hpp"

namespace once::guard {
namespace {

using namespace std::chrono_literals;

constexpr const char* secret = "0123456789abcdef0123456789abcdef";

class GuardTest : public testing::Test {
 protected:
  Guard open(Options options = {}) {
    options.secret = secret;
    auto opened = Engine::open(options, clock_);
    EXPECT_TRUE(opened.has_value()) << opened.error().detail;
    return std::move(*opened);
  }
  static Request request(std::string key = "k") { return {.tenant = "acme", .scope = "copy", .key = std::move(key)}; }

  ManualClock clock_;
  Guard guard = open();
};

// Moves on whenever it is asked, so that every call of the store takes time.
class PassingClock final : public Clock {
 public:
  Time now() const override { return Time(Duration(now_.fetch_add(step.load().count()))); }

  std::atomic<Duration> step = Duration::zero();

 private:
  mutable std::atomic<Duration::rep> now_{1'767'225'600'000};
};

TEST(LateGuardClaim, one_that_took_longer_than_its_lease_is_nobodys) {
  PassingClock clock;
  auto guard = Engine::open({.secret = secret}, clock);
  ASSERT_TRUE(guard.has_value());
  const Request asked{.tenant = "acme", .scope = "copy", .key = "k", .lease = 1s};
  clock.step = 600ms;
  const Claimed late = guard->claim(asked);
  EXPECT_FALSE(late.claim.has_value());
  EXPECT_EQ(late.outcome.reason, Reason::store_unavailable);
  clock.step = 0ms;
}

TEST(LateGuardClaim, work_of_the_process_itself_needs_no_lease) {
  PassingClock clock;
  auto guard = Engine::open({.secret = secret}, clock);
  clock.step = 600ms;
  EXPECT_TRUE(guard->run({.tenant = "acme", .scope = "copy", .key = "k", .lease = 1s}, [] { return std::string("v"); })
                  .succeeded());
  clock.step = 0ms;
}

// A guard on a store that fails where the test says.
struct FaultyGuard {
  FaultyGuard() : engine({}, secret, clock, std::make_unique<Log>(clock, -1, LogLevel::off, LogFormat::json), open()) {}

  std::unique_ptr<Backing> open() {
    auto made = std::make_unique<FaultyStore>(clock, Shared::no, FaultyStore::Execution::at_once, trace);
    store = made.get();
    return Backing::of(std::move(made));
  }
  Outcome<std::string> claim_and_succeed() {
    Claimed claimed = engine.claim({.tenant = "acme", .scope = "copy", .key = "k"});
    EXPECT_TRUE(claimed.claim.has_value());
    return claimed.claim->succeed("value", "text/plain");
  }

  ManualClock clock;
  Trace trace;
  FaultyStore* store = nullptr;
  Engine engine;
};

TEST(FaultyGuardTest, an_outcome_is_recorded_however_often_it_takes_in_a_store_of_its_own_too) {
  FaultyGuard guard;
  guard.store->fail_next(Verb::finish, Fault::before, 3);
  EXPECT_TRUE(guard.claim_and_succeed().succeeded());
  EXPECT_EQ(std::ranges::count(guard.trace, "finish succeeded: failed"), 3);
}

TEST(FaultyGuardTest, a_store_that_has_failed_for_good_is_not_waited_for) {
  FaultyGuard guard;
  Claimed claimed = guard.engine.claim({.tenant = "acme", .scope = "copy", .key = "k"});
  guard.store->fail_for_good();
  EXPECT_EQ(claimed.claim->succeed("value", "text/plain").reason, Reason::not_recorded);
  EXPECT_EQ(std::ranges::count(guard.trace, "finish succeeded: failed"), 1);
}

TEST_F(GuardTest, the_first_call_works_the_second_gets_what_it_returned) {
  int runs = 0;
  const auto work = [&] {
    ++runs;
    return std::string("value");
  };
  const auto fresh = guard.run(request(), work);
  ASSERT_TRUE(fresh.succeeded());
  EXPECT_EQ(fresh.value, "value");
  EXPECT_EQ(fresh.source, Source::fresh);
  EXPECT_EQ(fresh.attempt, 1U);
  const auto cached = guard.run(request(), work);
  ASSERT_TRUE(cached.succeeded());
  EXPECT_EQ(cached.value, "value");
  EXPECT_TRUE(cached.cached());
  EXPECT_EQ(cached.attempt, 1U);
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(guard.counts().fresh, 1U);
  EXPECT_EQ(guard.counts().cached, 1U);
}

TEST_F(GuardTest, tenant_scope_key_and_inputs_make_another_operation) {
  int runs = 0;
  const auto work = [&] { return std::to_string(++runs); };
  std::ignore = guard.run({.tenant = "a", .scope = "s", .key = "k"}, work);
  std::ignore = guard.run({.tenant = "b", .scope = "s", .key = "k"}, work);
  std::ignore = guard.run({.tenant = "a", .scope = "t", .key = "k"}, work);
  std::ignore = guard.run({.tenant = "a", .scope = "s", .key = "l"}, work);
  std::ignore = guard.run({.tenant = "a", .scope = "s", .inputs = {{"k", 1}}}, work);
  std::ignore = guard.run({.tenant = "a", .scope = "s", .inputs = {{"k", "1"}}}, work);
  EXPECT_EQ(runs, 6);
}

TEST_F(GuardTest, order_and_spelling_of_inputs_do_not_count) {
  int runs = 0;
  const auto work = [&] { return std::to_string(++runs); };
  std::ignore = guard.run({.scope = "s", .inputs = {{"a", 1}, {"b", Json{"[1.0, null]"}}, {"c", true}}}, work);
  std::ignore = guard.run({.scope = "s", .inputs = {{"c", true}, {"b", Json{"[1,null]"}}, {"a", 1U}}}, work);
  std::ignore = guard.run({.scope = "s", .inputs = Json{R"({"b": [10e-1, null], "a": 1, "c": true})"}}, work);
  EXPECT_EQ(runs, 1);
}

TEST_F(GuardTest, what_is_out_of_range_is_invalid_and_does_nothing) {
  const auto work = []() -> std::string { throw std::logic_error("called"); };
  for (const Request& wrong : std::vector<Request>{
           {.tenant = "", .scope = "s", .key = "k"},
           {.scope = "", .key = "k"},
           {.scope = "s"},
           {.scope = "s", .key = "k", .inputs = {{"a", 1}}},
           {.scope = std::string(256, 's'), .key = "k"},
           {.scope = "s", .key = std::string(256, 'k')},
           {.scope = "s", .key = "k", .ttl = 0s},
           {.scope = "s", .key = "k", .lease = 1ms},
           {.scope = "s", .inputs = {{"a", 1}, {"a", 2}}},
           {.scope = "s", .inputs = {{"a", 0.0 / 0.0}}},
           {.scope = "s", .inputs = Json{"{"}},
           {.scope = "s", .inputs = {{"a", Json{R"(1,"b":2)"}}}},
       }) {
    const auto outcome = guard.run(wrong, work);
    EXPECT_EQ(outcome.reason, Reason::invalid);
    EXPECT_FALSE(outcome.detail.empty());
  }
}

TEST_F(GuardTest, work_that_throws_has_failed_and_a_retry_runs_again) {
  const auto failed = guard.run(request(), []() -> std::string { throw std::runtime_error("password=hunter2"); });
  EXPECT_EQ(failed.status, Status::failed);
  EXPECT_EQ(failed.reason, Reason::work_failed);
  EXPECT_EQ(failed.detail, "the work threw");
  EXPECT_FALSE(failed.value.has_value());

  Request says = request();
  says.failure_text = FailureText::exception;
  EXPECT_EQ(guard.run(says, []() -> std::string { throw std::runtime_error("busy"); }).detail, "busy");
  EXPECT_EQ(guard.run(request(), []() -> std::string { throw 7; }).reason, Reason::work_failed);

  const auto again = guard.run(request(), [] { return std::string("done"); });
  ASSERT_TRUE(again.succeeded());
  EXPECT_EQ(again.attempt, 4U);
  EXPECT_EQ(guard.counts().retries, 3U);
  EXPECT_EQ(guard.counts().takeovers, 0U);
}

TEST_F(GuardTest, work_may_say_that_it_failed_without_throwing) {
  using Said = std::expected<std::string, std::string>;
  const auto failed = guard.run(request(), [] { return Said(std::unexpect, "no credit"); });
  EXPECT_EQ(failed.reason, Reason::work_failed);
  EXPECT_EQ(failed.detail, "no credit");
  const auto done = guard.run(request(), [] { return Said("value"); });
  EXPECT_EQ(done.value, "value");
}

TEST_F(GuardTest, a_hundred_callers_of_one_operation_run_it_once) {
  std::atomic<int> runs = 0;
  std::atomic<int> values = 0;
  std::latch begin(100);
  std::vector<std::thread> callers;
  callers.reserve(100);
  for (int i = 0; i < 100; ++i) {
    callers.emplace_back([&] {
      begin.arrive_and_wait();
      const auto outcome = guard.run({.scope = "expensive", .key = "k", .wait = 60s}, [&] {
        ++runs;
        return std::string("value");
      });
      if (outcome.succeeded() && outcome.value == "value") ++values;
    });
  }
  for (std::thread& each : callers) each.join();
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(values, 100);
}

TEST_F(GuardTest, who_does_not_wait_is_told_to_come_back) {
  const auto outer = guard.run(request(), [&] {
    const auto inner = guard.run(request(), [] { return std::string("second"); });
    EXPECT_EQ(inner.status, Status::in_progress);
    EXPECT_EQ(inner.reason, Reason::at_work);
    EXPECT_GT(inner.retry_after, 0ms);
    EXPECT_EQ(inner.stop_reason(), "in_progress");
    return std::string("first");
  });
  EXPECT_EQ(outer.value, "first");
}

TEST_F(GuardTest, an_outcome_is_kept_for_its_ttl) {
  int runs = 0;
  const auto work = [&] { return std::to_string(++runs); };
  const Request week{.scope = "s", .key = "k", .ttl = 24h * 7};
  std::ignore = guard.run(week, work);
  clock_.advance(24h * 6);
  EXPECT_TRUE(guard.run(week, work).cached());
  clock_.advance(25h);
  EXPECT_EQ(guard.run(week, work).value, "2");
}

TEST_F(GuardTest, another_fingerprint_under_the_same_key_is_a_mismatch) {
  const auto work = [] { return std::string("v"); };
  std::ignore = guard.run({.scope = "s", .key = "k", .fingerprint = "amount=5"}, work);
  EXPECT_EQ(guard.run({.scope = "s", .key = "k", .fingerprint = "amount=6"}, work).reason, Reason::mismatch);
  EXPECT_TRUE(guard.run({.scope = "s", .key = "k", .fingerprint = "amount=5"}, work).cached());
}

TEST_F(GuardTest, production_without_a_secret_does_not_open) {
  const auto opened = Guard::open({.store = "memory:"});
  ASSERT_FALSE(opened.has_value());
  EXPECT_TRUE(opened.error().detail.contains("no secret"));
  EXPECT_TRUE(Guard::open({.store = "memory:", .environment = Environment::development}).has_value());
  EXPECT_FALSE(Guard::open({.store = "memory:", .secret = "short"}).has_value());
  EXPECT_FALSE(Guard::open({.store = "memory:", .secret = secret, .encryption_secrets = {"short"}}).has_value());
  EXPECT_FALSE(Guard::open({.store = "sqlite:x", .secret = secret}).has_value());
}

struct Copy {
  std::string headline;
};

}  // namespace

template <>
struct Codec<Copy> {
  static constexpr std::string_view media_type = "text/plain";
  static std::string encode(const Copy& copy) {
    if (copy.headline == "unwritable") throw std::runtime_error("unwritable");
    return copy.headline;
  }
  static std::optional<Copy> decode(std::string_view bytes) {
    if (bytes == "unreadable") return std::nullopt;
    if (bytes == "explodes") throw std::runtime_error("explodes");
    return Copy{std::string(bytes)};
  }
};

namespace {

TEST_F(GuardTest, values_of_any_type_have_a_codec) {
  const auto returns = [](std::string text) { return [text] { return Copy{text}; }; };
  EXPECT_EQ(guard.run(request("a"), returns("hi")).value->headline, "hi");
  EXPECT_EQ(guard.run(request("a"), returns("not called")).value->headline, "hi");
  EXPECT_EQ(guard.run(request("b"), returns("unwritable")).reason, Reason::work_failed);
  EXPECT_TRUE(guard.run(request("c"), returns("unreadable")).succeeded());
  EXPECT_EQ(guard.run(request("c"), returns("")).reason, Reason::unreadable);
  EXPECT_TRUE(guard.run(request("d"), returns("explodes")).succeeded());
  EXPECT_EQ(guard.run(request("d"), returns("")).reason, Reason::unreadable);
  const std::vector<std::byte> bytes = {std::byte{0}, std::byte{255}};
  std::ignore = guard.run(request("e"), [&] { return bytes; });
  EXPECT_EQ(guard.run(request("e"), [&] { return std::vector<std::byte>(); }).value, bytes);
}

TEST_F(GuardTest, the_fresh_caller_gets_all_of_it_the_others_what_was_stored) {
  Request cut = request();
  cut.store_only = {"ok", "data"};
  cut.never_store = {"prompt"};
  const Json full{R"({"ok": true, "data": {"id": 7, "prompt": "p"}, "model": "m"})"};
  EXPECT_EQ(guard.run(cut, [&] { return full; }).value, full);
  EXPECT_EQ(guard.run(cut, [&] { return full; }).value->text, R"({"ok":true,"data":{"id":7}})");
}

TEST_F(GuardTest, what_cannot_be_sanitised_or_is_too_large_is_not_kept_and_not_done_again) {
  Guard small = open({.max_value = 10});
  Request cut = request();
  cut.never_store = {"prompt"};
  EXPECT_EQ(small.run(cut, [] { return Json{"no json"}; }).value->text, "no json");
  EXPECT_EQ(small.run(cut, [] { return Json{"{}"}; }).reason, Reason::not_kept);
  EXPECT_TRUE(small.run(request("large"), [] { return std::string(11, 'x'); }).succeeded());
  EXPECT_EQ(small.run(request("large"), [] { return std::string(); }).reason, Reason::not_kept);
  EXPECT_EQ(small.run(request("large"), [] { return std::string(); }).reason, Reason::not_kept);
  for (const std::size_t size : {10U, 11U}) {
    const Request held = request("held " + std::to_string(size));
    EXPECT_TRUE(small.claim(held).claim->succeed(std::string(size, 'x')).succeeded());
    EXPECT_EQ(small.claim(held).outcome.value.has_value(), size == 10);
  }
}

TEST_F(GuardTest, a_claim_is_taken_over_after_the_threshold_and_its_holder_is_refused) {
  auto claimed = guard.claim(request());
  ASSERT_TRUE(claimed.claim.has_value());
  EXPECT_EQ(claimed.claim->handle().size(), 97U);
  EXPECT_EQ(guard.claim(request()).outcome.reason, Reason::at_work);
  clock_.advance(31s);  // the lease
  const auto early = guard.run(request(), [] { return std::string("too early"); });
  EXPECT_EQ(early.status, Status::in_progress);
  EXPECT_EQ(early.reason, Reason::gone);
  EXPECT_EQ(early.retry_after, 5min - 31s);
  clock_.advance(early.retry_after);
  const auto taken = guard.run(request(), [] { return std::string("second"); });
  EXPECT_EQ(taken.value, "second");
  EXPECT_EQ(taken.attempt, 2U);
  EXPECT_EQ(guard.counts().takeovers, 1U);

  EXPECT_EQ(claimed.claim->succeed("\"stale\"").reason, Reason::lost);
  EXPECT_EQ(claimed.claim->recorded().reason, Reason::lost);
  EXPECT_EQ(guard.run(request(), [] { return std::string(); }).value, "second");
}

TEST_F(GuardTest, a_claim_ends_as_its_holder_says) {
  auto released = guard.claim(request());
  EXPECT_TRUE(released.claim->release().done());
  EXPECT_FALSE(guard.look(request()).has_value());
  auto failed = guard.claim(request());
  EXPECT_EQ(failed.claim->attempt(), 1U);
  EXPECT_EQ(failed.claim->recorded().status, Status::in_progress);
  EXPECT_TRUE(failed.claim->fail().done());
  EXPECT_EQ(guard.look(request())->reason, Reason::work_failed);
  auto done = guard.claim(request());
  EXPECT_EQ(done.claim->attempt(), 2U);
  EXPECT_EQ(done.claim->succeed("{}").value, "{}");
  EXPECT_EQ(done.claim->recorded().value, "{}");
  EXPECT_EQ(guard.claim(request()).outcome.value, "{}");
  EXPECT_EQ(guard.look(request())->value, "{}");
}

TEST_F(GuardTest, hold_waits_for_somebody_to_find_out) {
  Request held = request();
  held.on_unknown = OnUnknown::hold;
  {
    const auto dropped = guard.claim(held);
  }
  clock_.advance(1h);
  EXPECT_EQ(guard.run(held, [] { return std::string(); }).reason, Reason::unknown);
  held.on_unknown = OnUnknown::retry;
  EXPECT_TRUE(guard.run(held, [] { return std::string(); }).succeeded());
}

TEST_F(GuardTest, the_renewer_keeps_a_claim_alive_on_its_own) {
  // The system's clock: the renewals are real, and what is waited for is a lease that has been renewed.
  auto guard = Guard::open({.secret = secret});
  for (int left = 4; left >= 0; --left) {
    Request renewed{.scope = "s", .key = "k" + std::to_string(left), .lease = 300ms, .on_unknown = OnUnknown::retry};
    auto claimed = guard->claim(renewed);
    ASSERT_TRUE(claimed.claim.has_value());
    renewed.wait = 1s;
    const auto waited = guard->claim(renewed);
    // A machine that pauses for longer than the lease loses it, but not every time.
    if (waited.outcome.reason != Reason::at_work && left > 0) continue;
    EXPECT_EQ(waited.outcome.reason, Reason::at_work);
    EXPECT_EQ(claimed.claim->succeed("1").value, "1");
    break;
  }
}

std::string content(const std::string& path) {
  std::ifstream file(ONCE_SOURCE + ("/" + path));
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(LibraryPage, what_it_shows_is_in_the_consumer) {
  const std::string page = content("docs/guides/library.md");
  const std::string consumer = content("tests/consumer/main.cpp") + content("tests/consumer/transaction.cpp") +
                               content("tests/consumer/double.cpp");
  const std::string begin = "```cpp\n";
  int blocks = 0;
  for (std::size_t at = page.find(begin); at != std::string::npos; at = page.find(begin, at)) {
    at += begin.size();
    EXPECT_TRUE(consumer.contains(page.substr(at, page.find("```", at) - at))) << page.substr(at, 80);
    ++blocks;
  }
  EXPECT_EQ(blocks, 7);
}

TEST(Canonical, names_and_values_are_what_their_json_would_be) {
  const Inputs members = {{"z", 100},
                          {"a", -120},
                          {"b", 0},
                          {"n", nullptr},
                          {"t", true},
                          {"u", ~std::uint64_t{0}},
                          {"d", 1.50},
                          {"s", "a\"b\u00e9\n"},
                          {"e", ""},
                          {"quote\"d", 1e300},
                          {"j", Json{R"({"y": [1.0], "x": "\u0041"})"}}};
  const auto canonical_form = canonical(members);
  ASSERT_TRUE(canonical_form.has_value());
  EXPECT_EQ(canonical_form, canonical_json(*canonical_form));
  EXPECT_EQ(canonical_form, canonical_json(R"({"z":1e2,"a":-120,"b":0.0,"n":null,"t":true,"u":18446744073709551615,)"
                                           R"("d":15e-1,"s":"a\"b\u00e9\n","e":"","quote\"d":1e300,)"
                                           R"("j":{"x":"A","y":[1]}})"));
  // U+10000 comes before U+FFFF by its UTF-16 units, and after it by its bytes.
  EXPECT_EQ(canonical(Inputs{{"\uFFFF", 1}, {"\U00010000", 2}}), canonical_json("{\"\uFFFF\":1,\"\U00010000\":2}"));
  EXPECT_FALSE(canonical(Inputs{{"a", "\xFF"}}).has_value());
  EXPECT_FALSE(canonical(Inputs{{"\xFF", 1}}).has_value());
}

TEST(HashText, white_space_makes_no_difference_and_it_is_sha256) {
  Sha256 hash;
  hash.update("a b c");
  const Digest digest = hash.digest();
  const std::string hex = to_hex({reinterpret_cast<const char*>(digest.data()), digest.size()});
  EXPECT_EQ(hash_text("a b c"), hex);
  EXPECT_EQ(hash_text(" \t a\r\n b\u00A0\u2003c\uFEFF "), hex);
  EXPECT_NE(hash_text("ab c"), hex);
  EXPECT_EQ(hash_text(""), hash_text("  \n"));
}

}  // namespace
}  // namespace once::guard
