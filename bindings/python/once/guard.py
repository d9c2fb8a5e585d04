"""Work that happens once, without a gateway: the engine in this process, or in all processes that share a store.

    guard = once.Guard("journal:/var/lib/app/once")          # or postgres://…, mysql://…, redis://…

    result = guard.run(lambda: call_the_model(prompt), scope="copy.propose", inputs={"text": once.hash_text(prompt)})

    @guard.with_idempotency(scope="invoices.send")
    async def send(invoice_id): ...                          # await send(7) returns a Result

Options, results and operation ids are those of the claims API and its ClaimsClient, so work can move between them.
"""
from __future__ import annotations

import ctypes
import dataclasses
import json
import os
from typing import Any, Callable, Iterable, Mapping

from once import _library, running
from once._library import given, given_list
from once.events import Handle, Outcome
from once.gate import Gate
from once.results import Duration, OnceError, Result, seconds


class Guard(running.Runner):
    """store: memory:, journal:DIR, redis://…, postgres://…, mysql://…; config and settings: those of once.Gate, or a gate that is shared with
    a middleware. tenant: the tenant of the work."""

    def __init__(self, store: str | None = None, *, config: str | os.PathLike[str] | Mapping[str, Any] | None = None,
                 settings: Mapping[str, Any] | None = None, gate: Gate | None = None, tenant: str = "local") -> None:
        if gate is not None and not store is config is settings is None:
            raise ValueError("the gate has its settings: leave out store, config and settings")
        over = {**(settings or {}), **({"store": store} if store is not None else {})}
        self.gate = gate or Gate(config, settings=over)
        self._tenant = tenant

    def claim(self, *, scope: str, key: str | None = None, inputs: Any = None, **options: Any) -> Claim:  # type: ignore[override]
        work = self._work(scope, key, inputs, **options)
        return Claim(self.gate, self.gate.claim_work(work))

    async def claim_async(self, *, scope: str, key: str | None = None, inputs: Any = None,  # type: ignore[override]
                          **options: Any) -> Claim:
        work = self._work(scope, key, inputs, **options)
        return Claim(self.gate, await self.gate.claim_work_async(work))

    def lookup(self, *, scope: str, key: str | None = None, inputs: Any = None, fingerprint: str | None = None) -> Result | None:
        """The state of the work, without claiming it. None: it was never claimed."""
        return _found(self.gate.look(self._work(scope, key, inputs, fingerprint)))

    async def lookup_async(self, *, scope: str, key: str | None = None, inputs: Any = None,
                           fingerprint: str | None = None) -> Result | None:
        return _found(await self.gate.look_async(self._work(scope, key, inputs, fingerprint)))

    def compute_key(self, *, scope: str, key: str | None = None, inputs: Any = None) -> str:
        """The operation id: an HMAC with the secret of the installation, 64 hexadecimal digits."""
        return self.gate.compute_key(self._work(scope, key, inputs))

    def close(self, timeout: float = 30.0) -> None:
        self.gate.close(timeout)

    def _work(self, scope: str, key: str | None, inputs: Any, fingerprint: str | None = None, ttl: Duration = "24h",
              lease: Duration = "30s", takeover_after: Duration = "5m", on_unknown: str = "takeover", wait: Duration = 0,
              store_only: Iterable[str] = (), never_store: Iterable[str] = ()) -> Any:
        if (key is None) == (inputs is None):
            raise ValueError("say which piece of work it is with key= or inputs=, not with both")
        if on_unknown not in _library.ON_UNKNOWN:
            raise ValueError(f"on_unknown is one of {', '.join(_library.ON_UNKNOWN)}, not {on_unknown!r}")
        work = _library.Work(ctypes.sizeof(_library.Work), given(self._tenant.encode()), given(scope.encode()))
        if key is not None:
            work.key = given(key.encode())
        else:
            work.inputs = given(json.dumps(inputs, allow_nan=False).encode())
        if fingerprint is not None:
            work.fingerprint = given(fingerprint.encode())
        for name, value in (("ttl_ms", ttl), ("lease_ms", lease), ("takeover_after_ms", takeover_after), ("wait_ms", wait)):
            setattr(work, name, max(0, round(seconds(value) * 1000)))
        work.on_unknown = _library.ON_UNKNOWN[on_unknown]
        work.store_only, work.store_only_count = given_list(store_only)
        work.never_store, work.never_store_count = given_list(never_store)
        return work


