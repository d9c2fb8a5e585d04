-- Turns a new schema of revision 5 into one of revision 4, as gateways and sweeps see it. Views and sweeps are as `once schema`
-- of revision 4 printed them.
ALTER TABLE once_operations DROP COLUMN chunks_fence;

CREATE OR REPLACE SQL SECURITY INVOKER VIEW once_keys AS
SELECT LOWER(HEX(id)) AS id,
       tenant,
       route,
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
       LENGTH(outcome) AS outcome_bytes
FROM once_operations;

DROP PROCEDURE once_sweep;
CREATE PROCEDURE once_sweep(IN max_rows INT UNSIGNED)
  MODIFIES SQL DATA
  SQL SECURITY DEFINER
BEGIN
  IF COALESCE(max_rows, 0) = 0 THEN
    SIGNAL SQLSTATE '45002' SET MESSAGE_TEXT = 'max_rows must be more than 0', MYSQL_ERRNO = 31002;
  END IF;
  BEGIN
    DECLARE EXIT HANDLER FOR 1568
      SIGNAL SQLSTATE '45002'
        SET MESSAGE_TEXT = 'once_sweep commits: call it outside of a transaction', MYSQL_ERRNO = 31002;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  END;
  BEGIN
    DECLARE at_ms BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000;
    DECLARE swept INT UNSIGNED DEFAULT 0;
    DECLARE no_more BOOLEAN DEFAULT FALSE;
    DECLARE due_id BINARY(32);
    DECLARE forgotten INT;
    DECLARE dropped INT UNSIGNED DEFAULT 0;
    DECLARE chunk_id BINARY(32);
    DECLARE chunk_nonce BINARY(16);
    DECLARE chunk_number INT UNSIGNED;
    DECLARE free_number INT UNSIGNED;
    DECLARE due CURSOR FOR
      SELECT id FROM once_operations FORCE INDEX (once_operations_sweep)
      WHERE sweep_at <= at_ms AND expires_at <= at_ms AND (state <> 0 OR lease_until <= at_ms)
      ORDER BY sweep_at LIMIT max_rows;
    DECLARE orphans CURSOR FOR
      SELECT STRAIGHT_JOIN c.id, c.nonce, c.number
      FROM (SELECT DISTINCT id, nonce FROM once_chunks FORCE INDEX (PRIMARY)) AS s
      LEFT JOIN once_operations AS o FORCE INDEX (PRIMARY) ON o.id = s.id AND o.nonce = s.nonce AND o.state IN (0, 3)
      JOIN once_chunks AS c FORCE INDEX (PRIMARY) ON c.id = s.id AND c.nonce = s.nonce
      WHERE o.id IS NULL LIMIT max_rows;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET no_more = TRUE;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
      ROLLBACK;
      RESIGNAL;
    END;
    START TRANSACTION;
    OPEN due;
    sweeping: LOOP
      FETCH due INTO due_id;
      IF no_more THEN
        LEAVE sweeping;
      END IF;
      SET forgotten = NULL;
      SELECT tombstone <= at_ms - expires_at INTO forgotten FROM once_operations
      WHERE id = due_id AND expires_at <= at_ms AND (state <> 0 OR lease_until <= at_ms) FOR UPDATE SKIP LOCKED;
      SET no_more = FALSE;
      IF forgotten = 1 THEN
        DELETE FROM once_operations WHERE id = due_id;
        SET swept = swept + 1;
      ELSEIF forgotten = 0 THEN
        UPDATE once_operations
        SET state = 4,
            outcome = NULL,
            sweep_at = IF(tombstone > 9223372036854775807 - expires_at, 9223372036854775807, expires_at + tombstone)
        WHERE id = due_id;
        SET swept = swept + 1;
      END IF;
    END LOOP;
    CLOSE due;
    COMMIT;
    START TRANSACTION;
    SET no_more = FALSE;
    OPEN orphans;
    dropping: LOOP
      FETCH orphans INTO chunk_id, chunk_nonce, chunk_number;
      IF no_more THEN
        LEAVE dropping;
      END IF;
      SET free_number = NULL;
      SELECT number INTO free_number FROM once_chunks
      WHERE id = chunk_id AND nonce = chunk_nonce AND number = chunk_number FOR UPDATE SKIP LOCKED;
      SET no_more = FALSE;
      IF free_number IS NOT NULL THEN
        DELETE FROM once_chunks WHERE id = chunk_id AND nonce = chunk_nonce AND number = chunk_number;
        SET dropped = dropped + 1;
      END IF;
    END LOOP;
    CLOSE orphans;
    COMMIT;
    SELECT GREATEST(swept, dropped);
  END;
END;

INSERT INTO once_schema (only_row, version, revision, procedures) VALUES (1, 1, 4, 4) ON DUPLICATE KEY UPDATE version = 1, revision = 4, procedures = VALUES(procedures);
