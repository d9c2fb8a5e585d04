// Workers that never go through the gateway: once_claim.
#pragma once

#include <algorithm>
#include <atomic>
#include <latch>

#include "tests/store/sql/server.hpp"

namespace once::sql_test {

class SqlWorkers : public SqlTest {
 protected:
  struct Claimed {
    std::string verdict;  // or the error
    std::string claim;
    std::string attempt;
    std::uint64_t fence = 0;
    std::string response;  // status|headers|body, without spaces
  };
  Claimed claim_by(SqlSession& session, std::string_view key, std::string_view fingerprint = "job",
                   std::string_view on_unknown = "takeover") {
    const std::string answer =
        session(server().claim(fmt::format("'acme', '{}', '{}', {}, {}, '{}', {}", key, fingerprint, seconds("30"),
                                           seconds("3600"), on_unknown, seconds("300"))));
    const auto parts = split(answer, '|');
    if (parts.size() != 7) return {.verdict = answer};
    Claimed claimed{.verdict = std::string(parts[0]),
                    .claim = std::string(parts[1]),
                    .attempt = std::string(parts[2]),
                    .fence = parse_number(parts[3]).value_or(0),
                    .response = fmt::format("{}|{}|{}", parts[4], parts[5], parts[6])};
    std::erase(claimed.response, ' ');
    return claimed;
  }
  Claimed claim(std::string_view key, std::string_view fingerprint = "job", std::string_view on_unknown = "takeover") {
    return claim_by(*worker_, key, fingerprint, on_unknown);
  }
  std::string call(std::string_view function, const Claimed& claimed, std::string_view more = "") {
    return (*worker_)(server().call(function, fmt::format("'{}'{}", claimed.claim, more)));
  }
  std::string seconds(std::string_view number) { return server().seconds(number); }
  std::string new_key() { return to_hex(new_owner().nonce); }

