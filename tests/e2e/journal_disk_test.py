"""The journal on a disk that is full or broken: what is refused, what is told, and what is kept."""
import contextlib
import ctypes
import os
import signal
import subprocess
import unittest

import journal_files
from journal_test import MIB, JournalTest, answer_of_random_bytes
from wire import wait_until

CLONE_NEWNS = 0x00020000


class Full(JournalTest):
    # One address may fill all of it here.
    LIMITS = ("journal.max_disk=4MiB", "limits.address.stored_bytes=1GiB")

    def check_said(self, gateway):
        self.assertEqual(gateway.metrics()["once_journal_full"], 1)
        self.check_reported(gateway)

    def check_reported(self, gateway):
        metrics = gateway.metrics()
        self.assertGreaterEqual(metrics["once_store_full_total"], 1)
        self.assertLessEqual(metrics["once_journal_disk_bytes"], 4 * MIB)
        line = next(line for line in gateway.log_lines() if "is full" in line["message"])
        self.assertEqual(line["level"], "warn")
        self.assertIn("journal.max_disk", line["reason"])

    def test_new_keys_are_refused_and_known_ones_replayed_also_after_a_restart(self):
        backend = self.backend(answer_of_random_bytes(20_000))
        gateway = self.start(backend, *self.LIMITS)
        answers, refusal = self.fill(gateway)
        self.check_full(refusal)
        self.check_said(gateway)
        self.assertGreater(len(answers), 50)
        self.assertLessEqual(journal_files.disk_bytes(self.journal), 4.2 * MIB)
        not_kept = self.not_kept(gateway, answers)
        for _ in range(3):
            self.check_replayed(gateway, answers, not_kept)
            self.check_full(gateway.ask(key="new"))
            gateway.kill()
            gateway = self.start(backend, *self.LIMITS)
        self.assertEqual(len(backend.executions()), len(answers))

    def test_when_keys_have_expired_it_takes_new_ones_again(self):
        backend = self.backend(answer_of_random_bytes(100_000))
        clock = self.clock()
        gateway = self.start(backend, *self.LIMITS, "defaults.ttl=1h", clock=clock)
        answers, refusal = self.fill(gateway)
        self.check_full(refusal)
        self.check_reported(gateway)  # the cleaner may have found room for one more by now

        def has_room():
            metrics = gateway.metrics()
            return metrics["once_journal_segments_dropped_total"] > 0 and metrics["once_journal_full"] == 0

        clock.advance_until(has_room, seconds=3660, what="room")
        wait_until(lambda: "has room again" in gateway.stderr)
        for number in range(len(answers) // 2):  # what was written last may be there for a moment longer
            clock.advance_until(lambda number=number: gateway.ask(key=f"again-{number}").status == 201, seconds=600,
                                what="more room")

    def test_a_disk_that_is_full_for_real(self):
        """A file of somebody else takes all the space, and goes."""
        disk = self.small_disk(12 * MIB)
        self.journal = disk / "journal"
        backend = self.backend(answer_of_random_bytes(20_000))
        settings = ("journal.max_disk=160MiB", f"store=journal:{self.journal}")
        gateway = self.start(backend, *settings)
        answers = self.ask_all(gateway, [f"early-{number}" for number in range(10)])
        not_kept = self.fill_disk(disk, gateway, answers, "first")
        gateway.kill()
        (disk / "other").unlink()
        gateway = self.start(backend, *settings)
        self.check_replayed(gateway, answers, not_kept)
        # And once more, without a restart.
        not_kept += self.fill_disk(disk, gateway, answers, "second")
        (disk / "other").unlink()
        wait_until(lambda: "has room again" in gateway.stderr, what="room")
        self.assertEqual(gateway.ask(key="new").status, 201)
        self.check_replayed(gateway, answers, not_kept)
        gateway.stop()
        self.assertEqual(self.verify().returncode, 0)

    def fill_disk(self, disk, gateway, answers, prefix):
        """Takes all the space that is left, and then new keys until one is refused. Adds to the answers."""
        with open(disk / "other", "wb", buffering=0) as other, contextlib.suppress(OSError):
            while other.write(bytes(4096)) == 4096:
                pass
        late, refusal = self.fill(gateway, prefix)
        self.check_full(refusal)
        self.assertEqual(gateway.metrics()["once_journal_full"], 1)
        self.assertTrue(any("is full" in line["message"] for line in gateway.log_lines()))
        answers.update(late)
        return self.not_kept(gateway, answers)

    def small_disk(self, size):
        """A file system in memory that nobody but this test and its children can see."""
        folder = self.folder()
        if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS) != 0:
            self.skipTest(f"no namespace of its own: {os.strerror(ctypes.get_errno())}")
        for command in (["mount", "--make-rprivate", "/"],
                        ["mount", "-t", "tmpfs", "-o", f"size={size}", "once-e2e", str(folder)]):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                self.skipTest(f"may not mount: {done.stderr.strip()}")
        self.addCleanup(subprocess.run, ["umount", "--lazy", str(folder)], check=True)
        return folder


