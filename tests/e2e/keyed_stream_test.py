"""Event streams under a key: they arrive as they come, are recorded before they are told, and are executed once."""
import contextlib
import os
import secrets
import threading
import unittest

from harness import STORE, EndToEnd
from wire import DEADLINE, wait_until

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nX-Model: small\r\n\r\n"
LAST = b"0\r\n\r\n"
SHARED = bool(STORE) and "://" in STORE


def chunk(data):
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def event(number):
    return b"id: %d\ndata: event %d\n\n" % (number, number)


class Script:
    """A backend whose events come when the test says so."""

    def __init__(self):
        self.steps = threading.Semaphore(0)
        self.told = []

    def tell(self, *parts):
        """Bytes of the response's body; None ends it, and False cuts it off."""
        for part in parts:
            self.told.append(part)
            self.steps.release()

    def __call__(self, _, connection):
        connection.send(HEAD)
        at = 0
        while self.steps.acquire(timeout=DEADLINE):
            part = self.told[at]
            at += 1
            if part is None:
                connection.send(LAST)
                return
            if part is False:
                connection.reset()
                return
            with contextlib.suppress(OSError):
                connection.send(chunk(part))


class Reader:
    """A client that reads a keyed stream."""

    def __init__(self, client, key="k", fields=(), body=b'{"prompt": "hi"}', method="POST", target="/v1/chat"):
        self.client = client
        named = [("Idempotency-Key", key), ("Authorization", "Bearer me"), ("Content-Type", "application/json"), *fields]
        client.send_request(method, target, named, body)
        self.body = b""

    def head(self):
        first, fields, _ = self.client.read_head()
        self.status = int(first.split()[1])
        self.fields = dict((name.lower(), value) for name, value in fields)
        return self

    def until(self, size):
        """More of the body, chunk by chunk, until it has this many bytes."""
        while len(self.body) < size:
            length = int(self.client.read_until(b"\r\n"), 16)
            if length == 0:
                raise EOFError("it has ended")
            self.body += self.client.read(length)
            self.client.read(2)
        return self.body

    def rest(self):
        """To its clean end."""
        with contextlib.suppress(EOFError):
            self.until(1 << 40)
        self.client.read(2)
        return self.body

    def cut(self):
        """True: it broke off instead of ending."""
        try:
            self.until(1 << 40)
        except EOFError as end:
            return str(end) != "it has ended"
        except OSError:
            return True
        return False


