"""What the tests of examples/platform and examples/workflow share: the example's own parts, its API, its README."""
import json
import re
import signal
import subprocess
import unittest

from session import ROOT, Example, load, wait_until  # noqa: F401: for the tests
from wire import DEADLINE, Client

import stage as stages


BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
JSON = ("Content-Type", "application/json")


def start(make, *settings):
    """make(stage, …) starts the parts, for all tests of a module."""
    stage = stages.Stage(free_ports=True)
    unittest.addModuleCleanup(stage.__exit__, None, None, None)
    return make(stage, *settings)


class Service(unittest.TestCase):
    """Whoever inherits from it says what `service` is."""

    maxDiff = 4000
    service = None

    def sql(self, text):
        return self.service.database.sql(text)

    def number(self, text):
        return int(self.sql(text))

    def hold(self, statement):
        """Keeps a transaction open that has done this; the function that is returned ends it."""
        held = subprocess.Popen(["psql", "-qAtX", "-v", "ON_ERROR_STOP=1", "-d", self.service.database.url()], text=True,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        held.stdin.write(f"BEGIN; {statement}; SELECT 'held';\n")
        held.stdin.flush()
        while held.stdout.readline() not in ("held\n", ""):
            pass
        self.assertIsNone(held.poll())

        def let_go():
            if not held.stdin.closed:
                held.communicate("ROLLBACK;\n", timeout=DEADLINE)

        self.addCleanup(let_go)
        return let_go

    def waiting(self):
        """How many wait for a lock in the database."""
        return self.number("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")


def ask(port, method, path, fields=(), body=None, timeout=DEADLINE):
    with Client(port, timeout=timeout) as client:
        data = None if body is None else json.dumps(body).encode()
        return client.ask(method, path, [*fields, *([JSON] if data else [])], body=data)


def run_sweep(service):
    done = subprocess.run([service.stage.binary, "sweep", "--config", service.config], capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return done.stdout


class Readme(unittest.TestCase):
    """The commands of an example's README, run as they stand: the first block starts it, all others are one session."""

    example = None

    def start(self):
        """{name: what `run` says of it}, and the blocks of the session."""
        blocks = BLOCK.findall((ROOT / "examples" / self.example / "README.md").read_text())
        self.assertEqual(blocks[0].strip(), f"examples/{self.example}/run")
        running = Example(self.example, {})
        self.addCleanup(lambda: self.assertEqual(running.end(signal.SIGINT), 0))
        pairs = (line.strip().partition(" ") for line in running.said.splitlines())
        return {name: value for name, _, value in pairs}, blocks[1:]

    def session(self, blocks, words):
        text = "\n".join(blocks)
        for word, here in words.items():
            self.assertIn(word, text)
            text = text.replace(word, here)
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", text], cwd=ROOT, capture_output=True, text=True,
                              timeout=120)
        self.assertEqual(done.returncode, 0, done)
        return done.stdout.replace("\r\n", "\n")
