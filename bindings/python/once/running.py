"""Runs work once: run(), the decorator and the with block, over any source of claims.

ClaimsClient (claims.py) gets its claims from a gateway, Guard (guard.py) from the engine in this process. Both are a Runner.
"""
from __future__ import annotations

import abc
import asyncio
import functools
import inspect
import json
import threading
import weakref
from typing import Any, Awaitable, Callable, Literal

from once.results import Result


class Claim(abc.ABC):
    """The right to do the work, or the result that prevents it."""

    handle: str  # for once_finish() in a transaction; a secret of this owner
    attempt: int
    fence: int

    def __init__(self, acquired: bool, result: Result | None) -> None:
        self.acquired = acquired
        self.result: Any = result  # None while the claim is held
        self.value: Any = None  # the value that a with block records

    @abc.abstractmethod
    def succeed(self, value: Any) -> Result:
        """Records the value: every later caller gets it. A value that cannot be recorded has the reason "value-refused"."""

    @abc.abstractmethod
    def fail(self, error: Any = None) -> Result:
        """The next caller may try again."""

    @abc.abstractmethod
    def release(self) -> Result:
        """Undoes the claim: nothing was done."""

    def progress(self, data: Any) -> bool:
        """Appends a piece of progress, any JSON, for clients that follow the work with ClaimsClient.follow().

        Returns False if it was not recorded, or may not have been: the claim is lost, the limit for progress is reached, or the
        gateway cannot be reached. The work can continue. Work of a Guard cannot be followed: always False."""
        return False

    async def progress_async(self, data: Any) -> bool:
        """Like progress()."""
        return self.progress(data)

    @abc.abstractmethod
    async def succeed_async(self, value: Any) -> Result:
        """Like succeed(). If the caller is cancelled, the value is still recorded."""

    @abc.abstractmethod
    async def fail_async(self, error: Any = None) -> Result:
        """Like fail()."""

    @abc.abstractmethod
    def interrupted(self, error: BaseException) -> None:
        """The work may have had an effect and did not end: the claim lapses, and on_unknown decides what a retry does."""


class Runner(abc.ABC):
    """Does work once, under claims from any source."""

    @abc.abstractmethod
    def claim(self, **options: Any) -> Claim:
        """A claim: acquired, or with the result that prevents it."""

    @abc.abstractmethod
    async def claim_async(self, **options: Any) -> Claim:
        """Like claim(), without blocking the event loop. If the caller is cancelled, the claim is released."""

    def run(self, work: Callable[[], Any], **options: Any) -> Result:
        """Does the work, unless it was done or is in progress. Options are those of with_idempotency()."""
        if is_async(work):
            raise TypeError("the work is an async function: use `await run_async(work, ...)`")
        claim = self.claim(**options)
        if not claim.acquired:
            return _stands(claim)
        try:
            value = work()
            if inspect.iscoroutine(value):
                value.close()  # the work has not begun
                claim.fail("returned a coroutine")
                raise TypeError("the work returned a coroutine: use `await run_async(work, ...)`")
        except Exception as error:  # the work failed
            if claim.result is not None:
                raise
            return claim.fail(error)
        except BaseException as error:  # the process is asked to end, in the middle of the work
            claim.interrupted(error)
            raise
        return claim.succeed(value)

    async def run_async(self, work: Callable[[], Awaitable[Any]], **options: Any) -> Result:
        """As run(), for a function that returns an awaitable.

        If the caller is cancelled before the work has begun, the claim is released. After that the outcome is unknown, and
        on_unknown decides what follows. A value that is being recorded is still recorded."""
        claim = await self.claim_async(**options)
        if not claim.acquired:
            return _stands(claim)
        try:
            value = work()
            if inspect.isawaitable(value):
                value = await value
        except Exception as error:  # the work failed
            return await claim.fail_async(error)
        except BaseException as error:  # cancelled
            claim.interrupted(error)
            raise
        return await claim.succeed_async(value)

    def with_idempotency(self, *, scope: str, **options: Any) -> Idempotent:
        """A decorator for functions and async functions, and a context manager for `with` and `async with`.

        - scope: the kind of work
        - key or inputs: which piece of it. For a decorated function each may be a function of its arguments. Without either,
          the arguments are the inputs: f(7) and f(number=7) are the same piece, and a default value counts as not given
        - ttl ("24h"): how long the value is kept
        - lease ("30s"): how long a claim stays valid without a renewal; it is renewed while the work runs
        - on_unknown ("takeover", "retry", "hold"), takeover_after ("5m"): when work whose owner is gone is done again
        - wait ("0s"): how long to wait for an owner that is at work
        - fingerprint: must be the same for the same key
        """
        return Idempotent(self, scope, options)


