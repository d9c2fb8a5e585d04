"""Whose key it is, what it is bound to, and how it is written."""
import unittest

from harness import EndToEnd, Gateway
from wire import request_bytes

KEY = "scope-key"


class Scope(EndToEnd):
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

    def test_no_caller_is_another_caller(self):
        self.assert_second("executed", 2, fields=self.BASE["fields"][1:])

    def test_an_empty_caller_is_the_same_as_none(self):
        backend, gateway = self.start()
        self.assertEqual(self.result(gateway, fields=[]), "executed")
        for empty in ("", "Bearer", '""'):
            self.assertEqual(self.result(gateway, fields=[("Authorization", empty)]), "replayed", empty)
        self.assertEqual(len(backend.requests), 1)

    def test_another_path_is_another_operation(self):
        self.assert_second("executed", 2, target="/others?x=1")

    def test_paths_are_compared_byte_for_byte(self):
        for target in ("/orders/?x=1", "//orders?x=1", "/%6frders?x=1", "/./orders?x=1", "/Orders?x=1"):
            with self.subTest(target):
                self.assert_second("executed", 2, target=target)

    def test_another_method_is_another_operation(self):
        self.assert_second("executed", 2, method="PATCH")

    def test_another_body_is_a_mismatch(self):
        self.assert_second("mismatch", 1, body=b'{"a":2}')

    def test_another_query_is_a_mismatch(self):
        for target in ("/orders?x=2", "/orders", "/orders?"):
            with self.subTest(target):
                self.assert_second("mismatch", 1, target=target)

    def test_another_content_type_is_a_mismatch(self):
        self.assert_second("mismatch", 1, fields=[self.BASE["fields"][0], ("Content-Type", "text/plain")])

    def test_parameters_and_casing_of_the_content_type_do_not_matter(self):
        for value in ("application/json; charset=utf-8", "Application/JSON"):
            with self.subTest(value):
                self.assert_second("replayed", 1, fields=[self.BASE["fields"][0], ("Content-Type", value)])

    def test_other_headers_do_not_matter(self):
        self.assert_second("replayed", 1, fields=[*self.BASE["fields"], ("User-Agent", "other/2.0")])

    def test_a_caller_from_a_cookie(self):
        _, gateway = self.start("defaults.caller=cookie:session")
        cookies = ("theme=dark; session=one", "session=one; theme=light", "session=two", "xsession=one")
        results = [self.result(gateway, fields=[("Cookie", cookie)]) for cookie in cookies]
        self.assertEqual(results, ["executed", "replayed", "executed", "executed"])

    def test_a_caller_from_two_headers(self):
        _, gateway = self.start("defaults.caller=header:X-Org,header:X-User")
        pairs = (("a", "b"), ("a", "b"), ("ab", ""), ("", "ab"), ("b", "a"))
        results = [self.result(gateway, fields=[("X-Org", org), ("X-User", user)]) for org, user in pairs]
        self.assertEqual(results, ["executed", "replayed", "executed", "executed", "executed"])

    def test_a_caller_that_is_given_twice_is_nobody(self):
        backend, gateway = self.start()
        answer = gateway.ask(key=KEY, fields=[("Authorization", "one"), ("Authorization", "two")])
        self.assertEqual((answer.status, answer.code), (400, "bad-request"))
        self.assertEqual(backend.received, b"")

    def test_callers_share_their_keys_only_when_told_to(self):
        _, gateway = self.start("defaults.caller=none")
        results = [self.result(gateway, fields=[("Authorization", name)]) for name in ("one", "two")]
        self.assertEqual(results, ["executed", "replayed"])


