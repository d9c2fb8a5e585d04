#include "store/mysql/mysql_type.hpp"

#include <string_view>
#include <utility>

#include "store/mysql/mysql_store.hpp"
#include "store/mysql/schema.hpp"
#include "store/mysql/target.hpp"
#include "store/server/store_url.hpp"

namespace once::mysql {

namespace {

Result<std::unique_ptr<ServerStore>> connect_mysql(const std::string& url, const ServerSettings& settings,
                                                   const Log& log) {
  return MysqlStore::open(url, settings, log);
}

Result<void> check_mysql(const std::string& url) {
  const auto target = parse_target(url);
  if (!target) return std::unexpected(target.error());
  const std::pair<std::string_view, const std::string&> files[] = {
      {"ssl-ca", target->ssl_ca}, {"ssl-cert", target->ssl_cert}, {"ssl-key", target->ssl_key}};
  for (const auto& [option, path] : files) {
    if (auto readable = check_url_file(option, path); !readable) return readable;
  }
  return {};
}

constexpr StoreSchema mysql_schema = {
    .server = "MySQL and MariaDB",
    .script = [] { return schema_script(Procedures::on); },
    .plain_script = [] { return schema_script(Procedures::off); },
    .apply = apply_schema,
};

}  // namespace

constexpr StoreType mysql_type = {
    .name = "mysql",
    .other_scheme = "mariadb",
    .form = "mysql://HOST/DATABASE",
    .settings = {"server"},
    .place = StorePlace::server,
    .durable = Durable::yes,
    .shared = Shared::yes,
    .connect = connect_mysql,
    .check = check_mysql,
    .schema = &mysql_schema,
};

}  // namespace once::mysql
