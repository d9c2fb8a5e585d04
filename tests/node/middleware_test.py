"""The middlewares in real frameworks: a replay, a conflict, a wait, failures, crashes and what must not be recorded."""
import json
import unittest

import catalog
from services import Services
from wire import Client, wait_until

MIB = 1 << 20


class Middleware:
    """What holds in every framework; `framework` names one of service.mjs."""

    def test_a_retry_gets_the_recorded_response(self):
        service = self.shared()
        first, again = (service.ask(body={"a": 1}, key="k") for _ in range(2))
        self.assertEqual((first.status, first.get("Idempotency-Status")), (201, "executed"))
        self.assertEqual((again.status, again.get("Idempotency-Status"), again.get("Idempotency-Replayed")), (201, "replayed", "true"))
        self.assertEqual((again.body, again.get("Content-Type")), (first.body, first.get("Content-Type")))
        self.assertEqual(json.loads(first.body)["bytes"], len('{"a": 1}'), "the handler got the body")
        self.assertEqual(len(service.calls()), 1)

    def test_a_request_without_a_key_passes(self):
        service = self.shared()
        for _ in range(2):
            self.assertEqual(service.ask(body={"a": 1}).status, 201)
        self.assertEqual(service.calls(), [{"path": "/orders"}] * 2)

    def test_a_second_request_waits_for_the_first(self):
        service = self.shared()
        first = self.in_background(service.ask, body={"hold": 1}, key="k")
        wait_until(lambda: service.seen()["waiting"] == 1)
        second = self.in_background(service.ask, body={"hold": 1}, key="k")
        service.go()
        answers = [first.result(), second.result()]
        self.assertEqual([answer.status for answer in answers], [201, 201])
        self.assertEqual({answer.get("Idempotency-Status") for answer in answers}, {"executed", "replayed"})
        self.assertEqual(len(service.calls()), 1)

    def test_a_failure_is_executed_again(self):
        service = self.shared()
        answers = [service.ask(target="/fails-once", body={}, key="k") for _ in range(3)]
        self.assertEqual([answer.status for answer in answers], [500, 200, 200])
        self.assertEqual(answers[2].get("Idempotency-Status"), "replayed")
        self.assertEqual([call["attempt"] for call in service.calls("/fails-once")], [1, 2])

    def test_a_handler_that_throws_has_failed(self):
        service = self.shared()
        answers = [service.ask(target="/throws", body={}, key="k") for _ in range(2)]
        self.assertEqual([answer.status for answer in answers], [500, 500])
        self.assertEqual([call["attempt"] for call in service.calls("/throws")], [1, 2])

    def test_a_client_that_leaves_changes_nothing(self):
        service = self.shared()
        with Client(service.port) as client:
            client.send_request("POST", "/orders", [("Content-Type", "application/json")], b'{"hold": 1}', key=service.key("k"))
            wait_until(lambda: service.seen()["waiting"] == 1)
            client.reset()
        service.go()
        again = service.ask(body={"hold": 1}, key="k")
        self.assertEqual((again.status, again.get("Idempotency-Status")), (201, "replayed"))
        self.assertEqual(len(service.calls()), 1)

    def test_large_bodies_go_through_whole(self):
        service = self.shared()
        body = b'{"filler": "' + b"z" * 3 * MIB + b'"}'
        first, again = (service.ask(body=body, key="k") for _ in range(2))
        self.assertEqual((first.status, again.get("Idempotency-Status")), (201, "replayed"))
        self.assertEqual(json.loads(first.body)["bytes"], len(body), "the handler got all of it")
        too_large = service.ask(body=b'{"filler": "' + b"z" * 9 * MIB + b'"}', key="large")
        self.assertEqual((too_large.status, too_large.code), (413, "body-too-large"))
        self.assertEqual(len(service.calls()), 1)

    def test_a_response_that_is_too_large_is_sent_and_not_kept(self):
        service = self.shared()
        for target, asked in (("/large", {"size": 3 * MIB}), ("/stream", {"parts": 48})):
            with self.subTest(target):
                first = service.ask(target=target, body=asked, key="k")
                self.assertEqual((first.status, len(first.body)), (200, 3 * MIB))
                again = service.ask(target=target, body=asked, key="k")
                self.assertEqual((again.status, again.code), (409, "response-not-kept"))
                self.assertEqual(len(service.calls(target)), 1)

    def test_a_streamed_response_that_is_small_enough_is_replayed(self):
        service = self.shared()
        first, again = (service.ask(target="/stream", body={"parts": 2}, key="k") for _ in range(2))
        self.assertEqual((len(first.body), again.body, again.get("Idempotency-Status")), (2 * 65536, first.body, "replayed"))

    def test_an_event_stream_comes_as_it_is_made_and_is_not_executed_again(self):
        service = self.shared()
        with Client(service.port) as client:
            client.send_request("POST", "/events", [("Content-Type", "application/json")], b"{}", key=service.key("k"))
            client.read_until(b"data: first\n\n")
            service.go()
            client.read_until(b"data: last\n\n")
        again = service.ask(target="/events", body={}, key="k")
        self.assertEqual((again.status, again.code), (409, "response-not-kept"))

    def test_cookies_go_to_the_first_caller_only(self):
        service = self.shared()
        first, again = (service.ask(target="/cookies", body={}, key="k") for _ in range(2))
        self.assertEqual(first.all("Set-Cookie"), ["a=1", "b=2"])
        self.assertEqual((again.all("Set-Cookie"), again.get("X-Made"), again.body), ([], "7", b"cookies"))