class Hosts(Scope):
    """Tenants behind one gateway that are told apart by host alone."""
    def at(self, gateway, host, *fields):
        return self.result(gateway, fields=[("Host", host), *fields])

    def test_another_host_has_keys_of_its_own_in_every_dialect(self):
        for dialect in ("ietf", "stripe", "platform", "workflow", "streams"):
            with self.subTest(dialect):
                backend, gateway = self.start(f"defaults.dialect={dialect}", "defaults.key.header=Idempotency-Key",
                                              "trusted_proxies=127.0.0.1")
                self.assertEqual([self.at(gateway, host) for host in ("a.example", "b.example", "a.example")],
                                 ["executed", "executed", "replayed"])
                self.assertEqual(len(backend.requests), 2)

    def test_a_host_is_one_however_it_is_spelled(self):
        _, gateway = self.start()
        hosts = ("a.example", "A.Example", "a.example.", "a.example:80", "a.example:443", "a.example:", "a.example:8080",
                 "a.example:0")
        self.assertEqual([self.at(gateway, host) for host in hosts],
                         ["executed", *["replayed"] * 5, "executed", "executed"])

    def test_a_host_may_be_absent_in_http_1_0_and_is_never_empty(self):
        _, gateway = self.start()
        results = []
        for host in (b"", b"Host:\r\n", b""):
            with gateway.connect() as client:
                client.send(b"POST / HTTP/1.0\r\n" + host + b"Idempotency-Key: k\r\nContent-Length: 1\r\n\r\nx")
                answer = client.read_response()
                results.append((answer.status, answer.get("Idempotency-Status")))
        self.assertEqual(results, [(201, "executed"), (400, None), (201, "replayed")])

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

    def test_only_a_trusted_proxy_says_which_host_was_asked_for(self):
        fields = [("X-Forwarded-Host", "a.example")], [("X-Forwarded-Host", "b.example")], [("Forwarded", "host=c.example")]
        _, gateway = self.start()
        self.assertEqual([self.at(gateway, "inner", *each) for each in fields], ["executed", "replayed", "replayed"])
        _, gateway = self.start("trusted_proxies=127.0.0.1")
        self.assertEqual([self.at(gateway, "inner", *each) for each in fields], ["executed"] * 3)
        self.assertEqual([self.at(gateway, "inner", *each) for each in fields], ["replayed"] * 3)

    def test_a_trusted_proxy_cannot_hide_a_host_in_a_malformed_header(self):
        backend, gateway = self.start("trusted_proxies=127.0.0.1")
        for value in ('for="x;host=a.example', 'host="a.example', 'host =a.example', 'for=x";host=a.example', "host"):
            with self.subTest(value):
                answer = gateway.ask(fields=[("Host", "inner"), ("Forwarded", value)], key=KEY, body=b"x")
                self.assertEqual((answer.status, answer.code), (400, "bad-request"))
        self.assertEqual(backend.received, b"")
        _, gateway = self.start()
        self.assertEqual(self.at(gateway, "inner", ("Forwarded", 'host="a')), "executed", "a client's does not count")

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

    def test_a_required_key_that_is_missing(self):
        backend, gateway = self.start(config=self.CONFIG)
        answer = gateway.ask(target="/strict/a", body=b"x" * 1000)
        self.assertEqual((answer.status, answer.code, answer.problem["retryable"]), (400, "key-required", False))
        self.assertIn("Idempotency-Key", answer.problem["detail"])
        self.assertEqual(backend.received, b"")
        self.assertEqual(gateway.ask("GET", "/strict/a").status, 201)


