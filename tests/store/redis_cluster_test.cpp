// The Redis store on a cluster: slots that move under load, and what a cluster does differently from one server.
#include <algorithm>
#include <ranges>
#include <set>

#include <gmock/gmock.h>

#include "base/task.hpp"
#include "store/lane.hpp"
#include "tests/store/redis_harness.hpp"
#include "tests/unit/store/lane_doubles.hpp"

namespace once::redis_test {
namespace redis_cluster_test {

using std::chrono::milliseconds;
using testing::HasSubstr;

class RedisCluster : public RedisTest {
 protected:
  void SetUp() override {
    if (!on_cluster()) GTEST_SKIP() << "it is about several servers";
  }

  void begin_move(std::uint16_t slot, Peer& from, Peer& to) {
    const std::string number = std::to_string(slot);
    ASSERT_EQ(to.ask({"CLUSTER", "SETSLOT", number, "IMPORTING", from.ask({"CLUSTER", "MYID"})}), "OK");
    ASSERT_EQ(from.ask({"CLUSTER", "SETSLOT", number, "MIGRATING", to.ask({"CLUSTER", "MYID"})}), "OK");
  }
  // A slot's keys go to another node one by one, while others use them.
  void move_slot(std::uint16_t slot, Peer& from, Peer& to) {
    const std::string number = std::to_string(slot);
    const std::string to_id = to.ask({"CLUSTER", "MYID"});
    begin_move(slot, from, to);
    for (int quiet = 0; quiet < 20;) {  // new keys are made at the target meanwhile: that is ASK
      const std::string keys = from.ask({"CLUSTER", "GETKEYSINSLOT", number, "1"});
      if (keys.empty()) {
        ++quiet;
        continue;
      }
      const std::string port = std::to_string(to.host().port);
      const std::string moved = from.ask({"MIGRATE", "127.0.0.1", port, std::string(trim(keys)), "0", "5000"});
      ASSERT_TRUE(moved == "OK" || moved == "NOKEY") << moved;
    }
    ASSERT_EQ(to.ask({"CLUSTER", "SETSLOT", number, "NODE", to_id}), "OK");
    ASSERT_EQ(from.ask({"CLUSTER", "SETSLOT", number, "NODE", to_id}), "OK");
    ASSERT_TRUE(eventually([&] { return all_agree(); }));
  }

