// The Redis store when a master dies: a replica takes over, by the cluster itself or by sentinels, and operations go
// on. What was told to be on a replica is still there.
#include <algorithm>
#include <set>
#include <tuple>

#include <gmock/gmock.h>

#include "tests/store/redis_harness.hpp"

namespace once::redis_test {
namespace redis_failover_test {

using std::chrono::milliseconds;

struct Kept {
  OperationId id;
  Nonce nonce;
};

// Finished with an answer from a replica.
std::vector<Kept> make_kept(int count) {
  const auto store = open_store(contract::server_url(), {.wait_replicas = 1, .wait_timeout = milliseconds(5000)});
  Caller caller(*store);
  std::vector<Kept> kept;
  for (int i = 0; i < count; ++i) {
    const Kept it{caller.new_id(), caller.new_nonce()};
    EXPECT_EQ(caller.claim(it.id, it.nonce).verdict, Verdict::execute);
    EXPECT_EQ(caller.finish(it.id, it.nonce, to_hex(it.id)).status, OpStatus::done);
    kept.push_back(it);
  }
  return kept;
}

// How many of these a list shows.
std::size_t listed(Search& search, const std::vector<Kept>& kept) {
  std::set<OperationId> seen;
  std::string cursor;
  do {
    const auto page = search.scan({}, cursor, 1000);
    EXPECT_TRUE(page.has_value()) << page.error().detail;
    if (!page) return 0;
    for (const KeyInfo& info : page->keys) seen.insert(info.id);
    cursor = page->next;
  } while (!cursor.empty());
  return static_cast<std::size_t>(std::ranges::count_if(kept, [&](const Kept& it) { return seen.contains(it.id); }));
}

StoreHost current_master() {
  const auto options = redis::parse_options(contract::server_url());
  if (options->mode == redis::Mode::cluster) return options->hosts.back();
  Peer sentinel(options->hosts.front());
  const std::string said = sentinel.ask({"SENTINEL", "GET-MASTER-ADDR-BY-NAME", options->sentinel_name});
  const auto parts = split(said, '\n');
  return {.name = std::string(parts[0]), .port = static_cast<std::uint16_t>(*parse_number(parts[1]))};
}

// The port of a replica, as a master knows it.
StoreHost a_replica_of(const StoreHost& master) {
  const std::string said = Peer(master).info("replication", "slave0");  // ip=…,port=…,state=…
  const auto parts = split(said, ',');
  return {.name = std::string(parts[0].substr(3)),
          .port = static_cast<std::uint16_t>(*parse_number(parts[1].substr(5)))};
}

TEST(RedisFailover, a_master_that_steps_down_under_load_loses_nothing) {
  if (redis::parse_options(contract::server_url())->mode != redis::Mode::cluster) {
    GTEST_SKIP() << "sentinels do not wait for the replica to have everything";
  }
  const auto store = open_store(contract::server_url());
  const auto idle = open_store(contract::server_url());
  const std::vector<Kept> kept = make_kept(600);  // more than a step of a list on every server
  EXPECT_EQ(listed(*idle->search(), kept), kept.size());
  Workload work(*store, 6);
  ASSERT_TRUE(eventually([&] { return work.done() > 100; }));
  const auto page = store->search()->scan({}, "", 1);
  ASSERT_TRUE(page.has_value()) << page.error().detail;
  // Another one than the next test kills: Redis 7.0 confuses elections that follow each other too soon.
  const StoreHost replica = a_replica_of(first_host());
  // Redis gives up after five seconds if the machine is too busy; then it is asked again.
  const auto steps_up = [&] {
    EXPECT_EQ(Peer(replica).ask({"CLUSTER", "FAILOVER"}), "OK");
    const auto is_master = [&] { return Peer(replica).info("replication", "role") == "master"; };
    return eventually(is_master, std::chrono::seconds(7));
  };
  ASSERT_TRUE(steps_up() || steps_up() || steps_up());
  const std::uint64_t before = work.done();
  ASSERT_TRUE(eventually([&] { return work.done() > before + 200; }));
  work.stop();
  work.check();
  // A list that begins asks who has what; until all servers know, the old one may still be named, and goes on.
  const auto is_refused = [&] {
    std::ignore = store->search()->scan({}, "", 1);
    const auto next = store->search()->scan({}, page->next, 1000);
    return !next && is_bad_cursor(next.error());
  };
  EXPECT_TRUE(eventually(is_refused)) << "a list went on at another server, where its place means nothing";
  EXPECT_EQ(listed(*idle->search(), kept), kept.size()) << "who has not heard of it shows what a replica may not tell";
  ASSERT_TRUE(eventually([&] { return Peer(first_host()).info("replication", "master_link_status") == "up"; }));
}

TEST(RedisFailover, a_replica_takes_over_and_operations_go_on) {
  const std::vector<Kept> kept = make_kept(60);
  const auto store = open_store(contract::server_url());
  Caller caller(*store);
  for (const Kept& it : kept) ASSERT_EQ(caller.claim(it.id, caller.new_nonce()).verdict, Verdict::replay);

  const pid_t master = Peer(current_master()).process();
  ASSERT_EQ(::kill(master, SIGKILL), 0);
  // The outage is told as such, never as an answer; and it ends.
  for (int i = 0; i < 60; ++i) {
    const OperationId id = caller.new_id();
    const Nonce nonce = caller.new_nonce();
    const Op claim = caller.until_done([&] { return caller.claim(id, nonce); });
    ASSERT_EQ(claim.status, OpStatus::done) << claim.error;
    EXPECT_EQ(claim.verdict, Verdict::execute);
    EXPECT_EQ(claim.record->attempt, Attempt{1});
    const Op finish = caller.until_done([&] { return caller.finish(id, nonce, "x"); });
    EXPECT_EQ(finish.status, OpStatus::done) << finish.error;
  }
  for (const Kept& it : kept) {
    const Op replay = caller.claim(it.id, caller.new_nonce());
    ASSERT_EQ(replay.status, OpStatus::done) << replay.error;
    ASSERT_EQ(replay.verdict, Verdict::replay);
    EXPECT_EQ(*replay.record->outcome, to_hex(it.id));
  }
}

}  // namespace redis_failover_test
}  // namespace once::redis_test
