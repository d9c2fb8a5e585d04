// What one request with a key takes of the quotas of its caller and of its network. Time is given.
#include "gateway/limits/key_quota.hpp"

#include <gtest/gtest.h>

#include "store/journal/format.hpp"
#include "tests/unit/support/manual_clock.hpp"

namespace once::gateway::key_quota_test {

using namespace std::chrono_literals;

TenantTag named(char name) {
  TenantTag tag;
  tag.fill(name);
  return tag;
}

const TenantTag alice = named('a');
const TenantTag bob = named('b');
const TenantTag network = named('n');
constexpr std::size_t of_a_chunk = 112;  // beside its bytes

Reply ended(Ending ending) {
  Reply reply;
  reply.ending = ending;
  reply.attempt = Attempt{1};
  return reply;
}

OutcomeBytes bytes(std::size_t count) {
  return std::make_shared<const std::string>(count, 'x');
}

Nonce nonce_of(int number) {
  Nonce nonce;
  nonce.bytes.fill(static_cast<std::uint8_t>(number));
  return nonce;
}

Record record_of(int nonce, State state, OutcomeBytes outcome = {}) {
  return {.state = state, .nonce = nonce_of(nonce), .expires_at = Time(1h), .outcome = std::move(outcome)};
}

class KeyQuotaTest : public testing::Test {
 protected:
  // A whole request of Alice's. The limit that refused its key, if one did; a key that the store knows goes on.
  std::optional<CallerLimit> ask(Ending ending, std::size_t recorded_bytes = 0) {
    KeyQuota quota(tables_, limits_, clock_);
    if (limits_.caller.any() && !quota.begin(alice)) return CallerLimit::in_flight;
    if (limits_.address.any()) quota.charge(network);
    const auto refusal = quota.take_key();
    if (refusal && ending != Ending::replayed) return refusal->limit;
    if (ending == Ending::executed) {
      claim(quota);
      finish(quota, State::succeeded, BodyKept::yes, recorded_bytes);
    }
    quota.settle(ended(ending));
    return refusal ? std::optional(refusal->limit) : std::nullopt;
  }

  static void answer(KeyQuota& quota, Op op, OpStatus status = OpStatus::done) {
    op.id = OperationId{{7}};
    op.terms.ttl = 1h;
    op.status = status;
    quota.answered(op);
  }
  static void claim(KeyQuota& quota, int nonce = 1) {
    Op op{.verb = Verb::claim, .nonce = nonce_of(nonce)};
    op.verdict = Verdict::execute;
    op.record = record_of(nonce, State::started);
    answer(quota, std::move(op));
  }
  static void append(KeyQuota& quota, std::uint32_t chunk, std::size_t size, int nonce = 1) {
    Op op{.verb = Verb::append, .nonce = nonce_of(nonce), .chunk = chunk};
    op.outcome = bytes(size);
    answer(quota, std::move(op));
  }
  static void finish(KeyQuota& quota, State state, BodyKept kept, std::size_t size) {
    Op op{.verb = Verb::finish, .nonce = nonce_of(1), .final_state = state, .body_kept = kept};
    if (state == State::succeeded) op.outcome = bytes(size);
    answer(quota, std::move(op));
  }
  static void look(KeyQuota& quota, std::optional<Record> record) {
    Op op{.verb = Verb::lookup};
    op.record = std::move(record);
    answer(quota, std::move(op));
  }
  std::size_t of_alice() { return tables_.callers.stored_bytes(alice, clock_.running()); }
  std::size_t of_network() { return tables_.networks.stored_bytes(network, clock_.running()); }
  // Alice, in the network, has begun a stream of 10 + 1000 + 1000 bytes.
  KeyQuota& begin_stream() {
    limits_.caller.stored_bytes = limits_.address.stored_bytes = 1'000'000;
    KeyQuota& quota = begun_.emplace(tables_, limits_, clock_);
    EXPECT_TRUE(quota.begin(alice));
    quota.charge(network);
    claim(quota);
    append(quota, 0, 10);
    append(quota, 1, 1000);
    append(quota, 2, 1000);
    return quota;
  }

