#include "admin/sessions.hpp"

#include <gtest/gtest.h>

namespace once {
namespace {

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

}  // namespace
}  // namespace once
