"""Alerts that fire because of what happens: real gateways are made to fail in every way that can be had within seconds, and a real
Prometheus says so. What takes longer is in rules_test.py, in virtual time.
"""
import contextlib
import itertools
import os
import resource
import secrets
import signal
import threading
import unittest

import packaged

import catalog
from harness import EndToEnd, Gateway
from prometheus import Prometheus, instance_of
from support import Api
from tls import Authority
from wire import wait_until

RATES = """
routes:
  - {path: /takeovers, on_unknown: retry}
  - {path: /failures}
  - {path: /hits}
  - {path: /calm}
"""
SHARED = """
routes:
  - {path: /short, lease: 1s, on_unknown: retry}
  - {path: /bypassed, store_down: bypass}
  - {path: "/**"}
"""
CROWDED = """
threads: 1  # each has a share of what an upstream may have
limits: {{max_connections: 10, max_in_flight: 5}}
upstreams:
  default: {{servers: ["{origin}"], max_connections: 6}}
"""
DOWN = """
upstreams:
  half: {{servers: ["{origin}", "http://127.0.0.1:9"], health: {{path: /up, interval: 100ms}}}}
  gone: {{servers: ["http://127.0.0.1:9"], health: {{path: /up, interval: 100ms}}}}
routes:
  - {{path: /gone, upstream: gone}}
  - {{path: "/**"}}
"""
ONE_ADDRESS = "limits.address.stored_bytes=1GiB"  # may fill the whole store
FULL = ("journal.max_disk=16MiB", ONE_ADDRESS)
# By rules_test.py alone: they take ten minutes, or more of a machine than a test should; or another part serves the metric.
VIRTUAL = {"OnceRequestStuck", "OnceKeysHeldUnknown", "OnceNearLimit:body_bytes", "OnceNearLimit:store_bytes", "OnceNearLimit:store_queue",
           "OnceNearLimit:upstream_queue", "OnceNearLimit:claims_connections", "OnceNearLimit:claims_waiting",
           "OnceNearLimit:descriptors"}


def name_of(labels):
    name = labels["alertname"]
    return f"{name}:{labels['limit']}" if name == "OnceNearLimit" else name


