"""What clients of each family of APIs see: the table of dialects, line by line, from outside."""
import dataclasses
import functools
import unittest

from harness import EndToEnd
from wire import wait_until

EVERY_METHOD = ("POST", "PUT", "PATCH", "DELETE", "GET")
STILL_WORKING = "A request with this key is still being processed."


@dataclasses.dataclass(frozen=True)
class Dialect:
    name: str
    methods: tuple
    scope: frozenset  # of what another value makes another operation
    key_header: str = "Idempotency-Key"
    caller_header: str = "Authorization"
    mismatch: tuple = (422, "key-mismatch")
    mismatch_type: str = "key-mismatch"
    in_flight: tuple = (409, "in-flight", STILL_WORKING)
    replay_header: str = "Idempotency-Replayed"
    longest_key: int = 255
    error_object: bool = False
    waits: bool = True  # while the first request runs


DIALECTS = (
    Dialect("ietf", ("POST", "PATCH"), frozenset({"caller", "method", "path"})),
    Dialect("stripe", ("POST", "DELETE"), frozenset({"caller"}), mismatch=(400, "idempotency_error"),
            in_flight=(409, "idempotency_key_in_use", STILL_WORKING), replay_header="Idempotent-Replayed",
            error_object=True),
    Dialect("platform", ("POST", "PUT", "PATCH"), frozenset({"caller"}), key_header="X-Idempotency-Key",
            in_flight=(409, "in-flight", "Request is being processed"), replay_header="Idempotent-Replayed", waits=False),
    Dialect("workflow", ("POST", "PUT", "PATCH"), frozenset({"caller", "path"}), caller_header="X-Org-Id",
            replay_header="Idempotent-Replayed", waits=False),
    Dialect("streams", ("POST",), frozenset({"path"}), mismatch=(409, "IDEMPOTENCY_MISMATCH"),
            mismatch_type="idempotency-mismatch", longest_key=256),
)


def in_every_dialect(test):
    """Runs test(self, dialect, backend, gateway) with a gateway that speaks the dialect."""

    @functools.wraps(test)
    def run(self):
        for dialect in DIALECTS:
            with self.subTest(dialect=dialect.name):
                backend = self.backend(lambda request, to: to.reply(201, body=request.target.encode()))
                test(self, dialect, backend, self.gateway(backend, f"defaults.dialect={dialect.name}", "trusted_proxies=127.0.0.1"))

    return run


