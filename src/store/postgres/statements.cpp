#include "store/postgres/statements.hpp"

#include <string_view>

#include <fmt/format.h>

#include "base/assert.hpp"

namespace once::postgres {

namespace {

// Parts that several statements share, inserted for {name} in the texts below.

// In milliseconds, like the core; the moment when the statement reached the server.
constexpr std::string_view now = "statement_timestamp()::timestamptz(3)";
// In microseconds, so that a fence is higher than all before it, even if the row of an earlier one is gone.
constexpr std::string_view fence = "(date_part('epoch', statement_timestamp()) * 1000000)::bigint";
constexpr std::string_view record =
    "o.state, o.body_kept, o.chunks_fence, o.attempt, o.fence, o.fingerprint, o.nonce, o.started_at, o.lease_until, "
    "o.expires_at, "
    "coalesce(o.expires_at + o.tombstone, 'infinity') AS forget_at, o.previous_state, o.previous_started_at";
// Renewals are in a separate table. A subquery, evaluated only for started rows: most rows have ended, and a join would
// look for all of them.
constexpr std::string_view lease =
    "CASE WHEN o.state = 0 THEN coalesce((SELECT l.lease_until FROM once_leases AS l WHERE l.id = o.id "
    "AND l.fence = o.fence), o.lease_until) ELSE o.lease_until END";
constexpr std::string_view plain_lease = "o.lease_until";
// Whether `seize` took the operation from its owner in this transaction.
constexpr std::string_view seized =
    "(SELECT l.fence FROM once_leases AS l WHERE l.id = o.id AND l.xmin = pg_current_xact_id()::xid) = o.fence + 1";
// $2 is the Locked value. Reading xmax costs nothing; a lock is an extra write to the row.
constexpr std::string_view mine =
    "o.id = i.id AND (o.xmax = 0 OR $2::smallint > 0) AND o.id = ANY (CASE WHEN $2 = 1 THEN ARRAY(SELECT id "
    "FROM once_operations WHERE id = ANY ($1) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED) ELSE $1 END)";
constexpr std::string_view not_expired = "(o.expires_at > {0} OR (o.state = 0 AND {1} > {0}))";
// Notifies only if there are waiters, because transactions that notify commit one after the other. A full queue would
// refuse the commit.
constexpr std::string_view tell =
    "CASE WHEN (SELECT l.waited FROM once_leases AS l WHERE l.id = o.id) "
    "AND pg_notification_queue_usage() < 0.9 THEN pg_notify('once_ended', encode(o.id, 'hex')) END";
// Whether chunks of this claim may be read. A fence instead of a flag, because programs of revision 5 would not clear a
// flag.
constexpr std::string_view has_chunks =
    "(o.state IN (0, 3) OR (o.state = 1 AND NOT o.body_kept AND o.chunks_fence = o.fence))";

// Inserts a row only until $9: later its sender does not wait for it any more (ServerClock). A claim that is too late
// gets a result row without a record, with just the clock.
constexpr std::string_view claim_sql = R"sql(
WITH seen AS MATERIALIZED (
  SELECT i.*, {now} AS now, {found}, o.tombstone, o.outcome
  FROM unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::interval[], $5::interval[], $6::interval[], $7::text[],
              $8::text[])
       AS i(id, my_nonce, my_fingerprint, lease, ttl, my_tombstone, tenant, route)
  LEFT JOIN (SELECT * FROM once_operations WHERE id = ANY ($1)) AS o ON o.id = i.id
), made AS (
  INSERT INTO once_operations AS o (id, state, attempt, fence, fingerprint, nonce, started_at, lease_until, expires_at,
                                    sweep_at, ttl, tombstone, tenant, route)
  SELECT id, 0, 1, {fence}, my_fingerprint, my_nonce, now, coalesce(now + lease, 'infinity'),
         coalesce(now + ttl, 'infinity'), coalesce(now + ttl, 'infinity'), ttl, my_tombstone, tenant, route
  FROM seen WHERE state IS NULL AND now <= $9::timestamptz ORDER BY id
  ON CONFLICT (id) DO NOTHING
  RETURNING o.id, o.started_at AS now, true AS made, {record}, NULL::bytea
)
SELECT * FROM made
UNION ALL
SELECT o.id, o.now, false, {record}, o.outcome FROM seen AS o WHERE o.state IS NOT NULL OR o.now > $9)sql";

