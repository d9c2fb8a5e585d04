"""A backend and a client that see raw bytes, and keep them.

Nothing here sleeps to wait for something: wait_until() and the sockets' time limits wait for the thing itself.
"""
import contextlib
import dataclasses
import json
import socket
import struct
import threading
import time


default_host = "api.test"  # of requests that name none
DEADLINE = 60.0  # generous: the gateway may run under sanitizers on a busy machine that pauses for seconds


def wait_until(predicate, deadline=DEADLINE, what="the condition"):
    """Returns what the predicate returned once it is true."""
    until = time.monotonic() + deadline
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() > until:
            raise AssertionError(f"waited {deadline} s in vain for {what}")
        time.sleep(0.005)


def hold_port():
    """A port that nobody else gets while the socket is open, whether we listen there or not; and that socket."""
    place = socket.socket()
    place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    place.bind(("127.0.0.1", 0))
    return place, place.getsockname()[1]


def reset(sock):
    """Closes with a RST instead of a FIN."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def field_lines(fields):
    return b"".join(f"{name}: {value}\r\n".encode("latin-1") for name, value in fields)


def parse_fields(lines):
    pairs = (line.split(b":", 1) for line in lines)
    return [(name.decode("latin-1"), value.strip().decode("latin-1")) for name, value in pairs]


class Fields:
    """Mixed into messages with `fields`, a list of (name, value)."""

    def all(self, name):
        return [value for found, value in self.fields if found.lower() == name.lower()]

    def get(self, name):
        values = self.all(name)
        return values[0] if values else None


class Stream:
    """A socket with a buffer. Reading past the peer's end raises EOFError."""

    def __init__(self, sock):
        self.sock = sock
        self.buffer = bytearray()
        self.log = bytearray()  # everything that was ever read

    def fill(self):
        data = self.sock.recv(65536)
        if not data:
            raise EOFError(f"the stream ended; unread: {bytes(self.buffer[:200])!r}")
        self.buffer += data
        self.log += data

    def read(self, size):
        while len(self.buffer) < size:
            self.fill()
        return self.take(size)

    def take(self, size):
        data = bytes(self.buffer[:size])
        del self.buffer[:size]
        return data

    def read_until(self, mark):
        while mark not in self.buffer:
            self.fill()
        return self.take(self.buffer.index(mark) + len(mark))

    def read_head(self):
        """First line and fields; their raw bytes."""
        raw = self.read_until(b"\r\n\r\n")
        first, *lines = raw[:-4].split(b"\r\n")
        return first.decode("latin-1"), parse_fields(lines), raw

    def read_chunked(self):
        """The body, and the lines of its trailers."""
        body = bytearray()
        while size := int(self.read_until(b"\r\n").split(b";")[0], 16):
            body += self.read(size)
            if self.read(2) != b"\r\n":
                raise ValueError("a chunk does not end with CRLF")
        trailers = []
        while (line := self.read_until(b"\r\n")) != b"\r\n":
            trailers.append(line)
        return bytes(body), trailers

    def read_to_end(self):
        with contextlib.suppress(EOFError):
            while True:
                self.fill()
        return self.take(len(self.buffer))


@dataclasses.dataclass
class Request(Fields):
    """As the backend received it."""
    method: str
    target: str
    version: str
    fields: list
    head: bytes  # raw
    body: bytes = b""
    trailers: list = dataclasses.field(default_factory=list)
    complete: bool = False  # with its whole body


@dataclasses.dataclass
class Response(Fields):
    """As the client received it."""
    status: int
    reason: str
    fields: list
    head: bytes  # raw
    body: bytes = b""
    trailers: list = dataclasses.field(default_factory=list)
    interim: list = dataclasses.field(default_factory=list)  # 1xx that came before

    @property
    def problem(self):
        assert self.get("Content-Type") == "application/problem+json", self
        return json.loads(self.body)

    @property
    def code(self):
        return self.problem["code"]


class BackendConnection:
    """What a backend's handler answers with."""

    def __init__(self, sock):
        self.sock = sock
        self.stream = Stream(sock)
        self.request = None
        self.open = True

    def read_body(self):
        request = self.request
        if "chunked" in (request.get("Transfer-Encoding") or ""):
            request.body, request.trailers = self.stream.read_chunked()
        else:
            request.body = self.stream.read(int(request.get("Content-Length") or 0))
        request.complete = True

    def send(self, data):
        self.sock.sendall(data)

    def reply(self, status=200, fields=(), body=b"", reason="Fine"):
        length = [("Content-Length", len(body))]
        self.send(f"HTTP/1.1 {status} {reason}\r\n".encode() + field_lines([*fields, *length]) + b"\r\n" + body)

    def close(self):
        self.open = False

    def reset(self):
        self.open = False
        reset(self.sock)


