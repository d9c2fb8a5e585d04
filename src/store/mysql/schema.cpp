#include "store/mysql/schema.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"
#include "store/mysql/connection.hpp"

namespace once::mysql {

namespace {

constexpr std::string_view heading =
    R"sql(-- The schema of Once for MySQL 8 and MariaDB 10.10 or newer. Safe to run twice.
--
-- Privileges. The user who runs this needs CREATE, ALTER, INDEX, CREATE VIEW, CREATE ROUTINE, ALTER ROUTINE, EXECUTE and
-- the privileges of a gateway, because the procedures run with the rights of this user.
--   a gateway:  GRANT SELECT, INSERT, UPDATE, DELETE ON once_operations TO gateway; the same for once_chunks
--               GRANT SELECT ON once_schema TO gateway;
--   a backend:  GRANT EXECUTE ON PROCEDURE once_finish TO backend; the same for once_fail, once_renew, once_release
--   a worker:   the same, and GRANT EXECUTE ON PROCEDURE once_claim TO worker;
--   a job that removes expired rows: GRANT EXECUTE ON PROCEDURE once_sweep TO job;
-- A backend needs no privileges on the tables: the procedures need a claim that only its owner knows. Users with EXECUTE
-- on once_claim can read every recorded response whose tenant and key they know. Do not drop the user who runs this.
SET NAMES utf8mb4;
SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION';
)sql";

constexpr std::string_view plain_heading =
    R"sql(-- The schema of Once without stored procedures, for an empty database in TiDB, Vitess or a service that forbids
-- them. `once schema mysql --apply 'mysql://…?procedures=off'` also brings an older one up to date.
--
-- Privileges, besides those of the user who runs this (CREATE, CREATE VIEW):
--   a gateway:  GRANT SELECT, INSERT, UPDATE, DELETE ON once_operations TO gateway; the same for once_chunks
--               GRANT SELECT ON once_schema TO gateway;
SET NAMES utf8mb4;
)sql";

// Times are milliseconds since 1970, in UTC; the largest number means never.
constexpr std::string_view operations_table = R"sql(CREATE TABLE IF NOT EXISTS once_operations (
  id                  BINARY(32)       NOT NULL,
  state               TINYINT UNSIGNED NOT NULL,            -- 0 started, 1 succeeded, 2 failed, 3 unknown, 4 tombstone
  body_kept           TINYINT UNSIGNED NOT NULL DEFAULT 1,  -- in the outcome
  attempt             INT UNSIGNED     NOT NULL,
  fence               BIGINT UNSIGNED  NOT NULL,
  chunks_fence        BIGINT UNSIGNED  NOT NULL DEFAULT 0,  -- equal to fence: the body stays in once_chunks, see body_kept
  fingerprint         BINARY(32)       NOT NULL,
  nonce               BINARY(16)       NOT NULL,            -- of the owner; all zero: no owner
  started_at          BIGINT           NOT NULL,
  lease_until         BIGINT           NOT NULL,
  expires_at          BIGINT           NOT NULL,
  sweep_at            BIGINT           NOT NULL DEFAULT 0,  -- when it expires; when it is forgotten, for a tombstone
  ttl                 BIGINT           NOT NULL,            -- of the claim
  tombstone           BIGINT           NOT NULL DEFAULT 0,  -- of the claim: how long the key is remembered after its expiry
  previous_state      TINYINT UNSIGNED NOT NULL DEFAULT 3,
  previous_started_at BIGINT           NOT NULL DEFAULT 0,
  tenant              VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '',
  route               VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '',
  outcome             LONGBLOB,
  PRIMARY KEY (id),
  KEY once_operations_sweep (sweep_at),
  KEY once_operations_state (state, started_at)             -- for operators: finds unsettled operations
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4)sql";

