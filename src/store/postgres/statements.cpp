#include "store/postgres/statements.hpp"

#include <string_view>

#include <fmt/format.h>

#include "base/assert.hpp"

namespace once::postgres {

namespace {

// Parts that several statements share; {name} in the texts below.

// To the millisecond, as the core counts; of the moment the statement reached the server.
constexpr std::string_view now = "statement_timestamp()::timestamptz(3)";
// Microseconds, so that a fence is higher than any before it even when the row of that one is gone.
constexpr std::string_view fence = "(date_part('epoch', statement_timestamp()) * 1000000)::bigint";
constexpr std::string_view record =
    "o.state, o.body_kept, o.attempt, o.fence, o.fingerprint, o.nonce, o.started_at, o.lease_until, o.expires_at, "
    "coalesce(o.expires_at + o.tombstone, 'infinity') AS forget_at, o.previous_state, o.previous_started_at";
// $2 is Locked. xmax costs nothing to look at, a lock is a write of its own.
constexpr std::string_view mine =
    "o.id = i.id AND (o.xmax = 0 OR $2::smallint > 0) AND o.id = ANY (CASE WHEN $2 = 1 THEN ARRAY(SELECT id "
    "FROM once_operations WHERE id = ANY ($1) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED) ELSE $1 END)";
constexpr std::string_view not_expired =
    "(o.expires_at > statement_timestamp()::timestamptz(3) OR "
    "(o.state = 0 AND o.lease_until > statement_timestamp()::timestamptz(3)))";
// Only to those who wait: transactions that notify commit one after the other.
constexpr std::string_view tell = "CASE WHEN o.waited THEN pg_notify('once_ended', encode(o.id, 'hex')) END";

constexpr std::string_view claim_sql = R"sql(
WITH seen AS MATERIALIZED (
  SELECT i.*, {now} AS now, {record}, o.tombstone, o.outcome
  FROM unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::interval[], $5::interval[], $6::interval[], $7::text[],
              $8::text[])
       AS i(id, my_nonce, my_fingerprint, lease, ttl, my_tombstone, tenant, route)
  LEFT JOIN (SELECT * FROM once_operations WHERE id = ANY ($1)) AS o ON o.id = i.id
), made AS (
  INSERT INTO once_operations AS o (id, state, attempt, fence, fingerprint, nonce, started_at, lease_until, expires_at,
                                    sweep_at, ttl, tombstone, tenant, route)
  SELECT id, 0, 1, {fence}, my_fingerprint, my_nonce, now, coalesce(now + lease, 'infinity'),
         coalesce(now + ttl, 'infinity'), coalesce(now + ttl, 'infinity'), ttl, my_tombstone, tenant, route
  FROM seen WHERE state IS NULL ORDER BY id
  ON CONFLICT (id) DO NOTHING
  RETURNING o.id, o.started_at AS now, true AS made, {record}, NULL::bytea
)
SELECT * FROM made
UNION ALL
SELECT o.id, o.now, false, {record}, o.outcome FROM seen AS o WHERE o.state IS NOT NULL)sql";

constexpr std::string_view take_sql = R"sql(
UPDATE once_operations AS o
SET state = 0, body_kept = true, outcome = NULL, attempt = i.attempt, fence = greatest(o.fence + 1, {fence}),
    fingerprint = i.fingerprint, nonce = i.nonce, started_at = {now},
    lease_until = coalesce({now} + i.lease, 'infinity'), expires_at = coalesce({now} + i.ttl, 'infinity'),
    sweep_at = coalesce({now} + i.ttl, 'infinity'), ttl = i.ttl, tombstone = i.tombstone, previous_state = i.previous_state,
    previous_started_at = i.previous_started_at, waited = o.waited AND o.state = 0, tenant = i.tenant, route = i.route
FROM unnest($1::bytea[], $3::bytea[], $4::bytea[], $5::interval[], $6::interval[], $7::interval[], $8::text[],
            $9::text[], $10::integer[], $11::smallint[], $12::timestamptz[], $13::bigint[], $14::smallint[],
            $15::timestamptz[], $16::timestamptz[])
     AS i(id, nonce, fingerprint, lease, ttl, tombstone, tenant, route, attempt, previous_state, previous_started_at, seen_fence,
          seen_state, seen_lease_until, seen_expires_at)
WHERE {mine} AND o.fence = i.seen_fence AND o.state = i.seen_state
  AND o.lease_until = i.seen_lease_until AND o.expires_at = i.seen_expires_at
