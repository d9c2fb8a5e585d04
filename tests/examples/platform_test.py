"""examples/platform: agents that retry, and what the service, its table and its documentation say.

With PLATFORM_VARIANT=inside there is no gateway: Once is a middleware of the service."""
import email.utils
import json
import os
import re
import time
import unittest
import uuid

import services
from services import Service, ask, load, run_sweep, wait_until

README = services.ROOT / "examples" / "platform" / "README.md"
platform_run = load("platform")
DWELLER = "00000000-0000-4000-8000-000000000001"
ACT = f"/api/dwellers/{DWELLER}/act"
COLUMNS = """key|character varying
user_id|uuid
endpoint|character varying
status|character varying
response_status|integer
response_body|jsonb
created_at|timestamp with time zone
completed_at|timestamp with time zone"""


INSIDE = os.environ.get("PLATFORM_VARIANT") == "inside"


def setUpModule():
    Api.service = services.start(platform_run.Inside if INSIDE else platform_run.Platform, "defaults.lease=5s")


# Copies of the latest operation and of the service's note of it: each another id, age and user.
MANY_ROWS = """
CREATE TEMPORARY TABLE copies ON COMMIT DROP AS
  SELECT sha256(n::text::bytea) AS operation, gen_random_uuid() AS user_id, n FROM generate_series(1, 20000) AS n;
INSERT INTO platform_users SELECT user_id, user_id::text FROM copies;
INSERT INTO once_operations SELECT copy.* FROM copies, (SELECT * FROM once_operations ORDER BY started_at DESC LIMIT 1) AS one,
  jsonb_populate_record(one::once_operations,
    jsonb_build_object('id', operation, 'started_at', now() - n * INTERVAL '1 second')) AS copy;
INSERT INTO platform_requests SELECT operation, n::text, user_id, 'POST /' FROM copies;
ANALYZE once_operations; ANALYZE platform_requests"""


class Api(Service):
    def setUp(self):
        self.user = self.register()

    def register(self):
        answer = self.ask("POST", "/api/auth/agent", {"name": str(uuid.uuid4())}, key=str(uuid.uuid4()), user=None)
        self.assertEqual(answer.status, 201, answer.body)
        return json.loads(answer.body)

    def ask(self, method, path, body=None, key=None, user="me", **named):
        user = self.user if user == "me" else user
        fields = [("Authorization", f"Bearer {user['token']}")] if user else []
        fields += [("X-Idempotency-Key", key)] if key else []
        return ask(self.service.ports["gateway"], method, path, fields, body, **named)

    def row(self, key):
        """Of the table that the service's people know."""
        found = self.sql(f"SELECT row_to_json(k) FROM platform_idempotency_keys k WHERE key = '{key}'")
        return json.loads(found) if found else None


