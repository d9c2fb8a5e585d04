-- What Once needs in PostgreSQL, revision 5. Safe to run again.
--
-- If a large table of an older revision is in use, create its new index first, with
--   CREATE INDEX CONCURRENTLY IF NOT EXISTS once_operations_open ON once_operations (state, id) WHERE (state IN (0, 2, 3)) IS TRUE;
-- as `once schema postgres --apply URL` does. In this script, creating the index would block writes.
BEGIN;
SELECT pg_advisory_xact_lock(1869505381);
SELECT set_config('search_path', format('%I, pg_temp', current_schema()), true);

-- version: the oldest program that can use this schema, as the revision that it was written for.
CREATE TABLE IF NOT EXISTS once_schema (version integer PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now());
DO $body$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'once_schema'::regclass AND attname = 'revision') THEN
    ALTER TABLE once_schema ADD COLUMN revision integer NOT NULL DEFAULT 1;
  END IF;
  IF (SELECT max(greatest(version, revision)) FROM once_schema) > 5 THEN
    RAISE EXCEPTION 'the schema of Once in this database is newer than revision 5';
  END IF;
END $body$;

-- One row per operation. It does not contain raw keys: an id is a keyed hash.
CREATE TABLE IF NOT EXISTS once_operations (
  fence               bigint      NOT NULL,
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
  body_kept           boolean     NOT NULL DEFAULT true,
  waited              boolean     NOT NULL DEFAULT false, -- a gateway waits for a notification; see once_leases
  id                  bytea       PRIMARY KEY,
  fingerprint         bytea       NOT NULL,
  nonce               bytea       NOT NULL,              -- of the owner; all zero: no owner
  tenant              text        NOT NULL DEFAULT '',
  route               text        NOT NULL DEFAULT '',
  outcome             bytea
) WITH (
  -- A row is written by its claim and grows when it ends: leave room for that in its page.
  fillfactor = 30,
  -- Rows are deleted after their time to live, so freezing them early is wasted work.
  autovacuum_vacuum_insert_threshold = -1,
  autovacuum_vacuum_scale_factor = 0.05,
  autovacuum_vacuum_threshold = 5000,
  autovacuum_analyze_scale_factor = 0.05
);

-- What gateways write about an operation while its owner is at work: renewals of its lease, and waiters. This is not in
-- the operation's row, so that a backend can finish it in a transaction that began earlier, at any isolation level. An
-- entry is valid for the claim with the same fence. Used from version 3 on: older programs expect both in the row.
CREATE TABLE IF NOT EXISTS once_leases (
  fence       bigint      NOT NULL DEFAULT 0,            -- claims with a lower fence cannot be renewed
  lease_until timestamptz,                               -- null: see the row's lease
  waited      boolean     NOT NULL DEFAULT false,
  id          bytea       PRIMARY KEY
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

-- Chunks of responses that are recorded while they stream. They are read while their operation is started or unknown
-- and still has their nonce; then the sweep removes them.
CREATE TABLE IF NOT EXISTS once_chunks (
  number bigint NOT NULL,                                -- from 0
  id     bytea  NOT NULL,
  nonce  bytea  NOT NULL,
  bytes  bytea  NOT NULL,
  PRIMARY KEY (id, nonce, number)
) WITH (autovacuum_vacuum_insert_threshold = -1, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 5000);

DO $body$
DECLARE
  old  pg_class := (SELECT c FROM pg_class AS c WHERE c.oid = 'once_operations'::regclass);
  name text;
  it   record;
BEGIN
  FOREACH name IN ARRAY ARRAY['once_leases', 'once_chunks'] LOOP
    IF (SELECT relowner FROM pg_class WHERE oid = name::regclass) <> old.relowner THEN
      EXECUTE format('ALTER TABLE %I OWNER TO %I', name, pg_get_userbyid(old.relowner));
    END IF;
    -- Gateways get the same rights as on once_operations.
    FOR it IN SELECT a.privilege_type AS right, a.grantee FROM aclexplode(old.relacl) AS a
              WHERE a.grantee <> old.relowner AND a.privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
                AND NOT has_table_privilege(CASE WHEN a.grantee = 0 THEN 'public' ELSE pg_get_userbyid(a.grantee) END,
                                            name, a.privilege_type) LOOP
      EXECUTE format('GRANT %s ON %I TO %s', it.right, name,
                     CASE WHEN it.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(it.grantee)) END);
    END LOOP;
  END LOOP;
END $body$;

-- Only if something is missing: each of these statements waits for all writers and blocks new ones.
DO $body$ BEGIN
  -- Responses are often already compressed or encrypted. Change this if yours are not.
  IF (SELECT attstorage FROM pg_attribute WHERE attrelid = 'once_operations'::regclass AND attname = 'outcome') <> 'e' THEN
    ALTER TABLE once_operations ALTER COLUMN outcome SET STORAGE EXTERNAL;
  END IF;
  IF (SELECT attstorage FROM pg_attribute WHERE attrelid = 'once_chunks'::regclass AND attname = 'bytes') <> 'e' THEN
    ALTER TABLE once_chunks ALTER COLUMN bytes SET STORAGE EXTERNAL;
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

