// For the tests of what MySQL alone has: a store, and a second connection beside it.
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
#include "base/random.hpp"
#include "core/outcome.hpp"
#include "store/mysql/mysql_store.hpp"
#include "store/mysql/schema.hpp"
#include "tests/store/server_under_test.hpp"
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

class MysqlTest : public testing::Test {
 protected:
  MysqlTest() {
    const auto applied = mysql::apply_schema(contract::server_url(), ServerSettings());
    EXPECT_TRUE(applied.has_value()) << applied.error().detail;
    store_ = open_store();
    other_ = std::make_unique<Session>();
  }

  static std::unique_ptr<MysqlStore> open_store(std::size_t connections = 4) {
    ServerSettings settings;
    settings.connections = connections;
    return opened(contract::server_url(), settings);
  }
  static std::unique_ptr<MysqlStore> opened(const std::string& url, const ServerSettings& settings = ServerSettings()) {
    auto store = MysqlStore::open(url, settings, quiet_log());
    if (!store) throw std::runtime_error(store.error().detail);
    return std::move(*store);
  }

  struct Owner {
    OperationId id;
    Nonce nonce;
    std::string claim() const { return fmt::format("{}.{}", to_hex(id), to_hex(nonce)); }
    std::string where() const { return fmt::format("WHERE id = 0x{}", to_hex(id)); }
  };
  Owner new_owner() {
    Owner owner;
    random_.fill(owner.id.bytes);
    owner.nonce = random_.nonce();
    return owner;
  }
  static Op op_of(Verb verb, const Owner& owner) {
    const ClaimTerms terms{.on_unknown = OnUnknown::retry, .lease = std::chrono::seconds(30)};
    return {.verb = verb, .id = owner.id, .nonce = owner.nonce, .terms = terms, .tenant = "acme", .route = "payments"};
  }
  static Op finish_op(const Owner& owner, std::string outcome = "outcome") {
    Op op = op_of(Verb::finish, owner);
    op.outcome = std::make_shared<const std::string>(std::move(outcome));
    return op;
  }
  Op run(Op op) { return run_on(*store_, std::move(op)); }
  static Op run_on(Store& store, Op op) {
    Op* const batch = &op;
    store.execute({&batch, 1});
    return op;
  }
  Owner claimed() {
    const Owner owner = new_owner();
    const Op op = run(op_of(Verb::claim, owner));
    EXPECT_EQ(op.status, OpStatus::done) << op.error;
    EXPECT_EQ(op.verdict, Verdict::execute);
    return owner;
  }
  static Op in_chunks(Op finish) {
    finish.body_kept = BodyKept::in_chunks;
    return finish;
  }
  static Op append_op(const Owner& owner, std::uint32_t number, std::string bytes) {
    Op op = op_of(Verb::append, owner);
    op.chunk = number;
    op.outcome = std::make_shared<const std::string>(std::move(bytes));
    return op;
  }
  static Op read_op(const Owner& owner) {
    Op op = op_of(Verb::read, {owner.id, Nonce()});
    op.chunk_bytes = 1U << 20U;
    return op;
  }
  OpStatus append(const Owner& owner, std::uint32_t number, std::string bytes) {
    const Op op = run(append_op(owner, number, std::move(bytes)));
    EXPECT_EQ(op.error, "");
    return op.status;
  }
  // All that a reader gets, with spaces between.
  std::string chunks(const Owner& owner) {
    std::string text;
    for (const OutcomeBytes& chunk : run(read_op(owner)).chunks) text += (text.empty() ? "" : " ") + *chunk;
    return text;
  }
  // Claimed, with this many chunks.
  Owner streaming(std::uint32_t count) {
    const Owner owner = claimed();
    for (std::uint32_t i = 0; i < count; ++i) EXPECT_EQ(append(owner, i, std::to_string(i)), OpStatus::done);
    return owner;
  }
  Op lookup(const Owner& owner) { return run(op_of(Verb::lookup, owner)); }
  // A claim by somebody else on the same operation.
  Op claim_again(const Owner& owner) { return run(op_of(Verb::claim, {owner.id, random_.nonce()})); }

  Session& other() { return *other_; }
  MysqlStore& store() { return *store_; }

 private:
  SystemRandom random_;
  std::unique_ptr<MysqlStore> store_;
  std::unique_ptr<Session> other_;
};

}  // namespace once::mysql_test
