"""What happened at the backend, and what a retry meets: the table of outcomes, row by row."""
import unittest

from harness import Sharing
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


def dies(_, connection):
    connection.reset()


class Outcomes(Sharing):
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
        backend, gateway = self.start(answers(201), own=True)
        backend.stop_listening()
        for _ in range(2):
            answer = gateway.ask(key=KEY, body=b"1")
            self.assertEqual((answer.status, answer.code, answer.problem["retryable"]), (502, "bad-gateway", True))
        backend.listen()
        other_body = gateway.ask(key=KEY, body=b"2")
        self.assertEqual((other_body.status, other_body.get("Idempotency-Status")), (201, "executed"))
        self.assertEqual(self.attempts(backend), [1])
        self.assertEqual(gateway.metrics()["once_backend_connect_failures_total"], 2)


class NobodyKnows(Outcomes):
    def test_a_backend_that_does_not_answer_in_time(self):
        go = self.gate()
        backend, gateway = self.start(lambda *_: go.wait(), settings=["defaults.timeouts.response=100ms"])
        answer = gateway.ask(key=KEY)
        self.assert_unknown_now(answer, 504)
        self.assertEqual((answer.get("Retry-After"), answer.get("X-Should-Retry")), (None, "false"))
        self.assert_unknown_now(gateway.ask(key=KEY), 409)
        wait_until(lambda: backend.requests)
        self.assertEqual(len(backend.requests), 1)

    def test_takeover_executes_again_once_its_time_has_come(self):
        clock = self.clock()
        backend, gateway = self.start(dies, answers(201), clock=clock, own=True,
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


class WholeAnswers(Outcomes):
    def test_a_500_lets_a_retry_execute_again(self):
        backend, gateway = self.start(answers(500, body=b"oops"), answers(503), answers(201), own=True)
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

    def test_refusals_give_the_key_back(self):
        for status in (401, 402, 403, 407, 408, 413, 425, 429):
            with self.subTest(status=status):
                backend, gateway = self.start(answers(status, [("Retry-After", "7")], b"no"), answers(201))
                first = gateway.ask(key=KEY, body=b"one")
                self.assertEqual((first.status, first.body, first.get("Retry-After")), (status, b"no", "7"))
                self.assertIsNone(first.get("Idempotency-Expires"))
                self.assertEqual(gateway.ask(key=KEY, body=b"two").status, 201)
                self.assertEqual(self.attempts(backend), [1, 1])

    def test_a_backend_can_ask_not_to_be_recorded(self):
        backend, gateway = self.start(answers(200, [("Idempotency-Policy", "no-store")]), answers(201))
        first = gateway.ask(key=KEY, body=b"one")
        self.assertEqual((first.status, first.get("Idempotency-Policy")), (200, None))
        self.assertEqual(gateway.ask(key=KEY, body=b"two").status, 201)
        self.assertEqual(self.attempts(backend), [1, 1])


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


if __name__ == "__main__":
    unittest.main()