class Alerts(EndToEnd):
    def setUp(self):
        super().setUp()
        self.prometheus = Prometheus()
        self.addCleanup(self.prometheus.stop)
        self.expected = []  # (alert, labels that it has)

    def expect(self, alert, gateway=None, **labels):
        if gateway is not None:
            labels["instance"] = instance_of(gateway)
        self.expected.append((alert, labels))

    def is_firing(self, alert, labels):
        return any(name_of(found) == alert and labels.items() <= found.items() for found in self.prometheus.firing())

    def wait_for_all(self):
        for alert, labels in self.expected:
            wait_until(lambda alert=alert, labels=labels: self.is_firing(alert, labels), what=f"{alert} {labels}")

    def configured(self, config, *settings, **named):
        """With upstreams of its own in the configuration."""
        options = [part for setting in ("timeouts.drain=70s", *settings) for part in ("--set", setting)]
        gateway = Gateway(*options, config=config, **named)
        self.addCleanup(lambda: gateway.folder.exists() and gateway.stop())
        return gateway.wait_listening()

    def start_all(self):
        self.seen = set()  # by the backend, so claimed
        died = set()
        self.go = self.gate()
        self.refuse = self.gate()
        self.wake = self.gate()

        def answer(request, connection):
            key = request.get("Idempotency-Key")
            self.seen.add(key)
            if request.target == "/takeovers" and key not in died:
                died.add(key)
                connection.reset()
            elif request.target == "/held" or (request.target == "/short" and request.get("Idempotency-Attempt") == "1"):
                (self.wake if key == "lost" else self.go).wait()
                connection.reply(201)
            elif request.target == "/refused":
                self.refuse.wait()
                connection.reply(429)
            else:
                size = 100_000 if request.target == "/large" else 10_000
                connection.reply(500 if request.target == "/failures" else 201, body=secrets.token_bytes(size))

        backend = self.backend(answer)
        self.redis = catalog.make("redis")
        self.addCleanup(self.redis.stop)
        self.redis.start()
        authority = Authority(self.folder())
        certificate, key = authority.issue("localhost", "DNS:localhost", days=2)
        self.data = self.folder()
        secret = {**os.environ, "ONCE_SECRET": secrets.token_hex(16)}
        on_redis = [self.gateway(backend, f"store={self.redis.url()}", "timeouts.drain=5s", config=SHARED, env=secret) for _ in range(2)]
        self.gateways = {
            "rates": self.gateway(backend, f"claims.listen=unix:{self.data}/claims.sock", config=RATES),
            "shared": on_redis[0], "other": on_redis[1],
            "crowded": self.configured(CROWDED.format(origin=backend.origin)),
            "small": self.gateway(backend, "store=memory:", "memory.max_bytes=1MiB", ONE_ADDRESS),
            "full": self.gateway(backend, *FULL),
            "strangers": self.gateway(backend, "limits.address.stored_bytes=16KiB"),
            "failed": self.gateway(backend, f"data_dir={self.data}", "defaults.ttl=24s", "defaults.lease=1s"),  # a segment ends after a second
            "down": self.configured(DOWN.format(origin=backend.origin)),
            "tls": self.gateway(backend, "tls.listen=127.0.0.1:0", f"tls.certificates=[{certificate}]",
                                f"tls.keys=[{key}]"),
            "uploads": self.gateway(backend, "defaults.max_request_body=64KiB", "limits.max_spool=4MiB", "timeouts.body_idle=10m"),
            "poor": self.gateway(backend),
            "calm": self.gateway(backend)}
        self.prometheus.watch(self.gateways.values())

    def provoke_rates(self, gateway):
        with gateway.connect() as client:
            for target, count in (("/failures", 30), ("/hits", 110), ("/calm", 30), ("/takeovers", 25)):
                for number in range(count):
                    client.ask("POST", target, key=f"key-{number}")
            for target, count in (("/hits", 5), ("/calm", 30), ("/takeovers", 25)):
                for number in range(count):
                    client.ask("POST", target, key=f"key-{number}")
        self.expect("OnceFailuresHigh", route="/failures")
        self.expect("OnceHitRateLow", route="/hits")
        self.expect("OnceTakeoversHigh", route="/takeovers")
        self.expect("OnceOutcomesUnknown", route="/takeovers")

    def provoke_claims(self):
        api = Api(f"unix:{self.data}/claims.sock")
        for number in range(25):
            api.acquire(key=f"abandoned-{number}", lease="1s", on_unknown="retry")
        for number in range(110):
            claim = api.acquire(key=f"key-{number}")["claim"]
            if number < 30:
                api.owner("fail", claim)
            elif number < 35:
                api.owner("succeed", claim, value={"done": True})
                api.claim(key=f"key-{number}")
        for number in range(25):
            again = {"key": f"abandoned-{number}", "lease": "1s", "on_unknown": "retry"}
            wait_until(lambda again=again: api.claim(**again)["status"] == "acquired", what="the lease to end")
        for alert in ("OnceClaimsTakeoversHigh", "OnceClaimsFailuresHigh", "OnceClaimsHitRateLow"):
            self.expect(alert, job="once")

    def provoke_lost_claim(self, gateway, other):
        """The owner stands still for longer than its lease, and the retry goes to another gateway."""
        slow = self.connect(gateway)
        slow.send_request("POST", "/short", key="lost")
        wait_until(lambda: "lost" in self.seen)
        gateway.process.send_signal(signal.SIGSTOP)
        try:
            wait_until(lambda: other.ask("POST", "/short", key="lost").status == 201, what="the claim to lapse")
        finally:
            gateway.process.send_signal(signal.SIGCONT)
        self.wake.set()
        self.assertEqual(slow.read_response().code, "outcome-unknown")
        self.expect("OnceClaimsLost", gateway)

    def provoke_store_down(self, gateway):
        self.connect(gateway).send_request("POST", "/short", key="renewed-in-vain")
        self.connect(gateway).send_request("POST", "/refused", key="released-in-vain")
        wait_until(lambda: {"renewed-in-vain", "released-in-vain"} <= self.seen)
        self.redis.kill()
        self.refuse.set()
        for number in range(3):
            self.assertEqual(gateway.ask("POST", "/", key=f"key-{number}").status, 503)
        self.assertEqual(gateway.ask("POST", "/bypassed", key="unprotected").status, 201)
        self.expect("OnceBypassed", route="/bypassed")
        for alert in ("OnceStoreDown", "OnceStoreErrors", "OnceLeasesNotRenewed", "OnceOutcomesUnsettled"):
            self.expect(alert, gateway)

    def provoke_crowd(self, gateway):
        self.crowd = [self.connect(gateway) for _ in range(9)]
        for number in range(5):
            self.crowd[number].send_request("POST", "/held", key=f"key-{number}")
        wait_until(lambda: gateway.metrics()["once_in_flight"] == 5)
        self.assertEqual(self.crowd[5].ask("POST", "/", key="one-too-many").status, 503)
        self.expect("OnceOverloaded", gateway, limit="in_flight")
        for limit in ("connections", "in_flight", "upstream_connections"):
            self.expect(f"OnceNearLimit:{limit}", gateway)

    def provoke_full(self, small, full):
        with small.connect() as client:
            for number in range(130):
                self.assertEqual(client.ask("POST", "/", key=f"key-{number}").status, 201)
        self.expect("OnceEvictions", small)
        with full.connect() as client:
            numbers = iter(range(1000))
            while client.ask("POST", "/large", key=f"key-{next(numbers)}").status == 201:
                pass
        self.expect("OnceStoreFull", full)
        self.expect("OnceNearLimit:journal_disk", full)

    def provoke_caller_limit(self, gateway):
        with gateway.connect() as client:
            numbers = iter(range(1000))
            while client.ask("POST", "/", key=f"key-{next(numbers)}").status == 201:
                pass
        self.expect("OnceCallerLimit", gateway, limit="address_stored_bytes")

    def provoke_upload(self, gateway):
        """One that does not end."""
        size = 4_000_000
        head = f"POST / HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k\r\nContent-Length: {size}\r\n\r\n"
        self.connect(gateway).send(head.encode() + b"x" * (size - 1))
        self.expect("OnceNearLimit:spool_bytes", gateway)

    def provoke_failed_journal(self, gateway):
        gateway.ask("POST", "/", key="k")

        def in_its_way():
            """A folder where the next segment would be made, if that is not just being made."""
            with contextlib.suppress(FileExistsError):
                (self.data / "journal" / "next.segment").mkdir()
            return (self.data / "journal" / "next.segment").is_dir()

        wait_until(in_its_way)
        # The segment of k may have ended before the folder was there: only one that holds something is followed by another.
        numbers = itertools.count()
        wait_until(lambda: gateway.ask("POST", "/", key=f"key-{next(numbers)}").status == 503, what="the journal to fail")
        self.expect("OnceJournalFailed", gateway)

    def provoke_exhaustion(self, gateway):
        _, hard = resource.prlimit(gateway.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(gateway.process.pid, resource.RLIMIT_NOFILE, (int(gateway.metrics()["process_open_fds"]) + 10, hard))
        # In the midst of a request, so that none of them is closed for another.
        for _ in range(30):
            self.connect(gateway).send(b"POST / HTTP/1.1\r\n")
        self.expect("OnceOutOfDescriptors", gateway)

    def test_what_happens_is_told(self):
        self.start_all()
        gateways = self.gateways
        self.expect("OnceUpstreamDown", gateways["down"], upstream="half")
        self.assertEqual(gateways["down"].ask("POST", "/gone", key="k").status, 502)
        self.expect("OnceUpstreamAllDown", gateways["down"], upstream="gone")
        self.expect("OnceCertificateExpires", gateways["tls"])
        self.provoke_crowd(gateways["crowded"])
        self.provoke_failed_journal(gateways["failed"])
        self.provoke_upload(gateways["uploads"])
        self.provoke_exhaustion(gateways["poor"])
        self.provoke_caller_limit(gateways["strangers"])
        self.provoke_lost_claim(gateways["shared"], gateways["other"])
        # Those that look after themselves, beside each other.
        claims = threading.Thread(target=self.provoke_claims)
        claims.start()
        self.provoke_rates(gateways["rates"])
        self.provoke_full(gateways["small"], gateways["full"])
        claims.join()
        self.provoke_store_down(gateways["other"])
        self.wait_for_all()
        # The backend answers at last, and nothing is near a limit any more.
        self.go.set()
        near = next(labels for alert, labels in self.expected if alert == "OnceNearLimit:in_flight")
        wait_until(lambda: not self.is_firing("OnceNearLimit:in_flight", near), what="an alert to end")

        self.assertFalse(self.is_firing("OnceNearLimit:store_bytes", {"instance": instance_of(gateways["small"])}),
                         "a memory store may be at its bound")
        gateways["calm"].ask("POST", "/", key="k")
        calm = instance_of(gateways["calm"])
        # A machine that is busy may take longer than a second to be read, so down is not looked at.
        self.assertEqual([found for found in self.prometheus.firing() if name_of(found) != "OnceDown" and
                          (found.get("instance") == calm or found.get("route") == "/calm")], [])
        gateways["calm"].kill()
        self.expected.append(("OnceDown", {"instance": calm}))
        wait_until(lambda: self.is_firing(*self.expected[-1]), what="OnceDown")
        self.assertEqual({alert for alert, _ in self.expected} | VIRTUAL, {alert.case for alert in packaged.alerts()})


if __name__ == "__main__":
    unittest.main()