class Idempotent:
    """The return type of with_idempotency()."""

    def __init__(self, runner: Runner, scope: str, options: dict[str, Any]) -> None:
        self._runner = runner
        self._scope = scope
        self._options = options
        self._open = threading.local()  # the open blocks of each thread
        self._open_async: weakref.WeakKeyDictionary[Any, list[Claim]] = weakref.WeakKeyDictionary()  # and of each task

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        name = getattr(function, "__name__", repr(function))
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"{name}() is a generator: only what a function returns can be recorded")
        signature = inspect.signature(function)

        def options_of(args: Any, named: Any) -> dict[str, Any]:
            options = dict(self._options)
            bound = signature.bind(*args, **named)
            for option in ("key", "inputs"):
                if callable(options.get(option)):
                    options[option] = options[option](*args, **named)
            if options.get("key") is None and options.get("inputs") is None:
                options["inputs"] = _inputs_of(name, bound)
            return options

        if is_async(function):
            @functools.wraps(function)
            async def wrapper(*args: Any, **named: Any) -> Any:
                options = options_of(args, named)
                return await self._runner.run_async(lambda: function(*args, **named), scope=self._scope, **options)
        else:
            @functools.wraps(function)
            def wrapper(*args: Any, **named: Any) -> Any:
                options = options_of(args, named)
                return self._runner.run(lambda: function(*args, **named), scope=self._scope, **options)

        return wrapper

    def __enter__(self) -> Claim:
        claim = self._runner.claim(scope=self._scope, **self._options)
        if not hasattr(self._open, "claims"):
            self._open.claims = []
        self._open.claims.append(claim)
        return claim

    def __exit__(self, kind: Any, error: Any, trace: Any) -> Literal[False]:
        claim = self._open.claims.pop()
        if claim.acquired and claim.result is None:
            if error is None:
                claim.succeed(claim.value)
            elif isinstance(error, Exception):
                claim.fail(error)
            else:
                claim.interrupted(error)
        return False

    async def __aenter__(self) -> Claim:
        claim = await self._runner.claim_async(scope=self._scope, **self._options)
        self._open_async.setdefault(asyncio.current_task(), []).append(claim)
        return claim

    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> Literal[False]:
        claim = self._open_async[asyncio.current_task()].pop()
        if claim.acquired and claim.result is None:
            if error is None:
                await claim.succeed_async(claim.value)
            elif isinstance(error, Exception):
                await claim.fail_async(error)
            else:
                claim.interrupted(error)
        return False


def is_async(function: Any) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))


def _stands(claim: Claim) -> Result:
    result: Result = claim.result
    return result


def _inputs_of(name: str, bound: inspect.BoundArguments) -> dict[str, Any]:
    """The arguments of a call in one form, whether positional or named. Defaults are left out, so that a new parameter with a default does not
    change the identity of earlier calls."""
    args: list[Any] = []
    named: dict[str, Any] = {}
    positions = True
    some_follow = any(bound.arguments.get(each.name) for each in bound.signature.parameters.values()
                      if each.kind is each.VAR_POSITIONAL)
    for each in bound.signature.parameters.values():
        given = each.name in bound.arguments
        value = bound.arguments.get(each.name)
        if each.kind is each.VAR_POSITIONAL:
            args.extend(value or ())
        elif each.kind is each.VAR_KEYWORD:
            named.update(value or {})
        elif each.kind is each.POSITIONAL_ONLY or (each.kind is each.POSITIONAL_OR_KEYWORD and some_follow):
            if given:
                args.append(value)
        elif not given or _same_json(value, each.default):
            positions = False
        elif positions and each.kind is each.POSITIONAL_OR_KEYWORD:
            args.append(value)
        else:
            named[each.name] = value
    try:
        json.dumps([args, named], allow_nan=False)
    except (TypeError, ValueError) as error:
        raise TypeError(f"the arguments of {name}() are no JSON ({error}): say which piece of work it is with inputs= or key=") from None
    return {"args": args, "named": named}


def _same_json(value: Any, default: Any) -> bool:
    try:
        return default is not inspect.Parameter.empty and json.dumps(value, sort_keys=True) == json.dumps(default, sort_keys=True)
    except (TypeError, ValueError):
        return False
