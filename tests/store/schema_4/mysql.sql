-- The schema of Once for MySQL 8 and MariaDB 10.10 or newer. Safe to run twice.
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

CREATE TABLE IF NOT EXISTS once_operations (
  id                  BINARY(32)       NOT NULL,
  state               TINYINT UNSIGNED NOT NULL,            -- 0 started, 1 succeeded, 2 failed, 3 unknown, 4 tombstone
  body_kept           TINYINT UNSIGNED NOT NULL DEFAULT 1,
  attempt             INT UNSIGNED     NOT NULL,
  fence               BIGINT UNSIGNED  NOT NULL,
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
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4;

CREATE TABLE IF NOT EXISTS once_chunks (
  id       BINARY(32)   NOT NULL,
  nonce    BINARY(16)   NOT NULL,
  number   INT UNSIGNED NOT NULL,            -- from 0
  size     INT UNSIGNED NOT NULL,            -- of the bytes
  repeated INT UNSIGNED NOT NULL DEFAULT 0,  -- counts repeated appends, so that each of them is a durable commit
  bytes    LONGBLOB     NOT NULL,
  PRIMARY KEY (id, nonce, number)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4;

CREATE TABLE IF NOT EXISTS once_schema (
  only_row   TINYINT UNSIGNED NOT NULL DEFAULT 1,
  version    INT UNSIGNED     NOT NULL,            -- the oldest program that can use it, by the revision it was made for
  revision   INT UNSIGNED     NOT NULL DEFAULT 1,
  procedures INT UNSIGNED     NOT NULL DEFAULT 0,  -- the revision that they have; 0: there are none
  PRIMARY KEY (only_row)
) ENGINE=InnoDB;

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

SET @once_step = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'once_schema' AND column_name = 'revision') = 1, 'DO 0', 'ALTER TABLE once_schema ADD COLUMN revision INT UNSIGNED NOT NULL DEFAULT 1');
PREPARE once_step FROM @once_step;
EXECUTE once_step;
DEALLOCATE PREPARE once_step;

SET @once_step = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'once_schema' AND column_name = 'procedures') = 1, 'DO 0', 'ALTER TABLE once_schema ADD COLUMN procedures INT UNSIGNED NOT NULL DEFAULT 0');
PREPARE once_step FROM @once_step;
EXECUTE once_step;
DEALLOCATE PREPARE once_step;

SET @once_step = IF((SELECT COUNT(*) FROM once_schema WHERE revision < 3 AND procedures = 0) = 0, 'DO 0', 'UPDATE once_schema SET procedures = revision WHERE revision < 3');
PREPARE once_step FROM @once_step;
EXECUTE once_step;
DEALLOCATE PREPARE once_step;

SET @once_step = IF((SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'once_operations' AND index_name = 'once_operations_state') > 0, 'DO 0', 'ALTER TABLE once_operations ADD INDEX once_operations_state (state, started_at), ALGORITHM=INPLACE, LOCK=NONE');
PREPARE once_step FROM @once_step;
EXECUTE once_step;
DEALLOCATE PREPARE once_step;

SET @once_step = IF((SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'once_operations' AND index_name = 'once_operations_tenant') = 0, 'DO 0', 'ALTER TABLE once_operations DROP INDEX once_operations_tenant, ALGORITHM=INPLACE, LOCK=NONE');
PREPARE once_step FROM @once_step;
EXECUTE once_step;
DEALLOCATE PREPARE once_step;

DELIMITER $$

DROP PROCEDURE IF EXISTS once_parse_claim$$
CREATE PROCEDURE once_parse_claim(IN in_claim TEXT, OUT out_id BINARY(32), OUT out_nonce BINARY(16))
  NO SQL
  SQL SECURITY DEFINER
BEGIN
  DECLARE id_bytes VARBINARY(64) DEFAULT NULL;
  DECLARE nonce_bytes VARBINARY(64) DEFAULT NULL;
  IF LENGTH(in_claim) = 97 AND SUBSTRING(in_claim, 65, 1) = '.' THEN
    SET id_bytes = UNHEX(LEFT(in_claim, 64));
    SET nonce_bytes = UNHEX(RIGHT(in_claim, 32));
  END IF;
  IF id_bytes IS NULL OR nonce_bytes IS NULL OR LENGTH(id_bytes) <> 32 OR LENGTH(nonce_bytes) <> 16
      OR nonce_bytes = UNHEX(REPEAT('0', 32)) THEN
    SIGNAL SQLSTATE '45002'
      SET MESSAGE_TEXT = 'not a claim: it must be the value of the Idempotency-Claim header', MYSQL_ERRNO = 31002;
  END IF;
  SET out_id = id_bytes;
  SET out_nonce = nonce_bytes;
