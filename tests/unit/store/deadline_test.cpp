// A call of a store behind a server ends in time, also if the server takes a connection and says nothing. What waits
// here for longer than it should waits for an hour.
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>

#include <gtest/gtest.h>

#include "base/clock.hpp"
#include "store/mysql/connector.hpp"
#include "store/postgres/connection.hpp"
#include "store/redis/link.hpp"
#include "store/server/cutter.hpp"
#include "tests/unit/support/loopback.hpp"

namespace once::store {
namespace deadline_test {

using namespace std::chrono_literals;

class SilentServer : public testing::Test {
 protected:
  std::string url(std::string_view scheme) const {
    return std::string(scheme) + "://user@127.0.0.1:" + std::to_string(listener_.port()) + "/database";
  }

  const LoopbackListener listener_;
  ServerSettings patient_{.connect_timeout = 1h, .timeout = 1h};
};

TEST_F(SilentServer, postgres_connects_in_time_or_not_at_all) {
  const auto until = monotonic_now() + 50ms;
  const auto use = postgres::Connection::Use::batches;
  EXPECT_FALSE(postgres::Connection::open(url("postgres"), patient_, use, -1, until).has_value());
}

TEST_F(SilentServer, mysql_connects_in_time_or_not_at_all) {
  auto target = mysql::parse_target(url("mysql"));
  ASSERT_TRUE(target.has_value()) << target.error().detail;
  target->hosts.push_back(target->hosts.front());
  mysql::Connector connector(*std::move(target), patient_);
  EXPECT_FALSE(connector.connect(monotonic_now() + 50ms).has_value());
}

TEST(Cutter, a_read_that_waits_ends_when_its_time_is_over) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  const Descriptor near(ends[0]);
  const Descriptor far(ends[1]);
  Cutter cutter;
  Cutter::Call other(cutter, far.get(), monotonic_now() + 1h);
  Cutter::Call call(cutter, near.get(), monotonic_now() + 50ms);
  char byte = 0;
  EXPECT_EQ(::read(near.get(), &byte, 1), 0);
  EXPECT_EQ(call.end(), Cutter::Call::Ended::cut);
  EXPECT_EQ(call.end(), Cutter::Call::Ended::cut) << "said again";
  EXPECT_EQ(other.end(), Cutter::Call::Ended::in_time);
}

TEST(Cutter, a_call_that_ended_in_time_is_left_alone) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  const Descriptor near(ends[0]);
  const Descriptor far(ends[1]);
  Cutter cutter;
  Cutter::Call call(cutter, near.get(), monotonic_now() + 1h);
  EXPECT_EQ(call.end(), Cutter::Call::Ended::in_time);
  EXPECT_EQ(::write(near.get(), "x", 1), 1);
}

}  // namespace deadline_test
}  // namespace once::store
