// The life of an operation over a scripted network and in virtual time: nothing here waits.
#include "client/operation.hpp"

#include <filesystem>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/support/manual_clock.hpp"
#include "tests/unit/support/temporary_folder.hpp"

namespace once::client::operation_test {

using namespace std::chrono_literals;

struct Step {
  Tried tried;
  Duration takes = 10ms;
};

Step answers(int status, std::vector<Header> headers = {}, std::string body = "") {
  return {.tried = {.happened = Happened::success,
                    .answer = {.status = status, .headers = std::move(headers), .body = std::move(body)}}};
}
Step fails(Happened happened) {
  return {.tried = {.happened = happened, .detail = "it failed"}};
}

// One machine: the clock on the wall, time that passes, and a network that plays one step per try, the last for ever.
class World final : public Transport, public Timeline {
 public:
  Tried perform(const Try& what, const std::stop_token& /*stop*/) override {
    keys.push_back(what.headers.back().value);
    key_headers.push_back(what.headers.back().name);
    bodies.push_back(what.request.body);
    timeouts.push_back(what.timeout);
    if (on_try) on_try();
    const Step step = steps.size() > 1 ? steps.front() : steps.at(0);
    if (steps.size() > 1) steps.erase(steps.begin());
    pass(std::min(step.takes, what.timeout));
    return step.tried;
  }
  Duration now() const override { return now_; }
  void wait(Duration duration, const std::stop_token& token) override {
    waits.push_back(duration);
    if (token.stop_requested()) return;
    pass(duration + oversleeps);
    if (on_wait) on_wait();
  }
  void pass(Duration duration) {
    now_ += duration;
    clock.advance(duration);
  }

  Result send(const Request& with = {.url = "http://api.test/", .body = "body"}) {
    reports.clear();
    const Watcher watcher{.on_key =
                              [this](std::string_view key, KeyOrigin from) {
                                told_key = key;
                                origin = from;
                              },
                          .on_try = [this](const TryReport& report) { reports.push_back(report); }};
    const std::stop_token token = stop.get_token();
    return run_operation({.options = options, .request = with, .watcher = watcher, .stop = token},
                         {.clock = clock, .random = random, .transport = *this, .timeline = *this});
  }

  Options options;
  std::vector<Step> steps;
  std::stop_source stop;
  std::function<void()> on_try;
  std::function<void()> on_wait;
  Duration oversleeps{};

  ManualClock clock;
  SystemRandom random;
  std::vector<std::string> keys, key_headers, bodies;
  std::vector<Duration> timeouts, waits;
  std::vector<TryReport> reports;
  std::string told_key;
  KeyOrigin origin = KeyOrigin::made;

