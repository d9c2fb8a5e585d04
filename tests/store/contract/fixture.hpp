// The fixture of the store contract: what a store has to bring to be tested, and the verbs as short calls.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <ostream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.hpp"
#include "store/search.hpp"
#include "store/store.hpp"
#include "tests/unit/support/layers.hpp"

namespace once::contract {

class StoreUnderTest {
 public:
  virtual ~StoreUnderTest() = default;
  virtual Store& store() = 0;

  // The store of another gateway on the same data. Of one that is not shared: the store itself, for another thread.
  virtual Store& other() { return store(); }

  // Moves the store's time on: a virtual clock is set, a real one is waited for.
  virtual void advance(Duration by) = 0;

  // What lease, takeover and TTL of the tests are multiples of. With a real clock: long enough that what a test does
  // between two steps of time takes far less.
  virtual Duration unit() const { return std::chrono::seconds(1); }

  // Makes claims with this lease lapse; false if that cannot happen in this store while it runs. A journal opens again.
  virtual bool lapse(Duration lease) {
    if (store().traits().shared == Shared::no) return false;
    advance(lease + unit());
    return true;
  }
};

struct StoreFactory {
  std::string name;
  std::function<std::unique_ptr<StoreUnderTest>()> make;
};

inline void PrintTo(const StoreFactory& factory, std::ostream* out) {
  *out << factory.name;
}

inline std::string name_of(const testing::TestParamInfo<StoreFactory>& info) {
  return info.param.name;
}

using Texts = std::vector<std::string>;

inline void expect_same(const Record& record, const Record& model) {
  EXPECT_EQ(record.state, model.state);
  EXPECT_EQ(record.attempt, model.attempt);
  EXPECT_EQ(record.fingerprint, model.fingerprint);
  EXPECT_EQ(record.nonce, model.nonce);
  EXPECT_EQ(record.started_at, model.started_at);
  EXPECT_EQ(record.expires_at, model.expires_at);
  EXPECT_EQ(record.forget_at, model.forget_at);
  if (model.state == State::started) EXPECT_EQ(record.lease_until, model.lease_until);
  if (model.state != State::succeeded) return;
  EXPECT_EQ(record.body_kept, model.body_kept);
  ASSERT_EQ(record.outcome != nullptr, model.outcome != nullptr);
  if (model.outcome) EXPECT_EQ(*record.outcome, *model.outcome);
}

class StoreContract : public testing::TestWithParam<StoreFactory> {
 protected:
  // Ids are random, so one server serves all tests and none cleans up after another.
  OperationId new_id() {
    OperationId id;
    const std::scoped_lock lock(random_mutex_);
    random_.fill(id.bytes);
    return id;
  }
  Nonce new_nonce() {
    const std::scoped_lock lock(random_mutex_);
    return random_.nonce();
  }

  ClaimTerms terms(OnUnknown on_unknown = OnUnknown::takeover) const {
    return {.on_unknown = on_unknown, .takeover_after = takeover_after(), .lease = lease(), .ttl = ttl()};
  }
  Duration lease() const { return 4 * unit(); }
  Duration takeover_after() const { return 8 * unit(); }
  Duration ttl() const { return 20 * unit(); }
  Duration tombstone() const { return 10 * unit(); }
  Duration unit() const { return subject_->unit(); }

  void advance(Duration by) { subject_->advance(by); }
  bool lapse() { return subject_->lapse(lease()); }
  bool leases_lapse() { return store().traits().shared == Shared::yes; }

