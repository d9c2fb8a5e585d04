// What a backend calls inside its own transaction: the effect and the outcome are committed together, or neither is.
#include "tests/store/mysql_fixture.hpp"

namespace once::mysql_test {
namespace mysql_procedures_test {

constexpr unsigned not_current = 31001;
constexpr unsigned not_valid = 31002;
constexpr unsigned finished_before = 31003;

class MysqlProceduresTest : public MysqlTest {
 protected:
  MysqlProceduresTest() {
    EXPECT_EQ(other().run("CREATE TABLE IF NOT EXISTS ledger (claim VARCHAR(100), amount INT, n INT AUTO_INCREMENT "
                          "PRIMARY KEY)"),
              0U);
  }
  // The work of a backend: one row for each time that it was done.
  static std::string work(const Owner& owner) {
    return fmt::format("INSERT INTO ledger (claim, amount) VALUES ('{}', 100)", owner.claim());
  }
  std::string times_done(const Owner& owner) {
    return other().value(fmt::format("SELECT COUNT(*) FROM ledger WHERE claim = '{}'", owner.claim()));
  }
  static std::string finish(const Owner& owner, std::string_view body = "paid",
                            std::string_view headers = R"({"Content-Type": "text/plain"})") {
    return fmt::format("CALL once_finish('{}', 201, '{}', '{}')", owner.claim(), headers, body);
  }
  static Op taken_over(MysqlStore& store, const Owner& by) { return run_on(store, op_of(Verb::claim, by)); }
};

// The gateway writes the row of the claim while the backend's transaction is under way.
TEST_F(MysqlProceduresTest, a_renewal_meanwhile_does_not_keep_a_backend_from_finishing_at_any_isolation_level) {
  const bool has_snapshots = other().run("SELECT @@innodb_snapshot_isolation") == 0;
  for (const std::string_view level : {"READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"}) {
    for (const bool snapshots : {false, true}) {
      if (snapshots && !has_snapshots) continue;
      SCOPED_TRACE(fmt::format("{} {}", level, snapshots));
      Session backend;
      ASSERT_EQ(backend.run(fmt::format("SET SESSION TRANSACTION ISOLATION LEVEL {}", level)), 0U);
      if (snapshots) ASSERT_EQ(backend.run("SET SESSION innodb_snapshot_isolation = ON"), 0U);
      const auto begin_work = [&](const Owner& owner) {
        ASSERT_EQ(backend.run("BEGIN"), 0U);
        backend.value("SELECT COUNT(*) FROM ledger WHERE n = 0");
        ASSERT_EQ(backend.run(work(owner)), 0U);
      };
      const Owner owner = claimed();
      begin_work(owner);
      ASSERT_EQ(run(op_of(Verb::renew, owner)).status, OpStatus::done);
      EXPECT_EQ(backend.run(finish(owner)), 0U);
      ASSERT_EQ(backend.run("COMMIT"), 0U);
      EXPECT_EQ(times_done(owner), "1");
      EXPECT_EQ(lookup(owner).record->state, State::succeeded);

      const Owner slow = claimed();
      begin_work(slow);
      contract::advance_server_clock(std::chrono::minutes(1));
      ASSERT_EQ(claim_again(slow).verdict, Verdict::execute) << "another attempt";
      EXPECT_EQ(backend.run(finish(slow)), not_current);
      ASSERT_EQ(backend.run("COMMIT"), 0U);
      EXPECT_EQ(times_done(slow), "0");
      if (snapshots) EXPECT_EQ(backend.value("SELECT @@innodb_snapshot_isolation"), "1") << "as the backend had it";
    }
  }
}

TEST_F(MysqlProceduresTest, the_effect_and_the_outcome_are_committed_together) {
  const Owner owner = claimed();
  ASSERT_EQ(other().run("BEGIN"), 0U);
  ASSERT_EQ(other().run(work(owner)), 0U);
  ASSERT_EQ(other().run(finish(owner)), 0U);
  EXPECT_EQ(lookup(owner).record->state, State::started) << "not before the commit";
  ASSERT_EQ(other().run("COMMIT"), 0U);
  EXPECT_EQ(times_done(owner), "1");

  const Op replayed = claim_again(owner);
  ASSERT_EQ(replayed.verdict, Verdict::replay);
  const auto response = decode(*replayed.record->outcome);
  ASSERT_TRUE(response.has_value());
  EXPECT_EQ(*response, (StoredResponse{.status = 201, .headers = "Content-Type: text/plain\r\n", .body = "paid"}));

  // The gateway, which saw the backend's response, says the same and is told what stands.
  const Op gateway = run(finish_op(owner, "what the gateway saw"));
  ASSERT_EQ(gateway.status, OpStatus::done);
  EXPECT_EQ(*gateway.record->outcome, *replayed.record->outcome);
  EXPECT_EQ(gateway.record->expires_at, replayed.record->expires_at);
  EXPECT_EQ(gateway.record->expires_at - replayed.record->started_at >= std::chrono::hours(24), true);
}

TEST_F(MysqlProceduresTest, a_rollback_undoes_both) {
  const Owner owner = claimed();
  ASSERT_EQ(other().run("BEGIN; " + work(owner)), 0U);
  ASSERT_EQ(other().run(finish(owner)), 0U);
  ASSERT_EQ(other().run("ROLLBACK"), 0U);
  EXPECT_EQ(times_done(owner), "0");
  EXPECT_EQ(lookup(owner).record->state, State::started);
}

TEST_F(MysqlProceduresTest, a_stale_claim_takes_its_work_back_also_from_a_caller_that_ignores_errors) {
  const Owner stale = claimed();
  Op unknown = finish_op(stale);
  unknown.final_state = State::unknown;
  ASSERT_EQ(run(unknown).status, OpStatus::done);
  const Owner owner{stale.id, new_owner().nonce};
  // Read before, so that a snapshot would still show the stale one as the owner.
  ASSERT_EQ(other().run("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ; BEGIN; SELECT COUNT(*) FROM "
                        "once_operations"),
            0U);
  ASSERT_EQ(run(op_of(Verb::claim, owner)).verdict, Verdict::execute);

  ASSERT_EQ(other().run(work(stale)), 0U);
  EXPECT_EQ(other().run(finish(stale)), not_current);
  EXPECT_EQ(other().run("COMMIT"), 0U);
  EXPECT_EQ(times_done(stale), "0");
  const Op found = lookup(owner);
  EXPECT_EQ(found.record->state, State::started);
  EXPECT_EQ(found.record->nonce, owner.nonce);
}

TEST_F(MysqlProceduresTest, every_procedure_refuses_a_claim_that_is_not_current) {
  for (const Owner& owner : {new_owner(), Owner{claimed().id, new_owner().nonce}}) {
    for (const std::string& call : {finish(owner), fmt::format("CALL once_fail('{}')", owner.claim()),
                                    fmt::format("CALL once_renew('{}', 30)", owner.claim()),
                                    fmt::format("CALL once_release('{}')", owner.claim())}) {
      ASSERT_EQ(other().run("BEGIN; " + work(owner)), 0U);
      EXPECT_EQ(other().run(call), not_current) << call;
      ASSERT_EQ(other().run("COMMIT"), 0U);
      EXPECT_EQ(times_done(owner), "0") << call;
    }
  }
}

// Whoever did the work again, after a commit whose answer was lost, must not commit it again.
TEST_F(MysqlProceduresTest, work_done_again_under_the_same_claim_is_taken_back) {
  const Owner owner = claimed();
  ASSERT_EQ(other().run("BEGIN; " + work(owner) + ";" + finish(owner) + "; COMMIT"), 0U);
  for (const std::string_view body : {"paid", "paid twice"}) {
    ASSERT_EQ(other().run("BEGIN; " + work(owner)), 0U);
    EXPECT_EQ(other().run(finish(owner, body)), finished_before);
    ASSERT_EQ(other().run("COMMIT"), 0U);
  }
  EXPECT_EQ(times_done(owner), "1");
  EXPECT_EQ(decode(*lookup(owner).record->outcome)->body, "paid");
}

TEST_F(MysqlProceduresTest, an_expired_claim_is_not_current) {
  const Owner owner = claimed();
  contract::advance_server_clock(std::chrono::hours(25));
  EXPECT_EQ(other().run(finish(owner)), not_current);
}

TEST_F(MysqlProceduresTest, an_owner_that_said_unknown_may_learn_more) {
  const Owner owner = claimed();
  Op unknown = finish_op(owner);
  unknown.final_state = State::unknown;
  ASSERT_EQ(run(unknown).status, OpStatus::done);
  EXPECT_EQ(other().run(finish(owner)), 0U);
  EXPECT_EQ(claim_again(owner).verdict, Verdict::replay);
}

TEST_F(MysqlProceduresTest, arguments_that_no_response_can_have_are_refused) {
  const Owner owner = claimed();
  const auto call = [&](std::string_view status, std::string_view headers) {
    return other().run(fmt::format("CALL once_finish('{}', {}, {}, 'x')", owner.claim(), status, headers));
  };
  for (const std::string_view status : {"199", "600", "0", "-1", "NULL"}) EXPECT_EQ(call(status, "'{}'"), not_valid);
  for (const std::string_view headers :
       {R"('{"A\\r\\nB": "x"}')", R"('{"A": "x\\r\\nB: y"}')", R"('{"A": "x\\ny"}')", R"('{"A": "x\\u0000y"}')",
        R"('{"": "x"}')", R"('{"A B": "x"}')", R"('{"A:": "x"}')", R"('{"Ä": "x"}')", R"('{"A\\n": "x"}')",
        R"('{"A": {"b": 1}}')", R"('{"A": [["x"]]}')", R"('{"A": null}')", R"('{"A": true}')", R"('["A"]')",
        R"('"A"')"}) {
    EXPECT_EQ(call("200", headers), not_valid) << headers;
  }
  EXPECT_NE(call("200", "'no json'"), 0U);
  for (const std::string_view claim : {"", "x", "0123.4567"}) {
    EXPECT_EQ(other().run(fmt::format("CALL once_fail('{}')", claim)), not_valid);
  }
  EXPECT_EQ(other().run("CALL once_fail(NULL)"), not_valid);
  EXPECT_EQ(other().run(fmt::format("CALL once_fail('{}')", std::string(97, 'z'))), not_valid);
  EXPECT_EQ(other().run(fmt::format("CALL once_fail('{}')", std::string(5000, 'a'))), not_valid);
  EXPECT_EQ(lookup(owner).record->state, State::started);
}

TEST_F(MysqlProceduresTest, headers_of_every_shape_are_encoded_as_the_gateway_reads_them) {
  const Owner owner = claimed();
  std::string body;
  for (int byte = 0; byte < 256; ++byte) body.push_back(static_cast<char>(byte));
  const std::string headers =
      R"({"X-Many": ["one", "two"], "X-Number": 17, "!#$%&*+.^_`|~-": "odd", "X-Text": "ä \\"q\\" \\\\ tab\\t.", )"
      R"("X-Empty": "", "Content-Length": "9", "Transfer-Encoding": "chunked", "set-cookie": "a=b", "X-None": []})";
  ASSERT_EQ(other().run(fmt::format("CALL once_finish('{}', 599, '{}', 0x{})", owner.claim(), headers, to_hex(body))),
            0U);
  const Op op = lookup(owner);
  ASSERT_TRUE(op.record && op.record->outcome);
  const auto response = decode(*op.record->outcome);
  ASSERT_TRUE(response.has_value());
  EXPECT_EQ(response->status, 599);
  EXPECT_EQ(response->body, body);
  EXPECT_EQ(response->original_request_id, "");
  // MySQL sorts the names of an object, MariaDB does not.
  for (const std::string_view line : {"X-Many: one\r\nX-Many: two\r\n", "X-Number: 17\r\n", "!#$%&*+.^_`|~-: odd\r\n",
                                      "X-Text: ä \"q\" \\ tab\t.\r\n", "X-Empty: \r\n"}) {
    EXPECT_NE(response->headers.find(line), std::string_view::npos) << line;
  }
  for (const std::string_view name : {"Content-Length", "Transfer-Encoding", "set-cookie", "X-None"}) {
    EXPECT_EQ(response->headers.find(name), std::string_view::npos) << name;
  }
}

TEST_F(MysqlProceduresTest, the_id_of_the_request_is_kept_for_replays) {
  const std::string longest(128, 'r');
  // In a literal of MySQL's a backslash is two.
  for (const auto& [given, kept] : {std::pair<std::string, std::string>{R"("req-7")", "req-7"},
                                    {R"("]a[!~")", "]a[!~"},
                                    {"\"" + longest + "\"", longest},
                                    {"\"" + longest + "r\"", ""},
                                    {R"("a b")", ""},
                                    {R"("a\\\\b")", ""},
                                    {R"("a\\"b")", ""},
                                    {R"("a\\n")", ""},
                                    {R"("ü")", ""},
                                    {R"("")", ""},
                                    {"7", ""},
                                    {R"(["one", "two"])", ""}}) {
    const Owner owner = claimed();
    ASSERT_EQ(other().run(fmt::format(R"(CALL once_finish('{}', 201, '{{"x-Request-Id": {}, "ETag": "1"}}', 'body'))",
                                      owner.claim(), given)),
              0U)
        << given;
    const Op op = lookup(owner);
    const auto response = decode(*op.record->outcome);
    ASSERT_TRUE(response.has_value());
    EXPECT_EQ(response->original_request_id, kept) << given;
    EXPECT_EQ(response->headers, "ETag: 1\r\n");
    EXPECT_EQ(response->body, "body");
  }
}

TEST_F(MysqlProceduresTest, no_headers_and_no_body_are_fine) {
  const Owner owner = claimed();
  ASSERT_EQ(other().run(fmt::format("CALL once_finish('{}', 204, NULL, NULL)", owner.claim())), 0U);
  EXPECT_EQ(decode(*lookup(owner).record->outcome), StoredResponse{.status = 204});
}

TEST_F(MysqlProceduresTest, a_failure_lets_a_retry_execute_again) {
  const Owner owner = claimed();
  ASSERT_EQ(other().run(fmt::format("CALL once_fail('{}')", owner.claim())), 0U);
  const Op again = claim_again(owner);
  EXPECT_EQ(again.verdict, Verdict::execute);
  EXPECT_EQ(again.record->attempt, Attempt{2});
}

TEST_F(MysqlProceduresTest, a_renewed_lease_holds_for_as_long_as_it_says) {
  const Owner owner = claimed();
  ASSERT_EQ(other().run(fmt::format("CALL once_renew('{}', 300.5)", owner.claim())), 0U);
  ASSERT_EQ(other().run(fmt::format("CALL once_renew('{}', 300.5)", owner.claim())), 0U);
  contract::advance_server_clock(std::chrono::seconds(290));
  EXPECT_EQ(claim_again(owner).verdict, Verdict::in_flight);
  contract::advance_server_clock(std::chrono::seconds(20));
  EXPECT_EQ(claim_again(owner).verdict, Verdict::execute);
  EXPECT_EQ(other().run(fmt::format("CALL once_renew('{}', 300)", owner.claim())), not_current);
  EXPECT_EQ(other().run(fmt::format("CALL once_renew('{}', 0)", claimed().claim())), not_valid);
}

TEST_F(MysqlProceduresTest, a_release_leaves_nothing_or_the_attempt_before) {
  const Owner first = claimed();
  ASSERT_EQ(other().run(fmt::format("CALL once_release('{}')", first.claim())), 0U);
  EXPECT_FALSE(lookup(first).record.has_value());

  const Owner failed = claimed();
  ASSERT_EQ(other().run(fmt::format("CALL once_fail('{}')", failed.claim())), 0U);
  const Owner second{failed.id, new_owner().nonce};
  ASSERT_EQ(run(op_of(Verb::claim, second)).verdict, Verdict::execute);
  ASSERT_EQ(other().run(fmt::format("CALL once_release('{}')", second.claim())), 0U);
  const Op found = lookup(failed);
  EXPECT_EQ(found.record->state, State::failed);
  EXPECT_EQ(found.record->attempt, Attempt{1});
  EXPECT_EQ(found.record->nonce, Nonce());
  EXPECT_EQ(other().run(fmt::format("CALL once_release('{}')", second.claim())), not_current);
}

TEST_F(MysqlProceduresTest, a_backend_needs_no_right_to_the_tables) {
  const Owner owner = claimed();
  ASSERT_EQ(other().run("CREATE USER IF NOT EXISTS backend@'127.0.0.1' IDENTIFIED BY 'backend'; "
                        "GRANT EXECUTE ON PROCEDURE once.once_finish TO backend@'127.0.0.1'"),
            0U);
  Session backend(url_of("once", "backend:backend"));
  EXPECT_NE(backend.run("SELECT COUNT(*) FROM once_operations"), 0U);
  EXPECT_EQ(backend.run(finish(owner)), 0U);
  EXPECT_EQ(claim_again(owner).verdict, Verdict::replay);
}

TEST_F(MysqlProceduresTest, people_can_read_the_keys) {
  const Owner owner = claimed();
  ASSERT_EQ(other().run(finish(owner)), 0U);
  ASSERT_EQ(
      other().run(fmt::format("SELECT tenant, route, state, attempt, expired, started_at IS NOT NULL, outcome_bytes "
                              "FROM once_keys WHERE id = '{}'",
                              to_hex(owner.id))),
      0U);
  ASSERT_EQ(other().rows().size(), 1U);
  const Cells expected = {"acme", "payments", "succeeded", "1", "0", "1", "54"};
  EXPECT_EQ(other().rows().front(), expected);
}

}  // namespace mysql_procedures_test
}  // namespace once::mysql_test
