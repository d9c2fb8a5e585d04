// Which server of a backend a request goes to, and what happens when there is no connection to be had.
#include "gateway/upstream/upstream_group.hpp"

#include <fcntl.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "tests/unit/http/loop_run.hpp"
#include "tests/unit/support/fake_server.hpp"

namespace once::gateway::upstream_group_test {

using namespace std::chrono_literals;
using http::FakeServer;
using http::long_enough;
using http::UpstreamConnectionPtr;
using testing::ElementsAre;

// Two servers, and one worker's connections to them.
struct World {
  explicit World(const std::function<void(Upstream&)>& change = [](Upstream&) {}, WorkerShare share = WorkerShare()) {
    Upstream upstream;
    upstream.name = "test";
    upstream.fail_timeout = 1h;
    for (const FakeServer& server : servers) {
      UpstreamServer at;
      at.host = server.endpoint().text();
      upstream.servers.push_back(at);
    }
    change(upstream);
    state = std::make_unique<UpstreamState>(upstream, nullptr);
    for (std::size_t i = 0; i < upstream.servers.size(); ++i) {
      state->servers.push_back(
          std::make_unique<ServerState>(upstream, upstream.servers[i], servers[i].endpoints(), state->ejected));
    }
    const UpstreamGroup::Ports ports{.loop = run.loop, .metrics = metrics, .log = log};
    group = std::make_unique<UpstreamGroup>(*state, PoolSettings(), share, ports);
  }

  Duration limit = long_enough;

  // As a request does.
  Task<UpstreamConnectionPtr> connection(UpstreamGroup::Turn& turn) {
    UpstreamConnectionPtr rested = group->take_idle(turn, 1h);
    if (rested) co_return std::move(rested);
    UpstreamConnectionPtr made = co_await group->connect(turn, 1h, limit);
    co_return std::move(made);
  }
  std::size_t server_of(const UpstreamGroup::Turn& turn) const {
    return &group->server(turn) == state->servers[0].get() ? 0 : 1;
  }
  void play(Task<void> (*story)(World&)) {
    run.play(story(*this));
    EXPECT_EQ(group->queued(), 0U);
    EXPECT_EQ(state->queued, 0U);
    group.reset();
  }

  ~World() { ::close(nowhere); }

