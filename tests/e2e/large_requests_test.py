"""Keyed requests of any size in constant memory: they go to disk, and a retry is compared with them."""
import hashlib
import pathlib
import shutil
import subprocess
import threading
import unittest

import large_bodies
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

    def test_another_body_is_a_mismatch(self):
        self.start(*SMALL)
        self.assertEqual(self.outcome(2 * MIB), (201, "executed"))
        self.assertEqual(self.outcome(2 * MIB, last=b"!"), (422, "mismatch"))
        self.assertEqual(self.outcome(MIB), (422, "mismatch"))
        self.assertEqual(self.outcome(2 * MIB), (201, "replayed"))

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

    def test_two_at_once_are_one_execution(self):
        self.start(*SMALL, "threads=2")
        outcomes = []
        senders = [threading.Thread(target=lambda: outcomes.append(self.outcome(8 * MIB))) for _ in range(4)]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()
        self.assertEqual(sorted(outcomes), [(201, "executed")] + [(201, "replayed")] * 3)
        self.assertEqual(len(self.server.requests), 1)

    def test_a_form_with_another_boundary(self):
        self.start(*SMALL, "defaults.fingerprint.body=json")

        def form(boundary, content):
            body = b"--%b\r\nContent-Disposition: form-data; name=f\r\n\r\n%b\r\n--%b--\r\n" % (boundary, content, boundary)
            fields = [("Content-Type", f"multipart/form-data; boundary={boundary.decode()}")]
            return self.once.ask("POST", "/files", fields, body, "k").get("Idempotency-Status")

        self.assertEqual(form(b"one", PIECE), "executed")
        self.assertEqual(form(b"another", PIECE), "replayed")
        self.assertEqual(form(b"third", PIECE[1:]), "mismatch")

    def test_a_full_spool(self):
        self.start(*SMALL, "limits.max_spool=3MiB")
        answer = self.upload(4 * MIB)
        self.assertEqual((answer.status, answer.code, answer.get("Retry-After")), (503, "overloaded", "1"))
        client = self.connect(self.once)
        client.send(request_bytes("POST", "/files", [("Content-Length", 3 * MIB)], key="other") + PIECE * 2)
        wait_until(lambda: self.once.metrics()["once_spool_bytes"] > MIB)
        self.assertEqual(self.upload(2 * MIB).status, 503)
        self.assertEqual(self.once.metrics()['once_overloaded_total{limit="spool"}'], 2)
        client.close()
        wait_until(lambda: self.once.metrics()["once_spool_bytes"] == 0)
        self.assertEqual(self.outcome(2 * MIB), (201, "executed"))

    def test_a_spool_that_is_gone(self):
        self.start(*SMALL)
        self.spool.rmdir()
        answer = self.upload(MIB)
        self.assertEqual((answer.status, answer.code, answer.problem["retryable"]), (503, "overloaded", True))
        self.assertEqual(self.once.metrics()["once_spool_failures_total"], 1)
        self.spool.mkdir()
        self.assertEqual(self.outcome(MIB), (201, "executed"))

    def test_off_and_over_the_limit(self):
        self.start(*SMALL, "defaults.max_large_request=1MiB")
        self.assertEqual(self.upload(2 * MIB).code, "body-too-large")
        self.assertEqual(self.outcome(MIB), (201, "executed"))

    def test_a_backend_that_answers_as_it_reads(self):
        self.server.handler = large_bodies.echo_as_it_reads
        self.start("defaults.record.max_body=32MiB", "defaults.timeouts.response=10s")
        # In memory and on disk.
        for size in (6 * MIB, 20 * MIB):
            for status in ("executed", "replayed"):
                answer = self.upload(size, key=f"k{size}")
                self.assertEqual((answer.status, answer.get("Idempotency-Status")), (200, status))
                self.assertTrue(answer.body == PIECE * (size // MIB))
        self.assertEqual(len(self.server.executions()), 2)
        wait_until(lambda: self.once.metrics()["once_spool_bytes"] == 0)

    def test_a_refusal_before_the_body_was_read(self):
        """The gateway would notice after timeouts.response that nobody reads on, if it did not read the answer."""
        over = threading.Event()
        self.addCleanup(over.set)

        def closes(_, connection):
            connection.reply(413, body=b"too large")
            connection.close()

        def reads_on(request, connection):
            connection.reply(401, body=b"who are you?")
            connection.read_body()

        def reads_no_more(_, connection):
            connection.reply(413, body=b"too large")
            over.wait(DEADLINE)

        self.start(*SMALL, "defaults.timeouts.response=10m")
        for handler, status in ((closes, 413), (reads_on, 401), (reads_no_more, 413)):
            with self.subTest(handler.__name__):
                self.server.handler = handler
                size = 20 * MIB
                self.assertEqual(self.upload(size, key=handler.__name__).status, status)
                wait_until(lambda: self.once.metrics()["once_spool_bytes"] == 0)
        self.assertEqual(self.server.executions(), [])
        # Half a request is on each of these connections: none is used again.
        self.server.handler = take
        self.assertEqual(self.outcome(MIB, key="next"), (201, "executed"))
        self.assertEqual(len(self.server.streams), 4)

    def test_a_success_before_the_body_was_read(self):
        """What the backend does with the body may still matter."""
        def answers_first(request, connection):
            connection.reply(202)
            connection.read_body()

        self.server.handler = answers_first
        self.start(*SMALL)
        self.assertEqual(self.outcome(20 * MIB), (202, "executed"))
        wait_until(lambda: len(self.server.executions()) == 1)
        self.assertTrue(self.server.requests[0].body == PIECE * 20)

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
