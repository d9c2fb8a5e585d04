"""Shadow mode: nothing changes for anybody, and Once says what it would have done."""
import os
import unittest

from harness import EndToEnd
from wire import wait_until

SHADOW = ("defaults.mode=shadow",)


class ShadowMode(EndToEnd):
    def verdicts(self, gateway):
        found = {}
        for name, value in gateway.metrics().items():
            if name.startswith("once_shadow_total") and value:
                found[name.split('"')[1]] = int(value)
        return found

    def wait_verdicts(self, gateway, expected):
        wait_until(lambda: self.verdicts(gateway) == expected,
                   what=f"verdicts {expected}, the last are {self.verdicts(gateway)}")

    def assert_untouched(self, response):
        names = [name.lower() for name, _ in response.fields]
        self.assertEqual([name for name in names if name.startswith("idempot") or name == "original-request-id"], [])

    def test_every_request_goes_to_the_backend_and_verdicts_are_counted(self):
        backend = self.backend()
        gateway = self.gateway(backend, *SHADOW, "threads=1", "log.access=yes")
        for body in (b"a", b"a", b"b"):
            response = gateway.ask(key="k", body=body)
            self.assertEqual((response.status, response.body), (201, b"made by attempt none"))
            self.assert_untouched(response)
            # The next one would meet what this one left behind, and nobody waited for that to be recorded.
            wait_until(lambda count=len(backend.requests): sum(self.verdicts(gateway).values()) == count)
            wait_until(lambda: self.no_live_claims(gateway))
        self.wait_verdicts(gateway, {"executed": 1, "replayed": 1, "mismatch": 1})
        self.assertEqual(len(backend.executions()), 3)
        for request in backend.requests:
            self.assertEqual(request.get("Idempotency-Key"), "k")
            for name in ("Idempotency-Attempt", "Idempotency-Fence", "Idempotency-Claim"):
                self.assertIsNone(request.get(name))
        self.assertEqual(gateway.metrics()['once_requests_total{result="passed"}'], 3)
        gateway.terminate()
        gateway.wait()
        lines = [line for line in gateway.log_lines() if line["message"] == "shadow"]
        self.assertEqual([(line["verdict"], line["route"]) for line in lines], [("replayed", "/**"), ("mismatch", "/**")])
        access = gateway.log_lines(gateway.stdout)
        self.assertEqual([line["shadow"] for line in access], ["executed", "replayed", "mismatch"])
        self.assertEqual(lines[0]["request"], access[1]["request"])

    def no_live_claims(self, gateway):
        # The memory store ends a claim before anything else can be asked.
        return gateway.metrics().get("once_journal_live_claims", 0) == 0

    def test_switching_to_enforce_starts_clean(self):
        backend = self.backend()
        config = ("routes:\n  - {path: /**, methods: [PATCH], mode: shadow, scope: [caller]}\n"
                  "  - {path: /**, scope: [caller]}\n")
        gateway = self.gateway(backend, config=config)
        self.assertEqual(gateway.ask("PATCH", key="k", body=b"x").status, 201)
        self.wait_verdicts(gateway, {"executed": 1})
        # The same caller and key, protected: neither a replay nor a mismatch.
        self.assertEqual(gateway.ask("POST", key="k", body=b"x").get("Idempotency-Status"), "executed")


class StoreDown(EndToEnd):
    def test_a_store_that_cannot_be_reached_costs_a_verdict_and_no_answer(self):
        backend = self.backend()
        # Nobody listens there.
        gateway = self.gateway(backend, *SHADOW, "store=redis://127.0.0.1:9",
                               env={**os.environ, "ONCE_SECRET": "a secret of this test"})
        for _ in range(3):
            response = gateway.ask(key="k", body=b"x")
            self.assertEqual((response.status, response.body), (201, b"made by attempt none"))
        wait_until(lambda: gateway.metrics()['once_shadow_total{verdict="store-error"}'] == 3)
        self.assertEqual(len(backend.executions()), 3)


if __name__ == "__main__":
    unittest.main()
