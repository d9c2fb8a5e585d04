"""Everything has a limit: how long a client may take, how much it may send, how many there may be."""
import contextlib
import socket
import threading
import unittest

from harness import EndToEnd
from wire import request_bytes, wait_until

MINUTE = 60  # seconds
PATIENT = ("defaults.timeouts.response=24h", "defaults.timeouts.stream_idle=24h", "defaults.ttl=30d")


class Timed(EndToEnd):
    """One gateway whose clock the test moves. Limits are ten minutes, and time moves three minutes at a time."""

    def start(self, backend, *settings):
        self.clock_ = self.clock()
        self.gateway_ = self.gateway(backend, "threads=1", *PATIENT, *settings, clock=self.clock_)
        return self.gateway_

    def three_minutes_pass(self):
        """The requests around it make sure that the only thread has read what was sent before, and has seen the new time."""
        self.assertEqual(self.gateway_.ask("GET").status, 201)
        self.clock_.advance(3 * MINUTE)
        self.assertEqual(self.gateway_.ask("GET").status, 201)


class Timeouts(Timed):
    def assert_timed_out(self, client):
        response = client.read_response()
        self.assertEqual((response.status, response.code), (408, "request-timeout"))
        self.assertTrue(response.problem["retryable"])
        self.assertEqual(response.get("Connection"), "close")
        self.assertTrue(client.closed())

    def test_empty_lines_are_no_way_around_the_limits(self):
        gateway = self.gateway(self.backend())
        with gateway.connect() as client:
            client.send(b"\r\n\r\n" + request_bytes("GET", "/"))
            self.assertEqual(client.read_response("GET").status, 201)
        with gateway.connect() as client:
            client.send(b"\r\n" * 100)
            self.assertEqual(client.read_response().status, 400)

    def test_a_header_that_does_not_come(self):
        backend = self.backend()
        gateway = self.gateway(backend, "timeouts.header=200ms")
        client = self.connect(gateway)
        client.send(b"POST / HTTP/1.1\r\nHost: api")
        self.assert_timed_out(client)
        self.assertEqual(backend.received, b"")

    def test_a_header_that_trickles(self):
        client = self.connect(self.start(self.backend(), "timeouts.header=5m"))
        with contextlib.suppress(OSError):
            for byte in b"POST / ":
                client.send(bytes([byte]))
                self.three_minutes_pass()
        self.assert_timed_out(client)

    def test_a_late_header_behind_a_request_is_not_logged_as_that_request(self):
        # As much as fills the buffer, so that it has just moved.
        for size in (100, 8192, 20_000):
            with self.subTest(size=size):
                gateway = self.gateway(self.backend(), "timeouts.header=200ms", "log.access=yes")
                client = self.connect(gateway)
                client.ask("POST", "/first", key="k")
                client.send(b"POST /second HTTP/1.1\r\nX: ".ljust(size, b"y"))
                self.assert_timed_out(client)
                gateway.terminate()
                gateway.wait()
                first, second = gateway.log_lines(gateway.stdout)
                self.assertEqual((first["path"], first["status"]), ("/first", 201))
                self.assertEqual((second["path"], second["operation"], second["status"]), ("", "", 408))

    def test_a_body_that_does_not_come(self):
        backend = self.backend()
        gateway = self.gateway(backend, "timeouts.body_idle=200ms")
        halves = (b"Content-Length: 10\r\n\r\nhalf", b"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n")
        for half in halves:
            for key in (b"Idempotency-Key: k\r\n", b""):
                with self.subTest(half, key=key):
                    client = self.connect(gateway)
                    client.send(b"POST / HTTP/1.1\r\nHost: api.test\r\n" + key + half)
                    self.assert_timed_out(client)
        self.assertEqual(backend.executions(), [])
        self.assertEqual(gateway.ask(key="k").get("Idempotency-Status"), "executed")

    def test_a_body_may_take_long_while_it_moves(self):
        gateway = self.start(self.backend(), "timeouts.body_idle=10m", "limits.min_rate=0")
        for key in ("k", None):
            with self.subTest(key=key):
                client = self.connect(gateway)
                client.send(request_bytes("POST", "/", [("Content-Length", "8")], key=key))
                for _ in range(8):
                    self.three_minutes_pass()
                    client.send(b"x")
                self.assertEqual(client.read_response().status, 201)

    def test_a_body_that_trickles(self):
        backend = self.backend()
        gateway = self.start(backend, "timeouts.body_idle=10m", "limits.min_rate=1")
        for fields, piece in (([("Content-Length", "100000")], b"x"), ([("Transfer-Encoding", "chunked")], b"1\r\nx\r\n")):
            for key in ("k", None):
                with self.subTest(fields, key=key):
                    client = self.connect(gateway)
                    client.send(request_bytes("POST", "/", fields, key=key))
                    with contextlib.suppress(OSError):
                        for _ in range(6):  # never silent for ten minutes, and far too slow
                            client.send(piece)
                            self.three_minutes_pass()
                    self.assert_timed_out(client)
        self.assertEqual([request for request in backend.executions() if request.method == "POST"], [])
        self.assertEqual(gateway.metrics()["once_slow_clients_total"], 4)

    def test_an_upload_beside_its_response_may_be_slow(self):
        def handler(request, connection):
            if request.method == "GET":
                return connection.reply(201)
            connection.send(b"HTTP/1.1 200 Fine\r\nTransfer-Encoding: chunked\r\n\r\n")
            body, _ = connection.stream.read_chunked()
            return connection.send(b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))

        gateway = self.start(self.backend(handler, read_body=False), "timeouts.body_idle=10m", "limits.min_rate=1000")
        client = self.connect(gateway)
        client.send(request_bytes("POST", "/", [("Transfer-Encoding", "chunked")]))
        client.read_head()
        for _ in range(8):
            client.send(b"1\r\nx\r\n")
            self.three_minutes_pass()
        client.send(b"0\r\n\r\n")
        self.assertEqual(client.read_chunked()[0], b"x" * 8)

    def test_an_idle_connection_is_closed_quietly(self):
        gateway = self.start(self.backend(), "timeouts.idle=10m")
        fresh, used = self.connect(gateway), self.connect(gateway)
        self.assertEqual(used.ask("GET").status, 201)
        self.three_minutes_pass()
        wait_until(lambda: gateway.metrics()["once_connections_open"] == 2)
        self.clock_.advance_until(lambda: gateway.metrics()["once_connections_open"] == 0, 11 * MINUTE)
        for client in (fresh, used):
            self.assertTrue(client.closed())

    def test_a_connection_at_work_is_not_idle(self):
        go = self.gate()
        backend = self.backend(lambda request, to: (request.method == "GET" or go.wait()) and to.reply(201))
        gateway = self.start(backend, "timeouts.idle=10m")
        clients = [self.connect(gateway) for _ in range(2)]
        for client, key in zip(clients, ("k", None)):
            client.send_request("POST", key=key)
        wait_until(lambda: len(backend.requests) == 2)
        for _ in range(8):
            self.three_minutes_pass()
        go.set()
        answers = [client.read_response() for client in clients]
        self.assertEqual([(answer.status, answer.get("Idempotency-Status")) for answer in answers],
                         [(201, "executed"), (201, None)])


