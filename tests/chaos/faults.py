"""What goes wrong, and when. A thread for each gateway and one for the backend draw their troubles from the seed."""
import collections
import contextlib
import random
import signal
import threading
import time

from wire import Client
from world import CLOCK, LEASE, RESPONSE_TIMEOUT


class Trouble:
    def __init__(self, members, backend, store, seed):
        self.counts = collections.Counter()
        self.failures = []
        self._spans = collections.defaultdict(list)  # (begin, end) by gateway
        self._over = threading.Event()
        self._left = threading.Event()
        self._backend = backend
        self._store = store
        troubles = [(self._gateway_fault, random.Random(f"{seed} trouble {member.name}"), member) for member in members]
        troubles.append((self._backend_fault, random.Random(f"{seed} trouble backend"), None))
        if store.shared:
            troubles.append((self._store_fault, random.Random(f"{seed} trouble store"), store))
        self._threads = [threading.Thread(target=self._run, args=each, daemon=True) for each in troubles]
        self._watchers = [threading.Thread(target=self._watch, args=(member,), daemon=True) for member in members]
        self._calm = {thread: threading.Event() for thread in self._threads}

    def start(self):
        for thread in self._threads + self._watchers:
            thread.start()

    def end(self):
        """All is well when this returns."""
        self._over.set()
        for thread in self._threads:
            self._calm[thread].wait()

    def leave(self):
        """No gateway may run any more that was started here: it would end with its thread."""
        self._left.set()
        for thread in self._threads + self._watchers:
            if thread.ident:
                thread.join()

    def met(self, execution, began):
        """Whether there was trouble at its gateway or at the store between its request and its answer, which may be long
        on its way; trouble at a store may show when it is over."""
        spans = self._spans[execution.generation[0]] + self._spans[self._store.name]
        return any(begin < execution.replied + 0.5 and end > began - 0.5 - LEASE for begin, end in spans)

    def _run(self, fault, drawn, member):
        try:
            while not self._over.wait(drawn.uniform(0.05, 0.8)):
                span = [time.time(), float("inf")]  # open while it lasts
                if member:
                    self._spans[member.name].append(span)
                fault(drawn, member)
                span[1] = time.time()
        except BaseException as error:
            self.failures.append(error)
            raise
        finally:
            self._calm[threading.current_thread()].set()
            self._left.wait()

    def _watch(self, member):
        """A machine that pauses, or takes a second for what takes a moment, is trouble that nobody drew."""
        while not self._left.is_set():
            begin = time.time()
            self._left.wait(0.1)
            with contextlib.suppress(OSError, EOFError), Client(member.gateway.admin_port, timeout=LEASE) as client:
                client.ask("GET", "/healthz", [("Host", "localhost")])
            if time.time() - begin > 0.1 + LEASE / 2:
                self.counts["stood_still"] += 1
                self._spans[member.name].append([begin, time.time()])

    def _last(self, seconds):
        self._over.wait(seconds)

    def _gateway_fault(self, drawn, member):
        faults = [self.killed, self.killed, self.stopped_briefly, self.stopped_for_long, self.killed_while_stopped,
                  self.ended, self.delayed, self.stalled, self.cut, self.cut, self.refused]
        if CLOCK:
            faults.append(self.clock_jumped)
        fault = drawn.choice(faults)
        self.counts[fault.__name__] += 1
        fault(drawn, member)

    def killed(self, drawn, member):
        member.kill()
        self._last(drawn.choice((0, 0.3)))
        member.start()

    def stopped(self, member, seconds):
        member.signal(signal.SIGSTOP)
        self._last(seconds)

    def stopped_briefly(self, drawn, member):
        self.stopped(member, drawn.uniform(0.05, 0.8))
        member.signal(signal.SIGCONT)

    def stopped_for_long(self, drawn, member):
        self.stopped(member, drawn.uniform(1, 2) * RESPONSE_TIMEOUT)
        member.signal(signal.SIGCONT)

    def killed_while_stopped(self, drawn, member):
        self.stopped(member, drawn.uniform(0.05, 0.5))
        member.kill()
        member.start()

    def ended(self, _, member):
        member.end()
        member.start()

    def clock_jumped(self, drawn, member):
        member.kill()
        member.skew += drawn.choice((drawn.uniform(0, 600), -drawn.uniform(0, 1.5)))
        member.start()

    def delayed(self, drawn, member):
        member.proxy.delay = drawn.choice((0.01, 0.1, 0.4))
        self._last(drawn.uniform(0.2, 1.5))
        member.proxy.delay = 0.0

    def stalled(self, drawn, member):
        member.proxy.stall()
        self._last(drawn.uniform(0.2, 2) * RESPONSE_TIMEOUT)
        member.proxy.flow()

    def cut(self, drawn, member):
        member.proxy.cutting = drawn.choice((0.05, 0.3, 1.0))
        self._last(drawn.uniform(0.2, 1))
        member.proxy.cutting = 0.0

    def refused(self, drawn, member):
        member.proxy.refuse()
        self._last(drawn.uniform(0.1, 1))
        member.proxy.listen()

    def _store_fault(self, drawn, store):
        self._last(drawn.uniform(0.5, 3))  # between two of them most has to go well
        fault = drawn.choice(store.faults())
        self.counts[f"store_{fault.__name__}"] += 1
        fault(drawn, self._last)

    def _backend_fault(self, drawn, _):
        self.counts["backend_dies"] += 1
        self._backend.dying = drawn.choice((0.02, 0.1, 0.5))
        self._last(drawn.uniform(0.1, 1))
        self._backend.dying = 0.0
