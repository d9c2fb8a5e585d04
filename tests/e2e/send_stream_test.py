"""`once send --stream`, --stop, and a plain send at a stream that broke off: at the real gateway over connections that break, and at
scripted servers where only the wire matters."""
import pathlib
import signal
import sys
import time
import unittest

sys.path.append(str(pathlib.Path(__file__).parents[1] / "servers"))

from cutting_proxy import CuttingProxy  # noqa: E402
from keyed_stream_test import HEAD, LAST, Script, chunk, event  # noqa: E402
from outcomes_test import Script as Steps  # noqa: E402
from outcomes_test import answers  # noqa: E402
from sending import Send  # noqa: E402
from wire import DEADLINE  # noqa: E402

PADDING = b": " + b"-" * 700 + b"\n"  # so that two events are more than what is compared


def head(*fields):
    return HEAD[:-2] + b"".join(b"%s: %s\r\n" % field for field in fields) + b"\r\n"


def said(status, *fields):
    return head((b"Idempotency-Status", status), *fields)


def streams(raw_head, *parts, whole=True):
    """A step of a scripted server."""
    def step(_, connection):
        connection.send(raw_head + b"".join(chunk(part) for part in parts) + (LAST if whole else b""))
        if not whole:
            connection.reset()

    return step


class Streaming(Send):
    def output(self, process, size):
        """So many bytes of standard output, as they come."""
        data = b""
        while len(data) < size:
            part = process.stdout.read1(size - len(data))
            self.assertTrue(part, f"it ended after {data!r}")
            data += part
        return data

    def ended(self, process):
        stdout, stderr = process.communicate(timeout=DEADLINE)
        self.assert_no_crash(stderr.decode())
        return process.returncode, stdout, stderr.decode()

    def sent(self, backend, name):
        return [request.get(name) for request in backend.requests]


class BehindTheGateway(Streaming):
    def start_gateway(self, *settings, handler=None):
        self.script = handler or Script()
        self.served = self.backend(self.script)
        self.port = self.gateway(self.served, "defaults.record.stream=auto", *settings).port
        if handler is None:
            self.addCleanup(self.script.tell, False)  # before anybody waits for a stream that nobody ends
        self.proxy = CuttingProxy(self.port)
        self.addCleanup(self.proxy.stop)

    def test_a_stream_that_is_cut_off_at_every_event_comes_once_and_as_it_is_made(self):
        self.start_gateway()
        process = self.start(self.proxy.port, "--stream", "--retries", "100")
        whole = b""
        for number in range(6):
            part = PADDING + event(number)
            self.script.tell(part)
            self.assertEqual(self.output(process, len(part)), part)  # while the stream goes on
            whole += part
            self.proxy.cut()
        self.script.tell(None)
        code, rest, stderr = self.ended(process)
        self.assertEqual((code, rest), (0, b""), stderr)
        self.assertIn(f", {len(whole)} bytes", stderr.splitlines()[-1])
        self.assertEqual(len(self.served.requests), 1)
        last = self.proxy.requests[-1].lower()
        self.assertIn(b"\r\nidempotency-offset: ", last)
        self.assertIn(b"\r\nidempotency-attempt: 1\r\n", last)

    def test_an_execution_that_broke_off_is_an_unknown_outcome_at_once(self):
        self.start_gateway()
        process = self.start(self.port, "--stream", "--key", "k")
        self.script.tell(event(0))
        self.output(process, len(event(0)))
        self.script.tell(False)
        code, rest, stderr = self.ended(process)
        self.assertEqual((code, rest), (7, b""), stderr)
        self.assertIn("the outcome is unknown, and retries get the same response until", stderr)
        began = time.monotonic()
        for arguments, stdout in ((["--stream"], event(0)), ([], b"")):
            done = self.send(self.port, "--key", "k", *arguments)
            self.assertEqual((done.returncode, done.stdout), (7, stdout), done.stderr)
            self.assertEqual(self.tries(done), ["broken-off"])
            self.assertIn(b"once: try 1: broken-off (the response broke off)\n", done.stderr)
            self.assertIn(b"`once keys list --state unsettled`", done.stderr)
        self.assertLess(time.monotonic() - began, DEADLINE, "not at the deadline of two minutes")
        self.assertEqual(len(self.served.requests), 1)

    def test_interrupted_it_leaves_and_the_command_that_it_prints_continues(self):
        self.start_gateway()
        process = self.start(self.port, "--stream", "--key", "k")
        self.script.tell(event(0))
        first = self.output(process, len(event(0)))
        process.send_signal(signal.SIGINT)
        code, _, stderr = self.ended(process)
        self.assertEqual(code, 130, stderr)
        self.assertIn("the request continues at the server", stderr)
        options = f"--key k -H 'Idempotency-Offset: {len(first)}' -H 'Idempotency-Attempt: 1'"
        self.assertIn(f"run the same command with {options}\n", stderr)
        self.script.tell(event(1), None)
        done = self.send(self.port, "--stream", "--key", "k", "-H", f"Idempotency-Offset: {len(first)}", "-H",
                         "Idempotency-Attempt: 1")
        self.assertEqual((done.returncode, done.stdout), (0, event(1)), done.stderr)
        self.assertEqual(len(self.served.requests), 1)