END$$

DROP PROCEDURE IF EXISTS once_refuse$$
CREATE PROCEDURE once_refuse(IN in_id BINARY(32), IN in_nonce BINARY(16), IN in_state INT)
  READS SQL DATA
  SQL SECURITY DEFINER
BEGIN
  DECLARE row_state INT DEFAULT NULL;
  DECLARE row_nonce BINARY(16) DEFAULT NULL;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET row_state = NULL;
  SELECT state, nonce INTO row_state, row_nonce FROM once_operations WHERE id = in_id FOR UPDATE;
  IF row_state IS NULL THEN
    SIGNAL SQLSTATE '45001'
      SET MESSAGE_TEXT = 'the claim is not current: its operation was released or has expired', MYSQL_ERRNO = 31001;
  ELSEIF row_nonce <> in_nonce THEN
    SIGNAL SQLSTATE '45001'
      SET MESSAGE_TEXT = 'the claim is not current: it was released, or another attempt took over', MYSQL_ERRNO = 31001;
  ELSEIF row_state = in_state THEN
    SIGNAL SQLSTATE '45003'
      SET MESSAGE_TEXT = 'the operation was finished before under this claim, and its work committed',
          MYSQL_ERRNO = 31003;
  ELSEIF row_state <> 0 THEN
    SIGNAL SQLSTATE '45001'
      SET MESSAGE_TEXT = 'the claim is not current: the operation has ended in another way', MYSQL_ERRNO = 31001;
  ELSE
    SIGNAL SQLSTATE '45001' SET MESSAGE_TEXT = 'the claim is not current: it has expired', MYSQL_ERRNO = 31001;
  END IF;
END$$

DROP PROCEDURE IF EXISTS once_header_lines$$
CREATE PROCEDURE once_header_lines(IN in_headers JSON, OUT out_lines LONGBLOB, OUT out_request VARBINARY(128))
  NO SQL
  SQL SECURITY DEFINER
