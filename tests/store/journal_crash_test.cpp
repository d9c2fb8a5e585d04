// The journal through crashes of every kind, drawn from seeds: what was told is there afterwards, byte for byte, and
// nothing else is.
#include <gtest/gtest.h>

#include "tests/unit/support/journal_machine.hpp"

namespace once::store {
namespace journal_crash_test {

constexpr JournalSettings tiny{.segment_bytes = 4096, .cache_bytes = 4096};

void restart(JournalMachine& machine, JournalModel& model) {
  ASSERT_TRUE(machine.start()) << machine.refusal;
  model.lapse();
  model.check(machine);
}

enum class End : std::uint8_t { power, kill, close };

void end(JournalMachine& machine, End how) {
  switch (how) {
    case End::power: return machine.lose_power();
    case End::kill: return machine.kill();
    case End::close: machine.close(); return machine.kill();
  }
}

// A few lives of one journal, each of which ends at some disk call, as do some of the starts between them.
void live(std::uint64_t seed, const JournalSettings& settings) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Draw draw(seed);
  JournalMachine machine(seed, settings);
  JournalModel model;
  JournalWorkload workload(seed + 1000);
  if (seed % 2 == 0) workload.ttl = std::chrono::seconds(10);
  if (seed % 3 == 0) workload.tombstone = std::chrono::seconds(15);
  for (int lives = 0; lives < 6; ++lives) {
    restart(machine, model);
    if (testing::Test::HasFailure()) return;
    machine.platter.stop_at(1 + draw.below(120));
    for (int i = 0; i < 60 && !machine.platter.stopped(); ++i) workload.step(machine, model);
    end(machine, static_cast<End>(draw.below(3)));
    while (draw.one_in(2)) {
      machine.platter.stop_at(1 + draw.below(40));
      if (machine.start()) model.lapse();
      end(machine, draw.one_in(2) ? End::power : End::kill);
    }
  }
  restart(machine, model);
  EXPECT_EQ(machine.platter.syncs_after_failure(), 0U);
}

TEST(JournalCrash, what_was_told_survives_any_crash_also_in_one_large_segment) {
  for (std::uint64_t seed = 1; seed <= seeds(60) && !testing::Test::HasFailure(); ++seed) live(seed, tiny);
  for (std::uint64_t seed = 1; seed <= seeds(20) && !testing::Test::HasFailure(); ++seed) {
    live(seed, {.segment_bytes = 64 << 10});
  }
}

// With fewer syncs, what a loss of power leaves is everything up to some moment, and a kill takes nothing.
class WeakerSync {
 public:
  WeakerSync(std::uint64_t seed, Sync sync)
      : draw_(seed),
        machine_(seed, {.sync = sync, .segment_bytes = 8192, .cache_bytes = 4096}),
        workload_(seed + 2000, 8) {
    model_.fences_may_repeat = true;
  }

  void live() {
    ASSERT_TRUE(machine_.start()) << machine_.refusal;
    for (int lives = 0; lives < 5 && !testing::Test::HasFailure(); ++lives) {
      begin_history();
      const std::uint64_t steps = 1 + draw_.below(40);
      for (std::uint64_t i = 0; i < steps; ++i) step();
      const End how = static_cast<End>(draw_.below(3));
      if (how != End::power) certain_ = history_.size() - 1;
      end(machine_, how);
      // A kill first and the power later is the same: nothing was synced meanwhile but by the start.
      if (how == End::kill && draw_.one_in(2)) {
        ASSERT_TRUE(machine_.start()) << machine_.refusal;
        machine_.lose_power();
      }
      ASSERT_TRUE(machine_.start()) << machine_.refusal;
      expect_a_moment_of_history();
    }
  }

 private:
  struct Seen {
    JournalModel::May record;
    std::size_t chunks = 0;
  };
  using Moment = std::map<OperationId, Seen>;

  void step() {
    if (draw_.one_in(4)) {
      machine_.clock.advance(Duration(draw_.below(900)));
      const std::uint64_t syncs = machine_.store().stats().syncs;
      machine_.store().maintain();
      if (machine_.store().stats().syncs > syncs) certain_ = history_.size() - 1;
    }
    std::vector<Op> ops = workload_.next(model_);
    machine_.run(ops);
    for (const Op& op : ops) {
      model_.learn(op);
      remember();
    }
  }

  void begin_history() {
    history_.clear();
    certain_ = 0;
    remember();
  }
  void remember() {
    Moment now;
    for (const auto& [id, all] : model_.keys()) now[id] = {all.front(), model_.certain_chunks(all.front())};
    history_.push_back(std::move(now));
  }

  void expect_a_moment_of_history() {
    Moment found;
    for (const auto& [id, all] : model_.keys()) {
      const Op op = machine_.run(read_op(id));
      ASSERT_EQ(op.status, OpStatus::done) << op.error;
      found[id] = {op.record, chunks_in(op)};
    }
    for (std::size_t at = history_.size(); at-- > certain_;) {
      const bool same = std::ranges::all_of(found, [&](const auto& each) {
        const auto then = history_[at].find(each.first);
        const Seen was = then == history_[at].end() ? Seen() : then->second;
        return JournalModel::same(each.second.record, was.record) && each.second.chunks == was.chunks;
      });
      if (!same) continue;
      for (const auto& [id, seen] : found) {
        model_.keys()[id] = {seen.record};
        if (!seen.record) continue;
        const auto chunks = static_cast<std::uint32_t>(seen.chunks);
        model_.chunks_of(seen.record->nonce) = {.certain = chunks, .most = chunks};
      }
      return model_.lapse();
    }
    FAIL() << "what is there was never there at one time, or is older than a sync";
  }