  http::LoopRun run;
  std::vector<FakeServer> servers{2};
  SystemClock clock;
  int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  Log log{clock, nowhere, LogLevel::debug, LogFormat::json};
  Metrics metrics;
  std::unique_ptr<UpstreamState> state;
  std::unique_ptr<UpstreamGroup> group;
  std::vector<std::size_t> order;  // the servers of the requests of a story
};

// A request that is at work until it is told to end.
struct AtWork {
  UpstreamGroup::Turn turn;
  UpstreamConnectionPtr connection;
  bool ended = false;  // its search
};

Task<void> begin(World& world, AtWork& request) {
  request.connection = co_await world.connection(request.turn);
  request.ended = true;
}

Task<AtWork> begun(World& world) {
  AtWork request;
  co_await begin(world, request);
  co_return request;
}

Task<void> until_ended(World& world, const AtWork& request) {
  while (!request.ended) co_await sleep_for(world.run.loop, 10ms);
}

Task<void> one_after_the_other(World& world) {
  std::vector<AtWork> requests(4);
  for (AtWork& request : requests) {
    co_await begin(world, request);
    world.order.push_back(world.server_of(request.turn));
  }
}

TEST(UpstreamGroupTest, round_robin_goes_from_one_to_the_next) {
  World world;
  world.play(one_after_the_other);
  EXPECT_THAT(world.order, ElementsAre(0, 1, 0, 1));
}

TEST(UpstreamGroupTest, workers_begin_with_different_servers) {
  World world([](Upstream&) {}, {.worker = 1, .workers = 2});
  world.play(one_after_the_other);
  EXPECT_THAT(world.order, ElementsAre(1, 0, 1, 0));
}

TEST(UpstreamGroupTest, least_connections_goes_where_there_is_least_to_do) {
  World world([](Upstream& upstream) { upstream.balance = Balance::least_connections; });
  world.play([](World& world) -> Task<void> {
    std::vector<AtWork> requests(4);
    co_await begin(world, requests[0]);
    co_await begin(world, requests[1]);
    requests[1].connection.reset();  // the second server has none at work now
    for (std::size_t i = 2; i < requests.size(); ++i) {
      co_await begin(world, requests[i]);
      world.order.push_back(world.server_of(requests[i].turn));
      requests[i].connection.reset();
    }
  });
  EXPECT_THAT(world.order, ElementsAre(1, 1)) << "round robin would have gone back to the first";
}

TEST(UpstreamGroupTest, a_connection_that_rests_at_the_server_at_hand_is_taken_first) {
  World world;
  world.play([](World& world) -> Task<void> {
    AtWork first = co_await begun(world);
    const int far = world.servers[0].accept();
    co_await answer_fully(*first.connection, far);
    first.connection.reset();
    AtWork second;
    AtWork third;
    co_await begin(world, second);
    co_await begin(world, third);
    EXPECT_FALSE(second.connection->reused()) << "the other server's turn";
    EXPECT_TRUE(third.connection->reused());
    EXPECT_EQ(world.server_of(third.turn), 0U);
  });
}

std::function<void(Upstream&)> down_after(unsigned failures) {
  return [failures](Upstream& upstream) { upstream.health.failures = failures; };
}

Task<void> one_is_dead(World& world) {
  for (int i = 0; i < 4; ++i) {
    AtWork request = co_await begun(world);
    EXPECT_TRUE(request.connection);
    if (request.connection) EXPECT_EQ(world.server_of(request.turn), 1U);
  }
}

TEST(UpstreamGroupTest, another_server_is_tried_when_one_cannot_be_reached) {
  World world(down_after(5));
  world.servers[0].stop();
  world.play(one_is_dead);
  EXPECT_EQ(world.metrics.backend_connect_failures.value(), 4U) << "its turn comes again and again";
  EXPECT_TRUE(world.state->servers[0]->health.shown_up()) << "four failures are not five";
}

TEST(UpstreamGroupTest, after_enough_failures_a_server_is_avoided) {
  World world(down_after(1));
  world.servers[0].stop();
  world.play(one_is_dead);
  EXPECT_EQ(world.metrics.backend_connect_failures.value(), 1U);
  EXPECT_FALSE(world.state->servers[0]->health.shown_up());
}

TEST(UpstreamGroupTest, a_server_that_was_avoided_is_tried_again_after_fail_timeout) {
  World world([](Upstream& upstream) {
    upstream.health.failures = 1;
    upstream.fail_timeout = 50ms;
  });
  world.servers[0].stop();
  world.play([](World& world) -> Task<void> {
    AtWork first = co_await begun(world);
    EXPECT_EQ(world.server_of(first.turn), 1U);
    world.servers[0].listen();
    std::size_t times = 0;
    while (!world.state->servers[0]->health.shown_up() && ++times < 1000) {
      AtWork next = co_await begun(world);
      co_await sleep_for(world.run.loop, 10ms);
    }
    AtWork one;
    AtWork other;
    co_await begin(world, one);
    co_await begin(world, other);
    EXPECT_NE(world.server_of(one.turn), world.server_of(other.turn)) << "both take part again";
  });
}

TEST(UpstreamGroupTest, a_server_whose_name_is_not_found_yet_gets_nothing) {
  World world(down_after(1));
  world.state->servers[0]->addresses.publish({});
  world.state->servers[0]->health.set_located(false);
  world.play([](World& world) -> Task<void> {
    for (int i = 0; i < 4; ++i) {
      AtWork request = co_await begun(world);
      EXPECT_EQ(world.server_of(request.turn), 1U);
    }
    ServerState& server = *world.state->servers[0];
    server.addresses.publish(world.servers[0].endpoints());
    server.health.set_located(true);
    std::vector<AtWork> requests(2);
    for (AtWork& request : requests) co_await begin(world, request);
    EXPECT_NE(world.server_of(requests[0].turn), world.server_of(requests[1].turn)) << "at once, both take part";
  });
  EXPECT_EQ(world.metrics.backend_connect_failures.value(), 0U);
}

TEST(UpstreamGroupTest, when_no_name_is_found_nothing_can_be_reached_until_one_is) {
  World world(down_after(1));
  for (const auto& server : world.state->servers) {
    server->addresses.publish({});
    server->health.set_located(false);
  }
  world.play([](World& world) -> Task<void> {
    for (int i = 0; i < 4; ++i) {
      AtWork request = co_await begun(world);
      EXPECT_FALSE(request.connection);
      EXPECT_FALSE(request.turn.busy());
    }
    for (std::size_t i = 0; i < world.servers.size(); ++i) {
      world.state->servers[i]->addresses.publish(world.servers[i].endpoints());
      world.state->servers[i]->health.set_located(true);
    }
    AtWork request = co_await begun(world);
    EXPECT_TRUE(request.connection) << "none of them is avoided for what was tried before";
    EXPECT_TRUE(world.state->servers[0]->health.shown_up());
    EXPECT_TRUE(world.state->servers[1]->health.shown_up());
  });
}

TEST(UpstreamGroupTest, when_no_server_can_be_reached_that_is_said_after_trying_all) {
  World world;
  world.servers[0].stop();
  world.servers[1].stop();
  world.play([](World& world) -> Task<void> {
    AtWork request = co_await begun(world);
    EXPECT_FALSE(request.connection);
    EXPECT_FALSE(request.turn.busy());
  });
  EXPECT_EQ(world.metrics.backend_connects.value(), 2U);
}

TEST(UpstreamGroupTest, a_server_that_takes_no_byte_counts_as_not_reached) {
  World world;
  world.play([](World& world) -> Task<void> {
    AtWork request = co_await begun(world);
    EXPECT_EQ(world.server_of(request.turn), 0U);
    request.connection.reset();
    world.group->took_nothing(request.turn);
    co_await begin(world, request);
    EXPECT_EQ(world.server_of(request.turn), 1U);
    request.connection.reset();
    world.group->took_nothing(request.turn);
    co_await begin(world, request);
    EXPECT_FALSE(request.connection) << "each server once";
  });
}

TEST(UpstreamGroupTest, when_all_are_down_all_are_tried) {
  World world(down_after(1));
  for (const auto& server : world.state->servers) EXPECT_EQ(server->health.checked(false), ServerHealth::Change::down);
  world.play([](World& world) -> Task<void> {
    for (int i = 0; i < 2; ++i) {
      AtWork request = co_await begun(world);
      EXPECT_TRUE(request.connection);
    }
  });
}

TEST(UpstreamGroupTest, a_server_that_checks_say_is_down_gets_nothing) {
  World world(down_after(1));
  world.state->servers[0]->health.checked(false);
  world.play(one_is_dead);
  EXPECT_EQ(world.metrics.backend_connect_failures.value(), 0U);
}

TEST(UpstreamGroupTest, a_server_that_answers_badly_is_ejected) {
  World world([](Upstream& upstream) { upstream.eject.failures = 2; });
  world.play([](World& world) -> Task<void> {
    for (int i = 0; i < 6; ++i) {
      AtWork request = co_await begun(world);
      world.order.push_back(world.server_of(request.turn));
      world.group->served(request.turn, world.order.back() == 0 ? Served::badly : Served::well);
    }
  });
  EXPECT_THAT(world.order, ElementsAre(0, 1, 0, 1, 1, 1));
  EXPECT_TRUE(world.state->servers[0]->ejection.ejected());
  EXPECT_TRUE(world.state->servers[0]->health.shown_up()) << "it can be reached";
}

TEST(UpstreamGroupTest, half_of_the_servers_at_most_are_ejected) {
  World world([](Upstream& upstream) { upstream.eject.failures = 2; });
  world.play([](World& world) -> Task<void> {
    for (int i = 0; i < 20; ++i) {
      AtWork request = co_await begun(world);
      EXPECT_TRUE(request.connection);
      world.group->served(request.turn, Served::badly);
    }
  });
  const auto& servers = world.state->servers;
  EXPECT_NE(servers[0]->ejection.ejected(), servers[1]->ejection.ejected());
}

TEST(UpstreamGroupTest, a_server_that_cannot_be_reached_is_ejected_like_one_that_answers_badly) {
  World world([](Upstream& upstream) {
    upstream.eject.failures = 1;
    upstream.health.failures = 1000;
  });
  world.servers[0].stop();
  world.play(one_is_dead);
  EXPECT_EQ(world.metrics.backend_connect_failures.value(), 1U);
  EXPECT_TRUE(world.state->servers[0]->ejection.ejected());
}

TEST(UpstreamGroupTest, a_retry_goes_to_a_server_that_was_not_tried) {
  World world;
  world.play([](World& world) -> Task<void> {
    AtWork request = co_await begun(world);
    const std::size_t first = world.server_of(request.turn);
    EXPECT_EQ(world.group->retry_elsewhere(request.turn), UpstreamGroup::Retried::yes);
    UpstreamConnectionPtr second = co_await world.connection(request.turn);
    EXPECT_TRUE(second);
    EXPECT_NE(world.server_of(request.turn), first);
    EXPECT_EQ(world.group->retry_elsewhere(request.turn), UpstreamGroup::Retried::no) << "there is no third";
  });
  EXPECT_EQ(world.state->retries, 1U);
}

TEST(UpstreamGroupTest, retries_have_a_budget) {
  World world;
  world.play([](World& world) -> Task<void> {
    std::size_t retries = 0;
    for (int i = 0; i < 100; ++i) {
      AtWork request = co_await begun(world);
      world.group->earn_retry();
      if (world.group->retry_elsewhere(request.turn) == UpstreamGroup::Retried::yes) ++retries;
    }
    EXPECT_GE(retries, 10U + 9U);
    EXPECT_LE(retries, 10U + 10U);
  });
}

void single_server(Upstream& upstream) {
  upstream.servers.pop_back();
  upstream.max_connections = 1;
}

std::function<void(Upstream&)> single_server_with(const std::function<void(Upstream&)>& change) {
  return [change](Upstream& upstream) {
    single_server(upstream);
    change(upstream);
  };
}

TEST(UpstreamGroupTest, at_the_limit_requests_wait_in_the_order_they_came) {
  World world(single_server);
  world.play([](World& world) -> Task<void> {
    AtWork holds = co_await begun(world);
    std::vector<AtWork> waiting(3);
    for (AtWork& request : waiting) world.run.start(begin(world, request));
    EXPECT_EQ(world.group->queued(), 3U);
    EXPECT_EQ(world.state->queued, 3U);
    holds.connection.reset();
    for (AtWork& request : waiting) {
      co_await until_ended(world, request);
      EXPECT_TRUE(request.connection);
      EXPECT_EQ(world.state->servers[0]->connections, 1U) << "one at a time";
      for (const AtWork& other : waiting) EXPECT_TRUE(&other <= &request || !other.ended) << "in their order";
      request.connection.reset();
    }
  });
  EXPECT_EQ(world.state->queue_refused, 0U);
}

TEST(UpstreamGroupTest, a_full_queue_refuses_at_once) {
  World world(single_server_with([](Upstream& upstream) { upstream.queue = 1; }));
  world.play([](World& world) -> Task<void> {
    AtWork holds = co_await begun(world);
    AtWork waits;
    world.run.start(begin(world, waits));
    AtWork refused = co_await begun(world);
    EXPECT_FALSE(refused.connection);
    EXPECT_TRUE(refused.turn.busy());
    EXPECT_FALSE(waits.ended);
    holds.connection.reset();
    co_await until_ended(world, waits);
    EXPECT_TRUE(waits.connection);
  });
  EXPECT_EQ(world.state->queue_refused, 1U);
}

Task<void> waits_in_vain(World& world) {
  AtWork holds = co_await begun(world);
  AtWork waits = co_await begun(world);
  EXPECT_FALSE(waits.connection);
  EXPECT_TRUE(waits.turn.busy());
}

TEST(UpstreamGroupTest, nobody_waits_longer_than_a_connect_may_take_or_without_a_queue) {
  World impatient(single_server);
  impatient.limit = 20ms;
  impatient.play(waits_in_vain);
  World without_queue(single_server_with([](Upstream& upstream) { upstream.queue = 0; }));
  without_queue.play(waits_in_vain);
}

TEST(UpstreamGroupTest, whoever_gives_up_leaves_the_queue_to_the_others) {
  World world(single_server);
  world.play([](World& world) -> Task<void> {
    AtWork holds = co_await begun(world);
    AtWork leaves;
    AtWork stays;
    world.run.start(begin(world, leaves));
    world.run.start(begin(world, stays));
    world.group->give_up(leaves.turn);
    co_await until_ended(world, leaves);
    EXPECT_FALSE(leaves.connection);
    EXPECT_EQ(world.group->queued(), 1U);
    holds.connection.reset();
    co_await until_ended(world, stays);
    EXPECT_TRUE(stays.connection);
  });
}

TEST(UpstreamGroupTest, whoever_gave_up_does_not_enter_it) {
  World world(single_server);
  world.play([](World& world) -> Task<void> {
    AtWork holds = co_await begun(world);
    AtWork gone;
    world.group->give_up(gone.turn);
    co_await begin(world, gone);
    EXPECT_TRUE(gone.turn.busy());
  });
}

TEST(UpstreamGroupTest, a_server_at_its_limit_is_passed_over_while_another_has_room) {
  World world([](Upstream& upstream) {
    upstream.max_connections = 1;
    upstream.balance = Balance::least_connections;
  });
  world.play([](World& world) -> Task<void> {
    std::vector<AtWork> requests(2);
    for (AtWork& request : requests) co_await begin(world, request);
    EXPECT_NE(world.server_of(requests[0].turn), world.server_of(requests[1].turn));
    AtWork waits;
    world.run.start(begin(world, waits));
    EXPECT_EQ(world.group->queued(), 1U);
    requests[1].connection.reset();
    co_await until_ended(world, waits);
    EXPECT_EQ(world.server_of(waits.turn), 1U) << "where a connection came free";
  });
}

// The place that came free is promised to the one who waits: nobody who comes between may take it.
TEST(UpstreamGroupTest, a_place_that_came_free_is_for_who_waited) {
  World world(single_server);
  world.play([](World& world) -> Task<void> {
    AtWork holds = co_await begun(world);
    AtWork waits;
    world.run.start(begin(world, waits));
    holds.connection.reset();
    AtWork late;
    world.run.start(begin(world, late));
    EXPECT_FALSE(late.ended);
    co_await until_ended(world, waits);
    EXPECT_FALSE(late.ended);
    waits.connection.reset();
    co_await until_ended(world, late);
  });
}

TEST(UpstreamGroupTest, those_who_wait_for_a_server_that_died_are_told_so) {
  World world(single_server);
  world.play([](World& world) -> Task<void> {
    AtWork holds = co_await begun(world);
    std::vector<AtWork> waiting(2);
    for (AtWork& request : waiting) world.run.start(begin(world, request));
    world.servers[0].stop();
    holds.connection.reset();
    for (AtWork& request : waiting) {
      co_await until_ended(world, request);
      EXPECT_FALSE(request.connection);
      EXPECT_FALSE(request.turn.busy()) << "it could not be reached";
    }
  });
}

TEST(WorkerShareTest, limits_are_shared_fairly_and_everybody_gets_something) {
  const auto shares = [](std::size_t total, unsigned workers) {
    std::vector<std::size_t> all;
    for (unsigned i = 0; i < workers; ++i) all.push_back(WorkerShare{.worker = i, .workers = workers}.of(total));
    return all;
  };
  EXPECT_THAT(shares(10, 4), ElementsAre(3, 3, 2, 2));
  EXPECT_THAT(shares(1, 3), ElementsAre(1, 1, 1));
  EXPECT_THAT(shares(0, 2), ElementsAre(0, 0)) << "no limit is no limit for each";
}

}  // namespace once::gateway::upstream_group_test