class Dialects(EndToEnd):
    @staticmethod
    def ask(gateway, dialect, key="k", method="POST", target="/a", caller="one", body=b"{}"):
        fields = [(dialect.key_header, key), (dialect.caller_header, caller)]
        return gateway.ask(method, target, fields, body)

    @in_every_dialect
    def test_a_retry_is_a_replay_and_says_so(self, dialect, backend, gateway):
        first, second = (self.ask(gateway, dialect) for _ in range(2))
        self.assertEqual(len(backend.requests), 1)
        self.assertEqual((second.status, second.body), (first.status, first.body))
        self.assertIsNone(first.get(dialect.replay_header))
        self.assertEqual(second.get(dialect.replay_header), "true")
        other = ({"Idempotency-Replayed", "Idempotent-Replayed"} - {dialect.replay_header}).pop()
        self.assertIsNone(second.get(other))
        self.assertEqual(first.get("Idempotency-Status"), "executed")
        self.assertEqual(second.get("Idempotency-Status"), "replayed")
        self.assertEqual(second.get("Original-Request-Id"), first.get("X-Request-Id"))
        self.assertIsNotNone(second.get("Idempotency-Expires"))

    @in_every_dialect
    def test_the_backend_gets_the_key_and_what_once_knows(self, dialect, backend, gateway):
        self.ask(gateway, dialect, key='"k-1"')
        request = backend.requests[0]
        self.assertEqual(request.get(dialect.key_header), '"k-1"')
        self.assertEqual(request.get("Idempotency-Attempt"), "1")
        self.assertRegex(request.get("Idempotency-Fence"), r"^[1-9]\d*$")
        self.assertRegex(request.get("Idempotency-Claim"), r"^[0-9a-f]{64}\.[0-9a-f]{32}$")
        self.assertIsNotNone(request.get("X-Request-Id"))

    @in_every_dialect
    def test_keys_of_other_methods_do_nothing(self, dialect, backend, gateway):
        for method in EVERY_METHOD:
            answers = [self.ask(gateway, dialect, key=f"of-{method}", method=method) for _ in range(2)]
            executions = [request for request in backend.requests if request.method == method]
            covered = method in dialect.methods
            self.assertEqual(len(executions), 1 if covered else 2, method)
            marks = [answer.get("Idempotency-Status") for answer in answers]
            self.assertEqual(marks, ["executed", "replayed"] if covered else ["bypassed"] * 2, method)
            if not covered:
                self.assertIsNone(executions[0].get("Idempotency-Attempt"))

    def test_a_key_that_is_not_honoured_is_said_to_be_so_only_where_nobody_else_honours_it(self):
        status = []
        backend = self.backend(lambda _, to: to.reply(200, [("Idempotency-Status", each) for each in status]))
        gateway = self.gateway(backend, config="routes: [{path: /shadow, mode: shadow}, {path: /a/**}]\n")
        for target in ("/a", "/no/route"):
            self.assertEqual(gateway.ask("PUT", target, key="k").get("Idempotency-Status"), "bypassed", target)
            self.assertIsNone(gateway.ask("PUT", target).get("Idempotency-Status"), target)
        self.assertIsNone(gateway.ask("PUT", "/shadow", key="k").get("Idempotency-Status"))
        self.assertEqual(gateway.metrics()['once_requests_total{result="bypassed"}'], 0)
        status.append("replayed")  # another gateway behind this one
        self.assertEqual(gateway.ask("PUT", "/a", key="k").all("Idempotency-Status"), ["replayed"])
        backend.stop_listening()
        down = gateway.ask("PUT", "/a", key="k")
        self.assertEqual((down.status, down.get("Idempotency-Status")), (502, "bypassed"))

    @in_every_dialect
    def test_another_key_header_does_nothing(self, dialect, backend, gateway):
        other = {"Idempotency-Key": "X-Idempotency-Key"}.get(dialect.key_header, "Idempotency-Key")
        answers = [gateway.ask("POST", "/a", [(other, "k")], b"{}") for _ in range(2)]
        self.assertEqual([answer.get("Idempotency-Status") for answer in answers], [None, None])
        self.assertEqual(len(backend.requests), 2)

    @in_every_dialect
    def test_another_body_is_a_mismatch(self, dialect, backend, gateway):
        self.ask(gateway, dialect, body=b"one")
        answer = self.ask(gateway, dialect, body=b"two")
        self.assert_mismatch(dialect, answer)
        self.assertEqual(len(backend.requests), 1)
        self.assertEqual(self.ask(gateway, dialect, body=b"one").get("Idempotency-Status"), "replayed")

    def assert_mismatch(self, dialect, answer):
        self.assertEqual((answer.status, answer.code), dialect.mismatch)
        self.assertEqual(answer.get("Idempotency-Status"), "mismatch")
        self.assertEqual(answer.problem["type"], f"urn:once:error:{dialect.mismatch_type}")
        self.assertEqual((answer.problem["status"], answer.problem["retryable"]), (answer.status, False))
        self.assert_error_object(dialect, answer)

    def assert_error_object(self, dialect, answer):
        expected = {"type": "idempotency_error", "code": answer.code, "message": answer.problem["detail"]}
        self.assertEqual(answer.problem.get("error"), expected if dialect.error_object else None)

    @in_every_dialect
    def test_what_is_in_the_scope_makes_another_operation(self, dialect, backend, gateway):
        self.ask(gateway, dialect)
        other_method = next((method for method in dialect.methods if method != "POST"), None)
        changes = {"caller": {"caller": "two"}, "path": {"target": "/b"}}
        if other_method:
            changes["method"] = {"method": other_method}
        for part, change in changes.items():
            answer = self.ask(gateway, dialect, **change)
            if part in dialect.scope:
                self.assertEqual(answer.get("Idempotency-Status"), "executed", part)
            elif part == "caller":  # whoever may append to a stream shares its keys
                self.assertEqual(answer.get("Idempotency-Status"), "replayed", part)
            else:
                self.assert_mismatch(dialect, answer)
        in_scope = [part for part in changes if part in dialect.scope]
        self.assertEqual(len(backend.requests), 1 + len(in_scope))

    def start_held(self, dialect, backend, gateway):
        """A first request that is at the backend, and the gate that lets it end."""
        go = self.gate()
        backend.handler = lambda _, to: go.wait() and to.reply(200)
        first = self.connect(gateway)
        first.send_request("POST", "/a", [(dialect.key_header, "k"), (dialect.caller_header, "one")], b"{}")
        wait_until(lambda: backend.requests)
        return first, go

    @in_every_dialect
    def test_a_retry_while_the_first_runs_waits_for_its_answer_or_is_told_to_come_back(self, dialect, backend, gateway):
        first, go = self.start_held(dialect, backend, gateway)
        second = self.connect(gateway)
        second.send_request("POST", "/a", [(dialect.key_header, "k"), (dialect.caller_header, "one")], b"{}")
        if dialect.waits:
            wait_until(lambda: gateway.metrics()["once_waiting"] == 1)
        else:
            self.assertEqual(second.read_response().get("Idempotency-Status"), "in-flight")
        go.set()
        self.assertEqual(first.read_response().status, 200)
        if dialect.waits:
            self.assertEqual(second.read_response().get("Idempotency-Status"), "replayed")
        self.assertEqual(len(backend.requests), 1)

    @in_every_dialect
    def test_a_retry_that_waited_long_enough_is_told_to_come_back(self, dialect, backend, _):
        gateway = self.gateway(backend, f"defaults.dialect={dialect.name}", "trusted_proxies=127.0.0.1",
                               "defaults.in_flight_wait=1ms")
        first, go = self.start_held(dialect, backend, gateway)
        answer = self.ask(gateway, dialect)
        self.assertEqual((answer.status, answer.code, answer.problem["detail"]), dialect.in_flight)
        self.assertEqual((answer.get("Idempotency-Status"), answer.get("Retry-After")), ("in-flight", "1"))
        self.assert_error_object(dialect, answer)
        go.set()
        self.assertEqual(first.read_response().status, 200)

    @in_every_dialect
    def test_the_longest_key(self, dialect, backend, gateway):
        self.assertEqual(self.ask(gateway, dialect, key="k" * dialect.longest_key).status, 201)
        answer = self.ask(gateway, dialect, key="k" * (dialect.longest_key + 1))
        self.assertEqual((answer.status, answer.code), (400, "key-invalid"))
        self.assertEqual(len(backend.requests), 1)

    def test_a_500_is_the_answer_to_every_retry_where_stripes_clients_expect_it(self):
        for dialect in DIALECTS:
            with self.subTest(dialect=dialect.name):
                backend = self.backend(lambda _, to: to.reply(500, body=b"broken"))
                gateway = self.gateway(backend, f"defaults.dialect={dialect.name}", "trusted_proxies=127.0.0.1")
                answers = [self.ask(gateway, dialect) for _ in range(2)]
                self.assertEqual([(answer.status, answer.body) for answer in answers], [(500, b"broken")] * 2)
                self.assertEqual(len(backend.requests), 1 if dialect.name == "stripe" else 2)

    def test_every_setting_of_a_dialect_can_be_changed_beside_it(self):
        backend = self.backend()
        gateway = self.gateway(backend, "defaults.dialect=stripe", "defaults.key.header=X-Key", "defaults.key.methods=PUT")
        answers = [gateway.ask("PUT", fields=[("X-Key", "k")], body=body) for body in (b"1", b"1", b"2")]
        self.assertEqual([answer.status for answer in answers], [201, 201, 400])
        self.assertEqual(answers[1].get("Idempotent-Replayed"), "true", "the wording stays the dialect's")
        self.assertEqual(answers[2].code, "idempotency_error")


