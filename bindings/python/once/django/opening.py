"""The gate of a Django process, opened from its settings.

ONCE has these members, all optional:

- config: the path of once.yaml, or its content as a dict
- database: the alias in DATABASES that is also the store; only then can once_finish() join a transaction of Django's
- settings: single settings over those of the file, such as {"defaults.dialect": "workflow"}
- caller: a function, or its dotted path, that returns who asks, from the request

IDEMPOTENCY_KEY_TTL_HOURS sets `defaults.ttl`.
"""
from __future__ import annotations

import threading
import urllib.parse
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from once.gate import Gate
from once.results import OnceError

_MEMBERS = ("config", "database", "settings", "caller")
_lock = threading.Lock()
_gate: Gate | None = None


def gate() -> Gate:
    """One gate per process, opened on first use."""
    global _gate
    with _lock:
        if _gate is None:
            try:
                _gate = Gate(once_settings().get("config"), settings=gate_settings())
            except OnceError as error:
                raise ImproperlyConfigured(f"Once could not be opened: {error.detail}") from error
        return _gate


def close() -> None:
    """For tests that change the settings: the next use opens the gate again."""
    global _gate
    with _lock:
        closing, _gate = _gate, None
    if closing is not None:
        closing.close()


def once_settings() -> dict[str, Any]:
    given: dict[str, Any] = getattr(settings, "ONCE", {})
    unknown = set(given) - set(_MEMBERS)
    if unknown:
        raise ImproperlyConfigured(f"ONCE has no member {', '.join(sorted(unknown))}; it has {', '.join(_MEMBERS)}")
    return given


def gate_settings() -> dict[str, Any]:
    given = once_settings()
    over: dict[str, Any] = {}
    if given.get("database"):
        over["store"] = store_url(settings.DATABASES[given["database"]])
    hours = getattr(settings, "IDEMPOTENCY_KEY_TTL_HOURS", None)
    if hours is not None:
        over["defaults.ttl"] = f"{round(hours * 3600)}s"
    return {**over, **given.get("settings", {})}


def caller() -> Any:
    named = once_settings().get("caller")
    return import_string(named) if isinstance(named, str) else named


def store_url(database: dict[str, Any]) -> str:
    """The URL of a Django database, as a store."""
    scheme = {"postgresql": "postgres", "postgis": "postgres", "mysql": "mysql"}.get(database["ENGINE"].rsplit(".", 1)[-1])
    if scheme is None:
        raise ImproperlyConfigured(f"{database['ENGINE']} cannot be a store: use PostgreSQL or MySQL, or name another `store`")
    quote = urllib.parse.quote
    who = quote(str(database.get("USER") or ""), safe="")
    if database.get("PASSWORD"):
        who += ":" + quote(str(database["PASSWORD"]), safe="")
    host = str(database.get("HOST") or "")
    port = f":{database['PORT']}" if database.get("PORT") else ""
    name = quote(str(database["NAME"]), safe="")
    if host.startswith("/"):
        return f"{scheme}://{who + '@' if who else ''}/{name}?host={quote(host, safe='')}"
    return f"{scheme}://{who + '@' if who else ''}{host or 'localhost'}{port}/{name}"
