// The public client against the real gateway. What happened is read from the payments API itself.
#include <algorithm>
#include <atomic>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <once/client.hpp>

#include "tests/client/demo.hpp"

int pay(const once::Client& client, const std::string& url);                              // example.cpp
bool ask(const once::Client& client, const std::string& url, const std::string& prompt);  // stream_example.cpp

namespace once::client {

namespace {

using namespace std::chrono_literals;
using client::Happened;
using client::Replayed;
using client::Result;
using client::StopReason;
using client::Work;

client::Request payment(const std::string& url, int amount = 4200) {
  return {.url = url,
          .headers = {{"Content-Type", "application/json"}},
          .body = R"({"amount": )" + std::to_string(amount) + R"(, "currency": "EUR"})"};
}

int payments_made(const Demo& demo) {
  const Result list = Client().send({.method = "GET", .url = demo.payments()});
  const std::string& body = list.answer->body;
  const std::string_view mark = R"("count":)";
  return std::stoi(body.substr(body.find(mark) + mark.size()));
}

TEST(ClientWithGateway, pays_once_and_sees_the_replay) {
  const Demo demo;
  const Client client;
  client::Request request = payment(demo.payments());
  const Result first = client.send(request);
  ASSERT_EQ(first.stop_reason, StopReason::answered) << first.detail;
  EXPECT_EQ(first.answer->status, 201);
  EXPECT_EQ(first.answer->replayed, Replayed::no);
  request.key = first.key;
  const Result again = client.send(request);
  EXPECT_EQ(again.answer->replayed, Replayed::yes);
  EXPECT_EQ(again.answer->body, first.answer->body);
  EXPECT_EQ(payments_made(demo), 1);
}

TEST(ClientWithGateway, timed_out_try_is_waited_for_and_then_replayed) {
  const Client client({.max_retries = 100, .try_timeout = 500ms, .first_backoff = 50ms});
  const Demo demo;
  std::vector<Happened> seen;
  const Result result = client.send(payment(demo.payments("?mode=slow")),
                                    {.on_try = [&seen](const auto& report) { seen.push_back(report.happened); }});
  ASSERT_EQ(result.stop_reason, StopReason::answered) << result.detail;
  EXPECT_EQ(result.answer->replayed, Replayed::yes);
  EXPECT_EQ(seen.front(), Happened::timed_out);
  EXPECT_EQ(std::ranges::count(seen, Happened::in_flight), 0) << "a retry waits for the first one";
  EXPECT_EQ(payments_made(demo), 1);
}

TEST(ClientWithGateway, failure_is_final_unless_asked) {
  const Demo demo;
  EXPECT_EQ(Client().send(payment(demo.payments("?mode=fail"))).happened, Happened::server_error);
  EXPECT_EQ(payments_made(demo), 0);
  const Client client({.server_errors = client::RetryServerErrors::yes});
  const Result result = client.send(payment(demo.payments("?mode=fail")));
  EXPECT_EQ(result.tries, 2U);
  EXPECT_EQ(result.answer->status, 201);
  EXPECT_EQ(payments_made(demo), 1);
}

TEST(ClientWithGateway, paid_and_dropped_is_unknown_and_never_paid_twice) {
  const Demo demo;
  const Client client;
  client::Request request = payment(demo.payments("?mode=flaky"));
  for (int i = 0; i < 3; ++i) {
    const Result result = client.send(request);
    EXPECT_EQ(result.work, Work::unknown);
    EXPECT_FALSE(result.key.empty());
    request.key = result.key;
  }
  EXPECT_EQ(payments_made(demo), 1);
}

TEST(ClientWithGateway, one_client_is_shared_by_threads) {
  const Demo demo;
  const Client client;
  constexpr int threads = 4;
  constexpr int each = 5;
  std::atomic<int> paid = 0;
  {
    std::vector<std::jthread> running;
    for (int thread = 0; thread < threads; ++thread) {
      running.emplace_back([&, thread] {
        for (int i = 0; i < each; ++i) {
          const Result result = client.send(payment(demo.payments(), 1 + thread * each + i));
          paid += result.answer && result.answer->status == 201 ? 1 : 0;
        }
      });
    }
  }
  EXPECT_EQ(paid, threads * each);
  EXPECT_EQ(payments_made(demo), threads * each);
}

TEST(ClientWithGateway, answer_over_the_limit_is_refused) {
  const Demo demo;
  const Result small = Client({.max_answer_body = 10}).send(payment(demo.payments()));
  EXPECT_EQ(small.stop_reason, StopReason::not_retried);
  EXPECT_EQ(small.happened, Happened::answer_too_large);
  EXPECT_EQ(small.work, Work::unknown);
  EXPECT_EQ(small.answer->status, 201);
  EXPECT_TRUE(small.answer->body.empty());
  EXPECT_EQ(Client({.max_answer_headers = 10}).send(payment(demo.payments())).happened, Happened::answer_too_large);
}

TEST(ClientWithGateway, stop_ends_a_try_at_once) {
  const Demo demo;
  std::stop_source stop;
  std::jthread stopper;
  const client::Watcher watcher{.on_key = [&](std::string_view /*key*/, client::KeyOrigin /*origin*/) {
    stopper = std::jthread([&stop] { stop.request_stop(); });
  }};
  const Result result = Client().send(payment(demo.payments("?mode=slow")), watcher, stop.get_token());
  EXPECT_EQ(result.stop_reason, StopReason::cancelled);
}

TEST(ClientWithGateway, nothing_listens) {
  const Client client({.max_retries = 2, .first_backoff = 1ms});
  const Result result = client.send(payment("http://127.0.0.1:1/"));
  EXPECT_EQ(result.stop_reason, StopReason::retries_spent);
  EXPECT_EQ(result.work, Work::not_sent);
  EXPECT_EQ(result.happened, Happened::not_connected);
  EXPECT_EQ(result.tries, 3U);
}

TEST(ClientWithGateway, a_response_that_does_not_stream_can_be_read_as_one) {
  const Demo demo;
  std::string body;
  std::vector<int> statuses;
  const client::Reader reader{.on_head = [&](const client::Answer& head) { statuses.push_back(head.status); },
                              .on_bytes =
                                  [&](std::string_view bytes) {
                                    body += bytes;
                                    return client::Reading::go_on;
                                  }};
  const client::StreamResult got = Client().stream(payment(demo.payments()), reader);
  EXPECT_EQ(got.end, client::StreamEnd::whole);
  EXPECT_EQ(got.received, body.size());
  EXPECT_EQ(statuses, std::vector<int>{201});
  EXPECT_TRUE(body.contains(R"("amount":4200)")) << body;
  EXPECT_TRUE(got.result.answer->body.empty());
  EXPECT_EQ(payments_made(demo), 1);
}

TEST(ClientWithGateway, what_a_reader_throws_comes_out_of_the_call) {
  const Demo demo;
  const client::Reader reader{
      .on_bytes = [](std::string_view bytes) -> client::Reading { throw std::runtime_error(std::string(bytes)); }};
  EXPECT_THROW(Client().stream(payment(demo.payments()), reader), std::runtime_error);
}

std::string text_of(const std::string& file) {
  std::ifstream stream(ONCE_SOURCE "/" + file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

TEST(ClientWithGateway, examples_of_the_page_do_what_they_say) {
  const Demo demo;
  EXPECT_EQ(pay(Client(), demo.payments()), 201);
  EXPECT_TRUE(ask(Client(), demo.payments(), R"({"amount": 1, "currency": "EUR"})"));
  EXPECT_FALSE(ask(Client(), demo.payments(), "no payment"));
  EXPECT_EQ(payments_made(demo), 2);
  const std::string page = text_of("docs/guides/client.md");
  for (const char* file : {"tests/client/example.cpp", "tests/client/stream_example.cpp"}) {
    const std::string example = text_of(file);
    const std::string code = example.substr(example.find("#include"));
    EXPECT_TRUE(page.contains("```cpp\n" + code + "```\n"))
        << "docs/guides/client.md shows another program than " << file;
  }
}

}  // namespace

}  // namespace once::client
