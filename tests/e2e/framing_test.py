"""What Once forwards is read by others exactly as Once read it: the bytes it sends to a backend are given to Node's parser
and to nginx, and both must see the requests that the client meant, no other, no fewer.

ONCE_E2E_SEED repeats a run, ONCE_E2E_STREAMS sets how many streams are sent.
"""
import collections
import os
import random
import socket
import unittest

from harness import EndToEnd
from readers import NginxReader, NodeReader, Seen, own_fields, sha256
from request_streams import METHODS, Draw
from wire import Client

SEED = int(os.environ.get("ONCE_E2E_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 32)
STREAMS = int(os.environ.get("ONCE_E2E_STREAMS", "500"))
# Why a reader may refuse what Once lets through: it is stricter about a name, not about where a request ends.
STRICTER = ("HPE_INVALID_METHOD", "invalid method", "invalid host header")


def without_query(seen):
    return seen.target.split("?")[0]


class Recorder:
    """The backend's handler: what came in whole on each connection, and up to which byte of it."""

    def __init__(self):
        self.requests = []
        self.on = collections.defaultdict(list)  # (seen, where it ended), by the id of the connection's stream

    def __call__(self, request, connection):
        stream = connection.stream
        seen = Seen(request.method, request.target, sha256(request.body), own_fields(request.fields))
        self.requests.append(seen)
        self.on[id(stream)].append((seen, len(stream.log) - len(stream.buffer)))
        connection.reply(200)


class Framing(EndToEnd):
    def send(self, client, raw, drawn):
        """In one piece or in many."""
        try:
            if drawn.random() < 0.5:
                client.send(raw)
                return
            at = 0
            while at < len(raw):
                size = drawn.choice((1, 2, 7, 100, 5000, len(raw)))
                client.send(raw[at:at + size])
                at += size
        except (BrokenPipeError, ConnectionResetError):
            pass  # refused before all of it was sent

    def converse(self, gateway, stream, drawn):
        with Client(gateway.port) as client:
            self.send(client, stream.raw, drawn)
            if stream.bent:
                self.half_close(client)
                return
            for each in stream.requests:
                response = client.read_response(each.method)
                self.assertEqual(response.status, 200, (stream.number, each.raw, response))
                expected = "replayed" if each.seen is None else None
                first = "executed" if each.method in ("POST", "PATCH") else "bypassed"
                self.assertIn(response.get("Idempotency-Status"), (expected, expected or first), each.raw)
            if stream.refused:
                response = client.read_response()
                self.assertGreaterEqual(response.status, 400, (stream.what, response))
                self.assertEqual((response.code and response.get("Connection")), "close", (stream.what, response))
            if stream.refused or stream.requests[-1].last:
                self.assertTrue(client.closed(), stream.what)

    def half_close(self, client):
        try:
            client.sock.shutdown(socket.SHUT_WR)
            client.read_to_end()
        except OSError:
            pass

    def exchange(self, streams):
        """Sends them one after the other. What the backend got, and the access log."""
        pieces = random.Random(f"{SEED} pieces")
        recorder = Recorder()
        backend = self.backend(recorder)
        gateway = self.gateway(backend, "threads=1", "log.access=yes")
        for stream in streams:
            with self.subTest(stream=stream.number, what=stream.what):
                self.converse(gateway, stream, pieces)
        gateway.terminate()
        gateway.wait()
        access = gateway.log_lines(gateway.stdout)
        gateway.stop()
        backend.stop()  # all that was sent to it has been read
        logged = [(line["method"], line["path"]) for line in access
                  if line["result"] in ("executed", "passed") and line["status"] == 200]
        return backend, recorder, logged

    def test_what_a_client_means_is_what_every_reader_sees(self):
        print(f"ONCE_E2E_SEED={SEED} ONCE_E2E_STREAMS={STREAMS}", flush=True)
        draw = Draw(random.Random(SEED))
        streams = [draw.stream(number) for number in range(STREAMS)]
        backend, recorder, logged = self.exchange(streams)
        self.check_meaning(streams, recorder, logged)
        print(f"{sum(bool(stream.refused) for stream in streams)} streams end with one that is refused; "
              f"{self.check_readers(backend, recorder)}", flush=True)

    def test_whatever_a_bent_stream_means_every_reader_sees_the_same(self):
        print(f"ONCE_E2E_SEED={SEED} ONCE_E2E_STREAMS={STREAMS}", flush=True)
        draw = Draw(random.Random(f"{SEED} bent"))
        backend, recorder, logged = self.exchange([draw.bent(number) for number in range(STREAMS // 2)])
        arrived = collections.Counter((seen.method, without_query(seen)) for seen in recorder.requests)
        # Of what arrived the client may be gone before the answer; all that was answered has arrived.
        self.assertFalse(collections.Counter(logged) - arrived)
        print(f"{len(recorder.requests) - len(logged)} of clients that were gone; "
              f"{self.check_readers(backend, recorder, may_refuse=True)}", flush=True)

    def check_meaning(self, streams, recorder, logged):
        """What arrived and what was logged is what the clients meant, in its order."""
        arrived = collections.defaultdict(list)
        for seen in recorder.requests:
            arrived[seen.target.split("/")[1]].append(seen)
        told = collections.defaultdict(list)
        for method, path in logged:
            told[path.split("/")[1]].append((method, path))
        for stream in streams:
            with self.subTest(stream=stream.number, what=stream.what, raw=stream.raw[:3000]):
                name = f"s{stream.number}"
                self.assertEqual(arrived.pop(name, []), stream.accepted)
                self.assertEqual(told.pop(name, []), [(seen.method, without_query(seen)) for seen in stream.accepted])
        self.assertEqual((arrived, told), ({}, {}))

    def check_readers(self, backend, recorder, may_refuse=False):
        """Every connection, byte for byte as Once wrote it, means the same to everybody."""
        node, nginx = NodeReader(), NginxReader()
        self.addCleanup(node.stop)
        self.addCleanup(nginx.stop)
        refusals, unfinished = [], 0
        for number, stream in enumerate(backend.streams):
            data, expected = bytes(stream.log), recorder.on[id(stream)]
            whole = len(data) == (expected[-1][1] if expected else 0)
            unfinished += not whole
            for reader in node, nginx:
                with self.subTest(connection=number, reader=type(reader).__name__, whole=whole):
                    refused = self.check_reading(reader, data, expected, whole)
                    refusals += refused
                    for why, *what in refused:
                        self.assertTrue(may_refuse and why.startswith(STRICTER), (why, what))
        return (f"{len(recorder.requests)} requests in {len(backend.streams)} connections, {unfinished} of them "
                f"unfinished; {len(refusals)} refused by a reader")

    def check_reading(self, reader, data, expected, whole):
        """A reader may be stricter than Once, never read another request: behind one that it refuses it begins anew."""
        refused, begin = [], 0
        while True:
            reading = reader.read(data[begin:], whole)
            for found, (meant, _) in zip(reading.requests, expected):
                self.assertEqual(found, meant)
            count = len(reading.requests)
            self.assertEqual(reading.requests[len(expected):], [], "requests that Once did not send")
            if count == len(expected):
                if whole:
                    self.assertIsNone(reading.problem)
                return refused
            self.assertIsNotNone(reading.problem, expected[count])
            refused.append((reading.problem, expected[count][0], data[begin:][:3000]))
            begin, expected = expected[count][1], expected[count + 1:]


if __name__ == "__main__":
    unittest.main()
