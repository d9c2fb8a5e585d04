"""once.stream() and once.stream_async() at a real gateway, over connections that break: bytes come once, and so does the execution."""
import asyncio
import threading
import unittest
import unittest.mock

import httpx
import once
import requests
from cutting_proxy import CuttingProxy
from harness import EndToEnd
from keyed_stream_test import HEAD, LAST, Script, chunk, event
from once import sending
from once.server_sent import EventParser
from support import sys
from wire import DEADLINE, wait_until

PADDING = b": " + b"-" * 700 + b"\n"  # so that two events are more than what is compared


def over_standard(take, url, **named):
    with once.stream(url, b"{}", **named) as stream:
        take.head(stream)
        for each in stream.events():
            take(each)
            if take.stops:
                take.stop_told = stream.stop()


def over_requests(take, url, **named):
    with requests.Session() as session:
        over_standard(take, url, session=session, **named)


def over_httpx(take, url, **named):
    with httpx.Client() as session:
        over_standard(take, url, session=session, **named)


async def read_async(take, url, **named):
    async with once.stream_async(url, b"{}", **named) as stream:
        take.head(stream)
        async for each in stream.events():
            take(each)
            if take.stops:
                take.stop_told = await stream.stop()


def over_async(take, url, **named):
    asyncio.run(read_async(take, url, **named))


def over_async_without_httpx(take, url, **named):
    with unittest.mock.patch.dict(sys.modules, httpx=None):
        over_async(take, url, **named)


WAYS = (over_standard, over_requests, over_httpx, over_async, over_async_without_httpx)


class Reading(threading.Thread):
    """A client at work in the background."""

    def __init__(self, way, url, stops=False, **named):
        super().__init__(daemon=True)
        self.stops = stops  # after the first event
        self.stop_told = None
        self.events = []
        self.stream = None
        self.error = None
        self._read = lambda: way(self, url, **named)
        self.start()

    def run(self):
        try:
            self._read()
        except Exception as error:  # noqa: BLE001: told by ended()
            self.error = error

    def head(self, stream):
        self.stream = stream

    def __call__(self, each):
        self.events.append(each)

    def until(self, count):
        wait_until(lambda: len(self.events) >= count or not self.is_alive(), what=f"{count} events")

    def ended(self):
        """The error, if there was one."""
        self.join(DEADLINE)
        assert not self.is_alive(), "it does not end"
        return self.error


def said(status, *fields):
    lines = "".join(f"{name}: {value}\r\n" for name, value in (("Idempotency-Status", status), *fields))
    return HEAD[:-2] + lines.encode() + b"\r\n"


def data(reading):
    return [each.data for each in reading.events]


def told(*numbers):
    return [f"event {number}" for number in numbers]


class StreamTest(EndToEnd):
    def setUp(self):
        super().setUp()
        for name, value in (("_FIRST_PAUSE", 0.001), ("_LONGEST_PAUSE", 0.01)):
            patched = unittest.mock.patch.object(sending, name, value)
            patched.start()
            self.addCleanup(patched.stop)

    def start(self, *settings, handler=None):
        self.script = handler or Script()
        self.served = self.backend(self.script)
        self.gate_process = self.gateway(self.served, "defaults.record.stream=auto", *settings)
        self.proxy = CuttingProxy(self.gate_process.port)
        self.addCleanup(self.proxy.stop)
        self.url = self.proxy.origin + "/v1/chat"

    def each(self, story):
        for way in WAYS:
            with self.subTest(way.__name__):
                story(way)


