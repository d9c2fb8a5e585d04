"""Who takes part: a backend that honours fences, and gateways that can be started again on what they left."""
import contextlib
import ctypes
import datetime
import os
import random
import resource
import shutil
import signal
import struct
import time

from harness import Gateway
from ledger import Ledger
from proxy import FaultProxy
from wire import field_lines, wait_until

RESPONSE_TIMEOUT = 1.5
TAKEOVER_AFTER = 2.0
LEASE = 1.0
CLOCK = os.environ.get("ONCE_SKEWED_CLOCK")  # what skewed_clock.cpp was made into; without it clocks do not jump
OLDER = os.environ.get("ONCE_OLDER_BINARY")  # of an earlier version; gateways are upgraded from it and rolled back to it
PR_SET_CHILD_SUBREAPER = 36

CONFIG = f"""
defaults: {{ttl: 30d, in_flight: reject, lease: {LEASE:g}s, timeouts: {{response: {RESPONSE_TIMEOUT * 1000:.0f}ms, connect: 1s}}}}
journal: {{max_disk: 1GiB, cache: 64KiB}}
timeouts: {{drain: 3s}}
routes:
  - {{path: /hold, on_unknown: hold}}
  - {{path: /retry, on_unknown: retry}}
  - {{path: /patient, on_unknown: retry, in_flight: wait, in_flight_wait: 1s}}
  - {{path: /takeover, on_unknown: takeover, takeover_after: {TAKEOVER_AFTER:g}s}}
  - {{path: /brief, ttl: 24s}}  # unused: makes segments end, and servers be swept, once a second
"""


class FencedBackend(Ledger):
    """Does what it is asked for, unless it has done so for a later claim. It may die on the way."""

    def __init__(self, seed, store):
        super().__init__()
        self.dying = 0.0  # how likely it is to die at a request
        self.stale = 0
        self._seed = seed
        self._store = store

    def __call__(self, request, connection):
        _, generation, path = request.target.split("/")
        operation = (request.get("Authorization"), f"/{path}", request.get("Idempotency-Key"))
        fence = int(request.get("Idempotency-Fence"))
        drawn = random.Random(f"{self._seed} {operation} {fence}")
        death = drawn.choice(("before", "after", "half")) if drawn.random() < self.dying else None
        if death == "before":
            connection.reset()
            return
        with self.lock:
            done = self.executions[operation]
            if any(each.fence > fence for each in done):
                self.stale += 1
                connection.reply(412)  # whoever asks is not its owner any more, and cannot record this
                return
            # Some fail for certain, so that a second attempt is right.
            status = 500 if not done and drawn.random() < 0.1 else 201
            body = f"{operation} {fence} ".encode() + drawn.randbytes(drawn.choice((20, 300, 3000, 20_000)))
            execution = self.record(operation, request, generation=generation, status=status, body=body,
                                    store="" if self._store.shared else generation[0], disturbed=death or "")
        try:
            self._work(drawn)
            self._answer(connection, execution, death, drawn)
        finally:
            execution.replied = time.time()
            if execution.replied - execution.arrived > RESPONSE_TIMEOUT / 2:
                execution.disturbed = execution.disturbed or "slow"

    def idle(self):
        with self.lock:
            return all(each.replied for executions in self.executions.values() for each in executions)

    def _answer(self, connection, execution, death, drawn):
        fields, body = [("X-Fence", execution.fence)], execution.body
        if death == "after":
            connection.reset()
        elif death == "half":
            length = [("Content-Length", len(body))]
            head = f"HTTP/1.1 {execution.status} Half\r\n".encode() + field_lines(fields + length) + b"\r\n"
            connection.send(head + body[:drawn.randint(0, len(body) - 1)])
            drawn.choice((connection.reset, connection.close))()
        else:
            connection.reply(execution.status, fields, body)

    def _work(self, drawn):
        kind = drawn.random()
        if kind < 0.02:
            time.sleep(drawn.uniform(0.5, 2) * RESPONSE_TIMEOUT)
        elif kind < 0.2:
            time.sleep(drawn.uniform(0, 0.03))


class SteppedClock:
    """How far a clock is off, now and earlier. It may be stepped in both directions while processes read it."""

    def __init__(self, path=None):
        self.path = path  # of the file that skewed_clock.cpp reads
        self._steps = [(0.0, 0.0)]  # when, and by how much it was off from then on
        if path:
            path.write_bytes(struct.pack("=q", 0))

    @property
    def skew(self):
        return self._steps[-1][1]

    def step(self, seconds):
        skew = self.skew + seconds
        self._steps.append((time.time(), skew))
        if self.path:
            with open(self.path, "r+b") as file:
                file.write(struct.pack("=q", int(skew * 1000)))

    def gained(self, since, until):
        """The most that it may have gone ahead by between these moments. At a step, either side of it may have been read."""
        def around(moment):
            earlier = [skew for at, skew in self._steps if at <= moment - 0.5][-1]
            return [earlier] + [skew for at, skew in self._steps if moment - 0.5 < at <= moment + 0.5]

        return max(around(until)) - min(around(since))


def drawn_step(drawn):
    """Back only by so much that what waits for the clock can be waited for."""
    return drawn.choice((drawn.uniform(0, 600), -drawn.uniform(0, 1.5)))