 private:
  Duration now_ = 1h;
};

struct ClientOperation : testing::Test {
  World world;
};

TEST_F(ClientOperation, one_key_and_the_same_bytes_on_every_try) {
  world.steps = {fails(Happened::not_connected), fails(Happened::lost_after_sending), answers(503), answers(201)};
  const Result result = world.send();
  EXPECT_EQ(result.stop_reason, StopReason::answered);
  EXPECT_EQ(result.work, Work::answered);
  EXPECT_EQ(result.tries, 4U);
  EXPECT_EQ(result.answer->status, 201);
  EXPECT_EQ(world.keys, std::vector<std::string>(4, result.key));
  EXPECT_EQ(world.bodies, std::vector<std::string>(4, "body"));
  EXPECT_EQ(world.told_key, result.key);
  EXPECT_EQ(world.waits.size(), 3U);
}

TEST_F(ClientOperation, operations_have_keys_of_their_own) {
  world.steps = {answers(200)};
  std::set<std::string> keys;
  for (int i = 0; i < 100; ++i) keys.insert(world.send().key);
  EXPECT_EQ(keys.size(), 100U);
}

TEST_F(ClientOperation, given_key_and_header_name_are_used) {
  world.options.key_header = "X-Idempotency-Key";
  world.steps = {answers(200)};
  EXPECT_EQ(world.send({.url = "http://api.test/", .key = "order-1"}).key, "order-1");
  EXPECT_EQ(world.keys, std::vector<std::string>{"order-1"});
  EXPECT_EQ(world.key_headers, std::vector<std::string>{"X-Idempotency-Key"});
  EXPECT_EQ(world.origin, KeyOrigin::given);
}

TEST_F(ClientOperation, refusal_is_an_answer_and_final) {
  for (const int status : {301, 400, 404, 409, 422, 500, 501}) {
    World world;
    world.steps = {answers(status)};
    const Result result = world.send();
    SCOPED_TRACE(status);
    EXPECT_EQ(result.stop_reason, StopReason::answered);
    EXPECT_EQ(result.work, Work::answered);
    EXPECT_EQ(result.tries, 1U);
  }
}

TEST_F(ClientOperation, server_errors_are_retried_if_asked) {
  world.options.server_errors = RetryServerErrors::yes;
  world.steps = {answers(500), answers(200)};
  EXPECT_EQ(world.send().tries, 2U);
}

TEST_F(ClientOperation, spent_budget_with_something_sent_is_unknown) {
  world.options.max_retries = 2;
  world.steps = {fails(Happened::timed_out), fails(Happened::not_connected)};
  const Result result = world.send();
  EXPECT_EQ(result.stop_reason, StopReason::retries_spent);
  EXPECT_EQ(result.work, Work::unknown) << "the first try may have been executed";
  EXPECT_EQ(result.tries, 3U);
  EXPECT_FALSE(result.key.empty());
  EXPECT_TRUE(result.detail.contains("3 tries")) << result.detail;
  EXPECT_FALSE(world.reports.back().next_after);
}

TEST_F(ClientOperation, spent_budget_with_nothing_sent_is_not_sent) {
  world.options.max_retries = 2;
  world.steps = {fails(Happened::not_resolved), fails(Happened::lost_before_sending), fails(Happened::not_connected)};
  EXPECT_EQ(world.send().work, Work::not_sent);
}

TEST_F(ClientOperation, giving_up_keeps_the_last_answer) {
  world.options.max_retries = 1;
  world.steps = {answers(503, {}, "busy")};
  const Result result = world.send();
  EXPECT_EQ(result.stop_reason, StopReason::retries_spent);
  EXPECT_EQ(result.work, Work::unknown);
  EXPECT_EQ(result.answer->body, "busy");
}

TEST_F(ClientOperation, deadline_holds_over_tries_and_waits) {
  world.options.max_retries = 1'000'000;
  world.options.deadline = 90s;
  world.steps = {fails(Happened::timed_out)};
  world.steps[0].takes = 30s;
  const Duration began = world.now();
  const Result result = world.send();
  EXPECT_EQ(result.stop_reason, StopReason::deadline);
  EXPECT_LE(world.now() - began, 90s);
  EXPECT_LT(world.timeouts.back(), 30s) << "the last try gets only what is left";
  EXPECT_EQ(world.timeouts.front(), 30s);
}

TEST_F(ClientOperation, waking_up_past_the_deadline_leaves_a_moment_not_for_ever) {
  world.oversleeps = 1h;
  world.steps = {fails(Happened::timed_out)};
  EXPECT_EQ(world.send().stop_reason, StopReason::deadline);
  EXPECT_EQ(world.timeouts, (std::vector<Duration>{30s, 1ms}));
}

TEST_F(ClientOperation, retry_after_is_waited_for_in_both_forms) {
  world.options.first_backoff = 0ms;
  world.clock.set(Time(784'111'777s - 20s));  // 10 ms pass before the answer
  world.steps = {answers(503, {{"Retry-After", "7"}}), answers(429, {{"retry-after", "Sun, 06 Nov 1994 08:49:37 GMT"}}),
                 answers(200)};
  EXPECT_EQ(world.send().tries, 3U);
  EXPECT_EQ(world.waits, (std::vector<Duration>{7s, 20s - 10ms - 7s - 10ms}));
}

TEST_F(ClientOperation, server_that_asks_for_more_than_the_deadline_ends_it_at_once) {
  world.steps = {answers(409, {{"Retry-After", "300"}}, R"({"code":"outcome-unknown"})")};
  const Result result = world.send();
  EXPECT_EQ(result.stop_reason, StopReason::deadline);
  EXPECT_EQ(result.work, Work::unknown);
  EXPECT_EQ(result.tries, 1U);
  EXPECT_TRUE(world.waits.empty());
  EXPECT_TRUE(result.detail.contains("5m")) << result.detail;
}

TEST_F(ClientOperation, in_flight_is_waited_out_and_held_is_not) {
  world.steps = {answers(409, {{"Retry-After", "1"}}, R"({"code":"in-flight"})"),
                 answers(409, {{"Retry-After", "1"}}, R"({"error":{"code":"idempotency_key_in_use"}})"),
                 answers(409, {}, R"({"code":"outcome-unknown","retryable":false})")};
  const Result result = world.send();
  EXPECT_EQ(result.tries, 3U);
  EXPECT_EQ(result.stop_reason, StopReason::answered);
  EXPECT_EQ(result.happened, Happened::unknown_held);
  EXPECT_EQ(result.work, Work::unknown) << "the answer says that nobody knows";
}

TEST_F(ClientOperation, replay_is_seen_in_every_dialect) {
  const std::vector<std::pair<Header, Replayed>> cases = {
      {{"Idempotency-Replayed", "true"}, Replayed::yes},    {{"idempotent-replayed", "true"}, Replayed::yes},
      {{"Idempotency-Status", "replayed"}, Replayed::yes},  {{"Idempotency-Status", "executed"}, Replayed::no},
      {{"Idempotent-Replayed", "false"}, Replayed::unsaid}, {{"X-Other", "true"}, Replayed::unsaid}};
  for (const auto& [header, replayed] : cases) {
    SCOPED_TRACE(header.name + ": " + header.value);
    World world;
    world.steps = {answers(200, {header})};
    EXPECT_EQ(world.send().answer->replayed, replayed);
  }
}

TEST_F(ClientOperation, stop_ends_the_wait) {
  world.steps = {fails(Happened::timed_out)};
  world.on_wait = [&] { world.stop.request_stop(); };
  const Result result = world.send();
  EXPECT_EQ(result.stop_reason, StopReason::cancelled);
  EXPECT_EQ(result.work, Work::unknown);
  EXPECT_EQ(result.tries, 1U);
}

TEST_F(ClientOperation, stop_before_the_first_try_sends_nothing) {
  world.steps = {answers(200)};
  world.stop.request_stop();
  const Result result = world.send();
  EXPECT_EQ(result.stop_reason, StopReason::cancelled);
  EXPECT_EQ(result.work, Work::not_sent);
  EXPECT_TRUE(world.keys.empty());
}

TEST_F(ClientOperation, mistakes_are_found_before_anything_is_sent) {
  const std::vector<Request> bad = {
      {.url = ""},
      {.url = "ftp://x/"},
      {.url = "http://x/ y"},
      {.method = "PO ST", .url = "http://x/"},
      {.url = "http://x/", .headers = {{"A b", "c"}}},
      {.url = "http://x/", .headers = {{"A", "b\r\nIdempotency-Key: other"}}},
      {.url = "http://x/", .headers = {{"idempotency-key", "mine"}}},
      {.url = "http://x/", .headers = {{"Content-Length", "1"}}},
      {.url = "http://x/", .key = std::string(257, 'k')},
      {.url = "http://x/", .key = "a\nb"},
  };
  for (const Request& request : bad) {
    World world;
    world.steps = {answers(200)};
    const Result result = world.send(request);
    EXPECT_EQ(result.stop_reason, StopReason::bad_request);
    EXPECT_FALSE(result.detail.empty());
    EXPECT_TRUE(world.keys.empty());
  }
}

class ClientOperationKeyFile : public testing::Test {
 protected:
  ClientOperationKeyFile() { world_.options.key_file = path_; }
  bool there() const { return std::filesystem::exists(path_); }

