// Records in Redis: a single server, one with sentinels, or a Redis Cluster. Redis' clock decides, and Redis itself
// deletes expired records.
//
//   redis_store  implements the store contract    batch      sends a batch to the servers, reads the replies
//   script       the Lua scripts                  directory  finds the server of a key (discovery, cluster)
//   packed       the format of a record           node       a server and its connections (link, tls)
//   answer       interprets a reply               listener   notifications of other gateways about ended operations
//                                                 reviver    reconnects to servers that were down
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/error.hpp"
#include "base/log.hpp"
#include "store/search.hpp"
#include "store/server/server_store.hpp"
#include "store/server/settings.hpp"

namespace once::redis {

struct Context;
class Directory;
class Listener;
class Node;
class Reviver;
struct KeysRead;
struct ScanPosition;
class RedisStore final : public ServerStore, public Search {
 public:
  // Errors are permanent: a wrong URL, refused credentials, a server that is too old. An unreachable server is logged,
  // and every batch fails until it can be reached.
  static Result<std::unique_ptr<RedisStore>> open(const std::string& url, const ServerSettings& settings,
                                                  const Log& log);
  ~RedisStore() override;

  void execute_until(std::chrono::nanoseconds until, std::span<Op* const> batch) override;
  Duration time_limit() const override;
  // The cluster node of the key.
  std::size_t part_of(const OperationId& id) const override;
  Traits traits() const override;
  void notify_of_ends(std::function<void(const OperationId&)> notify) override;
  // Does nothing: Redis removes expired records itself.
  Result<Swept> sweep(std::size_t limit) override;
  Search* search() override { return this; }

  // In redis_search.cpp.
  Result<KeyPage> scan(const KeyFilter& filter, std::string_view cursor, std::size_t limit) override;
  Result<KeyPage> find(const IdPrefix& prefix) override;
  Result<KeyPage> get(const OperationId& id) override;
  Result<KeyCounts> count(std::string_view cursor) override;

 private:
  RedisStore();
  Result<void> reach_servers();
  // One step of SCAN, and the records at the keys that it returned. Advances the position.
  Result<KeyPage> scan_step(ScanPosition& at, std::string_view pattern, std::size_t count);
  // `asking`: also reads slots that are being moved to this server.
  Result<KeysRead> read_keys(Node& node, const std::vector<std::string>& keys, bool asking);

  std::unique_ptr<Context> context_;
  std::unique_ptr<Directory> directory_;
  std::unique_ptr<Reviver> reviver_;
  std::unique_ptr<Listener> listener_;
};

}  // namespace once::redis
