#include "core/backend_policy.hpp"

#include <initializer_list>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace once::core::backend_policy_test {

using namespace std::chrono_literals;
using Record = BackendPolicy::Record;

BackendPolicy said(std::initializer_list<std::string_view> lines) {
  BackendPolicy policy;
  for (const std::string_view line : lines) policy.add(line);
  return policy;
}

BackendPolicy policy(Record record, std::optional<Duration> ttl = std::nullopt) {
  return {.record = record, .ttl = ttl};
}

TEST(BackendPolicy, says_nothing_by_itself) {
  EXPECT_EQ(said({}), policy(Record::by_status));
  EXPECT_EQ(said({""}), policy(Record::by_status));
  EXPECT_EQ(said({" , ,\t,"}), policy(Record::by_status));
}

TEST(BackendPolicy, members_are_known_in_any_case) {
  EXPECT_EQ(said({"no-store"}), policy(Record::no_store));
  EXPECT_EQ(said({"No-Store"}), policy(Record::no_store));
  EXPECT_EQ(said({" FINAL\t"}), policy(Record::final));
  EXPECT_EQ(said({"Retry"}), policy(Record::retry));
  EXPECT_EQ(said({"TTL=60"}), policy(Record::by_status, 60s));
}

TEST(BackendPolicy, members_come_together_in_one_line_or_in_several) {
  EXPECT_EQ(said({"final, ttl=5"}), policy(Record::final, 5s));
  EXPECT_EQ(said({"final", "ttl=5"}), policy(Record::final, 5s));
  EXPECT_EQ(said({"ttl=5,ttl=6"}), policy(Record::by_status, 6s));
}

TEST(BackendPolicy, no_store_wins_over_retry_and_retry_over_final) {
  EXPECT_EQ(said({"no-store, retry, final"}), policy(Record::no_store));
  EXPECT_EQ(said({"final, no-store"}), policy(Record::no_store));
  EXPECT_EQ(said({"final", "retry"}), policy(Record::retry));
  EXPECT_EQ(said({"retry", "final"}), policy(Record::retry));
}

TEST(BackendPolicy, what_is_not_known_is_left_out) {
  for (const std::string_view line :
       {"nostore", "no-store=1", "final;x", "x-new", "\"final\"", "retry retry", "fina", "finally", "=", "no store"}) {
    EXPECT_EQ(said({line}), policy(Record::by_status)) << line;
  }
  EXPECT_EQ(said({"x-new=3, final"}), policy(Record::final));
}

TEST(BackendPolicy, a_ttl_is_a_second_to_a_year) {
  EXPECT_EQ(said({"ttl=1"}).ttl, 1s);
  EXPECT_EQ(said({"ttl=31536000"}).ttl, 24h * 365);
  for (const std::string_view value :
       {"", "0", "31536001", "-1", "+1", "1.5", "1s", " 1", "\"1\"", "0x1", "99999999999999999999999999"}) {
    EXPECT_EQ(said({std::string("ttl=").append(value)}).ttl, std::nullopt) << value;
  }
  EXPECT_EQ(said({"ttl=7, ttl=0"}).ttl, 7s);
}

}  // namespace once::core::backend_policy_test
