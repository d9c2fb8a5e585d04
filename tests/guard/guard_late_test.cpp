// What a call could not tell the store is told later, in the background.
#include <atomic>
#include <new>
#include <string>

#include <gtest/gtest.h>

#include "guard/background.hpp"
#include "guard/engine.hpp"
#include "store/memory/memory_store.hpp"
#include "tests/unit/support/eventually.hpp"
#include "tests/unit/support/manual_clock.hpp"

namespace once::guard::guard_late_test {

using namespace std::chrono_literals;

// A memory store whose answers get lost, that takes no outcomes, or that throws. Any thread.
class LossyStore final : public Store {
 public:
  LossyStore(const Clock& clock, Shared shared) : inner_(clock, {.shared = shared}) {}

  void execute(std::span<Op* const> batch) override {
    if (throws) throw std::bad_alloc();
    for (Op* op : batch) {
      if (op->verb == Verb::renew) ++renewals_;
      const bool refused =
          (op->verb == Verb::finish && takes_no_outcomes) || (op->verb == Verb::renew && takes_no_renewals);
      if (!refused) inner_.execute({&op, 1});
      if (refused || (op->verb == Verb::claim && loses_claims)) {
        answer_failed(*op, StoreFault::unavailable, "as the test says");
      }
    }
  }
  Traits traits() const override { return inner_.traits(); }

  // False: they did not come.
  bool wait_for_renewals(int count) const {
    return eventually([&] { return renewals_ >= count; });
  }

  std::atomic<bool> loses_claims = false;  // they are made, and nobody is told
  std::atomic<bool> takes_no_outcomes = false;
  std::atomic<bool> takes_no_renewals = false;
  std::atomic<bool> throws = false;

 private:
  std::atomic<int> renewals_ = 0;
  MemoryStore inner_;
};

class GuardLate : public testing::TestWithParam<Shared> {
 protected:
  std::unique_ptr<Backing> open() {
    auto made = std::make_unique<LossyStore>(clock_, GetParam());
    store_ = made.get();
    return Backing::of(std::move(made));
  }
  Outcome<std::string> run(Duration wait = 0s) {
    Request request = request_;
    request.wait = wait;
    auto work = [this] { return "result " + std::to_string(++runs_); };
    using Typed = detail::Typed<decltype(work), Codec<std::string>>;
    Outcome<std::string> outcome;
    Typed typed{work, outcome};
    engine_.run(request,
                {.state = &typed,
                 .perform = &Typed::perform,
                 .read = &Typed::read,
                 .media_type = Codec<std::string>::media_type},
                outcome);
    return outcome;
  }

  ManualClock clock_;  // stands still: no lease lapses
  LossyStore* store_ = nullptr;
  int runs_ = 0;
  const Request request_{.tenant = "acme", .scope = "copy", .key = "k", .lease = 1s};
  Engine engine_{
      {}, "0123456789abcdef", clock_, std::make_unique<Log>(clock_, -1, LogLevel::off, LogFormat::json), open()};
};

TEST_P(GuardLate, claim_whose_answer_was_lost_is_taken_back) {
  store_->loses_claims = true;
  EXPECT_EQ(run().reason, Reason::store_unavailable);
  EXPECT_EQ(engine_.claim(request_).outcome.reason, Reason::store_unavailable);
  store_->loses_claims = false;
  EXPECT_EQ(run(60s).value, "result 1") << "nothing had been done";
}

// Its caller's thread executes what it asks of this store, and must live on.
TEST_P(GuardLate, store_that_throws_is_one_that_did_not_answer) {
  store_->throws = true;
  EXPECT_EQ(run().reason, Reason::store_unavailable);
  EXPECT_EQ(engine_.claim(request_).outcome.reason, Reason::store_unavailable);
  EXPECT_EQ(engine_.look(request_)->reason, Reason::store_unavailable);
  EXPECT_EQ(runs_, 0);
  store_->throws = false;
  EXPECT_EQ(run(60s).value, "result 1");
}

INSTANTIATE_TEST_SUITE_P(Stores, GuardLate, testing::Values(Shared::no, Shared::yes),
                         [](const auto& each) { return each.param == Shared::yes ? "shared" : "own"; });

class GuardOfItsOwn : public GuardLate {};

TEST_P(GuardOfItsOwn, outcome_that_could_not_be_recorded_for_a_lease_is_recorded_later) {
  store_->takes_no_outcomes = true;
  EXPECT_EQ(run().reason, Reason::not_recorded);
  EXPECT_EQ(run().reason, Reason::at_work);
  store_->takes_no_outcomes = false;
  const auto later = run(60s);
  EXPECT_EQ(later.value, "result 1") << later.stop_reason();
  EXPECT_TRUE(later.cached());
  EXPECT_EQ(runs_, 1);
}

TEST_P(GuardOfItsOwn, guard_ends_while_something_is_left) {
  store_->takes_no_outcomes = true;
  EXPECT_EQ(run().reason, Reason::not_recorded);
}

INSTANTIATE_TEST_SUITE_P(Stores, GuardOfItsOwn, testing::Values(Shared::no));

class GuardBackground : public testing::Test {
 protected:
  // Of a claim that was made so long ago.
  LeaseSteps steps(Duration lease, Duration age) const {
    LeaseSteps made;
    made.start({.verb = Verb::claim, .nonce = {{1}}, .terms = {.lease = lease}}, clock_.now() - age, nullptr);
    return made;
  }

  ManualClock clock_;
  LossyStore store_{clock_, Shared::yes};
  Background background_{store_, clock_, [](const OperationId&) {}};
  Lease lease_{.id = {}, .nonce = {{1}}};
};

TEST_F(GuardBackground, a_claim_is_renewed_in_time_although_its_thread_sleeps) {
  const Background::Keeping gone(background_, lease_, steps(3h, 1h));
  // From then on the thread has the mutex until it sleeps, and has nothing to renew.
  ASSERT_TRUE(eventually([this] { return lease_.lost.load(); }));
  Lease second{.id = {}, .nonce = {{1}}};
  const Background::Keeping kept(background_, second, steps(300ms, 0s));
  EXPECT_TRUE(store_.wait_for_renewals(2)) << "nobody woke the thread";
}

TEST_F(GuardBackground, who_waits_is_told_when_a_claim_was_ended) {
  std::atomic<bool> told = false;
  Background background(store_, clock_, [&told](const OperationId&) { told = true; });
  background.end({.verb = Verb::release, .nonce = {{1}}, .terms = {.ttl = 1h}}, Stands::yes);
  EXPECT_TRUE(eventually([&told] { return told.load(); }));
}

TEST_F(GuardBackground, a_renewal_that_failed_is_tried_again_soon) {
  store_.takes_no_renewals = true;
  const Background::Keeping kept(background_, lease_, steps(75s, 25s));
  EXPECT_TRUE(store_.wait_for_renewals(2)) << "the next one would be due in 25 seconds";
}

}  // namespace once::guard::guard_late_test
