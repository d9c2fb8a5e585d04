"""Runs blocking calls from an event loop, for functions without an asynchronous form."""
from __future__ import annotations

import asyncio
import threading
from typing import Any, Callable


async def in_thread(function: Callable[..., Any], *args: Any, abandoned: Callable[[Any], Any] | None = None, **named: Any) -> Any:
    """Calls the function in its own thread: the loop's pool is small, and long polls would fill it.

    If the caller is cancelled, the call continues, and `abandoned` receives its result. Without `abandoned` the process does not end
    before the call has ended."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()
    state = threading.Lock()
    ended: list[tuple[Any, BaseException | None]] = []
    left = False

    def call() -> None:
        try:
            outcome: tuple[Any, BaseException | None] = (function(*args, **named), None)
        except BaseException as error:  # passed to the caller
            outcome = (None, error)
        with state:
            ended.append(outcome)
            nobody_waits = left
        if nobody_waits:
            give_up()
            return
        try:
            loop.call_soon_threadsafe(wake)
        except RuntimeError:
            pass  # the loop was closed, so the caller has an error already

    def wake() -> None:
        if not done.done():
            done.set_result(None)

    def give_up() -> None:
        if abandoned is not None and ended[0][1] is None:
            abandoned(ended[0][0])

    threading.Thread(target=call, name="once-call", daemon=abandoned is not None).start()
    try:
        await done
    except BaseException:
        with state:
            left = True
            came_late = bool(ended)
        if came_late:
            threading.Thread(target=give_up, name="once-call").start()
        raise
    result, error = ended[0]
    if error is not None:
        raise error
    return result
