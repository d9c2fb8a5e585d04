// Encrypted outcomes, over the memory store: the contract, keys that are rotated, and what the store underneath sees.
#include "store/sealed_store.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "store/memory/memory_store.hpp"
#include "tests/store/contract.hpp"
#include "tests/unit/support/manual_clock.hpp"

namespace once::store {
namespace {

class SealedUnderTest final : public contract::StoreUnderTest {
 public:
  Store& store() override { return store_; }
  void advance(Duration by) override { clock_.advance(by); }

 private:
  ManualClock clock_;
  Log log_{clock_, -1, LogLevel::off, LogFormat::json};
  MemoryStore inner_{clock_, {.shared = Shared::yes}};
  SystemRandom random_;
  const std::vector<std::string> secrets_ = {"a secret of enough bytes"};
  SealedStore store_{inner_, secrets_, random_, log_};
};

}  // namespace

}  // namespace once::store

namespace once::contract {
const auto sealed = testing::Values(StoreFactory{"memory", [] { return std::make_unique<SealedUnderTest>(); }});
INSTANTIATE_TEST_SUITE_P(Sealed, StoreContract, sealed, name_of);
INSTANTIATE_TEST_SUITE_P(Sealed, LapsingStoreContract, sealed, name_of);
}  // namespace once::contract

namespace once::store {

namespace {

class SealedStoreTest : public testing::Test {
 protected:
  using Secrets = std::vector<std::string>;

  Op run(Store& store, Op op) {
    Op* const batch = &op;
    store.execute({&batch, 1});
    return op;
  }
  Op run_with(const Secrets& secrets, const Op& op) {
    SealedStore store(inner_, secrets, random_, log_);
    return run(store, op);
  }
  // Claimed and finished.
  OperationId kept(const Secrets& secrets, std::string_view outcome) {
    Op op{.verb = Verb::claim};
    random_.fill(op.id.bytes);
    random_.fill(op.nonce.bytes);
    EXPECT_EQ(run(inner_, op).status, OpStatus::done);
    op.verb = Verb::finish;
    op.outcome = std::make_shared<const std::string>(outcome);
    const Op done = run_with(secrets, op);
    EXPECT_EQ(done.status, OpStatus::done);
    EXPECT_EQ(*done.record->outcome, outcome);
    EXPECT_EQ(done.outcome, op.outcome);
    return op.id;
  }
  OutcomeBytes seen(const Secrets& secrets, const OperationId& id) {
    return run_with(secrets, {.verb = Verb::lookup, .id = id}).record->outcome;
  }
  OutcomeBytes underneath(const OperationId& id) {
    return run(inner_, {.verb = Verb::lookup, .id = id}).record->outcome;
  }

  const std::string old_ = "the old secret, long enough";
  const std::string new_ = "the new secret, long enough";
  ManualClock clock_;
  SystemRandom random_;
  Log log_{clock_, -1, LogLevel::off, LogFormat::json};
  MemoryStore inner_{clock_};
  const Secrets current_ = {new_};
  SealedStore sealed_{inner_, current_, random_, log_};
};

TEST_F(SealedStoreTest, the_store_underneath_never_sees_an_answer) {
  const OperationId id = kept({new_}, "card 4242 4242 4242 4242");
  EXPECT_FALSE(underneath(id)->contains("4242"));
  EXPECT_EQ(*seen({new_}, id), "card 4242 4242 4242 4242");
}

TEST_F(SealedStoreTest, the_same_answer_is_never_sealed_to_the_same_bytes) {
  EXPECT_NE(*underneath(kept({new_}, "same")), *underneath(kept({new_}, "same")));
}

TEST_F(SealedStoreTest, a_new_key_in_front_seals_and_the_old_one_still_opens) {
  const OperationId before = kept({old_}, "before");
  const OperationId after = kept({new_, old_}, "after");
  EXPECT_EQ(*seen({new_, old_}, before), "before");
  EXPECT_EQ(*seen({new_}, after), "after");
  EXPECT_EQ(seen({new_}, before), nullptr) << "its key was dropped too early: there is no answer, and no guess";
}

TEST_F(SealedStoreTest, finish_whose_store_threw_is_not_sealed_twice) {
  struct Throwing final : Store {
    void execute(std::span<Op* const>) override { throw std::runtime_error("as the test says"); }
    Traits traits() const override { return {}; }
  } throwing;
  SealedStore store(throwing, current_, random_, log_);
  Op op{.verb = Verb::claim};
  random_.fill(op.id.bytes);
  random_.fill(op.nonce.bytes);
  run(inner_, op);
  op.verb = Verb::finish;
  op.outcome = std::make_shared<const std::string>("answer");
  Op* const batch = &op;
  EXPECT_THROW(store.execute({&batch, 1}), std::runtime_error);
  EXPECT_EQ(*op.outcome, "answer");
  sealed_.execute({&batch, 1});
  EXPECT_EQ(*seen(current_, op.id), "answer");
}

TEST_F(SealedStoreTest, plain_outcomes_from_before_are_passed_as_they_are) {
  Op op{.verb = Verb::claim};
  random_.fill(op.id.bytes);
  run(inner_, op);
  op.verb = Verb::finish;
  op.outcome = std::make_shared<const std::string>("\1plain");
  run(inner_, op);
  EXPECT_EQ(*seen({new_}, op.id), "\1plain");
}

// Golden bytes, computed with Python's hmac and cryptography: outcomes are stored, so a release must read what the last
// one wrote. The operation's id is 00 01 … 1f, the nonce of its claim 40 41 … 4f.
class SealedLayout : public SealedStoreTest {
 protected:
  struct Sevens final : Random {
    void fill(std::span<std::uint8_t> out) override { std::ranges::fill(out, 7); }
  };

