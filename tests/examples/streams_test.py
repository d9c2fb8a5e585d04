"""examples/streams: Idempotency-Key in front of the reference server of Durable Streams."""
import json
import re
import subprocess
import sys
import unittest

from session import ROOT, LossyLine, Session, kept_for, load, wait_until
from wire import Client

from stage import Stage

sys.path[:0] = [str(ROOT / "examples" / "streams"), str(ROOT / "tests" / "streams")]

import conform  # noqa: E402
import reference  # noqa: E402

CASES = sorted((ROOT / "examples" / "streams" / "cases").glob("*.yaml"))
JSON = [("Content-Type", "application/json")]
PRODUCER = [("Producer-Id", "p"), ("Producer-Epoch", "0"), ("Producer-Seq", "0")]
# Cases about what has nothing to do with keys, or about keys that are different.
WITHOUT_KEYS = {"keys-are-scoped-per-stream", "keys-are-case-sensitive", "a-refusal-leaves-the-key-free",
                "without-a-key-nothing-changes", "producers-pass-untouched"}


class NewcomerTest(Session, unittest.TestCase):
    name, usual = "streams", {"once": 8080}


class Streams(unittest.TestCase):
    def setUp(self):
        self.stage = Stage(free_ports=True)
        self.addCleanup(self.stage.__exit__)

    def start(self, **named):
        return load("streams").Streams(self.stage, **named)

    def ask(self, port, method, target, *args, **named):
        with Client(port) as client:
            return client.ask(method, f"/v1/stream/{target}", *args, **named)

    def messages(self, port, stream):
        return json.loads(self.ask(port, "GET", f"{stream}?offset=-1").body)


class StreamsTest(Streams):
    def results(self, port):
        url = f"http://127.0.0.1:{port}/v1/stream"
        return {name: failure for path in CASES for name, failure in conform.run_file(url, path).items()}

    def another(self, store, streams, *arguments):
        """The port of a second gateway before the same server."""
        gateway = self.stage.once(
            ROOT / "examples" / "streams" / "once.yaml", "--listen", "127.0.0.1:0", "--admin", "off", "--store", store,
            "--upstream", f"http://127.0.0.1:{streams.ports['server']}", *arguments, name="another",
            env={"ONCE_SECRET": "0123456789abcdef0123456789abcdef"})
        return int(gateway.listening["address"].rsplit(":", 1)[1])

    def test_every_case_passes_in_memory_and_the_server_alone_fails_those_about_keys(self):
        streams = self.start()
        self.assertEqual({name: failure for name, failure in self.results(streams.ports["once"]).items() if failure}, {})
        alone = self.results(streams.ports["server"])
        self.assertEqual({name for name, failure in alone.items() if not failure}, WITHOUT_KEYS)
        self.assertEqual(len(alone), 13)

    def test_every_case_passes_on_redis_and_gateways_share_their_keys(self):
        streams = self.start(store="redis")
        self.assertEqual({name: failure for name, failure in self.results(streams.ports["once"]).items() if failure}, {})
        port = self.another(streams.store.url(), streams)
        self.ask(streams.ports["once"], "PUT", "shared", JSON)
        first = self.ask(streams.ports["once"], "POST", "shared", JSON, b'{"n":1}', key="k")
        second = self.ask(port, "POST", "shared", JSON, b'{"n":1}', key="k")
        self.assertEqual([first.get("Idempotency-Replayed"), second.get("Idempotency-Replayed")], [None, "true"])
        self.assertEqual(first.get("Stream-Next-Offset"), second.get("Stream-Next-Offset"))
        self.assertEqual(self.messages(port, "shared"), [{"n": 1}])

    def test_keys_are_kept_for_a_day_or_for_as_long_as_the_server_chooses(self):
        streams = self.start()
        day, short = streams.ports["once"], self.another("memory:", streams, "--set", "defaults.ttl=2s", "--set", "defaults.lease=1s")
        self.ask(day, "PUT", "kept", JSON)
        first = self.ask(day, "POST", "kept", JSON, b'{"n":1}', key="k")
        self.assertAlmostEqual(kept_for(first), 24 * 3600, delta=60)
        self.ask(short, "POST", "kept", JSON, b'{"n":1}', key="k")
        wait_until(lambda: self.ask(short, "POST", "kept", JSON, b'{"n":1}', key="k").get("Idempotency-Replayed") is None,
                   what="the key to expire")
        self.assertEqual(len(self.messages(day, "kept")), 3)

    def test_a_runner_that_knows_not_what_is_expected_says_so(self):
        run = conform.Run("http://127.0.0.1:9/v1/stream", wire_level=True)
        for step in ({"action": "guess"}, {"action": "assert", "equals": {"left": "${nobody}", "right": ""}}):
            with self.assertRaises(conform.Failed):
                run.do(step)
        answer = conform.Answer(b"HTTP/1.1 204 No Content\r\n\r\n")
        for step in ({"expect": {"colour": "red"}}, {"expect": {"status": 200}}, {"expect": {"headers": {"a": "b"}}},
                     {"capture": {"x": "headers.a"}}):
            with self.assertRaises(conform.Failed):
                run.check("append", step, answer)


