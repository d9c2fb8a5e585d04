// Two sessions on one key. A third one holds the row until both wait for it, so that both have read it as it was before
// either of them writes.
#pragma once

#include <algorithm>
#include <array>

#include "tests/store/sql/server.hpp"

namespace once::sql_test {

class SqlRace : public SqlTest {
 protected:
  using Answers = std::array<std::string, 2>;

  struct Key {
    std::string key;
    Owner owner;  // its first one
  };
  Key claimed_by_worker() {
    Key it{.key = to_hex(new_owner().nonce), .owner = {}};
    it.owner = owner_of(ask(claim(it)));
    return it;
  }
  static Owner owner_of(const std::string& claimed) {
    const auto parts = split(claimed, '|');
    Owner owner;
    if (parts.size() != 7) return owner;
    const std::string id = from_hex(parts[1].substr(0, 64)).value_or("");
    const std::string nonce = from_hex(parts[1].substr(65)).value_or("");
    std::ranges::copy(id, owner.id.bytes.begin());
    std::ranges::copy(nonce, owner.nonce.bytes.begin());
    return owner;
  }
  std::string claim(const Key& it) {
    return server().claim(fmt::format("'acme', '{}', 'job', {}, {}, 'retry', {}", it.key, server().seconds("30"),
                                      server().seconds("3600"), server().seconds("300")));
  }

  // Verdict and attempt of a claim, "done", or the error.
  std::string answer_to(const std::string& sql) {
    const std::string answer = (*connect())(sql);
    const auto parts = split(answer, '|');
    return parts.size() == 7 ? fmt::format("{}|{}", parts[0], parts[2]) : answer;
  }
  // The first one comes to wait before the second one.
  Answers race(const std::string& row, const std::string& first, const std::string& second) {
    Answers answers;
    const auto holder = connect();
    (*holder)("BEGIN; SELECT 1 FROM " + row + " FOR UPDATE");
    {
      std::jthread one([&] { answers[0] = answer_to(first); });
      wait_for_waiters("1");
      std::jthread two([&] { answers[1] = answer_to(second); });
      wait_for_waiters("2");
      EXPECT_EQ((*holder)("ROLLBACK"), "done");
    }
    return answers;
  }
  void expect_one_claim(const Key& it, const std::string& attempt) {
    const Answers answers = race(row(it.owner), claim(it), claim(it));
    const Answers in_order = {"execute|" + attempt, "in_flight|" + attempt};
    const Answers reversed = {in_order[1], in_order[0]};
    EXPECT_TRUE(answers == in_order || (!server().is_in_order() && answers == reversed))
        << answers[0] << " " << answers[1];
    EXPECT_EQ(number_of(row(it.owner) + " AND state = 0 AND attempt = " + attempt), "1");
  }
};

TEST_F(SqlRace, of_two_workers_that_claim_an_existing_key_one_executes) {
  struct Case {
    std::string_view name;
    std::function<void(const Key&)> make;
    std::string attempt;
  };
  std::vector<Case> cases = {
      {"failed", [&](const Key& it) { EXPECT_EQ(ask(call("once_fail", it.owner)), "done"); }, "2"},
      {"unknown", [&](const Key& it) { ask("UPDATE once_operations SET state = 3" + where(it.owner)); }, "2"},
      {"lapsed", [](const Key&) { advance_server_clock(std::chrono::seconds(31)); }, "2"},
      {"expired",
       [&](const Key& it) {
         EXPECT_EQ(ask(call("once_finish", it.owner, ", 200, '{}', ''")), "done");
         advance_server_clock(std::chrono::hours(2));
       },
       "1"}};
  if (server().is_in_order()) {
    cases.push_back({"released", [&](const Key& it) { EXPECT_EQ(ask(call("once_release", it.owner)), "done"); }, "1"});
  }
  for (const Case& each : cases) {
    SCOPED_TRACE(each.name);
    const Key it = claimed_by_worker();
    each.make(it);
    expect_one_claim(it, each.attempt);
  }
}

// Whichever comes first wins, and the other one is told so.
TEST_F(SqlRace, a_late_owner_and_the_worker_that_takes_over_never_both_succeed) {
  struct Write {
    std::string function;
    std::string arguments;  // after the claim
    std::string verdict;    // of a claim that comes after it
  };
  std::vector<Write> writes = {{"once_finish", ", 200, '{}', ''", "replay|1"},
                               {"once_fail", "", "execute|2"},
                               {"once_renew", ", " + server().seconds("30"), "in_flight|1"}};
  if (server().is_in_order()) writes.push_back({"once_release", "", "execute|1"});
  for (const Write& write : writes) {
    SCOPED_TRACE(write.function);
    const auto late = [&](const Key& it) { return call(write.function, it.owner, write.arguments); };
    const Key kept = claimed_by_worker();
    const Key taken = claimed_by_worker();
    advance_server_clock(std::chrono::seconds(31));
    EXPECT_EQ(race(row(kept.owner), late(kept), claim(kept)), (Answers{"done", write.verdict}));
    EXPECT_EQ(race(row(taken.owner), claim(taken), late(taken)), (Answers{"execute|2", server().not_current()}));
  }
}

}  // namespace once::sql_test
