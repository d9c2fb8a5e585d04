"""What goes on to the backend and to the client, and what does not. Framing, lengths, hop-by-hop headers and interim responses are in
tests/unit/gateway/connection/messages_net_test.cpp."""
import itertools
import socket
import unittest

from harness import Sharing
from wire import wait_until


class Forwarding(Sharing):
    def setUp(self):
        super().setUp()
        self.server = self.backend(lambda _, to: to.reply(200))
        self.once = self.gateway(self.server)
        self.keys = (f"key-{number}" for number in itertools.count())

    def keyed_and_not(self):
        return (("with a key", next(self.keys)), ("without a key", None))


class ToTheBackend(Forwarding):
    def forwarded(self, **named):
        """The request as the backend got it."""
        self.assertEqual(self.once.ask(**named).status, 200)
        return self.server.requests[-1]

    def test_a_client_cannot_forge_what_once_tells_the_backend(self):
        forged = [("Idempotency-Attempt", "9"), ("idempotency-fence", "9"), ("IDEMPOTENCY-CLAIM", "9"), ("Idempotency_Fence", "9")]
        request = self.forwarded(fields=forged, key="k")
        self.assertEqual(request.all("Idempotency-Attempt"), ["1"])
        for name in ("Idempotency-Fence", "Idempotency-Claim"):
            self.assertEqual(len(request.all(name)), 1)
            self.assertNotEqual(request.get(name), "9")
        request = self.forwarded(fields=forged)
        self.assertEqual([request.get(name) for name, _ in forged], [None] * 4)

    def test_twins_of_headers_that_count_are_not_let_through(self):
        """A client's X_Org_Id beside the X-Org-Id that a proxy has set is one variable of WSGI."""
        once = self.gateway(self.server, "defaults.caller=proxy-header:X-Org-Id", "defaults.key.header=X-My-Key",
                            "defaults.key.derive=header:X-Cart-Id", "trusted_proxies=127.0.0.1")
        twins = ["Content_Length", "content_type", "Transfer_Encoding", "X_Org_Id", "x-org_id", "Idempotency_Key", "X_My_Key",
                 "X_Idempotency_Key", "X_Request_Id", "X_Cart_Id", "Proxy_Authorization", "X_Forwarded_Proto"]
        fields = [("X-Org-Id", "acme"), ("X-Cart-Id", "1"), ("Content-Type", "text/plain")]
        for key in ([], [("X-My-Key", "k")]):
            with self.subTest(key=key):
                answer = once.ask(fields=[*fields, *((name, "9") for name in twins), ("X_Other", "1"), *key], body=b"hello")
                self.assertEqual(answer.status, 200)
                request = self.server.requests[-1]
                self.assertEqual([name for name in twins if request.get(name) is not None], [])
                self.assertEqual([request.get(name) for name, _ in [*fields, ("X_Other", "1")]], ["acme", "1", "text/plain", "1"])
                self.assertEqual(request.body, b"hello")

    def test_a_header_that_is_called_so_is_no_twin(self):
        once = self.gateway(self.server, "defaults.key.header=Idempotency_Key")
        for _ in range(2):
            answer = once.ask(fields=[("Idempotency_Key", "k"), ("Idempotency-Key", "other")])
        self.assertEqual(answer.get("Idempotency-Status"), "replayed")
        request = self.server.requests[-1]
        self.assertEqual([request.get(name) for name in ("Idempotency_Key", "Idempotency-Key")], ["k", None])

    ADDRESS_FIELDS = ("X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Forwarded-Port", "X-Forwarded-Prefix",
                      "Forwarded", "X-Real-IP", "True-Client-IP", "CF-Connecting-IP", "CF-Connecting-IPv6", "CF-Pseudo-IPv4",
                      "Fastly-Client-IP", "Fly-Client-IP", "Client-IP", "X-Client-IP", "X-Cluster-Client-IP", "X-Remote-IP",
                      "X-Remote-Addr", "X-Originating-IP", "X-Original-Forwarded-For", "X-Azure-ClientIP",
                      "WL-Proxy-Client-IP", "X-Envoy-External-Address")
    URL_FIELDS = ("X-Original-URL", "X-Rewrite-Url")

    def test_only_a_trusted_proxy_says_where_a_client_is_and_which_url_is_meant(self):
        proxy = self.gateway(self.server, "trusted_proxies=127.0.0.1")
        off = self.gateway(self.server, "upstreams.default.forwarded=off")
        for name in (*self.ADDRESS_FIELDS, *self.URL_FIELDS):
            value = "host=forged" if name == "Forwarded" else "forged"
            for spelled in (name, name.lower(), name.replace("-", "_")):
                with self.subTest(spelled):
                    self.assertNotIn(b"forged", self.forwarded(fields=[(spelled, value)], key=next(self.keys)).head)
            with self.subTest(name):
                proxy.ask(fields=[(name, value)])
                self.assertIn(b"forged", self.server.requests[-1].head)
                off.ask(fields=[(name, value)])
                self.assertEqual(self.server.requests[-1].all(name), [value] if name in self.ADDRESS_FIELDS else [])

    def test_headers_arrive_as_they_were_sent(self):
        lines = (b"X_under: 1\r\nx-CaSe:2\r\nX-Space:   3 \t\r\n"
                 b"X-Twice: a\r\nX-Twice: b\r\nX-Empty:\r\nX-Latin: \xfc\r\n")
        target = "//a/../b%2Fc/./d?x=%41;b=c,d|e^f`g{h}\"<>\\"
        for name, key in self.keyed_and_not():
            with self.subTest(name), self.once.connect() as client:
                key_line = b"Idempotency-Key: headers\r\n" if key else b""
                client.send(b"POST " + target.encode() + b" HTTP/1.1\r\nHost: api.test\r\n" + lines + key_line + b"\r\n")
                self.assertEqual(client.read_response().status, 200)
                request = self.server.requests[-1]
                self.assertIn(b"\r\nHost: api.test\r\n" + lines + key_line, request.head)
                self.assertEqual((request.target, request.get("Content-Length")), (target, None))


