// The contract, part seven: what operators see and do. Pages, filters, counts; and writes that lose to whoever was
// first.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <latch>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/route_label.hpp"
#include "tests/store/contract/fixture.hpp"

namespace once::contract {

TEST_P(StoreContract, what_is_forgotten_is_as_if_it_had_never_been) {
  for (const State state : {State::succeeded, State::failed, State::unknown}) {
    SCOPED_TRACE(static_cast<int>(state));
    const Made it = made(state);
    EXPECT_EQ(forget(it.id, it.nonce, state).status, OpStatus::done);
    EXPECT_FALSE(lookup(it.id).record.has_value());
    EXPECT_EQ(forget(it.id, it.nonce, state).status, OpStatus::lost);
    EXPECT_EQ(finish(it.id, it.nonce).status, OpStatus::lost);
    const Op again = claim_for(other_request, it.id);
    ASSERT_EXECUTES(again);
    EXPECT_EQ(again.record->attempt, Attempt{1});
    EXPECT_GT(again.record->fence, it.record.fence) << "a fence outlives the record";
  }
}

TEST_P(StoreContract, nothing_is_forgotten_that_is_not_what_was_seen) {
  const Made it = made(State::unknown);
  EXPECT_EQ(forget(it.id, new_nonce(), State::unknown).status, OpStatus::lost);
  EXPECT_EQ(forget(it.id, it.nonce, State::failed).status, OpStatus::lost);
  EXPECT_EQ(forget(new_id(), it.nonce, State::unknown).status, OpStatus::lost);
  const Op found = lookup(it.id);
  ASSERT_TRUE(found.record.has_value());
  EXPECT_EQ(found.record->state, State::unknown);
}

TEST_P(LapsingStoreContract, a_claim_that_lapsed_is_forgotten_or_resolved) {
  const Made dropped = made(State::started);
  const Made resolved = made(State::started);
  ASSERT_TRUE(lapse());
  EXPECT_EQ(forget(dropped.id, dropped.nonce, State::started).status, OpStatus::done);
  EXPECT_FALSE(lookup(dropped.id).record.has_value());
  EXPECT_EQ(resolve(resolved, State::started).status, OpStatus::done);
  const Op replay = claim(resolved.id, new_nonce());
  ASSERT_EQ(replay.verdict, Verdict::replay);
  EXPECT_EQ(*replay.record->outcome, "by hand");
}

TEST_P(StoreContract, an_owner_at_work_is_not_forgotten_and_one_that_renews_after_the_look_is_not_overridden) {
  const Made it = made(State::started);
  EXPECT_EQ(resolve(it, State::started).status, OpStatus::lost) << "the owner is at work";
  EXPECT_EQ(forget(it.id, it.nonce, State::started).status, OpStatus::lost) << "the owner is at work";
  if (lapse()) {
    EXPECT_EQ(renew(it.id, it.nonce).status, OpStatus::done);
    EXPECT_EQ(resolve(it, State::started).status, OpStatus::lost) << "the owner is back";
  }
  EXPECT_EQ(lookup(it.id).record->state, State::started);
  EXPECT_EQ(finish(it.id, it.nonce, State::succeeded, "the owner's").status, OpStatus::done);
  const Op replay = claim(it.id, new_nonce());
  ASSERT_EQ(replay.verdict, Verdict::replay);
  EXPECT_EQ(*replay.record->outcome, "the owner's");
}

TEST_P(StoreContract, nothing_is_resolved_that_is_not_what_was_seen) {
  const Made it = made(State::unknown);
  EXPECT_EQ(resolve(it, State::started).status, OpStatus::lost);
  EXPECT_EQ(resolve({it.id, new_nonce(), {}}, State::unknown).status, OpStatus::lost);
  EXPECT_EQ(resolve({new_id(), it.nonce, {}}, State::unknown).status, OpStatus::lost);
  EXPECT_EQ(lookup(it.id).record->state, State::unknown);
  for (const State state : {State::succeeded, State::failed}) {
    const Made ended = made(state);
    EXPECT_EQ(resolve(ended, state).status, OpStatus::lost);
    EXPECT_EQ(lookup(ended.id).record->state, state);
  }
}

TEST_P(StoreContract, of_two_operators_who_resolve_one_is_told_lost) {
  const Made it = made(State::unknown);
  const Op first = resolve(it, State::unknown, "first");
  ASSERT_EQ(first.status, OpStatus::done) << first.error;
  ASSERT_TRUE(first.record.has_value());
  EXPECT_EQ(first.record->state, State::succeeded);
  EXPECT_EQ(resolve(it, State::unknown, "second").status, OpStatus::lost);
  const Op replay = claim(it.id, new_nonce());
  ASSERT_EQ(replay.verdict, Verdict::replay);
  EXPECT_EQ(*replay.record->outcome, "first");
}

TEST_P(StoreContract, a_tombstone_can_be_forgotten) {
  const Made it = made(State::succeeded, tombstone());
  advance(ttl() + unit());
  EXPECT_EQ(forget(it.id, it.nonce, State::succeeded).status, OpStatus::lost) << "it is no success any more";
  EXPECT_EQ(forget(it.id, it.nonce, State::tombstone).status, OpStatus::done);
  const Op again = claim(it.id, new_nonce());
  ASSERT_EXECUTES(again);
  EXPECT_GT(again.record->fence, it.record.fence);
}

TEST_P(StoreContract, an_operator_and_a_client_that_takes_over_do_not_both_win) {
  constexpr int rounds = 40;
  for (int round = 0; round < rounds; ++round) {
    SCOPED_TRACE(round);
    const Made it = made(State::unknown);
    const bool resolves = round % 2 == 0;
    Op operators;
    Op clients;
    {
      std::latch together(2);
      const std::jthread operator_thread([&] {
        together.arrive_and_wait();
        operators = resolves ? resolve(it, State::unknown) : forget(it.id, it.nonce, State::unknown);
      });
      const std::jthread client_thread([&] {
        together.arrive_and_wait();
        clients = claim(it.id, new_nonce(), OnUnknown::retry);
      });
    }
    ASSERT_EQ(clients.status, OpStatus::done) << clients.error;
    ASSERT_NE(operators.status, OpStatus::failed) << operators.error;
    const bool took_over = clients.verdict == Verdict::execute && clients.record->attempt == Attempt{2};
    EXPECT_NE(operators.status == OpStatus::done, took_over);
    const Op found = lookup(it.id);
    if (took_over) {
      ASSERT_TRUE(found.record.has_value());
      EXPECT_EQ(found.record->nonce, clients.record->nonce);
    } else if (resolves) {
      // A store whose row is locked by the operator's write says that somebody is at work on it.
      if (clients.verdict == Verdict::in_flight) clients = claim(it.id, new_nonce(), OnUnknown::retry);
      EXPECT_EQ(clients.verdict, Verdict::replay);
    } else {
      EXPECT_EQ(clients.record->attempt, Attempt{1});
    }
  }
}

TEST_P(StoreContract, every_page_together_shows_every_record_once) {
  const std::string tenant = new_label();
  std::map<OperationId, State> expected;
  for (std::size_t i = 0; i < 40; ++i) {
    const State state = std::array{State::succeeded, State::failed, State::unknown, State::started}.at(i % 4);
    expected.emplace(labelled(tenant, "/payments", state).id, state);
  }
  for (const std::size_t limit : std::array<std::size_t, 3>{1, 7, 1000}) {
    std::map<OperationId, State> seen;
    for (const KeyInfo& info : all({.tenant = tenant}, limit)) {
      EXPECT_TRUE(seen.emplace(info.id, info.state).second) << "shown twice";
    }
    EXPECT_EQ(seen, expected);
  }
}

// More than a store looks at in one step, and more than are found: the last step of a page is not its first.
TEST_P(StoreContract, a_page_of_several_steps_shows_every_record_once) {
  constexpr std::size_t records = 1200;
  constexpr std::size_t together = 200;
  const std::string tenant = new_label();
  for (std::size_t made = 0; made < records; made += together) {
    std::vector<Op> claims;
    std::vector<Op*> batch;
    for (std::size_t i = 0; i < together; ++i) {
      claims.push_back(claim_op(new_id(), new_nonce()));
      claims.back().tenant = tenant;
    }
    std::ranges::sort(claims, {}, &Op::id);
    for (Op& claim : claims) batch.push_back(&claim);
    store().execute(batch);
    for (const Op& claim : claims) ASSERT_EXECUTES(claim);
  }
  const auto keys = all({.tenant = tenant}, 2 * records);
  std::set<OperationId> seen;
  for (const KeyInfo& info : keys) seen.insert(info.id);
  EXPECT_EQ(seen.size(), records);
  EXPECT_EQ(keys.size(), records) << "some were shown twice";
}

TEST_P(StoreContract, a_key_is_shown_as_it_is) {
  const std::string tenant = new_label();
  const Made it = labelled(tenant, "/orders/{id}", State::succeeded, std::string(321, 'x'));
  const auto keys = all({.tenant = tenant});
  ASSERT_EQ(keys.size(), 1U);
  const KeyInfo& key = keys.front();
  EXPECT_EQ(key.id, it.id);
  EXPECT_EQ(key.nonce, it.nonce);
  EXPECT_EQ(key.state, State::succeeded);
  EXPECT_EQ(key.body_kept, BodyKept::yes);
  EXPECT_EQ(key.attempt, Attempt{1});
  EXPECT_EQ(key.fence, it.record.fence);
  EXPECT_EQ(key.started_at, it.record.started_at);
  EXPECT_EQ(key.expires_at, it.record.expires_at);
  EXPECT_EQ(key.forget_at, it.record.forget_at);
  EXPECT_GE(key.outcome_bytes, 321U) << "sealed ones are larger";
  EXPECT_EQ(key.tenant, tenant);
  EXPECT_EQ(key.route, "/orders/{id}");
  const auto found = search().find(prefix_of(it.id));
  ASSERT_TRUE(found.has_value()) << found.error().detail;
  ASSERT_EQ(found->keys.size(), 1U);
  EXPECT_EQ(found->keys.front().id, it.id);
  EXPECT_EQ(found->keys.front().tenant, tenant);
  const auto got = search().get(it.id);
  ASSERT_TRUE(got.has_value()) << got.error().detail;
  ASSERT_EQ(got->keys.size(), 1U);
  EXPECT_EQ(got->keys.front().route, "/orders/{id}");
  EXPECT_TRUE(search().get(new_id())->keys.empty());
  const auto none = search().find(prefix_of(new_id()));
  ASSERT_TRUE(none.has_value());
  EXPECT_TRUE(none->keys.empty());
}

TEST_P(StoreContract, labels_stay_with_a_record_over_every_write) {
  const std::string tenant = new_label();
  const Made it = labelled(tenant, "/a", State::failed);
  Op again = claim_op(it.id, new_nonce());
  again.tenant = tenant;
  again.route = "/a";
  const Op second = run(again);
  ASSERT_EXECUTES(second);
  EXPECT_EQ(renew(it.id, again.nonce).status, OpStatus::done);
  EXPECT_EQ(release(it.id, again.nonce).status, OpStatus::done);
  const auto keys = all({.tenant = tenant, .route = "/a"});
  ASSERT_EQ(keys.size(), 1U);
  EXPECT_EQ(keys.front().state, State::failed);
}

TEST_P(StoreContract, a_key_names_the_request_of_its_latest_attempt) {
  const std::string tenant = new_label();
  const auto label_of = [](std::string_view path, std::string_view request_id) {
    std::string label;
    write_route_label(label, {.route = "/orders/*", .method = "POST", .path = path, .request_id = request_id});
    return label;
  };
  const std::string first = label_of("/orders/17", "0123456789abcdef0123456789abcdef");
  const Made it = labelled(tenant, first, State::failed);
  EXPECT_EQ(all({.tenant = tenant}).at(0).route, first);
  const std::string second = label_of("/orders/17", "the second/try");
  Op again = claim_op(it.id, new_nonce());
  again.tenant = tenant;
  again.route = second;
  ASSERT_EXECUTES(run(again));
  Op refused = claim_op(it.id, new_nonce());
  refused.route = "of nobody who executes";
  EXPECT_EQ(run(refused).verdict, Verdict::in_flight);
  const auto expect_second = [&](State state) {
    const auto keys = all({.tenant = tenant, .route = "/orders/*"});
    ASSERT_EQ(keys.size(), 1U);
    EXPECT_EQ(keys.front().route, second);
    EXPECT_EQ(keys.front().state, state);
  };
  expect_second(State::started);
  EXPECT_EQ(renew(it.id, again.nonce).status, OpStatus::done);
  EXPECT_EQ(finish(it.id, again.nonce, State::unknown).status, OpStatus::done);
  expect_second(State::unknown);
  EXPECT_EQ(resolve({it.id, again.nonce, {}}, State::unknown).status, OpStatus::done);
  expect_second(State::succeeded);
}

TEST_P(StoreContract, filters_leave_out_what_does_not_fit) {
  const std::string tenant = new_label();
  const Made first = labelled(tenant, "/a", State::unknown);
  advance(4 * unit());
  const Made second = labelled(tenant, "/b", State::unknown);
  const Made third = labelled(tenant, "/a", State::succeeded);
  const auto ids = [&](const KeyFilter& filter) {
    std::set<OperationId> found;
    for (const KeyInfo& info : all(filter)) found.insert(info.id);
    return found;
  };
  using Ids = std::set<OperationId>;
  EXPECT_EQ(ids({.state = State::unknown, .tenant = tenant}), (Ids{first.id, second.id}));
  EXPECT_EQ(ids({.tenant = tenant, .route = "/a"}), (Ids{first.id, third.id}));
  const Time between = first.record.started_at + 2 * unit();
  EXPECT_EQ(ids({.tenant = tenant, .started_before = between}), (Ids{first.id}));
  EXPECT_EQ(ids({.tenant = tenant, .started_after = between}), (Ids{second.id, third.id}));
  EXPECT_EQ(ids({.state = State::failed, .tenant = tenant}), Ids());
}

TEST_P(StoreContract, what_has_expired_is_a_tombstone_or_nothing) {
  const std::string tenant = new_label();
  labelled(tenant, "/gone", State::succeeded);
  Op claim = claim_op(new_id(), new_nonce());
  claim.tenant = tenant;
  claim.terms.tombstone = tombstone();
  ASSERT_EXECUTES(run(claim));
  ASSERT_EQ(finish(claim.id, claim.nonce).status, OpStatus::done);
  advance(ttl() + unit());
  // Redis forgets many keys of other tests now, and may show one twice while its table shrinks.
  const auto shown = [&](const KeyFilter& filter) {
    std::map<OperationId, State> found;
    for (const KeyInfo& info : all(filter)) found.insert_or_assign(info.id, info.state);
    return found;
  };
  const std::map<OperationId, State> expected = {{claim.id, State::tombstone}};
  EXPECT_EQ(shown({.tenant = tenant}), expected);
  EXPECT_EQ(shown({.state = State::tombstone, .tenant = tenant}), expected);
  EXPECT_TRUE(all({.state = State::succeeded, .tenant = tenant}).empty());
}

// All keys of the store, those of other tests as well.
inline CountsByState count_all(Search& search) {
  CountsByState sum{};
  std::string cursor;
  do {
    const auto part = search.count(cursor);
    EXPECT_TRUE(part.has_value()) << part.error().detail;
    if (!part) return sum;
    for (std::size_t i = 0; i < sum.size(); ++i) sum.at(i) += part->by_state.at(i);
    cursor = part->next;
  } while (!cursor.empty());
  return sum;
}

TEST_P(StoreContract, counts_grow_by_what_is_added) {
  const auto before = count_all(search());
  for (int i = 0; i < 5; ++i) made(State::unknown);
  for (int i = 0; i < 3; ++i) made(State::succeeded);
  for (int i = 0; i < 2; ++i) ASSERT_EXECUTES(run(claim_op(new_id(), new_nonce())));
  const auto after = count_all(search());
  const auto at = [](State state) { return static_cast<std::size_t>(state); };
  // Of other tests' records some may expire meanwhile, and none is added.
  EXPECT_LE(after[at(State::unknown)], before[at(State::unknown)] + 5);
  EXPECT_GE(after[at(State::unknown)], 5U);
  EXPECT_GE(after[at(State::succeeded)], 3U);
  EXPECT_GE(after[at(State::started)], 2U);
}

TEST_P(LapsingStoreContract, claims_whose_owner_is_gone_are_counted_apart) {
  const auto before = count_all(search());
  for (int i = 0; i < 4; ++i) ASSERT_EXECUTES(run(claim_op(new_id(), new_nonce())));
  ASSERT_TRUE(lapse());
  const auto after = count_all(search());
  EXPECT_GE(after[lapsed_at], 4U);
  // Those of other tests may have lapsed meanwhile.
  EXPECT_LE(after[static_cast<std::size_t>(State::started)], before[static_cast<std::size_t>(State::started)]);
}

TEST_P(StoreContract, a_cursor_of_somebody_else_is_refused) {
  for (const std::string_view cursor : {"x", "1.2.3.4", "zz.1", "0g"}) {
    const auto page = search().scan({}, cursor, 10);
    ASSERT_FALSE(page.has_value()) << cursor;
    EXPECT_TRUE(is_bad_cursor(page.error())) << cursor;
  }
}

}  // namespace once::contract
