"""Keys for clients that send none: a double click is one operation."""
import json
import unittest

import wire
from harness import Sharing, run_once

DERIVE = "defaults.key.derive=[json:/cart/id, header:X-Session]"


class DerivedKey(Sharing):
    def setUp(self):
        super().setUp()
        self.server = self.backend()
        self.once = self.gateway(self.server, DERIVE, "defaults.fingerprint.body=json")

    def buy(self, cart, session="s1", **more):
        fields = [("Content-Type", "application/json")] + ([("X-Session", session)] if session else [])
        return self.once.ask("POST", "/buy", fields, body=json.dumps({"cart": cart, **more}).encode())

    def test_a_double_click_is_one_operation(self):
        first, again = self.buy({"id": 7}), self.buy({"id": 7})
        self.assertEqual((first.status, again.get("Idempotency-Status")), (201, "replayed"))
        self.assertEqual(again.body, first.body)
        self.assertEqual(len(self.server.requests), 1)

    def test_an_operator_finds_the_key_by_the_request(self):
        self.buy({"id": 7})
        body, headers, other = (self.folder() / "file" for _ in range(3))
        body.write_text('{"cart": {"id": 7}}')
        headers.write_text("Content-Type: application/json\nX-Session: s1\n")
        other.write_text('{"cart": {"id": 8}}')

        def find(*options, header_file=headers):
            return run_once("keys", "find", "--admin", f"127.0.0.1:{self.once.admin_port}", "--path", f"http://{wire.default_host}/buy",
                            "--header-file", str(header_file), "--json", *options)

        found = find("--body", str(body))
        self.assertEqual((found.returncode, json.loads(found.stdout or "{}").get("state")), (0, "succeeded"), found.stderr)
        self.assertEqual(find("--body", str(other)).returncode, 1)
        for options, words in ((("--body", "/nowhere/at/all"), "--body: /nowhere/at/all cannot be read"),
                               (("--body", "-", "--key-file", "-"), "--body and the key would all be read from stdin")):
            wrong = find(*options)
            self.assertEqual((wrong.returncode, words in wrong.stderr), (2, True), wrong)
        self.assertIn("--header-file and --body would all be read from stdin", find("--body", "-", header_file="-").stderr)
        other.write_bytes(b"\xff\xfe")
        self.assertIn("not UTF-8", find("--body", str(other)).stderr)
        of_claims = run_once("keys", "find", "--scope", "s", "--key", "k", "--body", str(body))
        self.assertEqual((of_claims.returncode, "--body needs --path" in of_claims.stderr), (2, True), of_claims)

    def test_what_lacks_a_part_is_refused_and_told_which(self):
        for empty in (None, "", {}, []):
            self.assertEqual(self.buy({"id": empty}).code, "key-required", empty)
        for answer, part in ((self.buy({}), "json:/cart/id"), (self.buy({"id": 7}, session=None), "header:X-Session"),
                             (self.once.ask("POST", "/buy", [("X-Session", "s1")], body=b"not json"), "json:/cart/id")):
            self.assertEqual((answer.status, answer.code), (400, "key-required"))
            self.assertIn(part, answer.problem["detail"])
        self.assertEqual(self.server.requests, [])


if __name__ == "__main__":
    unittest.main()
