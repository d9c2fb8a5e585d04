"""Requests that two readers could understand differently are refused, and nothing of them reaches the backend."""
import unittest

from harness import EndToEnd, Gateway
from wire import Backend, Client, request_bytes

# A second request behind the first, as somebody would hide it. If it arrives anywhere, it shows.
HIDDEN = b"GET /hidden HTTP/1.1\r\nHost: api.test\r\n\r\n"


def head(*lines, first=b"POST / HTTP/1.1", host=b"Host: api.test"):
    return b"\r\n".join([first, *([host] if host else []), *lines]) + b"\r\n\r\n"


def line(first):
    return head(first=first)


# name: (what is sent, the status it gets)
HEADS = {
    # How long the body is.
    "length and chunked": (head(b"Content-Length: 5", b"Transfer-Encoding: chunked") + b"0\r\n\r\n", 400),
    "chunked and length": (head(b"Transfer-Encoding: chunked", b"Content-Length: 5") + b"0\r\n\r\n", 400),
    "chunked twice": (head(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked") + b"0\r\n\r\n", 400),
    "chunked and identity in two lines":
        (head(b"Transfer-Encoding: chunked", b"Transfer-Encoding: identity") + b"0\r\n\r\n", 400),
    "xchunked": (head(b"Transfer-Encoding: xchunked") + b"0\r\n\r\n", 400),
    "chunked, identity": (head(b"Transfer-Encoding: chunked, identity") + b"0\r\n\r\n", 400),
    "chunked in one line twice": (head(b"Transfer-Encoding: chunked, chunked") + b"0\r\n\r\n", 400),
    "gzip": (head(b"Transfer-Encoding: gzip"), 400),
    "identity": (head(b"Transfer-Encoding: identity"), 400),
    "gzip, chunked": (head(b"Transfer-Encoding: gzip, chunked") + b"0\r\n\r\n", 501),
    "quoted chunked": (head(b'Transfer-Encoding: "chunked"') + b"0\r\n\r\n", 400),
    "chunked with a vertical tab": (head(b"Transfer-Encoding: \x0bchunked") + b"0\r\n\r\n", 400),
    "empty transfer coding": (head(b"Transfer-Encoding:"), 400),
    "chunked for HTTP/1.0":
        (head(b"Transfer-Encoding: chunked", first=b"POST / HTTP/1.0") + b"0\r\n\r\n", 400),
    "two lengths": (head(b"Content-Length: 0", b"Content-Length: 40") + HIDDEN, 400),
    "the same length twice": (head(b"Content-Length: 0", b"Content-Length: 0"), 400),
    "length as a list": (head(b"Content-Length: 0, 0"), 400),
    "length with a plus": (head(b"Content-Length: +5") + b"hello", 400),
    "negative length": (head(b"Content-Length: -1"), 400),
    "length with a space inside": (head(b"Content-Length: 4 0") + HIDDEN, 400),
    "length in hex": (head(b"Content-Length: 0x10"), 400),
    "empty length": (head(b"Content-Length:"), 400),
    "length with letters": (head(b"Content-Length: 5a"), 400),
    "length with a decimal point": (head(b"Content-Length: 5.0") + b"hello", 400),
    "length beyond 64 bits": (head(b"Content-Length: 18446744073709551616"), 400),
    "length of two lines": (head(b"Content-Length: 1", b" 0") + b"0123456789", 400),
    # Where a line ends.
    "bare LF after the request line": (b"POST / HTTP/1.1\nHost: api.test\r\n\r\n", 400),
    "bare LF after a field": (b"POST / HTTP/1.1\r\nHost: api.test\nX: 1\r\n\r\n", 400),
    "bare LFs only": (b"POST / HTTP/1.1\nHost: api.test\n\n", 400),
    "bare LF as the empty line": (b"POST / HTTP/1.1\r\nHost: api.test\r\n\n", 400),
    "bare LF before the request": (b"\nPOST / HTTP/1.1\r\nHost: api.test\r\n\r\n", 400),
    "bare CR in the request line": (line(b"POST / HTTP/1.1\rX: 1"), 400),
    "bare CR in a value": (head(b"X: a\rContent-Length: 5") + b"hello", 400),
    "bare CR before CRLF": (head(b"X: a\r"), 400),
    "CR alone as the empty line": (b"POST / HTTP/1.1\r\nHost: api.test\r\n\rX\n", 400),
    "folded line": (head(b"X-Folded: a", b" b"), 400),
    "folded line with a tab": (head(b"X-Folded: a", b"\tb"), 400),
    "first field folded": (b"POST / HTTP/1.1\r\n Host: api.test\r\n\r\n", 400),
    # Fields.
    "space before the colon": (head(b"Content-Length : 5") + b"hello", 400),
    "tab before the colon": (head(b"Transfer-Encoding\t: chunked") + b"0\r\n\r\n", 400),
    "space in a name": (head(b"X Y: 1"), 400),
    "no name": (head(b": 1"), 400),
    "no colon": (head(b"X-Nothing"), 400),
    "parenthesis in a name": (head(b"X(Y): 1"), 400),
    "NUL in a name": (head(b"X\0Y: 1"), 400),
    "UTF-8 in a name": (head("X-Ü: 1".encode()), 400),
    "NUL in a value": (head(b"X: a\0b"), 400),
    "NUL in the key": (head(b"Idempotency-Key: a\0b"), 400),
    "control character in a value": (head(b"X: a\x01b"), 400),
    "DEL in a value": (head(b"X: a\x7fb"), 400),
    "escape in a value": (head(b"X: \x1b[31m"), 400),
    # Host.
    "no Host": (head(host=None), 400),
    "two Hosts": (head(b"Host: other.test"), 400),
    "the same Host twice": (head(b"Host: api.test"), 400),
    "space in Host": (head(host=b"Host: api.test other.test"), 400),
    "slash in Host": (head(host=b"Host: api.test/x"), 400),
    "user in Host": (head(host=b"Host: me@api.test"), 400),
    "UTF-8 in Host": (head(host="Host: äpi.test".encode()), 400),
    "a URL without a host": (line(b"POST http:///x HTTP/1.1"), 400),
    "a URL with a port alone": (line(b"POST http://:80/ HTTP/1.1"), 400),
    "no Host beside a URL": (head(first=b"POST http://api.test/ HTTP/1.1", host=None), 400),
    "two Hosts beside a URL": (head(b"Host: b", first=b"POST http://api.test/ HTTP/1.1"), 400),
    "a bad Host beside a URL": (head(first=b"POST http://api.test/ HTTP/1.1", host=b"Host: a b"), 400),
    "user in the target's host": (line(b"POST http://me@api.test/ HTTP/1.1"), 400),
    # The request line.
    "lower case protocol": (line(b"POST / http/1.1"), 400),
    "HTTP/2.0": (line(b"POST / HTTP/2.0"), 505),
    "the preface of HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    "HTTP/3.0": (line(b"POST / HTTP/3.0"), 505),
    "HTTP/0.9 by name": (line(b"GET / HTTP/0.9"), 505),
    "HTTP/1.10": (line(b"POST / HTTP/1.10"), 400),
    "HTTP/1,1": (line(b"POST / HTTP/1,1"), 400),
    "HTTP/0.9": (b"GET /\r\n\r\n", 400),
    "HTTP/1": (line(b"POST / HTTP/1"), 400),
    "no version": (line(b"POST /"), 400),
    "space behind the version": (line(b"POST / HTTP/1.1 "), 400),
    "two spaces": (line(b"POST  / HTTP/1.1"), 400),
    "tabs as separators": (line(b"POST\t/\tHTTP/1.1"), 400),
    "space before the method": (line(b" POST / HTTP/1.1"), 400),
    "space in the target": (line(b"POST /a b HTTP/1.1"), 400),
    "fragment in the target": (line(b"POST /a#b HTTP/1.1"), 400),
    "UTF-8 in the target": (line("POST /ä HTTP/1.1".encode()), 400),
    "control character in the target": (line(b"POST /\x01 HTTP/1.1"), 400),
    "NUL in the target": (line(b"POST /\0 HTTP/1.1"), 400),
    "no slash": (line(b"POST orders HTTP/1.1"), 400),
    "another scheme": (line(b"POST ftp://api.test/ HTTP/1.1"), 400),
    "asterisk for POST": (line(b"POST * HTTP/1.1"), 400),
    "CONNECT": (line(b"CONNECT api.test:443 HTTP/1.1"), 501),
    "CONNECT to a path": (line(b"CONNECT / HTTP/1.1"), 501),
    "CONNECT to a URL": (line(b"CONNECT http://api.test/ HTTP/1.1"), 501),
    "CONNECT to everything": (line(b"CONNECT * HTTP/1.1"), 501),
    "CONNECT by HTTP/1.0": (line(b"CONNECT api.test:443 HTTP/1.0"), 501),
    "lower case CONNECT": (line(b"connect api.test:443 HTTP/1.1"), 400),
    "TRACE": (line(b"TRACE / HTTP/1.1"), 501),
    "TRACE with Max-Forwards": (head(b"Max-Forwards: 0", first=b"TRACE / HTTP/1.1"), 501),
    "slash in the method": (line(b"PO/ST / HTTP/1.1"), 400),
    "an empty target": (line(b"POST  HTTP/1.1"), 400),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
    # Sizes.
    "a long target": (line(b"POST /" + b"x" * 9000 + b" HTTP/1.1"), 414),
    "an endless target": (b"POST /" + b"x" * 20_000, 414),
    "a large header": (head(b"X: " + b"y" * 40_000), 431),
    "an endless header": (b"POST / HTTP/1.1\r\nHost: api.test\r\n" + b"X: yyyyyyyyyyyyyy\r\n" * 3000, 431),
    "too many fields": (head(*[b"X: y"] * 101), 431),
}

# Behind a good head with Transfer-Encoding: chunked.
CHUNKS = {
    "0x before the size": b"0x5\r\nhello\r\n0\r\n\r\n",
    "plus before the size": b"+5\r\nhello\r\n0\r\n\r\n",
    "minus before the size": b"-1\r\n\r\n0\r\n\r\n",
    "seventeen digits": b"10000000000000005\r\nhello\r\n0\r\n\r\n",
    "sixteen digits": b"ffffffffffffffff\r\nhello\r\n0\r\n\r\n",
    "no size": b"\r\nhello\r\n0\r\n\r\n",
    "only an extension": b";x=y\r\nhello\r\n0\r\n\r\n",
    "space before the size": b" 5\r\nhello\r\n0\r\n\r\n",
    "space behind the size": b"5 \r\nhello\r\n0\r\n\r\n",
    "tab behind the size": b"5\t\r\nhello\r\n0\r\n\r\n",
    "no hex digit": b"g\r\nhello\r\n0\r\n\r\n",
    "underscore in the size": b"0_5\r\nhello\r\n0\r\n\r\n",
    "bare LF behind the size": b"5\nhello\r\n0\r\n\r\n",
    "bare CR behind the size": b"5\rhello\r\n0\r\n\r\n",
    "bare LF in an extension": b"5;x\nhello\r\n0\r\n\r\n",
    "NUL in an extension": b"5;\0\r\nhello\r\n0\r\n\r\n",
    "a long extension": b"5;" + b"x" * 5000 + b"\r\nhello\r\n0\r\n\r\n",
    "space before an extension": b"5 ;a=b\r\nhello\r\n0\r\n\r\n",
    "space behind the semicolon": b"5; a=b\r\nhello\r\n0\r\n\r\n",
    "space around the equals sign": b"5;a = b\r\nhello\r\n0\r\n\r\n",
    "space behind an extension": b"5;a=b \r\nhello\r\n0\r\n\r\n",
    "an empty extension": b"5;\r\nhello\r\n0\r\n\r\n",
    "an empty extension at the end": b"5\r\nhello\r\n0;a;\r\n\r\n",
    "an extension without a name": b"5;=b\r\nhello\r\n0\r\n\r\n",
    "an extension without a value": b"5;a=\r\nhello\r\n0\r\n\r\n",
    "an open quote in an extension": b'5;a="b\r\nhello\r\n0\r\n\r\n',
    "text behind a quoted extension": b'5;a="b"c\r\nhello\r\n0\r\n\r\n',
    "no CRLF behind the data": b"5\r\nhello0\r\n\r\n",
    "bare LF behind the data": b"5\r\nhello\n0\r\n\r\n",
    "data longer than it said": b"4\r\nhello\r\n0\r\n\r\n",
    "bare LF behind the last chunk": b"0\n\n",
    "bare LF as the end": b"0\r\n\n",
    "trailer without a colon": b"0\r\nnothing\r\n\r\n",
    "trailer without a name": b"0\r\n: 1\r\n\r\n",
    "trailer with a space before its colon": b"0\r\nX : 1\r\n\r\n",
    "trailer with a control character": b"0\r\nX: \x01\r\n\r\n",
    "trailer with NUL": b"0\r\nX: \0\r\n\r\n",
    "folded trailer": b"0\r\nX: 1\r\n 2\r\n\r\n",
    "trailer with a bare LF": b"0\r\nX: 1\nY: 2\r\n\r\n",
    "trailers without end": b"0\r\n" + b"X: 1\r\n" * 5000,
    "a trailer line without end": b"0\r\nX: " + b"y" * 20_000,
}


class Smuggling(EndToEnd):
    @classmethod
    def setUpClass(cls):
        cls.server = Backend(read_body=False)
        cls.addClassCleanup(cls.server.stop)
        cls.once = Gateway("--upstream", f"http://127.0.0.1:{cls.server.port}").wait_listening()
        cls.addClassCleanup(cls.once.stop)

    def send(self, raw, split=False):
        """What came back: the first answer, and whether the connection was closed behind it without another."""
        with Client(self.once.port) as client:
            try:
                for part in ([raw[at:at + 1] for at in range(len(raw))] if split else [raw]):
                    client.send(part)
            except (BrokenPipeError, ConnectionResetError):
                pass  # refused before all of it was sent
            response = client.read_response()
            return response, client.closed()

    def assert_refused(self, raw, statuses, split=False):
        response, closed = self.send(raw, split)
        self.assertIn(response.status, statuses if isinstance(statuses, tuple) else (statuses,), response)
        self.assertEqual(response.problem["status"], response.status)
        self.assertFalse(response.problem["retryable"])
        self.assertEqual(response.get("Connection"), "close")
        self.assertTrue(closed, "the connection must end")

    def test_ambiguous_heads_are_refused(self):
        for name, (raw, status) in HEADS.items():
            with self.subTest(name):
                self.assert_refused(raw + HIDDEN, status)
        self.assertEqual(self.server.received, b"")

    def test_ambiguous_heads_are_refused_when_they_come_byte_by_byte(self):
        for name, (raw, status) in HEADS.items():
            if len(raw) > 300:
                continue
            with self.subTest(name):
                self.assert_refused(raw, status, split=True)
        self.assertEqual(self.server.received, b"")

    def test_malformed_chunks_with_a_key_reach_nobody(self):
        for name, chunks in CHUNKS.items():
            with self.subTest(name):
                good = head(b"Transfer-Encoding: chunked", b"Idempotency-Key: " + name.replace(" ", "-").encode())
                self.assert_refused(good + chunks + HIDDEN, 400)
        self.assertEqual(self.server.received, b"")


class StreamedChunks(EndToEnd):
    """Without a key a body streams on before its end is seen: then the backend must not take it for a whole one."""

    def test_malformed_chunks_without_a_key_never_make_a_whole_request(self):
        backend = self.backend()
        gateway = self.gateway(backend)
        for name, chunks in CHUNKS.items():
            with self.subTest(name):
                with gateway.connect() as client:
                    try:
                        client.send(head(b"Transfer-Encoding: chunked") + chunks + HIDDEN)
                    except (BrokenPipeError, ConnectionResetError):
                        pass
                    response = client.read_response()
                    self.assertEqual((response.status, response.get("Connection")), (400, "close"))
                    self.assertTrue(client.closed())
        self.assertEqual(backend.executions(), [])
        self.assertEqual([request.target for request in backend.requests if request.target != "/"], [])

    def test_a_refused_request_does_not_disturb_the_one_before_it(self):
        backend = self.backend()
        client = self.connect(self.gateway(backend))
        client.send(head(b"Transfer-Encoding: chunked", b"Idempotency-Key: k", first=b"POST /good HTTP/1.1") +
                    b"5\r\nhello\r\n0\r\n\r\n" + head(b"Content-Length: 1", b"Content-Length: 1") + HIDDEN)
        self.assertEqual([client.read_response().status for _ in range(2)], [201, 400])
        self.assertTrue(client.closed())
        self.assertEqual([(request.target, request.body) for request in backend.requests], [("/good", b"hello")])
        self.assertTrue(backend.received.endswith(b"\r\n\r\nhello"))

    def test_a_refusal_after_a_HEAD_has_its_whole_body(self):
        client = self.connect(self.gateway(self.backend()))
        self.assertEqual(client.ask("HEAD").status, 201)
        client.send(b"broken\r\n\r\n")
        self.assertEqual(client.read_response().problem["status"], 400)

    def test_what_is_allowed_is_not_refused(self):
        backend = self.backend()
        gateway = self.gateway(backend)
        allowed = {
            "empty lines before a request": b"\r\n\r\n" + request_bytes("POST", "/", body=b"hello"),
            "leading zeros": head(b"Content-Length: 0005") + b"hello",
            "space around a value": head(b"Content-Length:  \t 5 \t ") + b"hello",
            "chunk extensions": head(b"Transfer-Encoding: chunked") + b'5;a=b;c="d \\" e";f\r\nhello\r\n0;x\r\n\r\n',
            "upper and lower case hex": head(b"Transfer-Encoding: chunked") + b"05\r\nhello\r\n0000\r\n\r\n",
            "casing of chunked": head(b"transfer-encoding: CHUNKED") + b"5\r\nhello\r\n0\r\n\r\n",
            "trailers": head(b"Transfer-Encoding: chunked") + b"5\r\nhello\r\n0\r\nX-T: 1\r\n\r\n",
            "absolute form": head(b"Content-Length: 5", first=b"POST http://api.test/ HTTP/1.1") + b"hello",
            "absolute form without a path": head(b"Content-Length: 5", first=b"POST http://api.test HTTP/1.1") + b"hello",
            "a scheme in capitals": head(b"Content-Length: 5", first=b"POST HTTP://api.test/ HTTP/1.1") + b"hello",
            "HTTP/1.2": head(b"Content-Length: 5", first=b"POST / HTTP/1.2") + b"hello",
            "a hundred fields": head(b"Content-Length: 5", *[b"X: y"] * 98) + b"hello",
            "Latin-1 in a value": head(b"Content-Length: 5", b"X: \xfc") + b"hello",
        }
        for name, raw in allowed.items():
            with self.subTest(name):
                with gateway.connect() as client:
                    client.send(raw)
                    self.assertEqual(client.read_response().status, 201)
                request = backend.requests[-1]
                self.assertEqual((request.target, request.body, request.version), ("/", b"hello", "HTTP/1.1"))


class AbsoluteForm(EndToEnd):
    """RFC 9112 3.2.2: the host of the target counts, whatever Host says."""

    def test_the_backend_gets_the_path_and_the_host_of_the_url(self):
        backend = self.backend()
        gateway = self.gateway(backend)
        forms = {"POST http://b.test/x?y HTTP/1.1": ("/x?y", "b.test"), "POST http://b.test:80 HTTP/1.1": ("/", "b.test:80"),
                 "POST http://b.test?y=/z HTTP/1.1": ("/?y=/z", "b.test"), "OPTIONS http://b.test HTTP/1.1": ("*", "b.test"),
                 "OPTIONS http://b.test/ HTTP/1.1": ("/", "b.test"), "OPTIONS * HTTP/1.1": ("*", "api.test"),
                 "OPTIONS * HTTP/1.0": ("*", "api.test"), "POST http://B.test/ HTTP/1.0": ("/", "B.test")}
        for first, (target, host) in forms.items():
            with self.subTest(first):
                with gateway.connect() as client:
                    client.send(head(first=first.encode()))
                    self.assertEqual(client.read_response().status, 201)
                request = backend.requests[-1]
                self.assertEqual((request.target, request.all("Host")), (target, [host]))
        with gateway.connect() as client:
            client.send(head(first=b"GET http://b.test/ HTTP/1.0", host=None))
            self.assertEqual(client.read_response().status, 201)
        self.assertEqual(backend.requests[-1].all("Host"), ["b.test"])

    def test_a_key_belongs_to_the_host_of_the_url(self):
        gateway = self.gateway(self.backend())
        asked = (("/", "a.test"), ("http://a.test/", "b.test"), ("http://a.test:80", "a.test"), ("/", "b.test"),
                 ("http://b.test/", "a.test"))
        results = [gateway.ask("POST", target, [("Host", host)], b"x", "k").get("Idempotency-Status")
                   for target, host in asked]
        self.assertEqual(results, ["executed", "replayed", "replayed", "executed", "replayed"])

    def test_a_url_of_the_other_scheme_is_misdirected(self):
        backend = self.backend()
        self.assertEqual(self.gateway(backend).ask("POST", "https://api.test/").status, 421)
        self.assertEqual(backend.received, b"")
        proxied = self.gateway(backend, "trusted_proxies=127.0.0.1")
        self.assertEqual(proxied.ask("POST", "https://api.test/").status, 201)


class HalfWritten(EndToEnd):
    """A connection on which a request was only half written is never used again: the next request would be read as the
    rest of its body, with its caller's credentials."""

    BODY = bytes(32 << 20)  # more than kernels hold

    def test_a_guarded_write(self):
        go = self.gate()

        def handler(request, connection):
            if request.target == "/next" or request.method == "GET":
                connection.read_body()
                connection.reply(200, body=b"answer to the next")
                return
            connection.reply(200)  # and reads no further, on a connection that it keeps
            go.wait()
            connection.stream.read_to_end()
            connection.close()

        backend = self.backend(handler, read_body=False)
        gateway = self.gateway(backend, "threads=1", "pool.idle_max=2m",
                               "defaults.max_request_body=64MiB", "defaults.timeouts.response=500ms",
                               "defaults.timeouts.stream_idle=500ms", "defaults.conditional.if_match=on")
        gateway.ask("PUT", "/first", [("If-Match", "*")], body=self.BODY)
        go.set()  # the backend reads on: there would be room for more
        for number, key in enumerate(("next", None)):
            response = gateway.ask("POST", "/next", [("Authorization", f"secret-{number}")], body=b"{}", key=key)
            self.assertEqual((response.status, response.body), (200, b"answer to the next"))
        gateway.stop()
        first = next(log for stream in backend.streams if b" /first" in (log := bytes(stream.log)) and len(log) > 65536)
        self.assertNotIn(b"secret-", first)


if __name__ == "__main__":
    unittest.main()
