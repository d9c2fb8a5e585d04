"""The engine in this process: begin(request) returns a reply or a claim, finish(claim, response) records it and returns the reply.

Every call has a blocking form and one for an event loop. The blocking form waits in the library, without the interpreter lock.
The other form waits for the library's descriptor in the loop itself: it uses no thread, and does not block the loop.
The middlewares (asgi.py, wsgi.py, django/) and the guard (guard.py) are built on this.
"""
from __future__ import annotations

import asyncio
import atexit
import ctypes
import itertools
import json
import os
import threading
import time
import weakref
from typing import Any, Callable, Iterable, Mapping, NamedTuple

from once import _library
from once._library import check, given, given_fields, library
from once.events import Cancelled, Done, Handle, Outcome, Passed, Reply, taken
from once.results import OnceError

DRAINED_AT_ONCE = 64
# How long the process waits at its end for requests that are still being recorded.
END_SECONDS = 5.0

_gates: weakref.WeakSet[Gate] = weakref.WeakSet()


class Request(NamedTuple):
    """The inputs of begin(). target: undecoded, with its query. peer: the address of the client. fields_joined: the server joins fields that a
    client sends twice, so a comma in the key or in a header that identifies the caller counts as two fields, and is refused."""
    method: bytes
    target: bytes
    fields: list[tuple[bytes, bytes]]
    body: bytes = b""
    peer: bytes = b""
    scheme: bytes = b"http"
    caller: bytes = b""  # the caller as the application has verified it; empty: the route's `caller` identifies it
    fields_joined: bool = False


class _Waiter(NamedTuple):
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]


