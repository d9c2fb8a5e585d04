// Writes with conditions, in virtual time: who gets in, what is sent, and when the resource is free again.
#include "core/etag.hpp"
#include "gateway/exchange/conditional_write.hpp"
#include "tests/unit/gateway/exchange/exchange_world.hpp"

namespace once::gateway::conditional_test {

using namespace std::chrono_literals;

std::string tag_of(std::string_view body) {
  return make_etag({.content_type = "", .content_encoding = "", .body = body});
}

TEST(EtagOf, another_coding_or_type_is_another_representation) {
  const auto tag = [](const std::string& fields) {
    const std::string text = "HTTP/1.1 200 OK\r\n" + fields + "Content-Length: 4\r\n\r\n";
    http::ResponseHead head;
    EXPECT_EQ(http::parse(text, http::HeadLimits(), Method::get, head).parsed, http::Parsed::complete);
    return etag_of(head, "body");
  };
  EXPECT_EQ(tag("Content-Encoding: gzip\r\n"), tag("Content-Encoding: gzip\r\nX: y\r\n"));
  EXPECT_NE(tag("Content-Encoding: gzip\r\n"), tag(""));
  EXPECT_NE(tag("Content-Type: text/plain\r\n"), tag("Content-Type: text/html\r\n"));
}

// One connection of a process, and the write at hand on it.
class Writer {
 public:
  // In the process of another one, or in its own.
  Writer(World& world, std::uint64_t seed, Writer* beside = nullptr)
      : world_(world),
        waiters_(beside != nullptr ? beside->waiters_ : own_waiters_),
        random_(seed),
        log_(world.clock, -1, LogLevel::off, LogFormat::json),
        ports_{.store = world.lanes,
               .waiters = waiters_,
               .executions = executions_,
               .home = world.executor,
               .clock = world.clock,
               .random = random_,
               .metrics = metrics,
               .log = log_,
               .errors_base = ""} {}

  void enter(const std::string& fields, const std::string& method = "PUT") {
    text_ = method + " /doc HTTP/1.1\r\nHost: api\r\n" + fields + "\r\n";
    ONCE_ASSERT(http::parse(text_, http::HeadLimits(), head_).parsed == http::Parsed::complete);
    entered_ = false;
    refused.reset();
    write_.reset();
    request_.emplace(WriteRequest{.policy = world_.policy,
                                  .backend = world_.backend,
                                  .head = head_,
                                  .request_id = "id",
                                  .resource = head_.path,
                                  .presence = presence});
    write_.emplace(ports_, ids_, *request_);
    spawn(run());
  }
  void leave(WriteEnd end = WriteEnd::known) {
    left_ = false;
    spawn(go(end));
    ONCE_ASSERT(world_.executor.run_until([this] { return left_; }));
  }
  // Let in or sent away.
  bool decided() const { return entered_; }
  bool in() const { return entered_ && !refused; }
  bool strips() const { return !head_.find("If-Match"); }
  std::optional<ProblemKind> refusal_kind() const { return refused ? std::optional(refused->kind) : std::nullopt; }
  int refusal_status() const { return refused ? refused->status : 0; }
  std::uint64_t count(PreconditionResult result) const {
    return metrics.preconditions[static_cast<std::size_t>(result)].value();
  }

  std::optional<Problem> refused;
  Metrics metrics;
  Presence* presence = nullptr;

 private:
  Task<void> run() {
    refused = co_await write_->begin();
    entered_ = true;
  }

  Task<void> go(WriteEnd end) {
    co_await write_->end(end);
    left_ = true;
  }

