// The decisions of the claim protocol: every answer that a store can give, at every step.
#include "store/claim_steps.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

namespace once::store {
namespace claim_steps_test {

using namespace std::chrono_literals;

constexpr Time start{std::chrono::hours(1000)};
constexpr Duration lease = 30s;

Nonce nonce_of(std::uint8_t fill) {
  Nonce nonce;
  nonce.bytes.fill(fill);
  return nonce;
}

// Only asked how long a call may take, and whether it has failed for good.
class Facts final : public Store {
 public:
  void execute(std::span<Op* const> /*batch*/) override {}
  Traits traits() const override { return {}; }
  Duration time_limit() const override { return 5s; }
  bool failed_for_good() const override { return gone; }

  bool gone = false;
};

Op claim_op() {
  Op op;
  op.verb = Verb::claim;
  op.nonce = nonce_of(1);
  op.terms.lease = lease;
  return op;
}

void answer_claim(Op& op, Verdict verdict, Time now) {
  op.status = OpStatus::done;
  op.verdict = verdict;
  op.now = now;
  op.record = Record{.nonce = op.nonce, .lease_until = now + op.terms.lease};
}

class ClaimStepsTest : public testing::Test {
 protected:
  // The next answer comes `after` the question.
  Op* next(Duration after = 1ms) { return steps_.next(store_, now_ += after); }
  void granted() { answer_claim(op_, Verdict::execute, now_); }
  void failed(StoreFault fault = StoreFault::unavailable) { answer_failed(op_, fault, "as scripted"); }
  Stands stands() const { return steps_.result().stands; }

