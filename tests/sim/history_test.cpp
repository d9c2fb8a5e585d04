// The model that the simulator checks against: what it demands of an expired key when the store's clock is set back,
// and of chunks. A store may turn an expired record into a tombstone for good, or go by its clock alone, but it cannot
// do both.
#include "sim/history.hpp"

#include <gtest/gtest.h>

#include "sim/process.hpp"

namespace once::sim {
namespace {

using namespace std::chrono_literals;

class ExpiredKey : public testing::Test {
 protected:
  // Claimed, left by its owner, expired, and remembered.
  void SetUp() override {
    history_.set_store_clock(clock_);
    Op claim{.verb = Verb::claim,
             .id = {{1}},
             .nonce = {{2}},
             .terms = {.lease = 1s, .ttl = 10s, .tombstone = 1h},
             .status = OpStatus::done,
             .verdict = Verdict::execute};
    claim.record = claimed(nullptr, claim.fingerprint, claim.nonce, claim.terms, clock_.now());
    key_ = info_of(claim.id, *claim.record, clock_.now());
    history_.store_acted(claim);
    clock_.jump(20s);
    history_.shown(as(State::tombstone));
    ASSERT_TRUE(history_.violations().empty());
  }
  KeyInfo as(State state) const {
    KeyInfo info = key_;
    info.state = state;
    return info;
  }
  void refuse_to_forget_the_tombstone() {
    Op forget{.verb = Verb::forget, .id = key_.id, .nonce = key_.nonce, .seen_state = State::tombstone};
    history_.sends(history_.operator_decides(as(State::tombstone)), forget);
    forget.status = OpStatus::lost;
    history_.store_acted(forget);
  }
  bool violated() const { return !history_.violations().empty(); }

  World world_{1, false};
  SkewedClock clock_{world_, 0ms};
  History history_{world_};
  KeyInfo key_;
};

TEST_F(ExpiredKey, must_be_forgotten) {
  refuse_to_forget_the_tombstone();
  EXPECT_TRUE(violated());
}

TEST_F(ExpiredKey, need_not_be_forgotten_when_the_clock_was_set_back) {
  clock_.jump(-15s);
  refuse_to_forget_the_tombstone();
  EXPECT_FALSE(violated());
}

TEST_F(ExpiredKey, must_be_forgotten_when_it_is_a_tombstone_after_the_clock_was_set_back) {
  clock_.jump(-15s);
  history_.shown(as(State::tombstone));
  refuse_to_forget_the_tombstone();
  EXPECT_TRUE(violated());
}

TEST_F(ExpiredKey, may_be_what_it_was_when_the_clock_was_set_back) {
  clock_.jump(-15s);
  history_.shown(as(State::started));
  EXPECT_FALSE(violated());
}

TEST_F(ExpiredKey, is_not_what_it_was_after_it_was_shown_as_a_tombstone) {
  clock_.jump(-15s);
  history_.shown(as(State::tombstone));
  history_.shown(as(State::started));
  EXPECT_TRUE(violated());
}

TEST_F(ExpiredKey, is_not_found_as_what_it_was_after_it_was_shown_as_a_tombstone) {
  clock_.jump(-15s);
  history_.shown(as(State::tombstone));
  Record record = claimed(nullptr, {}, key_.nonce, {.lease = 1s, .ttl = 10s, .tombstone = 1h}, key_.started_at);
  history_.found_after_restart(key_.id, record);
  EXPECT_TRUE(violated());
}

// What the model demands of chunks, of a claim that has appended two.
class Streaming : public testing::Test {
 protected:
  void SetUp() override {
    history_.set_store_clock(clock_);
    history_.replicas_are_waited_for();
    claim(owner_, 1);
    append(owner_, 0, "head");
    append(owner_, 1, "one");
    read({"head", "one"});
    ASSERT_TRUE(history_.violations().empty()) << history_.violations().front();
  }
  void claim(const Nonce& nonce, std::uint64_t fence) {
    Op op{.verb = Verb::claim,
          .id = id_,
          .nonce = nonce,
          .terms = {.on_unknown = OnUnknown::retry, .lease = 1s, .ttl = 1h},
          .status = OpStatus::done,
          .verdict = Verdict::execute};
    op.record = claimed(nullptr, op.fingerprint, op.nonce, op.terms, clock_.now());
    op.record->fence = Fence{fence};
    record_ = *op.record;
    history_.store_acted(op);
    history_.acknowledged(id_);
  }
  void append(const Nonce& nonce, std::uint32_t chunk, const std::string& text, OpStatus status = OpStatus::done) {
    const Op op{.verb = Verb::append,
                .id = id_,
                .nonce = nonce,
                .outcome = std::make_shared<const std::string>(text),
                .chunk = chunk,
                .status = status};
    history_.store_acted(op);
  }
  Op read_op(const std::vector<std::string>& texts, std::size_t most = 1000) const {
    Op op{.verb = Verb::read, .id = id_, .chunk_bytes = most, .status = OpStatus::done, .record = record_};
    for (const std::string& text : texts) op.chunks.push_back(std::make_shared<const std::string>(text));
    return op;
  }
  void read(const std::vector<std::string>& texts, std::size_t most = 1000) {
    history_.store_acted(read_op(texts, most));
  }
  // It ends, and its body stays in its chunks.
  void keep() {
    history_.response_received(history_.executed({.operation = 1}, owner_, 1), 200);
    record_.state = State::succeeded;
    record_.body_kept = BodyKept::in_chunks;
    record_.outcome = std::make_shared<const std::string>("final head");
    const Op op{.verb = Verb::finish,
                .id = id_,
                .nonce = owner_,
                .terms = {.ttl = 1h},
                .body_kept = BodyKept::in_chunks,
                .outcome = record_.outcome,
                .status = OpStatus::done,
                .record = record_};
    history_.store_acted(op);
    history_.acknowledged(id_);
    ASSERT_FALSE(violated()) << history_.violations().front();
  }
  bool violated() const { return !history_.violations().empty(); }

