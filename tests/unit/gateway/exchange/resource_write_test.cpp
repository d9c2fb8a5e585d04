// Writes with a key to a resource that Once knows: the turn, the check and the end of a life around one request, in
// virtual time.
#include "gateway/exchange/resource_write.hpp"

#include "tests/unit/gateway/exchange/exchange_world.hpp"

namespace once::gateway::resource_write_test {

using namespace std::chrono_literals;

const OperationId marker = operation(98);

class Never final : public SendPermit {
 public:
  bool may_send() const override { return false; }
};

class Resource : public EveryStore {
 protected:
  Resource() {
    const auto parsed = http::parse(text_, http::HeadLimits(), head_);
    ONCE_ASSERT(parsed.parsed == http::Parsed::complete);
  }

  void take_turns() { world.policy.conditional.if_match = IfMatch::on; }
  void end_lives() { world.policy.life.remembered = 48h; }
  bool ends_lives() const { return world.policy.life.remembered > 0s; }

  std::unique_ptr<ResourceWrite> write() {
    const WriteRequest request{.policy = world.policy,
                               .backend = world.backend,
                               .head = head_,
                               .request_id = "id",
                               .resource = "/payments",
                               .life = ends_lives() ? std::optional(marker) : std::nullopt};
    return std::make_unique<ResourceWrite>(world.gateway.ports(), ids_, request);
  }
  // A DELETE with a key.
  BackendAnswer send(ResourceWrite& write, const SendPermit* permit = nullptr) {
    bool ended = false;
    BackendAnswer answer;
    spawn(send_to(write, permit, answer, ended));
    EXPECT_TRUE(world.executor.run_until([&] { return ended; })) << "it never ends";
    return answer;
  }
  BackendAnswer send() { return send(*write()); }
  void end(ResourceWrite& write, bool whole, int status) {
    bool ended = false;
    spawn(end_of(write, whole, status, ended));
    EXPECT_TRUE(world.executor.run_until([&] { return ended; })) << "it never ends";
  }
  // How long the next write waits for its turn.
  Duration turn_of_next() {
    const Time before = world.clock.now();
    EXPECT_EQ(send().delivery, Delivery::whole);
    return world.clock.now() - before;
  }

 private:
  Task<void> send_to(ResourceWrite& write, const SendPermit* permit, BackendAnswer& answer, bool& ended) {
    const BackendRequest request{.head = head_,
                                 .body = "",
                                 .added_fields = {},
                                 .timeouts = world.policy.timeouts,
                                 .max_response_body = 100,
                                 .permit = permit};
    ResourceBackend backend(write);
    answer = co_await backend.send(request);
    ended = true;
  }
  static Task<void> end_of(ResourceWrite& write, bool whole, int status, bool& ended) {
    co_await write.end(whole, status);
    ended = true;
  }

  OperationIds ids_{"secret"};
  const std::string text_ = "DELETE /payments HTTP/1.1\r\nHost: api\r\n\r\n";
  http::RequestHead head_;
};
INSTANTIATE_TEST_SUITE_P(Stores, Resource, every_setting(), name_of_setting);

TEST_P(Resource, a_write_that_ends_a_life_is_refused_before_it_is_sent_or_unknown_after) {
  end_lives();
  world.store.fail_next(Verb::lookup, Fault::before, 2);
  BackendAnswer answer = send();
  EXPECT_EQ(answer.delivery, Delivery::not_sent);
  EXPECT_TRUE(answer.refused);
  EXPECT_EQ(world.backend.executions(), 0U);
  world.store.fail_next(Verb::claim, Fault::before, 1000);
  answer = send();
  EXPECT_EQ(answer.delivery, Delivery::lost);
  EXPECT_TRUE(answer.refused);
  EXPECT_EQ(world.backend.executions(), 1U);
  world.store.heal();
  answer = send();
  EXPECT_EQ(answer.delivery, Delivery::whole);
  EXPECT_TRUE(world.store.record(marker).has_value());
}

TEST_P(Resource, a_head_of_success_ends_the_life_also_if_the_body_breaks_off) {
  end_lives();
  for (const Delivery delivery : {Delivery::truncated, Delivery::timed_out}) {
    world.backend.then(breaks_off(delivery, 500));
    EXPECT_EQ(send().delivery, delivery);
    EXPECT_FALSE(world.store.record(marker).has_value());
  }
  world.backend.then(breaks_off(Delivery::truncated, 200));
  EXPECT_EQ(send().delivery, Delivery::truncated);
  EXPECT_TRUE(world.store.record(marker).has_value());
}

TEST_P(Resource, a_turn_ends_with_a_whole_response_or_when_nothing_was_sent) {
  take_turns();
  world.policy.lease = 3s;
  for (const auto& [script, soon] :
       {std::pair(answer_with(204), true), std::pair(fails_with(Delivery::not_sent), true),
        std::pair(fails_with(Delivery::busy), true), std::pair(fails_with(Delivery::lost), false),
        std::pair(fails_with(Delivery::timed_out), false), std::pair(fails_with(Delivery::truncated), false)}) {
    world.backend.then(script);
    const auto one = write();
    send(*one);
    EXPECT_FALSE(one->holds_resource());
    const Duration waited = turn_of_next();
    EXPECT_EQ(waited < 1s, soon) << waited.count();
  }
}

TEST_P(Resource, a_status_that_a_proxy_may_have_made_ends_the_turn_as_the_route_says) {
  take_turns();
  world.policy.lease = 3s;
  for (const auto errors : {GatewayErrors::failed, GatewayErrors::unknown}) {
    world.policy.record.gateway_errors = errors;
    world.backend.then(answer_with(503));
    send();
    EXPECT_EQ(turn_of_next() < 1s, errors == GatewayErrors::failed);
  }
}

TEST_P(Resource, an_oversize_response_holds_the_resource_until_its_end) {
  take_turns();
  world.policy.lease = 3s;
  for (const bool whole : {true, false}) {
    world.backend.then(fails_with(Delivery::oversize));
    const auto one = write();
    EXPECT_EQ(send(*one).delivery, Delivery::oversize);
    EXPECT_TRUE(one->holds_resource());
    end(*one, whole, 200);
    EXPECT_FALSE(one->holds_resource());
    EXPECT_EQ(turn_of_next() < 1s, whole);
  }
}

TEST_P(Resource, a_turn_is_given_back_if_the_life_cannot_end) {
  take_turns();
  end_lives();
  world.store.fail_when([](const Op& op, std::size_t) { return op.id == marker ? Fault::before : Fault::none; });
  const auto one = write();
  const BackendAnswer answer = send(*one);
  ASSERT_TRUE(answer.refused);
  EXPECT_EQ(answer.refused->kind, ProblemKind::store_unavailable);
  EXPECT_FALSE(one->holds_resource());
  world.store.heal();
  EXPECT_LT(turn_of_next(), 1s);
}

TEST_P(Resource, without_the_claim_of_its_key_nothing_is_sent) {
  take_turns();
  const Never never;
  const auto one = write();
  const BackendAnswer answer = send(*one, &never);
  EXPECT_EQ(answer.delivery, Delivery::not_sent);
  EXPECT_FALSE(answer.refused) << "the resource was ours: the exchange says what became of the key";
  EXPECT_EQ(world.backend.executions(), 0U);
}

}  // namespace once::gateway::resource_write_test
