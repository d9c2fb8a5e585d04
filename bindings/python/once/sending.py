"""A request that is executed once: one key, the same bytes on every try, as many tries as it takes.

    answer = once.send("https://api.example.com/orders", b'{"book": 7}', headers={"Content-Type": "application/json"})
    answer = await once.send_async("https://api.example.com/orders", b'{"book": 7}')

It retries what `once send` retries: no answer, an answer that broke off, 408, 425, 429, 502, 503, 504, and a 409 that time resolves.
How one try is made is in transports.py: with a session of requests or httpx, or with the standard library.
"""
from __future__ import annotations

import asyncio
import dataclasses
import email.utils
import json
import random
import ssl
import time
import urllib.parse
import uuid
import warnings
from typing import Any, Mapping

from once.transports import Failed, Reply, async_transport, sync_transport

RETRIED = (408, 425, 429, 502, 503, 504)
_FIRST_PAUSE = 0.2
_LONGEST_PAUSE = 10.0
_warned: set[str] = set()  # origins


class OnceWarning(UserWarning):
    """The answer does not show that its key was honoured."""


class NotAnswered(OSError):
    """There is no answer. If `sent`, it is unknown whether the request was executed: retry later with the same `key`."""

    def __init__(self, key: str, sent: bool, why: object) -> None:
        known = "it is unknown whether it was executed; continue later with the same key" if sent else "nothing was sent"
        super().__init__(f"no answer ({why}): {known}, {key}")
        self.key = key
        self.sent = sent


@dataclasses.dataclass(frozen=True)
class Answer:
    """The response. headers: get() ignores case."""
    status: int
    headers: Any
    body: bytes
    key: str
    tries: int

    @property
    def replayed(self) -> bool:
        """Whether an earlier try was executed, and this is its answer."""
        return bool(self.headers.get("Idempotency-Status") == "replayed")

    def json(self) -> Any:
        return json.loads(self.body)


def send(url: str, body: bytes | str | None = None, *, method: str = "POST", headers: Mapping[str, str] | None = None,
         key: str | None = None, key_header: str = "Idempotency-Key", timeout: float = 15.0, deadline: float = 60.0,
         session: Any = None, ca_file: str | None = None, ssl_context: ssl.SSLContext | None = None) -> Answer:
    """Sends a request with one key and the same bytes on every try, until there is an answer that a retry would not change.

    Redirects are not followed: another URL is another operation. Raises NotAnswered, which has the key.

    - key: made if neither this nor the header is given. Give your own, and keep it, where the operation outlives the process
    - timeout: how long one try may be silent; deadline: of the whole call, in seconds
    - session: a requests.Session or httpx.Client, for its connections, proxies and authentication. Without one every try is a new
      connection of the standard library
    - ca_file: certificates to trust in place of the system's; ssl_context: for anything else, such as a client certificate

    Warns once per origin (OnceWarning) of an answer without Idempotency-Status, or with `bypassed`: retries are not safe there.
    """
    request = Request(url, body, method, headers, key, key_header, timeout, deadline)
    with sync_transport(request.parts, session, ca_file, ssl_context) as transport:
        while True:
            try:
                reply = transport.send(request.method, url, request.fields, request.body, request.begin_try())
                wait = request.answered(reply)
            except Failed as failure:
                wait = request.failed(failure)
            if wait is None:
                return request.answer()
            time.sleep(wait)


async def send_async(url: str, body: bytes | str | None = None, *, method: str = "POST",
                     headers: Mapping[str, str] | None = None, key: str | None = None, key_header: str = "Idempotency-Key",
                     timeout: float = 15.0, deadline: float = 60.0, session: Any = None, ca_file: str | None = None,
                     ssl_context: ssl.SSLContext | None = None) -> Answer:
    """As send(), without blocking the event loop.

    session: an httpx.AsyncClient. Without one: httpx if it is installed, otherwise the standard library in a thread."""
    request = Request(url, body, method, headers, key, key_header, timeout, deadline)
    async with async_transport(request.parts, session, ca_file, ssl_context) as transport:
        while True:
            try:
                reply = await transport.send(request.method, url, request.fields, request.body, request.begin_try())
                wait = request.answered(reply)
            except Failed as failure:
                wait = request.failed(failure)
            if wait is None:
                return request.answer()
            await asyncio.sleep(wait)


