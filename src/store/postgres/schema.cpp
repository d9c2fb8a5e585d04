#include "store/postgres/schema.hpp"

#include <fmt/format.h>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "store/postgres/connection.hpp"
#include "store/postgres/poll.hpp"
#include "store/postgres/schema_sql.hpp"

namespace once::postgres {

namespace {

// The limit is high because another upgrade may hold the lock, and because a large table takes time.
constexpr Duration longest_wait = std::chrono::hours(1);
constexpr Duration between_turns = std::chrono::milliseconds(100);

// The lock's number is "once" in ASCII. Names refer to the current schema, now and later.
constexpr std::string_view head = R"sql(-- What Once needs in PostgreSQL, revision {0}. Safe to run again.
--
-- If a large table of revision {1} is in use, run this statement first, as `once schema postgres --apply URL` does:
--   {2};
-- The column is added at once, but waits for open transactions.
BEGIN;
SELECT pg_advisory_xact_lock(1869505381);
SELECT set_config('search_path', format('%I, pg_temp', current_schema()), true);

-- version: the oldest program that can use this schema, as the revision that it was written for.
CREATE TABLE IF NOT EXISTS once_schema (
  version integer PRIMARY KEY, revision integer NOT NULL, applied_at timestamptz NOT NULL DEFAULT now());
DO $body$
DECLARE
  found integer := (SELECT max(coalesce((to_jsonb(s)->>'revision')::integer, 1)) FROM once_schema AS s);
BEGIN
  IF found NOT IN ({1}, {0}) THEN
    RAISE EXCEPTION 'the schema of Once in this database has revision %; this script upgrades only revision {1}', found;
  END IF;
END $body$;
)sql";

// Needs an exclusive lock for a moment. Every other statement queues behind one that waits for it, so the wait must be
// short.
constexpr std::string_view new_column =
    "ALTER TABLE once_operations ADD COLUMN IF NOT EXISTS chunks_fence bigint NOT NULL DEFAULT 0";
constexpr std::string_view do_not_wait_long = "SET lock_timeout = '100ms'";
constexpr std::string_view wait_as_before = "RESET lock_timeout";
constexpr std::string_view waited_too_long = "55P03";

constexpr std::string_view tail = R"sql(
DELETE FROM once_schema;
INSERT INTO once_schema (version, revision) VALUES ({1}, {0});
COMMIT;
)sql";

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
  std::string script = fmt::format(head, schema_revision, schema_revision - 1, new_column);
  script += tables_sql();
  script += owner_functions_sql();
  script += claim_functions_sql();
  script += sweep_function_sql();
  script += rights_sql();
  script += fmt::format(tail, schema_revision, schema_revision - 1);
  return script;
}

Result<std::string> apply_schema(const std::string& url, const ServerSettings& settings) {
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
  switch (fits(*before, schema_revision)) {
    case SchemaFits::yes:
    case SchemaFits::not_yet: {
      if (!needs_apply(*before, schema_revision)) break;
      const auto done = bring_up_to_date(**connection, *before, wait);
      if (!done) return std::unexpected(error_of(done.error()));
      break;
    }
    case SchemaFits::too_old:
    case SchemaFits::too_new:
      return std::unexpected(Error{.source = ErrorSource::store,
                                   .retryable = Retryable::no,
                                   .detail = why_not(*before, schema_revision, how_to_apply)});
  }
  return applied(*before, schema_revision);
}

}  // namespace once::postgres
