// Two sessions of MySQL on one key. A third one holds the row until both wait for it, so that both have read it as it
// was before either of them writes.
#include <array>
#include <thread>

#include "tests/store/mysql_fixture.hpp"

namespace once::mysql_test {
namespace mysql_race_test {

class MysqlRaceTest : public MysqlTest {
 protected:
  struct Key {
    std::string key;
    std::string claim;  // of its first owner
    std::string row() const { return "once_operations WHERE id = 0x" + claim.substr(0, 64); }
  };
  Key claimed_by_worker() {
    Key it{.key = to_hex(new_owner().nonce), .claim = {}};
    EXPECT_EQ(other().run(claim(it)), 0U);
    it.claim = other().rows().front().at(1).value_or("");
    return it;
  }
  static std::string claim(const Key& it) {
    return fmt::format("CALL once_claim('acme', '{}', 'job', 30, 3600, 'retry', 300)", it.key);
  }

  // Until this many sessions wait for a lock. information_schema.innodb_trx would not do: who asks often sees what was
  // before.
  static void wait_for_waiters(std::string_view count) {
    Session watch;
    const std::chrono::nanoseconds deadline = monotonic_now() + std::chrono::seconds(20);
    while (watch.value("SELECT variable_value FROM information_schema.global_status WHERE variable_name = "
                       "'innodb_row_lock_current_waits'") != count) {
      ASSERT_LT(monotonic_now(), deadline);
    }
  }

  // What a call answered: verdict and attempt, "done" without a row, or the number of the error.
  static std::string ask(const std::string& call) {
    Session session;
    if (const unsigned error = session.run(call); error != 0) return std::to_string(error);
    if (session.rows().empty()) return "done";
    return session.rows().front().at(0).value_or("") + "|" + session.rows().front().at(2).value_or("");
  }
  using Answers = std::array<std::string, 2>;
  // The first one comes to wait before the second one.
  static Answers race(const Key& it, const std::string& first, const std::string& second) {
    Answers answers;
    Session holder;
    EXPECT_EQ(holder.run("BEGIN; SELECT 1 FROM " + it.row() + " FOR UPDATE"), 0U);
    {
      std::jthread one([&] { answers[0] = ask(first); });
      wait_for_waiters("1");
      std::jthread two([&] { answers[1] = ask(second); });
      wait_for_waiters("2");
      EXPECT_EQ(holder.run("ROLLBACK"), 0U);
    }
    return answers;
  }
  void expect_one_claim(const Key& it, const std::string& attempt) {
    const Answers answers = race(it, claim(it), claim(it));
    const Answers first = {"execute|" + attempt, "in_flight|" + attempt};
    const Answers second = {first[1], first[0]};
    EXPECT_TRUE(answers == first || answers == second) << answers[0] << " " << answers[1];
    EXPECT_EQ(other().value("SELECT attempt FROM " + it.row()), attempt);
  }
};

TEST_F(MysqlRaceTest, of_two_workers_that_claim_a_failed_key_one_executes) {
  const Key it = claimed_by_worker();
  ASSERT_EQ(other().run("CALL once_fail('" + it.claim + "')"), 0U);
  expect_one_claim(it, "2");
}

TEST_F(MysqlRaceTest, of_two_workers_that_claim_an_unknown_key_one_executes) {
  const Key it = claimed_by_worker();
  ASSERT_EQ(other().run("UPDATE once_operations SET state = 3 WHERE id = 0x" + it.claim.substr(0, 64)), 0U);
  expect_one_claim(it, "2");
}

TEST_F(MysqlRaceTest, of_two_workers_that_claim_an_expired_key_one_executes) {
  const Key it = claimed_by_worker();
  ASSERT_EQ(other().run("CALL once_finish('" + it.claim + "', 200, '{}', '')"), 0U);
  contract::advance_server_clock(std::chrono::hours(2));
  expect_one_claim(it, "1");
}

TEST_F(MysqlRaceTest, of_two_workers_that_take_over_a_lapsed_claim_one_executes) {
  const Key it = claimed_by_worker();
  contract::advance_server_clock(std::chrono::seconds(31));
  expect_one_claim(it, "2");
}

// Whichever comes first wins, and the other one is told so.
TEST_F(MysqlRaceTest, a_late_owner_and_the_worker_that_takes_over_never_both_succeed) {
  struct Write {
    std::string call;
    std::string verdict;  // of a claim that comes after it
  };
  for (const Write& write :
       {Write{"CALL once_finish('{}', 200, '{{}}', '')", "replay|1"}, Write{"CALL once_fail('{}')", "execute|2"},
        Write{"CALL once_renew('{}', 30)", "in_flight|1"}}) {
    SCOPED_TRACE(write.call);
    const auto late = [&](const Key& it) { return fmt::format(fmt::runtime(write.call), it.claim); };
    const Key kept = claimed_by_worker();
    const Key taken = claimed_by_worker();
    contract::advance_server_clock(std::chrono::seconds(31));
    EXPECT_EQ(race(kept, late(kept), claim(kept)), (Answers{"done", write.verdict}));
    EXPECT_EQ(race(taken, claim(taken), late(taken)), (Answers{"execute|2", "31001"}));
  }
}

}  // namespace mysql_race_test
}  // namespace once::mysql_test
