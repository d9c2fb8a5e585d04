"""`once send` and the real gateway: whatever gets lost on the way, every operation happens once.

The backend keeps a ledger: an effect is a line in it. Tests count lines, not answers.
"""
import contextlib
import re
import signal
import subprocess
import threading
import unittest

from harness import run_once
from outcomes_test import Script, answers
from sending import Send
from tls import Authority
from wire import DEADLINE

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


class Ledger:
    """Handlers that book the body of a request, once per call, and what a test wants to know of it."""

    def __init__(self):
        self.lines = []
        self._lock = threading.Lock()

    def book(self, request):
        with self._lock:
            self.lines.append(request.body)

    def books(self, request, connection):
        self.book(request)
        connection.reply(201, [("Content-Type", "text/plain")], b"booked " + request.body)

    def books_and_drops(self, request, connection):
        self.book(request)
        connection.reset()


def drops(_, connection):
    connection.reset()


class BehindTheGateway(Send):
    def setUp(self):
        super().setUp()
        self.ledger = Ledger()

    def world(self, *steps, settings=()):
        backend = self.backend(Script(*steps))
        return backend, self.gateway(backend, *settings)

    def test_a_refusal_and_a_busy_backend_are_retried_and_it_happens_once(self):
        backend, gateway = self.world(answers(503, [("Retry-After", "1")]), answers(502), answers(429),
                                      self.ledger.books)
        done = self.send(gateway.port)
        self.assert_code(done, 0)
        self.assertEqual(done.stdout, b"booked x")
        self.assertEqual(self.tries(done), ["unavailable", "bad-gateway", "too-many-requests", "success"])
        self.assertEqual(self.ledger.lines, [b"x"])
        self.assertEqual(len(set(self.keys(backend))), 1)
        self.assertTrue(UUID.fullmatch(self.keys(backend)[0]), self.keys(backend))
        self.assertEqual({request.body for request in backend.requests}, {b"x"})

    def test_a_drop_after_the_effect_on_hold_is_reported_as_unknown_and_never_done_twice(self):
        _, gateway = self.world(self.ledger.books_and_drops, self.ledger.books)
        for _ in range(2):
            done = self.send(gateway.port, "--key", "held")
            self.assert_code(done, 7)
            self.assertIn(b"the outcome is unknown, and retries get the same response until", done.stderr)
            self.assertIn(b"--key held", done.stderr)
        self.assertEqual(self.ledger.lines, [b"x"])

    def test_a_try_that_times_out_waits_for_itself_and_gets_the_replay(self):
        go = self.gate()
        began = threading.Event()

        def slow(request, connection):
            began.set()
            go.wait(DEADLINE)
            self.ledger.books(request, connection)

        backend, gateway = self.world(slow)
        process = self.start(gateway.port, "--timeout", "300ms", "--retries", "100")
        self.assertTrue(began.wait(DEADLINE))
        told = b""
        while told.count(b"timed-out") < 2:  # the second one while it waited for the first
            line = process.stderr.readline()
            self.assertTrue(line, f"it ended before it met itself: {told.decode()}")
            told += line
        go.set()
        stdout, stderr = process.communicate(timeout=2 * DEADLINE)
        self.assertEqual(process.returncode, 0, stderr.decode())
        self.assertEqual(stdout, b"booked x")
        self.assertIn(b"replayed", stderr.splitlines()[-1])
        self.assertEqual((self.ledger.lines, len(backend.requests)), ([b"x"], 1))

    def test_a_killed_client_goes_on_with_the_key_in_its_file(self):
        go = self.gate()
        began = threading.Event()

        def slow(request, connection):
            began.set()
            go.wait(DEADLINE)
            self.ledger.books(request, connection)

        backend, gateway = self.world(slow)
        file = self.folder() / "op.key"
        process = self.start(gateway.port, "--key-file", str(file))
        self.assertTrue(began.wait(DEADLINE))
        process.send_signal(signal.SIGKILL)
        process.wait(DEADLINE)
        self.assertIn("state pending", file.read_text())
        go.set()
        done = self.send(gateway.port, "--key-file", str(file), "--retries", "100")
        self.assert_code(done, 0)
        self.assertIn(b"(resumed)", done.stderr)
        self.assertIn(b"replayed", done.stderr)
        self.assertEqual((self.ledger.lines, len(backend.requests)), ([b"x"], 1))
        self.assertIn("state done", file.read_text())
        self.assertIn(self.keys(backend)[0], file.read_text())
        again = self.send(gateway.port, "--key-file", str(file))
        self.assertEqual((again.returncode, again.stdout, self.ledger.lines), (0, b"booked x", [b"x"]))

    def test_a_client_killed_at_any_moment_again_and_again_does_it_once(self):
        backend, gateway = self.world(self.ledger.books)
        for moment in range(6):
            with self.subTest(moment=moment):
                file = self.folder() / "op.key"
                data = f"op-{moment}"
                process = self.start(gateway.port, "--key-file", str(file), data=data)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(moment * 0.08)
                process.kill()
                process.wait()
                done = self.send(gateway.port, "--key-file", str(file), "--retries", "100", data=data)
                self.assert_code(done, 0)
                self.assertEqual(self.ledger.lines.count(data.encode()), 1)

    def test_through_tls_to_a_gateway_whose_certificate_is_trusted(self):
        authority = Authority(self.folder())
        certificate, key = authority.issue("server", "DNS:localhost")
        _, gateway = self.world(self.ledger.books, settings=[
            "tls.listen=127.0.0.1:0", f"tls.certificates=[{certificate}]", f"tls.keys=[{key}]"])
        url = f"https://localhost:{gateway.tls_port}/pay"
        done = run_once("send", "POST", url, "-d", "x", "--cacert", authority.file)
        self.assertEqual((done.returncode, done.stdout), (0, "booked x"), done.stderr)
        self.assertNotIn("warning", done.stderr)
        for other in ((url,), (url.replace("localhost", "127.0.0.1"), "--cacert", authority.file)):  # nobody vouches for it, or its name
            done = run_once("send", "POST", *other, "-d", "x")
            self.assertEqual((done.returncode, "not-trusted" in done.stderr), (6, True), done.stderr)
        self.assertEqual(self.ledger.lines, [b"x"])


if __name__ == "__main__":
    unittest.main()
