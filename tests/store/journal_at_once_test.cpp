// Answers that the journal gives without a batch, from what is in memory.
#include <gtest/gtest.h>

#include "tests/unit/support/journal_machine.hpp"

namespace once::store {
namespace journal_at_once_test {

using std::chrono::hours;
using std::chrono::minutes;

TEST(JournalAnswers, at_once_are_those_that_execute_gives) {
  std::uint64_t at_once = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    JournalMachine machine(seed, {.segment_bytes = 4096, .cache_bytes = 256 << 10});
    JournalModel model;
    JournalWorkload workload(seed);
    workload.ttl = seed % 2 == 0 ? hours(24) : minutes(3);
    workload.tombstone = seed % 3 == 0 ? minutes(2) : minutes(0);
    ASSERT_TRUE(machine.start());
    for (int i = 0; i < 150; ++i) {
      std::vector<Op> ops = workload.next(model);
      std::vector<std::optional<Op>> early;
      for (const Op& op : ops) {
        Op asked = op;
        const bool answered = machine.store().answer_at_once(asked);
        early.push_back(answered ? std::optional(asked) : std::nullopt);
      }
      machine.run(ops);
      for (std::size_t k = 0; k < ops.size(); ++k) {
        model.learn(ops[k]);
        if (!early[k]) continue;
        ++at_once;
        EXPECT_EQ(early[k]->status, ops[k].status);
        EXPECT_EQ(early[k]->verdict, ops[k].verdict);
        EXPECT_EQ(early[k]->now, ops[k].now);
        EXPECT_TRUE(JournalModel::same(early[k]->record, ops[k].record));
      }
      if (i % 10 == 0) machine.clock.advance(minutes(1));
      if (i == 75) {
        machine.kill();
        ASSERT_TRUE(machine.start());
        model.lapse();
      }
    }
  }
  EXPECT_GT(at_once, 200U);
}

}  // namespace journal_at_once_test
}  // namespace once::store
