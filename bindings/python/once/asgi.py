"""ASGI middleware, for FastAPI, Starlette and every other ASGI application on asyncio.

    app.add_middleware(once.Middleware, config="once.yaml")

A request with a key is claimed before the application sees it. Its response is recorded before the client gets it. Retries are
answered from the record. Requests without a key pass through, and stream.
"""
from __future__ import annotations

import asyncio
import inspect
import logging
import os
import urllib.parse
from typing import Any, Awaitable, Callable, Mapping

from once.current import claimed, handler_fields
from once.events import Handle, Passed, Reply
from once.gate import Gate, Request
from once.threads import in_thread

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]

# Responses that a client reads as they arrive. They are passed on at once, and not recorded.
STREAMED = (b"text/event-stream", b"application/x-ndjson", b"application/jsonl")

logger = logging.getLogger("once")


class Middleware:
    """config, settings: those of once.Gate; or a shared gate. caller: a function, plain or async, that gets the ASGI scope and returns the
    caller as the application has verified it; None: the route's `caller` identifies it."""

    def __init__(self, app: Any, config: str | os.PathLike[str] | Mapping[str, Any] | None = None, *,
                 settings: Mapping[str, Any] | None = None, gate: Gate | None = None,
                 caller: Callable[[Any], Any] | None = None) -> None:
        self.app = app
        self._open = lambda: Gate(config, settings=settings)
        self.gate = gate or self._open()
        self._owns_gate = gate is None
        self._caller = caller

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(scope, receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    async def _lifespan(self, scope: Any, receive: Receive, send: Send) -> None:
        async def send_and_close(message: Any) -> None:
            if message["type"].startswith("lifespan.shutdown.") and self._owns_gate:
                await in_thread(self.gate.close)
            await send(message)

        if self._owns_gate and self.gate.closed:  # the application starts a second time, as in tests
            self.gate = await in_thread(self._open)
        await self.app(scope, receive, send_and_close)

    async def _http(self, scope: Any, receive: Receive, send: Send) -> None:
        request = request_of(scope, await self._caller_of(scope))
        most = self.gate.needs_body(request)
        body = b""
        if most is not None:
            read = await _read(receive, most)
            if read is None:
                return  # the client left before its request was complete
            body = read
        begun = await self.gate.begin_async(request._replace(body=body))
        if isinstance(begun, Reply):
            await _send_reply(send, begun)
        elif isinstance(begun, Passed):
            seen = {**scope, "headers": handler_fields(scope["headers"], None)}
            await self.app(seen, receive if most is None else _replaying(body, receive), _adding(begun.fields, send))
        else:
            await self._execute(begun, {**scope, "headers": handler_fields(scope["headers"], begun)}, body, send)

    async def _caller_of(self, scope: Any) -> bytes:
        if self._caller is None:
            return b""
        caller = self._caller(scope)
        if inspect.isawaitable(caller):
            caller = await caller
        return b"" if caller is None else str(caller).encode()

    async def _execute(self, claim: Handle, scope: Any, body: bytes, send: Send) -> None:
        # Extensions could send parts that are not collected here, such as trailers.
        scope["extensions"] = {name: value for name, value in (scope.get("extensions") or {}).items() if name == "tls"}
        scope["once"] = claim
        response = _Response(self.gate, claim, send)
        try:
            with claimed(claim):
                await self.app(scope, _replaying(body, _never), response.send)
        except Exception as error:
            if not await response.failed():
                raise
            logger.exception("the application raised %s after its outcome was recorded", type(error).__name__)
            return
        except BaseException:  # cancelled
            claim.free()
            raise
        await response.ended()


class _Response:
    """Collects the application's response. The client gets the first byte when the outcome is recorded."""

    def __init__(self, gate: Gate, claim: Handle, send: Send) -> None:
        self._gate = gate
        self._claim = claim
        self._send = send
        self._start: Any = None
        self._chunks: list[bytes] = []
        self._size = 0
        self._streams = False  # not recorded: passed on as it arrives
        self._over = False

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self._start = message
        elif message["type"] == "http.response.body":
            await self._body(bytes(message.get("body", b"")), message.get("more_body", False))

    async def _body(self, chunk: bytes, more: bool) -> None:
        if self._over:
            return
        if self._streams:
            self._over = not more
            await self._send({"type": "http.response.body", "body": chunk, "more_body": more})
            return
        self._chunks.append(chunk)
        self._size += len(chunk)
        if not more:
            self._over = True
            await self._finish(b"".join(self._chunks))
        elif self._size > self._claim.max_body or _is_streamed(self._fields):
            await self._begin_stream()

    @property
    def _fields(self) -> list[tuple[bytes, bytes]]:
        return [(bytes(name), bytes(value)) for name, value in self._start.get("headers", [])]

    async def _finish(self, body: bytes) -> None:
        await _send_reply(self._send, await self._gate.finish_async(self._claim, self._start["status"], self._fields, body))

    async def _begin_stream(self) -> None:
        reply = await self._gate.finish_async(self._claim, self._start["status"], self._fields, None)
        if not reply.body_is_yours:  # lost, not recorded, or recorded by the application itself
            self._over = True
            await _send_reply(self._send, reply)
            return
        self._streams = True
        await self._send(_start_of(reply))
        await self._send({"type": "http.response.body", "body": b"".join(self._chunks), "more_body": True})
        self._chunks.clear()

    async def failed(self) -> bool:
        """The application raised: sends a 500, unless it had recorded an outcome. Returns whether a reply was sent; if not, raise."""
        if self._over or self._streams:
            return False
        self._over = True
        reply = await self._gate.finish_async(self._claim, 500, [(b"content-type", b"text/plain; charset=utf-8")],
                                              b"Internal Server Error")
        if reply.status == 500 and reply.ending == "executed":
            return False
        await _send_reply(self._send, reply)
        return True

    async def ended(self) -> None:
        """The application has returned."""
        if self._over:
            return
        self._over = True
        if self._streams:
            raise RuntimeError("the application returned before the end of its response")
        await _send_reply(self._send, await self._gate.abandon_async(self._claim))


def request_of(scope: Any, caller: bytes = b"") -> Request:
    """The request without its body."""
    path = scope.get("raw_path") or urllib.parse.quote(scope["path"]).encode()
    path = path.partition(b"?")[0]
    query = scope.get("query_string", b"")
    client = scope.get("client")
    fields = [(bytes(name), bytes(value)) for name, value in scope["headers"]]
    return Request(scope["method"].encode(), path + (b"?" + query if query else b""), fields,
                   peer=client[0].encode() if client and client[0] else b"", scheme=scope.get("scheme", "http").encode(), caller=caller)


async def _read(receive: Receive, most: int) -> bytes | None:
    """The body, or at least one byte more than allowed; None if the client left."""
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        if size > most or not message.get("more_body", False):
            return b"".join(chunks)


def _replaying(body: bytes, rest: Receive) -> Receive:
    """Returns the body that was read, then the messages of `rest`."""
    given = False

    async def receive() -> Any:
        nonlocal given
        if not given:
            given = True
            return {"type": "http.request", "body": body, "more_body": False}
        return await rest()

    return receive


async def _never() -> Any:
    """A keyed request continues to its end when its client leaves, so the application is not notified."""
    await asyncio.Event().wait()


def _adding(fields: list[tuple[bytes, bytes]], send: Send) -> Send:
    if not fields:
        return send
    added = [(name.lower(), value) for name, value in fields]
    names = {name for name, _ in added}

    async def send_with_fields(message: Any) -> None:
        if message["type"] == "http.response.start":
            kept = [(name, value) for name, value in message.get("headers", []) if bytes(name).lower() not in names]
            message = {**message, "headers": kept + added}
        await send(message)

    return send_with_fields


def _is_streamed(fields: list[tuple[bytes, bytes]]) -> bool:
    kind = next((value for name, value in fields if name.lower() == b"content-type"), b"")
    return kind.partition(b";")[0].strip().lower() in STREAMED


def _start_of(reply: Reply) -> Any:
    return {"type": "http.response.start", "status": reply.status, "headers": [(name.lower(), value) for name, value in reply.fields]}


async def _send_reply(send: Send, reply: Reply) -> None:
    await send(_start_of(reply))
    await send({"type": "http.response.body", "body": reply.body, "more_body": False})