  Op claim_op(const OperationId& id, const Nonce& nonce, OnUnknown on_unknown = OnUnknown::takeover,
              const Fingerprint& fingerprint = request) const {
    return {.verb = Verb::claim, .id = id, .nonce = nonce, .fingerprint = fingerprint, .terms = terms(on_unknown)};
  }
  Op owner_op(Verb verb, const OperationId& id, const Nonce& nonce) const {
    return {.verb = verb, .id = id, .nonce = nonce, .terms = terms()};
  }
  Op finish_op(const OperationId& id, const Nonce& nonce, State state = State::succeeded,
               std::string value = "outcome") const {
    Op op = owner_op(Verb::finish, id, nonce);
    op.final_state = state;
    op.outcome = std::make_shared<const std::string>(std::move(value));
    return op;
  }

  Op run(Op op) { return run_on(store(), std::move(op)); }
  static Op run_on(Store& store, Op op) {
    Op* const batch = &op;
    store.execute({&batch, 1});
    return op;
  }
  Op claim(const OperationId& id, const Nonce& nonce, OnUnknown on_unknown = OnUnknown::takeover) {
    return run(claim_op(id, nonce, on_unknown));
  }
  Op claim_for(const Fingerprint& fingerprint, const OperationId& id) {
    return run(claim_op(id, new_nonce(), OnUnknown::retry, fingerprint));
  }
  Op renew(const OperationId& id, const Nonce& nonce) { return run(owner_op(Verb::renew, id, nonce)); }
  Op release(const OperationId& id, const Nonce& nonce) { return run(owner_op(Verb::release, id, nonce)); }
  Op finish(const OperationId& id, const Nonce& nonce, State state = State::succeeded, std::string value = "outcome") {
    return run(finish_op(id, nonce, state, std::move(value)));
  }
  // By a program of its own, which lives and dies without this process.
  Op of_outside(Op op) {
    op.terms.owner = Owner::outside;
    return run(std::move(op));
  }
  Op claim_outside(const OperationId& id, const Nonce& nonce, OnUnknown on_unknown = OnUnknown::takeover) {
    return of_outside(claim_op(id, nonce, on_unknown));
  }
  Op renew_outside(const OperationId& id, const Nonce& nonce) { return of_outside(owner_op(Verb::renew, id, nonce)); }
  Op append_op(const OperationId& id, const Nonce& nonce, std::uint32_t chunk, std::string bytes) const {
    Op op = owner_op(Verb::append, id, nonce);
    op.chunk = chunk;
    op.outcome = std::make_shared<const std::string>(std::move(bytes));
    return op;
  }
  OpStatus append(const OperationId& id, const Nonce& nonce, std::uint32_t chunk, std::string bytes) {
    return run(append_op(id, nonce, chunk, std::move(bytes))).status;
  }
  Op read(const OperationId& id, std::uint32_t from = 0, std::size_t bytes = std::size_t{1} << 20U) {
    return run({.verb = Verb::read, .id = id, .chunk = from, .chunk_bytes = bytes});
  }
  // The chunks of a read, each as a text.
  static std::vector<std::string> texts(const Op& op) {
    EXPECT_EQ(op.status, OpStatus::done) << op.error;
    std::vector<std::string> all;
    for (const OutcomeBytes& chunk : op.chunks) all.push_back(*chunk);
    return all;
  }
  Op lookup(const OperationId& id) { return run({.verb = Verb::lookup, .id = id}); }

  // An operation that was claimed once, and ended like this unless it is to stay started.
  struct Made {
    OperationId id;
    Nonce nonce;
    Record record;
  };
  Made made(State state, Duration tombstone = Duration::zero()) {
    Made it{new_id(), new_nonce(), {}};
    Op op = claim_op(it.id, it.nonce);
    op.terms.tombstone = tombstone;
    EXPECT_EQ(run(op).verdict, Verdict::execute);
    if (state != State::started) EXPECT_EQ(finish(it.id, it.nonce, state).status, OpStatus::done);
    const Op found = lookup(it.id);
    EXPECT_TRUE(found.record.has_value());
    it.record = found.record.value_or(Record());
    EXPECT_EQ(it.record.state, state);
    return it;
  }

