// Recorded responses that several clients read at the same time.
#include "gateway/limits/shared_outcomes.hpp"

#include <limits>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace once::gateway::shared_outcomes_test {

constexpr std::size_t size = 100'000;
constexpr std::size_t any = std::numeric_limits<std::size_t>::max();

OutcomeBytes outcome(char of, std::size_t length = size) {
  return std::make_shared<const std::string>(length, of);
}

struct SharedOutcomesTest : testing::Test {
  Usage usage;
  SharedOutcomes outcomes{usage};
  OperationId id{.bytes = {1}};
  Nonce nonce{.bytes = {2}};

  std::size_t held_for(HeldFor what) const { return usage.bytes_held_for[static_cast<std::size_t>(what)]; }
};

TEST_F(SharedOutcomesTest, equal_bytes_are_held_and_counted_once_until_the_last_reader_has_them) {
  OutcomeBytes first = outcomes.share(id, nonce, outcome('x'), HeldFor::response, any);
  OutcomeBytes second = outcomes.share(id, nonce, outcome('x'), HeldFor::replay, size);
  EXPECT_EQ(first.get(), second.get());
  EXPECT_EQ(usage.body_bytes, size);
  EXPECT_EQ(held_for(HeldFor::response), size);
  first.reset();
  EXPECT_EQ(usage.body_bytes, size);
  EXPECT_EQ(*second, *outcome('x'));
  second.reset();
  EXPECT_EQ(usage.body_bytes, 0U);
  EXPECT_EQ(held_for(HeldFor::response), 0U);
}

TEST_F(SharedOutcomesTest, another_operation_attempt_or_text_is_never_shared) {
  const OutcomeBytes mine = outcomes.share(id, nonce, outcome('x'), HeldFor::replay, any);
  const OutcomeBytes resolved = outcomes.share(id, nonce, outcome('y'), HeldFor::replay, any);
  const OutcomeBytes other = outcomes.share({.bytes = {3}}, nonce, outcome('z'), HeldFor::replay, any);
  const OutcomeBytes later = outcomes.share(id, {.bytes = {4}}, outcome('w'), HeldFor::replay, any);
  EXPECT_EQ((*mine)[0], 'x');
  EXPECT_EQ((*resolved)[0], 'y');
  EXPECT_EQ((*other)[0], 'z');
  EXPECT_EQ((*later)[0], 'w');
  EXPECT_EQ(usage.body_bytes, 4 * size);
}

TEST_F(SharedOutcomesTest, one_too_many_is_refused_and_one_that_is_told_already_is_not) {
  const OutcomeBytes mine = outcomes.share(id, nonce, outcome('x'), HeldFor::replay, size);
  ASSERT_TRUE(mine);
  EXPECT_FALSE(outcomes.share({.bytes = {3}}, nonce, outcome('z'), HeldFor::replay, 2 * size - 1));
  EXPECT_TRUE(outcomes.share(id, nonce, outcome('x'), HeldFor::replay, size));
  EXPECT_EQ(usage.body_bytes, size);
}

TEST_F(SharedOutcomesTest, replays_to_one_holder_leave_as_much_for_the_others) {
  constexpr std::size_t most = 8 * size;
  std::vector<OutcomeBytes> told;
  const auto replay = [&](char holder) {
    const OperationId id{.bytes = {static_cast<std::uint8_t>(told.size())}};
    OutcomeBytes given = outcomes.replay(id, nonce, outcome('x'), {holder}, most);
    if (given) told.push_back(given);
    return given != nullptr;
  };
  while (replay('a')) {
  }
  EXPECT_EQ(told.size(), 4U);
  EXPECT_TRUE(outcomes.replay({.bytes = {0}}, nonce, outcome('x'), {'a'}, most)) << "told already";
  while (replay('b')) {
  }
  EXPECT_EQ(told.size(), 6U);
  EXPECT_TRUE(replay('c'));
  EXPECT_EQ(held_for(HeldFor::replay), 7 * size);
  told.erase(told.begin(), told.begin() + 4);
  EXPECT_TRUE(replay('a'));
  told.clear();
  EXPECT_EQ(usage.body_bytes, 0U);
}

// What others hold besides is nobody's share.
TEST_F(SharedOutcomesTest, a_replay_that_finds_no_memory_takes_no_share) {
  ASSERT_EQ(usage.take(HeldFor::request, 4 * size, 4 * size), Reserved::yes);
  EXPECT_FALSE(outcomes.replay(id, nonce, outcome('x'), {'a'}, 4 * size));
  usage.give_back(HeldFor::request, 4 * size);
  const OutcomeBytes first = outcomes.replay(id, nonce, outcome('x'), {'a'}, 4 * size);
  EXPECT_TRUE(outcomes.replay({.bytes = {3}}, nonce, outcome('x'), {'a'}, 4 * size));
}

TEST_F(SharedOutcomesTest, small_ones_are_not_counted) {
  const OutcomeBytes given = outcome('x', SharedOutcomes::largest_uncounted);
  EXPECT_EQ(outcomes.share(id, nonce, given, HeldFor::replay, 0).get(), given.get());
  EXPECT_EQ(usage.body_bytes, 0U);
}

// The store may keep the outcome for a day; that is not counted as a client that reads for a day.
TEST_F(SharedOutcomesTest, whoever_keeps_the_outcome_itself_is_not_counted) {
  const OutcomeBytes kept_by_store = outcome('x');
  OutcomeBytes told = outcomes.share(id, nonce, kept_by_store, HeldFor::response, any);
  EXPECT_EQ(told.get(), kept_by_store.get());
  told.reset();
  EXPECT_EQ(usage.body_bytes, 0U);
}

TEST_F(SharedOutcomesTest, readers_of_many_threads_come_and_go) {
  const auto read = [this] {
    for (int i = 0; i < 2000; ++i) {
      const OutcomeBytes told = outcomes.share(id, nonce, outcome('x', 10'000), HeldFor::replay, any);
      ASSERT_EQ(told->size(), 10'000U);
    }
  };
  std::vector<std::jthread> readers;
  for (int i = 0; i < 4; ++i) readers.emplace_back(read);
  readers.clear();
  EXPECT_EQ(usage.body_bytes, 0U);
}

}  // namespace once::gateway::shared_outcomes_test
