#include "store/postgres/schema_sql.hpp"

namespace once::postgres {

namespace {

constexpr std::string_view owner_functions = R"sql(
-- Locks and returns the row of a current claim. SQLSTATE ON001: the claim is not current; ON002: not a valid claim.
CREATE OR REPLACE FUNCTION once_owned(claim text) RETURNS once_operations
LANGUAGE plpgsql SET search_path FROM CURRENT AS $body$
DECLARE
  held once_operations;
BEGIN
  IF claim IS NULL OR claim !~ '^[0-9a-f]{64}\.[0-9a-f]{32}$' THEN
    RAISE EXCEPTION 'not a claim: it must be the value of the Idempotency-Claim header' USING ERRCODE = 'ON002';
  END IF;
  SELECT * INTO held FROM once_operations o WHERE o.id = decode(left(claim, 64), 'hex') FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'the claim is not current: its operation was released or has expired' USING ERRCODE = 'ON001';
  END IF;
  -- A nonce of zeros means no owner.
  IF held.nonce <> decode(right(claim, 32), 'hex') OR right(claim, 32) = repeat('0', 32) THEN
    RAISE EXCEPTION 'the claim is not current: it was released, or another attempt took over' USING ERRCODE = 'ON001';
  END IF;
  IF held.expires_at <= clock_timestamp()
     AND (held.state <> 0 OR coalesce((SELECT l.lease_until FROM once_leases l WHERE l.id = held.id AND l.fence = held.fence),
                                      held.lease_until) <= clock_timestamp()) THEN
    RAISE EXCEPTION 'the claim is not current: it has expired' USING ERRCODE = 'ON001';
  END IF;
  RETURN held;
END $body$;

CREATE OR REPLACE FUNCTION once_little_endian(number bigint, bytes integer) RETURNS bytea
LANGUAGE sql IMMUTABLE STRICT SET search_path FROM CURRENT AS $body$
  SELECT string_agg(set_byte('\x00'::bytea, 0, ((number >> (8 * place)) & 255)::integer), ''::bytea ORDER BY place)
  FROM generate_series(0, bytes - 1) AS place
$body$;

-- Converts {"Name": "value", "Other": ["one", "two"]} to header lines of a response. Leaves out the headers that the
-- gateway leaves out: those of one connection or one reply.
CREATE OR REPLACE FUNCTION once_header_lines(headers jsonb) RETURNS bytea
LANGUAGE plpgsql IMMUTABLE SET search_path FROM CURRENT AS $body$
DECLARE
  lines text := '';
  name  text;
  value jsonb;
  each  jsonb;
BEGIN
  IF jsonb_typeof(headers) IS DISTINCT FROM 'object' THEN
    RAISE EXCEPTION 'headers must be a JSON object of names and values' USING ERRCODE = 'ON002';
  END IF;
  FOR name, value IN SELECT * FROM jsonb_each(headers) LOOP
    IF name !~ '^[-!#$%&''*+.^_`|~0-9A-Za-z]+$' THEN
      RAISE EXCEPTION 'a header has a name that HTTP does not allow' USING ERRCODE = 'ON002';
    END IF;
    CONTINUE WHEN lower(name) IN (
      'connection', 'content-length', 'date', 'idempotency-expires', 'idempotency-policy', 'idempotency-replayed',
      'idempotency-status', 'idempotent-replayed', 'keep-alive', 'original-request-id', 'proxy-authenticate',
      'proxy-authorization', 'proxy-connection', 'set-cookie', 'te', 'trailer', 'transfer-encoding', 'upgrade',
      'x-request-id');
    IF jsonb_typeof(value) <> 'array' THEN value := jsonb_build_array(value); END IF;
    FOR each IN SELECT * FROM jsonb_array_elements(value) LOOP
      IF jsonb_typeof(each) NOT IN ('string', 'number') THEN
        RAISE EXCEPTION 'header % must be a string, a number or an array of them', name USING ERRCODE = 'ON002';
      END IF;
      IF (each #>> '{}') ~ '[\x01-\x08\x0a-\x1f\x7f]' THEN
        RAISE EXCEPTION 'header % has a line break or another control character in its value', name
          USING ERRCODE = 'ON002';
      END IF;
      lines := lines || name || ': ' || (each #>> '{}') || E'\r\n';
    END LOOP;
  END LOOP;
  RETURN convert_to(lines, 'UTF8');
END $body$;

-- Encodes a response for the gateway: version 1, little endian.
CREATE OR REPLACE FUNCTION once_encoded(status integer, headers jsonb, body bytea) RETURNS bytea
LANGUAGE plpgsql IMMUTABLE SET search_path FROM CURRENT AS $body$
DECLARE
  lines   bytea := once_header_lines(headers);
  request bytea;  -- its id: replays have it as Original-Request-Id
BEGIN
  SELECT convert_to(value #>> '{}', 'UTF8') INTO request FROM jsonb_each(headers)
  WHERE lower(key) = 'x-request-id' AND jsonb_typeof(value) = 'string' AND (value #>> '{}') ~ '^[!#-[\]-~]{1,128}$';
  request := coalesce(request, '');
  IF status IS NULL OR status NOT BETWEEN 200 AND 599 THEN
    RAISE EXCEPTION 'status must be from 200 to 599' USING ERRCODE = 'ON002';
  END IF;
  RETURN '\x0100'::bytea || once_little_endian(status, 2) || once_little_endian(0, 4)
      || once_little_endian(octet_length(request), 4) || once_little_endian(octet_length(lines), 4)
      || once_little_endian(octet_length(coalesce(body, '')), 8) || request || lines || coalesce(body, '');
END $body$;

-- Ends the claim's operation in this state, once.
CREATE OR REPLACE FUNCTION once_recorded(claim text, final smallint, encoded bytea) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $body$
DECLARE
  held    once_operations := once_owned(claim);
  expires timestamptz;
BEGIN
  IF held.state = final AND final = 2 THEN
    RETURN;
  END IF;
  -- Also refused if it ended in the same state: a backend that missed the result of its commit and repeats the whole
  -- transaction would have the effect twice.
  IF held.state NOT IN (0, 3) THEN
    RAISE EXCEPTION 'the claim is not current: the operation has already ended' USING ERRCODE = 'ON001';
  END IF;
  expires := coalesce((clock_timestamp() + held.ttl)::timestamptz(3), 'infinity');
  UPDATE once_operations o
  SET state = final,
      body_kept = true,
      outcome = encoded,
      expires_at = expires,
      sweep_at = CASE WHEN expires BETWEEN o.sweep_at - interval '1 hour' AND o.sweep_at + interval '1 hour'
                      THEN o.sweep_at ELSE expires END
  WHERE o.id = held.id;
  IF (SELECT l.waited FROM once_leases l WHERE l.id = held.id) THEN
    PERFORM pg_notify('once_ended', encode(held.id, 'hex'));
  END IF;
  -- A client may see the outcome as soon as it is committed, so the commit must be durable.
  IF current_setting('synchronous_commit') = 'off' THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
END $body$;

CREATE OR REPLACE FUNCTION once_finish(claim text, status integer, headers jsonb DEFAULT '{}', body text DEFAULT '')
RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT AS $body$
  SELECT once_recorded(claim, 1::smallint, once_encoded(status, headers, convert_to(body, 'UTF8')))
$body$;

CREATE OR REPLACE FUNCTION once_finish(claim text, status integer, headers jsonb, body bytea)
RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT AS $body$
  SELECT once_recorded(claim, 1::smallint, once_encoded(status, headers, body))
$body$;

CREATE OR REPLACE FUNCTION once_fail(claim text)
RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT AS $body$
  SELECT once_recorded(claim, 2::smallint, NULL)
$body$;

CREATE OR REPLACE FUNCTION once_renew(claim text, lease interval DEFAULT '30 seconds')
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $body$
DECLARE
  held once_operations := once_owned(claim);
  until timestamptz := (clock_timestamp() + lease)::timestamptz(3);
BEGIN
  IF held.state <> 0 THEN
    RAISE EXCEPTION 'the claim is not current: the operation has already ended' USING ERRCODE = 'ON001';
  END IF;
  IF lease IS NULL OR lease <= interval '0' THEN
    RAISE EXCEPTION 'lease must be longer than nothing' USING ERRCODE = 'ON002';
  END IF;
  INSERT INTO once_leases AS l (id, fence, lease_until) VALUES (held.id, held.fence, until)
  ON CONFLICT (id) DO UPDATE SET fence = EXCLUDED.fence, lease_until = EXCLUDED.lease_until;
END $body$;

CREATE OR REPLACE FUNCTION once_release(claim text)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $body$
DECLARE
  held once_operations := once_owned(claim);
  first boolean := held.attempt = 1;
  ended timestamptz := clock_timestamp()::timestamptz(3);
BEGIN
  IF held.state <> 0 THEN
    RAISE EXCEPTION 'the claim is not current: the operation has already ended' USING ERRCODE = 'ON001';
  END IF;
  UPDATE once_operations o
  SET state = CASE WHEN first THEN 2 ELSE o.previous_state END,
      attempt = o.attempt - 1,
      started_at = CASE WHEN first THEN o.started_at ELSE o.previous_started_at END,
      nonce = decode(repeat('00', 16), 'hex'),
      expires_at = CASE WHEN first THEN ended ELSE o.expires_at END,
      sweep_at = CASE WHEN first THEN ended ELSE o.sweep_at END,
      tombstone = CASE WHEN first THEN interval '0' ELSE o.tombstone END
  WHERE o.id = held.id;
  IF (SELECT l.waited FROM once_leases l WHERE l.id = held.id) THEN
    PERFORM pg_notify('once_ended', encode(held.id, 'hex'));
  END IF;
END $body$;

COMMENT ON FUNCTION once_finish(text, integer, jsonb, text) IS
  'Call inside the transaction that does the work: the outcome and the effect are committed together. claim is the value of the Idempotency-Claim header. Raises ON001, and so rolls back, if the claim is no longer current; ON002 if an argument is not valid.';
COMMENT ON FUNCTION once_finish(text, integer, jsonb, bytea) IS 'The same with a body of any bytes.';
COMMENT ON FUNCTION once_fail(text) IS
  'The attempt failed and had no effect: a retry may execute again. Raises ON001 if the claim is no longer current.';
COMMENT ON FUNCTION once_renew(text, interval) IS
  'The owner is still at work: its lease begins anew. Commit it at once. Raises ON001 if the claim is no longer current.';
COMMENT ON FUNCTION once_release(text) IS
  'The owner takes its claim back, as if never made. Raises ON001 if the claim is no longer current.';
)sql";

}  // namespace

std::string_view owner_functions_sql() {
  return owner_functions;
}

}  // namespace once::postgres
