"""Applications as their users start them: real servers with the installed package, on a journal or on PostgreSQL.

ONCE_TEST_STORE is the URL of a server; without it every application has a journal of its own.
"""
import json
import os
import pathlib
import secrets
import signal
import subprocess
import sys
import tempfile
import shutil
import threading
import unittest

from server import free_port
from wire import DEADLINE, Client, wait_until

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SERVER = os.environ.get("ONCE_TEST_STORE", "")
# The runtime of a sanitizer that the library was built with; interpreters are not.
PRELOAD = {"LD_PRELOAD": os.environ["ONCE_PYTHON_PRELOAD"]} if os.environ.get("ONCE_PYTHON_PRELOAD") else {}
PROGRAMS = pathlib.Path(sys.executable).parent
JSON = ("Content-Type", "application/json")
SHARED = {"defaults__record__max_body": "8KiB", "defaults__max_request_body": "1KiB"}


class App:
    """A process that serves; what it says is in a file."""

    def __init__(self, command, folder, env, port):
        self.port = port
        self.prefix = ""  # of the keys of a test that shares it with others
        self.log = folder / f"app-{port}.log"
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *map(str, command)], cwd=folder, env=env, stdout=log,
                                            stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
        wait_until(self._listens, what=f"{command} to listen")

    @property
    def said(self):
        return self.log.read_text(errors="replace")

    def _listens(self):
        if self.process.poll() is not None:
            raise AssertionError(f"it ended with {self.process.returncode}:\n{self.said[-4000:]}")
        try:
            Client(self.port).close()
        except OSError:
            return False
        return True

    def ask(self, method, path, fields=(), body=None, key=None, timeout=DEADLINE):
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            fields = [*fields, JSON]
        fields = [*fields, *([self.key(key)] if key is not None else [])]
        with Client(self.port, timeout=timeout) as client:
            return client.ask(method, path, fields, body=body)

    def key(self, key):
        """Its header field."""
        return "Idempotency-Key", self.prefix + key

    def kill(self):
        """The process and all of its workers, as a crash."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self):
        """As an operator does. What it answered with."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(DEADLINE)
            except subprocess.TimeoutExpired:
                self.kill()
                raise AssertionError(f"it did not end:\n{self.said[-4000:]}") from None
        return self.process.returncode


class Asked(threading.Thread):
    """A request in the background."""

    def __init__(self, app, *arguments, **named):
        super().__init__(daemon=True)
        self._ask = lambda: app.ask(*arguments, **named)
        self._answer = None
        self.start()

    def run(self):
        self._answer = self._ask()

    @property
    def answer(self):
        self.join(DEADLINE)
        return self._answer


class AppTest(unittest.TestCase):
    maxDiff = 4000

    def setUp(self):
        self.data = pathlib.Path(tempfile.mkdtemp(prefix="once-python-"))
        self.addCleanup(shutil.rmtree, self.data, ignore_errors=True)
        self.secret = secrets.token_hex(16)
        self.executed_before = 0

    def app(self):
        """The application that the tests of this class share, started by serve() with the settings in SHARED. A test sees only its
        own keys and executions."""
        if "shared" not in type(self).__dict__:
            owner = type(self)(self._testMethodName)
            self.addClassCleanup(owner.doCleanups)
            owner.setUp()
            type(self).shared = owner, owner.serve(**SHARED)
        owner, app = self.shared
        self.data, self.secret, app.prefix = owner.data, owner.secret, f"{self._testMethodName}-"
        (self.data / "go").unlink(missing_ok=True)
        self.executed_before = owner.executions()
        return app

    @property
    def store(self):
        return SERVER or f"journal:{self.data}/journal"

    def settings(self, **over):
        """Of the engine. Names with __ for the dot."""
        named = {name.replace("__", "."): value for name, value in over.items()}
        return {"store": self.store, "defaults.caller": "none", "defaults.lease": "2s", **named}

    def environment(self, settings):
        return {**os.environ, **PRELOAD, "ONCE_SECRET": self.secret, "APP_SETTINGS": json.dumps(settings), "APP_DATA": str(self.data),
                "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(HERE / "apps")}

    def start(self, *command, **over):
        """The command with PORT in place of its port."""
        port = free_port()
        command = [str(part).replace("PORT", str(port)) for part in command]
        app = App(command, self.data, self.environment(self.settings(**over)), port)
        self.addCleanup(lambda: app.process.poll() is None and app.kill())
        return app

    def python(self, program, **over):
        """Runs a program to its end; what it prints."""
        done = subprocess.run([sys.executable, "-c", program], cwd=self.data, env=self.environment(self.settings(**over)),
                              capture_output=True, text=True, timeout=2 * DEADLINE)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout.strip()

    def executions(self):
        """How often the handler ran, in any process."""
        file = self.data / "executions"
        return len(file.read_text().splitlines()) - self.executed_before if file.exists() else 0

    def begun(self, count=1):
        wait_until(lambda: self.executions() >= count, what=f"{count} executions to begin")

    def let_go(self):
        """Handlers of /slow end from now on."""
        (self.data / "go").touch()
