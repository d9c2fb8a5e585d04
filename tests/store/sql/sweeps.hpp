// What expires is removed, by the gateways and by a job in SQL alone, once_sweep. Both do the same.
#pragma once

#include "tests/store/sql/server.hpp"

namespace once::sql_test {

class SqlSweep : public SqlTest {
 protected:
  // once_sweep() returns how much it did.
  std::string sweep_in_sql(int limit) { return ask(server().sweep(limit)); }
  // Runs the story with each of the two; what they are given is the limit.
  void with_each(const std::function<void(const std::function<void(int)>&)>& story) {
    {
      SCOPED_TRACE("the gateway's");
      story([&](int limit) { EXPECT_TRUE(store().sweep(static_cast<std::size_t>(limit)).has_value()); });
    }
    if (!server().has_functions()) return;
    SCOPED_TRACE("once_sweep");
    story([&](int limit) { EXPECT_TRUE(parse_number(sweep_in_sql(limit)).has_value()); });
  }
  std::string operations() { return number_of("once_operations"); }
};

TEST_F(SqlSweep, removes_what_expired_up_to_its_limit_and_nothing_else) {
  with_each([&](const auto& sweep) {
    for (int i = 0; i < 12; ++i) finished();
    const Owner lapsed = claimed();
    const Owner working = claimed();
    sweep(100);
    EXPECT_EQ(operations(), "14");
    advance_server_clock(std::chrono::hours(25));
    EXPECT_EQ(ask(server().extend_lease(working)), "done");
    const Owner lasting = finished();
    sweep(5);
    EXPECT_EQ(operations(), "10");
    sweep(5);
    EXPECT_EQ(operations(), "5");
    sweep(100);
    EXPECT_EQ(operations(), "2");
    EXPECT_EQ(number_of(row(lapsed)), "0");
    EXPECT_TRUE(lookup(working).record.has_value());
    EXPECT_TRUE(lookup(lasting).record.has_value());
    EXPECT_EQ(ask("DELETE FROM once_operations"), "done");
  });
}

TEST_F(SqlSweep, says_what_it_removed_and_whether_there_may_be_more) {
  for (int i = 0; i < 6; ++i) finished();
  advance_server_clock(std::chrono::hours(25));
  finished();
  for (const auto& [removed, more] : {std::pair(4U, More::yes), std::pair(2U, More::no), std::pair(0U, More::no)}) {
    const auto swept = store().sweep(4);
    ASSERT_TRUE(swept.has_value()) << swept.error().detail;
    EXPECT_EQ(swept->removed, removed);
    EXPECT_EQ(swept->more, more);
  }
  EXPECT_EQ(store().stats().swept, 6U);
  if (!server().has_functions()) return;
  for (int i = 0; i < 7; ++i) finished();
  advance_server_clock(std::chrono::hours(25));
  for (const std::string swept : {"4", "4", "0"}) EXPECT_EQ(sweep_in_sql(4), swept);
}

TEST_F(SqlSweep, passes_by_rows_that_somebody_holds) {
  with_each([&](const auto& sweep) {
    const Owner held = finished();
    const Owner free = finished();
    advance_server_clock(std::chrono::hours(25));
    const auto holder = connect();
    (*holder)("BEGIN; SELECT 1 FROM " + row(held) + " FOR UPDATE");
    sweep(100);
    EXPECT_EQ(number_of(row(free)), "0");
    EXPECT_EQ(number_of(row(held)), "1");
    EXPECT_EQ((*holder)("COMMIT"), "done");
    sweep(100);
    EXPECT_EQ(number_of(row(held)), "0");
  });
}

TEST_F(SqlSweep, makes_tombstones_without_outcomes_of_what_is_remembered) {
  with_each([&](const auto& sweep) {
    const Owner owner = finished(std::chrono::hours(24 * 30));
    advance_server_clock(std::chrono::hours(25));
    EXPECT_EQ(ask("SELECT state FROM once_keys WHERE id = '" + to_hex(owner.id) + "'"), "tombstone");
    for (int i = 0; i < 2; ++i) {
      sweep(100);
      EXPECT_EQ(number_of(row(owner) + " AND state = 4 AND outcome IS NULL AND sweep_at > expires_at"), "1");
      EXPECT_EQ(claim_again(owner).verdict, Verdict::gone);
      EXPECT_EQ(run(finish_op(owner)).status, OpStatus::lost);
    }
    advance_server_clock(std::chrono::hours(24 * 30));
    sweep(100);
    EXPECT_EQ(number_of(row(owner)), "0");
  });
}

TEST_F(SqlSweep, in_sql_removes_chunks_up_to_its_limit_and_keeps_bodies_that_stay_in_them) {
  if (!server().has_functions()) GTEST_SKIP() << "there are no functions";
  const Owner running = streaming(2);
  const Owner kept = streaming(3);
  done(keep_op(kept));
  done(finish_op(streaming(7)));
  for (const std::string swept : {"5", "2", "0"}) EXPECT_EQ(sweep_in_sql(5), swept);
  EXPECT_EQ(chunks(running), "0 1");
  EXPECT_EQ(chunks(kept), "0 1 2");
  advance_server_clock(std::chrono::hours(25));
  for (int i = 0; i < 2; ++i) sweep_in_sql(100);
  EXPECT_EQ(number_of("once_chunks"), "0");
}

TEST_F(SqlSweep, takes_no_connection_of_a_lane) {
  const auto one = server().open({.connections = 1});
  EXPECT_EQ(run_on(*one, op_of(Verb::claim, new_owner())).verdict, Verdict::execute);
  EXPECT_EQ(one->stats().connections, 1U);
  EXPECT_TRUE(one->sweep(10).has_value());
  EXPECT_EQ(one->stats().connections, 2U);
}

}  // namespace once::sql_test
