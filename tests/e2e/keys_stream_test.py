"""What operators see of streams: the list of those that go on, a key with its stream, its body as it comes, and its stop."""
import json
import os
import subprocess
import unittest

from harness import EndToEnd, run_once
from keyed_stream_test import Reader, Script, event
from wire import DEADLINE, Client, wait_until

LARGE = b"x" * (100 << 10)


class Operators(EndToEnd):
    def start(self, *settings):
        self.script = Script()
        self.served = self.backend(self.script)
        self.audit = self.folder() / "audit.log"
        return self.gateway(self.served, f"audit_log={self.audit}", *settings)

    def begun(self, gateway, *parts):
        reader = Reader(self.connect(gateway)).head()
        for part in parts:  # each is a chunk of its own
            self.script.tell(part)
            reader.until(len(reader.body) + len(part))
        return reader

    def admin(self, gateway, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        with Client(gateway.admin_port) as client:
            response = client.ask(method, path, fields=(("Host", "localhost"), ("Once-Admin", "1")), body=data)
        return response.status, json.loads(response.body)

    def streams(self, gateway):
        status, body = self.admin(gateway, "GET", "/v1/streams")
        self.assertEqual(status, 200, body)
        return body["streams"]

    def show(self, gateway, key):
        status, body = self.admin(gateway, "GET", f"/v1/keys/{key}")
        self.assertEqual(status, 200, body)
        return body

    def stop(self, gateway, key):
        return self.admin(gateway, "POST", f"/v1/keys/{key['id']}/stop",
                          {"version": key["version"], "by": "ops", "reason": "a test"})

    def keys(self, gateway, *arguments, **named):
        return run_once("keys", arguments[0], "--admin", f"127.0.0.1:{gateway.admin_port}", *arguments[1:], **named)

    def retry(self, gateway):
        return gateway.ask("POST", "/v1/chat", [("Idempotency-Key", "k"), ("Authorization", "Bearer me"),
                                                ("Content-Type", "application/json")], b'{"prompt": "hi"}')

    def test_a_stream_is_listed_shown_and_stopped(self):
        gateway = self.start()
        self.assertEqual(self.streams(gateway), [])
        reader = self.begun(gateway, event(0), event(1))
        attached = Reader(self.connect(gateway)).head()
        attached.until(len(reader.body))
        [listed] = self.streams(gateway)
        self.assertEqual((listed["route"], listed["attempt"], listed["bytes"], listed["readers"]), ("/**", 1, len(reader.body), 2))
        key = self.show(gateway, listed["id"])
        self.assertEqual((key["state"], key["caller"], key["body"]), ("started", listed["caller"], None))
        self.assertEqual(key["stream"], {"state": "streaming", "chunks": 2, "bytes": len(reader.body), "readers": 2})
        self.assertIn("\nstream         streaming\n", self.keys(gateway, "show", listed["id"]).stdout)
        # With an older version nothing is done, and what does not stop a stream is refused.
        self.assertEqual(self.stop(gateway, {**key, "version": "old"})[0], 409)
        status, problem = self.admin(gateway, "POST", f"/v1/keys/{key['id']}/forget", {"version": key["version"]})
        self.assertEqual((status, problem["code"]), (409, "in-flight"))
        self.assertEqual(self.admin(gateway, "POST", "/v1/keys/stop", {"keys": []})[0], 404)
        status, done = self.stop(gateway, key)
        self.assertEqual((status, done["done"], done["state"], done["body"], done["body_kept"]),
                         (200, "stopped", "succeeded", "in_chunks", True), done)
        self.assertTrue(reader.cut())
        self.assertTrue(attached.cut())
        again = self.retry(gateway)
        self.assertEqual((again.status, again.get("Idempotency-Status"), again.get("Idempotency-Stopped"), again.body),
                         (200, "replayed", "true", event(0) + event(1)))
        self.assertEqual(len(self.served.requests), 1)
        self.script.tell(event(2), None)
        wait_until(lambda: self.streams(gateway) == [], what="the owner to give up")
        shown = self.show(gateway, key["id"])
        self.assertEqual(shown["stream"], {"state": "stopped", "chunks": 2, "bytes": len(reader.body), "readers": 0})
        status, problem = self.stop(gateway, shown)
        self.assertEqual((status, problem["code"]), (409, "claim-lost"))
        self.assertIn("was stopped before", problem["detail"])
        lines = [json.loads(line) for line in self.audit.read_text().splitlines()]
        self.assertEqual([(line["action"], line["result"], line["from"], line["to"]) for line in lines],
                         [("stop", "refused", "started", "started"), ("forget", "refused", "started", "started"),
                          ("stop", "begun", "started", "succeeded"), ("stop", "done", "started", "succeeded"),
                          ("stop", "refused", "succeeded", "succeeded")])

    def test_what_does_not_stream_is_not_stopped(self):
        go = self.gate()

        def handler(_, connection):
            go.wait(DEADLINE)
            connection.reply(201)

        backend = self.backend(handler)
        gateway = self.gateway(backend)
        slow = self.connect(gateway)
        slow.send_request("POST", "/slow", [("Idempotency-Key", "s")], b"")
        wait_until(lambda: backend.requests, what="the request to arrive")
        [key] = self.admin(gateway, "GET", "/v1/keys")[1]["keys"]
        self.assertNotIn("stream", self.show(gateway, key["id"]))
        status, problem = self.stop(gateway, key)
        self.assertEqual((status, problem["code"]), (409, "in-flight"))
        go.set()
        self.assertEqual(slow.read_response().status, 201)
        status, problem = self.stop(gateway, self.show(gateway, key["id"]))
        self.assertEqual((status, problem["code"]), (409, "claim-lost"))
        self.assertIn("has ended", problem["detail"])

    def test_a_body_is_followed_to_its_end(self):
        gateway = self.start()
        reader = self.begun(gateway, event(0))
        [listed] = self.streams(gateway)
        follow = subprocess.Popen([os.environ["ONCE_BINARY"], "keys", "show", listed["id"], "--follow", "--admin", f"127.0.0.1:{gateway.admin_port}"],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(follow.communicate)
        self.addCleanup(follow.kill)
        self.assertEqual(follow.stdout.read(len(event(0))), event(0), "it comes while the stream goes on")
        self.script.tell(LARGE, None)
        self.assertEqual(reader.rest(), event(0) + LARGE)
        out, err = follow.communicate(timeout=DEADLINE)
        self.assertEqual((follow.returncode, out, err), (0, LARGE, b""))
        key = self.show(gateway, listed["id"])
        self.assertEqual((key["body"], key["body_kept"], key["stream"]["state"]), ("in_chunks", True, "whole"))
        self.assertEqual(key["stream"]["bytes"], len(event(0) + LARGE))
        out = self.keys(gateway, "show", listed["id"], "--body").stdout
        self.assertIn("header         X-Model: small\n", out)
        self.assertIn("The body is in chunks", out)
        [exported] = [json.loads(line) for line in self.keys(gateway, "export", "--bodies").stdout.splitlines()]
        self.assertEqual((exported["body"], exported["outcome"].get("body")), ("in_chunks", None))

    def test_a_short_stream_that_breaks_off_is_followed_to_where_it_did(self):
        gateway = self.start()
        self.begun(gateway, event(0))
        [listed] = self.streams(gateway)
        self.script.tell(False)
        wait_until(lambda: self.show(gateway, listed["id"])["state"] == "unknown", what="the outcome to be unknown")
        out = self.keys(gateway, "show", listed["id"], "--follow")
        self.assertEqual((out.returncode, out.stdout), (1, event(0).decode()))
        self.assertIn("broke off", out.stderr)
        status, problem = self.stop(gateway, self.show(gateway, listed["id"]))
        self.assertEqual((status, problem["code"]), (409, "outcome-unknown"))

    def test_the_command_stops_a_stream(self):
        gateway = self.start()
        reader = self.begun(gateway, event(0))
        [listed] = self.streams(gateway)
        self.assertEqual(self.keys(gateway, "stop", listed["id"]).returncode, 2, "there is nobody to ask")
        out = self.keys(gateway, "stop", listed["id"], "--yes", "--reason", "runs away")
        self.assertEqual((out.returncode, out.stdout), (0, f"stopped {listed['id'][:16]}\n"), out.stderr)
        self.assertTrue(reader.cut())
        out = self.keys(gateway, "show", listed["id"], "--follow")
        self.assertEqual((out.returncode, out.stdout), (0, event(0).decode()))
        self.assertEqual(out.stderr, "once: the response was stopped here\n")
        out = self.keys(gateway, "stop", listed["id"], "--yes")
        self.assertEqual((out.returncode, out.stdout), (3, ""))
        self.assertIn("was stopped before", out.stderr)
        self.assertRegex(self.keys(gateway, "list").stdout, rf"{listed['id'][:16]}  succeeded .* \d+ \+ chunks +[0-9a-f]{{32}}\n")
        self.script.tell(event(1), None)


if __name__ == "__main__":
    unittest.main()
