// procedures=off: what a server without stored procedures is sent, and gateways of both kinds on one table. The
// contract and the tests of conflicts, cuts and sweeps run against such a server as well.
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <latch>
#include <thread>

#include "tests/store/mysql_fixture.hpp"

namespace once::mysql_test {
namespace mysql_plain_test {

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

class MysqlPlain : public MysqlTest {
 protected:
  // A gateway that was not told: it calls no procedure, but needs a server that can skip rows.
  static std::unique_ptr<MysqlStore> open_usual() {
    const std::string url = contract::server_url();
    return opened(url.substr(0, url.find('?')));
  }
  static std::string routines(Session& session) {
    return session.value("SELECT COUNT(*) FROM information_schema.routines WHERE routine_schema = DATABASE()");
  }
};

TEST_F(MysqlPlain, the_user_may_neither_make_nor_call_procedures) {
  EXPECT_NE(other().run("CREATE PROCEDURE once_any() SELECT 1"), 0U);
  EXPECT_NE(other().run("CALL once_sweep(1)"), 0U);
  EXPECT_EQ(routines(other()), "0");
  EXPECT_EQ(other().value("SELECT procedures FROM once_schema"), "0");
}

TEST_F(MysqlPlain, the_script_makes_the_same_tables_in_the_servers_own_client) {
  ASSERT_EQ(other().run("DROP DATABASE IF EXISTS once_script; CREATE DATABASE once_script"), 0U);
  const std::string text = mysql::schema_script(mysql::Procedures::off);
  for (const std::string_view lacking : {"PROCEDURE once", "DELIMITER", "PREPARE", "CALL "}) {
    EXPECT_FALSE(has(text, lacking)) << lacking;
  }
  const std::string path = testing::TempDir() + "once_plain_schema.sql";
  std::ofstream(path) << text;
  const auto target = mysql::parse_target(contract::server_url());
  const std::string command = fmt::format("mariadb --no-defaults -h{} -P{} -uonce -ponce once_script < {}",
                                          target->hosts.front().name, target->hosts.front().port, path);
  ASSERT_EQ(std::system(command.c_str()), 0);
  ASSERT_EQ(std::system(command.c_str()), 0) << "twice";
  Session script(url_of("once_script"));
  const auto made = [](Session& session) {
    return session.value(
        "SELECT GROUP_CONCAT(table_name, '.', column_name, ' ', column_type ORDER BY 1) FROM "
        "information_schema.columns WHERE table_schema = DATABASE()");
  };
  EXPECT_EQ(made(script), made(other()));
  const auto store = opened(url_of("once_script"));
  EXPECT_EQ(run_on(*store, op_of(Verb::claim, new_owner())).verdict, Verdict::execute);
}

// What TiDB lacks, by its documentation.
TEST_F(MysqlPlain, nothing_is_sent_that_other_servers_lack) {
  ASSERT_EQ(other().run("SET GLOBAL log_output = 'TABLE'; TRUNCATE mysql.general_log; SET GLOBAL general_log = ON"),
            0U);
  const Owner owner = claimed();
  EXPECT_EQ(run(op_of(Verb::renew, owner)).status, OpStatus::done);
  EXPECT_EQ(append(owner, 0, "head"), OpStatus::done);
  EXPECT_EQ(chunks(owner), "head");
  Op failed = finish_op(owner);
  failed.final_state = State::failed;
  EXPECT_EQ(run(failed).status, OpStatus::done);
  EXPECT_EQ(claim_again(owner).verdict, Verdict::execute);
  const Owner released = claimed();
  EXPECT_EQ(run(op_of(Verb::release, released)).status, OpStatus::done);
  EXPECT_TRUE(store().sweep(100).has_value());
  EXPECT_TRUE(store().search()->scan({}, "", 10).has_value());
  EXPECT_TRUE(store().search()->count("").has_value());
  ASSERT_EQ(other().run("SET GLOBAL general_log = OFF"), 0U);
  const auto sent = [this](std::string_view text) {
    return other().value(
        fmt::format("SELECT COUNT(*) FROM mysql.general_log WHERE argument LIKE '%{}%' AND argument NOT LIKE "
                    "'%general\\_log%'",
                    text));
  };
  EXPECT_NE(sent("FOR UPDATE NOWAIT"), "0");
  for (const std::string_view lacking :
       {"SKIP LOCKED", "CALL ", "PREPARE", "JSON_TABLE", "WITH ", "LOCK IN SHARE MODE"}) {
    EXPECT_EQ(sent(lacking), "0") << lacking;
  }
}

// Far more than a batch has rounds.
TEST_F(MysqlPlain, many_rows_that_are_held_keep_nobody_else_waiting) {
  constexpr std::size_t each = 24;
  std::vector<Op> ops;
  std::string held = "BEGIN";
  for (std::size_t i = 0; i < each; ++i) {
    const Owner owner = claimed();
    held += "; SELECT 1 FROM once_operations" + where(owner) + " FOR UPDATE";
    ops.push_back(op_of(Verb::renew, owner));
    ops.push_back(finish_op(claimed()));
  }
  ASSERT_EQ(other().run(held), 0U);
  std::vector<Op*> batch;
  for (Op& op : ops) batch.push_back(&op);
  store().execute(batch);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    EXPECT_EQ(ops[i].status, i % 2 == 0 ? OpStatus::failed : OpStatus::done) << ops[i].error;
    if (i % 2 == 0) EXPECT_TRUE(has(ops[i].error, "row is locked")) << ops[i].error;
  }
  ASSERT_EQ(other().run("ROLLBACK"), 0U);
}

TEST_F(MysqlPlain, gateways_of_both_kinds_agree_on_who_executes) {
  const auto usual = open_usual();
  for (int round = 0; round < 20; ++round) {
    const Owner owner = new_owner();
    std::atomic<int> executes{0};
    std::latch together(6);
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < 6; ++i) {
      threads.emplace_back([&, i, mine = Owner{owner.id, new_owner().nonce}] {
        together.arrive_and_wait();
        const Op op = run_on(i % 2 == 0 ? *usual : store(), op_of(Verb::claim, mine));
        EXPECT_EQ(op.status, OpStatus::done) << op.error;
        executes += op.verdict == Verdict::execute ? 1 : 0;
      });
    }
    threads.clear();
    EXPECT_EQ(executes, 1);
  }
}

