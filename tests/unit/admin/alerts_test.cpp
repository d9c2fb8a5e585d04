#include "admin/alerts.hpp"

#include <algorithm>

#include <gtest/gtest.h>

namespace once::admin::alerts_test {

using namespace std::chrono_literals;

struct Situation {
  Sample before;
  Sample now;
  StoreHealth store = StoreHealth::up;
  std::vector<LimitUse> limits;
  std::uint64_t unknown_outcomes = 0;
  std::optional<std::uint64_t> unknown_keys = 0;
  std::size_t servers_down = 0;
  std::size_t upstreams_down = 0;

  std::uint64_t& result(Ending ending) { return now.results[static_cast<std::size_t>(ending)]; }

  std::vector<std::string_view> named(AlertState state) const {
    const Window window(before, now);
    std::vector<std::string_view> names;
    for (const Alert& alert : alerts_of({.window = window,
                                         .store = store,
                                         .limits = limits,
                                         .unknown_outcomes = unknown_outcomes,
                                         .unknown_keys = unknown_keys,
                                         .servers_down = servers_down,
                                         .upstreams_down = upstreams_down})) {
      EXPECT_FALSE(alert.detail.empty()) << alert.name;
      if (alert.state == state) names.push_back(alert.name);
    }
    return names;
  }
  std::vector<std::string_view> firing() const { return named(AlertState::firing); }
};

using Names = std::vector<std::string_view>;

TEST(Alerts, are_quiet_or_idle_when_nothing_happened) {
  const Situation nothing;
  EXPECT_EQ(nothing.firing(), Names());
  EXPECT_EQ(nothing.named(AlertState::idle), (Names{"OnceTakeoversHigh", "OnceFailuresHigh", "OnceHitRateLow"}));
}

TEST(Alerts, rates_fire_beyond_their_threshold_and_not_at_it) {
  Situation is;
  is.now.executions = 200;
  is.result(Ending::executed) = 140;
  is.result(Ending::replayed) = 60;
  is.now.takeovers = 10;
  is.now.failures = 20;
  EXPECT_EQ(is.firing(), Names());
  is.now.takeovers = 11;
  EXPECT_EQ(is.firing(), Names{"OnceTakeoversHigh"});
  is.now.takeovers = 0;
  is.now.failures = 21;
  EXPECT_EQ(is.firing(), Names{"OnceFailuresHigh"});
  is.now.failures = 0;
  is.result(Ending::executed) = 141;
  EXPECT_EQ(is.firing(), Names{"OnceHitRateLow"});
}

TEST(Alerts, rates_of_a_few_say_nothing) {
  Situation is;
  is.now.executions = least_executions - 1;
  is.result(Ending::executed) = least_executions - 1;
  is.now.failures = is.now.executions;
  EXPECT_EQ(is.firing(), Names());
  is.now.executions = is.now.failures = least_executions;
  EXPECT_EQ(is.firing(), Names{"OnceFailuresHigh"});
}

TEST(Alerts, the_store_and_the_backends) {
  EXPECT_EQ(Situation{.store = StoreHealth::down}.firing(), Names{"OnceStoreDown"});
  EXPECT_EQ(Situation{.store = StoreHealth::failed}.firing(), Names{"OnceJournalFailed"});
  EXPECT_EQ(Situation{.store = StoreHealth::full}.firing(), Names{"OnceStoreFull"});
  EXPECT_EQ(Situation{.store = StoreHealth::unasked}.firing(), Names());
  Situation errors;
  errors.now.store_errors = 1;
  EXPECT_EQ(errors.firing(), Names{"OnceStoreErrors"});
  Situation full;
  full.now.store_full = 1;
  EXPECT_EQ(full.firing(), Names{"OnceStoreFull"});
  EXPECT_EQ(Situation{.servers_down = 1}.firing(), Names{"OnceUpstreamDown"});
  EXPECT_EQ((Situation{.servers_down = 2, .upstreams_down = 1}.firing()),
            (Names{"OnceUpstreamDown", "OnceUpstreamAllDown"}));
}

TEST(Alerts, one_unknown_outcome_and_one_refusal_are_enough) {
  Situation is;
  is.result(Ending::unknown) = 1;
  EXPECT_EQ(is.firing(), Names()) << "a retry that is told of it is not another one";
  is.unknown_outcomes = 1;
  EXPECT_EQ(is.firing(), Names{"OnceOutcomesUnknown"});
  is.unknown_outcomes = 0;
  is.now.overloaded = 1;
  EXPECT_EQ(is.firing(), Names{"OnceOverloaded"});
  is.now.overloaded = 0;
  is.now.out_of_descriptors = 1;
  EXPECT_EQ(is.firing(), Names{"OnceOutOfDescriptors"});
}

TEST(Alerts, keys_that_are_stuck_are_told_as_long_as_they_are) {
  EXPECT_EQ(Situation{.unknown_keys = 1}.firing(), Names{"OnceKeysHeldUnknown"});
  Situation uncounted;
  uncounted.unknown_keys.reset();
  EXPECT_EQ(uncounted.firing(), Names());
  EXPECT_EQ(uncounted.named(AlertState::idle).front(), "OnceKeysHeldUnknown");
}

TEST(Alerts, above_four_fifths_of_a_limit) {
  Situation is;
  is.limits = {{.name = "a", .used = 80, .limit = 100}, {.name = "none", .used = 5, .limit = 0}};
  EXPECT_EQ(is.firing(), Names());
  is.limits[0].used = 81;
  EXPECT_EQ(is.firing(), Names{"OnceNearLimit"});
}

}  // namespace once::admin::alerts_test
