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
  shared,           // gateways far from a store that they share: the network lies between them
  sql,              // the same with a database server: it refuses connections, restarts, has a clock of its own
  sql_transaction,  // and backends commit their outcome in their own transaction
  redis,            // servers with replicas that lag behind and take over
  redis_wait,       // and nothing counts as written before the replica has it
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
  exchanges,  // parsed requests come to the exchange, which has a backend of its own
  bytes,      // clients and backends write bytes, and everything between them is the gateway's
};
inline constexpr std::array layer_names = {
    std::pair(std::string_view("exchanges"), Layer::exchanges),
    std::pair(std::string_view("bytes"), Layer::bytes),
};

// Chances are percent.
struct Setup {
  std::uint64_t seed = 0;
  Layer layer = Layer::exchanges;
  ByteSetup bytes;  // of that layer
  StoreKind store = StoreKind::shared;
  unsigned gateways = 1;
  unsigned callers = 1;
  unsigned operations = 1;
  Duration length{};  // of the time in which things go wrong

  // Policies by route; each operation belongs to one. A restart may bring others for the same routes.
  std::vector<Policy> routes;
  bool policies_change = false;

  unsigned client_gives_up = 0;     // and sends again while the first may still be at work
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

  unsigned gateway_crashes = 0;  // in the whole run
  unsigned gateway_pauses = 0;
  unsigned power_losses = 0;  // of the crashes, percent
  unsigned clock_jumps = 0;
  Duration clock_skew{};  // at most, of each gateway

  unsigned store_loses_request = 0;
  unsigned store_loses_answer = 0;
  unsigned store_acts_late = 0;
  unsigned store_outages = 0;   // in the whole run
  unsigned store_refuses = 0;   // connections: nothing was done, for certain
  unsigned store_restarts = 0;  // in the whole run
  Duration store_ahead{};       // the server's clock, of the world's

  // The backend's own transaction.
  unsigned transaction_stalls = 0;  // before any of its steps
  unsigned answers_early = 0;       // something between gives up on the backend, which goes on
  unsigned answers_other = 0;       // than what was committed
  unsigned commits_in_doubt = 0;    // committed, and the backend does not get to know

  unsigned shards = 1;      // more than one: a cluster
  unsigned failovers = 0;   // in the whole run
  unsigned redirected = 0;  // operations that are sent on to another server, and done later
  Duration replica_lag{};   // at most
  Duration replica_wait{};  // a write that the replica does not have by then is answered as not done

  unsigned streams = 0;  // keys of responses that are recorded as they stream (streams.hpp)

  // Of a memory store: where it is small, records are evicted, and there is one gateway.
  std::size_t store_bytes = std::size_t{256} << 20U;
  bool store_is_small() const { return store_bytes < std::size_t{1} << 20U; }

  unsigned operators = 0;  // who look at a key and do something about it, in the whole run

  unsigned disk_faults = 0;  // in the whole run
  JournalSettings journal;

  bool is_sql() const { return store == StoreKind::sql || store == StoreKind::sql_transaction; }
  bool is_redis() const { return store == StoreKind::redis || store == StoreKind::redis_wait; }
};

// `store`: whatever the seed draws, this one.
Setup draw_setup(std::uint64_t seed, std::optional<StoreKind> store = std::nullopt, Layer layer = Layer::exchanges);
// The layer for a seed if none is given: few seeds start with bytes, because that takes much longer.
Layer draw_layer(std::uint64_t seed);
// One line a setting: what `once simulate` prints before it runs.
std::string to_text(const Setup& setup);

// The policies of the routes, drawn anew where a restart may change them.
Policy draw_policy(Draw& draw);

}  // namespace once::sim
