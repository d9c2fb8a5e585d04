// A stream over a scripted network and in virtual time: what is given to the caller, what retries ask for, how it ends.
#include <algorithm>
#include <deque>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "client/key_file.hpp"
#include "client/operation.hpp"
#include "client/stream_body.hpp"
#include "tests/unit/support/manual_clock.hpp"
#include "tests/unit/support/temporary_folder.hpp"

namespace once::client::stream_test {

using namespace std::chrono_literals;

// One try: the head of a response, pieces of its body, and how it ended.
struct Step {
  int status = 200;  // 0: no head came
  std::vector<Header> headers;
  std::vector<std::string> pieces;
  Happened end = Happened::success;
};

std::vector<Header> said(std::string status, std::vector<Header> more = {}) {
  more.push_back({.name = "Idempotency-Status", .value = std::move(status)});
  return more;
}
Step whole(std::vector<Header> headers, std::vector<std::string> pieces) {
  return {.headers = std::move(headers), .pieces = std::move(pieces)};
}
Step cut(std::vector<Header> headers, std::vector<std::string> pieces, Happened end = Happened::lost_after_sending) {
  return {.headers = std::move(headers), .pieces = std::move(pieces), .end = end};
}
Step fails(Happened end) {
  return {.status = 0, .headers = {}, .pieces = {}, .end = end};
}
Step answers(int status, std::vector<Header> headers, std::string body) {
  return {.status = status, .headers = std::move(headers), .pieces = {std::move(body)}};
}

class Network final : public Transport, public Timeline {
 public:
  Tried perform(const Try& what, const std::stop_token& token) override {
    asked.push_back({.method = what.request.method, .headers = what.headers, .body = what.request.body});
    now_ += 10ms;
    if (steps.empty()) return {.happened = Happened::not_connected, .detail = "refused"};
    const Step step = steps.front();
    steps.pop_front();
    if (step.status == 0) return {.happened = step.end, .detail = "it failed"};
    Answer answer{.status = step.status, .headers = step.headers};
    const bool streams = what.receiver != nullptr && step.status / 100 == 2;
    if (streams && what.receiver->take_head(answer) == Reading::leave) return {.happened = Happened::cancelled};
    for (const std::string& piece : step.pieces) {
      if (token.stop_requested()) return {.happened = Happened::cancelled};
      if (!streams) {
        answer.body += piece;
      } else if (what.receiver->take_bytes(piece) == Reading::leave) {
        return {.happened = Happened::cancelled};
      }
    }
    if (step.end == Happened::success) return {.happened = step.end, .answer = std::move(answer)};
    answer.body.clear();
    return {.happened = step.end, .cut_off = std::move(answer), .detail = "it broke"};
  }
  Duration now() const override { return now_; }
  void wait(Duration duration, const std::stop_token& /*stop*/) override {
    waits.push_back(duration);
    now_ += duration;
  }

  StreamResult stream(const Request& request = {.url = "http://api.test/", .body = "{}", .key = "k"}) {
    const Reader reader{.on_head = [this](const Answer& head) { heads.push_back(head.status); },
                        .on_bytes =
                            [this](std::string_view bytes) {
                              text += bytes;
                              if (on_bytes) on_bytes();
                              return reading;
                            }};
    const Watcher watcher{.on_try = [this](const TryReport& report) { happened.emplace_back(name(report.happened)); }};
    const std::stop_token token = stop.get_token();
    return run_stream({.options = options, .request = request, .watcher = watcher, .stop = token}, reader, ports());
  }
  Result send() {
    const std::stop_token token;
    return run_operation(
        {.options = options, .request = {.url = "http://api.test/", .key = "k"}, .watcher = {}, .stop = token},
        ports());
  }
  StopResult stop_it(const Request& request) {
    const std::stop_token token;
    return run_stop({.options = options, .request = request, .watcher = {}, .stop = token}, ports());
  }
  Ports ports() { return {.clock = clock, .random = random, .transport = *this, .timeline = *this}; }

  // The values of that header, one per try; "" where there was none.
  std::vector<std::string> sent(std::string_view name) const {
    std::vector<std::string> values;
    for (const Sent& each : asked) values.emplace_back(Answer{.headers = each.headers}.header(name));
    return values;
  }

