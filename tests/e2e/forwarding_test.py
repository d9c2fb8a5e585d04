"""What goes on to the backend and to the client, and what does not."""
import contextlib
import datetime
import email.utils
import itertools
import socket
import unittest

from harness import EndToEnd, Gateway
from wire import request_bytes, wait_until

ONLY_THE_CONNECTION = [
    ("Connection", "keep-alive, X-Hop, x-hop-2"), ("Keep-Alive", "timeout=5"), ("X-Hop", "1"), ("X-HOP-2", "2"),
    ("Proxy-Connection", "keep-alive"), ("Proxy-Authorization", "Basic x"), ("Proxy-Authenticate", "Basic"),
    ("TE", "trailers"), ("Trailer", "X-T"), ("Upgrade", "h2c")]
HOP_BY_HOP = [name for name, _ in ONLY_THE_CONNECTION]


class Forwarding(EndToEnd):
    """One backend and one gateway for all that a test tries."""

    def setUp(self):
        super().setUp()
        self.server = self.backend(lambda _, to: to.reply(200))
        self.once = self.gateway(self.server)
        self.keys = (f"key-{number}" for number in itertools.count())

    def with_upstream(self, backend, setting):
        gateway = Gateway(config=f"upstreams:\n  default:\n    servers: ['{backend.origin}']\n    {setting}\n")
        self.addCleanup(lambda: gateway.folder.exists() and gateway.stop())
        return gateway.wait_listening()

    def keyed_and_not(self):
        return (("with a key", next(self.keys)), ("without a key", None))


