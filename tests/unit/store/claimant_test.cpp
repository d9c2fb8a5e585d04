// The claim protocol against a store that fails at each step in turn.
#include "store/claimant.hpp"

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/random.hpp"
#include "tests/unit/support/faulty_store.hpp"
#include "tests/unit/support/virtual_time.hpp"

namespace once::store {
namespace claimant_test {

using namespace std::chrono_literals;
using testing::ElementsAre;

constexpr Duration lease = 30s;

struct Late {
  Op op;
  Stands claim;
};

// Keeps what it is asked to do later.
class Host final : public ClaimantHost {
 public:
  void store_failed(const Op& /*op*/) override { ++failures; }
  void retries(const Op& /*op*/) override { ++retried; }
  void end_in_background(Op end, Stands claim, std::shared_ptr<const void> /*kept_alive*/) override {
    late.push_back({std::move(end), claim});
  }

  std::vector<Late> late;
  int failures = 0;
  int retried = 0;
};

class ClaimantTest : public testing::TestWithParam<Shared> {
 protected:
  template <class T>
  T wait_for(Task<T> task) {
    std::optional<T> result;
    const auto collect = [](Task<T> awaited, std::optional<T>& out) -> Task<void> {
      T value = co_await awaited;
      out.emplace(std::move(value));
    };
    spawn(collect(std::move(task), result));
    EXPECT_TRUE(executor_.run_until([&] { return result.has_value(); }));
    return *std::move(result);
  }
  void wait_for(Task<void> task) {
    bool ended = false;
    const auto await = [](Task<void> awaited, bool& out) -> Task<void> {
      co_await awaited;
      out = true;
    };
    spawn(await(std::move(task), ended));
    EXPECT_TRUE(executor_.run_until([&] { return ended; }));
  }

  Op claim_op(int content = 1) const {
    Op op;
    op.id = id_;
    op.fingerprint.bytes.fill(static_cast<std::uint8_t>(content));
    op.terms.lease = lease;
    return op;
  }
  static void succeed(Op& op) {
    op.verb = Verb::finish;
    op.final_state = State::succeeded;
    op.outcome = std::make_shared<const std::string>("made");
  }
  // The store is back.
  void run_late() {
    store_.heal();
    for (Late& each : std::exchange(host_.late, {})) store_.run_inside(each.op);
  }