  Facts store_;
  Time now_ = start;
  Op op_ = claim_op();
  ClaimSteps steps_{op_};
};

TEST_F(ClaimStepsTest, a_granted_claim_stands) {
  ASSERT_EQ(next(0ms), &op_);
  granted();
  EXPECT_EQ(next(), nullptr);
  EXPECT_EQ(stands(), Stands::yes);
  EXPECT_EQ(steps_.result().asked, start);
  EXPECT_EQ(steps_.result().held_since, start);
  EXPECT_EQ(next(), nullptr) << "decided once";
}

TEST_F(ClaimStepsTest, what_stands_depends_on_all_answers_of_the_store) {
  constexpr StoreFault lost = StoreFault::unavailable;
  struct Row {
    std::string_view story;
    std::vector<std::variant<Verdict, StoreFault>> answers;
    Stands stands;
    Duration after = 1ms;  // each question
  };
  for (const Row& row : std::vector<Row>{
           {"a verdict against us leaves nothing", {Verdict::replay}, Stands::no},
           {"a lost answer is asked for again", {lost, Verdict::execute}, Stands::yes},
           {"a copy may be on its way, whatever the next answer is", {lost, Verdict::in_flight}, Stands::perhaps},
           {"two lost answers are enough", {lost, lost}, Stands::perhaps},
           {"a store that used up its time is not asked again", {lost}, Stands::perhaps, 500ms},
           {"a refusal changed nothing", {StoreFault::refused}, Stands::no},
           {"nor does a full store", {StoreFault::full}, Stands::no},
           {"unless an answer was lost before a refusal", {lost, StoreFault::refused}, Stands::perhaps},
           {"or before a full store", {lost, StoreFault::full}, Stands::perhaps}}) {
    SCOPED_TRACE(row.story);
    Op op = claim_op();
    ClaimSteps steps(op);
    Time now = start;
    for (const auto& answer : row.answers) {
      ASSERT_EQ(steps.next(store_, now), &op);
      EXPECT_EQ(op.nonce, nonce_of(1));
      if (const auto* const verdict = std::get_if<Verdict>(&answer)) answer_claim(op, *verdict, now);
      if (const auto* const fault = std::get_if<StoreFault>(&answer)) answer_failed(op, *fault, "as scripted");
      now += row.after;
    }
    EXPECT_EQ(steps.next(store_, now), nullptr);
    EXPECT_EQ(steps.result().stands, row.stands);
    EXPECT_EQ(op.status == OpStatus::failed, std::holds_alternative<StoreFault>(row.answers.back()));
  }
}

// A claim whose answer took too long, up to its renewal.
class LateClaim : public ClaimStepsTest {
 protected:
  void SetUp() override {
    next(0ms);
    granted();
    renewal_ = next(lease / 2);
    ASSERT_NE(renewal_, nullptr);
    ASSERT_NE(renewal_, &op_);
    EXPECT_EQ(renewal_->verb, Verb::renew);
    EXPECT_EQ(renewal_->nonce, op_.nonce);
    EXPECT_EQ(renewal_->terms.lease, lease);
    renewal_->now = now_;
  }
  Op* renewal_ = nullptr;
};

TEST_F(LateClaim, stands_once_it_was_renewed) {
  const Time asked = now_;
  renewal_->status = OpStatus::done;
  EXPECT_EQ(next(), nullptr);
  EXPECT_EQ(stands(), Stands::yes);
  EXPECT_EQ(steps_.result().asked, start);
  EXPECT_EQ(steps_.result().held_since, asked);
  EXPECT_EQ(op_.record->lease_until, asked + lease);
  EXPECT_FALSE(steps_.result().overtaken);
}

TEST_F(LateClaim, is_in_flight_when_somebody_has_taken_it_over) {
  renewal_->status = OpStatus::lost;
  EXPECT_EQ(next(), nullptr);
  EXPECT_EQ(op_.verdict, Verdict::in_flight);
  EXPECT_EQ(stands(), Stands::no);
  EXPECT_TRUE(steps_.result().overtaken);
}

TEST_F(LateClaim, has_failed_when_nobody_knows) {
  answer_failed(*renewal_, StoreFault::refused, "");
  EXPECT_EQ(next(), nullptr);
  EXPECT_EQ(op_.status, OpStatus::failed);
  EXPECT_EQ(op_.fault, StoreFault::unavailable);
  EXPECT_EQ(stands(), Stands::perhaps);
}

TEST_F(LateClaim, has_failed_when_the_renewal_is_late_as_well) {
  renewal_->status = OpStatus::done;
  EXPECT_EQ(next(lease / 2), nullptr);
  EXPECT_EQ(op_.status, OpStatus::failed);
  EXPECT_EQ(stands(), Stands::perhaps);
}

TEST_F(ClaimStepsTest, a_claim_is_late_by_the_stores_clock_or_when_ours_was_set_back) {
  next();
  granted();
  op_.record->lease_until = op_.now;
  EXPECT_NE(next(), nullptr);
  Op other = claim_op();
  ClaimSteps steps(other);
  steps.next(store_, now_);
  answer_claim(other, Verdict::execute, now_);
  EXPECT_NE(steps.next(store_, now_ - 1ms), nullptr);
}

TEST_F(ClaimStepsTest, a_claim_of_the_process_is_never_late) {
  next();
  granted();
  op_.record->lease_until = Time::max();
  EXPECT_EQ(next(24h), nullptr);
  EXPECT_EQ(stands(), Stands::yes);
}

TEST_F(ClaimStepsTest, a_caller_that_holds_the_claim_itself_is_told_at_once) {
  ClaimSteps steps(op_, Hold::later);
  steps.next(store_, start);
  answer_claim(op_, Verdict::execute, start);
  EXPECT_EQ(steps.next(store_, start + lease), nullptr);
  EXPECT_EQ(steps.result().stands, Stands::yes);
  EXPECT_EQ(steps.result().held_since, start);
}

TEST_F(ClaimStepsTest, a_claim_that_was_granted_before_is_renewed_only_if_it_is_late) {
  answer_claim(op_, Verdict::execute, start);
  ClaimSteps fresh(op_, start);
  EXPECT_EQ(fresh.next(store_, start + 1s), nullptr);
  EXPECT_EQ(fresh.result().stands, Stands::yes);
  ClaimSteps old(op_, start);
  const Op* const renewal = old.next(store_, start + lease);
  ASSERT_NE(renewal, nullptr);
  EXPECT_EQ(renewal->verb, Verb::renew);
}

TEST_F(ClaimStepsTest, a_look_up_is_asked_for_again_too) {
  op_.verb = Verb::lookup;
  next();
  failed();
  ASSERT_EQ(next(), &op_);
  op_.status = OpStatus::done;
  EXPECT_EQ(next(1h), nullptr);
}

class LeaseStepsTest : public testing::Test {
 protected:
  void SetUp() override { steps_.start(op_, start, nullptr); }
  void answer(OpStatus status, Time asked) {
    Op* const renewal = steps_.due(asked);
    ASSERT_NE(renewal, nullptr);
    renewal->status = status;
    steps_.answered(*renewal);
  }