def adopt_orphans():
    """A successor whose predecessor has ended is ours to wait for."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


class Program:
    """The file that a gateway is started from. Another version is moved to its place, as in an upgrade."""

    def __init__(self, folder, older):
        self.path = folder / "once"
        self._folder = folder
        for version, binary in (("newer", os.environ["ONCE_BINARY"]), ("older", OLDER)):
            shutil.copy(binary, folder / version)
        self._older = not older
        self.replace()

    def replace(self):
        self._older = not self._older
        os.link(self._folder / ("older" if self._older else "newer"), self._folder / "next")
        os.rename(self._folder / "next", self.path)


class Member:
    """One gateway, over all its lives: its store, its way to the backend and its clock stay."""
    config = CONFIG

    def __init__(self, story, name, seed):
        self.name = name
        self.story = story
        self.proxy = FaultProxy(story.server.port, f"{seed} proxy {name}")
        self.clock = SteppedClock(story.folder() / "clock")
        self.program = Program(story.folder(), older=name == "a") if OLDER else None
        self.lives = 0
        self.gateway = None
        self.pid = None  # of the process that serves: the gateway's own, or a successor's
        self.port = None  # while it may be asked

    def start(self):
        self.lives += 1
        generation = f"{self.name}{self.lives}"
        environment = {**os.environ, "ONCE_SECRET": "the same for every life and every gateway"}
        if CLOCK:
            environment |= {"LD_PRELOAD": CLOCK, "ONCE_CLOCK_SKEW_FILE": str(self.clock.path)}
        self.gateway = Gateway("--upstream", f"http://127.0.0.1:{self.proxy.port}/{generation}", "--store",
                               self.story.store.url(self.name), config=self.config + self.story.store.settings, env=environment,
                               binary=self.program.path if self.program else None).wait_listening()
        told = datetime.datetime.fromisoformat(self.gateway.log_lines()[-1]["time"]).timestamp()
        if abs(told - time.time() - self.clock.skew) > 60:
            raise AssertionError(f"its clock should be off by {self.clock.skew} s, and says {told}")
        self.pid = self.gateway.process.pid
        self.port = self.gateway.port

    def signal(self, number):
        os.kill(self.pid, number)

    def limit(self, which, most):
        """A soft limit of the process, as with ulimit; None lifts it."""
        hard = resource.prlimit(self.pid, which)[1]
        resource.prlimit(self.pid, which, (hard if most is None else most, hard))

    def open_descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def said(self, message):
        return [line for line in self.gateway.log_lines() if line["message"] == message]

    def hand_over(self, victim, after, wait):
        """Starts a successor, kills one of the two some seconds later (or nobody), and waits until the one that is left serves."""
        old, started, listened = self.pid, len(self.said("successor started")), len(self.said("listening"))
        self.signal(signal.SIGUSR2)
        new = wait_until(lambda: self.said("successor started")[started:], what="a successor")[0]["pid"]
        wait(after)
        with contextlib.suppress(ProcessLookupError):
            if victim != "nobody":
                os.kill(old if victim == "old" else new, signal.SIGKILL)
        wait_until(lambda: not (runs(old) and runs(new)), what="one of the two to end")
        if victim == "new" and len(self.said("listening")) > listened:  # the old one had gone by then, or was about to
            self._ended(old)
            self.pid = new
            self._leave(-signal.SIGKILL)
            self.start()
            return
        left = [pid for pid in (old, new) if runs(pid)]
        if not left:
            raise AssertionError(f"{victim} was killed in a handover, and nobody serves:\n{self.gateway.stderr}")
        self.pid = left[0]
        if self.pid == new and self._ended(old) not in (0, -signal.SIGKILL):
            raise AssertionError(f"the old process ended badly in a handover:\n{self.gateway.stderr}")
        wait_until(self._answers, what="the process that is left to answer")

    def _answers(self):
        with contextlib.suppress(OSError, EOFError):
            return self.gateway.admin("/healthz").status == 200

    def kill(self):
        self.port = None
        self.signal(signal.SIGKILL)
        self._leave(-signal.SIGKILL)

    def end(self):
        """As an operator does."""
        self.port = None
        self.signal(signal.SIGTERM)
        self._leave(0)

    def _leave(self, expect):
        """When the process that serves was told to end."""
        status = self._ended(self.pid)
        if status != expect:
            raise AssertionError(f"it ended with {status}, not {expect}:\n{self.gateway.stderr}")
        self.gateway.stop(self.gateway.process.wait())  # finds what sanitizers said of any of them

    def _ended(self, pid):
        """Waits for it."""
        if pid == self.gateway.process.pid:
            return self.gateway.process.wait()
        return wait_until(lambda: exit_of(pid), what="a successor to end")[0]

    def stop(self):
        """For good, whatever state it is in."""
        self.proxy.stop()
        if self.gateway and self.gateway.folder.exists():
            with contextlib.suppress(ProcessLookupError):
                self.signal(signal.SIGCONT)
            self.end()


def runs(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def exit_of(pid):
    """How a process ended that is ours to wait for, as a tuple of one; None while it runs or is another's."""
    try:
        found, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return None
    return (os.waitstatus_to_exitcode(status),) if found else None