  std::unique_ptr<SqlSession> worker_ = connect();
};

TEST_F(SqlWorkers, the_first_executes_the_next_waits_and_then_gets_the_answer) {
  const std::string key = new_key();
  const Claimed first = claim(key);
  EXPECT_EQ(first.verdict, "execute");
  EXPECT_EQ(first.attempt, "1");
  EXPECT_EQ(first.claim.size(), 97U);
  EXPECT_EQ(first.response, "null|null|null");
  const Claimed second = claim(key);
  EXPECT_EQ(second.verdict, "in_flight");
  EXPECT_EQ(second.claim, "null");
  EXPECT_EQ(claim(key, "another job").verdict, "mismatch");
  EXPECT_TRUE((*worker_)(server().claim(fmt::format("'other', '{}', 'job', {}, {}, 'retry', {}", key, seconds("30"),
                                                    seconds("60"), seconds("0"))))
                  .starts_with("execute|"))
      << "of another tenant";

  EXPECT_EQ(call("once_finish", first, R"(, 200, '{"A": "b", "C": ["d", "e: f"]}', 'shipped')"), "done");
  const Claimed replayed = claim(key);
  EXPECT_EQ(replayed.verdict, "replay");
  EXPECT_EQ(replayed.response, R"(200|{"A":"b","C":["d","e:f"]}|shipped)");
  EXPECT_EQ(claim(key, "another job").verdict, "mismatch");
}

TEST_F(SqlWorkers, are_told_that_a_body_in_chunks_is_not_kept) {
  const std::string key = new_key();
  const std::string claimed = claim(key).claim;
  Owner owner;
  std::ranges::copy(from_hex(claimed.substr(0, 64)).value_or(""), owner.id.bytes.begin());
  std::ranges::copy(from_hex(claimed.substr(65)).value_or(""), owner.nonce.bytes.begin());
  done(append_op(owner, 0, "head"));
  done(keep_op(owner));
  EXPECT_EQ(claim(key).verdict, "not_kept");
}

TEST_F(SqlWorkers, what_failed_lapsed_or_expired_executes_again_with_a_larger_fence) {
  const std::string key = new_key();
  const Claimed first = claim(key);
  EXPECT_EQ(call("once_fail", first), "done");
  const Claimed second = claim(key, "job", "hold");
  EXPECT_EQ(second.verdict, "execute");
  EXPECT_EQ(second.attempt, "2");
  EXPECT_GT(second.fence, first.fence);
  EXPECT_NE(second.claim, first.claim);
  EXPECT_EQ(call("once_fail", first), server().not_current());

  advance_server_clock(std::chrono::seconds(40));
  EXPECT_EQ(claim(key, "job", "hold").verdict, "held");
  EXPECT_EQ(claim(key, "job", "takeover").verdict, "too_early");
  const Claimed third = claim(key, "job", "retry");
  EXPECT_EQ(third.verdict, "execute");
  EXPECT_EQ(third.attempt, "3");
  EXPECT_GT(third.fence, second.fence);
  EXPECT_EQ(call("once_finish", second, ", 200, '{}', ''"), server().not_current());
  EXPECT_EQ(call("once_release", third), "done");
  EXPECT_EQ(claim(key, "job", "hold").verdict, "held") << "the attempt before it is unknown";
  advance_server_clock(std::chrono::seconds(300));
  const Claimed fourth = claim(key, "job", "takeover");
  EXPECT_EQ(fourth.verdict, "execute");
  EXPECT_EQ(fourth.attempt, "3");
  EXPECT_GT(fourth.fence, third.fence);

  advance_server_clock(std::chrono::seconds(3700));
  const Claimed fifth = claim(key, "another job");
  EXPECT_EQ(fifth.verdict, "execute");
  EXPECT_EQ(fifth.attempt, "1");
  EXPECT_GT(fifth.fence, fourth.fence);
  EXPECT_EQ(call("once_release", fifth), "done");
  const Claimed sixth = claim(key);
  EXPECT_EQ(sixth.verdict, "execute");
  EXPECT_EQ(sixth.attempt, "1");
  EXPECT_GT(sixth.fence, fifth.fence);
}

TEST_F(SqlWorkers, of_many_at_once_exactly_one_executes) {
  constexpr int count = 8;
  for (int round = 0; round < 5; ++round) {
    const std::string key = new_key();
    std::atomic<int> executes{0};
    std::atomic<int> in_flight{0};
    std::latch together(count);
    std::vector<std::jthread> threads;
    for (int i = 0; i < count; ++i) {
      threads.emplace_back([&] {
        const auto session = connect();
        together.arrive_and_wait();
        const std::string verdict = claim_by(*session, key, "job", "retry").verdict;
        if (verdict == "execute") ++executes;
        if (verdict == "in_flight") ++in_flight;
      });
    }
    threads.clear();
    EXPECT_EQ(executes, 1);
    EXPECT_EQ(in_flight, count - 1);
  }
}

TEST_F(SqlWorkers, a_claim_and_the_work_may_be_one_transaction) {
  const std::string key = new_key();
  (*worker_)("BEGIN");
  EXPECT_EQ(call("once_finish", claim(key), ", 200, '{}', 'x'"), "done");
  (*worker_)("ROLLBACK");
  const Claimed again = claim(key);
  EXPECT_EQ(again.verdict, "execute");
  EXPECT_EQ(again.attempt, "1");
}

TEST_F(SqlWorkers, wrong_arguments_are_refused) {
  const std::string lease = seconds("30");
  const std::string ttl = seconds("60");
  const std::string none = seconds("0");
  for (const std::string& arguments : {fmt::format("NULL, 'k', 'f', {}, {}, 'retry', {}", lease, ttl, none),
                                       fmt::format("'t', '', 'f', {}, {}, 'retry', {}", lease, ttl, none),
                                       fmt::format("'t', NULL, 'f', {}, {}, 'retry', {}", lease, ttl, none),
                                       fmt::format("'t', 'k', NULL, {}, {}, 'retry', {}", lease, ttl, none),
                                       fmt::format("'t', 'k', 'f', {}, {}, 'retry', {}", none, ttl, none),
                                       fmt::format("'t', 'k', 'f', {}, NULL, 'retry', {}", lease, none),
                                       fmt::format("'t', 'k', 'f', {}, {}, 'maybe', {}", lease, ttl, none),
                                       fmt::format("'t', 'k', 'f', {}, {}, NULL, {}", lease, ttl, none),
                                       fmt::format("'t', 'k', 'f', {}, {}, 'retry', {}", lease, ttl, seconds("-1"))}) {
    EXPECT_EQ((*worker_)(server().claim(arguments)), server().not_valid()) << arguments;
  }
}

}  // namespace once::sql_test
