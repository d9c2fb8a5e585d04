#include "sim/setup.hpp"

#include <fmt/format.h>

#include "core/dialect.hpp"
#include "core/outcome.hpp"

namespace once::sim {

namespace {

using namespace std::chrono_literals;

std::string_view name_of(OnUnknown on_unknown) {
  switch (on_unknown) {
    case OnUnknown::retry: return "retry";
    case OnUnknown::takeover: return "takeover";
    case OnUnknown::hold: return "hold";
  }
  return "";
}

// Half of the runs have no such fault, so that faults are also tested alone.
unsigned maybe(Draw& draw, unsigned most) {
  return draw.one_in(2) ? 0 : static_cast<unsigned>(draw.between(1, most));
}

void draw_faults(Draw& draw, Setup& setup) {
  setup.client_gives_up = maybe(draw, 60);
  setup.client_sends_other = maybe(draw, 15);
  setup.client_sends_twice = maybe(draw, 50);
  setup.backend_refuses = maybe(draw, 15);
  setup.backend_fails = maybe(draw, 25);
  setup.backend_dies_before = maybe(draw, 20);
  setup.backend_dies_after = maybe(draw, 30);
  setup.backend_truncates = maybe(draw, 15);
  setup.backend_hangs = maybe(draw, 10);
  setup.connects_slowly = maybe(draw, 20);
  setup.gateway_crashes = maybe(draw, 8);
  setup.gateway_pauses = maybe(draw, 4);
  setup.clock_jumps = maybe(draw, 3);
  setup.clock_skew = draw.one_in(2) ? 0ms : draw.between(1ms, 20s);
  if (setup.store == StoreKind::journal) {
    setup.power_losses = maybe(draw, 100);
    setup.disk_faults = maybe(draw, 2);
    return;
  }
  if (draw.one_in(3)) return;
  setup.store_loses_request = maybe(draw, 15);
  setup.store_loses_answer = maybe(draw, 15);
  setup.store_acts_late = maybe(draw, 10);
  setup.store_outages = maybe(draw, 3);
  if (setup.store != StoreKind::shared) setup.store_refuses = maybe(draw, 15);
  if (setup.is_sql()) setup.store_restarts = maybe(draw, 3);
}

void draw_server(Draw& draw, Setup& setup) {
  setup.store_ahead = draw.one_in(2) ? 0ms : draw.below(Duration(40s)) - 20s;
  if (setup.store == StoreKind::sql_transaction) {
    setup.transaction_stalls = maybe(draw, 60);
    setup.answers_early = maybe(draw, 25);
    setup.answers_other = maybe(draw, 40);
    setup.commits_in_doubt = maybe(draw, 20);
  }
  if (!setup.is_redis()) return;
  setup.shards = draw.one_in(2) ? 1 : static_cast<unsigned>(draw.between(2, 3));
  if (setup.shards > 1) setup.redirected = maybe(draw, 20);
  setup.failovers = maybe(draw, 5);
  setup.replica_lag = draw.one_of({Duration(50ms), Duration(500ms), Duration(5s)});
  setup.replica_wait = draw.one_of({Duration(20ms), Duration(100ms), Duration(1s)});
}

// Uses its own random bits, so that runs without streams did not change when streams were added.
unsigned draw_streams(std::uint64_t seed) {
  Draw draw(seed ^ 0x57e4'0031);
  return draw.one_in(3) ? static_cast<unsigned>(draw.between(1, 3)) : 0;
}

// Uses its own random bits, so that runs without work of the library did not change when it was added.
unsigned draw_guards(std::uint64_t seed) {
  Draw draw(seed ^ 0x60a2'd000);
  return draw.one_in(4) ? static_cast<unsigned>(draw.between(1, 4)) : 0;
}

// Draws one of the kinds. The journal has more code of its own than the others, so it is drawn more often.
StoreKind draw_store(Draw& draw) {
  return draw.one_of({StoreKind::journal, StoreKind::journal, StoreKind::journal, StoreKind::shared, StoreKind::shared,
                      StoreKind::sql, StoreKind::sql, StoreKind::sql_transaction, StoreKind::sql_transaction,
                      StoreKind::redis, StoreKind::redis_wait, StoreKind::redis_wait});
}

std::string store_faults(const Setup& setup) {
  std::string text = fmt::format(
      "store: requests lost {} %, answers lost {} %, late {} %, refused {} %, {} outages, {} restarts, clock {} ms "
      "ahead\n",
      setup.store_loses_request, setup.store_loses_answer, setup.store_acts_late, setup.store_refuses,
      setup.store_outages, setup.store_restarts, setup.store_ahead.count());
  if (setup.store == StoreKind::sql_transaction) {
    text += fmt::format("transactions: stall {} %, answered early {} %, otherwise {} %, in doubt {} %\n",
                        setup.transaction_stalls, setup.answers_early, setup.answers_other, setup.commits_in_doubt);
  }
  if (setup.is_redis()) {
    text += fmt::format(
        "redis: {} shards, {} failovers, {} % redirected, replicas {} ms behind, waited for {}\n", setup.shards,
        setup.failovers, setup.redirected, setup.replica_lag.count(),
        setup.store == StoreKind::redis_wait ? fmt::format("{} ms", setup.replica_wait.count()) : std::string("never"));
  }
  return text;
}

}  // namespace

Policy draw_policy(Draw& draw) {
  Policy policy;
  policy.methods.set(static_cast<std::size_t>(Method::post));
  policy.record = default_record_policy();
  policy.on_unknown = draw.one_of({OnUnknown::retry, OnUnknown::takeover, OnUnknown::hold});
  policy.ttl = draw.one_of({Duration(10s), Duration(60s), Duration(1h)});
  policy.lease = draw.one_of({Duration(1s), Duration(3s), Duration(9s)});
  policy.takeover_after = draw.one_of({Duration(2s), Duration(10s), Duration(30s)});
  policy.in_flight = draw.one_of({InFlight::reject, InFlight::wait});
  policy.wait_limit = draw.between(100ms, 10s);
  policy.timeouts.response = draw.one_of({Duration(2s), Duration(5s), Duration(20s)});
  policy.record.max_body = draw.one_in(8) ? 8 : 1024;
  policy.tombstone = draw.one_of({Duration(0s), Duration(0s), Duration(20s), Duration(1h)});
  return policy;
}

std::string_view name_of(StoreKind kind) {
  for (const auto& [name, each] : store_names) {
    if (each == kind) return name;
  }
  return "";
}

Layer draw_layer(std::uint64_t seed) {
  return Draw(seed ^ 0x1a7e5).one_in(16) ? Layer::bytes : Layer::exchanges;
}

namespace {

// Uses its own random bits, so that other runs did not change.
void draw_store_room(std::uint64_t seed, Setup& setup) {
  Draw draw(seed ^ 0xe71c'7ed0);
  if (!draw.one_in(3)) return;
  setup.store_bytes = draw.one_of({std::size_t{30'000}, std::size_t{100'000}});
  setup.gateways = 1;
}

}  // namespace

Setup draw_setup(std::uint64_t seed, std::optional<StoreKind> store, Layer layer) {
  Draw draw(seed ^ 0x5e70'9a11'ce55'0001);
  Setup setup{.seed = seed};
  const StoreKind drawn = draw_store(draw);
  setup.store = store.value_or(drawn);
  setup.layer = layer;
  if (layer == Layer::bytes) {
    setup.bytes = draw_byte_setup(seed);
    // Backends at this layer have no database.
    if (setup.store == StoreKind::sql_transaction) setup.store = StoreKind::sql;
  }
  setup.gateways = setup.store == StoreKind::journal ? 1 : static_cast<unsigned>(draw.between(1, 3));
  setup.callers = static_cast<unsigned>(draw.between(1, 2));
  setup.operations = static_cast<unsigned>(draw.between(1, 6));
  setup.length = draw.one_of({Duration(10s), Duration(30s), Duration(90s)});
  setup.backend_takes = draw.one_of({Duration(20ms), Duration(1s), Duration(8s)});
  for (std::uint64_t i = draw.between(1, 2); i > 0; --i) setup.routes.push_back(draw_policy(draw));
  setup.policies_change = draw.one_in(4);
  draw_faults(draw, setup);
  if (setup.is_sql() || setup.is_redis()) draw_server(draw, setup);
  setup.journal.sync = Sync::always;
  setup.journal.segment_bytes = draw.one_of({std::size_t{16} << 10U, std::size_t{64} << 10U});
  setup.journal.segment_age = draw.one_of({Duration(5s), Duration(1h)});
  setup.journal.max_disk = draw.one_in(8) ? std::size_t{160} << 10U : std::size_t{64} << 20U;
  setup.journal.cache_bytes = draw.one_in(2) ? 0 : std::size_t{1} << 20U;
  setup.journal.recovery_threads = 1;
  setup.operators = maybe(draw, 12);
  if (layer == Layer::exchanges) setup.streams = draw_streams(seed);
  if (layer == Layer::exchanges) setup.guards = draw_guards(seed);
  if (layer == Layer::bytes && setup.store == StoreKind::shared) draw_store_room(seed, setup);
  return setup;
}

std::string to_text(const Setup& setup) {
  std::string text = setup.layer == Layer::bytes ? "from bytes\n" + to_text(setup.bytes) : std::string();
  text += fmt::format("store {}, {} gateways, {} callers, {} operations, {} s\n", name_of(setup.store), setup.gateways,
                      setup.callers, setup.operations, setup.length / 1s);
  for (std::size_t i = 0; i < setup.routes.size(); ++i) {
    const Policy& policy = setup.routes[i];
    text += fmt::format(
        "route {}: on_unknown {}, takeover_after {} ms, lease {} ms, ttl {} ms, tombstone {} ms, response timeout {} "
        "ms, "
        "{}, max_body {}\n",
        i, name_of(policy.on_unknown), policy.takeover_after.count(), policy.lease.count(), policy.ttl.count(),
        policy.tombstone.count(), policy.timeouts.response.count(),
        policy.in_flight == InFlight::wait ? "waits" : "rejects", policy.record.max_body);
  }
  text += fmt::format("policies change on restart: {}\n", setup.policies_change);
  text += fmt::format("clients: give up {} %, send another body {} %, send twice {} %\n", setup.client_gives_up,
                      setup.client_sends_other, setup.client_sends_twice);
  text += fmt::format(
      "backend: takes up to {} ms, refuses {} %, fails {} %, dies before the effect {} %, after it {} %, truncates {} "
      "%, hangs {} %, connects slowly {} %\n",
      setup.backend_takes.count(), setup.backend_refuses, setup.backend_fails, setup.backend_dies_before,
      setup.backend_dies_after, setup.backend_truncates, setup.backend_hangs, setup.connects_slowly);
  text += fmt::format("gateways: {} crashes ({} % with loss of power), {} pauses, {} clock jumps, clocks {} ms apart\n",
                      setup.gateway_crashes, setup.power_losses, setup.gateway_pauses, setup.clock_jumps,
                      setup.clock_skew.count());
  if (setup.store == StoreKind::journal) {
    text += fmt::format("journal: segments of {} bytes or {} ms, at most {} bytes, cache {} bytes, {} disk faults\n",
                        setup.journal.segment_bytes, setup.journal.segment_age.count(), setup.journal.max_disk,
                        setup.journal.cache_bytes, setup.disk_faults);
  } else {
    text += store_faults(setup);
  }
  if (setup.streams > 0) text += fmt::format("streams: {}\n", setup.streams);
  if (setup.guards > 0) text += fmt::format("work of the library: {}\n", setup.guards);
  if (setup.store_is_small()) text += fmt::format("memory of the store: {} bytes\n", setup.store_bytes);
  text += fmt::format("operators: {} look at a key and act on it later\n", setup.operators);
  return text;
}

}  // namespace once::sim
