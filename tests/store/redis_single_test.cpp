// The Redis store on one server: what the contract does not say because it is Redis' own.
#include <sys/mman.h>

#include <algorithm>
#include <set>

#include <gmock/gmock.h>

#include "core/decision.hpp"
#include "tests/store/redis_harness.hpp"

namespace once::redis_test {
namespace redis_single_test {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class RedisSingle : public RedisAlone {
 protected:
  std::uint64_t changes() { return *parse_number(peer().info("persistence", "rdb_changes_since_last_save")); }
};

enum class Expiry : std::uint8_t { to_come, remembered, forgotten };

struct Walked {
  State state;
  Expiry expiry;
  Facts facts;
};

// Every combination of facts, with a record that has not expired, is remembered, or is forgotten.
std::vector<Walked> all_facts() {
  std::vector<Walked> all;
  for (const State state : {State::started, State::succeeded, State::failed, State::unknown, State::tombstone}) {
    for (const Expiry expiry : {Expiry::to_come, Expiry::remembered, Expiry::forgotten}) {
      for (const Same same : {Same::no, Same::yes}) {
        for (const Lease lease : {Lease::live, Lease::lapsed}) {
          for (const OnUnknown on_unknown : {OnUnknown::retry, OnUnknown::takeover, OnUnknown::hold}) {
            for (const Takeover takeover : {Takeover::not_yet, Takeover::due}) {
              for (const BodyKept kept : {BodyKept::yes, BodyKept::no}) {
                all.push_back({state, expiry, {Found::nothing, same, lease, on_unknown, takeover, kept}});
              }
            }
          }
        }
      }
    }
  }
  return all;
}

TEST_F(RedisSingle, the_script_and_the_table_agree_on_every_row) {
  std::set<Verdict> seen;
  unsigned rows = 0;
  for (const auto& [state, expiry, facts] : all_facts()) {
    const Time now = server_now();
    Record before;
    before.state = state;
    before.body_kept = facts.body_kept;
    before.attempt = Attempt{3};
    before.fence = Fence{7};
    before.fingerprint = facts.same_fingerprint == Same::yes ? request : Fingerprint{{9}};
    before.nonce = caller_.new_nonce();
    before.started_at = now - hours(1);
    before.lease_until = facts.lease == Lease::live ? now + hours(1) : now - minutes(1);
    before.expires_at = expiry == Expiry::to_come ? now + hours(2) : now - minutes(2);
    before.forget_at = expiry == Expiry::remembered ? now + hours(3) : before.expires_at;
    const ClaimTerms terms{.on_unknown = facts.on_unknown,
                           .takeover_after = facts.takeover == Takeover::due ? Duration(minutes(10)) : hours(10),
                           .lease = minutes(5),
                           .ttl = hours(5),
                           .tombstone = facts.takeover == Takeover::due ? hours(7) : hours(0)};
    const OperationId id = caller_.new_id();
    const unsigned version = 2 + ++rows % 2;  // those from before labels are read as well
    set(id, packed(before, "kept", version));
    const Nonce nonce = caller_.new_nonce();
    const Op op = caller_.claim(id, nonce, terms);
    ASSERT_EQ(op.status, OpStatus::done) << op.error;
    const Verdict expected = decide(facts_of(&before, request, terms, op.now));
    EXPECT_EQ(op.verdict, expected);
    seen.insert(expected);
    ASSERT_TRUE(op.record.has_value());
    // What the store says is also what it holds, and what core would have written.
    const std::string held = peer().ask({"GET", key_of(id)});
    if (expected == Verdict::execute) {
      Record after = claimed(&before, request, nonce, terms, op.now);
      after.fence = op.record->fence;
      EXPECT_GT(op.record->fence, before.fence);
      EXPECT_TRUE(held == packed(after));
    } else {
      EXPECT_TRUE(held == packed(before, "kept", version));
    }
  }
  EXPECT_EQ(seen.size(), 8U) << "not every verdict was met";
}

enum class Edge : std::uint8_t { lease, takeover, expiry, forgetting };

constexpr ClaimTerms edge_terms{
    .on_unknown = OnUnknown::takeover, .takeover_after = minutes(10), .lease = minutes(1), .ttl = hours(1)};

Record record_at(Edge edge, Time at, Time now) {
  Record record;
  record.fingerprint = request;
  record.started_at = edge == Edge::takeover ? at - edge_terms.takeover_after : now - hours(1);
  record.lease_until = edge == Edge::lease ? at : now - minutes(1);
  record.expires_at = edge == Edge::expiry ? at : edge == Edge::forgetting ? now - minutes(1) : now + hours(1);
  record.forget_at = edge == Edge::forgetting ? at : record.expires_at;
  return record;
}

// Ops on records whose edges are one millisecond apart. Time goes on while they are executed, so that one of them is
// exactly on its edge, unless all of this took longer than the edges reach; then nothing was met.
bool meets_an_edge(RedisStore& store, Peer& peer, Time now, Edge edge, Verb verb) {
  Caller caller(store);
  std::vector<std::string> set = {"MSET"};
  std::vector<Record> before;
  std::vector<Op> ops;
  for (int i = 0; i < 500; ++i) {
    Record record = record_at(edge, now + milliseconds(i), now);
    record.nonce = caller.new_nonce();
    const Nonce nonce = verb == Verb::renew ? record.nonce : caller.new_nonce();
    ops.push_back({.verb = verb, .id = caller.new_id(), .nonce = nonce, .fingerprint = request, .terms = edge_terms});
    set.push_back(key_of(ops.back().id));
    set.push_back(packed(record));
    before.push_back(record);
  }
  EXPECT_EQ(peer.ask(set), "OK");
  caller.run_all(ops);
  bool met = false;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    met = met || ops[i].now == now + milliseconds(i);
    const bool there = !forgotten(before[i], ops[i].now);
    const bool lost = verb == Verb::renew && expired(before[i], ops[i].now);
    EXPECT_EQ(ops[i].status, lost ? OpStatus::lost : OpStatus::done) << ops[i].error;
    if (verb == Verb::claim) EXPECT_EQ(ops[i].verdict, decide(facts_of(&before[i], request, edge_terms, ops[i].now)));
    if (verb == Verb::lookup) EXPECT_EQ(ops[i].record.has_value(), there);
  }
  return met;
}

TEST_F(RedisSingle, every_time_is_exact_to_the_millisecond) {
  for (const Edge edge : {Edge::lease, Edge::takeover, Edge::expiry, Edge::forgetting}) {
    for (const Verb verb : {Verb::claim, Verb::lookup, Verb::renew}) {
      EXPECT_TRUE(eventually([&] { return meets_an_edge(*store_, peer(), server_now(), edge, verb); }));
    }
  }
}

TEST_F(RedisSingle, scripts_that_redis_forgot_are_loaded_again) {
  const OperationId id = caller_.new_id();
  const Nonce nonce = caller_.new_nonce();
  ASSERT_EQ(peer().ask({"SCRIPT", "FLUSH"}), "OK");
  EXPECT_EQ(caller_.claim(id, nonce).verdict, Verdict::execute);
  ASSERT_EQ(peer().ask({"SCRIPT", "FLUSH"}), "OK");
  std::vector<Op> ops;
  for (int i = 0; i < 50; ++i) ops.push_back({.verb = Verb::lookup, .id = i == 25 ? id : caller_.new_id()});
  caller_.run_all(ops);
  for (const Op& op : ops) EXPECT_EQ(op.status, OpStatus::done) << op.error;
  EXPECT_TRUE(ops[25].record.has_value());
  EXPECT_EQ(store_->stats().indeterminate, 0U);
}

TEST_F(RedisSingle, replays_and_lookups_write_nothing) {
  const OperationId id = caller_.new_id();
  const Nonce nonce = caller_.new_nonce();
  caller_.claim(id, nonce);
  caller_.finish(id, nonce, "answer");
  const std::uint64_t before = changes();
  EXPECT_GT(before, 0U);
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(caller_.claim(id, caller_.new_nonce()).verdict, Verdict::replay);
    ASSERT_EQ(caller_.finish(id, nonce, "answer").status, OpStatus::done);
    ASSERT_TRUE(caller_.lookup(id, Waits::yes).record.has_value());
    ASSERT_EQ(caller_.finish(id, caller_.new_nonce(), "answer").status, OpStatus::lost);
  }
  EXPECT_EQ(changes(), before);
}