class Gate:
    """An open engine. One is enough for a process; threads and event loops may share it.

    config: the path of once.yaml, or its content as a mapping. settings: single settings over those of the file, such as
    {"store": "postgres://…", "defaults.ttl": "48h"}. The secret comes from `secret_file` or the environment variable ONCE_SECRET.
    After a fork() a child opens the store anew at its first call; a journal belongs to one process, so a child cannot use it.
    """

    def __init__(self, config: str | os.PathLike[str] | Mapping[str, Any] | None = None, *,
                 settings: Mapping[str, Any] | None = None) -> None:
        options = _library.Options(size=ctypes.sizeof(_library.Options), log=_library.LOG_EVENTS)
        if isinstance(config, Mapping):
            options.config_text = given(json.dumps(config).encode())
        elif config is not None:
            options.config_file = given(os.fsencode(config))
        options.settings, options.setting_count = given_fields(
            (name.encode(), _setting(value).encode()) for name, value in (settings or {}).items())
        pointer = ctypes.c_void_p()
        check(library().once_open(options, pointer))
        self._pointer = pointer.value
        self._tags = itertools.count(1)
        self._closed = False
        self._begin_process()
        self._pid = os.getpid()
        _gates.add(self)

    def _begin_process(self) -> None:
        """Also called in a forked child, which does not have the parent's waiters and loops."""
        self._pid = 0  # not used in this process yet
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._calls = 0
        self._waiters: dict[int, _Waiter] = {}
        self._given_up: set[int] = set()  # tags of cancelled calls whose event has not come
        self._loops: weakref.WeakSet[asyncio.AbstractEventLoop] = weakref.WeakSet()
        self._poll_fd = -1

    # Requests

    def needs_body(self, request: Request) -> int | None:
        """None: begin without reading a body. Otherwise the largest number of bytes that is needed; read one more to detect a larger
        body, and begin with those."""
        needed, most = ctypes.c_int(), ctypes.c_uint64()
        with self._call() as pointer:
            check(library().once_needs_body(pointer, _request(request), needed, most))
        return most.value if needed.value else None

    def begin(self, request: Request) -> Reply | Handle | Passed:
        """Returns a reply to send, a claim to finish(), or Passed: run the handler without protection."""
        return _begun(self._wait(library().once_begin, _request(request)))  # type: ignore[no-any-return]

    async def begin_async(self, request: Request) -> Reply | Handle | Passed:
        return _begun(await self._wait_async(library().once_begin, _request(request)))  # type: ignore[no-any-return]

    def finish(self, claim: Handle, status: int, fields: Iterable[tuple[bytes, bytes]], body: bytes | None) -> Reply:
        """Records the response, then returns the reply to send. body None: it is not recorded, and you send it after the reply's head."""
        return _ended(self._wait_claim(library().once_finish, claim, _response(status, fields, body)))

    async def finish_async(self, claim: Handle, status: int, fields: Iterable[tuple[bytes, bytes]], body: bytes | None) -> Reply:
        return _ended(await self._wait_claim_async(library().once_finish, claim, _response(status, fields, body)))

    def abandon(self, claim: Handle) -> Reply:
        """The handler ended without a response, and may have had an effect: the outcome is unknown."""
        return _ended(self._wait_claim(library().once_abandon, claim))

    async def abandon_async(self, claim: Handle) -> Reply:
        return _ended(await self._wait_claim_async(library().once_abandon, claim))

    # Work that is not a request

    def claim_work(self, work: Any) -> Handle | Outcome:
        # A wait may be long: the main thread must still handle signals.
        return _begun(self._wait(library().once_claim_work, work, interruptible=work.wait_ms > 0))  # type: ignore[no-any-return]

    async def claim_work_async(self, work: Any) -> Handle | Outcome:
        return _begun(await self._wait_async(library().once_claim_work, work))  # type: ignore[no-any-return]

    def look(self, work: Any) -> Outcome:
        return self._wait(library().once_look, work)  # type: ignore[no-any-return]

    async def look_async(self, work: Any) -> Outcome:
        return await self._wait_async(library().once_look, work)  # type: ignore[no-any-return]

    def end_work(self, verb: str, claim: Handle, *arguments: Any) -> Outcome:
        """verb: complete, fail, release or recorded."""
        return self._wait_claim(getattr(library(), f"once_{verb}"), claim, *arguments)  # type: ignore[no-any-return]

    async def end_work_async(self, verb: str, claim: Handle, *arguments: Any) -> Outcome:
        return await self._wait_claim_async(getattr(library(), f"once_{verb}"), claim, *arguments)  # type: ignore[no-any-return]

    def compute_key(self, work: Any) -> str:
        """The operation id of the work: an HMAC with the secret."""
        text = ctypes.create_string_buffer(65)
        with self._call() as pointer:
            check(library().once_compute_key(pointer, work, text))
        return text.value.decode()

    # Upkeep

    def sweep(self) -> int:
        """Removes expired records of a SQL store now, and returns their number. The engine also does this by itself. Raises if the store
        cannot be reached."""
        swept: Done = _begun(self._wait(library().once_sweep))
        if swept.failed:
            raise OnceError(0, "unavailable", swept.failed)
        return swept.removed

    def metrics(self) -> str:
        """All metrics in Prometheus' text format."""
        text = ctypes.POINTER(_library.Text)()
        with self._call() as pointer:
            check(library().once_metrics(pointer, text))
        try:
            return ctypes.string_at(text.contents.data, text.contents.size).decode()
        finally:
            library().once_text_free(text)

    @property
    def closed(self) -> bool:
        return self._closed

    def close(self, timeout: float = 30.0) -> None:
        """Accepts no new calls, waits until running requests are recorded, and ends the engine. Has no effect in a child process
        that has not used it."""
        with self._lock:
            if self._closed or self._pointer is None or os.getpid() != self._pid:
                return
            self._closed = True
            pointer = self._pointer
        until = time.monotonic() + timeout
        library().once_stop(pointer, tag := library().once_private_tag(pointer))
        self._collect(pointer, tag, until)
        for loop in list(self._loops):
            _leave(loop, self._poll_fd)
        with self._idle:
            # A call that is still inside of the library needs the gate, which then ends with the process.
            if self._idle.wait_for(lambda: self._calls == 0, max(0.0, until - time.monotonic())):
                self._pointer = None
        if self._pointer is None:
            library().once_free(pointer, int(max(0.0, until - time.monotonic()) * 1000))

    def __enter__(self) -> Gate:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    # How calls wait

    def _call(self, new: bool = True) -> _Call:
        """new=False: the call belongs to a claim that exists, and may end while the gate closes."""
        return _Call(self, new)

    def _enter(self, new: bool) -> int:
        with self._lock:
            self._pid = os.getpid()  # used in this process, so close() ends it here
            if self._pointer is None or (new and self._closed):
                raise OnceError(0, "stopped", "this gate was closed")
            self._calls += 1
            return self._pointer

    def _leave(self) -> None:
        with self._idle:
            self._calls -= 1
            if self._calls == 0:
                self._idle.notify_all()

    def _wait(self, function: Callable[..., int], *arguments: Any, interruptible: bool = False) -> Any:
        with self._call() as pointer:
            tag = library().once_private_tag(pointer)
            check(function(pointer, *arguments, tag))
            if not interruptible or threading.current_thread() is not threading.main_thread():
                return self._collect(pointer, tag)
            return self._collect_interruptibly(pointer, tag)

    def _wait_claim(self, function: Callable[..., int], claim: Handle, *arguments: Any) -> Any:
        with self._call(new=False) as pointer:
            tag = library().once_private_tag(pointer)
            check(function(claim.pointer, *arguments, tag))
            return self._collect(pointer, tag)

    def _collect(self, pointer: int, tag: int, until: float | None = None) -> Any:
        event = _library.EventPointer()
        left = _library.FOREVER if until is None else int(max(0.0, until - time.monotonic()) * 1000)
        status = library().once_wait(pointer, tag, left, event)
        self._drain_from(pointer)  # log lines
        if status == _library.TIMEOUT and until is not None:
            return None
        check(status)
        return taken(event)

    def _collect_interruptibly(self, pointer: int, tag: int) -> Any:
        """In a thread, because Python runs signal handlers only in the main thread, between its own instructions."""
        got: list[Any] = []

        def collect() -> None:
            try:
                got.append((self._collect(pointer, tag), None))
            except OnceError as error:
                got.append((None, error))

        thread = threading.Thread(target=collect, name="once-wait", daemon=True)
        thread.start()
        try:
            thread.join()
        except BaseException:  # Ctrl-C, or another signal whose handler raises
            library().once_cancel(pointer, tag)
            thread.join()
            if got and isinstance(got[0][0], Handle):  # the result came first, and was not used
                self._wait_claim(library().once_release, got[0][0])
            raise
        value, error = got[0]
        if error is not None:
            raise error
        return value

    async def _wait_async(self, function: Callable[..., int], *arguments: Any) -> Any:
        with self._call() as pointer:
            tag, future = self._expect(pointer)
            self._start(tag, function, pointer, *arguments)
            try:
                return await future
            except asyncio.CancelledError:
                self._give_up(pointer, tag, future)
                raise

    async def _wait_claim_async(self, function: Callable[..., int], claim: Handle, *arguments: Any) -> Any:
        with self._call(new=False) as pointer:
            tag, future = self._expect(pointer)
            self._start(tag, function, claim.pointer, *arguments)
            try:
                return await future
            finally:
                self._waiters.pop(tag, None)  # cancelled: it is still recorded

    def _expect(self, pointer: int) -> tuple[int, asyncio.Future[Any]]:
        loop = asyncio.get_running_loop()
        if loop not in self._loops:
            self._poll_fd = library().once_poll_fd(pointer)
            if self._poll_fd < 0:
                raise OnceError(0, "broken", library().once_last_error().decode(errors="replace"))
            loop.add_reader(self._poll_fd, self._drain)
            self._loops.add(loop)
        tag = next(self._tags)
        future: asyncio.Future[Any] = loop.create_future()
        self._waiters[tag] = _Waiter(loop, future)
        return tag, future

    def _start(self, tag: int, function: Callable[..., int], *arguments: Any) -> None:
        try:
            check(function(*arguments, tag))
        except OnceError:
            self._waiters.pop(tag, None)
            raise

    def _give_up(self, pointer: int, tag: int, future: asyncio.Future[Any]) -> None:
        """The event still comes. A claim in it is released, because it was not used."""
        self._given_up.add(tag)  # first, because another thread may drain the event meanwhile
        if self._waiters.pop(tag, None) is None:  # the event came at the same moment
            self._given_up.discard(tag)
            if future.done() and not future.cancelled() and isinstance(future.result(), Handle):
                self._release_unused(future.result())
            return
        library().once_cancel(pointer, tag)

    def _release_unused(self, claim: Handle) -> None:
        library().once_release(claim.pointer, next(self._tags))  # its event is not needed
        claim.free()

    def _drain(self) -> None:
        try:
            with self._call(new=False) as pointer:
                self._drain_from(pointer)
        except OnceError:
            pass  # the gate was closed

    def _drain_from(self, pointer: int) -> None:
        events = (_library.EventPointer * DRAINED_AT_ONCE)()
        count = ctypes.c_size_t()
        while True:
            if library().once_drain(pointer, events, DRAINED_AT_ONCE, count) != _library.OK:
                return
            for index in range(count.value):
                tag = events[index].contents.tag
                self._arrived(tag, taken(events[index]))
            if count.value < DRAINED_AT_ONCE:
                return

    def _arrived(self, tag: int, value: Any) -> None:
        waiter = self._waiters.pop(tag, None)
        if waiter is None:
            if tag in self._given_up:
                self._given_up.discard(tag)
                if isinstance(value, Handle):
                    self._release_unused(value)
            return
        if _running_loop() is waiter.loop:
            self._tell(waiter.future, value)
        else:
            try:
                waiter.loop.call_soon_threadsafe(self._tell, waiter.future, value)
            except RuntimeError:  # the loop was closed
                if isinstance(value, Handle):
                    self._release_unused(value)

    def _tell(self, future: asyncio.Future[Any], value: Any) -> None:
        if not future.done():
            future.set_result(value)
        elif isinstance(value, Handle):  # cancelled meanwhile
            self._release_unused(value)


