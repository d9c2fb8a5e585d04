"""examples/workflow: validations that count against a quota once, whatever is clicked, lost or killed."""
import email.utils
import hashlib
import hmac
import json
import os
import re
import time
import unittest
import uuid
from unittest import mock

import services
import tokens
from harness import run_once
from services import Client, Service, ask, load, wait_until

workflow_run = load("workflow")
SETTINGS = {"IDEMPOTENCY_KEY_TTL_HOURS": "48", "CLEANUP_SECONDS": "1"}
QUICK = ("defaults.lease=1s",)


def setUpModule():
    with mock.patch.dict(os.environ, SETTINGS):
        Api.service = services.start(workflow_run.Workflow, *QUICK)


class Signer:
    """Signs as the service does."""

    algorithm = "HS256"

    def __init__(self, secret):
        self.secret = secret.encode()

    def sign(self, message):
        return hmac.new(self.secret, message, hashlib.sha256).digest()


class Api(Service):
    def setUp(self):
        self.organization, self.token = self.join()
        self.workflow = self.get("/api/workflows/")["workflows"][0]["id"]
        self.path = f"/api/workflows/{self.workflow}/start/"

    def join(self):
        """A new organization with one workflow and a quota of three."""
        name = str(uuid.uuid4())
        self.sql("WITH made AS (INSERT INTO workflows_organization (name, quota, used) VALUES "
                 f"('{name}', 3, 0) RETURNING id) "
                 "INSERT INTO workflows_workflow (name, organization_id) SELECT 'energy', id FROM made")
        return name, self.token_for(name)

    def token_for(self, organization):
        return tokens.token(Signer(self.service.token_secret.read_text()), org=organization, jti=str(uuid.uuid4()))

    def fields(self, key=None, token=None):
        return [("Host", "127.0.0.1"), ("Authorization", f"Bearer {token or self.token}"),
                *([("Idempotency-Key", key)] if key else [])]

    def get(self, path):
        answer = ask(self.service.ports["gateway"], "GET", path, self.fields())
        self.assertEqual(answer.status, 200, answer.body)
        return json.loads(answer.body)

    def post(self, path, body, key=None, token=None):
        return ask(self.service.ports["gateway"], "POST", path, self.fields(key, token), body)

    def validate(self, key=None, model="office", **named):
        return self.post(self.path, {"model": model}, key, **named)

    def change(self, before, after):
        """A line of the settings, with a reload, until the test is over."""
        self.addCleanup(self.change_for_good, after, before)
        self.change_for_good(before, after)

    def change_for_good(self, before, after):
        text = self.service.config.read_text()
        self.assertIn(before, text)
        self.service.config.write_text(text.replace(before, after))
        done = run_once("reload", "--admin", f"127.0.0.1:{self.service.ports['admin']}")
        self.assertEqual(done.returncode, 0, done.stderr)

    def answered(self, key):
        """What a client that retries gets in the end."""
        def done():
            try:
                answer = self.validate(key)
            except (OSError, EOFError):
                return None
            self.assertIn(answer.status, (201, 409, 502, 503), answer.body)
            return answer if answer.status == 201 else None

        return wait_until(done, 60, "an answer")

    def used(self):
        return self.get("/api/quota/")["used"]

    def runs(self):
        return self.get(f"/api/workflows/{self.workflow}/runs/")["runs"]

    def assert_counted_once(self, answer):
        self.assertEqual(self.used(), 1)
        self.assertEqual(self.runs(), [json.loads(answer.body)["run"]])

    def begin(self, key):
        """A validation that cannot end before the function that is returned was called; and its client."""
        let_go = self.hold(f"SELECT 1 FROM workflows_organization WHERE name = '{self.organization}' FOR UPDATE")
        client = Client(self.service.ports["gateway"])
        self.addCleanup(client.close)
        client.send_request("POST", self.path, [*self.fields(key), services.JSON], b'{"model": "office"}')
        wait_until(self.waiting, what="the validation to be at work")
        return client, let_go


class Decision(Api):
    def test_without_a_key_a_retry_is_a_second_run(self):
        self.assertEqual([self.validate().status for _ in range(2)], [201, 201])
        self.assertEqual((self.used(), len(self.runs())), (2, 2))

    def test_the_scope_is_organization_and_endpoint(self):
        key = str(uuid.uuid4())
        first = self.validate(key)
        renewed = self.token_for(self.organization)
        self.assertEqual(self.validate(key, token=renewed).body, first.body)
        made = self.post("/api/workflows/", {"name": "daylight"}, key)  # another endpoint
        self.assertEqual((made.status, made.get("Idempotency-Status")), (201, "executed"))
        other, token = self.join()
        theirs = self.post("/api/workflows/", {"name": "daylight"}, key, token)
        self.assertEqual((theirs.status, theirs.get("Idempotency-Status")), (201, "executed"))
        self.assertNotEqual(theirs.body, made.body)
        self.assertEqual(self.validate(key, token="nobody").status, 401)

    def test_a_key_has_up_to_255_characters(self):
        self.assertEqual(self.validate("k" * 255).status, 201)
        self.assertEqual(self.validate("k" * 256).status, 400)

    def test_an_endpoint_without_a_decorator_is_protected_too(self):
        key = str(uuid.uuid4())
        first, again = [self.post("/api/workflows/", {"name": "acoustics"}, key) for _ in range(2)]
        self.assertEqual((again.status, again.body, again.get("Idempotent-Replayed")), (201, first.body, "true"))
        self.assertEqual(again.get("Original-Request-Id"), first.get("X-Request-Id"))
        self.assertEqual(len(self.get("/api/workflows/")["workflows"]), 2)

    def test_the_time_to_live_is_a_setting(self):
        expires = email.utils.parsedate_to_datetime(self.validate(str(uuid.uuid4())).get("Idempotency-Expires")).timestamp()
        self.assertAlmostEqual(expires, time.time() + 48 * 3600, delta=120)

    def test_expired_keys_are_removed_by_the_timer_and_are_as_new(self):
        keys = [str(uuid.uuid4()) for _ in range(2)]
        for key in keys:
            self.validate(key)
        wait_until(lambda: "removed" in self.service.timer.said, what="the timer's first time")
        newest = self.sql("SELECT id FROM once_keys ORDER BY started_at DESC LIMIT 1")
        self.sql("UPDATE once_operations SET started_at = started_at - interval '48 hours', expires_at = expires_at - "
                 "interval '48 hours', lease_until = lease_until - interval '48 hours', sweep_at = sweep_at - interval '48 hours' "
                 f"WHERE id = decode('{newest}', 'hex')")
        wait_until(lambda: self.number(f"SELECT count(*) FROM once_keys WHERE id = '{newest}'") == 0, 60, "the timer")
        removed = re.compile(r"^[1-9]\d* expired records? removed", re.MULTILINE)
        wait_until(lambda: removed.search(self.service.timer.said), what="its word")
        self.assertEqual(self.validate(keys[0]).get("Idempotent-Replayed"), "true")
        self.assertEqual(self.validate(keys[1]).get("Idempotency-Status"), "executed")