BEGIN
  DECLARE header_names JSON;
  DECLARE name TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
  DECLARE list JSON;
  DECLARE item JSON;
  DECLARE value LONGBLOB;
  DECLARE place INT DEFAULT 0;
  DECLARE item_place INT;
  SET out_lines = '';
  SET out_request = '';
  IF in_headers IS NULL THEN
    SET in_headers = '{}';
  END IF;
  IF NOT JSON_VALID(in_headers) OR JSON_TYPE(in_headers) <> 'OBJECT' THEN
    SIGNAL SQLSTATE '45002'
      SET MESSAGE_TEXT = 'headers must be a JSON object of names and values', MYSQL_ERRNO = 31002;
  END IF;
  SET header_names = JSON_KEYS(in_headers);
  WHILE place < JSON_LENGTH(header_names) DO
    SET name = JSON_UNQUOTE(JSON_EXTRACT(header_names, CONCAT('$[', place, ']')));
    SET place = place + 1;
    IF name = '' OR name REGEXP '[^!\\#\\$%\\&\'*+.\\^_`|~0-9A-Za-z\\-]' THEN
      SIGNAL SQLSTATE '45002' SET MESSAGE_TEXT = 'a header has a name that HTTP does not allow', MYSQL_ERRNO = 31002;
    END IF;
    IF LOWER(name) = 'x-request-id' THEN
      SET item = JSON_EXTRACT(in_headers, CONCAT('$."', name, '"'));
      SET value = CAST(CONVERT(JSON_UNQUOTE(item) USING utf8mb4) AS BINARY);
      IF JSON_TYPE(item) = 'STRING' AND LENGTH(value) BETWEEN 1 AND 128
          AND CONVERT(JSON_UNQUOTE(item) USING utf8mb4) COLLATE utf8mb4_bin NOT REGEXP '[^!\\#-\\[\\]-~]' THEN
        SET out_request = value;
      END IF;
    END IF;
    IF LOWER(name) NOT IN (
        'connection', 'content-length', 'date', 'idempotency-expires', 'idempotency-policy', 'idempotency-replayed',
        'idempotency-status', 'idempotent-replayed', 'keep-alive', 'original-request-id', 'proxy-authenticate',
        'proxy-authorization', 'proxy-connection', 'set-cookie', 'te', 'trailer', 'transfer-encoding', 'upgrade',
        'x-request-id') THEN
      SET list = JSON_EXTRACT(in_headers, CONCAT('$."', name, '"'));
      IF JSON_TYPE(list) <> 'ARRAY' THEN
        SET list = JSON_EXTRACT(CONCAT('[', list, ']'), '$');
      END IF;
      SET item_place = 0;
      WHILE item_place < JSON_LENGTH(list) DO
        SET item = JSON_EXTRACT(list, CONCAT('$[', item_place, ']'));
        SET item_place = item_place + 1;
        IF JSON_TYPE(item) IN ('OBJECT', 'ARRAY', 'BOOLEAN', 'NULL') THEN
          SIGNAL SQLSTATE '45002'
            SET MESSAGE_TEXT = 'a header must be a string, a number or an array of them', MYSQL_ERRNO = 31002;
        END IF;
        SET value = CAST(CONVERT(JSON_UNQUOTE(item) USING utf8mb4) AS BINARY);
        IF LOCATE(0x00, value) OR LOCATE(0x0A, value) OR LOCATE(0x0D, value) THEN
          SIGNAL SQLSTATE '45002'
            SET MESSAGE_TEXT = 'a header has a line break or a zero byte in its value', MYSQL_ERRNO = 31002;
        END IF;
        SET out_lines = CONCAT(out_lines, CAST(name AS BINARY), ': ', value, 0x0D0A);
      END WHILE;
    END IF;
  END WHILE;
END$$

DROP PROCEDURE IF EXISTS once_look_at_latest$$
CREATE PROCEDURE once_look_at_latest(OUT out_before INT)
  SQL SECURITY DEFINER
BEGIN
  DECLARE CONTINUE HANDLER FOR SQLEXCEPTION SET out_before = NULL;
  SET out_before = NULL;
  SET @once_before = NULL;
  PREPARE once_look FROM 'SET @once_before = @@SESSION.innodb_snapshot_isolation';
  EXECUTE once_look;
  IF @once_before THEN
    PREPARE once_look FROM 'SET SESSION innodb_snapshot_isolation = OFF';
    EXECUTE once_look;
    SET out_before = 1;
  END IF;
  DEALLOCATE PREPARE once_look;
END$$

DROP PROCEDURE IF EXISTS once_look_as_before$$
CREATE PROCEDURE once_look_as_before(IN in_before INT)
  SQL SECURITY DEFINER
BEGIN
  IF in_before THEN
    PREPARE once_look FROM 'SET SESSION innodb_snapshot_isolation = ON';
    EXECUTE once_look;
    DEALLOCATE PREPARE once_look;
  END IF;
END$$

DROP PROCEDURE IF EXISTS once_record$$
CREATE PROCEDURE once_record(IN in_claim TEXT, IN in_state INT, IN in_outcome LONGBLOB)
  MODIFIES SQL DATA
  SQL SECURITY DEFINER
BEGIN
  DECLARE wanted BINARY(32);
  DECLARE owner BINARY(16);
  DECLARE at_ms BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000;
  CALL once_parse_claim(in_claim, wanted, owner);
  UPDATE once_operations
  SET state = in_state,
      body_kept = 1,
      outcome = in_outcome,
      expires_at = IF(ttl > 9223372036854775807 - at_ms, 9223372036854775807, at_ms + ttl),
      sweep_at = expires_at
  WHERE id = wanted AND nonce = owner AND state IN (0, 3)
    AND (expires_at > at_ms OR (state = 0 AND lease_until > at_ms));
  IF ROW_COUNT() = 0 THEN
    CALL once_refuse(wanted, owner, in_state);
  END IF;
END$$

