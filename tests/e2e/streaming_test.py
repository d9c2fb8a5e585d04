"""Requests without a key stream in both directions as they come: uploads, events, long polls, upgrades, failures."""
import contextlib
import hashlib
import socket
import threading
import unittest

from harness import EndToEnd, bounded_quarantine
from wire import DEADLINE, request_bytes, wait_until

EVENT_STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"


def chunk(data):
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


class Uploads(EndToEnd):
    SIZE = 20 * 1024 * 1024
    HELD = SIZE // 2  # far more than is needed
    PIECE = bytes(range(256)) * 256  # 64 KiB

    def send_in_background(self, client, head, pieces):
        """The thread, and a list with what has been sent so far."""
        sent = [0]

        def run():
            with contextlib.suppress(OSError):
                client.send(head)
                for piece in pieces:
                    client.send(piece)
                    sent[0] += len(piece)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread, sent

    def test_a_large_upload_streams_while_the_backend_reads_slowly(self):
        for framing in ("Content-Length", "Transfer-Encoding"):
            with self.subTest(framing):
                self.upload_slowly(framing)

    def upload_slowly(self, framing):
        go = self.gate()

        def handler(_, connection):
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 262144)
            go.wait()
            connection.read_body()
            connection.reply(200, body=hashlib.sha256(connection.request.body).hexdigest().encode())

        backend = self.backend(handler, read_body=False)
        gateway = self.gateway(backend, env=bounded_quarantine(megabytes=1))
        client = self.connect(gateway)
        count = self.SIZE // len(self.PIECE)
        chunked = framing == "Transfer-Encoding"

        def upload(count):
            fields = [(framing, "chunked" if chunked else count * len(self.PIECE))]
            pieces = [chunk(self.PIECE) if chunked else self.PIECE] * count + ([b"0\r\n\r\n"] if chunked else [])
            return self.send_in_background(client, request_bytes("PUT", "/file", fields), pieces)

        # The first upload brings in the code that it runs through, which is memory too.
        go.set()
        upload(1)
        self.assertEqual(client.read_response().status, 200)
        go.clear()
        before = gateway.resident_bytes()
        sending, sent = upload(count)
        # It comes to rest when the kernel's buffers are full, far from the end.
        wait_until(lambda: len(backend.requests) == 2)
        seen = -1
        while seen != sent[0]:
            seen = sent[0]
            sending.join(0.3)
        self.assertTrue(sending.is_alive(), "the whole upload was taken though the backend reads nothing")
        grown = gateway.resident_bytes() - before
        self.assertLess(grown, self.HELD)
        go.set()
        response = client.read_response()
        self.assertEqual(response.body.decode(), hashlib.sha256(self.PIECE * count).hexdigest())
        self.assertLess(gateway.resident_bytes() - before, self.HELD)
        self.assertEqual(client.ask("PUT", "/file", body=b"again").status, 200)

    def test_parts_of_an_upload_go_on_as_they_come(self):
        parts = []

        def handler(_, connection):
            for _ in range(3):
                parts.append(connection.stream.read_until(b"\r\n") + connection.stream.read_until(b"\r\n"))
            connection.stream.read_until(b"0\r\n\r\n")
            connection.reply(200)

        client = self.connect(self.gateway(self.backend(handler, read_body=False)))
        client.send(request_bytes("POST", "/", [("Transfer-Encoding", "chunked")]))
        for number in range(3):
            client.send(chunk(b"part %d" % number))
            wait_until(lambda number=number: len(parts) == number + 1)
        client.send(b"0\r\n\r\n")
        self.assertEqual(client.read_response().status, 200)
        self.assertEqual(parts[2], b"6\r\npart 2\r\n")

    def test_a_backend_that_refuses_before_it_has_read_everything(self):
        def handler(_, connection):
            connection.reply(413, [("Connection", "close")], b"too much")
            connection.close()

        gateway = self.gateway(self.backend(handler, read_body=False))
        client = self.connect(gateway)
        pieces = [self.PIECE] * (self.SIZE // len(self.PIECE))
        self.send_in_background(client, request_bytes("POST", "/", [("Content-Length", self.SIZE)]), pieces)
        response = client.read_response()
        self.assertEqual((response.status, response.body), (413, b"too much"))
        self.assertTrue(client.closed())


class Downloads(EndToEnd):
    def test_each_event_arrives_when_it_is_sent(self):
        for framing in (b"Transfer-Encoding: chunked\r\n", b""):
            with self.subTest(framing):
                step = threading.Semaphore(0)

                def handler(_, connection, framing=framing, step=step):
                    connection.send(EVENT_STREAM + framing + b"\r\n")
                    for number in range(3):
                        step.acquire(timeout=DEADLINE)
                        event = b"data: %d\n\n" % number
                        connection.send(chunk(event) if framing else event)
                    connection.send(b"0\r\n\r\n" if framing else b"")
                    connection.close()

                client = self.connect(self.gateway(self.backend(handler)))
                client.send_request("GET", "/events")
                head = client.read_head()
                self.assertIn(("Content-Type", "text/event-stream"), head[1])
                for number in range(3):
                    step.release()
                    event = b"data: %d\n\n" % number
                    self.assertEqual(client.read_until(b"\n\n\r\n"), chunk(event))
                self.assertEqual(client.read(5), b"0\r\n\r\n")

    def leaves(self, send, leave):
        """True when the backend's connection ended while it had nothing to send."""
        ended = threading.Event()

        def handler(_, connection):
            connection.send(EVENT_STREAM + b"Transfer-Encoding: chunked\r\n\r\n" + chunk(b"data: 0\n\n"))
            with contextlib.suppress(EOFError, OSError):
                connection.stream.fill()
            ended.set()
            connection.close()

        backend = self.backend(handler)
        client = self.gateway(backend).connect()
        send(client, backend)
        client.read_until(b"data: 0\n\n\r\n")
        leave(client)
        return ended.wait(DEADLINE)

    def test_a_client_that_leaves_its_events_frees_the_backend(self):
        def get(client, _):
            client.send_request("GET", "/events")

        def post(client, _):
            client.send_request("POST", "/events", body=b"{}")

        def post_in_parts(client, backend):
            client.send_request("POST", "/events", [("Content-Length", "5")])
            wait_until(lambda: backend.requests)
            client.send(b"hello")

        for send in (get, post, post_in_parts):
            for leave in (lambda client: client.close(), lambda client: client.reset()):
                with self.subTest(send.__name__):
                    self.assertTrue(self.leaves(send, leave), "the backend still waits for a client that left")

    def test_a_client_that_leaves_before_its_events_begin(self):
        go, ended = self.gate(), threading.Event()

        def handler(_, connection):
            go.wait()
            connection.send(EVENT_STREAM + b"Transfer-Encoding: chunked\r\n\r\n")
            with contextlib.suppress(EOFError, OSError):
                connection.stream.fill()
            ended.set()
            connection.close()

        backend = self.backend(handler)
        gateway = self.gateway(backend)
        client = gateway.connect()
        client.send_request("GET", "/events")
        wait_until(lambda: backend.requests)
        client.close()
        go.set()
        self.assertTrue(ended.wait(DEADLINE))

    def test_a_long_poll_may_be_as_silent_as_stream_idle_says(self):
        def handler(_, connection):
            self.gate().wait(0.6)
            connection.reply(200, body=b"at last")

        gateway = self.gateway(self.backend(handler), "defaults.timeouts.response=100ms",
                               "defaults.timeouts.stream_idle=1m")
        self.assertEqual(gateway.ask("GET", "/poll").body, b"at last")


class Failures(EndToEnd):
    def assert_problem(self, answer, status, code):
        self.assertEqual((answer.status, answer.code), (status, code))
        self.assertIsNotNone(answer.get("X-Request-Id"))
        self.assertIsNone(answer.get("Idempotency-Status"))

    def test_a_backend_that_cannot_be_reached(self):
        backend = self.backend()
        gateway = self.gateway(backend)
        backend.stop_listening()
        for method in ("GET", "POST"):
            self.assert_problem(gateway.ask(method), 502, "bad-gateway")

    def test_a_backend_that_is_gone_or_talks_nonsense(self):
        def sends(raw):
            def handler(_, connection):
                connection.send(raw)
                connection.close()
            return handler

        backend = self.backend()
        gateway = self.gateway(backend)
        for raw in (b"", b"HTTP/1.1 200", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
                    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"):
            with self.subTest(raw):
                backend.handler = sends(raw)
                self.assert_problem(gateway.ask("POST"), 502, "backend-lost")

    def test_a_backend_that_does_not_answer(self):
        go = self.gate()
        gateway = self.gateway(self.backend(lambda *_: go.wait()), "defaults.timeouts.stream_idle=100ms",
                               "defaults.timeouts.response=100ms")
        client = self.connect(gateway)
        self.assert_problem(client.ask("GET"), 504, "gateway-timeout")

    def test_a_backend_that_falls_silent_in_the_middle(self):
        go = self.gate()

        def handler(_, connection):
            connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
            go.wait()

        clock = self.clock()
        gateway = self.gateway(self.backend(handler), "defaults.timeouts.stream_idle=10m", clock=clock)
        client = self.connect(gateway)
        client.send_request("GET")
        client.read_until(b"half")
        clock.advance_until(lambda: gateway.metrics()["once_connections_open"] == 0, seconds=601)
        with self.assertRaises(ConnectionResetError):
            client.fill()

    def test_only_a_safe_request_is_sent_again_when_a_kept_connection_turns_out_dead(self):
        served = set()

        def handler(request, connection):
            if connection in served:  # the second request on a connection
                connection.close()
                return
            served.add(connection)
            connection.reply(200, body=request.method.encode())

        for method, status, times in (("GET", 200, 2), ("POST", 502, 1)):
            with self.subTest(method):
                backend = self.backend(handler)
                client = self.connect(self.gateway(backend, "pool.idle_max=5m"))
                self.assertEqual(client.ask("GET", "/first").status, 200)
                answer = client.ask(method, "/second")
                self.assertEqual(answer.status, status)
                self.assertEqual([request.target for request in backend.requests].count("/second"), times)


class Interim(EndToEnd):
    """Responses 1xx. A few are passed on; a backend that sends nothing else is lost, and costs nobody else anything."""

    ENDLESS = b"HTTP/1.1 102 Processing\r\n\r\n" * 1000

    def test_a_backend_that_sends_interim_responses_without_end(self):
        def handler(request, connection):
            while request.target == "/endless":
                connection.send(self.ENDLESS)
            connection.reply(200, body=b"alive")

        gateway = self.gateway(self.backend(handler), "threads=1")
        for version in ("HTTP/1.0", "HTTP/1.1"):
            for key, codes in (("k" + version[-1], {"outcome-unknown"}), (None, {"backend-lost"})):
                with self.subTest(version, key=key):
                    client = self.connect(gateway)
                    client.send_request("POST", "/endless", key=key, body=b"", version=version)
                    self.assertEqual(gateway.ask("GET", "/other").body, b"alive")
                    self.assertIn(client.read_response().code, codes)

    def test_a_slow_operation_may_send_many(self):
        count = 200

        def handler(_, connection):
            for _ in range(count):
                connection.send(b"HTTP/1.1 102 Processing\r\n\r\n")
            connection.reply(200)

        client = self.connect(self.gateway(self.backend(handler), "pool.idle_max=2m"))
        for number in range(3):  # counted for each request, not for the connection
            for key in (f"k{number}", None):
                response = client.ask("POST", "/", key=key)
                self.assertEqual((response.status, len(response.interim)), (200, count))


class Upgrades(EndToEnd):
    HANDSHAKE = [("Connection", "keep-alive, Upgrade"), ("Upgrade", "websocket"),
                 ("Sec-WebSocket-Key", "x3JJHMbDL1EzLkh9GBhXDw==")]
    SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"

    def test_only_protocols_that_are_allowed_go_on(self):
        offered = {"websocket": "websocket", "WebSocket/13": "WebSocket/13", "echo": None, "TLS/1.0": None,
                   "HTTP/2.0": None, "echo, websocket": "websocket", "x-websocket": None, "": None}
        backend = self.backend()
        gateway = self.gateway(backend)
        for value, forwarded in offered.items():
            with self.subTest(value):
                with gateway.connect() as client:
                    answer = client.ask("GET", "/", [("Connection", "upgrade"), ("Upgrade", value)])
                self.assertEqual(answer.status, 201)
                self.assertEqual(backend.requests[-1].get("Upgrade"), forwarded)
        with self.gateway(backend, "upgrades=[echo]").connect() as client:
            client.ask("GET", "/", [("Connection", "upgrade"), ("Upgrade", "websocket, echo")])
        self.assertEqual(backend.requests[-1].get("Upgrade"), "echo")

    def test_a_backend_switches_only_to_what_it_was_offered(self):
        for to in (b"Upgrade: h2c\r\n", b"Upgrade: websocket, h2c\r\n", b""):
            with self.subTest(to):
                def handler(_, connection, to=to):
                    connection.send(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n" + to + b"\r\n")

                client = self.connect(self.gateway(self.backend(handler)))
                self.assertEqual(client.ask("GET", "/", self.HANDSHAKE).status, 502)

    def test_an_upgraded_connection_is_a_tunnel_until_both_sides_have_ended(self):
        heard = []

        def handler(request, connection):
            connection.send(self.SWITCH + b"Sec-WebSocket-Accept: s3p\r\n\r\nhello from the backend")
            heard.append(connection.stream.read(18))
            connection.send(b"\x81\x02ok")
            heard.append(connection.stream.read_to_end())  # the client has closed its side …
            connection.send(b"last words")  # … and is served on
            connection.close()

        backend = self.backend(handler)
        client = self.connect(self.gateway(backend))
        client.send_request("GET", "/socket", self.HANDSHAKE)
        response = client.read_response()
        self.assertEqual((response.status, response.get("Upgrade")), (101, "websocket"))
        self.assertEqual(response.get("Connection").lower(), "upgrade")
        self.assertEqual(response.get("Sec-WebSocket-Accept"), "s3p")
        request = backend.requests[0]
        self.assertEqual((request.get("Upgrade"), request.get("Connection").lower()), ("websocket", "upgrade"))
        self.assertEqual(request.get("Sec-WebSocket-Key"), "x3JJHMbDL1EzLkh9GBhXDw==")
        self.assertEqual(client.read(22), b"hello from the backend")
        client.send(b"hello from a client")
        self.assertEqual(client.read(4), b"\x81\x02ok")
        client.sock.shutdown(socket.SHUT_WR)
        self.assertEqual(client.read_to_end(), b"last words")
        self.assertEqual(heard, [b"hello from a clien", b"t"])

    def test_a_backend_that_closes_its_side_still_hears_the_client(self):
        heard = []

        def handler(_, connection):
            connection.send(self.SWITCH + b"\r\n")
            connection.sock.shutdown(socket.SHUT_WR)
            heard.append(connection.stream.read_to_end())
            connection.close()

        client = self.connect(self.gateway(self.backend(handler)))
        client.send(request_bytes("GET", "/socket", self.HANDSHAKE) + b"early ")
        client.read_response()
        self.assertEqual(client.read_to_end(), b"")
        client.send(b"and late")
        client.close()
        wait_until(lambda: heard)
        self.assertEqual(heard, [b"early and late"])

    def test_a_large_answer_to_an_upgrade(self):
        padding = b"X-Padding: " + b"p" * (8192 - len(self.SWITCH) - 15) + b"\r\n\r\n"
        self.assertEqual(len(self.SWITCH + padding), 8192)

        def handler(_, connection):
            connection.send(self.SWITCH + padding)
            connection.send(connection.stream.read(5))
            connection.close()

        client = self.connect(self.gateway(self.backend(handler)))
        client.send_request("GET", "/socket", self.HANDSHAKE)
        self.assertEqual(client.read_response().status, 101)
        client.send(b"hello")
        self.assertEqual(client.read(5), b"hello")

    def test_a_backend_may_decline(self):
        client = self.connect(self.gateway(self.backend(lambda _, to: to.reply(200, body=b"plain"))))
        self.assertEqual(client.ask("GET", "/socket", self.HANDSHAKE).body, b"plain")
        self.assertEqual(client.ask("GET", "/next").body, b"plain")

    def test_an_upgrade_with_a_body_is_an_ordinary_request(self):
        """The body would end up in the tunnel. A server may ignore Upgrade, so the request goes on without it."""
        backend = self.backend(lambda request, to: to.reply(200, body=request.body))
        gateway = self.gateway(backend)
        bodies = (([("Content-Length", 5)], b"hello"), ([("Transfer-Encoding", "chunked")], b"5\r\nhello\r\n0\r\n\r\n"))
        for fields, body in bodies:
            with self.subTest(fields):
                client = self.connect(gateway)
                client.send_request("POST", "/socket", [*self.HANDSHAKE, *fields])
                client.send(body)
                self.assertEqual(client.read_response().body, b"hello")
                self.assertEqual(client.ask("GET", "/next").status, 200)
        self.assertEqual([request.get("Upgrade") for request in backend.requests], [None] * 4)

    def test_a_backend_that_switches_protocols_while_the_body_is_held_back(self):
        def handler(request, connection):
            if request.method == "GET":
                connection.reply(200, body=b"alive")
                return
            connection.send(self.SWITCH + b"\r\nfor the tunnel")
            with contextlib.suppress(EOFError, OSError):
                connection.stream.read_to_end()
            connection.close()

        gateway = self.gateway(self.backend(handler, read_body=False))
        for fields in ([("Content-Length", 5)], [("Transfer-Encoding", "chunked")]):
            for handshake in (self.HANDSHAKE, []):
                with self.subTest(fields, asked=bool(handshake)):
                    client = self.connect(gateway)
                    response = client.ask("POST", "/socket", [*handshake, *fields])
                    self.assertEqual((response.status, response.code), (502, "backend-lost"))
                    self.assertEqual(gateway.ask("GET", "/next").body, b"alive")
        self.assertEqual(gateway.metrics()["once_connection_faults_total"], 0)

    def test_an_upgrade_with_an_empty_body_is_an_upgrade(self):
        def handler(_, connection):
            connection.send(self.SWITCH + b"\r\n")
            connection.send(connection.stream.read(5))
            connection.close()

        client = self.connect(self.gateway(self.backend(handler)))
        client.send_request("POST", "/socket", [*self.HANDSHAKE, ("Content-Length", 0)])
        self.assertEqual(client.read_response().status, 101)
        client.send(b"hello")
        self.assertEqual(client.read(5), b"hello")

    def test_a_client_that_resets_its_tunnel_frees_the_backend(self):
        ended = threading.Event()

        def handler(_, connection):
            connection.send(self.SWITCH + b"\r\n")
            with contextlib.suppress(EOFError, OSError):
                connection.stream.fill()
            ended.set()
            connection.close()

        client = self.gateway(self.backend(handler)).connect()
        client.send_request("GET", "/socket", self.HANDSHAKE)
        client.read_response()
        client.reset()
        self.assertTrue(ended.wait(DEADLINE))


if __name__ == "__main__":
    unittest.main()
