// MySQL and MariaDB for the stories that all SQL servers share.
#pragma once

#include <fstream>
#include <iterator>

#include "tests/store/mysql_fixture.hpp"
#include "tests/store/sql/server.hpp"

namespace once::sql_test {

class MysqlSession final : public SqlSession {
 public:
  explicit MysqlSession(const std::string& url) : session_(url) {}
  std::string operator()(const std::string& sql) override {
    if (const unsigned error = session_.run(sql); error != 0) return fmt::format("error {}", error);
    if (session_.rows().empty()) return "done";
    std::string all;
    for (const mysql_test::Cells& row : session_.rows()) {
      if (!all.empty()) all += '\n';
      for (std::size_t i = 0; i < row.size(); ++i) all += (i > 0 ? "|" : "") + row[i].value_or("null");
    }
    return all;
  }

 private:
  mysql_test::Session session_;
};

class MysqlServer final : public SqlServer {
 public:
  MysqlServer() { mysql_test::apply_the_schema(); }

  std::string_view name() const override { return "mysql"; }
  std::unique_ptr<ServerStore> open(const ServerSettings& settings) override {
    return opened(contract::server_url(), settings);
  }
  std::unique_ptr<SqlSession> connect() override { return connect_to(contract::server_url()); }
  std::vector<std::string> tables() const override { return {"once_operations", "once_chunks"}; }
  bool has_functions() const override { return target()->procedures == mysql::Procedures::on; }
  contract::HeldClaims held_claims() const override {
    const std::string url = contract::server_url();
    const std::size_t host = url.find('@') + 1;
    return {.server = target()->hosts.front().port,
            .claims = "INSERT INTO once_operations",
            .open = [url, host](std::uint16_t relay, const ServerSettings& settings) {
              return opened(fmt::format("{}127.0.0.1:{}{}", url.substr(0, host), relay, url.substr(url.rfind('/'))),
                            settings);
            }};
  }

  std::string bytes(std::string_view bytes) const override { return "0x" + to_hex(bytes); }
  std::string text(std::string_view text) const override {
    std::string literal = "'";
    for (const char each : text) literal += each == '\\' ? "\\\\" : std::string(1, each);
    return literal + "'";
  }
  std::string seconds(std::string_view number) const override { return std::string(number); }
  std::string call(std::string_view function, std::string_view arguments) const override {
    return fmt::format("CALL {}({})", function, arguments);
  }
  std::string claim(std::string_view arguments) const override { return fmt::format("CALL once_claim({})", arguments); }
  std::string sweep(int limit) const override { return fmt::format("CALL once_sweep({})", limit); }
  std::string insert_chunk(const Owner& owner, int number, std::string_view bytes_of_it) const override {
    return fmt::format("INSERT INTO once_chunks (id, nonce, number, size, bytes) VALUES ({}, {}, {}, {}, {})",
                       bytes(owner.id.view()), bytes(owner.nonce.view()), number, bytes_of_it.size(),
                       bytes(bytes_of_it));
  }
  std::string extend_lease(const Owner& owner) const override {
    return "UPDATE once_operations SET lease_until = 9223372036854775807 WHERE id = " + bytes(owner.id.view());
  }
  // Not those of information_schema.innodb_trx: who asks often sees what was before.
  std::string sessions_that_wait() const override {
    return "SELECT variable_value FROM information_schema.global_status WHERE variable_name = "
           "'innodb_row_lock_current_waits'";
  }
  std::size_t most_bytes_of_a_statement() override {
    return parse_number((*connect())("SELECT @@max_allowed_packet")).value_or(0);
  }

  std::string not_current() const override { return "error 31001"; }
  std::string not_valid() const override { return "error 31002"; }
  std::string finished_before() const override { return "error 31003"; }
  bool is_in_order() const override { return false; }

  std::uint64_t revision() const override { return mysql::schema_revision; }
  std::string new_database(const std::string& name) override {
    EXPECT_EQ((*connect())(fmt::format("DROP DATABASE IF EXISTS {0}; CREATE DATABASE {0}", name)), "done");
    return mysql_test::url_of(name);
  }
  std::unique_ptr<SqlSession> connect_to(const std::string& url) override {
    return std::make_unique<MysqlSession>(url);
  }
  Result<std::unique_ptr<ServerStore>> open_at(const std::string& url) override {
    return MysqlStore::open(url, ServerSettings(), mysql_test::quiet_log());
  }
  Result<std::string> apply(const std::string& url) override { return mysql::apply_schema(url, ServerSettings()); }
  void make_previous_schema(const std::string& url) override {
    std::ifstream file(ONCE_SCHEMAS "/schema_4/mysql.sql");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    EXPECT_FALSE(text.empty());
    EXPECT_TRUE(apply(url).has_value());
    EXPECT_EQ((*connect_to(url))(text), "done");
  }
  std::vector<std::string> previous_gateway(const Owner& owner) const override {
    const std::string id = bytes(owner.id.view());
    const std::string mine = fmt::format(" WHERE id = {} AND nonce = {} AND state = 0", id, bytes(owner.nonce.view()));
    return {fmt::format("INSERT INTO once_operations (id, state, body_kept, attempt, fence, fingerprint, nonce, "
                        "started_at, lease_until, expires_at, ttl, tombstone, previous_state, previous_started_at, "
                        "outcome, sweep_at, tenant, route) VALUES ({0}, 0, 1, 1, 1, {0}, {1}, {2}, {2} + 30000, {2} + "
                        "3600000, 3600000, 0, 3, 0, NULL, {2} + 3600000, 'acme', '/') ON DUPLICATE KEY UPDATE id = id",
                        id, bytes(owner.nonce.view()),
                        "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000"),
            "UPDATE once_operations SET lease_until = lease_until + 1000" + mine,
            "UPDATE once_operations SET state = 1, outcome = 'old'" + mine};
  }
  std::vector<std::string> later_columns_of_once_schema() const override { return {"revision", "procedures"}; }
  // Galera rolls back transactions that are in the way of a new column.
  bool upgrades_under_load() const override { return target()->hosts.size() == 1; }
  std::string upgrades_that_wait() const override {
    return "SELECT COUNT(*) FROM information_schema.processlist WHERE state LIKE 'Waiting for table metadata lock%' "
           "AND "
           "info LIKE 'ALTER TABLE once_operations%'";
  }
  // From 200,000 rows on.
  LargeTable fill(SqlSession& session) override {
    constexpr int rows = 250'000;
    for (int made = 0; made < rows; made += 10'000) {
      EXPECT_EQ(session(fmt::format(
                    "INSERT INTO once_operations (id, state, attempt, fence, fingerprint, nonce, started_at, "
                    "lease_until, expires_at, sweep_at, ttl, outcome) SELECT UNHEX(LPAD(HEX(seq), 64, '0')), 1, 1, 1, "
                    "UNHEX(SHA2(seq, 256)), UNHEX(MD5(seq)), 1000, 1000, 9223372036854775807, 9223372036854775807, 1, "
                    "'x' FROM seq_{}_to_{}",
                    made + 1, made + 10'000)),
                "done");
    }
    session("ANALYZE TABLE once_operations");
    return {.rows = rows, .tolerance = rows / 4.0, .steps = 3};
  }

 private:
  static Result<mysql::Target> target() { return mysql::parse_target(contract::server_url()); }
  static std::unique_ptr<ServerStore> opened(const std::string& url, const ServerSettings& settings) {
    return mysql_test::opened(url, settings);
  }
};

std::unique_ptr<SqlServer> sql_server() {
  return std::make_unique<MysqlServer>();
}

}  // namespace once::sql_test