TEST_F(RedisSingle, keys_are_kept_as_long_as_their_record_and_no_longer) {
  const OperationId id = caller_.new_id();
  const Nonce nonce = caller_.new_nonce();
  const auto kept_until = [&] { return peer().ask({"PEXPIRETIME", key_of(id)}); };
  const auto text = [](Time at) { return std::to_string(at.time_since_epoch().count()); };
  ClaimTerms terms{.on_unknown = OnUnknown::retry, .takeover_after = {}, .lease = minutes(10), .ttl = minutes(1)};
  const Op claim = caller_.claim(id, nonce, terms);
  EXPECT_EQ(kept_until(), text(claim.now + terms.lease)) << "an owner at work keeps its record";
  terms.lease = hours(3);
  const Op renewal = caller_.renew(id, nonce, terms);
  EXPECT_EQ(kept_until(), text(renewal.now + terms.lease));
  const Op seen = caller_.lookup(id, Waits::yes);
  EXPECT_EQ(kept_until(), text(renewal.now + terms.lease));
  const Op failed = caller_.finish(id, nonce, "x", State::failed);
  EXPECT_EQ(kept_until(), text(failed.record->expires_at));
  const Nonce second = caller_.new_nonce();
  terms = {.on_unknown = OnUnknown::retry, .takeover_after = {}, .lease = minutes(1), .ttl = hours(4)};
  const Op again = caller_.claim(id, second, terms);
  EXPECT_EQ(kept_until(), text(again.now + terms.ttl));
  ASSERT_EQ(caller_.release(id, second).status, OpStatus::done);
  EXPECT_EQ(kept_until(), text(again.now + terms.ttl));
  EXPECT_EQ(caller_.lookup(id).record->state, State::failed);
}

