// Workers that never go through the gateway: once_claim.
#include <atomic>
#include <latch>
#include <thread>

#include "base/sha256.hpp"
#include "tests/store/mysql_fixture.hpp"

namespace once::mysql_test {
namespace mysql_worker_test {

class MysqlWorkerTest : public MysqlTest {
 protected:
  struct Claimed {
    unsigned error = 0;
    std::string verdict;
    std::optional<std::string> claim;
    std::string attempt;
    std::uint64_t fence = 0;
    std::optional<std::string> status;
    std::optional<std::string> headers;
    std::optional<std::string> body;
  };
  static Claimed claim_by(Session& session, std::string_view key, std::string_view fingerprint = "job",
                          std::string_view on_unknown = "takeover") {
    Claimed result;
    result.error = session.run(
        fmt::format("CALL once_claim('acme', '{}', '{}', 30, 3600, '{}', 300)", key, fingerprint, on_unknown));
    if (result.error != 0 || session.rows().empty()) return result;
    const Cells& row = session.rows().front();
    EXPECT_EQ(row.size(), 7U);
    result.verdict = row[0].value_or("");
    result.claim = row[1];
    result.attempt = row[2].value_or("");
    result.fence = std::stoull(row[3].value_or("0"));
    result.status = row[4];
    result.headers = row[5];
    result.body = row[6];
    return result;
  }
  Claimed claim(std::string_view key, std::string_view fingerprint = "job", std::string_view on_unknown = "takeover") {
    return claim_by(other(), key, fingerprint, on_unknown);
  }
  unsigned call(std::string_view procedure, const Claimed& claimed, std::string_view rest = "") {
    return other().run(fmt::format("CALL {}('{}'{})", procedure, claimed.claim.value_or(""), rest));
  }
  std::string new_key() { return to_hex(new_owner().nonce); }
};

TEST_F(MysqlWorkerTest, the_first_executes_the_next_waits_and_then_gets_the_answer) {
  const std::string key = new_key();
  const Claimed first = claim(key);
  ASSERT_EQ(first.error, 0U);
  EXPECT_EQ(first.verdict, "execute");
  EXPECT_EQ(first.attempt, "1");
  ASSERT_TRUE(first.claim.has_value());
  EXPECT_EQ(first.claim->size(), 97U);
  EXPECT_FALSE(first.status.has_value());

  const Claimed second = claim(key);
  EXPECT_EQ(second.verdict, "in_flight");
  EXPECT_FALSE(second.claim.has_value());
  EXPECT_EQ(claim(key, "another job").verdict, "mismatch");

  ASSERT_EQ(call("once_finish", first, R"(, 200, '{"A": ["1", "2"], "B": "x: y"}', 0x00FF)"), 0U);
  const Claimed replayed = claim(key);
  EXPECT_EQ(replayed.verdict, "replay");
  EXPECT_EQ(replayed.status, "200");
  EXPECT_EQ(replayed.body, std::string("\0\xFF", 2));
  ASSERT_TRUE(replayed.headers.has_value());
  EXPECT_EQ(
      other().value(fmt::format("SELECT CONCAT_WS('|', JSON_LENGTH(h), JSON_EXTRACT(h, '$.A[1]'), JSON_EXTRACT(h, "
                                "'$.B')) FROM (SELECT '{}' AS h) AS headers",
                                *replayed.headers)),
      R"(2|"2"|"x: y")");
  EXPECT_EQ(claim(key, "another job").verdict, "mismatch");
}

TEST_F(MysqlWorkerTest, the_id_is_made_of_tenant_and_key_with_their_lengths) {
  const std::string key = new_key();
  const Claimed first = claim(key);
  const std::string text =
      std::string("once worker 1") + std::string("\0\0\0\4", 4) + "acme" + std::string("\0\0\0\x20", 4) + key;
  Sha256 hash;
  hash.update(text);
  EXPECT_EQ(first.claim->substr(0, 64), to_hex(OperationId{hash.digest()}));
}

TEST_F(MysqlWorkerTest, what_failed_lapsed_or_expired_executes_again_with_a_larger_fence) {
  const std::string key = new_key();
  const Claimed first = claim(key);
  ASSERT_EQ(call("once_fail", first), 0U);
  const Claimed second = claim(key, "job", "hold");
  EXPECT_EQ(second.verdict, "execute");
  EXPECT_EQ(second.attempt, "2");
  EXPECT_GT(second.fence, first.fence);
  EXPECT_NE(second.claim, first.claim);
  EXPECT_NE(call("once_fail", first), 0U);

  contract::advance_server_clock(std::chrono::seconds(40));
  EXPECT_EQ(claim(key, "job", "hold").verdict, "held");
  EXPECT_EQ(claim(key, "job", "takeover").verdict, "too_early");
  const Claimed third = claim(key, "job", "retry");
  EXPECT_EQ(third.verdict, "execute");
  EXPECT_EQ(third.attempt, "3");
  EXPECT_GT(third.fence, second.fence);
  ASSERT_EQ(call("once_release", third), 0U);
  EXPECT_EQ(claim(key, "job", "hold").verdict, "held") << "the attempt before it is unknown";
  contract::advance_server_clock(std::chrono::seconds(300));
  const Claimed fourth = claim(key, "job", "takeover");
  EXPECT_EQ(fourth.verdict, "execute");
  EXPECT_EQ(fourth.attempt, "3");

  contract::advance_server_clock(std::chrono::seconds(3700));
  const Claimed fifth = claim(key, "another job");
  EXPECT_EQ(fifth.verdict, "execute");
  EXPECT_EQ(fifth.attempt, "1");
  EXPECT_GT(fifth.fence, fourth.fence);
}

TEST_F(MysqlWorkerTest, of_many_at_once_exactly_one_executes) {
  for (int round = 0; round < 5; ++round) {
    const std::string key = new_key();
    std::atomic<int> executes{0};
    std::atomic<int> in_flight{0};
    constexpr int count = 8;
    std::latch together(count);
    std::vector<std::jthread> threads;
    for (int i = 0; i < count; ++i) {
      threads.emplace_back([&] {
        Session session;
        together.arrive_and_wait();
        const Claimed claimed = claim_by(session, key, "job", "retry");
        if (claimed.verdict == "execute") ++executes;
        if (claimed.verdict == "in_flight") ++in_flight;
      });
    }
    threads.clear();
    EXPECT_EQ(executes, 1);
    EXPECT_EQ(in_flight, count - 1);
  }
}

TEST_F(MysqlWorkerTest, a_claim_and_the_work_may_be_one_transaction) {
  const std::string key = new_key();
  ASSERT_EQ(other().run("BEGIN"), 0U);
  const Claimed first = claim(key);
  ASSERT_EQ(call("once_finish", first, ", 200, NULL, 'x'"), 0U);
  ASSERT_EQ(other().run("ROLLBACK"), 0U);
  const Claimed again = claim(key);
  EXPECT_EQ(again.verdict, "execute");
  EXPECT_EQ(again.attempt, "1");
}

TEST_F(MysqlWorkerTest, wrong_arguments_are_refused) {
  for (const std::string_view arguments :
       {"NULL, 'k', 'f', 30, 60, 'retry', 0", "'t', '', 'f', 30, 60, 'retry', 0", "'t', NULL, 'f', 30, 60, 'retry', 0",
        "'t', 'k', NULL, 30, 60, 'retry', 0", "'t', 'k', 'f', 0, 60, 'retry', 0", "'t', 'k', 'f', 30, NULL, 'retry', 0",
        "'t', 'k', 'f', 30, 60, 'maybe', 0", "'t', 'k', 'f', 30, 60, NULL, 0", "'t', 'k', 'f', 30, 60, 'retry', -1",
        "'t', 'k', 'f', 30, 99999999999, 'retry', 0"}) {
    EXPECT_EQ(other().run(fmt::format("CALL once_claim({})", arguments)), 31002U) << arguments;
  }
}

}  // namespace mysql_worker_test
}  // namespace once::mysql_test
