"""What `once send` makes of a server's behaviour, with no gateway between; and what its page shows."""
import os
import pathlib
import re
import signal
import subprocess
import unittest

from outcomes_test import Script, answers
from sending import Send
from wire import DEADLINE, wait_until


class OnTheWire(Send):
    def world(self, *steps):
        return self.backend(Script(*steps))

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

    def test_a_body_that_cannot_be_read_is_a_file_that_cannot_be_used(self):
        backend = self.world(answers(201))
        done = self.send(backend.port, data="@/nowhere/at/all")
        self.assert_code(done, 1)
        self.assertIn(b"cannot open /nowhere/at/all: No such file or directory", done.stderr)
        self.assertEqual(len(backend.requests), 0)

    def test_nothing_listens(self):
        backend = self.world(answers(201))
        backend.stop_listening()
        done = self.send(backend.port, "--retries", "2")
        self.assert_code(done, 6)
        self.assertEqual(self.tries(done), ["not-connected"] * 3)
        self.assertIn(b"nothing was sent", done.stderr)

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
                          ["--key", ""], ["--key="], ["--key-file", ""],
                          ["--retries", "-1"], ["--nonsense"]):
            with self.subTest(arguments=arguments):
                self.assert_code(self.send(backend.port, *arguments), 2)
        for url in ("ftp://127.0.0.1/", "127.0.0.1", "http://", "http://127.0.0.1:99999/"):
            with self.subTest(url=url):
                done = subprocess.run([os.environ["ONCE_BINARY"], "send", "POST", url], capture_output=True)
                self.assert_code(done, 2)
        self.assertEqual(backend.requests, [])

    def test_help_has_the_exit_codes(self):
        done = subprocess.run([os.environ["ONCE_BINARY"], "send", "--help"], capture_output=True, text=True)
        page = (pathlib.Path(__file__).parents[2] / "docs/guides/client.md").read_text()
        table = page.split("| exit code |")[1].split("\n\n")[0]
        codes = re.findall(r"^\| (\d+) \|", table, re.MULTILINE)
        self.assertEqual(codes, ["0", "1", "2", "3", "4", "5", "6", "7", "8", "130"])
        for code in codes:
            self.assertRegex(done.stdout, rf"(?m)(Exit codes:| ) +{code} \w")


class Page(Send):
    """What docs/guides/client.md shows is run, and does what it says."""

    def setUp(self):
        super().setUp()
        self.page = (pathlib.Path(__file__).parents[2] / "docs/guides/client.md").read_text()
        once = pathlib.Path(os.environ["ONCE_BINARY"])
        command = [once, "demo", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--threads", "1", "--store", "memory:"]
        self.here = self.folder()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=self.here)
        self.addCleanup(process.communicate)
        self.addCleanup(process.terminate)
        text = ""
        while "Ctrl-C" not in text:
            line = process.stdout.readline()
            self.assertTrue(line, text)
            text += line
        self.address = re.search(r"Once http://([\d.:]+)", text)[1]
        self.environment = {**os.environ, "PATH": f"{once.parent}:{os.environ['PATH']}",
                            "API": f"http://{self.address}", "ID": "7"}

    def shell(self, command):
        done = subprocess.run(["sh", "-c", command], cwd=self.here, env=self.environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=2 * DEADLINE)
        return done.returncode, done.stdout

    def test_the_session(self):
        session = re.search(r"^```console\n(.*?)^```$", self.page, re.MULTILINE | re.DOTALL)[1]
        steps = [step.split("\n", 1) for step in session.split("$ ")[1:]]
        self.assertEqual(len(steps), 2)
        for command, expected in steps:
            with self.subTest(command=command):
                self.assertEqual(self.shell(command.replace("127.0.0.1:8080", self.address)), (0, expected))

    def test_the_job_that_may_be_killed(self):
        job = re.search(r"^```sh\n(.*?)^```$", self.page, re.MULTILINE | re.DOTALL)[1]
        (self.here / "payment.json").write_text('{"amount": 1, "currency": "EUR"}')
        for wanted in ("(new)", "(resumed)"):
            code, said = self.shell(job)
            self.assertEqual(code, 0, said)
            self.assertIn(wanted, said)
            self.assertIn('"pay_1"', (self.here / "answer.json").read_text())


class Unprotected(Send):
    def warnings(self, status, fields, *arguments):
        backend = self.backend(lambda request, connection: connection.reply(status, fields))
        done = self.send(backend.port, "--retries", "0", *arguments)
        return re.findall(r"^once: warning: (.*)$", done.stderr.decode(), re.MULTILINE)

    def test_an_answer_that_does_not_say_that_the_key_counts_is_warned_of(self):
        missing, = self.warnings(201, [])
        self.assertIn("has no Idempotency-Status", missing)
        self.assertEqual(self.warnings(201, [], "--quiet"), [])
        for quiet in ((), ("--quiet",)):
            bypassed, = self.warnings(201, [("Idempotency-Status", "bypassed")], *quiet)
            self.assertIn("bypassed", bypassed)


if __name__ == "__main__":
    unittest.main()