-- A readable view, for operators.
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
  IF held.waited OR (SELECT l.waited FROM once_leases l WHERE l.id = held.id) THEN
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
  IF (SELECT max(version) < 3 FROM once_schema) THEN
    UPDATE once_operations o SET lease_until = until WHERE o.id = held.id;
    RETURN;
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
  IF held.waited OR (SELECT l.waited FROM once_leases l WHERE l.id = held.id) THEN
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

-- Prefixed with its length, so that ('ab', 'c') and ('a', 'bc') differ.
CREATE OR REPLACE FUNCTION once_part(part text) RETURNS bytea
LANGUAGE sql IMMUTABLE STRICT SET search_path FROM CURRENT AS $body$
  SELECT int8send(octet_length(convert_to(part, 'UTF8'))) || convert_to(part, 'UTF8')
$body$;

-- Four bytes, little endian.
CREATE OR REPLACE FUNCTION once_integer(bytes bytea, place integer) RETURNS integer
LANGUAGE sql IMMUTABLE STRICT SET search_path FROM CURRENT AS $body$
  SELECT get_byte(bytes, place) | (get_byte(bytes, place + 1) << 8) | (get_byte(bytes, place + 2) << 16)
       | (get_byte(bytes, place + 3) << 24)
$body$;

-- The header lines of a response as JSON; a repeated name has an array.
CREATE OR REPLACE FUNCTION once_headers(lines text) RETURNS jsonb
LANGUAGE sql IMMUTABLE STRICT SET search_path FROM CURRENT AS $body$
  SELECT coalesce(jsonb_object_agg(name, CASE WHEN jsonb_array_length(list) = 1 THEN list -> 0 ELSE list END), '{}')
  FROM (SELECT split_part(line, ': ', 1) AS name,
               jsonb_agg(substr(line, strpos(line, ': ') + 2) ORDER BY place) AS list
        FROM regexp_split_to_table(lines, E'\r\n') WITH ORDINALITY AS each(line, place)
        WHERE line <> ''
        GROUP BY 1) AS named
$body$;

-- The gateway's decision table, for an existing row.
CREATE OR REPLACE FUNCTION once_verdict(
  found once_operations, asked bytea, on_unknown text, takeover_after interval, at timestamptz) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path FROM CURRENT AS $body$
  SELECT CASE
    WHEN found.attempt = 0 THEN 'execute'
    WHEN found.expires_at <= at AND (found.state <> 0 OR found.lease_until <= at)
      THEN CASE WHEN found.expires_at + found.tombstone <= at THEN 'execute' ELSE 'gone' END
    WHEN found.state = 4 THEN 'gone'
    WHEN found.fingerprint <> asked THEN 'mismatch'
    WHEN found.state = 1 THEN CASE WHEN found.body_kept THEN 'replay' ELSE 'not_kept' END
    WHEN found.state = 2 THEN 'execute'
    WHEN found.state = 0 AND found.lease_until > at THEN 'in_flight'
    WHEN on_unknown = 'retry' THEN 'execute'
    WHEN on_unknown = 'hold' THEN 'held'
    WHEN found.started_at + takeover_after <= at THEN 'execute'
    ELSE 'too_early' END
$body$;

CREATE OR REPLACE FUNCTION once_claim(
  tenant text, key text, fingerprint text DEFAULT '', lease interval DEFAULT '30 seconds',
  ttl interval DEFAULT '24 hours', on_unknown text DEFAULT 'takeover', takeover_after interval DEFAULT '5 minutes')
RETURNS TABLE (verdict text, claim text, attempt integer, fence bigint, status integer, headers jsonb, body bytea)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $body$
#variable_conflict use_column
DECLARE
  wanted bytea := sha256(once_part('once-claim-1') || once_part(tenant) || once_part(key));
  asked  bytea := sha256(convert_to(fingerprint, 'UTF8'));
  mine   bytea := uuid_send(gen_random_uuid());
  at     timestamptz;
  held   once_operations;
  kept   timestamptz;
  gone   boolean;
  answer text;
