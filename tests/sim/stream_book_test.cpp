// What the simulator demands of readers of streams: every byte in its place, none before it is durable, and no end of a
// part.
#include "sim/stream_book.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/process.hpp"

namespace once::sim {
namespace stream_book_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::string_view body = "data: one\n\ndata: two\n\n: end.";

class ReaderOfAStream : public testing::Test {
 protected:
  void SetUp() override {
    history_.set_store_clock(clock_);
    setup_.routes.emplace_back();
    setup_.bytes.streams.chance = 100;
    claim_ = {.verb = Verb::claim,
              .id = {{1}},
              .nonce = {{2}},
              .terms = {.lease = std::chrono::seconds(9), .ttl = std::chrono::hours(1)},
              .status = OpStatus::done,
              .verdict = Verdict::execute};
    claim_.record = claimed(nullptr, claim_.fingerprint, claim_.nonce, claim_.terms, clock_.now());
    history_.store_acted(claim_);
    execution_ = history_.executed({}, claim_.nonce, 1);
    book_.begins(execution_, {.asked = {}, .body = std::string(body), .events = {11, 22}, .is_stream = true});
    append(0, "head");
  }

  void append(std::uint32_t number, std::string_view bytes) {
    history_.store_acted({.verb = Verb::append,
                          .id = claim_.id,
                          .nonce = claim_.nonce,
                          .outcome = std::make_shared<const std::string>(bytes),
                          .chunk = number,
                          .status = OpStatus::done});
  }
  void finish() {
    history_.response_received(execution_, 200);
    Op op = claim_;
    op.verb = Verb::finish;
    op.final_state = State::succeeded;
    op.outcome = std::make_shared<const std::string>(body);
    history_.store_acted(op);
  }
  void stop() {
    history_.stop_requested(claim_.id);
    record_stop();
  }
  void record_stop() {
    Op op = claim_;
    op.verb = Verb::finish;
    op.final_state = State::succeeded;
    op.body_kept = BodyKept::in_chunks;
    op.outcome = std::make_shared<const std::string>("Idempotency-Stopped: true\r\n");
    history_.store_acted(op);
  }
  Message stopped(std::string_view part) const {
    Message message = response(part, "replayed");
    message.fields.emplace_back("Idempotency-Stopped", "true");
    return message;
  }
  Message response(std::string_view part, std::string_view status = "attached") const {
    Message message;
    message.status = 200;
    message.fields = {{std::string(execution_field), std::to_string(execution_)},
                      {"Idempotency-Status", std::string(status)},
                      {"Idempotency-Attempt", "1"}};
    message.body = part;
    return message;
  }
  Message resumed(std::size_t offset, std::string_view part) const {
    Message message = response(part);
    message.fields.emplace_back("Idempotency-Offset", std::to_string(offset));
    return message;
  }

