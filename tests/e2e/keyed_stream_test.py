"""Event streams under a key: they arrive as they come, are recorded before they are told, and are executed once."""
import contextlib
import os
import secrets
import threading
import unittest

from harness import STORE, Sharing
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


class KeyedStreams(Sharing):
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
