"""What scripts of other origins are told: preflights, and every kind of answer."""
import unittest

from harness import Sharing

APP, OTHER, EVIL = "https://app.example", "https://other.example", "https://evil.example"
ORIGINS = f"defaults.cors.origins=[{APP},{OTHER}]"
OURS = {"idempotency-status", "idempotency-replayed", "original-request-id", "idempotency-expires", "x-request-id",
        "retry-after", "etag", "idempotency-attempt", "idempotency-offset", "idempotency-stopped"}


def of(origin):
    return [("Origin", origin)]


def exposed(answer):
    return {name.strip().lower() for value in answer.all("Access-Control-Expose-Headers") for name in value.split(",")}


class Answers(Sharing):
    def check(self, answer, origin=APP):
        self.assertEqual(answer.all("Access-Control-Allow-Origin"), [origin])
        self.assertLessEqual(OURS, exposed(answer))
        self.assertIn("Origin", answer.all("Vary"))

    def test_every_kind_of_answer_says_who_may_read_it(self):
        gateway = self.gateway(self.backend(), ORIGINS, "defaults.key.required=yes")
        self.check(gateway.ask("GET", fields=of(APP)))
        first = gateway.ask(key="k", body=b"{}", fields=of(APP))
        self.check(first)
        again = gateway.ask(key="k", body=b"{}", fields=of(OTHER))
        self.assertEqual(again.get("Idempotency-Status"), "replayed")
        self.check(again, OTHER)
        for answer in (gateway.ask(key="k", body=b"another", fields=of(APP)), gateway.ask(body=b"{}", fields=of(APP)),
                       gateway.ask(key="", body=b"{}", fields=of(APP))):
            self.assertGreaterEqual(answer.status, 400)
            self.check(answer)

    def test_a_lookup_is_readable_by_the_origins_of_its_operation(self):
        gateway = self.gateway(self.backend(), ORIGINS)
        alice = ("Authorization", "alice")
        self.assertEqual(gateway.ask(key="k", body=b"{}", fields=[*of(APP), alice]).status, 201)
        for key, status in (("k", 201), ("none", 404)):
            answer = gateway.ask("GET", key=key, fields=[*of(OTHER), alice, ("Idempotency-Lookup", "POST")])
            self.assertEqual(answer.status, status)
            self.check(answer, OTHER)


class Preflights(Sharing):
    def ask(self, gateway, origin=APP, method="PUT", headers="content-type,idempotency-key", target="/doc"):
        return gateway.ask("OPTIONS", target, fields=[*of(origin), ("Access-Control-Request-Method", method),
                                                      ("Access-Control-Request-Headers", headers)])

    def test_are_answered_without_the_backend(self):
        backend = self.backend()
        gateway = self.gateway(backend, ORIGINS, "defaults.cors.credentials=yes", own=True)
        answer = self.ask(gateway)
        self.assertEqual((answer.status, answer.body), (204, b""))
        self.assertEqual(answer.get("Access-Control-Allow-Origin"), APP)
        self.assertEqual(answer.get("Access-Control-Allow-Credentials"), "true")
        self.assertEqual(answer.get("Access-Control-Allow-Methods"), "PUT")
        self.assertEqual(answer.get("Access-Control-Allow-Headers"), "content-type, idempotency-key")
        self.assertEqual(answer.get("Access-Control-Max-Age"), "600")
        self.assertTrue(answer.get("Vary").startswith("Origin"))
        self.assertEqual(self.ask(gateway, headers="a b").status, 400)
        self.assertEqual(backend.requests, [])
        self.assertEqual(gateway.metrics()["once_preflights_total"], 1)

    def test_others_go_to_the_backend(self):
        backend = self.backend()
        gateway = self.gateway(backend, ORIGINS)
        self.assertEqual(self.ask(gateway, origin=EVIL).status, 201)
        self.assertEqual(gateway.ask("OPTIONS", "/doc", fields=of(APP)).status, 201)
        self.assertEqual(len(backend.requests), 2)


if __name__ == "__main__":
    unittest.main()
