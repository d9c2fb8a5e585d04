// Every mutant (tests/sim/mutants/) is found within a bounded number of seeds: a bug that the simulator does not see,
// it does not rule out either.
#include <optional>
#include <set>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/simulation.hpp"
#include "tests/sim/mutants/mutant.hpp"

namespace once::sim {
namespace {

constexpr std::uint64_t most_seeds = 2000;

// What a setup needs to show a mutant: other seeds are passed over.
using Shows = bool (*)(const Setup&);
bool has_streams(const Setup& setup) {
  return setup.bytes.streams.any();
}
bool has_stops(const Setup& setup) {
  return setup.bytes.streams.stops > 0;
}
bool has_large_requests(const Setup& setup) {
  return setup.bytes.large_requests();
}
bool loses_data(const Setup& setup) {
  return setup.bytes.streams.losses > 0;
}
bool store_is_small(const Setup& setup) {
  return setup.store_is_small();
}
bool checks_health(const Setup& setup) {
  return setup.bytes.checks_health() && setup.bytes.reaches_servers();
}

struct Mutant {
  std::string_view name;
  std::optional<StoreKind> store = {};  // the only one that can show it, or the one that shows it far sooner
  Layer layer = Layer::exchanges;
  Shows shows = nullptr;  // null: any
};

constexpr Mutant mutants[] = {
    {"answer_over_committed", StoreKind::sql_transaction},
    {"append_after_finish", StoreKind::sql},
    {"append_after_finish", StoreKind::sql, Layer::bytes, has_stops},
    {"append_without_nonce"},
    {"append_without_nonce", StoreKind::shared, Layer::bytes, has_streams},
    {"caller_has_no_limit", std::nullopt, Layer::bytes},
    {"caller_not_in_id"},
    {"chunk_told_too_early", std::nullopt, Layer::bytes, has_streams},
    {"chunks_dropped_at_finish", StoreKind::sql},
    {"chunks_not_waited_for", StoreKind::redis_wait},
    {"chunks_outlive_attempt"},
    {"chunks_outlive_attempt", StoreKind::sql, Layer::bytes, has_streams},
    {"claim_past_open_transaction", StoreKind::sql_transaction},
    {"cut_stream_ends_well", std::nullopt, Layer::bytes, has_streams},
    {"cut_stream_is_free", StoreKind::shared, Layer::bytes, has_streams},
    {"evicted_is_still_charged", StoreKind::shared, Layer::bytes, store_is_small},
    {"expires_by_wrong_clock", StoreKind::shared},
    {"finish_over_resolved"},
    {"finish_without_nonce"},
    {"first_claim_forgotten"},
    {"forget_ignores_state"},
    {"half_written_is_pooled", std::nullopt, Layer::bytes},
    {"hold_executes"},
    {"host_not_in_id", std::nullopt, Layer::bytes},
    {"journal_without_sync", StoreKind::journal},
    {"large_body_ignored", std::nullopt, Layer::bytes, has_large_requests},
    {"late_claim_counts", StoreKind::redis_wait},
    {"late_claim_is_used", std::nullopt, Layer::bytes},
    {"lease_not_renewed"},
    {"lost_data_is_not_recorded", StoreKind::redis, Layer::bytes, loses_data},
    {"mismatch_ignored"},
    {"operator_ends_live_claim"},
    {"reader_follows_next_attempt", std::nullopt, Layer::bytes, has_streams},
    {"recovery_frees_claims", StoreKind::journal},
    {"recovery_skips_checksums", StoreKind::journal},
    {"refused_body_is_next", std::nullopt, Layer::bytes},
    {"refused_hides_unavailable", StoreKind::sql},
    {"release_after_sent"},
    {"renew_without_nonce"},
    {"replay_resumed_one_byte_off", std::nullopt, Layer::bytes, has_streams},
    {"replays_not_waited_for", StoreKind::redis_wait},
    {"replica_far_behind", StoreKind::redis},
    {"replicas_not_waited_for", StoreKind::redis_wait},
    {"reply_before_record"},
    {"resolve_ignores_nonce", StoreKind::shared},
    {"resolve_over_outcome"},
    {"resumed_one_byte_off", std::nullopt, Layer::bytes, has_streams},
    {"response_not_counted", std::nullopt, Layer::bytes},
    {"sends_what_is_lost"},
    {"shadow_is_not_let_go", std::nullopt, Layer::bytes},
    {"starts_what_is_at_work"},
    {"stop_told_too_early", StoreKind::shared, Layer::bytes, has_stops},
    {"stopped_stream_is_free", StoreKind::shared, Layer::bytes, has_stops},
    {"store_evicts_the_lightest", StoreKind::shared, Layer::bytes, store_is_small},
    {"store_refuses_when_full", StoreKind::shared, Layer::bytes, store_is_small},
    {"stopped_reader_ends_well", StoreKind::shared, Layer::bytes, has_stops},
    {"stopped_replay_unmarked", std::nullopt, Layer::bytes, has_stops},
    {"takeover_too_early"},
    {"tombstone_executes"},
    {"tombstone_not_forgotten"},
    {"transaction_without_nonce", StoreKind::sql_transaction},
    {"unfit_server_is_used", std::nullopt, Layer::bytes, checks_health},
    {"unknown_as_failed"},
    {"unknown_ends_well", StoreKind::redis, Layer::bytes, has_streams},
    {"unknown_told_as_none"},
    {"upgrade_with_body", std::nullopt, Layer::bytes},
    {"version_ignored"},
    {"waits_without_pause", StoreKind::sql_transaction},
};

class MutantTest : public testing::TestWithParam<Mutant> {};

TEST_P(MutantTest, is_found) {
  active_mutant = GetParam().name;
  for (std::uint64_t seed = 1; seed <= most_seeds; ++seed) {
    const auto& [name, store, layer, shows] = GetParam();
    if (shows != nullptr && !shows(draw_setup(seed, store, layer))) continue;
    const Report report = simulate(seed, KeepTrace::no, store, layer);
    if (report.violations.empty()) continue;
    RecordProperty("seed", static_cast<int>(seed));
    RecordProperty("violation", report.violations.front());
    return;
  }
  ADD_FAILURE() << GetParam().name << " was not found within " << most_seeds << " seeds";
}

INSTANTIATE_TEST_SUITE_P(Simulation, MutantTest, testing::ValuesIn(mutants), [](const auto& info) {
  const bool from_bytes = info.param.layer == Layer::bytes;
  return std::string(info.param.name).append(from_bytes ? "_from_bytes" : "");
});

// The other direction: the same build without a mutant violates nothing, so it is the mutant that is found.
TEST(MutantsTest, without_one_nothing_is_found) {
  active_mutant = {};
  for (std::uint64_t seed = 1; seed <= 50; ++seed) EXPECT_TRUE(simulate(seed).violations.empty()) << "seed " << seed;
}

TEST(MutantsTest, every_patch_has_a_row) {
  std::istringstream patches(ONCE_MUTANTS);
  std::set<std::string_view> rows;
  for (const Mutant& each : mutants) rows.insert(each.name);
  for (std::string name; patches >> name;) EXPECT_EQ(rows.erase(name), 1U) << "add " << name << " to the table";
  EXPECT_THAT(rows, testing::IsEmpty()) << "has a row, but no patch";
}

}  // namespace
}  // namespace once::sim