  // Nodes that take slots before they have heard of each other's last change may choose the same epoch for two changes.
  // Then the cluster sets one of them aside, with the keys that came by it.
  bool all_agree() {
    std::set<std::set<std::string>> views;
    for (Peer& peer : peers_) {
      std::set<std::string> masters;  // id, epoch and slots of each
      const std::string nodes = peer.ask({"CLUSTER", "NODES"});
      for (const std::string_view line : split(nodes, '\n')) {
        const std::vector<std::string_view> fields = split(line, ' ');
        if (fields.size() < 8 || !fields[2].contains("master")) continue;
        std::string master(fields[0]);
        for (const std::size_t i : std::views::iota(6UZ, fields.size())) {
          if (i != 7) master.append(" ").append(fields[i]);  // whether it is connected
        }
        masters.insert(std::move(master));
      }
      views.insert(std::move(masters));
    }
    return views.size() == 1 && views.begin()->size() == 3;
  }
};

// An id whose key is in one of these slots. Ids are random; this one is made so by trying.
bool is_in(const OperationId& id, std::uint16_t first, std::uint16_t last) {
  const std::uint16_t slot = redis::slot_of(key_of(id));
  return slot >= first && slot <= last;
}
OperationId id_in(Caller& caller, std::uint16_t first, std::uint16_t last) {
  for (;;) {
    const OperationId id = caller.new_id();
    if (is_in(id, first, last)) return id;
  }
}

TEST_F(RedisCluster, slots_are_those_that_redis_computes) {
  Caller caller(*open_store(contract::server_url()));
  for (int i = 0; i < 50; ++i) {
    const std::string key = key_of(caller.new_id());
    EXPECT_EQ(std::to_string(redis::slot_of(key)), peers_[0].ask({"CLUSTER", "KEYSLOT", key}));
  }
  for (const std::string key : {"{user1000}.a", "foo{}{bar}", "foo{{bar}}zap", "foo{bar}{zap}", "{", "}{", "", "{}"}) {
    EXPECT_EQ(std::to_string(redis::slot_of(key)), peers_[0].ask({"CLUSTER", "KEYSLOT", key})) << key;
  }
}

TEST_F(RedisCluster, slots_that_move_under_load_lose_nothing_and_execute_nothing_twice) {
  const auto store = open_store(contract::server_url());
  constexpr std::uint16_t first = 100;
  constexpr std::uint16_t last = 400;  // all with the first master
  Workload work(*store, 6, [](const OperationId& id) { return is_in(id, first, last); });
  ASSERT_TRUE(eventually([&] { return work.done() > 200; }));
  ASSERT_EQ(peers_[1].ask({"SCRIPT", "FLUSH"}), "OK") << "the target knows no script at first";
  for (std::uint16_t slot = first; slot <= last; slot += 15) move_slot(slot, peers_[0], peers_[1]);
  const std::uint64_t before = work.done();
  ASSERT_TRUE(eventually([&] { return work.done() > before + 200; }));
  for (std::uint16_t slot = first; slot <= last; slot += 15) move_slot(slot, peers_[1], peers_[0]);
  work.stop();
  work.check();
  EXPECT_EQ(work.failed(), 0U) << "a redirection is no reason to fail";
  EXPECT_GT(store->stats().retried, 0U) << "nobody was redirected, so nothing was tested";
  EXPECT_EQ(store->stats().indeterminate, 0U);
}

TEST_F(RedisCluster, a_slot_on_its_way_is_asked_for_at_both_ends) {
  const auto store = open_store(contract::server_url());
  Caller caller(*store);
  const OperationId here = id_in(caller, 500, 5000);
  const std::uint16_t slot = redis::slot_of(key_of(here));
  const OperationId there = id_in(caller, slot, slot);
  const Nonce nonce = caller.new_nonce();
  ASSERT_EQ(caller.claim(here, nonce).verdict, Verdict::execute);

  const std::string number = std::to_string(slot);
  begin_move(slot, peers_[0], peers_[1]);
  const std::uint64_t redirected = store->stats().retried;
  ASSERT_EQ(caller.claim(here, nonce).verdict, Verdict::execute);
  EXPECT_EQ(store->stats().retried, redirected) << "what is still here is answered here";
  ASSERT_EQ(caller.claim(there, caller.new_nonce()).verdict, Verdict::execute);
  EXPECT_EQ(store->stats().retried, redirected + 1) << "what is not is asked for there";
  EXPECT_EQ(caller.claim(there, caller.new_nonce()).verdict, Verdict::in_flight);
  EXPECT_EQ(peers_[0].ask({"CLUSTER", "COUNTKEYSINSLOT", number}), "1");
  EXPECT_EQ(peers_[1].ask({"CLUSTER", "COUNTKEYSINSLOT", number}), "1");
  move_slot(slot, peers_[0], peers_[1]);
  EXPECT_EQ(caller.finish(here, nonce, "x").status, OpStatus::done);
  move_slot(slot, peers_[1], peers_[0]);
  EXPECT_EQ(caller.claim(here, caller.new_nonce()).verdict, Verdict::replay);
}

// A script with two keys needs both at the same node. A list that begins while its slot moves would be refused, so
// these have begun.
TEST_F(RedisCluster, streams_go_on_while_their_slot_moves) {
  const auto store = open_store(contract::server_url());
  Caller caller(*store);
  struct Stream {
    OperationId id;
    Nonce nonce;
    std::uint32_t chunks = 0;
  };
  std::vector<Stream> streams;
  const std::uint16_t slot = redis::slot_of(key_of(id_in(caller, 500, 5000)));
  for (int i = 0; i < 3; ++i) {
    streams.push_back({.id = id_in(caller, slot, slot), .nonce = caller.new_nonce()});
    ASSERT_EQ(caller.claim(streams.back().id, streams.back().nonce).verdict, Verdict::execute);
  }
  const auto append_to_all = [&] {
    for (Stream& stream : streams) {
      const Op op = caller.until_done(
          [&] { return caller.append(stream.id, stream.nonce, stream.chunks, std::to_string(stream.chunks)); });
      ASSERT_EQ(op.status, OpStatus::done) << op.error;
      ++stream.chunks;
    }
  };
  append_to_all();
  {
    std::atomic<bool> stopping{false};
    const std::jthread appending([&] {
      while (!stopping) append_to_all();
    });
    for (int round = 0; round < 5; ++round) {
      move_slot(slot, peers_[0], peers_[1]);
      move_slot(slot, peers_[1], peers_[0]);
    }
    stopping = true;
  }
  EXPECT_GT(store->stats().retried, 0U) << "nobody was redirected, so nothing was tested";
  for (const Stream& stream : streams) {
    const Op op = caller.read(stream.id);
    ASSERT_EQ(op.chunks.size(), stream.chunks);
    for (std::uint32_t i = 0; i < stream.chunks; ++i) EXPECT_EQ(*op.chunks[i], std::to_string(i));
  }
}

// By somebody who has not heard of the move: that a key is not there is said by whoever would have it.
TEST_F(RedisCluster, an_operator_finds_a_key_wherever_it_has_moved) {
  const auto store = open_store(contract::server_url());
  Caller caller(*store);
  const OperationId id = id_in(caller, 500, 5000);
  ASSERT_EQ(caller.claim(id, caller.new_nonce()).verdict, Verdict::execute);
  const auto found = [&] {
    const auto page = store->search()->get(id);
    EXPECT_TRUE(page.has_value()) << page.error().detail;
    return page && page->keys.size() == 1 && page->keys.front().id == id;
  };
  EXPECT_TRUE(found());
  const std::uint16_t slot = redis::slot_of(key_of(id));
  const std::string port = std::to_string(peers_[1].host().port);
  begin_move(slot, peers_[0], peers_[1]);
  ASSERT_EQ(peers_[0].ask({"MIGRATE", "127.0.0.1", port, key_of(id), "0", "5000"}), "OK");
  EXPECT_TRUE(found()) << "the slot is on its way, and the key is there already";
  move_slot(slot, peers_[0], peers_[1]);
  EXPECT_TRUE(found()) << "the slot has moved";
  move_slot(slot, peers_[1], peers_[0]);
  EXPECT_TRUE(found()) << "the slot has moved back";
}

TEST_F(RedisCluster, a_batch_over_all_nodes_is_one_round_and_keeps_its_order) {
  const auto store = open_store(contract::server_url());
  Caller caller(*store);
  std::vector<Op> ops;
  for (int i = 0; i < 300; ++i) {
    ops.push_back({.verb = Verb::claim,
                   .id = caller.new_id(),
                   .nonce = caller.new_nonce(),
                   .fingerprint = request,
                   .terms = Caller::usual});
  }
  caller.run_all(ops);
  for (const Op& op : ops) {
    ASSERT_EQ(op.status, OpStatus::done) << op.error;
    EXPECT_EQ(op.record->nonce, op.nonce);
    EXPECT_EQ(caller.lookup(op.id).record->nonce, op.nonce);
  }
  EXPECT_EQ(store->stats().connections, 3U);
  EXPECT_EQ(store->stats().retried, 0U);
}

// Claims that go through lanes, and how many of them have been answered.
class Crowd {
 public:
  explicit Crowd(RedisStore& store, std::size_t lanes) : caller_(store), lanes_(store, {.lanes = lanes}) {}
  ~Crowd() { lanes_.stop(); }