constexpr std::string_view take_sql = R"sql(
UPDATE once_operations AS o
SET state = 0, body_kept = true, outcome = NULL, attempt = i.attempt, fence = greatest(o.fence + 1, {fence}),
    fingerprint = i.fingerprint, nonce = i.nonce, started_at = {now},
    lease_until = coalesce({now} + i.lease, 'infinity'), expires_at = coalesce({now} + i.ttl, 'infinity'),
    sweep_at = coalesce({now} + i.ttl, 'infinity'), ttl = i.ttl, tombstone = i.tombstone, previous_state = i.previous_state,
    previous_started_at = i.previous_started_at, tenant = i.tenant, route = i.route
FROM unnest($1::bytea[], $3::bytea[], $4::bytea[], $5::interval[], $6::interval[], $7::interval[], $8::text[],
            $9::text[], $10::integer[], $11::smallint[], $12::timestamptz[], $13::bigint[], $14::smallint[],
            $15::timestamptz[])
     AS i(id, nonce, fingerprint, lease, ttl, tombstone, tenant, route, attempt, previous_state, previous_started_at, seen_fence,
          seen_state, seen_expires_at)
WHERE {mine} AND o.fence = i.seen_fence AND o.state = i.seen_state AND o.expires_at = i.seen_expires_at
  AND (o.state <> 0 OR {seized})
RETURNING o.id, o.started_at, true, {record}, NULL::bytea)sql";

// Takes operations from owners whose lease has ended, for a write in the same transaction. Locks the row, then raises
// the fence in the lease table above the owner's: an earlier renewal is found there, a later one finds the fence.
constexpr std::string_view seize_sql = R"sql(
WITH free AS MATERIALIZED (
  SELECT o.id, o.fence FROM once_operations AS o, unnest($1::bytea[], $3::bytea[]) AS i(id, nonce)
  WHERE $2::smallint < 2 AND {lapsed} ORDER BY o.id FOR NO KEY UPDATE OF o SKIP LOCKED
), waited_for AS MATERIALIZED (
  SELECT o.id, o.fence FROM once_operations AS o, unnest($1::bytea[], $3::bytea[]) AS i(id, nonce)
  WHERE $2::smallint = 2 AND {lapsed} ORDER BY o.id FOR NO KEY UPDATE OF o
)
INSERT INTO once_leases AS l (id, fence)
SELECT id, fence + 1 FROM free UNION ALL SELECT id, fence + 1 FROM waited_for
ON CONFLICT (id) DO UPDATE SET fence = EXCLUDED.fence, lease_until = NULL
WHERE l.fence < EXCLUDED.fence - 1 OR (l.fence <= EXCLUDED.fence AND (l.lease_until > {now}) IS NOT TRUE))sql";

constexpr std::string_view lapsed =
    "o.id = i.id AND o.id = ANY ($1) AND o.nonce = i.nonce AND o.state = 0 AND {} <= {}";

// Does not write the row itself: a backend that finishes it in an older transaction would have to start over.
constexpr std::string_view renew_sql = R"sql(
WITH owned AS MATERIALIZED (
  SELECT o.id, {now} AS now, coalesce({now} + i.lease, 'infinity') AS until, {record}, o.tombstone
  FROM once_operations AS o, unnest($1::bytea[], $3::bytea[], $4::interval[]) AS i(id, nonce, lease)
  WHERE {mine} AND o.nonce = i.nonce AND o.state = 0 AND {not_expired}
), beside AS (
  INSERT INTO once_leases AS l (id, fence, lease_until)
  SELECT id, fence, until FROM owned ORDER BY id
  ON CONFLICT (id) DO UPDATE SET fence = EXCLUDED.fence, lease_until = EXCLUDED.lease_until
  WHERE l.fence <= EXCLUDED.fence
  RETURNING l.id
)
SELECT o.id, o.now, true, {record}, NULL::bytea FROM owned AS o WHERE o.id IN (SELECT id FROM beside))sql";

