// What a backend calls inside its own transaction: the effect and the outcome are committed together, or neither is.
#pragma once

#include "tests/store/sql/server.hpp"

namespace once::sql_test {

class SqlFunctions : public SqlTest {
 protected:
  SqlFunctions() {
    backend("CREATE TABLE IF NOT EXISTS booked (claim VARCHAR(100), amount INT)");
    backend("DELETE FROM booked");
  }

  std::string backend(const std::string& sql) { return (*backend_)(sql); }
  // The work of a backend: one row for each time that it was done.
  static std::string work(const Owner& owner) {
    return fmt::format("INSERT INTO booked (claim, amount) VALUES ('{}', 100)", owner.claim());
  }
  std::string times_done(const Owner& owner) {
    return number_of(fmt::format("booked WHERE claim = '{}'", owner.claim()));
  }
  std::string finish(const Owner& owner, std::string_view body = "paid") const {
    return call("once_finish", owner, fmt::format(R"(, 201, '{{"Content-Type": "text/plain"}}', '{}')", body));
  }
  // The answer to once_finish() with these headers.
  std::string finish_with(const Owner& owner, std::string_view status, std::string_view headers,
                          const std::string& body = "'body'") {
    return backend(call("once_finish", owner, fmt::format(", {}, {}, {}", status, server().text(headers), body)));
  }

