"""One execution, one answer: what Once is for."""
import threading
import unittest

from harness import Sharing
from wire import wait_until

KEY = "8e03978e-40d5-43e8-bc93-6894a57f9324"
# What only the first answer, only a replay, or each answer has for itself.
MARKS = {"idempotency-status", "idempotency-replayed", "original-request-id", "x-request-id", "date", "set-cookie"}


def comparable(response):
    """Everything that a replay must have in common with the first answer."""
    fields = [(name, value) for name, value in response.fields if name.lower() not in MARKS]
    return response.status, response.reason, sorted(fields), response.body


def ask_all(gateway, count, **named):
    """The same request from many connections at a time."""
    answers = [None] * count

    def ask(index):
        answers[index] = gateway.ask(**named)

    threads = [threading.Thread(target=ask, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


class Concurrency(Sharing):
    def slow_backend(self):
        """Answers when the test says so."""
        go = self.gate()

        def handler(_, connection):
            go.wait()
            connection.reply(201, [("Location", "/orders/1")], b"order 1")

        return self.backend(handler), go

    def test_sixty_requests_with_one_key_execute_once(self):
        backend, go = self.slow_backend()
        gateway = self.gateway(backend, "defaults.in_flight=reject", own=True)
        answers = []
        asking = threading.Thread(target=lambda: answers.extend(ask_all(gateway, 60, key=KEY, body=b"{}")))
        asking.start()
        wait_until(lambda: gateway.metrics()['once_requests_total{result="in-flight"}'] >= 50)
        go.set()
        asking.join()

        self.assertEqual(len(backend.requests), 1)
        by_status = {}
        for answer in answers:
            by_status.setdefault(answer.get("Idempotency-Status"), []).append(answer)
        self.assertEqual(len(by_status.pop("executed")), 1)
        for answer in by_status.pop("replayed", []):
            self.assertEqual((answer.status, answer.body), (201, b"order 1"))
        for answer in by_status.pop("in-flight"):
            self.assertEqual((answer.status, answer.code, answer.problem["retryable"]), (409, "in-flight", True))
            self.assertGreaterEqual(int(answer.get("Retry-After")), 1)
        self.assertEqual(by_status, {})

    def test_sixty_waiting_requests_get_the_same_bytes_from_one_execution(self):
        backend, go = self.slow_backend()
        gateway = self.gateway(backend, own=True)
        answers = []
        asking = threading.Thread(target=lambda: answers.extend(ask_all(gateway, 60, key=KEY, body=b"{}")))
        asking.start()
        wait_until(lambda: gateway.metrics()["once_waiting"] == 59)
        go.set()
        asking.join()

        self.assertEqual(len(backend.requests), 1)
        self.assertEqual({(answer.status, answer.body) for answer in answers}, {(201, b"order 1")})
        statuses = [answer.get("Idempotency-Status") for answer in answers]
        self.assertEqual((statuses.count("executed"), statuses.count("replayed")), (1, 59))


class SameAnswer(Sharing):
    """The first answer and its replay, byte for byte."""

    def ask_twice(self, handler, settings=(), **named):
        backend = self.backend(handler)
        gateway = self.gateway(backend, *settings)
        first = gateway.ask(key=KEY, **named)
        second = gateway.ask(key=KEY, **named)
        self.assertEqual(len(backend.requests), 1)
        self.assertEqual(comparable(first), comparable(second))
        self.assertEqual(first.get("Idempotency-Status"), "executed")
        self.assertEqual(second.get("Idempotency-Status"), "replayed")
        self.assertIsNone(first.get("Idempotency-Replayed"))
        self.assertEqual(second.get("Idempotency-Replayed"), "true")
        self.assertEqual(second.get("Original-Request-Id"), first.get("X-Request-Id"))
        self.assertNotEqual(second.get("X-Request-Id"), first.get("X-Request-Id"))
        return first, second

    def test_a_body_of_every_byte(self):
        everything = bytes(range(256)) * 300
        first, _ = self.ask_twice(lambda _, to: to.reply(200, [("Content-Type", "image/x")], everything))
        self.assertEqual(first.body, everything)

    def test_repeated_headers_and_odd_casing(self):
        fields = [("Link", "<a>"), ("X-oDd", "1"), ("Link", "<b>"), ("x-LOWER", "  spaces  "), ("X-Empty", "")]
        first, second = self.ask_twice(lambda _, to: to.reply(200, fields))
        for answer in (first, second):
            self.assertEqual(answer.all("Link"), ["<a>", "<b>"])
            for line in (b"\r\nX-oDd: 1\r\n", b"\r\nx-LOWER:   spaces  \r\n", b"\r\nX-Empty: \r\n"):
                self.assertIn(line, answer.head)

    def test_set_cookie_and_date_belong_to_the_first_answer_alone(self):
        date = "Tue, 01 Jan 2019 00:00:00 GMT"
        fields = [("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"), ("Date", date)]
        first, second = self.ask_twice(lambda _, to: to.reply(200, fields))
        self.assertEqual((first.all("Set-Cookie"), second.all("Set-Cookie")), (["a=1", "b=2"], []))
        self.assertEqual(first.all("Date"), [date])
        self.assertEqual(len(second.all("Date")), 1)
        self.assertNotEqual(second.get("Date"), date)

    def test_a_request_id_of_the_client_goes_everywhere(self):
        backend = self.backend(lambda _, to: to.reply(200, [("X-Request-Id", "of-the-backend")]))
        gateway = self.gateway(backend)
        first = gateway.ask(key=KEY, fields=[("X-Request-Id", "first-1")])
        second = gateway.ask(key=KEY, fields=[("X-Request-Id", "second-2")])
        self.assertEqual(backend.requests[0].all("X-Request-Id"), ["first-1"])
        self.assertEqual(first.all("X-Request-Id"), ["first-1"])
        self.assertEqual(second.all("X-Request-Id"), ["second-2"])
        self.assertEqual(second.get("Original-Request-Id"), "first-1")

    def test_a_backend_cannot_claim_to_replay(self):
        fields = [("Idempotency-Status", "replayed"), ("Idempotency-Replayed", "true"), ("Original-Request-Id", "x")]
        self.ask_twice(lambda _, to: to.reply(200, fields))

    def test_an_answer_is_forgotten_at_the_time_it_said(self):
        backend = self.backend()
        clock = self.clock()
        gateway = self.gateway(backend, "defaults.ttl=1h", clock=clock)
        first = gateway.ask(key=KEY)
        self.assertRegex(first.get("Idempotency-Expires"), r"^\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT$")
        clock.advance(50 * 60)
        replay = gateway.ask(key=KEY)
        self.assertEqual((replay.get("Idempotency-Status"), replay.get("Idempotency-Expires")),
                         ("replayed", first.get("Idempotency-Expires")))
        clock.advance(11 * 60)
        again = gateway.ask(key=KEY)
        self.assertEqual((again.get("Idempotency-Status"), again.body), ("executed", b"made by attempt 1"))
        self.assertEqual(len(backend.requests), 2)


if __name__ == "__main__":
    unittest.main()
