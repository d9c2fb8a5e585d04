"""What holds in every framework. A test class inherits from Stories and starts its application with serve(); most stories share one,
app()."""
import json

from support import SERVER, Asked
from wire import Client, wait_until


class StoreStories:
    """Those in which the store takes part."""

    def test_a_retry_gets_the_recorded_answer(self):
        app = self.app()
        first, again = (app.ask("POST", "/orders?x=1", body={"book": 7}, key="k") for _ in range(2))
        self.assertEqual((first.status, first.get("Idempotency-Status"), first.get("X-Made")), (201, "executed", "yes"))
        self.assertEqual((again.status, again.body, again.get("X-Made")), (first.status, first.body, "yes"))
        self.assertEqual((again.get("Idempotency-Status"), again.get("Idempotency-Replayed")), ("replayed", "true"))
        self.assertEqual(self.executions(), 1)
        made = json.loads(first.body)
        self.assertEqual((made["attempt"], made["told"], made["claim"], made["bytes"]), (1, "1", True, len(b'{"book": 7}')))

    def test_a_retry_waits_for_the_owner_and_holds_up_nobody(self):
        app = self.app()
        asked = [Asked(app, "POST", "/slow", key="k") for _ in range(3)]
        self.begun()
        self.assertEqual(app.ask("GET", "/ping").status, 200)
        self.let_go()
        answers = [each.answer for each in asked]
        self.assertEqual({answer.status for answer in answers}, {200})
        self.assertEqual(len({answer.body for answer in answers}), 1)
        self.assertEqual(sorted(answer.get("Idempotency-Status") for answer in answers), ["executed", "replayed", "replayed"])
        self.assertEqual(self.executions(), 1)

    def test_killed_in_the_middle_it_is_held(self):
        again = self.asked_after_a_kill("hold")
        self.assertEqual((again.status, json.loads(again.body)["code"]), (409, "outcome-unknown"))
        self.assertIsNone(again.get("Retry-After"))
        self.assertEqual(self.executions(), 1)

    def test_killed_in_the_middle_a_retry_takes_over(self):
        again = self.asked_after_a_kill("retry")
        self.assertEqual((again.status, again.get("Idempotency-Status")), (200, "executed"))
        self.assertEqual(self.executions(), 2)

    def asked_after_a_kill(self, on_unknown):
        """The answer of the next process, once the lease of the dead one has lapsed. A journal knows at once that its owner died."""
        app = self.serve(defaults__on_unknown=on_unknown)
        with Client(app.port) as client:
            client.send_request("POST", "/slow", [("Idempotency-Key", "k")], b"")
            self.begun()
            app.kill()
        self.let_go()
        app = self.serve(defaults__on_unknown=on_unknown)

        def answer():
            got = app.ask("POST", "/slow", key="k")
            return got if got.get("Idempotency-Status") != "in-flight" else None

        if not SERVER:
            return answer()
        return wait_until(answer, what="the lease to lapse")


class AllStories(StoreStories):
    def test_without_a_key_every_request_is_executed_and_cannot_pretend_to_be_claimed(self):
        app = self.app()
        pretending = [("Idempotency-Claim", "mine"), ("Idempotency-Attempt", "7")]
        for _ in range(2):
            answer = app.ask("POST", "/orders", pretending, {"book": 7})
            made = json.loads(answer.body)
            self.assertEqual((answer.status, made["attempt"], made["told"], made["claim"]), (201, None, None, False))
        keyed = json.loads(app.ask("POST", "/orders", pretending, {"book": 7}, key="k").body)
        self.assertEqual((keyed["attempt"], keyed["told"]), (1, "1"))
        self.assertEqual(self.executions(), 3)

    def test_a_key_belongs_to_its_caller(self):
        app = self.app()
        mine, other = (app.ask("POST", "/orders", [("X-User", user)], {"book": 7}, key="k") for user in ("ann", "bob"))
        self.assertEqual([mine.get("Idempotency-Status"), other.get("Idempotency-Status")], ["executed", "executed"])
        self.assertEqual(app.ask("POST", "/orders", [("X-User", "ann")], {"book": 7}, key="k").body, mine.body)

    def test_two_keys_or_two_callers_are_refused_as_at_a_gateway(self):
        app = self.serve(defaults__caller="header:Authorization")
        for twice in ([("Idempotency-Key", "j")], [("Authorization", "Bearer a"), ("Authorization", "Bearer b")], [("Host", "a.test"), ("Host", "b.test")]):
            self.assertEqual(app.ask("POST", "/orders", twice, {"book": 7}, key="k").status, 400, twice)
        self.assertEqual(self.executions(), 0)

    def test_a_handler_that_raises_is_a_500_and_a_retry_executes(self):
        app = self.app()
        self.assertEqual([app.ask("POST", "/broken", key="k").status for _ in range(2)], [500, 500])
        self.assertEqual(self.executions(), 2)

    def test_a_response_too_large_to_keep_still_reaches_its_client_and_is_not_executed_again(self):
        app = self.app()
        first, again = (app.ask("POST", "/large", key="k") for _ in range(2))
        self.assertEqual((first.status, first.body), (200, b"x" * 65536))
        self.assertEqual((again.status, json.loads(again.body)["code"]), (409, "response-not-kept"))
        self.assertEqual(self.executions(), 1)

    def test_an_event_stream_reaches_its_client_as_it_comes(self):
        app = self.app()
        with Client(app.port) as client:
            client.send_request("POST", "/events", [app.key("k")], b"")
            wait_until(lambda: client.fill() or b"first" in client.log, what="the first event")
            self.assertNotIn(b"last", client.log)
            self.let_go()
            wait_until(lambda: client.fill() or b"last" in client.log, what="the last event")
        self.assertEqual(app.ask("POST", "/events", key="k").status, 409)
        self.assertEqual(self.executions(), 1)

    def test_a_request_body_over_the_limit_is_refused(self):
        app = self.app()
        self.assertEqual(app.ask("POST", "/orders", body=b"x" * 1024, key="fits").status, 201)
        self.assertEqual(app.ask("POST", "/orders", body=b"x" * 1025, key="large").status, 413)
        self.assertEqual(self.executions(), 1)

    def test_a_client_that_leaves_changes_nothing(self):
        app = self.app()
        with Client(app.port) as client:
            client.send_request("POST", "/slow", [app.key("k")], b"")
            self.begun()
        self.let_go()
        again = app.ask("POST", "/slow", key="k")
        self.assertEqual((again.status, again.get("Idempotency-Status")), (200, "replayed"))
        self.assertEqual(self.executions(), 1)


Stories = StoreStories if SERVER else AllStories  # the engine in the process is the same on a server