  const OperationId id_{};
  Trace trace_;
  ManualClock clock_;
  VirtualExecutor executor_{clock_};
  FaultyStore store_{clock_, GetParam(), FaultyStore::Execution::in_a_lane, trace_};
  VirtualLanes lanes_{store_, executor_};
  SeededRandom random_;
  Host host_;
  Claimant claimant_{{.store = lanes_, .home = executor_, .clock = clock_, .random = random_}, host_};
  Executions executions_;
};

TEST_P(ClaimantTest, whatever_step_fails_nothing_is_left_started) {
  for (const Fault fault : {Fault::before, Fault::after, Fault::full}) {
    for (std::size_t failing = 0; failing < 4; ++failing) {
      for (std::size_t times = 1; times <= 3; ++times) {
        SCOPED_TRACE(testing::Message() << static_cast<int>(fault) << " at " << failing << ", " << times << " times");
        const std::size_t first = store_.steps() + failing;
        store_.fail_when(
            [=](const Op&, std::size_t step) { return step >= first && step < first + times ? fault : Fault::none; });
        Op op = claim_op();
        Executions::Entry work(executions_);
        const ClaimResult claimed = wait_for(claimant_.claim(op));
        ASSERT_EQ(claimed.stands == Stands::yes, op.status == OpStatus::done && op.verdict == Verdict::execute);
        if (claimed.stands == Stands::yes) {
          ASSERT_EQ(wait_for(claimant_.enter(op, work)), Executions::Entered::yes);
          succeed(op);
          wait_for(claimant_.end(op, lease, &work));
          EXPECT_EQ(op.status, OpStatus::done) << "it may fail for a moment only";
          wait_for(claimant_.leave(op, work));
        } else if (claimed.stands == Stands::perhaps) {
          claimant_.take_back_later(op);
        }
        run_late();
        const std::optional<Record> record = store_.record(id_);
        EXPECT_EQ(record.has_value(), claimed.stands == Stands::yes);
        if (record) EXPECT_EQ(record->state, State::succeeded);
        if (!record) continue;
        Op forget{.verb = Verb::forget, .id = id_, .nonce = record->nonce, .seen_state = State::succeeded};
        store_.run_inside(forget);
      }
    }
  }
}

TEST_P(ClaimantTest, each_claim_has_a_nonce_of_its_own) {
  Op op = claim_op();
  wait_for(claimant_.claim(op));
  const Nonce first = op.nonce;
  wait_for(claimant_.claim(op));
  EXPECT_NE(op.nonce, first);
  EXPECT_EQ(op.verdict, Verdict::in_flight);
}

TEST_P(ClaimantTest, a_claim_by_name_keeps_its_nonce_and_is_the_same_claim) {
  Op op = claim_op();
  op.verb = Verb::claim;
  op.nonce.bytes.fill(9);
  const Nonce named = op.nonce;
  EXPECT_EQ(wait_for(claimant_.claim_as_named(op)).stands, Stands::yes);
  EXPECT_EQ(wait_for(claimant_.claim_as_named(op)).stands, Stands::yes);
  EXPECT_EQ(op.nonce, named);
  EXPECT_TRUE(host_.late.empty());
}

// The first claim gets no answer and is still on its way when the second one is refused.
TEST_P(ClaimantTest, a_stray_copy_of_a_claim_is_taken_back) {
  Op owner = claim_op();
  wait_for(claimant_.claim(owner));
  store_.fail_next(Verb::claim, Fault::before);
  Op op = claim_op();
  EXPECT_EQ(wait_for(claimant_.claim(op)).stands, Stands::perhaps);
  ASSERT_EQ(host_.late.size(), 1U);
  EXPECT_EQ(host_.late[0].op.verb, Verb::release);
  EXPECT_EQ(host_.late[0].op.nonce, op.nonce);
  EXPECT_EQ(host_.late[0].claim, Stands::perhaps);
  EXPECT_EQ(host_.failures, 1);
}

TEST_P(ClaimantTest, a_claim_that_failed_is_the_callers_to_end) {
  store_.fail_next(Verb::claim, Fault::after, 2);
  Op op = claim_op();
  EXPECT_EQ(wait_for(claimant_.claim(op)).stands, Stands::perhaps);
  EXPECT_TRUE(host_.late.empty());
  EXPECT_EQ(host_.failures, 2);
  EXPECT_TRUE(store_.record(id_).has_value());
  claimant_.take_back_later(op);
  run_late();
  EXPECT_FALSE(store_.record(id_).has_value());
}

TEST_P(ClaimantTest, a_finish_is_tried_until_its_limit_and_no_longer) {
  Op op = claim_op();
  wait_for(claimant_.claim(op));
  store_.fail_next(Verb::finish, Fault::before, 1000);
  succeed(op);
  const Time began = clock_.now();
  wait_for(claimant_.end(op, lease));
  EXPECT_EQ(op.status, OpStatus::failed);
  EXPECT_GE(clock_.now() - began, lease);
  EXPECT_LE(clock_.now() - began, lease + 2s);
  EXPECT_EQ(host_.failures, host_.retried + 1);
  EXPECT_TRUE(host_.late.empty()) << "when its lease has ended the record tells the truth by itself";
}

TEST_P(ClaimantTest, a_release_that_fails_is_left_to_the_background) {
  Op op = claim_op();
  wait_for(claimant_.claim(op));
  op.verb = Verb::release;
  store_.fail_next(Verb::release, Fault::before);
  wait_for(claimant_.end_soon(op));
  ASSERT_EQ(host_.late.size(), 1U);
  EXPECT_EQ(host_.late[0].claim, Stands::yes);
  run_late();
  EXPECT_FALSE(store_.record(id_).has_value());
}

TEST_P(ClaimantTest, a_release_may_be_repeated) {
  for (const Fault fault : {Fault::none, Fault::before, Fault::after}) {
    Op op = claim_op();
    wait_for(claimant_.claim(op));
    store_.fail_next(Verb::release, fault);
    wait_for(claimant_.release(op));
    EXPECT_EQ(op.status, OpStatus::done);
    wait_for(claimant_.release(op));
    EXPECT_EQ(op.status, OpStatus::done);
  }
}

TEST_P(ClaimantTest, a_release_of_what_somebody_else_has_is_lost) {
  Op op = claim_op();
  wait_for(claimant_.claim(op));
  wait_for(claimant_.release(op));
  Op newer = claim_op();
  wait_for(claimant_.claim(newer));
  wait_for(claimant_.release(op));
  EXPECT_EQ(op.status, OpStatus::lost);
  store_.fail_next(Verb::lookup, Fault::before, 2);
  wait_for(claimant_.release(op));
  EXPECT_EQ(op.status, OpStatus::failed) << "nobody knows";
}

// The lease of the claim at work has ended in the store, or was forgotten there: another request is given the claim.
class HandedOver : public ClaimantTest {
 protected:
  void SetUp() override {
    wait_for(claimant_.claim(op_));
    ASSERT_EQ(wait_for(claimant_.enter(op_, work_)), Executions::Entered::yes);
    drop();
  }
  void drop() {
    Op release = end_of(op_, Verb::release, op_.nonce);
    store_.run_inside(release);
    trace_.clear();
  }
  // What another request of this process finds.
  Executions::Entered retry(int content = 1) {
    newer_ = claim_op(content);
    EXPECT_EQ(wait_for(claimant_.claim(newer_)).stands, Stands::yes);
    Executions::Entry other(executions_);
    return wait_for(claimant_.enter(newer_, other));
  }