  Op claimed() {
    Op op{.verb = Verb::claim};
    std::iota(op.id.bytes.begin(), op.id.bytes.end(), 0);
    std::iota(op.nonce.bytes.begin(), op.nonce.bytes.end(), 0x40);
    EXPECT_EQ(run(inner_, op).status, OpStatus::done);
    op.verb = Verb::finish;
    return op;
  }

  const Secrets secrets_ = {"a secret of enough bytes"};
  const std::string outcome_ = "\1outcome";
  const std::string version_3_ =
      "0300b2a286fddf0f92ae0707070707070707070707070bce8575f15dfc09ee0b6b2d0d15e2e010ba7a2e99ba6521";
  const std::string version_2_ =
      "0200b2a286fddf0f92ae070707070707070707070707ef4a67488e82effefaac14008e4609af08afff537c558c8d";
};

TEST_F(SealedLayout, is_fixed) {
  Sevens sevens;
  SealedStore store(inner_, secrets_, sevens, log_);
  Op op = claimed();
  op.outcome = std::make_shared<const std::string>(outcome_);
  run(store, op);
  EXPECT_EQ(to_hex(*underneath(op.id)), version_3_);
}

TEST_F(SealedLayout, of_this_version_and_the_one_before_opens) {
  for (const std::string& kept : {version_3_, version_2_}) {
    Op op = claimed();
    op.outcome = std::make_shared<const std::string>(*from_hex(kept));
    run(inner_, op);
    EXPECT_EQ(*seen(secrets_, op.id), outcome_);
    run(inner_, {.verb = Verb::forget, .id = op.id, .nonce = op.nonce, .seen_state = State::succeeded});
  }
}

TEST_F(SealedStoreTest, what_another_attempt_recorded_does_not_open) {
  Op op{.verb = Verb::claim};
  random_.fill(op.id.bytes);
  for (const State ended : {State::failed, State::succeeded}) {
    op.verb = Verb::claim;
    random_.fill(op.nonce.bytes);
    ASSERT_EQ(run(inner_, op).verdict, Verdict::execute);
    op.verb = Verb::finish;
    op.final_state = ended;
    if (ended == State::failed) op.outcome = std::make_shared<const std::string>("of attempt 1");
    // The second attempt is given what the first one left in the store.
    Store& store = ended == State::failed ? static_cast<Store&>(sealed_) : inner_;
    run(store, op);
    if (ended == State::failed) {
      EXPECT_EQ(*seen({new_}, op.id), "of attempt 1");
      op.outcome = underneath(op.id);
    }
  }
  EXPECT_EQ(seen({new_}, op.id), nullptr);
}

// Which the store gives back when an outcome was recorded already.
TEST_F(SealedStoreTest, what_stands_opens_for_the_owner_that_records_again) {
  Op op{.verb = Verb::claim};
  random_.fill(op.id.bytes);
  random_.fill(op.nonce.bytes);
  run(inner_, op);
  op.verb = Verb::finish;
  op.outcome = std::make_shared<const std::string>("the first");
  run_with({new_}, op);
  op.outcome = std::make_shared<const std::string>("the second");
  EXPECT_EQ(*run_with({new_}, op).record->outcome, "the first");
}

TEST_F(SealedStoreTest, what_was_changed_or_moved_to_another_operation_does_not_open) {
  const OperationId id = kept({new_}, "mine");
  Op op{.verb = Verb::claim};
  random_.fill(op.id.bytes);
  run(inner_, op);
  op.verb = Verb::finish;
  op.outcome = underneath(id);
  run(inner_, op);
  EXPECT_EQ(seen({new_}, op.id), nullptr);
}

// A body that stays in its chunks, the first of them sealed before keys were rotated.
class SealedChunks : public SealedStoreTest {
 protected:
  void SetUp() override {
    random_.fill(op_.id.bytes);
    random_.fill(op_.nonce.bytes);
    ASSERT_EQ(run(inner_, op_).verdict, Verdict::execute);
  }
  void append(Store& store, std::string_view bytes) {
    op_.verb = Verb::append;
    op_.outcome = std::make_shared<const std::string>(bytes);
    ASSERT_EQ(run(store, op_).status, OpStatus::done);
    ++op_.chunk;
  }
  void keep(Store& store, std::string_view head) {
    op_.verb = Verb::finish;
    op_.body_kept = BodyKept::in_chunks;
    op_.outcome = std::make_shared<const std::string>(head);
    ASSERT_EQ(run(store, op_).status, OpStatus::done);
  }
  Op read(const Secrets& secrets) {
    return run_with(secrets, {.verb = Verb::read, .id = op_.id, .chunk_bytes = std::size_t{1} << 20U});
  }
  static std::vector<std::string> texts(const Op& op) {
    std::vector<std::string> all;
    for (const OutcomeBytes& chunk : op.chunks) all.push_back(*chunk);
    return all;
  }