  struct Sent {
    std::string method;
    std::vector<Header> headers;
    std::string body;
  };
  Options options;
  std::deque<Step> steps;
  std::stop_source stop;
  std::function<void()> on_bytes;
  Reading reading = Reading::go_on;

  ManualClock clock;
  SystemRandom random;
  std::string text;
  std::vector<int> heads;
  std::vector<Sent> asked;
  std::vector<Duration> waits;
  std::vector<std::string> happened;

 private:
  Duration now_ = 1h;
};

using Texts = std::vector<std::string>;

TEST(ClientStream, every_byte_is_given_once_wherever_it_is_cut) {
  std::string body;
  for (int i = 0; i < 500; ++i) body += std::to_string(i) + " ";
  for (std::size_t at = 0; at < body.size(); at += 7) {
    for (const bool offsets : {true, false}) {
      Network network;
      network.steps.push_back(cut(said("executed"), {body.substr(0, at / 2), body.substr(at / 2, at - at / 2)}));
      const std::size_t from = offsets && at > StreamBody::compared_bytes ? at - StreamBody::compared_bytes : 0;
      const std::string rest = body.substr(from);
      const std::size_t size = std::min<std::size_t>(rest.size(), at % 2 == 0 ? 3 : 1100);
      const std::string offset = std::to_string(from);
      const std::vector<Header> headers =
          from > 0 ? said("attached", {{.name = "Idempotency-Offset", .value = offset}}) : said("attached");
      network.steps.push_back(whole(headers, {rest.substr(0, size), rest.substr(size)}));
      const StreamResult result = network.stream();
      ASSERT_EQ(result.end, StreamEnd::whole) << at;
      ASSERT_EQ(network.text, body) << at;
      ASSERT_EQ(result.received, body.size());
      ASSERT_EQ(network.heads, std::vector<int>{200});
    }
  }
}

TEST(ClientStream, a_retry_asks_for_the_rest_of_its_attempt) {
  const std::string part(3000, 'x');
  const std::vector<Header> first = said("executed", {{.name = "Idempotency-Attempt", .value = "3"}});
  Network network;
  network.steps = {fails(Happened::not_connected), cut(first, {part}), answers(503, {}, "busy"),
                   cut(said("attached", {{.name = "Idempotency-Offset", .value = "1976"}}), {part.substr(1976) + "y"}),
                   whole(said("replayed"), {part + "yz"})};
  const StreamResult result = network.stream();
  EXPECT_EQ(result.end, StreamEnd::whole);
  EXPECT_EQ(result.attempt, 3U);
  EXPECT_EQ(network.text, part + "yz");
  EXPECT_EQ(network.sent("Idempotency-Offset"), (Texts{"", "", "1976", "1976", "1977"}));
  EXPECT_EQ(network.sent("Idempotency-Attempt"), (Texts{"", "", "3", "3", "3"}));
  EXPECT_EQ(network.sent("Idempotency-Key"), Texts(5, "k"));
  EXPECT_EQ(result.result.tries, 5U);
  EXPECT_EQ(result.result.work, Work::answered);
}

TEST(ClientStream, an_offset_of_the_caller_is_replaced_and_its_event_id_not_asked_for_again) {
  Network network;
  network.steps = {cut(said("attached", {{.name = "Idempotency-Offset", .value = "10"}}), {"abc"}),
                   whole(said("attached", {{.name = "Idempotency-Offset", .value = "10"}}), {"abcd"})};
  const StreamResult result = network.stream(
      {.url = "http://api.test/",
       .headers = {{.name = "idempotency-offset", .value = "10"}, {.name = "last-event-id", .value = "7"}},
       .key = "k"});
  EXPECT_EQ(result.end, StreamEnd::whole);
  EXPECT_EQ(network.text, "abcd");
  EXPECT_EQ(result.received, 14U);
  EXPECT_EQ(network.sent("Idempotency-Offset"), (Texts{"10", "10"}));
  EXPECT_EQ(network.sent("Last-Event-ID"), (Texts{"7", ""}));
}

TEST(ClientStream, a_part_of_the_caller_is_followed_only_by_what_comes_after_it) {
  const auto reads = [](std::vector<Header> asked, std::vector<Header> got) {
    Network network;
    network.steps = {whole(std::move(got), {"abc"})};
    const StreamResult result = network.stream({.url = "http://api.test/", .headers = std::move(asked), .key = "k"});
    EXPECT_EQ(network.asked.size(), 1U);
    EXPECT_EQ(network.heads.empty(), network.text.empty());
    EXPECT_EQ(network.text, result.end == StreamEnd::whole ? "abc" : "");
    EXPECT_EQ(result.result.detail.contains("another attempt"), result.end == StreamEnd::new_attempt);
    return result.end;
  };
  const auto offset = [](std::string value) { return Header{.name = "Idempotency-Offset", .value = std::move(value)}; };
  const auto attempt = [](std::string value) {
    return Header{.name = "Idempotency-Attempt", .value = std::move(value)};
  };
  EXPECT_EQ(reads({offset("7")}, said("attached", {offset("7")})), StreamEnd::whole);
  EXPECT_EQ(reads({offset("7"), attempt("2")}, said("replayed", {offset("7"), attempt("2")})), StreamEnd::whole);
  EXPECT_EQ(reads({offset("7"), attempt("2")}, said("replayed", {offset("7")})), StreamEnd::whole);
  EXPECT_EQ(reads({offset("0")}, said("executed")), StreamEnd::whole);
  EXPECT_EQ(reads({attempt("1")}, said("executed", {attempt("2")})), StreamEnd::whole);  // from its first byte

  EXPECT_EQ(reads({offset("7")}, said("executed")), StreamEnd::new_attempt);
  EXPECT_EQ(reads({offset("7")}, said("replayed")), StreamEnd::new_attempt);
  EXPECT_EQ(reads({offset("7")}, said("attached", {offset("6")})), StreamEnd::new_attempt);
  EXPECT_EQ(reads({offset("7")}, said("attached", {offset("8")})), StreamEnd::new_attempt);
  EXPECT_EQ(reads({offset("x")}, said("attached")), StreamEnd::new_attempt);
  EXPECT_EQ(reads({offset("7"), attempt("1")}, said("attached", {offset("7"), attempt("2")})), StreamEnd::new_attempt);
}

TEST(ClientStream, another_execution_is_not_mixed_in) {
  const std::vector<Header> attempt_1 = said("executed", {{.name = "Idempotency-Attempt", .value = "1"}});
  const std::vector<Step> others = {
      whole(said("executed"), {"abc"}),
      whole(said("attached", {{.name = "Idempotency-Attempt", .value = "2"}}), {"abcdef"}),
      whole(said("attached"), {"xyzabc"}),
      whole(said("attached"), {"a", "bx"}),
      whole(said("attached"), {"ab"}),
      whole(said("bypassed"), {"abcdef"}),
      whole({}, {"abcdef"}),
      whole(said("attached", {{.name = "Idempotency-Offset", .value = "7"}}), {"abcdef"}),
      answers(201, said("attached"), "abcdef"),
  };
  for (const Step& other : others) {
    Network network;
    network.steps = {cut(attempt_1, {"abc"}), other};
    const StreamResult result = network.stream();
    SCOPED_TRACE(result.result.detail);
    EXPECT_EQ(result.end, StreamEnd::new_attempt);
    EXPECT_EQ(result.result.happened, Happened::new_attempt);
    EXPECT_EQ(result.result.work, Work::unknown);
    EXPECT_TRUE(result.result.detail.contains("executed again"));
    EXPECT_EQ(network.text, "abc");
    EXPECT_EQ(network.asked.size(), 2U);
  }
}

TEST(ClientStream, an_execution_that_broke_off_ends_at_once_after_all_that_came_of_it) {
  Network network;
  network.steps = {cut(said("executed"), {"abc"}), cut(said("unknown"), {"abcdef"})};
  StreamResult result = network.stream();
  EXPECT_EQ(result.end, StreamEnd::outcome_unknown);
  EXPECT_EQ(result.result.stop_reason, StopReason::not_retried);
  EXPECT_EQ(result.result.work, Work::unknown);
  EXPECT_EQ(network.text, "abcdef");
  EXPECT_EQ(network.happened, (Texts{"lost-after-sending", "broken-off"}));

  Network late;  // the first that this process hears of it
  late.steps = {cut(said("unknown"), {"abc"})};
  EXPECT_EQ(late.stream().end, StreamEnd::outcome_unknown);

  Network held;
  held.steps = {cut(said("executed"), {"abc"}), answers(409, {}, R"({"code":"outcome-unknown"})")};
  EXPECT_EQ(held.stream().end, StreamEnd::outcome_unknown);
}

TEST(ClientStream, send_ends_at_once_at_an_execution_that_broke_off) {
  for (const Happened how : {Happened::lost_after_sending, Happened::timed_out}) {
    Network network;
    network.steps = {cut(said("executed"), {"abc"}), cut(said("unknown"), {"abc"}, how), whole(said("replayed"), {})};
    const Result result = network.send();
    EXPECT_EQ(result.happened, Happened::broken_off);
    EXPECT_EQ(result.stop_reason, StopReason::not_retried);
    EXPECT_EQ(result.work, Work::unknown);
    EXPECT_EQ(result.tries, 2U);
    EXPECT_FALSE(result.answer);
  }
}

TEST(ClientStream, a_response_that_does_not_honour_the_key_is_not_asked_for_again) {
  for (const std::vector<Header>& headers : {std::vector<Header>{}, said("bypassed")}) {
    Network network;
    network.steps = {cut(headers, {"abc"}), whole(said("executed"), {"abc"})};
    const StreamResult result = network.stream();
    EXPECT_EQ(result.end, StreamEnd::not_protected);
    EXPECT_EQ(network.asked.size(), 1U);
  }
}

TEST(ClientStream, other_responses_are_the_answer) {
  Network network;
  network.steps = {answers(404, {}, "none")};
  StreamResult result = network.stream();
  EXPECT_EQ(result.end, StreamEnd::not_begun);
  EXPECT_EQ(result.result.answer->body, "none");
  EXPECT_TRUE(network.heads.empty());

  Network later;
  later.steps = {cut(said("executed"), {"abc"}), answers(409, {}, R"({"code":"response-not-kept"})")};
  result = later.stream();
  EXPECT_EQ(result.end, StreamEnd::refused);
  EXPECT_EQ(result.result.happened, Happened::conflict);
  EXPECT_EQ(result.result.answer->status, 409);
}

TEST(ClientStream, the_budget_begins_anew_with_every_progress) {
  Network network;
  network.options.max_retries = 2;
  network.options.deadline = 10s;
  network.options.first_backoff = network.options.longest_backoff = 1s;
  std::string body;
  for (int i = 0; i < 40; ++i) {
    network.steps.push_back(cut(said(i == 0 ? "executed" : "attached"), {body + "x"}));
    body += "x";
    network.steps.push_back(fails(Happened::not_connected));
  }
  const StreamResult result = network.stream();
  EXPECT_EQ(result.end, StreamEnd::gave_up);
  EXPECT_EQ(network.text, body);
  EXPECT_EQ(result.result.stop_reason, StopReason::retries_spent);
  EXPECT_EQ(network.asked.size(), 81U) << "the last progress, and two retries";
}

TEST(ClientStream, a_silent_connection_is_replaced_and_is_no_try_in_vain) {
  Network network;
  network.options.max_retries = 1;
  network.steps = {cut(said("executed"), {"a"}, Happened::timed_out), cut(said("attached"), {"a"}, Happened::timed_out),
                   cut(said("attached"), {"a"}, Happened::timed_out), whole(said("attached"), {"ab"})};
  EXPECT_EQ(network.stream().end, StreamEnd::whole);
  EXPECT_EQ(network.text, "ab");
}

TEST(ClientStream, connections_that_break_without_progress_are_given_up) {
  Network network;
  network.options.max_retries = 2;
  network.steps = {cut(said("executed"), {"a"}), cut(said("attached"), {"a"}), cut(said("attached"), {"a"}),
                   whole(said("attached"), {"ab"})};
  EXPECT_EQ(network.stream().end, StreamEnd::gave_up);
  EXPECT_EQ(network.asked.size(), 3U);
}

TEST(ClientStream, leaving_and_stop_requests_end_it) {
  Network left;
  left.reading = Reading::leave;
  left.steps = {whole(said("executed"), {"a", "b"})};
  StreamResult result = left.stream();
  EXPECT_EQ(result.end, StreamEnd::left);
  EXPECT_EQ(result.result.stop_reason, StopReason::cancelled);
  EXPECT_EQ(left.text, "a");

  Network stopped;
  stopped.on_bytes = [&] { stopped.stop.request_stop(); };
  stopped.steps = {whole(said("executed"), {"a", "b"})};
  result = stopped.stream();
  EXPECT_EQ(result.end, StreamEnd::left);
  EXPECT_EQ(stopped.text, "a");
}

TEST(ClientStream, a_stream_that_was_stopped_says_so) {
  Network network;
  network.steps = {cut(said("executed"), {"abc"}),
                   whole(said("replayed", {{.name = "Idempotency-Stopped", .value = "true"}}), {"abcd"})};
  const StreamResult result = network.stream();
  EXPECT_EQ(result.end, StreamEnd::whole);
  EXPECT_EQ(result.stopped, Stopped::yes);
  EXPECT_EQ(network.text, "abcd");

  Network other;
  other.steps = {whole(said("executed", {{.name = "Idempotency-Stopped", .value = "false"}}), {"abcd"})};
  EXPECT_EQ(other.stream().stopped, Stopped::no);
}

TEST(ClientStop, asks_as_the_caller_of_the_operation_and_without_its_body) {
  const Request operation{
      .method = "PATCH",
      .url = "http://api.test/",
      .headers = {{.name = "Authorization", .value = "me"}, {.name = "content-type", .value = "a/b"}},
      .body = "{}",
      .key = "k"};
  for (const std::string said_stopped : {"true", "false"}) {
    Network network;
    network.steps = {fails(Happened::not_connected), answers(409, {}, R"({"code":"in-flight"})"),
                     answers(204, {{.name = "Idempotency-Stopped", .value = said_stopped}}, "")};
    const StopResult result = network.stop_it(operation);
    EXPECT_EQ(result.stopped, said_stopped == "true" ? Stopped::yes : Stopped::no);
    EXPECT_EQ(result.result.answer->status, 204);
    EXPECT_EQ(network.asked.back().method, "DELETE");
    EXPECT_EQ(network.asked.back().body, "");
    EXPECT_EQ(network.sent("Idempotency-Stop"), Texts(3, "PATCH"));
    EXPECT_EQ(network.sent("Idempotency-Key"), Texts(3, "k"));
    EXPECT_EQ(network.sent("Authorization"), Texts(3, "me"));
    EXPECT_EQ(network.sent("Content-Type"), Texts(3, ""));
  }
}

TEST(ClientStop, takes_the_key_of_a_file_that_must_be_there) {
  const TemporaryFolder folder;
  Network network;
  network.options.key_file = folder.path() + "/key";
  const StopResult none = network.stop_it({.url = "http://api.test/"});
  EXPECT_EQ(none.result.stop_reason, StopReason::key_file);
  EXPECT_TRUE(network.asked.empty());

  const KeyRecord made{.key = "from-file", .request = "00", .created = Time(Duration(1))};
  ASSERT_TRUE(KeyFile(network.options.key_file).open(made));
  network.steps = {answers(204, {{.name = "Idempotency-Stopped", .value = "true"}}, "")};
  EXPECT_EQ(network.stop_it({.url = "http://api.test/"}).stopped, Stopped::yes);
  EXPECT_EQ(network.sent("Idempotency-Key"), Texts(1, "from-file"));
  EXPECT_EQ(KeyFile(network.options.key_file).read(), made) << "the file is not changed";
}

TEST(ClientStop, needs_a_key_and_reports_a_refusal) {
  Network network;
  EXPECT_EQ(network.stop_it({.url = "http://api.test/"}).result.stop_reason, StopReason::bad_request);
  EXPECT_TRUE(network.asked.empty());
  network.steps = {answers(404, {}, R"({"code":"key-not-found"})")};
  const StopResult result = network.stop_it({.url = "http://api.test/", .key = "k"});
  EXPECT_EQ(result.stopped, Stopped::no);
  EXPECT_EQ(result.result.happened, Happened::client_error);
}

}  // namespace once::client::stream_test