class OnTheWire(Streaming):
    def world(self, *steps):
        return self.backend(Steps(*steps))

    def test_an_interrupt_is_obeyed_while_nobody_reads_the_output(self):
        backend = self.world(streams(said(b"executed"), *[b"x" * 65536] * 64))
        process = self.start(backend.port, "--stream", "--key", "k")
        self.output(process, 1)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(DEADLINE), 130)
        written = 1 + len(process.stdout.read())
        self.assertIn(f"Idempotency-Offset: {written}'", process.stderr.read().decode())

    def test_output_that_cannot_be_written_ends_it(self):
        backend = self.world(streams(said(b"executed"), *[b"x" * 65536] * 64))
        process = self.start(backend.port, "--stream", "--key", "k")
        self.output(process, 1)
        process.stdout.close()
        self.assertEqual(process.wait(DEADLINE), 1)
        stderr = process.stderr.read().decode()
        self.assertIn("could not be written", stderr)
        self.assertIn("--key k", stderr)

    def test_stop(self):
        cases = {(204, "true"): (0, b"stopped"), (204, "false"): (0, b"had ended already"), (404, None): (4, b"client-error"),
                 (409, None): (4, b"conflict"), (204, None): (7, b"does not say Idempotency-Stopped")}
        for (status, stopped), (code, text) in cases.items():
            with self.subTest(status=status, stopped=stopped):
                fields = [] if stopped is None else [("Idempotency-Stopped", stopped)]
                retried = [answers(503)] if status == 409 else []  # a retry takes its time
                backend = self.world(*retried, answers(status, fields, b"" if status == 204 else b"why"))
                done = self.send(backend.port, "--stop", "--stream", "--key", "k", "-H", "Authorization: me", data="@/nowhere")
                self.assert_code(done, code)
                self.assertIn(text, done.stderr)
                self.assertEqual(done.stdout, b"" if status == 204 else b"why")
                request = backend.requests[-1]
                self.assertEqual((request.method, request.target, request.body), ("DELETE", "/pay", b""))
                self.assertEqual([request.get(name) for name in ("Idempotency-Key", "Idempotency-Stop", "Authorization", "Content-Type")],
                                 ["k", "POST", "me", None])
        self.assert_code(self.send(backend.port, "--stop"), 2)
        self.assert_code(self.send(backend.port, "--stop-on-interrupt"), 2)

    def test_a_response_that_is_too_large_is_no_unknown_outcome(self):
        large = b"x" * (16 * 1024 * 1024 + 1)
        for status, code in ((200, 1), (400, 4)):
            backend = self.world(answers(status, [("Idempotency-Status", "executed")], large))
            done = self.send(backend.port, "--key", "k")
            self.assertEqual((done.returncode, done.stdout, len(backend.requests)), (code, b"", 1), done.stderr)
            said = f"once: {status}, Idempotency-Status: executed: the response is larger than 16MiB"
            again = "; to read it, run the same command with --stream --key k" if code == 1 else ""
            self.assertEqual(done.stderr.decode().splitlines()[-1], said + again)
        unsaid = self.send(self.world(answers(200, [], large)).port)
        self.assertEqual(unsaid.returncode, 1, unsaid.stderr)
        self.assertIn(b"200, no Idempotency-Status: the response is larger than 16MiB; such a response needs --stream\n", unsaid.stderr)
        self.assertNotIn(b"same command", unsaid.stderr)


if __name__ == "__main__":
    unittest.main()
