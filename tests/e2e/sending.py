"""`once send` as a process, for the tests that watch what it does."""
import os
import re
import subprocess

from harness import CRASH_MARKS, EndToEnd
from wire import DEADLINE


class Send(EndToEnd):
    def command(self, port, *arguments, method="POST", path="/pay", data="x"):
        return [os.environ["ONCE_BINARY"], "send", method, f"http://127.0.0.1:{port}{path}", "-d", data, *arguments]

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
