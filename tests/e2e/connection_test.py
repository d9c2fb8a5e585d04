"""The client's connection: leaving early, closing half, pipelining, keeping it open, and asking before sending."""
import http.client
import socket
import unittest

from harness import EndToEnd
from wire import DEADLINE, request_bytes, wait_until

KEY = "connection-key"


class Leaving(EndToEnd):
    """A disconnect changes nothing for a keyed request."""

    def leave(self, how, wait_for_backend):
        go = self.gate()
        backend = self.backend(lambda _, to: go.wait() and to.reply(201, body=b"done"))
        gateway = self.gateway(backend)
        client = gateway.connect()
        client.send_request(key=KEY, body=b"{}")
        if wait_for_backend:
            wait_until(lambda: backend.executions())
        how(client)
        wait_until(lambda: backend.executions(), what="the request to be executed all the same")
        go.set()
        answer = wait_until(lambda: (found := gateway.ask(key=KEY, body=b"{}")).status != 409 and found)
        self.assertEqual((answer.status, answer.body), (201, b"done"))
        self.assertEqual(answer.get("Idempotency-Status"), "replayed")
        self.assertEqual(len(backend.requests), 1)

    def test_a_client_that_closes_right_after_sending(self):
        self.leave(lambda client: client.close(), wait_for_backend=False)

    def test_a_client_that_closes_while_the_backend_works(self):
        self.leave(lambda client: client.close(), wait_for_backend=True)

    def test_a_client_that_resets_while_the_backend_works(self):
        self.leave(lambda client: client.reset(), wait_for_backend=True)

    def test_a_client_that_resets_right_after_sending_executes_at_most_once(self):
        # The reset may overtake the request in the kernel: then nothing was received, and a retry executes.
        backend = self.backend()
        gateway = self.gateway(backend)
        for number in range(20):
            client = gateway.connect()
            client.send_request(key=f"k{number}")
            client.reset()
            wait_until(lambda number=number: gateway.ask(key=f"k{number}").status == 201)
        self.assertEqual(len(backend.requests), 20)

    def test_a_half_closed_client_is_served(self):
        go = self.gate()
        backend = self.backend(lambda _, to: go.wait() and to.reply(201, body=b"done"))
        gateway = self.gateway(backend)
        for method, key in (("POST", KEY), ("POST", None), ("GET", None)):
            with self.subTest(method, key=key):
                before = len(backend.requests)
                go.clear()
                client = self.connect(gateway)
                client.send_request(method, key=key)
                client.sock.shutdown(socket.SHUT_WR)
                wait_until(lambda before=before: len(backend.requests) > before)
                go.set()
                response = client.read_response()
                self.assertEqual((response.status, response.body), (201, b"done"))
                self.assertTrue(client.closed())

    def test_a_half_closed_upload_is_served(self):
        backend = self.backend()
        client = self.connect(self.gateway(backend))
        client.send(b"POST / HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\n\r\n")
        wait_until(lambda: backend.requests)
        client.send(b"5\r\nhello\r\n0\r\n\r\n")
        client.sock.shutdown(socket.SHUT_WR)
        self.assertEqual(client.read_response().status, 201)
        self.assertEqual(backend.requests[0].body, b"hello")