  TemporaryFolder folder_;
  std::string path_ = folder_.path() + "/key";
  World world_;
};

TEST_F(ClientOperationKeyFile, key_is_on_disk_before_the_first_try) {
  world_.steps = {answers(200)};
  world_.on_try = [&] { EXPECT_TRUE(there()); };
  world_.send();
  EXPECT_EQ(world_.keys.size(), 1U);
}

TEST_F(ClientOperationKeyFile, next_process_goes_on_with_the_key) {
  world_.options.max_retries = 0;
  world_.steps = {fails(Happened::timed_out), answers(200)};
  const std::string key = world_.send().key;
  World next;
  next.options.key_file = path_;
  next.steps = {fails(Happened::not_connected), answers(200)};
  EXPECT_EQ(next.send().key, key);
  EXPECT_EQ(next.keys, std::vector<std::string>(2, key));
  EXPECT_EQ(next.origin, KeyOrigin::resumed);
}

TEST_F(ClientOperationKeyFile, resumed_is_never_not_sent) {
  world_.options.max_retries = 0;
  world_.steps = {fails(Happened::not_connected)};
  EXPECT_EQ(world_.send().work, Work::not_sent);
  EXPECT_EQ(world_.send().work, Work::unknown) << "who knows what the first process had sent";
}

TEST_F(ClientOperationKeyFile, after_the_answer_it_is_kept_or_removed_as_asked) {
  world_.steps = {answers(200)};
  const std::string key = world_.send().key;
  EXPECT_EQ(world_.send().key, key) << "kept: sending again asks for the same answer";
  world_.options.key_file_end = KeyFileEnd::remove;
  EXPECT_EQ(world_.send().key, key);
  EXPECT_FALSE(there());
  EXPECT_NE(world_.send().key, key);
}

TEST_F(ClientOperationKeyFile, is_not_removed_while_the_work_may_be_half_done) {
  world_.options.key_file_end = KeyFileEnd::remove;
  world_.options.max_retries = 0;
  for (const Step& step :
       {answers(500), answers(503), fails(Happened::timed_out), answers(409, {}, R"({"code":"outcome-unknown"})")}) {
    world_.steps = {step};
    world_.send();
    EXPECT_TRUE(there());
  }
}

TEST_F(ClientOperationKeyFile, a_refusal_after_a_try_that_may_have_been_executed_settles_nothing) {
  world_.options.key_file_end = KeyFileEnd::remove;
  world_.steps = {fails(Happened::lost_after_sending), answers(401)};
  const Result refused = world_.send();
  EXPECT_EQ(refused.stop_reason, StopReason::answered);
  EXPECT_EQ(refused.work, Work::unknown);
  world_.steps = {answers(201, {{.name = "Idempotency-Status", .value = "replayed"}})};
  const Result again = world_.send();
  EXPECT_EQ(again.key, refused.key);
  EXPECT_EQ(again.work, Work::answered);
}

TEST_F(ClientOperationKeyFile, is_for_one_request_only) {
  world_.steps = {answers(200)};
  world_.send();
  const Result result = world_.send({.url = "http://api.test/", .body = "another body"});
  EXPECT_EQ(result.stop_reason, StopReason::key_file);
  EXPECT_EQ(world_.keys.size(), 1U);
  const Result other_key = world_.send({.url = "http://api.test/", .body = "body", .key = "another"});
  EXPECT_EQ(other_key.stop_reason, StopReason::key_file);
}

TEST_F(ClientOperationKeyFile, is_refused_once_the_server_may_have_forgotten_the_key) {
  world_.options.max_retries = 0;
  world_.steps = {fails(Happened::timed_out)};
  world_.send();
  world_.clock.advance(22h);
  EXPECT_EQ(world_.send().stop_reason, StopReason::retries_spent);
  world_.clock.advance(2h);
  const Result old = world_.send();
  EXPECT_EQ(old.stop_reason, StopReason::key_file);
  EXPECT_EQ(world_.keys.size(), 2U);
  world_.options.key_file_lifetime = 0ms;
  EXPECT_EQ(world_.send().stop_reason, StopReason::retries_spent);
}

}  // namespace once::client::operation_test