class Callers:
    def test_a_verified_caller_has_keys_of_its_own(self):
        service = self.shared()
        for user in ("ada", "grace"):
            first, again = (service.ask(body={}, key="k", fields=[("X-User", user)]) for _ in range(2))
            self.assertEqual([first.get("Idempotency-Status"), again.get("Idempotency-Status")], ["executed", "replayed"])
        self.assertEqual(len(service.calls()), 2)

    def test_headers_of_middlewares_before_stay(self):
        service = self.shared()
        for _ in range(2):
            answer = service.ask(body={}, key="k")
            self.assertEqual(answer.all("X-Outer"), ["set before"])

    def test_a_handler_that_gives_up_leaves_an_unknown_outcome(self):
        service = self.shared()
        try:
            service.ask(target="/destroys", body={}, key="k")
        except (OSError, EOFError, AssertionError):
            pass
        again = wait_until(lambda: self.known_unknown(service), what="the outcome to be unknown")
        self.assertEqual(again.status, 409)
        self.assertEqual(len(service.calls("/destroys")), 1)

    def known_unknown(self, service):
        answer = service.ask(target="/destroys", body={}, key="k")
        return answer if answer.status == 409 and answer.code == "outcome-unknown" else None


class ExpressTest(Middleware, Callers, Services):
    framework = "express"

    def test_a_store_that_does_not_answer_does_not_block_the_event_loop(self):
        """Everything else is served meanwhile."""
        server = catalog.make("redis")
        self.addCleanup(server.stop)
        server.start()
        service = self.service("express", server.url(), **{"server.timeout": "1m", "defaults.lease": "5m"})
        self.assertEqual(service.ask(body={}, key="before").status, 201)
        server.pause()
        stuck = [self.in_background(service.ask, body={}, key=f"k{number}") for number in range(20)]
        for _ in range(50):
            self.assertEqual(service.ask(body={}).status, 201)
        self.assertEqual([call.answer for call in stuck], [None] * 20, "they wait for the store")
        server.resume()
        self.assertEqual({call.result().status for call in stuck}, {201})


class HttpTest(Middleware, Services):
    framework = "http"

    test_a_handler_that_throws_has_failed = None  # there is no framework to answer for it


class FastifyTest(Middleware, Callers, Services):
    framework = "fastify"


class HandlerTest(Middleware, Services):
    framework = "handler"


if __name__ == "__main__":
    unittest.main()
