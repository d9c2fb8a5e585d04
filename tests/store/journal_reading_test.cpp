// Reading from a disk that does not answer: whoever needs the record waits, and nobody else. What happens to the record
// meanwhile is seen by whoever waited.
#include <algorithm>
#include <condition_variable>
#include <fstream>
#include <functional>
#include <iterator>
#include <mutex>
#include <thread>

#include <gtest/gtest.h>

#include "base/random.hpp"
#include "base/task.hpp"
#include "store/journal/system_disk.hpp"
#include "store/lane.hpp"
#include "tests/unit/support/journal_machine.hpp"
#include "tests/unit/support/temporary_folder.hpp"

namespace once::store {
namespace journal_reading_test {

using std::chrono::hours;

constexpr auto patience = std::chrono::minutes(1);

enum class Call : std::uint8_t { open, read };

// What opening and reading go through. It holds one call up for as long as the test likes; those after it go on.
class Gate {
 public:
  // Of this kind or a later one: a file that is open already need not be opened.
  void hold_next(Call call) {
    const std::scoped_lock lock(mutex_);
    state_ = State::holds_next;
    held_ = call;
  }
  // Until somebody is held.
  void wait() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, patience, [this] { return state_ == State::holds_one; }));
  }
  void release() {
    const std::scoped_lock lock(mutex_);
    state_ = State::open;
    changed_.notify_all();
  }
  void pass(Call call, std::size_t bytes) {
    std::unique_lock lock(mutex_);
    bytes_ += bytes;
    if (state_ != State::holds_next || call < held_) return;
    state_ = State::holds_one;
    changed_.notify_all();
    changed_.wait(lock, [this] { return state_ != State::holds_one; });
  }
  std::size_t take_bytes() {
    const std::scoped_lock lock(mutex_);
    return std::exchange(bytes_, 0);
  }

 private:
  enum class State : std::uint8_t { open, holds_next, holds_one };

  std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::open;
  Call held_ = Call::open;
  std::size_t bytes_ = 0;
};

class GatedFile final : public File {
 public:
  GatedFile(Gate& gate, std::unique_ptr<File> inner) : gate_(gate), inner_(std::move(inner)) {}
  DiskResult<void> write_at(std::uint64_t offset, std::string_view bytes) override {
    return inner_->write_at(offset, bytes);
  }
  DiskResult<std::size_t> read_at(std::uint64_t offset, std::span<char> into) override {
    gate_.pass(Call::read, into.size());
    return inner_->read_at(offset, into);
  }
  DiskResult<void> sync() override { return inner_->sync(); }
  DiskResult<void> truncate(std::uint64_t size) override { return inner_->truncate(size); }
  DiskResult<std::uint64_t> size() override { return inner_->size(); }

 private:
  Gate& gate_;
  std::unique_ptr<File> inner_;
};

class GatedDisk final : public Disk {
 public:
  GatedDisk(Gate& gate, const std::string& folder) : gate_(gate), inner_(folder) {}
  DiskResult<void> lock() override { return inner_.lock(); }
  DiskResult<std::vector<std::string>> list() override { return inner_.list(); }
  DiskResult<std::unique_ptr<File>> create(std::string_view name) override { return gated(inner_.create(name)); }
  DiskResult<std::unique_ptr<File>> open(std::string_view name, Access access) override {
    gate_.pass(Call::open, 0);
    return gated(inner_.open(name, access));
  }
  DiskResult<void> rename(std::string_view from, std::string_view to) override { return inner_.rename(from, to); }
  DiskResult<void> remove(std::string_view name) override { return inner_.remove(name); }
  DiskResult<void> sync_names() override { return inner_.sync_names(); }
  std::string path_of(std::string_view name) const override { return inner_.path_of(name); }

 private:
  DiskResult<std::unique_ptr<File>> gated(DiskResult<std::unique_ptr<File>> file) {
    if (!file) return file;
    return std::make_unique<GatedFile>(gate_, std::move(*file));
  }

  Gate& gate_;
  SystemDisk inner_;
};

constexpr std::uint64_t cold = 1;
constexpr std::size_t large = 900 << 10;
constexpr JournalSettings nothing_in_memory{.segment_bytes = 2 << 20, .cache_bytes = 0};

