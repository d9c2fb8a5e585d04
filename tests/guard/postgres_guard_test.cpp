// The library on PostgreSQL: owners in several processes, and work that records its outcome in its own transaction.
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <once/guard.hpp>

#include "guard/operation.hpp"
#include "tests/store/postgres_support.hpp"
#include "tests/unit/support/eventually.hpp"

namespace once::guard::postgres_guard_test {

using namespace std::chrono_literals;

class PostgresGuard : public testing::Test {
 protected:
  PostgresGuard() {
    apply_schema_at(contract::server_url());
    Sql()("CREATE TABLE IF NOT EXISTS guard_effects (key text)");
    request_ = {.tenant = "acme", .scope = "copy", .key = to_hex(random_.nonce())};
  }
  static Guard open() {
    auto opened = Guard::open({.store = contract::server_url(), .secret = "0123456789abcdef", .logging = Logging::off});
    if (!opened) throw std::runtime_error(opened.error().detail);
    return std::move(*opened);
  }
  std::string effects() { return Sql()("SELECT count(*) FROM guard_effects WHERE key = '" + request_.key + "'"); }
  std::string effect() { return "INSERT INTO guard_effects VALUES ('" + request_.key + "')"; }
  static std::string finish(const std::string& handle, const std::string& value) {
    return "SELECT once_finish('" + handle + "', 201, '{\"Content-Type\": \"application/json\"}', '" + value + "')";
  }

  SystemRandom random_;
  Request request_;
};

TEST_F(PostgresGuard, work_is_told_that_it_has_lost) {
  Guard stale = open();
  request_.lease = 300ms;
  request_.on_unknown = OnUnknown::retry;
  const auto lost = stale.run(request_, [&](const Running& running) {
    // Renewals go on, so it takes a claim that this one did not know of: by hand, as a clock that jumps would.
    Sql()("UPDATE once_operations SET nonce = '\\x00' WHERE id = '\\x" + running.handle().substr(0, 64) + "'");
    EXPECT_TRUE(eventually([&] { return running.lost(); }));
    return std::string("mine");
  });
  EXPECT_EQ(lost.reason, Reason::lost);
}

TEST_F(PostgresGuard, a_waiter_in_another_process_is_told) {
  Guard one = open();
  Guard two = open();
  request_.wait = 30s;
  std::thread waiter;
  std::ignore = one.run(request_, [&] {
    waiter = std::thread([&] {
      const auto told = two.run(request_, [] { return std::string("two"); });
      EXPECT_EQ(told.value, "one");
    });
    // The store notes that somebody waits.
    Sql().wait_for("EXISTS (SELECT FROM once_leases WHERE waited)");
    return std::string("one");
  });
  waiter.join();
}

// Every step of a transaction, and the connection killed after it.
TEST_F(PostgresGuard, effect_and_outcome_are_there_together_or_neither_is) {
  const std::vector<std::string> steps = {"", "BEGIN", "effect", "finish", "COMMIT"};
  for (std::size_t killed_after = 0; killed_after < steps.size(); ++killed_after) {
    SCOPED_TRACE(killed_after == 0 ? "before anything" : steps[killed_after]);
    request_.key = to_hex(random_.nonce());
    Guard guard = open();
    auto claimed = guard.claim(request_);
    ASSERT_TRUE(claimed.claim.has_value());
    Sql worker;
    const std::string process = worker("SELECT pg_backend_pid()::text");
    for (std::size_t step = 1; step <= killed_after; ++step) {
      const bool is_effect = steps[step] == "effect";
      const bool is_finish = steps[step] == "finish";
      worker(is_effect ? effect() : is_finish ? finish(claimed.claim->handle(), "{\"n\": 1}") : steps[step]);
    }
    Sql operators;
    operators("SELECT pg_terminate_backend(" + process + ")::text");
    operators.wait_for("NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = " + process + ")");
    EXPECT_NE(worker.state("COMMIT"), "none");

    const auto recorded = claimed.claim->recorded();
    const bool committed = killed_after + 1 == steps.size();
    EXPECT_EQ(effects(), committed ? "1" : "0");
    EXPECT_EQ(recorded.succeeded(), committed);
    if (!recorded.succeeded()) EXPECT_TRUE(claimed.claim->fail().done());

    // A retry finds both, or does both.
    const auto again = guard.run(request_, [&](const Running& running) {
      Sql()("BEGIN; " + effect() + "; " + finish(running.handle(), "{\"n\": 2}") + "; COMMIT");
      return Json{"what was not committed"};
    });
    ASSERT_TRUE(again.succeeded());
    EXPECT_EQ(again.value->text, committed ? "{\"n\": 1}" : "{\"n\": 2}");
    EXPECT_EQ(again.code, 201);
    EXPECT_EQ(again.cached(), committed);
    EXPECT_EQ(effects(), "1");
  }
}

TEST_F(PostgresGuard, work_that_throws_after_its_commit_has_succeeded) {
  Guard guard = open();
  const auto outcome = guard.run(request_, [&](const Running& running) -> Json {
    Sql()("BEGIN; " + effect() + "; " + finish(running.handle(), "{}") + "; COMMIT");
    throw std::runtime_error("the connection was lost, just then");
  });
  ASSERT_TRUE(outcome.succeeded());
  EXPECT_EQ(outcome.value->text, "{}");
  EXPECT_EQ(outcome.source, Source::fresh);
}

TEST_F(PostgresGuard, a_stale_claims_transaction_is_refused) {
  Guard guard = open();
  auto stale = guard.claim(request_);
  contract::advance_server_clock(6min);
  ASSERT_EQ(guard.run(request_, [] { return std::string("theirs"); }).value, "theirs");
  Sql worker;
  EXPECT_EQ(worker.state("BEGIN; " + effect() + "; " + finish(stale.claim->handle(), "{}") + "; COMMIT"), "ON001");
  worker("ROLLBACK");
  EXPECT_EQ(effects(), "0");
  EXPECT_EQ(stale.claim->recorded().reason, Reason::lost);
}

TEST_F(PostgresGuard, a_server_that_is_not_there_is_said_and_nothing_is_done) {
  OwnDatabase database;
  ASSERT_TRUE(postgres::apply_schema(database.url(), ServerSettings()).has_value());
  auto guard = Guard::open({.store = database.url(), .secret = "0123456789abcdef", .logging = Logging::off});
  ASSERT_TRUE(guard.has_value());
  Sql()("DROP DATABASE " + database.name() + " WITH (FORCE)");
  const auto outcome = guard->run(request_, []() -> std::string { throw std::logic_error("called"); });
  EXPECT_EQ(outcome.reason, Reason::store_unavailable);
  EXPECT_FALSE(outcome.detail.empty());
}

}  // namespace once::guard::postgres_guard_test