  Draw draw_;
  JournalMachine machine_;
  JournalModel model_;
  JournalWorkload workload_;
  std::vector<Moment> history_;
  std::size_t certain_ = 0;  // the youngest moment that has to survive
};

TEST(JournalCrash, with_fewer_syncs_a_loss_of_power_leaves_what_was_at_some_moment_and_what_was_synced) {
  for (const Sync sync : {Sync::never, Sync::interval}) {
    for (std::uint64_t seed = 1; seed <= seeds(45) && !testing::Test::HasFailure(); ++seed) {
      SCOPED_TRACE(testing::Message() << (sync == Sync::never ? "never" : "interval") << ", seed " << seed);
      WeakerSync(seed, sync).live();
    }
  }
}

TEST(JournalCrash, the_interval_is_kept_and_a_clock_set_back_does_not_stop_it) {
  JournalMachine machine(1, {.sync = Sync::interval, .sync_interval = std::chrono::seconds(1)});
  ASSERT_TRUE(machine.start());
  const auto syncs = [&] { return machine.platter.calls(DiskCall::sync); };
  machine.run(claim_op(1, 1));
  const std::uint64_t before = syncs();
  machine.clock.advance(Duration(900));
  machine.store().maintain();
  EXPECT_EQ(syncs(), before);
  machine.clock.advance(Duration(100));
  machine.store().maintain();
  EXPECT_EQ(syncs(), before + 1);
  machine.run(claim_op(2, 2));
  machine.clock.advance(-std::chrono::minutes(5));
  machine.store().maintain();
  EXPECT_EQ(syncs(), before + 2);
}

// A name that was given just before a kill is seen by the next start, and is not yet on disk.
TEST(JournalCrash, names_that_a_start_builds_on_are_certain_before_it_gives_others) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    JournalMachine machine(seed, tiny);
    ASSERT_TRUE(machine.start());
    ASSERT_EQ(machine.run(claim_op(1, 1)).status, OpStatus::done);
    machine.platter.fail(DiskCall::sync_names, 1, DiskFault::failed);
    machine.clock.advance(std::chrono::hours(2));
    machine.store().maintain();
    machine.kill();
    machine.platter.fail(DiskCall::sync_names, 1 + seed % 2, DiskFault::failed);
    EXPECT_FALSE(machine.start());
    machine.lose_power();
    ASSERT_TRUE(machine.start()) << machine.refusal;
    EXPECT_TRUE(machine.run(lookup_op(1)).record.has_value());
  }
}

TEST(JournalCrash, many_restarts_leave_the_disk_as_large_as_it_was) {
  for (const Sync sync : {Sync::always, Sync::never}) {
    JournalMachine machine(3, {.sync = sync, .segment_bytes = 16 << 10});
    ASSERT_TRUE(machine.start());
    for (std::uint64_t key = 0; key < 50; ++key) {
      machine.run(claim_op(key, key));
      machine.run(finish_op(key, key, outcome_of(100, key)));
    }
    std::uint64_t largest = 0;
    for (int i = 0; i < 200; ++i) {
      i % 3 == 0 ? machine.lose_power() : machine.kill();
      ASSERT_TRUE(machine.start()) << machine.refusal;
      // The header of each segment stays until the log is cleaned.
      if (i == 20) largest = machine.platter.bytes() + (180 * journal::header_size);
      if (i > 20) ASSERT_LE(machine.platter.bytes(), largest) << i;
      EXPECT_LE(machine.platter.bytes(), machine.store().stats().disk_bytes);
    }
    if (sync == Sync::always) {
      for (std::uint64_t key = 0; key < 50; ++key) {
        EXPECT_EQ(*machine.run(lookup_op(key)).record->outcome, *outcome_of(100, key));
      }
    }
  }
}

TEST(JournalCrash, a_process_that_never_gets_further_than_its_start_leaves_no_files_behind) {
  JournalMachine machine(3, tiny);
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(machine.start()) << machine.refusal;
    machine.kill();
    EXPECT_LE(machine.platter.names().size(), 2U);
  }
}

TEST(JournalCrash, fences_grow_over_restarts_and_when_every_record_is_gone) {
  JournalMachine machine(1, tiny);
  Fence last{0};
  for (std::uint64_t i = 0; i < 40; ++i) {
    ASSERT_TRUE(machine.start());
    const Op op = machine.run(claim_op(1, i, Duration(10)));
    ASSERT_EQ(op.verdict, Verdict::execute);
    EXPECT_GT(op.record->fence, last);
    last = op.record->fence;
    if (i % 2 == 0) machine.run(owner_op(Verb::release, 1, i));
    machine.clock.advance(std::chrono::hours(2));
    machine.store().maintain();
    i % 3 == 0 ? machine.lose_power() : machine.kill();
    ASSERT_TRUE(machine.start());
    machine.clock.advance(std::chrono::hours(2));
    machine.store().maintain();
    EXPECT_EQ(machine.store().stats().keys, 0U);
    machine.lose_power();
  }
}

}  // namespace journal_crash_test
}  // namespace once::store