  QuotaTables tables_;
  Limits limits_;
  ManualClock clock_;
  std::optional<KeyQuota> begun_;
};

TEST_F(KeyQuotaTest, nothing_is_limited_by_default) {
  KeyQuota quota(tables_, limits_, clock_);
  quota.charge(std::nullopt);
  EXPECT_FALSE(quota.is_limited());
  EXPECT_EQ(quota.take_key(), std::nullopt);
  claim(quota);
  finish(quota, State::succeeded, BodyKept::yes, 100);
  quota.settle(ended(Ending::executed));
  EXPECT_EQ(tables_.callers.size() + tables_.networks.size(), 0U);
}

TEST_F(KeyQuotaTest, a_request_is_at_work_until_it_ends) {
  limits_.caller.in_flight = 1;
  {
    KeyQuota first(tables_, limits_, clock_);
    EXPECT_TRUE(first.begin(alice));
    EXPECT_TRUE(first.is_limited());
    KeyQuota second(tables_, limits_, clock_);
    EXPECT_FALSE(second.begin(alice));
    EXPECT_FALSE(second.is_limited());
    EXPECT_TRUE(second.begin(bob));
  }
  KeyQuota third(tables_, limits_, clock_);
  EXPECT_TRUE(third.begin(alice));
}

TEST_F(KeyQuotaTest, known_keys_are_given_back_to_caller_and_network) {
  limits_.caller.new_keys = limits_.address.new_keys = 1;
  limits_.caller.new_keys_burst = limits_.address.new_keys_burst = 2;
  for (const Ending known : {Ending::replayed, Ending::in_flight, Ending::mismatch}) {
    EXPECT_EQ(ask(known), std::nullopt);
  }
  EXPECT_EQ(ask(Ending::executed), std::nullopt);
  EXPECT_EQ(ask(Ending::executed), std::nullopt);
  EXPECT_EQ(ask(Ending::executed), CallerLimit::new_keys);
}

TEST_F(KeyQuotaTest, retries_of_a_key_that_is_held_or_has_expired_take_nothing) {
  limits_.address.new_keys = limits_.address.new_keys_burst = 1;
  limits_.address.stored_bytes = 1000;
  for (int retry = 0; retry < 20; ++retry) {
    KeyQuota quota(tables_, limits_, clock_);
    quota.charge(network);
    ASSERT_EQ(quota.take_key(), std::nullopt);
    Reply reply;
    reply.ending = retry % 2 == 0 ? Ending::unknown : Ending::rejected;
    reply.known_key = true;
    quota.settle(reply);
  }
  EXPECT_EQ(ask(Ending::executed), std::nullopt);
  EXPECT_EQ(ask(Ending::executed), CallerLimit::address_new_keys);
}

TEST_F(KeyQuotaTest, a_later_attempt_is_of_a_known_key) {
  limits_.address.new_keys = limits_.address.new_keys_burst = 1;
  KeyQuota quota(tables_, limits_, clock_);
  quota.charge(network);
  EXPECT_EQ(quota.take_key(), std::nullopt);
  Reply second = ended(Ending::executed);
  second.attempt = Attempt{2};
  quota.settle(second);
  EXPECT_EQ(ask(Ending::executed), std::nullopt);
  EXPECT_EQ(ask(Ending::executed), CallerLimit::address_new_keys);
}

TEST_F(KeyQuotaTest, a_key_that_the_network_refuses_is_given_back_to_the_caller) {
  limits_.caller.new_keys = limits_.caller.new_keys_burst = 1;
  limits_.address.new_keys = limits_.address.new_keys_burst = 1;
  KeyQuota other(tables_, limits_, clock_);
  other.charge(network);
  EXPECT_EQ(other.take_key(), std::nullopt);
  EXPECT_EQ(ask(Ending::executed), CallerLimit::address_new_keys);
  limits_.address.new_keys = 0;
  EXPECT_EQ(ask(Ending::executed), std::nullopt);
}

TEST_F(KeyQuotaTest, retries_over_the_limit_make_no_room_for_new_keys) {
  limits_.address.new_keys = limits_.address.new_keys_burst = 1;
  EXPECT_EQ(ask(Ending::executed), std::nullopt);
  EXPECT_EQ(ask(Ending::replayed), CallerLimit::address_new_keys) << "and goes on, because the store knows the key";
  EXPECT_EQ(ask(Ending::executed), CallerLimit::address_new_keys);
}

TEST_F(KeyQuotaTest, retries_over_the_limit_of_the_caller_make_no_room_in_the_network) {
  limits_.caller.new_keys = limits_.caller.new_keys_burst = 1;
  limits_.address.new_keys = limits_.address.new_keys_burst = 2;
  EXPECT_EQ(ask(Ending::executed), std::nullopt);
  EXPECT_EQ(ask(Ending::replayed), CallerLimit::new_keys);
  limits_.caller.new_keys = 0;
  EXPECT_EQ(ask(Ending::executed), std::nullopt);
  EXPECT_EQ(ask(Ending::executed), CallerLimit::address_new_keys);
}

TEST_F(KeyQuotaTest, what_is_recorded_counts_until_it_expires) {
  limits_.caller.stored_bytes = 1000;
  EXPECT_EQ(ask(Ending::executed, 1000), std::nullopt);
  EXPECT_EQ(ask(Ending::executed), CallerLimit::stored_bytes);
  limits_.caller.stored_bytes = 0;
  limits_.address.stored_bytes = 1000;
  EXPECT_EQ(ask(Ending::executed, 700), std::nullopt);
  EXPECT_EQ(ask(Ending::executed), CallerLimit::address_stored_bytes) << "a record takes some bytes itself";
}

TEST_F(KeyQuotaTest, what_was_refused_or_passed_without_a_record_takes_no_bytes) {
  limits_.address.stored_bytes = 1;
  EXPECT_EQ(ask(Ending::rejected), std::nullopt);
  EXPECT_EQ(ask(Ending::bypassed), std::nullopt);
  EXPECT_EQ(ask(Ending::executed), std::nullopt);
  EXPECT_EQ(ask(Ending::executed), CallerLimit::address_stored_bytes);
}

TEST_F(KeyQuotaTest, a_stream_counts_while_it_comes) {
  begin_stream();
  EXPECT_EQ(of_alice(), 2010U + 3 * of_a_chunk);
  EXPECT_EQ(of_network(), of_alice() + 384U);
}

TEST_F(KeyQuotaTest, a_chunk_counts_with_all_that_the_journal_writes_for_it) {
  const std::size_t size = 1;  // with the most padding
  const std::size_t written = journal::frame_size(journal::chunk_head + size) + journal::mark_frame_size;
  EXPECT_GE(size + of_a_chunk, written);
}

// Whoever stops it records the end in the name of the owner, whose next write is lost. It counts for the ttl of that.
TEST_F(KeyQuotaTest, a_stream_that_was_stopped_stays_counted) {
  KeyQuota& quota = begin_stream();
  Record stopped = record_of(1, State::succeeded, bytes(50));
  stopped.expires_at = Time(5h);
  stopped.body_kept = BodyKept::in_chunks;
  look(quota, stopped);
  EXPECT_EQ(of_alice(), 2060U + 3 * of_a_chunk);
  clock_.advance(4h);
  EXPECT_EQ(of_alice(), 2060U + 3 * of_a_chunk);
  clock_.advance(2h);
  EXPECT_EQ(of_alice(), 0U);
}

// A stop records the head beside the chunks later, under the ttl that the stream has.
TEST_F(KeyQuotaTest, a_stream_that_broke_off_stays_counted_with_room_for_a_stop) {
  finish(begin_stream(), State::unknown, BodyKept::yes, 0);
  EXPECT_GE(of_alice(), 10U + 2010U + 3 * of_a_chunk);
  EXPECT_EQ(of_network(), of_alice() + 384U);
}

TEST_F(KeyQuotaTest, a_stream_that_ends_counts_once) {
  finish(begin_stream(), State::succeeded, BodyKept::in_chunks, 60);
  EXPECT_EQ(of_alice(), 2070U + 3 * of_a_chunk);
}

TEST_F(KeyQuotaTest, chunks_that_an_outcome_replaces_are_given_back) {
  finish(begin_stream(), State::succeeded, BodyKept::yes, 2015);
  EXPECT_EQ(of_alice(), 2015U);
}

TEST_F(KeyQuotaTest, what_another_attempt_has_replaced_is_given_back) {
  look(begin_stream(), record_of(2, State::started));
  EXPECT_EQ(of_alice(), 0U);
  EXPECT_EQ(of_network(), 384U);
}

TEST_F(KeyQuotaTest, what_the_store_has_lost_is_given_back) {
  look(begin_stream(), std::nullopt);
  EXPECT_EQ(of_alice() + of_network(), 0U);
}

TEST_F(KeyQuotaTest, an_outcome_of_the_backend_counts) {
  look(begin_stream(), record_of(1, State::succeeded, bytes(5000)));
  EXPECT_EQ(of_alice(), 5000U);
}

TEST_F(KeyQuotaTest, chunks_that_are_appended_again_count_once) {
  KeyQuota& quota = begin_stream();
  append(quota, 1, 1000);
  append(quota, 2, 1000);
  EXPECT_EQ(of_alice(), 2010U + 3 * of_a_chunk);
  append(quota, 0, 10, 2);  // under a newer claim
  append(quota, 1, 1000, 2);
  EXPECT_EQ(of_alice(), 1010U + 2 * of_a_chunk);
}

// Whoever stops the stream may find it there.
TEST_F(KeyQuotaTest, a_chunk_whose_answer_was_lost_counts) {
  KeyQuota& quota = begin_stream();
  Op lost{.verb = Verb::append, .nonce = nonce_of(1), .chunk = 3};
  lost.outcome = bytes(500);
  lost.fault = StoreFault::full;
  answer(quota, lost, OpStatus::failed);
  EXPECT_EQ(of_alice(), 2010U + 3 * of_a_chunk) << "that one is not there";
  lost.fault = StoreFault::unavailable;
  answer(quota, lost, OpStatus::failed);
  answer(quota, lost);
  EXPECT_EQ(of_alice(), 2510U + 4 * of_a_chunk);
}

// Streams that began together share what is left.
TEST_F(KeyQuotaTest, a_stream_goes_on_only_while_there_is_room) {
  KeyQuota& quota = begin_stream();
  Op next{.verb = Verb::append, .chunk = 3};
  next.outcome = bytes(10);
  EXPECT_TRUE(quota.has_room_for(next));
  limits_.address.stored_bytes = 2000;
  EXPECT_FALSE(quota.has_room_for(next));
  limits_.address.stored_bytes = 0;
  limits_.caller.stored_bytes = 2000;
  EXPECT_FALSE(quota.has_room_for(next));
  next.outcome = bytes(0);
  EXPECT_TRUE(quota.has_room_for(next)) << "it says that the rest is not recorded";
  EXPECT_TRUE(quota.has_room_for({.verb = Verb::finish}));
}

// A journal has what was replaced until it drops the segment.
TEST_F(KeyQuotaTest, what_a_store_reclaims_late_counts_for_that_long) {
  tables_.reclaimed_within = 1min;
  finish(begin_stream(), State::succeeded, BodyKept::no, 10);
  EXPECT_EQ(of_alice(), 10U) << "the caller has no part in it";
  EXPECT_EQ(of_network(), 384U + 10 + 2010U + 3 * of_a_chunk);
  clock_.advance(1min);
  EXPECT_GT(of_network(), 2000U);
  clock_.advance(31s);
  EXPECT_EQ(of_network(), 384U + 10);
  clock_.advance(70min);
  EXPECT_EQ(of_network(), 0U);
}

TEST_F(KeyQuotaTest, streams_that_are_not_kept_reach_the_quota) {
  tables_.reclaimed_within = 1min;
  limits_.address.stored_bytes = 5000;
  const auto stream = [this]() -> std::optional<CallerTable::Refusal> {
    KeyQuota quota(tables_, limits_, clock_);
    quota.charge(network);
    if (auto refusal = quota.take_key()) return refusal;
    claim(quota);
    append(quota, 0, 10);
    append(quota, 1, 2000);
    finish(quota, State::succeeded, BodyKept::no, 10);
    return std::nullopt;
  };
  EXPECT_EQ(stream(), std::nullopt);
  EXPECT_EQ(stream(), std::nullopt);
  const auto refusal = stream();
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->limit, CallerLimit::address_stored_bytes);
  EXPECT_LE(refusal->retry_after_seconds, 90);
  clock_.advance(90s);
  EXPECT_EQ(stream(), std::nullopt);
}