// Chunks of responses that are recorded while they stream. They are read while their operation has their nonce and is
// started, unknown, or succeeded with its body in chunks; afterwards the sweep removes them. Appending to a response,
// and ending it with its body in chunks, both update the first chunk: so they wait for each other, or at two nodes of a
// cluster only one commits, and nothing is appended after an end.
constexpr std::string_view chunks_table = R"sql(CREATE TABLE IF NOT EXISTS once_chunks (
  id       BINARY(32)   NOT NULL,
  nonce    BINARY(16)   NOT NULL,
  number   INT UNSIGNED NOT NULL,            -- from 0
  size     INT UNSIGNED NOT NULL,            -- of the bytes
  repeated INT UNSIGNED NOT NULL DEFAULT 0,  -- counts repeated appends, so that each of them is a durable commit;
                                             -- of the first chunk also later appends, and the end
  bytes    LONGBLOB     NOT NULL,
  PRIMARY KEY (id, nonce, number)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4)sql";

constexpr std::string_view version_table = R"sql(CREATE TABLE IF NOT EXISTS once_schema (
  only_row   TINYINT UNSIGNED NOT NULL DEFAULT 1,
  version    INT UNSIGNED     NOT NULL,            -- the oldest program that can use it, by the revision it was made for
  revision   INT UNSIGNED     NOT NULL,
  procedures INT UNSIGNED     NOT NULL DEFAULT 0,  -- the revision that they have; 0: there are none
  PRIMARY KEY (only_row)
) ENGINE=InnoDB)sql";

// Revision 4 lacks the column chunks_fence. Adding it is instant, however large the table is. Gateways continue
// meanwhile: the change waits for open transactions only at its beginning and its end. MySQL has no IF NOT EXISTS for
// columns.
constexpr std::string_view has_chunks_fence =
    "(SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = "
    "'once_operations' AND column_name = 'chunks_fence') = 1";
constexpr std::string_view add_chunks_fence =
    "ALTER TABLE once_operations ADD COLUMN chunks_fence BIGINT UNSIGNED NOT NULL DEFAULT 0";

std::string upgrade_sql() {
  return fmt::format(
      "SET @once_step = IF({}, 'DO 0', '{}');\nPREPARE once_step FROM @once_step;\nEXECUTE once_step;\n"
      "DEALLOCATE PREPARE once_step",
      has_chunks_fence, add_chunks_fence);
}

constexpr std::string_view keys_view = R"sql(CREATE OR REPLACE SQL SECURITY INVOKER VIEW once_keys AS
SELECT LOWER(HEX(id)) AS id,
       tenant,
       SUBSTRING_INDEX(route, CHAR(9), 1) AS route,
       IF(expires_at <= UNIX_TIMESTAMP() * 1000 AND tombstone > UNIX_TIMESTAMP() * 1000 - expires_at
            AND (state <> 0 OR lease_until <= UNIX_TIMESTAMP() * 1000), 'tombstone',
          ELT(state + 1, 'started', 'succeeded', 'failed', 'unknown', 'tombstone')) AS state,
       attempt,
       fence,
       FROM_UNIXTIME(started_at / 1000) AS started_at,
       IF(state = 0, FROM_UNIXTIME(lease_until / 1000), NULL) AS lease_until,
       FROM_UNIXTIME(expires_at / 1000) AS expires_at,
       tombstone <= UNIX_TIMESTAMP() * 1000 - expires_at
         AND (state <> 0 OR lease_until <= UNIX_TIMESTAMP() * 1000) AS expired,
       body_kept,
       LENGTH(outcome) AS outcome_bytes,
       body_kept = 0 AND chunks_fence = fence AS body_in_chunks
FROM once_operations)sql";

std::vector<std::string_view> tables() {
  return {operations_table, chunks_table, version_table};
}

std::vector<Procedure> all_procedures() {
  std::vector<Procedure> all = owner_procedures();
  std::ranges::move(claim_procedures(), std::back_inserter(all));
  std::ranges::move(sweep_procedures(), std::back_inserter(all));
  return all;
}

std::string drop(const Procedure& procedure) {
  return fmt::format("DROP PROCEDURE IF EXISTS {}", procedure.name);
}

std::string create(const Procedure& procedure) {
  return fmt::format("CREATE PROCEDURE {}{}", procedure.name, procedure.text);
}