  // A claim at work that has appended these.
  Made appended(const Texts& chunks, Duration tombstone = Duration::zero()) {
    Made it = made(State::started, tombstone);
    for (std::uint32_t i = 0; i < chunks.size(); ++i) {
      EXPECT_EQ(append(it.id, it.nonce, i, chunks[i]), OpStatus::done);
    }
    return it;
  }
  // Leaves the body in its chunks.
  Op keep_op(const Made& it, std::string value = "outcome") const {
    Op op = finish_op(it.id, it.nonce, State::succeeded, std::move(value));
    op.body_kept = BodyKept::in_chunks;
    return op;
  }
  void expect_unchanged(const Made& it) {
    const Op found = lookup(it.id);
    ASSERT_TRUE(found.record.has_value());
    expect_same(*found.record, it.record);
    EXPECT_EQ(found.record->fence, it.record.fence);
  }

  static void expect_tombstone(const Op& found, const Record& was) {
    ASSERT_EQ(found.status, OpStatus::done);
    ASSERT_TRUE(found.record.has_value());
    EXPECT_EQ(found.record->state, State::tombstone);
    EXPECT_EQ(found.record->outcome, nullptr);
    EXPECT_EQ(found.record->fence, was.fence);
    EXPECT_EQ(found.record->expires_at, was.expires_at);
    EXPECT_EQ(found.record->forget_at, was.forget_at);
  }

  Made held_outside() {
    Made it{new_id(), new_nonce(), {}};
    const Op op = claim_outside(it.id, it.nonce);
    EXPECT_EQ(op.verdict, Verdict::execute);
    it.record = op.record.value_or(Record());
    return it;
  }

  // What operators do.
  Search& search() { return *store().search(); }

  Op forget(const OperationId& id, const Nonce& nonce, State seen) {
    Op op = owner_op(Verb::forget, id, nonce);
    op.seen_state = seen;
    return run(op);
  }

  Op resolve(const Made& it, State seen, std::string value = "by hand") {
    Op op = finish_op(it.id, it.nonce, State::succeeded, std::move(value));
    op.verb = Verb::resolve;
    op.seen_state = seen;
    return run(op);
  }

  // Claimed under these labels, and ended like this.
  Made labelled(std::string_view tenant, std::string_view route, State state, std::string outcome = "outcome") {
    Made it{new_id(), new_nonce(), {}};
    Op op = claim_op(it.id, it.nonce);
    op.tenant = tenant;
    op.route = route;
    EXPECT_EQ(run(op).verdict, Verdict::execute);
    if (state != State::started) EXPECT_EQ(finish(it.id, it.nonce, state, std::move(outcome)).status, OpStatus::done);
    it.record = lookup(it.id).record.value_or(Record());
    return it;
  }

  // To the end, however many pages that takes.
  std::vector<KeyInfo> all(const KeyFilter& filter, std::size_t limit = 100) {
    std::vector<KeyInfo> keys;
    std::string cursor;
    for (int pages = 0; pages < 100'000; ++pages) {
      auto page = search().scan(filter, cursor, limit);
      EXPECT_TRUE(page.has_value()) << page.error().detail;
      if (!page) return keys;
      EXPECT_LE(page->keys.size(), limit);
      std::ranges::move(page->keys, std::back_inserter(keys));
      if (page->next.empty()) return keys;
      cursor = page->next;
    }
    ADD_FAILURE() << "the pages do not end";
    return keys;
  }

  std::string new_label() { return to_hex(new_nonce()).substr(0, 16); }

  // Two gateways at once on one key (races.hpp).
  static constexpr std::size_t race_rounds = 40;

  struct Pair {
    Op one;
    Op two;
  };

