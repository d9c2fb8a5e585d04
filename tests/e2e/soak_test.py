"""Minutes of keys that expire soon, and a few that do not: the journal's files and the memory stay as they are.

ONCE_E2E_SECONDS makes it shorter or longer; below half a minute there is nothing to see.
"""
import os
import random
import threading
import time
import unittest

import journal_files
from harness import EndToEnd, bounded_quarantine, kept_part
from wire import wait_until

SECONDS = float(os.environ.get("ONCE_E2E_SECONDS", "60"))
CLIENTS = 4
SAMPLES = 40
MIB = 1 << 20
LIVES = 5 + 1 + 6  # seconds; see check_disk()

CONFIG = """
journal: {segment_size: 1MiB, segment_age: 1s, cache: 1MiB, max_disk: 256MiB}
defaults: {lease: 1s, takeover_after: 1s}
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
                    answer = client.ask("POST", path, key=key)
                    self.assertEqual(answer.status, 201)
                    if path == "/kept":
                        self.kept[key] = answer
                    elif drawn.random() < 0.1:
                        self.assertEqual(kept_part(client.ask("POST", path, key=key)), kept_part(answer))
                    self.pace.wait(0.002)
        except BaseException as error:
            self.failures.append(error)
            raise

    def sample(self):
        metrics = self.serving.metrics()
        return {"at": time.monotonic(), "written": metrics["once_journal_written_bytes_total"],
                "du": journal_files.disk_bytes(self.data / "journal"), "disk": metrics["once_journal_disk_bytes"],
                "resident": self.serving.resident_bytes(), "records": metrics["once_store_records"]}

    def check_disk(self, samples, name):
        """What was written before the last moments is gone, however much the machine lets through in a moment: the longest
        of the short keys, the age of a segment, and a while to clean up. The keys that stay are a few megabytes; the rest is
        a segment or two."""
        for number, sample in enumerate(samples):
            earlier = [each for each in samples[:number] if each["at"] < sample["at"] - LIVES]
            if earlier:
                recent = sample["written"] - earlier[-1]["written"]
                self.assertLessEqual(sample[name], recent + 8 * MIB, [each[name] for each in samples])

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
        self.kept, self.failures = {}, []
        self.over, self.pace = threading.Event(), threading.Event()
        self.addCleanup(self.over.set)
        begun = time.monotonic()
        clients = [threading.Thread(target=self.load, args=(number,), daemon=True) for number in range(CLIENTS)]
        for client in clients:
            client.start()
        samples = []
        for number in range(SAMPLES):
            wait_until(lambda: time.monotonic() - begun >= SECONDS * (number + 1) / SAMPLES or self.failures, SECONDS)
            samples.append(self.sample())
        self.over.set()
        for client in clients:
            client.join()
        self.assertEqual(self.failures, [])
        self.check_disk(samples, "du")
        self.check_disk(samples, "disk")
        self.check_flat(samples, "resident", 48 * MIB)
        for sample in samples:
            self.assertAlmostEqual(sample["du"], sample["disk"], delta=3 * MIB)
        metrics = self.serving.metrics()
        written, used = metrics["once_journal_written_bytes_total"], samples[-1]["du"]
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
