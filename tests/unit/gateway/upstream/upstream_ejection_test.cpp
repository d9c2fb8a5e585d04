// When a server is ejected for how it answers, for how long, and how it comes back.
#include "gateway/upstream/upstream_ejection.hpp"

#include <gtest/gtest.h>

namespace once::gateway::upstream_ejection_test {

using namespace std::chrono_literals;
using Change = ServerEjection::Change;
using Trial = ServerEjection::Trial;

const EjectSettings after_three{.failures = 3, .time = 10s, .max_time = 30s};

struct Server {
  explicit Server(const EjectSettings& settings = after_three, std::size_t most = 1)
      : others(most), ejection(settings, others) {}

  // As a request that goes there now and ends at once.
  Change serve(Served how, ServerEjection::Instant now) { return ejection.served(how, ejection.pick(now), now); }
  void eject(ServerEjection::Instant now) {
    for (int i = 0; i < 2; ++i) EXPECT_EQ(serve(Served::badly, now), Change::none);
    EXPECT_EQ(serve(Served::badly, now), Change::ejected);
  }

  EjectedServers others;
  ServerEjection ejection;
};

TEST(ServerEjectionTest, happens_after_so_many_in_a_row) {
  Server server;
  EXPECT_EQ(server.serve(Served::badly, 1s), Change::none);
  EXPECT_EQ(server.serve(Served::badly, 1s), Change::none);
  EXPECT_EQ(server.serve(Served::well, 1s), Change::none) << "not in a row";
  server.eject(1s);
  EXPECT_TRUE(server.ejection.ejected() && server.ejection.out(1s) && server.ejection.out(10s));
  EXPECT_FALSE(server.ejection.out(11s)) << "one may try it";
  EXPECT_EQ(server.ejection.times(), 1U);
}

TEST(ServerEjectionTest, is_off_unless_it_is_asked_for) {
  Server server(EjectSettings{});
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(server.serve(Served::badly, 1s), Change::none);
  EXPECT_FALSE(server.ejection.ejected());
}

TEST(ServerEjectionTest, one_request_tries_it_and_brings_it_back) {
  Server server;
  server.eject(1s);
  const Trial trial = server.ejection.pick(11s);
  EXPECT_TRUE(trial);
  EXPECT_TRUE(server.ejection.out(11s)) << "the next one goes elsewhere";
  EXPECT_EQ(server.ejection.served(Served::well, trial, 12s), Change::readmitted);
  EXPECT_FALSE(server.ejection.ejected());
  EXPECT_FALSE(server.ejection.pick(12s));
}

TEST(ServerEjectionTest, lasts_twice_as_long_each_time_up_to_a_limit) {
  Server server;
  server.eject(0s);
  EXPECT_EQ(server.serve(Served::badly, 10s), Change::none);
  EXPECT_TRUE(server.ejection.out(29s)) << "20 seconds";
  EXPECT_FALSE(server.ejection.out(30s));
  EXPECT_EQ(server.serve(Served::badly, 30s), Change::none);
  EXPECT_TRUE(server.ejection.out(59s)) << "30, not 40";
  EXPECT_FALSE(server.ejection.out(60s));
  EXPECT_EQ(server.ejection.times(), 1U) << "it was never back";
}

TEST(ServerEjectionTest, of_one_that_was_well_only_briefly_lasts_longer) {
  Server server;
  server.eject(0s);
  EXPECT_EQ(server.serve(Served::well, 10s), Change::readmitted);
  server.eject(15s);
  EXPECT_FALSE(server.ejection.out(35s));
  EXPECT_TRUE(server.ejection.out(34s));
  EXPECT_EQ(server.serve(Served::well, 35s), Change::readmitted);
  server.eject(60s);
  EXPECT_FALSE(server.ejection.out(70s)) << "it was well for longer than it had been out";
}

TEST(ServerEjectionTest, is_not_ended_nor_prolonged_by_requests_from_before) {
  Server server;
  const Trial before = server.ejection.pick(0s);
  server.eject(1s);
  EXPECT_EQ(server.ejection.served(Served::well, before, 5s), Change::none);
  EXPECT_EQ(server.ejection.served(Served::badly, before, 5s), Change::none);
  EXPECT_TRUE(server.ejection.out(10s));
  EXPECT_FALSE(server.ejection.out(11s));
}

TEST(ServerEjectionTest, of_several_that_try_at_once_the_first_counts) {
  Server server;
  server.eject(0s);
  const Trial one = server.ejection.pick(5s);  // no other server was up
  const Trial two = server.ejection.pick(5s);
  EXPECT_EQ(server.ejection.served(Served::badly, one, 6s), Change::none);
  EXPECT_EQ(server.ejection.served(Served::badly, two, 6s), Change::none);
  EXPECT_FALSE(server.ejection.out(26s)) << "doubled once";
  EXPECT_TRUE(server.ejection.out(25s));
}

TEST(ServerEjectionTest, is_never_of_more_servers_than_may_be) {
  EjectedServers others(1);
  ServerEjection one(after_three, others);
  ServerEjection two(after_three, others);
  for (int i = 0; i < 10; ++i) one.served(Served::badly, one.pick(1s), 1s);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(two.served(Served::badly, two.pick(1s), 1s), Change::none);
  EXPECT_TRUE(one.ejected());
  EXPECT_FALSE(two.ejected());
  EXPECT_EQ(one.served(Served::well, one.pick(11s), 11s), Change::readmitted);
  EXPECT_EQ(two.served(Served::badly, two.pick(11s), 11s), Change::ejected) << "as soon as it may";
}

TEST(ServerEjectionTest, counts_failures_of_the_server_only) {
  for (const int status : {500, 502, 503, 504, 507, 599}) EXPECT_EQ(served_with(status), Served::badly) << status;
  for (const int status : {200, 302, 404, 429, 499, 501, 505}) EXPECT_EQ(served_with(status), Served::well) << status;
}

}  // namespace once::gateway::upstream_ejection_test
