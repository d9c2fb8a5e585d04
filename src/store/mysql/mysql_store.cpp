#include "store/mysql/mysql_store.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "store/mysql/sweep.hpp"

namespace once::mysql {

namespace {

// Ops per transaction. More gain nothing, and this many are far below any size limit.
constexpr std::size_t most_ops = 256;
// Escaping may double a value, and a text contains more than outcomes.
constexpr std::size_t packet_share = 4;

std::size_t outcome_size(const Op& op) {
  return brings_bytes(op.verb) && op.outcome ? op.outcome->size() : 0;
}

// The number of leading ops that go into one transaction; at least one.
std::size_t together(std::span<Op* const> ops, std::size_t most_bytes) {
  std::size_t bytes = 0;
  std::size_t count = 0;
  while (count < std::min(ops.size(), most_ops)) {
    bytes += outcome_size(*ops[count]);
    if (bytes > most_bytes && count > 0) break;
    ++count;
  }
  return count;
}

}  // namespace

Result<std::unique_ptr<MysqlStore>> MysqlStore::open(const std::string& url, const ServerSettings& settings,
                                                     const Log& log) {
  auto target = parse_target(url);
  if (!target) return std::unexpected(std::move(target.error()));
  if (const std::string host = unverified_host(*target); !host.empty()) {
    log.warn("the store's server is not verified; an attacker on the network could read and change records",
             {{"host", host}, {"set", "ssl-mode=verify-identity"}});
  }
  std::unique_ptr<MysqlStore> store(new MysqlStore(std::move(*target), settings));
  const auto connection = store->pool_.take(std::chrono::nanoseconds::max());
  if (!connection) {
    if (connection.error().retryable == Retryable::no) return std::unexpected(connection.error());
    log.warn("MySQL cannot be reached; every batch tries again", {{"error", connection.error().detail}});
  } else if ((*connection)->may_forget_commits()) {
    log.warn("the store's server loses commits on power loss", {{"set", "innodb_flush_log_at_trx_commit=1"}});
  }
  return store;
}

MysqlStore::MysqlStore(Target target, const ServerSettings& settings)
    : settings_(settings),
      connector_(std::move(target), settings),
      pool_(settings.connections, counts_,
            [this](std::chrono::nanoseconds until) { return connector_.connect(until); }),
      search_pool_(1, counts_, [this](std::chrono::nanoseconds until) { return connector_.connect(until); }),
      sweep_pool_(1, counts_, [this](std::chrono::nanoseconds until) { return connector_.connect(until); }) {}

MysqlStore::~MysqlStore() = default;

void MysqlStore::execute_until(std::chrono::nanoseconds until, std::span<Op* const> batch) {
  std::vector<Op*> ops(batch.begin(), batch.end());
  std::ranges::sort(ops, {}, [](const Op* op) { return op->id; });
  std::span<Op* const> rest(ops);
  while (!rest.empty()) {
    const std::size_t count = together(rest, connector_.max_packet() / packet_share);
    execute_together(until, rest.first(count));
    rest = rest.subspan(count);
  }
}

void MysqlStore::execute_together(std::chrono::nanoseconds until, std::span<Op* const> ops) {
  Batch batch(ops, {.counts = counts_, .turns = turns_, .durable = durable_}, until);
  // Try often enough: every idle connection may be dead, and all hosts but one may be unfit.
  for (std::size_t tries = 0; tries <= settings_.connections + connector_.hosts(); ++tries) {
    auto connection = pool_.take(until);
    if (!connection) return batch.fail_rest(StoreFault::refused, connection.error().detail);
    Cutter::Call call(cutter_, (*connection)->descriptor(), until);
    const Batch::Ended ended = batch.run(**connection);
    const bool cut = call.end() == Cutter::Call::Ended::cut;
    switch (ended) {
      case Batch::Ended::all_answered:
        if (cut) connection->drop();
        return turns_.ended();
      case Batch::Ended::broken: return connection->drop();
      case Batch::Ended::unfit: connector_.avoid(**connection); [[fallthrough]];
      case Batch::Ended::not_begun: connection->drop(); break;
    }
    if (monotonic_now() > until) break;
  }
  batch.fail_rest(StoreFault::refused, batch.last_error());
}

Traits MysqlStore::traits() const {
  return {.durable = Durable::yes, .shared = Shared::yes, .inline_execution = false};
}

void MysqlStore::notify_of_ends(std::function<void(const OperationId&)> /*notify*/) {}

Result<Swept> MysqlStore::sweep(std::size_t limit) {
  auto connection = sweep_pool_.take(monotonic_now() + settings_.timeout);
  if (!connection) return std::unexpected(connection.error());
  auto swept = mysql::sweep(**connection, limit);
  if (!swept) {
    connection->drop();
    // Another gateway sweeps the same rows on another node of the cluster.
    if (swept.error().number == sql_error::deadlock) return Swept();
    return std::unexpected(
        Error{.source = ErrorSource::store, .retryable = Retryable::yes, .detail = std::move(swept.error().detail)});
  }
  counts_.swept.fetch_add(swept->removed, std::memory_order_relaxed);
  return *swept;
}

}  // namespace once::mysql