class ClientTest(Streams):
    """The protocol's own client, which repeats what got no answer, through Once."""

    def append(self, port, stream, key, message):
        """How many of its attempts failed."""
        done = subprocess.run(["node", "append.mjs", f"http://127.0.0.1:{port}/v1/stream/{stream}", key, json.dumps(message)],
                              cwd=reference.install(), capture_output=True, text=True, timeout=100)
        self.assertRegex(done.stdout, "failed", done.stderr)
        return json.loads(done.stdout)["failed"]

    def test_its_retries_append_once(self):
        once = self.start().ports["once"]
        line = LossyLine(once, lost=3)
        self.addCleanup(line.stop)
        self.ask(once, "PUT", "s", JSON)
        self.assertEqual(self.append(line.port, "s", "k", {"n": 1}), 3)
        self.assertEqual(self.append(line.port, "s", "k2", {"n": 2}), 0)
        self.assertEqual(self.messages(once, "s"), [{"n": 1}, {"n": 2}])

    def test_an_append_may_have_more_than_8_mib(self):
        streams = self.start()
        self.ask(streams.ports["once"], "PUT", "large", JSON)
        body = json.dumps({"text": "x" * (20 << 20)}).encode()
        first, again = (self.ask(streams.ports["once"], "POST", "large", JSON, body, key="k") for _ in range(2))
        self.assertEqual((first.status, again.status, again.get("Idempotency-Replayed")), (204, 204, "true"))


class ProtocolTest(Streams):
    """protocol.md is what a server behind Once does."""

    TEXT = (ROOT / "examples" / "streams" / "protocol.md").read_text()

    def test_the_text_names_what_the_gateway_answers(self):
        once = self.start().ports["once"]
        self.ask(once, "PUT", "s", JSON)
        self.ask(once, "POST", "s", JSON, b'{"n":1}', key="k")
        problem = self.ask(once, "POST", "s", JSON, b'{"n":2}', key="k")
        found = json.loads(problem.body)
        row = f"| `{found['type']}` | `{problem.code}` | {problem.status} | {found['title']} |"
        self.assertIn(row, self.TEXT, "the row for the table of errors")
        replay = self.ask(once, "POST", "s", JSON, b'{"n":1}', key="k")
        self.assertIn(f"`Idempotency-Replayed: {replay.get('Idempotency-Replayed')}`", self.TEXT)
        shortest, longest = map(int, re.search(r"MUST have (\d+) to (\d+) characters", self.TEXT).groups())
        for length, status in ((shortest - 1, 400), (shortest, 204), (longest, 204), (longest + 1, 400)):
            answer = self.ask(once, "POST", "s", JSON, b'{"n":1}', key="x" * length)
            self.assertEqual(answer.status, status, length)


class LostAckTest(Streams):
    """The server appends, and its answer does not arrive."""

    def setUp(self):
        super().setUp()
        self.server = reference.Reference(reference.install())
        self.addCleanup(self.server.stop)
        self.line = LossyLine(self.server.port, lost=0)
        self.addCleanup(self.line.stop)
        self.once = self.start(origin=self.line.port).ports["once"]

    def append(self, stream, fields=()):
        return self.ask(self.once, "POST", stream, [*JSON, *fields], b'{"n":1}', key="k")

    def test_an_answer_that_is_lost_before_once_is_never_guessed(self):
        self.ask(self.once, "PUT", "s", JSON)
        self.line.lost = 1
        self.assertEqual((self.append("s").status, self.append("s").status), (502, 409))
        again = self.append("s")
        self.assertEqual((again.status, again.code), (409, "outcome-unknown"))
        self.assertEqual(self.messages(self.server.port, "s"), [{"n": 1}])

    def test_with_a_producer_it_is_asked_again_and_appended_once(self):
        self.ask(self.once, "PUT", "produced/s", JSON)
        self.line.lost = 1
        self.assertEqual(self.append("produced/s", PRODUCER).status, 502)
        again = self.append("produced/s", PRODUCER)
        self.assertEqual((again.status, again.get("Idempotency-Status")), (204, "executed"))
        self.assertEqual(self.append("produced/s", PRODUCER).get("Idempotency-Replayed"), "true")
        self.assertEqual(self.messages(self.server.port, "produced/s"), [{"n": 1}])
        self.assertEqual(sum(request.method == "POST" for request in self.line.requests), 2)


if __name__ == "__main__":
    unittest.main()
