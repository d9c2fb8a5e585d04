"""What every end-to-end test works with: the real gateway as a process, in front of a backend of the test's own making.

ONCE_BINARY says which binary; CMake gives the one it built. ONCE_E2E_STORE is its --store; without it the binary's own
default, the journal, is tested.
"""
import itertools
import json
import os
import pathlib
import re
import secrets
import shutil
import signal
import subprocess
import tempfile
import threading
import unittest

import wire
from moved_clock import MovedClock
from wire import DEADLINE, Backend, Client, created, wait_until

ROUTE_LABEL = re.compile(r'route="(?:[^"\\]|\\.)*",?')
# What sanitizers and our own invariants write before they end the process.
CRASH_MARKS = ("Sanitizer", "runtime error:", "invariant broken")
STORE = os.environ.get("ONCE_E2E_STORE") or None


def bounded_quarantine(megabytes):
    """An environment for a gateway whose memory is measured: a sanitizer keeps what was freed, but no more than this."""
    given = os.environ.get("ASAN_OPTIONS")
    options = [*([given] if given else []), f"quarantine_size_mb={megabytes}"]
    return {**os.environ, "ASAN_OPTIONS": ":".join(options)}


def run_once(*arguments, folder=None, **named):
    """A command that is expected to end by itself."""
    return subprocess.run([os.environ["ONCE_BINARY"], *arguments], cwd=folder, capture_output=True, text=True,
                          timeout=DEADLINE, stdin=subprocess.DEVNULL, **named)


# What a replay has of its own.
OF_EACH_REPLY = {"connection", "date", "x-request-id", "original-request-id", "idempotency-status",
                 "idempotency-replayed"}


def kept_part(response):
    """What the first answer and every replay must have alike, byte for byte."""
    fields = [field for field in response.fields if field[0].lower() not in OF_EACH_REPLY]
    return response.status, response.reason, fields, response.body


class Gateway:
    """The real binary in a folder of its own. stop() fails if it did not end well. Its clock may be a MovedClock."""

    def __init__(self, *arguments, config=None, admin="127.0.0.1:0", clock=None, env=None, binary=None, **named):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="once-e2e-"))
        self._out = open(self.folder / "stdout", "wb")
        self._err = open(self.folder / "stderr", "wb")
        # It ends with the test, even with one that is killed for taking too long.
        command = ["setpriv", "--pdeathsig", "KILL", binary or os.environ["ONCE_BINARY"], "serve", "--listen", "127.0.0.1:0"]
        if admin is not None:
            command += ["--admin", admin]
        if STORE is not None:
            command += ["--store", STORE]
        if STORE and "://" in STORE:  # a server may pause on a busy machine; tests of hanging servers set their own limits
            command += ["--set", "server.timeout=1m", "--set", "server.connect_timeout=30s"]
        if config is not None:
            (self.folder / "once.yaml").write_text(config)
            command += ["--config", "once.yaml"]
        # On a server that all tests share, each gateway has keys of its own, unless a test says otherwise.
        if env is None and STORE and "://" in STORE:
            env = {"ONCE_SECRET": secrets.token_hex(16), **os.environ}
        if clock is not None:
            env = {**(env or os.environ), **clock.environment()}
        self.process = subprocess.Popen([*command, *arguments], cwd=self.folder, stdin=subprocess.DEVNULL,
                                        stdout=self._out, stderr=self._err, env=env, **named)
        self.port = None
        self.tls_port = None
        self.admin_port = None
        self._told = False  # to end

    @property
    def stderr(self):
        return (self.folder / "stderr").read_text(errors="replace")

    @property
    def stdout(self):
        return (self.folder / "stdout").read_text(errors="replace")

    def log_lines(self, text=None):
        lines = (self.stderr if text is None else text).splitlines()
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    def wait_listening(self):
        def listening():
            if self.process.poll() is not None:
                raise AssertionError(f"once ended with {self.process.returncode}:\n{self.stderr}")
            return next((line for line in self.log_lines() if line["message"] == "listening"), None)

        line = wait_until(listening, what="once to listen")
        def port_of(address):
            return int(address.rsplit(":", 1)[1]) if address else None

        self.port, self.tls_port, self.admin_port = (port_of(line[name]) for name in ("address", "tls", "admin"))
        return self

    def connect(self, **named):
        return Client(self.port, **named)

    def ask(self, *args, **named):
        """One request on a connection of its own."""
        with self.connect() as client:
            return client.ask(*args, **named)

    def admin(self, target, method="GET", fields=(), body=None):
        """Asked for as localhost, unless a field says otherwise."""
        fields = list(fields)
        if not any(name.lower() == "host" for name, _ in fields):
            fields.insert(0, ("Host", "localhost"))
        with Client(self.admin_port) as client:
            return client.ask(method, target, fields, body)

    def metrics(self):
        """Values by name and labels, as they stand in the text; those by route also without it, added up."""
        lines = self.admin("/metrics").body.decode().splitlines()
        values = {}
        for line in lines:
            if not line or line.startswith("#"):
                continue
            name, value = line.rsplit(" ", 1)
            values[name] = float(value)
            total = ROUTE_LABEL.sub("", name).replace("{}", "")
            if total != name:
                values[total] = values.get(total, 0) + float(value)
        return values

    def resident_bytes(self):
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("VmRSS"))

    def terminate(self):
        self._told = True
        self.process.send_signal(signal.SIGTERM)

    def kill(self):
        """As a crash: nothing of it runs any more when this returns."""
        self.process.kill()
        self.process.wait()
        self.stop(expect=-signal.SIGKILL)

    def wait(self, deadline=DEADLINE):
        return self.process.wait(deadline)

    def has_ended(self):
        return self._told or self.process.poll() is not None

    def stop_if_there(self):
        """A test may have stopped it already, and checked how it ended."""
        if self.folder.exists():
            self.stop()

    def stop(self, expect=0):
        """Ends it if it runs. Raises, with its stderr, if it crashed, hung or a sanitizer found something."""
        if self.process.poll() is None and not self._told:  # a second signal would mean: at once
            self.terminate()
        hung = False
        try:
            self.wait()
        except subprocess.TimeoutExpired:
            hung = True
            self.process.kill()
            self.process.wait()
        self._out.close()
        self._err.close()
        text = self.stderr
        shutil.rmtree(self.folder)
        reported = any(mark in text for mark in CRASH_MARKS)
        if hung or reported or self.process.returncode != expect:
            raise AssertionError(f"once ended with {self.process.returncode}{' (hung)' if hung else ''}:\n{text}")