class Quota(Api):
    def test_a_double_click_is_counted_once(self):
        key = str(uuid.uuid4())
        client, let_go = self.begin(key)
        second = self.validate(key)
        self.assertEqual((second.status, second.code), (409, "in-flight"))
        let_go()
        first = client.read_response()
        self.assertEqual(first.status, 201)
        self.assertEqual(self.validate(key).body, first.body)
        self.assert_counted_once(first)

    def test_a_gateway_that_dies_in_the_middle_does_not_count_it_twice(self):
        key = str(uuid.uuid4())
        _, let_go = self.begin(key)
        self.service.gateway.kill()
        self.service.start_gateway()
        self.assertEqual(self.validate(key).status, 409)
        let_go()
        answer = self.answered(key)
        self.assertEqual(answer.get("Idempotent-Replayed"), "true")
        self.assert_counted_once(answer)

    def test_an_attempt_that_was_overtaken_takes_back_what_it_counted(self):
        key = str(uuid.uuid4())
        _, let_go = self.begin(key)
        self.service.gateway.kill()
        self.service.start_gateway()
        self.change("takeover_after: 2m", "takeover_after: 1s")
        second = Client(self.service.ports["gateway"])
        self.addCleanup(second.close)

        def taken_over():
            """Two validations wait for the row now."""
            if self.waiting() < 2:
                second.send_request("POST", self.path, [*self.fields(key), services.JSON], b'{"model": "office"}')
                second.sock.settimeout(0.5)
                try:
                    self.assertEqual(second.read_response().status, 409)
                except TimeoutError:
                    pass
            return self.waiting() == 2

        wait_until(taken_over, 60, "a second attempt")
        let_go()
        answer = self.answered(key)
        self.assert_counted_once(answer)

    def test_a_service_that_dies_in_the_middle_counted_nothing(self):
        key = str(uuid.uuid4())
        client, let_go = self.begin(key)
        self.service.backend.kill()
        self.assertEqual(client.read_response().status, 502)
        let_go()
        self.service.start_backend()
        self.change("takeover_after: 2m", "takeover_after: 1s")
        self.assert_counted_once(self.answered(key))

    def test_a_refused_validation_is_not_counted_and_may_come_back(self):
        for _ in range(3):
            self.assertEqual(self.validate(str(uuid.uuid4())).status, 201)
        key = str(uuid.uuid4())
        self.assertEqual([self.validate(key).status for _ in range(2)], [429, 429])
        self.sql(f"UPDATE workflows_organization SET quota = 4 WHERE name = '{self.organization}'")
        self.assertEqual([self.validate(key).status for _ in range(2)], [201, 201])
        self.assertEqual((self.used(), len(self.runs())), (4, 4))


class ReadmeSession(services.Readme):
    example = "workflow"

    def test_the_session_counts_two_validations_and_then_requires_the_key(self):
        said, blocks = self.start()
        admin = re.search(r"//([\d.:]+)/metrics", said["metrics"])[1]
        out = self.session(blocks, {"http://127.0.0.1:8080": said["service"], "eyJ…": said["token"], "127.0.0.1:8081": admin,
                                    "/tmp/…/once.yaml": said["settings"], "build/release/once": os.environ["ONCE_BINARY"]})
        self.assertEqual(re.findall(r"HTTP/1.1 (\d+)", out), ["201", "201", "422", "409", "201"])
        self.assertEqual(out.count("Idempotent-Replayed: true"), 1)
        self.assertEqual(out.count("Original-Request-Id: "), 1)
        self.assertIn('"used": 2', out)
        expires = email.utils.parsedate_to_datetime(re.search("Idempotency-Expires: (.*)", out)[1]).timestamp()
        self.assertAlmostEqual(expires, time.time() + 24 * 3600, delta=120)
        self.assertIn('"code":"key-required"', out)

    def test_every_example_sends_a_key_but_the_one_that_shows_what_happens_without(self):
        text = (services.ROOT / "examples" / "workflow" / "README.md").read_text()
        posts = [command for command in re.findall(r"curl (?:.|\\\n)*?(?=\n(?!  )|;)", text) if "-d " in command]
        self.assertEqual([("Idempotency-Key" in command) for command in posts], [True, False])


if __name__ == "__main__":
    unittest.main()