TEST_F(RedisSingle, a_clock_that_went_back_gives_no_smaller_fence) {
  const OperationId id = caller_.new_id();
  Record before;
  before.state = State::failed;
  before.fingerprint = request;
  before.fence = Fence{std::uint64_t{1} << 52U};
  before.expires_at = server_now() + hours(1);
  set(id, packed(before));
  const Op op = caller_.claim(id, caller_.new_nonce());
  ASSERT_EQ(op.verdict, Verdict::execute);
  EXPECT_EQ(op.record->fence, Fence{(std::uint64_t{1} << 52U) + 1});
  before.expires_at = server_now() - hours(1);
  set(id, packed(before));
  const Op fresh = caller_.claim(id, caller_.new_nonce());
  ASSERT_EQ(fresh.verdict, Verdict::execute);
  EXPECT_EQ(fresh.record->attempt, Attempt{1});
  EXPECT_EQ(fresh.record->fence, Fence{(std::uint64_t{1} << 52U) + 1});
}

TEST_F(RedisSingle, what_is_no_record_is_refused_and_left_alone) {
  for (const std::string& value :
       {std::string("hello"), std::string(200, '\x01'), std::string(), "\x02\x09" + std::string(104, '\x01')}) {
    const OperationId id = caller_.new_id();
    set(id, value);
    const Nonce nonce = caller_.new_nonce();
    for (const Op& op : {caller_.claim(id, nonce), caller_.lookup(id), caller_.renew(id, nonce),
                         caller_.release(id, nonce), caller_.finish(id, nonce, "x")}) {
      if (value.size() == 106 && op.verb != Verb::claim && op.verb != Verb::lookup) continue;  // not its owner
      EXPECT_EQ(op.status, OpStatus::failed);
      EXPECT_EQ(op.fault, StoreFault::refused);
      EXPECT_FALSE(op.error.empty());
    }
    EXPECT_EQ(peer().ask({"GET", key_of(id)}), value);
  }
  const OperationId list = caller_.new_id();
  peer().ask({"RPUSH", key_of(list), "x"});
  EXPECT_THAT(caller_.claim(list, caller_.new_nonce()).error, HasSubstr("WRONGTYPE"));
}

