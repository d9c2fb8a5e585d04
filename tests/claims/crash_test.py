"""Workers that die and a gateway that is killed, again and again: what a worker was told stands, and there is one value a key."""
import collections
import http.client
import os
import random
import secrets
import threading
import time
import unittest

from support import Api, ClaimsTest
from wire import wait_until

WORKERS = 8
KEYS = 60
KILLS = int(os.environ.get("ONCE_CLAIMS_KILLS", "6"))


class World:
    """What the workers saw."""

    def __init__(self, api, seed):
        self.api = api
        self.drawn = random.Random(seed)
        self.lock = threading.Lock()
        self.over = threading.Event()
        self.told = {}  # key: the value whose end was acknowledged
        self.seen = collections.defaultdict(set)  # key: every value that anybody was given
        self.fences = collections.defaultdict(list)  # key: in the order in which they were handed out, as far as one worker knows
        self.mistakes = []
        self.answers = 0

    def more(self, count):
        """Returns when so many more claims were answered."""
        goal = self.answers + count
        wait_until(lambda: self.mistakes or self.answers >= goal, what=f"{count} more answers")

    def draw(self, function, *arguments):
        with self.lock:
            return getattr(self.drawn, function)(*arguments)

    def ask(self, call, *arguments, **members):
        """None: no answer, or one that says to come back."""
        try:
            answer = call(*arguments, **members)
        except (OSError, http.client.HTTPException):
            return None
        return None if answer.status == 503 else answer

    def work(self):
        try:
            while not self.over.is_set():
                self.one_piece(f"k{self.draw('randrange', KEYS)}")
        except AssertionError as mistake:
            self.mistakes.append(mistake)

    def one_piece(self, key):
        terms = {"key": key, "lease": "1s", "takeover_after": "1s", "nonce": secrets.token_hex(16)}
        claimed = self.ask(self.api.claim, wait="200ms", **terms)
        if claimed is None:
            claimed = self.ask(self.api.claim, **terms)  # the same nonce: perhaps it was made
        if claimed is None:
            return
        with self.lock:
            self.answers += 1
        if claimed["status"] == "succeeded":
            self.seen[key].add(claimed["value"])
        if claimed["status"] != "acquired":
            return
        with self.lock:
            self.fences[key].append((claimed["claim"], claimed["fence"]))
        time.sleep(self.draw("uniform", 0, 0.05))  # the work
        fate = self.draw("random")
        if fate < 0.2:
            return  # it dies
        if fate < 0.4:
            self.ask(self.api.owner, "fail", claimed["claim"])
            return
        value = secrets.token_hex(8)
        ended = self.ask(self.api.owner, "succeed", claimed["claim"], value=value)
        if ended is not None and ended.status == 200:
            with self.lock:
                if key in self.told:
                    self.mistakes.append(AssertionError(f"{key} ended twice: {self.told[key]} and {value}"))
                self.told[key] = value


class Crashes(ClaimsTest):
    def test_what_was_told_stands(self):
        seed = secrets.randbits(32)
        print(f"seed {seed}")
        gateway, api = self.start()
        world = World(Api(api.address), seed)
        workers = [threading.Thread(target=world.work) for _ in range(WORKERS)]
        for worker in workers:
            worker.start()
        for _ in range(KILLS):
            world.more(world.draw("randrange", 20, 100))
            gateway.kill()
            gateway, _ = self.start()
        world.more(100)
        wait_until(lambda: world.mistakes or len(world.told) > KEYS / 4, what="a quarter of the keys to have ended")
        world.over.set()
        for worker in workers:
            worker.join()
        self.assertEqual(world.mistakes, [])
        for key, value in world.told.items():
            self.assertEqual(api.lookup(key=key)["value"], value, key)
            self.assertLessEqual(world.seen[key], {value}, key)
        for key, given in world.fences.items():
            fences = dict(given)  # the same claim has the same fence, however often it is asked for
            self.assertEqual(len(set(fences.values())), len(fences), key)


if __name__ == "__main__":
    unittest.main()
