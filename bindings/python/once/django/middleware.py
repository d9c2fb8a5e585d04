"""The Django middleware for every view, function or class, of Django or REST Framework, plain or async.

Responses are rendered when a middleware sees them, so the recorded bytes are those that the client gets. `request.once` is the claim, or
None.
"""
from __future__ import annotations

import asyncio
from typing import Any, AsyncIterator, Callable, Iterator

from asgiref.sync import sync_to_async
from django.http import HttpResponse

from once import asgi, wsgi
from once.current import RESERVED, claimed
from once.django import opening
from once.events import Handle, Passed, Reply
from once.gate import Request

_STREAMED = wsgi.STREAMED


class Middleware:
    """For MIDDLEWARE: requests with a key are executed once. ONCE in the settings of the project configures it (opening.py)."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[..., Any]) -> None:
        self.get_response = get_response
        self.gate = opening.gate()
        self._caller = opening.caller()
        self._is_async = asyncio.iscoroutinefunction(get_response)
        if self._is_async:
            self._is_coroutine = asyncio.coroutines._is_coroutine  # type: ignore[attr-defined]

    def __call__(self, request: Any) -> Any:
        if self._is_async:
            return self._call_async(request)
        caller = self._caller(request) if self._caller is not None else None
        begun = self.gate.begin(self._request(request, caller))
        if isinstance(begun, Reply):
            return _made(begun)
        _show(request, begun)
        if isinstance(begun, Passed):
            return _with_fields(self.get_response(request), begun)
        try:
            with claimed(begun):
                response = self.get_response(request)
                status, fields, body = _collected(response, begun.max_body)
        except BaseException:  # Django turns exceptions into responses, so the process is ending
            begun.free()
            raise
        return _told(response, self.gate.finish(begun, status, fields, body), begun)

    async def _call_async(self, request: Any) -> Any:
        begun = await self.gate.begin_async(self._request(request, await self._caller_async(request)))
        if isinstance(begun, Reply):
            return _made(begun)
        _show(request, begun)
        if isinstance(begun, Passed):
            return _with_fields(await self.get_response(request), begun)
        try:
            with claimed(begun):
                response = await self.get_response(request)
                status, fields, body = await _collected_async(response, begun.max_body)
        except BaseException:
            begun.free()
            raise
        return _told(response, await self.gate.finish_async(begun, status, fields, body), begun)

    async def _caller_async(self, request: Any) -> Any:
        if self._caller is None:
            return None
        if asyncio.iscoroutinefunction(self._caller):
            return await self._caller(request)
        return await sync_to_async(self._caller, thread_sensitive=True)(request)  # it may query the database

    def _request(self, request: Any, caller: Any) -> Request:
        named = b"" if caller is None else str(caller).encode()
        scope = getattr(request, "scope", None)
        made = asgi.request_of(scope, named) if scope is not None else wsgi.request_of(request.META, named)
        if self.gate.needs_body(made) is None:
            return made
        return made._replace(body=request.body)


def _show(request: Any, begun: Handle | Passed) -> None:
    """Sets the fields that a backend behind a gateway would get, and drops the client's own."""
    for name in RESERVED:
        request.META.pop(_variable(name), None)
    request.once = begun if isinstance(begun, Handle) else None
    if isinstance(begun, Handle):
        for name, value in begun.fields:
            request.META[_variable(name)] = value.decode("latin-1")
    request.__dict__.pop("headers", None)  # Django has cached them


def _variable(name: bytes) -> str:
    return "HTTP_" + name.decode("latin-1").upper().replace("-", "_")


def fields_of(response: Any) -> list[tuple[bytes, bytes]]:
    """Without cookies, which belong to one reply."""
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in response.items()]


def _collected(response: Any, most: int) -> tuple[int, list[tuple[bytes, bytes]], bytes | None]:
    """Status, fields and body. No body: it is over the limit, or the client should read it as it arrives."""
    fields = fields_of(response)
    if not getattr(response, "streaming", False):
        return response.status_code, fields, bytes(response.content)
    if _is_streamed(response):
        return response.status_code, fields, None
    chunks: list[bytes] = []
    rest = iter(response.streaming_content)
    size = 0
    for chunk in rest:
        chunks.append(chunk)
        size += len(chunk)
        if size > most:
            response.streaming_content = _joined(chunks, rest)
            return response.status_code, fields, None
    return response.status_code, fields, b"".join(chunks)


async def _collected_async(response: Any, most: int) -> tuple[int, list[tuple[bytes, bytes]], bytes | None]:
    if not getattr(response, "streaming", False) or not getattr(response, "is_async", False):
        return _collected(response, most)
    fields = fields_of(response)
    if _is_streamed(response):
        return response.status_code, fields, None
    chunks: list[bytes] = []
    rest = response.streaming_content.__aiter__()
    size = 0
    async for chunk in rest:
        chunks.append(chunk)
        size += len(chunk)
        if size > most:
            response.streaming_content = _joined_async(chunks, rest)
            return response.status_code, fields, None
    return response.status_code, fields, b"".join(chunks)


def _is_streamed(response: Any) -> bool:
    return response.get("Content-Type", "").partition(";")[0].strip().lower() in _STREAMED


def _joined(chunks: list[bytes], rest: Iterator[bytes]) -> Iterator[bytes]:
    yield from chunks
    yield from rest


async def _joined_async(chunks: list[bytes], rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk
    async for chunk in rest:
        yield chunk


def _told(response: Any, reply: Reply, claim: Handle) -> Any:
    """The view's own response if it is the outcome, so that its cookies stay; otherwise the outcome."""
    if reply.body_is_yours:
        _set_fields(response, reply)
        return response
    if reply.ending != "executed" or reply.status != response.status_code:
        made = _made(reply)
    elif getattr(response, "streaming", False):
        made = _made(reply)
        made.cookies = response.cookies
    else:
        made = response
        if made.content != reply.body:
            made.content = reply.body
        _set_fields(made, reply)
    if made is not response:
        response.close()
    return made


def _set_fields(response: Any, reply: Reply) -> None:
    kept = {name.decode("latin-1").lower() for name, _ in reply.fields}
    for name in [name for name, _ in response.items()]:
        if name.lower() not in kept:
            del response[name]
    for name, value in reply.fields:
        response[name.decode("latin-1")] = value.decode("latin-1")


def _made(reply: Reply) -> Any:
    made = HttpResponse(reply.body, status=reply.status)
    del made["Content-Type"]
    for name, value in reply.fields:
        made[name.decode("latin-1")] = value.decode("latin-1")
    return made


def _with_fields(response: Any, passed: Passed) -> Any:
    for name, value in passed.fields:
        response[name.decode("latin-1")] = value.decode("latin-1")
    return response