class JournalReading : public testing::Test {
 protected:
  void SetUp() override {
    open(nothing_in_memory);
    record(cold, large);
  }
  void open(const JournalSettings& settings) {
    store_.reset();
    disk_ = std::make_unique<GatedDisk>(gate_, folder_.path());
    auto opened = JournalStore::open(*disk_, clock_, random_, log_, settings);
    ASSERT_TRUE(opened.has_value()) << opened.error().detail;
    store_ = std::move(*opened);
  }

  Op run_bare(Op op) {
    if (store_->answer_at_once(op)) return op;
    Op* const batch = &op;
    store_->execute({&batch, 1});
    return op;
  }
  // As the gateway does, which says the route of what it has at work.
  Op run(Op op) {
    op.route = "/route";
    return run_bare(std::move(op));
  }
  void record(std::uint64_t key, std::size_t size) {
    EXPECT_EQ(run(claim_op(key, key)).verdict, Verdict::execute) << key;
    EXPECT_EQ(run(finish_op(key, key, outcome_of(size, key), hours(24))).status, OpStatus::done) << key;
  }
  void forget(std::uint64_t key) {
    Op op = owner_op(Verb::forget, key, key);
    op.seen_state = State::succeeded;
    EXPECT_EQ(run(op).status, OpStatus::done) << key;
  }
  // The segment of the cold key ends, and others follow.
  void seal() {
    for (std::uint64_t key = 1000; key < 1004; ++key) record(key, large);
    ASSERT_GT(store_->stats().segments, 1U);
  }

  // While `reader` waits for the disk, `others` do what they have to.
  void while_held(const std::function<void()>& reader, const std::function<void()>& others, Call held = Call::open) {
    gate_.hold_next(held);
    std::jthread reading(reader);
    gate_.wait();
    std::mutex mutex;
    std::condition_variable ended;
    bool done = false;
    std::jthread going_on([&] {
      others();
      const std::scoped_lock lock(mutex);
      done = true;
      ended.notify_all();
    });
    std::unique_lock lock(mutex);
    EXPECT_TRUE(ended.wait_for(lock, patience, [&] { return done; })) << "they wait for the reader";
    lock.unlock();
    gate_.release();
  }
  void expect_others_go_on(const std::function<void()>& reader) {
    while_held(reader, [this] {
      for (int i = 0; i < 8; ++i) record(next_++, 100);
      store_->maintain();
    });
  }
  void expect_replayed(const Op& op, const std::string& outcome) {
    EXPECT_EQ(op.verdict, Verdict::replay) << op.error;
    ASSERT_TRUE(op.record && op.record->outcome != nullptr);
    EXPECT_TRUE(*op.record->outcome == outcome);
  }
  // Everything that was recorded goes, and so do its segments.
  void let_all_expire() {
    clock_.advance(hours(25));
    for (int i = 0; i < 100 && store_->stats().segments > 1; ++i) store_->maintain();
    EXPECT_EQ(store_->stats().segments, 1U);
    EXPECT_EQ(store_->stats().keys, 0U);
  }

  static Op claim_with_other_fingerprint(std::uint64_t key) {
    Op op = claim_op(key, 99);
    op.fingerprint = {{2}};
    return op;
  }
  // On disk, so far behind the id in the record of the cold key.
  void change_byte(std::size_t behind) {
    const std::string path = folder_.path() + "/0000000001.segment";
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    std::string bytes(std::istreambuf_iterator<char>(file), {});
    const std::size_t at = bytes.rfind(std::string(numbered<OperationId>(cold).view()));
    ASSERT_NE(at, std::string::npos);
    file.clear();
    file.seekp(static_cast<std::streamoff>(at + behind));
    file.put(static_cast<char>(bytes[at + behind] ^ 1));
    ASSERT_TRUE(file.flush());
  }

  void break_off_a_stream() {
    ASSERT_EQ(run(claim_op(70, 70)).verdict, Verdict::execute);
    for (std::uint32_t i = 0; i < 3; ++i) ASSERT_EQ(run(append_op(70, 70, i)).status, OpStatus::done);
    seal();
    Op finish = finish_op(70, 70, nullptr, hours(24));
    finish.final_state = State::unknown;
    ASSERT_EQ(run(finish).status, OpStatus::done);
    open({.segment_bytes = 2 << 20});
    ASSERT_TRUE(run(lookup_op(70)).record.has_value());
  }