class Claim(running.Claim):
    """The engine renews its lease while it is held."""

    def __init__(self, gate: Gate, begun: Handle | Outcome) -> None:
        held = isinstance(begun, Handle)
        super().__init__(held, None if isinstance(begun, Handle) else _result(begun))
        self._gate = gate
        self._held: Any = begun if held else None
        if isinstance(begun, Handle):
            self.handle, self.attempt, self.fence = begun.token, begun.attempt, begun.fence

    @property
    def lost(self) -> bool:
        """Whether another attempt may have taken over: then later results are not recorded."""
        return bool(self._mine().lost())

    def succeed(self, value: Any) -> Result:
        encoded = self._encoded(value)
        if isinstance(encoded, Result):
            return encoded
        return self._succeeded(value, self._gate.end_work("complete", self._mine(), given(encoded), given(b"")))

    async def succeed_async(self, value: Any) -> Result:
        encoded = self._encoded(value)
        if isinstance(encoded, Result):
            return encoded
        outcome = await self._gate.end_work_async("complete", self._mine(), given(encoded), given(b""))
        return self._succeeded(value, outcome)

    def fail(self, error: Any = None) -> Result:
        return self._failed(error, self._gate.end_work("fail", self._mine()))

    async def fail_async(self, error: Any = None) -> Result:
        return self._failed(error, await self._gate.end_work_async("fail", self._mine()))

    def release(self) -> Result:
        return self._released(self._gate.end_work("release", self._mine()))

    async def release_async(self) -> Result:
        return self._released(await self._gate.end_work_async("release", self._mine()))

    def recorded(self) -> Result:
        """The recorded state, after a transaction of yours that called once_finish() with this claim's `handle`."""
        result = _result(self._gate.end_work("recorded", self._mine()))
        if result.ok:
            self.result = result
        return result

    def interrupted(self, error: BaseException) -> None:
        self.result = Result("unknown", attempt=self.attempt, error=error)
        if self._held is not None:
            self._held.free()

    def _mine(self) -> Any:
        if not self.acquired:
            raise RuntimeError("this claim was not acquired")
        return self._held

    def _encoded(self, value: Any) -> bytes | Result:
        self._mine()
        try:
            return json.dumps(value, allow_nan=False).encode()
        except (TypeError, ValueError, RecursionError) as error:
            # Do not fail the claim: the work was done, and would be repeated at once.
            return self._ended(Result("unavailable", value=value, attempt=self.attempt, error=error, reason="value-refused",
                                      claim=self))

    def _succeeded(self, value: Any, outcome: Outcome) -> Result:
        result = _result(outcome)
        if result.ok:
            return self._ended(dataclasses.replace(result, cached=False, value=result.value if outcome.value else value))
        return self._ended(dataclasses.replace(result, value=value))

    def _failed(self, error: Any, outcome: Outcome) -> Result:
        result = _result(outcome)
        # Its own transaction may have committed an outcome, and another attempt may have taken over.
        stands = result.ok or result.status == "lost"
        return self._ended(result if stands else Result("failed", attempt=self.attempt, error=error))

    def _released(self, outcome: Outcome) -> Result:
        result = _result(outcome)
        return self._ended(result if result.status == "lost" else Result("released", attempt=self.attempt))

    def _ended(self, result: Result) -> Result:
        self.result = result
        if self._held is not None and result.reason not in ("value-refused", "not_recorded"):  # these can be retried
            self._held.free()
        return result


# The statuses of the claims API for the reasons in docs/guides/library.md.
_STATUS_OF = {"lost": "lost", "unknown": "unknown", "mismatch": "mismatch", "work_failed": "failed"}


def _found(outcome: Outcome) -> Result | None:
    return None if outcome.status == "absent" else _result(outcome)


def _result(outcome: Outcome) -> Result:
    if outcome.status == "succeeded":
        return Result("succeeded", value=outcome.json(), cached=outcome.cached, attempt=outcome.attempt)
    if outcome.status == "in_progress":
        return Result("in_progress", attempt=outcome.attempt, retry_after=outcome.retry_after, reason=outcome.reason)
    status = _STATUS_OF.get(outcome.reason, "unavailable")
    if outcome.reason == "invalid":
        raise OnceError(0, outcome.reason, outcome.detail)
    error = OnceError(0, outcome.reason, outcome.detail) if status == "unavailable" else None
    # The work succeeded, but its value was not kept.
    status = "succeeded" if outcome.reason == "not_kept" else status
    return Result(status, cached=outcome.reason == "not_kept", attempt=outcome.attempt, error=error, reason=outcome.reason)


_default: Guard | None = None


def configure(store: str | None = None, **options: Any) -> Guard:
    """Opens the guard for @once.idempotent. Options are those of Guard."""
    global _default
    _default = Guard(store, **options)
    return _default


def idempotent(*, scope: str, guard: running.Runner | None = None, **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorates a function, or an async function, whose work must happen once. A call returns a Result.

    guard: a Guard or a ClaimsClient; without one, that of once.configure(), which may be called later. The other options are those of
    with_idempotency()."""
    if guard is not None:
        return running.Idempotent(guard, scope, options)
    return running.Idempotent(_Default(), scope, options)


class _Default(running.Runner):
    """The guard of configure(), opened on first use."""

    def claim(self, **options: Any) -> running.Claim:
        return _configured().claim(**options)

    async def claim_async(self, **options: Any) -> running.Claim:
        return await _configured().claim_async(**options)


def _configured() -> Guard:
    if _default is None:
        raise RuntimeError("@once.idempotent has no guard: call once.configure(store) first, or pass guard=")
    return _default
