// What the memory store adds to the contract: a bound by bytes, and what gives way to it.
#include "store/memory/memory_store.hpp"

#include <cstring>

#include "tests/store/contract.hpp"
#include "tests/unit/support/manual_clock.hpp"

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
  Op claim_for(MemoryStore& store, const Claimed& who, char holder) {
    Op op{.verb = Verb::claim, .id = who.id, .nonce = who.nonce, .terms = {.ttl = ttl}};
    op.holder.fill(holder);
    return run(store, std::move(op));
  }
  static Op append(MemoryStore& store, const Claimed& who, std::uint32_t chunk, std::size_t bytes) {
    Op op{.verb = Verb::append, .id = who.id, .nonce = who.nonce, .chunk = chunk};
    op.outcome = std::make_shared<const std::string>(bytes, 'x');
    return run(store, std::move(op));
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
  // Claims a key of nobody in particular and records its response.
  Claimed answered(MemoryStore& store, std::size_t bytes, State state = State::succeeded, Duration kept_for = ttl) {
    const Claimed who = somebody();
    EXPECT_EQ(claim(store, who).verdict, Verdict::execute);
    EXPECT_EQ(finish(store, who, bytes, state, kept_for).status, OpStatus::done);
    return who;
  }
  // Claims a key for this holder and records a response of 1 KB.
  void store_answer(MemoryStore& store, const Claimed& who, char holder) {
    ASSERT_EQ(claim_for(store, who, holder).verdict, Verdict::execute);
    ASSERT_EQ(finish(store, who, 1000).status, OpStatus::done);
  }
  // Appends until the store refuses; returns how many bytes it took.
  std::size_t fill_stream(MemoryStore& store, const Claimed& who, char holder) {
    constexpr std::size_t piece = 16'000;
    EXPECT_EQ(claim_for(store, who, holder).verdict, Verdict::execute);
    std::uint32_t chunks = 0;
    while (append(store, who, chunks, piece).status == OpStatus::done) ++chunks;
    return chunks * piece;
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
    recent.push_back(answered(store, outcome));
    ASSERT_LE(store.stats().bytes, bound);
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
  const Claimed used = answered(store, 100);
  const Claimed unused = answered(store, 100);
  while (store.stats().evictions < 50) {
    answered(store, 1000);
    ASSERT_EQ(claim(store, {used.id, somebody().nonce}).verdict, Verdict::replay);
  }
  EXPECT_FALSE(knows(store, unused.id));
}

TEST_F(MemoryStoreTest, a_live_claim_is_never_evicted) {
  MemoryStore store(clock_, {.max_bytes = 64 << 10});
  const std::vector<Claimed> held = fill_with_claims(store, 50);
  for (int i = 0; i < 1000; ++i) answered(store, 2000);
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
  const Claimed small = answered(store, 100);

  const Claimed large = somebody();
  ASSERT_EQ(claim(store, large).verdict, Verdict::execute);
  EXPECT_EQ(finish(store, large, 1 << 20).status, OpStatus::done);
  EXPECT_EQ(claim(store, {large.id, somebody().nonce}).verdict, Verdict::not_kept);
  EXPECT_EQ(store.stats().bodies_dropped, 1U);
  EXPECT_LE(store.stats().bytes, std::size_t{64} << 10U);
  EXPECT_TRUE(knows(store, small.id)) << "it pushed out what it could not replace";

  const std::vector<Claimed> held = fill_with_claims(store, 10'000);
  while (claim_for(store, somebody(), 'a').status == OpStatus::done) {
  }
  EXPECT_EQ(finish(store, held.back(), 10'000).status, OpStatus::done);
  EXPECT_EQ(claim(store, {held.back().id, somebody().nonce}).verdict, Verdict::not_kept);
  EXPECT_LE(store.stats().bytes, std::size_t{64} << 10U);
}

TEST_F(MemoryStoreTest, what_prevents_a_second_execution_is_never_evicted) {
  MemoryStore store(clock_, {.max_bytes = 64 << 10, .shared = Shared::yes});
  const Claimed unknown = answered(store, 0, State::unknown);
  const Claimed lapsed = somebody();
  claim(store, lapsed);
  clock_.advance(std::chrono::seconds(31));
  for (int i = 0; i < 1000; ++i) answered(store, 1000, i % 2 == 0 ? State::succeeded : State::failed);
  fill_with_claims(store, 10'000);
  EXPECT_EQ(claim(store, somebody()).fault, StoreFault::full);
  EXPECT_TRUE(knows(store, unknown.id));
  EXPECT_TRUE(knows(store, lapsed.id));
}

// 200 keys of others, and a stranger with as many keys as it likes.
TEST_F(MemoryStoreTest, a_holder_that_floods_the_store_evicts_its_own_answers) {
  MemoryStore store(clock_, {.max_bytes = 1 << 20, .shards = 4});
  std::vector<Claimed> victims;
  for (int i = 0; i < 200; ++i) store_answer(store, victims.emplace_back(somebody()), i % 2 == 0 ? 'a' : 'b');
  for (int i = 0; i < 20'000; ++i) store_answer(store, somebody(), 'f');
  for (const Claimed& who : victims) {
    EXPECT_EQ(claim_for(store, {who.id, somebody().nonce}, 'a').verdict, Verdict::replay);
  }
  EXPECT_GT(store.stats().evictions, 19'000U);
  // New keys of a light holder displace the heaviest.
  std::vector<Claimed> late;
  for (int i = 0; i < 200; ++i) store_answer(store, late.emplace_back(somebody()), 'c');
  for (const Claimed& who : late) EXPECT_EQ(claim_for(store, {who.id, Nonce{{9}}}, 'c').verdict, Verdict::replay);
  EXPECT_EQ(store.stats().refused, 0U);
}

// What cannot be evicted: unknown outcomes, and requests at work.
TEST_F(MemoryStoreTest, a_holder_that_fills_the_store_with_what_cannot_be_evicted_is_refused_itself) {
  for (const bool ends : {true, false}) {
    MemoryStore store(clock_, {.max_bytes = 4 << 20, .shards = 4});
    std::vector<Claimed> victims;
    for (int i = 0; i < 200; ++i) store_answer(store, victims.emplace_back(somebody()), 'b');
    for (int i = 0; i < 20'000; ++i) {
      const Claimed who = somebody();
      if (claim_for(store, who, 'a').status == OpStatus::done && ends) finish(store, who, 0, State::unknown);
      if (i % 100 == 0) store_answer(store, victims.emplace_back(somebody()), 'b');
    }
    EXPECT_EQ(claim_for(store, somebody(), 'a').fault, StoreFault::full);
    for (int i = 0; i < 200; ++i) store_answer(store, victims.emplace_back(somebody()), i % 2 == 0 ? 'b' : 'c');
    for (const Claimed& who : victims) EXPECT_EQ(claim(store, {who.id, Nonce{{9}}}).verdict, Verdict::replay);
    EXPECT_EQ(store.stats().evictions, 0U);
  }
}

// A failed record can be evicted, until it is claimed again.
TEST_F(MemoryStoreTest, a_holder_that_claims_all_its_failed_keys_again_leaves_room_for_others) {
  MemoryStore store(clock_, {.max_bytes = 1 << 20, .shards = 4});
  std::vector<Claimed> victims;
  for (int i = 0; i < 50; ++i) store_answer(store, victims.emplace_back(somebody()), 'b');
  std::vector<Claimed> failed;
  for (int i = 0; i < 5000; ++i) {
    const Claimed who = failed.emplace_back(somebody());
    ASSERT_EQ(claim_for(store, who, 'a').verdict, Verdict::execute);
    finish(store, who, 0, State::failed);
  }
  for (const Claimed& who : failed) claim_for(store, {who.id, somebody().nonce}, 'a');
  for (int i = 0; i < 50; ++i) store_answer(store, victims.emplace_back(somebody()), 'b');
  for (const Claimed& who : victims) EXPECT_TRUE(knows(store, who.id));
}

TEST_F(MemoryStoreTest, new_keys_displace_nothing_of_lighter_holders) {
  MemoryStore store(clock_, {.max_bytes = 1 << 20, .shards = 4});
  std::vector<Claimed> victims;
  while (store.stats().bytes < 600'000) store_answer(store, victims.emplace_back(somebody()), 'b');
  while (claim_for(store, somebody(), 'a').status == OpStatus::done) {
  }
  // They have about as much by now: the heavier of them gives way.
  EXPECT_GT(store.stats().evictions, 10U);
  EXPECT_LT(store.stats().evictions, victims.size() / 4);
  EXPECT_EQ(claim_for(store, somebody(), 'a').fault, StoreFault::full);
  store_answer(store, somebody(), 'b');
  store_answer(store, somebody(), 'c');
}

TEST_F(MemoryStoreTest, a_response_for_which_others_are_too_light_displaces_what_its_own_holder_has) {
  constexpr std::size_t bound = std::size_t{1} << 20U;
  MemoryStore store(clock_, {.max_bytes = bound, .shards = 4});
  const Claimed oldest = somebody();
  store_answer(store, oldest, 'a');
  for (int i = 0; i < 80; ++i) store_answer(store, somebody(), 'a');
  for (int i = 0; store.stats().bytes < bound - 2000; ++i) {
    store_answer(store, somebody(), static_cast<char>('b' + i % 6));
  }
  const Claimed who = somebody();
  ASSERT_EQ(claim_for(store, who, 'a').verdict, Verdict::execute);
  ASSERT_EQ(finish(store, who, 100'000).status, OpStatus::done);
  EXPECT_EQ(claim(store, {who.id, Nonce{{9}}}).verdict, Verdict::replay);
  EXPECT_FALSE(knows(store, oldest.id));
}

// Streams under way cannot be evicted, so they are not recorded rather than that others lose their answers.
TEST_F(MemoryStoreTest, streams_under_way_take_half_of_the_store_and_nothing_of_lighter_holders) {
  MemoryStore store(clock_, {.max_bytes = 1 << 20, .shards = 4});
  std::vector<Claimed> victims;
  for (int i = 0; i < 300; ++i) store_answer(store, victims.emplace_back(somebody()), static_cast<char>('a' + i % 10));
  std::size_t recorded = 0;
  for (int i = 0; i < 100; ++i) recorded += fill_stream(store, somebody(), i % 2 == 0 ? 'f' : 'g');
  EXPECT_GT(recorded, std::size_t{400'000});
  EXPECT_LT(recorded, std::size_t{1} << 19U);
  for (const Claimed& who : victims) EXPECT_TRUE(knows(store, who.id));
}

TEST_F(MemoryStoreTest, streams_of_one_holder_leave_room_for_those_of_others) {
  constexpr std::size_t bound = std::size_t{1} << 20U;
  MemoryStore store(clock_, {.max_bytes = bound, .shards = 4});
  std::vector<Claimed> streams;
  std::size_t recorded = 0;
  for (int i = 0; i < 10; ++i) recorded += fill_stream(store, streams.emplace_back(somebody()), 'f');
  EXPECT_GT(recorded, bound / 4);
  EXPECT_LT(recorded, bound / 3);
  EXPECT_GT(fill_stream(store, somebody(), 'g'), bound / 8);

  // A stream that has ended is under way no more, whatever became of it.
  const Claimed& long_one = streams.front();
  ASSERT_EQ(
      run(store, {.verb = Verb::finish, .id = long_one.id, .nonce = long_one.nonce, .body_kept = BodyKept::no}).status,
      OpStatus::done);
  EXPECT_TRUE(run(store, {.verb = Verb::read, .id = long_one.id}).chunks.empty());
  EXPECT_GT(fill_stream(store, somebody(), 'f'), bound / 4);
}

// A takeover by another holder: its chunks are gone, and are counted for nobody.
TEST_F(MemoryStoreTest, a_stream_that_is_claimed_by_another_holder_counts_no_more) {
  constexpr std::size_t bound = std::size_t{1} << 20U;
  MemoryStore store(clock_, {.max_bytes = bound, .shards = 4, .shared = Shared::yes});
  const Claimed who = somebody();
  Op op{.verb = Verb::claim, .id = who.id, .nonce = who.nonce};
  op.terms = {.on_unknown = OnUnknown::retry, .lease = std::chrono::seconds(30)};
  op.holder.fill('f');
  ASSERT_EQ(run(store, op).verdict, Verdict::execute);
  ASSERT_GT(fill_stream(store, who, 'f'), bound / 4);
  clock_.advance(std::chrono::minutes(1));
  op.nonce = somebody().nonce;
  op.holder.fill('g');
  ASSERT_EQ(run(store, op).verdict, Verdict::execute);
  EXPECT_GT(fill_stream(store, somebody(), 'f'), bound / 4);
}

TEST_F(MemoryStoreTest, a_stream_is_as_long_as_a_third_of_the_store) {
  MemoryStore store(clock_);  // 256 MiB in 64 shards
  const Claimed who = somebody();
  claim(store, who);
  constexpr std::size_t piece = std::size_t{64} << 10U;
  for (std::uint32_t chunk = 0; chunk < 256; ++chunk) {
    ASSERT_EQ(append(store, who, chunk, piece).status, OpStatus::done) << chunk;
  }
  EXPECT_GT(store.stats().bytes, std::size_t{16} << 20U);
  EXPECT_EQ(run(store, {.verb = Verb::release, .id = who.id, .nonce = who.nonce}).status, OpStatus::done);
  EXPECT_EQ(store.stats().bytes, 0U);
}

TEST_F(MemoryStoreTest, the_beginning_of_an_unknown_response_goes_and_its_record_stays) {
  MemoryStore store(clock_, {.max_bytes = 64 << 10});
  const Claimed cut = somebody();
  claim(store, cut);
  append(store, cut, 0, 5000);
  finish(store, cut, 0, State::unknown);
  ASSERT_EQ(run(store, {.verb = Verb::read, .id = cut.id}).chunks.size(), 1U);
  for (int i = 0; i < 100; ++i) answered(store, 1000);
  const Op seen = run(store, {.verb = Verb::read, .id = cut.id});
  ASSERT_TRUE(seen.record);
  EXPECT_EQ(seen.record->state, State::unknown);
  EXPECT_TRUE(seen.chunks.empty());
}

TEST_F(MemoryStoreTest, it_says_what_it_evicts) {
  MemoryStore store(clock_, {.max_bytes = 64 << 10});
  std::vector<OperationId> gone;
  std::size_t bytes = 0;
  store.notify_of_evictions([&](const Evicted& evicted) {
    gone.push_back(evicted.id);
    bytes += evicted.bytes;
    EXPECT_EQ(evicted.holder[0], 'a');
    EXPECT_EQ(evicted.expires_at, clock_.now() + ttl);
  });
  for (int i = 0; i < 100; ++i) store_answer(store, somebody(), 'a');
  EXPECT_EQ(gone.size(), store.stats().evictions);
  EXPECT_EQ(bytes, gone.size() * 1000);
  for (const OperationId& id : gone) EXPECT_FALSE(knows(store, id));
}

TEST_F(MemoryStoreTest, a_hundred_thousand_keys_of_one_holder) {
  MemoryStore store(clock_, {.max_bytes = 16 << 20});
  const OutcomeBytes outcome = std::make_shared<const std::string>(200, 'x');
  Claimed who = somebody();
  for (std::uint32_t i = 0; i < 100'000; ++i) {
    std::memcpy(who.id.bytes.data(), &i, sizeof i);
    std::memcpy(who.id.bytes.data() + sizeof i, &i, sizeof i);
    Op op = claim_for(store, who, 'a');
    ASSERT_EQ(op.verdict, Verdict::execute);
    op.verb = Verb::finish;
    op.outcome = outcome;
    ASSERT_EQ(run(store, std::move(op)).status, OpStatus::done);
  }
  const MemoryStats stats = store.stats();
  EXPECT_EQ(stats.records + stats.evictions, 100'000U);
  EXPECT_GT(stats.evictions, 0U);
  EXPECT_EQ(stats.refused + stats.bodies_dropped, 0U);
}

TEST_F(MemoryStoreTest, claims_give_back_the_memory_of_what_expired) {
  MemoryStore store(clock_, {.shards = 1});
  constexpr std::size_t count = 2000;
  for (std::size_t i = 0; i < count; ++i) answered(store, 1000);
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
  for (int i = 0; i < 20; ++i) alive.push_back(answered(store, 100, State::succeeded, 4 * ttl));
  for (int i = 0; i < 20; ++i) {
    const Claimed who = expired.emplace_back(somebody());
    run(store, {.verb = Verb::claim, .id = who.id, .nonce = who.nonce, .terms = {.ttl = ttl, .tombstone = 4 * ttl}});
    finish(store, who, 100);
  }
  clock_.advance(ttl);
  store.sweep(1000);
  for (const Claimed& who : expired) ASSERT_EQ(claim(store, {who.id, Nonce{{9}}}).verdict, Verdict::gone);
  while (store.stats().evictions < expired.size()) answered(store, 100);
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
  for (std::size_t i = 0; i < count; ++i) answered(store, 10);
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
  const Claimed oldest = answered(store, 100);
  while (store.stats().bytes < 63'000) answered(store, 1000, State::succeeded, std::chrono::minutes(1));
  clock_.advance(std::chrono::minutes(1));
  EXPECT_EQ(finish(store, owner, 6000).status, OpStatus::done);
  EXPECT_TRUE(knows(store, oldest.id));
  EXPECT_EQ(store.stats().evictions, 0U);
  EXPECT_GT(store.stats().expired, 0U);
}

}  // namespace
}  // namespace once::store