  // So much that the rest is worth carrying forward.
  void forget_most() {
    for (std::uint64_t key = 1000; key < 1004; ++key) forget(key);
    for (std::uint64_t key = 2000; key < 2004; ++key) {
      record(key, large);
      forget(key);
    }
  }
  // The cold key moves, and its segment goes.
  void let_be_carried() {
    forget_most();
    for (int i = 0; i < 20; ++i) store_->maintain();
    EXPECT_GT(store_->stats().carried, 0U);
    EXPECT_GT(store_->stats().segments_dropped, 0U);
  }

  std::uint64_t next_ = 2;
  TemporaryFolder folder_;
  ManualClock clock_;
  SystemRandom random_;
  Log log_{clock_, -1, LogLevel::off, LogFormat::json};
  Gate gate_;
  std::unique_ptr<GatedDisk> disk_;
  std::unique_ptr<JournalStore> store_;
};

TEST_F(JournalReading, whatever_is_read_keeps_nobody_waiting) {
  Op replayed;
  expect_others_go_on([&] { replayed = run(claim_op(cold, 99)); });
  expect_replayed(replayed, *outcome_of(large, cold));
  std::size_t listed = 0;
  expect_others_go_on([&] { listed = store_->search()->scan({}, "", 10)->keys.size(); });
  EXPECT_GE(listed, 1U);
  // From segments that have ended.
  break_off_a_stream();
  Op read;
  expect_others_go_on([&] { read = run(read_op(70)); });
  ASSERT_EQ(read.status, OpStatus::done) << read.error;
  EXPECT_EQ(chunks_in(read), 3U);
  open(nothing_in_memory);
  expect_others_go_on([&] { replayed = run(claim_op(cold, 99)); });
  expect_replayed(replayed, *outcome_of(large, cold));
}

TEST_F(JournalReading, labels_that_are_written_again_keep_nobody_waiting) {
  open({.segment_bytes = 2 << 20});
  Op claim = claim_op(50, 50);
  claim.terms.owner = Owner::outside;
  claim.terms.lease = std::chrono::seconds(30);
  claim.tenant = "acme";
  ASSERT_EQ(run(claim).verdict, Verdict::execute);
  Op renew = owner_op(Verb::renew, 50, 50);
  renew.terms = claim.terms;
  expect_others_go_on([&] { EXPECT_EQ(run_bare(renew).status, OpStatus::done); });
  const auto found = store_->search()->get(numbered<OperationId>(50));
  ASSERT_TRUE(found && found->keys.size() == 1);
  EXPECT_EQ(found->keys[0].tenant, "acme");
}

TEST_F(JournalReading, a_batch_with_labels_to_read_is_written_at_once) {
  Op claim = claim_op(50, 50);
  claim.terms.owner = Owner::outside;
  claim.terms.lease = std::chrono::seconds(30);
  ASSERT_EQ(run(claim).verdict, Verdict::execute);
  Op renew = owner_op(Verb::renew, 50, 50);
  renew.terms = claim.terms;
  std::vector<Op> ops = {claim_op(2, 2), renew, claim_op(3, 3)};
  std::vector<Op*> batch = {ops.data(), &ops[1], &ops[2]};
  const std::uint64_t syncs = store_->stats().syncs;
  store_->execute(batch);
  for (const Op& op : ops) EXPECT_EQ(op.status, OpStatus::done) << op.error;
  EXPECT_LT(ops[0].record->fence, ops[2].record->fence);
  EXPECT_EQ(store_->stats().syncs, syncs + 1);
}

TEST_F(JournalReading, carrying_records_forward_keeps_nobody_waiting) {
  seal();
  forget_most();
  const auto go_on = [this] {
    for (std::uint64_t key = 2; key < 10; ++key) record(key, 100);
  };
  while_held([this] { store_->maintain(); }, go_on, Call::read);
  for (int i = 0; i < 20; ++i) store_->maintain();
  EXPECT_GT(store_->stats().carried, 0U);
  expect_replayed(run(claim_op(cold, 99)), *outcome_of(large, cold));
}

