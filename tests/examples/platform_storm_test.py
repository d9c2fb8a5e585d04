"""A storm of 502s: the gateway, the service and the database of examples/platform are killed one after the other while
agents act on their schedule and retry as skill.md tells them. In the end every act is there once, and every agent has its
answers. With PLATFORM_VARIANT=inside there is no gateway to kill."""
import collections
import json
import os
import threading
import unittest
import uuid

import services
from services import Service, ask, load_run, wait_until

platform_run = load_run("platform")
DWELLER = "00000000-0000-4000-8000-000000000001"
AGENTS = 6
ROUNDS = 2
BETWEEN = 2 * AGENTS  # answers before the next part dies
QUICK = ("defaults.lease=1s", "server.timeout=1s", "server.connect_timeout=1s", "defaults.timeouts.connect=1s")


INSIDE = os.environ.get("PLATFORM_VARIANT") == "inside"


def setUpModule():
    Storm.service = services.start(platform_run.Inside if INSIDE else platform_run.Platform, *QUICK)


class Action:
    """One key, made before the first try, and the same bytes with it each time."""

    def __init__(self, path, body=None):
        self.path = path
        self.body = body
        self.key = str(uuid.uuid4())
        self.answer = None


class Agent(threading.Thread):
    """Registers, then beats and acts, round after round."""

    def __init__(self, storm, number):
        super().__init__(daemon=True)
        self.storm = storm
        self.name = f"agent-{number}"
        self.token = None
        self.actions = []
        self.seen = collections.Counter()

    def run(self):
        try:
            self.token = json.loads(self.perform("/api/auth/agent", {"name": self.name}).body)["token"]
            while not self.storm.over.is_set():
                self.perform(f"/api/dwellers/{DWELLER}/heartbeat")
                self.perform(f"/api/dwellers/{DWELLER}/act", {"action": f"{self.name}, {len(self.actions)}"})
        except BaseException as error:
            self.storm.failures.append(error)
            raise

    def perform(self, path, body=None):
        action = Action(path, body)
        self.actions.append(action)
        wait_until(lambda: self.answered(action), 90, f"{self.name}: {path}")
        return action.answer

    def answered(self, action):
        try:
            answer = self.ask(action)
        except (OSError, EOFError):
            answer = None
        self.seen[answer.status if answer else "no answer"] += 1
        if answer and answer.status == 201:
            action.answer = answer
            return True
        if answer and answer.status not in (409, 502, 503, 504):
            raise AssertionError(f"{action.path}: {answer}")
        self.storm.over.wait(0.05)  # a little, as it is told
        return False

    def ask(self, action):
        fields = [("X-Idempotency-Key", action.key), *([("Authorization", f"Bearer {self.token}")] if self.token else [])]
        return ask(self.storm.service.ports["gateway"], "POST", action.path, fields, action.body, timeout=10)


class Storm(Service):
    def setUp(self):
        self.over = threading.Event()
        self.addCleanup(self.over.set)
        self.failures = []
        self.agents = [Agent(self, number) for number in range(AGENTS)]

    def answers(self):
        self.assertEqual(self.failures, [])
        return sum(agent.seen[201] for agent in self.agents)

    def troubles(self, kinds):
        self.assertEqual(self.failures, [])
        return sum(agent.seen[kind] for agent in self.agents for kind in kinds)

    def kill(self, part, kinds):
        """In the middle of what it does, and again only when agents have noticed."""
        seen = self.troubles(kinds)
        part.kill()
        wait_until(lambda: self.troubles(kinds) > seen, what="an agent to notice")

    def parts(self):
        """(name, what starts it again, what agents see meanwhile)"""
        database = ("database", self.service.database.restart, (409, 502, 503, 504, "no answer"))
        if INSIDE:
            return ("backend", self.service.start_backend, ("no answer",)), database
        return ("gateway", self.service.start_gateway, ("no answer",)), ("backend", self.service.start_backend, (502,)), database

    def test_every_act_happens_once_and_every_agent_has_its_answers(self):
        for agent in self.agents:
            agent.start()
        for _ in range(ROUNDS):
            for part, again, kinds in self.parts():
                done = self.answers()
                wait_until(lambda done=done: self.answers() >= done + BETWEEN, 90, f"work to be done before {part} dies")
                self.kill(getattr(self.service, part), kinds)
                again()
        done = self.answers()
        wait_until(lambda: self.answers() >= done + BETWEEN, 90, "work to be done after the storm")
        self.over.set()
        for agent in self.agents:
            agent.join(90)
        self.assertEqual(self.failures, [])
        seen = sum((agent.seen for agent in self.agents), collections.Counter())
        print(dict(seen), flush=True)
        self.check_records()
        self.check_retries()

    def records(self, table, columns):
        """(agent's name, …) of every row."""
        text = self.sql(f"SELECT u.name, {columns} FROM {table} t JOIN platform_users u ON u.id = t.user_id")
        return collections.Counter(tuple(line.split("|")) for line in text.splitlines())

    def check_records(self):
        """The same key never creates a duplicate, and nothing is lost."""
        told = {"act": collections.Counter(), "heartbeat": collections.Counter()}
        for agent in self.agents:
            for action in agent.actions[1:]:
                made = json.loads(action.answer.body)
                row = (agent.name, made["id"], *([made["action"]] if "action" in made else []))
                told[action.path.rsplit("/", 1)[1]][row] += 1
        self.assertEqual(self.records("platform_acts", "t.id, t.action"), told["act"])
        self.assertEqual(self.records("platform_heartbeats", "t.id"), told["heartbeat"])
        self.assertEqual(self.number("SELECT count(*) FROM platform_users"), AGENTS)
        keys = self.sql("SELECT key, status FROM platform_idempotency_keys").splitlines()
        wanted = [f"{action.key}|completed" for agent in self.agents for action in agent.actions]
        self.assertEqual(sorted(keys), sorted(wanted))

    def in_peace(self, agent, action):
        """None: the database took longer than it may."""
        again = agent.ask(action)
        return None if again.status == 503 else again

    def check_retries(self):
        for agent in self.agents:
            token, agent.token = agent.token, None
            for action in agent.actions:
                again = wait_until(lambda agent=agent, action=action: self.in_peace(agent, action), what="the store to answer")
                self.assertEqual((again.status, again.get("Idempotent-Replayed")), (201, "true"))
                self.assertEqual(again.body, action.answer.body)
                agent.token = token


if __name__ == "__main__":
    unittest.main()
