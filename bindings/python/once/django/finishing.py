"""A view's work and its response in one transaction: finish() in a transaction of yours, or @idempotent around a view.

The store must be the database of that transaction: ONCE = {"database": "default"}.
"""
from __future__ import annotations

import functools
import inspect
import json
from typing import Any, Callable

from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, connections, transaction
from django.http import HttpRequest

from once.django.middleware import fields_of

# These mean that nothing was done, so a retry executes: the default of record.refusals.
REFUSALS = frozenset({401, 402, 403, 407, 408, 413, 425, 429})


def finish(request: Any, response: Any, using: str = "default") -> None:
    """Records the response in the open transaction of the database `using`. A commit keeps both the effect and the outcome, and after
    any crash a retry finds both or neither. Without a key it does nothing. Call it last: it locks the operation's row.

    Raises if another attempt has taken over: then roll this transaction back."""
    claim = _claim_of(request)
    connection = connections[using]
    if not connection.in_atomic_block:
        raise transaction.TransactionManagementError("finish() belongs into transaction.atomic(): without it the effect and the "
                                                     "outcome are committed one after the other")
    if claim is None or not claim.is_protected:
        return
    if getattr(response, "streaming", False):
        raise TypeError("a streaming response cannot be recorded in a transaction: return a response with its whole content")
    if not getattr(response, "is_rendered", True):
        raise TypeError("the response is not rendered yet: call finish() with a rendered one, or decorate the view with @idempotent")
    fields: dict[str, Any] = {name.decode("latin-1"): value.decode("latin-1") for name, value in fields_of(response)}
    fields["X-Request-Id"] = claim.request_id
    missing = ImproperlyConfigured(f"the database {using!r} has no once_finish(): make it the store with ONCE = "
                                   '{"database": …}, and apply `once schema` to it. It is PostgreSQL, MySQL or MariaDB')
    if connection.vendor not in ("postgresql", "mysql"):
        raise missing
    verb = "CALL" if connection.vendor == "mysql" else "SELECT"
    with connection.cursor() as cursor:
        try:
            cursor.execute(f"{verb} once_finish(%s, %s, %s, %s)",
                           [claim.token, response.status_code, json.dumps(fields), bytes(response.content)])
        except DatabaseError as error:
            if _is_missing(error):
                raise missing from error
            raise


def idempotent(view: Callable[..., Any] | None = None, *, using: str = "default") -> Any:
    """Decorates a view whose work and response are committed together. For functions and for methods of class-based views and ViewSets.

    A refusal (401, 403, 429 …) or a 5xx is not an outcome: it is rolled back, and a retry executes. The middleware protects every other
    view; this is for work that must not be repeated even if the process dies in the middle."""
    if view is None:
        return functools.partial(idempotent, using=using)
    name = getattr(view, "__qualname__", repr(view))
    if inspect.isclass(view):
        raise TypeError(f"@idempotent decorates a view function or method, and {name} is a class: decorate its methods (post, create, …)")
    if not callable(view):
        raise TypeError(f"@idempotent decorates a view, not {name}")
    if inspect.iscoroutinefunction(view) or inspect.isasyncgenfunction(view):
        raise TypeError(f"{name} is async, and Django has no transactions in async views: decorate the sync function that does the work, "
                        "or leave it to the middleware")

    @functools.wraps(view)
    def recorded(*arguments: Any, **named: Any) -> Any:
        owner, request = _owner_and_request(name, arguments)
        _claim_of(request)
        with transaction.atomic(using=using):
            response = view(*arguments, **named)
            if not hasattr(response, "status_code"):
                raise TypeError(f"{name} returned {type(response).__name__}, not a response: @idempotent decorates views, not what they call")
            if response.status_code in REFUSALS or response.status_code >= 500:
                transaction.set_rollback(True, using=using)
            else:
                finish(request, _rendered(owner, request, response, arguments[2:] if owner else arguments[1:], named), using)
        return response

    return recorded


def _owner_and_request(name: str, arguments: tuple[Any, ...]) -> tuple[Any, Any]:
    """(None, request) for a function, (view, request) for a method."""
    if arguments and _is_request(arguments[0]):
        return None, arguments[0]
    if len(arguments) > 1 and _is_request(arguments[1]):
        return arguments[0], arguments[1]
    raise TypeError(f"{name} was called without a request as its first argument: @idempotent decorates views only. It goes below "
                    "@action and above the function, and not on dispatch() or on helpers")


def _is_request(value: Any) -> bool:
    return isinstance(value, HttpRequest) or isinstance(getattr(value, "_request", None), HttpRequest)  # REST Framework wraps it


def _claim_of(request: Any) -> Any:
    plain = getattr(request, "_request", request)
    try:
        return plain.once
    except AttributeError:
        raise ImproperlyConfigured('this request did not pass through Once: add "once.django.Middleware" to MIDDLEWARE') from None


def _rendered(owner: Any, request: Any, response: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """REST Framework renders a response after the view has returned; the transaction needs its bytes now."""
    if getattr(response, "is_rendered", True):
        return response
    view = owner or (getattr(request, "parser_context", None) or {}).get("view")  # for a function with @api_view
    if hasattr(view, "finalize_response"):
        view.finalize_response(request, response, *arguments, **named)
    response.render()
    return response


def _is_missing(error: DatabaseError) -> bool:
    cause = error.__cause__
    return getattr(cause, "pgcode", None) == "42883" or getattr(cause, "sqlstate", None) == "42883" or "1305" in str(error.args[:1])
