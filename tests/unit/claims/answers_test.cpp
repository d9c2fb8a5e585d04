#include "claims/answers.hpp"

#include <gmock/gmock.h>

#include "claims/requests.hpp"
#include "core/outcome.hpp"

namespace once::claims::answers_test {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr Time now{Duration(1'767'225'600'123)};  // 2026-01-01
const ClaimsAnswers answers("urn:once:error:");

Op with_record(Verdict verdict, State state = State::started) {
  Op op;
  op.verb = Verb::claim;
  op.status = OpStatus::done;
  op.verdict = verdict;
  op.now = now;
  op.terms.takeover_after = 5min;
  op.record = Record();
  op.record->state = state;
  op.record->fence = Fence{7};
  op.record->started_at = now - 1min;
  op.record->lease_until = now + 1500ms;
  op.record->expires_at = now + 24h;
  return op;
}

Op with_outcome(const StoredResponse& response) {
  Op op = with_record(Verdict::replay, State::succeeded);
  op.record->outcome = std::make_shared<const std::string>(encode(response));
  return op;
}

TEST(UnaskedLease, a_renewal_never_shortens_what_is_left) {
  Op seen = with_record(Verdict::execute);
  seen.verb = Verb::lookup;
  const Nonce nonce{{7}};
  seen.record->nonce = nonce;
  EXPECT_EQ(unasked_lease(seen, nonce), default_claim_lease);
  seen.record->lease_until = now + 1h;
  EXPECT_EQ(unasked_lease(seen, nonce), 1h);
  EXPECT_EQ(unasked_lease(seen, Nonce{{1}}), default_claim_lease) << "another owner's lease is none of its business";
  seen.record.reset();
  EXPECT_EQ(unasked_lease(seen, nonce), default_claim_lease);
}

TEST(ClaimsAnswers, acquired) {
  Op op = with_record(Verdict::execute);
  EXPECT_EQ(answers.claimed(op, "handle").response.body,
            R"({"status":"acquired","claim":"handle","attempt":1,"fence":7,"lease_until":"2026-01-01T00:00:01.623Z",)"
            R"("expires_at":"2026-01-02T00:00:00.123Z"})"
            "\n");
  op.record->attempt = Attempt{2};
  op.record->previous_state = State::failed;
  EXPECT_THAT(answers.claimed(op, "").response.body, HasSubstr(R"("previous":"failed")"));
}

TEST(ClaimsAnswers, in_progress_says_when_it_is_worth_coming_back) {
  Op op = with_record(Verdict::in_flight);
  EXPECT_THAT(answers.claimed(op, "").response.body, HasSubstr(R"("owner":"at_work","attempt":1,"retry_after":2)"));
  op.record->lease_until = now + 1h;
  EXPECT_THAT(answers.claimed(op, "").response.body, HasSubstr(R"("retry_after":5)"));
  op.verdict = Verdict::too_early;
  EXPECT_THAT(answers.claimed(op, "").response.body, HasSubstr(R"("owner":"gone","attempt":1,"retry_after":240)"));
}

TEST(ClaimsAnswers, a_value_that_is_no_json_is_text_or_hex) {
  const auto value_of = [](const StoredResponse& response) {
    return answers.claimed(with_outcome(response), "").response.body;
  };
  EXPECT_THAT(value_of({.headers = "content-type: application/problem+json; x\r\n", .body = "{\"a\": 1}"}),
              HasSubstr(R"("value":{"a": 1},)"));
  EXPECT_THAT(value_of({.headers = "X: y\r\nContent-Type: text/plain\r\n", .body = "1"}), HasSubstr(R"("value":"1",)"));
  EXPECT_THAT(value_of({.headers = "Content-Type: application/json\r\n", .body = "{"}), HasSubstr(R"("value":"{",)"));
  EXPECT_THAT(value_of({.headers = "", .body = "\xff\x01"}), HasSubstr(R"("value":"ff01","encoding":"hex",)"));
}

TEST(ClaimsAnswers, what_was_given_comes_back) {
  Op op = with_record(Verdict::replay, State::succeeded);
  op.record->outcome = outcome_of("[1.0]");
  EXPECT_THAT(answers.claimed(op, "").response.body, HasSubstr(R"("value":[1.0],)"));
  EXPECT_THAT(answers.found(op).response.body, HasSubstr(R"("value":[1.0],)"));
  EXPECT_THAT(answers.succeeded(op, "[1.0]").response.body, testing::Not(HasSubstr("value")));
  EXPECT_THAT(answers.succeeded(op, "[2]").response.body, HasSubstr(R"("value":[1.0])"));
}

TEST(ClaimsAnswers, a_value_that_was_not_kept_is_no_reason_to_do_it_again) {
  Op op = with_record(Verdict::not_kept, State::succeeded);
  op.record->body_kept = BodyKept::no;
  EXPECT_EQ(answers.claimed(op, "").response.status, 409);
  EXPECT_EQ(answers.found(op).response.status, 409);
  EXPECT_THAT(answers.succeeded(op, "1").response.body, HasSubstr(R"("kept":false)"));
}

TEST(ClaimsAnswers, a_record_that_cannot_be_read_is_an_error) {
  Op op = with_record(Verdict::replay, State::succeeded);
  EXPECT_EQ(answers.claimed(op, "").response.status, 503);
}

TEST(ClaimsAnswers, a_lapsed_owner_is_unknown_to_who_only_looks) {
  Op op = with_record(Verdict::execute);
  EXPECT_THAT(answers.found(op).response.body, HasSubstr(R"("status":"in_progress")"));
  op.now = op.record->lease_until;
  EXPECT_THAT(answers.found(op).response.body, HasSubstr(R"("status":"unknown")"));
}

}  // namespace once::claims::answers_test
