#include "store/postgres/postgres_store.hpp"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "store/postgres/batch.hpp"
#include "store/postgres/connection.hpp"
#include "store/postgres/listener.hpp"

namespace once::postgres {

namespace {

// How often a batch that was rolled back is retried.
constexpr int most_retries = 2;

constexpr std::string_view lock_not_available = "55P03";
constexpr std::string_view disk_full = "53100";

enum class Remedy : std::uint8_t {
  again,      // another transaction was in the way: retry
  elsewhere,  // this connection is useless: a standby, a server that shuts down, a plan of an older schema
  none,
};

bool is_any_of(std::string_view state, std::initializer_list<std::string_view> states) {
  return std::ranges::find(states, state) != states.end();
}

Remedy remedy_for(const Fault& fault) {
  if (is_any_of(fault.sqlstate, {"40001", "40P01", lock_not_available})) return Remedy::again;
  // The connection was lost before all was sent, is read-only, shuts down or starts up, or a plan or prepared statement
  // is gone.
  const bool useless = is_any_of(fault.sqlstate, {"", "25006", "57P01", "57P02", "57P03", "57P05", "0A000", "26000"});
  return useless ? Remedy::elsewhere : Remedy::none;
}

// The error may be caused by a single op of the batch.
bool may_be_of_one(const Fault& fault) {
  return fault.sqlstate.starts_with("22") || fault.sqlstate.starts_with("54");
}

}  // namespace

Result<std::unique_ptr<PostgresStore>> PostgresStore::open(const std::string& url, const ServerSettings& settings,
                                                           const Log& log) {
  if (const std::string host = unverified_host(url); !host.empty()) {
    log.warn("the store's server is not verified; an attacker on the network could read and change records",
             {{"host", host}, {"set", "sslmode=verify-full"}});
  }
  std::unique_ptr<PostgresStore> store(new PostgresStore(url, settings, log));
  const auto connection = store->pool_.take(std::chrono::nanoseconds::max());
  if (!connection) {
    if (connection.error().retryable == Retryable::no) return std::unexpected(connection.error());
    log.warn("PostgreSQL cannot be reached yet", {{"error", connection.error().detail}});
  }
  return store;
}

PostgresStore::PostgresStore(const std::string& url, const ServerSettings& settings, const Log& log)
    : url_(url),
      settings_(settings),
      log_(log),
      pool_(settings.connections, counts_, [this](std::chrono::nanoseconds until) { return connect(until); }),
      search_pool_(1, counts_, [this](std::chrono::nanoseconds until) { return connect(until); }),
      sweep_pool_(1, counts_, [this](std::chrono::nanoseconds until) { return connect(until); }) {}

PostgresStore::~PostgresStore() = default;

Traits PostgresStore::traits() const {
  return {.durable = Durable::yes, .shared = Shared::yes, .inline_execution = false};
}

Result<std::unique_ptr<Connection>> PostgresStore::connect(std::chrono::nanoseconds until) const {
  return Connection::open(url_, settings_, Connection::Use::batches, -1, until);
}

Result<PostgresStore::Pool::Lease> PostgresStore::take(Pool& pool, std::chrono::nanoseconds until) {
  while (true) {
    auto connection = pool.take(until);
    if (!connection || !(*connection)->stale()) return connection;
    connection->drop();
  }
}

std::optional<Fault> PostgresStore::run(Connection& connection, Batch& batch, Wait wait) {
  while (batch.send_round(connection)) {
    const std::uint64_t before = unreplicated_.load();
    const bool confirms = before > replicated_.load();
    if (confirms) connection.send_confirmation();
    auto results = connection.sync(wait);
    if (!results) {
      if (results.error().kind == Fault::Kind::unreplicated) unreplicated_.fetch_add(1);
      return std::move(results.error());
    }
    if (confirms) {
      results->pop_back();
      std::uint64_t known = replicated_.load();
      while (known < before && !replicated_.compare_exchange_weak(known, before)) {
      }
    }
    batch.receive(connection, *results);
  }
  return std::nullopt;
}

void PostgresStore::execute_until(std::chrono::nanoseconds until, std::span<Op* const> ops) {
  if (ops.empty()) return;
  Batch batch(ops, until);
  const Wait wait{.until = until};
  for (int retries = 0;;) {
    auto connection = take(pool_, until);
    if (!connection) {
      batch.fail_rest(StoreFault::refused, connection.error().detail);
      return;
    }
    const std::optional<Fault> fault = run(**connection, batch, wait);
    if (!fault) return;
    const Remedy remedy = remedy_for(*fault);
    if (remedy == Remedy::elsewhere || (*connection)->broken()) connection->drop();
    if (fault->kind != Fault::Kind::rolled_back) {
      counts_.indeterminate.fetch_add(batch.fail_rest(StoreFault::unavailable, text_of(*fault)).size());
      return;
    }
    counts_.retried.fetch_add(1, std::memory_order_relaxed);
    if (fault->sqlstate == lock_not_available && batch.was_blocked()) continue;
    if (remedy != Remedy::none && ++retries <= most_retries && monotonic_now() < until) continue;
    const std::vector<Op*> failed =
        batch.fail_rest(fault->sqlstate == disk_full ? StoreFault::full : StoreFault::refused, text_of(*fault));
    if (failed.size() == 1 || !may_be_of_one(*fault)) return;
    for (Op* const op : failed) {
      if (monotonic_now() < until) execute_until(until, {&op, 1});
    }
    return;
  }
}

void PostgresStore::notify_of_ends(std::function<void(const OperationId&)> notify) {
  listener_ = std::make_unique<Listener>(url_, settings_, counts_, log_, std::move(notify));
}

Result<Rows> PostgresStore::ask(Pool& pool, Statement statement, const Parameters& parameters) {
  const std::chrono::nanoseconds until = monotonic_now() + settings_.timeout;
  auto connection = take(pool, until);
  if (!connection) return std::unexpected(std::move(connection.error()));
  (*connection)->send(statement, parameters);
  auto rows = (*connection)->sync({.until = until});
  if (rows) return std::move(rows->front());
  if (remedy_for(rows.error()) == Remedy::elsewhere || (*connection)->broken()) connection->drop();
  return std::unexpected(
      Error{.source = ErrorSource::store, .retryable = Retryable::yes, .detail = text_of(rows.error())});
}

Result<Swept> PostgresStore::sweep(std::size_t limit) {
  Parameters parameters;
  parameters.int8(static_cast<std::int64_t>(limit));
  const auto rows = ask(sweep_pool_, Statement::sweep, parameters);
  if (!rows) return std::unexpected(rows.error());
  const auto removed = static_cast<std::uint64_t>(rows->int8(0, 0));
  const auto looked_at = static_cast<std::uint64_t>(rows->int8(0, 1));
  counts_.swept.fetch_add(removed, std::memory_order_relaxed);
  return Swept{.removed = removed, .more = looked_at >= limit ? More::yes : More::no};
}

}  // namespace once::postgres
