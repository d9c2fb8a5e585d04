// A server without a synced binary log shows a commit before it is on disk. What a store only read is told after a
// commit of its own, which puts all before it on disk; the INSERT in it is what these tests count.
#include "tests/store/mysql_fixture.hpp"

namespace once::mysql_test {
namespace mysql_durable_test {

class MysqlDurableTest : public MysqlTest {
 protected:
  void SetUp() override {
    if (other().value("SELECT @@wsrep_on") == "1") GTEST_SKIP() << "a cluster shows what every node has";
  }

  // How many rows were put into any table while `op` was executed by the other gateway.
  struct Ran {
    Op op;
    std::uint64_t inserts = 0;
  };
  Ran run_elsewhere(Op op) {
    const std::uint64_t before = inserts();
    Ran ran{.op = run_on(*elsewhere_, std::move(op))};
    ran.inserts = inserts() - before;
    return ran;
  }

 private:
  std::uint64_t inserts() {
    EXPECT_EQ(other().run("SHOW GLOBAL STATUS LIKE 'Com_insert'"), 0U);
    return std::stoull(other().rows().front().at(1).value_or("0"));
  }

  std::unique_ptr<MysqlStore> elsewhere_ = open_store(1);
};

TEST_F(MysqlDurableTest, outcome_that_was_only_read_is_told_after_a_commit_and_once_only) {
  const Owner owner = claimed();
  ASSERT_EQ(run(finish_op(owner)).status, OpStatus::done);
  const Ran first = run_elsewhere(op_of(Verb::claim, {owner.id, Nonce()}));
  EXPECT_EQ(first.op.verdict, Verdict::replay) << first.op.error;
  EXPECT_EQ(*first.op.record->outcome, "outcome");
  EXPECT_EQ(first.inserts, 1U);
  EXPECT_EQ(run_elsewhere(op_of(Verb::claim, {owner.id, Nonce()})).inserts, 0U) << "it is known to be on disk";
  EXPECT_EQ(run_elsewhere(op_of(Verb::lookup, owner)).inserts, 0U);
  EXPECT_EQ(other().value("SELECT COUNT(*) FROM once_operations WHERE attempt = 0"), "0") << "nothing of it stays";
}

TEST_F(MysqlDurableTest, lookup_tells_an_outcome_after_a_commit) {
  const Owner owner = claimed();
  EXPECT_EQ(run_elsewhere(op_of(Verb::lookup, {owner.id, Nonce()})).inserts, 0U) << "somebody else's claim";
  ASSERT_EQ(run(finish_op(owner)).status, OpStatus::done);
  EXPECT_EQ(run_elsewhere(op_of(Verb::lookup, {owner.id, Nonce()})).inserts, 1U);
}

TEST_F(MysqlDurableTest, chunks_are_told_after_a_commit_and_nothing_new_needs_none) {
  const Owner owner = claimed();
  EXPECT_EQ(run_elsewhere(read_op(owner)).inserts, 0U) << "somebody else's claim";
  ASSERT_EQ(append(owner, 0, "head"), OpStatus::done);
  const Ran read = run_elsewhere(read_op(owner));
  ASSERT_EQ(read.op.chunks.size(), 1U) << read.op.error;
  EXPECT_EQ(read.inserts, 1U);
  Op rest = read_op(owner);
  rest.chunk = 1;
  EXPECT_EQ(run_elsewhere(rest).inserts, 0U);
}

// Its first answer was lost, and its commit may still be on its way to the disk.
TEST_F(MysqlDurableTest, append_that_was_made_before_is_a_commit_of_its_own) {
  const Owner owner = claimed();
  ASSERT_EQ(append(owner, 0, "head"), OpStatus::done);
  const std::string repeated = "SELECT repeated FROM once_chunks" + where(owner);
  ASSERT_EQ(other().value(repeated), "0");
  EXPECT_EQ(run_elsewhere(append_op(owner, 0, "head")).op.status, OpStatus::done);
  EXPECT_EQ(other().value(repeated), "1");
}

// Their first answer was lost: the commit may still be on its way to the disk.
TEST_F(MysqlDurableTest, claim_and_finish_that_were_made_before_are_done_after_a_commit) {
  const Owner owner = claimed();
  const Ran claim = run_elsewhere(op_of(Verb::claim, owner));
  EXPECT_EQ(claim.op.verdict, Verdict::execute) << claim.op.error;
  EXPECT_EQ(claim.inserts, 1U);
  ASSERT_EQ(run(finish_op(owner)).status, OpStatus::done);
  const Ran finish = run_elsewhere(finish_op(owner));
  EXPECT_EQ(finish.op.status, OpStatus::done) << finish.op.error;
  EXPECT_EQ(finish.inserts, 1U);
}

TEST_F(MysqlDurableTest, replays_of_ones_own_outcomes_need_no_commit) {
  const Owner owner = claimed();
  Op finish = run_elsewhere(finish_op(owner)).op;
  ASSERT_EQ(finish.status, OpStatus::done) << finish.error;
  EXPECT_EQ(run_elsewhere(op_of(Verb::claim, {owner.id, Nonce()})).inserts, 0U);
}

TEST_F(MysqlDurableTest, outcome_that_cannot_be_confirmed_is_not_told) {
  const Owner owner = claimed();
  ASSERT_EQ(run(finish_op(owner)).status, OpStatus::done);
  ASSERT_EQ(other().run("CREATE USER IF NOT EXISTS reader@'127.0.0.1' IDENTIFIED BY 'reader';"
                        "GRANT SELECT ON once.* TO reader@'127.0.0.1'"),
            0U);
  const auto reader = opened(url_of("once", "reader:reader"));
  const Op claim = run_on(*reader, op_of(Verb::claim, {owner.id, Nonce()}));
  EXPECT_EQ(claim.status, OpStatus::failed);
  EXPECT_FALSE(claim.record.has_value());
  EXPECT_FALSE(claim.error.empty());
}

TEST(MysqlFactsTest, commit_is_shown_before_it_is_on_disk_unless_the_binary_log_is_synced_first) {
  EXPECT_TRUE(mysql::shows_before_durable({}));
  EXPECT_TRUE(mysql::shows_before_durable({.binary_log = true}));
  EXPECT_TRUE(mysql::shows_before_durable({.syncs_binary_log = true}));
  EXPECT_FALSE(mysql::shows_before_durable({.binary_log = true, .syncs_binary_log = true}));
  EXPECT_FALSE(mysql::shows_before_durable({.galera = true})) << "the other nodes have it";
}

}  // namespace mysql_durable_test
}  // namespace once::mysql_test