TEST_F(RedisSingle, a_cursor_of_a_server_that_is_not_there_is_none) {
  for (const std::string_view cursor : {"5.0.1", "0.0.1"}) {
    const auto page = store_->search()->scan({}, cursor, 10);
    ASSERT_FALSE(page.has_value()) << cursor;
    EXPECT_TRUE(is_bad_cursor(page.error())) << page.error().detail;
  }
}

TEST_F(RedisSingle, urls_that_cannot_work_are_refused_without_the_password) {
  const std::string port = std::to_string(first_host().port);
  const auto error = [](const std::string& url) {
    auto store = RedisStore::open(url, ServerSettings(), quiet_log());
    EXPECT_FALSE(store) << url;
    if (store) return std::string();
    EXPECT_EQ(store.error().retryable, Retryable::no) << url;
    EXPECT_THAT(store.error().detail, Not(HasSubstr("hunter2")));
    return store.error().detail;
  };
  EXPECT_THAT(error("redis://:hunter2@127.0.0.1:" + port), HasSubstr("login refused"));
  EXPECT_THAT(error("redis://bob:hunter2@127.0.0.1:" + port), HasSubstr("login refused"));
  EXPECT_THAT(error("redis://127.0.0.1:" + port + "/999"), HasSubstr("database refused"));
  EXPECT_THAT(error("redis://127.0.0.1:" + port + "/x"), HasSubstr("must be a number"));
  EXPECT_THAT(error("redis://127.0.0.1:" + port + "?clutser=1"), HasSubstr("cluster, sentinel, prefix, ca"));
  EXPECT_THAT(error("redis://127.0.0.1:" + port + "?cluster=maybe"), HasSubstr("0 or 1"));
  EXPECT_THAT(error("redis://127.0.0.1:" + port + "?cluster=1"), HasSubstr("cluster support disabled"));
  EXPECT_THAT(error("redis://127.0.0.1:" + port + "?cluster=1&sentinel=x"), HasSubstr("only one"));
  EXPECT_THAT(error("redis://127.0.0.1:" + port + "/2?cluster=1"), HasSubstr("only database 0"));
  EXPECT_THAT(error("redis://127.0.0.1:" + port + "?ca=/x"), HasSubstr("rediss://"));
  EXPECT_THAT(error("rediss://127.0.0.1:" + port + "?ca=/no/such/file"), HasSubstr("/no/such/file"));
  EXPECT_THAT(error("rediss://127.0.0.1:" + port + "?cert=/x"), HasSubstr("go together"));
  EXPECT_THAT(error("http://127.0.0.1"), HasSubstr("redis://"));
}

TEST_F(RedisSingle, a_server_that_cannot_be_reached_is_waited_for) {
  auto store = RedisStore::open("redis://127.0.0.1:1", ServerSettings(), quiet_log());
  ASSERT_TRUE(store) << store.error().detail;
  Caller caller(**store);
  const Op op = caller.claim(caller.new_id(), caller.new_nonce());
  EXPECT_EQ(op.status, OpStatus::failed);
  EXPECT_EQ(op.fault, StoreFault::refused) << "nothing was sent";
  EXPECT_THAT(op.error, HasSubstr("127.0.0.1:1"));
  EXPECT_GT((*store)->stats().connect_failures, 0U);
  EXPECT_TRUE(RedisStore::open("redis://no-such-host.invalid", ServerSettings(), quiet_log()));
}

