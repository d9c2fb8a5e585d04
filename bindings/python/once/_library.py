"""The C interface of libonce (include/once/once.h), through ctypes. Types and signatures only; gate.py explains them.

ctypes releases the interpreter lock around every call, so a call that waits blocks no other thread.
"""
from __future__ import annotations

import ctypes
import ctypes.util
import functools
import os
import pathlib
from ctypes import POINTER, c_char_p, c_int, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any, Iterable

from once.results import OnceError

ABI_VERSION = 1

OK, INVALID, CONFIG, UNAVAILABLE, STOPPED, ENDED, FORKED, TIMEOUT, NO_MEMORY, BROKEN = range(10)
REPLY, CLAIM, PASS, OUTCOME, CANCELLED, SWEPT, STOPPED_EVENT, LOG = range(1, 9)
LOG_EVENTS = 0
BODY_NOT_KEPT = 1
FIELDS_JOINED = 1
PRIVATE_TAG = 1 << 63
FOREVER = 0xFFFFFFFF
ENDINGS = ("", "executed", "replayed", "in-flight", "mismatch", "unknown", "bypassed", "rejected", "passed")
SETTLED = ("none", "succeeded", "failed", "unknown", "released", "lost", "unrecorded")
ON_UNKNOWN = {"takeover": 0, "retry": 1, "hold": 2}


class GivenBytes(ctypes.Structure):
    """once_bytes in an argument. A c_char_p member points into the bytes object and keeps it alive."""
    _fields_ = [("data", c_char_p), ("size", c_size_t)]


class GivenField(ctypes.Structure):
    _fields_ = [("name", GivenBytes), ("value", GivenBytes)]


class Bytes(ctypes.Structure):
    """once_bytes in an event."""
    _fields_ = [("data", c_void_p), ("size", c_size_t)]

    def get(self) -> bytes:
        return ctypes.string_at(self.data, self.size) if self.size else b""


class Field(ctypes.Structure):
    _fields_ = [("name", Bytes), ("value", Bytes)]


class Options(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("config_file", GivenBytes), ("config_text", GivenBytes), ("settings", POINTER(GivenField)),
                ("setting_count", c_size_t), ("log", c_uint32)]


class Request(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("method", GivenBytes), ("target", GivenBytes), ("fields", POINTER(GivenField)),
                ("field_count", c_size_t), ("body", GivenBytes), ("peer", GivenBytes), ("scheme", GivenBytes),
                ("caller", GivenBytes), ("tls_subject", GivenBytes), ("tls_issuer", GivenBytes), ("flags", c_uint32)]


class Response(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("status", c_int32), ("flags", c_uint32), ("reason", GivenBytes),
                ("fields", POINTER(GivenField)), ("field_count", c_size_t), ("body", GivenBytes)]


class Work(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("tenant", GivenBytes), ("scope", GivenBytes), ("key", GivenBytes), ("inputs", GivenBytes),
                ("fingerprint", GivenBytes), ("ttl_ms", c_uint64), ("takeover_after_ms", c_uint64), ("lease_ms", c_uint64),
                ("wait_ms", c_uint64), ("on_unknown", c_uint32), ("store_only", POINTER(GivenBytes)),
                ("store_only_count", c_size_t), ("never_store", POINTER(GivenBytes)), ("never_store_count", c_size_t)]


class Reply(ctypes.Structure):
    _fields_ = [("status", c_int32), ("ending", c_uint32), ("settled", c_uint32), ("attempt", c_uint32), ("reason", Bytes),
                ("fields", POINTER(Field)), ("field_count", c_size_t), ("body", Bytes), ("body_is_yours", c_int32)]


class ClaimInfo(ctypes.Structure):
    _fields_ = [("attempt", c_uint32), ("is_protected", c_uint32), ("fence", c_uint64), ("token", Bytes), ("operation", Bytes),
                ("request_id", Bytes), ("fields", POINTER(Field)), ("field_count", c_size_t), ("max_body", c_uint64)]


class Outcome(ctypes.Structure):
    _fields_ = [("status", Bytes), ("reason", Bytes), ("detail", Bytes), ("value", Bytes), ("cached", c_uint32),
                ("attempt", c_uint32), ("fence", c_uint64), ("retry_after_ms", c_uint64), ("code", c_int32)]


class LogLine(ctypes.Structure):
    _fields_ = [("level", c_uint32), ("line", Bytes)]


class Event(ctypes.Structure):
    _fields_ = [("kind", c_uint32), ("tag", c_uint64), ("claim", c_void_p), ("claim_info", POINTER(ClaimInfo)),
                ("reply", POINTER(Reply)), ("outcome", POINTER(Outcome)), ("log", POINTER(LogLine)), ("removed", c_uint64)]