class Stripe(EndToEnd):
    """What Stripe's client libraries rely on beyond the table."""

    def test_the_account_that_a_caller_acts_for_has_keys_of_its_own(self):
        backend = self.backend(lambda request, to: to.reply(201, body=f"charge {len(backend.requests)}".encode()))
        gateway = self.gateway(backend, "defaults.dialect=stripe")
        platform = ("Authorization", "Bearer sk_platform")
        for acts_for in ((), (("Stripe-Account", "acct_a"),), (("Stripe-Account", "acct_b"),), (("Stripe-Account", ""),),
                         (("Stripe-Context", "acct_a"),), (("Stripe-Account", "acct_a"), ("Stripe-Context", "acct_b"))):
            with self.subTest(acts_for):
                first, again = (gateway.ask(fields=[platform, *acts_for], key="k", body=b"{}") for _ in range(2))
                self.assertEqual([answer.get("Idempotency-Status") for answer in (first, again)], ["executed", "replayed"])
                self.assertEqual(first.body, again.body)
        twice = gateway.ask(fields=[platform, ("Stripe-Account", "acct_a"), ("Stripe-Account", "acct_b")], key="k")
        self.assertEqual((twice.status, twice.code), (400, "bad-request"))
        disguised = gateway.ask(fields=[platform, ("Stripe_Account", "acct_b")], key="k", body=b"{}")
        self.assertEqual(disguised.body, b"charge 1")

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
        self.assert_stripe_problem(gateway.ask(fields=caller, key="bad key"), 400)
        self.assert_stripe_problem(gateway.ask(key="k"), 401)
        self.assert_stripe_problem(gateway.ask(fields=caller, key="large", body=b"x" * 2000), 413)
        self.assert_stripe_problem(gateway.ask("PUT", "/a", fields=caller, body=b"x"), 428)
        self.assert_stripe_problem(gateway.ask(target="/../a", fields=caller, key="k"), 400)
        many = [(f"X-{number}", "x") for number in range(110)]
        self.assert_stripe_problem(gateway.ask(fields=many, key="k"), 431, known=False)
        self.assertEqual(gateway.ask(fields=caller, key="first", body=b"1").status, 201)
        self.assert_stripe_problem(gateway.ask(fields=caller, key="first", body=b"2"), 400)
        limited = [gateway.ask(fields=caller, key=f"k-{number}") for number in range(20)]
        self.assert_stripe_problem(next(answer for answer in limited if answer.status == 429), 429)
        backend.stop_listening()
        self.assert_stripe_problem(gateway.ask("GET", "/", fields=caller), 502)

    def test_too_many_connections_and_several_dialects(self):
        backend = self.backend()
        gateway = self.gateway(backend, "defaults.dialect=stripe", "limits.max_connections=1")
        with self.connect(gateway) as held:
            self.assertEqual(held.ask(key="k").status, 201)
            with self.connect(gateway) as refused:
                self.assert_stripe_problem(refused.read_response(), 503, known=False)
        config = "routes: [{path: /v1/**, dialect: stripe}, {path: /**}]\n"
        gateway = self.gateway(backend, config=config)
        self.assert_stripe_problem(gateway.ask(target="/v1/a", key="bad key"), 400)
        for target in ("/a", "/../v1/a"):
            self.assertNotIn("error", gateway.ask(target=target, key="bad key").problem)

    def test_every_answer_has_a_request_id(self):
        backend = self.backend(lambda request, to: to.reply(200, [("request-id", "req_1")] if request.target == "/own" else []))
        gateway = self.gateway(backend, "defaults.dialect=stripe")
        for method, key in (("GET", None), ("POST", None), ("POST", "k"), ("POST", "k"), ("DELETE", "k2")):
            answer = gateway.ask(method, "/", key=key)
            self.assertEqual(answer.get("Request-Id"), answer.get("X-Request-Id"))
            own = gateway.ask(method, "/own", key=key and f"own-{key}")
            self.assertEqual(own.get("Request-Id"), "req_1")


if __name__ == "__main__":
    unittest.main()
