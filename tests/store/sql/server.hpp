// The fixture of the stories that PostgreSQL, MySQL and MariaDB share: a store in a database, and sessions beside it as
// backends, workers and operators have them. Each kind of server brings a SqlServer; its file includes the stories.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/clock.hpp"
#include "base/random.hpp"
#include "base/text.hpp"
#include "core/outcome.hpp"
#include "store/search.hpp"
#include "store/server/server_store.hpp"
#include "tests/store/held_claim.hpp"
#include "tests/store/server_under_test.hpp"
#include "tests/unit/support/layers.hpp"

namespace once::sql_test {

using contract::advance_server_clock;

// A claim of the store, and the statements about it that all servers understand.
struct Owner {
  OperationId id;
  Nonce nonce;

  // The Idempotency-Claim that a backend is sent.
  std::string claim() const { return to_hex(id) + "." + to_hex(nonce); }
};

class SqlSession {
 public:
  virtual ~SqlSession() = default;
  // One line a row, with | between columns; "done" if there is none, "error" and the SQLSTATE or number if it failed.
  virtual std::string operator()(const std::string& sql) = 0;
};

// A table whose succeeded rows are estimated.
struct LargeTable {
  double rows = 0;
  double tolerance = 0;
  int steps = 0;  // to count it
};

class SqlServer {
 public:
  virtual ~SqlServer() = default;

  virtual std::string_view name() const = 0;  // as `once schema` has it
  // In the database of the tests, whose schema is there.
  virtual std::unique_ptr<ServerStore> open(const ServerSettings& settings) = 0;
  virtual std::unique_ptr<SqlSession> connect() = 0;
  virtual std::vector<std::string> tables() const = 0;  // with operations and what belongs to them
  virtual bool has_functions() const = 0;
  virtual contract::HeldClaims held_claims() const = 0;

  // Literals and statements.
  virtual std::string bytes(std::string_view bytes) const = 0;
  virtual std::string text(std::string_view text) const = 0;
  virtual std::string seconds(std::string_view number) const = 0;
  virtual std::string call(std::string_view function, std::string_view arguments) const = 0;
  virtual std::string claim(std::string_view arguments) const = 0;  // verdict|claim|attempt|fence|status|headers|body
  virtual std::string sweep(int limit) const = 0;                   // a number
  virtual std::string insert_chunk(const Owner& owner, int number, std::string_view bytes) const = 0;
  virtual std::string extend_lease(const Owner& owner) const = 0;  // of what has expired
  virtual std::string sessions_that_wait() const = 0;              // for locks
  virtual std::size_t most_bytes_of_a_statement() = 0;

  // The answers of once_finish and its like.
  virtual std::string not_current() const = 0;
  virtual std::string not_valid() const = 0;
  virtual std::string finished_before() const = 0;
  // Whether the first session to wait for a row is the first to get it, and a release leaves the row.
  virtual bool is_in_order() const = 0;

  // Of the schema. A URL is that of a new database.
  virtual std::uint64_t revision() const = 0;
  virtual std::string new_database(const std::string& name) = 0;
  virtual std::unique_ptr<SqlSession> connect_to(const std::string& url) = 0;
  virtual Result<std::unique_ptr<ServerStore>> open_at(const std::string& url) = 0;
  virtual Result<std::string> apply(const std::string& url) = 0;
  virtual void make_previous_schema(const std::string& url) = 0;
  // The statements of a gateway of the revision before that claims, renews, and records the outcome `old`.
  virtual std::vector<std::string> previous_gateway(const Owner& owner) const = 0;
  virtual std::vector<std::string> later_columns_of_once_schema() const = 0;  // than those of revision 1
  virtual bool upgrades_under_load() const = 0;
  virtual std::string upgrades_that_wait() const = 0;  // their number
  virtual LargeTable fill(SqlSession& session) = 0;
};

// Each kind of server defines this.
std::unique_ptr<SqlServer> sql_server();

// A test begins with empty tables.
class SqlTest : public testing::Test {
 protected:
  SqlTest() {
    for (const std::string& table : server_->tables()) EXPECT_EQ(ask("DELETE FROM " + table), "done");
  }

  std::string ask(const std::string& sql) { return (*session_)(sql); }
  std::unique_ptr<SqlSession> connect() { return server_->connect(); }
  std::string number_of(const std::string& rows) { return ask("SELECT COUNT(*) FROM " + rows); }
  std::string where(const Owner& owner) const { return " WHERE id = " + server_->bytes(owner.id.view()); }
  std::string row(const Owner& owner) const { return "once_operations" + where(owner); }
  std::string rows_of_chunks(const Owner& owner) { return number_of("once_chunks" + where(owner)); }
  std::string call(std::string_view function, const Owner& owner, const std::string& more = "") const {
    return server_->call(function, fmt::format("'{}'{}", owner.claim(), more));
  }
  // Until this many sessions wait for a lock.
  void wait_for_waiters(std::string_view count) {
    const auto until = monotonic_now() + std::chrono::seconds(20);
    while (ask(server_->sessions_that_wait()) != count) ASSERT_LT(monotonic_now(), until);
  }