class Text(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("size", c_size_t)]


EventPointer = POINTER(Event)

# All functions except these return a status.
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "once_open": (POINTER(Options), POINTER(c_void_p)),
    "once_stop": (c_void_p, c_uint64),
    "once_free": (c_void_p, c_uint32),
    "once_needs_body": (c_void_p, POINTER(Request), POINTER(c_int), POINTER(c_uint64)),
    "once_begin": (c_void_p, POINTER(Request), c_uint64),
    "once_cancel": (c_void_p, c_uint64),
    "once_finish": (c_void_p, POINTER(Response), c_uint64),
    "once_abandon": (c_void_p, c_uint64),
    "once_release": (c_void_p, c_uint64),
    "once_claim_lost": (c_void_p, POINTER(c_int)),
    "once_claim_work": (c_void_p, POINTER(Work), c_uint64),
    "once_complete": (c_void_p, GivenBytes, GivenBytes, c_uint64),
    "once_fail": (c_void_p, c_uint64),
    "once_look": (c_void_p, POINTER(Work), c_uint64),
    "once_recorded": (c_void_p, c_uint64),
    "once_compute_key": (c_void_p, POINTER(Work), c_char_p),
    "once_drain": (c_void_p, POINTER(EventPointer), c_size_t, POINTER(c_size_t)),
    "once_wait": (c_void_p, c_uint64, c_uint32, POINTER(EventPointer)),
    "once_sweep": (c_void_p, c_uint64),
    "once_metrics": (c_void_p, POINTER(POINTER(Text))),
    "once_sanitise": (GivenBytes, POINTER(GivenBytes), c_size_t, POINTER(GivenBytes), c_size_t, POINTER(POINTER(Text))),
}
_OTHER_SIGNATURES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "once_last_error": (c_char_p, ()),
    "once_version": (c_char_p, ()),
    "once_abi_version": (c_uint32, ()),
    "once_status_name": (c_char_p, (c_uint32,)),
    "once_claim_free": (None, (c_void_p,)),
    "once_event_free": (None, (EventPointer,)),
    "once_text_free": (None, (POINTER(Text),)),
    "once_poll_fd": (c_int, (c_void_p,)),
    "once_private_tag": (c_uint64, (c_void_p,)),
}


@functools.lru_cache(maxsize=None)
def library() -> Any:
    """libonce: the file in ONCE_LIBRARY, the one in this package, or the system's."""
    path = _path()
    try:
        loaded = ctypes.CDLL(path)
        abi = loaded.once_abi_version
    except (OSError, AttributeError) as error:
        raise OnceError(0, "library", f"{path} cannot be loaded: {error}") from error
    abi.restype = c_uint32
    if abi() < ABI_VERSION:
        raise OnceError(0, "library", f"{path} has version {abi()} of the interface, this package needs {ABI_VERSION}: "
                                      "install a newer libonce")
    for name, arguments in _SIGNATURES.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = c_uint32, arguments
    for name, (result, arguments) in _OTHER_SIGNATURES.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded


def _path() -> str:
    named = os.environ.get("ONCE_LIBRARY")
    if named:
        return named
    bundled = pathlib.Path(__file__).with_name("libonce.so")
    if bundled.exists():
        return str(bundled)
    found = ctypes.util.find_library("once")
    if found is None:
        raise OnceError(0, "library", "libonce was not found: install the wheel for this platform, or name the file in ONCE_LIBRARY")
    return found


def check(status: int) -> None:
    """Raises the library's error if the call did not succeed."""
    if status == OK:
        return
    loaded = library()
    code = loaded.once_status_name(status).decode()
    raise OnceError(0, code, loaded.once_last_error().decode(errors="replace"))


def given(value: bytes) -> GivenBytes:
    return GivenBytes(value, len(value))


def given_list(values: Iterable[str]) -> tuple[Any, int]:
    encoded = [value.encode() for value in values]
    return (GivenBytes * len(encoded))(*map(given, encoded)), len(encoded)


def given_fields(fields: Iterable[tuple[bytes, bytes]]) -> tuple[Any, int]:
    listed = list(fields)
    array = (GivenField * len(listed))()
    for place, (name, value) in zip(array, listed):
        place.name.data, place.name.size = name, len(name)
        place.value.data, place.value.size = value, len(value)
    return array, len(listed)


def fields_of(pointer: Any, count: int) -> list[tuple[bytes, bytes]]:
    return [(pointer[index].name.get(), pointer[index].value.get()) for index in range(count)]
