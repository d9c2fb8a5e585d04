// Simulations from bytes: that a seed is a whole history, that many keep every promise, and that every shape of request
// and response is drawn.
#include <array>

#include <gtest/gtest.h>

#include "sim/byte_setup.hpp"
#include "sim/setup.hpp"
#include "sim/simulation.hpp"

namespace once::sim {
namespace byte_simulation_test {

TEST(ByteSimulation, the_same_seed_is_the_same_history) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const Report first = simulate(seed, KeepTrace::yes, std::nullopt, Layer::bytes);
    const Report second = simulate(seed, KeepTrace::no, std::nullopt, Layer::bytes);
    EXPECT_EQ(first.trace_hash, second.trace_hash) << "seed " << seed;
    EXPECT_FALSE(first.trace.empty());
  }
}

TEST(ByteSimulation, seeds_keep_every_promise) {
  Report total;
  for (std::uint64_t seed = 800; seed < 905; ++seed) {
    const Report report = simulate(seed, KeepTrace::no, std::nullopt, Layer::bytes);
    for (const std::string& violation : report.violations) ADD_FAILURE() << "seed " << seed << ": " << violation;
    total.executions += report.executions;
    total.replays += report.replays;
    total.crashes += report.crashes;
    total.chunks += report.chunks;
    total.parts += report.parts;
    total.resumed += report.resumed;
    total.cut_off += report.cut_off;
    total.stopped += report.stopped;
    total.stopped_replays += report.stopped_replays;
  }
  // It is not that nothing happened.
  EXPECT_GT(total.executions, 300U);
  EXPECT_GT(total.replays, 300U);
  EXPECT_GT(total.crashes, 50U);
  EXPECT_GT(total.chunks, 300U);
  EXPECT_GT(total.parts, 1000U);
  EXPECT_GT(total.resumed, 30U);
  EXPECT_GT(total.cut_off, 0U);
  EXPECT_GT(total.stopped, 10U);
  EXPECT_GT(total.stopped_replays, 30U);
}

// 648: a response that was cut off while its request was uploaded was ended in order. 2053: the model took a claim that
// was sent for one whose request went out under the claim before it. 1229, 1615: the model took the chunks of a claim
// that arrived once more, after it had expired, for those of another one; 3854: as lost. 5838: the model took a stream
// that was cut off after its last byte for one that had ended. 31637: a request that waited was attached to the stream
// of another request that had taken the key meanwhile. 2216: a reader resumed one attempt where its event was in the
// next. 15826: the model took the rest of a head for a request that was sent. 401424: the model waited for a response
// that had broken off, on a connection that stayed open for the rest of its request. 402923: the model missed chunks
// that had expired. 714551: the memory store took a chunk for one that was missing. 329: an
// owner that did not learn of a stop was charged for too little.
TEST(ByteSimulation, seeds_that_failed_keep_every_promise) {
  for (const std::uint64_t seed :
       {329U, 648U, 1229U, 1615U, 2053U, 2216U, 3854U, 5838U, 15826U, 31637U, 401424U, 402923U, 714551U}) {
    const Report report = simulate(seed, KeepTrace::no, std::nullopt, Layer::bytes);
    for (const std::string& violation : report.violations) ADD_FAILURE() << "seed " << seed << ": " << violation;
  }
}

// What was drawn later leaves them as they were.
TEST(ByteSimulation, seeds_that_failed_first_have_neither_stops_nor_large_requests) {
  for (const std::uint64_t seed : {648U, 1229U, 1615U, 2053U, 2216U, 3854U, 5838U, 15826U, 31637U}) {
    const ByteSetup setup = draw_byte_setup(seed);
    EXPECT_EQ(setup.streams.stops, 0U) << seed;
    EXPECT_FALSE(setup.large_requests()) << seed;
  }
}

TEST(ByteSimulation, every_kind_of_setup_is_drawn) {
  std::array<unsigned, 27> drawn{};
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const ByteSetup setup = draw_byte_setup(seed);
    const std::array<bool, 27> has = {setup.weather.cuts > 0,
                                      setup.weather.splits > 0,
                                      setup.weather.capacity < 1000,
                                      setup.workers > 1,
                                      setup.pipelines > 0,
                                      setup.reads_slowly > 0,
                                      setup.answers_early > 0,
                                      setup.malformed > 0,
                                      setup.extra_bytes > 0,
                                      setup.memory_is_short(),
                                      setup.call_faults > 0,
                                      setup.old > 0,
                                      setup.limits_callers(),
                                      setup.reloads > 0,
                                      setup.checks_health(),
                                      setup.checks_health() && setup.reaches_servers(),
                                      setup.shadows > 0,
                                      setup.service_strangers > 0,
                                      setup.streams.any(),
                                      setup.streams.resumes > 0,
                                      setup.streams.lookups > 0,
                                      setup.streams.large_event > 10'000,
                                      setup.streams.any() && (setup.streams.max_stream < 1000),
                                      setup.streams.abandon_after > Duration::zero(),
                                      setup.streams.stops > 0,
                                      setup.large_requests(),
                                      setup.spool_faults > 0};
    for (std::size_t i = 0; i < has.size(); ++i) drawn[i] += has[i] ? 1 : 0;
  }
  for (std::size_t i = 0; i < drawn.size(); ++i) EXPECT_GE(drawn[i], 8U) << i;
}

TEST(ByteSimulation, both_layers_are_drawn) {
  unsigned bytes = 0;
  for (std::uint64_t seed = 1; seed <= 1600; ++seed) bytes += draw_layer(seed) == Layer::bytes ? 1 : 0;
  EXPECT_GT(bytes, 60U);
  EXPECT_LT(bytes, 160U);
}

}  // namespace byte_simulation_test
}  // namespace once::sim