  const OperationId id_{{1}};
  const Nonce owner_{{2}};
  const Nonce next_{{3}};
  Record record_;
  World world_{1, false};
  SkewedClock clock_{world_, 0ms};
  ProcessExecutor process_{world_};
  History history_{world_};
};

TEST_F(Streaming, is_not_appended_to_by_another) {
  append(next_, 2, "two");
  EXPECT_TRUE(violated());
}

TEST_F(Streaming, is_not_appended_to_by_an_owner_that_was_overtaken) {
  clock_.jump(2s);
  claim(next_, 2);
  ASSERT_FALSE(violated());
  append(owner_, 2, "two");
  EXPECT_TRUE(violated());
}

TEST_F(Streaming, is_appended_to_once_however_often_it_is_asked_for) {
  append(owner_, 1, "one");
  read({"head", "one"});
  EXPECT_FALSE(violated());
}

TEST_F(Streaming, has_no_gaps) {
  append(owner_, 3, "three");
  EXPECT_TRUE(violated());
}

TEST_F(Streaming, is_not_refused_its_owner) {
  append(owner_, 2, "two", OpStatus::lost);
  EXPECT_TRUE(violated());
}

TEST_F(Streaming, is_read_whole) {
  read({"head"});
  EXPECT_TRUE(violated());
}

TEST_F(Streaming, is_read_in_parts_that_fit) {
  read({"head"}, 5);
  EXPECT_FALSE(violated());
}

TEST_F(Streaming, that_stays_in_its_chunks_is_read_whole) {
  keep();
  read({"head", "one"});
  read({"head"}, 5);
  append(owner_, 2, "two", OpStatus::lost);
  EXPECT_FALSE(violated());
  read({"head"});
  EXPECT_TRUE(violated());
}

TEST_F(Streaming, that_stays_in_its_chunks_is_not_appended_to) {
  keep();
  append(owner_, 2, "two");
  EXPECT_TRUE(violated());
}

TEST_F(Streaming, that_stays_in_its_chunks_is_not_told_as_one_that_has_none) {
  keep();
  record_.body_kept = BodyKept::no;
  record_.outcome = nullptr;
  read({});
  EXPECT_TRUE(violated());
}

TEST_F(Streaming, that_stays_in_its_chunks_loses_none_in_a_failover) {
  keep();
  history_.gateway_received(read_op({"head", "one"}), process_);
  history_.failed_over(id_, record_, {std::make_shared<const std::string>("head")});
  EXPECT_TRUE(violated());
}

TEST_F(Streaming, is_not_read_in_other_words) {
  read({"head", "two"});
  EXPECT_TRUE(violated());
}

TEST_F(Streaming, is_not_read_in_the_next_attempt) {
  clock_.jump(2s);
  claim(next_, 2);
  ASSERT_FALSE(violated());
  read({"head", "one"});
  EXPECT_TRUE(violated());
}

TEST_F(Streaming, is_not_told_before_the_replica_has_it) {
  history_.gateway_received(read_op({"head", "one"}), process_);
  history_.failed_over(id_, record_, {});
  EXPECT_TRUE(violated());
}

TEST_F(Streaming, may_lose_chunks_that_were_not_acknowledged) {
  history_.failed_over(id_, record_, {});
  EXPECT_FALSE(violated());
}

}  // namespace
}  // namespace once::sim
