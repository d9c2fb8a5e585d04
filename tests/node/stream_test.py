"""streamOnce() at a real gateway, over connections that break: bytes come once, and so does the execution."""
import json
import os
import subprocess
import threading
import unittest

import package
from cutting_proxy import CuttingProxy
from harness import EndToEnd
from keyed_stream_test import HEAD, LAST, Script, chunk, event
from wire import DEADLINE, wait_until

PADDING = b": " + b"-" * 700 + b"\n"  # so that two events are more than what is compared
# Every story runs on the machine's Node; the first also on the oldest and the newest line.
OTHER_NODES = ("node18", "node24")


class Reading:
    """stream.mjs in the background."""

    def __init__(self, test, url, node="", **options):
        project = package.programs("stream.mjs")
        self.said = []
        self._process = subprocess.Popen([package.node(node), "stream.mjs", url, json.dumps(options)], cwd=project,
                                         stdout=subprocess.PIPE, text=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        test.addCleanup(self._process.wait)
        test.addCleanup(self._process.kill)

    def _read(self):
        with self._process.stdout as lines:
            for line in lines:
                self.said.append(json.loads(line))

    def of(self, what):
        return [each[what] for each in self.said if what in each]

    @property
    def data(self):
        return [each["data"] for each in self.of("event")]

    def until(self, count, what="event"):
        wait_until(lambda: len(self.of(what)) >= count or not self._reader.is_alive(), what=f"{count} of {what}")

    def ended(self):
        """The error, or how much was read."""
        self._reader.join(DEADLINE)
        return (self.of("error") or self.of("end"))[0]


def told(*numbers):
    return [f"event {number}" for number in numbers]


class Streams(EndToEnd):
    def start(self, *settings, handler=None):
        self.script = handler or Script()
        self.served = self.backend(self.script)
        self.gate_process = self.gateway(self.served, "defaults.record.stream=auto", *settings)
        self.proxy = CuttingProxy(self.gate_process.port)
        self.addCleanup(self.proxy.stop)
        self.url = self.proxy.origin + "/v1/chat"

    def test_a_client_that_is_cut_off_at_every_event_gets_each_once(self):
        for node in ("", *OTHER_NODES):
            with self.subTest(node or "the machine's"):
                self.start()
                reading = Reading(self, self.url, node)
                for number in range(6):
                    self.script.tell(PADDING + event(number))
                    reading.until(number + 1)
                    self.proxy.cut()
                self.script.tell(None)
                self.assertEqual(reading.ended(), 6 * len(PADDING + event(0)))
                self.assertEqual(reading.data, told(*range(6)))
                self.assertEqual([each["id"] for each in reading.of("event")], [str(number) for number in range(6)])
                head, = reading.of("head")
                self.assertEqual((head["status"], head["model"]), (200, "small"))
                self.assertEqual(len(self.served.requests), 1)
                self.assertIn(b"idempotency-offset: ", self.proxy.requests[-1].lower())
                self.assertGreaterEqual(len(self.proxy.requests), 6)

    def test_a_client_that_is_cut_off_at_any_byte_gets_each_once(self):
        def handler(_, connection):
            connection.send(HEAD + chunk(PADDING + event(0)) + chunk(PADDING + event(1)) + LAST)

        self.start(handler=handler)
        sizes = [*range(1, 400, 7), *range(400, 1900, 41)]
        for size in sizes:
            self.proxy.cut_after(f"cut-{size}", size)
        project = package.programs("stream.test.mjs")
        environment = {**os.environ, "ONCE_URL": self.url, "ONCE_SIZES": json.dumps(sizes),
                       "ONCE_BODY": (PADDING + event(0) + PADDING + event(1)).decode()}
        done = subprocess.run([package.node(), "--test", "--test-reporter=tap", "stream.test.mjs"], cwd=project, env=environment,
                              capture_output=True, text=True, timeout=200)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(len(self.served.requests), len(sizes))
        self.assertGreater(len(self.proxy.requests), 1.9 * len(sizes), "the largest are larger than the response")

    def test_a_silent_connection_is_replaced(self):
        self.start()
        reading = Reading(self, self.url, idleTimeoutMs=300, deadlineMs=5000)
        self.script.tell(event(0))
        wait_until(lambda: len(self.proxy.requests) >= 4, what="other connections")
        self.script.tell(event(1), None)
        self.assertEqual(reading.ended(), 2 * len(event(0)))
        self.assertEqual((reading.data, len(self.served.requests)), (told(0, 1), 1))


if __name__ == "__main__":
    unittest.main()