  Op op_ = claim_op();
  LeaseSteps steps_;
};

TEST_F(LeaseStepsTest, the_first_renewal_counts_from_when_the_lease_was_asked_for) {
  EXPECT_EQ(steps_.first(start), lease / 3);
  EXPECT_EQ(steps_.first(start + 4s), lease / 3 - 4s);
  EXPECT_EQ(steps_.first(start + 20s), 0s);
  EXPECT_EQ(steps_.first(start - 1h), 0s) << "the clock was set back";
}

// Two more can fail before the lease ends, and one that failed is tried many times.
TEST_F(LeaseStepsTest, a_lease_is_renewed_when_a_third_of_it_is_over) {
  EXPECT_EQ(steps_.every(), lease / 3);
  EXPECT_EQ(steps_.soon(), lease / 30);
}

TEST_F(LeaseStepsTest, it_holds_while_it_is_renewed_in_time) {
  EXPECT_TRUE(steps_.holds_first(start + lease - 1ms));
  EXPECT_FALSE(steps_.holds_first(start + lease));
  EXPECT_FALSE(steps_.holds_first(start - 1ms));
  answer(OpStatus::done, start + 10s);
  EXPECT_TRUE(steps_.holds_first(start + lease));
  answer(OpStatus::failed, start + 20s);
  EXPECT_FALSE(steps_.lost());
  EXPECT_FALSE(steps_.holds_first(start + 10s + lease)) << "a renewal that failed renews nothing";
  steps_.renewed(start + 15s);
  EXPECT_TRUE(steps_.holds_first(start + 10s + lease));
}

TEST_F(LeaseStepsTest, a_lost_claim_is_over) {
  answer(OpStatus::lost, start + 10s);
  EXPECT_TRUE(steps_.lost());
  EXPECT_TRUE(steps_.over());
  EXPECT_FALSE(steps_.holds_first(start + 10s));
  EXPECT_EQ(steps_.due(start + 20s), nullptr);
}

class HandedTest : public testing::Test {
 protected:
  void SetUp() override {
    answer_claim(op_, Verdict::execute, start);
    op_.record->fence = Fence{1};
    ASSERT_EQ(work_.enter(op_), Executions::Entered::yes);
  }
  // Another request was given the claim, and hands it to this work.
  void hand(std::uint8_t nonce) {
    Op newer = op_;
    newer.nonce = nonce_of(nonce);
    newer.record->fence = Fence{nonce};
    Executions::Entry other(executions_);
    ASSERT_EQ(other.enter(newer), Executions::Entered::handed_over);
  }

