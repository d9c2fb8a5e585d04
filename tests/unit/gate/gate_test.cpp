// A gate as a C++ program uses it, from one thread and from many.
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <future>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "tests/unit/gate/gate_world.hpp"

namespace once::gate::gate_test {

using namespace std::chrono_literals;

constexpr auto patience = 20s;

class Gates : public GateTest {};

TEST_F(Gates, first_request_executes_and_a_retry_gets_its_reply) {
  Gate gate = open();
  const Begun begun = gate.begin(request());
  ASSERT_TRUE(begun.claim.has_value());
  EXPECT_EQ(begun.claim->attempt(), 1U);
  EXPECT_TRUE(begun.claim->is_protected());
  EXPECT_EQ(field(begun.claim->fields(), "Idempotency-Claim"), begun.claim->token());
  const Reply first = gate.finish(*begun.claim, made());
  EXPECT_EQ(first.status, 201);
  EXPECT_EQ(first.ending, Ending::executed);
  EXPECT_EQ(first.settled, Settled::succeeded);
  const Begun again = gate.begin(request());
  ASSERT_TRUE(again.reply.has_value());
  EXPECT_EQ(again.reply->body, "done");
  EXPECT_EQ(again.reply->ending, Ending::replayed);
  EXPECT_EQ(field(again.reply->fields, "Idempotency-Replayed"), "true");
  EXPECT_EQ(field(again.reply->fields, "Original-Request-Id"), begun.claim->request_id());
}

TEST_F(Gates, request_without_a_key_passes) {
  Gate gate = open();
  Request plain = request();
  plain.fields.pop_back();
  const Begun begun = gate.begin(plain);
  EXPECT_TRUE(begun.passes());
  EXPECT_NE(field(begun.fields, "X-Request-Id"), "(none)");
  EXPECT_EQ(field(begun.fields, "Idempotency-Status"), "(none)");
  Request ignored = request();
  ignored.method = "GET";
  EXPECT_EQ(field(gate.begin(ignored).fields, "Idempotency-Status"), "bypassed");
}

// A gateway refuses two keys, two callers and two hosts. A server that has joined them must not make one of them.
TEST_F(Gates, fields_that_a_server_joined_are_refused_as_two) {
  Gate gate = open();
  const auto begun = [&](const Field& field, RepeatedFields repeated) {
    Request asked = request();
    std::erase_if(asked.fields, [&](const Field& each) { return each.name == field.name; });
    asked.fields.push_back(field);
    asked.repeated_fields = repeated;
    const Begun result = gate.begin(asked);
    return result.reply ? result.reply->status : 0;
  };
  for (const Field& field : {Field{"Idempotency-Key", "a,b"}, Field{"Idempotency-Key", "\"a\",\"b\""},
                             Field{"Authorization", "Bearer a,Bearer b"}, Field{"Authorization", "Basic eDp5, token"},
                             Field{"Host", "a.example,b.example"}}) {
    EXPECT_EQ(begun(field, RepeatedFields::joined), 400) << field.value;
  }
  for (const Field& field : {Field{"Idempotency-Key", "\"a,b\""}, Field{"Authorization", "Token a=\"1, 2\", b=3"},
                             Field{"Authorization", "Digest username=\"a, b\", nc=1"}, Field{"Accept", "a/b, c/d"}}) {
    EXPECT_NE(begun(field, RepeatedFields::joined), 400) << field.value;
  }
  EXPECT_NE(begun({"Idempotency-Key", "a,b"}, RepeatedFields::kept), 400) << "a key with a comma";
}

// Two Cookie fields become one pair: `theme=dark,sid=a`.
TEST_F(Gates, cookie_of_the_caller_is_found_behind_a_comma_or_refused) {
  Gate gate = open({{"store", "memory:"}, {"defaults.caller", "cookie:sid"}});
  const auto begun = [&](std::string_view cookie) {
    Request asked = request();
    asked.fields.push_back({"Cookie", std::string(cookie)});
    asked.repeated_fields = RepeatedFields::joined;
    return gate.begin(asked);
  };
  const auto status = [&](std::string_view cookie) {
    const Begun result = begun(cookie);
    return result.reply ? result.reply->status : 0;
  };
  const Begun first = begun("theme=dark,sid=a");
  ASSERT_TRUE(first.claim.has_value());
  EXPECT_EQ(gate.finish(*first.claim, made()).status, 201);
  EXPECT_TRUE(begun("x=1; theme=dark,sid=b; y=2").claim.has_value()) << "another caller";
  EXPECT_EQ(status("sid=a; x=1, 2"), 201) << "the same caller, and a comma in another cookie";
  for (const std::string_view ambiguous : {"sid=a,theme=dark", "sid=a,sid=b", "x=1,sid=a; sid=b"}) {
    EXPECT_EQ(status(ambiguous), 400) << ambiguous;
  }
}

TEST_F(Gates, wait_for_the_owner_blocks_no_thread) {
  Gate gate = open();
  const Begun begun = gate.begin(request());
  std::promise<Begun> told;
  gate.begin(request(), [&told](Begun result) { told.set_value(std::move(result)); });
  std::promise<Reply> finished;
  gate.finish(*begun.claim, made("first"), [&finished](Reply reply) { finished.set_value(std::move(reply)); });
  EXPECT_EQ(finished.get_future().get().body, "first");
  const Begun waited = told.get_future().get();
  ASSERT_TRUE(waited.reply.has_value());
  EXPECT_EQ(waited.reply->ending, Ending::replayed);
}

TEST_F(Gates, stop_ends_the_wait_for_the_owner) {
  Gate gate = open({{"store", "memory:"}, {"defaults.in_flight_wait", "5m"}});
  const Begun owner = gate.begin(request());
  std::stop_source stop;
  std::promise<Begun> told;
  gate.begin(request(), [&told](Begun result) { told.set_value(std::move(result)); }, stop.get_token());
  auto blocked = std::async(std::launch::async, [&] { return gate.begin(request(), stop.get_token()); });
  stop.request_stop();
  EXPECT_EQ(told.get_future().get().reply->ending, Ending::rejected);
  EXPECT_EQ(blocked.get().reply->ending, Ending::rejected);
  // One that came before the call leaves nothing behind.
  const Begun late = gate.begin(request("other"), stop.get_token());
  EXPECT_FALSE(late.claim.has_value());
  std::promise<Begun> late_told;
  gate.begin(request("other"), [&](Begun result) { late_told.set_value(std::move(result)); }, stop.get_token());
  EXPECT_FALSE(late_told.get_future().get().claim.has_value());
  EXPECT_EQ(gate.finish(*owner.claim, made()).settled, Settled::succeeded);
  EXPECT_EQ(gate.begin(request("other")).claim->attempt(), 1U);
}

TEST_F(Gates, gate_may_be_destroyed_by_a_callback) {
  std::optional<Gate> gate = open();
  std::promise<std::chrono::nanoseconds> ended;
  gate->begin(request(), [&](const Begun&) {
    const auto began = std::chrono::steady_clock::now();
    gate.reset();
    ended.set_value(std::chrono::steady_clock::now() - began);
  });
  EXPECT_LT(ended.get_future().get(), 4s) << "it cannot wait for itself";
}

TEST_F(Gates, log_goes_where_the_program_wants_it) {
  std::promise<std::string> logged;
  std::atomic<bool> told = false;
  Options given = options();
  given.config_text = "routes: [{path: /a, cors: {origins: ['https://a.example']}}]";
  given.log = [&](std::string_view line) {
    if (!told.exchange(true)) logged.set_value(std::string(line));
    throw std::runtime_error("dropped");
  };
  auto gate = Gate::open(given);
  ASSERT_TRUE(gate.has_value()) << gate.error().detail;
  const Begun begun = gate->begin(request());
  EXPECT_TRUE(begun.passes()) << "no route covers it; the first request brings the warning all the same";
  EXPECT_THAT(logged.get_future().get(), testing::HasSubstr("cors.origins has no effect in a gate"));
}

TEST_F(Gates, failure_is_executed_again_and_a_refusal_leaves_nothing) {
  Gate gate = open();
  EXPECT_EQ(gate.finish(*gate.begin(request("failed")).claim, {.status = 500}).settled, Settled::failed);
  EXPECT_EQ(gate.begin(request("failed")).claim->attempt(), 2U);
  EXPECT_EQ(gate.finish(*gate.begin(request("refused")).claim, {.status = 429}).settled, Settled::released);
  EXPECT_EQ(gate.begin(request("refused", "another body")).claim->attempt(), 1U);
}

TEST_F(Gates, abandoned_and_dropped_claims_are_unknown) {
  Gate gate = open();
  const Begun abandoned = gate.begin(request("abandoned"));
  EXPECT_EQ(gate.abandon(*abandoned.claim).settled, Settled::unknown);
  EXPECT_EQ(gate.finish(*abandoned.claim, made()).status, 500);  // a claim ends once
  EXPECT_EQ(gate.begin(request("abandoned")).reply->ending, Ending::unknown);
  gate.begin(request("dropped")).claim.reset();
  EXPECT_EQ(gate.begin(request("dropped")).reply->ending, Ending::unknown);
  EXPECT_THAT(gate.metrics(), testing::HasSubstr("once_gate_claims_dropped_total 1"));
}

TEST_F(Gates, callers_that_the_program_has_verified_do_not_meet) {
  Gate gate = open();
  Request one = request();
  one.caller = "user 1";
  Request other = request();
  other.caller = "user 2";
  const Begun first = gate.begin(one);
  EXPECT_EQ(gate.finish(*first.claim, made("of one")).status, 201);
  EXPECT_EQ(gate.begin(one).reply->body, "of one");
  ASSERT_TRUE(gate.begin(other).claim.has_value());
  ASSERT_TRUE(gate.begin(request()).claim.has_value());
}

TEST_F(Gates, caller_of_the_program_stands_for_the_header_of_a_trusted_proxy) {
  Gate gate =
      open({{"store", "memory:"}, {"defaults.caller", "proxy-header:X-User"}, {"trusted_proxies", "192.0.2.9"}});
  Request verified = request();
  verified.caller = "user 1";
  verified.fields.push_back({"X-User", "somebody else"});
  Request proxied = request();
  proxied.peer = "192.0.2.9";
  proxied.fields.push_back({"X-User", "user 1"});
  Request claimed = request();
  claimed.fields.push_back({"X-User", "user 1"});  // by a client, whose word does not count
  EXPECT_EQ(gate.finish(*gate.begin(verified).claim, made()).status, 201);
  EXPECT_EQ(gate.begin(proxied).reply->ending, Ending::replayed);
  EXPECT_TRUE(gate.begin(claimed).claim.has_value());
}

TEST_F(Gates, body_that_is_too_large_is_refused) {
  Gate gate = open({{"store", "memory:"}, {"defaults.max_request_body", "1KiB"}});
  EXPECT_EQ(gate.begin(request("k", std::string(1025, 'x'))).reply->status, 413);
  EXPECT_TRUE(gate.begin(request("k", std::string(1024, 'x'))).claim.has_value());
}

TEST_F(Gates, malformed_heads_are_answered_as_the_gateway_does) {
  Gate gate = open();
  Request two_hosts = request();
  two_hosts.fields.push_back({"Host", "other.example"});
  EXPECT_EQ(gate.begin(two_hosts).reply->status, 400);
  Request two_keys = request();
  two_keys.fields.push_back({"Idempotency-Key", "other"});
  EXPECT_EQ(gate.begin(two_keys).reply->status, 400);
  Request no_target = request();
  no_target.target = "";
  EXPECT_EQ(gate.begin(no_target).reply->status, 400);
}

TEST_F(Gates, drain_ends_waits_and_waits_for_claims) {
  Gate gate = open({{"store", "memory:"}, {"defaults.in_flight_wait", "5m"}});
  Begun begun = gate.begin(request());
  std::promise<Begun> told;
  gate.begin(request(), [&told](Begun result) { told.set_value(std::move(result)); });
  EXPECT_EQ(gate.drain(1ms), Drained::timed_out);
  EXPECT_EQ(told.get_future().get().reply->ending, Ending::in_flight);
  EXPECT_EQ(gate.begin(request("new")).reply->status, 503);
  EXPECT_EQ(gate.finish(*begun.claim, made()).settled, Settled::succeeded);
  EXPECT_EQ(gate.drain(patience), Drained::all);
}

TEST_F(Gates, claim_may_outlive_its_gate) {
  std::optional<Claim> claim;
  {
    Gate gate = open();
    claim = gate.begin(request()).claim;
    Gate moved = std::move(gate);
  }
  Gate other = open();
  EXPECT_EQ(other.finish(*claim, made()).status, 503);
}

TEST_F(Gates, journal_outlives_its_gate) {
  const std::string store = "journal:" + folder_.path() + "/journal";
  {
    Gate gate = open({{"store", store}});
    EXPECT_EQ(gate.finish(*gate.begin(request()).claim, made("kept")).status, 201);
    EXPECT_EQ(gate.begin(request("unfinished")).claim->attempt(), 1U);
  }
  Gate gate = open({{"store", store}});
  EXPECT_EQ(gate.begin(request()).reply->body, "kept");
  EXPECT_EQ(gate.begin(request("unfinished")).reply->ending, Ending::unknown);
}

TEST_F(Gates, store_that_is_down_refuses_or_bypasses) {
  const std::vector<Field> down = {{"store", "redis://127.0.0.1:1"},
                                   {"server.connect_timeout", "100ms"},
                                   {"server.timeout", "100ms"},
                                   {"secret_file", secret_file()}};
  Gate rejects = open(down);
  EXPECT_EQ(rejects.begin(request()).reply->status, 503);
  std::vector<Field> bypass = down;
  bypass.push_back({"defaults.store_down", "bypass"});
  Gate bypasses = open(bypass);
  const Begun begun = bypasses.begin(request());
  ASSERT_TRUE(begun.claim.has_value());
  EXPECT_FALSE(begun.claim->is_protected());
  const Reply reply = bypasses.finish(*begun.claim, made());
  EXPECT_EQ(reply.ending, Ending::bypassed);
  EXPECT_EQ(reply.body, "done");
}

// Stacks that no machine has room for: no thread can be made.
class NoThreads {
 public:
  NoThreads() {
    pthread_attr_t huge;
    pthread_getattr_default_np(&before_);
    pthread_getattr_default_np(&huge);
    pthread_attr_setstacksize(&huge, std::size_t{1} << 46U);
    pthread_setattr_default_np(&huge);
    pthread_attr_destroy(&huge);
  }
  ~NoThreads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  pthread_attr_t before_{};
};

TEST_F(Gates, opening_without_a_thread_to_be_had_is_an_error) {
  const NoThreads none;
  const auto opened = Gate::open(options());
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().kind, OpenError::Kind::system);
  EXPECT_THAT(opened.error().detail, testing::HasSubstr("cannot open the gate: "));
}

TEST_F(Gates, many_threads_execute_each_key_once) {
  Gate gate = open();
  std::atomic<int> executed = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int key = 0; key < 50; ++key) {
        const Begun begun = gate.begin(request(std::to_string(key)));
        if (begun.claim) {
          ++executed;
          EXPECT_EQ(gate.finish(*begun.claim, made(std::to_string(key))).status, 201);
        } else {
          EXPECT_EQ(begun.reply->body, std::to_string(key));
        }
      }
    });
  }
  threads.clear();
  EXPECT_EQ(executed, 50);
}

}  // namespace once::gate::gate_test
