#include "store/postgres/postgres_type.hpp"

#include "store/postgres/connection.hpp"
#include "store/postgres/postgres_store.hpp"
#include "store/postgres/schema.hpp"

namespace once::postgres {

namespace {

Result<std::unique_ptr<ServerStore>> connect_postgres(const std::string& url, const ServerSettings& settings,
                                                      const Log& log) {
  return PostgresStore::open(url, settings, log);
}

constexpr StoreSchema postgres_schema = {
    .server = "PostgreSQL",
    .script = schema_script,
    .apply = apply_schema,
};

}  // namespace

constexpr StoreType postgres_type = {
    .name = "postgres",
    .other_scheme = "postgresql",
    .form = "postgres://HOST/DATABASE",
    .settings = {"server"},
    .place = StorePlace::server,
    .durable = Durable::yes,
    .shared = Shared::yes,
    .connect = connect_postgres,
    .check = check_url,
    .schema = &postgres_schema,
};

}  // namespace once::postgres
