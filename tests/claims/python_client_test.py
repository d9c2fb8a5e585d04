"""once.ClaimsClient against the real gateway."""
import json
import os
import subprocess
import sys
import threading
import time
import unittest
import unittest.mock

from support import ROOT, ClaimsTest
from wire import wait_until

from once import ClaimsClient, OnceError, claims as once_claims, hash_text


# In a process of its own: claims, says so, and never ends. A lease is a second by its clock, and a minute by the gateway's.
WORK_UNTIL_KILLED = """
import sys, threading
from once import claims as once_claims
from once import ClaimsClient

once_claims.seconds = lambda duration: 1.0

def work():
    print("began", flush=True)
    threading.Event().wait()

ClaimsClient(sys.argv[1]).run(work, scope="jobs", key="k", lease="1m", takeover_after="3m")
"""


class VirtualTime:
    """Stands in for the client's time and threading: waiting takes no time and moves the clock. Threads do not run."""

    def __init__(self):
        self.now = 0.0
        self.Event = lambda: VirtualEvent(self)
        self.Lock = threading.Lock
        self.Thread = unittest.mock.Mock()

    def monotonic(self):
        return self.now


class VirtualEvent(threading.Event):
    def __init__(self, time):
        super().__init__()
        self.time = time

    def wait(self, timeout=None):
        if not self.is_set():
            self.time.now += timeout
        return self.is_set()


