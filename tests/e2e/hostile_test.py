"""Clients and backends that break every rule, by the thousand, against the real binary: it must live, serve the next
request, and have nothing left of them.

Everything a client and its backend do is drawn from the seed that is printed first and the connection's number.
ONCE_HOSTILE_SEED repeats a run, ONCE_HOSTILE_CONNECTIONS sets how many connections there are.
"""
import asyncio
import contextlib
import os
import random
import secrets
import socket
import threading
import unittest

from harness import EndToEnd
from wire import DEADLINE, hold_port, reset, wait_until

CONNECTIONS = int(os.environ.get("ONCE_HOSTILE_CONNECTIONS", "3000"))
AT_ONCE = 64
PATIENCE = 0.1  # of either side for the other: most of what is sent here is never answered
SETTINGS = ("threads=2", "timeouts.header=1s", "timeouts.body_idle=500ms", "timeouts.idle=1s", "pool.idle_max=1s",
            "defaults.timeouts.response=500ms", "defaults.timeouts.stream_idle=500ms", "defaults.in_flight=wait",
            "defaults.in_flight_wait=100ms", "defaults.max_request_body=64KiB", "defaults.record.max_body=4KiB")
# What must be zero again when everybody has left.
GAUGES = ("once_connections_open", "once_in_flight", "once_waiting", "once_body_bytes", "once_unsettled",
          "once_upstream_connections", "once_upstream_queued")


def chunked(data, rng):
    """In chunks of any size, down to one byte."""
    out = bytearray()
    while data:
        size = min(len(data), rng.choice((1, 7, 100, 5000)))
        out += b"%x\r\n%s\r\n" % (size, data[:size])
        data = data[size:]
    return bytes(out)