class Streams(StreamTest):
    def test_a_client_that_is_cut_off_at_every_event_gets_each_once(self):
        def story(way):
            self.start()
            reading = Reading(way, self.url)
            for number in range(6):
                self.script.tell(PADDING + event(number))
                reading.until(number + 1)
                self.proxy.cut()
            self.script.tell(None)
            self.assertIsNone(reading.ended())
            self.assertEqual(data(reading), told(*range(6)))
            self.assertEqual([each.id for each in reading.events], [str(number) for number in range(6)])
            self.assertEqual((reading.stream.status, reading.stream.headers.get("X-Model")), (200, "small"))
            self.assertEqual(reading.stream.received, 6 * len(PADDING + event(0)))
            self.assertEqual(len(self.served.requests), 1)
            self.assertIn(b"idempotency-offset: ", self.proxy.requests[-1].lower())
            self.assertIn(b"idempotency-attempt: 1\r\n", self.proxy.requests[-1].lower())
            self.assertGreaterEqual(len(self.proxy.requests), 6)

        self.each(story)

    def test_a_client_that_is_cut_off_at_any_byte_gets_each_once(self):
        whole = PADDING + event(0) + PADDING + event(1)

        def handler(_, connection):
            connection.send(HEAD + chunk(PADDING + event(0)) + chunk(PADDING + event(1)) + LAST)

        self.start(handler=handler)
        sizes = [*range(1, 400, 7), *range(400, 1900, 41)]
        for size in sizes:
            key = f"cut-{size}"
            self.proxy.cut_after(key, size)
            with once.stream(self.url, b"{}", key=key) as stream:
                self.assertEqual(stream.read(), whole, key)
        self.assertEqual(len(self.served.requests), len(sizes))
        self.assertGreater(len(self.proxy.requests), 1.9 * len(sizes), "the largest are larger than the response")

    def test_a_backend_that_breaks_at_any_event_leaves_an_unknown_outcome(self):
        def story(way):
            for count in range(4):
                self.start()
                reading = Reading(way, self.url, key="k")
                wait_until(lambda: reading.stream, what="the head")
                self.script.tell(*(event(number) for number in range(count)))
                reading.until(count)
                self.script.tell(False)
                error = reading.ended()
                self.assertIsInstance(error, once.StreamBroken)
                self.assertEqual((error.reason, error.key, error.received), ("outcome-unknown", "k", count * len(event(0))))
                self.assertIn("outcome is unknown", str(error))
                self.assertEqual((data(reading), len(self.served.requests)), (told(*range(count)), 1))

        self.each(story)

    def test_a_second_execution_is_not_mixed_with_the_first(self):
        def story(way):
            seen = self.gate()

            def handler(request, connection):
                if request.get("Idempotency-Attempt") == "1":
                    connection.send(HEAD + chunk(event(0)))
                    seen.wait(DEADLINE)
                    connection.reset()
                else:
                    connection.send(HEAD + chunk(event(7)) + LAST)

            self.start("defaults.on_unknown=retry", handler=handler)
            reading = Reading(way, self.url, key="k")
            reading.until(1)
            seen.set()
            error = reading.ended()
            self.assertEqual((error and error.reason, data(reading)), ("new-attempt", told(0)))
            again = Reading(way, self.url, key="k")
            self.assertIsNone(again.ended())
            self.assertEqual((data(again), len(self.served.requests)), (told(7), 2))

        self.each(story)

    def test_a_second_execution_that_somebody_else_began_is_not_mixed_with_the_first(self):
        """The retry attaches to it or gets a replay, so only its bytes show that it is another one."""
        def story(way):
            self.start("defaults.on_unknown=retry")
            reading = Reading(way, self.url, key="k")
            self.script.tell(PADDING + event(0), PADDING + event(1))
            reading.until(2)
            self.proxy.hold()
            self.script.tell(False)
            wait_until(lambda: len(self.proxy.requests) == 2, what="the retry")
            self.script.told, self.script.steps = [], threading.Semaphore(0)
            other = Reading(over_standard, f"http://127.0.0.1:{self.gate_process.port}/v1/chat", key="k",
                            headers={"Host": f"127.0.0.1:{self.proxy.port}"})
            self.script.tell(PADDING + event(7), PADDING + event(8))
            other.until(2)
            self.proxy.flow()
            self.script.tell(None)
            error = reading.ended()
            self.assertEqual((error and error.reason, data(reading)), ("new-attempt", told(0, 1)))
            self.assertIsNone(other.ended())
            self.assertEqual((data(other), len(self.served.requests)), (told(7, 8), 2))

        self.each(story)

    def test_a_silent_connection_is_replaced(self):
        def story(way):
            self.start()
            reading = Reading(way, self.url, timeout=0.3, deadline=2.0)
            self.script.tell(event(0))
            wait_until(lambda: len(self.proxy.requests) >= 4 or not reading.is_alive(), what="other connections")
            self.script.tell(event(1), None)
            self.assertIsNone(reading.ended())
            self.assertEqual((data(reading), len(self.served.requests)), (told(0, 1), 1))

        self.each(story)

    def test_giving_up_says_so_and_the_key_continues(self):
        def story(way):
            self.start()
            reading = Reading(way, self.url, deadline=0.5, timeout=0.2)
            self.script.tell(event(0))
            reading.until(1)
            self.proxy.hold()
            self.proxy.cut()
            error = reading.ended()
            self.assertEqual((error.reason, data(reading)), ("gave-up", told(0)))
            self.proxy.flow()
            self.script.tell(event(1), None)
            again = Reading(way, self.url, key=error.key, headers={"idempotency-offset": str(error.received)})
            self.assertIsNone(again.ended())
            self.assertEqual((data(again), len(self.served.requests)), (told(1), 1))

        self.each(story)

    def test_a_part_of_the_caller_is_followed_only_by_what_comes_after_it(self):
        answers = {"7": [("Idempotency-Offset", 7), ("Idempotency-Attempt", 1)], "8": [("Idempotency-Offset", 7)], "9": [],
                   "6": [("Idempotency-Offset", 6), ("Idempotency-Attempt", 2)], "x": []}

        def story(way):
            served = self.backend(lambda request, connection: connection.send(
                said("attached", *answers[request.get("Idempotency-Offset")]) + chunk(event(0)) + LAST))
            for offset in answers:
                reading = Reading(way, served.origin, headers={"idempotency-offset": offset, "Idempotency-Attempt": "1"})
                error = reading.ended()
                expected = (None, told(0)) if offset == "7" else ("new-attempt", [])
                self.assertEqual((error and error.reason, data(reading)), expected, offset)

        self.each(story)

    def test_another_attempt_is_told_by_its_number(self):
        """Even where its bytes are the same."""
        def story(way):
            def handler(request, connection):
                attempt = 2 if request.get("Idempotency-Offset") else 1
                connection.send(said("executed" if attempt == 1 else "attached", ("Idempotency-Attempt", attempt)))
                connection.send(chunk(PADDING * 2 + event(0)) + (b"" if attempt == 1 else LAST))
                connection.reset() if attempt == 1 else None

            served = self.backend(handler)
            error = Reading(way, served.origin, headers={"Last-Event-ID": "7"}).ended()
            self.assertEqual((error.reason, len(served.requests)), ("new-attempt", 2))
            self.assertEqual([(request.get("Idempotency-Attempt"), request.get("Last-Event-ID")) for request in served.requests],
                             [(None, "7"), ("1", None)])

        self.each(story)

    def test_a_server_that_ignores_keys_is_not_asked_again(self):
        def story(way):
            def handler(_, connection):
                connection.send(HEAD + chunk(event(0)))
                connection.reset()

            served = self.backend(handler)
            sending._warned.clear()
            with self.assertWarns(once.OnceWarning):
                reading = Reading(way, served.origin)
                error = reading.ended()
            self.assertEqual((error.reason, len(served.requests)), ("not-protected", 1))

        self.each(story)

    def test_another_answer_is_given_as_it_is(self):
        def story(way):
            served = self.backend(lambda request, connection: connection.reply(404, [("Content-Type", "text/event-stream")], event(0)))
            reading = Reading(way, served.origin)
            self.assertIsNone(reading.ended())
            self.assertEqual((reading.stream.status, data(reading)), (404, told(0)))

        self.each(story)

    def test_a_refusal_after_a_break_says_which(self):
        def story(way):
            def handler(request, connection, tries=[]):  # noqa: B006: counts
                tries.append(request)
                if len(tries) == 1:
                    connection.send(HEAD[:-2] + b"Idempotency-Status: executed\r\n\r\n" + chunk(event(0)))
                    connection.reset()
                else:
                    connection.reply(409, [("Content-Type", "application/problem+json")], b'{"code": "response-not-kept"}')

            reading = Reading(way, self.backend(lambda request, connection: handler(request, connection)).origin)
            error = reading.ended()
            self.assertEqual((error.reason, error.status, error.code), ("refused", 409, "response-not-kept"))

        self.each(story)

    def test_leaving_closes_the_connection_and_the_stream_is_recorded(self):
        self.start()
        self.script.tell(event(0))
        with once.stream(self.url, b"{}", key="k") as stream:
            self.assertEqual(next(stream.events()).data, "event 0")
            with self.assertRaisesRegex(RuntimeError, "can be read once"):
                iter(stream)
        self.script.tell(event(1), None)
        with once.stream(self.url, b"{}", key="k") as stream:
            self.assertEqual(stream.read(), event(0) + event(1))
        self.assertEqual(len(self.served.requests), 1)


