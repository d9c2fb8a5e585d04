#include "admin/sessions.hpp"

#include <gtest/gtest.h>

namespace once::admin::sessions_test {

using namespace std::chrono_literals;

TEST(Sessions, a_session_is_known_until_it_expires_or_ends) {
  SystemRandom random;
  Sessions sessions;
  const std::string id = sessions.begin(random, 1h);
  EXPECT_EQ(id.size(), 64U);
  EXPECT_TRUE(sessions.known(id, 1h));
  EXPECT_TRUE(sessions.known(id, 1h + Sessions::lifetime - 1ns));
  EXPECT_FALSE(sessions.known(id, 1h + Sessions::lifetime));
  EXPECT_FALSE(sessions.known("", 1h));
  EXPECT_FALSE(sessions.known(id.substr(1), 1h));
  sessions.end(id.substr(1));
  EXPECT_TRUE(sessions.known(id, 1h));
  sessions.end(id);
  EXPECT_FALSE(sessions.known(id, 1h));
}

TEST(Sessions, the_oldest_makes_room) {
  SystemRandom random;
  Sessions sessions;
  const std::string first = sessions.begin(random, 0h);
  const std::string second = sessions.begin(random, 1h);
  for (std::size_t i = 0; i < Sessions::most - 1; ++i) sessions.begin(random, 1h);
  EXPECT_EQ(sessions.size(), Sessions::most);
  EXPECT_FALSE(sessions.known(first, 1h));
  EXPECT_TRUE(sessions.known(second, 1h));
  sessions.begin(random, 1h + Sessions::lifetime);
  EXPECT_EQ(sessions.size(), 1U) << "those that have expired are gone";
}

TEST(FailedLogins, bar_an_address_for_the_rest_of_its_minute) {
  FailedLogins failed;
  for (std::size_t i = 0; i < FailedLogins::most; ++i) {
    EXPECT_FALSE(failed.barred("a", 10s));
    failed.add("a", 10s);
  }
  EXPECT_TRUE(failed.barred("a", 10s));
  EXPECT_FALSE(failed.barred("b", 10s));
  EXPECT_TRUE(failed.barred("a", 10s + FailedLogins::window - 1ns));
  EXPECT_FALSE(failed.barred("a", 10s + FailedLogins::window));
}

TEST(FailedLogins, of_so_many_addresses_the_first_is_forgotten) {
  FailedLogins failed;
  for (std::size_t i = 0; i < FailedLogins::most; ++i) failed.add("first", 0s);
  for (std::size_t i = 0; i < FailedLogins::most_peers - 1; ++i) failed.add(std::to_string(i), 0s);
  EXPECT_TRUE(failed.barred("first", 0s));
  failed.add("one more", 0s);
  EXPECT_FALSE(failed.barred("first", 0s));
}

TEST(FailedLogins, count_ipv6_by_its_network) {
  FailedLogins failed;
  for (std::size_t i = 0; i < FailedLogins::most; ++i) failed.add("2001:db8:0:1::" + std::to_string(i), 0s);
  EXPECT_TRUE(failed.barred("2001:db8:0:1:ffff::1", 0s));
  EXPECT_TRUE(failed.barred("[2001:db8:0:1::7]", 0s));
  EXPECT_FALSE(failed.barred("2001:db8:0:2::1", 0s));
  EXPECT_NE(network_of("::ffff:192.0.2.1"), network_of("::ffff:192.0.2.2"));
  EXPECT_EQ(network_of("192.0.2.1"), "192.0.2.1");
}

TEST(LineLimit, lets_one_a_second_through_and_counts_the_others) {
  LineLimit limit;
  EXPECT_EQ(limit.allow("a", 10s), 0U);
  EXPECT_EQ(limit.allow("a", 10s), std::nullopt);
  EXPECT_EQ(limit.allow("a", 11s - 1ns), std::nullopt);
  EXPECT_EQ(limit.allow("b", 10s), 0U);
  EXPECT_EQ(limit.allow("a", 11s), 2U);
  EXPECT_EQ(limit.allow("a", 12s), 0U);
}

TEST(LineLimit, is_bounded) {
  LineLimit limit;
  for (std::size_t i = 0; i < LineLimit::most_peers; ++i) EXPECT_EQ(limit.allow(std::to_string(i), 0s), 0U);
  EXPECT_EQ(limit.allow("one more", 0s), std::nullopt);
  EXPECT_EQ(limit.allow("one more", LineLimit::between), 0U);
}

}  // namespace once::admin::sessions_test
