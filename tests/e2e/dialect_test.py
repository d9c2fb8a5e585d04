"""What clients of each family of APIs see, from outside. tests/unit/core/dialect_test.cpp has every setting of each dialect."""
import dataclasses
import unittest

from harness import Sharing


@dataclasses.dataclass(frozen=True)
class Dialect:
    name: str
    methods: tuple
    key_header: str = "Idempotency-Key"
    caller_header: str = "Authorization"
    mismatch: tuple = (422, "key-mismatch")
    mismatch_type: str = "key-mismatch"
    replay_header: str = "Idempotency-Replayed"
    error_object: bool = False
    failures_are_kept: bool = False


DIALECTS = (
    Dialect("ietf", ("POST", "PATCH")),
    Dialect("stripe", ("POST", "DELETE"), mismatch=(400, "idempotency_error"), replay_header="Idempotent-Replayed", error_object=True,
            failures_are_kept=True),
    Dialect("platform", ("POST", "PUT", "PATCH"), key_header="X-Idempotency-Key", replay_header="Idempotent-Replayed"),
    Dialect("workflow", ("POST", "PUT", "PATCH"), caller_header="X-Org-Id", replay_header="Idempotent-Replayed"),
    Dialect("streams", ("POST",), mismatch=(409, "IDEMPOTENCY_MISMATCH"), mismatch_type="idempotency-mismatch"),
)


class Dialects(Sharing):
    def test_first_request_retry_mismatch_failure_and_methods_in_every_dialect(self):
        for dialect in DIALECTS:
            with self.subTest(dialect=dialect.name):
                backend = self.backend(lambda request, to: to.reply(500 if request.target == "/fails" else 201, body=b"made"))
                gateway = self.gateway(backend, f"defaults.dialect={dialect.name}", "trusted_proxies=127.0.0.1")

                def ask(method="POST", target="/a", body=b"{}", gateway=gateway, dialect=dialect):
                    return gateway.ask(method, target, [(dialect.key_header, '"k-1"'), (dialect.caller_header, "one")], body)

                self.check_replay(dialect, backend, ask)
                mismatch = ask(body=b"other")
                self.assertEqual((mismatch.status, mismatch.code), dialect.mismatch)
                self.assertEqual(mismatch.problem["type"], f"urn:once:error:{dialect.mismatch_type}")
                said = {"type": "idempotency_error", "code": mismatch.code, "message": mismatch.problem["detail"]}
                self.assertEqual(mismatch.problem.get("error"), said if dialect.error_object else None)
                backend = self.backend(backend.handler)
                self.assertEqual([ask(target="/fails").status for _ in range(2)], [500, 500])
                self.assertEqual(len(backend.requests), 1 if dialect.failures_are_kept else 2)
                for method in ("POST", "PUT", "PATCH", "DELETE", "GET"):
                    backend = self.backend(backend.handler)
                    marks = [ask(method).get("Idempotency-Status") for _ in range(2)]
                    self.assertEqual(marks, ["executed", "replayed"] if method in dialect.methods else ["bypassed"] * 2, method)

    def check_replay(self, dialect, backend, ask):
        first, second = ask(), ask()
        request, = backend.requests
        self.assertEqual((request.get(dialect.key_header), request.get("Idempotency-Attempt")), ('"k-1"', "1"))
        self.assertRegex(request.get("Idempotency-Fence"), r"^[1-9]\d*$")
        self.assertRegex(request.get("Idempotency-Claim"), r"^[0-9a-f]{64}\.[0-9a-f]{32}$")
        self.assertEqual((second.status, second.body), (first.status, first.body))
        self.assertEqual([answer.get("Idempotency-Status") for answer in (first, second)], ["executed", "replayed"])
        self.assertEqual([answer.get(dialect.replay_header) for answer in (first, second)], [None, "true"])
        other = ({"Idempotency-Replayed", "Idempotent-Replayed"} - {dialect.replay_header}).pop()
        self.assertIsNone(second.get(other))
        self.assertEqual(second.get("Original-Request-Id"), first.get("X-Request-Id"))
        self.assertIsNotNone(second.get("Idempotency-Expires"))

    def test_a_key_that_is_not_honoured_is_said_to_be_so_only_where_nobody_else_honours_it(self):
        status = []
        backend = self.backend(lambda _, to: to.reply(200, [("Idempotency-Status", each) for each in status]))
        gateway = self.gateway(backend, config="routes: [{path: /shadow, mode: shadow}, {path: /a/**}]\n")
        for target in ("/a", "/no/route"):
            self.assertEqual(gateway.ask("PUT", target, key="k").get("Idempotency-Status"), "bypassed", target)
            self.assertIsNone(gateway.ask("PUT", target).get("Idempotency-Status"), target)
        self.assertIsNone(gateway.ask("PUT", "/shadow", key="k").get("Idempotency-Status"))
        status.append("replayed")  # another gateway behind this one
        self.assertEqual(gateway.ask("PUT", "/a", key="k").all("Idempotency-Status"), ["replayed"])
        backend.stop_listening()
        down = gateway.ask("PUT", "/a", key="k")
        self.assertEqual((down.status, down.get("Idempotency-Status")), (502, "bypassed"))

    def test_every_setting_of_a_dialect_can_be_changed_beside_it(self):
        gateway = self.gateway(self.backend(), "defaults.dialect=stripe", "defaults.key.header=X-Key", "defaults.key.methods=PUT")
        answers = [gateway.ask("PUT", fields=[("X-Key", "k")], body=body) for body in (b"1", b"1", b"2")]
        self.assertEqual([answer.status for answer in answers], [201, 201, 400])
        self.assertEqual(answers[1].get("Idempotent-Replayed"), "true", "the wording stays the dialect's")
        self.assertEqual(answers[2].code, "idempotency_error")


