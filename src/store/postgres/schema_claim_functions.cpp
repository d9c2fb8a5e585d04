#include "store/postgres/schema_sql.hpp"

namespace once::postgres {

namespace {

constexpr std::string_view claim_functions = R"sql(
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
        sweep_at = (at + once_claim.ttl)::timestamptz(3), ttl = once_claim.ttl, tombstone = interval '0'
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
)sql";

}  // namespace

std::string_view claim_functions_sql() {
  return claim_functions;
}

}  // namespace once::postgres