class _Call:
    """Counts a call that is inside of the library, so that close() does not free the gate during the call."""

    def __init__(self, gate: Gate, new: bool) -> None:
        self._gate = gate
        self._new = new

    def __enter__(self) -> int:
        return self._gate._enter(self._new)

    def __exit__(self, *_: Any) -> None:
        self._gate._leave()


def _setting(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _request(request: Request) -> Any:
    fields, count = given_fields(request.fields)
    return _library.Request(ctypes.sizeof(_library.Request), given(request.method), given(request.target), fields, count,
                            given(request.body), given(request.peer), given(request.scheme), given(request.caller), given(b""),
                            given(b""), _library.FIELDS_JOINED if request.fields_joined else 0)


def _response(status: int, fields: Iterable[tuple[bytes, bytes]], body: bytes | None) -> Any:
    array, count = given_fields(fields)
    flags = _library.BODY_NOT_KEPT if body is None else 0
    return _library.Response(ctypes.sizeof(_library.Response), status, flags, given(b""), array, count, given(body or b""))


def _begun(value: Any) -> Any:
    if isinstance(value, Cancelled):
        raise OnceError(0, "cancelled", "the call was cancelled")
    return value


def _ended(value: Any) -> Reply:
    if not isinstance(value, Reply):
        raise OnceError(0, "broken", f"expected a reply, not {type(value).__name__}")
    return value


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _leave(loop: asyncio.AbstractEventLoop, descriptor: int) -> None:
    if loop.is_closed():
        return
    if loop is _running_loop() or not loop.is_running():
        loop.remove_reader(descriptor)
        return
    try:
        loop.call_soon_threadsafe(loop.remove_reader, descriptor)
    except RuntimeError:
        pass  # the gate was closed meanwhile


def _after_fork() -> None:
    for gate in list(_gates):
        gate._begin_process()


def _close_all() -> None:
    for gate in list(_gates):
        gate.close(END_SECONDS)


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_close_all)