class Stripe(Sharing):
    """What Stripe's client libraries rely on beyond the table."""

    def assert_stripe_problem(self, answer, status, known=True):
        self.assertEqual(answer.status, status)
        error = answer.problem["error"]
        self.assertEqual((error["code"], error["message"]), (answer.code, answer.problem["detail"]))
        self.assertIn(error["type"], ("idempotency_error", "invalid_request_error", "api_error"))
        again = answer.problem["retryable"]
        self.assertEqual(answer.get("Stripe-Should-Retry"), None if again else "false", answer.code)
        self.assertEqual(answer.get("Request-Id"), answer.get("X-Request-Id"))
        if known:
            self.assertIsNotNone(answer.get("Request-Id"), answer.code)

    def test_every_problem_has_the_error_object(self):
        backend = self.backend()
        gateway = self.gateway(backend, "defaults.dialect=stripe", "defaults.key.required=yes", "defaults.caller_missing=reject",
                               "defaults.max_request_body=1KiB", "defaults.max_large_request=0", "defaults.conditional.if_match=required",
                               "limits.caller.new_keys=1")
        caller = [("Authorization", "Bearer a")]
        self.assert_stripe_problem(gateway.ask(fields=caller), 400)
        self.assert_stripe_problem(gateway.ask(key="k"), 401)
        self.assert_stripe_problem(gateway.ask(fields=caller, key="large", body=b"x" * 2000), 413)
        self.assert_stripe_problem(gateway.ask("PUT", "/a", fields=caller, body=b"x"), 428)
        self.assert_stripe_problem(gateway.ask(target="/../a", fields=caller, key="k"), 400)
        many = [(f"X-{number}", "x") for number in range(110)]
        self.assert_stripe_problem(gateway.ask(fields=many, key="k"), 431, known=False)
        limited = [gateway.ask(fields=caller, key=f"k-{number}") for number in range(20)]
        self.assert_stripe_problem(next(answer for answer in limited if answer.status == 429), 429)
        backend.stop_listening()
        self.assert_stripe_problem(gateway.ask("GET", "/", fields=caller), 502)

    def test_every_answer_has_a_request_id(self):
        backend = self.backend(lambda request, to: to.reply(200, [("request-id", "req_1")] if request.target == "/own" else []))
        gateway = self.gateway(backend, "defaults.dialect=stripe")
        for method, key in (("GET", None), ("POST", "k"), ("POST", "k")):
            answer = gateway.ask(method, "/", key=key)
            self.assertEqual(answer.get("Request-Id"), answer.get("X-Request-Id"))
            self.assertEqual(gateway.ask(method, "/own", key=key and f"own-{key}").get("Request-Id"), "req_1")


if __name__ == "__main__":
    unittest.main()