// Replaces the procedure atomically, so that backends always find one. MariaDB only.
std::string exchange(const Procedure& procedure) {
  return fmt::format("CREATE OR REPLACE PROCEDURE {}{}", procedure.name, procedure.text);
}

// Executed last: if it is missing, the upgrade was interrupted.
std::string set_version(Procedures procedures) {
  const bool made = procedures == Procedures::on;
  return fmt::format(
      "INSERT INTO once_schema (only_row, version, revision, procedures) VALUES (1, {0}, {1}, {2}) ON DUPLICATE KEY "
      "UPDATE version = {0}, revision = {1}{3}",
      schema_revision - 1, schema_revision, made ? schema_revision : 0,
      made ? ", procedures = VALUES(procedures)" : "");
}

constexpr unsigned procedure_exists = 1304;
constexpr unsigned not_supported = 1235;
constexpr unsigned syntax_error = 1064;
// Creating an index on a large table takes time.
constexpr Duration patience = std::chrono::hours(1);
// A session that waits for the table's metadata lock blocks all others, so wait only briefly and often.
constexpr int most_tries = 1000;
constexpr const char* rest = "DO SLEEP(0.2)";  // between two tries, for the sessions that were blocked
constexpr const char* do_not_wait_long = "SET SESSION lock_wait_timeout = 1";
constexpr const char* take_turn = "SELECT GET_LOCK(CONCAT('once_schema.', LEFT(DATABASE(), 40)), 50)";

std::unexpected<Error> failure(const SqlError& error) {
  const bool lost = error.kind == SqlError::Kind::lost;
  return std::unexpected(Error{.source = ErrorSource::store,
                               .retryable = lost ? Retryable::yes : Retryable::no,
                               .detail = fmt::format("the schema could not be applied: {}", error.detail)});
}

Result<std::unique_ptr<Connection>> connect(const Target& target, ServerSettings settings) {
  settings.timeout = std::max(settings.timeout, patience);
  Result<std::unique_ptr<Connection>> connection;
  for (const StoreHost& host : target.hosts) {
    connection = Connection::open(target, host, settings);
    if (connection) break;
  }
  return connection;
}

struct Found {
  SchemaVersion version{};
  std::uint64_t procedures = 0;
};

std::expected<Found, SqlError> find_schema(Connection& connection) {
  Found found;
  const auto ran = connection.run("SELECT * FROM once_schema", [&](std::size_t, const RowView& row) {
    found = {.version = version_of(row), .procedures = procedures_of(row)};
  });
  if (!ran && ran.error().number != sql_error::no_such_table) return std::unexpected(ran.error());
  return found;
}

Connection::Ran run_patiently(Connection& connection, const std::string& text) {
  Connection::Ran ran;
  for (int tries = 0; tries < most_tries; ++tries) {
    ran = connection.run(text, {}, 0);
    if (ran || ran.error().number != sql_error::lock_wait_timeout) break;
    if (const auto rested = connection.run(rest); !rested) return rested;
  }
  return ran;
}

Connection::Ran create_tables(Connection& connection) {
  if (auto ran = connection.run(do_not_wait_long); !ran) return ran;
  for (const std::string_view table : tables()) {
    if (auto ran = run_patiently(connection, std::string(table)); !ran) return ran;
  }
  bool needed = true;
  const auto asked = connection.run(fmt::format("SELECT {}", has_chunks_fence),
                                    [&](std::size_t, const RowView& row) { needed = row[0] != "1"; });
  if (!asked) return asked;
  if (needed) {
    if (auto ran = run_patiently(connection, std::string(add_chunks_fence)); !ran) return ran;
  }
  return run_patiently(connection, std::string(keys_view));
}

// An upgrade at another node of a cluster, which no lock prevents, may have created a procedure already.
Connection::Ran create_procedures(Connection& connection) {
  for (const Procedure& procedure : all_procedures()) {
    const auto exchanged = connection.run(exchange(procedure));
    if (exchanged) continue;
    if (exchanged.error().number != syntax_error) return exchanged;
    if (auto ran = connection.run(drop(procedure)); !ran) return ran;
    if (auto ran = connection.run(create(procedure)); !ran && ran.error().number != procedure_exists) return ran;
  }
  return {};
}

