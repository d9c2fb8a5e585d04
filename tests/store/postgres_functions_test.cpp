// What backends and workers call in PostgreSQL, together with the store that gateways use.
#include <array>
#include <atomic>
#include <thread>

#include "core/outcome.hpp"
#include "tests/store/postgres_support.hpp"

namespace once::store {
namespace postgres_functions_test {

class PostgresFunctions : public PostgresTest {
 protected:
  // once_claim() as one line: verdict|attempt|status|headers|body.
  std::string worker_claims(const std::string& arguments) {
    return sql_(
        "SELECT concat_ws('|', verdict, attempt, status, headers, convert_from(body, 'UTF8')) FROM once_claim(" +
        arguments + ")");
  }
  // Claims, and gives what once_finish() takes.
  std::string worker_claim(const std::string& arguments) {
    return sql_("SELECT claim FROM once_claim(" + arguments + ")");
  }
  std::string new_key() { return "'" + to_hex(new_nonce()) + "'"; }
  StoredResponse stored(const OperationId& id) {
    looked_up_ = run(*store_, op(Verb::lookup, id, {}));
    EXPECT_TRUE(looked_up_.record && looked_up_.record->outcome);
    const auto response = decode(*looked_up_.record->outcome);
    EXPECT_TRUE(response.has_value());
    return response.value_or(StoredResponse());
  }