  World world_{1, false};
  SkewedClock clock_{world_, Duration()};
  History history_{world_};
  sim::Setup setup_;
  StreamBook book_{history_, setup_};
  Op claim_;
  unsigned execution_ = 0;
};

TEST_F(ReaderOfAStream, gets_what_is_durable) {
  append(1, body.substr(0, 11));
  book_.sent(response(body.substr(0, 11)), 0, {});
  EXPECT_THAT(history_.violations(), IsEmpty());
}

TEST_F(ReaderOfAStream, gets_nothing_before_it_is_durable) {
  append(1, body.substr(0, 11));
  book_.sent(response(body.substr(0, 12)), 0, {});
  EXPECT_THAT(history_.violations(), ElementsAre(HasSubstr("12 bytes of its stream were sent, 11 are durable")));
}

TEST_F(ReaderOfAStream, gets_no_other_bytes) {
  append(1, body);
  book_.sent(response("data: 0ne"), 0, {});
  EXPECT_THAT(history_.violations(), ElementsAre(HasSubstr("got \"data: 0ne\" at 0, which is \"data: one\"")));
}

TEST_F(ReaderOfAStream, goes_on_where_it_was) {
  append(1, body);
  book_.sent(resumed(11, body.substr(11)), 0, {.offset = 11});
  book_.sent(resumed(11, body.substr(11)), 0, {.event = 1});
  EXPECT_THAT(history_.violations(), IsEmpty());
}

TEST_F(ReaderOfAStream, does_not_go_on_elsewhere) {
  append(1, body);
  book_.sent(resumed(12, body.substr(12)), 0, {.offset = 11});
  EXPECT_THAT(history_.violations(), ElementsAre(HasSubstr("was resumed at 12, which it did not ask for")));
}

TEST_F(ReaderOfAStream, does_not_begin_again) {
  append(1, body);
  book_.sent(response(body), 0, {.offset = 11});
  EXPECT_THAT(history_.violations(), ElementsAre(HasSubstr("was not resumed at 11")));
}

TEST_F(ReaderOfAStream, of_another_attempt_begins_again) {
  append(1, body);
  book_.sent(response(body), 0, {.offset = 11, .attempt = 2});
  EXPECT_THAT(history_.violations(), IsEmpty());
}

TEST_F(ReaderOfAStream, sees_the_end_of_a_recorded_response) {
  append(1, body);
  finish();
  book_.sent_end(response(body));
  book_.sent_end(resumed(11, body.substr(11)));
  EXPECT_THAT(history_.violations(), IsEmpty());
}

TEST_F(ReaderOfAStream, sees_no_end_of_a_part) {
  append(1, body);
  finish();
  book_.sent_end(response(body.substr(0, 11)));
  EXPECT_THAT(history_.violations(), ElementsAre(HasSubstr("ends in order after 11 of")));
}

TEST_F(ReaderOfAStream, sees_no_end_before_it_is_recorded) {
  append(1, body);
  book_.sent_end(response(body));
  EXPECT_THAT(history_.violations(), ElementsAre(HasSubstr("ends in order before it is recorded")));
}

TEST_F(ReaderOfAStream, finds_what_another_one_had_when_all_is_well) {
  append(1, body);
  book_.sent(response(body.substr(0, 22)), 0, {});
  book_.seen({}, response(body.substr(0, 11), "unknown"));
  book_.check_final({});
  EXPECT_THAT(history_.violations(), ElementsAre(HasSubstr("22 bytes of its stream were sent, 11 are left")));
}

TEST_F(ReaderOfAStream, that_was_stopped_gets_what_was_recorded) {
  append(1, body.substr(0, 11));
  book_.sent(response(body.substr(0, 11)), 0, {});
  stop();
  book_.sent(stopped(body.substr(0, 11)), 0, {});
  book_.sent_end(stopped(body.substr(0, 11)));
  history_.stop_answered(claim_.id, world_.now(), true);
  EXPECT_THAT(history_.violations(), IsEmpty());
}

TEST_F(ReaderOfAStream, that_was_stopped_gets_no_less_and_no_more) {
  append(1, body.substr(0, 11));
  append(2, body.substr(11, 11));
  stop();
  book_.sent_end(stopped(body.substr(0, 11)));
  book_.sent(response(body.substr(0, 23)), 0, {});
  EXPECT_THAT(history_.violations(), ElementsAre(HasSubstr("ends after 11 bytes, and was stopped after 22"),
                                                 HasSubstr("23 bytes of its stream were sent, 22 are durable")));
}

TEST_F(ReaderOfAStream, that_was_stopped_sees_no_end_without_the_mark) {
  append(1, body);
  stop();
  book_.sent_end(response(body));
  EXPECT_THAT(history_.violations(), ElementsAre(HasSubstr("ends in order, and it was stopped")));
}

TEST_F(ReaderOfAStream, is_not_told_that_it_was_stopped_before_it_is) {
  append(1, body);
  book_.sent_end(stopped(body));
  history_.stop_answered(claim_.id, world_.now(), true);
  EXPECT_THAT(history_.violations(),
              ElementsAre(HasSubstr("is marked as stopped, and is not recorded like that"),
                          HasSubstr("was answered that its response is stopped, but it is started")));
}

TEST_F(ReaderOfAStream, that_was_stopped_is_not_told_that_it_had_ended) {
  append(1, body);
  stop();
  history_.stop_answered(claim_.id, world_.now(), false);
  EXPECT_THAT(history_.violations(), ElementsAre(HasSubstr("was answered that its response had ended")));
}

TEST_F(ReaderOfAStream, is_stopped_only_if_its_caller_asked_for_that) {
  append(1, body);
  record_stop();
  EXPECT_THAT(history_.violations(), ElementsAre(HasSubstr("recorded an outcome that no request produced")));
}

}  // namespace stream_book_test
}  // namespace once::sim
