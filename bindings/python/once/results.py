"""The results of work that is done once, and small values that the guard and the claims client share."""
from __future__ import annotations

import dataclasses
import datetime
import hashlib
import re
from typing import Any, Union

Duration = Union[str, float, datetime.timedelta]  # "24h", or seconds

_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
# White space as JavaScript defines it. Python's \s also has U+001C to U+001F and U+0085, and lacks U+FEFF.
_SPACE = re.compile("[\\t-\\r \\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000\\ufeff]+")


class OnceError(Exception):
    """A call was refused. Repeating it would not help."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(f"{status} {code}: {detail}")
        self.status = status
        self.code = code
        self.detail = detail


@dataclasses.dataclass(frozen=True)
class Result:
    """How the work ended.

    status is one of

    - succeeded: `value` has the value, `cached` says whether it is from an earlier run
    - in_progress: another owner is running; retry after `retry_after` seconds
    - failed: the work raised; `error` has the exception
    - unknown: its owner is gone and on_unknown is hold, or the work was interrupted (`error`)
    - mismatch: the key belongs to work with another fingerprint
    - lost: another attempt took over while this one worked, and this value was not recorded
    - unavailable: the store or the gateway could not be reached. If the work was done, only this object has its value
    - released: the claim was released

    With the reason "value-refused" the work was done and its value cannot be recorded: it is not JSON, or it is too large.
    The claim is no longer renewed, so the work will be repeated unless claim.succeed(another value) comes before that.
    """
    status: str
    value: Any = None
    cached: bool = False
    attempt: int = 0
    retry_after: float = 0
    error: Any = None
    reason: str = ""
    claim: Any = None  # the claim that is still held, after value-refused

    @property
    def ok(self) -> bool:
        return self.status == "succeeded"


def hash_text(text: str) -> str:
    """Replaces a user's text in inputs: it cannot be read back, and white space does not matter.

    Every client of Once computes the same hash."""
    folded = _SPACE.sub(" ", text).strip(" ")
    # Surrogates as JavaScript encodes them in UTF-8: pairs are characters, single ones are U+FFFD.
    folded = folded.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return hashlib.sha256(folded.encode()).hexdigest()


def duration_text(value: Duration) -> str:
    """"24h" stays as it is; seconds and timedeltas become milliseconds."""
    if isinstance(value, datetime.timedelta):
        value = value.total_seconds()
    return value if isinstance(value, str) else f"{max(0, round(value * 1000))}ms"


def seconds(value: Duration) -> float:
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if not isinstance(value, str):
        return float(value)
    match = re.fullmatch(r"(\d+)(ms|s|m|h|d)", value)
    if match is None:
        raise ValueError(f'a duration is a text such as "30s", seconds or a timedelta, not {value!r}')
    number, unit = match.groups()
    return int(number) * _UNITS[unit]
