// The memory store against the contract, and what it adds: a bound by bytes, and what gives way to it.
#include "store/memory/memory_store.hpp"

#include "tests/store/contract.hpp"
#include "tests/unit/support/manual_clock.hpp"

namespace once::store {
namespace {

class MemoryUnderTest final : public contract::StoreUnderTest {
 public:
  explicit MemoryUnderTest(Shared shared) : store_(clock_, {.shared = shared}) {}
  Store& store() override { return store_; }
  void advance(Duration by) override { clock_.advance(by); }

 private:
  ManualClock clock_;
  MemoryStore store_;
};

contract::StoreFactory memory_factory(std::string name, Shared shared) {
  return {std::move(name), [shared] { return std::make_unique<MemoryUnderTest>(shared); }};
}

}  // namespace

}  // namespace once::store

namespace once::contract {
INSTANTIATE_TEST_SUITE_P(Memory, StoreContract,
                         testing::Values(memory_factory("alone", Shared::no), memory_factory("shared", Shared::yes)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Memory, LapsingStoreContract, testing::Values(memory_factory("shared", Shared::yes)), name_of);
}  // namespace once::contract

namespace once::store {

namespace {

constexpr Duration ttl = std::chrono::hours(1);

class MemoryStoreTest : public testing::Test {
 protected:
  struct Claimed {
    OperationId id;
    Nonce nonce;
  };

  static Op run(MemoryStore& store, Op op) {
    Op* const batch = &op;
    store.execute({&batch, 1});
    return op;
  }
  Op claim(MemoryStore& store, const Claimed& who, Duration lease = std::chrono::seconds(30)) {
    return run(store, {.verb = Verb::claim, .id = who.id, .nonce = who.nonce, .terms = {.lease = lease, .ttl = ttl}});
  }
  Op finish(MemoryStore& store, const Claimed& who, std::size_t bytes, State state = State::succeeded,
            Duration kept_for = ttl) {
    return run(store, {.verb = Verb::finish,
                       .id = who.id,
                       .nonce = who.nonce,
                       .terms = {.ttl = kept_for},
                       .final_state = state,
                       .outcome = std::make_shared<const std::string>(bytes, 'x')});
  }
  bool knows(MemoryStore& store, const OperationId& id) {
    return run(store, {.verb = Verb::lookup, .id = id}).record.has_value();
  }
  Claimed somebody() {
    Claimed who;
    random_.fill(who.id.bytes);
    random_.fill(who.nonce.bytes);
    return who;
  }
  // Claims until the store refuses; never more than `limit`.
  std::vector<Claimed> fill_with_claims(MemoryStore& store, std::size_t limit) {
    std::vector<Claimed> held;
    while (held.size() < limit) {
      const Claimed who = somebody();
      if (claim(store, who).status != OpStatus::done) break;
      held.push_back(who);
    }
    return held;
  }