DROP PROCEDURE IF EXISTS once_finish$$
CREATE PROCEDURE once_finish(IN claim TEXT, IN status INT, IN headers JSON, IN body LONGBLOB)
  MODIFIES SQL DATA
  SQL SECURITY DEFINER
BEGIN
  DECLARE header_lines LONGBLOB;
  DECLARE request VARBINARY(128);  -- its id: replays have it as Original-Request-Id
  DECLARE content LONGBLOB DEFAULT COALESCE(body, '');
  DECLARE encoded LONGBLOB;
  DECLARE looked_before INT DEFAULT NULL;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION
  BEGIN
    ROLLBACK;
    CALL once_look_as_before(looked_before);
    RESIGNAL;
  END;
  CALL once_look_at_latest(looked_before);
  IF status IS NULL OR status NOT BETWEEN 200 AND 599 THEN
    SIGNAL SQLSTATE '45002' SET MESSAGE_TEXT = 'status must be from 200 to 599', MYSQL_ERRNO = 31002;
  END IF;
  CALL once_header_lines(headers, header_lines, request);
  -- Encoded for the gateway: version 1, little endian, no reason phrase.
  SET encoded = CONCAT(0x0100, REVERSE(UNHEX(LPAD(HEX(status), 4, '0'))), 0x00000000,
                       REVERSE(UNHEX(LPAD(HEX(LENGTH(request)), 8, '0'))),
                       REVERSE(UNHEX(LPAD(HEX(LENGTH(header_lines)), 8, '0'))),
                       REVERSE(UNHEX(LPAD(HEX(LENGTH(content)), 16, '0'))), request, header_lines, content);
  IF encoded IS NULL THEN
    SIGNAL SQLSTATE '45002' SET MESSAGE_TEXT = 'the body does not fit into max_allowed_packet', MYSQL_ERRNO = 31002;
  END IF;
  CALL once_record(claim, 1, encoded);
  CALL once_look_as_before(looked_before);
END$$

DROP PROCEDURE IF EXISTS once_fail$$
CREATE PROCEDURE once_fail(IN claim TEXT)
  MODIFIES SQL DATA
  SQL SECURITY DEFINER
BEGIN
  DECLARE looked_before INT DEFAULT NULL;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION
  BEGIN
    ROLLBACK;
    CALL once_look_as_before(looked_before);
    RESIGNAL;
  END;
  CALL once_look_at_latest(looked_before);
  CALL once_record(claim, 2, NULL);
  CALL once_look_as_before(looked_before);
END$$

DROP PROCEDURE IF EXISTS once_renew$$
CREATE PROCEDURE once_renew(IN claim TEXT, IN lease_seconds DECIMAL(20, 3))
  MODIFIES SQL DATA
  SQL SECURITY DEFINER
BEGIN
  DECLARE wanted BINARY(32);
  DECLARE owner BINARY(16);
  DECLARE at_ms BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000;
  DECLARE looked_before INT DEFAULT NULL;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION
  BEGIN
    ROLLBACK;
    CALL once_look_as_before(looked_before);
    RESIGNAL;
  END;
  CALL once_look_at_latest(looked_before);
  CALL once_parse_claim(claim, wanted, owner);
  IF lease_seconds IS NULL OR lease_seconds <= 0 OR lease_seconds > 3155760000 THEN
    SIGNAL SQLSTATE '45002'
      SET MESSAGE_TEXT = 'lease_seconds must be more than 0 and at most 100 years', MYSQL_ERRNO = 31002;
  END IF;
  -- Always changes the row, even within one millisecond: only changed rows are counted, not matched ones.
  UPDATE once_operations
  SET lease_until = IF(lease_until = at_ms + CAST(lease_seconds * 1000 AS SIGNED), lease_until + 1,
                       at_ms + CAST(lease_seconds * 1000 AS SIGNED))
  WHERE id = wanted AND nonce = owner AND state = 0 AND (expires_at > at_ms OR lease_until > at_ms);
  IF ROW_COUNT() = 0 THEN
    CALL once_refuse(wanted, owner, -1);
  END IF;
  CALL once_look_as_before(looked_before);
END$$

DROP PROCEDURE IF EXISTS once_release$$
CREATE PROCEDURE once_release(IN claim TEXT)
  MODIFIES SQL DATA
  SQL SECURITY DEFINER
