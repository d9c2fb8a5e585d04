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
  -- When the sweep first looks at the row. Within an hour of expires_at, and not changed with it, so that the indexes
  -- are left alone when an operation ends.
  sweep_at            timestamptz NOT NULL,
  previous_started_at timestamptz,
  ttl                 interval,                          -- of the claim; null: for ever
  tombstone           interval    DEFAULT interval '0',  -- how long it is remembered after that; null: for ever
  attempt             integer     NOT NULL,              -- 0: released, kept for a minute so that fences only grow
  state               smallint    NOT NULL,              -- 0 started, 1 succeeded, 2 failed, 3 unknown, 4 tombstone
  previous_state      smallint    NOT NULL DEFAULT 3,
  body_kept           boolean     NOT NULL DEFAULT true,
  waited              boolean     NOT NULL DEFAULT false, -- somebody waits to be told of its end
  id                  bytea       PRIMARY KEY,
  fingerprint         bytea       NOT NULL,
  nonce               bytea       NOT NULL,              -- of the owner; all zero: nobody
  tenant              text        NOT NULL DEFAULT '',
  route               text        NOT NULL DEFAULT '',
  outcome             bytea
) WITH (
  -- A row is written when it is claimed and once more, larger, when it ends. Room for that in the same page, and no
  -- indexed column that changes, make the second write a heap-only one.
  fillfactor = 30,
  -- Every row is deleted within its time to live, so freezing new ones early is wasted.
  autovacuum_vacuum_insert_threshold = -1,
  autovacuum_vacuum_scale_factor = 0.05,
  autovacuum_vacuum_threshold = 5000,
  autovacuum_analyze_scale_factor = 0.05
);
-- Responses are often compressed or encrypted already; the ones that are not can be changed here.
ALTER TABLE once_operations ALTER COLUMN outcome SET STORAGE EXTERNAL;

CREATE INDEX IF NOT EXISTS once_operations_sweep ON once_operations (sweep_at);
-- Without the state: an index that holds it would have to be written whenever an operation ends.
CREATE INDEX IF NOT EXISTS once_operations_tenant ON once_operations (tenant, started_at);

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
       CASE WHEN state = 0 THEN lease_until END AS lease_until,
       expires_at,
       coalesce(expires_at + tombstone, 'infinity') AS forget_at,
       coalesce(expires_at + tombstone, 'infinity') <= statement_timestamp()
         AND (state <> 0 OR lease_until <= statement_timestamp()) AS expired,
       body_kept,
       octet_length(outcome) AS outcome_bytes
FROM once_operations;
COMMENT ON VIEW once_keys IS 'Operations as people read them; expired ones are as none, and go with the next sweep.';
)sql";

constexpr std::string_view rights = R"sql(
-- Who needs what, beside the owner of all this:
--   a gateway:  GRANT SELECT, INSERT, UPDATE, DELETE ON once_operations TO gateway;
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
