#include "store/postgres/schema.hpp"

#include <fmt/format.h>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "store/postgres/connection.hpp"
#include "store/postgres/poll.hpp"
#include "store/postgres/schema_sql.hpp"

namespace once::postgres {

namespace {

// Another upgrade may hold the lock, and a large table takes time.
constexpr Duration longest_wait = std::chrono::hours(1);
constexpr Duration between_turns = std::chrono::milliseconds(100);

// The lock's number is "once" in ASCII. Names refer to the current schema, now and later.
constexpr std::string_view head = R"sql(-- What Once needs in PostgreSQL, revision {0}. Safe to run again.
--
-- If a large table of an older revision is in use, run these statements first, as `once schema postgres --apply URL` does:
--   {1};
--   {2};
-- In this script, creating the index would block writes. The column is added at once, but waits for open transactions.
BEGIN;
SELECT pg_advisory_xact_lock(1869505381);
SELECT set_config('search_path', format('%I, pg_temp', current_schema()), true);

-- version: the oldest program that can use this schema, as the revision that it was written for.
CREATE TABLE IF NOT EXISTS once_schema (version integer PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now());
DO $body$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'once_schema'::regclass AND attname = 'revision') THEN
    ALTER TABLE once_schema ADD COLUMN revision integer NOT NULL DEFAULT 1;
  END IF;
  IF (SELECT max(greatest(version, revision)) FROM once_schema) > {0} THEN
    RAISE EXCEPTION 'the schema of Once in this database is newer than revision {0}';
  END IF;
END $body$;
)sql";

// Cannot run in a transaction. If interrupted, it leaves an invalid index that must be removed first.
constexpr std::string_view new_index =
    "CREATE INDEX CONCURRENTLY IF NOT EXISTS once_operations_open ON once_operations (state, id) WHERE (state IN (0, "
    "2, 3)) IS TRUE";
// Needs an exclusive lock for a moment. Every other statement queues behind one that waits for it, so the wait must be
// short.
constexpr std::string_view new_column =
    "ALTER TABLE once_operations ADD COLUMN IF NOT EXISTS chunks_fence bigint NOT NULL DEFAULT 0";
constexpr std::string_view do_not_wait_long = "SET lock_timeout = '100ms'";
constexpr std::string_view wait_as_before = "RESET lock_timeout";
constexpr std::string_view waited_too_long = "55P03";
constexpr std::string_view interrupted_index =
    "SELECT 1 FROM pg_index WHERE indexrelid = to_regclass('once_operations_open') AND NOT indisvalid";

// A new database has no older programs. In an older one they may continue until retired explicitly.
constexpr std::string_view tail = R"sql(
INSERT INTO once_schema (version, revision) SELECT coalesce(max(version), {0}), {0} FROM once_schema
ON CONFLICT (version) DO UPDATE SET revision = {0}, applied_at = now();
COMMIT;
)sql";
constexpr std::string_view retire_older = "UPDATE once_schema SET version = {0} WHERE version < {0} AND revision = {0}";

Error error_of(const Fault& fault) {
  return {.source = ErrorSource::store,
          .retryable = fault.kind == Fault::Kind::lost ? Retryable::yes : Retryable::no,
          .detail = fmt::format("the schema could not be applied: {}", text_of(fault))};
}

std::expected<SchemaVersion, Fault> version_in(Connection& connection, Wait wait) {
  const auto there = connection.query("SELECT to_regclass('once_schema')", wait);
  if (!there) return std::unexpected(there.error());
  if (there->null(0, 0)) return SchemaVersion();
  const auto version = connection.query(std::string(version_sql), wait);
  if (!version) return std::unexpected(version.error());
  return version_of(*version);
}

// Serialises upgrades, without waiting inside a statement: creating an index concurrently waits for every running
// statement.
std::expected<void, Fault> take_turn(Connection& connection, Wait wait) {
  while (true) {
    const auto mine = connection.query("SELECT pg_try_advisory_lock(1869505381, 1)", wait);
    if (!mine) return std::unexpected(mine.error());
    if (mine->bytes(0, 0) == "t") return {};
    if (monotonic_now() >= wait.until) {
      return std::unexpected(Fault{.kind = Fault::Kind::rolled_back,
                                   .sqlstate = {},
                                   .detail = "another process is applying it and does not finish"});
    }
    wait_for(-1, 0, {.until = monotonic_now() + between_turns});
  }
}