  Executions executions_;
  Executions::Entry work_{executions_};
  Op op_ = claim_op();
  Facts store_;
};

TEST_F(HandedTest, the_newest_claim_is_renewed_and_is_not_the_first_one) {
  LeaseSteps steps;
  steps.start(op_, start, &work_);
  Op* renewal = steps.due(start);
  renewal->status = OpStatus::lost;
  steps.answered(*renewal);
  EXPECT_FALSE(steps.over());
  EXPECT_EQ(steps.due(start), nullptr);
  hand(2);
  renewal = steps.due(start);
  ASSERT_NE(renewal, nullptr);
  EXPECT_EQ(renewal->nonce, nonce_of(2));
  renewal->status = OpStatus::done;
  steps.answered(*renewal);
  EXPECT_FALSE(steps.lost());
  EXPECT_FALSE(steps.holds_first(start)) << "what was not sent under the first one may not be sent under the second";
}

TEST_F(HandedTest, work_without_a_claim_renews_what_it_is_handed) {
  LeaseSteps steps;
  steps.start_unclaimed(op_, start, work_);
  EXPECT_EQ(steps.due(start), nullptr);
  EXPECT_FALSE(steps.holds_first(start));
  hand(2);
  ASSERT_NE(steps.due(start), nullptr);
}

TEST_F(HandedTest, a_claim_that_is_older_than_the_one_at_hand_does_not_count) {
  hand(3);
  hand(2);
  EXPECT_EQ(work_.handed(), nonce_of(3));
}

TEST_F(HandedTest, an_end_goes_to_the_newest_claim) {
  hand(2);
  Op finish = end_of(op_, Verb::finish, op_.nonce);
  EndSteps steps(finish, {}, &work_);
  EXPECT_EQ(finish.nonce, nonce_of(2));
  hand(3);
  finish.status = OpStatus::lost;
  EXPECT_EQ(steps.again(store_, 0s), 0s);
  EXPECT_EQ(finish.nonce, nonce_of(3));
  finish.status = OpStatus::lost;
  EXPECT_EQ(steps.again(store_, 0s), std::nullopt);
}

class EndStepsTest : public testing::Test {
 protected:
  std::vector<Duration> pauses(EndSteps& steps, OpStatus status, std::size_t most = 100) {
    std::vector<Duration> all;
    end_.status = status;
    while (all.size() < most) {
      const auto pause = steps.again(store_, 0s);
      if (!pause) break;
      all.push_back(*pause);
    }
    return all;
  }

