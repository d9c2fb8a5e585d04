"""clients/python/once_client.py against the real gateway."""
import ast
import os
import subprocess
import sys
import threading
import time
import unittest

from support import ROOT, ClaimsTest
from wire import wait_until

import once_client
from once_client import Once, OnceError, hash_text


# In a process of its own: claims, says so, and never ends.
WORK_UNTIL_KILLED = """
import sys, threading
from once_client import Once

def work():
    print("began", flush=True)
    threading.Event().wait()

Once(sys.argv[1]).run(work, scope="jobs", key="k", lease="1s", takeover_after="3s")
"""


class PythonClient(ClaimsTest):
    def client(self, *settings, **named):
        return Once(self.api(*settings).url, **named)

    def test_a_hundred_callers_and_one_run(self):
        once = self.client()
        runs, results = [], []

        def expensive():
            runs.append(threading.get_ident())
            time.sleep(0.5)  # the work
            return {"text": "hello"}

        def caller():
            results.append(once.run(expensive, scope="ai", inputs={"prompt": hash_text("Hi  there ")}, wait="30s"))

        threads = [threading.Thread(target=caller) for _ in range(100)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(runs), 1)
        self.assertEqual([result.value for result in results], [{"text": "hello"}] * 100)
        self.assertEqual(sum(result.cached for result in results), 99)

    def test_an_owner_that_is_killed_is_taken_over_after_the_threshold(self):
        _, api = self.start()
        owner = subprocess.Popen([sys.executable, "-c", WORK_UNTIL_KILLED, api.url], stdout=subprocess.PIPE, text=True,
                                 env={**os.environ, "PYTHONPATH": str(ROOT / "clients" / "python")})
        self.addCleanup(owner.stdout.close)
        self.addCleanup(owner.wait)
        self.addCleanup(owner.kill)
        self.assertEqual(owner.stdout.readline(), "began\n")
        began = time.monotonic()
        once = Once(api.url)
        options = {"scope": "jobs", "key": "k", "lease": "1s", "takeover_after": "3s"}
        # Longer than the lease and the threshold: an owner that lives and renews keeps its claim.
        while time.monotonic() - began < 3.5:
            self.assertEqual(once.run(self.fail, **options).status, "in_progress")
            time.sleep(0.2)
        owner.kill()
        owner.wait()
        result = wait_until(lambda: (got := once.run(lambda: "second", **options)).ok and got)
        self.assertEqual((result.value, result.attempt, result.cached), ("second", 2, False))

    def test_a_stale_owners_result_is_refused_and_said(self):
        once = self.client()
        options = {"scope": "jobs", "key": "k", "lease": "1s", "takeover_after": "1s"}
        stale = once.claim(**options)
        stale._ended.set()  # it stands still: nothing is renewed
        taken = wait_until(lambda: (claim := once.claim(**options)).acquired and claim)
        self.assertEqual(stale.succeed("stale").status, "lost")
        self.assertTrue(stale.lost.is_set())
        self.assertEqual(taken.succeed("fresh").status, "succeeded")
        self.assertEqual(once.lookup(scope="jobs", key="k").value, "fresh")

    def test_work_that_raises_has_failed_and_a_retry_runs(self):
        once = self.client()
        error = ValueError("no")

        def broken():
            raise error

        failed = once.run(broken, scope="jobs", key="k")
        self.assertEqual((failed.status, failed.error, failed.ok), ("failed", error, False))
        self.assertEqual(once.lookup(scope="jobs", key="k").status, "failed")
        again = once.run(lambda: 7, scope="jobs", key="k")
        self.assertEqual((again.value, again.attempt), (7, 2))
        self.assertEqual(once.run(object, scope="jobs", key="no JSON").status, "failed")

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
        away = Once(f"unix:{self.data}/nothing.sock", patience=0.3)
        self.assertEqual(away.run(self.fail, scope="jobs", key="k").status, "unavailable")
        if os.environ.get("ONCE_E2E_STORE") == "memory:":
            return
        claim = Once(api.url).claim(scope="jobs", key="k", lease="30s")
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
        acme, umbrella = (Once(nobody.url, token) for token in tokens.values())
        self.assertEqual(acme.run(lambda: "acme's", scope="jobs", key="k").value, "acme's")
        self.assertEqual(umbrella.run(lambda: "umbrella's", scope="jobs", key="k").value, "umbrella's")
        with self.assertRaisesRegex(OnceError, "unauthorized"):
            Once(nobody.url, "wrong").run(self.fail, scope="jobs", key="k")
        with self.assertRaisesRegex(OnceError, "ttl"):
            acme.run(self.fail, scope="jobs", key="k", ttl="soon")
        with self.assertRaises(ValueError):
            acme.run(self.fail, scope="jobs")

    def test_hash_text_knows_no_white_space(self):
        self.assertEqual(hash_text(" a\n b "), hash_text("a b"))
        self.assertNotEqual(hash_text("a b"), hash_text("ab"))
        self.assertEqual(len(hash_text("")), 64)


class Source(unittest.TestCase):
    def test_it_is_one_file_for_python_3_9_without_dependencies(self):
        text = (ROOT / "clients" / "python" / "once_client.py").read_text()
        tree = ast.parse(text, feature_version=(3, 9))
        imported = {name.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
        self.assertLessEqual(imported, sys.stdlib_module_names)
        self.assertEqual(set(once_client.__all__), {"Claim", "Once", "OnceError", "Result", "hash_text"})


if __name__ == "__main__":
    unittest.main()