class PythonClient(ClaimsTest):
    def client(self, *settings, **named):
        return ClaimsClient(self.api(*settings).url, **named)

    def test_an_owner_that_is_killed_is_taken_over_after_the_threshold(self):
        clock = self.clock()
        gateway, api = self.start(clock=clock)
        owner = subprocess.Popen([sys.executable, "-c", WORK_UNTIL_KILLED, api.url], stdout=subprocess.PIPE, text=True,
                                 env={**os.environ, "PYTHONPATH": str(ROOT / "bindings" / "python")})
        self.addCleanup(owner.stdout.close)
        self.addCleanup(owner.wait)
        self.addCleanup(owner.kill)
        self.assertEqual(owner.stdout.readline(), "began\n")
        once = ClaimsClient(api.url)
        options = {"scope": "jobs", "key": "k", "lease": "1m", "takeover_after": "3m"}
        renewals = lambda: gateway.metrics()['once_claims_requests_total{verb="renew",result="done"}']
        for _ in range(8):  # past the lease and the threshold: an owner that lives keeps its claim
            before = renewals()
            clock.advance(30)
            # One may have been on its way when the clock was moved.
            wait_until(lambda before=before: renewals() >= before + 2, what="renewals")
            self.assertEqual(once.run(self.fail, **options).status, "in_progress")
        owner.kill()
        owner.wait()
        self.assertEqual(once.run(self.fail, **options).status, "in_progress")
        clock.advance(61)
        result = once.run(lambda: "second", **options)
        self.assertEqual((result.value, result.attempt, result.cached), ("second", 2, False))

    def test_a_value_that_cannot_be_recorded_is_said_and_the_claim_is_not_failed(self):
        once = self.client("claims.max_body=64KiB")
        for name, value in {"long": "x" * 100_000, "sent in pieces": "x" * 30_000_000, "NaN": float("nan"), "set": {1}}.items():
            with self.subTest(name):
                result = once.run(lambda: value, scope="jobs", key=name)
                self.assertEqual((result.status, result.reason, result.ok), ("unavailable", "value-refused", False))
                self.assertIs(result.value, value)
                self.assertIsInstance(result.error, OnceError if isinstance(value, str) else (TypeError, ValueError))
                self.assertTrue(result.claim._ended.is_set())
                self.assertEqual(once.lookup(scope="jobs", key=name).status, "in_progress")
                self.assertEqual(result.claim.succeed("where it is").status, "succeeded")
                self.assertEqual(once.lookup(scope="jobs", key=name).value, "where it is")
        self.assertEqual(once.run(lambda: 1, scope="jobs", key="small").reason, "")

    def test_a_renewal_that_gets_no_answer_does_not_cost_the_lease(self):
        time, sent = VirtualTime(), []
        steps = ["nothing", 0.4, 0.4, 0.0, "nothing", "nothing", 0.4, "taken over"]  # how long the answer takes

        def ask(method, target, body, patience, timeout):
            self.assertEqual((method, target, body, patience), ("POST", "/v1/claims/c/renew", {"lease": "3s"}, 0))
            step = steps[len(sent)]
            sent.append(time.now)
            if step == "nothing":
                time.now += timeout
                raise OSError("no answer")
            if step == "taken over":
                return 409, {}
            time.now += step
            return 200, {}

        with unittest.mock.patch.multiple(once_claims, time=time, threading=time):
            claim = once_claims.Claim(unittest.mock.Mock(_ask=ask), "3s", {"claim": "c", "attempt": 1, "fence": 1}, None)
            claim._renew()
        self.assertTrue(claim.lost.is_set())
        gaps = [later - earlier for earlier, later in zip([0.0, *sent], sent)]
        # From start to start, a second; after what got no answer in half a second, soon.
        for gap, soon in zip(gaps, (False, True, False, False, False, True, True, False), strict=True):
            self.assertTrue(0.625 <= gap <= 0.75 if soon else abs(gap - 1) < 1e-6, gaps)

    def test_as_a_decorator(self):
        once = self.client()
        runs = []

        @once.with_idempotency(scope="square", inputs=lambda number, note="": {"number": number})
        def square(number, note=""):
            """Squares."""
            runs.append(number)
            return number * number

        @once.with_idempotency(scope="cube")
        def cube(number):
            runs.append(number)
            return number ** 3

        self.assertEqual([square(3).value, square(3, note="again").value, square(4).value], [9, 9, 16])
        self.assertEqual([cube(2).value, cube(2).value, cube(3).value], [8, 8, 27])
        self.assertEqual(runs, [3, 4, 2, 3])
        self.assertEqual(square.__doc__, "Squares.")

    def test_arguments_count_however_they_are_given(self):
        once = self.client()
        runs = []

        @once.with_idempotency(scope="send")
        def send(invoice_id, note="", *copies, urgent=False, **more):
            runs.append(1)
            return len(runs)

        class Service:
            @once.with_idempotency(scope="method")
            def send(self, invoice_id):
                pass

        same = [send(7), send(invoice_id=7), send(7, ""), send(note="", invoice_id=7), send(7, urgent=False)]
        self.assertEqual([result.value for result in same], [1] * 5)
        # What an earlier version of this client recorded for send(7).
        self.assertEqual(once.lookup(scope="send", inputs={"args": [7], "named": {}}).value, 1)
        others = [send(8), send("7"), send(7, "x"), send(7, "", "x"), send(7, urgent=True), send(7, urgent=0), send(7, more=1)]
        self.assertEqual([result.value for result in others], [2, 3, 4, 5, 6, 7, 8])
        self.assertEqual([send(7, note="x").value, send(more=1, invoice_id=7).value], [4, 8])
        for mistake in (lambda: send(), lambda: Service().send()):
            with self.assertRaisesRegex(TypeError, "invoice_id"):
                mistake()
        with self.assertRaisesRegex(TypeError, r"the arguments of send\(\) are no JSON.*inputs="):
            Service().send(7)

    def test_as_a_context_manager(self):
        once = self.client()
        for expected in (True, False):
            with once.with_idempotency(scope="imports", key="today", ttl=3600) as claim:
                self.assertEqual(claim.acquired, expected)
                if claim.acquired:
                    self.assertRegex(claim.handle, r"^[0-9a-f]{64}\.[0-9a-f]{32}$")
                    claim.value = {"rows": 12}
            self.assertEqual((claim.result.value, claim.result.cached), ({"rows": 12}, not expected))
        with self.assertRaises(KeyError), once.with_idempotency(scope="imports", key="other") as claim:
            raise KeyError("x")
        self.assertEqual(claim.result.status, "failed")
        with once.with_idempotency(scope="imports", key="none") as claim:
            claim.release()
        self.assertIsNone(once.lookup(scope="imports", key="none"))

    def test_a_context_manager_may_be_shared_by_threads_and_nested(self):
        once = self.client()
        shared = once.with_idempotency(scope="imports", key="threads")
        seen = []

        def other():
            with shared as claim:
                seen.append(claim)

        with shared as outer:
            thread = threading.Thread(target=other)
            thread.start()
            thread.join()
            with shared as inner:
                self.assertFalse(inner.acquired)
            outer.value = "outer's"
        self.assertEqual((seen[0].acquired, seen[0].result.status), (False, "in_progress"))
        self.assertEqual((outer.result.status, outer.result.value), ("succeeded", "outer's"))
        self.assertEqual(once.lookup(scope="imports", key="threads").value, "outer's")

    def test_what_stands_in_the_way_is_a_result(self):
        once = self.client()
        holder = once.claim(scope="jobs", key="k", fingerprint=1)
        busy = once.run(self.fail, scope="jobs", key="k", fingerprint=1)
        self.assertEqual(busy.status, "in_progress")
        self.assertGreaterEqual(busy.retry_after, 1)
        self.assertEqual(once.run(self.fail, scope="jobs", key="k", fingerprint=2).status, "mismatch")
        holder.succeed(None)
        self.assertEqual(once.run(self.fail, scope="jobs", key="k", fingerprint=1).status, "succeeded")

    def test_a_gateway_that_is_away_is_a_result_and_one_that_comes_back_is_waited_for(self):
        gateway, api = self.start()
        away = ClaimsClient(f"unix:{self.data}/nothing.sock", patience=0.3)
        self.assertEqual(away.run(self.fail, scope="jobs", key="k").status, "unavailable")
        if os.environ.get("ONCE_E2E_STORE") == "memory:":
            return
        claim = ClaimsClient(api.url).claim(scope="jobs", key="k", lease="30s")
        gateway.kill()
        results = []
        owner = threading.Thread(target=lambda: results.append(claim.succeed("over a restart")))
        owner.start()
        self.start()
        owner.join()
        self.assertEqual(results[0].status, "succeeded")

    def test_tokens_name_tenants_and_mistakes_raise(self):
        tokens = {"acme": "a" * 20, "umbrella": "u" * 20}
        _, nobody = self.start(tokens=tokens)
        acme, umbrella = (ClaimsClient(nobody.url, token) for token in tokens.values())
        self.assertEqual(acme.run(lambda: "acme's", scope="jobs", key="k").value, "acme's")
        self.assertEqual(umbrella.run(lambda: "umbrella's", scope="jobs", key="k").value, "umbrella's")
        with self.assertRaisesRegex(OnceError, "unauthorized"):
            ClaimsClient(nobody.url, "wrong").run(self.fail, scope="jobs", key="k")
        with self.assertRaisesRegex(OnceError, "ttl"):
            acme.run(self.fail, scope="jobs", key="k", ttl="soon")
        with self.assertRaises(ValueError):
            acme.run(self.fail, scope="jobs")
        # The token alone says whose work it is: a tenant is not taken and then ignored.
        for ask in (acme.claim, acme.lookup, lambda **options: acme.run(self.fail, **options),
                    lambda **options: acme.with_idempotency(**options)(self.fail)()):
            with self.assertRaisesRegex(TypeError, "tenant"):
                ask(scope="jobs", key="k", tenant="umbrella")

    def test_hash_text_knows_no_white_space(self):
        for each in json.loads((ROOT / "tests" / "claims" / "languages.json").read_text())["texts"]:
            self.assertEqual(hash_text(each["text"]), each["hash"], ascii(each["text"]))


if __name__ == "__main__":
    unittest.main()
