"""WSGI middleware, for Flask and every other WSGI application.

    app.wsgi_app = once.wsgi.Middleware(app.wsgi_app, config="once.yaml")

A request with a key is claimed before the application sees it. Its response is recorded before the client gets it. Retries are
answered from the record. Requests without a key pass through, and stream.
"""
from __future__ import annotations

import http
import io
import logging
import os
import urllib.parse
from typing import Any, Callable, Iterable, Iterator, Mapping

from once.current import RESERVED, claimed
from once.events import Handle, Passed, Reply
from once.gate import Gate, Request

# Responses that a client reads as they arrive. They are passed on at once, and not recorded.
STREAMED = ("text/event-stream", "application/x-ndjson", "application/jsonl")

logger = logging.getLogger("once")


class Middleware:
    """config, settings: those of once.Gate; or a shared gate. caller: a function that gets the environ and returns the caller as the
    application has verified it; None: the route's `caller` identifies it."""

    def __init__(self, app: Any, config: str | os.PathLike[str] | Mapping[str, Any] | None = None, *,
                 settings: Mapping[str, Any] | None = None, gate: Gate | None = None,
                 caller: Callable[[Any], Any] | None = None) -> None:
        self.app = app
        self.gate = gate or Gate(config, settings=settings)
        self._caller = caller

    def __call__(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        caller = self._caller(environ) if self._caller is not None else None
        request = request_of(environ, b"" if caller is None else str(caller).encode())
        most = self.gate.needs_body(request)
        if most is not None:
            request = request._replace(body=_read(environ, most))
            environ["wsgi.input"] = io.BytesIO(request.body)
            environ["CONTENT_LENGTH"] = str(len(request.body))
            environ["wsgi.input_terminated"] = True
        begun = self.gate.begin(request)
        for name in RESERVED:
            environ.pop(_variable(name), None)
        if isinstance(begun, Reply):
            return _send_reply(start_response, begun)
        if isinstance(begun, Passed):
            return self.app(environ, _adding(begun.fields, start_response))  # type: ignore[no-any-return]
        for name, value in begun.fields:
            environ[_variable(name)] = value.decode("latin-1")
        environ["once.claim"] = begun
        return self._execute(begun, environ, start_response)

    def _execute(self, claim: Handle, environ: Any, start_response: Any) -> Iterable[bytes]:
        response = _Response()
        made = None
        try:
            with claimed(claim):
                made = self.app(environ, response.start)
                chunks = iter(made)
                whole = response.collect(chunks, claim.max_body)
        except Exception as error:
            _close(made)
            reply = self.gate.finish(claim, 500, [(b"content-type", b"text/plain; charset=utf-8")], b"Internal Server Error")
            if reply.status == 500 and reply.ending == "executed":
                raise
            logger.exception("the application raised %s after its outcome was recorded", type(error).__name__)
            return _send_reply(start_response, reply)
        except BaseException:  # the process is asked to end
            claim.free()
            raise
        if response.status is None:
            _close(made)
            return _send_reply(start_response, self.gate.abandon(claim))
        reply = self.gate.finish(claim, response.status, response.fields, b"".join(response.collected) if whole else None)
        if not reply.body_is_yours:
            _close(made)
            return _send_reply(start_response, reply)
        start_response(_status_line(reply.status), _text_fields(reply.fields))
        return _Rest(response.collected, chunks, claim, made)


class _Response:
    """Collects the application's response."""

    def __init__(self) -> None:
        self.status: int | None = None
        self.fields: list[tuple[bytes, bytes]] = []
        self.collected: list[bytes] = []
        self._size = 0

    def start(self, status: str, fields: list[tuple[str, str]], exc_info: Any = None) -> Callable[[bytes], None]:
        self.status = int(status.split(" ", 1)[0])
        self.fields = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields]
        return self.collected.append

    def collect(self, chunks: Iterator[bytes], most: int) -> bool:
        """Returns whether the response is complete: not if it is over the limit, or if the client should read it as it arrives."""
        for chunk in chunks:
            self.collected.append(chunk)
            self._size += len(chunk)
            if self._size > most or self._streams():
                return False
        return sum(map(len, self.collected)) <= most

    def _streams(self) -> bool:
        kind = next((value for name, value in self.fields if name.lower() == b"content-type"), b"")
        return kind.decode("latin-1").partition(";")[0].strip().lower() in STREAMED


