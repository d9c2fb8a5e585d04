#include "store/postgres/schema_sql.hpp"

namespace once::postgres {

namespace {

constexpr std::string_view tables = R"sql(
-- One row for each operation. Raw keys are not in it: an id is a keyed hash.
CREATE TABLE IF NOT EXISTS once_operations (
  fence               bigint      NOT NULL,
  started_at          timestamptz NOT NULL,
  lease_until         timestamptz NOT NULL,
  expires_at          timestamptz NOT NULL,
  -- When the sweep first looks at the row. Within an hour of expires_at, and not changed with it, so that renewals and
  -- ends leave it where it is in its index.
  sweep_at            timestamptz NOT NULL,
  previous_started_at timestamptz,
  ttl                 interval,                          -- of the claim; null: for ever
  tombstone           interval    DEFAULT interval '0',  -- how long it is remembered after that; null: for ever
  attempt             integer     NOT NULL,              -- 0: released, kept for a minute so that fences only grow
  state               smallint    NOT NULL,              -- 0 started, 1 succeeded, 2 failed, 3 unknown, 4 tombstone
  previous_state      smallint    NOT NULL DEFAULT 3,
  body_kept           boolean     NOT NULL DEFAULT true,
  waited              boolean     NOT NULL DEFAULT false, -- somebody waits to be told of its end; see once_leases
  id                  bytea       PRIMARY KEY,
  fingerprint         bytea       NOT NULL,
  nonce               bytea       NOT NULL,              -- of the owner; all zero: nobody
  tenant              text        NOT NULL DEFAULT '',
  route               text        NOT NULL DEFAULT '',
  outcome             bytea
) WITH (
  -- A row is written when it is claimed and once more, larger, when it ends: room for that in the same page.
  fillfactor = 30,
  -- Every row is deleted within its time to live, so freezing new ones early is wasted.
  autovacuum_vacuum_insert_threshold = -1,
  autovacuum_vacuum_scale_factor = 0.05,
  autovacuum_vacuum_threshold = 5000,
  autovacuum_analyze_scale_factor = 0.05
);

-- What others write about an operation while its owner is at work: renewals of its lease, and that somebody waits. Not in
-- its row, so that a backend can finish it in a transaction that began before, at any isolation level. It counts for the
-- claim with the same fence. Used from version 3 on: older programs look for both in the row.
CREATE TABLE IF NOT EXISTS once_leases (
  fence       bigint      NOT NULL DEFAULT 0,            -- no claim with a lower one may be renewed any more
  lease_until timestamptz,                               -- null: that of the row counts
  waited      boolean     NOT NULL DEFAULT false,
  id          bytea       PRIMARY KEY
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);
DO $body$
DECLARE
  old pg_class := (SELECT c FROM pg_class AS c WHERE c.oid = 'once_operations'::regclass);
  new pg_class := (SELECT c FROM pg_class AS c WHERE c.oid = 'once_leases'::regclass);
  it  record;
BEGIN
  IF new.relowner <> old.relowner THEN
    EXECUTE format('ALTER TABLE once_leases OWNER TO %I', pg_get_userbyid(old.relowner));
  END IF;
  -- A gateway may do here what it may do there.
  FOR it IN SELECT a.privilege_type AS right, a.grantee FROM aclexplode(old.relacl) AS a
            WHERE a.grantee <> old.relowner AND a.privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
              AND NOT has_table_privilege(CASE WHEN a.grantee = 0 THEN 'public' ELSE pg_get_userbyid(a.grantee) END,
                                          'once_leases', a.privilege_type) LOOP
    EXECUTE format('GRANT %s ON once_leases TO %s', it.right,
                   CASE WHEN it.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(it.grantee)) END);
  END LOOP;
END $body$;

-- Only what is missing: each of these waits for everybody who writes, and lets nobody in meanwhile.
DO $body$ BEGIN
  -- Responses are often compressed or encrypted already; the ones that are not can be changed here.
  IF (SELECT attstorage FROM pg_attribute WHERE attrelid = 'once_operations'::regclass AND attname = 'outcome') <> 'e' THEN
    ALTER TABLE once_operations ALTER COLUMN outcome SET STORAGE EXTERNAL;
  END IF;
  IF to_regclass('once_operations_sweep') IS NULL THEN
    CREATE INDEX once_operations_sweep ON once_operations (sweep_at);
  END IF;
  -- Operations that wait for somebody, and those at work: operators find and count them without reading the others. Only
  -- statements that say IS TRUE as well can use it. To all others it would look like the cheapest way to a started row, but
  -- it holds every row that was started since the last vacuum.
  IF to_regclass('once_operations_open') IS NULL THEN
    CREATE INDEX once_operations_open ON once_operations (state, id) WHERE (state IN (0, 2, 3)) IS TRUE;
  END IF;
END $body$;

-- For people.
CREATE OR REPLACE VIEW once_keys AS
SELECT encode(id, 'hex') AS id,
       tenant,
       route,
       CASE WHEN attempt = 0 THEN 'released'
            WHEN expires_at <= statement_timestamp() AND (state <> 0 OR lease_until <= statement_timestamp())
              AND coalesce(expires_at + tombstone, 'infinity') > statement_timestamp() THEN 'tombstone'
            WHEN state = 0 AND lease_until <= statement_timestamp() THEN 'lapsed'
            ELSE (ARRAY['started', 'succeeded', 'failed', 'unknown', 'tombstone'])[state + 1] END AS state,
       attempt,
       fence,
       started_at,
       lease_until,
       expires_at,
       coalesce(expires_at + tombstone, 'infinity') AS forget_at,
       coalesce(expires_at + tombstone, 'infinity') <= statement_timestamp()
         AND (state <> 0 OR lease_until <= statement_timestamp()) AS expired,
       body_kept,
       octet_length(outcome) AS outcome_bytes
FROM (SELECT o.id, o.tenant, o.route, o.attempt, o.fence, o.state, o.started_at, o.expires_at, o.tombstone, o.body_kept,
             o.outcome,
             CASE WHEN o.state = 0 THEN coalesce((SELECT l.lease_until FROM once_leases AS l
                                                  WHERE l.id = o.id AND l.fence = o.fence), o.lease_until)
                  END AS lease_until
      FROM once_operations AS o) AS each;
COMMENT ON VIEW once_keys IS 'Operations as people read them; expired ones are as none, and go with the next sweep.';
)sql";

constexpr std::string_view rights = R"sql(
-- Who needs what, beside the owner of all this:
--   a gateway:  GRANT SELECT, INSERT, UPDATE, DELETE ON once_operations, once_leases TO gateway;
--               GRANT SELECT ON once_schema TO gateway;
--   a backend:  GRANT EXECUTE ON FUNCTION once_finish(text, integer, jsonb, text),
--                 once_finish(text, integer, jsonb, bytea), once_fail(text), once_renew(text, interval),
--                 once_release(text) TO backend;
--   a worker:   the same, and
--               GRANT EXECUTE ON FUNCTION once_claim(text, text, text, interval, interval, text, interval) TO worker;
-- A backend needs no right to the tables: these functions run with the rights of their owner, take a claim that only its
-- owner knows, and look for names in this schema only. Who may call once_claim can read every answer that was recorded
-- under a tenant and a key that it knows. Nobody else may create anything in this schema.
REVOKE ALL ON FUNCTION once_finish(text, integer, jsonb, text), once_finish(text, integer, jsonb, bytea),
  once_fail(text), once_renew(text, interval), once_release(text),
  once_claim(text, text, text, interval, interval, text, interval),
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