  ManualClock clock_;
  SystemRandom random_;
};

TEST_F(MemoryStoreTest, the_bound_holds_under_ten_times_its_load) {
  constexpr std::size_t bound = std::size_t{8} << 20U;
  MemoryStore store(clock_, {.max_bytes = bound, .shards = 2});
  constexpr std::size_t outcome = 4000;
  std::vector<Claimed> recent;
  for (std::size_t i = 0; i < 10 * bound / outcome; ++i) {
    const Claimed who = somebody();
    ASSERT_EQ(claim(store, who).verdict, Verdict::execute);
    ASSERT_EQ(finish(store, who, outcome).status, OpStatus::done);
    ASSERT_LE(store.stats().bytes, bound);
    recent.push_back(who);
  }
  const MemoryStats stats = store.stats();
  EXPECT_GT(stats.bytes, bound * 9 / 10);
  EXPECT_EQ(stats.records + stats.evictions, recent.size());
  EXPECT_EQ(stats.bodies_dropped, 0U);
  EXPECT_TRUE(knows(store, recent.back().id));
  EXPECT_FALSE(knows(store, recent.front().id));
}

TEST_F(MemoryStoreTest, what_is_of_one_request_is_counted_and_goes_with_its_record) {
  MemoryStore store(clock_, {.max_bytes = 64 << 10});
  const Claimed who = somebody();
  const std::string request(100, 'r');
  Op claim{.verb = Verb::claim, .id = who.id, .nonce = who.nonce, .terms = {.ttl = ttl}, .route = "/a"};
  ASSERT_EQ(run(store, claim).verdict, Verdict::execute);
  const std::size_t before = store.stats().bytes;
  ASSERT_EQ(run(store, {.verb = Verb::finish, .id = who.id, .nonce = who.nonce, .final_state = State::failed}).status,
            OpStatus::done);
  const std::string label = "/a\t" + request;
  claim.route = label;
  claim.nonce = somebody().nonce;
  ASSERT_EQ(run(store, claim).verdict, Verdict::execute);
  EXPECT_GT(store.stats().bytes, before + request.size());
  EXPECT_LT(store.stats().bytes, before + request.size() + 20) << "the route is stored once";
  ASSERT_EQ(run(store, {.verb = Verb::finish, .id = who.id, .nonce = claim.nonce, .final_state = State::failed}).status,
            OpStatus::done);
  ASSERT_EQ(run(store, {.verb = Verb::forget, .id = who.id, .nonce = claim.nonce, .seen_state = State::failed}).status,
            OpStatus::done);
  EXPECT_EQ(store.stats().bytes, 0U);
}

TEST_F(MemoryStoreTest, what_was_replayed_lately_stays_longer) {
  MemoryStore store(clock_, {.max_bytes = 64 << 10});
  const Claimed used = somebody();
  const Claimed unused = somebody();
  for (const Claimed& who : {used, unused}) {
    claim(store, who);
    finish(store, who, 100);
  }
  while (store.stats().evictions < 50) {
    const Claimed who = somebody();
    ASSERT_EQ(claim(store, who).status, OpStatus::done);
    ASSERT_EQ(finish(store, who, 1000).status, OpStatus::done);
    ASSERT_EQ(claim(store, {used.id, somebody().nonce}).verdict, Verdict::replay);
  }
  EXPECT_FALSE(knows(store, unused.id));
}

TEST_F(MemoryStoreTest, a_live_claim_is_never_evicted) {
  MemoryStore store(clock_, {.max_bytes = 64 << 10});
  const std::vector<Claimed> held = fill_with_claims(store, 50);
  for (int i = 0; i < 1000; ++i) {
    const Claimed who = somebody();
    ASSERT_EQ(claim(store, who).status, OpStatus::done);
    ASSERT_EQ(finish(store, who, 2000).status, OpStatus::done);
  }
  EXPECT_GT(store.stats().evictions, 900U);
  for (const Claimed& who : held) ASSERT_EQ(finish(store, who, 10).status, OpStatus::done);
}

TEST_F(MemoryStoreTest, full_of_live_claims_it_refuses_more_and_changes_nothing) {
  MemoryStore store(clock_, {.max_bytes = 64 << 10});
  const std::vector<Claimed> held = fill_with_claims(store, 10'000);
  ASSERT_GT(held.size(), 100U);
  ASSERT_LT(held.size(), 10'000U);
  const Claimed late = somebody();
  const Op refused = claim(store, late);
  EXPECT_EQ(refused.status, OpStatus::failed);
  EXPECT_EQ(refused.fault, StoreFault::full);
  EXPECT_FALSE(refused.error.empty());
  EXPECT_FALSE(knows(store, late.id));
  EXPECT_EQ(store.stats().records, held.size());
  EXPECT_EQ(store.stats().evictions, 0U);

  // Those that are known go on, and the first that ends makes room.
  EXPECT_EQ(claim(store, held.front()).verdict, Verdict::execute);
  EXPECT_EQ(run(store, {.verb = Verb::release, .id = held[0].id, .nonce = held[0].nonce}).status, OpStatus::done);
  EXPECT_EQ(claim(store, late).status, OpStatus::done);
}

TEST_F(MemoryStoreTest, an_outcome_that_does_not_fit_is_a_success_without_its_body) {
  MemoryStore store(clock_, {.max_bytes = 64 << 10});
  const Claimed small = somebody();
  claim(store, small);
  finish(store, small, 100);

  const Claimed large = somebody();
  ASSERT_EQ(claim(store, large).verdict, Verdict::execute);
  EXPECT_EQ(finish(store, large, 1 << 20).status, OpStatus::done);
  EXPECT_EQ(claim(store, {large.id, somebody().nonce}).verdict, Verdict::not_kept);
  EXPECT_EQ(store.stats().bodies_dropped, 1U);
  EXPECT_LE(store.stats().bytes, std::size_t{64} << 10U);
  EXPECT_TRUE(knows(store, small.id)) << "it pushed out what it could not replace";

  const std::vector<Claimed> held = fill_with_claims(store, 10'000);
  EXPECT_EQ(finish(store, held.back(), 10'000).status, OpStatus::done);
  EXPECT_EQ(claim(store, {held.back().id, somebody().nonce}).verdict, Verdict::not_kept);
  EXPECT_LE(store.stats().bytes, std::size_t{64} << 10U);
}

TEST_F(MemoryStoreTest, unknown_outcomes_go_only_when_nothing_finished_is_left) {
  MemoryStore store(clock_, {.max_bytes = 64 << 10});
  const Claimed unknown = somebody();
  claim(store, unknown);
  finish(store, unknown, 0, State::unknown);
  for (int i = 0; i < 1000; ++i) {
    const Claimed who = somebody();
    claim(store, who);
    finish(store, who, 1000, i % 2 == 0 ? State::succeeded : State::failed);
  }
  EXPECT_TRUE(knows(store, unknown.id));
  fill_with_claims(store, 10'000);
  EXPECT_FALSE(knows(store, unknown.id));
}

TEST_F(MemoryStoreTest, in_a_shared_store_lapsed_claims_give_way_last) {
  MemoryStore store(clock_, {.max_bytes = 64 << 10, .shared = Shared::yes});
  const std::vector<Claimed> held = fill_with_claims(store, 10'000);
  ASSERT_EQ(claim(store, somebody()).fault, StoreFault::full);
  clock_.advance(std::chrono::seconds(31));
  EXPECT_EQ(claim(store, somebody()).status, OpStatus::done);
  EXPECT_FALSE(knows(store, held.front().id));
  EXPECT_TRUE(knows(store, held.back().id));
}

TEST_F(MemoryStoreTest, when_it_is_full_lapsed_claims_of_outside_owners_give_way_and_live_ones_do_not) {
  MemoryStore store(clock_, {.max_bytes = 64 << 10, .shards = 1});
  const auto claim_outside = [&](const Claimed& who) {
    return run(store, {.verb = Verb::claim,
                       .id = who.id,
                       .nonce = who.nonce,
                       .terms = {.lease = std::chrono::seconds(30), .ttl = ttl, .owner = Owner::outside}});
  };
  std::vector<Claimed> held;
  for (held.push_back(somebody()); claim_outside(held.back()).status == OpStatus::done; held.push_back(somebody())) {
  }
  EXPECT_EQ(claim_outside(somebody()).fault, StoreFault::full);
  clock_.advance(std::chrono::seconds(31));
  EXPECT_EQ(claim_outside(somebody()).status, OpStatus::done);
  EXPECT_FALSE(knows(store, held.front().id));
}

TEST_F(MemoryStoreTest, leases_do_not_lapse_in_a_store_of_one_process) {
  MemoryStore store(clock_);
  const Claimed who = somebody();
  ASSERT_EQ(claim(store, who).verdict, Verdict::execute);
  clock_.advance(std::chrono::hours(1000));
  EXPECT_EQ(claim(store, {who.id, somebody().nonce}).verdict, Verdict::in_flight);
  EXPECT_EQ(finish(store, who, 10).status, OpStatus::done);
}

TEST_F(MemoryStoreTest, claims_give_back_the_memory_of_what_expired) {
  MemoryStore store(clock_, {.shards = 1});
  constexpr std::size_t count = 2000;
  for (std::size_t i = 0; i < count; ++i) {
    const Claimed who = somebody();
    claim(store, who);
    finish(store, who, 1000);
  }
  ASSERT_EQ(store.stats().records, count);
  clock_.advance(ttl);
  for (std::size_t i = 0; i < count; ++i) {
    const Claimed who = somebody();
    claim(store, who);
    run(store, {.verb = Verb::release, .id = who.id, .nonce = who.nonce});
  }
  EXPECT_EQ(store.stats().expired, count);
  EXPECT_EQ(store.stats().records, 0U);
  EXPECT_EQ(store.stats().bytes, 0U);
}

TEST_F(MemoryStoreTest, what_is_remembered_gives_back_the_memory_of_its_outcome) {
  MemoryStore store(clock_, {.shards = 1});
  constexpr std::size_t count = 500;
  std::vector<OperationId> ids;
  for (std::size_t i = 0; i < count; ++i) {
    const Claimed who = somebody();
    run(store, {.verb = Verb::claim, .id = who.id, .nonce = who.nonce, .terms = {.ttl = ttl, .tombstone = 2 * ttl}});
    finish(store, who, 1000);
    ids.push_back(who.id);
  }
  clock_.advance(ttl);
  EXPECT_EQ(store.sweep(count * 4), 0U);
  EXPECT_EQ(store.stats().records, count);
  EXPECT_LT(store.stats().bytes, count * 1000);
  for (const OperationId& id : ids) EXPECT_EQ(claim(store, {id, Nonce{{9}}}).verdict, Verdict::gone);
  clock_.advance(2 * ttl);
  std::size_t removed = 0;
  for (int i = 0; i < 10; ++i) removed += store.sweep(count);
  EXPECT_EQ(removed, count);
  EXPECT_EQ(store.stats().bytes, 0U);
}

TEST_F(MemoryStoreTest, what_has_expired_goes_before_an_answer_that_is_still_there) {
  MemoryStore store(clock_, {.max_bytes = 64 << 10, .shards = 1});
  std::vector<Claimed> expired;
  std::vector<Claimed> alive;
  for (int i = 0; i < 20; ++i) {
    const Claimed who = alive.emplace_back(somebody());
    claim(store, who);
    finish(store, who, 100, State::succeeded, 4 * ttl);
  }
  for (int i = 0; i < 20; ++i) {
    const Claimed who = expired.emplace_back(somebody());
    run(store, {.verb = Verb::claim, .id = who.id, .nonce = who.nonce, .terms = {.ttl = ttl, .tombstone = 4 * ttl}});
    finish(store, who, 100);
  }
  clock_.advance(ttl);
  store.sweep(1000);
  for (const Claimed& who : expired) ASSERT_EQ(claim(store, {who.id, Nonce{{9}}}).verdict, Verdict::gone);
  while (store.stats().evictions < expired.size()) {
    const Claimed who = somebody();
    ASSERT_EQ(claim(store, who).status, OpStatus::done);
    ASSERT_EQ(finish(store, who, 100).status, OpStatus::done);
  }
  for (const Claimed& who : expired) EXPECT_FALSE(knows(store, who.id));
  for (const Claimed& who : alive) EXPECT_EQ(claim(store, {who.id, Nonce{{9}}}).verdict, Verdict::replay);
}

TEST_F(MemoryStoreTest, fences_go_on_growing_after_a_restart) {
  const Claimed who = somebody();
  Fence highest{};
  {
    MemoryStore before(clock_, {.shards = 1});
    for (int i = 0; i < 10'000; ++i) highest = claim(before, somebody()).record->fence;
    highest = std::max(highest, claim(before, who).record->fence);
  }
  clock_.advance(std::chrono::seconds(1));
  MemoryStore after(clock_, {.shards = 1});
  EXPECT_GT(claim(after, who).record->fence, highest);
}

TEST_F(MemoryStoreTest, sweep_goes_round_in_steps_of_its_limit) {
  MemoryStore store(clock_, {.max_bytes = 64 << 20, .shards = 8});
  constexpr std::size_t count = 5000;
  for (std::size_t i = 0; i < count; ++i) {
    const Claimed who = somebody();
    claim(store, who);
    finish(store, who, 10);
  }
  EXPECT_EQ(store.sweep(count * 4), 0U);
  clock_.advance(ttl);
  std::size_t removed = 0;
  for (int i = 0; i < 200 && removed < count; ++i) removed += store.sweep(100);
  EXPECT_EQ(removed, count);
  EXPECT_EQ(store.stats().records, 0U);
}

TEST_F(MemoryStoreTest, expired_records_go_before_others_when_it_is_full) {
  MemoryStore store(clock_, {.max_bytes = 64 << 10});
  const Claimed owner = somebody();
  claim(store, owner);
  const Claimed oldest = somebody();
  claim(store, oldest);
  finish(store, oldest, 100);
  while (store.stats().bytes < 63'000) {
    const Claimed who = somebody();
    claim(store, who);
    finish(store, who, 1000, State::succeeded, std::chrono::minutes(1));
  }
  clock_.advance(std::chrono::minutes(1));
  EXPECT_EQ(finish(store, owner, 6000).status, OpStatus::done);
  EXPECT_TRUE(knows(store, oldest.id));
  EXPECT_EQ(store.stats().evictions, 0U);
  EXPECT_GT(store.stats().expired, 0U);
}

}  // namespace
}  // namespace once::store