class ToTheClient(Forwarding):
    def test_hints_to_a_client_that_does_not_read_never_tear_its_stream(self):
        hint = b"HTTP/1.1 103 Early Hints\r\nLink: <" + b"x" * 100_000 + b">\r\n\r\n"
        final = b"HTTP/1.1 201 Created\r\nContent-Length: 5\r\n\r\nhello"
        self.server.handler = lambda _, to: to.send(hint * 50 + final)
        for name, key in self.keyed_and_not():
            with self.subTest(name):
                client = self.connect(self.once)
                client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
                before = len(self.server.requests)
                client.send_request(key=key)
                wait_until(lambda before=before: len(self.server.requests) > before)
                if key:  # recorded, so it did not wait for its client
                    wait_until(lambda key=key: self.once.ask(key=key).get("Idempotency-Status") == "replayed")
                try:
                    response = client.read_response()
                except (ConnectionResetError, EOFError):
                    continue  # an end is a good answer, half a hint is not
                self.assertEqual((response.status, response.body), (201, b"hello"))
                self.assertEqual({interim.head for interim in response.interim} - {hint}, set())

    def test_headers_of_a_passed_response_arrive_as_they_were_sent(self):
        lines = b"X_under: 1\r\nx-CaSe:2\r\nX-Twice: a\r\nSet-Cookie: a=1\r\nX-Twice: b\r\nSet-Cookie: b=2\r\n"
        self.server.handler = lambda _, to: to.send(b"HTTP/1.1 299 Odd Reason\r\n" + lines + b"Content-Length: 0\r\n\r\n")
        response = self.once.ask()
        self.assertTrue(response.head.startswith(b"HTTP/1.1 299 Odd Reason\r\n" + lines), response.head)
        self.assertIsNotNone(response.get("X-Request-Id"))
        self.assertIsNone(response.get("Idempotency-Status"))


if __name__ == "__main__":
    unittest.main()
