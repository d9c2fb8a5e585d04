"""A response that is read as it streams, and continued on another connection if its own breaks.

    with once.stream("https://api.example.com/chat", b'{"prompt": "hi"}') as stream:
        for event in stream.events():
            print(event.data)

Every try has one key and the same bytes, as with send(). No byte of the body is given twice, and no two executions are mixed.
docs/guides/streams.md says what the gateway promises.
"""
from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from typing import Any, AsyncIterator, Generator, Iterator, Mapping, NamedTuple

from once.sending import NotAnswered, Request, problem_of
from once.server_sent import EventParser, ServerSentEvent
from once.stopping import NotStopped, stop_over, stop_over_async, stop_request
from once.transports import Failed, Reply, async_transport, sync_transport

# A retry requests the last bytes again and compares them: another execution has other bytes.
_COMPARED_BYTES = 1024
# The Idempotency-Status of an answer whose execution had already begun.
_CONTINUES = ("attached", "replayed", "unknown")


class StreamBroken(OSError):
    """The stream has no clean end. `received` bytes were read. Continue with the same `key`, never with a new one. `reason` is one of

    - outcome-unknown: the execution broke off, at the backend or at the gateway; it may have taken effect
    - new-attempt: the request was executed again, so what follows does not belong to what was read. A new call with the same key reads
      the new attempt from its beginning. Also if the headers of the call ask for a later part (Idempotency-Offset) and the answer does
      not begin there: drop the earlier part, and call without these headers
    - refused: a retry got an answer that does not continue the stream, such as 409 response-not-kept; see `status` and `code`
    - not-protected: the answer did not say that the key was honoured, so a retry could execute the request again
    - gave-up: no connection within the deadline
    """

    def __init__(self, reason: str, message: str, key: str, received: int, status: int | None = None, code: str | None = None) -> None:
        super().__init__(f"{message} ({received} bytes were read, key {key})")
        self.reason = reason
        self.key = key
        self.received = received
        self.status = status
        self.code = code


class _Step(NamedTuple):
    """The next action: open, read, close, sleep; head: the first head has arrived; give: bytes for the caller."""
    what: str
    value: Any = None


