// The gateway's sweep of what has expired.
#include "tests/store/mysql_fixture.hpp"

namespace once::mysql_test {
namespace mysql_sweep_test {

class MysqlSweepTest : public MysqlTest {};

TEST_F(MysqlSweepTest, a_sweep_removes_what_expired_up_to_its_limit_and_nothing_else) {
  contract::advance_server_clock(std::chrono::hours(24 * 30));
  while (store().sweep(10'000)->removed != 0) {
  }
  std::vector<Owner> expiring;
  for (int i = 0; i < 25; ++i) {
    expiring.push_back(claimed());
    ASSERT_EQ(run(finish_op(expiring.back())).status, OpStatus::done);
  }
  const Owner working = claimed();
  contract::advance_server_clock(std::chrono::hours(25));
  const Owner lasting = claimed();
  ASSERT_EQ(run(finish_op(lasting)).status, OpStatus::done);
  ASSERT_EQ(other().run("UPDATE once_operations SET lease_until = 9223372036854775807 " + working.where()), 0U);
  ASSERT_EQ(other().run("BEGIN; SELECT 1 FROM once_operations " + expiring.front().where() + " FOR UPDATE"), 0U);

  const std::uint64_t before = store().stats().swept;
  const auto some = store().sweep(10);
  ASSERT_TRUE(some.has_value()) << some.error().detail;
  EXPECT_GE(some->removed, 9U);  // one may be held
  EXPECT_LE(some->removed, 10U);
  EXPECT_EQ(some->more, More::yes);
  const auto rest = store().sweep(1000);
  ASSERT_TRUE(rest.has_value());
  EXPECT_EQ(some->removed + rest->removed, 24U) << "all but the one that is held";
  EXPECT_EQ(rest->more, More::no);
  EXPECT_EQ(store().stats().swept - before, 24U);
  ASSERT_EQ(other().run("COMMIT"), 0U);
  EXPECT_EQ(store().sweep(1000)->removed, 1U);
  EXPECT_EQ(store().sweep(1000)->removed, 0U);
  EXPECT_TRUE(lookup(working).record.has_value());
  EXPECT_TRUE(lookup(lasting).record.has_value());
}

TEST_F(MysqlSweepTest, a_sweep_takes_no_connection_of_a_lane) {
  const auto one = open_store(1);
  ASSERT_EQ(run_on(*one, op_of(Verb::claim, new_owner())).verdict, Verdict::execute);
  EXPECT_EQ(one->stats().connections, 1U);
  ASSERT_TRUE(one->sweep(10).has_value());
  EXPECT_EQ(one->stats().connections, 2U);
}

TEST_F(MysqlSweepTest, a_sweep_makes_tombstones_without_outcomes_of_what_is_remembered) {
  const Owner owner = new_owner();
  Op claim = op_of(Verb::claim, owner);
  claim.terms.tombstone = std::chrono::hours(24 * 30);
  ASSERT_EQ(run(claim).verdict, Verdict::execute);
  ASSERT_EQ(run(finish_op(owner)).status, OpStatus::done);
  contract::advance_server_clock(std::chrono::hours(25));
  EXPECT_EQ(other().value("SELECT state FROM once_keys WHERE id = '" + to_hex(owner.id) + "'"), "tombstone");
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(store().sweep(10'000).has_value());
    EXPECT_EQ(other().value("SELECT CONCAT(state, outcome IS NULL, sweep_at > expires_at) FROM once_operations " +
                            owner.where()),
              "411");
    EXPECT_EQ(claim_again(owner).verdict, Verdict::gone);
    EXPECT_EQ(run(finish_op(owner)).status, OpStatus::lost);
  }
  contract::advance_server_clock(std::chrono::hours(24 * 30));
  while (store().sweep(10'000)->removed != 0) {
  }
  EXPECT_EQ(other().value("SELECT COUNT(*) FROM once_operations " + owner.where()), "0");
}

}  // namespace mysql_sweep_test
}  // namespace once::mysql_test