class Stoppable:
    """A server whose stream goes on until it is stopped. As the gateway does, it then cuts its readers off, and replays what there is."""

    def __init__(self, stop=(204, [("Idempotency-Stopped", "true")])):
        self.stop = stop
        self.stopped = threading.Event()
        self.stops = []

    def __call__(self, request, connection):
        if request.method == "DELETE":
            self.stops.append(request)
            connection.reply(*self.stop)
            self.stopped.set()
        elif self.stopped.is_set():
            connection.send(said("replayed", ("Idempotency-Stopped", "true")) + chunk(event(0) + event(1)) + LAST)
        else:
            connection.send(said("executed") + chunk(event(0)))
            self.stopped.wait(DEADLINE)
            connection.reset()


class Stops(StreamTest):
    def test_stop_ends_the_request_and_the_loop(self):
        def story(way):
            server = Stoppable()
            reading = Reading(way, self.backend(server).origin, stops=True, headers={"Authorization": "me", "Content-Type": "a/b"})
            self.assertIsNone(reading.ended())
            self.assertEqual((reading.stop_told, reading.stream.stopped, data(reading)), (True, True, told(0)))
            request, = server.stops
            self.assertEqual([request.get(name) for name in ("Idempotency-Key", "Idempotency-Stop", "Authorization", "Content-Type")],
                             [reading.stream.key, "POST", "me", None])
            self.assertEqual(request.body, b"")

        self.each(story)

    def test_stop_of_another_thread_and_of_another_process(self):
        for way in (over_standard, over_requests, over_httpx):
            with self.subTest(way.__name__):
                reading = Reading(way, self.backend(Stoppable()).origin)
                reading.until(1)
                self.assertTrue(reading.stream.stop())
                self.assertIsNone(reading.ended())
                self.assertTrue(reading.stream.stopped)
        for stop in (once.stop_stream, lambda *args, **named: asyncio.run(once.stop_stream_async(*args, **named))):
            origin = self.backend(Stoppable()).origin
            reading = Reading(over_standard, origin, key="k")
            reading.until(1)
            self.assertTrue(stop(origin, key="k"))
            self.assertIsNone(reading.ended())  # it gets the replay
            self.assertEqual((reading.stream.stopped, data(reading)), (True, told(0, 1)))

    def test_a_stop_that_comes_too_late_or_is_refused(self):
        def story(way):
            late = Stoppable((204, [("Idempotency-Stopped", "false")]))
            reading = Reading(way, self.backend(late).origin, stops=True)
            self.assertIsNone(reading.ended())
            self.assertEqual((reading.stop_told, data(reading)), (False, told(0, 1)))
            refusing = Stoppable((404, [("Content-Type", "application/problem+json")], b'{"code": "key-not-found"}'))
            error = Reading(way, self.backend(refusing).origin, stops=True).ended()
            self.assertIsInstance(error, once.NotStopped)
            self.assertEqual((error.status, error.code), (404, "key-not-found"))
            ignorant = Stoppable((204, []))
            self.assertIsInstance(Reading(way, self.backend(ignorant).origin, stops=True).ended(), once.NotStopped)

        self.each(story)

    def test_a_server_that_ignores_keys_is_sent_no_delete(self):
        served = self.backend(lambda _, connection: connection.send(HEAD + chunk(event(0)) + LAST))
        with self.assertWarns(once.OnceWarning):
            error = Reading(over_standard, served.origin, stops=True).ended()
        self.assertIsInstance(error, once.NotStopped)
        self.assertEqual(len(served.requests), 1)


