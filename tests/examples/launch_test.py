"""examples/launch: an expensive call is made once, whoever clicks, dies or comes late, and nothing unsafe is stored."""
import concurrent.futures
import hashlib
import hmac
import http.client
import json
import os
import subprocess
import unittest

from session import ROOT, Session, load, wait_until

from server import free_port
from stage import Stage

FOLDER = ROOT / "examples" / "launch"
QUICK = {"STALE_TAKEOVER_MINUTES": "0.02", "LEASE": "1s"}
ALERTS = {"hit": lambda rate: rate < 0.30, "takeover": lambda rate: rate > 0.05, "failure": lambda rate: rate > 0.10}
SECRET = "0123456789abcdef0123456789abcdef"
TEXT = "Our secret new shoes"
# What the provider tells beside what customers may see.
UNSAFE = ("_internal", "debug", "prompt", "error", "message", "stack", "provider", "acme-ai", "model", "tennis-4", "requestId",
          "req-", "critique", "copywriter", TEXT)


def ask(port, target, body=None, method="POST", token=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        connection.request(method, target, None if body is None else json.dumps(body), headers)
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def made_by(answer):
    """The row of an answer, as a condition."""
    return f"response_json LIKE '%{answer['traceId']}\"%'"


def key_hash(tenant, scope, canonical):
    """HMAC-SHA-256 with the secret, of the parts of an operation, each behind its length."""
    scope_parts = [b"claims", tenant.encode(), scope.encode(), b"inputs"]
    parts = [b"once operation 1", len(scope_parts).to_bytes(8, "little"), *scope_parts, canonical.encode()]
    return hmac.new(SECRET.encode(), b"".join(len(part).to_bytes(8, "big") + part for part in parts), "sha256").hexdigest()


class NewcomerTest(Session, unittest.TestCase):
    name, usual = "launch", {"gateway": 8080, "admin": 8081, "claims": 8082, "service": 3000, "provider": 3001}
    env = {**os.environ, "IDEMPOTENCY_SECRET": SECRET, "ONCE_ADMIN_TOKEN": SECRET[::-1]}

    def test_nothing_starts_without_a_secret(self):
        env = {name: value for name, value in os.environ.items() if name not in ("IDEMPOTENCY_SECRET", "ONCE_SECRET")}
        example = subprocess.run([FOLDER / "run", "--free-ports"], env=env, capture_output=True, text=True, timeout=60)
        self.assertNotEqual(example.returncode, 0)
        self.assertIn("IDEMPOTENCY_SECRET is missing", example.stderr)
        once = subprocess.run([os.environ["ONCE_BINARY"], "serve", "--config", FOLDER / "once.yaml", "--store", "memory:"],
                              env=env, capture_output=True, text=True, timeout=60, cwd="/tmp")
        self.assertNotEqual(once.returncode, 0)
        self.assertIn("ONCE_SECRET", once.stderr)
        with Stage(free_ports=True) as stage:
            app = stage.typescript(FOLDER, "idempotency.mts", "server.mts")
            service = subprocess.run(["node", app / "server.mjs"], env=env, capture_output=True, text=True, timeout=60)
        self.assertEqual((service.returncode, service.stderr), (1, "PROVIDER_URL is missing\n"))


class LaunchTest(unittest.TestCase):
    """All tests share one database; each has inputs of its own."""

    @classmethod
    def setUpClass(cls):
        cls.stage = Stage(free_ports=True)
        cls.addClassCleanup(cls.stage.__exit__)
        cls.launch = load("launch").Launch(cls.stage, SECRET)
        cls.launch.service()
        cls.quick = free_port()
        cls.launch.service(cls.quick, **QUICK)
        cls.last_intake = 0

    def setUp(self):
        type(self).last_intake += 1
        self.intake = self.last_intake
        self.mode("answer")

    def tearDown(self):
        self.mode("answer")

    def request(self, **changed):
        return {"intakeId": self.intake, "actionRequestId": 456, "userText": TEXT, "targetSection": "hero", **changed}

    def propose(self, port=None, **changed):
        return json.loads(ask(port or self.launch.ports["service"], "/actionRequests/aiProposeCopy", self.request(**changed)))

    def mode(self, mode):
        ask(self.launch.ports["provider"], "/mode", {"mode": mode})

    def provider(self):
        return json.loads(ask(self.launch.ports["provider"], "/calls", method="GET"))

    def start_call(self, port=None):
        """A proposal whose call of the model takes until the mode changes."""
        self.mode("hold")
        held = self.provider()["held"]
        pool = concurrent.futures.ThreadPoolExecutor()
        self.addCleanup(pool.shutdown)
        call = pool.submit(self.propose, port)
        wait_until(lambda: self.provider()["held"] == held + 1, what="the provider to be called")
        return call

    def rows(self, columns, where="1"):
        return self.launch.database.sql(f"SELECT {columns} FROM idempotency_keys WHERE {where}").splitlines()

    def takeovers_in_table(self):
        total, rate = self.launch.database.sql("SELECT total_keys, stale_takeover_rate FROM idempotency_rates").split()
        return 0 if rate == "NULL" else round(int(total) * float(rate))

    def counted(self):
        lines = ask(self.launch.ports["admin"], "/metrics", method="GET", token=self.launch.admin_token).splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if line.startswith("once_claims_"))
        return {name: float(value) for name, value in pairs}

    def rates(self, before):
        """The three of the README's table, of what was counted since."""
        now = self.counted()
        grown = {name: value - before.get(name, 0) for name, value in now.items()}
        claims = {name: value for name, value in grown.items() if name.startswith('once_claims_requests_total{verb="claim"')}
        acquired = grown['once_claims_requests_total{verb="claim",result="acquired"}']
        return {"hit": grown['once_claims_requests_total{verb="claim",result="succeeded"}'] / sum(claims.values()),
                "takeover": grown["once_claims_takeovers_total"] / acquired,
                "failure": grown['once_claims_requests_total{verb="fail",result="done"}'] / acquired}

    def assert_rates(self, before, alerts, **rates):
        """The rates since then, and which of them are worth a look."""
        found = self.rates(before)
        self.assertEqual({name: found[name] for name in rates}, rates)
        self.assertEqual({name for name, rate in found.items() if ALERTS[name](rate)}, alerts)

    def test_a_double_click_and_a_reload_make_one_call(self):
        before = self.provider()["calls"]
        first = self.start_call()
        second = self.propose()
        self.assertEqual((second["ok"], second["stopReason"]), (False, "in_progress"))
        self.assertIn("meta", second)
        self.mode("answer")
        answer = first.result()
        self.assertEqual((answer["ok"], answer["cached"]), (True, False))
        self.assertEqual(self.propose(), {**answer, "cached": True})
        self.assertEqual(self.provider()["calls"], before + 1)

    def test_white_space_is_the_same_request_and_another_section_is_not(self):
        first = self.propose()
        self.assertTrue(self.propose(userText=f"  {TEXT.replace(' ', chr(10))} ")["cached"])
        for changed in ({"targetSection": "footer"}, {"userText": TEXT.upper()}, {"actionRequestId": 1}):
            other = self.propose(**changed)
            self.assertFalse(other["cached"])
            self.assertNotEqual(other["traceId"], first["traceId"])

    def test_a_failure_is_told_without_its_words_and_the_next_try_is_a_new_attempt(self):
        before, takeovers = self.counted(), self.takeovers_in_table()
        self.mode("fail")
        failed = self.propose()
        self.assertEqual((failed["ok"], failed["stopReason"]), (False, "provider_error"))
        self.assertEqual(self.rows("attempt_count, response_json", "status = 'failed'"), ["1\tNULL"])
        self.mode("answer")
        self.assertTrue(self.propose()["ok"])
        self.assertEqual(self.rows("status", "attempt_count = 2 AND status = 'failed'"), [])
        self.assertEqual(self.takeovers_in_table(), takeovers, "a retry of what failed is no takeover")
        self.assert_rates(before, {"hit", "failure"}, hit=0, takeover=0, failure=0.5)

    def test_work_whose_owner_died_is_taken_over_and_not_before(self):
        before, calls, takeovers = self.counted(), self.provider()["calls"], self.takeovers_in_table()
        port = free_port()
        dying = self.launch.service(port, **QUICK)
        call = self.start_call(port)
        dying.kill()
        self.assertIsInstance(call.exception(), (OSError, http.client.HTTPException))
        wait_until(self.stale, what="the lease to lapse")
        began = self.rows("created_at", "status = 'started'")
        self.assertEqual(self.propose()["stopReason"], "in_progress", "five minutes are not over")
        self.mode("answer")
        answer = wait_until(self.taken_over, what="the work to be taken over")
        self.assertEqual((answer["ok"], answer["cached"]), (True, False))
        self.assertEqual(self.provider()["calls"], calls + 2)
        row = self.rows("attempt_count, status, LENGTH(claim_nonce), started_at > created_at", made_by(answer))
        self.assertEqual(row, ["2\tsucceeded\t32\t1"])
        self.assertEqual(self.rows("created_at", made_by(answer)), began, "when the first attempt began")
        self.assertEqual(self.takeovers_in_table(), takeovers + 1)
        self.assert_rates(before, {"hit", "takeover"}, takeover=0.5, failure=0)

    def stale(self):
        """Whether there is work in the table whose owner says nothing any more, and that a quick service may take over."""
        return int(self.launch.database.sql(
            "SELECT COUNT(*) FROM once_operations WHERE state = 0 AND lease_until < UNIX_TIMESTAMP(NOW(3)) * 1000 "
            "AND started_at < UNIX_TIMESTAMP(NOW(3)) * 1000 - 2000"))

    def taken_over(self):
        answer = self.propose(self.quick)
        return answer if answer["ok"] else None

    def test_only_customer_safe_fields_are_stored(self):
        answer = self.propose()
        stored = self.rows("response_json", made_by(answer))
        self.assertEqual([json.loads(text) for text in stored],
                         [{name: value for name, value in answer.items() if name != "cached"}])
        self.assertEqual(set(answer["data"]), {"headline", "scores"})
        # Every byte of every column of Once's own table, of all tests.
        hexed = self.launch.database.sql(
            "SELECT HEX(CONCAT_WS('|', tenant, route)), HEX(COALESCE(outcome, '')), HEX(id) FROM once_operations")
        text = "".join(bytes.fromhex(part).decode("latin-1") for part in hexed.split())
        self.assertIn(answer["traceId"], text)
        for word in UNSAFE:
            self.assertNotIn(word, text)
        self.assertNotIn(TEXT, self.launch.once.said)

    def test_the_sanitiser_keeps_what_is_allowed_and_right(self):
        given = {"ok": True, "stopReason": "because: " + TEXT, "createdActionRequestIds": [1, "x"], "traceId": "a b", "needsHuman": "no",
                 "extra": 1, "data": {"n": 1, "prompt": "p", "stack": "s", "nested": {"a": 1}, "list": [1, {"a": 1}], "none": None}}
        program = ("import { sanitized } from 'once'; import { RESPONSE } from './idempotency.mjs'; "
                   f"console.log(JSON.stringify(sanitized({json.dumps(given)}, RESPONSE)))")
        done = subprocess.run(["node", "--input-type=module", "-e", program], cwd=self.launch.app, capture_output=True, text=True, timeout=60,
                              check=True)
        self.assertEqual(json.loads(done.stdout), {"ok": True, "data": {"n": 1, "none": None}})

    def test_the_key_is_an_hmac_and_the_columns_are_those_of_the_table(self):
        answer = self.propose()
        columns = self.launch.database.sql("SHOW COLUMNS FROM idempotency_keys").splitlines()
        self.assertEqual([line.split("\t")[0] for line in columns],
                         ["tenant", "scope", "key_hash", "claim_nonce", "status", "response_json", "created_at", "updated_at",
                          "started_at", "completed_at", "expires_at", "attempt_count"])
        row = self.rows("key_hash, tenant, scope, TIMESTAMPDIFF(HOUR, completed_at, expires_at)", made_by(answer))
        inputs = {"intakeId": self.intake, "actionRequestId": 456, "userTextHash": hashlib.sha256(TEXT.encode()).hexdigest(),
                  "targetSection": "hero"}
        canonical = json.dumps(inputs, sort_keys=True, separators=(",", ":"))
        self.assertEqual(row, [f"{key_hash('launchbase', 'actionRequests.aiProposeCopy', canonical)}\tlaunchbase\t"
                               "actionRequests.aiProposeCopy\t24"])

    def test_what_the_table_is_searched_by_has_an_index(self):
        lines = self.launch.database.sql("SHOW INDEX FROM once_operations").splitlines()
        columns = [(line.split("\t")[2], line.split("\t")[4]) for line in lines]
        self.assertEqual(columns, [("PRIMARY", "id"), ("once_operations_sweep", "sweep_at"), ("once_operations_state", "state"),
                                   ("once_operations_state", "started_at")])

    def test_keys_live_as_long_as_asked_and_are_swept(self):
        self.launch.service(port := free_port(), TTL_HOURS="0.001", LEASE="3s")
        self.launch.service(other := free_port(), TTL_HOURS="168")
        short, long = self.propose(port), self.propose(other, intakeId=-1)
        days = self.rows("TIMESTAMPDIFF(DAY, completed_at, expires_at)", made_by(long))
        self.assertEqual(days, ["7"])
        sweep = [os.environ["ONCE_BINARY"], "sweep", "--store", self.launch.database.url()]

        def gone():
            subprocess.run(sweep, check=True, capture_output=True, timeout=60)
            return not self.rows("1", made_by(short))

        wait_until(gone, what="the expired key to be swept")
        self.assertFalse(self.propose(port)["cached"])
        self.assertTrue(self.propose(other, intakeId=-1)["cached"])

    def test_the_rates_of_a_good_day_are_no_reason_to_look(self):
        before = self.counted()
        self.propose()
        for _ in range(3):
            self.propose()
        self.assert_rates(before, set(), hit=0.75, takeover=0, failure=0)
        total, takeovers, failures, hours = self.launch.database.sql("SELECT * FROM idempotency_rates").split()
        statuses = self.rows("status")
        self.assertEqual(int(total), len(statuses))
        self.assertLess(float(takeovers), 1)
        self.assertAlmostEqual(float(failures), statuses.count("failed") / len(statuses), places=3)
        asked = [float(line) for line in self.launch.database.sql("SELECT ttl / 3600000 FROM once_operations WHERE state <> 4").split()]
        self.assertIn(24, asked)
        self.assertAlmostEqual(float(hours), sum(asked) / len(asked), delta=0.001)


if __name__ == "__main__":
    unittest.main()