  Op end_ = end_of(claim_op(), Verb::finish, nonce_of(1));
  Facts store_;
};

TEST_F(EndStepsTest, one_is_tried_for_as_long_as_it_can_matter) {
  struct Row {
    std::string_view story;
    Patience patience;
    OpStatus status;
    std::vector<Duration> pauses;
  };
  for (const Row& row : std::vector<Row>{
           {"one that is done is over", {.limit = 1h}, OpStatus::done, {}},
           {"so is one that is lost", {.limit = 1h}, OpStatus::lost, {}},
           {"unless its claim is on its way", {.limit = 1h, .on_its_way = 100ms}, OpStatus::lost, {20ms, 40ms, 80ms}},
           {"one that failed is not tried without patience", {}, OpStatus::failed, {}},
           {"or until the limit",
            {.limit = 3s},
            OpStatus::failed,
            {20ms, 40ms, 80ms, 160ms, 320ms, 640ms, 1000ms, 1000ms}}}) {
    SCOPED_TRACE(row.story);
    EndSteps steps(end_, row.patience);
    EXPECT_EQ(pauses(steps, row.status), row.pauses);
  }
}

TEST_F(EndStepsTest, the_time_that_the_store_took_counts) {
  EndSteps steps(end_, {.limit = 3s});
  end_.status = OpStatus::failed;
  EXPECT_NE(steps.again(store_, 2s), std::nullopt);
  EXPECT_EQ(steps.again(store_, 3s), std::nullopt);
}

TEST_F(EndStepsTest, a_store_that_is_away_for_long_is_asked_less_often) {
  EndSteps steps(end_, {.limit = Duration::max()});
  const std::vector<Duration> all = pauses(steps, OpStatus::failed, 50);
  EXPECT_EQ(all.size(), 50U);
  EXPECT_EQ(all[30], 1s);
  EXPECT_EQ(all.back(), 5s);
}

TEST_F(EndStepsTest, a_store_that_has_failed_for_good_is_not_asked) {
  EndSteps steps(end_, {.limit = 1h});
  EXPECT_EQ(steps.first(store_), 20ms);
  store_.gone = true;
  EXPECT_EQ(steps.again(store_, 0s), std::nullopt);
  EXPECT_EQ(EndSteps(end_, {.limit = 1h}).first(store_), std::nullopt);
}

TEST_F(EndStepsTest, a_claim_waits_for_the_owner_before_it) {
  Op claim = claim_op();
  EndSteps steps(claim, {.limit = 1h});
  answer_claim(claim, Verdict::in_flight, start);
  EXPECT_EQ(steps.again(store_, 0s), 20ms);
  answer_claim(claim, Verdict::execute, start);
  EXPECT_EQ(steps.again(store_, 0s), std::nullopt);
}

TEST(Patience, is_for_as_long_as_the_record_can_stand) {
  Op end = claim_op();
  end.terms.ttl = 1h;
  EXPECT_EQ(patience_for_end(end, Stands::yes, Shared::yes).limit, 1h + lease);
  EXPECT_EQ(patience_for_end(end, Stands::yes, Shared::no).limit, Duration::max()) << "nobody else can end it";
  EXPECT_EQ(patience_for_end(end, Stands::yes, Shared::yes).on_its_way, 0s);
  EXPECT_GT(patience_for_end(end, Stands::perhaps, Shared::yes).on_its_way, 0s);
  EXPECT_EQ(patience_for_end(end, Stands::perhaps, Shared::no).on_its_way, 0s);
  end.terms.owner = Owner::outside;
  EXPECT_EQ(patience_for_end(end, Stands::yes, Shared::no).limit, 1h + lease);
  end.terms.lease = Duration::max();
  EXPECT_EQ(patience_for_end(end, Stands::yes, Shared::yes).limit, Duration::max());
}

TEST(Standing, says_whose_record_it_is_and_how_it_ended) {
  Op seen;
  seen.status = OpStatus::failed;
  EXPECT_EQ(standing_of(seen, nonce_of(1)), Standing::unseen);
  seen.status = OpStatus::done;
  EXPECT_EQ(standing_of(seen, nonce_of(1)), Standing::nothing);
  seen.record = Record{.nonce = nonce_of(2)};
  EXPECT_EQ(standing_of(seen, nonce_of(1)), Standing::taken_over);
  Nonce own = nonce_of(1);
  own.bytes[0] = 7;  // its halves differ
  seen.record->nonce = released_nonce(own);
  EXPECT_EQ(standing_of(seen, own), Standing::released);
  seen.record->nonce = own;
  for (const auto& [state, standing] :
       {std::pair(State::started, Standing::started), std::pair(State::succeeded, Standing::succeeded),
        std::pair(State::failed, Standing::failed), std::pair(State::unknown, Standing::unknown),
        std::pair(State::tombstone, Standing::expired)}) {
    seen.record->state = state;
    EXPECT_EQ(standing_of(seen, own), standing);
  }
}

TEST(AnotherOutcome, stands_if_the_record_has_other_bytes) {
  Op finish;
  EXPECT_FALSE(another_outcome_stands(finish));
  finish.record = Record{};
  EXPECT_FALSE(another_outcome_stands(finish));
  finish.record->outcome = std::make_shared<const std::string>("committed");
  EXPECT_TRUE(another_outcome_stands(finish));
  finish.outcome = std::make_shared<const std::string>("answered");
  EXPECT_TRUE(another_outcome_stands(finish));
  finish.outcome = std::make_shared<const std::string>("committed");
  EXPECT_FALSE(another_outcome_stands(finish));
}

}  // namespace claim_steps_test
}  // namespace once::store
