"""bindings/python/README.md: its programs do what it shows, with the installed package; its applications answer and replay."""
import os
import re
import shlex
import subprocess
import sys
import unittest

from harness import EndToEnd, Gateway
from support import PRELOAD, PROGRAMS, ROOT, AppTest
from wire import DEADLINE, created

PAGE = (ROOT / "bindings" / "python" / "README.md").read_text()
PROGRAM = re.compile(r"^<!-- run -->\n```python\n(.*?)^```\n\n```\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def answered(request, connection):
    """Orders, and a model that streams."""
    if request.target != "/chat":
        created(request, connection)
        return
    events = b"id: 1\ndata: Hello,\n\nid: 2\ndata: world\n\n"
    connection.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" +
                    f"{len(events):x}\r\n".encode() + events + b"\r\n0\r\n\r\n")


class Programs(EndToEnd):
    def test_every_program_prints_what_the_page_shows(self):
        programs = PROGRAM.findall(PAGE)
        self.assertEqual(len(programs), PAGE.count("<!-- run -->"))
        command = re.search(r"^once serve (.*)$", PAGE, re.MULTILINE)[1].replace("http://127.0.0.1:9000", self.backend(answered).origin)
        gateway = Gateway(*shlex.split(command)).wait_listening()
        self.addCleanup(gateway.stop)
        environment = {**{name: value for name, value in os.environ.items() if name != "PYTHONPATH"}, **PRELOAD}
        for program, expected in programs:
            with self.subTest(program):
                program = program.replace("http://127.0.0.1:8080", f"http://127.0.0.1:{gateway.port}")
                done = subprocess.run([sys.executable, "-c", program], cwd=gateway.folder, env=environment, capture_output=True,
                                      text=True, timeout=DEADLINE)
                self.assertEqual((done.returncode, done.stderr, done.stdout), (0, "", expected))


class Applications(AppTest):
    def application(self, framework):
        """The first program of the section that names the framework."""
        return re.search(rf"^## [^\n]*{framework}.*?^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[1]

    def replays(self, app):
        first, again = (app.ask("POST", "/orders", key="k") for _ in range(2))
        self.assertEqual((first.status, again.status, first.body), (200, 200, again.body))
        self.assertEqual((first.get("Idempotency-Status"), again.get("Idempotency-Replayed")), ("executed", "true"))

    def test_fastapi(self):
        (self.data / "main.py").write_text(self.application("FastAPI"))
        self.replays(self.start(PROGRAMS / "python", "-m", "uvicorn", "main:app", "--port", "PORT"))

    def test_flask(self):
        (self.data / "main.py").write_text(self.application("Flask"))
        self.replays(self.start(PROGRAMS / "python", "-m", "gunicorn", "main:app", "--bind", "127.0.0.1:PORT"))


if __name__ == "__main__":
    unittest.main()
