// The journal with everybody at once: requests on several threads, the keeper's work beside them, real files.
#include <atomic>
#include <latch>
#include <thread>

#include <gtest/gtest.h>

#include "base/random.hpp"
#include "store/journal/keeper.hpp"
#include "store/journal/system_disk.hpp"
#include "tests/unit/support/journal_machine.hpp"
#include "tests/unit/support/temporary_folder.hpp"

namespace once::store {
namespace journal_threads_test {

using std::chrono::hours;

constexpr std::uint64_t threads = 4;
constexpr std::uint64_t rounds = 150;
constexpr std::uint64_t shared_keys = 40;

std::string_view name_of(Sync sync) {
  switch (sync) {
    case Sync::always: return "always";
    case Sync::interval: return "interval";
    case Sync::never: return "never";
  }
  return "";
}

class JournalThreads : public testing::TestWithParam<Sync> {
 protected:
  void open() {
    disk_ = std::make_unique<SystemDisk>(folder_.path());
    auto opened = JournalStore::open(
        *disk_, clock_, random_, log_,
        {.sync = GetParam(), .segment_bytes = 16 << 10, .cache_bytes = 64 << 10, .count_anew_after = 8});
    ASSERT_TRUE(opened.has_value()) << opened.error().detail;
    store_ = std::move(*opened);
  }
  void close() {
    store_.reset();
    disk_.reset();
  }

  Op run(Op op) {
    if (store_->answer_at_once(op)) return op;
    Op* const batch = &op;
    store_->execute({&batch, 1});
    return op;
  }

  // What was recorded before, by then on disk only and perhaps carried forward.
  void look_back(std::uint64_t own, std::uint64_t number) {
    const std::uint64_t back = number / 2;
    const Op replayed = run(claim_op(own - back, 1));
    ASSERT_EQ(replayed.verdict, Verdict::replay) << replayed.error;
    EXPECT_EQ(*replayed.record->outcome, *outcome_of(100 + (number - back) % 300, own - back));
    const Op found = run({.verb = Verb::lookup, .id = numbered<OperationId>(own - back)});
    ASSERT_TRUE(found.record.has_value()) << found.error;
    EXPECT_EQ(found.record->state, State::succeeded);
  }

