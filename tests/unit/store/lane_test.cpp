// The lanes with a store that blocks until told: how batches form, in which order, and what happens when they fail.
#include "store/lane.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <latch>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/clock.hpp"
#include "base/task.hpp"
#include "store/memory/memory_store.hpp"
#include "tests/unit/store/lane_doubles.hpp"
#include "tests/unit/support/layers.hpp"

namespace once::store {
namespace lane_test {

class LaneTest : public testing::Test {
 protected:
  struct Answer {
    std::uint32_t order;
    OpStatus status;
    StoreFault fault;
    std::string error;
    std::thread::id thread;
  };

  void start(const LaneLimits& limits = LaneLimits()) { lanes_ = std::make_unique<ThreadLanes>(store_, limits); }

  // Submits from this thread; the answer is given on the executor's.
  void submit(int id, Verb verb = Verb::lookup) { submit(id, home_, verb); }
  void submit(int id, LoopExecutor& home, Verb verb = Verb::lookup) { spawn(one(id_of(id), ++submitted_, home, verb)); }

  // The first op is at the store, so that what follows gathers.
  void occupy() {
    submit(0);
    store_.wait_for_batches(1);
  }

  // A lane that has told its callers is still awake for a moment, and takes what comes one by one.
  void wait_for_sleep() {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (lanes_->stats().asleep == 0 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    EXPECT_EQ(lanes_->stats().asleep, 1U);
  }

  std::vector<Answer> wait_for_answers(std::size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(answered_.wait_for(lock, patience, [&] { return answers_.size() >= count; }));
    return answers_;
  }
  std::size_t answered() {
    const std::scoped_lock lock(mutex_);
    return answers_.size();
  }

  std::vector<std::uint32_t> order_of(const OperationId& id) {
    std::vector<std::uint32_t> order;
    for (const ScriptedStore::Batch& batch : store_.batches()) {
      for (const ScriptedStore::Seen& seen : batch) {
        if (seen.id == id) order.push_back(static_cast<std::uint32_t>(seen.order));
      }
    }
    return order;
  }

  Task<void> one(OperationId id, std::uint32_t order, LoopExecutor& home, Verb verb = Verb::lookup) {
    Op op{.verb = verb, .id = id, .terms = {.ttl = Duration(order)}};
    co_await lanes_->run(op, home);
    const std::scoped_lock lock(mutex_);
    answers_.push_back({order, op.status, op.fault, op.error, std::this_thread::get_id()});
    answered_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable answered_;
  std::vector<Answer> answers_;
  std::uint32_t submitted_ = 0;

  ScriptedStore store_;
  LoopExecutor home_;
  LoopExecutor busy_;
  std::unique_ptr<ThreadLanes> lanes_;
};

TEST_F(LaneTest, an_op_alone_does_not_wait_for_others) {
  start();
  store_.permit(1);
  submit(1);
  const auto answers = wait_for_answers(1);
  EXPECT_EQ(answers[0].status, OpStatus::done);
  EXPECT_EQ(store_.batches().size(), 1U);
}

TEST_F(LaneTest, what_one_turn_of_the_callers_executor_submits_goes_out_together) {
  start();
  store_.permit(2);
  struct Turn : Work {
    std::function<void()> submit_five;
  } turn;
  turn.submit_five = [this] {
    for (int id = 1; id <= 5; ++id) submit(id);
  };
  turn.run = [](Work& work) { static_cast<Turn&>(work).submit_five(); };
  for (int round = 1; round <= 2; ++round) {
    wait_for_sleep();
    home_.post(turn);
    wait_for_answers(static_cast<std::size_t>(round) * 5);
  }
  const auto batches = store_.batches();
  ASSERT_EQ(batches.size(), 2U);
  EXPECT_EQ(batches[0].size(), 5U);
  EXPECT_EQ(batches[1].size(), 5U);
}

TEST_F(LaneTest, fewer_than_before_do_not_wait_for_ever) {
  start();
  occupy();
  for (int id = 1; id <= 50; ++id) submit(id);
  store_.permit(1);
  store_.wait_for_batches(2);  // of fifty, at the store
  submit(51);
  store_.permit(2);
  wait_for_answers(52);
  const auto batches = store_.batches();
  ASSERT_EQ(batches.size(), 3U);
  EXPECT_EQ(batches[2].size(), 1U);
}

TEST_F(LaneTest, batches_gather_while_one_is_at_the_store) {
  start();
  occupy();
  for (int id = 1; id <= 100; ++id) submit(id);
  EXPECT_EQ(lanes_->stats().queue_depth, 100U);
  EXPECT_EQ(answered(), 0U);
  store_.permit(2);
  wait_for_answers(101);
  const auto batches = store_.batches();
  ASSERT_EQ(batches.size(), 2U);
  EXPECT_EQ(batches[0].size(), 1U);
  EXPECT_EQ(batches[1].size(), 100U);

  lanes_->stop();
  const LaneStats stats = lanes_->stats();
  EXPECT_EQ(stats.ops, 101U);
  EXPECT_EQ(stats.batches, 2U);
  EXPECT_EQ(stats.largest_batch, 100U);
  EXPECT_EQ(stats.queue_depth, 0U);
  EXPECT_EQ(stats.store_time_ns.count, 2U);
  EXPECT_GT(stats.store_time_ns.sum, 0U);
}

TEST_F(LaneTest, a_batch_has_its_limit) {
  start({.batch = 16});
  occupy();
  for (int id = 1; id <= 40; ++id) submit(id);
  store_.permit(4);
  wait_for_answers(41);
  const auto batches = store_.batches();
  ASSERT_EQ(batches.size(), 4U);
  EXPECT_EQ(batches[1].size(), 16U);
  EXPECT_EQ(batches[2].size(), 16U);
  EXPECT_EQ(batches[3].size(), 8U);
}

TEST_F(LaneTest, no_id_is_twice_in_a_batch_and_order_per_key_holds) {
  start();
  occupy();
  // 2 and 3 once each, 1 four times in between.
  for (const int id : {1, 2, 1, 1, 3, 1}) submit(id);
  store_.permit(5);
  wait_for_answers(7);
  const auto batches = store_.batches();
  ASSERT_EQ(batches.size(), 5U);
  EXPECT_EQ(batches[1].size(), 3U);
  for (std::size_t i = 2; i < 5; ++i) EXPECT_EQ(batches[i].size(), 1U);
  EXPECT_EQ(order_of(id_of(1)), (std::vector<std::uint32_t>{2, 4, 5, 7}));
}

TEST_F(LaneTest, leftovers_come_before_what_arrives_later) {
  start();
  occupy();
  for (const int id : {1, 1, 1}) submit(id);
  store_.permit(1);
  store_.wait_for_batches(2);
  for (const int id : {1, 2}) submit(id);
  store_.permit(4);
  wait_for_answers(6);
  EXPECT_EQ(order_of(id_of(1)), (std::vector<std::uint32_t>{2, 3, 4, 5}));
  // 2 did not have to wait behind the others.
  EXPECT_EQ(store_.batches()[2].size(), 2U);
}

TEST_F(LaneTest, a_crowd_on_one_key_keeps_its_order_and_is_not_searched_to_its_end) {
  start({.batch = 4});
  occupy();
  for (int i = 0; i < 50; ++i) submit(1);
  submit(2);
  store_.permit(200);
  wait_for_answers(52);
  const std::vector<std::uint32_t> order = order_of(id_of(1));
  EXPECT_EQ(order.size(), 50U);
  EXPECT_TRUE(std::ranges::is_sorted(order));
  EXPECT_EQ(store_.batches()[1].size(), 1U);
}

TEST_F(LaneTest, a_batch_that_throws_is_tried_again_op_by_op) {
  start();
  store_.script = [](std::span<Op* const> ops) {
    const bool has_bad_one = std::ranges::any_of(ops, [](const Op* op) { return op->id == id_of(3); });
    for (Op* op : ops) op->status = OpStatus::done;  // filled in, and then it did not commit
    if (has_bad_one) throw std::runtime_error("deadlock detected");
  };
  occupy();
  for (const int id : {1, 2, 3, 4}) submit(id);
  store_.permit(6);
  const auto answers = wait_for_answers(5);
  EXPECT_EQ(store_.batches().size(), 6U);
  for (const Answer& answer : answers) {
    const bool bad = answer.order == 4;
    EXPECT_EQ(answer.status, bad ? OpStatus::failed : OpStatus::done);
    EXPECT_EQ(answer.error, bad ? "deadlock detected" : "");
  }
  EXPECT_EQ(lanes_->stats().retried_batches, 1U);
}

// What is asked for while the first op is at the store makes one batch, and that one fails.
struct FailedBatch {
  const char* story;
  void (*script)(std::span<Op* const> ops);
  std::vector<Verb> verbs;
  std::size_t batches;  // with the first
  std::ptrdiff_t unavailable;
  Duration limit = std::chrono::seconds(5);
};

void no_answer(std::span<Op* const> ops) {
  for (Op* op : ops) answer_failed(*op, StoreFault::unavailable, "no answer");
}

class FailedBatches : public LaneTest, public testing::WithParamInterface<FailedBatch> {};

TEST_P(FailedBatches, are_tried_again_op_by_op_where_that_helps) {
  store_.limit = GetParam().limit;
  store_.script = GetParam().script;
  start();
  occupy();
  int id = 0;
  for (const Verb verb : GetParam().verbs) submit(++id, verb);
  store_.permit(GetParam().batches);
  const auto answers = wait_for_answers(GetParam().verbs.size() + 1);
  EXPECT_EQ(store_.batches().size(), GetParam().batches);
  EXPECT_EQ(std::ranges::count_if(answers,
                                  [](const Answer& answer) {
                                    return answer.status == OpStatus::failed && answer.fault == StoreFault::unavailable;
                                  }),
            GetParam().unavailable);
}

INSTANTIATE_TEST_SUITE_P(
    Lanes, FailedBatches,
    testing::Values(
        // The first alone, the batch, and three alone.
        FailedBatch{"a_store_that_is_down_is_not_asked_a_hundred_times", no_answer, std::vector(100, Verb::lookup), 5,
                    101},
        FailedBatch{"nothing_when_the_time_of_a_call_is_over", no_answer, std::vector(10, Verb::lookup), 2, 11,
                    Duration::zero()},
        FailedBatch{"what_is_refused_then_may_still_have_been_done",
                    [](std::span<Op* const> ops) {
                      no_answer(ops);
                      if (ops.size() == 1) answer_failed(*ops[0], StoreFault::refused, "down");
                    },
                    {Verb::lookup, Verb::lookup},
                    4,
                    2},
        // The batch may still arrive: a second attempt that finds nothing to do would be told as "nothing was changed".
        FailedBatch{"no_action_of_an_operator",
                    [](std::span<Op* const> ops) {
                      for (Op* op : ops) op->status = OpStatus::lost;
                      if (ops.size() > 1) no_answer(ops);
                    },
                    {Verb::lookup, Verb::resolve, Verb::forget},
                    3,
                    2},
        FailedBatch{"not_one_that_failed_in_part",
                    [](std::span<Op* const> ops) {
                      for (Op* op : ops) op->status = OpStatus::done;
                      if (ops.size() > 1) answer_failed(*ops[0], StoreFault::unavailable, "this one only");
                    },
                    {Verb::lookup, Verb::lookup},
                    2,
                    1}),
    [](const auto& info) { return std::string(info.param.story); });

TEST_F(LaneTest, a_full_queue_refuses_at_once) {
  start({.queue = 3});
  occupy();
  for (int id = 1; id <= 5; ++id) submit(id);
  // Refused ops never left this thread.
  ASSERT_EQ(answered(), 2U);
  for (const Answer& answer : wait_for_answers(2)) {
    EXPECT_EQ(answer.status, OpStatus::failed);
    EXPECT_EQ(answer.error, "store queue full");
    EXPECT_EQ(answer.thread, std::this_thread::get_id());
  }
  EXPECT_EQ(lanes_->stats().refused, 2U);
  store_.permit(2);
  wait_for_answers(6);
  // What was taken made room again.
  store_.permit(1);
  submit(9);
  EXPECT_EQ(wait_for_answers(7).back().status, OpStatus::done);
}

TEST_F(LaneTest, stop_drains_what_is_queued_and_refuses_what_comes_after) {
  start();
  occupy();
  for (const int id : {1, 1, 2}) submit(id);
  std::jthread stopper([&] { lanes_->stop(); });
  // Until the stop is seen, these are queued like the others.
  const auto deadline = monotonic_now() + patience;
  while (lanes_->stats().refused == 0 && monotonic_now() < deadline) submit(7);
  const std::size_t submitted = submitted_;
  store_.permit(submitted);
  stopper.join();
  home_.stop();
  const auto answers = wait_for_answers(submitted);
  EXPECT_EQ(std::ranges::count(answers, OpStatus::done, &Answer::status), static_cast<std::ptrdiff_t>(submitted) - 1);
  const auto refused = std::ranges::find(answers, OpStatus::failed, &Answer::status);
  ASSERT_NE(refused, answers.end());
  EXPECT_EQ(refused->order, submitted);
  EXPECT_EQ(refused->error, "the store is closed");
  lanes_->stop();
}

TEST_F(LaneTest, callers_resume_on_their_own_executor) {
  LoopExecutor other_home;
  start({.lanes = 3});
  store_.permit(1000);
  for (int id = 1; id <= 100; ++id) submit(id, id % 2 == 0 ? home_ : other_home);
  for (const Answer& answer : wait_for_answers(100)) {
    EXPECT_EQ(answer.thread, answer.order % 2 == 0 ? home_.thread_id() : other_home.thread_id());
  }
  lanes_->stop();
}

TEST_F(LaneTest, lanes_work_side_by_side_and_an_id_stays_in_its_lane) {
  start({.lanes = 2});
  // Ids 2 and 4 go to lane 0, 3 to lane 1.
  submit(2);
  store_.wait_for_batches(1);
  submit(4);
  submit(3);
  store_.wait_for_batches(2);
  EXPECT_EQ(store_.batches()[1].at(0).id, id_of(3));
  EXPECT_EQ(lanes_->stats().queue_depth, 1U);
  store_.permit(3);
  wait_for_answers(3);
}

TEST_F(LaneTest, a_part_of_the_store_that_hangs_stops_its_own_ops_only) {
  store_.part = [](const OperationId& id) { return id.bytes[0] % 2U; };
  start();
  submit(1);
  store_.wait_for_batches(1);
  submit(3);
  submit(2);
  store_.wait_for_batches(2);
  EXPECT_EQ(store_.batches()[1].at(0).id, id_of(2));
  EXPECT_EQ(lanes_->stats().queue_depth, 1U) << "3 waits for 1";
  store_.permit(3);
  wait_for_answers(3);
}

TEST_F(LaneTest, parts_that_come_after_the_end_are_refused) {
  store_.part = [](const OperationId& id) { return id.bytes[0] % 2U; };
  start();
  lanes_->stop();
  for (const int id : {1, 2}) submit(id);
  for (const Answer& answer : wait_for_answers(2)) EXPECT_EQ(answer.fault, StoreFault::refused);
}

// The first executor submits, is to wake the lane when its turn is over, and its turn does not end.
TEST_F(LaneTest, a_lane_is_woken_for_one_executor_without_the_turn_of_another) {
  start();
  store_.permit(2);
  wait_for_sleep();
  struct Turn : Work {
    std::function<void()> whole;
  } turn;
  std::latch submitted(1);
  std::latch over(1);
  turn.whole = [&] {
    submit(1, busy_);
    submitted.count_down();
    over.wait();
  };
  turn.run = [](Work& work) { static_cast<Turn&>(work).whole(); };
  busy_.post(turn);
  submitted.wait();
  submit(2);
  const auto first = wait_for_answers(1);
  over.count_down();
  ASSERT_FALSE(first.empty());
  EXPECT_EQ(first[0].order, 2U);
  wait_for_answers(2);
  // The wake-up that came too late to be needed does not end the lane.
  wait_for_sleep();
  store_.permit(1);
  submit(3, busy_);
  wait_for_answers(3);
}

TEST_F(LaneTest, ops_from_many_threads_all_come_back) {
  constexpr int threads = 8;
  constexpr int rounds = 500;
  start({.lanes = 2, .batch = 32});
  store_.permit(threads * rounds);
  {
    std::vector<std::jthread> submitters;
    for (int i = 0; i < threads; ++i) {
      submitters.emplace_back([&, i] {
        for (int round = 0; round < rounds; ++round) {
          spawn(one(id_of(round % 50), static_cast<std::uint32_t>(i + 1), home_));
        }
      });
    }
  }
  const auto answers = wait_for_answers(threads * rounds);
  EXPECT_EQ(std::ranges::count(answers, OpStatus::done, &Answer::status), threads * rounds);
  lanes_->stop();
  EXPECT_EQ(lanes_->stats().ops, static_cast<std::uint64_t>(threads * rounds));
  for (const auto& batch : store_.batches()) {
    std::vector<OperationId> ids;
    for (const auto& seen : batch) ids.push_back(seen.id);
    std::ranges::sort(ids);
    ASSERT_TRUE(std::ranges::adjacent_find(ids) == ids.end());
  }
}

TEST(InlineLanes, a_store_that_never_blocks_is_executed_by_the_caller_itself) {
  const SystemClock clock;
  MemoryStore store(clock);
  ThreadLanes lanes(store);
  LoopExecutor home;
  bool resumed = false;
  const auto caller = [](ThreadLanes& through, LoopExecutor& executor, bool& done) -> Task<void> {
    Op op{.verb = Verb::claim, .id = id_of(1), .nonce = Nonce{{1}}};
    co_await through.run(op, executor);
    done = op.status == OpStatus::done && op.verdict == Verdict::execute;
  };
  spawn(caller(lanes, home, resumed));
  EXPECT_TRUE(resumed);
}

}  // namespace lane_test
}  // namespace once::store
