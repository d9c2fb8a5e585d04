-- Migration 0016: Once's table, as platform_idempotency_keys.
--
-- Once stores neither raw keys nor users, so the service notes both with the id of the operation. A note is deleted when
-- Once forgets the operation.
CREATE TABLE platform_requests (
    operation BYTEA PRIMARY KEY REFERENCES once_operations(id) ON DELETE CASCADE,
    key VARCHAR(255) NOT NULL,
    user_id UUID NOT NULL REFERENCES platform_users(id),
    endpoint VARCHAR(255) NOT NULL
);
-- By user; and with the key, so that a cleanup finds the note of each row that it removes.
CREATE INDEX platform_requests_user ON platform_requests(user_id, key);
-- By age: created_at of the view. Once itself searches by expiry only and has no such index.
CREATE INDEX platform_operations_age ON once_operations(started_at);

-- A recorded body, or null if it is not JSON.
CREATE FUNCTION platform_json(body BYTEA) RETURNS JSONB LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
    RETURN convert_from(body, 'UTF8')::JSONB;
EXCEPTION WHEN data_exception THEN
    RETURN NULL;
END $$;

CREATE VIEW platform_idempotency_keys AS
SELECT noted.key,
       noted.user_id,
       noted.endpoint,
       -- An unknown outcome is shown as in progress: a retry settles it.
       (ARRAY['in_progress', 'completed', 'failed', 'in_progress', 'completed'])[kept.state + 1]::VARCHAR(20) AS status,
       CASE WHEN kept.state = 1 THEN get_byte(kept.outcome, 2) | (get_byte(kept.outcome, 3) << 8) END AS response_status,
       CASE WHEN kept.state = 1
            THEN platform_json(substr(kept.outcome, 25 + once_integer(kept.outcome, 4) + once_integer(kept.outcome, 8)
                                                       + once_integer(kept.outcome, 12))) END AS response_body,
       kept.started_at AS created_at,
       CASE WHEN kept.state IN (1, 2) THEN kept.expires_at - kept.ttl END AS completed_at
FROM once_operations AS kept JOIN platform_requests AS noted ON noted.operation = kept.id
WHERE kept.attempt > 0;

-- DELETE FROM platform_idempotency_keys WHERE created_at < NOW() - INTERVAL '24 hours' still cleans up, but a running
-- request keeps its key. `once sweep`, and every gateway by itself once a minute, does the same.
CREATE FUNCTION platform_forget() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM once_operations AS kept USING platform_requests AS noted
    WHERE noted.operation = kept.id AND (noted.key, noted.user_id, noted.endpoint) = (OLD.key, OLD.user_id, OLD.endpoint)
      AND (kept.state <> 0
           OR coalesce((SELECT lease_until FROM once_leases WHERE id = kept.id AND fence = kept.fence), kept.lease_until)
              <= clock_timestamp());
    RETURN CASE WHEN FOUND THEN OLD END;
END $$;
CREATE TRIGGER platform_forget INSTEAD OF DELETE ON platform_idempotency_keys
FOR EACH ROW EXECUTE FUNCTION platform_forget();
