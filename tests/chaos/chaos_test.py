"""Two gateways in front of one backend, and everything that can go wrong does, at drawn moments: gateways are killed,
stopped for longer than they may wait, told to end, replaced by successors that die; clocks step forwards and back, disks and
memory are full, descriptors run out; the backend dies before and after the effect; the network between them stalls, delays,
cuts and refuses; clients go away. In the end every promise is checked.
"""
import collections
import random
import threading
import time
import unittest

import faults
from ledger import Asked, check_all, check_retry
from story import SEED, Story
from world import CLOCK, TAKEOVER_AFTER, FencedBackend, Member
from wire import Client, wait_until

CLIENTS = 8
LEAST = 100  # operations
PATIENCE = 90.0  # of a client with one request; what is held or taken over takes a few seconds


class Caller(threading.Thread):
    """Asks for one thing after the other, each until it has an answer or knows that there will be none."""

    def __init__(self, story, number):
        super().__init__(daemon=True)
        self.story = story
        self.name = f"caller-{number}"
        self.drawn = random.Random(f"{SEED} {self.name}")
        self.asked = []
        self.statuses = collections.Counter()
        self.gone = 0  # how often it went away without waiting for an answer
        self.replays = 0
        self.clients = {}

    def run(self):
        try:
            while not self.story.over.is_set():
                path = self.drawn.choice(("/hold", "/hold", "/retry", "/patient", "/takeover"))
                # Other callers send the very same keys and bodies, and mean things of their own.
                key = f"key-{len(self.asked)}"
                same = random.Random(f"{SEED} {path} {key}")
                asked = Asked(path, key, same.randbytes(same.randint(0, 300)), self.name)
                wait_until(lambda asked=asked: self.settled(asked), PATIENCE, asked.operation)
                self.asked.append(asked)
                if self.drawn.random() < 0.3:
                    again = self.drawn.choice(self.asked)
                    wait_until(lambda again=again: self.told_again(again), PATIENCE, again.operation)
        except BaseException as error:
            self.story.failures.append(error)
            raise
        finally:
            for client, _ in self.clients.values():
                client.close()

    def ask(self, asked):
        """None if there was no answer, for whatever reason."""
        member = self.story.member_for(asked)
        port = member.port
        if port is None:
            self.story.over.wait(0.02)
            return None
        client, known = self.clients.pop(member.name, (None, None))
        try:
            if known != port:
                if client:
                    client.close()
                    client = None  # nobody may be there to connect to
                client = Client(port)
            # Sometimes it gives up before an answer can be expected.
            hasty = self.drawn.random() < 0.08
            client.sock.settimeout(self.drawn.uniform(0, 0.02) + 0.001 if hasty else self.drawn.uniform(1, 6))
            request_id = f"{self.name}-{self.story.number()}"
            asked.sent[request_id] = time.time()
            fields = [("Authorization", self.name), ("X-Request-Id", request_id)]
            response = client.ask("POST", asked.path, fields, key=asked.key, body=asked.body)
            self.clients[member.name] = client, port
            return response
        except (OSError, EOFError):
            self.gone += 1
            if client:
                self.drawn.choice((client.close, client.reset))()
            return None

    def settled(self, asked):
        response = self.ask(asked)
        if response is None:
            return self.story.broken()
        self.statuses[response.status] += 1
        if response.status == 201:
            asked.settle(response)
            return True
        if self.story.lost_body(asked, response):
            return True
        if response.status in (409, 502, 503, 504):
            # After a 503 the gateway goes on trying to record the outcome, so it may still become known.
            asked.held = response.code == "outcome-unknown" and response.status != 503 and asked.path == "/hold"
        elif response.status != 500 or int(response.get("X-Fence")) <= 0:
            raise AssertionError(f"{asked.operation}: {response}")
        if not asked.held:
            self.story.over.wait(self.drawn.uniform(0, 0.05))
        return asked.held or self.story.broken()

    def told_again(self, asked):
        if asked.answer is None and self.story.store.shared:
            return self.settled(asked)  # its owner only stood still, perhaps, and has ended it since
        response = self.ask(asked)
        if response is None or response.status == 503:
            return self.story.broken()
        self.story.lost_body(asked, response)
        check_retry(self.story, asked, response)
        self.replays += 1
        return True


