"""A clock that a test moves forward, for gateways and servers, so that timeouts, leases and expiry need no waiting.

Give such tests limits of minutes: the test decides when they run out, and a machine that pauses for seconds changes nothing.
"""
import os
import struct

from wire import wait_until


class MovedClock:
    """Moves the wall clock and the timers of every gateway started with environment(), and the wall clock of a server that
    reads the same file."""

    def __init__(self, path):
        self.path = path
        if not path.exists():
            path.write_bytes(struct.pack("=q", 0))

    def environment(self):
        """For the process of a gateway. ONCE_SKEWED_CLOCK is the library built from tests/servers/skewed_clock.cpp."""
        return {"LD_PRELOAD": os.environ["ONCE_SKEWED_CLOCK"], "ONCE_CLOCK_SKEW_FILE": str(self.path),
                "ONCE_CLOCK_SKEW_TIMERS": "1"}

    def advance(self, seconds):
        skew = struct.unpack("=q", self.path.read_bytes())[0] + int(seconds * 1000)
        with open(self.path, "r+b") as file:
            file.write(struct.pack("=q", skew))

    def advance_until(self, predicate, seconds, what="the condition"):
        """Moves it again and again, so that a timer that is armed late runs out, too."""
        def moved():
            self.advance(seconds)
            return predicate()

        return wait_until(moved, what=what)
