"""The journal from outside: what survives which end of the process, and what it says when it is damaged."""
import os
import random
import re
import unittest

import journal_files
from harness import EndToEnd, Gateway, kept_part, run_once
from wire import wait_until

MIB = 1 << 20


def answer_of_random_bytes(size, seed=1):
    drawn = random.Random(seed)
    return lambda _, to: to.reply(201, [("Content-Type", "application/octet-stream")], drawn.randbytes(size))


class JournalTest(EndToEnd):
    def setUp(self):
        super().setUp()
        self.data = self.folder()
        self.journal = self.data / "journal"

    def start(self, backend, *settings, **named):
        """On the same folder each time."""
        return self.gateway(backend, f"data_dir={self.data}", *settings, **named)

    def refused_start(self, backend, *settings):
        """What it says, and its exit code."""
        options = [part for setting in (f"data_dir={self.data}", *settings) for part in ("--set", setting)]
        gateway = Gateway("--upstream", f"http://127.0.0.1:{backend.port}", *options)
        code = gateway.wait()
        text = gateway.stderr
        gateway.stop(expect=code)
        return code, text

    def ask_all(self, gateway, keys):
        with gateway.connect() as client:
            return {key: client.ask(key=key) for key in keys}

    def check_replayed(self, gateway, answers, not_kept=()):
        for key, answer in self.ask_all(gateway, answers).items():
            self.assertEqual(answer.get("Idempotency-Status"), "replayed", (key, answer.status))
            if key in not_kept:
                self.assertEqual((answer.status, answer.code), (409, "response-not-kept"))
            else:
                self.assertEqual(kept_part(answer), kept_part(answers[key]), key)

    def fill(self, gateway, prefix="k", most=1000):
        """New keys until one is refused. Returns the answers to the others, and the refusal."""
        answers = {}
        with gateway.connect() as client:
            for number in range(most):
                answer = client.ask(key=f"{prefix}-{number}")
                if answer.status != 201:
                    return answers, answer
                answers[f"{prefix}-{number}"] = answer
        raise AssertionError("it never was full")

    def not_kept(self, gateway, answers):
        """The last ones before it was full: there was room left for what became of them, and none for their bodies."""
        dropped = int(gateway.metrics()["once_store_bodies_dropped_total"])
        self.assertLessEqual(dropped, 2)
        return list(answers)[len(answers) - dropped:]

    def check_full(self, refusal):
        self.assertEqual((refusal.status, refusal.code), (503, "store-full"))
        self.assertGreaterEqual(int(refusal.get("Retry-After")), 1)
        self.assertIs(refusal.problem["retryable"], True)

    def verify(self):
        return run_once("journal", "verify", str(self.journal))


class Restarts(JournalTest):
    def test_answers_survive_an_orderly_end_and_a_kill(self):
        backend = self.backend(answer_of_random_bytes(500))
        keys = [f"k-{number}" for number in range(20)]
        gateway = self.start(backend)
        answers = self.ask_all(gateway, keys)
        for end in (Gateway.stop, Gateway.kill, Gateway.kill, Gateway.stop):
            end(gateway)
            gateway = self.start(backend)
            self.check_replayed(gateway, answers)
        self.assertEqual(len(backend.executions()), len(keys))
        self.assertEqual(gateway.ask(key="k-1", body=b"another").status, 422)

    def test_what_was_read_is_logged(self):
        backend = self.backend(answer_of_random_bytes(1000))
        for first in (0, 25):
            gateway = self.start(backend)
            self.ask_all(gateway, [f"k-{number}" for number in range(first, first + 25)])
            gateway.kill()
        gateway = self.start(backend)
        line = next(line for line in gateway.log_lines() if line["message"] == "the journal was read")
        self.assertEqual((line["level"], line["keys"], line["segments"]), ("info", 50, 2))
        self.assertGreater(line["bytes"], 50_000)
        self.assertLess(line["took_ms"], 10_000)
        self.assertEqual(gateway.metrics()["once_store_records"], 50)


class ClaimsInFlight(JournalTest):
    def crashed_claim(self, *settings, **named):
        """A gateway that died while a request was at the backend, and the next one."""
        go = self.gate()
        backend = self.backend(lambda request, to: (request.get("Idempotency-Attempt") != "1" or go.wait())
                               and to.reply(201, body=b"attempt " + request.get("Idempotency-Attempt").encode()))
        gateway = self.start(backend, *settings, **named)
        with gateway.connect() as client:
            client.send_request(key="k")
            wait_until(lambda: backend.executions())
            gateway.kill()
        return backend, self.start(backend, *settings, **named)

    def check_unknown(self, answer, retryable):
        self.assertEqual((answer.status, answer.code), (409, "outcome-unknown"))
        self.assertEqual((answer.get("Idempotency-Status"), answer.problem["retryable"]), ("unknown", retryable))

    def test_held_it_stays_unknown_over_every_restart(self):
        backend, gateway = self.crashed_claim()
        self.check_unknown(gateway.ask(key="k"), retryable=False)
        self.assertEqual(gateway.ask(key="k", body=b"another").status, 422)
        gateway.kill()
        self.check_unknown(self.start(backend).ask(key="k"), retryable=False)
        self.assertEqual(len(backend.executions()), 1)


