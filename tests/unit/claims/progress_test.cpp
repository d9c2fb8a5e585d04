// Appending and reading progress, in virtual time, on a store that fails where a test says.
#include "claims/progress.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "claims/answers.hpp"
#include "sim/random.hpp"
#include "store/waiters.hpp"
#include "tests/unit/support/faulty_store.hpp"
#include "tests/unit/support/virtual_time.hpp"

namespace once::claims::progress_test {

using namespace std::chrono_literals;
using support::Fault;
using support::FaultyStore;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr Duration lease = 30s;
constexpr std::size_t limit = 1000;

Nonce nonce_of(int number) {
  Nonce nonce;
  nonce.bytes.front() = static_cast<std::uint8_t>(number);  // its halves differ, as those of any drawn nonce
  return nonce;
}

class NoHost final : public ClaimantHost {
 public:
  void store_failed(const Op& /*op*/) override {}
  void retries(const Op& /*op*/) override {}
  void end_in_background(Op /*end*/, Stands /*claim*/, std::shared_ptr<const void> /*kept_alive*/) override {}
};

class Client final : public Presence {
 public:
  bool listen(Listener& /*listener*/) override { return !left; }
  void stop_listening() override {}
  bool has_left() override { return left; }

  bool left = false;
};

// What a client has read.
struct Following {
  ProgressPlace place;
  Op seen;
  bool ended = false;
  Client client;

  std::vector<std::string> pieces() const {
    std::vector<std::string> all;
    for (const OutcomeBytes& chunk : seen.chunks) all.emplace_back(decode_piece(*chunk)->data);
    return all;
  }
};

class ProgressTest : public testing::TestWithParam<Shared> {
 protected:
  template <class T>
  T result_of(Task<T> task) {
    std::optional<T> result;
    const auto collect = [](Task<T> awaited, std::optional<T>& out) -> Task<void> {
      T value = co_await awaited;
      out.emplace(std::move(value));
    };
    spawn(collect(std::move(task), result));
    EXPECT_TRUE(executor_.run_until([&] { return result.has_value(); }));
    return *std::move(result);
  }

  ClaimHandle claim(int number) {
    Op op{.verb = Verb::claim, .id = id_, .nonce = nonce_of(number)};
    op.terms.lease = lease;
    op.terms.owner = Owner::outside;
    op.terms.on_unknown = OnUnknown::retry;
    store_.run_inside(op);
    EXPECT_EQ(op.verdict, Verdict::execute);
    return {.id = id_, .nonce = op.nonce};
  }
  void end(const ClaimHandle& claim, State state) {
    Op op{.verb = Verb::finish, .id = claim.id, .nonce = claim.nonce};
    op.final_state = state;
    op.terms.ttl = 1h;
    if (state == State::succeeded) op.outcome = outcome_of("1");
    store_.run_inside(op);
    EXPECT_EQ(op.status, OpStatus::done);
    waiters_.notify(claim.id);
  }

  Appended append(const ClaimHandle& claim, std::uint32_t number, std::string_view data) {
    return result_of(progress_.append(claim, {.number = number, .data = data}, op_));
  }
  std::vector<std::string> read(Following& following) {
    const auto reading = [](Progress& progress, OperationId id, Following& into) -> Task<bool> {
      co_await progress.read(id, into.place, into.seen);
      co_return true;
    };
    result_of(reading(progress_, id_, following));
    return following.pieces();
  }
  void start_waiting(Following& following, Duration wait_limit) {
    const auto waiting = [](Progress& progress, OperationId id, Duration longest, Following& into) -> Task<void> {
      co_await progress.wait(id, longest, into.client, into.place, into.seen);
      into.ended = true;
    };
    spawn(waiting(progress_, id_, wait_limit, following));
    executor_.advance(5ms);
  }