 private:
  std::unique_ptr<SqlSession> backend_ = connect();
};

TEST_F(SqlFunctions, effect_and_outcome_are_committed_together_and_the_gateways_finish_agrees) {
  const Owner owner = claimed();
  backend("BEGIN");
  backend(work(owner));
  EXPECT_EQ(backend(finish(owner)), "done");
  EXPECT_EQ(lookup(owner).record->state, State::started) << "not before the commit";
  backend("COMMIT");
  EXPECT_EQ(times_done(owner), "1");
  const StoredResponse expected{.status = 201, .headers = "Content-Type: text/plain\r\n", .body = "paid"};
  EXPECT_EQ(stored(owner), expected);
  EXPECT_EQ(claim_again(owner).verdict, Verdict::replay);

  // The gateway, which saw the backend's response, says the same and is told what stands.
  const Op gateway = run(finish_op(owner, "what the gateway saw"));
  ASSERT_EQ(gateway.status, OpStatus::done);
  EXPECT_EQ(*gateway.record->outcome, encode(expected));
  EXPECT_GT(gateway.record->expires_at, gateway.now + std::chrono::hours(24) - std::chrono::minutes(1));
  EXPECT_LE(gateway.record->expires_at, gateway.now + std::chrono::hours(24));
}

TEST_F(SqlFunctions, a_rollback_undoes_both) {
  const Owner owner = claimed();
  backend("BEGIN");
  backend(work(owner));
  EXPECT_EQ(backend(finish(owner)), "done");
  backend("ROLLBACK");
  EXPECT_EQ(times_done(owner), "0");
  EXPECT_EQ(lookup(owner).record->state, State::started);
}

// Also if the backend ignores the error and commits.
TEST_F(SqlFunctions, a_claim_that_is_not_current_is_refused_and_takes_the_effect_back) {
  const Owner released = claimed();
  done(op_of(Verb::release, released));
  const Owner failed = claimed();
  done(finish_op(failed, State::failed));
  const Owner unknown = claimed();
  done(finish_op(unknown, State::unknown));
  const Owner taken_over = claimed();
  const Owner expired = claimed();
  advance_server_clock(std::chrono::seconds(31));
  const Owner second = other_owner(taken_over);
  done(op_of(Verb::claim, second));
  const Owner current = claimed();
  const auto expect_refused = [&](const Owner& owner, const std::string& statement) {
    SCOPED_TRACE(statement);
    backend("BEGIN");
    backend(work(owner));
    EXPECT_EQ(backend(statement), server().not_current());
    EXPECT_EQ(backend("COMMIT"), "done");
    EXPECT_EQ(times_done(owner), "0");
  };
  for (const Owner& owner : {new_owner(), other_owner(current), taken_over, released}) {
    expect_refused(owner, finish(owner));
    for (const std::string_view function : {"once_fail", "once_release"}) expect_refused(owner, call(function, owner));
    expect_refused(owner, call("once_renew", owner, ", " + server().seconds("30")));
  }
  expect_refused(failed, finish(failed));
  expect_refused(other_owner(unknown), finish(other_owner(unknown)));
  EXPECT_EQ(lookup(second).record->nonce, second.nonce);
  advance_server_clock(std::chrono::hours(25));
  expect_refused(expired, finish(expired));
}

// Whoever did the work again, after a commit whose answer was lost, must not commit it again.
TEST_F(SqlFunctions, work_done_again_under_the_same_claim_is_taken_back) {
  const Owner owner = claimed();
  backend("BEGIN; " + work(owner));
  EXPECT_EQ(backend(finish(owner)), "done");
  backend("COMMIT");
  for (const std::string_view body : {"paid", "paid twice"}) {
    backend("BEGIN; " + work(owner));
    EXPECT_EQ(backend(finish(owner, body)), server().finished_before());
    backend("COMMIT");
  }
  EXPECT_EQ(backend(call("once_fail", owner)), server().not_current());
  EXPECT_EQ(times_done(owner), "1");
  EXPECT_EQ(stored(owner).body, "paid");
}

TEST_F(SqlFunctions, what_the_gateway_called_unknown_may_still_be_finished_by_its_owner) {
  const Owner owner = streaming(2);
  done(finish_op(owner, State::unknown));
  EXPECT_EQ(backend(finish(owner)), "done");
  EXPECT_EQ(lookup(owner).record->body_kept, BodyKept::yes);
  EXPECT_EQ(chunks(owner), "") << "of no use any more";
  EXPECT_EQ(claim_again(owner).verdict, Verdict::replay);
}

TEST_F(SqlFunctions, arguments_that_no_response_can_have_are_refused) {
  const Owner owner = claimed();
  for (const std::string_view status : {"199", "600", "0", "-1", "NULL"}) {
    EXPECT_EQ(finish_with(owner, status, "{}"), server().not_valid()) << status;
  }
  for (const std::string_view headers :
       {R"({"A\r\nB": "x"})", R"({"A": "x\r\nB: y"})", R"({"A": "x\ny"})", R"({"": "x"})", R"({"A B": "x"})",
        R"({"A:": "x"})", R"({"Ä": "x"})", R"({"A\n": "x"})", R"({"A": {"b": 1}})", R"({"A": [["x"]]})",
        R"({"A": null})", R"({"A": true})", R"(["A"])", R"("A")"}) {
    EXPECT_EQ(finish_with(owner, "200", headers), server().not_valid()) << headers;
  }
  for (const std::string& claim :
       {std::string(), std::string("x"), std::string("0123.4567"), std::string(97, 'z'), std::string(5000, 'a')}) {
    EXPECT_EQ(backend(server().call("once_fail", "'" + claim + "'")), server().not_valid()) << claim;
  }
  EXPECT_EQ(backend(server().call("once_fail", "NULL")), server().not_valid());
  EXPECT_EQ(backend(call("once_renew", owner, ", " + server().seconds("0"))), server().not_valid());
  EXPECT_EQ(lookup(owner).record->state, State::started);
}

TEST_F(SqlFunctions, headers_and_bodies_of_every_shape_are_encoded_as_the_gateway_reads_them) {
  const Owner owner = claimed();
  std::string every_byte;
  for (int byte = 0; byte < 256; ++byte) every_byte.push_back(static_cast<char>(byte));
  EXPECT_EQ(finish_with(
                owner, "599",
                R"({"X-Many": ["one", "two"], "X-Number": 17, "!#$%&*+.^_`|~-": "odd", "X-Text": "ä \"q\" \\ tab\t.", )"
                R"("X-Empty": "", "content-length": "9", "Transfer-Encoding": "chunked", "set-cookie": "a=b", )"
                R"("Date": "x", "X-None": []})",
                server().bytes(every_byte)),
            "done");
  const StoredResponse response = stored(owner);
  EXPECT_EQ(response.status, 599);
  EXPECT_EQ(response.body, every_byte);
  EXPECT_EQ(response.reason, "");
  EXPECT_EQ(response.original_request_id, "");
  std::size_t size = 0;  // servers sort the names in their own ways
  for (const std::string_view line : {"X-Many: one\r\nX-Many: two\r\n", "X-Number: 17\r\n", "!#$%&*+.^_`|~-: odd\r\n",
                                      "X-Text: ä \"q\" \\ tab\t.\r\n", "X-Empty: \r\n"}) {
    EXPECT_NE(response.headers.find(line), std::string_view::npos) << line;
    size += line.size();
  }
  EXPECT_EQ(response.headers.size(), size) << response.headers;

  const Owner large = claimed();
  EXPECT_EQ(finish_with(large, "200", "{}", "repeat('0123456789', 100000)"), "done");
  EXPECT_EQ(stored(large).body.size(), 1'000'000U);
  const Owner empty = claimed();
  EXPECT_EQ(finish_with(empty, "204", "{}", "''"), "done");
  EXPECT_EQ(stored(empty), StoredResponse{.status = 204});
}

TEST_F(SqlFunctions, the_id_of_the_request_is_kept_for_replays) {
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
    const Owner owner = claimed();
    EXPECT_EQ(finish_with(owner, "201", fmt::format(R"({{"x-Request-Id": {}, "ETag": "1"}})", given)), "done");
    const StoredResponse response = stored(owner);
    EXPECT_EQ(response.original_request_id, kept) << given;
    EXPECT_EQ(response.headers, "ETag: 1\r\n");
    EXPECT_EQ(response.body, "body");
  }
}

TEST_F(SqlFunctions, fail_renew_and_release_do_what_the_gateways_verbs_do) {
  const Owner first = claimed();
  EXPECT_EQ(backend(call("once_fail", first)), "done");
  const Owner second = other_owner(first);
  EXPECT_EQ(run(op_of(Verb::claim, second)).record->attempt, Attempt{2});
  EXPECT_EQ(backend(call("once_release", second)), "done");
  const Op before = lookup(first);
  EXPECT_EQ(before.record->state, State::failed);
  EXPECT_EQ(before.record->attempt, Attempt{1});
  EXPECT_EQ(before.record->nonce, Nonce());
  EXPECT_EQ(backend(call("once_release", second)), server().not_current());

  const Owner released = claimed();
  EXPECT_EQ(backend(call("once_release", released)), "done");
  EXPECT_FALSE(lookup(released).record.has_value());

  const Owner renewed = claimed();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(backend(call("once_renew", renewed, ", " + server().seconds("300.5"))), "done");
  }
  advance_server_clock(std::chrono::seconds(290));
  EXPECT_EQ(claim_again(renewed).verdict, Verdict::in_flight);
  advance_server_clock(std::chrono::seconds(20));
  EXPECT_EQ(claim_again(renewed).verdict, Verdict::execute);
}

}  // namespace once::sql_test
