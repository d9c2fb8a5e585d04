"""Lookups by key: a GET that says what became of a request, and executes nothing."""
import json

from harness import Sharing, kept_part

ME = ("Authorization", "Bearer me")


def look(gateway, key="k", method="GET", of="POST", target="/payments", fields=(ME,)):
    named = [("Idempotency-Key", key)] if key else []
    return gateway.ask(method, target, [*named, ("Idempotency-Lookup", of), *fields])


class Lookups(Sharing):
    def post(self, gateway, key="k", body=b"amount=1", target="/payments"):
        return gateway.ask("POST", target, [("Idempotency-Key", key), ME], body)

    def test_the_recorded_answer_is_given_without_a_body_to_compare(self):
        backend = self.backend()
        gateway = self.gateway(backend)
        first = self.post(gateway)
        found = look(gateway)
        self.assertEqual((found.status, found.get("Idempotency-Status")), (201, "replayed"))
        self.assertEqual(kept_part(found), kept_part(first))
        self.assertEqual(len(backend.requests), 1)

    def test_head_gives_the_head_alone(self):
        gateway = self.gateway(self.backend())
        first = self.post(gateway)
        with gateway.connect() as client:
            client.send_request("HEAD", "/payments", [("Idempotency-Key", "k"), ("Idempotency-Lookup", "POST"), ME])
            line, fields, _ = client.read_head()
            self.assertIn("201", line)
            self.assertIn(("Content-Length", str(len(first.body))), fields)
            # Nothing follows: the next response begins at once.
            client.send_request("HEAD", "/payments", [("Idempotency-Key", "other"), ("Idempotency-Lookup", "POST"), ME])
            self.assertIn("404", client.read_head()[0])

    def test_a_key_is_found_only_where_it_was_used(self):
        gateway = self.gateway(self.backend())
        self.post(gateway)
        for what, answer in {
                "another key": look(gateway, key="other"),
                "another caller": look(gateway, fields=[("Authorization", "Bearer you")]),
                "another path": look(gateway, target="/other"),
                "another method": look(gateway, of="PATCH"),
                "another host": look(gateway, fields=[ME, ("Host", "elsewhere.example")]),
                "a method without keys": look(gateway, of="PUT"),
        }.items():
            self.assertEqual((answer.status, answer.code), (404, "key-not-found"), what)
            retryable = json.loads(answer.body)["retryable"]
            self.assertEqual(retryable, what != "a method without keys", what)
