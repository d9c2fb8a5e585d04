"""The conformance suite of Durable Streams through Once gives what it gives without Once, test by test.

The reference server fails some tests of its own suite, so what counts is the difference, not that all is green. The tests of
subscriptions are off: the server tells its own address in the URLs of callbacks and keys, behind any proxy.

Some tests wait for seconds to pass, and a busy machine may be late. What differs is run again alone, on both sides, with
fresh servers, up to twice; only what differs each time is a difference.
"""
import unittest

import reference
from harness import EndToEnd

CONFIG = "routes: [{path: /v1/stream/**, dialect: streams}]\n"
SEED = 20240613
RUNS_AGAIN = 2


class Streams(EndToEnd):
    """A gateway in front of a reference server of its own."""

    @classmethod
    def setUpClass(cls):
        cls.packages = reference.install()

    def reference(self):
        server = reference.Reference(self.packages)
        self.addCleanup(server.stop)
        return server

    def through(self, server):
        return self.gateway(server, config=CONFIG)


class Suite(Streams):
    def setUp(self):
        super().setUp()
        self.reports = {side: self.packages / f"{side}.json" for side in ("direct", "through-once")}

    def run_direct(self, names=()):
        return reference.run_suite(self.packages, self.reference().port, SEED, self.reports["direct"], names)

    def run_through_once(self, names=()):
        gateway = self.through(self.reference())
        found = reference.run_suite(self.packages, gateway.port, SEED, self.reports["through-once"], names)
        gateway.stop()
        return found

    def run_again(self, tests):
        """What still differs of these."""
        names = {name for name, _ in tests}
        direct, through = self.run_direct(names), self.run_through_once(names)
        not_run = [test for test in tests if direct[test] == through[test] == "skipped"]
        self.assertEqual(not_run, [], "what is not run again is not the same")
        return {test: ends for test, ends in differences(direct, through).items() if test in tests}

    def test_every_test_ends_as_it_does_without_once(self):
        direct, through = self.run_direct(), self.run_through_once()
        self.assertEqual(direct.keys(), through.keys())
        passed = sum(status == "passed" for status in direct.values())
        self.assertGreater(len(direct), 300)
        self.assertGreater(passed, 0.9 * len(direct))

        differ = differences(direct, through)
        for _ in range(RUNS_AGAIN):
            differ = differ and self.run_again(differ)
        if differ:
            lines = [f"{name}: {alone} direct, {proxied} through Once" for (name, _), (alone, proxied) in differ.items()]
            self.fail("\n".join([*lines, "why:", *map(str, self.reports.values())]))


def differences(direct, through):
    return {test: (direct[test], through[test]) for test in direct if direct[test] != through[test]}


if __name__ == "__main__":
    unittest.main()
