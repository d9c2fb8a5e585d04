#include "store/server/open_server.hpp"

#include <string_view>
#include <utility>

#include "store/mysql/mysql_store.hpp"
#include "store/mysql/target.hpp"
#include "store/postgres/connection.hpp"
#include "store/postgres/postgres_store.hpp"
#include "store/redis/options.hpp"
#include "store/redis/redis_store.hpp"
#include "store/redis/tls.hpp"
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

namespace {

Result<void> check_redis(const std::string& url) {
  const auto options = redis::parse_options(url);
  if (!options) return std::unexpected(options.error());
  if (!options->tls.on) return {};
  const auto context = redis::make_tls_context(options->tls);
  if (!context) return std::unexpected(context.error());
  return {};
}

Result<void> check_mysql(const std::string& url) {
  const auto target = mysql::parse_target(url);
  if (!target) return std::unexpected(target.error());
  const std::pair<std::string_view, const std::string&> files[] = {
      {"ssl-ca", target->ssl_ca}, {"ssl-cert", target->ssl_cert}, {"ssl-key", target->ssl_key}};
  for (const auto& [option, path] : files) {
    if (auto readable = check_url_file(option, path); !readable) return readable;
  }
  return {};
}

}  // namespace

Result<void> check_server(const std::string& url) {
  switch (store_kind(url)) {
    case StoreKind::postgres: return postgres::check_url(url);
    case StoreKind::mysql: return check_mysql(url);
    case StoreKind::redis: return check_redis(url);
    case StoreKind::other: return {};
  }
  return {};
}

}  // namespace once
