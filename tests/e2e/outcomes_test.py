"""What happened at the backend, and what a retry meets: the table of outcomes, row by row."""
import unittest

from harness import EndToEnd
from wire import wait_until

KEY = "outcome-key"


class Script:
    """A handler that plays one step per request, and the last one again and again."""

    def __init__(self, *steps):
        self.steps = list(steps)

    def __call__(self, request, connection):
        step = self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
        step(request, connection)


def answers(status, fields=(), body=b"answer"):
    return lambda _, connection: connection.reply(status, fields, body)


def sends_and_closes(raw):
    def step(_, connection):
        connection.send(raw)
        connection.close()

    return step


def dies(_, connection):
    connection.reset()


def hangs_up(_, connection):
    connection.close()


class Outcomes(EndToEnd):
    def start(self, *steps, settings=(), **named):
        backend = self.backend(Script(*steps))
        return backend, self.gateway(backend, *settings, **named)

    def attempts(self, backend):
        return [int(request.get("Idempotency-Attempt")) for request in backend.requests]

    def assert_unknown_now(self, answer, status):
        self.assertEqual((answer.status, answer.code), (status, "outcome-unknown"))
        self.assertEqual(answer.get("Idempotency-Status"), "unknown")


class NothingWasSent(Outcomes):
    def test_a_refused_connection_does_not_consume_the_key(self):
        backend, gateway = self.start(answers(201))
        backend.stop_listening()
        for _ in range(2):
            answer = gateway.ask(key=KEY, body=b"1")
            self.assertEqual((answer.status, answer.code, answer.problem["retryable"]), (502, "bad-gateway", True))
        backend.listen()
        other_body = gateway.ask(key=KEY, body=b"2")
        self.assertEqual((other_body.status, other_body.get("Idempotency-Status")), (201, "executed"))
        self.assertEqual(self.attempts(backend), [1])
        self.assertEqual(gateway.metrics()["once_backend_connect_failures_total"], 2)

    def test_a_failed_attempt_stays_failed_when_the_next_is_refused(self):
        backend, gateway = self.start(answers(500), answers(201))
        self.assertEqual(gateway.ask(key=KEY).status, 500)
        backend.stop_listening()
        self.assertEqual(gateway.ask(key=KEY).code, "bad-gateway")
        backend.listen()
        self.assertEqual(gateway.ask(key=KEY, body=b"other").status, 422)
        self.assertEqual(gateway.ask(key=KEY).status, 201)
        self.assertEqual(len(backend.requests), 2)


