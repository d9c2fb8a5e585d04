#include "admin/key_action.hpp"

#include <gtest/gtest.h>

#include "gateway/stream/stopped_stream.hpp"
#include "tests/unit/support/faulty_store.hpp"

namespace once::admin::key_action_test {

constexpr Time now{Duration(1'763'225'643'007)};

KeyInfo live_key() {
  KeyInfo key{.state = State::started, .started_at = now, .lease_until = now + std::chrono::seconds(1)};
  key.expires_at = now + std::chrono::hours(1);
  key.nonce.bytes[0] = 7;
  key.route = "/chat";
  return key;
}

std::optional<ProblemKind> stop_refused(const KeyInfo& key) {
  const auto problem = obstacle(key, Action::stop, {.version = version_of(key)}, now);
  return problem ? std::optional(problem->kind) : std::nullopt;
}

TEST(KeyAction, only_a_request_at_work_is_stopped) {
  KeyInfo key = live_key();
  EXPECT_EQ(stop_refused(key), std::nullopt);
  EXPECT_EQ(obstacle(key, Action::stop, {.version = "another"}, now)->kind, ProblemKind::claim_lost);
  EXPECT_EQ(obstacle(key, Action::forget, {.version = version_of(key)}, now)->kind, ProblemKind::in_flight);
  key.lease_until = now;
  EXPECT_EQ(stop_refused(key), ProblemKind::outcome_unknown);
  key.state = State::unknown;
  EXPECT_EQ(stop_refused(key), ProblemKind::outcome_unknown);
  key.state = State::failed;
  EXPECT_EQ(stop_refused(key), ProblemKind::claim_lost);
}

TEST(KeyAction, a_stop_finishes_in_the_name_of_the_owner_with_the_chunks_that_are_there) {
  const KeyInfo key = live_key();
  const ActionRequest asked{.outcome = gateway::stopped_outcome({.headers = "A: b\r\n"})};
  const Op op = op_of(key, Action::stop, asked);
  EXPECT_EQ(op.verb, Verb::finish);
  EXPECT_EQ(op.nonce, key.nonce);
  EXPECT_EQ(op.final_state, State::succeeded);
  EXPECT_EQ(op.body_kept, BodyKept::in_chunks);
  EXPECT_EQ(op.terms.ttl, std::chrono::hours(1));
  EXPECT_EQ(op.route, "/chat");
  EXPECT_TRUE(op.outcome->contains("A: b\r\nIdempotency-Stopped: true\r\n"));
  EXPECT_EQ(state_after(Action::stop, asked), "succeeded");
}

TEST(KeyAction, who_waits_for_the_key_is_told) {
  ManualClock clock;
  VirtualExecutor executor(clock);
  MemoryStore store(clock, {.shards = 1});
  InlineLanes lanes(store);
  Waiters waiters;
  bool told = false;
  const auto wait = [&](const OperationId& id) -> Task<void> {
    Waiters::Ticket ticket(waiters, id, executor);
    co_await ticket.wait(std::chrono::hours(1));
    told = true;
  };
  const auto act = [&](const KeyInfo& key) -> Task<void> {
    Op op = op_of(key, Action::release, {});
    co_await carry_out(op, key, lanes, waiters, executor);
  };
  const KeyInfo key = live_key();
  spawn(wait(key.id));
  spawn(act(key));
  executor.run_ready();
  EXPECT_TRUE(told);
  executor.run_to_the_end();
}

}  // namespace once::admin::key_action_test
