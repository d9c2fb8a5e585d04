// The Redis store on servers that have reached maxmemory: new claims are refused, what owners write never is.
#include <gmock/gmock.h>

#include "tests/store/redis_harness.hpp"

namespace once::redis_test {
namespace redis_full_test {

using std::chrono::milliseconds;
using testing::HasSubstr;

class RedisFull : public RedisTest {
 protected:
  ~RedisFull() override { make_room(); }

  void fill_up() { set_limit("1"); }
  void make_room() { set_limit("0"); }

  void expect_refused(const Op& op) {
    EXPECT_EQ(op.status, OpStatus::failed);
    EXPECT_EQ(op.fault, StoreFault::full);
    EXPECT_THAT(op.error, HasSubstr("maxmemory"));
  }
  void set_limit(const std::string& bytes) {
    for (Peer& peer : peers_) ASSERT_EQ(peer.ask({"CONFIG", "SET", "maxmemory", bytes}), "OK");
  }
};

// Enough of them that every node of a cluster has some.
using Begun = Caller::Begun;
std::vector<Begun> begin_some(Caller& caller) {
  std::vector<Begun> all;
  for (int i = 0; i < 20; ++i) all.push_back(caller.begin());
  return all;
}

TEST_F(RedisFull, refuses_claims_and_writes_nothing) {
  const std::vector<Begun> retried = begin_some(caller_);
  for (const Begun& it : retried) caller_.finish(it.id, it.nonce, "no", State::failed);
  fill_up();
  std::vector<OperationId> fresh;
  for (int i = 0; i < 20; ++i) {
    fresh.push_back(caller_.new_id());
    expect_refused(caller_.claim(fresh.back(), caller_.new_nonce()));
  }
  for (const Begun& it : retried) expect_refused(caller_.claim(it.id, caller_.new_nonce()));
  make_room();
  for (const OperationId& id : fresh) {
    EXPECT_FALSE(caller_.lookup(id).record.has_value());
    EXPECT_EQ(caller_.claim(id, caller_.new_nonce()).verdict, Verdict::execute);
  }
  for (const Begun& it : retried) {
    const Op op = caller_.claim(it.id, caller_.new_nonce());
    ASSERT_EQ(op.verdict, Verdict::execute);
    EXPECT_EQ(op.record->attempt, Attempt{2});
  }
}

TEST_F(RedisFull, takes_renewals_and_outcomes_of_what_is_at_work_and_replays_them) {
  const std::vector<Begun> begun = begin_some(caller_);
  fill_up();
  for (Peer& peer : peers_) ASSERT_EQ(peer.ask({"SCRIPT", "FLUSH"}), "OK") << "they are loaded again";
  for (const Begun& it : begun) {
    const Op again = caller_.claim(it.id, it.nonce);
    EXPECT_EQ(again.verdict, Verdict::execute) << "the same claim, asked for again: " << again.error;
    const Op renewed = caller_.renew(it.id, it.nonce);
    EXPECT_EQ(renewed.status, OpStatus::done) << renewed.error;
    EXPECT_EQ(caller_.lookup(it.id, Waits::yes).status, OpStatus::done) << "a mark that cannot be made costs nothing";
    const std::string outcome(10'000, 'x');
    const Op finished = caller_.finish(it.id, it.nonce, outcome);
    EXPECT_EQ(finished.status, OpStatus::done) << finished.error;
    const Op replay = caller_.claim(it.id, caller_.new_nonce());
    ASSERT_EQ(replay.verdict, Verdict::replay) << replay.error;
    EXPECT_EQ(*replay.record->outcome, outcome);
  }
}

// What was appended stays readable, and its owner can still record the whole outcome.
TEST_F(RedisFull, refuses_chunks_and_takes_the_outcome) {
  const std::vector<Begun> begun = begin_some(caller_);
  for (const Begun& it : begun) ASSERT_EQ(caller_.append(it.id, it.nonce, 0, "head").status, OpStatus::done);
  const std::vector<Begun> silent = begin_some(caller_);
  fill_up();
  for (const Begun& it : silent) expect_refused(caller_.append(it.id, it.nonce, 0, "head"));
  for (const Begun& it : begun) {
    expect_refused(caller_.append(it.id, it.nonce, 1, "one"));
    EXPECT_EQ(caller_.append(it.id, it.nonce, 0, "head").status, OpStatus::done) << "it is there already";
    EXPECT_EQ(caller_.read(it.id).chunks.size(), 1U);
    EXPECT_EQ(caller_.finish(it.id, it.nonce, "all").status, OpStatus::done);
  }
  make_room();
  for (const Begun& it : silent) EXPECT_EQ(caller_.append(it.id, it.nonce, 0, "head").status, OpStatus::done);
}

TEST_F(RedisFull, takes_the_end_of_a_body_that_stays_in_chunks) {
  const std::vector<Begun> begun = begin_some(caller_);
  for (const Begun& it : begun) ASSERT_EQ(caller_.append(it.id, it.nonce, 0, "head").status, OpStatus::done);
  fill_up();
  for (const Begun& it : begun) {
    const Op end = caller_.finish_in_chunks(it.id, it.nonce, "final head");
    EXPECT_EQ(end.status, OpStatus::done) << end.error;
    const Op op = caller_.read(it.id);
    EXPECT_EQ(op.chunks.size(), 1U) << op.error;
    ASSERT_TRUE(op.record.has_value());
    EXPECT_EQ(op.record->body_kept, BodyKept::in_chunks);
  }
}

TEST_F(RedisFull, takes_releases_and_what_operators_resolve_and_forget) {
  const std::vector<Begun> released = begin_some(caller_);
  const std::vector<Begun> resolved = begin_some(caller_);
  for (const Begun& it : resolved) caller_.finish(it.id, it.nonce, "", State::unknown);
  fill_up();
  for (const Begun& it : released) {
    EXPECT_EQ(caller_.release(it.id, it.nonce).status, OpStatus::done);
    EXPECT_FALSE(caller_.lookup(it.id).record.has_value());
    // A release of a claim that never came leaves its trace, too: the claim may still be on its way.
    const Begun late{.id = caller_.new_id(), .nonce = caller_.new_nonce()};
    EXPECT_EQ(caller_.release(late.id, late.nonce).status, OpStatus::lost);
    EXPECT_EQ(caller_.claim(late.id, late.nonce).verdict, Verdict::in_flight);
  }
  for (const Begun& it : resolved) {
    EXPECT_EQ(caller_.resolve(it, State::succeeded, State::unknown), OpStatus::done);
    EXPECT_EQ(caller_.claim(it.id, caller_.new_nonce()).verdict, Verdict::replay);
    EXPECT_EQ(caller_.forget(it, State::succeeded), OpStatus::done);
  }
}

// Where replicas are waited for, what is told is written once more, and that is no claim either.
TEST_F(RedisFull, takes_what_is_written_again_for_the_replicas) {
  const std::vector<Begun> begun = begin_some(caller_);
  for (std::size_t i = 0; i < begun.size() / 2; ++i) caller_.finish(begun[i].id, begun[i].nonce, "x");
  const auto waiting = open_store(contract::server_url(), {.wait_replicas = 9, .wait_timeout = milliseconds(1)});
  Caller waiter(*waiting);
  fill_up();
  for (const Begun& it : begun) {
    const Op op = waiter.claim(it.id, it.nonce);
    EXPECT_NE(op.fault, StoreFault::full) << op.error;
  }
}

}  // namespace redis_full_test
}  // namespace once::redis_test
