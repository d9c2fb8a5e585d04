"""Keys that are remembered after their answer was forgotten: 410 instead of a second execution."""
import email.utils
import os
import time
import unittest

from harness import EndToEnd
from wire import wait_until

KEY = "tombstone-key"
SHORT = ("defaults.ttl=2s", "defaults.lease=1s", "defaults.takeover_after=1s")


class Tombstones(EndToEnd):
    def until(self, gateway, wanted, body=b"{}", key=KEY):
        """Asks until this is the answer; all the kinds of answers on the way, each once, in their order."""
        seen = []

        def asked():
            answer = gateway.ask(key=key, body=body)
            kind = answer.get("Idempotency-Status") or answer.code
            if seen[-1:] != [kind]:
                seen.append(kind)
            return kind == wanted

        wait_until(asked, what=f"an answer that is {wanted}")
        return seen

    def test_a_late_retry_is_told_that_the_key_is_gone_and_executes_nothing(self):
        backend = self.backend()
        gateway = self.gateway(backend, *SHORT, "defaults.tombstone=1h")
        before = time.time()
        first = gateway.ask(key=KEY, body=b"{}")
        self.assertEqual((first.status, first.get("Idempotency-Status")), (201, "executed"))
        expires = email.utils.parsedate_to_datetime(first.get("Idempotency-Expires")).timestamp()
        self.assertLess(expires - before, 600, "it says when the answer is forgotten, not when the key is")
        self.assertIn(self.until(gateway, "key-expired"), (["replayed", "key-expired"], ["key-expired"]))
        late = gateway.ask(key=KEY, body=b"{}")
        self.assertEqual((late.status, late.code, late.problem["retryable"]), (410, "key-expired", False))
        self.assertIsNone(late.get("Idempotency-Expires"))
        self.assertEqual(gateway.ask(key=KEY, body=b"another body").code, "key-expired")
        self.assertEqual(len(backend.requests), 1)
        self.assertEqual(gateway.ask(key="another-key", body=b"{}").status, 201)

    def test_when_that_is_forgotten_too_the_key_is_as_new(self):
        backend = self.backend()
        gateway = self.gateway(backend, *SHORT, "defaults.tombstone=5s")

        def attempt(number):
            before = len(backend.requests)
            gateway.ask(key=f"{KEY}-{number}", body=b"{}")
            seen = self.until(gateway, "executed", key=f"{KEY}-{number}")
            self.assertEqual([request.get("Idempotency-Attempt") for request in backend.requests[before:]], ["1", "1"])
            self.assertEqual(seen[-2:], ["key-expired", "executed"])

        self.tried(attempt, times=3)

    def test_a_failure_is_remembered_like_a_success(self):
        backend = self.backend(lambda _, to: to.reply(500))
        gateway = self.gateway(backend, *SHORT, "defaults.tombstone=1h")
        gateway.ask(key=KEY, body=b"{}")
        # Without a retry in between: each would begin the time anew.
        wait_until(lambda: gateway.ask(key=KEY, body=b"another").code == "key-expired", what="the failure to expire")
        self.assertEqual(gateway.ask(key=KEY, body=b"{}").code, "key-expired")
        self.assertEqual(len(backend.requests), 1)

    def test_without_the_setting_an_expired_key_is_executed_again(self):
        gateway = self.gateway(self.backend(), *SHORT)
        gateway.ask(key=KEY, body=b"{}")
        self.assertNotIn("key-expired", self.until(gateway, "executed"))

    @unittest.skipIf(os.environ.get("ONCE_E2E_STORE"), "the journal is meant")
    def test_a_restart_remembers_too(self):
        backend = self.backend()
        data = self.folder()
        start = lambda *more: self.gateway(backend, f"store=journal:{data}/journal", *SHORT, *more,
                                           env={**os.environ, "ONCE_SECRET": "s" * 16})
        gateway = start("defaults.tombstone=1h")
        gateway.ask(key=KEY, body=b"{}")
        gateway.stop()
        gateway = start()
        self.until(gateway, "key-expired")
        gateway.stop()
        self.assertEqual(start().ask(key=KEY, body=b"{}").code, "key-expired")
        self.assertEqual(len(backend.requests), 1)


if __name__ == "__main__":
    unittest.main()
