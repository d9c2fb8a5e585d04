// once_sweep: a job that removes what has expired, in SQL alone.
#include "tests/store/mysql_fixture.hpp"

namespace once::mysql_test {
namespace mysql_sweep_procedure_test {

class MysqlSweepProcedure : public MysqlTest {
 protected:
  MysqlSweepProcedure() {
    contract::advance_server_clock(std::chrono::hours(24 * 30));
    while (store().sweep(10'000)->removed != 0) {
    }
  }
  Owner finished(Duration tombstone = {}) {
    const Owner owner = new_owner();
    Op claim = op_of(Verb::claim, owner);
    claim.terms.tombstone = tombstone;
    EXPECT_EQ(run(claim).verdict, Verdict::execute);
    EXPECT_EQ(run(finish_op(owner)).status, OpStatus::done);
    return owner;
  }
  std::string rows(const Owner& owner) {
    return other().value("SELECT COUNT(*) FROM once_operations " + owner.where());
  }
};

TEST_F(MysqlSweepProcedure, removes_what_expired_up_to_its_limit_and_nothing_else) {
  std::vector<Owner> expiring;
  for (int i = 0; i < 12; ++i) expiring.push_back(finished());
  const Owner working = claimed();
  const Owner lapsed = claimed();
  contract::advance_server_clock(std::chrono::hours(25));
  const Owner lasting = finished();
  ASSERT_EQ(other().run("UPDATE once_operations SET lease_until = 9223372036854775807 " + working.where()), 0U);
  EXPECT_EQ(other().value("CALL once_sweep(5)"), "5");
  EXPECT_EQ(other().value("CALL once_sweep(100)"), "8");
  EXPECT_EQ(other().value("CALL once_sweep(100)"), "0");
  EXPECT_EQ(rows(lapsed), "0");
  EXPECT_EQ(rows(working), "1");
  EXPECT_EQ(rows(lasting), "1");
}

TEST_F(MysqlSweepProcedure, passes_by_rows_that_somebody_holds) {
  const Owner held = finished();
  const Owner free = finished();
  contract::advance_server_clock(std::chrono::hours(25));
  Session holder;
  ASSERT_EQ(holder.run("BEGIN; SELECT 1 FROM once_operations " + held.where() + " FOR UPDATE"), 0U);
  EXPECT_EQ(other().value("CALL once_sweep(100)"), "1");
  EXPECT_EQ(rows(free), "0");
  ASSERT_EQ(holder.run("COMMIT"), 0U);
  EXPECT_EQ(other().value("CALL once_sweep(100)"), "1");
  EXPECT_EQ(rows(held), "0");
}

TEST_F(MysqlSweepProcedure, makes_tombstones_without_outcomes_of_what_is_remembered) {
  const Owner owner = finished(std::chrono::hours(24 * 7));
  contract::advance_server_clock(std::chrono::hours(25));
  EXPECT_EQ(other().value("CALL once_sweep(100)"), "1");
  EXPECT_EQ(other().value("SELECT CONCAT(state, outcome IS NULL, sweep_at > expires_at) FROM once_operations " +
                          owner.where()),
            "411");
  EXPECT_EQ(other().value("CALL once_sweep(100)"), "0");
  EXPECT_EQ(claim_again(owner).verdict, Verdict::gone);
  contract::advance_server_clock(std::chrono::hours(24 * 7));
  EXPECT_EQ(other().value("CALL once_sweep(100)"), "1");
  EXPECT_EQ(rows(owner), "0");
}

TEST_F(MysqlSweepProcedure, removes_chunks_of_responses_that_have_ended_up_to_its_limit) {
  while (other().value("CALL once_sweep(1000)") != "0") {
  }
  const Owner running = streaming(2);
  const Owner ended = streaming(7);
  ASSERT_EQ(run(finish_op(ended)).status, OpStatus::done);
  EXPECT_EQ(other().value("CALL once_sweep(5)"), "5");
  EXPECT_EQ(other().value("CALL once_sweep(5)"), "2");
  EXPECT_EQ(other().value("CALL once_sweep(5)"), "0");
  EXPECT_EQ(other().value("SELECT COUNT(*) FROM once_chunks " + ended.where()), "0");
  EXPECT_EQ(chunks(running), "0 1");
}

TEST_F(MysqlSweepProcedure, keeps_bodies_that_stay_in_chunks_until_they_expire) {
  while (other().value("CALL once_sweep(1000)") != "0") {
  }
  const Owner kept = streaming(3);
  ASSERT_EQ(run(in_chunks(finish_op(kept))).status, OpStatus::done);
  const Owner by_backend = streaming(2);
  ASSERT_EQ(other().run("CALL once_finish('" + by_backend.claim() + "', 200, '{}', 'all of it')"), 0U);
  EXPECT_EQ(lookup(by_backend).record->body_kept, BodyKept::yes);
  EXPECT_EQ(chunks(by_backend), "");
  EXPECT_EQ(other().value("CALL once_sweep(100)"), "2");
  EXPECT_EQ(chunks(kept), "0 1 2");
  contract::advance_server_clock(std::chrono::hours(25));
  EXPECT_EQ(other().value("CALL once_sweep(100)"), "3");
  EXPECT_EQ(other().value("SELECT COUNT(*) FROM once_chunks " + kept.where()), "0");
}

TEST_F(MysqlSweepProcedure, workers_are_told_that_a_body_in_chunks_is_not_kept) {
  const std::string claim = "CALL once_claim('acme', 'streamed', '', 30, 60, 'retry', 0)";
  ASSERT_EQ(other().run(claim), 0U);
  const std::string text = other().rows().front().at(1).value_or("");
  Owner owner;
  const std::string id = from_hex(text.substr(0, 64)).value_or("");
  const std::string nonce = from_hex(text.substr(65)).value_or("");
  std::ranges::copy(id, owner.id.bytes.begin());
  std::ranges::copy(nonce, owner.nonce.bytes.begin());
  EXPECT_EQ(append(owner, 0, "head"), OpStatus::done);
  ASSERT_EQ(run(in_chunks(finish_op(owner))).status, OpStatus::done);
  ASSERT_EQ(other().run(claim), 0U);
  EXPECT_EQ(other().rows().front().at(0).value_or(""), "not_kept");
}

// It would have to commit what the caller has not decided upon yet.
TEST_F(MysqlSweepProcedure, refuses_to_run_in_a_transaction_and_leaves_it_alone) {
  const Owner expired = finished();
  contract::advance_server_clock(std::chrono::hours(25));
  const Owner other_row = finished();
  ASSERT_EQ(other().run("BEGIN; UPDATE once_operations SET route = 'mine' " + other_row.where()), 0U);
  EXPECT_EQ(other().run("CALL once_sweep(100)"), 31002U);
  EXPECT_EQ(other().value("SELECT route FROM once_operations " + other_row.where()), "mine");
  ASSERT_EQ(other().run("ROLLBACK"), 0U);
  EXPECT_EQ(other().value("SELECT route FROM once_operations " + other_row.where()), "payments");
  EXPECT_EQ(rows(expired), "1");
}

TEST_F(MysqlSweepProcedure, a_limit_of_nothing_is_an_error) {
  EXPECT_EQ(other().run("CALL once_sweep(0)"), 31002U);
  EXPECT_EQ(other().run("CALL once_sweep(NULL)"), 31002U);
}

TEST_F(MysqlSweepProcedure, needs_no_right_but_to_call_it) {
  const Owner expired = finished();
  contract::advance_server_clock(std::chrono::hours(25));
  ASSERT_EQ(other().run("CREATE OR REPLACE USER sweeper@'127.0.0.1' IDENTIFIED BY 'sweeper';"
                        "GRANT EXECUTE ON PROCEDURE once.once_sweep TO sweeper@'127.0.0.1'"),
            0U);
  Session job(url_of("once", "sweeper:sweeper"));
  EXPECT_NE(job.run("SELECT COUNT(*) FROM once_operations"), 0U);
  EXPECT_EQ(job.value("CALL once_sweep(100)"), "1");
  EXPECT_EQ(rows(expired), "0");
}

}  // namespace mysql_sweep_procedure_test
}  // namespace once::mysql_test
