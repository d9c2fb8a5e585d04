"""Two thousand readers of one keyed stream: each gets every byte, and together they hold no more of it than one would."""
import asyncio
import resource
import unittest

from harness import EndToEnd
from keyed_stream_test import Script
from wire import Stream, request_bytes, wait_until

READERS = 2000
PARTS = 16
PART = b"data: " + b"x" * 8000 + b"\n\n"
WINDOW = 64 << 10
FIELDS = [("Host", "a"), ("Idempotency-Key", "k"), ("Authorization", "Bearer me")]


class Reader(asyncio.Protocol):
    """Takes what comes, unless it is slow: then it reads nothing until it is told to."""

    def __init__(self, slow):
        self.slow = slow
        self.raw = bytearray()
        self.ended = asyncio.get_running_loop().create_future()

    def connection_made(self, transport):
        self.transport = transport
        transport.write(request_bytes("POST", "/v1/chat", FIELDS, b"{}"))
        if self.slow:
            transport.pause_reading()

    def data_received(self, data):
        self.raw += data
        if self.raw.endswith(b"\r\n0\r\n\r\n"):
            self.transport.close()

    def connection_lost(self, _):
        self.ended.set_result(None)


class ManyReaders(EndToEnd):
    async def read(self, gateway, script):
        loop = asyncio.get_running_loop()
        readers = []
        for number in range(READERS):
            # One address has not ports enough for everybody on the machine.
            source = (f"127.0.0.{2 + number % 8}", 0)
            _, reader = await loop.create_connection(lambda: Reader(number % 4 == 1), "127.0.0.1", gateway.port, local_addr=source)
            readers.append(reader)
            if number == 0:
                script.tell(PART)
                await asyncio.to_thread(wait_until, lambda: gateway.metrics()["once_streams_live"] == 1)
        await asyncio.to_thread(wait_until, lambda: gateway.metrics()["once_stream_readers"] == READERS, what="all to attach")
        for _ in range(PARTS - 1):
            script.tell(PART)
        await asyncio.to_thread(wait_until, lambda: gateway.metrics()["once_stream_bytes_total"] >= PARTS * len(PART))
        self.assertLessEqual(gateway.metrics()["once_stream_held_bytes"], 2 * WINDOW)
        script.tell(None)
        for reader in readers:
            if reader.slow:
                reader.transport.resume_reading()
        await asyncio.gather(*(reader.ended for reader in readers))
        return readers

    def test_each_gets_every_byte(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        needed = READERS * 2 + 500
        if hard != resource.RLIM_INFINITY and hard < needed:
            self.skipTest(f"{needed} open files are needed, {hard} are allowed")
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))
        script = Script()
        backend = self.backend(script)
        gateway = self.gateway(backend, "threads=2")
        self.addCleanup(script.tell, False)
        whole = PART * PARTS
        for reader in asyncio.run(self.read(gateway, script)):
            head, _, body = bytes(reader.raw).partition(b"\r\n\r\n")
            self.assertTrue(head.startswith(b"HTTP/1.1 200 "), head)
            stream = Stream(None)
            stream.buffer += body
            self.assertTrue(stream.read_chunked()[0] == whole)
        self.assertEqual(len(backend.requests), 1)


if __name__ == "__main__":
    unittest.main()