// Either the owner renews in time, or one of the others takes over and the owner has lost.
TEST_F(MysqlPlain, an_owner_and_gateways_of_the_other_kind_race_for_a_lease_that_lapsed) {
  const auto usual = open_usual();
  for (int round = 0; round < 40; ++round) {
    const bool owner_is_usual = round % 2 == 0;
    Store& of_owner = owner_is_usual ? static_cast<Store&>(*usual) : store();
    Store& of_others = owner_is_usual ? store() : static_cast<Store&>(*usual);
    const Owner owner = claimed();
    contract::advance_server_clock(std::chrono::minutes(1));
    std::atomic<int> executes{0};
    Op renewed = op_of(Verb::renew, owner);
    std::latch together(3);
    {
      std::vector<std::jthread> threads;
      threads.emplace_back([&] {
        together.arrive_and_wait();
        renewed = run_on(of_owner, renewed);
      });
      for (int i = 0; i < 2; ++i) {
        threads.emplace_back([&, mine = Owner{owner.id, new_owner().nonce}] {
          together.arrive_and_wait();
          const Op op = run_on(of_others, op_of(Verb::claim, mine));
          EXPECT_EQ(op.status, OpStatus::done) << op.error;
          executes += op.verdict == Verdict::execute ? 1 : 0;
        });
      }
    }
    if (renewed.status == OpStatus::done) {
      EXPECT_EQ(executes, 0);
    } else {
      EXPECT_LE(executes, 1);
    }
    const bool taken = executes == 1;
    EXPECT_EQ(run_on(of_owner, finish_op(owner)).status, taken ? OpStatus::lost : OpStatus::done);
  }
}

TEST_F(MysqlPlain, what_one_kind_recorded_the_other_replays) {
  const auto usual = open_usual();
  const Owner first = claimed();
  ASSERT_EQ(run(finish_op(first, "by the plain one")).status, OpStatus::done);
  const Op replayed = run_on(*usual, op_of(Verb::claim, {first.id, new_owner().nonce}));
  EXPECT_EQ(replayed.verdict, Verdict::replay);
  EXPECT_EQ(*replayed.record->outcome, "by the plain one");
  const Owner second = new_owner();
  ASSERT_EQ(run_on(*usual, op_of(Verb::claim, second)).verdict, Verdict::execute);
  EXPECT_EQ(run(op_of(Verb::renew, second)).status, OpStatus::done);
  ASSERT_EQ(run_on(*usual, finish_op(second, "by the usual one")).status, OpStatus::done);
  EXPECT_EQ(*claim_again(second).record->outcome, "by the usual one");
}

TEST_F(MysqlPlain, tidb_is_used_without_procedures_only) {
  mysql::ServerFacts tidb{.tidb = true, .version = 50'725, .version_text = "5.7.25-TiDB-v6.5.0"};
  EXPECT_TRUE(has(mysql::unsupported(tidb), "procedures=off"));
  tidb.procedures = mysql::Procedures::off;
  EXPECT_EQ(mysql::unsupported(tidb), "");
  EXPECT_FALSE(mysql::shows_before_durable(tidb));
}

TEST_F(MysqlPlain, the_option_is_on_or_off) {
  const auto procedures = [](const std::string& options) { return mysql::parse_target("mysql://one/shop" + options); };
  EXPECT_EQ(procedures("")->procedures, mysql::Procedures::on);
  EXPECT_EQ(procedures("?procedures=on")->procedures, mysql::Procedures::on);
  EXPECT_EQ(procedures("?procedures=off")->procedures, mysql::Procedures::off);
  EXPECT_TRUE(has(procedures("?procedures=no").error().detail, "on or off"));
}

}  // namespace mysql_plain_test
}  // namespace once::mysql_test