TEST_F(JournalReading, what_changed_or_went_while_it_was_read_is_told_as_it_is_now) {
  Op replayed;
  while_held([&] { replayed = run(claim_op(cold, 99)); },
             [this] {
               forget(cold);
               EXPECT_EQ(run(claim_op(cold, 50)).verdict, Verdict::execute);
               EXPECT_EQ(run(finish_op(cold, 50, outcome_of(10, 50), hours(24))).status, OpStatus::done);
             });
  expect_replayed(replayed, *outcome_of(10, 50));
  Op forgotten = owner_op(Verb::forget, cold, 50);
  forgotten.seen_state = State::succeeded;
  Op claimed;
  while_held([&] { claimed = run(claim_op(cold, 99)); }, [&] { EXPECT_EQ(run(forgotten).status, OpStatus::done); });
  EXPECT_EQ(claimed.verdict, Verdict::execute) << claimed.error;
  EXPECT_EQ(claimed.record->nonce, numbered<Nonce>(99));
}

TEST_F(JournalReading, a_finish_by_an_owner_that_lost_its_claim_meanwhile_is_lost) {
  open(nothing_in_memory);
  Op claim = claim_op(50, 50);
  claim.terms.owner = Owner::outside;
  claim.terms.lease = std::chrono::seconds(30);
  ASSERT_EQ(run(claim).verdict, Verdict::execute);
  Op finished;
  while_held([&] { finished = run(finish_op(50, 50, outcome_of(10, 50), hours(24))); },
             [&, this] {
               clock_.advance(std::chrono::minutes(1));
               Op takeover = claim_op(50, 51);
               takeover.terms.on_unknown = OnUnknown::retry;
               EXPECT_EQ(run(takeover).verdict, Verdict::execute);
             });
  EXPECT_EQ(finished.status, OpStatus::lost) << finished.error;
}

TEST_F(JournalReading, a_segment_is_dropped_while_it_is_read_or_before_it_is_opened) {
  for (const bool is_open : {true, false}) {
    SCOPED_TRACE(is_open ? "open" : "not open");
    if (!is_open) record(cold, large);
    seal();
    if (is_open) expect_replayed(run(claim_op(cold, 99)), *outcome_of(large, cold));
    if (!is_open) open(nothing_in_memory);
    Op claimed;
    while_held([&] { claimed = run(claim_op(cold, 98)); }, [this] { let_all_expire(); });
    EXPECT_EQ(claimed.verdict, Verdict::execute) << claimed.error;
    ASSERT_EQ(run(owner_op(Verb::release, cold, 98)).status, OpStatus::done);
  }
}

TEST_F(JournalReading, a_record_is_carried_forward_while_it_is_read_or_listed) {
  seal();
  open(nothing_in_memory);
  Op replayed;
  while_held([&] { replayed = run(claim_op(cold, 99)); }, [this] { let_be_carried(); });
  expect_replayed(replayed, *outcome_of(large, cold));
  seal();
  open(nothing_in_memory);
  Result<KeyPage> found;
  while_held([&] { found = store_->search()->get(numbered<OperationId>(cold)); }, [this] { let_be_carried(); });
  ASSERT_TRUE(found.has_value()) << found.error().detail;
  ASSERT_EQ(found->keys.size(), 1U);
  EXPECT_EQ(found->keys[0].outcome_bytes, large);
}

// The record is in memory, its chunks are in a segment that is not open.
TEST_F(JournalReading, chunks_are_carried_forward_before_their_segment_is_opened) {
  break_off_a_stream();
  Op read;
  while_held([&] { read = run(read_op(70)); }, [this] { let_be_carried(); });
  ASSERT_EQ(read.status, OpStatus::done) << read.error;
  EXPECT_EQ(chunks_in(read), 3U);
}

// The answer is of the moment when the places of the chunks were found.
TEST_F(JournalReading, chunks_that_end_while_they_are_read_are_those_of_the_record_that_was_found) {
  break_off_a_stream();
  Op read;
  while_held([&] { read = run(read_op(70)); },
             [this] { EXPECT_EQ(run(finish_op(70, 70, outcome_of(10), hours(24))).status, OpStatus::done); });
  ASSERT_EQ(read.status, OpStatus::done) << read.error;
  EXPECT_EQ(read.record->state, State::unknown);
  EXPECT_EQ(chunks_in(read), 3U);
  EXPECT_TRUE(run(read_op(70)).chunks.empty());
}

