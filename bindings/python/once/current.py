"""The claim of the current request, for handlers: `once.current_claim()`."""
from __future__ import annotations

import contextlib
import contextvars
from typing import Iterator

from once.events import Handle

_claim: contextvars.ContextVar[Handle | None] = contextvars.ContextVar("once_claim", default=None)

# The fields in which Once passes the claim to a handler. A client's own are dropped.
RESERVED = (b"idempotency-claim", b"idempotency-attempt", b"idempotency-fence")


def current_claim() -> Handle | None:
    """The claim of the request that this code handles: attempt, fence, and the token for once_finish(). None: the request has no key."""
    return _claim.get()


@contextlib.contextmanager
def claimed(claim: Handle | None) -> Iterator[None]:
    before = _claim.set(claim)
    try:
        yield
    finally:
        _claim.reset(before)


def handler_fields(fields: list[tuple[bytes, bytes]], claim: Handle | None) -> list[tuple[bytes, bytes]]:
    """The request's fields as a backend behind a gateway would get them. Names are in lower case."""
    added = [(name.lower(), value) for name, value in claim.fields] if claim is not None else []
    replaced = {name for name, _ in added} | set(RESERVED)
    return [field for field in fields if field[0].lower() not in replaced] + added
