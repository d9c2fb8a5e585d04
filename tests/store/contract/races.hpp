// The contract, part five: two gateways at once on one key, each with a store of its own on the same data.
#pragma once

#include <utility>
#include <vector>

#include "tests/store/contract/fixture.hpp"

namespace once::contract {

TEST_P(StoreContract, of_two_claims_one_executes_whatever_was_there) {
  std::vector<Made> fresh(race_rounds);
  for (Made& it : fresh) it.id = new_id();
  const std::vector<Made> expired = many(State::succeeded);
  advance(ttl() + unit());
  const std::vector<Made> released = many(State::started);
  for (const Made& it : released) ASSERT_EQ(release(it.id, it.nonce).status, OpStatus::done);
  struct Row {
    std::string_view was;
    std::vector<Made> keys;
    Attempt attempt;
  };
  for (const Row& row : std::vector<Row>{{"nothing", fresh, Attempt{1}},
                                         {"released", released, Attempt{1}},
                                         {"expired", expired, Attempt{1}},
                                         {"failed", many(State::failed), Attempt{2}},
                                         {"unknown", many(State::unknown), Attempt{2}}}) {
    SCOPED_TRACE(row.was);
    expect_one_claim(row.keys, row.attempt);
  }
}

TEST_P(LapsingStoreContract, of_two_claims_on_a_lapsed_key_one_executes) {
  const std::vector<Made> keys = many(State::started);
  ASSERT_TRUE(lapse());
  expect_one_claim(keys, Attempt{2});
}

TEST_P(LapsingStoreContract, of_a_late_finish_and_a_claim_one_is_done) {
  const std::vector<Made> keys = many(State::started);
  ASSERT_TRUE(lapse());
  expect_claim_or(keys, [&](const Made& it) { return finish_op(it.id, it.nonce); });
}

TEST_P(LapsingStoreContract, of_a_late_renewal_and_a_claim_one_is_done) {
  const std::vector<Made> keys = many(State::started);
  ASSERT_TRUE(lapse());
  if (!leases_lapse()) GTEST_SKIP() << "a lapsed claim has no owner that could renew it";
  expect_claim_or(keys, [&](const Made& it) { return owner_op(Verb::renew, it.id, it.nonce); });
}

TEST_P(StoreContract, of_an_operators_outcome_and_a_claim_one_is_done) {
  expect_claim_or(many(State::unknown), [&](const Made& it) {
    Op op = finish_op(it.id, it.nonce, State::succeeded, "by hand");
    op.verb = Verb::resolve;
    op.seen_state = State::unknown;
    return op;
  });
}

// A claim that comes after a release finds nothing; one that comes before it keeps the owner from releasing.
TEST_P(LapsingStoreContract, a_late_release_and_a_claim_never_end_the_same_claim) {
  const std::vector<Made> keys = many(State::started);
  ASSERT_TRUE(lapse());
  std::vector<Pair> pairs;
  for (const Made& it : keys) {
    pairs.push_back({claim_op(it.id, new_nonce(), OnUnknown::retry), owner_op(Verb::release, it.id, it.nonce)});
  }
  for (const auto& [claim, released] : race(std::move(pairs))) {
    ASSERT_EQ(claim.status, OpStatus::done) << claim.error;
    const bool first = released.status == OpStatus::done;
    if (!first) EXPECT_TRUE(executes(claim));
    if (!executes(claim)) continue;  // it met the release
    EXPECT_EQ(claim.record->attempt, first ? Attempt{1} : Attempt{2});
    const Op found = lookup(claim.id);
    ASSERT_TRUE(found.record.has_value());
    EXPECT_EQ(found.record->nonce, claim.nonce);
  }
}

TEST_P(StoreContract, a_chunk_is_in_the_outcome_exactly_if_it_was_told_as_appended) {
  const std::vector<Made> keys = many(State::started);
  std::vector<Pair> pairs;
  for (const Made& it : keys) {
    ASSERT_EQ(append(it.id, it.nonce, 0, "first"), OpStatus::done);
    Op end = finish_op(it.id, it.nonce, State::succeeded, "head");
    end.body_kept = BodyKept::in_chunks;
    pairs.push_back({append_op(it.id, it.nonce, 1, "second"), std::move(end)});
  }
  for (const auto& [appended, finished] : race(std::move(pairs))) {
    EXPECT_EQ(finished.status, OpStatus::done) << finished.error;
    const Texts with = {"first", "second"};
    const Texts without = {"first"};
    EXPECT_EQ(texts(read(finished.id)), appended.status == OpStatus::done ? with : without) << appended.error;
  }
}

TEST_P(StoreContract, of_two_ends_of_one_claim_the_first_stands) {
  const std::vector<Made> keys = many(State::started);
  std::vector<Pair> pairs;
  for (const Made& it : keys) {
    pairs.push_back({finish_op(it.id, it.nonce, State::succeeded), finish_op(it.id, it.nonce, State::failed)});
  }
  for (const auto& [succeeded, failed] : race(std::move(pairs))) {
    EXPECT_NE(succeeded.status == OpStatus::done, failed.status == OpStatus::done) << succeeded.error << failed.error;
    EXPECT_EQ(lookup(succeeded.id).record->state,
              succeeded.status == OpStatus::done ? State::succeeded : State::failed);
  }
}

}  // namespace once::contract