class IoError(JournalTest):
    """Nothing can be written any more. Limits of minutes show who waits for what cannot come: the test would not end."""

    SETTINGS = ("defaults.in_flight_wait=10m", "defaults.lease=30m", "timeouts.drain=10m")

    def setUp(self):
        super().setUp()
        self.go = self.gate()
        self.broken = self.data / "broken"
        self.slow_backend = self.backend(lambda request, to: (request.target != "/slow" or self.go.wait()) and to.reply(201))
        environment = {**os.environ, "LD_PRELOAD": os.environ["ONCE_FAILING_DISK"], "ONCE_DISK_FAILS": str(self.broken)}
        self.once = self.start(self.slow_backend, *self.SETTINGS, env=environment)
        # One request at the backend, and one with the same key that waits for it.
        self.owner, self.waiter = self.connect(self.once), self.connect(self.once)
        self.owner.send_request(target="/slow", key="k")
        wait_until(lambda: self.slow_backend.executions(), what="the owner to be at the backend")
        self.waiter.send_request(target="/slow", key="k")
        wait_until(lambda: self.once.metrics()["once_waiting"] == 1, what="the other to wait")

    def break_disk(self):
        self.broken.touch()
        answer = self.once.ask(key="new")
        self.assertEqual((answer.status, answer.code), (503, "store-unavailable"))

    def check_waiter(self):
        answer = self.waiter.read_response()
        self.assertEqual((answer.status, answer.code), (409, "in-flight"))

    def check_owner(self):
        self.go.set()
        answer = self.owner.read_response()
        self.assertEqual((answer.status, answer.code), (503, "outcome-unknown"))

    def test_everybody_is_told_at_once(self):
        self.break_disk()
        self.check_waiter()
        self.assertEqual(self.once.ask(target="/slow", key="k").code, "in-flight")
        self.assertEqual(self.once.admin("/readyz").body, b"store down\n")
        self.assertEqual(self.once.metrics()["once_journal_failed"], 1)
        self.check_owner()
        self.assertEqual(self.once.ask(target="/slow", key="k").code, "store-unavailable")
        lines = [line for line in self.once.log_lines() if line["message"].startswith("the journal has failed")]
        self.assertEqual([line["level"] for line in lines], ["error"])
        self.assertIn("Input/output error", lines[0]["error"])
        self.once.stop()

    def test_sigterm_waits_for_nobody_who_waits_for_the_store(self):
        self.break_disk()
        self.once.terminate()
        self.check_waiter()
        self.check_owner()
        self.once.stop()

    def test_a_successor_has_the_journal_at_once(self):
        """The disk is well again, but nobody but a new process may believe it."""
        self.break_disk()
        self.broken.unlink()
        self.assertEqual(self.once.ask(key="new").status, 503)
        self.once.process.send_signal(signal.SIGUSR2)
        successor = wait_until(lambda: self.said("successor started"))[0]["pid"]
        self.addCleanup(self.end, successor)
        wait_until(lambda: len(self.said("listening")) == 2, what="the successor to listen")
        self.assertEqual(self.once.ask(key="new").status, 201)
        answer = self.once.ask(target="/slow", key="k")
        self.assertEqual((answer.status, answer.code), (409, "outcome-unknown"))
        self.assertIsNone(self.once.process.poll(), "the request at the backend is still its")
        self.check_waiter()
        self.check_owner()
        self.assertEqual(self.once.wait(), 0)

    def said(self, message):
        return [line for line in self.once.log_lines() if line["message"] == message]

    def end(self, pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        wait_until(lambda: not os.path.exists(f"/proc/{pid}"), what="the successor to end")


class Failed(JournalTest):
    def test_it_says_so_and_refuses_until_a_restart_and_nothing_is_lost(self):
        backend = self.backend()
        broken = self.data / "broken"
        environment = {**os.environ, "LD_PRELOAD": os.environ["ONCE_FAILING_DISK"], "ONCE_DISK_FAILS": str(broken)}
        gateway = self.start(backend, env=environment)
        answers = self.ask_all(gateway, [f"k-{number}" for number in range(20)])
        broken.touch()
        answer = gateway.ask(key="first")
        self.assertEqual((answer.status, answer.code), (503, "store-unavailable"))
        wait_until(lambda: gateway.admin("/readyz").status == 503, what="a new answer")  # it is kept for a second
        self.assertEqual(gateway.admin("/readyz").body, b"store down\n", "anybody can ask, so there are no details")
        line = next(line for line in gateway.log_lines() if line["message"] == "not ready, the store is down")
        self.assertRegex(line["error"], "^the journal has failed and needs a restart: ")
        self.assertEqual(gateway.admin("/healthz").status, 200)
        self.assertEqual(gateway.metrics()["once_journal_failed"], 1)
        line = next(line for line in gateway.log_lines() if "has failed" in line["message"])
        self.assertEqual(line["level"], "error")
        self.assertIn(".segment", line["error"])
        for key in ("new", "k-1"):
            answer = gateway.ask(key=key)
            self.assertEqual((answer.status, answer.code), (503, "store-unavailable"))
            self.assertGreaterEqual(int(answer.get("Retry-After")), 1)
        self.assertEqual(gateway.ask("GET").status, 201)
        self.assertEqual(len([request for request in backend.executions() if request.method == "POST"]), 20)
        gateway.stop()
        broken.unlink()
        gateway = self.start(backend)
        self.assertEqual(gateway.admin("/readyz").status, 200)
        self.check_replayed(gateway, answers)

    def test_a_record_that_cannot_be_read_back_is_not_executed_again(self):
        backend = self.backend(answer_of_random_bytes(20_000))
        gateway = self.start(backend, "journal.cache=0")
        answers = self.ask_all(gateway, ["broken", "whole"])
        path = journal_files.segments(self.journal)[-1]
        frame = next(frame for frame in journal_files.frames(path) if answers["broken"].body in frame.payload)
        journal_files.flip(path, frame.offset + frame.size // 2)
        answer = gateway.ask(key="broken")
        self.assertEqual((answer.status, answer.code), (503, "store-unavailable"))
        self.assertIn(f"offset {frame.offset}", gateway.stderr)
        self.check_replayed(gateway, {"whole": answers["whole"]})
        self.assertEqual(len(backend.executions()), 2)


if __name__ == "__main__":
    unittest.main()
