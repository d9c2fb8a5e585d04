"""Client libraries that retry, as npm has them, against the real gateway with its defaults.

package.json says which versions; they run on Debian's own Node 18. A test fails and says so where npm cannot reach its registry.
"""
import json
import os
import pathlib
import subprocess
import threading
import unittest

import npm
from harness import EndToEnd
from wire import DEADLINE, wait_until

SOURCE = pathlib.Path(__file__).resolve().parent
LIBRARIES = ("axios-retry", "got", "undici", "openai", "stripe")
CHARGES = "/v1/charges"  # where stripe sends its charges


class Sdks(EndToEnd):
    @classmethod
    def setUpClass(cls):
        cls.packages = npm.install(SOURCE, pathlib.Path(os.environ["ONCE_SDKS_FOLDER"]), ["send.mjs"])

    def dialect_of(self, library):
        return "stripe" if library == "stripe" else "ietf"

    def send(self, gateway, library, key="k", body='{"amount":1}', headers=None):
        """What the library's user gets."""
        command = ["node", "send.mjs", library, f"http://127.0.0.1:{gateway.port}{CHARGES}", key, body, json.dumps(headers or {})]
        done = subprocess.run(command, cwd=self.packages, capture_output=True, text=True, timeout=2 * DEADLINE,
                              stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout.splitlines()[-1])

    def reply(self, to, status=200, fields=(), body=b'{"id":"ch_1","object":"charge"}'):
        to.reply(status, [("Content-Type", "application/json"), *fields], body)

    def test_a_retry_after_a_timeout_gets_the_answer_of_the_first_try(self):
        for library in LIBRARIES:
            with self.subTest(library):
                go = self.gate()
                backend = self.backend(lambda _, to, go=go: go.wait() and self.reply(to))
                gateway = self.gateway(backend, f"defaults.dialect={self.dialect_of(library)}")
                got = []
                sending = threading.Thread(target=lambda: got.append(self.send(gateway, library)))
                sending.start()
                wait_until(lambda gateway=gateway: gateway.metrics()["once_waiting"] == 1, what="the retry to wait for the first try")
                go.set()
                sending.join()
                self.assertEqual((got[0]["ok"], got[0].get("status")), (True, 200), got)
                self.assertEqual(len(backend.executions()), 1)

    def test_an_unknown_outcome_is_an_error_soon_and_never_a_second_execution(self):
        """With Retry-After: 300 they slept for five minutes, inside the call, and then executed again."""
        for library in LIBRARIES:
            with self.subTest(library):
                backend = self.backend(lambda _, to: to.reset())
                gateway = self.gateway(backend, f"defaults.dialect={self.dialect_of(library)}")
                got = self.send(gateway, library)
                self.assertFalse(got["ok"], got)
                self.assertIn(got.get("status"), (409, 502), got)
                self.assertEqual(len(backend.executions()), 1)

    def test_stripe_gets_an_error_for_every_problem(self):
        """Without an error object stripe-node resolves its promise with the problem as if it were a charge."""
        backend = self.backend(lambda _, to: self.reply(to))
        gateway = self.gateway(backend, "defaults.dialect=stripe", "defaults.max_request_body=1KiB", "defaults.max_large_request=0")
        first = self.send(gateway, "stripe")
        self.assertTrue(first["ok"], first)
        self.assertRegex(first["requestId"], "^[0-9a-f]{32}$")
        large = json.dumps({"description": "x" * 2000})
        for request, name, status in (({"body": '{"amount":2}'}, "StripeIdempotencyError", 400),
                                      ({"key": "bad key"}, "StripeIdempotencyError", 400),
                                      ({"key": "large", "body": large}, "StripeInvalidRequestError", 413)):
            with self.subTest(name, status=status):
                got = self.send(gateway, "stripe", **request)
                self.assertEqual((got["ok"], got["name"], got["status"]), (False, name, status), got)
                self.assertIn("requestId", got)
        backend.stop_listening()
        got = self.send(gateway, "stripe", key="nobody-is-there")
        self.assertEqual((got["ok"], got["name"], got["status"]), (False, "StripeAPIError", 502), got)


if __name__ == "__main__":
    unittest.main()