TEST_F(JournalReading, a_mismatch_reads_no_outcome) {
  gate_.take_bytes();
  const Op refused = run(claim_with_other_fingerprint(cold));
  EXPECT_EQ(refused.verdict, Verdict::mismatch);
  EXPECT_EQ(refused.record->fence, Fence{1});
  EXPECT_LE(gate_.take_bytes(), 2048U);
  expect_replayed(run(claim_op(cold, 99)), *outcome_of(large, cold));
  EXPECT_LE(gate_.take_bytes(), large + 2048) << "nothing is read twice";
  // Of what was carried forward, too.
  seal();
  let_be_carried();
  gate_.take_bytes();
  EXPECT_EQ(run(claim_with_other_fingerprint(cold)).verdict, Verdict::mismatch);
  EXPECT_LE(gate_.take_bytes(), 2048U);
}

TEST_F(JournalReading, a_head_alone_is_not_kept_in_memory) {
  open({.segment_bytes = 2 << 20});
  EXPECT_EQ(run(claim_with_other_fingerprint(cold)).verdict, Verdict::mismatch);
  expect_replayed(run(claim_op(cold, 99)), *outcome_of(large, cold));
  EXPECT_EQ(run(claim_with_other_fingerprint(cold)).verdict, Verdict::mismatch);
}

TEST_F(JournalReading, an_expired_key_reads_no_outcome) {
  Op claim = claim_op(3, 3, hours(1));
  claim.terms.tombstone = hours(10);
  ASSERT_EQ(run(claim).verdict, Verdict::execute);
  ASSERT_EQ(run(finish_op(3, 3, outcome_of(large, 3), hours(1))).status, OpStatus::done);
  clock_.advance(hours(2));
  gate_.take_bytes();
  const Op late = run(claim_op(3, 99));
  EXPECT_EQ(late.verdict, Verdict::gone);
  EXPECT_EQ(late.record->state, State::tombstone);
  EXPECT_LE(gate_.take_bytes(), 2048U);
  // A clock that is set back, and what was read of it was not kept as if it were all of it.
  clock_.advance(-hours(2));
  expect_replayed(run(claim_op(3, 99)), *outcome_of(large, 3));
}

TEST_F(JournalReading, a_damaged_head_decides_nothing) {
  constexpr std::size_t fingerprint_after_id = 32;
  change_byte(fingerprint_after_id);
  for (const Op& op : {run(claim_op(cold, 99)), run(claim_with_other_fingerprint(cold))}) {
    EXPECT_EQ(op.status, OpStatus::failed);
    EXPECT_EQ(op.fault, StoreFault::refused);
    EXPECT_NE(op.error.find("a record is damaged"), std::string::npos) << op.error;
  }
}

TEST_F(JournalReading, a_damaged_outcome_is_not_told_and_a_mismatch_still_is) {
  change_byte(4096);
  EXPECT_EQ(run(claim_with_other_fingerprint(cold)).verdict, Verdict::mismatch);
  const Op op = run(claim_op(cold, 99));
  EXPECT_EQ(op.status, OpStatus::failed);
  EXPECT_NE(op.error.find("a record is damaged"), std::string::npos) << op.error;
}

// The caller goes on where the lane is.
class LaneExecutor final : public Executor {
 public:
  void post(Work& work) override { work.run(work); }
  void arm(Timer& /*timer*/, Duration /*after*/) override {}
  void disarm(Timer& /*timer*/) override {}
};

// What somebody has asked the lanes.
struct Asked {
  Op op;
  std::mutex mutex{};
  std::condition_variable answered{};
  bool done = false;

  bool wait() {
    std::unique_lock lock(mutex);
    return answered.wait_for(lock, patience, [this] { return done; });
  }
};

Task<void> ask(Lanes& lanes, Executor& home, Asked& asked) {
  co_await lanes.run(asked.op, home);
  const std::scoped_lock lock(asked.mutex);
  asked.done = true;
  asked.answered.notify_all();
}

TEST_F(JournalReading, a_lane_does_not_wait_for_what_is_read_either) {
  LaneExecutor home;
  ThreadLanes lanes(*store_);
  Asked reads{.op = claim_op(cold, 99)};
  gate_.hold_next(Call::read);
  spawn(ask(lanes, home, reads));
  gate_.wait();
  Asked writes{.op = claim_op(2, 2)};
  spawn(ask(lanes, home, writes));
  EXPECT_TRUE(writes.wait());
  gate_.release();
  EXPECT_TRUE(reads.wait());
  lanes.stop();
  EXPECT_EQ(writes.op.verdict, Verdict::execute);
  expect_replayed(reads.op, *outcome_of(large, cold));
}

}  // namespace journal_reading_test
}  // namespace once::store
