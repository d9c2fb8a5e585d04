// Records in MySQL 8, MariaDB or a Galera cluster. The server's clock decides; in a cluster each node has its own, so
// they must agree to much less than a lease. These servers do not send notifications, so gateways that wait for an
// operation of another gateway poll.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/error.hpp"
#include "base/log.hpp"
#include "store/mysql/batch.hpp"
#include "store/mysql/connector.hpp"
#include "store/search.hpp"
#include "store/server/connection_pool.hpp"
#include "store/server/cutter.hpp"
#include "store/server/server_store.hpp"
#include "store/server/settings.hpp"

namespace once::mysql {

class MysqlStore final : public ServerStore, public Search {
 public:
  // Errors are permanent: a wrong URL, refused credentials, a schema that is missing or of another version. An
  // unreachable server is logged, and every batch fails until it can be reached.
  static Result<std::unique_ptr<MysqlStore>> open(const std::string& url, const ServerSettings& settings,
                                                  const Log& log);
  ~MysqlStore() override;

  void execute_until(std::chrono::nanoseconds until, std::span<Op* const> batch) override;
  Duration time_limit() const override { return settings_.timeout; }
  Traits traits() const override;
  // Does nothing: there are no notifications.
  void notify_of_ends(std::function<void(const OperationId&)> notify) override;
  Result<Swept> sweep(std::size_t limit) override;
  Search* search() override { return this; }

  // In mysql_search.cpp.
  Result<KeyPage> scan(const KeyFilter& filter, std::string_view cursor, std::size_t limit) override;
  Result<KeyPage> find(const IdPrefix& prefix) override;
  Result<KeyCounts> count(std::string_view cursor) override;

 private:
  MysqlStore(Target target, const ServerSettings& settings);

  void execute_together(std::chrono::nanoseconds until, std::span<Op* const> ops);
  // One read-only round trip.
  Result<void> ask(const Script& script, const Connection::OnRow& on_row);
  // Called for every row that was read, whether it is returned or not.
  using OnLooked = std::function<void(std::string_view id, Time started_at)>;
  Result<KeyPage> page_of(const Script& script, const OnLooked& on_looked);
  Result<KeyPage> scan_state(const KeyFilter& filter, std::string_view cursor, std::size_t limit);
  Result<KeyCounts> count_part(const Script& script, std::uint64_t& looked, std::string& last);
  Result<KeyCounts> count_all(std::string_view cursor);
  Result<KeyCounts> count_state(std::size_t state, std::uint64_t before, std::string_view cursor);
  Result<void> estimate_rest(std::uint64_t counted, KeyCounts& counts);
  Result<KeyPage> page_after(std::string_view id, std::size_t rows, std::string& last, std::size_t& looked);
  Result<Time> clock();

  const ServerSettings settings_;
  Connector connector_;
  ConnectionPool<Connection> pool_;
  ConnectionPool<Connection> search_pool_;  // a single one, so that no request waits for a search
  ConnectionPool<Connection> sweep_pool_;   // likewise for a sweep
  Turns turns_;
  DurableRows durable_;
  Cutter cutter_;
};

}  // namespace once::mysql
