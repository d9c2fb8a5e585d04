"""Requests that two readers could understand differently are refused, and nothing of them reaches the backend."""
import contextlib
import unittest

from harness import Sharing

# A second request behind the first, as somebody would hide it. If it arrives anywhere, it shows.
HIDDEN = b"GET /hidden HTTP/1.1\r\nHost: api.test\r\n\r\n"


def head(*lines, first=b"POST / HTTP/1.1", host=b"Host: api.test"):
    return b"\r\n".join([first, *([host] if host else []), *lines]) + b"\r\n\r\n"


def line(first):
    return head(first=first)


# name: (what is sent, the status it gets). One of each kind: tests/unit/http has all of them.
HEADS = {
    "length and chunked": (head(b"Content-Length: 5", b"Transfer-Encoding: chunked") + b"0\r\n\r\n", 400),
    "chunked twice": (head(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked") + b"0\r\n\r\n", 400),
    "xchunked": (head(b"Transfer-Encoding: xchunked") + b"0\r\n\r\n", 400),
    "gzip, chunked": (head(b"Transfer-Encoding: gzip, chunked") + b"0\r\n\r\n", 501),
    "chunked for HTTP/1.0":
        (head(b"Transfer-Encoding: chunked", first=b"POST / HTTP/1.0") + b"0\r\n\r\n", 400),
    "two lengths": (head(b"Content-Length: 0", b"Content-Length: 40") + HIDDEN, 400),
    "length as a list": (head(b"Content-Length: 0, 0"), 400),
    "length with a plus": (head(b"Content-Length: +5") + b"hello", 400),
    "length beyond 64 bits": (head(b"Content-Length: 18446744073709551616"), 400),
    "length of two lines": (head(b"Content-Length: 1", b" 0") + b"0123456789", 400),
    "bare LF after a field": (b"POST / HTTP/1.1\r\nHost: api.test\nX: 1\r\n\r\n", 400),
    "bare LF as the empty line": (b"POST / HTTP/1.1\r\nHost: api.test\r\n\n", 400),
    "bare CR in a value": (head(b"X: a\rContent-Length: 5") + b"hello", 400),
    "folded line": (head(b"X-Folded: a", b" b"), 400),
    "space before the colon": (head(b"Content-Length : 5") + b"hello", 400),
    "NUL in a value": (head(b"X: a\0b"), 400),
    "no Host": (head(host=None), 400),
    "two Hosts": (head(b"Host: other.test"), 400),
    "user in Host": (head(host=b"Host: me@api.test"), 400),
    "a bad Host beside a URL": (head(first=b"POST http://api.test/ HTTP/1.1", host=b"Host: a b"), 400),
    "HTTP/2.0": (line(b"POST / HTTP/2.0"), 505),
    "two spaces": (line(b"POST  / HTTP/1.1"), 400),
    "UTF-8 in the target": (line("POST /ä HTTP/1.1".encode()), 400),
    "CONNECT": (line(b"CONNECT api.test:443 HTTP/1.1"), 501),
    "TRACE": (line(b"TRACE / HTTP/1.1"), 501),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
    "an endless target": (b"POST /" + b"x" * 20_000, 414),
    "an endless header": (b"POST / HTTP/1.1\r\nHost: api.test\r\n" + b"X: yyyyyyyyyyyyyy\r\n" * 3000, 431),
    "too many fields": (head(*[b"X: y"] * 101), 431),
}

# Behind a good head with Transfer-Encoding: chunked.
CHUNKS = {
    "0x before the size": b"0x5\r\nhello\r\n0\r\n\r\n",
    "seventeen digits": b"10000000000000005\r\nhello\r\n0\r\n\r\n",
    "no size": b"\r\nhello\r\n0\r\n\r\n",
    "space behind the size": b"5 \r\nhello\r\n0\r\n\r\n",
    "bare LF behind the size": b"5\nhello\r\n0\r\n\r\n",
    "NUL in an extension": b"5;\0\r\nhello\r\n0\r\n\r\n",
    "a long extension": b"5;" + b"x" * 5000 + b"\r\nhello\r\n0\r\n\r\n",
    "no CRLF behind the data": b"5\r\nhello0\r\n\r\n",
    "data longer than it said": b"4\r\nhello\r\n0\r\n\r\n",
    "bare LF as the end": b"0\r\n\n",
    "trailer without a colon": b"0\r\nnothing\r\n\r\n",
    "folded trailer": b"0\r\nX: 1\r\n 2\r\n\r\n",
    "trailers without end": b"0\r\n" + b"X: 1\r\n" * 5000,
}


class Smuggling(Sharing):
    def check_refused(self, gateway, raw, status):
        with gateway.connect() as client:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # refused before all of it was sent
                client.send(raw + HIDDEN)
            response = client.read_response()
            self.assertEqual((response.status, response.problem["status"], response.problem["retryable"]), (status, status, False))
            self.assertEqual(response.get("Connection"), "close")
            self.assertTrue(client.closed(), "the connection must end")

    def test_ambiguous_heads_are_refused(self):
        backend = self.backend(read_body=False, own=True)
        gateway = self.gateway(backend)
        for name, (raw, status) in HEADS.items():
            with self.subTest(name):
                self.check_refused(gateway, raw, status)
        self.assertEqual(backend.received, b"")

    def test_malformed_chunks_without_a_key_never_make_a_whole_request(self):
        """Such a body streams on before its end is seen: then the backend must not take it for a whole one."""
        backend = self.backend()
        gateway = self.gateway(backend)
        for name, chunks in CHUNKS.items():
            with self.subTest(name):
                self.check_refused(gateway, head(b"Transfer-Encoding: chunked") + chunks, 400)
        self.assertEqual(backend.executions(), [])
        self.assertEqual([request.target for request in backend.requests if request.target != "/"], [])


if __name__ == "__main__":
    unittest.main()