  Owner new_owner() {
    Owner owner;
    random_.fill(owner.id.bytes);
    owner.nonce = random_.nonce();
    return owner;
  }
  Owner other_owner(const Owner& owner) { return {owner.id, random_.nonce()}; }
  static Op op_of(Verb verb, const Owner& owner) {
    return {.verb = verb,
            .id = owner.id,
            .nonce = owner.nonce,
            .terms = {.on_unknown = OnUnknown::retry, .lease = std::chrono::seconds(30), .ttl = std::chrono::hours(24)},
            .tenant = "acme",
            .route = "payments"};
  }
  static Op finish_op(const Owner& owner, std::string outcome = "outcome") {
    Op op = op_of(Verb::finish, owner);
    op.outcome = std::make_shared<const std::string>(std::move(outcome));
    return op;
  }
  static Op finish_op(const Owner& owner, State state) {
    Op op = finish_op(owner);
    op.final_state = state;
    return op;
  }
  // An end that leaves the body in its chunks.
  static Op keep_op(const Owner& owner) {
    Op op = finish_op(owner);
    op.body_kept = BodyKept::in_chunks;
    return op;
  }
  static Op append_op(const Owner& owner, std::uint32_t number, std::string bytes) {
    Op op = op_of(Verb::append, owner);
    op.chunk = number;
    op.outcome = std::make_shared<const std::string>(std::move(bytes));
    return op;
  }

  Op run(Op op) { return run_on(*store_, std::move(op)); }
  static Op run_on(Store& store, Op op) {
    Op* const batch = &op;
    store.execute({&batch, 1});
    return op;
  }
  static void run_all(Store& store, std::vector<Op>& ops) {
    std::vector<Op*> batch;
    for (Op& op : ops) batch.push_back(&op);
    store.execute(batch);
  }
  // Of which nothing else is looked at.
  void done(const Op& op) {
    const Op ended = run(op);
    EXPECT_EQ(ended.status, OpStatus::done) << ended.error;
  }
  Owner claimed(Duration tombstone = {}) {
    const Owner owner = new_owner();
    Op claim = op_of(Verb::claim, owner);
    claim.terms.tombstone = tombstone;
    const Op op = run(claim);
    EXPECT_EQ(op.verdict, Verdict::execute) << op.error;
    return owner;
  }
  // Claimed, with this many chunks.
  Owner streaming(std::uint32_t count) {
    const Owner owner = claimed();
    for (std::uint32_t i = 0; i < count; ++i) done(append_op(owner, i, std::to_string(i)));
    return owner;
  }
  Owner finished(Duration tombstone = {}) {
    const Owner owner = claimed(tombstone);
    done(finish_op(owner));
    return owner;
  }
  Op lookup(const Owner& owner) { return run(op_of(Verb::lookup, {owner.id, Nonce()})); }
  // A claim by somebody else on the same operation.
  Op claim_again(const Owner& owner) { return run(op_of(Verb::claim, other_owner(owner))); }
  OpStatus append(const Owner& owner, std::uint32_t number, std::string bytes) {
    const Op op = run(append_op(owner, number, std::move(bytes)));
    EXPECT_EQ(op.error, "");
    return op.status;
  }
  // Views of the record that was seen last.
  StoredResponse stored(const Owner& owner) {
    seen_ = lookup(owner);
    EXPECT_TRUE(seen_.record && seen_.record->outcome);
    if (!seen_.record || !seen_.record->outcome) return {};
    const auto response = decode(*seen_.record->outcome);
    EXPECT_TRUE(response.has_value());
    if (response) EXPECT_EQ(*seen_.record->outcome, encode(*response)) << "as the gateway encodes it";
    return response.value_or(StoredResponse());
  }
  static Op read_op(const Owner& owner) {
    Op op = op_of(Verb::read, {owner.id, Nonce()});
    op.chunk_bytes = 1U << 20U;
    return op;
  }
  // All that a reader gets, with spaces between.
  std::string chunks(const Owner& owner) { return chunks_at(store(), owner); }
  static std::string chunks_at(Store& store, const Owner& owner) {
    std::string text;
    for (const OutcomeBytes& chunk : run_on(store, read_op(owner)).chunks) text += (text.empty() ? "" : " ") + *chunk;
    return text;
  }

  SqlServer& server() { return *server_; }
  ServerStore& store() { return *store_; }

 private:
  std::unique_ptr<SqlServer> server_ = sql_server();
  std::unique_ptr<ServerStore> store_ = server_->open({});
  std::unique_ptr<SqlSession> session_ = server_->connect();
  SystemRandom random_;
  Op seen_;
};

}  // namespace once::sql_test
