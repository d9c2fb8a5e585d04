// Procedures for the owner of a claim. Each is one conditional statement, so it is atomic also outside a transaction.
// An error rolls back whatever the caller did before, so that no caller can commit the work of a claim that it no
// longer has. SQLSTATE 45001: the claim is not current; 45002: an argument is not valid; 45003: it was finished before.
#include "store/mysql/schema.hpp"

namespace once::mysql {

namespace {

constexpr std::string_view parse_claim_sql = R"sql((IN in_claim TEXT, OUT out_id BINARY(32), OUT out_nonce BINARY(16))
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
END)sql";

// The error for a conditional statement that changed no row.
constexpr std::string_view refuse_sql = R"sql((IN in_id BINARY(32), IN in_nonce BINARY(16), IN in_state INT)
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
END)sql";

// Converts {"Name": "value", "Other": ["one", "two"]} to the header lines of a response. Fields of one connection or
// reply are dropped, as by the gateway. out_request is the request id, if there is one.
constexpr std::string_view header_lines_sql =
    R"sql((IN in_headers JSON, OUT out_lines LONGBLOB, OUT out_request VARBINARY(128))
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
END)sql";

// MariaDB with innodb_snapshot_isolation refuses to write a row that another transaction changed since this one began,
// such as a gateway that renews its lease. The conditional statements read the latest row anyway, whatever the caller's
// isolation level. MySQL has no such setting.
constexpr std::string_view look_at_latest_sql = R"sql((OUT out_before INT)
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
END)sql";

constexpr std::string_view look_as_before_sql = R"sql((IN in_before INT)
  SQL SECURITY DEFINER
BEGIN
  IF in_before THEN
    PREPARE once_look FROM 'SET SESSION innodb_snapshot_isolation = ON';
    EXECUTE once_look;
    DEALLOCATE PREPARE once_look;
  END IF;
END)sql";

// Only started and unknown records can change.
constexpr std::string_view record_sql = R"sql((IN in_claim TEXT, IN in_state INT, IN in_outcome LONGBLOB)
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
END)sql";

// CALL once_finish(claim, status, headers, body): call it inside the transaction that does the work.
constexpr std::string_view finish_sql = R"sql((IN claim TEXT, IN status INT, IN headers JSON, IN body LONGBLOB)
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
END)sql";

constexpr std::string_view fail_sql = R"sql((IN claim TEXT)
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
END)sql";

constexpr std::string_view renew_sql = R"sql((IN claim TEXT, IN lease_seconds DECIMAL(20, 3))
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
END)sql";

// Removes the row, or restores the previous attempt without an owner.
constexpr std::string_view release_sql = R"sql((IN claim TEXT)
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
END)sql";

}  // namespace

std::vector<Procedure> owner_procedures() {
  return {{"once_parse_claim", parse_claim_sql},
          {"once_refuse", refuse_sql},
          {"once_header_lines", header_lines_sql},
          {"once_look_at_latest", look_at_latest_sql},
          {"once_look_as_before", look_as_before_sql},
          {"once_record", record_sql},
          {"once_finish", finish_sql},
          {"once_fail", fail_sql},
          {"once_renew", renew_sql},
          {"once_release", release_sql}};
}

}  // namespace once::mysql
