// Encrypted outcomes, over the memory store: the contract, keys that are rotated, and what the store underneath sees.
#include "store/sealed_store.hpp"

#include "store/memory/memory_store.hpp"
#include "tests/store/contract.hpp"
#include "tests/unit/support/manual_clock.hpp"

namespace once {
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

namespace contract {
const auto sealed = testing::Values(StoreFactory{"memory", [] { return std::make_unique<SealedUnderTest>(); }});
INSTANTIATE_TEST_SUITE_P(Sealed, StoreContract, sealed, name_of);
INSTANTIATE_TEST_SUITE_P(Sealed, LapsingStoreContract, sealed, name_of);
}  // namespace contract

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

TEST_F(SealedStoreTest, plain_outcomes_from_before_are_passed_as_they_are) {
  Op op{.verb = Verb::claim};
  random_.fill(op.id.bytes);
  run(inner_, op);
  op.verb = Verb::finish;
  op.outcome = std::make_shared<const std::string>("\1plain");
  run(inner_, op);
  EXPECT_EQ(*seen({new_}, op.id), "\1plain");
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

}  // namespace
}  // namespace once
