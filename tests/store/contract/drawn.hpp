// The contract, part five: drawn sequences of operations, compared step by step with the memory store. The model is
// given the time that the store says it decided at, so everything but fences must be the same.
#pragma once

#include <array>
#include <chrono>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "store/memory/memory_store.hpp"
#include "tests/store/contract/fixture.hpp"

namespace once::contract {

class CallerClock final : public Clock {
 public:
  Time now() const override { return now_; }
  void set(Time now) { now_ = now; }

 private:
  Time now_{};
};

class Drawing {
 public:
  explicit Drawing(unsigned seed) : engine_(seed) {}

  std::size_t below(std::size_t end) { return engine_() % end; }
  template <class T>
  T any_of(std::initializer_list<T> values) {
    return values.begin()[below(values.size())];
  }

 private:
  std::minstd_rand engine_;
};

// What a drawn step needs to know of an operation, and what is known of its fences.
struct DrawnOperation {
  OperationId id;
  std::vector<Nonce> nonces;  // of those who ever claimed it
  std::set<Nonce> released;   // of those who took their claim back
  Fence last_fence{0};
  Fence last_model_fence{0};
};

inline std::string describe(const Op& op, std::size_t which) {
  return fmt::format("verb {} of operation {}, nonce {}, policy {}, final state {}", static_cast<int>(op.verb), which,
                     to_hex(op.nonce).substr(0, 6), static_cast<int>(op.terms.on_unknown),
                     static_cast<int>(op.final_state));
}

inline void expect_same(const Op& op, const Op& model) {
  ASSERT_EQ(op.status, model.status) << op.error;
  if (model.status != OpStatus::done) return;
  if (model.verb == Verb::claim) EXPECT_EQ(op.verdict, model.verdict);
  if (model.verb == Verb::renew || model.verb == Verb::release || model.verb == Verb::forget) return;
  ASSERT_EQ(op.record.has_value(), model.record.has_value());
  if (!model.record) return;
  if (!writes_outcome(model.verb)) return expect_same(*op.record, *model.record);
  EXPECT_EQ(op.record->started_at, model.record->started_at);
  EXPECT_EQ(op.record->expires_at, model.record->expires_at);
}

// The numbers differ, but they grow where the model's grow and stay where the model's stay.
inline void expect_fence(DrawnOperation& operation, const Op& op, const Op& model) {
  if (op.verb != Verb::claim || op.verdict != Verdict::execute || !op.record || !model.record) return;
  if (model.record->fence == operation.last_model_fence) {
    EXPECT_EQ(op.record->fence, operation.last_fence);
  } else {
    EXPECT_GT(op.record->fence, operation.last_fence);
  }
  operation.last_fence = op.record->fence;
  operation.last_model_fence = model.record->fence;
}

TEST_P(StoreContract, drawn_sequences_go_as_the_memory_store_goes) {
  constexpr unsigned seed = 20'261'115;
  constexpr int steps = 400;
  Drawing draw(seed);
  CallerClock clock;
  MemoryStore model(clock, {.shared = store().traits().shared});
  std::array<DrawnOperation, 4> operations;
  for (DrawnOperation& operation : operations) operation.id = new_id();

  for (int step = 0; step < steps && !HasFailure(); ++step) {
    if (draw.below(6) == 0) {
      advance(draw.any_of({unit(), lease() + unit(), takeover_after() + unit(), ttl() + unit(), tombstone() + unit()}));
      continue;
    }
    const std::size_t which = draw.below(operations.size());
    DrawnOperation& operation = operations.at(which);
    const auto verb = draw.any_of({Verb::claim, Verb::claim, Verb::claim, Verb::renew, Verb::finish, Verb::finish,
                                   Verb::release, Verb::forget, Verb::resolve, Verb::resolve, Verb::lookup});
    const bool stranger = operation.nonces.empty() || (verb == Verb::claim && draw.below(4) != 0);
    const bool earlier = operation.nonces.size() > 1 && draw.below(5) == 0;
    // What was released is nobody's, and operators settle that, too.
    const bool nobodys = (verb == Verb::forget || verb == Verb::resolve) && draw.below(4) == 0;
    Nonce nonce = stranger  ? new_nonce()
                  : earlier ? operation.nonces[draw.below(operation.nonces.size())]
                            : operation.nonces.back();
    // The memory store keeps no trace of a first claim that was released: nothing comes late to it.
    if (verb == Verb::claim && operation.released.contains(nonce)) nonce = new_nonce();
    if (nobodys) nonce = released_nonce(nonce);
    Op op = owner_op(verb, operation.id, nonce);
    op.terms.on_unknown = draw.any_of({OnUnknown::retry, OnUnknown::takeover, OnUnknown::hold});
    op.terms.tombstone = draw.any_of({Duration::zero(), tombstone()});
    op.fingerprint = draw.below(10) == 0 ? other_request : request;
    op.final_state = draw.any_of({State::succeeded, State::failed, State::failed, State::unknown});
    if (verb == Verb::forget) {
      op.seen_state = draw.any_of({State::started, State::succeeded, State::failed, State::unknown, State::tombstone});
    }
    if (verb == Verb::resolve) {
      op.final_state = draw.any_of({State::succeeded, State::failed});
      op.seen_state = draw.any_of({State::started, State::succeeded, State::unknown, State::unknown});
    }
    if (writes_outcome(verb) && op.final_state == State::succeeded) {
      op.body_kept = draw.any_of({BodyKept::yes, BodyKept::no});
      op.outcome = std::make_shared<const std::string>(fmt::format("outcome of step {}", step));
    }

    SCOPED_TRACE(fmt::format("seed {}, step {}: {}", seed, step, describe(op, which)));
    Op modelled = op;
    op = run(op);
    clock.set(op.now);
    Op* const batch = &modelled;
    model.execute({&batch, 1});
    expect_same(op, modelled);
    expect_fence(operation, op, modelled);
    if (verb == Verb::claim && op.verdict == Verdict::execute) operation.nonces.push_back(nonce);
    if (verb == Verb::release) operation.released.insert(nonce);
  }
}

}  // namespace once::contract
