"""Keyed event streams while gateways, the backend and the store are killed: what a reader saw stays, a part never looks like
the whole, and what is held is not executed twice. stream_history.py says what is checked.
"""
import concurrent.futures
import pathlib
import random
import subprocess
import sys
import threading
import unittest

import faults
from story import SEED, Story
from stream_history import History, Notes, Operation
from stream_plan import Plan
from stream_readers import Manner, Reader, is_definite, read
from wire import hold_port, wait_until
from world import LEASE, Member

CALLERS = 8  # operations at a time
LEAST = 30  # operations
MAX_STREAM = 256 << 10


class StreamMember(Member):
    config = f"""
defaults:
  ttl: 30d
  lease: {LEASE:g}s
  record: {{stream: auto, max_stream: {MAX_STREAM >> 10}KiB}}
  timeouts: {{response: 3s, connect: 1s, stream_idle: 5s}}
journal: {{max_disk: 1GiB, cache: 64KiB}}
timeouts: {{drain: 2s}}
routes:
  - {{path: /hold, on_unknown: hold, in_flight_wait: 2s}}
  - {{path: /retry, on_unknown: retry, in_flight: reject}}
  - {{path: /brief, ttl: 24s}}  # unused: makes segments end, and servers be swept, once a second
"""


class KilledBackend:
    """A process at a port that stays the same."""

    def __init__(self, folder):
        self.notes = folder / "executions"
        self.notes.touch()
        self._place, self.port = hold_port()
        self._lives = 0
        self._process = None

    def start(self):
        self._lives += 1
        script = pathlib.Path(__file__).with_name("stream_backend.py")
        self._process = subprocess.Popen([sys.executable, script, str(self.port), self.notes, str(self._lives)],
                                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        if self._process.stdout.readline() != b"listening\n":
            raise AssertionError("the backend did not start")

    def kill(self):
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()

    def stop(self):
        self.kill()
        self._place.close()


class StreamTrouble(faults.Trouble):
    """Without full disks and full memory, where a stream may be recorded without its body."""
    calm = (0.1, 1.0)
    calm_backend = (0.3, 2.5)

    def _gateway_faults(self, member):
        return [*[self.killed] * 9, self.killed_while_stopped, self.stopped_briefly, self.stopped_for_long, self.ended,
                self.handed_over, self.handed_over, self.stalled, self.cut, self.refused]

    def _store_faults(self, store):
        return [store.killed, store.paused, store.stalled, store.cut, store.refused, store.clock_stepped]

    def backend_dies(self, drawn, _):
        self._backend.kill()
        self._last(drawn.choice((0, 0, 0.3)))
        self._backend.start()


class StreamChaos(Story):
    def setUp(self):
        super().setUp()
        self.operations = []
        self.server = KilledBackend(self.folder())
        self.server.start()
        self.addCleanup(self.server.stop)
        members = [StreamMember(self, name, SEED) for name in ("ab" if self.store.shared else "a")]
        trouble = StreamTrouble(members, self.server, self.store, SEED)
        self.history = History(Notes(self.server.notes), trouble.between)
        self.surround(members, trouble)

    def member_for(self, _):
        return random.choice(self.members)

    def broken(self):
        return super().broken() or bool(self.history.violations)

    def drawn_operation(self, drawn, caller):
        number = len(self.operations)
        kind = drawn.choice(("short", "short", "slow", "slow", "slow", "long", "oversize"))
        events, size, pause = {"short": (drawn.randint(1, 40), drawn.randint(2, 300), drawn.choice((0, 0.002, 0.02))),
                               "slow": (drawn.randint(100, 400), 50, drawn.choice((0.003, 0.01))),
                               "long": (drawn.randint(40, 120), 1600, drawn.choice((0, 0.004, 0.01))),
                               "oversize": (drawn.randint(80, 120), 4000, drawn.choice((0, 0.004, 0.01)))}[kind]
        plan = Plan(f"op-{caller}-{number:06d}", events, size, pause, drawn.choice(("chunked", "chunked", "chunked", "length")),
                    drawn.randrange(1, events) if events > 1 and drawn.random() < 0.1 else 0)
        operation = Operation(drawn.choice(("/hold", "/retry")), f"key-{plan.operation}", plan, plan.length() > MAX_STREAM)
        self.operations.append(operation)
        self.history.begin(operation)
        return operation

    def call(self, caller):
        """One operation after the other, each with several readers."""
        drawn = random.Random(f"{SEED} caller {caller}")
        try:
            while not self.over.is_set():
                operation = self.drawn_operation(drawn, caller)
                readers = [Reader(self, operation, f"{SEED} {operation.key} {number}") for number in range(drawn.randint(1, 4))]
                for reader in readers:
                    reader.start()
                    self.over.wait(drawn.choice((0, 0, 0.05)))
                for reader in readers:
                    reader.join()
        except BaseException as error:
            self.failures.append(error)
            raise

    def settle(self, operation):
        """Each key gets a definite answer when there is peace."""
        def asked():
            member = self.member_for(operation)
            reading = read(member.name, member.port, operation, Manner())
            self.history.add(reading)
            # Without its store for a moment, a gateway knows that there is a stream and not what was recorded of it.
            gone = reading.code == "outcome-unknown" and self.history.seen(operation)
            return is_definite(reading) and not gone and reading

        return wait_until(asked, 60, f"a definite answer for {operation.key} on {operation.route}")

    def audit(self):
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            answers = list(pool.map(self.settle, self.operations))
        for operation, answer in zip(self.operations, answers):
            kept = answer.end == "clean" and answer.status == 200
            self.assertTrue(kept or operation.holds or operation.oversize, f"a retry did not get it whole: {answer}")
        return answers

    def test_what_was_seen_of_a_stream_stays(self):
        callers = [threading.Thread(target=self.call, args=(number,), daemon=True) for number in range(CALLERS)]
        self.make_trouble(callers, lambda: len(self.operations) >= LEAST)
        self.history.peace = True
        if not self.history.violations:
            self.audit()
            self.restart_members()
            self.audit()
        self.history.check_all()
        self.report()
        self.assertEqual(self.history.violations, [], "\n".join(self.history.violations))
        self.check_store()

    def report(self):
        print(f"faults {dict(sorted(self.trouble.counts.items()))}")
        print(f"{len(self.operations)} operations, {self.history.executions()} executions, {self.history.executed_again()} operations executed again, "
              f"readings {dict(sorted(self.history.counts.items()))}", flush=True)


if __name__ == "__main__":
    unittest.main()
