-- The table `idempotency_keys` as a view of Once's table. For MariaDB and MySQL; apply it after `once schema mysql`.
--
-- An outcome begins with 24 bytes of lengths (little endian) and has the value at its end. Encrypted ones
-- (`encryption.keys`) cannot be read here. There is no `id`: `key_hash` is the primary key. `created_at` is when the first
-- attempt began; from the third attempt on, when the one before the latest did: no more is kept. ttl counts from the end of
-- the work, so an operation that ended has `completed_at` = `expires_at` - ttl.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW idempotency_keys AS
SELECT tenant,
       route AS scope,
       LOWER(HEX(id)) AS key_hash,
       LOWER(HEX(nonce)) AS claim_nonce,
       -- An operation with an unknown outcome is `started` and stale.
       IF(state IN (1, 2), ELT(state, 'succeeded', 'failed'), 'started') AS status,
       IF(state = 1 AND body_kept,
          CONVERT(SUBSTRING(outcome, 25 + CONV(HEX(REVERSE(SUBSTRING(outcome, 5, 4))), 16, 10)
                                        + CONV(HEX(REVERSE(SUBSTRING(outcome, 9, 4))), 16, 10)
                                        + CONV(HEX(REVERSE(SUBSTRING(outcome, 13, 4))), 16, 10)) USING utf8mb4),
          NULL) AS response_json,
       FROM_UNIXTIME(IF(attempt > 1, previous_started_at, started_at) / 1000) AS created_at,
       FROM_UNIXTIME(IF(state IN (1, 2), expires_at - ttl, started_at) / 1000) AS updated_at,
       FROM_UNIXTIME(started_at / 1000) AS started_at,
       IF(state IN (1, 2), FROM_UNIXTIME((expires_at - ttl) / 1000), NULL) AS completed_at,
       FROM_UNIXTIME(expires_at / 1000) AS expires_at,
       attempt AS attempt_count
FROM once_operations
WHERE state <> 4;

-- The rates of the whole table. It does not contain cache hits: Once counts these (/metrics).
-- A takeover is an attempt after one whose outcome is unknown (3). A retry of work that failed (2) is none.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW idempotency_rates AS
SELECT COUNT(*) AS total_keys,
       AVG(attempt > 1 AND previous_state = 3) AS stale_takeover_rate,
       AVG(state = 2) AS failure_rate,
       AVG(ttl) / 3600000 AS average_ttl_hours
FROM once_operations
WHERE state <> 4;