class Persistence(EndToEnd):
    def start(self, *settings):
        backend = self.backend(lambda request, to: to.reply(200, body=request.target.encode() + request.body))
        return backend, self.gateway(backend, *settings)

    def test_five_pipelined_requests_are_answered_in_order(self):
        backend, gateway = self.start()
        client = self.connect(gateway)
        client.send(request_bytes("POST", "/1", body=b"a", key="k1") + request_bytes("GET", "/2") +
                    request_bytes("POST", "/3", body=b"c") +
                    request_bytes("POST", "/4", [("Transfer-Encoding", "chunked")], key="k4") + b"1\r\nd\r\n0\r\n\r\n" +
                    request_bytes("POST", "/1", body=b"a", key="k1"))
        answers = [client.read_response() for _ in range(5)]
        self.assertEqual([answer.body for answer in answers], [b"/1a", b"/2", b"/3c", b"/4d", b"/1a"])
        self.assertEqual([answer.get("Idempotency-Status") for answer in answers],
                         ["executed", None, None, "executed", "replayed"])
        self.assertEqual([request.target for request in backend.requests], ["/1", "/2", "/3", "/4"])

    def test_many_requests_on_one_connection_use_one_connection_to_the_backend(self):
        backend, gateway = self.start("threads=1", "pool.idle_max=2m")
        client = self.connect(gateway)
        for number in range(50):
            self.assertEqual(client.ask("POST", f"/{number}", key=f"k{number}", body=b"").status, 200)
            self.assertEqual(client.ask("GET", f"/{number}").status, 200)
        self.assertEqual(len(backend.requests), 100)
        self.assertEqual(len(backend.streams), 1)
        self.assertEqual(gateway.metrics()["once_backend_connects_total"], 1)

    def test_a_backend_says_how_long_it_keeps_a_connection(self):
        for value, connections in (("timeout=60, max=100", 1), ("max=5,Timeout=60", 1), ("timeout=0", 10)):
            for key in ("k", None):
                with self.subTest(value, key=key):
                    backend = self.backend(lambda _, to, value=value: to.reply(200, [("Keep-Alive", value)]))
                    client = self.connect(self.gateway(backend, "pool.idle_max=2m"))
                    for number in range(10):
                        client.ask("POST", key=key and f"{key}{number}")
                    self.assertEqual((len(backend.requests), len(backend.streams)), (10, connections))

    def assert_persistence(self, version, asked, kept, said):
        _, gateway = self.start()
        for key in (None, "k"):
            for round_number in ("executed", "replayed"):
                with self.subTest(version=version, asked=asked, key=key, round=round_number):
                    client = self.connect(gateway)
                    fields = [("Connection", asked)] if asked else []
                    response = client.ask("POST", "/", fields, key=key, version=version)
                    self.assertEqual((response.status, response.get("Connection")), (200, said))
                    if kept:
                        self.assertEqual(client.ask("GET", "/again").body, b"/again")
                    else:
                        self.assertTrue(client.closed())

    def test_http_1_1_is_kept_open(self):
        self.assert_persistence("HTTP/1.1", None, kept=True, said=None)
        self.assert_persistence("HTTP/1.1", "keep-alive", kept=True, said=None)

    def test_http_1_1_closes_when_asked(self):
        self.assert_persistence("HTTP/1.1", "close", kept=False, said="close")
        self.assert_persistence("HTTP/1.1", "x-other, Close", kept=False, said="close")

    def test_http_1_0_closes(self):
        self.assert_persistence("HTTP/1.0", None, kept=False, said="close")

    def test_http_1_0_is_kept_open_when_asked(self):
        self.assert_persistence("HTTP/1.0", "keep-alive", kept=True, said="keep-alive")

    def test_an_http_1_0_client_gets_no_chunks_and_no_interim_responses(self):
        raw = (b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
               b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
        backend = self.backend(lambda _, to: to.send(raw))
        gateway = self.gateway(backend)
        for key in (None, "k"):
            with self.subTest(key=key):
                client = self.connect(gateway)
                response = client.ask("POST", "/", [("Connection", "keep-alive")], key=key, version="HTTP/1.0")
                self.assertEqual((response.status, response.body), (200, b"hello"))
                self.assertEqual((response.interim, response.get("Transfer-Encoding")), ([], None))

    def test_an_http_1_0_request_without_host_is_whole_for_an_http_1_1_backend(self):
        backend, gateway = self.start()
        for key in ("", "Idempotency-Key: k\r\n"):
            client = self.connect(gateway)
            client.send(f"POST /old HTTP/1.0\r\n{key}\r\n".encode())
            self.assertEqual(client.read_response().body, b"/old")
            request = backend.requests[-1]
            self.assertEqual((request.version, request.all("Host")), ("HTTP/1.1", [f"127.0.0.1:{backend.port}"]))


class Expecting(EndToEnd):
    EXPECT = [("Expect", "100-continue"), ("Content-Length", "5")]

    def test_with_a_good_key_the_body_is_asked_for(self):
        backend = self.backend()
        client = self.connect(self.gateway(backend))
        client.send_request(fields=self.EXPECT, key=KEY)
        self.assertEqual(client.read_until(b"\r\n\r\n"), b"HTTP/1.1 100 Continue\r\n\r\n")
        self.assertEqual(backend.received, b"")
        client.send(b"hello")
        self.assertEqual(client.read_response().status, 201)
        self.assertEqual((backend.requests[0].body, backend.requests[0].get("Expect")), (b"hello", None))

    def test_a_retry_that_asks_first_is_a_replay(self):
        backend = self.backend()
        gateway = self.gateway(backend)
        gateway.ask(key=KEY, body=b"hello")
        client = self.connect(gateway)
        client.send_request(fields=self.EXPECT, key=KEY)
        client.read_until(b"100 Continue\r\n\r\n")
        client.send(b"hello")
        self.assertEqual(client.read_response().get("Idempotency-Status"), "replayed")

    def test_what_is_refused_is_refused_before_the_body_is_asked_for(self):
        backend = self.backend()
        gateway = self.gateway(backend, "defaults.key.required=yes", "defaults.max_request_body=1KiB", "defaults.max_large_request=0")
        cases = (("a bad key", {"key": "a b", "fields": self.EXPECT}, 400), ("no key", {"fields": self.EXPECT}, 400),
                 ("too large", {"key": "k", "fields": [self.EXPECT[0], ("Content-Length", "2000")]}, 413))
        for name, request, status in cases:
            with self.subTest(name):
                client = self.connect(gateway)
                response = client.ask(**request)
                self.assertEqual((response.status, response.interim), (status, []))
                self.assertTrue(client.closed())
        self.assertEqual(backend.received, b"")

    def test_a_client_that_does_not_wait_is_not_asked(self):
        client = self.connect(self.gateway(self.backend()))
        client.send(request_bytes(fields=self.EXPECT, key=KEY) + b"hello")
        response = client.read_response()
        self.assertEqual((response.status, response.interim), (201, []))

    def test_without_a_key_the_backend_decides(self):
        def handler(request, connection):
            if request.target == "/no":
                connection.reply(417, [("Connection", "close")])
                connection.close()
                return
            connection.send(b"HTTP/1.1 100 Continue\r\n\r\n")
            connection.read_body()
            connection.reply(201, body=request.body)

        backend = self.backend(handler, read_body=False)
        gateway = self.gateway(backend)
        client = self.connect(gateway)
        client.send_request("POST", "/yes", self.EXPECT)
        self.assertEqual(client.read_until(b"\r\n\r\n"), b"HTTP/1.1 100 Continue\r\n\r\n")
        client.send(b"hello")
        self.assertEqual(client.read_response().body, b"hello")
        self.assertEqual(backend.requests[0].get("Expect"), "100-continue")

        client = self.connect(gateway)
        response = client.ask("POST", "/no", self.EXPECT)
        self.assertEqual(response.status, 417)  # on a busy machine behind a 100 of Once
        self.assertTrue(client.closed())

    def test_a_backend_that_ignores_it_keeps_nobody_waiting(self):
        backend = self.backend()  # answers when it has the body, and says nothing before
        client = self.connect(self.gateway(backend))
        client.send_request(fields=self.EXPECT)
        self.assertEqual(client.read_until(b"\r\n\r\n"), b"HTTP/1.1 100 Continue\r\n\r\n")
        client.send(b"hello")
        self.assertEqual(client.read_response().status, 201)
        self.assertEqual(backend.requests[0].body, b"hello")

    def test_a_late_100_of_the_backend_is_not_a_second_one(self):
        told = self.gate()

        def handler(request, connection):
            told.wait()
            connection.send(b"HTTP/1.1 100 Continue\r\n\r\n")
            connection.read_body()
            connection.reply(201, body=request.body)

        client = self.connect(self.gateway(self.backend(handler, read_body=False)))
        client.send_request(fields=self.EXPECT)
        self.assertEqual(client.read_until(b"\r\n\r\n"), b"HTTP/1.1 100 Continue\r\n\r\n")
        told.set()
        client.send(b"hello")
        response = client.read_response()
        self.assertEqual((response.status, response.interim, response.body), (201, [], b"hello"))


class EarlyAnswers(EndToEnd):
    """A response that comes before the body is read reaches a client that sends all of it first."""

    BODY = bytes(24 << 20)  # more than kernels hold

    def ask(self, gateway, fields):
        """As most libraries do: http.client reads nothing before everything is sent."""
        connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=DEADLINE)
        self.addCleanup(connection.close)
        connection.request("POST", "/", self.BODY, fields)
        response = connection.getresponse()
        response.read()
        return response.status, response.getheader("Connection")

    def test_a_body_that_is_too_large(self):
        backend = self.backend()
        gateway = self.gateway(backend, "defaults.max_request_body=1KiB", "defaults.max_large_request=0")
        self.assertEqual(self.ask(gateway, {"Idempotency-Key": KEY}), (413, "close"))
        self.assertEqual(backend.received, b"")
        self.assertEqual(gateway.ask(key=KEY, body=b"{}").get("Idempotency-Status"), "executed")

    def test_a_key_that_is_not_valid(self):
        self.assertEqual(self.ask(self.gateway(self.backend()), {"Idempotency-Key": "a b"}), (400, "close"))

    def test_a_backend_that_answers_early(self):
        for closes in (True, False):
            with self.subTest(closes=closes):
                def handler(_, connection, closes=closes):
                    connection.reply(413, [("Connection", "close")] if closes else [])
                    if not closes:
                        connection.stream.read_to_end()  # until Once has closed
                    connection.close()

                gateway = self.gateway(self.backend(handler, read_body=False))
                self.assertEqual(self.ask(gateway, {}), (413, "close"))

    def test_a_client_that_never_ends_is_left(self):
        """The silence of a client that has got its answer is bounded, too."""
        clock = self.clock()
        gateway = self.gateway(self.backend(), "defaults.max_request_body=1KiB", "defaults.max_large_request=0", clock=clock)
        client = self.connect(gateway)
        client.send_request(fields=[("Content-Length", 1 << 30)], key=KEY)
        self.assertEqual(client.read_response().status, 413)
        clock.advance_until(lambda: gateway.metrics()["once_connections_open"] == 0, seconds=61)


if __name__ == "__main__":
    unittest.main()
