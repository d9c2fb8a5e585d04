"""The results of the engine: replies, claims and outcomes as Python values."""
from __future__ import annotations

import ctypes
import dataclasses
import json
import logging
import sys
from typing import Any

from once import _library
from once._library import library
from once.results import OnceError

logger = logging.getLogger("once")
_LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)


@dataclasses.dataclass(frozen=True)
class Reply:
    """The reply to send to the client. ending: the value of Idempotency-Status, or "rejected"; settled: how the claim ended."""
    status: int
    fields: list[tuple[bytes, bytes]]
    body: bytes
    ending: str = ""
    settled: str = "none"
    attempt: int = 0
    body_is_yours: bool = False  # send this head, then the body that was not given to finish()


@dataclasses.dataclass(frozen=True)
class Passed:
    """The request has no key: run the handler, and add these fields to its response."""
    fields: list[tuple[bytes, bytes]]


@dataclasses.dataclass(frozen=True)
class Cancelled:
    """The call was cancelled before it had a result."""


@dataclasses.dataclass(frozen=True)
class Done:
    """The result of sweep() and stop(). removed: the number of records; failed: why the store could not be swept."""
    removed: int = 0
    failed: str = ""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The outcome of work. The names of status and reason are those of docs/guides/library.md."""
    status: str
    reason: str
    detail: str
    value: bytes
    cached: bool
    attempt: int
    fence: int
    retry_after: float

    def json(self) -> Any:
        return json.loads(self.value) if self.value else None


class Handle:
    """A claim of the library. It is freed with this object; if it was not ended before, its outcome is unknown."""

    def __init__(self, pointer: int, info: Any) -> None:
        self._pointer: int | None = pointer
        self.attempt: int = info.attempt
        self.fence: int = info.fence
        self.is_protected = bool(info.is_protected)
        self.token = info.token.get().decode()
        self.operation = info.operation.get().decode()
        self.request_id = info.request_id.get().decode("latin-1")
        self.fields = _library.fields_of(info.fields, info.field_count)
        self.max_body: int = info.max_body

    @property
    def pointer(self) -> int:
        if self._pointer is None:
            raise OnceError(0, "ended", "this claim was finished, or given back")
        return self._pointer

    def lost(self) -> bool:
        """Whether another attempt may have taken over: then later results are not recorded."""
        lost = ctypes.c_int(0)
        _library.check(library().once_claim_lost(self.pointer, lost))
        return bool(lost.value)

    def free(self) -> None:
        pointer, self._pointer = self._pointer, None
        if pointer is not None:
            library().once_claim_free(pointer)

    def __del__(self) -> None:
        if not sys.is_finalizing():  # at exit the library's functions may be gone; the claim ends with the process
            self.free()


def taken(pointer: Any) -> Any:
    """Takes the value of an event and frees the event. A log line is passed to the logger `once`; its value is None."""
    event = pointer.contents
    try:
        return _value(event)
    finally:
        library().once_event_free(pointer)


def _value(event: Any) -> Any:
    if event.kind == _library.REPLY:
        return _reply(event.reply.contents)
    if event.kind == _library.CLAIM:
        return Handle(event.claim, event.claim_info.contents)
    if event.kind == _library.PASS:
        reply = event.reply.contents if event.reply else None
        return Passed(_library.fields_of(reply.fields, reply.field_count) if reply else [])
    if event.kind == _library.OUTCOME:
        return _outcome(event.outcome.contents)
    if event.kind == _library.CANCELLED:
        return Cancelled()
    if event.kind == _library.LOG:
        line = event.log.contents
        logger.log(_LEVELS[min(line.level, 3)], "%s", line.line.get().decode(errors="replace"))
        return None
    return Done(event.removed, event.outcome.contents.detail.get().decode(errors="replace") if event.outcome else "")


def _reply(reply: Any) -> Reply:
    return Reply(reply.status, _library.fields_of(reply.fields, reply.field_count), reply.body.get(),
                 _library.ENDINGS[reply.ending] if reply.ending < len(_library.ENDINGS) else "",
                 _library.SETTLED[reply.settled] if reply.settled < len(_library.SETTLED) else "none",
                 reply.attempt, bool(reply.body_is_yours))


def _outcome(outcome: Any) -> Outcome:
    return Outcome(outcome.status.get().decode(), outcome.reason.get().decode(), outcome.detail.get().decode(errors="replace"),
                   outcome.value.get(), bool(outcome.cached), outcome.attempt, outcome.fence, outcome.retry_after_ms / 1000)
