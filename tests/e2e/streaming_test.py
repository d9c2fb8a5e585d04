"""Requests without a key stream in both directions as they come: uploads, events, long polls, upgrades, failures."""
import contextlib
import hashlib
import socket
import threading
import unittest

from harness import EndToEnd, Sharing, bounded_quarantine
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


class Downloads(Sharing):
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


class Upgrades(Sharing):
    HANDSHAKE = [("Connection", "keep-alive, Upgrade"), ("Upgrade", "websocket"),
                 ("Sec-WebSocket-Key", "x3JJHMbDL1EzLkh9GBhXDw==")]
    SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"

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


if __name__ == "__main__":
    unittest.main()
