"""One execution, one answer: what Once is for."""
import email.utils
import gzip
import socket
import threading
import time
import unittest

from harness import EndToEnd
from wire import Client, wait_until

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


class Concurrency(EndToEnd):
    def slow_backend(self):
        """Answers when the test says so."""
        go = self.gate()

        def handler(_, connection):
            go.wait()
            connection.reply(201, [("Location", "/orders/1")], b"order 1")

        return self.backend(handler), go

    def test_sixty_requests_with_one_key_execute_once(self):
        backend, go = self.slow_backend()
        gateway = self.gateway(backend, "defaults.in_flight=reject")
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
        gateway = self.gateway(backend)
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

    def test_a_waiting_request_gives_up_at_its_limit(self):
        backend, _ = self.slow_backend()
        gateway = self.gateway(backend, "defaults.in_flight_wait=100ms")
        first = self.connect(gateway)
        first.send_request(key=KEY)
        wait_until(lambda: backend.requests)
        answer = gateway.ask(key=KEY)
        self.assertEqual((answer.status, answer.code), (409, "in-flight"))
        self.assertEqual(len(backend.requests), 1)

    def test_a_waiting_client_that_leaves_costs_nothing_further(self):
        for leave in (Client.close, Client.reset):
            with self.subTest(leave=leave.__name__):
                backend, go = self.slow_backend()
                gateway = self.gateway(backend, "defaults.in_flight_wait=10m", "limits.max_in_flight=2")
                first, second = self.connect(gateway), self.connect(gateway)
                first.send_request(key=KEY)
                wait_until(lambda backend=backend: backend.requests)
                second.send_request(key=KEY)
                wait_until(lambda gateway=gateway: gateway.metrics()["once_waiting"] == 1)
                self.assertEqual(gateway.ask(key="other").code, "overloaded", "who waits has a place among those at work")
                leave(second)
                wait_until(lambda gateway=gateway: gateway.metrics()["once_connections_open"] == 1)
                metrics = gateway.metrics()
                self.assertEqual((metrics["once_waiting"], metrics["once_in_flight"]), (0, 1))
                go.set()
                self.assertEqual(first.read_response().status, 201)
                self.assertEqual(len(backend.requests), 1)

    def test_a_waiting_client_that_closes_its_side_is_told_to_come_back(self):
        backend, go = self.slow_backend()
        gateway = self.gateway(backend, "defaults.in_flight_wait=10m")
        first, second = self.connect(gateway), self.connect(gateway)
        first.send_request(key=KEY)
        wait_until(lambda: backend.requests)
        second.send_request(key=KEY)
        second.sock.shutdown(socket.SHUT_WR)
        answer = second.read_response()
        self.assertEqual((answer.status, answer.code, answer.get("Retry-After")), (409, "in-flight", "1"))
        go.set()
        self.assertEqual(first.read_response().status, 201)

    def test_waiting_requests_execute_one_after_the_other_when_each_fails(self):
        at_once = []
        most = []

        def handler(request, connection):
            at_once.append(request)
            most.append(len(at_once))
            at_once.remove(request)  # from the first byte of the answer on the next may come
            connection.reply(500, body=b"no")

        backend = self.backend(handler)
        gateway = self.gateway(backend)
        answers = ask_all(gateway, 8, key=KEY)
        self.assertEqual([answer.status for answer in answers], [500] * 8)
        self.assertEqual(max(most), 1)
        attempts = [int(request.get("Idempotency-Attempt")) for request in backend.requests]
        self.assertEqual(attempts, list(range(1, 9)))