class TwoProcesses(JournalTest):
    def test_the_second_is_told_who_has_it(self):
        backend = self.backend()
        gateway = self.start(backend)
        gateway.ask(key="k")
        code, text = self.refused_start(backend)
        self.assertEqual(code, 1)
        self.assertIn(f"is in use by process {gateway.process.pid}", text)
        for command in (["verify"], ["repair", "--yes"]):
            result = run_once("journal", *command, str(self.journal))
            self.assertEqual(result.returncode, 2, result)
            self.assertIn(str(gateway.process.pid), result.stderr)
        self.assertEqual(gateway.ask(key="k").get("Idempotency-Status"), "replayed")
        self.assertEqual(gateway.ask(key="other").status, 201)
        gateway.stop()
        self.assertEqual(self.verify().returncode, 0)

    def test_the_second_is_kept_out_when_the_lock_file_was_deleted(self):
        backend = self.backend()
        gateway = self.start(backend)
        gateway.ask(key="k")
        (self.journal / "lock").unlink()
        code, text = self.refused_start(backend)
        self.assertEqual(code, 1)
        self.assertIn("is in use by another process", text)
        self.assertEqual(run_once("journal", "repair", "--yes", str(self.journal)).returncode, 2)
        self.assertEqual(gateway.ask(key="k").get("Idempotency-Status"), "replayed")


class Damage(JournalTest):
    KEYS = 120
    SETTINGS = ("journal.max_disk=160MiB",)

    def damaged(self, backend):
        """A byte in the middle of a sealed segment is wrong. Returns its file, the place of the record, and the answers
        of the keys whose records are not there."""
        gateway = self.start(backend, *self.SETTINGS)
        answers = self.ask_all(gateway, [f"k-{number}" for number in range(self.KEYS)])
        gateway.stop()
        sealed = journal_files.segments(self.journal)[0]
        outcomes = [frame for frame in journal_files.frames(sealed) if len(frame.payload) > 10_000]
        victim = outcomes[len(outcomes) // 2]
        lost = next(key for key, answer in answers.items() if answer.body in victim.payload)
        journal_files.flip(sealed, victim.offset + victim.size // 2)
        del answers[lost]
        return sealed, victim.offset, answers

    def test_it_is_refused_told_repaired_and_the_rest_kept(self):
        backend = self.backend(answer_of_random_bytes(20_000))
        sealed, offset, answers = self.damaged(backend)
        place = f"{sealed}, offset {offset}"
        before = {path.name: path.read_bytes() for path in journal_files.segments(self.journal)}
        code, text = self.refused_start(backend, *self.SETTINGS)
        self.assertEqual(code, 1)
        self.assertIn(place, text)
        self.assertIn("once journal repair", text)
        found = self.verify()
        self.assertEqual(found.returncode, 1)
        self.assertRegex(found.stdout, rf"{re.escape(sealed.name)} .*DAMAGED\n  offset {offset}: ")
        # Neither of them, nor a repair that nobody confirmed, has changed anything.
        result = run_once("journal", "repair", str(self.journal))
        self.assertEqual(result.returncode, 2)
        self.assertIn("--yes", result.stderr)
        self.assertEqual({path.name: path.read_bytes() for path in journal_files.segments(self.journal)}, before)
        repaired = run_once("journal", "repair", "--yes", str(self.journal))
        self.assertEqual(repaired.returncode, 0, repaired)
        self.assertIn(f"offset {offset}", repaired.stdout)
        self.assertEqual((self.journal / f"{sealed.name}.damaged").read_bytes(), before[sealed.name])
        self.assertEqual(self.verify().returncode, 0)
        gateway = self.start(backend, *self.SETTINGS)
        self.check_replayed(gateway, answers)
        self.assertEqual(len(backend.executions()), self.KEYS)
        # New fences are above all that were ever given out.
        self.assertEqual(gateway.ask(key="new").status, 201)
        fences = [int(request.get("Idempotency-Fence")) for request in backend.executions()]
        self.assertGreater(fences[-1], max(fences[:-1]))

    def test_an_end_that_was_cut_off_is_told_if_it_is_known(self):
        backend = self.backend()
        for stop, code, words in ((Gateway.stop, 1, "bytes are missing"), (Gateway.kill, 0, "did not stop cleanly")):
            self.data = self.folder()
            self.journal = self.data / "journal"
            gateway = self.start(backend)
            for number in range(20):
                gateway.ask(key=f"k-{number}")
            stop(gateway)
            last = journal_files.segments(self.journal)[-1]
            records = [frame for frame in journal_files.frames(last) if frame.payload[0] == 1]
            os.truncate(last, records[-10].offset)
            result = self.verify()
            self.assertEqual((result.returncode, words in result.stdout), (code, True), result)

    def test_there_is_no_journal(self):
        for command in (["verify"], ["repair", "--yes"]):
            result = run_once("journal", *command, str(self.data / "nothing"))
            self.assertEqual(result.returncode, 2, result)
            self.assertIn("nothing", result.stderr)
            self.assertFalse((self.data / "nothing").exists())
            (self.data / "other").mkdir(exist_ok=True)
            result = run_once("journal", *command, str(self.data / "other"))
            self.assertEqual((result.returncode, "there is no journal in" in result.stderr), (2, True), result)
            self.assertEqual(list((self.data / "other").iterdir()), [])


if __name__ == "__main__":
    unittest.main()