BEGIN
  DECLARE wanted BINARY(32);
  DECLARE owner BINARY(16);
  DECLARE changed INT;
  DECLARE at_ms BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000;
  DECLARE looked_before INT DEFAULT NULL;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION
  BEGIN
    ROLLBACK;
    CALL once_look_as_before(looked_before);
    RESIGNAL;
  END;
  CALL once_look_at_latest(looked_before);
  CALL once_parse_claim(claim, wanted, owner);
  DELETE FROM once_operations
  WHERE id = wanted AND nonce = owner AND state = 0 AND attempt = 1 AND (expires_at > at_ms OR lease_until > at_ms);
  SET changed = ROW_COUNT();
  IF changed = 0 THEN
    UPDATE once_operations
    SET state = previous_state,
        attempt = attempt - 1,
        started_at = previous_started_at,
        nonce = 0x00000000000000000000000000000000
    WHERE id = wanted AND nonce = owner AND state = 0 AND attempt > 1 AND (expires_at > at_ms OR lease_until > at_ms);
    SET changed = ROW_COUNT();
  END IF;
  IF changed = 0 THEN
    CALL once_refuse(wanted, owner, -1);
  END IF;
  CALL once_look_as_before(looked_before);
END$$

DROP PROCEDURE IF EXISTS once_header_object$$
CREATE PROCEDURE once_header_object(IN in_lines LONGBLOB, OUT out_headers JSON)
  NO SQL
  SQL SECURITY DEFINER
BEGIN
  DECLARE line_end INT;
  DECLARE line LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
  DECLARE name_path TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
  DECLARE value LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
  SET out_headers = JSON_OBJECT();
  SET line_end = LOCATE(0x0D0A, in_lines);
  WHILE line_end > 0 DO
    SET line = CONVERT(LEFT(in_lines, line_end - 1) USING utf8mb4);
    SET in_lines = SUBSTRING(in_lines, line_end + 2);
    SET line_end = LOCATE(0x0D0A, in_lines);
    SET name_path = CONCAT('$."', SUBSTRING_INDEX(line, ':', 1), '"');
    SET value = TRIM(SUBSTRING(line, LOCATE(':', line) + 1));
    IF JSON_CONTAINS_PATH(out_headers, 'one', name_path) THEN
      SET out_headers = JSON_ARRAY_APPEND(out_headers, name_path, value);
    ELSE
      SET out_headers = JSON_SET(out_headers, name_path, value);
    END IF;
  END WHILE;
END$$

DROP PROCEDURE IF EXISTS once_verdict$$
CREATE PROCEDURE once_verdict(IN in_id BINARY(32), IN in_fingerprint BINARY(32), IN in_on_unknown TEXT,
    IN in_takeover_ms BIGINT, IN at_ms BIGINT, OUT out_verdict TEXT)
  READS SQL DATA
  SQL SECURITY DEFINER
BEGIN
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET out_verdict = 'execute';
  SELECT CASE
    WHEN expires_at <= at_ms AND (state <> 0 OR lease_until <= at_ms)
      THEN IF(tombstone <= at_ms - expires_at, 'execute', 'gone')
    WHEN state = 4 THEN 'gone'
    WHEN fingerprint <> in_fingerprint THEN 'mismatch'
    WHEN state = 1 THEN IF(body_kept, 'replay', 'not_kept')
    WHEN state = 2 THEN 'execute'
    WHEN state = 0 AND lease_until > at_ms THEN 'in_flight'
    WHEN in_on_unknown = 'retry' THEN 'execute'
    WHEN in_on_unknown = 'hold' THEN 'held'
    WHEN started_at <= at_ms - in_takeover_ms THEN 'execute'
    ELSE 'too_early' END
  INTO out_verdict FROM once_operations WHERE id = in_id;
END$$

DROP PROCEDURE IF EXISTS once_take$$
CREATE PROCEDURE once_take(IN in_id BINARY(32), IN in_fingerprint BINARY(32), IN in_nonce BINARY(16),
    IN in_on_unknown TEXT, IN in_takeover_ms BIGINT, IN in_lease_ms BIGINT, IN in_ttl_ms BIGINT, IN in_tenant TEXT,
    IN at_ms BIGINT)
  MODIFIES SQL DATA
  SQL SECURITY DEFINER