TEST_F(RedisSingle, of_several_hosts_the_master_is_taken) {
  const std::string port = std::to_string(first_host().port);
  const auto store = open_store("redis://127.0.0.1:1,127.0.0.1:" + port);
  Caller caller(*store);
  EXPECT_EQ(caller.claim(caller.new_id(), caller.new_nonce()).verdict, Verdict::execute);
}

TEST_F(RedisSingle, prefixes_and_databases_keep_stores_apart) {
  const std::string url = contract::server_url();
  const auto prefixed = open_store(url + "?prefix=other:");
  const auto database = open_store(url + "/3");
  const OperationId id = caller_.new_id();
  for (RedisStore* store : {store_.get(), prefixed.get(), database.get()}) {
    Caller caller(*store);
    EXPECT_EQ(caller.claim(id, caller.new_nonce()).verdict, Verdict::execute);
  }
  EXPECT_EQ(peer().ask({"EXISTS", key_of(id), key_of(id, "other:")}), "2");
}

TEST_F(RedisSingle, links_that_the_server_closed_while_idle_are_replaced_before_use) {
  for (int i = 0; i < 10; ++i) {
    const OperationId id = caller_.new_id();
    ASSERT_EQ(caller_.claim(id, caller_.new_nonce()).status, OpStatus::done);
    peer().ask({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
  }
  EXPECT_EQ(store_->stats().retried, 0U);
  EXPECT_EQ(store_->stats().indeterminate, 0U);
  EXPECT_EQ(store_->stats().connections, 1U);
}

TEST_F(RedisSingle, connections_that_break_in_the_middle_lose_nothing_and_execute_nothing_twice) {
  Workload work(*store_, 8);
  for (int i = 0; i < 50 || store_->stats().retried < 20; ++i) {
    const std::uint64_t before = work.done();
    ASSERT_TRUE(eventually([&] { return work.done() > before + 10; })) << "after " << i;
    peer().ask({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
  }
  work.stop();
  work.check();
}

TEST_F(RedisSingle, a_server_that_hangs_leaves_it_open_and_the_nonce_settles_it) {
  const auto store = open_store(contract::server_url(), {.timeout = milliseconds(200)});
  Caller caller(*store);
  ASSERT_EQ(caller.until_done([&] { return caller.lookup(caller.new_id()); }).status, OpStatus::done);
  const std::uint64_t before = store->stats().indeterminate;
  const OperationId id = caller.new_id();
  const Nonce nonce = caller.new_nonce();
  Stopped stopped(peer());
  const Op op = caller.claim(id, nonce);
  stopped.resume();
  EXPECT_EQ(op.status, OpStatus::failed);
  EXPECT_EQ(op.fault, StoreFault::unavailable);
  EXPECT_THAT(op.error, HasSubstr("no answer in time"));
  EXPECT_EQ(store->stats().indeterminate, before + 1);
  const Op again = caller.until_done([&] { return caller.claim(id, nonce); });
  ASSERT_EQ(again.verdict, Verdict::execute);
  EXPECT_EQ(again.record->attempt, Attempt{1});
}

// Connecting is a part of the call, and may take no longer than the call.
TEST_F(RedisSingle, a_call_ends_in_time_also_if_it_has_to_connect) {
  const auto store =
      open_store(contract::server_url(), {.connect_timeout = std::chrono::hours(1), .timeout = milliseconds(200)});
  Caller caller(*store);
  peer().ask({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
  Stopped stopped(peer());
  const Op op = caller.claim(caller.new_id(), caller.new_nonce());
  stopped.resume();
  EXPECT_EQ(op.status, OpStatus::failed);
  EXPECT_EQ(op.fault, StoreFault::refused) << op.error;
  EXPECT_EQ(caller.until_done([&] { return caller.lookup(caller.new_id()); }).status, OpStatus::done);
}

TEST_F(RedisSingle, a_server_that_may_not_write_refuses_and_says_why) {
  const auto refused = [&](std::string_view why) {
    const Op op = caller_.claim(caller_.new_id(), caller_.new_nonce());
    EXPECT_EQ(op.status, OpStatus::failed);
    EXPECT_EQ(op.fault, StoreFault::refused);
    EXPECT_THAT(op.error, HasSubstr(std::string(why)));
  };
  peer().ask({"CONFIG", "SET", "min-replicas-to-write", "1"});
  refused("NOREPLICAS");
  peer().ask({"CONFIG", "SET", "min-replicas-to-write", "0"});
  peer().ask({"REPLICAOF", "127.0.0.1", "1"});
  refused("READONLY");
  peer().ask({"REPLICAOF", "NO", "ONE"});
  EXPECT_EQ(caller_.claim(caller_.new_id(), caller_.new_nonce()).verdict, Verdict::execute);
}

TEST_F(RedisSingle, a_busy_server_refuses_and_says_why) {
  peer().ask({"CONFIG", "SET", "busy-reply-threshold", "1"});
  const std::jthread busy([] { Peer(first_host()).ask({"EVAL", "while true do end", "0"}); });
  Op op;
  EXPECT_TRUE(eventually([&] {
    op = caller_.claim(caller_.new_id(), caller_.new_nonce());
    return op.status == OpStatus::failed && op.error.contains("BUSY");
  }));
  EXPECT_EQ(op.fault, StoreFault::refused);
  EXPECT_EQ(peer().ask({"SCRIPT", "KILL"}), "OK");
}

TEST_F(RedisSingle, without_the_replicas_asked_for_a_write_is_not_told_as_done) {
  const auto store = open_store(contract::server_url(), {.wait_replicas = 1, .wait_timeout = milliseconds(20)});
  Caller caller(*store);
  const OperationId id = caller.new_id();
  const Nonce nonce = caller.new_nonce();
  EXPECT_EQ(caller.lookup(id).status, OpStatus::done);
  const Op claim = caller.claim(id, nonce);
  EXPECT_EQ(claim.status, OpStatus::failed);
  EXPECT_EQ(claim.fault, StoreFault::unavailable);
  EXPECT_THAT(claim.error, HasSubstr("only 0 of 1 replicas"));
  const Op stands = caller_.claim(id, nonce);
  ASSERT_EQ(stands.verdict, Verdict::execute);
  EXPECT_EQ(stands.record->attempt, Attempt{1});
  EXPECT_EQ(caller.finish(id, nonce, "x").status, OpStatus::failed);
  EXPECT_EQ(caller_.lookup(id).record->state, State::succeeded);
  const Op retry = caller.claim(id, caller.new_nonce());
  EXPECT_EQ(retry.status, OpStatus::failed) << "told an outcome that a failover could forget";
  const Op look = caller.lookup(id);
  EXPECT_EQ(look.status, OpStatus::failed) << "told an outcome that a failover could forget";
  EXPECT_EQ(look.fault, StoreFault::unavailable);
  EXPECT_FALSE(look.record.has_value());
  EXPECT_EQ(caller_.claim(id, caller.new_nonce()).verdict, Verdict::replay);
}

TEST_F(RedisSingle, a_lookup_that_tells_no_new_outcome_does_not_wait_for_replicas) {
  const auto store = open_store(contract::server_url(), {.wait_replicas = 1, .wait_timeout = milliseconds(20)});
  Caller caller(*store);
  const auto waits = [this] { return peer().info("commandstats", "cmdstat_wait"); };
  const OperationId recorded = caller_.new_id();
  const OperationId started = caller_.new_id();
  const Nonce nonce = caller_.new_nonce();
  ASSERT_EQ(caller_.claim(started, caller_.new_nonce()).verdict, Verdict::execute);
  ASSERT_EQ(caller_.claim(recorded, nonce).verdict, Verdict::execute);
  ASSERT_EQ(caller_.finish(recorded, nonce, "x").status, OpStatus::done);
  const std::string before = waits();
  EXPECT_EQ(caller.lookup(caller.new_id()).status, OpStatus::done);
  EXPECT_EQ(caller.lookup(started).record->state, State::started);
  EXPECT_EQ(waits(), before) << "there is no replica, so WAIT takes all of wait_timeout";
  EXPECT_EQ(caller.lookup(recorded).status, OpStatus::failed) << "told an outcome that a failover could forget";
  EXPECT_NE(waits(), before);
}

TEST_F(RedisSingle, who_waits_is_told_of_the_end_and_nobody_else) {
  const std::string url = url_with("prefix=told:");
  Ends ends;
  const auto waiting = open_store(url);
  waiting->notify_of_ends([&](const OperationId& id) { ends.tell(id); });
  const auto working = open_store(url);
  Caller waiter(*waiting);
  Caller worker(*working);
  const auto listening = [&] { return peer().ask({"PUBSUB", "NUMSUB", "told:ended"}).contains("\n1\n"); };
  ASSERT_TRUE(eventually(listening));

  const OperationId unwatched = worker.new_id();
  const Nonce first = worker.new_nonce();
  worker.claim(unwatched, first);
  waiter.lookup(unwatched);
  worker.finish(unwatched, first, "x");

  for (const bool release : {false, true}) {
    const OperationId id = worker.new_id();
    const Nonce nonce = worker.new_nonce();
    worker.claim(id, nonce);
    ASSERT_TRUE(waiter.lookup(id, Waits::yes).record.has_value());
    ASSERT_EQ(worker.renew(id, nonce).status, OpStatus::done);
    EXPECT_EQ((release ? worker.release(id, nonce) : worker.finish(id, nonce, "x")).status, OpStatus::done);
    EXPECT_TRUE(ends.await(id));
  }
  EXPECT_FALSE(ends.has(unwatched));
  EXPECT_EQ(waiting->stats().notified, 2U);

  // The connection is lost, and comes back.
  ASSERT_EQ(peer().ask({"CLIENT", "KILL", "TYPE", "pubsub"}), "1");
  ASSERT_TRUE(eventually(listening));
  const OperationId later = worker.new_id();
  const Nonce nonce = worker.new_nonce();
  worker.claim(later, nonce);
  waiter.lookup(later, Waits::yes);
  worker.finish(later, nonce, "x", State::unknown);
  EXPECT_TRUE(ends.await(later));
}

// What a store warns of when it is opened.
std::string warnings_of(Durable durable) {
  const Descriptor file(::memfd_create("log", MFD_CLOEXEC));
  const SystemClock clock;
  const Log log(clock, file.get(), LogLevel::warn, LogFormat::text);
  const auto store = RedisStore::open(contract::server_url(), ServerSettings(), log);
  EXPECT_TRUE(store);
  if (store) EXPECT_EQ((*store)->traits().durable, durable);
  std::string text(4096, '\0');
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(::pread(file.get(), text.data(), text.size(), 0), 0)));
  return text;
}

TEST_F(RedisSingle, what_may_be_forgotten_is_said_and_shows_in_the_traits) {
  const auto set = [&](const std::string& name, const std::string& value) {
    ASSERT_EQ(peer().ask({"CONFIG", "SET", name, value}), "OK");
  };
  EXPECT_EQ(warnings_of(Durable::yes), "");
  for (const std::string policy : {"allkeys-lru", "volatile-ttl"}) {
    set("maxmemory-policy", policy);
    EXPECT_THAT(warnings_of(Durable::yes), AllOf(HasSubstr("may evict records"), HasSubstr(policy)));
  }
  set("maxmemory-policy", "noeviction");
  set("appendfsync", "everysec");
  EXPECT_THAT(warnings_of(Durable::yes), HasSubstr("everysec"));
  set("appendfsync", "always");
  set("appendonly", "no");
  EXPECT_THAT(warnings_of(Durable::no), HasSubstr("appendonly=no"));
  set("appendonly", "yes");
}

}  // namespace redis_single_test
}  // namespace once::redis_test
