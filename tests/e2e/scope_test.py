"""Whose key it is, what it is bound to, and how it is written."""
import unittest

from harness import Gateway, Sharing
from wire import request_bytes

KEY = "scope-key"


class Scope(Sharing):
    def start(self, *settings, **named):
        backend = self.backend()
        return backend, self.gateway(backend, *settings, **named)

    def result(self, gateway, **named):
        """What became of a request with the same key."""
        answer = gateway.ask(**{"key": KEY, **named})
        return answer.get("Idempotency-Status") or answer.status


class BoundTo(Scope):
    BASE = {"method": "POST", "target": "/orders?x=1", "body": b'{"a":1}',
            "fields": [("Authorization", "Bearer one"), ("Content-Type", "application/json")]}

    def assert_second(self, expected, executions, **change):
        backend, gateway = self.start()
        self.assertEqual(self.result(gateway, **self.BASE), "executed")
        self.assertEqual(self.result(gateway, **{**self.BASE, **change}), expected)
        self.assertEqual(len(backend.requests), executions)
        self.assertEqual(self.result(gateway, **self.BASE), "replayed")

    def test_another_caller_has_keys_of_its_own(self):
        self.assert_second("executed", 2, fields=[("Authorization", "Bearer two"), self.BASE["fields"][1]])

    def test_another_body_is_a_mismatch(self):
        self.assert_second("mismatch", 1, body=b'{"a":2}')


class Hosts(Scope):
    """Tenants behind one gateway that are told apart by host alone."""
    def at(self, gateway, host, *fields):
        return self.result(gateway, fields=[("Host", host), *fields])

    def test_a_proxy_that_resets_its_connection_was_trusted_all_the_same(self):
        # The system forgets who was at the other end, and the request is still there to be read.
        backend, gateway = self.start("trusted_proxies=127.0.0.1")
        fields = [("Host", "inner"), ("X-Forwarded-Host", "a.example")]
        for number in range(20):
            client = gateway.connect()
            client.send(request_bytes("POST", "/", [*fields, ("Idempotency-Key", f"r{number}")], b"x"))
            client.reset()
            self.assertEqual(gateway.ask("POST", "/", fields, b"x", f"r{number}").status, 201)
        keys = [request.get("Idempotency-Key") for request in backend.requests]
        self.assertEqual(sorted(keys), sorted(f"r{number}" for number in range(20)), "each was executed once")

    def test_hosts_that_are_said_to_be_the_same_share_their_keys(self):
        _, gateway = self.start("same_hosts=a.example b.example:8080")
        hosts = ("b.example:8080", "A.example", "b.example")
        self.assertEqual([self.at(gateway, host) for host in hosts], ["executed", "replayed", "executed"])
        _, gateway = self.start("same_hosts=*")
        self.assertEqual([self.at(gateway, host) for host in hosts], ["executed", "replayed", "replayed"])


class Routes(Scope):
    CONFIG = """
routes:
  - path: /strict/**
    key: {required: yes}
  - path: /v1/*/items/{id}
    dialect: stripe
  - path: /reads
    methods: [PUT]
    key: {methods: [PUT]}
"""

    def test_the_first_route_that_fits_decides_and_the_rest_passes_through(self):
        backend, gateway = self.start(config=self.CONFIG)
        replayed = {("POST", "/strict/a/b"): True, ("POST", "/v1/x/items/7"): True, ("PUT", "/reads"): True,
                    ("POST", "/v1/x/items/7/more"): False, ("POST", "/v1/x/items"): False,
                    ("POST", "/elsewhere"): False, ("POST", "/reads"): False}
        for (method, target), is_replayed in replayed.items():
            with self.subTest(target, method=method):
                before = len(backend.requests)
                results = [self.result(gateway, method=method, target=target) for _ in range(2)]
                self.assertEqual(results, ["executed", "replayed"] if is_replayed else ["bypassed"] * 2)
                self.assertEqual(len(backend.requests) - before, 1 if is_replayed else 2)


class WaysAround(Scope):
    """Requests that a backend takes for others than they seem to be."""
    CONFIG = "routes: [{path: /v1/charges}, {path: '/files/*'}]"

    def test_what_a_backend_could_take_for_another_request_is_refused(self):
        backend, gateway = self.start(config=self.CONFIG)
        for method, target in (("POST", "/v1%2Fcharges"), ("POST", "/v1\\charges"), ("POST", "/v1/charges;x=1"), ("post", "/v1/charges"),
                               ("POST", "/x/..;/v1/charges"), ("GET", "/..;/..;/manager"), ("POST", "//x/v1/charges")):
            with self.subTest(target, method=method):
                for key in (KEY, None):
                    answer = gateway.ask(method, target, key=key)
                    self.assertEqual((answer.status, answer.code), (400, "bad-request"))
        self.assertEqual(backend.received, b"")


