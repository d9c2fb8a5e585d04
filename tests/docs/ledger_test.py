"""The commands in examples/ledger/README.md are run as they stand, on a PostgreSQL of the test's own, and so is the SQL of
docs/guides/exactly-once.md."""
import os
import signal
import subprocess
import sys
import unittest

import support

sys.path.insert(0, str(support.ROOT / "tests" / "servers"))

import catalog  # noqa: E402
import server  # noqa: E402

README = support.ROOT / "examples" / "ledger" / "README.md"
PAGE = support.ROOT / "docs" / "guides" / "exactly-once.md"


class LedgerExample(unittest.TestCase):
    def setUp(self):
        self.database = catalog.make("postgres")
        self.addCleanup(self.database.stop)
        self.database.start()
        self.words = {"postgres://postgres@127.0.0.1:5432/postgres": self.database.url(), "build/release/once": support.ONCE}

    def shell(self, text):
        for word, here in self.words.items():
            text = text.replace(word, here)
        done = subprocess.run(["bash", "-ec", text], cwd=support.ROOT, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done)
        return done.stdout

    def start(self, text):
        """Commands that leave something running behind them, which ends with the test."""
        ports = {"9000": server.free_port(), "8080": server.free_port()}
        self.words |= {"127.0.0.1:8080": f"127.0.0.1:{ports['8080']}"}
        for word, here in self.words.items():
            text = text.replace(word, here)
        # The ports of the example may be taken on this machine.
        text = text.replace("ledger.py --database", f"ledger.py --port {ports['9000']} --database")
        text = text.replace("--config", f"--listen 127.0.0.1:{ports['8080']} --admin off "
                                        f"--set upstreams.default=http://127.0.0.1:{ports['9000']} --config")
        process = subprocess.Popen(["bash", "-ec", text + "\nwait"], cwd=support.ROOT, start_new_session=True,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(os.killpg, process.pid, signal.SIGTERM)

    def test_the_commands_of_the_readme_book_one_transfer(self):
        start, ask, look = [text for _, text in support.blocks(README, "sh")]
        self.start(start)
        first = server.wait_until(lambda: self.booked(ask), "a transfer to be booked")
        again = self.shell(ask)
        self.assertIn("Idempotency-Status: replayed", again)
        self.assertEqual(first.split("\n\n")[-1], again.split("\n\n")[-1])
        self.assertIn("(1 row)", self.shell("DATABASE=" + self.database.url() + "\n" + look))

    def booked(self, ask):
        """The answer, once everything that was started listens."""
        try:
            answer = self.shell(ask)
        except AssertionError:
            return None
        return answer if answer.startswith("HTTP/1.1 201") else None

    def test_the_claim_of_a_worker_is_given_as_the_page_says(self):
        (_, statement), = support.blocks(PAGE, "sql")
        row = self.database.sql(statement).split("|")
        self.assertEqual((row[0], row[2]), ("execute", "1"))
        self.assertEqual(self.database.sql(statement).split("|")[0], "in_flight")
        self.database.sql(f"SELECT once_finish('{row[1]}', 200, '{{}}', 'sent')")
        again = self.database.sql(statement).split("|")
        self.assertEqual((again[0], again[4], again[6]), ("replay", "200", "\\x73656e74"))


if __name__ == "__main__":
    unittest.main()