def drawn_body(rng):
    """The lines that announce a body, and what is sent of it."""
    data = rng.randbytes(rng.choice((0, 1, 5, 300, 5000, 100_000)))
    whole = chunked(data, rng)
    length = b"Content-Length: %d\r\n" % len(data)
    coding = b"Transfer-Encoding: chunked\r\n"
    return rng.choice((
        (b"", b""), (b"", b""), (length, data), (length, data), (length, data[:len(data) // 2]), (length, b""),
        (coding, whole + b"0\r\n\r\n"), (coding, whole + b"0\r\nX-T: 1\r\n\r\n"), (coding, whole), (coding, b""),
        (coding, b"zz\r\n"), (coding, b"5\r\nhello"), (length + coding, data), (b"Content-Length: nine\r\n", data)))


def drawn_request(rng, number):
    method = rng.choice(("GET", "GET", "HEAD", "POST", "POST", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "BREW"))
    version = rng.choice(("HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/2.0"))
    fields = rng.choice((b"Host: api.test\r\n",) * 9 + (b"",))
    fields += rng.choice((b"", b"", b"Idempotency-Key: k%d\r\n" % number, b"Idempotency-Key: k%d\r\n" % number,
                          b"Idempotency-Key: shared%d\r\n" % rng.randrange(8), b"Idempotency-Key: a b\r\n",
                          b"Idempotency-Key: a\r\nIdempotency-Key: b\r\n"))
    fields += rng.choice((b"", b"", b"Connection: Upgrade\r\nUpgrade: websocket\r\n", b"Upgrade: websocket\r\n",
                          b"Connection: Upgrade\r\nUpgrade: h2c\r\n", b"Connection: close\r\n",
                          b"Connection: keep-alive\r\n"))
    fields += rng.choice((b"", b"", b"", b"Expect: 100-continue\r\n", b"Expect: nothing\r\n"))
    announced, body = drawn_body(rng)
    return f"{method} /{number} {version}\r\n".encode() + fields + announced + b"\r\n" + body


def drawn_answer(rng):
    """What a backend sends, and whether the connection is good for another request."""
    data = rng.randbytes(rng.choice((0, 1, 300, 5000, 60_000)))
    ok = b"HTTP/1.1 %d Drawn\r\n" % rng.choice((200, 201, 204, 304, 401, 404, 413, 429, 500, 503))
    coding = b"Transfer-Encoding: chunked\r\n\r\n"
    interim = b"HTTP/1.1 %d Hint\r\nLink: </a>\r\n\r\n" % rng.choice((100, 102, 103)) * rng.choice((0, 0, 1, 3, 100, 2000))
    switch = b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"
    final, good = rng.choice((
        (ok + b"Content-Length: %d\r\n\r\n" % len(data) + data, True),
        (ok + b"Content-Length: %d\r\n\r\n" % len(data) + data, True),
        (ok + coding + chunked(data, rng) + b"0\r\n\r\n", True),
        (ok + b"Content-Length: %d\r\n\r\n" % (len(data) + 9) + data, False),
        (ok + coding + chunked(data, rng), False), (ok + coding + b"zz\r\n", False), (ok + b"\r\n" + data, False),
        (ok + b"Content-Length: 1\r\n\r\ntoo much of it", True), (ok[:rng.randrange(len(ok))], False),
        (rng.randbytes(500), False), (b"", False), (b"", True), (switch, False), (switch + data, False),
        (switch + ok + b"Content-Length: 0\r\n\r\n", True)))
    return interim + final, good


class Backend:
    """On a loop of its own thread. It does with a request what the number in its path says."""

    def __init__(self, seed):
        self.seed = seed
        self.place, self.port = hold_port()
        self.loop = asyncio.new_event_loop()
        self.listener = socket.create_server(("127.0.0.1", self.port), backlog=1024)
        self.server = self.loop.run_until_complete(asyncio.start_server(self.serve, sock=self.listener))
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def stop(self):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(DEADLINE)
        self.server.close()
        self.place.close()

    async def serve(self, reader, writer):
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            while await self.answer(reader, writer):
                pass
        writer.close()

    async def answer(self, reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        _, target, _ = head.decode("latin-1").split(" ", 2)  # ValueError: what is left of a body that was not read
        if target == "/normal":
            writer.write(b"HTTP/1.1 201 Made\r\nContent-Length: 6\r\nConnection: close\r\n\r\nnormal")
            await writer.drain()
            return False
        rng = random.Random(f"{self.seed}{target} backend")
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(reader.read(rng.choice((0, 1, 100_000))), PATIENCE)
        answer, good = drawn_answer(rng)
        ending = rng.choice(("close", "close", "half", "reset", "silence"))
        cut = rng.randrange(len(answer) + 1)
        for piece in (answer[:cut], answer[cut:]):
            writer.write(piece)
            await asyncio.wait_for(writer.drain(), PATIENCE)
        if good:
            return True
        if ending == "half":
            writer.write_eof()
        if ending in ("half", "silence"):
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(reader.read(), PATIENCE)
        if ending == "reset":
            writer.transport.abort()
        return False


async def attack(port, seed, number):
    """One connection of a client: it sends its requests in pieces, hears a little of the answers and leaves somehow."""
    rng = random.Random(f"{seed}/{number}")
    raw = b"".join(drawn_request(rng, number) for _ in range(rng.choice((1, 1, 1, 2, 3))))
    if rng.random() < 0.05:
        raw = rng.randbytes(len(raw))
    loop = asyncio.get_running_loop()
    with contextlib.suppress(OSError, asyncio.TimeoutError), socket.socket() as sock:
        sock.setblocking(False)
        await loop.sock_connect(sock, ("127.0.0.1", port))
        cuts = sorted(rng.randrange(len(raw) + 1) for _ in range(rng.choice((0, 0, 1, 3))))
        pieces = [raw[start:end] for start, end in zip([0, *cuts], [*cuts, len(raw)])]
        ending = rng.choice(("read", "read", "half", "half", "close", "reset", "cut", "first"))
        if ending == "cut":
            pieces = pieces[:rng.randrange(len(pieces) + 1)]
        for piece in pieces:
            await asyncio.wait_for(loop.sock_sendall(sock, piece), PATIENCE)
            await asyncio.sleep(0)
        if ending == "half":
            sock.shutdown(socket.SHUT_WR)
        if ending == "first":
            await asyncio.wait_for(loop.sock_recv(sock, 1), PATIENCE)
        while ending in ("read", "half") and await asyncio.wait_for(loop.sock_recv(sock, 65536), PATIENCE):
            pass
        if ending in ("reset", "first"):
            reset(sock)


async def attack_all(port, seed, count):
    numbers = iter(range(count))

    async def one_after_another():
        for number in numbers:
            await attack(port, seed, number)

    await asyncio.gather(*(one_after_another() for _ in range(AT_ONCE)))


class Hostile(EndToEnd):
    def test_nothing_of_them_is_left(self):
        seed = os.environ.get("ONCE_HOSTILE_SEED") or secrets.token_hex(4)
        print(f"ONCE_HOSTILE_SEED={seed} ONCE_HOSTILE_CONNECTIONS={CONNECTIONS}", flush=True)
        backend = Backend(seed)
        self.addCleanup(backend.stop)
        gateway = self.gateway(backend, *SETTINGS)
        asyncio.run(attack_all(gateway.port, seed, CONNECTIONS))
        self.assertIsNone(gateway.process.poll(), gateway.stderr)
        self.assertEqual(gateway.admin("/healthz").status, 200)

        def left():
            metrics = gateway.metrics()
            return {name: value for name, value in metrics.items() if name.split("{")[0] in GAUGES and value}

        wait_until(lambda: not left(), what="everybody to have left")
        metrics = gateway.metrics()
        self.assertEqual(metrics["once_connection_faults_total"], 0)
        self.assertGreater(metrics["once_connections_total"], CONNECTIONS * 0.9)
        for status in ("executed", "replayed"):
            response = gateway.ask("POST", "/normal", key="normal", body=b"{}")
            self.assertEqual((response.status, response.body), (201, b"normal"))
            self.assertEqual(response.get("Idempotency-Status"), status)
        self.assertEqual(gateway.ask("GET", "/normal").body, b"normal")


if __name__ == "__main__":
    unittest.main()