class KeyedStreams(EndToEnd):
    def start(self, *settings, **named):
        self.script = Script()
        self.served = self.backend(self.script)
        gateway = self.gateway(self.served, *settings, **named)
        self.addCleanup(self.script.tell, False)  # before anybody waits for a stream that nobody ends
        return gateway

    def gateway(self, backend, *settings, **named):
        return super().gateway(backend, "defaults.record.stream=auto", *settings, **named)

    def read(self, gateway, **named):
        return Reader(self.connect(gateway), **named)

    def test_each_event_arrives_when_it_is_sent(self):
        reader = self.read(self.start())
        head = reader.head()
        self.assertEqual((head.status, head.fields["content-type"]), (200, "text/event-stream"))
        self.assertEqual((head.fields["idempotency-status"], head.fields["x-model"]), ("executed", "small"))
        told = b""
        for number in range(5):
            self.script.tell(event(number))
            told += event(number)
            self.assertEqual(reader.until(len(told)), told)
        self.script.tell(None)
        self.assertEqual(reader.rest(), told)

    def test_a_retry_replays_the_whole_stream(self):
        gateway = self.start()
        reader = self.read(gateway).head()
        self.script.tell(*(event(number) for number in range(3)), None)
        whole = reader.rest()
        again = gateway.ask("POST", "/v1/chat", [("Idempotency-Key", "k"), ("Authorization", "Bearer me"),
                                                 ("Content-Type", "application/json")], b'{"prompt": "hi"}')
        self.assertEqual((again.status, again.get("Idempotency-Status")), (200, "replayed"))
        self.assertEqual(again.body, whole)
        self.assertEqual(again.get("X-Model"), "small")
        self.assertEqual(len(self.served.requests), 1)

    def test_retries_attach_to_a_stream_that_goes_on(self):
        gateway = self.start()
        first = self.read(gateway).head()
        self.script.tell(event(0), event(1))
        told = event(0) + event(1)
        first.until(len(told))
        others = [self.read(gateway).head() for _ in range(3)]
        for other in others:
            self.assertEqual(other.fields["idempotency-status"], "attached")
            self.assertEqual(other.until(len(told)), told)
        self.script.tell(event(2))
        told += event(2)
        for reader in [first, *others]:
            self.assertEqual(reader.until(len(told)), told)
        self.script.tell(None)
        for reader in [first, *others]:
            self.assertEqual(reader.rest(), told)
        self.assertEqual(len(self.served.requests), 1)

    def test_a_retry_that_came_before_the_first_byte_attaches_too(self):
        gate, end = self.gate(), self.gate()

        def handler(_, connection):
            gate.wait(DEADLINE)
            connection.send(HEAD + chunk(event(0)))
            end.wait(DEADLINE)
            connection.send(LAST)

        backend = self.backend(handler)
        gateway = self.gateway(backend)
        first = self.read(gateway)
        wait_until(lambda: backend.requests)
        second = self.read(gateway)
        wait_until(lambda: gateway.metrics()["once_waiting"] == 1, what="the retry to wait")
        gate.set()
        self.assertEqual(first.head().until(len(event(0))), event(0))
        self.assertEqual(second.head().until(len(event(0))), event(0))
        self.assertEqual(second.fields["idempotency-status"], "attached")
        end.set()
        self.assertEqual((first.rest(), second.rest()), (event(0), event(0)))
        self.assertEqual(len(backend.requests), 1)

    def test_a_client_that_leaves_changes_nothing(self):
        gateway = self.start()
        reader = self.read(gateway).head()
        self.script.tell(event(0))
        reader.until(len(event(0)))
        reader.client.close()
        self.script.tell(event(1))
        back = self.read(gateway).head()
        self.assertEqual(back.until(len(event(0) + event(1))), event(0) + event(1))
        self.script.tell(None)
        self.assertEqual(back.rest(), event(0) + event(1))
        self.assertEqual(len(self.served.requests), 1)

    def test_a_stream_that_breaks_off_is_unknown_and_never_ends_cleanly(self):
        gateway = self.start()
        reader = self.read(gateway).head()
        self.script.tell(event(0))
        reader.until(len(event(0)))
        self.script.tell(False)
        self.assertTrue(reader.cut())
        again = self.read(gateway).head()
        self.assertEqual((again.status, again.fields["idempotency-status"]), (200, "unknown"))
        self.assertEqual(again.until(len(event(0))), event(0))
        self.assertTrue(again.cut())
        self.assertEqual(len(self.served.requests), 1)

    def test_after_a_cut_a_route_that_retries_executes_anew_and_shows_only_that(self):
        gateway = self.start("defaults.on_unknown=retry")
        reader = self.read(gateway).head()
        self.script.tell(event(0))
        reader.until(len(event(0)))
        self.script.tell(False)
        self.assertTrue(reader.cut())
        self.script.steps = threading.Semaphore(0)
        self.script.told = []
        again = self.read(gateway)
        self.script.tell(event(7), None)
        self.assertEqual(again.head().rest(), event(7))
        self.assertEqual(again.fields["idempotency-status"], "executed")
        self.assertEqual(len(self.served.requests), 2)

    def test_a_reader_goes_on_where_it_was(self):
        gateway = self.start()
        first = self.read(gateway).head()
        events = [event(number) for number in range(4)]
        self.script.tell(*events[:2])
        first.until(len(events[0] + events[1]))
        by_id = self.read(gateway, fields=[("Last-Event-ID", "0")]).head()
        self.assertEqual(by_id.fields["idempotency-offset"], str(len(events[0])))
        by_offset = self.read(gateway, fields=[("Idempotency-Offset", len(events[0]) + 3)]).head()
        unheard = self.read(gateway, fields=[("Last-Event-ID", "of another stream")]).head()
        self.script.tell(*events[2:], None)
        whole = b"".join(events)
        self.assertEqual(first.rest(), whole)
        self.assertEqual(by_id.rest(), whole[len(events[0]):])
        self.assertEqual(by_offset.rest(), whole[len(events[0]) + 3:])
        self.assertEqual(unheard.rest(), whole)
        # The same after the end.
        client = self.connect(gateway)
        fields = [("Idempotency-Key", "k"), ("Authorization", "Bearer me"), ("Content-Type", "application/json")]
        for name, value, rest in [("Last-Event-ID", "2", events[3]), ("Idempotency-Offset", "1", whole[1:]),
                                  ("Idempotency-Offset", len(whole) + 5, b""), ("Last-Event-ID", "3", b"")]:
            replay = client.ask("POST", "/v1/chat", [*fields, (name, value)], b'{"prompt": "hi"}')
            self.assertEqual((replay.status, replay.body), (200, rest), (name, value))
        self.assertEqual(len(self.served.requests), 1)

    def test_another_request_under_the_key_gets_nothing_of_the_stream(self):
        gateway = self.start()
        self.read(gateway).head()
        self.script.tell(event(0))
        fields = [("Idempotency-Key", "k"), ("Content-Type", "application/json")]
        other = gateway.ask("POST", "/v1/chat", [*fields, ("Authorization", "Bearer me")], b'{"prompt": "other"}')
        self.assertEqual((other.status, other.code), (422, "key-mismatch"))
        self.script.tell(None)

    def test_a_stream_larger_than_may_be_kept_goes_on_and_is_not_replayed(self):
        gateway = self.start("defaults.record.max_stream=1KiB")
        reader = self.read(gateway).head()
        part = b"data: " + b"x" * 300 + b"\n\n"
        for count in range(1, 9):
            self.script.tell(part)
            reader.until(count * len(part))
        self.script.tell(None)
        self.assertEqual(reader.rest(), part * 8)
        again = gateway.ask("POST", "/v1/chat", [("Idempotency-Key", "k"), ("Authorization", "Bearer me"),
                                                 ("Content-Type", "application/json")], b'{"prompt": "hi"}')
        self.assertEqual((again.status, again.code), (409, "response-not-kept"))
        self.assertEqual(len(self.served.requests), 1)

    def test_a_large_stream_that_breaks_off_is_unknown(self):
        gateway = self.start("defaults.record.max_stream=1KiB")
        reader = self.read(gateway).head()
        part = b"data: " + b"x" * 600 + b"\n\n"
        for count in range(1, 5):
            self.script.tell(part)
            reader.until(count * len(part))
        self.script.tell(False)
        self.assertTrue(reader.cut())
        again = self.read(gateway).head()
        self.assertEqual(again.fields["idempotency-status"], "unknown")
        self.assertTrue(again.cut())
        self.assertEqual(len(self.served.requests), 1)

    def test_a_large_stream_goes_on_when_its_last_reader_has_left(self):
        gateway = self.start("defaults.record.max_stream=1KiB")
        reader = self.read(gateway).head()
        part = b"data: " + b"x" * 60_000 + b"\n\n"
        self.script.tell(part)
        reader.until(len(part))
        reader.client.close()
        self.script.tell(*[part] * 40, None)  # more than is held for a reader that is behind

        def not_kept():
            again = gateway.ask("POST", "/v1/chat", [("Idempotency-Key", "k"), ("Authorization", "Bearer me"),
                                                     ("Content-Type", "application/json")], b'{"prompt": "hi"}')
            return again.status == 409 and again.code == "response-not-kept"

        wait_until(not_kept, what="the stream to end")
        self.assertEqual(len(self.served.requests), 1)

    def test_a_retry_of_a_large_stream_is_in_flight_and_holds_up_nobody(self):
        gateway = self.start("defaults.record.max_stream=1KiB", "defaults.in_flight_wait=1s", "threads=1")
        reader = self.read(gateway).head()
        part = b"data: " + b"x" * 2000 + b"\n\n"
        self.script.tell(part, part)
        reader.until(2 * len(part))
        late = self.read(gateway).head()
        self.assertEqual((late.status, late.fields["idempotency-status"]), (409, "in-flight"))
        self.script.tell(None)
        self.assertEqual(reader.rest(), part * 2)

    def test_a_slow_reader_of_a_large_stream_gets_all_of_it(self):
        gateway = self.start("defaults.record.max_stream=1KiB")
        reader = self.read(gateway).head()
        part = b"data: " + b"y" * 60_000 + b"\n\n"
        self.script.tell(*[part] * 100, None)  # more than the buffers of a socket hold
        self.assertEqual(reader.rest(), part * 100)

    def test_a_slow_reader_holds_up_nobody(self):
        gateway = self.start()
        slow = self.read(gateway).head()
        self.script.tell(event(0))
        slow.until(1)
        fast = self.read(gateway).head()
        part = b"data: " + b"y" * 60_000 + b"\n\n"
        told = event(0)
        for _ in range(40):  # more than the buffers of a socket hold
            self.script.tell(part)
            told += part
            fast.until(len(told))
        self.script.tell(None)
        self.assertEqual(fast.rest(), told)
        self.assertEqual(slow.rest(), told)

    def test_silence_is_limited_and_the_whole_is_not(self):
        gateway = self.start("defaults.timeouts.response=1s", "defaults.timeouts.stream_idle=2s")
        reader = self.read(gateway).head()
        self.assertTrue(reader.cut(), "nothing came for two seconds")
        self.assertEqual(self.read(gateway).head().fields["idempotency-status"], "unknown")

    def test_off_holds_the_stream_back_until_it_is_whole(self):
        gateway = self.start("defaults.record.stream=off")
        reader = self.read(gateway)
        self.script.tell(event(0), event(1), None)
        head = reader.head()
        self.assertEqual(int(head.fields["content-length"]), len(event(0) + event(1)))

    @unittest.skipUnless(SHARED, "one gateway has the store to itself")
    def test_a_retry_at_another_gateway_attaches_and_goes_on_where_it_was(self):
        env = {"ONCE_SECRET": secrets.token_hex(16), **os.environ}
        gateway = self.start(env=env)
        other = self.gateway(self.served, env=env)
        first = self.read(gateway).head()
        events = [event(number) for number in range(4)]
        self.script.tell(*events[:2])
        first.until(len(events[0] + events[1]))
        second = self.read(other).head()
        resumed = self.read(other, fields=[("Last-Event-ID", "0")]).head()
        self.assertEqual(second.fields["idempotency-status"], "attached")
        self.assertEqual(second.until(len(events[0] + events[1])), events[0] + events[1])
        self.script.tell(events[2])
        self.assertEqual(second.until(len(b"".join(events[:3]))), b"".join(events[:3]))
        self.script.tell(events[3], None)
        for reader in (first, second):
            self.assertEqual(reader.rest(), b"".join(events))
        self.assertEqual(resumed.rest(), b"".join(events[1:]))
        self.assertEqual(len(self.served.requests), 1)

    @unittest.skipIf(STORE == "memory:", "it ends with the process")
    def test_a_gateway_that_dies_in_the_middle_leaves_the_prefix(self):
        settings = ("defaults.lease=1s",) if SHARED else (f"data_dir={self.folder()}",)
        env = {"ONCE_SECRET": secrets.token_hex(16), **os.environ} if SHARED else None
        gateway = self.start(*settings, env=env)
        reader = self.read(gateway).head()
        self.script.tell(event(0), event(1))
        told = reader.until(len(event(0) + event(1)))
        old = self.connect(gateway)  # without chunks
        old.send_request("POST", "/v1/chat", [("Idempotency-Key", "k"), ("Authorization", "Bearer me"),
                                              ("Content-Type", "application/json")], b'{"prompt": "hi"}', version="HTTP/1.0")
        old.read_until(event(1))
        gateway.kill()
        self.assertTrue(reader.cut())
        with self.assertRaises(ConnectionResetError):
            old.fill()
        again = self.gateway(self.served, *settings, env=env)

        def after_the_lease():
            back = self.read(again).head()
            return back if back.fields["idempotency-status"] == "unknown" else None

        back = wait_until(after_the_lease, what="the lease to end")
        self.assertEqual(back.until(len(told)), told)
        self.assertTrue(back.cut())
        self.assertEqual(len(self.served.requests), 1)


if __name__ == "__main__":
    unittest.main()
