#include "store/postgres/schema_sql.hpp"

namespace once::postgres {

namespace {

constexpr std::string_view tables = R"sql(
-- One row per operation. It does not contain raw keys: an id is a keyed hash.
CREATE TABLE IF NOT EXISTS once_operations (
  fence               bigint      NOT NULL,
  chunks_fence        bigint      NOT NULL DEFAULT 0,    -- equal to fence: the body stays in once_chunks, see body_kept
  started_at          timestamptz NOT NULL,
  lease_until         timestamptz NOT NULL,
  expires_at          timestamptz NOT NULL,
  -- When the sweep first checks the row: within an hour of expires_at. It does not change with expires_at, so that
  -- renewals and ends need no update of the index.
  sweep_at            timestamptz NOT NULL,
  previous_started_at timestamptz,
  ttl                 interval,                          -- of the claim; null: for ever
  tombstone           interval    DEFAULT interval '0',  -- how long the key is remembered after its expiry; null: for ever
  attempt             integer     NOT NULL,              -- 0: released, kept for a minute so that fences only grow
  state               smallint    NOT NULL,              -- 0 started, 1 succeeded, 2 failed, 3 unknown, 4 tombstone
  previous_state      smallint    NOT NULL DEFAULT 3,
  body_kept           boolean     NOT NULL DEFAULT true,  -- in the outcome
  waited              boolean     NOT NULL DEFAULT false, -- unused; statements of revision 5 name it
  id                  bytea       PRIMARY KEY,
  fingerprint         bytea       NOT NULL,
  nonce               bytea       NOT NULL,              -- of the owner; all zero: no owner
  tenant              text        NOT NULL DEFAULT '',
  route               text        NOT NULL DEFAULT '',
  outcome             bytea
) WITH (
  -- A row is written by its claim and grows when it ends. Its state is in an index, so the longer version never takes
  -- the index entries of the shorter one, and room for it in the same page is not worth more than this.
  fillfactor = 85,
  -- Rows are deleted after their time to live, so freezing them early is wasted work.
  autovacuum_vacuum_insert_threshold = -1,
  autovacuum_vacuum_scale_factor = 0.05,
  autovacuum_vacuum_threshold = 5000,
  autovacuum_analyze_scale_factor = 0.05
);

-- What gateways write about a running operation: renewals of its lease, and waiters. This is not in
-- the operation's row, so that a backend can finish it in a transaction that began earlier, at any isolation level. An
-- entry is valid for the claim with the same fence.
CREATE TABLE IF NOT EXISTS once_leases (
  fence       bigint      NOT NULL DEFAULT 0,            -- claims with a lower fence cannot be renewed
  lease_until timestamptz,                               -- null: see the row's lease
  waited      boolean     NOT NULL DEFAULT false,
  id          bytea       PRIMARY KEY
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

-- Chunks of responses that are recorded while they stream. They are read while their operation has their nonce and is
-- started, unknown, or succeeded with its body in chunks; afterwards the sweep removes them. Appending to a response, and
-- ending it with its body in chunks, both lock the first chunk, so that nothing is appended after an end.
CREATE TABLE IF NOT EXISTS once_chunks (
  number bigint NOT NULL,                                -- from 0
  id     bytea  NOT NULL,
  nonce  bytea  NOT NULL,
  bytes  bytea  NOT NULL,
  PRIMARY KEY (id, nonce, number)
) WITH (autovacuum_vacuum_insert_threshold = -1, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 5000);

-- Only if something is missing: each of these statements waits for all writers and blocks new ones.
DO $body$ BEGIN
  -- Responses are often already compressed or encrypted. Change this if yours are not.
  IF (SELECT attstorage FROM pg_attribute WHERE attrelid = 'once_operations'::regclass AND attname = 'outcome') <> 'e' THEN
    ALTER TABLE once_operations ALTER COLUMN outcome SET STORAGE EXTERNAL;
  END IF;
  IF (SELECT attstorage FROM pg_attribute WHERE attrelid = 'once_chunks'::regclass AND attname = 'bytes') <> 'e' THEN
    ALTER TABLE once_chunks ALTER COLUMN bytes SET STORAGE EXTERNAL;
  END IF;
  -- As in revision 5. Blocks no session; pages that are already full stay as they are.
  IF EXISTS (SELECT FROM pg_class WHERE oid = 'once_operations'::regclass AND 'fillfactor=30' = ANY (reloptions)) THEN
    ALTER TABLE once_operations SET (fillfactor = 85);
  END IF;
  -- Instant, however large the table is.
  IF NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'once_operations'::regclass AND attname = 'chunks_fence') THEN
    ALTER TABLE once_operations ADD COLUMN chunks_fence bigint NOT NULL DEFAULT 0;
  END IF;
  IF to_regclass('once_operations_sweep') IS NULL THEN
    CREATE INDEX once_operations_sweep ON once_operations (sweep_at);
  END IF;
  -- Running and unsettled operations, so that operators can find and count them without reading the others. Only
  -- statements with the same IS TRUE condition can use this index. For others it would seem the cheapest way to a started
  -- row, although it contains every row that was started since the last vacuum.
  IF to_regclass('once_operations_open') IS NULL THEN
    CREATE INDEX once_operations_open ON once_operations (state, id) WHERE (state IN (0, 2, 3)) IS TRUE;
  END IF;
END $body$;

-- A readable view, for operators. Its moment is rounded to the millisecond, as those that gateways write: without
-- that, a key would look alive for up to half a millisecond after its release.
CREATE OR REPLACE VIEW once_keys AS
SELECT encode(id, 'hex') AS id,
       tenant,
       split_part(route, chr(9), 1) AS route,
       CASE WHEN attempt = 0 THEN 'released'
            WHEN expires_at <= moment.now AND (state <> 0 OR lease_until <= moment.now)
              AND coalesce(expires_at + tombstone, 'infinity') > moment.now THEN 'tombstone'
            WHEN state = 0 AND lease_until <= moment.now THEN 'lapsed'
            ELSE (ARRAY['started', 'succeeded', 'failed', 'unknown', 'tombstone'])[state + 1] END AS state,
       attempt,
       fence,
       started_at,
       lease_until,
       expires_at,
       coalesce(expires_at + tombstone, 'infinity') AS forget_at,
       coalesce(expires_at + tombstone, 'infinity') <= moment.now
         AND (state <> 0 OR lease_until <= moment.now) AS expired,
       body_kept,
       octet_length(outcome) AS outcome_bytes,
       NOT body_kept AND chunks_fence = fence AS body_in_chunks
FROM (SELECT o.id, o.tenant, o.route, o.attempt, o.fence, o.state, o.started_at, o.expires_at, o.tombstone, o.body_kept,
             o.chunks_fence, o.outcome,
             CASE WHEN o.state = 0 THEN coalesce((SELECT l.lease_until FROM once_leases AS l
                                                  WHERE l.id = o.id AND l.fence = o.fence), o.lease_until)
                  END AS lease_until
      FROM once_operations AS o) AS each,
     (SELECT statement_timestamp()::timestamptz(3) AS now) AS moment;
COMMENT ON VIEW once_keys IS 'Operations as people read them; expired ones are as none, and go with the next sweep.';
)sql";

constexpr std::string_view rights = R"sql(
-- Privileges, besides those of the schema's owner:
--   a gateway:  GRANT SELECT, INSERT, UPDATE, DELETE ON once_operations, once_leases, once_chunks TO gateway;
--               GRANT SELECT ON once_schema TO gateway;
--   a backend:  GRANT EXECUTE ON FUNCTION once_finish(text, integer, jsonb, text),
--                 once_finish(text, integer, jsonb, bytea), once_fail(text), once_renew(text, interval),
--                 once_release(text) TO backend;
--   a worker:   the same, and
--               GRANT EXECUTE ON FUNCTION once_claim(text, text, text, interval, interval, text, interval) TO worker;
--   a job that removes expired rows:
--               GRANT EXECUTE ON FUNCTION once_sweep(integer) TO job;
-- A backend needs no privileges on the tables: these functions run with the rights of their owner, need a claim that only
-- its owner knows, and resolve names in this schema only. Users with EXECUTE on once_claim can read every recorded
-- response whose tenant and key they know. No other user may have CREATE on this schema.
REVOKE ALL ON FUNCTION once_finish(text, integer, jsonb, text), once_finish(text, integer, jsonb, bytea),
  once_fail(text), once_renew(text, interval), once_release(text),
  once_claim(text, text, text, interval, interval, text, interval), once_sweep(integer),
  once_owned(text), once_little_endian(bigint, integer), once_header_lines(jsonb),
  once_encoded(integer, jsonb, bytea), once_recorded(text, smallint, bytea), once_part(text), once_integer(bytea, integer),
  once_headers(text), once_verdict(once_operations, bytea, text, interval, timestamptz) FROM PUBLIC;
)sql";

}  // namespace

std::string_view tables_sql() {
  return tables;
}

std::string_view rights_sql() {
  return rights;
}

}  // namespace once::postgres
