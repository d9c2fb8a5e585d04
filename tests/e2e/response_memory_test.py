"""Clients that read their responses slowly: what they hold of the gateway's memory is shared, counted and limited."""
import secrets
import socket
import unittest

from harness import EndToEnd, bounded_quarantine, kept_part
from wire import DEADLINE, Client, Stream, wait_until

SIZE = 1_000_000
LARGE = b"x" * SIZE
READERS = 100
# Nobody is cut off for reading slowly: the memory alone is limited here.
PATIENT = ("timeouts.body_idle=1h", "limits.min_rate=0")


class SlowReader(Client):
    """Takes so little at a time that the kernel cannot hold the rest of a large response for it."""

    def __init__(self, gateway, key, address="127.0.0.1"):
        sock = socket.socket()
        sock.bind((address, 0))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.settimeout(DEADLINE)
        sock.connect(("127.0.0.1", gateway.port))
        Stream.__init__(self, sock)
        self.send_request(key=key, body=b"{}")


def sized(request, connection):
    """As large as the key says: "400000-a" """
    size = int(request.get("Idempotency-Key").split("-")[0])
    connection.reply(201, body=b"x" * size)


def chunked(request, connection):
    size = int(request.get("Idempotency-Key").split("-")[0])
    head = b"HTTP/1.1 201 Made\r\nTransfer-Encoding: chunked\r\n\r\n"
    connection.send(head + b"%x\r\n" % size + b"x" * size + b"\r\n0\r\n\r\n")


class ResponseMemory(EndToEnd):
    def measured(self, backend, *settings):
        """A gateway whose memory is told apart from what a sanitizer keeps."""
        environment = {**bounded_quarantine(1), "ONCE_SECRET": secrets.token_hex(16)}
        return self.gateway(backend, *PATIENT, *settings, env=environment)

    def readers(self, gateway, key, count=1, **named):
        """They have begun to read, and go on when the test says so."""
        readers = [SlowReader(gateway, key, **named) for _ in range(count)]
        for reader in readers:
            self.addCleanup(reader.close)
        return readers

    def begun(self, readers):
        for reader in readers:
            while len(reader.buffer) < 15:
                reader.fill()
            self.assertIn(bytes(reader.buffer[:15]), (b"HTTP/1.1 201 Fi", b"HTTP/1.1 201 Ma"))

    def held(self, gateway, what=None):
        return gateway.metrics()["once_body_bytes" if what is None else f'once_held_bytes{{what="{what}"}}']

    def full(self, backend):
        """A gateway with 2 MiB for bodies, nearly all of them held by readers of two replays. They make no room for others
        from here, whose address has more connections than theirs."""
        gateway = self.gateway(backend, *PATIENT, "limits.max_body_memory=2MiB", "timeouts.idle=1h", "threads=1")
        for _ in range(2):
            self.connect(gateway)
        readers = []
        for number, key in enumerate((f"{SIZE}-a", f"{SIZE}-b")):
            self.assertEqual(gateway.ask(key=key, body=b"{}").status, 201)
            readers += self.readers(gateway, key, address=f"127.0.0.{number + 11}")
        self.begun(readers)
        self.assertGreaterEqual(self.held(gateway, "replay"), 2 * SIZE)
        return gateway, readers

    def test_slow_readers_of_one_replay_share_its_bytes(self):
        backend = self.backend(sized)
        gateway = self.measured(backend, "limits.max_body_memory=8MiB")
        key = f"{SIZE}-a"
        first = gateway.ask(key=key, body=b"{}")
        for _ in range(20):  # what the process takes anyway
            gateway.ask(key=key, body=b"{}")
        before = gateway.resident_bytes()
        readers = self.readers(gateway, key, READERS)
        self.begun(readers)
        self.assertLess(gateway.resident_bytes() - before, READERS * SIZE / 2)
        self.assertGreaterEqual(self.held(gateway, "replay"), SIZE)
        self.assertLess(self.held(gateway), 1.1 * SIZE)
        self.assertEqual(kept_part(readers[0].read_response()), kept_part(first))
        for reader in readers:
            reader.close()
        wait_until(lambda: self.held(gateway) == 0)
        self.assertEqual(len(backend.executions()), 1)

    def test_an_answer_that_finds_no_memory_is_recorded_without_its_body(self):
        for name, handler in (("announced", sized), ("chunked", chunked)):
            with self.subTest(name):
                backend = self.backend(handler)
                gateway, readers = self.full(backend)
                # It went to the backend, so its client gets it; and it is never executed again.
                answer = gateway.ask(key=f"{SIZE}-c", body=b"{}")
                self.assertEqual((answer.status, answer.body, answer.get("Idempotency-Status")), (201, LARGE, "executed"))
                self.assertEqual(gateway.ask(key=f"{SIZE}-c", body=b"{}").code, "response-not-kept")
                self.assertEqual(gateway.metrics()["once_bodies_dropped_total"], 1)
                # A quarter more than the limit is kept for answers.
                kept = gateway.ask(key="300000-d", body=b"{}")
                small = gateway.ask(key="5-e", body=b"{}")
                for reader in readers:
                    reader.close()
                wait_until(lambda: self.held(gateway) == 0)
                self.assertEqual(kept_part(gateway.ask(key="300000-d", body=b"{}")), kept_part(kept))
                self.assertEqual(kept_part(gateway.ask(key="5-e", body=b"{}")), kept_part(small))
                self.assertEqual(len(backend.executions()), 5)
                gateway.stop()

    def test_clients_that_do_not_read_make_room_when_there_is_no_memory(self):
        backend = self.backend(sized)
        gateway = self.gateway(backend, *PATIENT, "limits.max_body_memory=2MiB", "threads=1")
        keys = [f"{SIZE}-a", f"{SIZE}-b"]
        for key in keys:
            self.assertEqual(gateway.ask(key=key, body=b"{}").status, 201)
        self.begun([self.readers(gateway, key, address=f"127.0.0.{number + 9}")[0] for number, key in enumerate(keys)])
        self.assertGreaterEqual(self.held(gateway, "replay"), 2 * SIZE)
        # What was executed waits a moment for them to be slow enough, and keeps its body.
        self.assertEqual(gateway.ask(key=f"{SIZE}-c", body=b"{}").status, 201)
        self.assertEqual(gateway.ask(key=f"{SIZE}-c", body=b"{}").get("Idempotency-Status"), "replayed")
        self.assertGreaterEqual(gateway.metrics()["once_connections_displaced_total"], 1)
        # A request or a replay is refused once, and finds room when it comes again.
        for _ in range(2):
            self.begun(self.readers(gateway, f"{SIZE}-a", address="127.0.0.9"))
            self.begun(self.readers(gateway, f"{SIZE}-b", address="127.0.0.10"))
            wait_until(lambda: gateway.ask(key=f"{SIZE}-c", body=b"{}").get("Idempotency-Status") == "replayed")
            wait_until(lambda: gateway.ask(key=f"5-{secrets.token_hex(4)}", body=b"x" * (SIZE // 2)).status == 201)
        self.assertEqual(gateway.metrics()["once_bodies_dropped_total"], 0)


if __name__ == "__main__":
    unittest.main()