constexpr std::string_view finish_sql = R"sql(
UPDATE once_operations AS o
SET state = i.state, body_kept = i.kept = 0, chunks_fence = CASE WHEN i.kept = 2 THEN o.fence ELSE 0 END,
    outcome = i.outcome, ttl = i.ttl, expires_at = i.expires_at,
    sweep_at = CASE WHEN i.expires_at BETWEEN o.sweep_at - interval '1 hour' AND o.sweep_at + interval '1 hour'
                    THEN o.sweep_at ELSE i.expires_at END
FROM (SELECT *, coalesce({now} + ttl, 'infinity') AS expires_at
      FROM unnest($1::bytea[], $3::bytea[], $4::smallint[], $5::smallint[], $6::bytea[], $7::interval[]{seen_type})
           AS each(id, nonce, state, kept, outcome, ttl{seen})) AS i
WHERE {mine} AND o.nonce = i.nonce AND {ends}
  AND {not_expired}
RETURNING o.id, {now}, true, {record}, NULL::bytea, {tell})sql";

// Which rows may be ended: an owner's claim; and by an operator, a key that is as it was seen and has no running owner.
constexpr std::string_view owner_ends = "(o.state = 0 OR (o.state = 3 AND i.state <> 3))";
constexpr std::string_view operator_ends = "o.state = i.seen AND (o.state = 3 OR (o.state = 0 AND {seized}))";

// The row of a first claim stays for a minute, expired: the next claim gets its fence, and a late copy of this claim
// finds its nonce, as in released_nonce().
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

// The row of a forgotten key stays for a minute, like that of a released claim and for the same reason.
constexpr std::string_view forget_sql = R"sql(
UPDATE once_operations AS o
SET state = 2, attempt = 0, nonce = '\x00000000000000000000000000000000', outcome = NULL, expires_at = {now},
    sweep_at = {now}, tombstone = interval '0'
FROM unnest($1::bytea[], $3::bytea[], $4::smallint[]) AS i(id, nonce, state)
WHERE {mine} AND o.nonce = i.nonce AND o.attempt > 0 AND (o.state <> 0 OR {seized})
  AND CASE WHEN {not_expired} THEN o.state WHEN coalesce(o.expires_at + o.tombstone, 'infinity') > {now} THEN 4 END
      = i.state
RETURNING o.id, {now}, true, {record}, NULL::bytea, {tell})sql";

constexpr std::string_view wait_sql = R"sql(
INSERT INTO once_leases AS l (id, waited)
SELECT o.id, true FROM once_operations AS o
WHERE o.id = ANY ($1::bytea[]) AND o.state = 0 AND o.xmax = 0
  AND (SELECT l.waited FROM once_leases AS l WHERE l.id = o.id) IS NOT TRUE
ORDER BY o.id
ON CONFLICT (id) DO UPDATE SET waited = true)sql";

constexpr std::string_view read_sql = R"sql(
SELECT i.id, {now}, false, {found}, o.outcome
FROM unnest($1::bytea[]) AS i(id) LEFT JOIN (SELECT * FROM once_operations WHERE id = ANY ($1)) AS o ON o.id = i.id)sql";

// Runs before an append, or an end that leaves the body in chunks, as a separate statement: what follows sees whether
// the other one has committed. Sorted, and the first lock of a transaction, so there are no deadlocks.
constexpr std::string_view hold_sql = R"sql(
SELECT c.number FROM once_chunks AS c, unnest($1::bytea[], $2::bytea[]) AS i(id, nonce)
WHERE c.id = i.id AND c.id = ANY ($1) AND c.nonce = i.nonce AND c.number = 0 ORDER BY c.id FOR NO KEY UPDATE OF c)sql";

// Does not lock the operation: that would be one more write to its row, and would wait for a backend that finishes it
// in a transaction. `hold` excludes an end that leaves the body in chunks. Every id gets a row: `made` says whether the
// owner matched.
constexpr std::string_view append_sql = R"sql(
WITH owned AS MATERIALIZED (
  SELECT o.id FROM once_operations AS o, unnest($1::bytea[], $2::bytea[]) AS i(id, nonce)
  WHERE o.id = i.id AND o.id = ANY ($1) AND o.nonce = i.nonce AND o.state = 0 AND {not_expired}
), added AS (
  INSERT INTO once_chunks (id, nonce, number, bytes)
  SELECT i.id, i.nonce, i.number, i.bytes
  FROM unnest($1::bytea[], $2::bytea[], $3::bigint[], $4::bytea[]) AS i(id, nonce, number, bytes)
  WHERE i.id IN (SELECT id FROM owned) ORDER BY i.id
  ON CONFLICT (id, nonce, number) DO NOTHING
  RETURNING id
)
SELECT i.id, {now}, i.id IN (SELECT id FROM owned), NULL::smallint,
       (SELECT {tell} FROM once_operations AS o WHERE o.id = i.id AND o.id IN (SELECT id FROM added))
