"""What goes wrong, and when. A thread for each gateway and one for the backend draw their troubles from the seed."""
import collections
import contextlib
import random
import resource
import signal
import threading
import time

from wire import Client
from world import CLOCK, LEASE, OLDER, RESPONSE_TIMEOUT, drawn_step


class Trouble:
    calm = (0.05, 0.8)  # seconds that a gateway is well in between
    calm_backend = (0.05, 0.8)

    def __init__(self, members, backend, store, seed):
        self.counts = collections.Counter()
        self.failures = []
        self._spans = collections.defaultdict(list)  # (begin, end) by gateway
        self._full = collections.defaultdict(list)  # the same, of its disk
        self._over = threading.Event()
        self._left = threading.Event()
        self._backend = backend
        self._store = store
        # Where, what can go wrong there, what that is counted as, how long it is well in between, what a fault is done to.
        troubles = [(member.name, self._gateway_faults(member), "", self.calm, member) for member in members]
        troubles.append(("backend", [self.backend_dies], "", self.calm_backend, None))
        if store.shared:
            troubles.append((store.name, self._store_faults(store), "store_", (0.5, 3.8), self._last))
        troubles = [(random.Random(f"{seed} trouble {each[0]}"), *each) for each in troubles]
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

    def between(self, gateway, began, ended):
        """Whether there was trouble at this gateway or at the store, or shortly before."""
        spans = self._spans[gateway] + self._spans[self._store.name]
        return any(begin < ended + 0.5 and end > began - 2 - LEASE for begin, end in spans)

    def disk_was_full(self, member, asked):
        """While it was executed, or shortly before: room is looked for once a second. Journals are not shared."""
        last = asked.answered or time.time()
        return any(begin < last and end + 3 > min(asked.sent.values()) for begin, end in self._full[member.name])

    def _run(self, drawn, where, faults, prefix, pause, victim):
        try:
            while not self._over.wait(drawn.uniform(*pause)):
                fault = drawn.choice(faults)
                self.counts[prefix + fault.__name__] += 1
                span = [time.time(), float("inf")]  # open while it lasts
                if not hasattr(fault, "harmless"):
                    self._spans[where].append(span)
                fault(drawn, victim)
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

    def _store_faults(self, store):
        return store.faults()

    def _gateway_faults(self, member):
        if OLDER:  # what programs have withstood from the beginning
            return [self.killed, self.stopped_briefly, self.stopped_for_long, self.delayed, self.stalled, self.cut, self.refused,
                    self.replaced, self.replaced, self.replaced_by_handover, self.replaced_by_handover]
        faults = [self.killed, self.killed, self.stopped_briefly, self.stopped_for_long, self.killed_while_stopped,
                  self.ended, self.handed_over, self.handed_over, self.out_of_descriptors, self.delayed, self.stalled,
                  self.cut, self.cut, self.refused]
        if not member.story.store.shared:
            faults.append(self.disk_full)
        if CLOCK:
            faults += [self.clock_stepped, self.clock_stepped]
        return faults

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

    def replaced(self, _, member):
        """By the other version: an upgrade or a rollback."""
        member.end()
        member.program.replace()
        member.start()

    def replaced_by_handover(self, _, member):
        member.program.replace()
        member.hand_over("nobody", 0, self._last)

    def clock_stepped(self, drawn, member):
        """While it runs, or between two of its lives."""
        step = drawn_step(drawn)
        if drawn.random() < 0.5:
            member.clock.step(step)
            return
        member.kill()
        member.clock.step(step)
        member.start()

    def handed_over(self, drawn, member):
        """To a successor. One of the two may be killed on the way, and the other one serves then."""
        victim = drawn.choice(("nobody", "old", "new"))
        self.counts[f"handed_over_{victim}_killed"] += 1
        member.hand_over(victim, drawn.uniform(0, 0.8), self._last)

    def out_of_descriptors(self, drawn, member):
        member.limit(resource.RLIMIT_NOFILE, member.open_descriptors() + drawn.randint(0, 3))
        self._last(drawn.uniform(0.2, 2))
        member.limit(resource.RLIMIT_NOFILE, None)

    def disk_full(self, drawn, member):
        span = [time.time(), float("inf")]
        self._full[member.name].append(span)
        member.limit(resource.RLIMIT_FSIZE, drawn.choice((0, 1 << 16, 1 << 19)))
        self._last(drawn.uniform(0.2, 2))
        member.limit(resource.RLIMIT_FSIZE, None)
        span[1] = time.time()

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

    def backend_dies(self, drawn, _):
        self._backend.dying = drawn.choice((0.02, 0.1, 0.5))
        self._last(drawn.uniform(0.1, 1))
        self._backend.dying = 0.0