BEGIN
  DECLARE at_us BIGINT UNSIGNED DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
  INSERT INTO once_operations (id, state, body_kept, attempt, fence, fingerprint, nonce, started_at, lease_until,
                               expires_at, sweep_at, ttl, previous_state, previous_started_at, outcome, tenant, route)
  VALUES (in_id, 0, 1, 1, at_us, in_fingerprint, in_nonce, at_ms, at_ms + in_lease_ms, at_ms + in_ttl_ms, at_ms + in_ttl_ms,
          in_ttl_ms, 3, 0, NULL, LEFT(in_tenant, 255), 'once_claim')
  ON DUPLICATE KEY UPDATE
    nonce = IF((tombstone <= at_ms - expires_at AND (state <> 0 OR lease_until <= at_ms))
                 OR (fingerprint = VALUES(fingerprint) AND expires_at > at_ms
                     AND (state = 2
                          OR ((state = 3 OR (state = 0 AND lease_until <= at_ms))
                              AND (in_on_unknown = 'retry'
                                   OR (in_on_unknown = 'takeover' AND started_at <= at_ms - in_takeover_ms))))),
               VALUES(nonce), nonce),
    attempt = IF(nonce = VALUES(nonce), IF(expires_at <= at_ms, 1, attempt + 1), attempt),
    fence = IF(nonce = VALUES(nonce), GREATEST(fence + 1, VALUES(fence)), fence),
    fingerprint = IF(nonce = VALUES(nonce), VALUES(fingerprint), fingerprint),
    previous_state = IF(nonce = VALUES(nonce), IF(expires_at <= at_ms OR state = 0, 3, state), previous_state),
    previous_started_at = IF(nonce = VALUES(nonce), IF(expires_at <= at_ms, 0, started_at), previous_started_at),
    started_at = IF(nonce = VALUES(nonce), VALUES(started_at), started_at),
    lease_until = IF(nonce = VALUES(nonce), VALUES(lease_until), lease_until),
    ttl = IF(nonce = VALUES(nonce), VALUES(ttl), ttl),
    tombstone = IF(nonce = VALUES(nonce), 0, tombstone),
    sweep_at = IF(nonce = VALUES(nonce), VALUES(sweep_at), sweep_at),
    body_kept = IF(nonce = VALUES(nonce), 1, body_kept),
    outcome = IF(nonce = VALUES(nonce), NULL, outcome),
    state = IF(nonce = VALUES(nonce), 0, state),
    expires_at = IF(nonce = VALUES(nonce), VALUES(expires_at), expires_at);
END$$

DROP PROCEDURE IF EXISTS once_claim$$
CREATE PROCEDURE once_claim(IN in_tenant TEXT CHARACTER SET utf8mb4, IN in_key TEXT CHARACTER SET utf8mb4,
    IN in_fingerprint LONGBLOB, IN lease_seconds DECIMAL(20, 3), IN ttl_seconds DECIMAL(20, 3), IN on_unknown TEXT,
    IN takeover_after_seconds DECIMAL(20, 3))
  MODIFIES SQL DATA
  SQL SECURITY DEFINER
