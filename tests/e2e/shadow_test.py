"""Shadow mode: nothing changes for anybody, and Once says what it would have done."""
import os
import unittest

from harness import EndToEnd, Gateway
from wire import request_bytes, wait_until

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

    def test_another_host_is_another_operation(self):
        gateway = self.gateway(self.backend(), *SHADOW)
        for count, host in enumerate(("a.example", "b.example", "A.example:80"), 1):
            gateway.ask(key="k", body=b"a", fields=[("Host", host)])
            # The claim is made beside the request: there must be one before it can have ended.
            wait_until(lambda count=count: sum(self.verdicts(gateway).values()) == count)
            wait_until(lambda: self.no_live_claims(gateway))
        self.wait_verdicts(gateway, {"executed": 2, "replayed": 1})

    def test_keys_that_would_be_refused(self):
        backend = self.backend()
        gateway = self.gateway(backend, *SHADOW, "defaults.key.required=yes")
        for fields in ([], [("Idempotency-Key", "a"), ("Idempotency-Key", "b")], [("Idempotency-Key", "x" * 300)]):
            response = gateway.ask("POST", "/", fields, b"x")
            self.assertEqual(response.status, 201)
            self.assert_untouched(response)
        self.wait_verdicts(gateway, {"key-required": 1, "key-invalid": 2})
        self.assertEqual(len(backend.executions()), 3)

    def test_a_caller_that_would_be_refused_is_found_before_the_body(self):
        gateway = self.gateway(self.backend(), *SHADOW, "defaults.caller_missing=reject", "defaults.max_request_body=1KiB")
        self.assertEqual(gateway.ask(key="k", body=b"x" * 2000).status, 201)
        self.wait_verdicts(gateway, {"caller-refused": 1})
        response = gateway.ask(key="k", body=b"x" * 2000, fields=[("Authorization", "a")])
        self.assertEqual(response.status, 201)
        self.wait_verdicts(gateway, {"caller-refused": 1, "body-too-large": 1})

    def test_what_needs_no_key_has_no_verdict(self):
        gateway = self.gateway(self.backend(), *SHADOW)
        self.assertEqual(gateway.ask(body=b"x").status, 201)
        self.assertEqual(gateway.ask("GET", key="k").status, 201)
        self.assertEqual(self.verdicts(gateway), {})

    def test_a_retry_while_the_first_is_at_work(self):
        gate = self.gate()

        def handler(request, connection):
            if request.get("X-Slow"):
                gate.wait()
            connection.reply(200)

        gateway = self.gateway(self.backend(handler), *SHADOW)
        slow = self.connect(gateway)
        slow.send_request("POST", "/", [("X-Slow", "1")], b"x", "k")
        self.wait_verdicts(gateway, {"executed": 1})
        self.assertEqual(gateway.ask(key="k", body=b"x").status, 200)
        self.wait_verdicts(gateway, {"executed": 1, "in-flight": 1})
        gate.set()
        self.assertEqual(slow.read_response().status, 200)

        def replayed():
            gateway.ask(key="k", body=b"x")
            return self.verdicts(gateway).get("replayed")

        wait_until(replayed)

    def test_failures_and_refusals_are_kept_as_they_would_be(self):
        statuses = [500, 429, 200, 200]
        gateway = self.gateway(self.backend(lambda _, to: to.reply(statuses.pop(0))), *SHADOW)
        for count, status in enumerate((500, 429, 200), 1):
            self.assertEqual(gateway.ask(key="k", body=b"x").status, status)
            self.wait_verdicts(gateway, {"executed": count})
            wait_until(lambda: self.no_live_claims(gateway))
        gateway.ask(key="k", body=b"x")
        self.wait_verdicts(gateway, {"executed": 3, "replayed": 1})

    def no_live_claims(self, gateway):
        # The memory store ends a claim before anything else can be asked.
        return gateway.metrics().get("once_journal_live_claims", 0) == 0

    def test_large_and_chunked_bodies_stream(self):
        backend = self.backend()
        gateway = self.gateway(backend, *SHADOW, "defaults.max_request_body=100000")
        self.assertEqual(gateway.ask(key="large", body=b"x" * 500_000).status, 201)
        self.wait_verdicts(gateway, {"body-too-large": 1})
        for _ in range(2):
            with self.connect(gateway) as client:
                client.send(request_bytes(fields=[("Transfer-Encoding", "chunked")], key="chunks"))
                client.send(b"4\r\nhalf\r\n")
                wait_until(lambda: b"half" in backend.received)  # nothing waits for the whole of it
                client.send(b"5\r\nwhole\r\n0\r\n\r\n")
                self.assertEqual(client.read_response().status, 201)
            # The claim is made beside the request: there must be one before it can have ended.
            wait_until(lambda count=len(backend.requests): sum(self.verdicts(gateway).values()) == count)
            wait_until(lambda: self.no_live_claims(gateway))
        self.wait_verdicts(gateway, {"body-too-large": 1, "executed": 1, "replayed": 1})
        self.assertEqual(len(backend.requests[0].body), 500_000)

    def test_switching_to_enforce_starts_clean(self):
        backend = self.backend()
        config = ("routes:\n  - {path: /**, methods: [PATCH], mode: shadow, scope: [caller]}\n"
                  "  - {path: /**, scope: [caller]}\n")
        gateway = self.gateway(backend, config=config)
        self.assertEqual(gateway.ask("PATCH", key="k", body=b"x").status, 201)
        self.wait_verdicts(gateway, {"executed": 1})
        # The same caller and key, protected: neither a replay nor a mismatch.
        self.assertEqual(gateway.ask("POST", key="k", body=b"x").get("Idempotency-Status"), "executed")

    def test_a_client_that_leaves_before_anything_was_sent_made_no_request(self):
        go = self.gate()
        backend = self.backend(lambda _, to: go.wait() and to.reply(201))
        config = f"upstreams: {{default: {{servers: [{backend.origin}], max_connections: 1}}}}\nthreads: 1\ndefaults: {{timeouts: {{connect: 1m}}}}\n"
        gateway = Gateway("--set", "defaults.mode=shadow", config=config)
        self.addCleanup(gateway.stop)
        gateway.wait_listening()
        held, queued = self.connect(gateway), self.connect(gateway)
        held.send_request("GET")
        wait_until(lambda: backend.requests)
        queued.send_request(key="k", body=b"x")
        wait_until(lambda: gateway.metrics()['once_upstream_queued{upstream="default"}'] == 1)
        queued.reset()
        self.wait_verdicts(gateway, {"incomplete": 1})
        go.set()
        self.assertEqual(held.read_response().status, 201)
        self.assertEqual(gateway.ask(key="k", body=b"x").status, 201)
        self.wait_verdicts(gateway, {"incomplete": 1, "executed": 1})

    def test_a_backend_that_is_down_is_told_as_ever(self):
        backend = self.backend()
        gateway = self.gateway(backend, *SHADOW)
        backend.stop_listening()
        self.assertEqual(gateway.ask(key="k", body=b"x").code, "bad-gateway")
        self.wait_verdicts(gateway, {"executed": 1})
        backend.listen()
        wait_until(lambda: self.no_live_claims(gateway))
        self.assertEqual(gateway.ask(key="k", body=b"x").status, 201)
        self.wait_verdicts(gateway, {"executed": 2})


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
