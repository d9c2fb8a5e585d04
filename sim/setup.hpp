// The setup of a simulation, drawn from its seed: sizes, policies, and how often each fault occurs.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/policy.hpp"
#include "sim/byte_setup.hpp"
#include "sim/draw.hpp"
#include "store/journal/settings.hpp"

namespace once::sim {

enum class StoreKind : std::uint8_t {
  journal,          // one gateway with the journal on its own disk
  shared,           // gateways that share a store over a network
  sql,              // the same with a database server that refuses connections, restarts, and has its own clock
  sql_transaction,  // likewise, and backends commit their outcome in their own transaction
  redis,            // servers with replicas that lag behind and take over
  redis_wait,       // likewise, and writes count only once the replica has them
};

inline constexpr std::array store_names = {
    std::pair(std::string_view("journal"), StoreKind::journal),
    std::pair(std::string_view("shared"), StoreKind::shared),
    std::pair(std::string_view("sql"), StoreKind::sql),
    std::pair(std::string_view("sql-transaction"), StoreKind::sql_transaction),
    std::pair(std::string_view("redis"), StoreKind::redis),
    std::pair(std::string_view("redis-wait"), StoreKind::redis_wait),
};
std::string_view name_of(StoreKind kind);

// The layer at which a simulation starts.
enum class Layer : std::uint8_t {
  exchanges,  // parsed requests enter the exchange, which has its own backend
  bytes,      // clients and backends send bytes, and everything between them is the gateway's
};
inline constexpr std::array layer_names = {
    std::pair(std::string_view("exchanges"), Layer::exchanges),
    std::pair(std::string_view("bytes"), Layer::bytes),
};

// Chances are percentages.
struct Setup {
  std::uint64_t seed = 0;
  Layer layer = Layer::exchanges;
  ByteSetup bytes;  // for the byte layer
  StoreKind store = StoreKind::shared;
  unsigned gateways = 1;
  unsigned callers = 1;
  unsigned operations = 1;
  Duration length{};  // of the phase with faults

  // Policies by route; each operation belongs to one. A restart may change them.
  std::vector<Policy> routes;
  bool policies_change = false;

  unsigned client_gives_up = 0;     // and resends while the first request may still be executing
  unsigned client_sends_other = 0;  // another body under the same key
  unsigned client_sends_twice = 0;
  unsigned backend_refuses = 0;
  unsigned backend_fails = 0;  // answers 500 and has done nothing
  unsigned backend_dies_before = 0;
  unsigned backend_dies_after = 0;
  unsigned backend_truncates = 0;
  unsigned backend_hangs = 0;
  unsigned connects_slowly = 0;
  Duration backend_takes{};

  unsigned gateway_crashes = 0;  // per run
  unsigned gateway_pauses = 0;
  unsigned power_losses = 0;  // percentage of the crashes
  unsigned clock_jumps = 0;
  Duration clock_skew{};  // the most, for each gateway

  unsigned store_loses_request = 0;
  unsigned store_loses_answer = 0;
  unsigned store_acts_late = 0;
  unsigned store_outages = 0;   // per run
  unsigned store_refuses = 0;   // connections: certainly nothing was done
  unsigned store_restarts = 0;  // per run
  Duration store_ahead{};       // of the server's clock, relative to the simulation's time

  // The backend's own transaction.
  unsigned transaction_stalls = 0;  // before any of its steps
  unsigned answers_early = 0;       // a proxy in between gives up on the backend, which continues
  unsigned answers_other = 0;       // the answer differs from what was committed
  unsigned commits_in_doubt = 0;    // committed, but the backend does not learn of it

  unsigned shards = 1;      // more than one: a cluster
  unsigned failovers = 0;   // per run
  unsigned redirected = 0;  // operations that are redirected to another server, and done later
  Duration replica_lag{};   // the most
  Duration replica_wait{};  // a write that the replica does not have by then is answered as failed

  unsigned streams = 0;  // keys of responses that are recorded as they stream (streams.hpp)
  unsigned guards = 0;   // keys of work of the library (guards.hpp)

  // For a memory store: if it is small, records are evicted, and there is one gateway.
  std::size_t store_bytes = std::size_t{256} << 20U;
  bool store_is_small() const { return store_bytes < std::size_t{1} << 20U; }

  unsigned operators = 0;  // per run; each looks at a key and changes it

  unsigned disk_faults = 0;  // per run
  JournalSettings journal;

  bool is_sql() const { return store == StoreKind::sql || store == StoreKind::sql_transaction; }
  bool is_redis() const { return store == StoreKind::redis || store == StoreKind::redis_wait; }
};

// `store` overrides the store that the seed draws.
Setup draw_setup(std::uint64_t seed, std::optional<StoreKind> store = std::nullopt, Layer layer = Layer::exchanges);
// The layer for a seed if none is given: few seeds use bytes, because that takes much longer.
Layer draw_layer(std::uint64_t seed);
// One line per setting: what `once simulate` prints before it runs.
std::string to_text(const Setup& setup);

// The policies of the routes; drawn again when a restart may change them.
Policy draw_policy(Draw& draw);

}  // namespace once::sim
