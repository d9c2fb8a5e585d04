"""Keys for clients that send none: a double click is one operation."""
import json
import unittest

from harness import EndToEnd

DERIVE = "defaults.key.derive=[json:/cart/id, header:X-Session]"


class DerivedKey(EndToEnd):
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

    def test_another_value_is_another_operation(self):
        for cart, session in (({"id": 7}, "s1"), ({"id": 8}, "s1"), ({"id": "7"}, "s1"), ({"id": 7}, "s2")):
            self.assertEqual(self.buy(cart, session).get("Idempotency-Status"), "executed")
        self.assertEqual(len(self.server.requests), 4)

    def test_values_are_compared_and_not_their_spelling(self):
        self.buy({"id": 7, "x": 1})
        again = self.once.ask("POST", "/buy", [("Content-Type", "application/json"), ("X-Session", "s1")],
                              body=b'{ "cart": {"x": 1.0, "id": 7.0} }')
        self.assertEqual(again.get("Idempotency-Status"), "replayed")

    def test_the_same_key_for_something_else_is_a_mismatch(self):
        self.buy({"id": 7}, amount=1)
        self.assertEqual(self.buy({"id": 7}, amount=2).status, 422)

    def test_a_key_that_the_client_sends_comes_first(self):
        fields = [("Content-Type", "application/json"), ("X-Session", "s1")]
        for key in ("a", "b"):
            answer = self.once.ask("POST", "/buy", fields, key=key, body=b'{"cart": {"id": 7}}')
            self.assertEqual(answer.get("Idempotency-Status"), "executed")

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