  Op op_{.verb = Verb::claim};
};

TEST_F(SealedChunks, of_two_keys_open_as_long_as_both_are_there) {
  const Secrets before = {old_};
  const Secrets both = {new_, old_};
  SealedStore first(inner_, before, random_, log_);
  SealedStore second(inner_, both, random_, log_);
  append(first, "head");
  append(first, "4242");
  append(second, "one");
  keep(second, "\2final head");
  const Op op = read(both);
  EXPECT_EQ(texts(op), (std::vector<std::string>{"head", "4242", "one"}));
  EXPECT_EQ(*op.record->outcome, "\2final head");
  EXPECT_EQ(op.record->body_kept, BodyKept::in_chunks);
  EXPECT_EQ(read({new_}).status, OpStatus::failed) << "a reader must not take the rest for the whole";
  const Op underneath = run(inner_, {.verb = Verb::read, .id = op_.id, .chunk_bytes = std::size_t{1} << 20U});
  for (const std::string& text : texts(underneath)) EXPECT_FALSE(text.contains("4242"));
  EXPECT_FALSE(underneath.record->outcome->contains("final head"));
}

TEST_F(SealedChunks, do_not_open_in_another_place) {
  append(sealed_, "head");
  append(sealed_, "one");
  const Op raw = run(inner_, {.verb = Verb::read, .id = op_.id, .chunk = 1, .chunk_bytes = 1000});
  ASSERT_EQ(raw.chunks.size(), 1U);
  append(inner_, *raw.chunks[0]);
  EXPECT_EQ(read(current_).status, OpStatus::failed);
}

// Its head begins as what version 2 has sealed, and its chunks with anything.
TEST_F(SealedChunks, from_before_there_were_keys_are_passed_as_they_are) {
  using namespace std::string_literals;
  const std::string like_sealed = "\3\0 looks like a key, and is not"s;
  append(inner_, "\1head");
  append(inner_, like_sealed);
  append(inner_, "\3");
  keep(inner_, "\2\0final head"s);
  const Op op = read({new_, old_});
  ASSERT_EQ(op.status, OpStatus::done) << op.error;
  EXPECT_EQ(texts(op), (std::vector<std::string>{"\1head", like_sealed, "\3"}));
  ASSERT_NE(op.record->outcome, nullptr);
  EXPECT_EQ(*op.record->outcome, "\2\0final head"s);
}

}  // namespace
}  // namespace once::store