class EndToEnd(unittest.TestCase):
    """Starts and stops what a test needs."""

    maxDiff = 4000

    def setUp(self):
        self._gates = []

    def tearDown(self):
        for gate in self._gates:
            gate.set()

    def gate(self):
        """An event that handlers wait for. It opens by itself when the test is over, so that everything can end."""
        gate = threading.Event()
        self._gates.append(gate)
        return gate

    def folder(self):
        """An empty one, which goes with the test."""
        path = pathlib.Path(tempfile.mkdtemp(prefix="once-e2e-"))
        self.addCleanup(shutil.rmtree, path)
        return path

    def clock(self):
        """A clock that the test moves: the server's if the tests run beside one, else a new one."""
        given = os.environ.get("ONCE_TEST_CLOCK")
        return MovedClock(pathlib.Path(given) if given else self.folder() / "clock")

    def backend(self, handler=created, **named):
        backend = Backend(handler, **named)
        self.addCleanup(backend.stop)
        return backend

    def gateway(self, backend, *settings, base="", **named):
        """Settings such as "defaults.ttl=1s"; base is the path of the upstream's URL."""
        gateway = self.started(backend, *settings, base=base, **named)
        self.addCleanup(gateway.stop_if_there)
        return gateway

    def started(self, backend, *settings, base="", **named):
        settings = ("timeouts.drain=70s", *settings)
        options = [part for setting in settings for part in ("--set", setting)]
        # Whoever has only a port speaks plain HTTP there.
        origin = backend.origin if hasattr(backend, "origin") else f"http://127.0.0.1:{backend.port}"
        gateway = Gateway("--upstream", f"{origin}{base}", *options, **named)
        try:
            return gateway.wait_listening()
        except BaseException:
            gateway.process.kill()
            raise

    def connect(self, gateway, **named):
        client = gateway.connect(**named)
        self.addCleanup(client.close)
        return client


class Sharing(EndToEnd):
    """Stories that leave each other alone: those of a class share one backend, one clock and, for the same settings, one gateway.
    Each story, which begins with backend(), has a host of its own, so its keys are its own, too. What a story counts, stops or
    breaks, it takes for itself: own=True."""

    _hosts = (f"story-{number}.test" for number in itertools.count())

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls._backend, cls._clock, cls._gateways = None, None, {}

    def setUp(self):
        super().setUp()
        self.addCleanup(self._over)  # behind all others: clients have left by then

    def _over(self):
        wire.default_host = "api.test"
        if self._backend is not None:
            wait_until(self._backend.is_quiet, what="the backend to have ended the story")

    def backend(self, handler=created, own=False, read_body=True):
        wire.default_host = next(self._hosts)
        if own:
            return super().backend(handler, read_body=read_body)
        cls = type(self)
        if cls._backend is None:
            cls._backend = Backend(handler)
            cls.addClassCleanup(cls._backend.stop)
        cls._backend.begin(handler, read_body)
        return cls._backend

    def clock(self):
        cls = type(self)
        if cls._clock is None:
            folder = pathlib.Path(tempfile.mkdtemp(prefix="once-e2e-"))
            cls.addClassCleanup(shutil.rmtree, folder)
            given = os.environ.get("ONCE_TEST_CLOCK")
            cls._clock = MovedClock(pathlib.Path(given) if given else folder / "clock")
        return cls._clock

    def gateway(self, backend, *settings, own=False, base="", config=None, clock=None, **named):
        if own or named or backend is not self._backend:
            return super().gateway(backend, *settings, base=base, config=config, clock=clock, **named)
        asked = (settings, base, config, clock and clock.path)
        gateway = self._gateways.get(asked)
        if gateway is None or gateway.has_ended():
            gateway = self.started(backend, *settings, base=base, config=config, clock=clock)
            self._gateways[asked] = gateway
            type(self).addClassCleanup(gateway.stop_if_there)
        return gateway
