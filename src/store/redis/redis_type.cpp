#include "store/redis/redis_type.hpp"

#include "store/redis/options.hpp"
#include "store/redis/redis_store.hpp"
#include "store/redis/tls.hpp"

namespace once::redis {

namespace {

Result<std::unique_ptr<ServerStore>> connect_redis(const std::string& url, const ServerSettings& settings,
                                                   const Log& log) {
  return RedisStore::open(url, settings, log);
}

Result<void> check_redis(const std::string& url) {
  const auto options = parse_options(url);
  if (!options) return std::unexpected(options.error());
  if (!options->tls.on) return {};
  const auto context = make_tls_context(options->tls);
  if (!context) return std::unexpected(context.error());
  return {};
}

}  // namespace

constexpr StoreType redis_type = {
    .name = "redis",
    .other_scheme = "rediss",
    .form = "redis://HOST:PORT",
    .settings = {"server", "redis"},
    .place = StorePlace::server,
    .durable = Durable::yes,
    .shared = Shared::yes,
    .connect = connect_redis,
    .check = check_redis,
};

}  // namespace once::redis
