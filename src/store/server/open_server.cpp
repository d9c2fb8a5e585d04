#include "store/server/open_server.hpp"

#include "store/mysql/mysql_store.hpp"
#include "store/postgres/postgres_store.hpp"
#include "store/redis/redis_store.hpp"
#include "store/server/store_url.hpp"

namespace once {

Result<std::unique_ptr<ServerStore>> open_server(const std::string& url, const ServerSettings& settings,
                                                 const Log& log) {
  switch (store_kind(url)) {
    case StoreKind::postgres: return PostgresStore::open(url, settings, log);
    case StoreKind::mysql: return MysqlStore::open(url, settings, log);
    case StoreKind::redis: return RedisStore::open(url, settings, log);
    case StoreKind::other: return nullptr;
  }
  return nullptr;
}

}  // namespace once