BEGIN
  IF wanted IS NULL OR key = '' OR asked IS NULL THEN
    RAISE EXCEPTION 'tenant, key and fingerprint must not be null, and the key not empty' USING ERRCODE = 'ON002';
  END IF;
  IF on_unknown IS NULL OR on_unknown NOT IN ('retry', 'takeover', 'hold') THEN
    RAISE EXCEPTION 'on_unknown must be retry, takeover or hold' USING ERRCODE = 'ON002';
  END IF;
  IF NOT coalesce(lease > interval '0' AND ttl > interval '0' AND takeover_after >= interval '0', false) THEN
    RAISE EXCEPTION 'lease and ttl must be longer than nothing' USING ERRCODE = 'ON002';
  END IF;
  LOOP
    at := clock_timestamp()::timestamptz(3);
    SELECT * INTO held FROM once_operations o WHERE o.id = wanted;
    IF NOT FOUND THEN
      INSERT INTO once_operations (id, fingerprint, nonce, state, attempt, fence, started_at, lease_until, expires_at,
                                   sweep_at, ttl, tenant, route)
      VALUES (wanted, asked, mine, 0, 1, (date_part('epoch', clock_timestamp()) * 1000000)::bigint, at, (at + lease)::timestamptz(3),
              (at + ttl)::timestamptz(3), (at + ttl)::timestamptz(3), ttl, left(once_claim.tenant, 200), 'once_claim')
      ON CONFLICT (id) DO NOTHING
      RETURNING * INTO held;
      CONTINUE WHEN NOT FOUND;
      answer := 'execute';
      EXIT;
    END IF;
    kept := held.lease_until;
    IF held.state = 0 THEN
      held.lease_until := coalesce((SELECT l.lease_until FROM once_leases l WHERE l.id = wanted AND l.fence = held.fence),
                                   kept);
    END IF;
    answer := once_verdict(held, asked, on_unknown, takeover_after, at);
    EXIT WHEN answer <> 'execute';
    -- Takes over from an owner whose lease has ended: an earlier renewal is found in once_leases, and a later one finds
    -- the higher fence there.
    IF held.state = 0 THEN
      PERFORM FROM once_operations o
      WHERE o.id = wanted AND o.fence = held.fence AND o.state = 0 AND o.lease_until = kept FOR NO KEY UPDATE;
      CONTINUE WHEN NOT FOUND;
      INSERT INTO once_leases AS l (id, fence) VALUES (wanted, held.fence + 1)
      ON CONFLICT (id) DO UPDATE SET fence = EXCLUDED.fence, lease_until = NULL
      WHERE l.fence < held.fence OR (l.fence <= EXCLUDED.fence AND (l.lease_until > at) IS NOT TRUE);
      CONTINUE WHEN NOT FOUND;
    END IF;
    gone := held.attempt = 0 OR held.expires_at <= at;
    UPDATE once_operations o
    SET state = 0, body_kept = true, outcome = NULL, fingerprint = asked, nonce = mine,
        attempt = CASE WHEN gone THEN 1 ELSE o.attempt + 1 END,
        fence = greatest(o.fence + 1, (date_part('epoch', clock_timestamp()) * 1000000)::bigint),
        previous_state = CASE WHEN o.state = 0 OR gone THEN 3 ELSE o.state END,
        previous_started_at = CASE WHEN gone THEN NULL ELSE o.started_at END,
        started_at = at, lease_until = (at + once_claim.lease)::timestamptz(3), expires_at = (at + once_claim.ttl)::timestamptz(3),
        sweep_at = (at + once_claim.ttl)::timestamptz(3), ttl = once_claim.ttl, tombstone = interval '0',
        waited = o.waited AND o.state = 0
    WHERE o.id = wanted AND o.fence = held.fence AND o.state = held.state AND o.expires_at = held.expires_at
    RETURNING * INTO held;
    EXIT WHEN FOUND;
  END LOOP;
  verdict := answer;
  attempt := held.attempt;
  fence := held.fence;
  IF answer = 'execute' THEN
    claim := encode(wanted, 'hex') || '.' || encode(mine, 'hex');
  ELSIF answer = 'replay' AND held.outcome IS NOT NULL THEN
    status := get_byte(held.outcome, 2) | (get_byte(held.outcome, 3) << 8);
    headers := once_headers(convert_from(substr(held.outcome,
      25 + once_integer(held.outcome, 4) + once_integer(held.outcome, 8), once_integer(held.outcome, 12)), 'UTF8'));
    body := substr(held.outcome, 25 + once_integer(held.outcome, 4) + once_integer(held.outcome, 8)
                                    + once_integer(held.outcome, 12));
  END IF;
  RETURN NEXT;
END $body$;

COMMENT ON FUNCTION once_claim(text, text, text, interval, interval, text, interval) IS
  'For workers that do not go through the gateway. Either commit the claim before the work begins and call once_finish(claim, …) in the transaction that does it, or do all of it in one transaction. verdict: execute, replay (with status, headers and body), mismatch, in_flight, too_early, held, not_kept or gone.';

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
COMMENT ON FUNCTION once_sweep(integer) IS
  'Removes up to max_rows expired operations, or makes tombstones of those that are to be remembered, and up to max_rows chunks of responses that have ended. Returns how many operations or chunks that were, whichever is more. Fewer than max_rows: nothing is left for now. Rows that somebody holds are left for the next call. Commit it at once.';

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

INSERT INTO once_schema (version, revision) SELECT coalesce(max(version), 5), 5 FROM once_schema
ON CONFLICT (version) DO UPDATE SET revision = 5, applied_at = now();
COMMIT;