class _Rest:
    """A body that is not recorded: the part that was collected, then the rest."""

    def __init__(self, collected: list[bytes], chunks: Iterator[bytes], claim: Handle, made: Any) -> None:
        self._collected = collected
        self._chunks = chunks
        self._claim = claim
        self._made = made

    def __iter__(self) -> Iterator[bytes]:
        yield b"".join(self._collected)
        with claimed(self._claim):
            yield from self._chunks

    def close(self) -> None:
        _close(self._made)


def _close(made: Any) -> None:
    if hasattr(made, "close"):
        made.close()


def request_of(environ: Any, caller: bytes = b"") -> Request:
    """The request without its body."""
    fields = [(name[5:].replace("_", "-").lower().encode("latin-1"), value.encode("latin-1"))
              for name, value in environ.items() if name.startswith("HTTP_") and isinstance(value, str)]
    for name in ("CONTENT_TYPE", "CONTENT_LENGTH"):
        if environ.get(name):
            fields.append((name.replace("_", "-").lower().encode(), environ[name].encode("latin-1")))
    return Request(environ["REQUEST_METHOD"].encode("latin-1"), target_of(environ), fields,
                   peer=environ.get("REMOTE_ADDR", "").encode("latin-1"), scheme=environ.get("wsgi.url_scheme", "http").encode(),
                   caller=caller, fields_joined=True)


def target_of(environ: Any) -> bytes:
    """The target as the client sent it, if the server provides it; otherwise rebuilt from the decoded path."""
    raw: str = environ.get("RAW_URI") or environ.get("REQUEST_URI") or ""
    if raw.startswith("/") or raw.lower().startswith(("http://", "https://")):  # a URL names the host, whatever Host says
        return raw.encode("latin-1")
    path = urllib.parse.quote((environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")).encode("latin-1")) or "/"
    query = environ.get("QUERY_STRING", "")
    return (path + (f"?{query}" if query else "")).encode("latin-1")


def _read(environ: Any, most: int) -> bytes:
    """The body, or one byte more than allowed."""
    stream = environ["wsgi.input"]
    length = environ.get("CONTENT_LENGTH")
    if length:
        left = min(int(length), most + 1)
    elif environ.get("wsgi.input_terminated") or "chunked" in environ.get("HTTP_TRANSFER_ENCODING", "").lower():
        left = most + 1
    else:
        return b""
    chunks = []
    while left > 0 and (chunk := stream.read(min(left, 1 << 20))):
        chunks.append(chunk)
        left -= len(chunk)
    if left > 0 and length and int(length) <= most:
        raise OSError("the client left before its request was complete")
    return b"".join(chunks)


def _variable(name: bytes) -> str:
    return "HTTP_" + name.decode("latin-1").upper().replace("-", "_")


def _text_fields(fields: list[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in fields]


def _adding(fields: list[tuple[bytes, bytes]], start_response: Any) -> Any:
    if not fields:
        return start_response
    added = _text_fields(fields)
    names = {name.lower() for name, _ in added}

    def start(status: str, given: list[tuple[str, str]], *exc_info: Any) -> Any:
        return start_response(status, [field for field in given if field[0].lower() not in names] + added, *exc_info)

    return start


def _status_line(status: int) -> str:
    try:
        return f"{status} {http.HTTPStatus(status).phrase}"
    except ValueError:
        return f"{status} Unknown"


def _send_reply(start_response: Any, reply: Reply) -> Iterable[bytes]:
    start_response(_status_line(reply.status), _text_fields(reply.fields))
    return [reply.body]
