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
#include "tests/unit/support/layers.hpp"

namespace once::store {

inline const Log& quiet_log() {
  static const SystemClock clock;
  static const Log log(clock, STDERR_FILENO, LogLevel::off, LogFormat::text);
  return log;
}

// A connection that is not the store's.
class Sql {
 public:
  explicit Sql(const std::string& url = contract::server_url()) {
    auto opened = postgres::Connection::open(url, ServerSettings(), postgres::Connection::Use::plain);
    if (!opened) throw std::runtime_error(opened.error().detail);
    connection_ = std::move(*opened);
  }

  // Rows with | between columns, one a line; throws what the server refuses.
  std::string operator()(const std::string& sql, int columns = 1) {
    const auto rows = connection_->query(sql, {.until = monotonic_now() + std::chrono::minutes(1)});
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
    const auto rows = connection_->query(sql, {.until = monotonic_now() + std::chrono::minutes(1)});
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

// A store on the server of the tests, and operations on it.
class PostgresTest : public testing::Test {
 protected:
  PostgresTest() { EXPECT_TRUE(postgres::apply_schema(contract::server_url(), ServerSettings()).has_value()); }

  static std::unique_ptr<PostgresStore> open(const ServerSettings& settings = ServerSettings(),
                                             const std::string& url = contract::server_url()) {
    auto opened = PostgresStore::open(url, settings, quiet_log());
    if (!opened) throw std::runtime_error(opened.error().detail);
    return std::move(*opened);
  }

  OperationId new_id() {
    OperationId id;
    random_.fill(id.bytes);
    return id;
  }
  Nonce new_nonce() { return random_.nonce(); }

  static Op op(Verb verb, const OperationId& id, const Nonce& nonce) {
    return {.verb = verb,
            .id = id,
            .nonce = nonce,
            .fingerprint = {{1}},
            .terms = {.on_unknown = OnUnknown::retry, .lease = std::chrono::seconds(30), .ttl = std::chrono::hours(1)}};
  }
  static Op finish_op(const OperationId& id, const Nonce& nonce, std::string value = "outcome") {
    Op it = op(Verb::finish, id, nonce);
    it.outcome = std::make_shared<const std::string>(std::move(value));
    return it;
  }
  static Op in_chunks(Op finish) {
    finish.body_kept = BodyKept::in_chunks;
    return finish;
  }
  static Op append_op(const OperationId& id, const Nonce& nonce, std::uint32_t number, std::string bytes) {
    Op it = op(Verb::append, id, nonce);
    it.chunk = number;
    it.outcome = std::make_shared<const std::string>(std::move(bytes));
    return it;
  }
  static Op run(Store& store, Op it) {
    Op* const batch = &it;
    store.execute({&batch, 1});
    return it;
  }
  static void run_all(Store& store, std::vector<Op>& ops) {
    std::vector<Op*> batch;
    batch.reserve(ops.size());
    for (Op& each : ops) batch.push_back(&each);
    store.execute(batch);
  }

  // Claimed and not ended.
  struct Started {
    OperationId id;
    Nonce nonce;

    // The Idempotency-Claim that a backend is sent.
    std::string claim() const { return to_hex(id) + "." + to_hex(nonce); }
    std::string row() const { return fmt::format("once_operations WHERE id = '\\x{}'", to_hex(id)); }
  };
  Started started(Store& store) {
    Started it{new_id(), new_nonce()};
    const Op claimed = run(store, op(Verb::claim, it.id, it.nonce));
    EXPECT_EQ(claimed.status, OpStatus::done) << claimed.error;
    EXPECT_EQ(claimed.verdict, Verdict::execute);
    return it;
  }

  static OpStatus append(Store& store, const Started& it, std::uint32_t number, std::string bytes) {
    const Op appended = run(store, append_op(it.id, it.nonce, number, std::move(bytes)));
    EXPECT_EQ(appended.error, "");
    return appended.status;
  }
  // All that a reader gets, with spaces between.
  static std::string chunks(Store& store, const Started& it) {
    Op read = op(Verb::read, it.id, {});
    read.chunk_bytes = 1U << 20U;
    std::string text;
    for (const OutcomeBytes& chunk : run(store, read).chunks) text += (text.empty() ? "" : " ") + *chunk;
    return text;
  }

 private:
  SystemRandom random_;
};

}  // namespace once::store