class Chaos(Story):
    def setUp(self):
        super().setUp()
        self._count = 0
        self._lock = threading.Lock()
        self.ledger = FencedBackend(SEED, self.store)
        self.server = self.backend(self.ledger)
        members = [Member(self, name, SEED) for name in "ab"]
        self.surround(members, faults.Trouble(members, self.ledger, self.store, SEED))

    def number(self):
        with self._lock:
            self._count += 1
            return self._count

    def member_for(self, asked):
        """The same for a key, always, if the gateways share nothing."""
        if self.store.shared:
            return random.choice(self.members)
        return self.members[sum(asked.key.encode()) % len(self.members)]

    def lost_body(self, asked, response):
        """Whether that is all that is known of it: only what was executed while the disk was full is recorded like that."""
        if response.status == 409 and response.code == "response-not-kept" and self.trouble.disk_was_full(self.member_for(asked), asked):
            asked.bodiless = True
        return asked.bodiless

    def why_not_again(self, asked, earlier, later):
        began = asked.sent[earlier.request_id]
        passed = later.arrived - began + self.clock_of(later).gained(began, later.arrived)
        if asked.path == "/takeover" and passed < TAKEOVER_AFTER - 0.05:
            return f"taken over after {passed:.3f} s"
        # What is shared is taken over when its owner is in trouble; otherwise nobody else has it, whoever died.
        other_life = not self.store.shared and later.generation != earlier.generation
        if earlier.disturbed or other_life or self.trouble.met(earlier, began):
            return None
        return "executed again for no reason"

    def clock_of(self, execution):
        """That decided about it: the store's own, if it is shared, else that of the gateway that asked."""
        if self.store.shared:
            return self.store.clock
        return next(member.clock for member in self.members if member.name == execution.generation[0])

    def audit(self, asked):
        """By one client for each gateway, in peace."""
        clients = {member.name: Client(member.port) for member in self.members}
        for client in clients.values():
            self.addCleanup(client.close)
        for each in asked:
            response = wait_until(lambda each=each: self.told_by(clients[self.member_for(each).name], each))
            self.lost_body(each, response)
            check_retry(self, each, response)

    def told_by(self, client, asked):
        """None while the store is not back, or while an owner that stood still is at work again."""
        response = client.ask("POST", asked.path, [("Authorization", asked.caller)], key=asked.key, body=asked.body)
        if asked.held and self.store.shared and response.status == 201:
            asked.settle(response)
            return None
        revived = asked.held and self.store.shared and response.code == "in-flight"
        return None if response.status == 503 or revived else response

    def test_every_promise_holds_whatever_goes_wrong(self):
        print("clocks jump" if CLOCK else "clocks do not jump: ONCE_SKEWED_CLOCK is not set")
        callers = [Caller(self, number) for number in range(CLIENTS)]
        self.make_trouble(callers, lambda: sum(len(caller.asked) for caller in callers) >= LEAST)
        asked = [each for caller in callers for each in caller.asked]
        for _ in range(2):
            self.audit(asked)
            self.restart_members()
        wait_until(self.ledger.idle, what="the backend to be done with what nobody waits for any more")
        check_all(self, self.ledger, asked, self.why_not_again, self.store.shared)
        self.check_store()
        self.report(callers, asked)

    def report(self, callers, asked):
        statuses = sum((caller.statuses for caller in callers), collections.Counter())
        print(f"faults {dict(sorted(self.trouble.counts.items()))}")
        print(f"{len(asked)} operations in {self._count} requests, {sum(each.held for each in asked)} held, "
              f"{sum(each.bodiless for each in asked)} without their bodies, "
              f"{self.ledger.executed_again()} executed again, {sum(caller.replays for caller in callers)} told again "
              f"in trouble, {sum(caller.gone for caller in callers)} times without an answer, "
              f"{self.ledger.stale} late requests fenced off; statuses {dict(sorted(statuses.items()))}", flush=True)


if __name__ == "__main__":
    unittest.main()