BEGIN
  DECLARE wanted BINARY(32);
  DECLARE asked BINARY(32);
  DECLARE mine BINARY(16) DEFAULT RANDOM_BYTES(16);
  DECLARE at_ms BIGINT;
  DECLARE tries INT DEFAULT 0;
  DECLARE answer TEXT DEFAULT 'execute';
  DECLARE row_nonce BINARY(16);
  DECLARE row_attempt INT UNSIGNED;
  DECLARE row_fence BIGINT UNSIGNED;
  DECLARE row_outcome LONGBLOB;
  DECLARE status INT DEFAULT NULL;
  DECLARE headers JSON DEFAULT NULL;
  DECLARE body LONGBLOB DEFAULT NULL;
  DECLARE before_body INT;
  IF in_tenant IS NULL OR COALESCE(in_key, '') = '' OR in_fingerprint IS NULL THEN
    SIGNAL SQLSTATE '45002'
      SET MESSAGE_TEXT = 'tenant, key and fingerprint must not be null, and the key not empty', MYSQL_ERRNO = 31002;
  END IF;
  IF COALESCE(on_unknown, '') NOT IN ('retry', 'takeover', 'hold') THEN
    SIGNAL SQLSTATE '45002' SET MESSAGE_TEXT = 'on_unknown must be retry, takeover or hold', MYSQL_ERRNO = 31002;
  END IF;
  IF NOT COALESCE(lease_seconds > 0 AND ttl_seconds > 0 AND takeover_after_seconds >= 0
                  AND GREATEST(lease_seconds, ttl_seconds, takeover_after_seconds) <= 3155760000, FALSE) THEN
    SIGNAL SQLSTATE '45002'
      SET MESSAGE_TEXT = 'lease and ttl must be more than 0 and at most 100 years', MYSQL_ERRNO = 31002;
  END IF;
  -- Each part is prefixed with its length, so that (ab, c) and (a, bc) differ.
  SET wanted = UNHEX(SHA2(CONCAT(CAST('once worker 1' AS BINARY),
                                 UNHEX(LPAD(HEX(LENGTH(in_tenant)), 8, '0')), CAST(in_tenant AS BINARY),
                                 UNHEX(LPAD(HEX(LENGTH(in_key)), 8, '0')), CAST(in_key AS BINARY)), 256));
  SET asked = UNHEX(SHA2(in_fingerprint, 256));
  claiming: LOOP
    SET tries = tries + 1;
    IF tries > 10 THEN
      SIGNAL SQLSTATE '45001' SET MESSAGE_TEXT = 'too many conflicts with others who claim it', MYSQL_ERRNO = 31001;
    END IF;
    SET at_ms = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000;
    CALL once_verdict(wanted, asked, on_unknown, CAST(takeover_after_seconds * 1000 AS SIGNED), at_ms, answer);
    IF answer = 'execute' THEN
      CALL once_take(wanted, asked, mine, on_unknown, CAST(takeover_after_seconds * 1000 AS SIGNED),
                     CAST(lease_seconds * 1000 AS SIGNED), CAST(ttl_seconds * 1000 AS SIGNED), in_tenant, at_ms);
    END IF;
    SET row_nonce = NULL;
    BEGIN
      DECLARE CONTINUE HANDLER FOR NOT FOUND SET row_nonce = NULL;
      IF answer = 'execute' THEN
        SELECT nonce, attempt, fence, outcome INTO row_nonce, row_attempt, row_fence, row_outcome
        FROM once_operations WHERE id = wanted FOR UPDATE;
      ELSE
        SELECT nonce, attempt, fence, outcome INTO row_nonce, row_attempt, row_fence, row_outcome
        FROM once_operations WHERE id = wanted;
      END IF;
    END;
    IF row_nonce IS NOT NULL AND (answer <> 'execute' OR row_nonce = mine) THEN
      LEAVE claiming;
    END IF;
  END LOOP;
  IF answer = 'replay' AND LENGTH(row_outcome) >= 24 AND LEFT(row_outcome, 2) = 0x0100 THEN
    SET before_body = 24 + CONV(HEX(REVERSE(SUBSTRING(row_outcome, 5, 4))), 16, 10)
                         + CONV(HEX(REVERSE(SUBSTRING(row_outcome, 9, 4))), 16, 10);
    SET status = CONV(HEX(REVERSE(SUBSTRING(row_outcome, 3, 2))), 16, 10);
    CALL once_header_object(SUBSTRING(row_outcome, before_body + 1,
                                      CONV(HEX(REVERSE(SUBSTRING(row_outcome, 13, 4))), 16, 10)), headers);
    SET body = SUBSTRING(row_outcome, before_body + 1 + CONV(HEX(REVERSE(SUBSTRING(row_outcome, 13, 4))), 16, 10));
  END IF;
  SELECT answer AS verdict,
         IF(answer = 'execute', LOWER(CONCAT(HEX(wanted), '.', HEX(mine))), NULL) AS claim,
         row_attempt AS attempt, row_fence AS fence, status, headers, body;
END$$

DROP PROCEDURE IF EXISTS once_sweep$$
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
END$$

DELIMITER ;

INSERT INTO once_schema (only_row, version, revision, procedures) VALUES (1, 1, 4, 4) ON DUPLICATE KEY UPDATE version = 1, revision = 4, procedures = VALUES(procedures);