class ToTheBackend(Forwarding):
    def forwarded(self, **named):
        """The request as the backend got it."""
        self.assertEqual(self.once.ask(**named).status, 200)
        return self.server.requests[-1]

    def forwarded_bytes(self, raw):
        with self.once.connect() as client:
            client.send(raw)
            self.assertEqual(client.read_response().status, 200)
        return self.server.requests[-1]

    def test_hop_by_hop_headers_stay_here(self):
        for name, key in self.keyed_and_not():
            with self.subTest(name):
                request = self.forwarded(fields=[*ONLY_THE_CONNECTION, ("X-Other", "3")], key=key, body=b"hello")
                self.assertEqual([found for found in HOP_BY_HOP if request.get(found) is not None], [])
                self.assertEqual((request.get("X-Other"), request.get("Host")), ("3", "api.test"))
                self.assertEqual(request.body, b"hello")

    def test_a_connection_header_cannot_take_away_what_a_request_is_and_whose(self):
        once = self.gateway(self.server, "defaults.caller=header:X-Tenant,header:Authorization", "defaults.key.derive=header:X-Cart",
                            "defaults.key.header=X-Key")
        fields = [("X-Tenant", "a"), ("Authorization", "a"), ("X-Cart", "1")]
        for named in ("Host", "content-length", "Content-Type", "Authorization", "Cookie", "Idempotency-Key", "X-Key", "X_Key",
                      "X-Tenant", "X-Cart", "Forwarded", "X-Forwarded-Proto", "x-forwarded-for", "X-Real-IP",
                      "X-Idempotency-Key"):
            for connection in ([("Connection", named)], [("Connection", f"close, {named}")],
                               [("Connection", "keep-alive"), ("Connection", f"X-Other,,{named} , x")]):
                for key in ([], [("X-Key", "k")]):
                    with self.subTest(connection, key=key):
                        answer = once.ask(fields=[*fields, *connection, *key], body=b"hello")
                        self.assertEqual((answer.status, answer.code), (400, "bad-request"))
        self.assertEqual(self.server.received, b"")
        answer = once.ask(fields=[*fields, ("Connection", "close, X-Trace"), ("X-Trace", "1")], body=b"hello")
        self.assertEqual((answer.status, self.server.requests[-1].get("X-Trace")), (200, None))

    def test_names_in_several_connection_lines_stay_here(self):
        fields = [("Connection", "X-A"), ("X-A", "1"), ("Connection", "close, X-B"), ("X-B", "2"), ("X-C", "3")]
        for name, key in self.keyed_and_not():
            with self.subTest(name):
                request = self.forwarded(fields=fields, key=key)
                self.assertEqual([request.get(name) for name in ("X-A", "X-B", "X-C")], [None, None, "3"])

    def test_a_client_cannot_forge_what_once_tells_the_backend(self):
        forged = [("Idempotency-Attempt", "9"), ("idempotency-fence", "9"), ("IDEMPOTENCY-CLAIM", "9")]
        request = self.forwarded(fields=forged, key="k")
        self.assertEqual(request.all("Idempotency-Attempt"), ["1"])
        self.assertEqual(len(request.all("Idempotency-Fence")), 1)
        self.assertNotEqual(request.get("Idempotency-Fence"), "9")
        self.assertEqual(len(request.all("Idempotency-Claim")), 1)
        self.assertNotEqual(request.get("Idempotency-Claim"), "9")
        request = self.forwarded(fields=forged)
        self.assertEqual([request.get(name) for name, _ in forged], [None, None, None])

    def test_names_that_backends_take_for_others_are_not_let_through(self):
        """CGI and its heirs make the same variable of X_Forwarded_For and X-Forwarded-For."""
        forged = [("X_Forwarded_For", "6.6.6.6"), ("Idempotency_Fence", "9"), ("idempotency_claim", "9"),
                  ("X-Real-IP", "6.6.6.6"), ("X-Forwarded-Prefix", "/evil")]
        for name, key in self.keyed_and_not():
            with self.subTest(name):
                request = self.forwarded(fields=[*forged, ("X_Other", "1")], key=key)
                self.assertEqual([request.get(field) for field, _ in forged], [None] * len(forged))
                self.assertEqual(request.get("X_Other"), "1")

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

    def test_only_a_trusted_proxy_says_which_url_is_meant(self):
        names = ("X-Original-URL", "X-Rewrite-Url", "X_Original_URL")
        for key, settings, seen in ((None, (), None), ("k", (), None), ("k", ("trusted_proxies=127.0.0.1",), "/admin")):
            once = self.gateway(self.server, *settings)
            for name in names:
                with self.subTest(name, key=key, settings=settings):
                    self.assertEqual(once.ask(fields=[(name, "/admin")], key=key and f"{key}{name}").status, 200)
                    self.assertEqual(self.server.requests[-1].get(name), seen)

    def test_the_target_arrives_byte_for_byte(self):
        for target in ("//a/../b%2Fc/./d?x=%41", "/?", "/a?b?c=/../d", "/%ff%7E", "/a;b=c,d|e^f`g{h}\"<>\\"):
            for name, key in self.keyed_and_not():
                with self.subTest(target, kind=name):
                    self.assertEqual(self.forwarded(target=target, key=key).target, target)

    def test_headers_arrive_as_they_were_sent(self):
        lines = (b"X_under: 1\r\nx-CaSe:2\r\nX-Space:   3 \t\r\n"
                 b"X-Twice: a\r\nX-Twice: b\r\nX-Empty:\r\nX-Latin: \xfc\r\n")
        for name, key in self.keyed_and_not():
            with self.subTest(name):
                key_line = b"Idempotency-Key: k\r\n" if key else b""
                request = self.forwarded_bytes(b"POST / HTTP/1.1\r\nHost: api.test\r\n" + lines + key_line + b"\r\n")
                self.assertIn(b"\r\nHost: api.test\r\n" + lines + key_line, request.head)

    def test_a_post_without_a_body_stays_without(self):
        for name, key in self.keyed_and_not():
            with self.subTest(name):
                request = self.forwarded(key=key)
                self.assertEqual((request.get("Content-Length"), request.get("Transfer-Encoding")), (None, None))

    def test_an_empty_body_stays_empty(self):
        for name, key in self.keyed_and_not():
            with self.subTest(name):
                self.assertEqual(self.forwarded(key=key, body=b"").all("Content-Length"), ["0"])

    def test_the_path_of_the_upstream_comes_first(self):
        gateway = self.gateway(self.server, base="/base/")
        for name, key in self.keyed_and_not():
            with self.subTest(name):
                gateway.ask("POST", "/a?b", key=key)
                self.assertEqual(self.server.requests[-1].target, "/base/a?b")

    CHUNKED = (b"POST /c HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n%s\r\n"
               b"3;ext=1\r\nhel\r\n2\r\nlo\r\n0\r\nX-T: 1\r\nIdempotency-Claim: 2\r\n\r\n")

    def test_a_chunked_body_with_a_key_has_the_fingerprint_of_its_bytes(self):
        request = self.forwarded_bytes(self.CHUNKED % b"Idempotency-Key: k\r\n")
        self.assertEqual((request.body, request.get("Content-Length")), (b"hello", "5"))
        self.assertIsNone(request.get("Transfer-Encoding"))
        self.assertEqual(self.once.ask("POST", "/c", body=b"hello", key="k").get("Idempotency-Status"), "replayed")

    def test_single_bytes_in_chunks_that_come_together_go_on_together(self):
        raw = request_bytes(fields=[("Transfer-Encoding", "chunked")]) + b"1\r\nx\r\n" * 1000 + b"0\r\n\r\n"
        request = self.forwarded_bytes(raw)
        self.assertEqual(request.body, b"x" * 1000)
        chunks = self.server.received.count(b"\r\nx")  # what is left of single ones, where reads ended
        self.assertLess(chunks, 100)

    def test_request_trailers_are_dropped(self):
        for name, key_line in (("with a key", b"Idempotency-Key: k\r\n"), ("without a key", b"")):
            with self.subTest(name):
                request = self.forwarded_bytes(self.CHUNKED % key_line)
                self.assertEqual((request.body, request.trailers), (b"hello", []))
                self.assertEqual((request.get("Trailer"), request.get("X-T")), (None, None))


    def test_via_says_that_it_came_through_once(self):
        for name, key in self.keyed_and_not():
            with self.subTest(name):
                self.assertRegex(*self.forwarded(key=key).all("Via"), "^1.1 once-[0-9a-f]{16}$")
        self.assertEqual(self.forwarded(fields=[("Via", "2 edge")]).all("Via")[:-1], ["2 edge"])
        backend = self.backend()
        self.with_upstream(backend, "via: no").ask()
        self.assertEqual(backend.requests[-1].all("Via"), [])

    ADDRESS_FIELDS = ("X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Forwarded-Port", "X-Forwarded-Prefix",
                      "Forwarded", "X-Real-IP", "True-Client-IP", "CF-Connecting-IP", "CF-Connecting-IPv6", "CF-Pseudo-IPv4",
                      "Fastly-Client-IP", "Fly-Client-IP", "Client-IP", "X-Client-IP", "X-Cluster-Client-IP", "X-Remote-IP",
                      "X-Remote-Addr", "X-Originating-IP", "X-Original-Forwarded-For", "X-Azure-ClientIP",
                      "WL-Proxy-Client-IP", "X-Envoy-External-Address")

    def test_only_a_trusted_proxy_says_where_a_client_is(self):
        backend = self.backend()
        client = self.gateway(backend)
        proxy = self.gateway(backend, "trusted_proxies=127.0.0.1")
        off = self.with_upstream(backend, "forwarded: off")
        for name in self.ADDRESS_FIELDS:
            value = "host=forged" if name == "Forwarded" else "forged"
            for spelled in (name, name.lower(), name.replace("-", "_")):
                with self.subTest(spelled):
                    client.ask(fields=[(spelled, value)])
                    self.assertNotIn(b"forged", backend.requests[-1].head)
            with self.subTest(name):
                proxy.ask(fields=[(name, value)])
                self.assertIn(b"forged", backend.requests[-1].head)
                off.ask(fields=[(name, value)])
                self.assertEqual(backend.requests[-1].all(name), [value])

    def test_an_options_goes_only_as_far_as_it_may(self):
        for target in ("/", "*"):
            with self.subTest(target):
                before = len(self.server.requests)
                client = self.connect(self.once)
                answer = client.ask("OPTIONS", target, [("Max-Forwards", "0")])
                self.assertEqual((answer.status, answer.get("Content-Length")), (204, None))
                self.assertEqual(len(self.server.requests), before)
                client.ask("OPTIONS", target, [("Max-Forwards", "2")])
                self.assertEqual(self.server.requests[-1].all("Max-Forwards"), ["1"])
                client.ask("GET", "/", [("Max-Forwards", "0")])
                self.assertEqual(self.server.requests[-1].all("Max-Forwards"), ["0"])