  Op op_ = claim_op();
  Op newer_;
  Executions::Entry work_{executions_};
};

TEST_P(HandedOver, the_outcome_is_recorded_under_the_newest_claim) {
  ASSERT_EQ(retry(), Executions::Entered::handed_over);
  succeed(op_);
  wait_for(claimant_.end(op_, lease, &work_));
  wait_for(claimant_.leave(op_, work_));
  EXPECT_EQ(op_.nonce, newer_.nonce);
  EXPECT_THAT(trace_, ElementsAre("claim: execute", "finish succeeded: done"));
}

TEST_P(HandedOver, a_claim_that_came_too_late_is_taken_back_if_the_outcome_stands) {
  succeed(op_);
  op_.status = OpStatus::done;
  ASSERT_EQ(retry(), Executions::Entered::handed_over);
  wait_for(claimant_.leave(op_, work_));
  EXPECT_THAT(trace_, ElementsAre("claim: execute", "release: done"));
}

TEST_P(HandedOver, a_claim_that_came_too_late_is_unknown_if_no_outcome_stands) {
  succeed(op_);
  op_.status = OpStatus::failed;
  ASSERT_EQ(retry(), Executions::Entered::handed_over);
  wait_for(claimant_.leave(op_, work_));
  EXPECT_THAT(trace_, ElementsAre("claim: execute", "finish unknown: done"));
}

TEST_P(HandedOver, another_request_under_the_same_key_gives_its_claim_back) {
  ASSERT_EQ(retry(2), Executions::Entered::other_request);
  EXPECT_THAT(trace_, ElementsAre("claim: execute", "release: done"));
}

class Committed : public ClaimantTest {
 protected:
  void SetUp() override {
    wait_for(claimant_.claim(op_));
    // The backend records the outcome in the name of its owner.
    Op commit = end_of(op_, Verb::finish, op_.nonce);
    commit.final_state = State::succeeded;
    commit.outcome = std::make_shared<const std::string>("committed");
    store_.run_inside(commit);
    op_.verb = Verb::release;
    op_.status = OpStatus::lost;
  }
  Op op_ = claim_op();
};

TEST_P(Committed, outcome_is_found_by_its_owner) {
  EXPECT_EQ(wait_for(claimant_.find_committed(op_)), store::Committed::yes);
  EXPECT_EQ(*op_.record->outcome, "committed");
}

TEST_P(Committed, outcome_is_nobody_elses) {
  op_.nonce.bytes.fill(7);
  EXPECT_EQ(wait_for(claimant_.find_committed(op_)), store::Committed::no);
}

TEST_P(Committed, outcome_that_cannot_be_seen_or_confirmed_is_not_told) {
  store_.fail_next(Verb::lookup, Fault::before);
  EXPECT_EQ(wait_for(claimant_.find_committed(op_)), store::Committed::no);
  store_.fail_next(Verb::finish, Fault::before);
  EXPECT_EQ(wait_for(claimant_.find_committed(op_)),
            GetParam() == Shared::no ? store::Committed::yes : store::Committed::no);
}

INSTANTIATE_TEST_SUITE_P(Stores, ClaimantTest, testing::Values(Shared::no, Shared::yes));
INSTANTIATE_TEST_SUITE_P(Stores, HandedOver, testing::Values(Shared::no, Shared::yes));
INSTANTIATE_TEST_SUITE_P(Stores, Committed, testing::Values(Shared::no, Shared::yes));

}  // namespace claimant_test
}  // namespace once::store