FROM unnest($1) AS i(id))sql";

// The record and its chunks at one moment, up to the first missing one. The size of a chunk is known without reading
// it.
constexpr std::string_view read_chunks_sql = R"sql(
SELECT i.id, {now}, false, {found}, o.outcome,
       CASE WHEN {has_chunks} THEN ARRAY(
         SELECT c.bytes
         FROM (SELECT c.number, c.bytes, sum(octet_length(c.bytes)) OVER so_far AS total,
                      i.first + row_number() OVER so_far - 1 AS next
               FROM once_chunks AS c WHERE c.id = o.id AND c.nonce = o.nonce AND c.number >= i.first
               WINDOW so_far AS (ORDER BY c.number)) AS c
         WHERE c.number = c.next AND (c.number = i.first OR c.total <= i.most) ORDER BY c.number) END
FROM unnest($1::bytea[], $2::bigint[], $3::bigint[]) AS i(id, first, most)
LEFT JOIN (SELECT * FROM once_operations WHERE id = ANY ($1)) AS o ON o.id = i.id)sql";

// Released rows stay for a minute: no statement lasts that long, so none can still use an older fence. Rows to be
// remembered become tombstones without outcomes, and are handled again when that time is over. For the same reason a
// lease counts as ended only a minute later: no renewal can still be in progress. Chunks are obsolete if their
// operation has ended without them or has another owner. They are found from stream to stream, because there are far
// fewer streams than chunks: from a random one on, cyclically, but at most 10,000, because bodies that stay in chunks
// may be many more.
constexpr std::string_view sweep_steps = R"sql(
WITH RECURSIVE due AS MATERIALIZED (
  SELECT o.id, coalesce(o.expires_at + o.tombstone, 'infinity') AS forget_at FROM once_operations AS o
  WHERE o.sweep_at <= {now} AND o.expires_at <= {now} AND (o.state <> 0 OR {lease} <= {now} - interval '1 minute')
    AND (o.attempt > 0 OR o.expires_at <= {now} - interval '1 minute')
  ORDER BY o.sweep_at LIMIT $1::bigint FOR UPDATE SKIP LOCKED
), buried AS (
  UPDATE once_operations AS o
  SET state = 4, outcome = NULL, sweep_at = coalesce(o.expires_at + o.tombstone, 'infinity')
  WHERE o.id = ANY (ARRAY(SELECT id FROM due WHERE forget_at > {now}))
), removed AS (
  DELETE FROM once_operations AS o WHERE o.id = ANY (ARRAY(SELECT id FROM due WHERE forget_at <= {now}))
  RETURNING o.id
), cleared AS (
  DELETE FROM once_leases AS l WHERE l.id = ANY (ARRAY(
    SELECT l.id FROM once_leases AS l
    WHERE (l.lease_until > {now} - interval '1 minute') IS NOT TRUE
      AND (SELECT o.state FROM once_operations AS o WHERE o.id = l.id) IS DISTINCT FROM 0
    LIMIT $1::bigint FOR UPDATE SKIP LOCKED))
  RETURNING l.id
), streams AS (
  (SELECT f.id, f.nonce, f.id AS first_id, f.nonce AS first_nonce, 1 AS place FROM (
    (SELECT c.id, c.nonce FROM once_chunks AS c WHERE c.id > (SELECT uuid_send(gen_random_uuid()))
     ORDER BY c.id, c.nonce LIMIT 1)
    UNION ALL
    (SELECT c.id, c.nonce FROM once_chunks AS c ORDER BY c.id, c.nonce LIMIT 1)) AS f LIMIT 1)
  UNION ALL
  SELECT next.id, next.nonce, s.first_id, s.first_nonce, s.place + 1 FROM streams AS s CROSS JOIN LATERAL (
    SELECT n.id, n.nonce FROM (
      (SELECT c.id, c.nonce FROM once_chunks AS c WHERE (c.id, c.nonce) > (s.id, s.nonce)
       ORDER BY c.id, c.nonce LIMIT 1)
      UNION ALL
      (SELECT c.id, c.nonce FROM once_chunks AS c ORDER BY c.id, c.nonce LIMIT 1)) AS n LIMIT 1) AS next
  WHERE s.place < 10000 AND (next.id, next.nonce) <> (s.first_id, s.first_nonce)
), dropped AS (
  DELETE FROM once_chunks AS c WHERE c.ctid = ANY (ARRAY(
    SELECT old.ctid FROM streams AS s CROSS JOIN LATERAL (
      SELECT c.ctid FROM once_chunks AS c WHERE c.id = s.id AND c.nonce = s.nonce FOR UPDATE SKIP LOCKED) AS old
    WHERE (SELECT o.nonce = s.nonce AND {has_chunks} FROM once_operations AS o WHERE o.id = s.id) IS NOT TRUE
    LIMIT $1::bigint))
  RETURNING c.number
))sql";
constexpr std::string_view sweep_sql = R"sql({sweep}
SELECT (SELECT count(*) FROM removed), greatest((SELECT count(*) FROM due), (SELECT count(*) FROM cleared),
                                                       (SELECT count(*) FROM dropped)))sql";