class ToTheClient(Forwarding):
    def answer(self, raw, key, method="POST"):
        """The response to such bytes, and the client, who may ask for /again."""
        def handler(request, connection):
            if request.target == "/again":
                connection.reply(200, body=b"again")
                return
            connection.send(raw)

        self.server.handler = handler
        client = self.connect(self.once)
        return client.ask(method, key=key), client

    def test_hop_by_hop_headers_stay_here(self):
        raw = request_bytes("x", "x", [*ONLY_THE_CONNECTION, ("X-Other", "3")], b"hello")
        raw = b"HTTP/1.1 200 OK" + raw[raw.index(b"\r\n"):]
        for name, key in self.keyed_and_not():
            with self.subTest(name):
                response, client = self.answer(raw, key)
                self.assertEqual([found for found in HOP_BY_HOP if response.get(found) is not None], [])
                self.assertEqual((response.get("X-Other"), response.body), ("3", b"hello"))
                self.assertEqual(client.ask("GET", "/again").body, b"again")

    def test_every_response_has_one_date(self):
        now = email.utils.formatdate(usegmt=True)
        for name, key in self.keyed_and_not():
            for date in (b"", b"Date: Mon, 01 Jan 2001 00:00:00 GMT\r\n"):
                with self.subTest(name, date=date):
                    response, client = self.answer(b"HTTP/1.1 200 OK\r\n" + date + b"Content-Length: 0\r\n\r\n",
                                                   key and key + str(len(date)))
                    dates = response.all("Date")
                    self.assertEqual(len(dates), 1)
                    if date:
                        self.assertEqual(dates, ["Mon, 01 Jan 2001 00:00:00 GMT"])
                    else:
                        at = email.utils.parsedate_to_datetime(dates[0])
                        self.assertLess(abs(at - email.utils.parsedate_to_datetime(now)), datetime.timedelta(hours=1))

    MALFORMED = {
        "status-line": b"HTTP/1.1 abc\r\n\r\n", "version": b"HTTP/2.0 200 OK\r\n\r\n", "field": b"HTTP/1.1 200 OK\r\nX : 1\r\n\r\n",
        "framing": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "coding": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        "too-large": b"HTTP/1.1 200 OK\r\n" + b"X: 1\r\n" * 600 + b"\r\n",
        "chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
        "interim": b"HTTP/1.1 102 Processing\r\n\r\n" * 300,
        "unasked-switch": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"}

    def test_what_is_wrong_with_a_response_is_counted_and_logged(self):
        for name, key in self.keyed_and_not():
            self.once = self.gateway(self.server)  # one gateway would write only ten such lines in a second
            for reason, raw in self.MALFORMED.items():
                with self.subTest(reason, kind=name):
                    def count(reason=reason):
                        return self.once.metrics()[f'once_malformed_responses_total{{reason="{reason}"}}']

                    def said():
                        return [line for line in self.once.log_lines() if line["message"] == "malformed response"]

                    before, lines = count(), len(said())
                    self.server.handler = lambda _, to, raw=raw: to.send(raw)
                    client = self.connect(self.once)
                    with contextlib.suppress(EOFError, ConnectionResetError):  # of a body in the midst
                        response = client.ask(key=key and f"malformed-{reason}")
                        self.assertEqual(response.status, 502)
                        self.assertIn("malformed" if reason != "unasked-switch" or key else "did not request", response.problem["detail"])
                    wait_until(lambda count=count, before=before: count() == before + 1)
                    new = wait_until(lambda lines=lines, said=said: said()[lines:])
                    self.assertEqual([line["reason"] for line in new], [reason])

    def test_response_trailers_are_dropped(self):
        raw = (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n"
               b"5\r\nhello\r\n0\r\nX-T: 1\r\n\r\n")
        for name, key in self.keyed_and_not():
            with self.subTest(name):
                response, client = self.answer(raw, key)
                self.assertEqual((response.body, response.trailers), (b"hello", []))
                self.assertEqual((response.get("Trailer"), response.get("X-T")), (None, None))
                self.assertEqual(client.ask("GET", "/again").body, b"again")

    def test_interim_responses_come_before_the_final_one(self):
        raw = (b"HTTP/1.1 100 Continue\r\n\r\n"
               b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\nConnection: X-Hop\r\nX-Hop: 1\r\n"
               b"Content-Length: 0\r\n\r\n"
               b"HTTP/1.1 201 Created\r\nContent-Length: 5\r\n\r\nhello")
        for name, key in self.keyed_and_not():
            with self.subTest(name):
                response, client = self.answer(raw, key)
                self.assertEqual((response.status, response.body), (201, b"hello"))
                self.assertEqual([interim.status for interim in response.interim], [100, 103])
                hints = response.interim[1]
                self.assertEqual((hints.get("Link"), hints.get("X-Hop")), ("</a.css>", None))
                self.assertIsNone(hints.get("Content-Length"))
                self.assertEqual(client.ask("GET", "/again").body, b"again")

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

    BODILESS = (("HEAD", "200 OK", "Content-Length: 1234\r\n", "1234"), ("HEAD", "200 OK", "", None),
                ("HEAD", "200 OK", "Transfer-Encoding: chunked\r\n", None), ("GET", "204 No Content", "", None),
                ("GET", "304 Not Modified", "Content-Length: 1234\r\n", "1234"), ("GET", "304 Not Modified", "", None),
                ("POST", "204 No Content", "", None), ("POST", "304 Not Modified", "", None),
                # RFC 9110 8.6: no length with 204, whatever the backend says.
                ("GET", "204 No Content", "Content-Length: 0\r\n", None),
                ("POST", "204 No Content", "Content-Length: 0\r\n", None),
                ("HEAD", "204 No Content", "Content-Length: 5\r\n", None),
                ("POST", "205 Reset Content", "Content-Length: 0\r\n", "0"))

    def test_responses_without_a_body_leave_the_connection_usable(self):
        for method, status, length, expected in self.BODILESS:
            for name, key in self.keyed_and_not():
                with self.subTest(name, method=method, status=status, length=length):
                    raw = f"HTTP/1.1 {status}\r\nETag: \"1\"\r\n{length}\r\n".encode()
                    response, client = self.answer(raw, key, method)
                    self.assertEqual((response.status, response.get("ETag")), (int(status[:3]), '"1"'))
                    self.assertEqual((response.get("Content-Length"), response.get("Transfer-Encoding")),
                                     (expected, None))
                    self.assertEqual(client.ask("GET", "/again").body, b"again")

    def test_a_connection_header_cannot_take_the_length_away(self):
        raw = b"HTTP/1.1 200 OK\r\nConnection: Content-Length\r\nContent-Length: 5\r\n\r\nhello"
        for name, key in self.keyed_and_not():
            with self.subTest(name):
                response, client = self.answer(raw, key)
                self.assertEqual(response.body, b"hello")
                self.assertEqual(client.ask("GET", "/again").body, b"again")

    def test_headers_of_a_passed_response_arrive_as_they_were_sent(self):
        lines = b"X_under: 1\r\nx-CaSe:2\r\nX-Twice: a\r\nSet-Cookie: a=1\r\nX-Twice: b\r\nSet-Cookie: b=2\r\n"
        response, _ = self.answer(b"HTTP/1.1 299 Odd Reason\r\n" + lines + b"Content-Length: 0\r\n\r\n", None)
        self.assertTrue(response.head.startswith(b"HTTP/1.1 299 Odd Reason\r\n" + lines), response.head)
        self.assertIsNotNone(response.get("X-Request-Id"))
        self.assertIsNone(response.get("Idempotency-Status"))


if __name__ == "__main__":
    unittest.main()