  // Returns how many of them the first node has.
  std::size_t claim(std::size_t count) {
    std::size_t first = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const OperationId id = caller_.new_id();
      if (is_in(id, 0, redis::slot_count / 3 - 1)) ++first;
      spawn(one(id, caller_.new_nonce()));
    }
    return first;
  }
  bool await(std::size_t done) {
    return eventually([&] { return done_.load() >= done; }) && done_.load() == done;
  }
  std::size_t failed() const { return failed_; }

 private:
  Task<void> one(OperationId id, Nonce nonce) {
    Op op{.verb = Verb::claim, .id = id, .nonce = nonce, .fingerprint = request, .terms = Caller::usual};
    co_await lanes_.run(op, home_);
    if (op.status != OpStatus::done || op.verdict != Verdict::execute) ++failed_;
    ++done_;
  }

  Caller caller_;
  std::atomic<std::size_t> done_{0};
  std::atomic<std::size_t> failed_{0};
  LoopExecutor home_;
  ThreadLanes lanes_;
};

TEST_F(RedisCluster, a_node_that_hangs_stops_its_own_slots_only) {
  const auto store =
      open_store(contract::server_url(),
                 {.connections = 1, .connect_timeout = std::chrono::hours(1), .timeout = std::chrono::hours(1)});
  Crowd crowd(*store, 1);
  std::size_t all = 300;
  std::size_t hung = 0;
  crowd.claim(all);
  ASSERT_TRUE(crowd.await(all));
  Stopped stopped(peers_[0]);
  for (int round = 0; round < 5; ++round, all += 300) {
    hung += crowd.claim(300);
    ASSERT_TRUE(crowd.await(all + 300 - hung)) << "round " << round;
  }
  EXPECT_GT(hung, 0U);
  stopped.resume();
  EXPECT_TRUE(crowd.await(all));
  EXPECT_EQ(crowd.failed(), 0U);
}

TEST_F(RedisCluster, a_node_that_did_not_answer_is_not_waited_for_again_until_it_does) {
  const auto store = open_store(contract::server_url(), {.timeout = milliseconds(300)});
  Caller caller(*store);
  const OperationId lost = id_in(caller, 0, 5000);
  {
    // Several links to it, each of which could be waited for.
    Workload work(*store, 4, [](const OperationId& id) { return is_in(id, 0, 5000); });
    ASSERT_TRUE(eventually([&] { return store->stats().connections >= 5; }));
  }
  const std::uint64_t before = store->stats().indeterminate;
  Stopped stopped(peers_[0]);
  EXPECT_EQ(caller.claim(lost, caller.new_nonce()).fault, StoreFault::unavailable);
  EXPECT_EQ(store->stats().indeterminate, before + 1);
  for (int i = 0; i < 50; ++i) {
    const OperationId id = caller.new_id();
    const Op op = caller.claim(id, caller.new_nonce());
    if (is_in(id, 0, redis::slot_count / 3 - 1)) {
      EXPECT_EQ(op.status, OpStatus::failed);
      EXPECT_EQ(op.fault, StoreFault::refused) << "nothing was sent: " << op.error;
    } else {
      EXPECT_EQ(op.status, OpStatus::done) << op.error;
    }
  }
  EXPECT_EQ(store->stats().indeterminate, before + 1) << "asked once";
  stopped.resume();
  EXPECT_EQ(caller.until_done([&] { return caller.claim(lost, caller.new_nonce()); }).status, OpStatus::done);
}

TEST_F(RedisCluster, any_node_is_enough_to_find_the_others) {
  for (const Peer& peer : peers_) {
    const auto store = open_store("redis://127.0.0.1:1," + redis::name_of(peer.host()) + "?cluster=1");
    Caller caller(*store);
    for (int i = 0; i < 10; ++i) {
      EXPECT_EQ(caller.claim(caller.new_id(), caller.new_nonce()).verdict, Verdict::execute);
    }
  }
}

TEST_F(RedisCluster, a_cluster_opened_as_one_server_is_refused_with_advice) {
  const auto store = RedisStore::open("redis://" + redis::name_of(peers_[0].host()), ServerSettings(), quiet_log());
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().retryable, Retryable::no);
  EXPECT_THAT(store.error().detail, HasSubstr("cluster=1"));
}

