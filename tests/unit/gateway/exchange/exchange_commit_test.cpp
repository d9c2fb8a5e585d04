// Backends that record their outcome in their own transaction: what they committed is the answer, whatever came, or did
// not come, over the wire.
#include "core/outcome.hpp"
#include "tests/unit/gateway/exchange/exchange_world.hpp"

namespace once::gateway {
namespace exchange_commit_test {

using namespace std::chrono_literals;

// The backend's own transaction: with the claim it was sent, like once_finish() does.
void commit_in(World& world, const ScriptedBackend::Seen& seen, std::string_view body, State state) {
  const std::string claim = seen.field("Idempotency-Claim");
  const std::string nonce = *from_hex(claim.substr(claim.find('.') + 1));
  Op op{.verb = Verb::finish, .id = operation(1), .terms = {.ttl = 1h}, .final_state = state};
  std::ranges::copy(nonce, reinterpret_cast<char*>(op.nonce.bytes.data()));
  op.outcome = std::make_shared<const std::string>(encode({.status = 202, .body = body}));
  world.store.run_inside(op);
  EXPECT_EQ(op.status, OpStatus::done);
}

class CommittingBackend : public EveryStore {
 protected:
  void commit(const ScriptedBackend::Seen& seen, std::string_view body, State state = State::succeeded) {
    commit_in(world, seen, body, state);
  }
  void commits(std::string body) {
    world.backend.on_send = [this, body = std::move(body)](const auto& seen) { commit(seen, body); };
  }

  // The first answer and every retry are the committed one, and the backend was asked once.
  void expect_committed(const Call& first) {
    EXPECT_EQ(first.status(), 202);
    EXPECT_EQ(first.body(), "committed");
    EXPECT_EQ(first.idempotency_status(), "executed");
    EXPECT_EQ(first.header("Idempotency-Replayed"), "");
    EXPECT_NE(first.header("Idempotency-Expires"), "");
    const Call& retry = world.ask();
    EXPECT_EQ(retry.status(), 202);
    EXPECT_EQ(retry.body(), "committed");
    EXPECT_EQ(retry.idempotency_status(), "replayed");
    EXPECT_EQ(world.backend.executions(), 1U);
    EXPECT_EQ(world.counted(), world.kept()) << "it is charged to whom it belongs";
    EXPECT_EQ(world.gateway.metrics.committed_by_backend.value(), 1U);
    EXPECT_EQ(world.gateway.metrics.claims_lost.value(), 0U);
    for (std::size_t i = 0; i < claim_end_count; ++i) {
      EXPECT_EQ(world.gateway.outcomes(ClaimEnd(i)), ClaimEnd(i) == ClaimEnd::succeeded ? 1U : 0U)
          << name_of(ClaimEnd(i));
    }
  }
};

TEST_P(CommittingBackend, that_dies_before_it_answers_has_answered) {
  for (const Delivery delivery : {Delivery::lost, Delivery::timed_out, Delivery::truncated}) {
    SCOPED_TRACE(static_cast<int>(delivery));
    World again(GetParam().shared, GetParam().execution);
    again.backend.then(fails_with(delivery));
    again.backend.on_send = [&](const auto& seen) { commit_in(again, seen, "committed", State::succeeded); };
    EXPECT_EQ(again.ask().body(), "committed");
    EXPECT_EQ(again.ask().idempotency_status(), "replayed");
    EXPECT_EQ(again.backend.executions(), 1U);
  }
}

TEST_P(CommittingBackend, whose_connection_is_lost) {
  commits("committed");
  world.backend.then(fails_with(Delivery::lost));
  expect_committed(world.ask());
}

TEST_P(CommittingBackend, that_answers_other_bytes_than_it_committed) {
  commits("committed");
  world.backend.then(answer_with(201, "what it says"));
  expect_committed(world.ask());
}

TEST_P(CommittingBackend, that_answers_with_an_error_after_it_committed) {
  commits("committed");
  world.backend.then(answer_with(500, "crashed while rendering"));
  expect_committed(world.ask());
}

TEST_P(CommittingBackend, that_answers_with_a_refusal_after_it_committed) {
  commits("committed");
  world.backend.then(answer_with(429, "try later"));
  expect_committed(world.ask());
}

TEST_P(CommittingBackend, that_commits_after_its_time_was_up_is_replayed) {
  world.by_others = true;
  world.backend.then(fails_with(Delivery::timed_out));
  EXPECT_EQ(world.ask().code(), "outcome-unknown");
  commit(world.backend.seen().front(), "committed");
  EXPECT_EQ(world.ask().body(), "committed");
  EXPECT_EQ(world.backend.executions(), 1U);
}

TEST_P(CommittingBackend, and_nobody_who_looks_while_the_store_is_down_is_told_a_guess) {
  world.by_others = true;
  commits("committed");
  world.backend.then(fails_with(Delivery::lost));
  world.store.fail_next(Verb::lookup, Fault::before, 2);
  const Call& first = world.ask();
  EXPECT_EQ(first.code(), "outcome-unknown");
  EXPECT_EQ(world.ask().body(), "committed");
  EXPECT_EQ(world.backend.executions(), 1U);
}

TEST_P(CommittingBackend, and_an_outcome_of_others_is_returned_once_it_is_durable) {
  commits("committed");
  world.backend.then(fails_with(Delivery::lost));
  world.store.fail_when([](const Op& op, std::size_t) {
    const bool once_more = op.verb == Verb::finish && op.final_state == State::succeeded;
    return once_more ? Fault::after : Fault::none;
  });
  const Call& first = world.ask();
  const bool shared = GetParam().shared == Shared::yes;
  EXPECT_EQ(first.code(), shared ? "outcome-unknown" : "");
  EXPECT_EQ(world.ask().body(), "committed");
  EXPECT_EQ(world.backend.executions(), 1U);
}

TEST_P(CommittingBackend, that_committed_a_failure_lets_a_retry_execute) {
  world.backend.on_send = [this](const auto& seen) {
    if (world.backend.executions() == 1) commit(seen, "", State::failed);
  };
  world.backend.then(fails_with(Delivery::lost));
  EXPECT_EQ(world.ask().code(), "outcome-unknown");
  world.backend.then(answer_with(201, "second"));
  EXPECT_EQ(world.ask().body(), "second");
}

INSTANTIATE_TEST_SUITE_P(Exchange, CommittingBackend, every_setting(), name_of_setting);

}  // namespace exchange_commit_test
}  // namespace once::gateway
