// For the tests of the PostgreSQL store: the server beside the store, as an operator or a backend uses it.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/random.hpp"
#include "base/text.hpp"
#include "store/postgres/connection.hpp"
#include "store/postgres/postgres_store.hpp"
#include "store/postgres/schema.hpp"
#include "tests/store/server_under_test.hpp"
#include "tests/store/sql/server.hpp"
#include "tests/unit/support/layers.hpp"

namespace once::store {

inline const Log& quiet_log() {
  static const SystemClock clock;
  static const Log log(clock, STDERR_FILENO, LogLevel::off, LogFormat::text);
  return log;
}

// Once for all tests: most of them have nothing to do with it.
inline void apply_schema_at(const std::string& url) {
  static const auto applied = postgres::apply_schema(url, ServerSettings());
  if (!applied) throw std::runtime_error(applied.error().detail);
}

// A connection that is not the store's.
class Sql {
 public:
  explicit Sql(const std::string& url = contract::server_url()) {
    auto opened = postgres::Connection::open(url, ServerSettings(), postgres::Connection::Use::plain);
    if (!opened) throw std::runtime_error(opened.error().detail);
    connection_ = std::move(*opened);
  }

  std::expected<postgres::Rows, postgres::Fault> try_to(const std::string& sql) {
    return connection_->query(sql, {.until = monotonic_now() + std::chrono::minutes(1)});
  }
  // Rows with | between columns, one a line; throws what the server refuses.
  std::string operator()(const std::string& sql, int columns = 1) {
    const auto rows = try_to(sql);
    if (!rows) throw std::runtime_error(text_of(rows.error()));
    std::string text;
    for (std::size_t row = 0; row < rows->size(); ++row) {
      if (row > 0) text += '\n';
      for (int column = 0; column < columns; ++column) {
        if (column > 0) text += '|';
        text += rows->bytes(row, column);
      }
    }
    return text;
  }
  // Of what must fail: its SQLSTATE, or "none".
  std::string state(const std::string& sql) {
    const auto rows = try_to(sql);
    return rows ? "none" : rows.error().sqlstate;
  }
  // Until the query answers "t".
  void wait_for(const std::string& condition) {
    const auto until = monotonic_now() + std::chrono::seconds(20);
    while ((*this)("SELECT " + condition + " FROM pg_sleep(0.01)") != "t") {
      if (monotonic_now() > until) throw std::runtime_error("waited for " + condition);
    }
  }

 private:
  std::unique_ptr<postgres::Connection> connection_;
};

// In a database of its own, gone with it.
class OwnDatabase {
 public:
  OwnDatabase() : name_(fmt::format("own_{}", to_hex(random_.nonce()))) { Sql()("CREATE DATABASE " + name_); }
  ~OwnDatabase() { Sql().state("DROP DATABASE " + name_ + " WITH (FORCE)"); }
  OwnDatabase(const OwnDatabase&) = delete;
  OwnDatabase& operator=(const OwnDatabase&) = delete;

  std::string url() const {
    const std::string url = contract::server_url();
    return url.substr(0, url.rfind('/') + 1) + name_;
  }
  const std::string& name() const { return name_; }

 private:
  SystemRandom random_;
  std::string name_;
};

class PostgresTest : public sql_test::SqlTest {
 protected:
  using Owner = sql_test::Owner;

  static std::unique_ptr<PostgresStore> open(const ServerSettings& settings = ServerSettings(),
                                             const std::string& url = contract::server_url()) {
    auto opened = PostgresStore::open(url, settings, quiet_log());
    if (!opened) throw std::runtime_error(opened.error().detail);
    return std::move(*opened);
  }
  Owner claimed_on(Store& store) {
    const Owner owner = new_owner();
    const Op op = run_on(store, op_of(Verb::claim, owner));
    EXPECT_EQ(op.verdict, Verdict::execute) << op.error;
    return owner;
  }
};

}  // namespace once::store