RETURNING o.id, o.started_at, true, {record}, NULL::bytea)sql";

constexpr std::string_view renew_sql = R"sql(
UPDATE once_operations AS o
SET lease_until = coalesce({now} + i.lease, 'infinity')
FROM unnest($1::bytea[], $3::bytea[], $4::interval[]) AS i(id, nonce, lease)
WHERE {mine} AND o.nonce = i.nonce AND o.state = 0 AND {not_expired}
RETURNING o.id, {now}, true, {record}, NULL::bytea)sql";

constexpr std::string_view finish_sql = R"sql(
UPDATE once_operations AS o
SET state = i.state, body_kept = i.body_kept, outcome = i.outcome, ttl = i.ttl, expires_at = i.expires_at,
    sweep_at = CASE WHEN i.expires_at BETWEEN o.sweep_at - interval '1 hour' AND o.sweep_at + interval '1 hour'
                    THEN o.sweep_at ELSE i.expires_at END
FROM (SELECT *, coalesce({now} + ttl, 'infinity') AS expires_at
      FROM unnest($1::bytea[], $3::bytea[], $4::smallint[], $5::boolean[], $6::bytea[], $7::interval[]{seen_type})
           AS each(id, nonce, state, body_kept, outcome, ttl{seen})) AS i
WHERE {mine} AND o.nonce = i.nonce AND {ends}
  AND {not_expired}
RETURNING o.id, {now}, true, {record}, NULL::bytea, {tell})sql";

// What may end: an owner's claim, and an operator's key as it was seen, if nobody is at work on it.
constexpr std::string_view owner_ends = "(o.state = 0 OR (o.state = 3 AND i.state <> 3))";
constexpr std::string_view operator_ends =
    "o.state = i.seen AND (o.state = 3 OR (o.state = 0 AND o.lease_until <= {}))";

// A first claim leaves its row for a minute, expired: the next one finds the fence in it, and a late copy of it its
// nonce, as released_nonce() has it.
constexpr std::string_view release_sql = R"sql(
UPDATE once_operations AS o
SET state = CASE WHEN o.attempt = 1 THEN 2 ELSE o.previous_state END, attempt = o.attempt - 1,
    started_at = CASE WHEN o.attempt = 1 THEN o.started_at ELSE o.previous_started_at END,
    nonce = substring(o.nonce from 9) || substring(o.nonce for 8),
    expires_at = CASE WHEN o.attempt = 1 THEN {now} ELSE o.expires_at END,
    sweep_at = CASE WHEN o.attempt = 1 THEN {now} ELSE o.sweep_at END,
    tombstone = CASE WHEN o.attempt = 1 THEN interval '0' ELSE o.tombstone END
FROM unnest($1::bytea[], $3::bytea[]) AS i(id, nonce)
WHERE {mine} AND o.nonce = i.nonce AND o.state = 0 AND {not_expired}
RETURNING o.id, {now}, true, {record}, NULL::bytea, {tell})sql";

// Its row stays for a minute like that of a release, and for the same reason.
constexpr std::string_view forget_sql = R"sql(
UPDATE once_operations AS o
SET state = 2, attempt = 0, nonce = '\x00000000000000000000000000000000', outcome = NULL, expires_at = {now},
    sweep_at = {now}, tombstone = interval '0'
FROM unnest($1::bytea[], $3::bytea[], $4::smallint[]) AS i(id, nonce, state)
WHERE {mine} AND o.nonce = i.nonce AND o.attempt > 0 AND (o.state <> 0 OR o.lease_until <= {now})
  AND CASE WHEN {not_expired} THEN o.state WHEN coalesce(o.expires_at + o.tombstone, 'infinity') > {now} THEN 4 END
      = i.state
RETURNING o.id, {now}, true, {record}, NULL::bytea, {tell})sql";

constexpr std::string_view wait_sql = R"sql(
UPDATE once_operations AS o SET waited = true
WHERE o.id = ANY ($1::bytea[]) AND o.state = 0 AND NOT o.waited AND o.xmax = 0)sql";

constexpr std::string_view read_sql = R"sql(
SELECT i.id, {now}, false, {record}, o.outcome
FROM unnest($1::bytea[]) AS i(id) LEFT JOIN (SELECT * FROM once_operations WHERE id = ANY ($1)) AS o ON o.id = i.id)sql";

