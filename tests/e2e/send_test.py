"""`once send` and the real gateway: whatever gets lost on the way, every operation happens once.

The backend keeps a ledger: an effect is a line in it. Tests count lines, not answers.
"""
import contextlib
import os
import pathlib
import re
import signal
import socket
import ssl
import subprocess
import threading
import unittest

from harness import CRASH_MARKS, EndToEnd
from outcomes_test import Script, answers
from wire import DEADLINE, wait_until

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


class Send(EndToEnd):
    def setUp(self):
        super().setUp()
        self.ledger = Ledger()

    def command(self, port, *arguments, path="/pay", data="x"):
        return [os.environ["ONCE_BINARY"], "send", "POST", f"http://127.0.0.1:{port}{path}", "-d", data, *arguments]

    def send(self, port, *arguments, **named):
        done = subprocess.run(self.command(port, *arguments, **named), capture_output=True, timeout=4 * DEADLINE,
                              stdin=subprocess.DEVNULL)
        self.assert_no_crash(done.stderr.decode())
        return done

    def start(self, port, *arguments, **named):
        process = subprocess.Popen(self.command(port, *arguments, **named), stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)

        def end():
            if process.poll() is None:
                process.kill()
            process.communicate()

        self.addCleanup(end)
        return process

    def assert_no_crash(self, stderr):
        self.assertFalse(any(mark in stderr for mark in CRASH_MARKS), stderr)

    def assert_code(self, done, code):
        self.assertEqual(done.returncode, code, done.stderr.decode())

    def keys(self, backend):
        return [request.get("Idempotency-Key") for request in backend.requests]

    def tries(self, done):
        return re.findall(r"^once: try \d+: (?:\d+ )?([\w-]+)", done.stderr.decode(), re.MULTILINE)


