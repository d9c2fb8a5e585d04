"""Limits as real sockets meet them; tests/unit/gateway/connection/limits_net_test.cpp has the others, in virtual time."""
import contextlib
import socket
import unittest

from harness import EndToEnd
from wire import request_bytes

MINUTE = 60  # seconds
PATIENT = ("defaults.timeouts.response=24h", "defaults.timeouts.stream_idle=24h", "defaults.ttl=30d", "timeouts.body_idle=10m",
           "defaults.record.max_body=64MiB", "threads=1")


class SlowReaders(EndToEnd):
    SIZE = 24_000_000
    PARTS = 30
    REQUESTS = {"executed": {"key": "k"}, "replayed": {"key": "k"}, None: {"method": "GET"}}

    def start_large(self):
        body = b"x" * self.SIZE
        self.clock_ = self.clock()
        return self.gateway(self.backend(lambda _, to: to.reply(200, body=body)), *PATIENT, clock=self.clock_)

    def slow_client(self, gateway, **named):
        client = self.connect(gateway)
        client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        client.send_request(**named)
        return client

    def test_a_client_that_reads_slowly_gets_everything(self):
        gateway = self.start_large()
        for status, request in self.REQUESTS.items():
            with self.subTest(status):
                client = self.slow_client(gateway, **request)
                fields = client.read_head()[1]
                self.assertIn(("Content-Length", str(self.SIZE)), fields)
                self.assertEqual(dict(fields).get("Idempotency-Status"), status)
                for _ in range(self.PARTS):  # each is more than the buffers on the way hold, so more was sent
                    client.read(self.SIZE // self.PARTS)
                    self.clock_.advance(3 * MINUTE)


class Sizes(EndToEnd):
    LIMIT = ("defaults.max_request_body=100000", "defaults.max_large_request=0")

    def test_a_client_that_sends_on_still_gets_the_refusal(self):
        gateway = self.gateway(self.backend(), *self.LIMIT)
        for _ in range(5):
            client = self.connect(gateway)
            client.send(request_bytes(fields=[("Content-Length", "800000")], key="k"))
            with contextlib.suppress(OSError):
                client.send(b"x" * 800_000)
            self.assertEqual(client.read_response().status, 413)


if __name__ == "__main__":
    unittest.main()