  // Both ops of a pair at the same time, pair after pair.
  std::vector<Pair> race(std::vector<Pair> pairs) {
    std::atomic<std::size_t> at = 0;  // neither side is ahead of the other
    const auto run_all = [&](Store& store, Op Pair::* op) {
      for (std::size_t i = 0; i < pairs.size(); ++i) {
        ++at;
        while (at < 2 * (i + 1)) std::this_thread::yield();
        for (int tries = 0; tries < 20; ++tries) {  // the other one may hold the row for longer than a store waits
          pairs[i].*op = run_on(store, std::move(pairs[i].*op));
          if ((pairs[i].*op).status != OpStatus::failed) break;
        }
      }
    };
    Store& first = store();
    Store& second = other();
    std::jthread others([&] { run_all(second, &Pair::two); });
    run_all(first, &Pair::one);
    others.join();
    return pairs;
  }

  static bool executes(const Op& claim) { return claim.status == OpStatus::done && claim.verdict == Verdict::execute; }

  std::vector<Made> many(State state) {
    std::vector<Made> all;
    for (std::size_t i = 0; i < race_rounds; ++i) all.push_back(made(state));
    return all;
  }

  Pair two_claims(const OperationId& id) {
    return {claim_op(id, new_nonce(), OnUnknown::retry), claim_op(id, new_nonce(), OnUnknown::retry)};
  }

  // Two claims on each of these: one executes, as this attempt.
  void expect_one_claim(const std::vector<Made>& keys, Attempt attempt) {
    std::vector<Pair> pairs;
    for (const Made& it : keys) pairs.push_back(two_claims(it.id));
    for (const auto& [one, two] : race(std::move(pairs))) {
      EXPECT_NE(executes(one), executes(two)) << one.error << two.error;
      const Op& winner = executes(one) ? one : two;
      const Op& loser = executes(one) ? two : one;
      EXPECT_EQ(loser.verdict, Verdict::in_flight);
      ASSERT_TRUE(winner.record.has_value());
      EXPECT_EQ(winner.record->attempt, attempt);
      const Op found = lookup(winner.id);
      ASSERT_TRUE(found.record.has_value());
      EXPECT_EQ(found.record->nonce, winner.nonce);
      EXPECT_EQ(found.record->attempt, attempt);
      EXPECT_EQ(finish(winner.id, winner.nonce).status, OpStatus::done);
      EXPECT_EQ(finish(loser.id, loser.nonce).status, OpStatus::lost);
    }
  }

  // A claim, and another write of the same key: exactly one of them is done.
  void expect_claim_or(const std::vector<Made>& keys, auto&& other_op) {
    std::vector<Pair> pairs;
    for (const Made& it : keys) pairs.push_back({claim_op(it.id, new_nonce(), OnUnknown::retry), other_op(it)});
    for (const auto& [claim, write] : race(std::move(pairs))) {
      ASSERT_EQ(claim.status, OpStatus::done) << claim.error;
      EXPECT_NE(executes(claim), write.status == OpStatus::done) << write.error;
      const Op found = lookup(claim.id);
      ASSERT_TRUE(found.record.has_value());
      EXPECT_EQ(found.record->nonce == claim.nonce, executes(claim));
    }
  }

  Store& store() { return subject_->store(); }
  Store& other() { return subject_->other(); }

  static constexpr Fingerprint request{{1}};
  static constexpr Fingerprint other_request{{2}};

 private:
  std::unique_ptr<StoreUnderTest> subject_ = GetParam().make();
  std::mutex random_mutex_;
  SystemRandom random_;
};

// For stores whose claims lapse, with their lease or with the process that holds them: all but the memory store of one
// gateway, which ends with it.
class LapsingStoreContract : public StoreContract {};

}  // namespace once::contract

// The claim was made, and its record may be looked into.
#define ASSERT_EXECUTES(op)                          \
  do {                                               \
    const Op& checked_op = (op);                     \
    ASSERT_EQ(checked_op.status, OpStatus::done);    \
    ASSERT_EQ(checked_op.verdict, Verdict::execute); \
    ASSERT_TRUE(checked_op.record.has_value());      \
  } while (false)