class _Body:
    """The protocol of one stream, as steps for a caller that does the I/O. If a step fails, its Failed is thrown into the generator."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.status = 0
        self.headers: Any = {}
        self.received = 0
        self.stopped = False
        if not any(name.lower() == "accept-encoding" for name in request.fields):
            request.fields["Accept-Encoding"] = "identity"  # offsets count the bytes on the wire
        self._position = 0  # in the stream, of the current answer
        self._status = ""
        self._tail = b""  # the last bytes that were read
        self._attempt: str | None = None  # the execution that they belong to, if known
        self._progress = True

    def steps(self) -> Generator[_Step, Any, None]:
        whole = yield from self._connect()
        yield _Step("head")
        if whole is not None:
            self.received = len(whole)
            if whole:
                yield _Step("give", whole)
            return
        while True:
            try:
                part = yield _Step("read")
            except Failed as failure:
                yield from self._reattach(failure)
                continue
            if not part:
                break
            unseen = self._unseen(part)
            if unseen:
                yield _Step("give", unseen)
        if self._position < self.received:
            raise self._new_attempt("its answer is shorter")

    def _connect(self) -> Generator[_Step, Any, bytes | None]:
        """Returns None if the body of a 2xx can be read, otherwise the whole body of another answer."""
        request = self.request
        whole = b""
        while True:
            try:
                status, headers = yield _Step("open", request.begin_try())
                if 200 <= status < 300:
                    request.answered(Reply(status, headers, b""))
                    self._begin(status, headers)
                    return None
                parts = []
                while part := (yield _Step("read")):
                    parts.append(part)
                whole = b"".join(parts)
                wait = request.answered(Reply(status, headers, whole))
            except Failed as failure:
                wait = request.failed(failure)
            yield _Step("close")
            if wait is None:
                answer = request.answer()  # raises if there is none
                if self.status == 0:
                    self.status, self.headers = answer.status, answer.headers
                    return whole
                raise self._refused(answer.status, answer.headers, whole)
            yield _Step("sleep", wait)

    def _begin(self, status: int, headers: Any) -> None:
        self._status = headers.get("Idempotency-Status")
        begins = headers.get("Idempotency-Offset", "0")
        self._position = int(begins) if begins.isdigit() else 0
        if self.status == 0:
            self._check_part(headers)
            self.status, self.headers = status, headers
            self.received = self._position  # the caller may have asked for a later part
        elif status != self.status or self._status not in _CONTINUES or self._position > self.received:
            raise self._new_attempt(f"the retry was answered with {status}, Idempotency-Status: {self._status}")
        attempt = headers.get("Idempotency-Attempt") or self._attempt
        if self._attempt is not None and attempt != self._attempt:
            raise self._new_attempt(f"attempt {attempt} follows attempt {self._attempt}")
        self._attempt = attempt
        if headers.get("Idempotency-Stopped") == "true":
            self.stopped = True

    def _check_part(self, headers: Any) -> None:
        """A caller that already has a part only gets the bytes after it."""
        asked = {name.lower(): value for name, value in self.request.fields.items()}
        offset, attempt = asked.get("idempotency-offset"), asked.get("idempotency-attempt")
        if offset is None:
            return
        if offset != str(self._position) or (attempt or "") not in ("", headers.get("Idempotency-Attempt", attempt)):
            raise self._broken("new-attempt", f"the answer does not continue at Idempotency-Offset {offset}: the kept part belongs to another attempt, or its response no longer exists. Drop it, and call without Idempotency-Offset and "
                               "Idempotency-Attempt")

    def _reattach(self, failure: Failed) -> Generator[_Step, Any, None]:
        yield _Step("close")
        if self._status == "unknown":
            raise self._outcome_unknown() from failure
        if not self.is_protected():
            raise self._broken("not-protected", "the connection broke, and the answer did not say that its key was honoured: it is unknown "
                               "whether the request was executed, and a retry could execute it again") from failure
        # A connection that fell silent had worked before: do not count it as a failed try.
        wait = self.request.broken_off(self._progress or failure.idle)
        self._progress = False
        if wait is None:
            raise self._gave_up() from failure
        yield _Step("sleep", wait)
        offset = self.received - len(self._tail)
        # The caller's own id would be searched again, and might now be found elsewhere.
        self.request.set_fields({"Idempotency-Offset": str(offset) if offset > 0 else None,
                                 "Idempotency-Attempt": self._attempt if offset > 0 else None, "Last-Event-ID": None})
        try:
            yield from self._connect()
        except NotAnswered as error:
            raise self._gave_up() from error

    def is_protected(self) -> bool:
        return self._status in ("executed", *_CONTINUES)

    def stop_request(self) -> Request:
        request = self.request
        if not self.is_protected():  # another server would execute a DELETE
            raise NotStopped("the answer did not say that its key was honoured: nothing was sent", request.key)
        return stop_request(request.url, request.method, request.fields, request.key, request.key_header, request.timeout, request.deadline)

    def _unseen(self, part: bytes) -> bytes:
        start = self._position
        self._position += len(part)
        repeated = min(len(part), max(0, self.received - start))
        tail_start = self.received - len(self._tail)
        first = max(start, tail_start)
        if first < start + repeated and part[first - start:repeated] != self._tail[first - tail_start:start + repeated - tail_start]:
            raise self._new_attempt("its answer differs")
        unseen = part[repeated:]
        if unseen:
            self.received += len(unseen)
            self._tail = (self._tail + unseen)[-_COMPARED_BYTES:]
            self._progress = True
        return unseen

    def _broken(self, reason: str, message: str, status: int | None = None, code: str | None = None) -> StreamBroken:
        return StreamBroken(reason, message, self.request.key, self.received, status, code)

    def _outcome_unknown(self, status: int | None = None, code: str | None = None) -> StreamBroken:
        return self._broken("outcome-unknown", "the execution broke off, and its outcome is unknown: it may have taken effect", status, code)

    def _new_attempt(self, how: str) -> StreamBroken:
        return self._broken("new-attempt", f"the request was executed again ({how}): read the new answer from its beginning with the same key")

    def _gave_up(self) -> StreamBroken:
        return self._broken("gave-up", "the connection broke, and there was none again before the deadline: it is unknown how the stream "
                            "ends; continue later with the same key")

    def _refused(self, status: int, headers: Any, body: bytes) -> StreamBroken:
        problem = problem_of(body)
        code = problem.get("code")
        if code == "outcome-unknown" or headers.get("Idempotency-Status") == "unknown":
            return self._outcome_unknown(status, code)
        why = " ".join(str(part) for part in (status, code, problem.get("detail")) if part)
        return self._broken("refused", f"the connection broke, and the retry was answered with {why}", status, code)


class _Response:
    """The common part of Stream and AsyncStream."""

    def __init__(self, body: _Body, transport: Any) -> None:
        self._body = body
        self._transport = transport
        self._opened: Any = None
        self._is_read = False
        self._is_over = False  # because of stop()

    @property
    def key(self) -> str:
        return self._body.request.key

    @property
    def status(self) -> int:
        """An answer other than 2xx is returned unchanged."""
        return self._body.status

    @property
    def headers(self) -> Any:
        """The headers of the first answer; later ones only continue its body. get() ignores case."""
        return self._body.headers

    @property
    def received(self) -> int:
        """The number of bytes that were read, from the beginning of the body."""
        return self._body.received

    @property
    def stopped(self) -> bool:
        """Whether the request was stopped, by stop() or by another client with its key: the body is the part before the stop."""
        return self._body.stopped

    def _stop(self, is_ended_here: bool) -> bool:
        if is_ended_here:
            self._body.stopped = self._is_over = True
            # The gateway disconnects readers of a stopped stream; connections that can be interrupted do not wait for that.
            getattr(self._opened, "interrupt", lambda: None)()
        return is_ended_here

    def _arguments(self, timeout: float) -> tuple[Any, ...]:
        request = self._body.request
        return request.method, request.url, request.fields, request.body, timeout

    def _begin_reading(self) -> None:
        if self._is_read:
            raise RuntimeError("the stream is being read already: it can be read once")
        self._is_read = True


class Stream(_Response):
    """A body that can be read once: by iterating over its bytes, with events() or with read()."""

    def __init__(self, body: _Body, transport: Any) -> None:
        super().__init__(body, transport)
        self._parts = self._run(body.steps())
        next(self._parts)  # the head

    def __iter__(self) -> Iterator[bytes]:
        self._begin_reading()
        return self._parts

    def events(self) -> Iterator[ServerSentEvent]:
        parser = EventParser()
        for part in self:
            yield from parser.take(part)

    def read(self) -> bytes:
        return b"".join(self)

    def stop(self) -> bool:
        """Stops the request at the backend, and ends the loop that reads it; any thread may call it. See stop_stream()."""
        return self._stop(stop_over(self._transport, self._body.stop_request()))

    def _run(self, steps: Generator[_Step, Any, None]) -> Iterator[bytes]:
        value: Any = None
        failure: Failed | None = None
        try:
            while not self._is_over:
                try:
                    step = steps.send(value) if failure is None else steps.throw(failure)
                except StopIteration:
                    return
                value = failure = None
                if step.what in ("head", "give"):
                    yield step.value
                    continue
                try:
                    value = self._do(step)
                except Failed as error:
                    failure = error
        finally:
            self._close()

    def _do(self, step: _Step) -> Any:
        if step.what == "open":
            self._opened = self._transport.open(*self._arguments(step.value))
            return self._opened.status, self._opened.headers
        if step.what == "read":
            return self._opened.read()
        if step.what == "sleep":
            return time.sleep(step.value)
        return self._close()

    def _close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()


class AsyncStream(_Response):
    """Like Stream, with `async for`."""

    def __init__(self, body: _Body, transport: Any) -> None:
        super().__init__(body, transport)
        self._parts = self._run(body.steps())

    def __aiter__(self) -> AsyncIterator[bytes]:
        self._begin_reading()
        return self._parts

    async def events(self) -> AsyncIterator[ServerSentEvent]:
        parser = EventParser()
        async for part in self:
            for event in parser.take(part):
                yield event

    async def read(self) -> bytes:
        return b"".join([part async for part in self])

    async def stop(self) -> bool:
        """Stops the request at the backend, and ends the loop that reads it; any task may call it. See stop_stream()."""
        return self._stop(await stop_over_async(self._transport, self._body.stop_request()))

    async def _run(self, steps: Generator[_Step, Any, None]) -> AsyncIterator[bytes]:
        value: Any = None
        failure: Failed | None = None
        try:
            while not self._is_over:
                try:
                    step = steps.send(value) if failure is None else steps.throw(failure)
                except StopIteration:
                    return
                value = failure = None
                if step.what in ("head", "give"):
                    yield step.value
                    continue
                try:
                    value = await self._do(step)
                except Failed as error:
                    failure = error
        finally:
            await self._close()

    async def _do(self, step: _Step) -> Any:
        if step.what == "open":
            self._opened = await self._transport.open(*self._arguments(step.value))
            return self._opened.status, self._opened.headers
        if step.what == "read":
            return await self._opened.read()
        if step.what == "sleep":
            return await asyncio.sleep(step.value)
        return await self._close()

    async def _close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.close()


@contextlib.contextmanager
def stream(url: str, body: bytes | str | None = None, *, method: str = "POST", headers: Mapping[str, str] | None = None,
           key: str | None = None, key_header: str = "Idempotency-Key", timeout: float = 30.0, deadline: float = 60.0,
           session: Any = None, ca_file: str | None = None, ssl_context: ssl.SSLContext | None = None) -> Iterator[Stream]:
    """Sends a request as send() does, and gives a Stream when the head of the answer has come. Leaving the `with` closes the connection;
    the gateway records the stream to its end all the same.

    - timeout: how long a connection may be silent, in seconds. After that the stream is continued on another one
    - deadline: how long it tries to get an answer, and to get one again each time the connection breaks. The stream has no limit

    Raises NotAnswered as send() does; while the body is read, StreamBroken (at once, if the headers ask for another part). The other arguments are those of send()."""
    request = Request(url, body, method, headers, key, key_header, timeout, deadline)
    with sync_transport(request.parts, session, ca_file, ssl_context) as transport:
        got = Stream(_Body(request), transport)
        try:
            yield got
        finally:
            got._parts.close()  # type: ignore[attr-defined]


@contextlib.asynccontextmanager
async def stream_async(url: str, body: bytes | str | None = None, *, method: str = "POST", headers: Mapping[str, str] | None = None,
                       key: str | None = None, key_header: str = "Idempotency-Key", timeout: float = 30.0, deadline: float = 60.0,
                       session: Any = None, ca_file: str | None = None,
                       ssl_context: ssl.SSLContext | None = None) -> AsyncIterator[AsyncStream]:
    """Like stream(), without blocking the event loop. session: as for send_async()."""
    request = Request(url, body, method, headers, key, key_header, timeout, deadline)
    async with async_transport(request.parts, session, ca_file, ssl_context) as transport:
        got = AsyncStream(_Body(request), transport)
        try:
            await got._parts.__anext__()  # the head
            yield got
        finally:
            await got._parts.aclose()  # type: ignore[attr-defined]