Connection::Ran create_all(Connection& connection, Procedures procedures) {
  if (auto ran = create_tables(connection); !ran) return ran;
  if (procedures == Procedures::on) {
    if (auto ran = create_procedures(connection); !ran) return ran;
  }
  return connection.run(set_version(procedures));
}

// Whether the tables or the procedures need work. A schema of a newer revision is left unchanged.
bool needs_work(const Found& found, Procedures procedures) {
  if (needs_apply(found.version, schema_revision)) return true;
  return procedures == Procedures::on && found.version.revision == schema_revision &&
         found.procedures < schema_revision;
}

std::string what_was_done(const Found& before, Procedures procedures) {
  std::string done = applied(before.version, schema_revision);
  const bool there = before.version.revision != 0 && before.version.revision <= schema_revision;
  if (!there || before.procedures >= schema_revision) return done;
  if (procedures == Procedures::on) {
    if (before.version.revision == schema_revision) done += "; its procedures were made";
  } else if (before.procedures > 0) {
    done += fmt::format("; its procedures are still those of revision {}, since the URL has procedures=off",
                        before.procedures);
  }
  return done;
}

}  // namespace

SchemaVersion version_of(const RowView& row) {
  const auto number = [&](std::size_t column) { return parse_number(row[column].value_or("")).value_or(0); };
  return {.revision = row.size() > 2 ? number(2) : 1, .oldest_program = number(1)};
}

std::uint64_t procedures_of(const RowView& row) {
  return row.size() > 3 ? parse_number(row[3].value_or("")).value_or(0) : 0;
}

std::string schema_script(Procedures procedures) {
  std::string script(procedures == Procedures::on ? heading : plain_heading);
  for (const std::string_view table : tables()) script.append("\n").append(table).append(";\n");
  if (procedures == Procedures::on) script.append("\n").append(upgrade_sql()).append(";\n");
  script.append("\n").append(keys_view).append(";\n");
  if (procedures == Procedures::off) return script.append("\n").append(set_version(procedures)).append(";\n");
  script.append("\nDELIMITER $$\n");
  for (const Procedure& procedure : all_procedures()) {
    script.append("\n").append(drop(procedure)).append("$$\n").append(create(procedure)).append("$$\n");
  }
  return script.append("\nDELIMITER ;\n\n").append(set_version(procedures)).append(";\n");
}

Result<std::string> apply_schema(const std::string& url, const ServerSettings& settings) {
  auto target = parse_target(url);
  if (!target) return std::unexpected(std::move(target.error()));
  auto connection = connect(*target, settings);
  if (!connection) return std::unexpected(std::move(connection.error()));
  // Released when the connection closes. A cluster may not support such locks.
  bool mine = false;
  const auto locked = (*connection)->run(take_turn, [&](std::size_t, const RowView& row) { mine = row[0] == "1"; });
  if (!locked && locked.error().number != not_supported) return failure(locked.error());
  if (locked && !mine) {
    return std::unexpected(Error{.source = ErrorSource::store,
                                 .retryable = Retryable::yes,
                                 .detail = "another process is applying the schema and does not finish"});
  }
  const auto found = find_schema(**connection);
  if (!found) return failure(found.error());
  const SchemaFits fit = fits(found->version, schema_revision);
  if (fit == SchemaFits::too_old || fit == SchemaFits::too_new) {
    return std::unexpected(Error{.source = ErrorSource::store,
                                 .retryable = Retryable::no,
                                 .detail = why_not(found->version, schema_revision, how_to_apply)});
  }
  if (needs_work(*found, target->procedures)) {
    if (const auto created = create_all(**connection, target->procedures); !created) return failure(created.error());
  }
  return what_was_done(*found, target->procedures);
}

}  // namespace once::mysql