TEST_F(KeyQuotaTest, what_other_claims_and_attempts_replace_is_reclaimed_late_too) {
  tables_.reclaimed_within = 1min;
  KeyQuota& quota = begin_stream();
  const std::size_t chunks = 2010U + 3 * of_a_chunk;
  append(quota, 0, 10, 2);  // under a newer claim
  EXPECT_EQ(of_network(), 384U + 10 + of_a_chunk + chunks);
  answer(quota, {.verb = Verb::release, .nonce = nonce_of(2)});
  EXPECT_EQ(of_network(), 10 + of_a_chunk + chunks);
  Op claim{.verb = Verb::claim, .nonce = nonce_of(3)};
  claim.verdict = Verdict::execute;
  claim.record = record_of(3, State::started);
  claim.record->attempt = Attempt{2};
  answer(quota, std::move(claim));
  EXPECT_EQ(of_network(), 10 + of_a_chunk + chunks);
}

TEST_F(KeyQuotaTest, a_claim_that_was_handed_over_leaves_nothing) {
  tables_.reclaimed_within = 1min;
  begin_stream().settle(ended(Ending::attached));
  EXPECT_EQ(of_network(), 0U);
}

TEST_F(KeyQuotaTest, labels_count_for_the_network) {
  limits_.address.stored_bytes = 1'000'000;
  KeyQuota quota(tables_, limits_, clock_);
  quota.charge(network);
  const std::string route(200, 'r');
  Op claim{.verb = Verb::claim, .nonce = nonce_of(1), .route = route};
  claim.verdict = Verdict::execute;
  claim.record = record_of(1, State::started);
  answer(quota, std::move(claim));
  EXPECT_EQ(of_network(), 384U + 2 * 200U) << "in both records of the journal";
}

TEST_F(KeyQuotaTest, a_claim_that_is_released_takes_nothing) {
  answer(begin_stream(), {.verb = Verb::release, .nonce = nonce_of(1)});
  EXPECT_EQ(of_alice() + of_network(), 0U);
}

TEST_F(KeyQuotaTest, what_is_written_after_the_request_counts_before) {
  KeyQuota& quota = begin_stream();
  Op end{.verb = Verb::finish, .id = OperationId{{7}}, .nonce = nonce_of(1), .terms = {.ttl = 1h}};
  end.outcome = bytes(3000);
  quota.ends_later(end);
  EXPECT_EQ(of_alice(), 3000U);
}

TEST_F(KeyQuotaTest, what_is_evicted_is_given_back) {
  finish(begin_stream(), State::succeeded, BodyKept::yes, 2015);
  const OperationId id{{7}};
  tables_.evicted({.id = id,
                   .holder = network,
                   .tenant = {alice.data(), alice.size()},
                   .bytes = 2015,
                   .expires_at = clock_.now() + 1h,
                   .now = clock_.now(),
                   .left = Evicted::Left::nothing},
                  clock_.running());
  EXPECT_EQ(of_alice() + of_network(), 0U);
}

}  // namespace once::gateway::key_quota_test