// By the primary key, so that a page costs the same however large the table is. The size of an outcome is known without
// reading it.
constexpr std::string_view page_sql = R"sql(
SELECT o.id, {now}, false, {found}, NULL::bytea, o.tenant, o.route, coalesce(octet_length(o.outcome), 0)::bigint
FROM once_operations AS o WHERE {state} o.id > $1::bytea ORDER BY o.id LIMIT $2::bigint)sql";

constexpr std::string_view count_sql = R"sql(
WITH part AS MATERIALIZED (
  SELECT o.id, CASE WHEN o.attempt = 0 THEN -1 WHEN {not_expired} THEN CASE WHEN o.state = 0 AND {lease} <= {now} THEN 5 ELSE o.state END
                    WHEN coalesce(o.expires_at + o.tombstone, 'infinity') > {now} THEN 4 ELSE -1 END AS state
  FROM once_operations AS o WHERE {state} o.id > $1::bytea ORDER BY o.id LIMIT $2::bigint
)
SELECT s.state::smallint, count(*), (SELECT id FROM part ORDER BY id DESC LIMIT 1) FROM part AS s GROUP BY s.state)sql";

// The server's statistics of the table: its size in bytes, and its numbers of succeeded rows and tombstones. -1: it was
// never analysed.
constexpr std::string_view estimate_sql = R"sql(
WITH known AS MATERIALIZED (
  SELECT c.reltuples, s.most_common_vals::text::smallint[] AS states, s.most_common_freqs AS shares
  FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
  LEFT JOIN pg_stats AS s ON s.schemaname = n.nspname AND s.tablename = c.relname AND s.attname = 'state'
  WHERE c.oid = 'once_operations'::regclass
)
SELECT pg_relation_size('once_operations'),
       CASE WHEN k.reltuples < 0 OR k.states IS NULL THEN -1
            ELSE round(k.reltuples * coalesce(k.shares[array_position(k.states, 1::smallint)], 0)) END::bigint,
       CASE WHEN k.reltuples < 0 OR k.states IS NULL THEN -1
            ELSE round(k.reltuples * coalesce(k.shares[array_position(k.states, 4::smallint)], 0)) END::bigint
FROM known AS k)sql";

// Valid for the transaction, which is the round.
constexpr std::string_view hurry_sql = "SELECT set_config('lock_timeout', '100ms', true)";

