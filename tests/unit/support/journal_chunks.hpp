// What tests of chunks in the journal share: streams, other keys that fill segments, damage, restarts.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "store/journal/format.hpp"
#include "tests/unit/support/journal_machine.hpp"

namespace once::support {

inline constexpr JournalSettings tiny_segments{.segment_bytes = 4096, .cache_bytes = 0};

// Streams of chunks in a journal. Those of a key have the key's number as their nonce.
class JournalChunks : public testing::Test {
 protected:
  void begin(const JournalSettings& settings = tiny_segments) {
    machine_ = std::make_unique<JournalMachine>(1, settings);
    ASSERT_TRUE(machine_->start()) << machine_->refusal;
  }
  Op run(Op op) { return machine_->run(std::move(op)); }
  JournalStore& store() { return machine_->store(); }
  JournalStats stats() { return machine_->store().stats(); }

  // A claim that has appended so many chunks. Its nonce is the key.
  void stream(std::uint64_t key, std::uint32_t chunks) {
    ASSERT_EQ(run(claim_op(key, key)).verdict, Verdict::execute);
    for (std::uint32_t i = 0; i < chunks; ++i) append(key, i);
  }
  void append(std::uint64_t key, std::uint32_t number) {
    const Op op = run(append_op(key, key, number));
    ASSERT_EQ(op.status, OpStatus::done) << key << ' ' << number << ' ' << op.error;
  }
  void finish(std::uint64_t key, State state, Duration ttl = std::chrono::hours(24)) {
    Op op = finish_op(key, key, outcome_of(10, key), ttl);
    op.final_state = state;
    ASSERT_EQ(run(op).status, OpStatus::done);
  }
  // Leaves the body in its chunks.
  void keep(std::uint64_t key, Duration ttl = std::chrono::hours(24)) {
    ASSERT_EQ(run(keep_op(key, ttl)).status, OpStatus::done);
  }
  static Op keep_op(std::uint64_t key, Duration ttl = std::chrono::hours(24)) {
    Op op = finish_op(key, key, outcome_of(10, key), ttl);
    op.body_kept = BodyKept::in_chunks;
    return op;
  }
  // The whole body, and the head with it.
  void expect_kept(std::uint64_t key, std::size_t count) {
    const Op op = run(read_op(key));
    ASSERT_EQ(op.status, OpStatus::done) << op.error;
    ASSERT_TRUE(op.record.has_value()) << key;
    EXPECT_EQ(op.record->state, State::succeeded);
    EXPECT_EQ(op.record->body_kept, BodyKept::in_chunks);
    ASSERT_NE(op.record->outcome, nullptr);
    EXPECT_EQ(*op.record->outcome, *outcome_of(10, key));
    EXPECT_EQ(chunks_in(op), count) << key;
  }
  // The response was executed, and its body is lost.
  void expect_not_kept(std::uint64_t key) {
    const Op op = run(read_op(key));
    ASSERT_TRUE(op.record.has_value()) << key << op.error;
    EXPECT_EQ(op.record->state, State::succeeded);
    EXPECT_EQ(op.record->body_kept, BodyKept::no);
    EXPECT_TRUE(op.chunks.empty());
    EXPECT_EQ(run(claim_op(key, key + 9'000'000)).verdict, Verdict::not_kept);
  }
  void expect_chunks(std::uint64_t key, std::size_t count) {
    const Op op = run(read_op(key));
    ASSERT_EQ(op.status, OpStatus::done) << op.error;
    EXPECT_EQ(chunks_in(op), count) << key;
  }
  // Claims and outcomes of other keys, which are forgotten at once.
  void fill(std::size_t bytes) {
    for (std::size_t written = 0; written < bytes; written += 700) {
      const std::uint64_t key = ++filler_;
      ASSERT_EQ(run(claim_op(key, key)).verdict, Verdict::execute);
      ASSERT_EQ(run(finish_op(key, key, outcome_of(400, key))).status, OpStatus::done);
      Op forget = owner_op(Verb::forget, key, key);
      forget.seen_state = State::succeeded;
      ASSERT_EQ(run(forget).status, OpStatus::done);
    }
  }
  void maintain(int times = 30) {
    for (int i = 0; i < times; ++i) {
      machine_->clock.advance(std::chrono::seconds(1));
      store().maintain();
    }
  }
  void restart() {
    machine_->lose_power();
    ASSERT_TRUE(machine_->start()) << machine_->refusal;
  }
  std::vector<std::string> segments() const {
    std::vector<std::string> found;
    for (const std::string& name : machine_->platter.names()) {
      if (journal::parse_segment_name(name)) found.push_back(name);
    }
    return found;
  }
  // Changes a bit in the first frame that has this chunk.
  void damage(const OutcomeBytes& chunk) {
    for (const std::string& name : segments()) {
      const std::size_t at = machine_->platter.content(name).find(*chunk);
      if (at == std::string::npos) continue;
      machine_->platter.flip(name, at, 3);
      damaged_in_ = name;
      return;
    }
    FAIL() << "there is no such chunk";
  }
  static OutcomeBytes bytes_of(std::uint64_t key, std::uint32_t number) {
    return chunk_of(numbered<Nonce>(key), number);
  }
  // A number whose chunk is long enough to be found by its bytes.
  static std::uint32_t long_chunk(std::uint64_t key, std::uint32_t from) {
    while (bytes_of(key, from)->size() < 16) ++from;
    return from;
  }

  std::unique_ptr<JournalMachine> machine_;
  std::uint64_t filler_ = 1'000'000;
  std::string damaged_in_;
};

}  // namespace once::support