  std::unique_ptr<PostgresStore> store_ = open();
  Sql sql_;
  Op looked_up_;
};

TEST_F(PostgresFunctions, effect_and_outcome_are_committed_together_and_the_gateways_finish_agrees) {
  const Started it = started(*store_);
  Sql backend;
  backend("CREATE TEMP TABLE payments (amount int)");
  backend("BEGIN; INSERT INTO payments VALUES (5); SELECT once_finish('" + it.claim() +
          "', 201, '{\"Content-Type\": \"text/plain\"}', 'paid'); COMMIT");
  EXPECT_EQ(backend("SELECT count(*) FROM payments"), "1");

  const Op finished = run(*store_, finish_op(it.id, it.nonce, "what the gateway saw"));
  EXPECT_EQ(finished.status, OpStatus::done);
  ASSERT_TRUE(finished.record.has_value());
  const auto response = decode(*finished.record->outcome);
  ASSERT_TRUE(response.has_value());
  EXPECT_EQ(response->status, 201);
  EXPECT_EQ(response->headers, "Content-Type: text/plain\r\n");
  EXPECT_EQ(response->body, "paid");
  EXPECT_GT(finished.record->expires_at, finished.now + std::chrono::minutes(59));
  EXPECT_LE(finished.record->expires_at, finished.now + std::chrono::hours(1));
  EXPECT_EQ(run(*store_, op(Verb::claim, it.id, new_nonce())).verdict, Verdict::replay);
}

constexpr std::array isolation_levels = {"READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"};

// Above READ COMMITTED a transaction cannot write to a row that anybody wrote to since it began.
TEST_F(PostgresFunctions, renewals_and_waiters_meanwhile_do_not_keep_a_backend_from_finishing_at_any_isolation_level) {
  for (const std::string level : isolation_levels) {
    SCOPED_TRACE(level);
    Sql backend;
    backend("CREATE TEMP TABLE payments (amount int)");
    const auto begin_work = [&] { backend("BEGIN ISOLATION LEVEL " + level + "; INSERT INTO payments VALUES (5)"); };
    const Started it = started(*store_);
    const std::string finish = "SELECT once_finish('" + it.claim() + "', 201)";
    begin_work();
    for (int i = 0; i < 3; ++i) {
      ASSERT_EQ(run(*store_, op(Verb::renew, it.id, it.nonce)).status, OpStatus::done);
      Op waiting = op(Verb::lookup, it.id, {});
      waiting.waits = Waits::yes;
      ASSERT_EQ(run(*store_, waiting).record->state, State::started);
      sql_("SELECT once_renew('" + it.claim() + "')");
    }
    EXPECT_EQ(backend.state(finish), "none");
    EXPECT_EQ(run(*store_, op(Verb::renew, it.id, it.nonce)).status, OpStatus::done) << "until it is committed";
    backend("COMMIT");
    EXPECT_EQ(run(*store_, op(Verb::lookup, it.id, {})).record->state, State::succeeded);
    begin_work();
    EXPECT_EQ(backend.state(finish), "ON001") << "it was done";
    backend("ROLLBACK");
    EXPECT_EQ(backend("SELECT count(*) FROM payments"), "1");
    backend("DROP TABLE payments");
  }
}

// With a gateway that does nothing but renew.
TEST_F(PostgresFunctions, a_backend_finishes_at_its_first_try_however_often_its_claim_is_renewed) {
  constexpr int operations = 30;
  sql_("CREATE TABLE effects_of_many (claim text)");
  for (const std::string level : isolation_levels) {
    SCOPED_TRACE(level);
    Sql backend;
    sql_("TRUNCATE effects_of_many");
    for (int i = 0; i < operations; ++i) {
      const Started it = started(*store_);
      std::atomic<int> renewed = 0;
      std::atomic<bool> ended = false;
      std::jthread gateway([&] {
        while (!ended) renewed += run(*store_, op(Verb::renew, it.id, it.nonce)).status == OpStatus::done ? 1 : 0;
      });
      backend("BEGIN ISOLATION LEVEL " + level + "; INSERT INTO effects_of_many VALUES ('" + it.claim() + "')");
      const int before = renewed;
      const auto until = monotonic_now() + std::chrono::minutes(1);
      while (renewed < before + 2 && monotonic_now() < until) std::this_thread::yield();
      EXPECT_GE(renewed, before + 2);
      EXPECT_EQ(backend.state("SELECT once_finish('" + it.claim() + "', 200)"), "none");
      EXPECT_EQ(backend.state("COMMIT"), "none");
      ended = true;
    }
    EXPECT_EQ(sql_("SELECT count(*), count(DISTINCT claim) FROM effects_of_many", 2), "30|30");
  }
}

TEST_F(PostgresFunctions, at_stricter_isolation_levels_a_takeover_meanwhile_takes_the_effect_back) {
  for (const std::string level : {"REPEATABLE READ", "SERIALIZABLE"}) {
    SCOPED_TRACE(level);
    Sql backend;
    backend("CREATE TEMP TABLE payments (amount int)");
    const auto begin_work = [&] { backend("BEGIN ISOLATION LEVEL " + level + "; INSERT INTO payments VALUES (5)"); };
    const Started it = started(*store_);
    begin_work();
    contract::advance_server_clock(std::chrono::seconds(31));
    ASSERT_EQ(run(*store_, op(Verb::claim, it.id, new_nonce())).verdict, Verdict::execute);
    const std::string finish = "SELECT once_finish('" + it.claim() + "', 201)";
    EXPECT_EQ(backend.state(finish), "40001");
    backend("ROLLBACK");
    begin_work();
    EXPECT_EQ(backend.state(finish), "ON001");
    backend("ROLLBACK");
    EXPECT_EQ(backend("SELECT count(*) FROM payments"), "0");
    backend("DROP TABLE payments");
  }
}

TEST_F(PostgresFunctions, a_worker_that_renewed_meanwhile_is_not_taken_over_at_any_isolation_level) {
  for (const std::string level : isolation_levels) {
    SCOPED_TRACE(level);
    const std::string key = "'', " + new_key();
    const std::string claim = worker_claim(key);
    contract::advance_server_clock(std::chrono::seconds(31));
    Sql other;
    other("BEGIN ISOLATION LEVEL " + level + "; SELECT count(*) FROM once_leases");
    sql_("SELECT once_renew('" + claim + "')");
    const std::string take = "SELECT verdict FROM once_claim(" + key + ", on_unknown => 'retry')";
    if (level == "READ COMMITTED") {
      EXPECT_EQ(other(take), "in_flight");
    } else {
      EXPECT_EQ(other.state(take), "40001");
    }
    other("ROLLBACK");
    EXPECT_EQ(other(take), "in_flight");
    EXPECT_EQ(sql_.state("SELECT once_finish('" + claim + "', 200)"), "none");
  }
}

TEST_F(PostgresFunctions, a_stale_claim_raises_and_its_effect_rolls_back) {
  const Started it = started(*store_);
  contract::advance_server_clock(std::chrono::seconds(31));
  const Nonce nonce = new_nonce();
  ASSERT_EQ(run(*store_, op(Verb::claim, it.id, nonce)).verdict, Verdict::execute);

  Sql backend;
  backend("CREATE TEMP TABLE payments (amount int)");
  EXPECT_EQ(
      backend.state("BEGIN; INSERT INTO payments VALUES (5); SELECT once_finish('" + it.claim() + "', 200); COMMIT"),
      "ON001");
  backend("ROLLBACK");
  EXPECT_EQ(backend("SELECT count(*) FROM payments"), "0");
  EXPECT_EQ(run(*store_, op(Verb::lookup, it.id, {})).record->nonce, nonce);
  for (const char* call : {"once_fail", "once_renew", "once_release"}) {
    EXPECT_EQ(backend.state(fmt::format("SELECT {}('{}')", call, it.claim())), "ON001") << call;
  }
}

TEST_F(PostgresFunctions, every_way_in_which_a_claim_is_not_current_raises) {
  const Started released = started(*store_);
  ASSERT_EQ(run(*store_, op(Verb::release, released.id, released.nonce)).status, OpStatus::done);
  const Started failed = started(*store_);
  Op failure = op(Verb::finish, failed.id, failed.nonce);
  failure.final_state = State::failed;
  ASSERT_EQ(run(*store_, failure).status, OpStatus::done);
  const Started finished = started(*store_);
  ASSERT_EQ(run(*store_, finish_op(finished.id, finished.nonce)).status, OpStatus::done);
  const Started never{new_id(), new_nonce()};
  const Started expired = started(*store_);
  for (const Started& each : {released, failed, finished, never}) {
    EXPECT_EQ(sql_.state("SELECT once_finish('" + each.claim() + "', 200)"), "ON001");
  }
  contract::advance_server_clock(std::chrono::hours(2));
  EXPECT_EQ(sql_.state("SELECT once_finish('" + expired.claim() + "', 200)"), "ON001");
  EXPECT_EQ(sql_.state("SELECT once_finish('not a claim', 200)"), "ON002");
  EXPECT_EQ(sql_.state("SELECT once_finish(NULL, 200)"), "ON002");
}

TEST_F(PostgresFunctions, a_backend_that_missed_its_commit_and_does_all_of_it_again_has_the_effect_once) {
  const Started it = started(*store_);
  sql_("CREATE TABLE effects_of_one (claim text)");
  const std::string all_of_it = "BEGIN; INSERT INTO effects_of_one VALUES ('" + it.claim() +
                                "'); SELECT once_finish('" + it.claim() + "', 200, '{\"A\": \"b\"}', 'body'); COMMIT";
  EXPECT_EQ(sql_.state(all_of_it), "none");
  EXPECT_EQ(sql_.state(all_of_it), "ON001");
  sql_("ROLLBACK");
  EXPECT_EQ(sql_("SELECT count(*) FROM effects_of_one"), "1");
  EXPECT_EQ(sql_.state("SELECT once_finish('" + it.claim() + "', 200, '{\"A\": \"b\"}', 'other')"), "ON001");
  EXPECT_EQ(sql_.state("SELECT once_fail('" + it.claim() + "')"), "ON001");
  EXPECT_EQ(stored(it.id).body, "body");
}

TEST_F(PostgresFunctions, a_lease_finer_than_a_millisecond_does_not_keep_others_from_claiming) {
  const Started it = started(*store_);
  sql_("SELECT once_renew('" + it.claim() + "', interval '10 seconds' / 3)");
  contract::advance_server_clock(std::chrono::seconds(5));
  Op claim = op(Verb::claim, it.id, new_nonce());
  claim.terms.on_unknown = OnUnknown::retry;
  EXPECT_EQ(run(*store_, claim).verdict, Verdict::execute);
}

TEST_F(PostgresFunctions, the_nonce_of_nobody_is_no_claim) {
  const Started it = started(*store_);
  ASSERT_EQ(run(*store_, op(Verb::finish, it.id, it.nonce)).status, OpStatus::done);
  sql_("UPDATE once_operations SET state = 3, nonce = decode(repeat('00', 16), 'hex') WHERE id = '\\x" + to_hex(it.id) +
       "'");
  EXPECT_EQ(sql_.state("SELECT once_finish('" + to_hex(it.id) + "." + std::string(32, '0') + "', 200)"), "ON001");
}

TEST_F(PostgresFunctions, what_the_gateway_called_unknown_may_still_be_finished_by_its_owner) {
  const Started it = started(*store_);
  Op unknown = op(Verb::finish, it.id, it.nonce);
  unknown.final_state = State::unknown;
  ASSERT_EQ(run(*store_, unknown).status, OpStatus::done);
  EXPECT_EQ(sql_.state("SELECT once_finish('" + it.claim() + "', 200)"), "none");
  EXPECT_EQ(run(*store_, op(Verb::claim, it.id, new_nonce())).verdict, Verdict::replay);
}

TEST_F(PostgresFunctions, what_sql_encodes_the_core_reads_byte_for_byte) {
  const Started it = started(*store_);
  std::string every_byte;
  for (int byte = 0; byte < 256; ++byte) every_byte.push_back(static_cast<char>(byte));
  sql_("SELECT once_finish('" + it.claim() +
       R"(', 599, '{"X-One": ["a", "b"], "X-Number": 7, "X-Long-Name": "ü: x"}', ')" + "\\x" + to_hex(every_byte) +
       "'::bytea)");
  const StoredResponse response = stored(it.id);
  EXPECT_EQ(response.status, 599);
  EXPECT_EQ(response.headers, "X-One: a\r\nX-One: b\r\nX-Number: 7\r\nX-Long-Name: ü: x\r\n");
  EXPECT_EQ(response.body, every_byte);
  EXPECT_EQ(response.reason, "");
  EXPECT_EQ(response.original_request_id, "");
  EXPECT_EQ(*looked_up_.record->outcome, encode(response));

  const Started large = started(*store_);
  sql_("SELECT once_finish('" + large.claim() + "', 200, '{}', repeat('0123456789', 100000))");
  EXPECT_EQ(stored(large.id).body.size(), 1'000'000U);

  const Started empty = started(*store_);
  sql_("SELECT once_finish('" + empty.claim() + "', 204)");
  EXPECT_EQ(stored(empty.id), StoredResponse{.status = 204});
}

TEST_F(PostgresFunctions, the_id_of_the_request_is_kept_for_replays) {
  const std::string longest(128, 'r');
  for (const auto& [given, kept] : {std::pair<std::string, std::string>{R"("req-7")", "req-7"},
                                    {R"("]a[!~")", "]a[!~"},
                                    {"\"" + longest + "\"", longest},
                                    {"\"" + longest + "r\"", ""},
                                    {R"("a b")", ""},
                                    {R"("a\\b")", ""},
                                    {R"("a\"b")", ""},
                                    {R"("a\n")", ""},
                                    {R"("ü")", ""},
                                    {R"("")", ""},
                                    {"7", ""},
                                    {R"(["one", "two"])", ""}}) {
    const Started it = started(*store_);
    sql_(fmt::format(R"(SELECT once_finish('{}', 201, '{{"x-Request-Id": {}, "ETag": "1"}}', 'body'))", it.claim(),
                     given));
    const StoredResponse response = stored(it.id);
    EXPECT_EQ(response.original_request_id, kept) << given;
    EXPECT_EQ(response.headers, "ETag: 1\r\n");
    EXPECT_EQ(response.body, "body");
  }
}

TEST_F(PostgresFunctions, what_belongs_to_one_reply_only_is_not_stored) {
  const Started it = started(*store_);
  sql_(
      "SELECT once_finish('" + it.claim() +
      R"(', 200, '{"content-length": 3, "Set-Cookie": "a=b", "Date": "x", "Transfer-Encoding": "chunked", "ETag": "1"}'))");
  EXPECT_EQ(stored(it.id).headers, "ETag: 1\r\n");
}

TEST_F(PostgresFunctions, what_http_does_not_allow_is_refused) {
  const Started it = started(*store_);
  for (const char* arguments :
       {R"(200, '{"X": "a\r\nSet-Cookie: b"}')", R"(200, '{"X": "a\nb"}')", R"(200, '{"X\n": "a"}')",
        R"(200, '{"X Y": "a"}')", R"(200, '{"": "a"}')", R"(200, '{"X": null}')", R"(200, '{"X": {"a": 1}}')",
        "200, '[]'", "200, NULL", "199", "600", "NULL"}) {
    EXPECT_EQ(sql_.state(fmt::format("SELECT once_finish('{}', {})", it.claim(), arguments)), "ON002") << arguments;
  }
  EXPECT_EQ(run(*store_, op(Verb::lookup, it.id, {})).record->state, State::started);
}

TEST_F(PostgresFunctions, a_backend_that_does_not_wait_for_its_commits_waits_for_this_one) {
  const Started it = started(*store_);
  EXPECT_EQ(sql_("BEGIN; SET LOCAL synchronous_commit = off; SELECT once_finish('" + it.claim() +
                 "', 200); SELECT current_setting('synchronous_commit')"),
            "on");
  sql_("ROLLBACK");
}

TEST_F(PostgresFunctions, fail_renew_and_release_do_what_the_gateways_verbs_do) {
  const Started failed = started(*store_);
  sql_("SELECT once_fail('" + failed.claim() + "')");
  const Nonce second = new_nonce();
  const Op again = run(*store_, op(Verb::claim, failed.id, second));
  EXPECT_EQ(again.verdict, Verdict::execute);
  EXPECT_EQ(again.record->attempt, Attempt{2});
  sql_("SELECT once_release('" + Started{failed.id, second}.claim() + "')");
  const Op before = run(*store_, op(Verb::lookup, failed.id, {}));
  EXPECT_EQ(before.record->state, State::failed);
  EXPECT_EQ(before.record->attempt, Attempt{1});

  const Started released = started(*store_);
  sql_("SELECT once_release('" + released.claim() + "')");
  EXPECT_FALSE(run(*store_, op(Verb::lookup, released.id, {})).record.has_value());

  const Started renewed = started(*store_);
  sql_("SELECT once_renew('" + renewed.claim() + "', '10 minutes')");
  contract::advance_server_clock(std::chrono::minutes(9));
  EXPECT_EQ(run(*store_, op(Verb::claim, renewed.id, new_nonce())).verdict, Verdict::in_flight);
  EXPECT_EQ(sql_.state("SELECT once_renew('" + renewed.claim() + "', '-1 s')"), "ON002");
}

TEST_F(PostgresFunctions, a_worker_claims_works_and_replays) {
  const std::string key = new_key();
  const std::string claim = worker_claim("'acme', " + key + ", 'ship 5'");
  ASSERT_EQ(claim.size(), 97U);
  EXPECT_EQ(worker_claims("'acme', " + key + ", 'ship 5'"), "in_flight|1");
  EXPECT_EQ(worker_claims("'acme', " + key + ", 'ship 6'"), "mismatch|1");
  EXPECT_EQ(worker_claims("'other', " + key + ", 'ship 6'"), "execute|1");
  sql_("SELECT once_finish('" + claim + R"(', 200, '{"A": "b", "C": ["d", "e"]}', 'shipped'))");
  EXPECT_EQ(worker_claims("'acme', " + key + ", 'ship 5'"), R"(replay|1|200|{"A": "b", "C": ["d", "e"]}|shipped)");
  EXPECT_EQ(worker_claims("'acme', " + key + ", 'ship 6'"), "mismatch|1");
  contract::advance_server_clock(std::chrono::hours(25));
  EXPECT_EQ(worker_claims("'acme', " + key + ", 'ship 6'"), "execute|1");
}

TEST_F(PostgresFunctions, a_workers_lapsed_claim_is_handled_by_the_policy_of_the_one_who_asks) {
  const std::string key = "'', " + new_key();
  const std::string claim = worker_claim(key);
  contract::advance_server_clock(std::chrono::seconds(31));
  EXPECT_EQ(worker_claims(key + ", on_unknown => 'hold'"), "held|1");
  EXPECT_EQ(worker_claims(key), "too_early|1");
  contract::advance_server_clock(std::chrono::minutes(5));
  EXPECT_EQ(worker_claims(key), "execute|2");
  EXPECT_EQ(sql_.state("SELECT once_finish('" + claim + "', 200)"), "ON001");
}

TEST_F(PostgresFunctions, a_worker_that_failed_or_released_is_followed_by_the_next_with_a_higher_fence) {
  const std::string key = "'', " + new_key();
  std::uint64_t last = 0;
  for (int i = 0; i < 8; ++i) {
    const std::string made = sql_("SELECT claim, fence, attempt FROM once_claim(" + key + ")", 3);
    const auto parts = split(made, '|');
    ASSERT_EQ(parts.size(), 3U);
    EXPECT_GT(parse_number(parts[1]).value_or(0), last);
    last = parse_number(parts[1]).value_or(0);
    EXPECT_EQ(parts[2], i < 4 ? "1" : std::to_string(i - 3));
    sql_(fmt::format("SELECT {}('{}')", i < 4 ? "once_release" : "once_fail", parts[0]));
  }
}

TEST_F(PostgresFunctions, a_worker_may_do_all_of_it_in_one_transaction) {
  const std::string key = "'', " + new_key();
  sql_("BEGIN; SELECT once_finish(claim, 200, '{}', 'x') FROM once_claim(" + key + "); ROLLBACK");
  EXPECT_EQ(worker_claims(key + ", lease => '1 s'"), "execute|1");
  EXPECT_EQ(sql_.state("SELECT once_claim('', '')"), "ON002");
  EXPECT_EQ(sql_.state("SELECT once_claim(NULL, 'x')"), "ON002");
  EXPECT_EQ(sql_.state("SELECT once_claim('', 'x', on_unknown => 'maybe')"), "ON002");
  EXPECT_EQ(sql_.state("SELECT once_claim('', 'x', lease => '0 s')"), "ON002");
}

TEST_F(PostgresFunctions, a_backend_needs_the_right_to_the_functions_and_none_to_the_tables) {
  sql_.state("CREATE ROLE backend LOGIN");
  const std::string url = contract::server_url();
  Sql backend("postgres://backend@" + url.substr(url.find('@') + 1));
  const Started it = started(*store_);
  const std::string finish = "SELECT once_finish('" + it.claim() + "', 200)";
  EXPECT_EQ(backend.state(finish), "42501");
  sql_("GRANT EXECUTE ON FUNCTION once_finish(text, integer, jsonb, text) TO backend");
  EXPECT_EQ(backend.state("SELECT * FROM once_operations"), "42501");
  // Names that a caller plants are not found.
  EXPECT_EQ(backend.state("CREATE TEMP TABLE once_operations (id bytea); CREATE FUNCTION pg_temp.once_owned(text) "
                          "RETURNS int LANGUAGE sql AS 'SELECT 1'"),
            "none");
  EXPECT_EQ(backend.state("SET search_path = pg_temp, public; " + finish), "none");
  EXPECT_EQ(run(*store_, op(Verb::lookup, it.id, {})).record->state, State::succeeded);
}

TEST_F(PostgresFunctions, people_read_the_keys_in_a_view) {
  const Started it = started(*store_);
  const std::string view = "SELECT state, attempt, expired FROM once_keys WHERE id = '" + to_hex(it.id) + "'";
  EXPECT_EQ(sql_(view, 3), "started|1|f");
  contract::advance_server_clock(std::chrono::seconds(31));
  EXPECT_EQ(sql_(view, 3), "lapsed|1|f");
  ASSERT_EQ(run(*store_, op(Verb::renew, it.id, it.nonce)).status, OpStatus::done);
  EXPECT_EQ(sql_(view, 3), "started|1|f");
  ASSERT_EQ(run(*store_, op(Verb::release, it.id, it.nonce)).status, OpStatus::done);
  EXPECT_EQ(sql_(view, 3), "released|0|t");
}

// Gateways round to the millisecond, in half of all cases up.
TEST_F(PostgresFunctions, a_key_is_expired_in_the_view_at_the_very_moment_of_its_release) {
  const Started it = started(*store_);
  ASSERT_EQ(run(*store_, op(Verb::release, it.id, it.nonce)).status, OpStatus::done);
  for (int i = 0; i < 20; ++i) {
    // One message to the server, so one moment for both statements.
    const std::string seen =
        sql_("UPDATE once_operations SET expires_at = statement_timestamp()::timestamptz(3) WHERE id = '\\x" +
             to_hex(it.id) + "'; SELECT expired FROM once_keys WHERE id = '" + to_hex(it.id) + "'");
    EXPECT_EQ(seen, "t");
  }
}

}  // namespace postgres_functions_test
}  // namespace once::store
