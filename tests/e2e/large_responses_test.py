"""Large responses under a key: recorded as they come and replayed in constant memory."""
import hashlib
import os
import secrets
import unittest

from harness import STORE, EndToEnd, bounded_quarantine

MIB = 1 << 20
SERVER = bool(STORE) and "://" in STORE
BLOCKS = 20 if SERVER else 200
BLOCK = os.urandom(MIB)
SIZE = BLOCKS * MIB
# Memory for bodies is a fraction of one response, and keys are looked up by their caller.
SETTINGS = ("defaults.record.max_body=512MiB", "limits.max_body_memory=8MiB", "memory.max_bytes=16GiB")
CALLER = ("Authorization", "Bearer me")
ALLOWED = 80 * MIB  # what the process may grow by, sanitizer included


def digest(blocks):
    whole = hashlib.sha256()
    for block in blocks:
        whole.update(block)
    return whole.hexdigest()


def large(_, connection):
    connection.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: %d\r\n\r\n" % SIZE)
    for _ in range(BLOCKS):
        connection.send(BLOCK)


class LargeResponses(EndToEnd):
    def start(self, handler, *settings):
        backend = self.backend(handler)
        environment = {**bounded_quarantine(1), "ONCE_SECRET": secrets.token_hex(16)}
        return backend, self.gateway(backend, *SETTINGS, *settings, env=environment)

    def read(self, gateway, *fields, method="POST", body=b"{}"):
        """The head, and the digest of the body."""
        client = self.connect(gateway)
        client.send_request(method, "/reports", [CALLER, ("Idempotency-Key", "k"), *fields], body)
        first, named, _ = client.read_head()
        head = {name.lower(): value for name, value in named}
        head["status"] = int(first.split()[1])
        whole, left = hashlib.sha256(), 0 if method == "HEAD" else int(head["content-length"])
        while left > 0:
            part = client.read(min(left, MIB))
            whole.update(part)
            left -= len(part)
        client.close()
        return head, whole.hexdigest()

    def test_it_is_recorded_and_replayed_in_constant_memory(self):
        backend, gateway = self.start(large)
        before = gateway.resident_bytes()
        allowed = ALLOWED + (SIZE * 5 // 4 if STORE == "memory:" else 0)  # the store itself
        whole = digest([BLOCK] * BLOCKS)
        for status in ("executed", "replayed"):
            head, got = self.read(gateway)
            self.assertEqual((head["status"], head["idempotency-status"]), (200, status))
            self.assertEqual((int(head["content-length"]), got), (SIZE, whole))
            self.assertLess(gateway.resident_bytes() - before, allowed)
        self.assertEqual(len(backend.requests), 1)
        # The rest of it, and its head alone.
        offset = SIZE - 3 * MIB - 12345
        head, got = self.read(gateway, ("Idempotency-Offset", offset))
        self.assertEqual((int(head["content-length"]), head["idempotency-offset"]), (SIZE - offset, str(offset)))
        self.assertEqual(got, digest([BLOCK[MIB - 12345:], BLOCK, BLOCK, BLOCK]))
        head, _ = self.read(gateway, ("Idempotency-Lookup", "POST"), method="HEAD", body=None)
        self.assertEqual((head["status"], int(head["content-length"])), (200, SIZE))
        self.assertEqual(len(backend.requests), 1)

    def test_one_without_a_length_is_recorded_too(self):
        count = 5

        def chunked(_, connection):
            connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            for _ in range(count):
                connection.send(b"%x\r\n" % MIB + BLOCK + b"\r\n")
            connection.send(b"0\r\n\r\n")

        backend, gateway = self.start(chunked)
        first = gateway.ask("POST", "/reports", [CALLER, ("Idempotency-Key", "k")], b"{}")
        self.assertEqual((first.status, first.body == BLOCK * count), (200, True))
        head, got = self.read(gateway)
        self.assertEqual((head["idempotency-status"], int(head["content-length"])), ("replayed", count * MIB))
        self.assertEqual(got, digest([BLOCK] * count))
        self.assertEqual(len(backend.requests), 1)

    def test_one_that_breaks_off_is_unknown_and_keeps_what_came(self):
        def half(_, connection):
            connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (8 * MIB) + BLOCK * 3)
            connection.close()

        backend, gateway = self.start(half)
        for status in (b"executed", b"unknown"):
            client = self.connect(gateway)
            client.send_request("POST", "/reports", [CALLER, ("Idempotency-Key", "k")], b"{}")
            head = client.read_until(b"\r\n\r\n")
            self.assertIn(b"Idempotency-Status: " + status, head)
            with self.assertRaises((EOFError, ConnectionResetError)):
                client.read(8 * MIB)
            client.close()
        self.assertEqual(len(backend.requests), 1)


if __name__ == "__main__":
    unittest.main()
