// The contract, part four: batches, and many threads at once.
#pragma once

#include <array>
#include <atomic>
#include <latch>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "tests/store/contract/fixture.hpp"

namespace once::contract {

inline constexpr int thread_count = 64;

// Runs body(0) … body(63) at the same time, each on a thread of its own.
inline void on_many_threads(auto&& body) {
  std::latch together(thread_count);
  std::vector<std::jthread> threads;
  threads.reserve(thread_count);
  for (int i = 0; i < thread_count; ++i) {
    threads.emplace_back([&, i] {
      together.arrive_and_wait();
      body(i);
    });
  }
}

inline void execute_all(Store& store, std::vector<Op>& ops) {
  std::vector<Op*> batch;
  batch.reserve(ops.size());
  for (Op& op : ops) batch.push_back(&op);
  store.execute(batch);
}

TEST_P(StoreContract, a_batch_may_mix_every_verb_and_every_ending) {
  store().execute({});
  const Made renewed = made(State::started);
  const Made finished = made(State::started);
  const Made released = made(State::started);
  const Made lost = made(State::started);
  const Made replayed = made(State::succeeded);
  const Made failed = made(State::failed);
  const Made held = made(State::unknown);
  const Made seen = made(State::succeeded);
  const OperationId fresh = new_id();

  std::vector<Op> ops = {
      owner_op(Verb::renew, renewed.id, renewed.nonce),
      finish_op(finished.id, finished.nonce, State::succeeded, "from a batch"),
      claim_op(replayed.id, new_nonce()),
      owner_op(Verb::release, released.id, released.nonce),
      finish_op(lost.id, new_nonce()),
      claim_op(fresh, new_nonce()),
      {.verb = Verb::lookup, .id = seen.id},
      claim_op(failed.id, new_nonce()),
      claim_op(held.id, new_nonce(), OnUnknown::hold),
      {.verb = Verb::lookup, .id = new_id()},
  };
  execute_all(store(), ops);

  EXPECT_EQ(ops[0].status, OpStatus::done);
  EXPECT_EQ(ops[1].status, OpStatus::done);
  EXPECT_EQ(ops[2].verdict, Verdict::replay);
  ASSERT_TRUE(ops[2].record.has_value());
  EXPECT_EQ(*ops[2].record->outcome, "outcome");
  EXPECT_EQ(ops[3].status, OpStatus::done);
  EXPECT_EQ(ops[4].status, OpStatus::lost);
  ASSERT_EXECUTES(ops[5]);
  EXPECT_EQ(ops[5].record->attempt, Attempt{1});
  ASSERT_TRUE(ops[6].record.has_value());
  EXPECT_EQ(ops[6].record->state, State::succeeded);
  ASSERT_EXECUTES(ops[7]);
  EXPECT_EQ(ops[7].record->attempt, Attempt{2});
  EXPECT_EQ(ops[8].verdict, Verdict::held);
  EXPECT_EQ(ops[9].status, OpStatus::done);
  EXPECT_FALSE(ops[9].record.has_value());

  EXPECT_EQ(*lookup(finished.id).record->outcome, "from a batch");
  EXPECT_FALSE(lookup(released.id).record.has_value());
  EXPECT_EQ(lookup(lost.id).record->state, State::started);
}

TEST_P(StoreContract, a_large_batch_keeps_every_op_apart) {
  constexpr int count = 512;
  std::vector<Op> claims;
  std::vector<Op> finishes;
  std::vector<Op> retries;
  for (int i = 0; i < count; ++i) {
    const OperationId id = new_id();
    const Nonce nonce = new_nonce();
    claims.push_back(claim_op(id, nonce));
    finishes.push_back(finish_op(id, nonce, State::succeeded, "value " + std::to_string(i)));
    retries.push_back(claim_op(id, new_nonce()));
  }
  execute_all(store(), claims);
  for (const Op& op : claims) ASSERT_EQ(op.verdict, Verdict::execute);
  execute_all(store(), finishes);
  for (const Op& op : finishes) ASSERT_EQ(op.status, OpStatus::done);
  execute_all(store(), retries);
  for (int i = 0; i < count; ++i) {
    const Op& op = retries[static_cast<std::size_t>(i)];
    ASSERT_EQ(op.verdict, Verdict::replay);
    ASSERT_EQ(*op.record->outcome, "value " + std::to_string(i));
  }
}

TEST_P(StoreContract, of_many_at_once_on_one_key_exactly_one_executes) {
  const OperationId id = new_id();
  std::atomic<int> executing{0};
  std::atomic<int> in_flight{0};
  std::mutex mutex;
  Nonce owner;
  on_many_threads([&](int) {
    const Nonce nonce = new_nonce();
    const Op op = claim(id, nonce, OnUnknown::retry);
    if (op.status == OpStatus::done && op.verdict == Verdict::in_flight) ++in_flight;
    if (op.status == OpStatus::done && op.verdict == Verdict::execute) {
      ++executing;
      const std::scoped_lock lock(mutex);
      owner = nonce;
    }
  });
  ASSERT_EQ(executing, 1);
  EXPECT_EQ(in_flight, thread_count - 1);

  ASSERT_EQ(finish(id, owner, State::succeeded, "the only answer").status, OpStatus::done);
  std::atomic<int> replayed{0};
  on_many_threads([&](int) {
    const Op op = claim(id, new_nonce(), OnUnknown::retry);
    if (op.verdict == Verdict::replay && op.record && *op.record->outcome == "the only answer") ++replayed;
  });
  EXPECT_EQ(replayed, thread_count);
}

TEST_P(StoreContract, of_many_finishing_at_once_only_the_owner_is_heard) {
  const Made it = made(State::started);
  std::atomic<int> done{0};
  on_many_threads([&](int i) {
    const Op op = i == 17 ? finish(it.id, it.nonce, State::succeeded, "owner") : finish(it.id, new_nonce());
    if (op.status == OpStatus::done) ++done;
  });
  EXPECT_EQ(done, 1);
  EXPECT_EQ(*lookup(it.id).record->outcome, "owner");
}

TEST_P(StoreContract, many_threads_on_many_keys_never_execute_one_twice) {
  constexpr std::size_t key_count = 16;
  std::array<OperationId, key_count> ids;
  for (OperationId& id : ids) id = new_id();
  std::array<std::atomic<int>, key_count> executed{};
  std::atomic<int> wrong{0};
  on_many_threads([&](int i) {
    for (std::size_t step = 0; step < key_count; ++step) {
      const std::size_t key = (step + static_cast<std::size_t>(i)) % key_count;
      const Nonce nonce = new_nonce();
      const Op op = claim(ids[key], nonce, OnUnknown::retry);
      if (op.status != OpStatus::done) ++wrong;
      if (op.verdict == Verdict::replay && *op.record->outcome != to_hex(ids[key])) ++wrong;
      if (op.verdict != Verdict::execute) continue;
      ++executed[key];
      if (finish(ids[key], nonce, State::succeeded, to_hex(ids[key])).status != OpStatus::done) ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0);
  for (const auto& times : executed) EXPECT_EQ(times, 1);
}

TEST_P(StoreContract, attempts_that_fail_follow_one_another_and_never_overlap) {
  const OperationId id = new_id();
  std::atomic<int> at_work{0};
  std::atomic<int> overlaps{0};
  std::atomic<std::uint32_t> executed{0};
  std::mutex mutex;
  std::set<Attempt> attempts;
  std::set<Fence> fences;
  on_many_threads([&](int) {
    for (int i = 0; i < 8; ++i) {
      const Nonce nonce = new_nonce();
      const Op op = claim(id, nonce, OnUnknown::retry);
      if (op.verdict != Verdict::execute || op.status != OpStatus::done) continue;
      if (at_work.fetch_add(1) != 0) ++overlaps;
      ++executed;
      {
        const std::scoped_lock lock(mutex);
        attempts.insert(op.record->attempt);
        fences.insert(op.record->fence);
      }
      at_work.fetch_sub(1);
      finish(id, nonce, State::failed);
    }
  });
  EXPECT_EQ(overlaps, 0);
  EXPECT_EQ(attempts.size(), executed);
  EXPECT_EQ(fences.size(), executed);
  EXPECT_EQ(*attempts.rbegin(), Attempt{executed.load()});
}

}  // namespace once::contract