TEST_F(RedisCluster, writes_wait_for_as_many_replicas_as_asked) {
  const auto store = open_store(contract::server_url(), {.wait_replicas = 1, .wait_timeout = milliseconds(5000)});
  Caller caller(*store);
  const OperationId id = caller.new_id();
  const Nonce nonce = caller.new_nonce();
  EXPECT_EQ(caller.claim(id, nonce).verdict, Verdict::execute);
  EXPECT_EQ(caller.claim(id, nonce).verdict, Verdict::execute) << "sent again, and confirmed again";
  EXPECT_EQ(caller.finish(id, nonce, "x").status, OpStatus::done);
  EXPECT_EQ(caller.finish(id, nonce, "x").status, OpStatus::done);

  const auto strict = open_store(contract::server_url(), {.wait_replicas = 2, .wait_timeout = milliseconds(20)});
  Caller other(*strict);
  const auto counts_the_one_there_is = [&] {  // which may need longer than that once
    const Op op = other.claim(other.new_id(), other.new_nonce());
    EXPECT_EQ(op.status, OpStatus::failed);
    EXPECT_EQ(op.fault, StoreFault::unavailable);
    return op.error.contains("only 1 of 2 replicas");
  };
  EXPECT_TRUE(eventually(counts_the_one_there_is));
}