class JsonFingerprint(Scope):
    JSON = [("Content-Type", "application/json")]
    FIRST = b'{"amount": 10, "to": {"name": "Zo\\u00eb", "tags": [1, 2]}, "sent_at": "09:00"}'

    def second(self, body, *settings, fields=JSON, first=FIRST):
        backend, gateway = self.start("defaults.fingerprint.body=json", *settings)
        self.assertEqual(self.result(gateway, body=first, fields=fields), "executed")
        result = self.result(gateway, body=body, fields=fields)
        self.assertEqual(len(backend.requests), 1)
        self.assertEqual(backend.requests[0].body, first)
        return result

    def test_an_excluded_field_may_change(self):
        exclude = "defaults.fingerprint.exclude=/sent_at,/to/tags"
        self.assertEqual(self.second(self.FIRST.replace(b"09:00", b"09:05").replace(b"[1, 2]", b"[]"), exclude),
                         "replayed")
        self.assertEqual(self.second(self.FIRST.replace(b"10", b"11"), exclude), "mismatch")


HOSTS = """
upstreams: {{default: "http://127.0.0.1:{one}", two: "http://127.0.0.1:{two}"}}
defaults: {{caller_missing: anonymous}}
routes:
  - {{path: /orders, host: one.test, key: {{required: true}}}}
  - {{path: /orders, host: ["*.two.test"], upstream: two}}
  - {{path: /other, host: one.test}}
"""


class RoutesByHost(Scope):
    def configured(self, text):
        gateway = Gateway(config=text)
        self.addCleanup(lambda: gateway.folder.exists() and gateway.stop())
        return gateway.wait_listening()

    def asked(self, gateway, host, target="/orders", **named):
        return gateway.ask("POST", target, fields=[("Host", host)], **named)

    def test_a_route_may_be_for_some_hosts_only(self):
        one, two = self.backend(), self.backend(own=True)
        gateway = self.configured(HOSTS.format(one=one.port, two=two.port))
        for host in ("one.test", "ONE.test.", "one.test:8080"):
            self.assertEqual(self.asked(gateway, host).code, "key-required", host)
        self.assertEqual(self.asked(gateway, "a.two.test", key="k").get("Idempotency-Status"), "executed")
        self.assertEqual(self.asked(gateway, "a.two.test", key="k").get("Idempotency-Status"), "replayed")
        self.assertEqual(self.asked(gateway, "b.a.two.test", key="k").get("Idempotency-Status"), "executed", "another host, another key")
        self.assertEqual((len(one.requests), len(two.requests)), (0, 2))
        for host in ("two.test", "elsewhere.test"):  # no route: unprotected, to the default upstream
            self.assertEqual(self.asked(gateway, host, key="k").get("Idempotency-Status"), "bypassed", host)
        self.assertEqual((len(one.requests), len(two.requests)), (2, 2))


class Secrecy(Scope):
    def test_a_key_is_never_written_anywhere(self):
        secret = "very-secret-key-0123456789"
        backend, gateway = self.start("threads=1", "log.access=yes", "log.level=debug", "log.format=json", own=True)
        gateway.ask(key=secret, body=b"body-of-the-client", fields=[("Authorization", "Bearer very-secret-token")])
        gateway.ask(key=secret, body=b"body-of-the-client", fields=[("Authorization", "Bearer very-secret-token")])
        gateway.ask(key=secret, body=b"other", fields=[("Authorization", "Bearer very-secret-token")])
        gateway.ask(key=secret + " bad", body=b"{}")
        backend.stop_listening()
        gateway.ask(key=secret + "-2", body=b"{}")
        metrics = gateway.admin("/metrics").body.decode()
        self.assertIn("once_requests_total", metrics)
        gateway.terminate()
        self.assertEqual(gateway.wait(), 0)
        written = gateway.stdout + gateway.stderr + metrics
        lines = gateway.log_lines(gateway.stdout)
        self.assertEqual([line["result"] for line in lines],
                         ["executed", "replayed", "mismatch", "rejected", "rejected"])
        for word in ("very-secret", "body-of-the-client"):
            self.assertNotIn(word, written)

    def test_the_access_log_says_which_operation_it_was_and_what_became_of_it(self):
        _, gateway = self.start("threads=1", "log.access=yes", own=True)
        gateway.ask("POST", "/a?secret=query", key="one", fields=[("X-Request-Id", "r-1")])
        gateway.ask("POST", "/a?secret=query", key="one", fields=[("X-Request-Id", "r-2")])
        with self.connect(gateway) as client:
            client.ask("GET", "/b")
            client.ask("POST", "/a", key="two")
            client.send(b"broken\r\n\r\n")
            client.read_response()
        gateway.terminate()
        gateway.wait()
        lines = gateway.log_lines(gateway.stdout)
        self.assertEqual([line["request"] for line in lines[:2]], ["r-1", "r-2"])
        self.assertEqual([(line["method"], line["path"], line["status"], line["result"]) for line in lines[:4]],
                         [("POST", "/a", 201, "executed"), ("POST", "/a", 201, "replayed"),
                          ("GET", "/b", 201, "passed"), ("POST", "/a", 201, "executed")])
        operations = [line["operation"] for line in lines]
        self.assertRegex(operations[0], "^[0-9a-f]{16}$")
        self.assertEqual(operations[1], operations[0])
        self.assertEqual((operations[2], operations[4]), ("", ""))  # no key, no operation
        self.assertNotEqual(operations[3], operations[0])
        self.assertEqual((lines[4]["status"], lines[4]["result"]), (400, "rejected"))
        self.assertNotIn("query", gateway.stdout)


if __name__ == "__main__":
    unittest.main()
