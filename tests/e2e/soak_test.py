"""Keys that expire soon, and a few that do not: the journal's files and the memory stay as they are.

ONCE_E2E_SECONDS makes it longer; below twenty seconds there is nothing to see.
"""
import os
import random
import threading
import time
import unittest

import journal_files
from harness import EndToEnd, bounded_quarantine, kept_part
from wire import wait_until

SECONDS = float(os.environ.get("ONCE_E2E_SECONDS", "20"))
CLIENTS = 12  # a disk that takes long for each write takes as long for all of them
SAMPLES = 30
MIB = 1 << 20
ENOUGH = 32 * MIB  # written and gone again; a slow machine gets more time
SHORTEST = 2  # seconds
LIVES = 5 + 1 + 6  # seconds; see within()

CONFIG = """
journal: {cache: 1MiB, max_disk: 160MiB}
defaults: {lease: 1s, on_unknown: takeover, takeover_after: 1s}
routes:
  - {path: /short, ttl: 2s}
  - {path: /longer, ttl: 5s}
  - {path: /kept, ttl: 7d}
"""


# AddressSanitizer keeps what is freed until it has a quarter of a gigabyte of it.
ENVIRONMENT = bounded_quarantine(megabytes=4)


class Soak(EndToEnd):
    def load(self, number):
        """Mostly what is forgotten soon; one in a hundred stays. Some are retried."""
        drawn = random.Random(number)
        count = 0
        try:
            with self.serving.connect() as client:
                while not self.over.is_set():
                    count += 1
                    path = drawn.choices(("/short", "/longer", "/kept"), (60, 39, 1))[0]
                    if path == "/kept" and len(self.kept) >= 500:
                        path = "/short"
                    key = f"{number}-{count}"
                    asked = time.monotonic()
                    answer = client.ask("POST", path, key=key)
                    self.assertEqual(answer.status, 201)
                    if path == "/kept":
                        self.kept[key] = answer
                    elif drawn.random() < 0.1:
                        again = client.ask("POST", path, key=key)
                        if time.monotonic() < asked + SHORTEST:  # or it may have expired, on a machine that paused
                            self.assertEqual(kept_part(again), kept_part(answer))
                    self.pace.wait(0.002)
        except BaseException as error:
            self.failures.append(error)
            raise

    def measure(self):
        metrics = self.serving.metrics()
        return {"at": time.monotonic(), "written": metrics["once_journal_written_bytes_total"],
                "disk": metrics["once_journal_disk_bytes"], "du": journal_files.disk_bytes(self.data / "journal"),
                "resident": self.serving.resident_bytes()}

    def within(self, sample):
        """What was written before the last moments is gone, however much the machine lets through in a moment: the longest
        of the short keys, the age of a segment, and a while to clean up. The keys that stay are a few megabytes; the rest is
        a segment or two. What is measured is what is there."""
        earlier = [each for each in self.samples if each["at"] < sample["at"] - LIVES]
        recent = sample["written"] - (earlier[-1]["written"] if earlier else 0)
        return max(sample["du"], sample["disk"]) <= recent + 8 * MIB and abs(sample["du"] - sample["disk"]) <= 3 * MIB

    def sample(self):
        """A machine that paused cleans up when it goes on, and between two readings a segment may come or go."""
        last = None

        def good():
            nonlocal last
            last = self.measure()
            return self.within(last) or self.failures

        try:
            wait_until(good)
        except AssertionError:
            self.fail(f"more on disk than lives: {last} after {self.samples}")
        self.samples.append(last)

    def check_flat(self, samples, name, slack):
        """Its peak in the last third is not above that of the second third."""
        third = len(samples) // 3
        before, after = (max(sample[name] for sample in part) for part in (samples[third:-third], samples[-third:]))
        self.assertLessEqual(after, before + slack, [sample[name] for sample in samples])

    def test_disk_and_memory_stay_flat_and_what_lives_long_is_kept(self):
        drawn = random.Random(1)
        backend = self.backend(lambda _, to: to.reply(201, body=drawn.randbytes(drawn.randint(100, 8000))))
        backend.requests = backend.streams = Forgetful()
        self.data = self.folder()
        self.serving = self.gateway(backend, f"data_dir={self.data}", config=CONFIG, env=ENVIRONMENT)
        self.kept, self.failures, self.samples = {}, [], []
        self.over, self.pace = threading.Event(), threading.Event()
        self.addCleanup(self.over.set)
        begun = time.monotonic()
        clients = [threading.Thread(target=self.load, args=(number,), daemon=True) for number in range(CLIENTS)]
        for client in clients:
            client.start()
        while not self.failures:
            wait_until(lambda: time.monotonic() - begun >= SECONDS * (len(self.samples) + 1) / SAMPLES or self.failures, SECONDS)
            self.sample()
            last = self.samples[-1]
            enough = last["written"] > max(2 * last["du"], last["du"] + ENOUGH) and len(self.kept) > 10
            if len(self.samples) >= SAMPLES and enough or len(self.samples) == 4 * SAMPLES:
                break
        self.over.set()
        for client in clients:
            client.join()
        self.assertEqual(self.failures, [])
        self.check_flat(self.samples, "resident", 48 * MIB)
        metrics = self.serving.metrics()
        written, used = last["written"], last["du"]
        self.assertGreater(written, 2 * used)  # or nothing was shown
        for name in ("once_journal_carried_total", "once_journal_segments_dropped_total", "once_store_expired_total"):
            self.assertGreater(metrics[name], 0, name)
        self.assertEqual((metrics["once_journal_full"], metrics["once_journal_failed"]), (0, 0))
        print(f"{written / MIB:.0f} MiB written, {used / MIB:.0f} MiB used, {len(self.kept)} keys kept, "
              f"{metrics['once_journal_carried_total']:.0f} records carried", flush=True)
        self.check_kept()
        self.serving.kill()
        self.serving = self.gateway(backend, f"data_dir={self.data}", config=CONFIG)
        self.check_kept()

    def check_kept(self):
        self.assertGreater(len(self.kept), 10)
        with self.serving.connect() as client:
            for key, answer in self.kept.items():
                replay = client.ask("POST", "/kept", key=key)
                self.assertEqual(replay.get("Idempotency-Status"), "replayed")
                self.assertEqual(kept_part(replay), kept_part(answer))


class Forgetful(list):
    """The backend's notes, which nobody reads here."""

    def append(self, _):
        pass


if __name__ == "__main__":
    unittest.main()