class SameAnswer(EndToEnd):
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

    def test_location_and_reason_of_a_201(self):
        first, _ = self.ask_twice(lambda _, to: to.reply(201, [("Location", "/orders/17")], b"{}", reason="Made It"))
        self.assertEqual((first.status, first.reason, first.get("Location")), (201, "Made It", "/orders/17"))

    def test_a_body_of_every_byte(self):
        everything = bytes(range(256)) * 300
        first, _ = self.ask_twice(lambda _, to: to.reply(200, [("Content-Type", "image/x")], everything))
        self.assertEqual(first.body, everything)

    def test_an_empty_204(self):
        first, second = self.ask_twice(lambda _, to: to.send(b"HTTP/1.1 204 No Content\r\nETag: \"7\"\r\n\r\n"))
        for answer in (first, second):
            self.assertEqual((answer.status, answer.get("Content-Length"), answer.get("ETag")), (204, None, '"7"'))

    def test_an_empty_200(self):
        first, _ = self.ask_twice(lambda _, to: to.reply(200))
        self.assertEqual((first.body, first.get("Content-Length")), (b"", "0"))

    def test_a_redirect(self):
        first, _ = self.ask_twice(lambda _, to: to.reply(303, [("Location", "/done")]))
        self.assertEqual((first.status, first.get("Location")), (303, "/done"))

    def test_a_404_is_an_answer_like_any_other(self):
        first, _ = self.ask_twice(lambda _, to: to.reply(404, body=b"no such thing"))
        self.assertEqual(first.status, 404)

    def test_a_chunked_response(self):
        raw = (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
               b"5;x=y\r\nhello\r\n1\r\n \r\n5\r\nworld\r\n0\r\n\r\n")
        first, _ = self.ask_twice(lambda _, to: to.send(raw))
        self.assertEqual((first.body, first.get("Content-Length")), (b"hello world", "11"))

    def test_a_response_that_ends_with_its_connection(self):
        def handler(_, connection):
            connection.send(b'HTTP/1.0 200 OK\r\nX-Kind: old\r\nContent-Type: application/json\r\n\r\n"until the end"')
            connection.close()

        first, _ = self.ask_twice(handler)
        self.assertEqual((first.body, first.get("X-Kind")), (b'"until the end"', "old"))

    def test_a_gzipped_response_stays_as_it_is(self):
        body = gzip.compress(b"squeezed " * 100)
        first, _ = self.ask_twice(lambda _, to: to.reply(200, [("Content-Encoding", "gzip")], body))
        self.assertEqual((first.body, first.get("Content-Encoding")), (body, "gzip"))

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

    def test_cookies_are_replayed_where_an_operator_asks_for_it(self):
        backend = self.backend(lambda _, to: to.reply(200, [("Set-Cookie", "a=1")]))
        gateway = self.gateway(backend, "defaults.record.set_cookie=keep")
        self.assertEqual([gateway.ask(key=KEY).all("Set-Cookie") for _ in range(2)], [["a=1"], ["a=1"]])

    def test_an_answer_without_a_date_gets_one(self):
        first, second = self.ask_twice(lambda _, to: to.reply(200))
        self.assertEqual([len(answer.all("Date")) for answer in (first, second)], [1, 1])

    def test_dropped_headers_belong_to_the_first_answer_alone(self):
        backend = self.backend(lambda _, to: to.reply(200, [("X-Trace", "7"), ("X-Kept", "8")]))
        gateway = self.gateway(backend, "defaults.record.drop_headers=x-trace")
        first, second = gateway.ask(key=KEY), gateway.ask(key=KEY)
        self.assertEqual((first.get("X-Trace"), second.get("X-Trace")), ("7", None))
        self.assertEqual((first.get("X-Kept"), second.get("X-Kept")), ("8", "8"))

    def test_a_response_just_within_record_max_body(self):
        body = b"x" * 100_000
        self.ask_twice(lambda _, to: to.reply(200, body=body), ["defaults.record.max_body=100000"])

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


class Dates(EndToEnd):
    def test_every_answer_says_once_when_it_was_made(self):
        gateway = self.gateway(self.backend(), "defaults.key.required=yes", "defaults.cors.origins=https://app.test")
        preflight = [("Origin", "https://app.test"), ("Access-Control-Request-Method", "POST")]
        for status, method, fields, key in ((400, "POST", [], None), (400, "GET", [("Bad name", "x")], None),
                                            (204, "OPTIONS", preflight, None), (201, "POST", [], "k"), (201, "POST", [], "k")):
            with self.subTest(method=method, fields=fields, key=key):
                answer = gateway.ask(method, "/", fields, key=key)
                self.assertEqual((answer.status, len(answer.all("Date"))), (status, 1))
                self.assertTrue(answer.get("Date").endswith(" GMT"))
                self.assertEqual(email.utils.format_datetime(email.utils.parsedate_to_datetime(answer.get("Date")), usegmt=True),
                                 answer.get("Date"))


if __name__ == "__main__":
    unittest.main()
