"""Keyed requests of any size in constant memory: they go to disk, and a retry is compared with them."""
import hashlib
import pathlib
import shutil
import subprocess
import unittest

from harness import EndToEnd
from wire import DEADLINE, request_bytes, wait_until

MIB = 1 << 20
PIECE = bytes(range(256)) * 4096  # 1 MiB
SMALL = ("defaults.max_request_body=64KiB",)  # so that a megabyte is a large one
# Of the process, with its sanitizer: what it takes to start, and what one large request may add to that.
GROWTH = 64 * MIB
AUTHORIZATION = ("Authorization", "Bearer me")


def take(request, connection):
    """A backend that holds no body: it says how long it was, and its hash."""
    size = int(request.get("Content-Length"))
    digest = hashlib.sha256()
    left = size
    while left:
        part = connection.stream.take(min(left, MIB)) or connection.sock.recv(min(left, MIB))
        if not part:
            raise EOFError("the body ended early")
        digest.update(part)
        left -= len(part)
    request.complete = True
    connection.reply(201, body=f"{size} {digest.hexdigest()}".encode())


def said(size):
    digest = hashlib.sha256()
    for _ in range(size // MIB):
        digest.update(PIECE)
    return f"{size} {digest.hexdigest()}".encode()


class LargeRequests(EndToEnd):
    def setUp(self):
        super().setUp()
        self.server = self.backend(take, read_body=False)
        self.spool = self.folder() / "spool"
        self.spool.mkdir()

    def start(self, *settings):
        self.once = self.gateway(self.server, f"limits.spool_directory={self.spool}", *settings)
        return self.once

    def upload(self, size, key="k", last=b""):
        """A body of whole pieces, whose end may be another."""
        client = self.connect(self.once)
        client.send(request_bytes("POST", "/files", [AUTHORIZATION, ("Content-Length", size)], key=key))
        for _ in range(size // MIB - 1):
            client.send(PIECE)
        client.send(PIECE[:len(PIECE) - len(last)] + last)
        return client.read_response()

    def outcome(self, *args, **named):
        answer = self.upload(*args, **named)
        return answer.status, answer.get("Idempotency-Status")

    def high_water(self):
        text = pathlib.Path(f"/proc/{self.once.process.pid}/status").read_text()
        return next(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("VmHWM"))

    def test_memory_stays_flat(self):
        self.start()
        self.assertEqual(self.outcome(16 * MIB, key="first"), (201, "executed"))
        before = self.high_water()
        size = 208 * MIB
        answer = self.upload(size)
        self.assertEqual((answer.get("Idempotency-Status"), answer.body), ("executed", said(size)))
        again = self.upload(size)
        self.assertEqual((again.get("Idempotency-Status"), again.body), ("replayed", said(size)))
        self.assertLess(self.high_water() - before, GROWTH)
        self.assertEqual(len(self.server.requests), 2)
        metrics = self.once.metrics()
        self.assertEqual(metrics["once_spooled_requests_total"], 3)
        wait_until(lambda: self.once.metrics()["once_spool_bytes"] == 0)
        self.assertEqual(list(self.spool.iterdir()), [])

    def test_an_upload_that_breaks_off_leaves_nothing(self):
        self.start(*SMALL)
        client = self.connect(self.once)
        client.send(request_bytes("POST", "/files", [AUTHORIZATION, ("Content-Length", 4 * MIB)], key="k"))
        client.send(PIECE * 2)
        wait_until(lambda: self.once.metrics()["once_spool_bytes"] > MIB)
        self.assertEqual(list(self.spool.iterdir()), [])  # a crash would leave nothing
        client.close()
        wait_until(lambda: self.once.metrics()["once_spool_bytes"] == 0)
        self.assertEqual(self.server.requests, [])
        self.assertEqual(self.outcome(4 * MIB), (201, "executed"))

    @unittest.skipUnless(shutil.which("curl"), "there is no curl")
    def test_curl_waits_to_be_asked(self):
        """Whatever waits for 100 Continue is compared as any other body, and not sent if its length is another one."""
        self.start(*SMALL)
        body = self.folder() / "body"
        command = ["curl", "-sS", "-v", "--expect100-timeout", str(DEADLINE), "-H", "Expect: 100-continue",
                   "-H", "Idempotency-Key: k", "-H", ": ".join(AUTHORIZATION), "-H", "Content-Type: text/plain",
                   "--data-binary", f"@{body}", f"http://127.0.0.1:{self.once.port}/files"]
        other = bytes(len(PIECE))
        for content, status, asked in ((PIECE * 2, "executed", True), (PIECE * 2, "replayed", True),
                                       (PIECE + other, "mismatch", True), (PIECE * 3, "mismatch", False)):
            body.write_bytes(content)
            done = subprocess.run(command, capture_output=True, timeout=DEADLINE)
            self.assertEqual(done.returncode, 0, done.stderr)
            if status != "mismatch":
                self.assertEqual(done.stdout, said(2 * MIB))
            self.assertIn(f"Idempotency-Status: {status}".encode(), done.stderr)
            self.assertEqual(b"HTTP/1.1 100 Continue" in done.stderr, asked)
        self.assertEqual(self.once.metrics()["once_spooled_requests_total"], 3)


if __name__ == "__main__":
    unittest.main()