  const OperationId id_{};
  support::Trace trace_;
  support::ManualClock clock_;
  support::VirtualExecutor executor_{clock_};
  FaultyStore store_{clock_, GetParam(), FaultyStore::Execution::in_a_lane, trace_};
  support::VirtualLanes lanes_{store_, executor_};
  SeededRandom random_;
  NoHost host_;
  Waiters waiters_;
  Claimant claimant_{{.store = lanes_, .home = executor_, .clock = clock_, .random = random_}, host_};
  Progress progress_{{.store = lanes_, .waiters = waiters_, .home = executor_, .clock = clock_, .claimant = claimant_},
                     limit};
  Op op_;
};

INSTANTIATE_TEST_SUITE_P(Stores, ProgressTest, testing::Values(Shared::no, Shared::yes));

TEST(StoredPiece, is_its_data_and_what_it_counts) {
  const OutcomeBytes bytes = encode_piece({.counted = 300, .data = "\"a\\nb\""});
  const auto piece = decode_piece(*bytes);
  ASSERT_TRUE(piece.has_value());
  EXPECT_EQ(piece->counted, 300U);
  EXPECT_EQ(piece->data, "\"a\\nb\"");
  for (const char* bad : {"", "12", "\n1", "x\n1", "-1\n1"}) EXPECT_FALSE(decode_piece(bad).has_value()) << bad;
}

TEST_P(ProgressTest, pieces_are_read_in_order_and_from_a_number_on) {
  const ClaimHandle mine = claim(1);
  EXPECT_EQ(append(mine, 0, "1"), Appended::done);
  EXPECT_EQ(append(mine, 1, "{\"a\": 2}"), Appended::done);
  Following all;
  EXPECT_THAT(read(all), ElementsAre("1", "{\"a\": 2}"));
  Following later{.place = {.from = 1}};
  EXPECT_THAT(read(later), ElementsAre("{\"a\": 2}"));
  Following none{.place = {.from = 2}};
  EXPECT_THAT(read(none), IsEmpty());
}

TEST_P(ProgressTest, a_repeated_append_adds_nothing) {
  const ClaimHandle mine = claim(1);
  for (const char* data : {"1", "1", "2"}) EXPECT_EQ(append(mine, 0, data), Appended::done);
  EXPECT_EQ(append(mine, 1, "3"), Appended::done);
  EXPECT_EQ(append(mine, 0, "1"), Appended::done);
  Following all;
  EXPECT_THAT(read(all), ElementsAre("1", "3")) << "the first one counts";
}

TEST_P(ProgressTest, an_append_whose_answer_was_lost_is_there_once) {
  const ClaimHandle mine = claim(1);
  store_.fail_when([](const Op& op, std::size_t) { return op.verb == Verb::append ? Fault::after : Fault::none; });
  EXPECT_EQ(append(mine, 0, "1"), Appended::not_done);
  EXPECT_EQ(op_.status, OpStatus::failed);
  store_.heal();
  EXPECT_EQ(append(mine, 0, "1"), Appended::done);
  Following all;
  EXPECT_THAT(read(all), ElementsAre("1"));
}

TEST_P(ProgressTest, a_number_that_leaves_a_gap_is_refused) {
  const ClaimHandle mine = claim(1);
  EXPECT_EQ(append(mine, 1, "1"), Appended::gap);
  EXPECT_EQ(append(mine, 0, "1"), Appended::done);
  EXPECT_EQ(append(mine, 2, "1"), Appended::gap);
  Following all;
  EXPECT_THAT(read(all), ElementsAre("1"));
}

TEST_P(ProgressTest, the_limit_is_for_all_pieces_together) {
  const ClaimHandle mine = claim(1);
  const std::string half(limit / 2 - piece_overhead, '1');
  EXPECT_EQ(append(mine, 0, half + half + std::string(piece_overhead + 1, '1')), Appended::too_much);
  EXPECT_EQ(append(mine, 0, half), Appended::done);
  EXPECT_EQ(append(mine, 1, half + "1"), Appended::too_much);
  EXPECT_EQ(append(mine, 1, half), Appended::done);
  EXPECT_EQ(append(mine, 1, half), Appended::done) << "a repeated one is not counted twice";
  EXPECT_EQ(append(mine, 2, ""), Appended::too_much);
  Following all;
  EXPECT_THAT(read(all), ElementsAre(half, half));
}

TEST_P(ProgressTest, an_owner_that_has_ended_or_was_taken_over_has_lost_its_claim) {
  const ClaimHandle first = claim(1);
  EXPECT_EQ(append(first, 0, "1"), Appended::done);
  executor_.advance(lease + 1s);
  EXPECT_EQ(append(first, 1, "2"), Appended::done) << "a lapsed claim that nobody took over";
  const ClaimHandle second = claim(2);
  for (const std::uint32_t number : {0U, 1U, 2U}) {
    EXPECT_EQ(append(first, number, "3"), Appended::not_done);
    EXPECT_EQ(op_.status, OpStatus::lost) << number;
  }
  Following all;
  EXPECT_THAT(read(all), IsEmpty()) << "the next attempt begins with none";
  EXPECT_EQ(append(second, 0, "4"), Appended::done);
  end(second, State::succeeded);
  for (const std::uint32_t number : {0U, 1U}) {
    EXPECT_EQ(append(second, number, "5"), Appended::not_done);
    EXPECT_EQ(op_.status, OpStatus::lost) << number;
  }
  EXPECT_THAT(read(all), IsEmpty()) << "the value counts";
}

TEST_P(ProgressTest, progress_of_a_lapsed_claim_can_still_be_read) {
  const ClaimHandle mine = claim(1);
  append(mine, 0, "1");
  executor_.advance(lease + 1s);
  Following all;
  EXPECT_THAT(read(all), ElementsAre("1"));
  const ClaimsAnswers answers("urn:once:error:");
  EXPECT_THAT(answers.followed(all.seen, all.place).response.body,
              HasSubstr(R"({"status":"unknown","attempt":1,"fence":)"));
  EXPECT_THAT(answers.followed(all.seen, all.place).response.body, HasSubstr(R"("from":0,"next":1,"progress":[1]})"));
}

TEST_P(ProgressTest, a_reader_of_an_earlier_attempt_begins_again) {
  const ClaimHandle first = claim(1);
  append(first, 0, "1");
  append(first, 1, "2");
  Following following;
  read(following);
  following.place.from = 2;
  executor_.advance(lease + 1s);
  const ClaimHandle second = claim(2);
  append(second, 0, "10");
  EXPECT_THAT(read(following), ElementsAre("10"));
  EXPECT_EQ(following.place.from, 0U);
  EXPECT_EQ(following.place.fence, following.seen.record->fence);
}

TEST_P(ProgressTest, a_reader_that_waits_is_told_at_once_in_this_process) {
  const ClaimHandle mine = claim(1);
  Following following;
  start_waiting(following, 10s);
  executor_.advance(1s);
  EXPECT_FALSE(following.ended);
  append(mine, 0, "1");
  executor_.advance(5ms);
  EXPECT_TRUE(following.ended);
  EXPECT_THAT(following.pieces(), ElementsAre("1"));
}

TEST_P(ProgressTest, a_piece_that_another_gateway_appended_is_found_within_a_second) {
  const ClaimHandle mine = claim(1);
  Following following;
  start_waiting(following, 1min);
  executor_.advance(10s);
  Op op{.verb = Verb::append, .id = mine.id, .nonce = mine.nonce};
  op.outcome = encode_piece({.counted = 1, .data = "1"});
  store_.run_inside(op);
  executor_.advance(1100ms);
  EXPECT_TRUE(following.ended);
  EXPECT_THAT(following.pieces(), ElementsAre("1"));
}

TEST_P(ProgressTest, a_wait_ends_with_its_limit_the_owner_or_the_client) {
  const ClaimHandle mine = claim(1);
  Following patient;
  Following hasty;
  Following leaving;
  start_waiting(patient, 1min);
  start_waiting(hasty, 3s);
  start_waiting(leaving, 1min);
  executor_.advance(2500ms);
  EXPECT_FALSE(hasty.ended);
  leaving.client.left = true;
  executor_.advance(1s);
  EXPECT_TRUE(hasty.ended);
  EXPECT_TRUE(owner_works(hasty.seen));
  EXPECT_TRUE(leaving.ended);
  EXPECT_FALSE(patient.ended);
  end(mine, State::succeeded);
  executor_.advance(5ms);
  EXPECT_TRUE(patient.ended);
  EXPECT_EQ(patient.seen.record->state, State::succeeded);
}

TEST_P(ProgressTest, a_wait_ends_when_the_lease_of_the_owner_does) {
  claim(1);
  Following following;
  start_waiting(following, 1h);
  executor_.advance(lease - 1s);
  EXPECT_FALSE(following.ended);
  executor_.advance(1s);
  EXPECT_TRUE(following.ended);
}

TEST_P(ProgressTest, a_reader_that_waits_follows_the_next_attempt_from_its_first_piece) {
  const ClaimHandle first = claim(1);
  append(first, 0, "1");
  Following following{.place = {.from = 1}};
  start_waiting(following, 1min);
  EXPECT_FALSE(following.ended);
  Op release{.verb = Verb::release, .id = first.id, .nonce = first.nonce};
  store_.run_inside(release);
  const ClaimHandle second = claim(2);
  append(second, 0, "10");
  executor_.advance(5ms);
  EXPECT_TRUE(following.ended);
  EXPECT_THAT(following.pieces(), ElementsAre("10"));
  EXPECT_EQ(following.place.from, 0U);
}

}  // namespace once::claims::progress_test