def created(request, connection):
    """The usual handler: a body that says which execution it was."""
    connection.reply(201, [("Content-Type", "text/plain")], b"made by attempt " +
                     (request.get("Idempotency-Attempt") or "none").encode())


class Backend:
    """Calls handler(request, connection) in a thread per connection, and keeps what really arrived."""

    def __init__(self, handler=created, read_body=True):
        self.handler = handler
        self.read_body = read_body  # else the handler calls connection.read_body()
        self.requests = []  # in order of their heads
        self.streams = []  # one per connection, with its raw bytes in .log
        self.errors = []
        self._busy = 0
        self._lock = threading.Lock()
        self._threads = []
        self._socks = []
        self.port = None
        self._place = None
        self._listener = None
        self.listen()

    def begin(self, handler, read_body):
        """A new story: nothing is left of the last one but idle connections."""
        self.handler, self.read_body, self.requests = handler, read_body, []
        for stream in self.streams:
            stream.log.clear()
        if self._listener.fileno() < 0:
            self.listen()

    def is_quiet(self):
        return self._busy == 0

    @property
    def origin(self):
        return f"http://127.0.0.1:{self.port}"

    def open_listener(self):
        if self._place is None:
            self._place, self.port = hold_port()
        return socket.create_server(("127.0.0.1", self.port), backlog=512)

    def listen(self):
        self._listener = self.open_listener()
        thread = threading.Thread(target=self._accept, args=(self._listener,), daemon=True)
        thread.start()
        self._threads.append(thread)

    def stop_listening(self):
        """From now on connections are refused; the port stays the same for listen()."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for sock in self._socks:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def stop(self):
        self.stop_listening()
        if self._place is not None:
            self._place.close()
        for thread in self._threads:
            thread.join(DEADLINE)
        if self.errors:
            raise self.errors[0]

    @property
    def received(self):
        return b"".join(bytes(stream.log) for stream in self.streams)

    def executions(self):
        return [request for request in self.requests if request.complete]

    @contextlib.contextmanager
    def _at_work(self):
        with self._lock:
            self._busy += 1
        try:
            yield
        finally:
            with self._lock:
                self._busy -= 1

    def _accept(self, listener):
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            if sock.family != socket.AF_UNIX:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = BackendConnection(sock)
            self._socks.append(sock)
            self.streams.append(connection.stream)
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection):
        try:
            while connection.open:
                first, fields, raw = connection.stream.read_head()
                request = Request(*first.split(" ", 2), fields=fields, head=raw)
                connection.request = request
                self.requests.append(request)
                with self._at_work():
                    if self.read_body:
                        connection.read_body()
                    self.handler(request, connection)
        except (EOFError, OSError):
            pass  # the gateway closed, or the test is over
        except Exception as error:  # a mistake in the test itself
            self.errors.append(error)
        finally:
            with contextlib.suppress(OSError):
                connection.sock.close()


class Client(Stream):
    """One connection to the gateway."""

    def __init__(self, port, timeout=DEADLINE, address=None):
        """`address` is where it comes from, if that matters."""
        super().__init__(socket.create_connection(("127.0.0.1", port), timeout, source_address=address and (address, 0)))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.sock.close()

    def reset(self):
        reset(self.sock)

    def send(self, data):
        self.sock.sendall(data)

    def send_request(self, method="POST", target="/", fields=(), body=None, key=None, version="HTTP/1.1"):
        self.send(request_bytes(method, target, fields, body, key, version))

    def read_response(self, method="POST"):
        interim = []
        while True:
            first, fields, raw = self.read_head()
            parts = first.split(" ", 2)
            response = Response(int(parts[1]), parts[2] if len(parts) > 2 else "", fields, raw, interim=interim)
            if response.status == 101 or response.status >= 200:
                break
            interim.append(response)
        length = response.get("Content-Length")
        if method == "HEAD" or response.status in (101, 204, 304):
            return response
        if response.get("Transfer-Encoding") == "chunked":
            response.body, response.trailers = self.read_chunked()
        elif length is not None:
            response.body = self.read(int(length))
        else:
            response.body = self.read_to_end()
        return response

    def ask(self, method="POST", *args, **named):
        self.send_request(method, *args, **named)
        return self.read_response(method)

    def closed(self):
        """True once the gateway has closed this connection and nothing is unread."""
        try:
            return self.sock.recv(1) == b"" and not self.buffer
        except ConnectionResetError:
            return not self.buffer


def request_bytes(method="POST", target="/", fields=(), body=None, key=None, version="HTTP/1.1"):
    """Body None: none is announced. Fields may replace Host."""
    fields = list(fields)
    if not any(name.lower() == "host" for name, _ in fields):
        fields.insert(0, ("Host", default_host))
    if key is not None:
        fields.append(("Idempotency-Key", key))
    if body is not None:
        fields.append(("Content-Length", len(body)))
    return f"{method} {target} {version}\r\n".encode("latin-1") + field_lines(fields) + b"\r\n" + (body or b"")
