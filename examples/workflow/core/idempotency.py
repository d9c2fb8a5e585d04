"""A decorator for views whose work must happen exactly once."""
import functools
import json

from django.db import connection, transaction

# Responses that mean that nothing was done, so that a retry executes: the same as record.refusals.
REFUSALS = {401, 402, 403, 407, 408, 413, 425, 429}


def idempotent(view):
    """Commits the effect and the response of a view together: after any crash, a retry finds both or neither.

    Every other mutating view is protected by the gateway as it is; this is for work that must not be done twice even when
    the gateway or this process dies in the middle. A refusal or a 5xx is no outcome: it is rolled back, and a retry executes.
    """
    @functools.wraps(view)
    def recorded(request, *arguments, **named):
        with transaction.atomic():
            response = view(request, *arguments, **named)
            if response.status_code in REFUSALS or response.status_code >= 500:
                transaction.set_rollback(True)
            elif claim := request.headers.get("Idempotency-Claim"):  # from Once, if the request has a key
                finish(claim, request, response)
        return response

    return recorded


def finish(claim, request, response):
    """Raises if another attempt has taken over; the transaction is then rolled back."""
    headers = {**dict(response.items()), "X-Request-Id": request.headers.get("X-Request-Id", "")}
    with connection.cursor() as cursor:
        cursor.execute("SELECT once_finish(%s, %s, %s, %s)",
                       [claim, response.status_code, json.dumps(headers), response.content])