class SlowReaders(Timed):
    SIZE = 24_000_000
    PARTS = 30
    REQUESTS = {"executed": {"key": "k"}, "replayed": {"key": "k"}, None: {"method": "GET"}}

    def start_large(self):
        body = b"x" * self.SIZE
        backend = self.backend(lambda _, to: to.reply(200, body=body))
        # The store divides its memory, and must have room for one such body in each part.
        return self.start(backend, "timeouts.body_idle=10m", "defaults.record.max_body=64MiB", "memory.max_bytes=16GiB")

    def slow_client(self, gateway, **named):
        client = self.connect(gateway)
        client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        client.send_request(**named)
        return client

    def test_a_client_that_reads_slowly_gets_everything(self):
        gateway = self.start_large()
        for status, request in self.REQUESTS.items():
            with self.subTest(status):
                client = self.slow_client(gateway, **request)
                fields = client.read_head()[1]
                self.assertIn(("Content-Length", str(self.SIZE)), fields)
                self.assertEqual(dict(fields).get("Idempotency-Status"), status)
                for _ in range(self.PARTS):  # each is more than the buffers on the way hold, so more was sent
                    client.read(self.SIZE // self.PARTS)
                    self.clock_.advance(3 * MINUTE)

    def test_a_client_that_does_not_read_is_cut_off(self):
        gateway = self.start_large()
        for status, request in self.REQUESTS.items():
            with self.subTest(status):
                client = self.slow_client(gateway, **request)
                client.read_head()
                self.clock_.advance_until(lambda: gateway.metrics()["once_connections_open"] == 0, 11 * MINUTE)
                with self.assertRaises((EOFError, ConnectionResetError)):
                    client.read(self.SIZE)
        self.assertEqual(len(gateway.ask(key="k").body), self.SIZE)


class Sizes(EndToEnd):
    LIMIT = ("defaults.max_request_body=100000", "defaults.max_large_request=0")

    def test_a_keyed_body_over_the_limit_is_refused_by_its_length_before_it_is_read(self):
        backend = self.backend()
        client = self.connect(self.gateway(backend, *self.LIMIT))
        client.send(request_bytes(fields=[("Content-Length", "100001")], key="k"))
        response = client.read_response()
        self.assertEqual((response.status, response.code, response.get("Connection")), (413, "body-too-large", "close"))
        self.assertTrue(client.closed())
        self.assertEqual(backend.received, b"")

    def test_a_keyed_body_over_the_limit_is_refused_while_it_is_read(self):
        backend = self.backend()
        client = self.connect(self.gateway(backend, *self.LIMIT))
        client.send(request_bytes(fields=[("Transfer-Encoding", "chunked")], key="k"))
        piece = b"2710\r\n" + b"x" * 10_000 + b"\r\n"
        with contextlib.suppress(OSError):
            for _ in range(50):
                client.send(piece)
        response = client.read_response()
        self.assertEqual((response.status, response.code), (413, "body-too-large"))
        self.assertTrue(client.closed())
        self.assertEqual(backend.received, b"")

    def test_a_client_that_sends_on_still_gets_the_refusal(self):
        gateway = self.gateway(self.backend(), *self.LIMIT)
        for _ in range(5):
            client = self.connect(gateway)
            client.send(request_bytes(fields=[("Content-Length", "800000")], key="k"))
            with contextlib.suppress(OSError):
                client.send(b"x" * 800_000)
            self.assertEqual(client.read_response().status, 413)

    def test_a_keyed_body_at_the_limit_is_taken(self):
        backend = self.backend()
        gateway = self.gateway(backend, *self.LIMIT)
        body = bytes(range(250)) * 400
        self.assertEqual(gateway.ask(key="k", body=body).status, 201)
        self.assertEqual(backend.requests[0].body, body)
        with self.connect(gateway) as client:
            client.send(request_bytes(fields=[("Transfer-Encoding", "chunked")], key="k") + b"186a0\r\n" + body +
                        b"\r\n0\r\n\r\n")
            self.assertEqual(client.read_response().get("Idempotency-Status"), "replayed")

    def test_without_a_key_there_is_no_limit(self):
        backend = self.backend()
        gateway = self.gateway(backend, *self.LIMIT)
        self.assertEqual(gateway.ask(body=b"x" * 1_000_000).status, 201)
        self.assertEqual(len(backend.requests[0].body), 1_000_000)

    def test_a_header_of_nearly_the_limit_with_a_body_behind_it(self):
        backend = self.backend()
        gateway = self.gateway(backend)
        for key in ("k", None):
            for size in (8_000, 16_000, 32_000):
                with self.subTest(key=key, size=size):
                    answer = gateway.ask("POST", f"/{size}", [("X-Large", "y" * size)], b"z" * 50_000, key)
                    self.assertEqual(answer.status, 201)
                    self.assertEqual(backend.requests[-1].body, b"z" * 50_000)
                    self.assertEqual(len(backend.requests[-1].get("X-Large")), size)

    def test_a_large_header_of_the_backend(self):
        fields = [(f"X-{number}", "y" * 1000) for number in range(100)]
        gateway = self.gateway(self.backend(lambda _, to: to.reply(200, fields, b"z" * 50_000)))
        for key in ("k", "k", None):
            answer = gateway.ask(key=key)
            self.assertEqual((answer.status, len(answer.get("X-99")), len(answer.body)), (200, 1000, 50_000))


class Connections(EndToEnd):
    def test_one_connection_too_many_is_told_so(self):
        gate = self.gate()

        def handler(request, connection):
            if request.target == "/slow":
                gate.wait()
            connection.reply(201)

        backend = self.backend(handler)
        gateway = self.gateway(backend, "limits.max_connections=2")
        # At work: connections that idle would make room.
        first, second = self.connect(gateway), self.connect(gateway)
        for client in (first, second):
            client.send_request("GET", "/slow")
        wait_until(lambda: len(backend.requests) == 2)
        third = self.connect(gateway)
        response = third.ask("GET")
        self.assertEqual((response.status, response.code), (503, "too-many-connections"))
        self.assertEqual((response.get("Retry-After"), response.get("Connection")), ("1", "close"))
        self.assertTrue(third.closed())
        self.assertEqual(gateway.metrics()["once_connections_refused_total"], 1)
        gate.set()
        for client in (first, second):
            self.assertEqual(client.read_response("GET").status, 201)
        first.close()
        wait_until(lambda: gateway.metrics()["once_connections_open"] == 1)
        self.assertEqual(gateway.ask("GET").status, 201)

    def test_four_hundred_connections_come_and_go(self):
        gateway = self.gateway(self.backend())
        clients = [self.connect(gateway) for _ in range(400)]
        wait_until(lambda: gateway.metrics()["once_connections_open"] == 400)
        for number, client in enumerate(clients):
            client.send_request("POST", f"/{number}", key=f"k{number}")
        self.assertEqual({client.read_response().status for client in clients}, {201})
        for client in clients:
            client.close()
        wait_until(lambda: gateway.metrics()["once_connections_open"] == 0)


if __name__ == "__main__":
    unittest.main()
