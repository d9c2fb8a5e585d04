// For the tests of what MySQL alone has.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/log.hpp"
#include "core/outcome.hpp"
#include "store/mysql/mysql_store.hpp"
#include "store/mysql/schema.hpp"
#include "tests/store/server_under_test.hpp"
#include "tests/store/sql/server.hpp"
#include "tests/unit/support/layers.hpp"

namespace once::mysql_test {

inline const Log& quiet_log() {
  static const SystemClock clock;
  static const Log log(clock, STDERR_FILENO, LogLevel::error, LogFormat::text);
  return log;
}

// The server's URL with another database, or another user. Its options stay.
inline std::string url_of(std::string_view database, std::string_view user_and_password = "once:once") {
  const std::string url = contract::server_url();
  const std::size_t host = url.find('@');
  const std::size_t slash = url.rfind('/');
  const std::size_t options = std::min(url.find('?'), url.size());
  return fmt::format("mysql://{}{}/{}{}", user_and_password, url.substr(host, slash - host), database,
                     url.substr(options));
}

using Cells = std::vector<std::optional<std::string>>;

// Once for all tests: most of them have nothing to do with it.
inline void apply_the_schema() {
  static const auto applied = mysql::apply_schema(contract::server_url(), ServerSettings());
  if (!applied) throw std::runtime_error(applied.error().detail);
}

// A connection as a backend has it.
class Session {
 public:
  explicit Session(const std::string& url = contract::server_url()) {
    const auto target = mysql::parse_target(url);
    EXPECT_TRUE(target.has_value());
    auto connection = mysql::Connection::open(*target, target->hosts.front(), ServerSettings());
    if (!connection) throw std::runtime_error(connection.error().detail);
    connection_ = std::move(*connection);
  }

  // The number of the error, or 0.
  unsigned run(const std::string& text) {
    rows_.clear();
    const auto take = [this](std::size_t, const mysql::RowView& row) {
      Cells cells;
      for (std::size_t i = 0; i < row.size(); ++i) {
        const auto value = row[i];
        cells.push_back(value ? std::optional<std::string>(*value) : std::nullopt);
      }
      rows_.push_back(std::move(cells));
    };
    const auto ran = connection_->run(text, take, 0);
    return ran ? 0 : ran.error().number;
  }
  std::string value(const std::string& query) {
    EXPECT_EQ(run(query), 0U) << query;
    return rows_.empty() ? "no row" : rows_.front().front().value_or("null");
  }
  const std::vector<Cells>& rows() const { return rows_; }

 private:
  std::unique_ptr<mysql::Connection> connection_;
  std::vector<Cells> rows_;
};

inline std::unique_ptr<MysqlStore> opened(const std::string& url, const ServerSettings& settings = ServerSettings()) {
  auto store = MysqlStore::open(url, settings, quiet_log());
  if (!store) throw std::runtime_error(store.error().detail);
  return std::move(*store);
}

// A store, and a session beside it.
class MysqlTest : public sql_test::SqlTest {
 protected:
  using Owner = sql_test::Owner;

  static std::unique_ptr<MysqlStore> open_store(std::size_t connections = 4) {
    return opened(contract::server_url(), {.connections = connections});
  }
  Session& other() { return other_; }

 private:
  Session other_;
};

}  // namespace once::mysql_test
