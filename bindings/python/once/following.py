"""Follows the progress of work that another process does: the iterator that ClaimsClient.follow() returns."""
from __future__ import annotations

import collections
import dataclasses
import random
import time
from typing import Any, Callable

from once.results import Duration, Result, duration_text, seconds
from once.threads import in_thread

_LONGEST_POLL = 20.0  # shorter than the limits of proxies, and how long the thread of a cancelled task continues


@dataclasses.dataclass(frozen=True)
class Piece:
    """A piece of progress. Number 0 begins an attempt: earlier pieces are of an attempt that was given up."""
    data: Any
    number: int
    attempt: int


class Following:
    """Pieces of progress as they are made, for one `for` or `async for`.

    When the loop has ended, `result` is the state of the work: succeeded with its value, failed, unknown, in_progress if the
    wait timed out, unavailable if the gateway could not be reached. None: it was never claimed, or was released.
    """

    def __init__(self, ask: Callable[..., Any], result_of: Callable[..., Result], body: dict[str, Any], wait: Duration) -> None:
        self.result: Result | None = None
        self._ask = ask
        self._result_of = result_of
        self._body = body
        self._until = time.monotonic() + seconds(wait)
        self._pieces: collections.deque[Piece] = collections.deque()
        self._ended = False

    def __iter__(self) -> Following:
        return self

    def __next__(self) -> Piece:
        while not self._pieces:
            if self._ended:
                raise StopIteration
            self._read()
        return self._pieces.popleft()

    def __aiter__(self) -> Following:
        return self

    async def __anext__(self) -> Piece:
        while not self._pieces:
            if self._ended:
                raise StopAsyncIteration
            await in_thread(self._read, abandoned=lambda _: None)
        return self._pieces.popleft()

    def _read(self) -> None:
        began = time.monotonic()
        left = max(0.0, self._until - began)
        poll = min(left, _LONGEST_POLL)
        try:
            status, answer = self._ask("POST", "/v1/claims/follow", {**self._body, "wait": duration_text(poll)}, waits=poll)
        except OSError as error:
            self.result, self._ended = Result("unavailable", error=error), True
            return
        progress = answer.get("progress", []) if status == 200 else []
        for number, data in enumerate(progress, answer.get("from", 0)):
            self._pieces.append(Piece(data, number, answer["attempt"]))
        if "next" in answer:
            self._body.update({"from": answer["next"], "fence": answer["fence"]})
        at_work = status == 200 and answer["status"] == "in_progress"
        if progress or (at_work and left > 0):
            # The gateway answered at once: too many clients wait there.
            if not progress and time.monotonic() - began < poll / 2:
                time.sleep(min(poll, random.uniform(0.1, 1)))
            return
        self._ended = True
        self.result = None if status == 200 and answer["status"] == "none" else self._result_of(status, answer)