class Retries(Api):
    def covered(self):
        """(method, path, body, what to count) of every mutating endpoint."""
        story = json.loads(self.ask("POST", "/api/stories", {"title": "first"}).body)["id"]
        proposal = json.loads(self.ask("POST", "/api/proposals", {"text": "a park"}).body)["id"]
        mine = f"WHERE user_id = '{self.user['id']}'"
        name = str(uuid.uuid4())
        return [("POST", ACT, {"action": "wave"}, f"SELECT count(*) FROM platform_acts {mine}"),
                ("POST", f"/api/dwellers/{DWELLER}/heartbeat", None, f"SELECT count(*) FROM platform_heartbeats {mine}"),
                ("POST", "/api/stories", {"title": "second"}, f"SELECT count(*) FROM platform_stories {mine}"),
                ("POST", "/api/proposals", {"text": "a bridge"}, f"SELECT count(*) FROM platform_proposals {mine}"),
                ("POST", f"/api/review/story/{story}/feedback", {"text": "good"},
                 f"SELECT count(*) FROM platform_feedback {mine}"),
                ("POST", "/api/auth/agent", {"name": name}, f"SELECT count(*) FROM platform_users WHERE name = '{name}'"),
                ("PUT", f"/api/stories/{story}", {"title": "third"}, None),
                ("PATCH", f"/api/proposals/{proposal}", {"votes": 1},
                 f"SELECT votes FROM platform_proposals WHERE id = '{proposal}'")]

    def test_every_mutating_endpoint_executes_once_and_repeats_its_answer(self):
        for method, path, body, count in self.covered():
            with self.subTest(method=method, path=path):
                key = str(uuid.uuid4())
                before = self.number(count) if count else 0
                user = None if path == "/api/auth/agent" else self.user
                first, *again = [self.ask(method, path, body, key, user) for _ in range(3)]
                self.assertIn(first.status, (200, 201), first.body)
                self.assertIsNone(first.get("Idempotent-Replayed"))
                for answer in again:
                    self.assertEqual((answer.status, answer.body), (first.status, first.body))
                    self.assertEqual(answer.get("Idempotent-Replayed"), "true")
                    self.assertEqual(answer.get("Original-Request-Id"), first.get("X-Request-Id"))
                if count:
                    self.assertEqual(self.number(count) - before, 1)

    def test_a_new_agent_may_retry_from_another_address(self):
        key, body = str(uuid.uuid4()), json.dumps({"name": str(uuid.uuid4())}).encode()
        answers = []
        for address in ("127.0.0.1", "127.0.0.2"):
            with services.Client(self.service.ports["gateway"], address=address) as client:
                answers.append(client.ask("POST", "/api/auth/agent", [("X-Idempotency-Key", key), services.JSON], body=body))
        self.assertEqual([answer.status for answer in answers], [201, 201])
        self.assertEqual((answers[1].body, answers[1].get("Idempotent-Replayed")), (answers[0].body, "true"))

    def test_an_unknown_outcome_is_executed_again_only_where_the_transaction_decides(self):
        covered = [*((method, path, body) for method, path, body, _ in self.covered()), ("POST", "/api/auth/refresh", None)]
        for method, path, body in covered:
            with self.subTest(method=method, path=path):
                key = str(uuid.uuid4())
                user = None if path == "/api/auth/agent" else self.user
                self.assertIn(self.ask(method, path, body, key, user).status, (200, 201))
                # As if whoever was at work had died.
                self.sql("UPDATE once_operations SET state = 3, outcome = NULL WHERE id = "
                         f"(SELECT operation FROM platform_requests WHERE key = '{key}')")
                again = self.ask(method, path, body, key, user)
                if path == "/api/auth/refresh":
                    self.assertEqual((again.status, again.code), (409, "outcome-unknown"))
                else:
                    self.assertEqual(again.get("Idempotency-Status"), "executed")

    def test_without_a_key_nothing_is_checked(self):
        answers = [self.ask("POST", ACT, {"action": "nod"}) for _ in range(2)]
        self.assertEqual([answer.status for answer in answers], [201, 201])
        self.assertNotEqual(answers[0].body, answers[1].body)

    def test_a_request_at_work_is_a_conflict_and_then_has_an_answer(self):
        key = str(uuid.uuid4())
        let_go = self.hold("LOCK TABLE platform_acts")
        with services.Client(self.service.ports["gateway"]) as client:
            client.send_request("POST", ACT, [("Authorization", f"Bearer {self.user['token']}"), ("X-Idempotency-Key", key),
                                              services.JSON], b'{"action": "think"}')
            wait_until(self.waiting, what="the act to be at work")
            row = self.row(key)
            self.assertEqual((row["status"], row["user_id"]), ("in_progress", self.user["id"]))
            self.assertEqual((row["response_status"], row["response_body"], row["completed_at"]), (None, None, None))
            # As the cleanup does, but for every age: what is at work stays.
            self.sql("DELETE FROM platform_idempotency_keys")
            self.assertEqual(self.row(key), row)
            conflict = self.ask("POST", ACT, {"action": "think"}, key)
            self.assertEqual((conflict.status, conflict.problem["detail"]), (409, "Request is being processed"))
            let_go()
            first = client.read_response()
        self.assertEqual(first.status, 201)
        again = self.ask("POST", ACT, {"action": "think"}, key)
        self.assertEqual((again.status, again.body), (201, first.body))
        row = self.row(key)
        self.assertEqual((row["status"], row["response_status"]), ("completed", 201))
        self.assertEqual(row["response_body"], json.loads(first.body))
        self.assertGreaterEqual(row["completed_at"], row["created_at"])

    def test_a_service_that_dies_between_the_act_and_its_record_leaves_neither(self):
        key = str(uuid.uuid4())
        fields = [("Authorization", f"Bearer {self.user['token']}"), ("X-Idempotency-Key", key), services.JSON]
        acts = f"SELECT count(*) FROM platform_acts WHERE user_id = '{self.user['id']}'"
        let_act = self.hold("LOCK TABLE platform_acts")
        with services.Client(self.service.ports["gateway"]) as client:
            client.send_request("POST", ACT, fields, b'{"action": "leap"}')
            wait_until(self.waiting, what="the act to be at work")
            let_finish = self.hold("SELECT 1 FROM once_operations WHERE id = (SELECT operation FROM platform_requests "
                                   f"WHERE key = '{key}') FOR UPDATE")
            let_act()
            finishing = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%once_finish(%'"
            wait_until(lambda: self.number(finishing), what="the act to be done, but not its record")
            self.service.backend.kill()
        let_finish()
        self.service.start_backend()
        again = wait_until(lambda: self.executed(key), what="the retry to be executed")
        self.assertEqual((again.get("Idempotency-Status"), self.number(acts)), ("executed", 1))
        self.assertEqual(self.ask("POST", ACT, {"action": "leap"}, key).body, again.body)

    def executed(self, key):
        answer = self.ask("POST", ACT, {"action": "leap"}, key)
        self.assertIn(answer.status, (201, 409, 502, 503))
        return answer if answer.status == 201 else None

    def test_a_failed_request_is_executed_again(self):
        key = str(uuid.uuid4())
        self.sql("ALTER TABLE platform_acts RENAME TO gone")
        try:
            self.assertEqual(self.ask("POST", ACT, {"action": "jump"}, key).status, 503)
            self.assertEqual(self.row(key)["status"], "failed")
        finally:
            self.sql("ALTER TABLE gone RENAME TO platform_acts")
        answer = self.ask("POST", ACT, {"action": "jump"}, key)
        self.assertEqual((answer.status, answer.get("Idempotency-Status")), (201, "executed"))
        self.assertEqual(self.row(key)["status"], "completed")

    def test_a_key_is_the_users_own_and_a_new_token_keeps_it(self):
        key = str(uuid.uuid4())
        first = self.ask("POST", ACT, {"action": "sing"}, key)
        refreshed = json.loads(self.ask("POST", "/api/auth/refresh").body)["token"]
        self.assertNotEqual(refreshed, self.user["token"])
        self.assertEqual(self.ask("POST", ACT, {"action": "sing"}, key, {"token": refreshed}).body, first.body)
        other = self.register()
        theirs = self.ask("POST", ACT, {"action": "sing"}, key, other)
        self.assertEqual((theirs.status, json.loads(theirs.body)["user_id"]), (201, other["id"]))
        for nobody in (None, {"token": refreshed[:-3] + "AAA"}):
            self.assertEqual(self.ask("POST", ACT, {"action": "sing"}, key, nobody).status, 401)

    def test_a_key_has_up_to_255_characters(self):
        self.assertEqual(self.ask("POST", ACT, {"action": "hum"}, "k" * 255).status, 201)
        self.assertEqual(self.ask("POST", ACT, {"action": "hum"}, "k" * 256).status, 400)


class Table(Api):
    def a_day_passes(self, key):
        """For one key."""
        self.sql("UPDATE once_operations SET started_at = started_at - interval '24 hours', lease_until = lease_until - "
                 "interval '24 hours', expires_at = expires_at - interval '24 hours', sweep_at = sweep_at - interval '24 hours' "
                 f"WHERE id = (SELECT operation FROM platform_requests WHERE key = '{key}')")

    def kept(self, key):
        return self.number(f"SELECT count(*) FROM platform_requests WHERE key = '{key}'")

    def test_it_has_the_columns_that_the_service_knows(self):
        self.assertEqual(self.sql("SELECT column_name, data_type FROM information_schema.columns WHERE table_name = "
                                  "'platform_idempotency_keys' ORDER BY ordinal_position"), COLUMNS)

    def test_every_keyed_request_is_in_it_whatever_handler_it_has(self):
        nowhere = "/api/stories/00000000-0000-4000-8000-000000000009"
        for method, path, body, status in (("POST", ACT, {"action": "note"}, 201), ("POST", ACT, {"no": "action"}, 422),
                                           ("POST", "/api/auth/refresh", None, 200), ("PUT", nowhere, {"title": "x"}, 404),
                                           ("POST", "/api/no/handler", None, 404)):
            with self.subTest(method=method, path=path):
                key = str(uuid.uuid4())
                self.assertEqual(self.ask(method, path, body, key).status, status)
                row = self.row(key)
                self.assertEqual((row["endpoint"], row["user_id"]), (path, self.user["id"]))
                self.assertEqual((row["status"], row["response_status"]), ("completed", status))

    def test_rows_are_found_by_age_and_by_user(self):
        """As PostgreSQL plans it by itself, with 20 000 rows more."""
        self.assertEqual(self.ask("POST", ACT, {"action": "look"}, str(uuid.uuid4())).status, 201)
        age = re.search(r"(DELETE FROM platform_idempotency_keys WHERE\s+created_at < )…", README.read_text().replace("\n  ", " "))[1]
        by_age = f"{age} NOW() - INTERVAL '24 hours'"
        by_user = f"SELECT * FROM platform_idempotency_keys WHERE user_id = '{self.user['id']}'"
        plans = self.sql(f"BEGIN; {MANY_ROWS}; EXPLAIN {by_age}; EXPLAIN {by_user}; ROLLBACK")
        self.assertIn("platform_operations_age", plans)
        self.assertIn("platform_requests_user", plans)
        self.assertNotIn("Seq Scan", plans)

    def test_a_key_is_good_for_24_hours(self):
        key = str(uuid.uuid4())
        first = self.ask("POST", ACT, {"action": "wait"}, key)
        expires = email.utils.parsedate_to_datetime(first.get("Idempotency-Expires")).timestamp()
        self.assertAlmostEqual(expires, time.time() + 24 * 3600, delta=120)
        self.a_day_passes(key)
        again = self.ask("POST", ACT, {"action": "wait"}, key)
        self.assertEqual((again.status, again.get("Idempotency-Status")), (201, "executed"))
        self.assertNotEqual(again.body, first.body)

    def test_cleanup_removes_what_is_older(self):
        by_hand = "DELETE FROM platform_idempotency_keys WHERE created_at < NOW() - INTERVAL '24 hours'"
        for how in (lambda: self.sql(by_hand), lambda: run_sweep(self.service)):
            old, new = str(uuid.uuid4()), str(uuid.uuid4())
            for key in (old, new):
                self.assertEqual(self.ask("POST", ACT, {"action": "tidy"}, key).status, 201)
            self.a_day_passes(old)
            how()
            self.assertEqual((self.kept(old), self.kept(new)), (0, 1))
            self.assertIsNone(self.row(old))
            self.assertEqual(self.row(new)["status"], "completed")

    def test_an_answer_that_is_not_json_can_be_read_too(self):
        key = str(uuid.uuid4())
        self.assertEqual(self.ask("POST", ACT, {"action": "draw"}, key).status, 201)
        self.sql("UPDATE once_operations SET outcome = once_encoded(200, '{}', 'plain') WHERE id = "
                 f"(SELECT operation FROM platform_requests WHERE key = '{key}')")
        row = self.row(key)
        self.assertEqual((row["response_status"], row["response_body"]), (200, None))


class Documentation(Api):
    def test_agents_are_told_how_to_retry(self):
        skill = self.ask("GET", "/skill.md").body.decode()
        described = json.loads(self.ask("GET", "/openapi.json").body)["info"]["description"]
        for text in (skill, described):
            self.assertIn("## Retry Safety", text)
            for word in ("X-Idempotency-Key", "UUID", "502", "409", "24 hours", "on a schedule"):
                self.assertIn(word, text)


class ReadmeSession(services.Readme):
    example = "platform"

    @unittest.skipIf(INSIDE, "the README starts the other one")
    def test_the_session_acts_once(self):
        said, blocks = self.start()
        out = self.session(blocks, {"http://127.0.0.1:8080": said["platform"], "postgres://…": said["database"]})
        self.assertEqual(out.count("HTTP/1.1 201"), 2)
        self.assertEqual(out.count("Idempotent-Replayed: true"), 1)
        self.assertIn("completed", out)
        self.assertIn("(1 row)", out)


if __name__ == "__main__":
    unittest.main()
