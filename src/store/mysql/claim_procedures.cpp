// The claim procedure for workers that do not use the gateway.
#include "store/mysql/schema.hpp"

namespace once::mysql {

namespace {

// Converts the header lines of a response to JSON; repeated names become an array.
constexpr std::string_view header_object_sql = R"sql((IN in_lines LONGBLOB, OUT out_headers JSON)
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
END)sql";

// The decision table of core/decision.hpp, for an existing row.
constexpr std::string_view verdict_sql =
    R"sql((IN in_id BINARY(32), IN in_fingerprint BINARY(32), IN in_on_unknown TEXT,
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
END)sql";

// A single statement, so it is atomic also outside a transaction. Assignments are executed in order: once a row has our
// nonce, the later ones apply to it.
constexpr std::string_view take_sql = R"sql((IN in_id BINARY(32), IN in_fingerprint BINARY(32), IN in_nonce BINARY(16),
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
END)sql";

// CALL once_claim(tenant, key, fingerprint, lease_seconds, ttl_seconds, on_unknown, takeover_after_seconds): returns
// one row of verdict, claim, attempt, fence, status, headers, body. Commit it before the work begins, then call
// once_finish in the work's transaction. Or do both in one transaction, which blocks others that claim the same key.
constexpr std::string_view claim_sql =
    R"sql((IN in_tenant TEXT CHARACTER SET utf8mb4, IN in_key TEXT CHARACTER SET utf8mb4,
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
END)sql";

}  // namespace

std::vector<Procedure> claim_procedures() {
  return {{"once_header_object", header_object_sql},
          {"once_verdict", verdict_sql},
          {"once_take", take_sql},
          {"once_claim", claim_sql}};
}

}  // namespace once::mysql
