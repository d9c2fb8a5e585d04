"""Keys that are remembered after their answer was forgotten: 410 instead of a second execution."""
import email.utils
import os
import unittest

from harness import EndToEnd

KEY = "tombstone-key"
HOUR = 3600  # seconds
KEPT = "defaults.ttl=1h"
REMEMBERED = "defaults.tombstone=1h"


def seconds(date):
    return email.utils.parsedate_to_datetime(date).timestamp()


class Tombstones(EndToEnd):
    def serve(self, backend, *settings, **named):
        self.clock_ = self.clock()
        return self.gateway(backend, KEPT, *settings, clock=self.clock_, **named)

    def kind(self, gateway, body=b"{}", key=KEY):
        answer = gateway.ask(key=key, body=body)
        return answer.get("Idempotency-Status") or answer.code

    def an_hour_passes(self):
        self.clock_.advance(HOUR + 60)

    def test_a_late_retry_is_told_that_the_key_is_gone_and_executes_nothing(self):
        backend = self.backend()
        gateway = self.serve(backend, REMEMBERED)
        first = gateway.ask(key=KEY, body=b"{}")
        self.assertEqual((first.status, first.get("Idempotency-Status")), (201, "executed"))
        self.assertLess(seconds(first.get("Idempotency-Expires")) - seconds(first.get("Date")), HOUR + 60,
                        "it says when the answer is forgotten, not when the key is")
        self.assertEqual(self.kind(gateway), "replayed")
        self.an_hour_passes()
        late = gateway.ask(key=KEY, body=b"{}")
        self.assertEqual((late.status, late.code, late.problem["retryable"]), (410, "key-expired", False))
        self.assertIsNone(late.get("Idempotency-Expires"))
        self.assertEqual(self.kind(gateway, b"another body"), "key-expired")
        self.assertEqual(len(backend.requests), 1)
        self.assertEqual(gateway.ask(key="another-key", body=b"{}").status, 201)

    @unittest.skipIf(os.environ.get("ONCE_E2E_STORE"), "the journal is meant")
    def test_a_restart_remembers_too(self):
        backend = self.backend()
        data = self.folder()
        clock = self.clock()
        start = lambda *more: self.gateway(backend, f"store=journal:{data}/journal", KEPT, *more, clock=clock,
                                           env={**os.environ, "ONCE_SECRET": "s" * 16})
        gateway = start(REMEMBERED)
        gateway.ask(key=KEY, body=b"{}")
        gateway.stop()
        gateway = start()
        self.assertEqual(self.kind(gateway), "replayed")
        clock.advance(HOUR + 60)
        self.assertEqual(self.kind(gateway), "key-expired")
        gateway.stop()
        self.assertEqual(self.kind(start()), "key-expired")
        self.assertEqual(len(backend.requests), 1)


if __name__ == "__main__":
    unittest.main()
