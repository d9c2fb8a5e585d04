// Records in PostgreSQL. The server's clock decides.
//
// A batch is one pipeline and one transaction (batch.hpp). Connections come from a pool; expired rows are removed by
// sweep(); notifications about ended operations come by LISTEN (listener.hpp).
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/error.hpp"
#include "base/log.hpp"
#include "store/search.hpp"
#include "store/server/connection_pool.hpp"
#include "store/server/server_store.hpp"
#include "store/server/settings.hpp"

namespace once::postgres {

class Batch;
class Connection;
struct Fault;
struct Wait;
class Parameters;
class Rows;
enum class Statement : std::uint8_t;
class Listener;
class PostgresStore final : public ServerStore, public Search {
 public:
  // Errors are permanent: a wrong URL, refused credentials, a schema that is missing or of another version. An
  // unreachable server is logged, and every batch fails until it can be reached.
  static Result<std::unique_ptr<PostgresStore>> open(const std::string& url, const ServerSettings& settings,
                                                     const Log& log);
  ~PostgresStore() override;

  void execute_until(std::chrono::nanoseconds until, std::span<Op* const> ops) override;
  Duration time_limit() const override { return settings_.timeout; }
  Traits traits() const override;
  void notify_of_ends(std::function<void(const OperationId&)> notify) override;
  Result<Swept> sweep(std::size_t limit) override;
  Search* search() override { return this; }

  // In postgres_search.cpp.
  Result<KeyPage> scan(const KeyFilter& filter, std::string_view cursor, std::size_t limit) override;
  Result<KeyPage> find(const IdPrefix& prefix) override;
  Result<KeyCounts> count(std::string_view cursor) override;

 private:
  using Pool = ConnectionPool<Connection>;

  PostgresStore(const std::string& url, const ServerSettings& settings, const Log& log);
  Result<std::unique_ptr<Connection>> connect(std::chrono::nanoseconds until) const;
  // Runs rounds until every op is answered.
  std::optional<Fault> run(Connection& connection, Batch& batch, Wait wait);
  // Runs one statement in its own transaction.
  Result<Rows> ask(Pool& pool, Statement statement, const Parameters& parameters);
  Result<KeyCounts> count_part(Statement statement, std::string_view cursor);
  // Takes a connection that the server has not closed.
  static Result<Pool::Lease> take(Pool& pool, std::chrono::nanoseconds until);

  const std::string url_;
  const ServerSettings settings_;
  const Log& log_;
  Pool pool_;
  Pool search_pool_;  // a single one, so that no request waits for a search
  Pool sweep_pool_;   // likewise for a sweep
  // The number of commits that the standby may lack, and how many of them it is known to have received. While some are
  // missing, results of reads are returned only after the standby has everything.
  std::atomic<std::uint64_t> unreplicated_{0};
  std::atomic<std::uint64_t> replicated_{0};
  std::unique_ptr<Listener> listener_;
};

}  // namespace once::postgres