class WaysAround(Scope):
    """Requests that a backend takes for others than they seem to be."""
    CONFIG = "routes: [{path: /v1/charges}, {path: '/files/*'}]"

    def test_what_a_backend_could_take_for_another_request_is_refused(self):
        backend, gateway = self.start(config=self.CONFIG)
        for method, target in (("POST", "/v1%2Fcharges"), ("POST", "/v1%2fcharges"), ("POST", "/v1\\charges"),
                               ("POST", "/v1/charges;x=1"), ("POST", "/v1;x%2Fcharges"), ("POST", "/v1%5Ccharges"),
                               ("post", "/v1/charges"), ("Post", "/else"), ("POST", "/x/..;/v1/charges"),
                               ("POST", "/x/%2e%2e;a/v1/charges"), ("POST", "/else/.;/x"), ("GET", "/..;/..;/manager"),
                               ("POST", "//x/v1/charges"), ("POST", "///x/v1/charges"), ("POST", "/\\x/v1/charges"),
                               ("POST", "//x\\v1/charges"), ("POST", "//x/v1%2Fcharges"), ("POST", "//x//v1/./charges"),
                               ("POST", "//files/v1/charges"), ("POST", "//x/y/../v1/charges"), ("POST", "http://api.test//x/v1/charges")):
            with self.subTest(target, method=method):
                for key in (KEY, None):
                    answer = gateway.ask(method, target, key=key)
                    self.assertEqual((answer.status, answer.code), (400, "bad-request"))
        self.assertEqual(backend.received, b"")

    def test_a_host_in_the_path_that_a_route_is_for_is_refused_however_it_is_written(self):
        config = "routes: [{host: pay.test, path: /v1/charges}, {path: '/**', methods: [GET]}]"
        backend, gateway = self.start(config=config)
        for host in ("pay.test", "PAY.test", "pay.test:80", "u@pay.test", "u:p@pay.test", "u@v@pay.test", "pay%2Etest",
                     "pay%2etest", "u@p%61y.test", "u%40pay.test", "u@pay%2Etest:80"):
            for slashes in "//", "/\\", "///":
                with self.subTest(host, slashes=slashes):
                    answer = gateway.ask("POST", f"{slashes}{host}/v1/charges", key=KEY)
                    self.assertEqual((answer.status, answer.code), (400, "bad-request"))
        self.assertEqual(backend.received, b"")
        for host in "else.test", "pay.test@else.test", "u@else%2Etest":
            with self.subTest(host):
                self.assertEqual(gateway.ask("POST", f"//{host}/v1/charges").status, 201)

    def test_what_leads_to_no_other_route_goes_on(self):
        backend, gateway = self.start(config=self.CONFIG)
        for method, target in (("POST", "/files/a%2Fb"), ("POST", "/else%2Fwhere;x=1"), ("PURGE", "/else"),
                               ("purge", "/else"), ("POST", "/v1/charges;x=1/more"), ("POST", "//x/y"), ("POST", "//v1/charges"),
                               ("POST", "//files/a")):
            with self.subTest(target, method=method):
                self.assertEqual(gateway.ask(method, target).status, 201)
                self.assertEqual((backend.requests[-1].method, backend.requests[-1].target), (method, target))


