"""examples/workflow/inside: REST Framework without a gateway, its own tests, and what it keeps when a process dies."""
import json
import os
import pathlib
import re
import signal
import subprocess
import unittest
import uuid

import services
from services import Client, Service, ask, load, wait_until

workflow_run = load("workflow")
INSIDE = services.ROOT / "examples" / "workflow" / "inside"


def setUpModule():
    Inside.service = services.start(workflow_run.Inside)


class Inside(Service):
    def setUp(self):
        self.organization = str(uuid.uuid4())
        self.token = self.service.manage("token", self.organization, "--quota", "3")
        self.workflow = json.loads(self.ask("GET", "/api/workflows/").body)[0]["id"]

    def ask(self, method, path, body=None, key=None):
        return ask(self.service.ports["service"], method, path, self.fields(key), body)

    def fields(self, key=None):
        return [("Host", "127.0.0.1"), ("Authorization", f"Bearer {self.token}"), *([("Idempotency-Key", key)] if key else [])]

    def used(self):
        return json.loads(self.ask("GET", "/api/quota/").body)["used"]

    def begin(self, key):
        """A validation that cannot commit before the function that is returned was called."""
        let_go = self.hold(f"SELECT 1 FROM validations_organization WHERE name = '{self.organization}' FOR UPDATE")
        client = Client(self.service.ports["service"])
        self.addCleanup(client.close)
        client.send_request("POST", f"/api/workflows/{self.workflow}/start/", [*self.fields(key), services.JSON], b'{"model": "office"}')
        wait_until(self.waiting, what="the validation to be at work")
        return client, let_go

    def kill_workers(self):
        """gunicorn starts others."""
        children = pathlib.Path(f"/proc/{self.service.service.process.pid}/task/{self.service.service.process.pid}/children")
        for child in children.read_text().split():
            os.kill(int(child), signal.SIGKILL)

    def answered(self, path, body, key):
        def done():
            try:
                answer = self.ask("POST", path, body, key)
            except (OSError, EOFError):  # the new workers are not there yet
                return None
            self.assertIn(answer.status, (201, 202, 409, 503), answer.body)
            return answer if answer.status in (201, 202) else None

        return wait_until(done, 60, "an answer")

    def test_its_own_tests_pass(self):
        done = subprocess.run([self.service.python, INSIDE / "manage.py", "test"], cwd=INSIDE, capture_output=True, text=True, timeout=120,
                              env={**os.environ, **self.service.environment})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"Ran [1-9]\d* tests")

    def test_a_double_click_at_two_workers_is_counted_once(self):
        key = str(uuid.uuid4())
        client, let_go = self.begin(key)
        answers = [self.ask("POST", f"/api/workflows/{self.workflow}/start/", {"model": "office"}, key) for _ in range(4)]
        self.assertEqual({(answer.status, answer.code) for answer in answers}, {(409, "in-flight")})
        let_go()
        self.assertEqual(client.read_response().status, 201)
        self.assertEqual(self.used(), 1)

    def test_workers_that_die_in_the_middle_count_it_once(self):
        key = str(uuid.uuid4())
        _, let_go = self.begin(key)
        self.kill_workers()
        let_go()
        answer = self.answered(f"/api/workflows/{self.workflow}/start/", {"model": "office"}, key)
        self.assertEqual(answer.get("Idempotency-Status"), "executed")
        self.assertEqual(self.used(), 1)

    def test_keys_are_cleaned_up_without_a_binary(self):
        said = self.service.manage("cleanup_idempotency_keys")
        self.assertRegex(said, r"^\d+ expired keys removed$")

    def test_the_schedule_calls_what_there_is(self):
        recipes = (INSIDE / "justfile").read_text()
        unit = (INSIDE / "cleanup-idempotency-keys.service").read_text()
        for file in re.findall(r"[\w-]+\.(?:service|timer)", recipes):
            self.assertTrue((INSIDE / file).exists(), file)
        self.assertIn("manage.py cleanup_idempotency_keys", recipes)
        self.assertIn("manage.py cleanup_idempotency_keys", unit)


if __name__ == "__main__":
    unittest.main()
