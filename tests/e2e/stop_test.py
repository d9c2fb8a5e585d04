"""A caller stops its keyed stream: the backend is let go, what was recorded is the answer, and nothing runs again."""
import json
import os
import secrets
import threading
import unittest

from harness import STORE, EndToEnd
from keyed_stream_test import HEAD, SHARED, Reader, chunk, event
from wire import DEADLINE, wait_until

ME = ("Authorization", "Bearer me")


def stop(gateway, key="k", of="POST", target="/v1/chat", caller=ME):
    named = [("Idempotency-Key", key)] if key else []
    return gateway.ask("DELETE", target, [*named, ("Idempotency-Stop", of), *([caller] if caller else [])])


class Endless:
    """A backend that sends an event whenever the test says so, and notices when its client has gone."""

    def __init__(self):
        self.events = threading.Semaphore(0)
        self.left = threading.Event()
        self.over = False

    def end(self):
        self.over = True
        self.events.release()

    def __call__(self, _, connection):
        connection.send(HEAD)
        number = 0
        while self.events.acquire(timeout=DEADLINE) and not self.over:
            try:
                connection.send(chunk(event(number)))
            except OSError:
                self.left.set()
                return
            number += 1
        connection.reset()


class Stops(EndToEnd):
    def start(self, *settings, **named):
        self.script = Endless()
        self.served = self.backend(self.script)
        gateway = self.gateway(self.served, *settings, **named)
        self.addCleanup(self.script.end)  # before anybody waits for a stream that has no end
        return gateway

    def read(self, gateway, **named):
        return Reader(self.connect(gateway), **named)

    def begun(self, gateway, events=2):
        reader = self.read(gateway).head()
        for _ in range(events):
            self.script.events.release()
        reader.until(sum(len(event(number)) for number in range(events)))
        return reader

    def backend_is_let_go(self):
        def gone():
            self.script.events.release()
            return self.script.left.wait(0.02)

        wait_until(gone, what="the backend to notice")

    def expect_replayed(self, gateway, prefix):
        again = gateway.ask("POST", "/v1/chat", [("Idempotency-Key", "k"), ME, ("Content-Type", "application/json")],
                            b'{"prompt": "hi"}')
        self.assertEqual((again.status, again.get("Idempotency-Status")), (200, "replayed"))
        self.assertEqual((again.get("Idempotency-Stopped"), again.get("X-Model")), ("true", "small"))
        self.assertEqual(again.body, prefix)
        self.assertEqual(len(self.served.requests), 1)

    def test_what_was_recorded_is_the_answer(self):
        settings = () if STORE else (f"data_dir={self.folder()}",)
        env = {"ONCE_SECRET": secrets.token_hex(16), **os.environ} if SHARED else None
        gateway = self.start(*settings, env=env)
        reader = self.begun(gateway)
        attached = self.read(gateway).head()
        attached.until(len(reader.body))
        stopped = stop(gateway)
        self.assertEqual((stopped.status, stopped.get("Idempotency-Stopped")), (204, "true"))
        self.assertTrue(reader.cut())
        self.assertTrue(attached.cut())
        self.backend_is_let_go()
        prefix = event(0) + event(1)
        self.assertEqual((reader.body, attached.body), (prefix, prefix))
        self.expect_replayed(gateway, prefix)
        # Once more: it is stopped already.
        self.assertEqual(stop(gateway).get("Idempotency-Stopped"), "true")
        if STORE == "memory:":
            return
        gateway.kill()
        self.expect_replayed(self.gateway(self.served, *settings, env=env), prefix)

    def test_only_the_caller_of_a_stream_stops_it(self):
        gateway = self.start()
        reader = self.begun(gateway)
        for what, answer, expected in [
                ("another caller", stop(gateway, caller=("Authorization", "Bearer you")), (404, "key-not-found")),
                ("another key", stop(gateway, key="other"), (404, "key-not-found")),
                ("another path", stop(gateway, target="/other"), (404, "key-not-found")),
                ("another method", stop(gateway, of="PATCH"), (404, "key-not-found")),
                ("no caller", stop(gateway, caller=None), (401, "caller-required")),
                ("no key", stop(gateway, key=None), (400, "key-required")),
                ("no method", stop(gateway, of="what"), (400, "bad-request")),
        ]:
            self.assertEqual((answer.status, answer.code), expected, what)
        self.assertIn("can stop it", json.loads(stop(gateway, caller=None).body)["detail"])
        self.assertFalse(json.loads(stop(gateway, of="PUT").body)["retryable"], "a method without keys")
        self.script.events.release()
        reader.until(len(event(0) + event(1) + event(2)))
        self.assertEqual(stop(gateway).status, 204)
        self.assertTrue(reader.cut())

    @unittest.skipUnless(SHARED, "one gateway has the store to itself")
    def test_another_gateway_can_stop_it(self):
        env = {"ONCE_SECRET": secrets.token_hex(16), **os.environ}
        gateway = self.start("defaults.lease=3s", env=env)
        other = self.gateway(self.served, "defaults.lease=3s", env=env)
        reader = self.begun(gateway)
        self.assertEqual(stop(other).get("Idempotency-Stopped"), "true")
        self.assertTrue(reader.cut())
        self.backend_is_let_go()
        for each in (gateway, other):
            self.expect_replayed(each, reader.body)


if __name__ == "__main__":
    unittest.main()
