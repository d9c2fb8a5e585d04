#include "store/postgres/schema.hpp"

#include <fmt/format.h>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "store/postgres/connection.hpp"
#include "store/postgres/schema_sql.hpp"

namespace once::postgres {

namespace {

// Another may hold the lock, and a large table takes its time.
constexpr Duration longest_wait = std::chrono::minutes(10);

// The lock is "once" in ASCII. Names are looked for in the schema that is current now, and nowhere else later.
constexpr std::string_view head = R"sql(-- What Once needs in PostgreSQL, version {0}. Safe to run again.
BEGIN;
SELECT pg_advisory_xact_lock(1869505381);
SELECT set_config('search_path', format('%I, pg_temp', current_schema()), true);

CREATE TABLE IF NOT EXISTS once_schema (version integer PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now());
DO $body$ BEGIN
  IF (SELECT max(version) FROM once_schema) > {0} THEN
    RAISE EXCEPTION 'the schema of Once in this database is newer than version {0}';
  END IF;
END $body$;
)sql";

constexpr std::string_view tail = R"sql(
INSERT INTO once_schema (version) VALUES ({0}) ON CONFLICT DO NOTHING;
COMMIT;
)sql";

Error error_of(const Fault& fault) {
  return {.source = ErrorSource::store,
          .retryable = fault.kind == Fault::Kind::lost ? Retryable::yes : Retryable::no,
          .detail = fmt::format("the schema could not be applied: {}", text_of(fault))};
}

// 0: there is none.
std::expected<std::uint64_t, Fault> version_in(Connection& connection, Wait wait) {
  const auto there = connection.query("SELECT to_regclass('once_schema')", wait);
  if (!there) return std::unexpected(there.error());
  if (there->null(0, 0)) return 0;
  const auto version = connection.query("SELECT coalesce(max(version), 0) FROM once_schema", wait);
  if (!version) return std::unexpected(version.error());
  return parse_number(version->bytes(0, 0)).value_or(0);
}

}  // namespace

std::string schema_script() {
  std::string script = fmt::format(head, schema_version);
  script += tables_sql();
  script += owner_functions_sql();
  script += claim_functions_sql();
  script += rights_sql();
  script += fmt::format(tail, schema_version);
  return script;
}

Result<std::string> apply_schema(const std::string& url, const ServerSettings& settings) {
  auto connection = Connection::open(url, settings, Connection::Use::plain);
  if (!connection) return std::unexpected(std::move(connection.error()));
  const Wait wait{.until = monotonic_now() + longest_wait};
  const auto before = version_in(**connection, wait);
  if (!before) return std::unexpected(error_of(before.error()));
  if (*before == schema_version) return fmt::format("schema version {} was there already", schema_version);
  if (*before > schema_version) {
    return std::unexpected(
        Error{.source = ErrorSource::store,
              .retryable = Retryable::no,
              .detail = fmt::format("the schema of Once in the database is version {}, newer than this program's {}",
                                    *before, schema_version)});
  }
  if (const auto applied = (*connection)->query(schema_script(), wait); !applied) {
    return std::unexpected(error_of(applied.error()));
  }
  return fmt::format("schema version {} applied", schema_version);
}

}  // namespace once::postgres
