"""Who takes part: a backend that honours fences, and gateways that can be started again on what they left."""
import datetime
import os
import random
import signal
import time

from harness import Gateway
from ledger import Ledger
from proxy import FaultProxy
from wire import field_lines

RESPONSE_TIMEOUT = 1.5
TAKEOVER_AFTER = 2.0
LEASE = 1.0
CLOCK = os.environ.get("ONCE_CHAOS_CLOCK")  # what skewed_clock.cpp was made into; without it clocks do not jump

CONFIG = f"""
defaults: {{ttl: 30d, in_flight: reject, lease: {LEASE:g}s, timeouts: {{response: {RESPONSE_TIMEOUT * 1000:.0f}ms, connect: 1s}}}}
journal: {{segment_size: 1MiB, segment_age: 1s, cache: 64KiB}}
timeouts: {{drain: 3s}}
routes:
  - {{path: /hold, on_unknown: hold}}
  - {{path: /retry, on_unknown: retry}}
  - {{path: /patient, on_unknown: retry, in_flight: wait, in_flight_wait: 1s}}
  - {{path: /takeover, on_unknown: takeover, takeover_after: {TAKEOVER_AFTER:g}s}}
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


class Member:
    """One gateway, over all its lives: its store, its way to the backend and its clock stay."""

    def __init__(self, story, name, seed):
        self.name = name
        self.story = story
        self.proxy = FaultProxy(story.server.port, f"{seed} proxy {name}")
        self.lives = 0
        self.skew = 0.0
        self.skews = {}  # by generation
        self.gateway = None
        self.port = None  # while it may be asked

    def start(self):
        self.lives += 1
        generation = f"{self.name}{self.lives}"
        self.skews[generation] = self.skew
        environment = {**os.environ, "ONCE_SECRET": "the same for every life and every gateway"}
        if self.skew:
            environment |= {"LD_PRELOAD": CLOCK, "ONCE_CLOCK_SKEW_MS": f"{self.skew * 1000:.0f}"}
        self.gateway = Gateway("--upstream", f"http://127.0.0.1:{self.proxy.port}/{generation}", "--store",
                               self.story.store.url(self.name), config=CONFIG + self.story.store.settings, env=environment).wait_listening()
        told = datetime.datetime.fromisoformat(self.gateway.log_lines()[-1]["time"]).timestamp()
        if abs(told - time.time() - self.skew) > 60:
            raise AssertionError(f"its clock should be off by {self.skew} s, and says {told}")
        self.port = self.gateway.port

    def signal(self, number):
        self.gateway.process.send_signal(number)

    def kill(self):
        self.port = None
        self.gateway.kill()

    def end(self):
        """As an operator does."""
        self.port = None
        self.gateway.stop()

    def stop(self):
        """For good, whatever state it is in."""
        self.proxy.stop()
        if self.gateway and self.gateway.folder.exists():
            self.signal(signal.SIGCONT)
            self.end()
