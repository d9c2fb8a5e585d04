"""Clients of the stream test. Each reads one stream again and again, until it knows how it ended: it attaches, leaves in the
middle, goes on where it was by an offset or by the id of an event, reads slowly, and looks the key up.
"""
import contextlib
import json
import random
import socket
import subprocess
import threading
import time

from stream_history import Reading
from wire import Client, Stream

STUCK = 60.0  # seconds without a byte


class SlowClient(Client):
    """With so little room that the gateway cannot write ahead. It has to be small from the start: a window that shrinks later
    stalls in the kernel."""

    def __init__(self, port, timeout):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 << 10)
        sock.settimeout(timeout)
        Stream.__init__(self, sock)
        try:
            sock.connect(("127.0.0.1", port))
        except OSError:
            sock.close()
            raise


def connection_state(client):
    """What the kernel knows of it, at both ends."""
    port = client.sock.getsockname()[1]
    command = ["ss", "-tnaoiep", f"( sport = :{port} or dport = :{port} )"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


class Manner:
    """How a reading is done."""

    def __init__(self, way="plain", asked=None, attempt=0, leave_at=None, slow=False):
        self.way = way  # plain, offset, event or lookup
        self.asked = asked
        self.attempt = attempt  # that the offset is of, if it is said
        self.leave_at = leave_at  # bytes
        self.slow = slow


def request_for(client, operation, manner):
    fields = [("Authorization", "Bearer reader"), ("Idempotency-Key", operation.key), ("Content-Type", "application/json")]
    if manner.way == "lookup":
        client.send_request("GET", operation.route, [*fields[:2], ("Idempotency-Lookup", "POST")])
        return
    if manner.way == "offset":
        fields.append(("Idempotency-Offset", manner.asked))
    elif manner.way == "event":
        fields.append(("Last-Event-ID", manner.asked))
    if manner.attempt:
        fields.append(("Idempotency-Attempt", manner.attempt))
    client.send_request("POST", operation.route, fields, operation.plan.body())


def pieces(client, fields):
    """Of a body, as they come. Returns at its clean end only."""
    if "chunked" in fields.get("transfer-encoding", ""):
        while size := int(client.read_until(b"\r\n"), 16):
            yield from pieces_of(client, size)
            if client.read(2) != b"\r\n":
                raise AssertionError("a chunk does not end with CRLF")
        if client.read(2) != b"\r\n":
            raise AssertionError("there is something behind the last chunk")
    elif "content-length" in fields:
        yield from pieces_of(client, int(fields["content-length"]))
    else:
        raise AssertionError(f"nobody can tell where this ends: {fields}")


def pieces_of(client, size):
    while size:
        if not client.buffer:
            client.fill()
        data = client.take(min(size, len(client.buffer), 700))
        size -= len(data)
        yield data


def read(member, port, operation, manner):
    """A reading, or None if there was no connection."""
    reading = Reading(operation, member, manner.way, manner.asked, slow=manner.slow)
    try:
        client = (SlowClient if manner.slow else Client)(port, STUCK)
    except OSError:
        return None
    with contextlib.closing(client):
        try:
            request_for(client, operation, manner)
            first, fields, _ = client.read_head()
            reading.status = int(first.split()[1])
            reading.fields = {name.lower(): value for name, value in fields}
            reading.end = read_body(client, reading, manner)
        except TimeoutError:
            reading.end = "stuck"
            reading.note = connection_state(client)
        except (OSError, EOFError):
            reading.end = "cut"
        if client.buffer and reading.end == "clean":
            raise AssertionError(f"bytes behind the end: {bytes(client.buffer[:100])!r}: {reading}")
        if reading.end == "left" and random.random() < 0.5:
            client.reset()
    reading.ended = time.time()
    if reading.end == "clean" and "problem" in reading.fields.get("content-type", ""):
        reading.code = json.loads(reading.body)["code"]
    return reading


def read_body(client, reading, manner):
    hurry = time.monotonic() + 1.0
    body = bytearray()
    try:
        for data in pieces(client, reading.fields):
            body += data
            if manner.leave_at is not None and len(body) >= manner.leave_at and reading.status == 200:
                return "left"
            if manner.slow and time.monotonic() < hurry:
                time.sleep(0.01)
        return "clean"
    finally:
        reading.body = bytes(body)


def last_event(body):
    """The id of the last event that is whole."""
    end = body.rfind(b"\n\n")
    start = body.rfind(b"id: ", 0, max(end, 0))
    return body[start + 4:body.index(b"\n", start)].decode() if end > 0 and start >= 0 else None


class Reader(threading.Thread):
    def __init__(self, story, operation, seed):
        super().__init__(daemon=True)
        self.story = story
        self.operation = operation
        self.drawn = random.Random(seed)
        self.seen = (0, 0, None)  # an attempt, how much of it, and the last event
        self.first = True

    def run(self):
        try:
            # A long stream may never get to its end in trouble; in the end everybody asks in peace.
            until = time.monotonic() + self.drawn.uniform(1, 6)
            while not self.story.over.is_set() and time.monotonic() < until:
                if self._settled():
                    return
                self.story.over.wait(self.drawn.uniform(0, 0.1))
        except BaseException as error:
            self.story.failures.append(error)
            raise

    def _manner(self):
        attempt, reached, event = self.seen
        ways = ["plain"] if self.first else ["plain", "lookup"]
        if reached:
            ways += ["offset", "offset"]
        if event:
            ways += ["event", "event"]
        self.first = False
        way = self.drawn.choice(ways)
        asked = {"offset": reached, "event": event}.get(way)
        length = self.operation.plan.length()
        leaves = self.drawn.random() < 0.4
        return Manner(way, asked, attempt if asked and self.drawn.random() < 0.5 else 0,
                      self.drawn.randrange(0, length) if leaves else None, self.drawn.random() < 0.15)

    def _settled(self):
        member = self.story.member_for(self.operation)
        port = member.port
        reading = port and read(member.name, port, self.operation, self._manner())
        if not reading:
            return False
        if reading.status == 200 and reading.body:
            self.seen = (reading.attempt, reading.offset + len(reading.body), last_event(reading.body))
        self.story.history.add(reading)
        return is_definite(reading)


def is_definite(reading):
    """Whether asking again brings nothing new."""
    if reading.status == 200:
        held = reading.fields.get("idempotency-status") == "unknown" and reading.operation.holds
        return reading.end == "clean" or (reading.end == "cut" and held)
    if reading.code == "response-not-kept":
        return True
    return reading.status == 409 and reading.code == "outcome-unknown" and reading.operation.holds