  // A claim that is held outside, renewed without its labels.
  void renew_outside(std::uint64_t own) {
    Op op = claim_op(own + 300'000, own, Duration(200));
    op.terms.owner = Owner::outside;
    op.terms.lease = hours(1);
    op.tenant = "acme";
    EXPECT_EQ(run(op).verdict, Verdict::execute);
    op.verb = Verb::renew;
    op.tenant = {};
    EXPECT_EQ(run(op).status, OpStatus::done) << op.error;
    EXPECT_EQ(run(owner_op(Verb::release, own + 300'000, own)).status, OpStatus::done);
  }

  void list() {
    std::string cursor;
    do {
      const auto page = store_->search()->scan({}, cursor, 100);
      ASSERT_TRUE(page.has_value()) << page.error().detail;
      for (const KeyInfo& key : page->keys) EXPECT_EQ(key.tenant.value_or("acme"), "acme");
      cursor = page->next;
    } while (!cursor.empty());
    EXPECT_TRUE(store_->search()->count("").has_value());
  }

  // A key of its own, one that is soon forgotten, and one that all of them want.
  void round(std::uint64_t thread, std::uint64_t number) {
    const std::uint64_t own = 1'000'000 * (thread + 1) + number;
    EXPECT_EQ(run(claim_op(own, own)).verdict, Verdict::execute);
    EXPECT_EQ(run(finish_op(own, own, outcome_of(100 + number % 300, own), hours(24))).status, OpStatus::done);

    look_back(own, number);
    renew_outside(own);

    std::vector<Op> brief = {claim_op(own + 500'000, own, Duration(200)), claim_op(own + 700'000, own, Duration(200))};
    std::vector<Op*> batch = {brief.data(), &brief[1]};
    store_->execute(batch);
    for (const Op& op : brief) EXPECT_EQ(op.verdict, Verdict::execute) << op.error;
    for (const Op& op : brief) EXPECT_EQ(op.status, OpStatus::done) << op.error;
    for (Op* op : batch) *op = finish_op(op == batch[0] ? own + 500'000 : own + 700'000, own, nullptr, Duration(200));
    store_->execute(batch);
    for (const Op& op : brief) EXPECT_EQ(op.status, OpStatus::done) << op.error;

    const std::uint64_t wanted = number % shared_keys;
    const Op claimed = run(claim_op(wanted, own));
    ASSERT_EQ(claimed.status, OpStatus::done) << claimed.error;
    if (claimed.verdict == Verdict::execute) {
      executed_[wanted].fetch_add(1);
      EXPECT_EQ(run(finish_op(wanted, own, outcome_of(64, wanted), hours(24))).status, OpStatus::done);
    } else if (claimed.verdict == Verdict::replay) {
      EXPECT_EQ(*claimed.record->outcome, *outcome_of(64, wanted));
    } else {
      EXPECT_EQ(claimed.verdict, Verdict::in_flight);
    }
  }

  // Each thread has a stream, of which it appends one chunk a round.
  static std::uint64_t stream_of(std::uint64_t thread) { return 90'000'000 + thread; }
  void append(std::uint64_t thread, std::uint64_t number) {
    const std::uint64_t key = stream_of(thread);
    if (number == 0) EXPECT_EQ(run(claim_op(key, key)).verdict, Verdict::execute);
    EXPECT_EQ(run(append_op(key, key, static_cast<std::uint32_t>(number))).status, OpStatus::done);
  }
  // Whatever is being appended, carried forward or dropped meanwhile, no chunk that was there goes.
  void read_streams(std::array<std::size_t, threads>& seen) {
    for (std::uint64_t thread = 0; thread < threads; ++thread) {
      const std::size_t from = seen[thread] - std::min<std::size_t>(seen[thread], 8);
      const Op op = run(read_op(numbered<OperationId>(stream_of(thread)), static_cast<std::uint32_t>(from)));
      ASSERT_EQ(op.status, OpStatus::done) << op.error;
      const std::size_t found = from + chunks_in(op);
      EXPECT_GE(found, seen[thread]);
      seen[thread] = found;
    }
  }

  void expect_everything_there() {
    for (std::uint64_t thread = 0; thread < threads; ++thread) {
      EXPECT_EQ(chunks_in(run(read_op(stream_of(thread)))), rounds);
    }
    for (std::uint64_t thread = 0; thread < threads; ++thread) {
      for (std::uint64_t number = 0; number < rounds; ++number) {
        const std::uint64_t own = 1'000'000 * (thread + 1) + number;
        const Op op = run(claim_op(own, 1));
        ASSERT_EQ(op.verdict, Verdict::replay) << own;
        ASSERT_EQ(*op.record->outcome, *outcome_of(100 + number % 300, own));
      }
    }
    for (std::uint64_t key = 0; key < shared_keys; ++key) {
      EXPECT_EQ(executed_[key], 1) << "executed once and only once";
      EXPECT_EQ(*run(claim_op(key, 1)).record->outcome, *outcome_of(64, key));
    }
  }

  TemporaryFolder folder_;
  ManualClock clock_;
  SystemRandom random_;
  Log log_{clock_, -1, LogLevel::off, LogFormat::json};
  std::unique_ptr<SystemDisk> disk_;
  std::unique_ptr<JournalStore> store_;
  std::array<std::atomic<int>, shared_keys> executed_{};
};

TEST_P(JournalThreads, requests_and_upkeep_at_once) {
  open();
  std::atomic<bool> done{false};
  std::thread keeper([&] {
    while (!done) {
      clock_.advance(Duration(20));
      store_->maintain();
      EXPECT_NE(store_->stats().condition, JournalStats::Condition::failed);
    }
  });
  std::thread operators([&] {
    while (!done) list();
  });
  std::thread reader([&] {
    std::array<std::size_t, threads> seen{};
    while (!done) read_streams(seen);
  });
  {
    std::latch together(threads);
    std::vector<std::jthread> requests;
    for (std::uint64_t thread = 0; thread < threads; ++thread) {
      requests.emplace_back([&, thread] {
        together.arrive_and_wait();
        for (std::uint64_t number = 0; number < rounds; ++number) {
          append(thread, number);
          round(thread, number);
        }
      });
    }
  }
  done = true;
  keeper.join();
  operators.join();
  reader.join();
  for (std::uint64_t thread = 0; thread < threads; ++thread) {
    Op broken_off = finish_op(stream_of(thread), stream_of(thread), nullptr);
    broken_off.final_state = State::unknown;
    EXPECT_EQ(run(broken_off).status, OpStatus::done);
  }
  for (int i = 0; i < 200; ++i) {
    clock_.advance(Duration(100));
    store_->maintain();
  }
  EXPECT_EQ(store_->stats().keys, threads * rounds + shared_keys + threads);
  EXPECT_EQ(store_->stats().live_claims, 0U);
  EXPECT_EQ(store_->stats().bodies_dropped, 0U);
  expect_everything_there();
  close();
  open();
  expect_everything_there();
}

INSTANTIATE_TEST_SUITE_P(Sync, JournalThreads, testing::Values(Sync::always, Sync::interval, Sync::never),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(JournalKeeper, ends_with_the_store_still_in_use) {
  const TemporaryFolder folder;
  const ManualClock clock;
  SystemRandom random;
  const Log log(clock, -1, LogLevel::off, LogFormat::json);
  SystemDisk disk(folder.path());
  auto store = JournalStore::open(disk, clock, random, log, {});
  ASSERT_TRUE(store.has_value());
  {
    const JournalKeeper keeper(**store);
  }
  Op op = claim_op(1, 1);
  Op* const batch = &op;
  (*store)->execute({&batch, 1});
  EXPECT_EQ(op.verdict, Verdict::execute);
}

}  // namespace journal_threads_test
}  // namespace once::store
