"""examples/agents: the good and the bad client against a backend that fails before and after the effect."""
import collections
import json
import os
import re
import subprocess
import unittest

from session import ROOT, LossyLine, Session, kept_for, load
from wire import Client

from stage import Stage

CLIENT = ROOT / "examples" / "agents" / "client.mjs"
FIRST_BACKOFF_MS, LONGEST_BACKOFF_MS = 50, 1000
ROBIN = [("X-Platform-Id", "acme"), ("X-Agent-Id", "robin")]


class NewcomerTest(Session, unittest.TestCase):
    name, usual = "agents", {"once": 8080, "backend": 9000}

    def test_a_binary_that_is_not_there_is_said_in_one_line(self):
        runs = sorted(ROOT.glob("examples/*/run"))
        self.assertEqual(len(runs), 6)
        for run in runs:
            for wrong in ("/nope", str(ROOT), __file__):
                env = {**os.environ, "ONCE_BINARY": wrong, "IDEMPOTENCY_SECRET": "0123456789abcdef0123456789abcdef"}
                with self.subTest(example=run.parent.name, binary=wrong):
                    done = subprocess.run([run, "--free-ports"], env=env, capture_output=True, text=True, timeout=60)
                    self.assertEqual((done.returncode, done.stderr),
                                     (1, f"ONCE_BINARY is {wrong}, and that is no program that can be run\n"))


class Agents(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stage = Stage(free_ports=True)
        cls.addClassCleanup(cls.stage.__exit__)
        cls.ports = load("agents").Agents(cls.stage).ports

    def ask(self, *args, port="once", **named):
        with Client(self.ports[port]) as client:
            return client.ask(*args, **named)

    def faults(self, *faults):
        self.ask("POST", "/faults", body=json.dumps(faults).encode(), port="backend")

    def made(self, title):
        """How many tasks of that title there are."""
        return collections.Counter(task["title"] for task in json.loads(self.ask("GET", "/tasks").body))[title]

    def send(self, which, title, port=None, platform="acme", agent="robin"):
        """(what it said of the task, what it said of each try)"""
        program = [os.environ["ONCE_AGENT"]] if which == "c++" else ["node", str(CLIENT), which]
        url = f"http://127.0.0.1:{port or self.ports['once']}/tasks"
        done = subprocess.run([*program, url, title, platform, agent], capture_output=True, text=True, timeout=100)
        return done.stdout.strip(), done.stderr.splitlines()


class FailureTest(Agents):
    def test_a_failure_before_the_effect_is_retried_and_made_once(self):
        for which in ("good", "c++"):
            self.faults("before", "before")
            said, tries = self.send(which, f"before {which}")
            self.assertRegex(said, "^made")
            self.assertEqual((len(tries), self.made(f"before {which}")), (3, 1))

    def test_a_failure_after_the_effect_makes_a_duplicate_with_the_bad_client_only(self):
        for which, tasks in (("good", 1), ("c++", 1), ("bad", 2)):
            self.faults("after")
            said, _ = self.send(which, f"after {which}")
            self.assertEqual(self.made(f"after {which}"), tasks)
            self.assertRegex(said, "^made task" if which == "bad" else "nobody knows")

    def test_an_answer_that_is_lost_on_its_way_to_the_client_is_replayed_to_the_good_one(self):
        for which, tasks in (("good", 1), ("c++", 1), ("bad", 3)):
            line = LossyLine(self.ports["once"], lost=2)
            self.addCleanup(line.stop)
            said, tries = self.send(which, f"lost {which}", port=line.port)
            self.assertRegex(said, "^made before" if which == "c++" else "^made task")
            self.assertEqual((len(tries), self.made(f"lost {which}")), (3, tasks))

    def test_the_good_client_keeps_its_key_and_the_bad_one_does_not(self):
        for which, keys in (("good", 1), ("bad", 3)):
            self.faults("before", "before")
            _, tries = self.send(which, f"keys {which}")
            self.assertEqual(len({re.search("key (.*)", line)[1] for line in tries}), keys)


class RulesTest(Agents):
    def test_a_key_belongs_to_platform_and_agent(self):
        callers = [("acme", "robin"), ("acme", "kim"), ("umbrella", "robin"), ("a:b", "c"), ("a", "b:c")]
        for platform, agent in callers:
            fields = [("X-Platform-Id", platform), ("X-Agent-Id", agent)]
            first, again = (self.ask("POST", "/tasks", fields, b'{"title": "scope"}', key="same") for _ in range(2))
            self.assertEqual([first.status, again.status], [201, 201])
            self.assertEqual([first.get("Idempotency-Replayed"), again.get("Idempotency-Replayed")], [None, "true"])
            self.assertEqual(first.body, again.body)
        self.assertEqual(self.made("scope"), len(callers))

    def test_a_new_key_executes_and_the_old_one_still_answers(self):
        first = self.ask("POST", "/tasks", ROBIN, b'{"title": "K"}', key="K")
        other = self.ask("POST", "/tasks", ROBIN, b'{"title": "K"}', key="K'")
        again = self.ask("POST", "/tasks", ROBIN, b'{"title": "K"}', key="K")
        self.assertEqual((again.body, other.body == first.body, self.made("K")), (first.body, False, 2))
        self.assertAlmostEqual(kept_for(first), 24 * 3600, delta=60)

    def test_a_request_that_does_not_say_whose_it_is_is_refused(self):
        for missing in range(2):
            fields = [field for number, field in enumerate(ROBIN) if number != missing]
            answer = self.ask("POST", "/tasks", fields, b'{"title": "nobody"}', key="k")
            self.assertEqual((answer.status, answer.code), (401, "caller-required"))
        self.assertEqual(self.made("nobody"), 0)

    def test_a_write_that_names_no_state_is_refused(self):
        self.assertEqual(self.ask("PUT", "/users/123", [*ROBIN, ("Content-Type", "application/json")], b'{"name": "blind"}').status, 428)


if __name__ == "__main__":
    unittest.main()