// Changes that block no other session, but cannot run in a transaction.
std::expected<void, Fault> exchange_indexes(Connection& connection, Wait wait) {
  const auto interrupted = connection.query(std::string(interrupted_index), wait);
  if (!interrupted) return std::unexpected(interrupted.error());
  const bool again = interrupted->size() != 0;
  for (const std::string_view step :
       {again ? std::string_view("DROP INDEX CONCURRENTLY IF EXISTS once_operations_open") : std::string_view(),
        new_index, std::string_view("DROP INDEX CONCURRENTLY IF EXISTS once_operations_tenant"),
        std::string_view("DROP INDEX CONCURRENTLY IF EXISTS once_operations_unsettled")}) {
    if (step.empty()) continue;
    if (const auto done = connection.query(std::string(step), wait); !done) return std::unexpected(done.error());
  }
  return {};
}

std::expected<void, Fault> add_column(Connection& connection, Wait wait) {
  if (const auto set = connection.query(std::string(do_not_wait_long), wait); !set) return std::unexpected(set.error());
  while (true) {
    const auto added = connection.query(std::string(new_column), wait);
    if (added) break;
    if (added.error().sqlstate != waited_too_long || monotonic_now() >= wait.until) {
      return std::unexpected(added.error());
    }
    wait_for(-1, 0, {.until = monotonic_now() + between_turns});
  }
  if (const auto reset = connection.query(std::string(wait_as_before), wait); !reset) {
    return std::unexpected(reset.error());
  }
  return {};
}

std::expected<void, Fault> bring_up_to_date(Connection& connection, const SchemaVersion& before, Wait wait) {
  if (before.revision != 0) {
    if (const auto exchanged = exchange_indexes(connection, wait); !exchanged) return exchanged;
    if (const auto added = add_column(connection, wait); !added) return added;
  }
  const auto done = connection.query(schema_script(), wait);
  if (!done) return std::unexpected(done.error());
  return {};
}

}  // namespace

SchemaVersion version_of(const Rows& rows) {
  if (rows.size() != 1 || rows.null(0, 0)) return {};
  return {.revision = parse_number(rows.bytes(0, 0)).value_or(0),
          .oldest_program = parse_number(rows.bytes(0, 1)).value_or(0)};
}

std::string schema_script() {
  std::string script = fmt::format(head, schema_version.revision, new_index, new_column);
  script += tables_sql();
  script += owner_functions_sql();
  script += claim_functions_sql();
  script += sweep_function_sql();
  script += rights_sql();
  script += fmt::format(tail, schema_version.revision);
  return script;
}

Result<std::string> apply_schema(const std::string& url, const ServerSettings& settings, OlderPrograms older) {
  auto connection = Connection::open(url, settings, Connection::Use::plain);
  if (!connection) return std::unexpected(std::move(connection.error()));
  const Wait wait{.until = monotonic_now() + longest_wait};
  if ((*connection)->pooled()) {
    return std::unexpected(Error{.source = ErrorSource::store,
                                 .retryable = Retryable::no,
                                 .detail = "this is a pooler, not the server: apply the schema at the server itself"});
  }
  // Released when the connection closes.
  if (const auto mine = take_turn(**connection, wait); !mine) return std::unexpected(error_of(mine.error()));
  const auto before = version_in(**connection, wait);
  if (!before) return std::unexpected(error_of(before.error()));
  if (fits(*before, schema_version) == SchemaFits::too_new) {
    return std::unexpected(Error{.source = ErrorSource::store,
                                 .retryable = Retryable::no,
                                 .detail = why_not(*before, schema_version, how_to_apply)});
  }
  if (fits(*before, schema_version) == SchemaFits::too_old) {
    const auto done = bring_up_to_date(**connection, *before, wait);
    if (!done) return std::unexpected(error_of(done.error()));
  }
  if (older == OlderPrograms::stay) return applied(*before, schema_version);
  const auto retired = (*connection)->query(fmt::format(retire_older, schema_version.revision), wait);
  if (!retired) return std::unexpected(error_of(retired.error()));
  return fmt::format("{}; programs for older revisions cannot use it", applied(*before, schema_version));
}

}  // namespace once::postgres