class KeySyntax(Scope):
    def test_a_quoted_key_is_the_same_as_a_bare_one(self):
        _, gateway = self.start()
        results = [self.result(gateway, key=key) for key in ('abc', '"abc"', '  abc\t', ' "abc" ')]
        self.assertEqual(results, ["executed", "replayed", "replayed", "replayed"])

    def test_escapes_in_a_quoted_key(self):
        _, gateway = self.start()
        results = [self.result(gateway, key=key) for key in (r'"a\"b\\c"', r'a"b\c', r'"a\"b\\\\c"', r'a"b\\c')]
        self.assertEqual(results, ["executed", "replayed", "executed", "replayed"])

    def test_keys_are_compared_byte_for_byte(self):
        _, gateway = self.start()
        self.assertEqual([self.result(gateway, key=key) for key in ("abc", "ABC", "abc.")], ["executed"] * 3)

    def test_the_name_of_the_header_in_any_casing(self):
        _, gateway = self.start()
        names = ("IDEMPOTENCY-KEY", "idempotency-key")
        results = [self.result(gateway, key=None, fields=[(name, "k")]) for name in names]
        self.assertEqual(results, ["executed", "replayed"])

    def test_any_visible_character_may_be_in_a_key(self):
        visible = "".join(chr(code) for code in range(0x21, 0x7f))
        _, gateway = self.start()
        self.assertEqual([self.result(gateway, key=visible) for _ in range(2)], ["executed", "replayed"])

    REFUSED = {
        "empty": [""],
        "only spaces": ["   "],
        "empty and quoted": ['""'],
        "too long": ["k" * 256],
        "too long and quoted": ['"' + "k" * 256 + '"'],
        "two headers": ["a", "b"],
        "the same key twice": ["a", "a"],
        "joined by a proxy": ['"a", "b"'],
        "space inside": ["a b"],
        "tab inside": ["a\tb"],
        "quote not closed": ['"abc'],
        "something behind the quote": ['"abc"d'],
        "bad escape": [r'"a\bc"'],
        "escape at the end": ['"abc\\'],
        "UTF-8": ["schl\u00c3\u00bcssel"],
        "Latin-1": ["schl\u00fcssel"],
    }

    def test_keys_that_are_refused_reach_nobody(self):
        backend, gateway = self.start()
        for name, values in self.REFUSED.items():
            with self.subTest(name):
                fields = [("Idempotency-Key", value) for value in values]
                answer = gateway.ask(fields=fields, body=b"{}")
                self.assertEqual((answer.status, answer.code, answer.problem["retryable"]), (400, "key-invalid", False))
        self.assertEqual(backend.received, b"")

    def test_a_refused_key_leaves_the_connection_usable(self):
        _, gateway = self.start()
        client = self.connect(gateway)
        self.assertEqual(client.ask(key="a b", body=b"").status, 400)
        self.assertEqual(client.ask(key="ab", body=b"").status, 201)


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

    def test_order_spacing_and_spelling_do_not_matter(self):
        self.assertEqual(
            self.second('{"sent_at":"09:00","to":{"tags":[1.0,2],"name":"Zoë"},"amount":1e1}'.encode()), "replayed")

    def test_values_matter(self):
        self.assertEqual(self.second(self.FIRST.replace(b"10", b"11")), "mismatch")

    def test_the_order_of_arrays_matters(self):
        self.assertEqual(self.second(self.FIRST.replace(b"[1, 2]", b"[2, 1]")), "mismatch")

    def test_without_the_setting_every_byte_matters(self):
        _, gateway = self.start()
        bodies = (self.FIRST, self.FIRST + b" ")
        self.assertEqual([self.result(gateway, body=body, fields=self.JSON) for body in bodies],
                         ["executed", "mismatch"])

    def test_other_media_types_are_compared_byte_for_byte(self):
        self.assertEqual(self.second(self.FIRST + b" ", fields=[("Content-Type", "text/plain")]), "mismatch")

    def test_what_is_no_json_is_compared_byte_for_byte(self):
        self.assertEqual(self.second(b"{broken ", first=b"{broken"), "mismatch")
        self.assertEqual(self.second(b"{broken", first=b"{broken"), "replayed")

    def test_an_excluded_field_may_change(self):
        exclude = "defaults.fingerprint.exclude=/sent_at,/to/tags"
        self.assertEqual(self.second(self.FIRST.replace(b"09:00", b"09:05").replace(b"[1, 2]", b"[]"), exclude),
                         "replayed")
        self.assertEqual(self.second(self.FIRST.replace(b"10", b"11"), exclude), "mismatch")

    def test_with_included_fields_only_these_are_compared(self):
        include = "defaults.fingerprint.include=/amount,/to/name"
        self.assertEqual(self.second(self.FIRST.replace(b"09:00", b"09:05"), include), "replayed")
        self.assertEqual(self.second(self.FIRST.replace(b"u00eb", b"u00ec"), include), "mismatch")


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
        one, two = self.backend(), self.backend()
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

    def test_a_target_that_hides_a_host_is_refused(self):
        one, two = self.backend(), self.backend()
        gateway = self.configured(HOSTS.format(one=one.port, two=two.port))
        for target in ("//a.two.test/orders", "//one.test/orders"):
            self.assertEqual(self.asked(gateway, "elsewhere.test", target).status, 400, target)
        self.assertEqual((len(one.requests), len(two.requests)), (0, 0))


class Secrecy(Scope):
    def test_a_key_is_never_written_anywhere(self):
        secret = "very-secret-key-0123456789"
        backend, gateway = self.start("threads=1", "log.access=yes", "log.level=debug", "log.format=json")
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
        _, gateway = self.start("threads=1", "log.access=yes")
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