class NobodyKnows(Outcomes):
    UNKNOWN = {
        "closed without a word": (hangs_up, 502),
        "reset": (dies, 502),
        "cut in the head": (sends_and_closes(b"HTTP/1.1 200 OK\r\nContent-Le"), 502),
        "cut in a body of known length": (sends_and_closes(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"), 502),
        "cut in a chunk": (sends_and_closes(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel"), 502),
        "no last chunk": (sends_and_closes(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n"), 502),
        "no end of trailers":
            (sends_and_closes(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-T: 1\r\n"), 502),
        "not HTTP": (sends_and_closes(b"SSH-2.0-OpenSSH_9.2\r\n\r\n"), 502),
        "two lengths":
            (sends_and_closes(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc"), 502),
        "length and chunked":
            (sends_and_closes(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
             502),
        "a bad chunk size": (sends_and_closes(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), 502),
        "a trailer without end":
            (sends_and_closes(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"T" * 100_000), 502),
        "an endless head": (sends_and_closes(b"HTTP/1.1 200 OK\r\n" + b"X-Y: z\r\n" * 20_000), 502),
        "switching protocols unasked": (sends_and_closes(b"HTTP/1.1 101 Switching Protocols\r\n\r\n"), 502),
        "only an interim response": (sends_and_closes(b"HTTP/1.1 103 Early Hints\r\n\r\n"), 502),
    }

    def test_a_response_that_is_not_whole_is_an_unknown_outcome(self):
        # One gateway for all: what one backend did wrong must not disturb the next request.
        backend, gateway = self.start(answers(200))
        for name, (step, status) in self.UNKNOWN.items():
            with self.subTest(name):
                backend.handler = step
                before = len(backend.requests)
                self.assert_unknown_now(gateway.ask(key=f"{name.replace(' ', '-')}"), status)
                retry = gateway.ask(key=f"{name.replace(' ', '-')}")
                self.assert_unknown_now(retry, 409)
                self.assertEqual((retry.get("Retry-After"), retry.get("X-Should-Retry")), (None, "false"))
                self.assertFalse(retry.problem["retryable"])
                self.assertEqual(len(backend.requests), before + 1)

    # Neither a length nor chunks: the body ends where the connection does, and may have been cut off there.
    UNFRAMED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
    CUT_OFF = UNFRAMED + b'{"id": "ch_1", "amount":'

    def test_a_cut_off_response_that_ends_with_its_connection_is_not_replayed_as_a_whole_one(self):
        backend, gateway = self.start(sends_and_closes(self.CUT_OFF), answers(200))
        first = gateway.ask(key=KEY)
        self.assertEqual((first.status, first.get("Idempotency-Status"), first.body),
                         (200, "unknown", b'{"id": "ch_1", "amount":'))
        self.assert_unknown_now(gateway.ask(key=KEY), 409)
        self.assertEqual(len(backend.requests), 1)

    def test_json_that_ends_with_its_connection_and_parses_is_whole(self):
        backend, gateway = self.start(sends_and_closes(self.UNFRAMED + b'{"id": "ch_1"}'))
        self.assertEqual(gateway.ask(key=KEY).get("Idempotency-Status"), "executed")
        again = gateway.ask(key=KEY)
        self.assertEqual((again.get("Idempotency-Status"), again.body), ("replayed", b'{"id": "ch_1"}'))
        self.assertEqual(len(backend.requests), 1)

    def test_what_ends_with_its_connection_can_be_kept_or_unknown_whatever_it_is(self):
        for value, raw, status in (("keep", self.CUT_OFF, "replayed"), ("unknown", self.UNFRAMED + b"{}", "unknown")):
            with self.subTest(value):
                backend, gateway = self.start(sends_and_closes(raw), settings=[f"defaults.record.unframed={value}"])
                gateway.ask(key=KEY)
                self.assertEqual(gateway.ask(key=KEY).get("Idempotency-Status"), status)
                self.assertEqual(len(backend.requests), 1)

    def test_a_backend_that_does_not_answer_in_time(self):
        go = self.gate()
        backend, gateway = self.start(lambda *_: go.wait(), settings=["defaults.timeouts.response=100ms"])
        answer = gateway.ask(key=KEY)
        self.assert_unknown_now(answer, 504)
        self.assertEqual((answer.get("Retry-After"), answer.get("X-Should-Retry")), (None, "false"))
        self.assert_unknown_now(gateway.ask(key=KEY), 409)
        wait_until(lambda: backend.requests)
        self.assertEqual(len(backend.requests), 1)

    def test_a_backend_that_stops_in_the_middle_of_its_body(self):
        go = self.gate()

        def half(_, connection):
            connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
            go.wait()

        _, gateway = self.start(half, settings=["defaults.timeouts.response=100ms"])
        self.assert_unknown_now(gateway.ask(key=KEY), 504)

    def test_takeover_executes_again_once_its_time_has_come(self):
        clock = self.clock()
        backend, gateway = self.start(dies, answers(201), clock=clock,
                                      settings=["defaults.on_unknown=takeover", "defaults.takeover_after=10m"])
        self.assert_unknown_now(gateway.ask(key=KEY), 502)
        self.assertEqual(gateway.ask(key=KEY, body=b"other").status, 422)
        for _ in range(3):
            answer = gateway.ask(key=KEY)
            self.assert_unknown_now(answer, 409)
            self.assertIn(int(answer.get("Retry-After")), range(1, 31))  # clients sleep for as long as it says
            clock.advance(180)
        clock.advance(180)
        self.assertEqual(gateway.ask(key=KEY).status, 201)
        self.assertEqual(self.attempts(backend), [1, 2])
        fences = [int(request.get("Idempotency-Fence")) for request in backend.requests]
        self.assertLess(*fences)
        self.assertEqual(gateway.ask(key=KEY).get("Idempotency-Status"), "replayed")
        self.assertEqual(gateway.metrics()["once_takeovers_total"], 1)

    def test_retry_executes_at_once(self):
        backend, gateway = self.start(dies, dies, answers(201), settings=["defaults.on_unknown=retry"])
        answer = gateway.ask(key=KEY)
        self.assert_unknown_now(answer, 502)
        self.assertEqual((answer.problem["retryable"], answer.get("Retry-After")), (True, "1"))
        self.assert_unknown_now(gateway.ask(key=KEY), 502)
        self.assertEqual(gateway.ask(key=KEY, body=b"other").status, 422)
        self.assertEqual(gateway.ask(key=KEY).status, 201)
        self.assertEqual(self.attempts(backend), [1, 2, 3])

    def test_hold_never_executes_again(self):
        backend, gateway = self.start(dies, answers(201), settings=["defaults.takeover_after=1s"])
        answer = gateway.ask(key=KEY)
        self.assert_unknown_now(answer, 502)
        self.assertEqual((answer.problem["retryable"], answer.get("X-Should-Retry")), (False, "false"))
        for _ in range(3):
            held = gateway.ask(key=KEY)
            self.assert_unknown_now(held, 409)
            self.assertIsNone(held.get("Retry-After"))
        self.assertEqual(len(backend.requests), 1)

    def test_a_backend_that_answers_before_it_has_read_the_request(self):
        def early(_, connection):
            connection.reply(200, [("Connection", "close")], b"early")
            connection.close()

        backend = self.backend(early, read_body=False)
        gateway = self.gateway(backend)
        answer = gateway.ask(key=KEY, body=b"x" * 4_000_000)
        # The answer may be lost to a reset, and then nobody knows; it must never be taken for another one.
        if answer.status == 200:
            self.assertEqual((answer.body, answer.get("Idempotency-Status")), (b"early", "executed"))
        else:
            self.assert_unknown_now(answer, 502)
        self.assertEqual(len(backend.requests), 1)


class WholeAnswers(Outcomes):
    def test_a_500_lets_a_retry_execute_again(self):
        backend, gateway = self.start(answers(500, body=b"oops"), answers(503), answers(201))
        first = gateway.ask(key=KEY)
        self.assertEqual((first.status, first.body), (500, b"oops"))
        self.assertEqual(first.get("Idempotency-Status"), "executed")
        self.assertIsNone(first.get("Idempotency-Expires"))
        self.assertEqual([gateway.ask(key=KEY).status for _ in range(3)], [503, 201, 201])
        self.assertEqual(self.attempts(backend), [1, 2, 3])
        fences = [int(request.get("Idempotency-Fence")) for request in backend.requests]
        self.assertEqual(fences, sorted(set(fences)))
        self.assertEqual(len({request.get("Idempotency-Claim") for request in backend.requests}), 3)
        self.assertEqual(gateway.metrics()["once_retries_after_failure_total"], 2)

    def test_after_a_500_the_key_still_belongs_to_that_request(self):
        backend, gateway = self.start(answers(500))
        gateway.ask(key=KEY, body=b"one")
        self.assertEqual(gateway.ask(key=KEY, body=b"two").status, 422)
        self.assertEqual(len(backend.requests), 1)

    def test_refusals_give_the_key_back(self):
        for status in (401, 402, 403, 407, 408, 413, 425, 429):
            with self.subTest(status=status):
                backend, gateway = self.start(answers(status, [("Retry-After", "7")], b"no"), answers(201))
                first = gateway.ask(key=KEY, body=b"one")
                self.assertEqual((first.status, first.body, first.get("Retry-After")), (status, b"no", "7"))
                self.assertIsNone(first.get("Idempotency-Expires"))
                self.assertEqual(gateway.ask(key=KEY, body=b"two").status, 201)
                self.assertEqual(self.attempts(backend), [1, 1])

    def test_other_client_errors_are_answers(self):
        for status in (400, 404, 409, 422):
            with self.subTest(status=status):
                backend, gateway = self.start(answers(status), answers(201))
                self.assertEqual([gateway.ask(key=KEY).status for _ in range(2)], [status, status])
                self.assertEqual(len(backend.requests), 1)

    def test_errors_of_gateways_behind_us_are_failures_by_default(self):
        for status in (502, 503, 504):
            with self.subTest(status=status):
                backend, gateway = self.start(answers(status, body=b"theirs"), answers(201))
                first = gateway.ask(key=KEY)
                self.assertEqual((first.status, first.body, first.get("Idempotency-Status")),
                                 (status, b"theirs", "executed"))
                self.assertEqual(gateway.ask(key=KEY).status, 201)
                self.assertEqual(self.attempts(backend), [1, 2])

    def test_a_status_that_does_not_exist_is_an_error_of_the_backend(self):
        for status in (999, 600, 42):
            with self.subTest(status=status):
                raw = f"HTTP/1.1 {status:03} Odd\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nodd".encode()
                backend, gateway = self.start(lambda _, to, raw=raw: to.send(raw), lambda _, to, raw=raw: to.send(raw), answers(201))
                for key, said in ((None, None), (KEY, "executed")):
                    first = gateway.ask(key=key)
                    self.assertEqual((first.status, first.body, first.get("Idempotency-Status")), (502, b"odd", said))
                    self.assertEqual(first.get("Content-Length"), "3")
                self.assertEqual(gateway.ask(key=KEY).status, 201)
                self.assertEqual([request.get("Idempotency-Attempt") for request in backend.requests], [None, "1", "2"])

    def test_errors_of_gateways_behind_us_can_mean_that_nobody_knows(self):
        for status in (502, 503, 504):
            with self.subTest(status=status):
                backend, gateway = self.start(answers(status, body=b"theirs"), answers(201),
                                              settings=["defaults.record.gateway_errors=unknown"])
                first = gateway.ask(key=KEY)
                self.assertEqual((first.status, first.body, first.get("Idempotency-Status")),
                                 (status, b"theirs", "unknown"))
                self.assert_unknown_now(gateway.ask(key=KEY), 409)
                self.assertEqual(len(backend.requests), 1)

    def test_a_backend_can_ask_not_to_be_recorded(self):
        backend, gateway = self.start(answers(200, [("Idempotency-Policy", "no-store")]), answers(201))
        first = gateway.ask(key=KEY, body=b"one")
        self.assertEqual((first.status, first.get("Idempotency-Policy")), (200, None))
        self.assertEqual(gateway.ask(key=KEY, body=b"two").status, 201)
        self.assertEqual(self.attempts(backend), [1, 1])

    def test_a_backend_can_say_that_an_error_is_final(self):
        backend, gateway = self.start(answers(500, [("Idempotency-Policy", "final")], b"for good"), answers(201))
        first, again = gateway.ask(key=KEY), gateway.ask(key=KEY)
        self.assertEqual((first.status, first.get("Idempotency-Policy")), (500, None))
        self.assertEqual((again.status, again.body, again.get("Idempotency-Status")), (500, b"for good", "replayed"))
        self.assertEqual((len(backend.requests), again.get("Idempotency-Policy")), (1, None))

    def test_a_backend_can_say_that_a_success_is_not_final(self):
        backend, gateway = self.start(answers(202, [("idempotency-policy", "x-new, Retry")]), answers(201))
        first = gateway.ask(key=KEY, body=b"one")
        self.assertEqual((first.status, first.get("Idempotency-Policy"), first.get("Idempotency-Expires")),
                         (202, None, None))
        self.assertEqual(gateway.ask(key=KEY, body=b"two").status, 422)
        self.assertEqual(gateway.ask(key=KEY, body=b"one").status, 201)
        self.assertEqual(self.attempts(backend), [1, 2])

    def test_a_backend_can_say_how_long_its_answer_is_kept(self):
        clock = self.clock()
        _, gateway = self.start(answers(201, [("Idempotency-Policy", "ttl=600")], b"brief"), answers(201, body=b"later"),
                                settings=["defaults.ttl=24h"], clock=clock)
        for body in (b"brief", b"later"):
            self.assertEqual([gateway.ask(key=KEY).body for _ in range(2)], [body] * 2)
            clock.advance(660)
        self.assertEqual(gateway.ask(key=KEY).body, b"later")

    def test_custom_statuses(self):
        settings = ["defaults.record.statuses=2xx,500", "defaults.record.refusals=409"]
        for status, expected in ((200, "replayed"), (500, "replayed"), (404, "attempt 2"), (409, "attempt 1")):
            with self.subTest(status=status):
                backend, gateway = self.start(answers(status), settings=settings)
                first, second = gateway.ask(key=KEY), gateway.ask(key=KEY)
                self.assertEqual((first.status, second.status), (status, status))
                if expected == "replayed":
                    self.assertEqual(second.get("Idempotency-Status"), "replayed")
                    self.assertEqual(len(backend.requests), 1)
                else:
                    self.assertEqual(f"attempt {backend.requests[1].get('Idempotency-Attempt')}", expected)


class LargeAnswers(Outcomes):
    SIZE = 3_000_000
    BODY = bytes(range(250)) * (SIZE // 250)

    def assert_streamed_and_not_kept(self, step, settings=("defaults.record.max_body=64KiB",)):
        backend, gateway = self.start(step, settings=settings)
        first = gateway.ask(key=KEY, body=b"one")
        self.assertEqual((first.status, first.body == self.BODY), (200, True))
        self.assertEqual((first.get("Idempotency-Status"), first.get("X-Kind")), ("executed", "large"))
        retry = gateway.ask(key=KEY, body=b"one")
        self.assertEqual((retry.status, retry.code, retry.problem["retryable"]), (409, "response-not-kept", False))
        self.assertEqual(gateway.ask(key=KEY, body=b"two").status, 422)
        self.assertEqual(len(backend.requests), 1)
        return first

    def test_a_large_answer_streams_and_is_recorded_without_its_body(self):
        first = self.assert_streamed_and_not_kept(answers(200, [("X-Kind", "large")], self.BODY))
        self.assertEqual(first.get("Content-Length"), str(self.SIZE))

    def test_the_default_limit_is_a_mebibyte(self):
        self.assert_streamed_and_not_kept(answers(200, [("X-Kind", "large")], self.BODY), settings=())

    def test_a_large_chunked_answer(self):
        chunks = b"".join(b"3e8\r\n" + self.BODY[at:at + 1000] + b"\r\n" for at in range(0, self.SIZE, 1000))
        raw = b"HTTP/1.1 200 OK\r\nX-Kind: large\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
        first = self.assert_streamed_and_not_kept(lambda _, connection: connection.send(raw))
        self.assertEqual(first.get("Transfer-Encoding"), "chunked")

    def test_it_is_recorded_when_it_came_whole_and_before_its_end_is_told(self):
        go = self.gate()

        def half(_, connection):
            connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n" + b"x" * 100_000)
            go.wait()
            connection.send(b"y" * 100_000)

        _, gateway = self.start(half, settings=["defaults.record.max_body=64KiB", "defaults.in_flight_wait=1ms"])
        client = self.connect(gateway)
        client.send_request(key=KEY)
        client.read_until(b"\r\n\r\n")
        self.assertEqual(len(client.read(100_000)), 100_000)
        self.assertEqual(gateway.ask(key=KEY).code, "in-flight")
        go.set()
        self.assertEqual(len(client.read(100_000)), 100_000)
        self.assertEqual(gateway.ask(key=KEY).code, "response-not-kept")

    def test_a_large_answer_that_breaks_off_is_unknown_and_does_not_look_whole(self):
        framed = b"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n" + b"x" * 0x20000
        chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n20000\r\n" + b"x" * 0x20000
        for name, part in (("framed", framed), ("chunked", chunked)):
            for limit in ("64KiB", "0"):
                with self.subTest(name, limit=limit):
                    backend, gateway = self.start(sends_and_closes(part), settings=[f"defaults.record.max_body={limit}"])
                    with self.assertRaises((EOFError, ConnectionResetError)):
                        gateway.ask(key=KEY)
                    self.assertEqual(gateway.ask(key=KEY).code, "outcome-unknown")
                    self.assertEqual(len(backend.requests), 1)

    def test_a_client_that_leaves_during_a_large_answer(self):
        go = self.gate()

        def handler(_, connection):
            connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 50000000\r\n\r\n" + b"x" * 100_000)
            go.wait()
            connection.send(b"y" * 49_900_000)

        backend, gateway = self.start(handler, settings=["defaults.record.max_body=64KiB"])
        client = gateway.connect()
        client.send_request(key=KEY)
        client.read_until(b"\r\n\r\n")
        client.reset()
        go.set()
        self.assertEqual(gateway.ask(key=KEY).code, "response-not-kept")
        self.assertEqual(len(backend.requests), 1)


if __name__ == "__main__":
    unittest.main()
