// Two sessions of PostgreSQL on one key. A third one holds the row until both wait for it, so that both have read it as
// it was before either of them writes.
#include <array>
#include <thread>

#include "tests/store/postgres_support.hpp"

namespace once::store {
namespace postgres_race_test {

class PostgresRace : public PostgresTest {
 protected:
  struct Key {
    std::string key;    // the arguments of once_claim()
    std::string claim;  // of its first owner
    std::string row() const { return "once_operations WHERE id = '\\x" + claim.substr(0, 64) + "'"; }
  };
  Key claimed(const std::string& terms = "") {
    Key it;
    it.key = "'', '" + to_hex(new_nonce()) + "'" + terms;
    it.claim = sql_("SELECT claim FROM once_claim(" + it.key + ")");
    return it;
  }
  static std::string claim(const Key& it) {
    return "SELECT verdict, attempt FROM once_claim(" + it.key + ", on_unknown => 'retry')";
  }
  static std::string call(std::string_view function, const Key& it) {
    return fmt::format("SELECT 'done', 0 FROM {}('{}')", function, it.claim);
  }

  // Until this many sessions wait for a lock.
  void wait_for_waiters(int count) {
    sql_.wait_for(fmt::format("(SELECT count(*) = {} FROM pg_stat_activity WHERE wait_event_type = 'Lock')", count));
  }

  using Answers = std::array<std::string, 2>;
  // The first one comes to wait before the second one.
  Answers race(const std::string& row, const std::string& first, const std::string& second) {
    Answers answers;
    holder_("BEGIN; SELECT FROM " + row + " FOR UPDATE", 0);
    {
      const auto ask = [&](std::size_t which, const std::string& sql) {
        Sql session;
        try {
          answers.at(which) = session(sql, 2);
        } catch (const std::exception& error) {
          answers.at(which) = error.what();
        }
      };
      std::jthread one([&] { ask(0, first); });
      wait_for_waiters(1);
      std::jthread two([&] { ask(1, second); });
      wait_for_waiters(2);
      holder_("COMMIT");
    }
    return answers;
  }
  void expect_one_claim(const Key& it, const std::string& attempt) {
    const Answers answers = race(it.row(), claim(it), claim(it));
    EXPECT_EQ(answers[0], "execute|" + attempt);
    EXPECT_EQ(answers[1], "in_flight|" + attempt);
    EXPECT_EQ(sql_("SELECT state, attempt FROM " + it.row(), 2), "0|" + attempt);
  }

  Sql sql_;
  Sql holder_;
};

TEST_F(PostgresRace, of_two_workers_that_claim_a_failed_key_one_executes) {
  const Key it = claimed();
  sql_("SELECT once_fail('" + it.claim + "')");
  expect_one_claim(it, "2");
}

TEST_F(PostgresRace, of_two_workers_that_claim_a_released_key_one_executes) {
  const Key it = claimed();
  sql_("SELECT once_release('" + it.claim + "')");
  expect_one_claim(it, "1");
}

TEST_F(PostgresRace, of_two_workers_that_claim_an_unknown_key_one_executes) {
  const Key it = claimed();
  sql_("UPDATE once_operations SET state = 3 WHERE id = '\\x" + it.claim.substr(0, 64) + "'");
  expect_one_claim(it, "2");
}

TEST_F(PostgresRace, of_two_workers_that_claim_an_expired_key_one_executes) {
  const Key it = claimed();
  sql_("SELECT once_finish('" + it.claim + "', 200)");
  contract::advance_server_clock(std::chrono::hours(25));
  expect_one_claim(it, "1");
}

TEST_F(PostgresRace, of_two_workers_that_take_over_a_lapsed_claim_one_executes) {
  const Key it = claimed();
  contract::advance_server_clock(std::chrono::seconds(31));
  expect_one_claim(it, "2");
}

TEST_F(PostgresRace, of_two_workers_that_claim_a_new_key_one_executes) {
  const Key it = claimed();
  sql_("DELETE FROM " + it.row());
  Answers answers;
  holder_("BEGIN; SELECT verdict FROM once_claim(" + it.key + ")");
  {
    std::jthread one([&] { answers[0] = Sql()(claim(it), 2); });
    std::jthread two([&] { answers[1] = Sql()(claim(it), 2); });
    wait_for_waiters(2);
    holder_("ROLLBACK");
  }
  EXPECT_NE(answers[0], answers[1]);
  for (const std::string& answer : answers) EXPECT_TRUE(answer == "execute|1" || answer == "in_flight|1") << answer;
}

// Whichever comes first wins, and the other one is told so.
TEST_F(PostgresRace, a_late_owner_and_the_worker_that_takes_over_never_both_succeed) {
  struct Write {
    std::string call;     // with the arguments that come after the claim
    std::string verdict;  // of a claim that comes after it
  };
  for (const Write& write : {Write{"once_finish('{}', 200)", "replay|1"}, Write{"once_fail('{}')", "execute|2"},
                             Write{"once_renew('{}')", "in_flight|1"}, Write{"once_release('{}')", "execute|1"}}) {
    SCOPED_TRACE(write.call);
    const auto late = [&](const Key& it) {
      return "SELECT 'done', 0 FROM " + fmt::format(fmt::runtime(write.call), it.claim);
    };
    const Key kept = claimed();
    const Key taken = claimed();
    contract::advance_server_clock(std::chrono::seconds(31));
    const Answers owner_first = race(kept.row(), late(kept), claim(kept));
    EXPECT_EQ(owner_first[0], "done|0");
    EXPECT_EQ(owner_first[1], write.verdict);
    const Answers worker_first = race(taken.row(), claim(taken), late(taken));
    EXPECT_EQ(worker_first[0], "execute|2");
    EXPECT_NE(worker_first[1].find("the claim is not current"), std::string::npos) << worker_first[1];
  }
}

// Two gateways. What a store cannot lock in time it answers as in flight: then both try once more.
TEST_F(PostgresRace, of_two_gateways_that_wait_for_a_failed_key_one_executes) {
  const auto first = open();
  const auto second = open();
  for (int tries = 0; tries < 20; ++tries) {
    const Started it = started(*first);
    Op failed = finish_op(it.id, it.nonce);
    failed.final_state = State::failed;
    ASSERT_EQ(run(*first, failed).status, OpStatus::done);
    std::array<Op, 2> claims = {op(Verb::claim, it.id, new_nonce()), op(Verb::claim, it.id, new_nonce())};
    holder_("BEGIN; SELECT FROM " + it.row() + " FOR UPDATE", 0);
    {
      std::jthread one([&] { claims[0] = run(*first, claims[0]); });
      std::jthread two([&] { claims[1] = run(*second, claims[1]); });
      const auto until = monotonic_now() + std::chrono::milliseconds(250);
      while (monotonic_now() < until &&
             sql_("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'") != "2") {
      }
      holder_("COMMIT");
    }
    const auto executing = std::ranges::count(claims, Verdict::execute, &Op::verdict);
    ASSERT_LE(executing, 1);
    if (executing == 1) return;
  }
  FAIL() << "neither got the row in time";
}

}  // namespace postgres_race_test
}  // namespace once::store
