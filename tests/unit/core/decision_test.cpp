#include "core/decision.hpp"

#include <memory>
#include <string>

#include <gtest/gtest.h>

namespace once::core::decision_test {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

const Time start{std::chrono::sys_days(std::chrono::year(2026) / 1 / 1)};
const ClaimTerms terms{
    .on_unknown = OnUnknown::takeover, .takeover_after = minutes(5), .lease = seconds(30), .ttl = hours(24)};

Record record_in(State state) {
  Record record = claimed(nullptr, Fingerprint(), Nonce(), terms, start);
  record.state = state;
  return record;
}

Verdict verdict_for(const Record& record, Time now, OnUnknown on_unknown = OnUnknown::takeover,
                    const Fingerprint& fingerprint = Fingerprint()) {
  ClaimTerms with_policy = terms;
  with_policy.on_unknown = on_unknown;
  return decide(facts_of(&record, fingerprint, with_policy, now));
}

const Fingerprint other{{1}};

TEST(Decision, nothing_known_executes) {
  EXPECT_EQ(decide(facts_of(nullptr, Fingerprint(), terms, start)), Verdict::execute);
}

TEST(Decision, another_request_under_the_key_is_a_mismatch_in_every_state) {
  for (const State state : {State::started, State::succeeded, State::failed, State::unknown}) {
    EXPECT_EQ(verdict_for(record_in(state), start, OnUnknown::retry, other), Verdict::mismatch);
  }
}

TEST(Decision, a_live_owner_is_left_alone_under_every_policy) {
  for (const OnUnknown policy : {OnUnknown::retry, OnUnknown::takeover, OnUnknown::hold}) {
    EXPECT_EQ(verdict_for(record_in(State::started), start + seconds(29), policy), Verdict::in_flight);
  }
}

TEST(Decision, a_lapsed_owner_is_treated_as_unknown) {
  for (const State state : {State::started, State::unknown}) {
    const Record record = record_in(state);
    const Time lapsed = start + seconds(30);
    EXPECT_EQ(verdict_for(record, lapsed, OnUnknown::retry), Verdict::execute);
    EXPECT_EQ(verdict_for(record, lapsed, OnUnknown::hold), Verdict::held);
    EXPECT_EQ(verdict_for(record, lapsed, OnUnknown::takeover), Verdict::too_early);
    EXPECT_EQ(verdict_for(record, start + minutes(5), OnUnknown::takeover), Verdict::execute);
  }
}

TEST(Decision, succeeded_replays_or_says_the_body_was_not_kept) {
  Record record = record_in(State::succeeded);
  EXPECT_EQ(verdict_for(record, start), Verdict::replay);
  record.body_kept = BodyKept::no;
  EXPECT_EQ(verdict_for(record, start), Verdict::not_kept);
}

TEST(Decision, failed_executes_again_with_the_next_attempt_and_a_higher_fence) {
  const Record failed = record_in(State::failed);
  EXPECT_EQ(verdict_for(failed, start), Verdict::execute);
  const Record again = claimed(&failed, Fingerprint(), Nonce(), terms, start + seconds(1));
  EXPECT_EQ(again.attempt, Attempt{2});
  EXPECT_GT(again.fence, failed.fence);
}

TEST(Decision, an_expired_record_counts_as_absent_but_its_fence_is_kept) {
  const Record record = record_in(State::succeeded);
  EXPECT_EQ(verdict_for(record, start + hours(24), OnUnknown::hold, other), Verdict::execute);
  const Record again = claimed(&record, other, Nonce(), terms, start + hours(24));
  EXPECT_EQ(again.attempt, Attempt{1});
  EXPECT_GT(again.fence, record.fence);
}

TEST(Decision, an_owner_at_work_does_not_expire) {
  Record record = record_in(State::started);
  record.lease_until = start + hours(48);
  EXPECT_EQ(verdict_for(record, start + hours(25)), Verdict::in_flight);
}

TEST(Decision, a_tombstone_is_gone_for_any_request) {
  EXPECT_EQ(verdict_for(record_in(State::tombstone), start, OnUnknown::retry, other), Verdict::gone);
}

ClaimTerms remembered_for(Duration tombstone) {
  ClaimTerms with_tombstone = terms;
  with_tombstone.tombstone = tombstone;
  return with_tombstone;
}

TEST(Decision, what_expired_is_gone_until_it_is_forgotten) {
  for (const State state : {State::started, State::succeeded, State::failed, State::unknown}) {
    Record record = claimed(nullptr, Fingerprint(), Nonce(), remembered_for(hours(3)), start);
    record.state = state;
    EXPECT_FALSE(expired(record, start + hours(24) - Duration(1)));
    EXPECT_TRUE(expired(record, start + hours(24)));
    EXPECT_FALSE(forgotten(record, start + hours(27) - Duration(1)));
    EXPECT_TRUE(forgotten(record, start + hours(27)));
    for (const OnUnknown policy : {OnUnknown::retry, OnUnknown::takeover, OnUnknown::hold}) {
      EXPECT_EQ(verdict_for(record, start + hours(24), policy), Verdict::gone);
      EXPECT_EQ(verdict_for(record, start + hours(27) - Duration(1), policy, other), Verdict::gone);
      EXPECT_EQ(verdict_for(record, start + hours(27), policy, other), Verdict::execute);
    }
    EXPECT_EQ(claimed(&record, other, Nonce(), terms, start + hours(27)).attempt, Attempt{1});
  }
}

TEST(Decision, an_owner_at_work_is_no_tombstone) {
  Record record = claimed(nullptr, Fingerprint(), Nonce(), remembered_for(hours(3)), start);
  record.lease_until = start + hours(48);
  age(record, start + hours(30));
  EXPECT_EQ(record.state, State::started);
  EXPECT_EQ(verdict_for(record, start + hours(30)), Verdict::in_flight);
}

TEST(Decision, a_tombstone_has_no_outcome) {
  Record record = claimed(nullptr, Fingerprint(), Nonce(), remembered_for(hours(3)), start);
  record.state = State::succeeded;
  record.outcome = std::make_shared<const std::string>("told until it expires");
  age(record, start + hours(24) - Duration(1));
  EXPECT_EQ(record.state, State::succeeded);
  age(record, start + hours(24));
  EXPECT_EQ(record.state, State::tombstone);
  EXPECT_EQ(record.outcome, nullptr);
}

TEST(Decision, what_is_kept_anew_is_remembered_as_long_as_its_claim_asked_for) {
  Record record = claimed(nullptr, Fingerprint(), Nonce(), remembered_for(hours(3)), start);
  keep_for(record, minutes(1), start + hours(1));
  EXPECT_EQ(record.expires_at, start + hours(1) + minutes(1));
  EXPECT_EQ(record.forget_at, start + hours(4) + minutes(1));
  record = claimed(nullptr, Fingerprint(), Nonce(), remembered_for(Duration::max()), start);
  EXPECT_EQ(record.forget_at, Time::max());
  keep_for(record, minutes(1), start + hours(1));
  EXPECT_EQ(record.forget_at, Time::max());
}

TEST(Decision, times_do_not_overflow) {
  ClaimTerms for_ever = terms;
  for_ever.lease = Duration::max();
  for_ever.ttl = Duration::max();
  for_ever.takeover_after = Duration::max();
  const Record record = claimed(nullptr, Fingerprint(), Nonce(), for_ever, start);
  EXPECT_EQ(record.lease_until, Time::max());
  EXPECT_EQ(decide(facts_of(&record, Fingerprint(), for_ever, start + hours(1'000'000))), Verdict::in_flight);
}

TEST(Decision, a_released_first_claim_leaves_nothing) {
  EXPECT_FALSE(released(claimed(nullptr, Fingerprint(), Nonce{{1}}, terms, start)).has_value());
  const Record gone = record_in(State::succeeded);
  EXPECT_FALSE(released(claimed(&gone, Fingerprint(), Nonce{{1}}, terms, start + hours(24))).has_value());
}

TEST(Decision, a_released_later_claim_leaves_the_attempt_before_it) {
  for (const State state : {State::failed, State::unknown, State::started}) {
    const Record before = record_in(state);
    const Record again = claimed(&before, Fingerprint(), Nonce{{1}}, terms, start + minutes(10));
    const std::optional<Record> left = released(again);
    ASSERT_TRUE(left.has_value());
    EXPECT_EQ(left->state, state == State::failed ? State::failed : State::unknown);
    EXPECT_EQ(left->attempt, before.attempt);
    EXPECT_EQ(left->started_at, before.started_at);
    EXPECT_EQ(left->fingerprint, before.fingerprint);
    EXPECT_EQ(left->fence, again.fence);
    EXPECT_EQ(left->nonce, released_nonce(again.nonce));
    EXPECT_NE(left->nonce, again.nonce);
  }
}

}  // namespace once::core::decision_test