class Request:
    """One call: the request of every try, and the decision after a try. No I/O."""

    def __init__(self, url: str, body: bytes | str | None, method: str, headers: Mapping[str, str] | None, key: str | None,
                 key_header: str, timeout: float, deadline: float) -> None:
        self.url = url
        self.parts = urllib.parse.urlsplit(url)
        if self.parts.scheme not in ("http", "https") or not self.parts.netloc:
            raise ValueError(f"the URL begins with http:// or https:// and has a host, unlike {url!r}")
        if isinstance(body, str):
            body = body.encode()
        if body is not None and not isinstance(body, (bytes, bytearray)):
            raise TypeError(f"the body is bytes or str, not {type(body).__name__}: read it first, every try sends the same bytes")
        self.body = None if body is None else bytes(body)
        self.method = method
        self.key_header = key_header
        self.fields = dict(headers or {})
        given = next((self.fields.pop(name) for name in list(self.fields) if name.lower() == key_header.lower()), None)
        if "" in (key, given):  # an unset variable must not become a new key: the next call would be executed again
            raise ValueError("the key is empty; leave it out for a new one")
        self.key = key or given or str(uuid.uuid4())
        self.fields[key_header] = self.key
        self.timeout = timeout
        self.deadline = deadline
        self._until = time.monotonic() + deadline
        self._pause = _FIRST_PAUSE
        self._tries = 0
        self._sent = False
        self._last: Reply | None = None  # of the last try, if there was one
        self._why = ""

    def set_fields(self, fields: Mapping[str, str | None]) -> None:
        """Replaces these fields; None removes one."""
        names = {name.lower() for name in fields}
        self.fields = {name: value for name, value in self.fields.items() if name.lower() not in names}
        self.fields.update({name: value for name, value in fields.items() if value is not None})

    def begin_try(self) -> float:
        """Returns the longest silence of the try."""
        self._tries += 1
        return max(0.001, min(self.timeout, self._until - time.monotonic()))

    def answered(self, reply: Reply) -> float | None:
        """Seconds to wait before the next try, or None: answer() has the result."""
        self._sent = True
        self._last = reply
        _warn_unprotected(self.parts, reply)
        asked = when_to_repeat(reply)
        if asked is None:
            return None
        self._why = f"the last answer was {reply.status}"
        return self._wait(asked)

    def failed(self, failure: Failed) -> float | None:
        self._sent = self._sent or failure.sent
        self._last = None
        self._why = str(failure)
        if failure.final:  # another try would fail in the same way
            raise NotAnswered(self.key, self._sent, failure) from failure.__cause__
        return self._wait(0.0)

    def answer(self) -> Answer:
        if self._last is None:
            raise NotAnswered(self.key, self._sent, self._why)
        return Answer(self._last.status, self._last.headers, self._last.body, self.key, self._tries)

    def broken_off(self, progress: bool) -> float | None:
        """Part of the answer arrived. Returns the seconds to wait before the next try, or None: no time is left. The deadline starts again
        after progress."""
        self._last = None
        if progress:
            self._until = time.monotonic() + self.deadline
            self._pause = _FIRST_PAUSE
        return self._wait(0.0)

    def _wait(self, asked: float) -> float | None:
        # Full jitter, so that clients that failed together do not retry together.
        wait = max(asked, random.uniform(0, self._pause))
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)
        return None if time.monotonic() + wait >= self._until else wait


def _warn_unprotected(url: urllib.parse.SplitResult, reply: Reply) -> None:
    if reply.headers.get("Idempotency-Stopped") is not None:
        return
    said = reply.headers.get("Idempotency-Status")
    origin = f"{url.scheme}://{url.netloc}"
    # Refusals and errors may come from a proxy in front of the gateway.
    unprotected = said == "bypassed" or (said is None and reply.status < 400)
    if not unprotected or origin in _warned:
        return
    _warned.add(origin)
    what = "says Idempotency-Status: bypassed" if said else "has no Idempotency-Status"
    warnings.warn(f"the answer of {origin} {what}: nothing there keeps a retry from being executed twice. "
                  "Send the request through Once, on a route that covers its method", OnceWarning, stacklevel=4)


def when_to_repeat(reply: Reply) -> float | None:
    """The least number of seconds to wait, or None: this answer is final."""
    if reply.status != 409 and reply.status not in RETRIED:
        return None
    given: str | None = reply.headers.get("Retry-After")
    problem = problem_of(reply.body)
    error = problem.get("error")
    nested: dict[str, Any] = error if isinstance(error, dict) else {}
    if problem.get("retryable") is False or reply.headers.get("X-Should-Retry") == "false":
        return None
    if reply.status == 409:
        said = {reply.headers.get("Idempotency-Status"), problem.get("code"), nested.get("code")}
        unknown = bool(said & {"unknown", "outcome-unknown"})
        if not (said & {"in-flight", "idempotency_key_in_use"} or (unknown and given is not None)):
            return None
    if given is None:
        return 0.0
    if given.isdigit():
        return float(given)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(given).timestamp() - time.time())
    except (TypeError, ValueError):
        return 0.0


def problem_of(body: bytes) -> dict[str, Any]:
    try:
        problem = json.loads(body)
    except ValueError:
        problem = None
    return problem if isinstance(problem, dict) else {}
