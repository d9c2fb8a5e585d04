// The schema of MySQL: scripts, procedures made later, plans; and URLs that do not work. sql/upgrades.hpp has the rest.
#include <cstdlib>
#include <fstream>

#include "store/mysql/statements.hpp"
#include "tests/store/mysql_fixture.hpp"
#include "tests/store/sql/server.hpp"

namespace once::mysql_test {
namespace mysql_schema_test {

class MysqlSchemaTest : public MysqlTest {
 protected:
  // An empty database of this name.
  std::string new_database(std::string_view name) {
    EXPECT_EQ(other().run(fmt::format("DROP DATABASE IF EXISTS {}; CREATE DATABASE {}", name, name)), 0U);
    return url_of(name);
  }
  static std::string why_not_open(const std::string& url) {
    const auto store = MysqlStore::open(url, ServerSettings(), quiet_log());
    EXPECT_FALSE(store.has_value());
    return store ? "" : store.error().detail;
  }
  static std::string objects(Session& session) {
    return session.value(
        "SELECT CONCAT((SELECT GROUP_CONCAT(table_name ORDER BY table_name) FROM information_schema.tables WHERE "
        "table_schema = DATABASE()), '; ', (SELECT GROUP_CONCAT(routine_name ORDER BY routine_name) FROM "
        "information_schema.routines WHERE routine_schema = DATABASE()))");
  }
  static bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }
};

TEST_F(MysqlSchemaTest, what_was_left_halfway_is_completed) {
  const std::string url = new_database("once_half");
  ASSERT_TRUE(mysql::apply_schema(url, ServerSettings()).has_value());
  Session session(url);
  const std::string whole = objects(session);
  ASSERT_EQ(session.run("DELETE FROM once_schema; DROP PROCEDURE once_claim; DROP VIEW once_keys"), 0U);
  EXPECT_TRUE(has(why_not_open(url), "once schema mysql --apply URL"));
  ASSERT_TRUE(mysql::apply_schema(url, ServerSettings()).has_value());
  EXPECT_EQ(objects(session), whole);
}

TEST_F(MysqlSchemaTest, the_script_does_the_same_in_the_servers_own_client) {
  const std::string by_script = new_database("once_script");
  const std::string by_us = new_database("once_applied");
  ASSERT_TRUE(mysql::apply_schema(by_us, ServerSettings()).has_value());
  const std::string path = testing::TempDir() + "once_schema.sql";
  std::ofstream(path) << mysql::schema_script(mysql::Procedures::on);
  const auto target = mysql::parse_target(by_script);
  ASSERT_TRUE(target.has_value());
  const std::string command = fmt::format("mariadb --no-defaults -h{} -P{} -uonce -ponce once_script < {}",
                                          target->hosts.front().name, target->hosts.front().port, path);
  ASSERT_EQ(std::system(command.c_str()), 0);
  ASSERT_EQ(std::system(command.c_str()), 0) << "twice";
  Session script(by_script);
  Session us(by_us);
  EXPECT_EQ(objects(script), objects(us));
  EXPECT_TRUE(MysqlStore::open(by_script, ServerSettings(), quiet_log()).has_value());
  EXPECT_EQ(script.run("CALL once_claim('t', 'k', 'f', 30, 60, 'retry', 0)"), 0U);
}

TEST_F(MysqlSchemaTest, tables_without_procedures_get_them_later) {
  const std::string url = new_database("once_plain_first");
  EXPECT_EQ(*mysql::apply_schema(url + "?procedures=off", ServerSettings()), "schema revision 5 made");
  Session session(url);
  EXPECT_NE(session.run("CALL once_sweep(10)"), 0U);
  EXPECT_EQ(*mysql::apply_schema(url + "?procedures=off", ServerSettings()), "schema revision 5 was there already");
  EXPECT_EQ(*mysql::apply_schema(url, ServerSettings()),
            "schema revision 5 was there already; its procedures were made");
  EXPECT_EQ(session.value("CALL once_sweep(10)"), "0");
  EXPECT_EQ(*mysql::apply_schema(url, ServerSettings()), "schema revision 5 was there already");
}

// Somebody with more rights brings them up to date later.
TEST_F(MysqlSchemaTest, tables_are_brought_up_to_date_without_their_procedures) {
  const std::string url = new_database("once_tables_only");
  sql_test::sql_server()->make_previous_schema(url);
  EXPECT_EQ(*mysql::apply_schema(url + "?procedures=off", ServerSettings()),
            "schema brought from revision 4 to 5; its procedures are still those of revision 4, since the URL has "
            "procedures=off");
  Session session(url);
  EXPECT_EQ(session.value("CALL once_sweep(10)"), "0");
  EXPECT_EQ(session.run("CALL once_claim('acme', 'one', '', 30, 60, 'retry', 0)"), 0U);
  EXPECT_EQ(*mysql::apply_schema(url, ServerSettings()),
            "schema revision 5 was there already; its procedures were made");
  EXPECT_EQ(session.value("CALL once_sweep(10)"), "0");
}

TEST_F(MysqlSchemaTest, what_waits_for_somebody_is_found_by_an_index_on_the_state) {
  for (const State state : {State::started, State::failed, State::unknown}) {
    mysql::Script page;
    page.see_state_page(state, {.started_at = 1, .id = std::string(32, 'x')}, 500);
    mysql::Script count;
    count.count_state_page(Time(), state, {}, 500);
    for (const mysql::Script& script : {page, count}) {
      ASSERT_EQ(other().run("EXPLAIN " + script.text()), 0U);
      const Cells& row = other().rows().back();
      EXPECT_EQ(row.at(5), "once_operations_state");
      EXPECT_NE(row.at(3), "ALL");
      EXPECT_EQ(row.back().value_or("").find("filesort"), std::string::npos) << row.back().value_or("");
    }
  }
}

TEST_F(MysqlSchemaTest, a_server_that_lacks_what_the_store_needs_is_refused_by_name) {
  EXPECT_EQ(mysql::unsupported({.mariadb = true, .version = 101'002, .version_text = "10.10.2-MariaDB"}), "");
  EXPECT_EQ(mysql::unsupported({.mariadb = false, .version = 80'036, .version_text = "8.0.36"}), "");
  const std::string old = mysql::unsupported({.mariadb = true, .version = 100'618, .version_text = "10.6.18-MariaDB"});
  EXPECT_TRUE(has(old, "10.6.18") && has(old, "MariaDB 10.10")) << old;
  EXPECT_NE(mysql::unsupported({.mariadb = false, .version = 50'744, .version_text = "5.7.44"}), "");
  mysql::ServerFacts server{.mariadb = true, .version = 101'106, .logs_statements = true};
  EXPECT_EQ(mysql::unsupported(server), "") << "it writes no binary log";
  server.binary_log = true;
  EXPECT_TRUE(has(mysql::unsupported(server), "binlog_format"));
}

TEST_F(MysqlSchemaTest, refused_credentials_are_an_error_without_the_password) {
  const std::string why = why_not_open(url_of("once", "once:not-the-secret"));
  EXPECT_TRUE(has(why, "Access denied")) << why;
  EXPECT_FALSE(has(why, "not-the-secret"));
  EXPECT_TRUE(has(why_not_open(url_of("no_such_database")), "no_such_database"));
}

TEST_F(MysqlSchemaTest, a_wrong_url_is_an_error_that_says_what_is_known) {
  const std::string unknown = why_not_open(contract::server_url() + "?tls=1");
  EXPECT_TRUE(has(unknown, "tls") && has(unknown, "ssl-mode") && has(unknown, "ssl-ca")) << unknown;
  EXPECT_TRUE(has(why_not_open(contract::server_url() + "?ssl-mode=maybe"), "verify-identity"));
  EXPECT_TRUE(has(why_not_open("mysql://once:secret@127.0.0.1:3306"), "database"));
  EXPECT_FALSE(has(why_not_open("mysql://once:secret@127.0.0.1:99999/once"), "secret"));
}

TEST_F(MysqlSchemaTest, a_server_on_another_machine_counts_as_verified_only_if_its_certificate_is) {
  const auto host = [](const std::string& rest) {
    const auto target = mysql::parse_target("mysql://once:pass@" + rest);
    return target ? mysql::unverified_host(*target) : target.error().detail;
  };
  EXPECT_EQ(host("127.0.0.1,db.internal/shop"), "db.internal");
  EXPECT_EQ(host("db.internal/shop?ssl-mode=required"), "db.internal");
  EXPECT_EQ(host("db.internal/shop?ssl-mode=verify-identity"), "");
  EXPECT_EQ(host("db.internal/shop?ssl-ca=/etc/ssl/db.pem"), "");
  EXPECT_EQ(host("localhost,[::1]:3307/shop"), "");
}

// The server's certificate is for the name localhost, and its own authority.
TEST_F(MysqlSchemaTest, a_connection_is_encrypted_and_the_server_known_when_the_url_says_so) {
  const std::string clock = contract::from_environment("ONCE_TEST_CLOCK");
  const std::string certificate = clock.substr(0, clock.rfind('/')) + "/certificate.pem";
  const auto target = mysql::parse_target(contract::server_url());
  const auto url = [&](std::string_view host, std::string_view options) {
    return fmt::format("mysql://once:once@{}:{}/once{}", host, target->hosts.front().port, options);
  };
  const auto encrypted = [](const std::string& at) {
    Session session(at);
    return !session
                .value(
                    "SELECT variable_value FROM information_schema.session_status WHERE variable_name = 'ssl_cipher'")
                .empty();
  };
  EXPECT_FALSE(encrypted(url("127.0.0.1", "")));
  EXPECT_TRUE(encrypted(url("127.0.0.1", "?ssl-mode=required")));
  EXPECT_TRUE(encrypted(url("localhost", "?ssl-ca=" + certificate)));
  EXPECT_TRUE(encrypted(url("localhost", "?ssl-mode=verify-identity&ssl-ca=" + certificate)));
  EXPECT_TRUE(has(why_not_open(url("127.0.0.1", "?ssl-ca=" + certificate)), "TLS"));
  EXPECT_TRUE(has(why_not_open(url("localhost", "?ssl-mode=verify-identity")), "TLS")) << "an authority nobody knows";
}

TEST_F(MysqlSchemaTest, a_server_that_cannot_be_reached_refuses_batches_until_it_can) {
  const auto store = MysqlStore::open("mysql://once:secret@127.0.0.1:1/once", ServerSettings(), quiet_log());
  ASSERT_TRUE(store.has_value());
  const Op op = run_on(**store, op_of(Verb::lookup, new_owner()));
  EXPECT_EQ(op.status, OpStatus::failed);
  EXPECT_EQ(op.fault, StoreFault::refused);
  EXPECT_FALSE(has(op.error, "secret"));
  EXPECT_GE((*store)->stats().connect_failures, 1U);
}

TEST_F(MysqlSchemaTest, the_next_host_is_tried_when_one_cannot_be_reached) {
  std::string url = contract::server_url();
  url.insert(url.find('@') + 1, "127.0.0.1:1,");
  const auto store = MysqlStore::open(url, ServerSettings(), quiet_log());
  ASSERT_TRUE(store.has_value());
  EXPECT_EQ(run_on(**store, op_of(Verb::claim, new_owner())).verdict, Verdict::execute);
}

TEST_F(MysqlSchemaTest, an_outcome_that_no_statement_can_carry_is_not_kept_but_recorded) {
  const Owner owner = claimed();
  const auto limit = std::stoull(other().value("SELECT @@max_allowed_packet"));
  ASSERT_EQ(run(finish_op(owner, std::string(limit, 'x'))).status, OpStatus::done);
  EXPECT_EQ(claim_again(owner).verdict, Verdict::not_kept);
  const Owner next = claimed();
  EXPECT_EQ(run(finish_op(next, std::string(limit / 4, '\''))).status, OpStatus::done);
  EXPECT_EQ(claim_again(next).record->outcome->size(), limit / 4);
}

}  // namespace mysql_schema_test
}  // namespace once::mysql_test
