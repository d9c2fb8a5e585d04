// Every planted bug (base/bug.hpp) is found within a bounded number of seeds: what the simulator does not see, it does
// not prove.
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "base/bug.hpp"
#include "sim/simulation.hpp"

namespace once::sim {
namespace {

constexpr std::uint64_t most_seeds = 2000;

// Where only one store can show it, or one shows it far sooner, seeds are not spent on the others.
std::optional<StoreKind> store_with(Bug bug) {
  switch (bug) {
    case Bug::recovery_frees_claims:
    case Bug::recovery_skips_checksums:
    case Bug::journal_without_sync: return StoreKind::journal;
    case Bug::expires_by_wrong_clock:
    case Bug::resolve_ignores_nonce: return StoreKind::shared;
    case Bug::refused_hides_unavailable: return StoreKind::sql;
    case Bug::transaction_without_nonce:
    case Bug::waits_without_pause:
    case Bug::claim_past_open_transaction:
    case Bug::answer_over_committed: return StoreKind::sql_transaction;
    case Bug::replica_far_behind: return StoreKind::redis;
    case Bug::replicas_not_waited_for:
    case Bug::late_claim_counts:
    case Bug::replays_not_waited_for: return StoreKind::redis_wait;
    case Bug::none:
    case Bug::finish_without_nonce:
    case Bug::renew_without_nonce:
    case Bug::reply_before_record:
    case Bug::lease_not_renewed:
    case Bug::release_after_sent:
    case Bug::mismatch_ignored:
    case Bug::caller_not_in_id:
    case Bug::takeover_too_early:
    case Bug::hold_executes:
    case Bug::tombstone_executes:
    case Bug::unknown_as_failed:
    case Bug::forget_ignores_state:
    case Bug::resolve_over_outcome:
    case Bug::operator_ends_live_claim:
    case Bug::version_ignored:
    case Bug::unknown_told_as_none:
    case Bug::tombstone_not_forgotten:
    case Bug::starts_what_is_at_work:
    case Bug::first_claim_forgotten:
    case Bug::sends_what_is_lost:
    case Bug::finish_over_resolved: return std::nullopt;
  }
  return std::nullopt;
}

class PlantedBug : public testing::TestWithParam<std::pair<std::string_view, Bug>> {};

TEST_P(PlantedBug, is_found) {
  planted_bug = GetParam().second;
  for (std::uint64_t seed = 1; seed <= most_seeds; ++seed) {
    const Report report = simulate(seed, KeepTrace::no, store_with(planted_bug));
    if (report.violations.empty()) continue;
    RecordProperty("seed", static_cast<int>(seed));
    RecordProperty("violation", report.violations.front());
    return;
  }
  ADD_FAILURE() << GetParam().first << " was not found within " << most_seeds << " seeds";
}

INSTANTIATE_TEST_SUITE_P(Simulation, PlantedBug, testing::ValuesIn(bug_names),
                         [](const auto& info) { return std::string(info.param.first); });

// The other direction: the same build without a bug violates nothing, so it is the bug that is found.
TEST(PlantedBugs, without_one_nothing_is_found) {
  planted_bug = Bug::none;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) EXPECT_TRUE(simulate(seed).violations.empty()) << "seed " << seed;
}

}  // namespace
}  // namespace once::sim