TEST_F(RedisCluster, chunks_wait_for_as_many_replicas_as_asked) {
  const auto store = open_store(contract::server_url(), {.wait_replicas = 1, .wait_timeout = milliseconds(5000)});
  Caller caller(*store);
  const auto [id, nonce] = caller.begin();
  for (int repeat = 0; repeat < 2; ++repeat) {
    const Op op = caller.append(id, nonce, 0, "head");
    EXPECT_EQ(op.status, OpStatus::done) << op.error;
  }
  EXPECT_EQ(caller.read(id).chunks.size(), 1U);

  const auto strict = open_store(contract::server_url(), {.wait_replicas = 2, .wait_timeout = milliseconds(20)});
  Caller other(*strict);
  for (const std::uint32_t chunk : {0U, 1U}) {
    const Op op = other.append(id, nonce, chunk, "x");
    EXPECT_EQ(op.status, OpStatus::failed);
    EXPECT_EQ(op.fault, StoreFault::unavailable);
  }
  const Op told = other.read(id);
  EXPECT_EQ(told.status, OpStatus::failed) << "told what a failover could forget";
  EXPECT_TRUE(told.chunks.empty());
  EXPECT_EQ(other.read(id, 2).status, OpStatus::done) << "nothing is told";
  EXPECT_EQ(caller.read(id).chunks.size(), 2U);
}

// Only what must become durable needs the replica: an outcome that is known to have been on it is told without.
TEST_F(RedisCluster, an_outcome_that_was_on_a_replica_is_replayed_while_none_is_there) {
  const auto store =
      open_store(contract::server_url(), {.connections = 1, .wait_replicas = 1, .wait_timeout = milliseconds(5000)});
  Caller caller(*store);
  const OperationId id = id_in(caller, 0, 5000);
  const Nonce nonce = caller.new_nonce();
  ASSERT_EQ(caller.claim(id, nonce).verdict, Verdict::execute);
  ASSERT_EQ(caller.finish(id, nonce, "kept").status, OpStatus::done);
  caller.lookup(id);  // takes the mark with it

  const std::string replica = peers_[0].info("replication", "slave0");  // ip=…,port=…
  const auto port = parse_number(split(split(replica, ',')[1], '=')[1]);
  Peer other({.name = "127.0.0.1", .port = static_cast<std::uint16_t>(*port)});
  const Stopped stopped(other);
  const auto impatient = open_store(contract::server_url(), {.wait_replicas = 1, .wait_timeout = milliseconds(20)});
  Caller later(*impatient);
  const Op replay = later.claim(id, later.new_nonce());
  ASSERT_EQ(replay.status, OpStatus::done) << replay.error;
  EXPECT_EQ(replay.verdict, Verdict::replay);
  EXPECT_EQ(*replay.record->outcome, "kept");
  EXPECT_EQ(later.lookup(id).status, OpStatus::done);
  EXPECT_EQ(later.finish(id, nonce, "kept").status, OpStatus::done) << "its owner asks again";

  const OperationId fresh = id_in(caller, 0, 5000);
  const Nonce owner = later.new_nonce();
  EXPECT_EQ(later.claim(fresh, owner).fault, StoreFault::unavailable) << "a claim is a write";
  EXPECT_EQ(later.finish(fresh, owner, "not kept").status, OpStatus::failed);
  EXPECT_EQ(later.claim(fresh, later.new_nonce()).status, OpStatus::failed)
      << "told an outcome that a failover could forget";
}

TEST_F(RedisCluster, ends_are_told_whichever_node_has_the_key) {
  Ends ends;
  const auto waiting = open_store(contract::server_url());
  waiting->notify_of_ends([&](const OperationId& id) { ends.tell(id); });
  ASSERT_TRUE(eventually([&] {
    return std::ranges::any_of(
        peers_, [](Peer& peer) { return peer.ask({"PUBSUB", "NUMSUB", "once:ended"}).contains("\n1\n"); });
  }));
  const auto working = open_store(contract::server_url());
  Caller waiter(*waiting);
  Caller worker(*working);
  for (int i = 0; i < 30; ++i) {
    const auto [id, nonce] = worker.begin();
    waiter.lookup(id, Waits::yes);
    worker.finish(id, nonce, "x");
    EXPECT_TRUE(ends.await(id));
  }
}

}  // namespace redis_cluster_test
}  // namespace once::redis_test