class Parser(unittest.TestCase):
    def parsed(self, stream, size):
        parser = EventParser()
        return [tuple(each) for at in range(0, len(stream), size) for each in parser.take(stream[at:at + size])]

    def test_events_are_parsed_as_the_html_standard_says(self):
        for stream, expected in EVENT_CASES:
            for size in range(1, len(stream) + 1):
                with self.subTest(stream, size=size):
                    self.assertEqual(self.parsed(stream, size), expected)


# tests/node/stream.test.mjs has the same.
EVENT_CASES = (
    (b"data: a\n\n", [("", "message", "a")]),
    (b"data: a\r\ndata:b\r\rdata\n\n", [("", "message", "a\nb"), ("", "message", "")]),
    (b"\xef\xbb\xbfdata:  a\n\n", [("", "message", " a")]),
    (b"id: 1\nevent: x\ndata: \xc3\xa9\n\ndata: b\n\nid\ndata: c\n\n", [("1", "x", "\u00e9"), ("1", "message", "b"), ("", "message", "c")]),
    (b": c\nid: 2\x00\nretry: 5\nunknown: 1\ndata: a\n\n", [("", "message", "a")]),
    (b"event: x\n\ndata: a\n\ndata: lost\n", [("", "message", "a")]),
    (b"id: 3\n\ndata: a:b: c\r\n\r\n", [("3", "message", "a:b: c")]),
)


if __name__ == "__main__":
    unittest.main()
