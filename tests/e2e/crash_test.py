"""kill -9 at any moment, over and over, under load: what was answered stays answered, and nothing runs that must not.

ONCE_E2E_CRASHES sets how many crashes, ONCE_E2E_SEED repeats the draws of a run; the race itself is the kernel's.
"""
import collections
import os
import random
import shutil
import subprocess
import threading
import time
import unittest

import journal_files
from harness import EndToEnd, Gateway, kept_part, run_once
from ledger import Asked, Ledger, check_all, check_retry
from wire import Client, request_bytes, wait_until

CRASHES = int(os.environ.get("ONCE_E2E_CRASHES", "110"))
SEED = int(os.environ.get("ONCE_E2E_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 32)
CLIENTS = 8
PATIENCE = 120.0  # of a client with one request, over as many crashes as it takes

CONFIG = """
journal: {max_disk: 160MiB, cache: 64KiB}
routes:
  - {path: /hold, on_unknown: hold}
  - {path: /retry, on_unknown: retry}
  - {path: /takeover, on_unknown: takeover, takeover_after: 1s}
  - {path: /brief, on_unknown: retry, ttl: 2s, lease: 1s}
"""


class Moment:
    """When the next crash is to be: at the nth of something. Whoever makes it happen kills the gateway itself."""

    def __init__(self):
        self._lock = threading.Lock()
        self._what = None
        self._left = 0
        self._process = None
        self.passed = threading.Event()

    def set(self, process, what, left):
        with self._lock:
            self.passed.clear()
            self._process, self._what, self._left = process, what, left

    def happens(self, what):
        with self._lock:
            if what != self._what:
                return
            self._left -= 1
            if self._left == 0:
                self._what = None
                self._process.kill()
                self.passed.set()


class Backend(Ledger):
    """Remembers what it did for whom, and what it answered."""

    def __init__(self, moment):
        super().__init__()
        self._moment = moment

    def __call__(self, request, connection):
        self._moment.happens("arrival")
        key, fence = request.get("Idempotency-Key"), int(request.get("Idempotency-Fence"))
        _, generation, path = request.target.split("/")
        drawn = random.Random(f"{SEED} {key} {fence}")
        with self.lock:
            operation = ("", f"/{path}", key)
            # Some fail for certain, so that a second attempt is right.
            status = 500 if not self.executions[operation] and drawn.random() < 0.1 else 201
            # What expires soon is more than half of all, so that the rest is carried on from old segments.
            size = 20_000 if path == "brief" else drawn.choice((20, 300, 3000, 20_000))
            body = f"{fence} ".encode() + drawn.randbytes(size)
            self.record(operation, request, generation=generation, status=status, body=body)
        if drawn.random() < 0.2:
            time.sleep(drawn.uniform(0, 0.03))  # it works
        connection.reply(status, [("X-Fence", fence)], body)
        self._moment.happens("answer")


class Caller(threading.Thread):
    """Asks for one thing after the other, each until it has an answer or knows that there will be none."""

    def __init__(self, story, number):
        super().__init__(daemon=True)
        self.story = story
        self.number = number
        self.drawn = random.Random(f"{SEED} caller {number}")
        self.client = None
        self.generation = None

    def run(self):
        try:
            count = 0
            while not self.story.over.is_set():
                count += 1
                path = self.drawn.choices(("/hold", "/retry", "/takeover", "/brief"), (4, 3, 1, 3))[0]
                body = self.drawn.randbytes(self.drawn.randint(0, 200))
                asked = Asked(path, f"{path[1:]}-{self.number}-{count}", body)
                wait_until(lambda asked=asked: self.settled(asked), PATIENCE, asked.key)
                self.story.asked.append(asked)
                self.story.moment.happens("answered")
        except BaseException as error:
            self.story.failures.append(error)
            raise
        finally:
            self.leave()

    def leave(self):
        if self.client is not None:
            self.client.close()
        self.client = self.generation = None

    def settled(self, asked):
        port, generation = self.story.at
        if port is None:
            return False
        try:
            if self.generation != generation:
                self.leave()
                self.client, self.generation = Client(port), generation
            response = self.client.ask("POST", asked.path, key=asked.key, body=asked.body)
        except (OSError, EOFError):
            self.leave()
            return False
        if response.status == 201:
            asked.settle(response)
        elif response.status in (409, 502, 503):
            asked.held = response.code == "outcome-unknown" and asked.path == "/hold"
        elif response.status != 500 or int(response.get("X-Fence")) <= 0:
            raise AssertionError(f"{asked.key}: {response}")
        return asked.held or asked.answer


class Crashes(EndToEnd):
    def setUp(self):
        super().setUp()
        self.data = self.folder()
        self.journal = self.data / "journal"
        self.drawn = random.Random(SEED)
        self.moment = Moment()
        self.ledger = Backend(self.moment)
        self.at = (None, None)  # port and number of the gateway that runs
        self.over = threading.Event()
        self.asked = []  # and settled, in that order
        self.failures = []
        self.audited = 0  # of them, by an earlier look
        self.started = 0
        self.addCleanup(self.over.set)

    def start(self):
        self.started += 1
        gateway = Gateway("--upstream", f"http://127.0.0.1:{self.server.port}/{self.started}",
                          "--set", f"data_dir={self.data}", config=CONFIG)
        self.addCleanup(lambda: gateway.folder.exists() and gateway.stop())
        return gateway

    def audit(self, gateway, asked):
        """What was told is told again, byte for byte; what is held stays held."""
        asked = [each for each in asked if each.path != "/brief"]
        with gateway.connect() as client:
            for begin in range(0, len(asked), 20):
                some = asked[begin:begin + 20]
                client.send(b"".join(request_bytes("POST", each.path, key=each.key, body=each.body) for each in some))
                for each in some:
                    check_retry(self, each, client.read_response())

    def crash_at_work(self, gateway):
        """At a drawn moment of the load."""
        what = self.drawn.choice(("arrival", "answer", "answered", "time"))
        self.moment.set(gateway.process, what, self.drawn.randint(1, 40))
        if what == "time":
            self.moment.passed.wait(self.drawn.uniform(0, 0.1))
        else:
            wait_until(lambda: self.moment.passed.is_set() or self.failures, what=f"{what} of a request")
        self.at = (None, None)
        gateway.kill()

    def crash_in_recovery(self):
        """Before it listens: at any time, or when the files show how far it has come."""
        spare = self.journal / "next.segment"
        count = len(journal_files.segments(self.journal))

        def changed():
            try:
                return spare.stat().st_mtime_ns
            except FileNotFoundError:
                return None

        before = changed()
        gateway = self.start()
        reached = self.drawn.choice((
            lambda: True,
            lambda: (self.journal / "lock").read_text() == str(gateway.process.pid),
            lambda: changed() != before,
            lambda: len(journal_files.segments(self.journal)) != count,
        ))
        deadline = time.monotonic() + 20
        while not reached() and gateway.process.poll() is None and time.monotonic() < deadline:
            pass  # every moment counts
        pause = time.monotonic() + self.drawn.uniform(0, 0.01)
        while time.monotonic() < pause:
            pass
        gateway.kill()

    def restart(self, torn):
        gateway = self.start().wait_listening()
        read = [line for line in gateway.log_lines() if line["message"] == "the journal was read"]
        self.assertEqual(len(read), 1, gateway.stderr)
        if torn:
            self.assertGreater(read[0]["torn_bytes_cut"], 0)
        # All that were told since the last look, and some of the others. Then the callers come in.
        asked = list(self.asked)
        self.audit(gateway, asked[self.audited:] + self.drawn.sample(asked[:self.audited], min(20, self.audited)))
        self.audited = len(asked)
        self.at = (gateway.port, self.started)
        return gateway

    def test_nothing_that_was_told_is_forgotten_and_nothing_runs_twice(self):
        print(f"ONCE_E2E_SEED={SEED} ONCE_E2E_CRASHES={CRASHES}", flush=True)
        self.server = self.backend(self.ledger)
        self.start().wait_listening().kill()
        callers = [Caller(self, number) for number in range(CLIENTS)]
        for caller in callers:
            caller.start()
        crashes, torn = collections.Counter(), 0
        while crashes.total() < CRASHES and not self.failures:
            if self.drawn.random() < 0.15:
                self.crash_in_recovery()
                torn = 0  # it may have been cut off already
                crashes["in recovery"] += 1
                continue
            gateway = self.restart(torn)
            self.crash_at_work(gateway)
            crashes["at work"] += 1
            torn = journal_files.tear(self.journal, self.drawn) if self.drawn.random() < 0.2 else 0
        gateway = self.restart(torn)
        self.over.set()
        for caller in callers:
            caller.join()
        self.assertEqual(self.failures, [])
        self.audit(gateway, self.asked)
        gateway.stop()
        gateway = self.restart(0)
        self.audit(gateway, self.asked)
        gateway.stop()
        self.check_ledger()
        result = run_once("journal", "verify", str(self.journal))
        self.assertEqual(result.returncode, 0, result)
        self.assertTrue(result.stdout.endswith(": intact\n"), result.stdout)
        self.assertGreater(journal_files.segments(self.journal)[0].stem, "0000000001", "nothing was ever cleaned")
        held = sum(asked.held for asked in self.asked)
        print(f"{dict(crashes)}; {len(self.asked)} operations, {held} held, {self.ledger.executed_again()} executed again; "
              f"{result.stdout.splitlines()[-1]}", flush=True)

    def check_ledger(self):
        self.assertGreater(len(self.asked), CRASHES)
        check_all(self, self.ledger, [each for each in self.asked if each.path != "/brief"], self.why_not_again)

    def why_not_again(self, _, earlier, later):
        """Only after a crash, which left the outcome unknown."""
        return "executed twice by one process" if earlier.generation == later.generation else None


class KilledRepair(EndToEnd):
    KEYS = 300
    ROUNDS = 12

    def make_damaged_journal(self, backend):
        """Returns the answers of all keys but the one whose record is no more."""
        gateway = self.gateway(backend, *self.settings)
        with gateway.connect() as client:
            answers = {f"k-{number}": client.ask(key=f"k-{number}") for number in range(self.KEYS)}
        gateway.stop()
        first = journal_files.segments(self.data / "journal")[0]
        outcomes = [frame for frame in journal_files.frames(first) if len(frame.payload) > 5000]
        victim = outcomes[len(outcomes) // 2]
        lost = next(key for key, answer in answers.items() if answer.body in victim.payload)
        journal_files.flip(first, victim.offset + victim.size // 2)
        del answers[lost]
        return answers

    def repair_and_kill(self, folder, drawn):
        command = [os.environ["ONCE_BINARY"], "journal", "repair", "--yes", str(folder)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        reached = drawn.choice((
            lambda: any(folder.glob("*.repair")),
            lambda: any(folder.glob("*.damaged")),
            lambda: not (folder / "0000000001.segment").exists(),
        ))
        while not reached() and process.poll() is None:
            pass
        pause = time.monotonic() + drawn.uniform(0, 0.004)
        while time.monotonic() < pause:
            pass
        process.kill()
        return process.wait()

    def test_a_repair_that_is_killed_can_be_repeated(self):
        print(f"ONCE_E2E_SEED={SEED}", flush=True)
        drawn = random.Random(SEED)
        bodies = random.Random(SEED)
        backend = self.backend(lambda _, to: to.reply(201, body=bodies.randbytes(8000)))
        self.data = self.folder()
        self.settings = (f"data_dir={self.data}", "journal.max_disk=160MiB")
        answers = self.make_damaged_journal(backend)
        journal, original = self.data / "journal", self.data / "original"
        journal.rename(original)
        endings = collections.Counter()
        while endings.total() < self.ROUNDS or endings[-9] == 0 and endings.total() < 5 * self.ROUNDS:  # it may be too quick
            shutil.rmtree(journal, ignore_errors=True)
            shutil.copytree(original, journal)
            endings[self.repair_and_kill(journal, drawn)] += 1
            for arguments in ("repair", "--yes"), ("verify",):
                result = run_once("journal", *arguments, str(journal))
                self.assertEqual(result.returncode, 0, result)
            gateway = self.gateway(backend, *self.settings)
            with gateway.connect() as client:
                for key, answer in answers.items():
                    self.assertEqual(kept_part(client.ask(key=key)), kept_part(answer), key)
            gateway.stop()
        self.assertEqual(len(backend.executions()), self.KEYS)
        self.assertGreater(endings[-9], 0, endings)


if __name__ == "__main__":
    unittest.main()