// What was released stays for a minute: no statement lasts that long, so none can still hold an older fence. What is to
// be remembered becomes a tombstone, without its outcome, and is looked at once more when that is over.
constexpr std::string_view sweep_sql = R"sql(
WITH due AS MATERIALIZED (
  SELECT o.id, coalesce(o.expires_at + o.tombstone, 'infinity') AS forget_at FROM once_operations AS o
  WHERE o.sweep_at <= {now} AND o.expires_at <= {now} AND (o.state <> 0 OR o.lease_until <= {now})
    AND (o.attempt > 0 OR o.expires_at <= {now} - interval '1 minute')
  ORDER BY o.sweep_at LIMIT $1::bigint FOR UPDATE SKIP LOCKED
), buried AS (
  UPDATE once_operations AS o
  SET state = 4, outcome = NULL, sweep_at = coalesce(o.expires_at + o.tombstone, 'infinity')
  WHERE o.id = ANY (ARRAY(SELECT id FROM due WHERE forget_at > {now}))
), removed AS (
  DELETE FROM once_operations AS o WHERE o.id = ANY (ARRAY(SELECT id FROM due WHERE forget_at <= {now}))
  RETURNING o.id
)
SELECT (SELECT count(*) FROM removed), (SELECT count(*) FROM due))sql";

// By the primary key, so that a page costs the same however many rows there are. The size of an outcome is known
// without reading it.
constexpr std::string_view page_sql = R"sql(
SELECT o.id, {now}, false, {record}, NULL::bytea, o.tenant, o.route, coalesce(octet_length(o.outcome), 0)::bigint
FROM once_operations AS o WHERE o.id > $1::bytea ORDER BY o.id LIMIT $2::bigint)sql";

constexpr std::string_view count_sql = R"sql(
WITH part AS MATERIALIZED (
  SELECT o.id, CASE WHEN o.attempt = 0 THEN -1 WHEN {not_expired} THEN CASE WHEN o.state = 0 AND o.lease_until <= {now} THEN 5 ELSE o.state END
                    WHEN coalesce(o.expires_at + o.tombstone, 'infinity') > {now} THEN 4 ELSE -1 END AS state
  FROM once_operations AS o WHERE o.id > $1::bytea ORDER BY o.id LIMIT $2::bigint
)
SELECT s.state::smallint, count(*), (SELECT id FROM part ORDER BY id DESC LIMIT 1) FROM part AS s GROUP BY s.state)sql";

// For as long as the transaction, which is the round.
constexpr std::string_view hurry_sql = "SELECT set_config('lock_timeout', '100ms', true)";

std::string_view template_of(Statement statement) {
  switch (statement) {
    case Statement::claim: return claim_sql;
    case Statement::take: return take_sql;
    case Statement::renew: return renew_sql;
    case Statement::finish:
    case Statement::resolve: return finish_sql;
    case Statement::release: return release_sql;
    case Statement::forget: return forget_sql;
    case Statement::wait: return wait_sql;
    case Statement::read: return read_sql;
    case Statement::sweep: return sweep_sql;
    case Statement::hurry: return hurry_sql;
    case Statement::page: return page_sql;
    case Statement::count: return count_sql;
  }
  ONCE_ASSERT(false);
}

}  // namespace

const char* name_of(Statement statement) {
  switch (statement) {
    case Statement::claim: return "once_claim";
    case Statement::take: return "once_take";
    case Statement::renew: return "once_renew";
    case Statement::finish: return "once_finish";
    case Statement::release: return "once_release";
    case Statement::forget: return "once_forget";
    case Statement::resolve: return "once_resolve";
    case Statement::wait: return "once_wait";
    case Statement::read: return "once_read";
    case Statement::sweep: return "once_sweep";
    case Statement::hurry: return "once_hurry";
    case Statement::page: return "once_page";
    case Statement::count: return "once_count";
  }
  ONCE_ASSERT(false);
}

std::string sql_of(Statement statement) {
  const bool resolves = statement == Statement::resolve;
  const std::string ends = resolves ? fmt::format(operator_ends, now) : std::string(owner_ends);
  return fmt::format(
      fmt::runtime(template_of(statement)), fmt::arg("now", now), fmt::arg("fence", fence), fmt::arg("record", record),
      fmt::arg("mine", mine), fmt::arg("not_expired", not_expired), fmt::arg("tell", tell), fmt::arg("ends", ends),
      fmt::arg("seen_type", resolves ? ", $8::smallint[]" : ""), fmt::arg("seen", resolves ? ", seen" : ""));
}

}  // namespace once::postgres
