-- Turns a new schema of revision 6 into one of revision 5, as gateways and sweeps see it. Views and sweeps are as `once schema`
-- of revision 5 printed them.
DROP VIEW once_keys;
ALTER TABLE once_operations DROP COLUMN chunks_fence, SET (fillfactor = 30);

CREATE VIEW once_keys AS
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

CREATE OR REPLACE FUNCTION once_sweep(max_rows integer DEFAULT 1000) RETURNS bigint
LANGUAGE sql STRICT SECURITY DEFINER SET search_path FROM CURRENT AS $body$
WITH RECURSIVE due AS MATERIALIZED (
  SELECT o.id, coalesce(o.expires_at + o.tombstone, 'infinity') AS forget_at FROM once_operations AS o
  WHERE o.sweep_at <= statement_timestamp()::timestamptz(3) AND o.expires_at <= statement_timestamp()::timestamptz(3) AND (o.state <> 0 OR CASE WHEN o.state = 0 THEN coalesce((SELECT l.lease_until FROM once_leases AS l WHERE l.id = o.id AND l.fence = o.fence), o.lease_until) ELSE o.lease_until END <= statement_timestamp()::timestamptz(3) - interval '1 minute')
    AND (o.attempt > 0 OR o.expires_at <= statement_timestamp()::timestamptz(3) - interval '1 minute')
  ORDER BY o.sweep_at LIMIT $1::bigint FOR UPDATE SKIP LOCKED
), buried AS (
  UPDATE once_operations AS o
  SET state = 4, outcome = NULL, sweep_at = coalesce(o.expires_at + o.tombstone, 'infinity')
  WHERE o.id = ANY (ARRAY(SELECT id FROM due WHERE forget_at > statement_timestamp()::timestamptz(3)))
), removed AS (
  DELETE FROM once_operations AS o WHERE o.id = ANY (ARRAY(SELECT id FROM due WHERE forget_at <= statement_timestamp()::timestamptz(3)))
  RETURNING o.id
), cleared AS (
  DELETE FROM once_leases AS l WHERE l.id = ANY (ARRAY(
    SELECT l.id FROM once_leases AS l
    WHERE (l.lease_until > statement_timestamp()::timestamptz(3) - interval '1 minute') IS NOT TRUE
      AND (SELECT o.state FROM once_operations AS o WHERE o.id = l.id) IS DISTINCT FROM 0
    LIMIT $1::bigint FOR UPDATE SKIP LOCKED))
  RETURNING l.id
), streams AS (
  (SELECT c.id, c.nonce FROM once_chunks AS c ORDER BY c.id, c.nonce LIMIT 1)
  UNION ALL
  SELECT next.id, next.nonce FROM streams AS s CROSS JOIN LATERAL (
    SELECT c.id, c.nonce FROM once_chunks AS c WHERE (c.id, c.nonce) > (s.id, s.nonce) ORDER BY c.id, c.nonce LIMIT 1
  ) AS next
), dropped AS (
  DELETE FROM once_chunks AS c WHERE c.ctid = ANY (ARRAY(
    SELECT old.ctid FROM streams AS s CROSS JOIN LATERAL (
      SELECT c.ctid FROM once_chunks AS c WHERE c.id = s.id AND c.nonce = s.nonce FOR UPDATE SKIP LOCKED) AS old
    WHERE (SELECT o.nonce = s.nonce AND o.state IN (0, 3) FROM once_operations AS o WHERE o.id = s.id) IS NOT TRUE
    LIMIT $1::bigint))
  RETURNING c.number
)
SELECT greatest((SELECT count(*) FROM due), (SELECT count(*) FROM dropped))
$body$;

UPDATE once_schema SET version = 5, revision = 5;
