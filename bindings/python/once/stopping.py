"""Stops a keyed request whose response streams: it ends at the backend, and retries get the recorded part.

    once.stop_stream("https://api.example.com/chat", key=key, headers={"Authorization": token})
"""
from __future__ import annotations

import asyncio
import ssl
import time
from typing import Any, Mapping

from once.sending import Answer, Request, problem_of
from once.transports import Failed, async_transport, sync_transport

# Headers of the streaming request that do not apply to its stop.
_NOT_OF_THE_STOP = ("accept-encoding", "content-type", "idempotency-attempt", "idempotency-offset", "last-event-id")


class NotStopped(OSError):
    """The request was not stopped, and may continue. `code` is that of the problem: key-not-found, in-flight, outcome-unknown …"""

    def __init__(self, message: str, key: str, status: int | None = None, code: str | None = None) -> None:
        super().__init__(f"{message} (key {key})")
        self.key = key
        self.status = status
        self.code = code


def stop_stream(url: str, *, key: str, method: str = "POST", headers: Mapping[str, str] | None = None, key_header: str = "Idempotency-Key",
                timeout: float = 15.0, deadline: float = 60.0, session: Any = None, ca_file: str | None = None,
                ssl_context: ssl.SSLContext | None = None) -> bool:
    """Stops a request that was sent through Once with this method, URL and key, as its caller: with the headers that identify the caller.

    Returns True if the response ends here, and False if it had ended before. Raises NotStopped if the server refuses, and NotAnswered like
    send()."""
    request = stop_request(url, method, headers, key, key_header, timeout, deadline)
    with sync_transport(request.parts, session, ca_file, ssl_context) as transport:
        return stop_over(transport, request)


async def stop_stream_async(url: str, *, key: str, method: str = "POST", headers: Mapping[str, str] | None = None,
                            key_header: str = "Idempotency-Key", timeout: float = 15.0, deadline: float = 60.0, session: Any = None,
                            ca_file: str | None = None, ssl_context: ssl.SSLContext | None = None) -> bool:
    """Like stop_stream(), without blocking the event loop. session: as for send_async()."""
    request = stop_request(url, method, headers, key, key_header, timeout, deadline)
    async with async_transport(request.parts, session, ca_file, ssl_context) as transport:
        return await stop_over_async(transport, request)


def stop_request(url: str, method: str, headers: Mapping[str, str] | None, key: str, key_header: str, timeout: float,
                 deadline: float) -> Request:
    fields = {name: value for name, value in (headers or {}).items() if name.lower() not in _NOT_OF_THE_STOP}
    fields["Idempotency-Stop"] = method.upper()
    return Request(url, None, "DELETE", fields, key, key_header, timeout, deadline)


def stop_over(transport: Any, request: Request) -> bool:
    while True:
        try:
            wait = request.answered(transport.send(request.method, request.url, request.fields, None, request.begin_try()))
        except Failed as failure:
            wait = request.failed(failure)
        if wait is None:
            return _stopped(request.answer())
        time.sleep(wait)


async def stop_over_async(transport: Any, request: Request) -> bool:
    while True:
        try:
            wait = request.answered(await transport.send(request.method, request.url, request.fields, None, request.begin_try()))
        except Failed as failure:
            wait = request.failed(failure)
        if wait is None:
            return _stopped(request.answer())
        await asyncio.sleep(wait)


def _stopped(answer: Answer) -> bool:
    said = answer.headers.get("Idempotency-Stopped")
    is_well = 200 <= answer.status < 300
    if is_well and said is not None:
        return bool(said == "true")
    if is_well:
        raise NotStopped("the answer does not say Idempotency-Stopped: the server does not support it", answer.key, answer.status)
    problem = problem_of(answer.body)
    code = problem.get("code")
    why = " ".join(str(part) for part in (answer.status, code, problem.get("detail")) if part)
    raise NotStopped(f"it was not stopped: {why}", answer.key, answer.status, code)