class BehindTheGateway(Send):
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

    def test_a_drop_before_the_effect_is_taken_over_and_happens_once(self):
        _, gateway = self.world(drops, self.ledger.books, settings=["defaults.takeover_after=1s"])
        done = self.send(gateway.port)
        self.assert_code(done, 0)
        self.assertEqual(self.ledger.lines, [b"x"])
        self.assertEqual(self.tries(done)[0], "bad-gateway")

    def test_a_drop_after_the_effect_on_hold_is_reported_as_unknown_and_never_done_twice(self):
        _, gateway = self.world(self.ledger.books_and_drops, self.ledger.books, settings=["defaults.on_unknown=hold"])
        for _ in range(2):
            done = self.send(gateway.port, "--key", "held")
            self.assert_code(done, 7)
            self.assertIn(b"it is not known whether it was done", done.stderr)
            self.assertIn(b"--key held", done.stderr)
        self.assertEqual(self.ledger.lines, [b"x"])

    def test_a_wait_past_the_deadline_is_given_up_at_once_with_the_key(self):
        _, gateway = self.world(self.ledger.books_and_drops)
        done = self.send(gateway.port)  # takeover asks for five minutes, the deadline is two
        self.assert_code(done, 7)
        self.assertEqual(self.tries(done), ["bad-gateway"])
        self.assertRegex(done.stderr.decode(), rf"the same command with --key {UUID.pattern}")
        self.assertEqual(self.ledger.lines, [b"x"])

    def test_a_try_that_times_out_meets_itself_in_flight_and_then_the_replay(self):
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
        while b"409 in-flight" not in told:
            line = process.stderr.readline()
            self.assertTrue(line, f"it ended before it met itself: {told.decode()}")
            told += line
        go.set()
        stdout, stderr = process.communicate(timeout=2 * DEADLINE)
        self.assertEqual(process.returncode, 0, stderr.decode())
        self.assertEqual(stdout, b"booked x")
        self.assertIn(b"timed-out", told)
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
        for moment in range(12):
            with self.subTest(moment=moment):
                file = self.folder() / "op.key"
                data = f"op-{moment}"
                process = self.start(gateway.port, "--key-file", str(file), data=data)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(moment * 0.04)
                process.kill()
                process.wait()
                done = self.send(gateway.port, "--key-file", str(file), "--retries", "100", data=data)
                self.assert_code(done, 0)
                self.assertEqual(self.ledger.lines.count(data.encode()), 1)

    def test_many_operations_through_a_bad_network_happen_once_each(self):
        faults = [answers(503, [("Retry-After", "1")]), answers(502), drops]
        counter = iter(range(10**6))

        def sometimes(request, connection):
            turn = next(counter)
            (faults[turn // 2 % 3] if turn % 2 == 0 else self.ledger.books)(request, connection)

        _, gateway = self.world(sometimes, settings=["defaults.takeover_after=1s"])
        names = [f"op-{number}" for number in range(8)]
        codes = {}

        def one(name):
            codes[name] = self.send(gateway.port, "--retries", "100", data=name).returncode

        threads = [threading.Thread(target=one, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(4 * DEADLINE)
        self.assertEqual(codes, dict.fromkeys(names, 0))
        self.assertEqual(sorted(self.ledger.lines), sorted(name.encode() for name in names))

    def test_the_bad_client_with_a_new_key_on_each_try_does_it_twice(self):
        """The contrast: the same gateway and the same lost answer, and a client that breaks the first rule."""
        _, gateway = self.world(self.ledger.books_and_drops, self.ledger.books)
        first = self.send(gateway.port, "--key", "try-1", "--retries", "0")
        self.assert_code(first, 7)
        self.assert_code(self.send(gateway.port, "--key", "try-2", "--retries", "0"), 0)
        self.assertEqual(self.ledger.lines, [b"x", b"x"])

    def test_another_body_under_the_same_key_is_refused(self):
        _, gateway = self.world(self.ledger.books)
        self.assert_code(self.send(gateway.port, "--key", "k"), 0)
        done = self.send(gateway.port, "--key", "k", data="y")
        self.assert_code(done, 4)
        self.assertEqual(self.tries(done), ["mismatch"])
        self.assertEqual(self.ledger.lines, [b"x"])


class OnTheWire(Send):
    """Without a gateway between: what the client itself does with a server's behaviour."""

    def world(self, *steps):
        return self.backend(Script(*steps))

    def test_lost_answers_are_retried_with_the_same_key_and_bytes(self):
        def cut(raw):
            def step(_, connection):
                connection.send(raw)
                connection.close()

            return step

        backend = self.world(drops, cut(b""), cut(b"HTTP/1.1 201 Created\r\nContent-Le"),
                             cut(b"HTTP/1.1 201 Created\r\nContent-Length: 10\r\n\r\nhalf"),
                             cut(b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel"), answers(201))
        done = self.send(backend.port, "--key", "k")
        self.assert_code(done, 0)
        self.assertEqual(self.tries(done), ["lost-after-sending"] * 5 + ["success"])
        self.assertEqual(self.keys(backend), ["k"] * 6)
        self.assertEqual({request.body for request in backend.requests}, {b"x"})

    def test_exit_codes(self):
        cases = {200: 0, 204: 0, 302: 3, 308: 3, 400: 4, 404: 4, 409: 4, 422: 4, 500: 5, 501: 5}
        backend = self.world(answers(200))
        for status, code in cases.items():
            with self.subTest(status=status):
                backend.handler = answers(status, [("Location", "/other")], b"" if status == 204 else b"body")
                before = len(backend.requests)
                done = self.send(backend.port)
                self.assert_code(done, code)
                self.assertEqual(len(backend.requests), before + 1, "neither retried nor followed")

    def test_retries_spent_is_not_known(self):
        backend = self.world(answers(503))
        done = self.send(backend.port, "--retries", "2")
        self.assert_code(done, 7)
        self.assertEqual(len(backend.requests), 3)
        self.assertIn(b"gave up after 3 tries", done.stderr)
        self.assertEqual(done.stdout, b"answer", "the last answer is shown")

    def test_500_is_retried_if_asked(self):
        backend = self.world(answers(500), answers(201))
        self.assert_code(self.send(backend.port, "--retry-500"), 0)
        self.assertEqual(len(set(self.keys(backend))), 1)

    def test_nothing_listens(self):
        backend = self.world(answers(201))
        backend.stop_listening()
        done = self.send(backend.port, "--retries", "2")
        self.assert_code(done, 6)
        self.assertEqual(self.tries(done), ["not-connected"] * 3)
        self.assertIn(b"nothing was sent", done.stderr)

    def test_a_server_that_comes_up_late_is_reached(self):
        backend = self.world(answers(201))
        backend.stop_listening()
        process = self.start(backend.port, "--retries", "50")
        line = b""
        while b"try 1" not in line:
            line = process.stderr.readline()
        backend.listen()
        _, stderr = process.communicate(timeout=2 * DEADLINE)
        self.assertEqual(process.returncode, 0, stderr.decode())

    def test_interrupted_it_tells_the_key_and_ends_at_once(self):
        go = self.gate()
        backend = self.world(lambda *_: go.wait(DEADLINE))
        process = self.start(backend.port)
        wait_until(lambda: backend.executions(), what="the request")
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=DEADLINE / 2)
        self.assertEqual(process.returncode, 130, stderr.decode())
        self.assert_no_crash(stderr.decode())
        self.assertIn(f"--key {self.keys(backend)[0]}", stderr.decode().splitlines()[-1])

    def test_what_is_sent(self):
        backend = self.world(answers(201, [("X-Answer", "yes")], b"made"))
        done = self.send(backend.port, "-H", "X-One: 1", "-H", "X-Two:2", "--key-header", "X-Idempotency-Key", "--key",
                         "k", "--include", data='["a"]')
        self.assert_code(done, 0)
        request = backend.requests[0]
        self.assertEqual((request.method, request.target, request.body), ("POST", "/pay", b'["a"]'))
        self.assertEqual([request.get(name) for name in ("X-One", "X-Two", "X-Idempotency-Key", "Content-Type",
                                                         "Content-Length", "Expect", "Idempotency-Key")],
                         ["1", "2", "k", "application/json", "5", None, None])
        self.assertTrue(done.stdout.startswith(b"HTTP/1.1 201 Created\r\n"), done.stdout)
        self.assertIn(b"\r\nX-Answer: yes\r\n", done.stdout)
        self.assertTrue(done.stdout.endswith(b"\r\n\r\nmade"))

    def test_data_from_a_file_and_from_standard_input_and_the_answer_to_a_file(self):
        bytes_ = bytes(range(256)) * 1000
        backend = self.world(answers(503), answers(201, [], bytes_))
        folder = self.folder()
        (folder / "data").write_bytes(bytes_)
        (folder / "out").write_bytes(b"old" * 200_000)
        done = self.send(backend.port, "-H", "Content-Type: a/b", "-o", str(folder / "out"), "-q",
                         data=f"@{folder}/data")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, b"", b""))
        self.assertEqual((folder / "out").read_bytes(), bytes_)
        with open(folder / "data", "rb") as file:
            done = subprocess.run(self.command(backend.port, data="@-"), stdin=file, capture_output=True,
                                  timeout=2 * DEADLINE)
        self.assertEqual((done.returncode, done.stdout), (0, bytes_))
        self.assertEqual([request.body == bytes_ for request in backend.requests], [True] * 3)

    def test_wrong_usage_sends_nothing(self):
        backend = self.world(answers(201))
        file = str(self.folder() / "op.key")
        for arguments in (["--deadline", "soon"], ["--timeout", "0s"], ["-H", "no colon"], ["-H", "A: b\r\nC: d"],
                          ["-H", "idempotency-key: k"], ["--key", "a", "--key-file", file], ["--key", "a b\n"],
                          ["--retries", "-1"], ["--nonsense"]):
            with self.subTest(arguments=arguments):
                self.assert_code(self.send(backend.port, *arguments), 2)
        for url in ("ftp://127.0.0.1/", "127.0.0.1", "http://", "http://127.0.0.1:99999/"):
            with self.subTest(url=url):
                done = subprocess.run([os.environ["ONCE_BINARY"], "send", "POST", url], capture_output=True)
                self.assert_code(done, 2)
        self.assertEqual(backend.requests, [])

    def test_a_key_file_that_cannot_be_used_sends_nothing(self):
        backend = self.world(answers(201))
        folder = self.folder()
        (folder / "damaged").write_text("once-key 1\nkey \n")
        self.assert_code(self.send(backend.port, "--key-file", str(folder / "damaged")), 1)
        self.assert_code(self.send(backend.port, "--key-file", str(folder / "no/such/folder")), 1)
        self.assertEqual(backend.requests, [])
        self.assert_code(self.send(backend.port, "--key-file", str(folder / "op")), 0)
        self.assert_code(self.send(backend.port, "--key-file", str(folder / "op"), data="another"), 1)
        self.assertEqual(len(backend.requests), 1)

    def test_help_has_the_exit_codes(self):
        done = subprocess.run([os.environ["ONCE_BINARY"], "send", "--help"], capture_output=True, text=True)
        page = (pathlib.Path(__file__).parents[2] / "docs/client.md").read_text()
        table = page.split("| exit code |")[1].split("\n\n")[0]
        codes = re.findall(r"^\| (\d+) \|", table, re.MULTILINE)
        self.assertEqual(codes, ["0", "1", "2", "3", "4", "5", "6", "7", "130"])
        for code in codes:
            self.assertRegex(done.stdout, rf"(?m)(Exit codes:| ) +{code} \w")


class OverTls(Send):
    def setUp(self):
        super().setUp()
        self.certificates = self.folder()
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                        "-addext", "subjectAltName=DNS:localhost", "-keyout", self.certificates / "key.pem", "-out",
                        self.certificates / "cert.pem"], check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificates / "cert.pem", self.certificates / "key.pem")
        self.handshakes = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(self.listener.close)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.serve, args=(context,), daemon=True).start()

    def serve(self, context):
        """One request a connection, decrypted and answered here."""
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            self.handshakes += 1
            with contextlib.suppress(OSError), context.wrap_socket(sock, server_side=True) as secure:
                data = b""
                while b"\r\n\r\nx" not in data:
                    data += secure.recv(65536)
                secure.sendall(b"HTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\nmade")

    def over_tls(self, *arguments, host="localhost"):
        done = subprocess.run([os.environ["ONCE_BINARY"], "send", "POST", f"https://{host}:{self.port}/", "-d", "x",
                               *arguments], capture_output=True, timeout=2 * DEADLINE)
        self.assert_no_crash(done.stderr.decode())
        return done

    def test_a_certificate_nobody_vouches_for_is_refused_and_nothing_is_sent(self):
        done = self.over_tls()
        self.assert_code(done, 6)
        self.assertEqual(self.tries(done), ["not-trusted"])
        self.assertEqual(self.handshakes, 1)

    def test_a_trusted_certificate_works_for_its_own_name_only(self):
        trusted = ("--cacert", str(self.certificates / "cert.pem"))
        done = self.over_tls(*trusted)
        self.assertEqual((done.returncode, done.stdout), (0, b"made"), done.stderr)
        other_name = self.over_tls(*trusted, host="127.0.0.1")
        self.assert_code(other_name, 6)
        self.assertEqual(self.tries(other_name), ["not-trusted"])


if __name__ == "__main__":
    unittest.main()
