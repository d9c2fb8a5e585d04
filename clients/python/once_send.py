"""A request that is executed once, from Python: one key, the same bytes on every try, as many tries as it takes. One file, standard
library only (3.9 or newer).

    answer = send_once("https://api.example.com/orders", b'{"book": 7}', headers={"Content-Type": "application/json"})
    print(answer.status, answer.body, answer.replayed)

It retries what `once send` retries: no answer, an answer that broke off, 408, 425, 429, 502, 503, 504, and a 409 that time settles.
From a coroutine: `await asyncio.to_thread(send_once, url, body)`.
"""
from __future__ import annotations

import dataclasses
import email.utils
import http.client
import json
import random
import ssl
import time
import urllib.parse
import uuid
import warnings
from typing import Any, Mapping

__all__ = ["Answer", "NotAnswered", "OnceWarning", "send_once"]

RETRIED = (408, 425, 429, 502, 503, 504)
_FIRST_PAUSE = 0.2
_LONGEST_PAUSE = 10.0


class OnceWarning(UserWarning):
    """An answer does not say that its key was honoured."""


class NotAnswered(OSError):
    """send_once() gave up. With `sent` it is not known whether the request was executed: go on later with the same `key`."""

    def __init__(self, key: str, sent: bool, why: object) -> None:
        known = "it is not known whether it was executed; go on later with the same key" if sent else "nothing was sent"
        super().__init__(f"no answer ({why}): {known}, {key}")
        self.key = key
        self.sent = sent


@dataclasses.dataclass(frozen=True)
class Answer:
    """What send_once() got. headers: get() takes names in any case."""
    status: int
    headers: Any
    body: bytes
    key: str
    tries: int

    @property
    def replayed(self) -> bool:
        """An earlier try had been executed, and this is its answer."""
        return bool(self.headers.get("Idempotency-Status") == "replayed")


_warned: set[str] = set()  # origins


def send_once(url: str, body: bytes | str | None = None, *, method: str = "POST", headers: Mapping[str, str] | None = None,
              key: str | None = None, key_header: str = "Idempotency-Key", timeout: float = 15.0, deadline: float = 60.0,
              ca_file: str | None = None, ssl_context: ssl.SSLContext | None = None) -> Answer:
    """Sends a request with one key and the same bytes on every try, until there is an answer that no retry would change. Redirects are not
    followed: another URL is another operation. Raises NotAnswered, which has the key.

    key: one is made if neither this nor the header is given; give your own, and keep it, where the operation outlives the process. timeout: how long one try may be
    silent. deadline: of the whole call. ca_file: certificates to trust in place of the system's; ssl_context: for anything else, such as a
    client certificate. Warns once per origin (OnceWarning) of an answer without Idempotency-Status, or with `bypassed`: no retry is
    safe there.
    """
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ValueError(f"the URL begins with http:// or https:// and has a host, unlike {url!r}")
    if ca_file is not None and ssl_context is not None:
        raise ValueError("give ca_file or ssl_context, not both: load the file into the context")
    context = ssl_context or (ssl.create_default_context(cafile=ca_file) if parts.scheme == "https" else None)
    if isinstance(body, str):
        body = body.encode()
    if body is not None and not isinstance(body, (bytes, bytearray)):
        raise TypeError(f"the body is bytes or str, not {type(body).__name__}: read it first, every try sends the same bytes")
    fields = dict(headers or {})
    given = next((fields.pop(name) for name in list(fields) if name.lower() == key_header.lower()), None)
    key = key or given or str(uuid.uuid4())
    fields[key_header] = key
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    until = time.monotonic() + deadline
    sent, pause, tries = False, _FIRST_PAUSE, 0
    while True:
        tries += 1
        answer, asked = None, 0.0
        connection = _connection(parts, max(0.001, min(timeout, until - time.monotonic())), context)
        try:
            connection.connect()
            sent = True
            try:
                connection.request(method, target, body, fields)
            except (BrokenPipeError, ConnectionResetError):
                pass  # one who refuses a body before its end has answered
            got = connection.getresponse()
            answer = Answer(got.status, got.headers, got.read(), key, tries)
            _warn_unprotected(parts, answer)
            asked = _when_to_repeat(answer)
            if asked is None:
                return answer
            why = f"the last answer was {answer.status}"
        except ssl.SSLCertVerificationError as error:  # the next one would be the same
            raise NotAnswered(key, sent, error) from error
        except (OSError, http.client.HTTPException) as error:
            why = f"{type(error).__name__}: {error}"
        finally:
            connection.close()
        wait = max(asked, random.uniform(0, pause))
        if time.monotonic() + wait >= until:
            if answer is not None:
                return answer
            raise NotAnswered(key, sent, why)
        time.sleep(wait)
        pause = min(pause * 2, _LONGEST_PAUSE)


def _connection(url, timeout, context):
    if url.scheme == "https":
        return http.client.HTTPSConnection(url.netloc, timeout=timeout, context=context)
    return http.client.HTTPConnection(url.netloc, timeout=timeout)


def _warn_unprotected(url, answer):
    said = answer.headers.get("Idempotency-Status")
    origin = f"{url.scheme}://{url.netloc}"
    # Refusals and errors may come from something in front of the gateway.
    unprotected = said == "bypassed" or (said is None and answer.status < 400)
    if not unprotected or origin in _warned:
        return
    _warned.add(origin)
    what = "says Idempotency-Status: bypassed" if said else "has no Idempotency-Status"
    warnings.warn(f"the answer of {origin} {what}: nothing there keeps a retry from being executed twice. "
                  "Send the request through Once, on a route that covers its method", OnceWarning, stacklevel=3)


def _when_to_repeat(answer):
    """Seconds to wait at least, or None: this is the answer."""
    if answer.status != 409 and answer.status not in RETRIED:
        return None
    given = answer.headers.get("Retry-After")
    try:
        problem = json.loads(answer.body)
    except ValueError:
        problem = None
    problem = problem if isinstance(problem, dict) else {}
    nested = problem.get("error") if isinstance(problem.get("error"), dict) else {}
    if problem.get("retryable") is False:
        return None
    if answer.status == 409:
        said = {answer.headers.get("Idempotency-Status"), problem.get("code"), nested.get("code")}
        unknown = bool(said & {"unknown", "outcome-unknown"})
        if not (said & {"in-flight", "idempotency_key_in_use"} or (unknown and given is not None)):
            return None
    if given is None:
        return 0.0
    if given.isdigit():
        return float(given)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(given).timestamp() - time.time())
    except (TypeError, ValueError):
        return 0.0