  World& world_;
  Waiters own_waiters_;
  Waiters& waiters_;
  Executions executions_;
  SeededRandom random_;
  Log log_;
  OperationIds ids_{"secret"};
  const ExchangePorts ports_;
  std::string text_;
  http::RequestHead head_;
  std::optional<WriteRequest> request_;
  std::optional<ConditionalWrite> write_;
  bool entered_ = false;
  bool left_ = false;
};

class Conditional : public EveryStore {
 protected:
  Conditional() {
    world.policy.conditional.if_match = IfMatch::on;
    world.backend.otherwise = answer_with(200, "state");
  }
  void run_until(auto&& happened) { ASSERT_TRUE(world.executor.run_until(happened)); }
  void decide(Writer& writer) {
    run_until([&] { return writer.decided(); });
  }
  void decide(Writer& writer, const std::string& fields) {
    writer.enter(fields);
    decide(writer);
  }
  static void expect_free(Writer& writer) {
    EXPECT_TRUE(writer.in());
    writer.leave();
  }

  const std::string now_ = "If-Match: " + tag_of("state") + "\r\n";
  Writer one{world, 1};
  Writer other{world, 2};
};
INSTANTIATE_TEST_SUITE_P(Stores, Conditional, every_setting(), name_of_setting);

TEST_P(Conditional, the_next_writer_of_the_same_process_is_told_when_the_resource_is_free) {
  Writer next{world, 3, &one};
  decide(one, "");
  next.enter("");
  world.executor.advance(3700ms);  // by now it looks once a second
  EXPECT_FALSE(next.decided());
  one.leave();
  const Time left = world.clock.now();
  decide(next);
  EXPECT_TRUE(next.in());
  EXPECT_LE(world.clock.now() - left, 20ms);
  next.leave();
}

TEST_P(Conditional, a_claim_that_may_have_been_made_is_taken_back_in_the_background) {
  world.store.fail_next(Verb::claim, Fault::after, 2);
  one.enter("");
  run_until([this] { return one.decided(); });
  EXPECT_EQ(one.refusal_kind(), ProblemKind::store_unavailable);
  world.executor.advance(1s);
  other.enter("");
  world.executor.advance(1s);
  expect_free(other);
}

TEST_P(Conditional, a_claim_that_arrives_after_it_was_given_up_is_taken_back) {
  if (GetParam().shared == Shared::no) GTEST_SKIP() << "nothing is on its way to a store of one process";
  std::optional<Op> stray;
  world.store.fail_when([&](const Op& op, std::size_t) {
    if (op.verb == Verb::claim) stray = op;
    return op.verb == Verb::claim ? Fault::before : Fault::none;
  });
  decide(one, "");
  ASSERT_TRUE(one.refused.has_value());
  world.executor.advance(1s);
  world.store.run_inside(*stray);
  ASSERT_EQ(stray->verdict, Verdict::execute);
  world.store.heal();
  world.executor.advance(5s);
  other.enter("");
  world.executor.advance(10ms);
  ASSERT_TRUE(other.in()) << "long before the lease of the stray claim is over";
  other.leave();
}

TEST_P(Conditional, of_two_that_name_the_state_the_second_waits_and_finds_it_changed) {
  one.enter(now_);
  other.enter(now_);
  run_until([&] { return one.decided() || other.decided(); });
  Writer& first = one.decided() ? one : other;
  Writer& second = one.decided() ? other : one;
  EXPECT_TRUE(first.in());
  EXPECT_TRUE(first.strips());
  world.executor.advance(5s);
  EXPECT_FALSE(second.decided());
  EXPECT_EQ(world.backend.executions(), 1U);
  world.backend.otherwise = answer_with(200, "changed");
  first.leave();
  decide(second);
  ASSERT_EQ(second.refusal_status(), 412);
  EXPECT_EQ(second.refused->fields.find("ETag"), tag_of("changed"));
}

TEST_P(Conditional, a_write_longer_than_the_lease_keeps_the_resource) {
  world.policy.lease = 1s;
  decide(one, now_);
  other.enter(now_);
  world.executor.advance(10s);
  EXPECT_FALSE(other.decided());
  EXPECT_GE(one.metrics.leases_renewed.value(), 20U);
  one.leave();
  decide(other);
  expect_free(other);
}

// How long the call took counts, not how often the store was asked.
TEST_P(Conditional, a_claim_that_took_half_of_its_lease_is_renewed_before_the_write_is_let_in) {
  world.store.fail_when([this](const Op& op, std::size_t) {
    if (op.verb == Verb::claim) world.clock.advance(world.policy.lease / 2);
    return Fault::none;
  });
  decide(one, "");
  EXPECT_TRUE(one.in());
  EXPECT_GE(std::ranges::count(world.trace, "renew: done"), 1);
  one.leave();
}

TEST_P(Conditional, a_claim_whose_renewal_is_late_too_lets_nobody_in) {
  world.store.fail_when([this](const Op& op, std::size_t) {
    if (op.verb == Verb::claim || op.verb == Verb::renew) world.clock.advance(world.policy.lease / 2);
    return Fault::none;
  });
  decide(one, "");
  EXPECT_EQ(one.refusal_kind(), ProblemKind::resource_busy);
}

TEST_P(Conditional, after_an_unknown_end_the_next_one_waits_for_the_lease_and_reads_then) {
  world.policy.lease = 3s;
  decide(one, now_);
  one.leave(WriteEnd::unknown);
  const Time ended = world.clock.now();
  decide(other, now_);
  EXPECT_TRUE(other.in());
  world.expect_since(ended, 2s, 5s);
  EXPECT_EQ(world.backend.executions(), 2U);
  other.leave();
}

TEST_P(Conditional, a_writer_without_conditions_is_alone_too_and_reads_nothing) {
  decide(one, "");
  EXPECT_TRUE(one.in());
  EXPECT_EQ(world.backend.executions(), 0U);
  other.enter(now_);
  world.executor.advance(1s);
  EXPECT_FALSE(other.decided());
  one.leave();
  decide(other);
  expect_free(other);
}

TEST_P(Conditional, a_refused_write_holds_nothing) {
  for (const auto& [script, status] :
       {std::pair(answer_with(200, "other"), 412), std::pair(answer_with(404), 412), std::pair(answer_with(410), 412),
        std::pair(answer_with(403), 412), std::pair(answer_with(503), 502), std::pair(answer_with(204, ""), 412),
        std::pair(fails_with(Delivery::not_sent), 502), std::pair(fails_with(Delivery::timed_out), 504),
        std::pair(fails_with(Delivery::truncated), 502)}) {
    world.backend.then(script);
    decide(one, now_);
    EXPECT_EQ(one.refusal_status(), status);
    const Time before = world.clock.now();
    decide(other, "");
    EXPECT_LE(world.clock.now() - before, 100ms);
    other.leave();
    world.executor.advance(1s);
  }
}

TEST_P(Conditional, a_read_that_got_lost_is_done_again_once) {
  world.backend.then(fails_with(Delivery::lost));
  decide(one, now_);
  EXPECT_TRUE(one.in());
  EXPECT_EQ(world.backend.executions(), 2U);
  one.leave();
  world.backend.otherwise = fails_with(Delivery::lost);
  decide(other, now_);
  EXPECT_EQ(other.refusal_status(), 502);
  EXPECT_EQ(world.backend.executions(), 4U);
}

TEST_P(Conditional, a_backend_with_tags_of_its_own_decides) {
  world.backend.then(answer_with(200, "state", "ETag: \"its-own\"\r\n"));
  decide(one, "If-Match: \"its-own\"\r\n");
  EXPECT_TRUE(one.in());
  EXPECT_FALSE(one.strips());
  EXPECT_EQ(one.count(PreconditionResult::left_to_backend), 1U);
  one.leave();
}

TEST_P(Conditional, who_waits_too_long_is_told_to_come_back) {
  decide(one, now_);
  other.enter(now_);
  const Time before = world.clock.now();
  decide(other);
  EXPECT_EQ(other.refusal_kind(), ProblemKind::resource_busy);
  EXPECT_EQ(other.refused->retry_after_seconds, 1);
  world.expect_since(before, world.policy.wait_limit, world.policy.wait_limit + 2s);
  one.leave();
}

TEST_P(Conditional, without_a_store_nothing_is_sent_unless_the_route_prefers_that) {
  world.store.go_down();
  decide(one, now_);
  EXPECT_EQ(one.refusal_kind(), ProblemKind::store_unavailable);
  EXPECT_EQ(world.backend.executions(), 0U);
  world.policy.store_down = StoreDown::bypass;
  decide(one, "If-Match: \"another\"\r\n");
  EXPECT_EQ(one.refusal_status(), 412);
  decide(one, now_);
  expect_free(one);
}

TEST_P(Conditional, a_store_that_has_failed_for_good_is_asked_once) {
  world.store.fail_for_good();
  const Time sent = world.clock.now();
  Writer writer(world, 1);
  writer.enter("If-Match: *\r\n");
  ASSERT_TRUE(world.executor.run_until([&] { return writer.decided(); }));
  EXPECT_EQ(writer.refusal_status(), 503);
  EXPECT_LE(world.clock.now() - sent, 10ms);
}

TEST_P(Conditional, conditions_are_needed_where_they_are_required) {
  world.policy.conditional.if_match = IfMatch::required;
  decide(one, "");
  EXPECT_EQ(one.refusal_status(), 428);
  decide(one, "If-Match: nothing\r\n");
  EXPECT_EQ(one.refusal_status(), 400);
  EXPECT_EQ(world.backend.executions(), 0U);
  EXPECT_EQ(one.count(PreconditionResult::missing), 1U);
  EXPECT_EQ(one.count(PreconditionResult::invalid), 1U);
}

TEST_P(Conditional, a_claim_that_went_while_the_state_was_read_stops_the_write) {
  world.policy.lease = 2s;
  world.backend.then(after(until_told, answer_with(200, "state")));
  one.enter(now_);
  run_until([&] { return world.backend.untold() == 1; });
  world.store.go_down();
  world.executor.advance(10s);
  world.backend.answer(0, answer_with(200, "state"));
  decide(one);
  EXPECT_EQ(one.refusal_kind(), ProblemKind::resource_busy);
}

// A client without a key: nothing was sent for it, so that it takes its write with it.
class Leaver final : public Presence {
 public:
  bool listen(Listener& listener) override {
    if (here) listener_ = &listener;
    return here;
  }
  void stop_listening() override { listener_ = nullptr; }
  bool has_left() override { return !here; }
  void leave() {
    here = false;
    if (listener_ != nullptr) listener_->client_left();
  }

  bool here = true;

 private:
  Listener* listener_ = nullptr;
};

TEST_P(Conditional, a_client_that_leaves_while_its_write_waits_takes_it_along) {
  Leaver client;
  other.presence = &client;
  decide(one, "");
  other.enter("");
  world.executor.advance(1s);
  ASSERT_FALSE(other.decided());
  client.leave();
  decide(other);
  EXPECT_EQ(other.refusal_kind(), ProblemKind::resource_busy);
  one.leave();
}

TEST_P(Conditional, a_client_that_left_while_the_state_was_read_after_a_wait_takes_its_write_along) {
  Leaver client;
  other.presence = &client;
  decide(one, "");
  other.enter(now_);
  world.executor.advance(1s);
  world.backend.then(after(until_told, answer_with(200, "state")));
  one.leave();
  run_until([&] { return world.backend.untold() == 1; });
  client.leave();
  world.backend.answer(0, answer_with(200, "state"));
  decide(other);
  EXPECT_EQ(other.refusal_kind(), ProblemKind::resource_busy);
  one.enter("");
  world.executor.advance(10ms);
  EXPECT_TRUE(one.in()) << "the resource is free again";
  one.leave();
}

}  // namespace once::gateway::conditional_test