std::string_view template_of(Statement statement) {
  switch (statement) {
    case Statement::claim: return claim_sql;
    case Statement::seize: return seize_sql;
    case Statement::take: return take_sql;
    case Statement::renew: return renew_sql;
    case Statement::finish:
    case Statement::resolve: return finish_sql;
    case Statement::release: return release_sql;
    case Statement::forget: return forget_sql;
    case Statement::wait: return wait_sql;
    case Statement::read: return read_sql;
    case Statement::hold: return hold_sql;
    case Statement::append: return append_sql;
    case Statement::read_chunks: return read_chunks_sql;
    case Statement::sweep: return sweep_sql;
    case Statement::hurry: return hurry_sql;
    case Statement::page:
    case Statement::page_started:
    case Statement::page_failed:
    case Statement::page_unknown: return page_sql;
    case Statement::count:
    case Statement::count_started:
    case Statement::count_failed:
    case Statement::count_unknown: return count_sql;
    case Statement::estimate: return estimate_sql;
  }
  ONCE_ASSERT(false);
}

// The state is part of the text, not a parameter: the partial index is used only for statements that repeat its
// condition.
std::string state_of(Statement statement) {
  constexpr std::string_view by_index = "o.state = {} AND (o.state IN (0, 2, 3)) IS TRUE AND";
  if (statement == Statement::page_started || statement == Statement::count_started) return fmt::format(by_index, 0);
  if (statement == Statement::page_failed || statement == Statement::count_failed) return fmt::format(by_index, 2);
  if (statement == Statement::page_unknown || statement == Statement::count_unknown) return fmt::format(by_index, 3);
  return "";
}

}  // namespace

const char* name_of(Statement statement) {
  switch (statement) {
    case Statement::claim: return "once_claim";
    case Statement::seize: return "once_seize";
    case Statement::take: return "once_take";
    case Statement::renew: return "once_renew";
    case Statement::finish: return "once_finish";
    case Statement::release: return "once_release";
    case Statement::forget: return "once_forget";
    case Statement::resolve: return "once_resolve";
    case Statement::wait: return "once_wait";
    case Statement::read: return "once_read";
    case Statement::hold: return "once_hold";
    case Statement::append: return "once_append";
    case Statement::read_chunks: return "once_read_chunks";
    case Statement::sweep: return "once_sweep";
    case Statement::hurry: return "once_hurry";
    case Statement::page: return "once_page";
    case Statement::count: return "once_count";
    case Statement::page_started: return "once_page_started";
    case Statement::page_failed: return "once_page_failed";
    case Statement::page_unknown: return "once_page_unknown";
    case Statement::count_started: return "once_count_started";
    case Statement::count_failed: return "once_count_failed";
    case Statement::count_unknown: return "once_count_unknown";
    case Statement::estimate: return "once_estimate";
  }
  ONCE_ASSERT(false);
}

std::string sweep_steps_sql() {
  return fmt::format(sweep_steps, fmt::arg("now", now), fmt::arg("lease", lease), fmt::arg("has_chunks", has_chunks));
}

std::string sql_of(Statement statement) {
  const bool resolves = statement == Statement::resolve;
  std::string found(record);
  found.replace(found.find(plain_lease), plain_lease.size(), fmt::format("{} AS lease_until", lease));
  const std::string ends = resolves ? fmt::format(operator_ends, fmt::arg("seized", seized)) : std::string(owner_ends);
  return fmt::format(fmt::runtime(template_of(statement)), fmt::arg("now", now), fmt::arg("fence", fence),
                     fmt::arg("record", record), fmt::arg("found", found), fmt::arg("lease", lease),
                     fmt::arg("lapsed", fmt::format(lapsed, lease, now)), fmt::arg("seized", seized),
                     fmt::arg("mine", mine), fmt::arg("not_expired", fmt::format(not_expired, now, lease)),
                     fmt::arg("tell", tell), fmt::arg("ends", ends), fmt::arg("has_chunks", has_chunks),
                     fmt::arg("state", state_of(statement)), fmt::arg("seen_type", resolves ? ", $8::smallint[]" : ""),
                     fmt::arg("seen", resolves ? ", seen" : ""), fmt::arg("sweep", sweep_steps_sql()));
}

const std::string& text_of(Statement statement) {
  static const auto texts = [] {
    std::array<std::string, all_statements.size()> made;
    for (const Statement each : all_statements) made.at(static_cast<std::size_t>(each)) = sql_of(each);
    return made;
  }();
  return texts.at(static_cast<std::size_t>(statement));
}

}  // namespace once::postgres
