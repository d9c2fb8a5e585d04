"""What the stories of chaos share: gateways on a store, trouble around them for a while, and an end in peace.

ONCE_CHAOS_SEED draws the same schedule again (the races are the kernel's), ONCE_CHAOS_SECONDS is for how long there is trouble,
ONCE_CHAOS_STORE is a name in stores.py.
"""
import os
import random
import threading
import time

import stores
from harness import EndToEnd
from world import adopt_orphans

SEED = int(os.environ.get("ONCE_CHAOS_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 32)
SECONDS = float(os.environ.get("ONCE_CHAOS_SECONDS", "10"))
STORE = os.environ.get("ONCE_CHAOS_STORE", "journal")


class Story(EndToEnd):
    def setUp(self):
        super().setUp()
        adopt_orphans()
        self.over = threading.Event()
        self.failures = []
        self.store = stores.make(STORE)
        self.store.start()
        self.addCleanup(self.store.stop)

    def surround(self, members, trouble):
        self.members = members
        self.trouble = trouble
        self.addCleanup(trouble.leave)
        for member in members:
            self.addCleanup(member.stop)
            member.start()

    def broken(self):
        """Whether there is no point in going on."""
        return bool(self.failures or self.trouble.failures)

    def make_trouble(self, callers, enough):
        """Until SECONDS are over and enough() has happened: a slow machine gets more time."""
        print(f"ONCE_CHAOS_SEED={SEED} ONCE_CHAOS_SECONDS={SECONDS:g} ONCE_CHAOS_STORE={STORE}", flush=True)
        self.addCleanup(self.over.set)
        for caller in callers:
            caller.start()
        self.trouble.start()
        self.addCleanup(self.trouble.end)
        until = time.monotonic() + SECONDS
        while (time.monotonic() < until or not enough()) and not self.broken():
            self.over.wait(0.1)
        self.trouble.end()
        self.over.set()
        for caller in callers:
            caller.join(120)
        self.assertEqual((self.failures, self.trouble.failures), ([], []))

    def restart_members(self):
        for member in self.members:
            member.end()
            member.start()

    def check_store(self):
        for member in self.members:
            member.stop()
        self.store.check(self, [member.name for member in self.members])
