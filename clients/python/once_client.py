"""Work that happens once, from Python: a client of Once's claims API in one file, standard library only (3.9 or newer).

    once = Once("http://127.0.0.1:8082", token="...")          # or Once("unix:/run/once/claims.sock")

    result = once.run(lambda: call_the_model(prompt), scope="copy.propose", inputs={"text": hash_text(prompt)})
    if result.ok:
        return result.value              # fresh, or from the one who did it first (result.cached)
    if result.status == "in_progress":
        return busy(result.retry_after)

As a decorator, and as a context manager:

    @once.with_idempotency(scope="invoices.send", inputs=lambda invoice_id: {"invoice": invoice_id})
    def send(invoice_id): ...            # send(7) returns a Result

    with once.with_idempotency(scope="imports", key="2026-03-01") as claim:
        if claim.acquired:
            claim.value = do_import()    # recorded when the block ends; an exception fails the claim
    print(claim.result.value)

Of an async function the decorator makes an async function; there are also `await once.run_async(work, ...)` and `async with`. The
event loop is never blocked. Work that is cancelled may have done something, so its claim is neither failed nor released: it lapses,
and on_unknown says what follows.

While the work runs its lease is renewed by a thread. Results never throw for work that is in progress, failed, or whose
outcome nobody knows, nor when the gateway is away; what the programmer got wrong (a bad token, a bad argument) raises OnceError.
"""
from __future__ import annotations

import asyncio
import dataclasses
import datetime
import functools
import hashlib
import http.client
import inspect
import json
import random
import re
import secrets
import socket
import ssl
import threading
import time
import urllib.parse
import weakref
from typing import Any, Awaitable, Callable, Literal, Union

__all__ = ["Claim", "Once", "OnceError", "Result", "hash_text"]

Duration = Union[str, float, datetime.timedelta]  # "24h", or seconds
RETRIED = (408, 425, 429, 502, 503, 504)
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0
# White space as JavaScript has it; Python's has U+001C to U+001F and U+0085 and lacks U+FEFF.
_SPACE = re.compile("[\\t-\\r \\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000\\ufeff]+")


class OnceError(Exception):
    """The gateway refused a request as it stands: asking again would not help."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(f"{status} {code}: {detail}")
        self.status = status
        self.code = code
        self.detail = detail


@dataclasses.dataclass(frozen=True)
class Result:
    """How it ended.

    status: succeeded; in_progress (somebody else is at it: see retry_after); failed (the work raised: see error); unknown
    (nobody knows, and on_unknown is hold; or the work was interrupted: see error); mismatch (the key belongs to another fingerprint); lost (another attempt took
    over while we worked: what we did was not recorded); unavailable (the gateway could not be asked; if the work was done, its
    value is here and nowhere else); released.

    With the reason "value-refused" the work was done and its value cannot be recorded: it is no JSON, or larger than
    claims.max_body. Nothing renews the claim any more, so the work will be done again unless claim.succeed(something else)
    comes before that.
    """
    status: str
    value: Any = None
    cached: bool = False  # the value is from an earlier run
    attempt: int = 0
    retry_after: float = 0
    error: Any = None  # the exception, if there was one
    reason: str = ""  # "value-refused", or nothing
    claim: Any = None  # the Claim that still stands, after value-refused

    @property
    def ok(self) -> bool:
        return self.status == "succeeded"


def hash_text(text: str) -> str:
    """What stands for a user's text in inputs: nobody who sees them can read it, and white space makes no difference.

    The same in every client of Once."""
    folded = _SPACE.sub(" ", text).strip(" ")
    # Halves of surrogate pairs as JavaScript has them in UTF-8: whole pairs are characters, single ones U+FFFD.
    folded = folded.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return hashlib.sha256(folded.encode()).hexdigest()


def _duration(value):
    """"24h" as it is; seconds and timedeltas in milliseconds."""
    if isinstance(value, datetime.timedelta):
        value = value.total_seconds()
    return value if isinstance(value, str) else f"{max(0, round(value * 1000))}ms"


def _seconds(value):
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if not isinstance(value, str):
        return float(value)
    match = re.fullmatch(r"(\d+)(ms|s|m|h|d)", value)
    if match is None:
        raise ValueError(f'a duration is a text such as "30s", seconds or a timedelta, not {value!r}')
    number, unit = match.groups()
    return int(number) * {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}[unit]


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Once:
    """A gateway's claims API. Any number of threads and tasks may share one.

    address: http://HOST:PORT, https://HOST or unix:PATH. token: names the tenant, and nothing else does; not needed on a Unix
    socket without tokens. ca_file: certificates to trust in place of the system's; ssl_context: for anything else, such as a
    client certificate.
    timeout: of one request, long polls not counted. patience: how long a request that got no answer is repeated; all of
    them are safe to repeat.
    """

    def __init__(self, address: str, token: str | None = None, *, timeout: float = 10.0, patience: float = 30.0,
                 ca_file: str | None = None, ssl_context: ssl.SSLContext | None = None) -> None:
        self._address = address
        self._url = urllib.parse.urlsplit(address)
        self._token = token
        self._timeout = timeout
        self._patience = patience
        if not address.startswith(("http://", "https://", "unix:")):
            raise ValueError(f"the address is http://HOST:PORT, https://HOST or unix:PATH, not {address!r}")
        secure = self._url.scheme == "https"
        if not secure and (ca_file is not None or ssl_context is not None):
            raise ValueError("ca_file and ssl_context are for an address that begins with https://")
        if ca_file is not None and ssl_context is not None:
            raise ValueError("give ca_file or ssl_context, not both: load the file into the context")
        self._context = ssl_context or (ssl.create_default_context(cafile=ca_file) if secure else None)

    def run(self, work: Callable[[], Any], **options: Any) -> Result:
        """Does the work unless it was done, or is being done, by anybody. Options are those of with_idempotency()."""
        if _is_async(work):
            raise TypeError("the work is an async function: use `await once.run_async(work, ...)`")
        claim = self.claim(**options)
        if not claim.acquired:
            return claim.result
        try:
            value = work()
            if inspect.iscoroutine(value):
                value.close()  # it has not begun
                claim.fail("returned a coroutine")
                raise TypeError("the work returned a coroutine: use `await once.run_async(work, ...)`")
        except Exception as error:  # whatever it raises is how it failed
            if claim.result is not None:
                raise
            return claim.fail(error)
        except BaseException as error:  # the process is asked to end, anywhere in the middle of the work
            claim._interrupted(error)
            raise
        return claim.succeed(value)

    async def run_async(self, work: Callable[[], Awaitable[Any]], **options: Any) -> Result:
        """As run(), for a function that returns an awaitable. Cancelled before the work has begun, the claim is released; after that
        its outcome is unknown, and on_unknown says what follows. A result that is being recorded is recorded all the same."""
        claim = await self._claim_async(options)
        if not claim.acquired:
            return claim.result
        try:
            value = work()
            if inspect.isawaitable(value):
                value = await value
        except Exception as error:
            return await _in_thread(claim.fail, error)
        except BaseException as error:  # cancelled
            claim._interrupted(error)
            raise
        return await _in_thread(claim.succeed, value)

    async def _claim_async(self, options):
        # If nobody waits for it any more, the work will not begin.
        return await _in_thread(self.claim, abandoned=lambda claim: claim.acquired and claim.release(), **options)

    def with_idempotency(self, *, scope: str, **options: Any) -> _Idempotent:
        """A decorator or a context manager, also of async functions and for `async with`.

        scope: what kind of work it is. key or inputs: which piece of it; of a decorated function inputs (or key) may be a
        function of its arguments, and are the arguments themselves if absent: f(7) and f(number=7) are the same piece, and an
        argument that has its default value counts as not given. ttl ("24h"): how long the value is kept.
        lease ("30s"): how long a silent owner counts as at work. takeover_after ("5m"), on_unknown ("takeover", "retry",
        "hold"): when work that nobody knows the end of is done again. wait ("0s"): how long to wait for an owner at work.
        fingerprint: what must be the same for the same key.
        """
        return _Idempotent(self, scope, options)

    def claim(self, *, scope: str, key: str | None = None, inputs: Any = None, fingerprint: Any = None, ttl: Duration = "24h",
              lease: Duration = "30s", takeover_after: Duration = "5m", on_unknown: str = "takeover", wait: Duration = 0) -> Claim:
        """A Claim: acquired, or with the result that stands in its way."""
        if (key is None) == (inputs is None):
            raise ValueError("say which piece of work it is with key= or inputs=, not with both")
        body = {"scope": scope, "ttl": _duration(ttl), "lease": _duration(lease),
                "takeover_after": _duration(takeover_after), "on_unknown": on_unknown, "nonce": secrets.token_hex(16)}
        body.update({"key": key} if key is not None else {"inputs": inputs})
        if fingerprint is not None:
            body["fingerprint"] = fingerprint
        until = time.monotonic() + _seconds(wait)
        while True:
            left = max(0.0, until - time.monotonic())
            try:
                status, answer = self._ask("POST", "/v1/claims", {**body, "wait": _duration(left)}, waits=left)
            except OSError as error:
                return Claim(self, lease, None, Result("unavailable", error=error))
            if status == 200 and answer["status"] == "acquired":
                return Claim(self, lease, answer, None)
            again = status == 200 and answer["status"] == "in_progress" and time.monotonic() < until
            if not again:
                return Claim(self, lease, None, _result_of(status, answer))
            # The gateway waits for less than we do, or had too many who wait.
            time.sleep(min(max(0.0, until - time.monotonic()), answer["retry_after"], random.uniform(0.1, 1)))

    def lookup(self, *, scope: str, key: str | None = None, inputs: Any = None, wait: Duration = 0) -> Result | None:
        """How it stands, without claiming it: None if nobody did."""
        body = {"scope": scope, "wait": _duration(wait)}
        body.update({"key": key} if key is not None else {"inputs": inputs})
        try:
            status, answer = self._ask("POST", "/v1/claims/lookup", body, waits=_seconds(wait))
        except OSError as error:
            return Result("unavailable", error=error)
        return None if status == 200 and answer["status"] == "none" else _result_of(status, answer)

    def _ask(self, method, target, body, waits=0.0, patience=None, timeout=None):
        """(status, answer). Repeats what got no answer, or one that says to; raises OSError in the end."""
        timeout = self._timeout if timeout is None else min(timeout, self._timeout)
        until = time.monotonic() + (self._patience if patience is None else patience)
        text = json.dumps(body, allow_nan=False)
        pause = _FIRST_PAUSE
        while True:
            try:
                status, answer = self._ask_once(method, target, text, timeout + waits)
                if status not in RETRIED:
                    break
                error = OSError(f"the gateway answered {status} {answer.get('code', '')}")
            except ssl.SSLCertVerificationError:
                raise  # the next one would be the same
            except (OSError, http.client.HTTPException, ValueError) as failure:
                error = failure if isinstance(failure, OSError) else OSError(str(failure))
            # Full jitter, so that those who failed together do not come back together.
            wait = random.uniform(0, pause)
            if time.monotonic() + wait >= until:
                raise error
            time.sleep(wait)
            pause = min(pause * 2, _LONGEST_PAUSE)
        if status in (400, 401, 404, 405, 413):
            raise OnceError(status, answer.get("code", ""), answer.get("detail", ""))
        return status, answer

    def _ask_once(self, method, target, text, timeout):
        headers = {"Content-Type": "application/json"}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        if self._address.startswith("unix:"):
            connection = _UnixConnection(self._address[len("unix:"):], timeout)
        else:
            secure = {"context": self._context} if self._context else {}
            kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
            connection = kind(self._url.netloc, timeout=timeout, **secure)
            target = self._url.path.rstrip("/") + target
        try:
            try:
                connection.request(method, target, text.encode(), headers)
            except (BrokenPipeError, ConnectionResetError):
                pass  # one who refuses a body before its end has answered
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()


class Claim:
    """The right to do the work, or the result that stands in its way. While it is held a thread renews its lease."""

    handle: str  # for once_finish() in a transaction; a secret of this owner
    attempt: int
    fence: int

    def __init__(self, once: Once, lease: Duration, acquired: Any, result: Result | None) -> None:
        self._once = once
        self._lease = lease
        self.result: Any = result  # None while it is held
        self.value: Any = None  # what a with block records
        self.acquired = acquired is not None
        self.lost = threading.Event()  # set when another attempt took over: the work may stop
        self._ended = threading.Event()
        if acquired is not None:
            self.handle = acquired["claim"]
            self.attempt = acquired["attempt"]
            self.fence = acquired["fence"]
            threading.Thread(target=self._renew, daemon=True, name="once-renew").start()

    def succeed(self, value: Any, ttl: Duration | None = None) -> Result:
        """Records the value; whoever asks gets it. One that cannot be recorded is told by the reason "value-refused"."""
        body = {"value": value} if ttl is None else {"value": value, "ttl": _duration(ttl)}
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            # The work was done: to fail the claim would have it done again at once.
            self._ended.set()
            return self._ended_with(self._refused(value, error))
        answer = self._end("succeed", body)
        refused = self.result.error if answer is None else None
        if isinstance(refused, OnceError) and refused.status in (400, 413):
            return self._ended_with(self._refused(value, refused))
        if answer is None:
            return self._ended_with(dataclasses.replace(self.result, value=value))
        stands = answer.get("value", value) if "encoding" not in answer else value
        return self._ended_with(Result("succeeded", value=stands, attempt=self.attempt))

    def fail(self, error: Any = None) -> Result:
        """The next one who asks may try again."""
        reason = type(error).__name__ if isinstance(error, BaseException) else str(error or "")
        if self._end("fail", {"reason": reason[:100]}) is None and self.result.status == "lost":
            return self.result
        return self._ended_with(Result("failed", attempt=self.attempt, error=error))

    def release(self) -> Result:
        """As if never claimed: nothing was done."""
        if self._end("release", {}) is not None:
            self.result = Result("released", attempt=self.attempt)
        return self.result

    def _end(self, verb, body):
        """The answer, or None with the reason in self.result."""
        if not self.acquired:
            raise RuntimeError("this claim was not acquired")
        self._ended.set()
        try:
            status, answer = self._once._ask("POST", f"/v1/claims/{self.handle}/{verb}", body)
        except (OSError, OnceError) as error:
            self.result = Result("unavailable", attempt=self.attempt, error=error)
            return None
        if status == 200:
            return answer
        self.lost.set()
        self.result = Result("lost", attempt=self.attempt)
        return None

    def _interrupted(self, error):
        """The work may have done something and nobody knows how far it came: the claim lapses."""
        self._ended.set()
        self.result = Result("unknown", attempt=self.attempt, error=error)

    def _refused(self, value, error):
        return Result("unavailable", value=value, attempt=self.attempt, error=error, reason="value-refused", claim=self)

    def _ended_with(self, result):
        self.result = result
        return result

    def _renew(self):
        # Every third of the lease, counted from when the last one was sent; one that gets no answer ends in half of that, and
        # the next follows soon: several may be lost before the lease is.
        interval = _seconds(self._lease) / 3
        pause = min(1.0, interval / 4)
        due = time.monotonic() + interval
        while not self._ended.wait(max(0.0, due - time.monotonic())):
            began = time.monotonic()
            try:
                status, _ = self._once._ask("POST", f"/v1/claims/{self.handle}/renew",
                                            {"lease": _duration(self._lease)}, patience=0, timeout=interval / 2)
            except OSError:
                due = time.monotonic() + random.uniform(pause / 2, pause)
                continue
            except OnceError:
                status = None  # refused, and would be a moment later
            if status == 409 and not self._ended.is_set():
                self.lost.set()
                return
            due = began + interval


class _Idempotent:
    """What with_idempotency() gives."""

    def __init__(self, once, scope, options):
        self._once = once
        self._scope = scope
        self._options = options
        self._open = threading.local()  # the blocks that each thread is in
        self._open_async = weakref.WeakKeyDictionary()  # and each task

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        name = getattr(function, "__name__", repr(function))
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"{name}() is a generator: only what a function returns can be recorded")
        signature = inspect.signature(function)

        def options_of(args, named):
            options = dict(self._options)
            bound = signature.bind(*args, **named)
            for option in ("key", "inputs"):
                if callable(options.get(option)):
                    options[option] = options[option](*args, **named)
            if options.get("key") is None and options.get("inputs") is None:
                options["inputs"] = _inputs_of(name, bound)
            return options

        if _is_async(function):
            @functools.wraps(function)
            async def wrapper(*args, **named):
                options = options_of(args, named)
                return await self._once.run_async(lambda: function(*args, **named), scope=self._scope, **options)
        else:
            @functools.wraps(function)
            def wrapper(*args, **named):
                options = options_of(args, named)
                return self._once.run(lambda: function(*args, **named), scope=self._scope, **options)

        return wrapper

    def __enter__(self) -> Claim:
        claim = self._once.claim(scope=self._scope, **self._options)
        if not hasattr(self._open, "claims"):
            self._open.claims = []
        self._open.claims.append(claim)
        return claim

    def __exit__(self, kind: Any, error: Any, trace: Any) -> Literal[False]:
        end = _end_of(self._open.claims.pop(), error)
        if end is not None:
            end()
        return False

    async def __aenter__(self) -> Claim:
        claim = await self._once._claim_async({"scope": self._scope, **self._options})
        self._open_async.setdefault(asyncio.current_task(), []).append(claim)
        return claim

    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> Literal[False]:
        end = _end_of(self._open_async[asyncio.current_task()].pop(), error)
        if end is not None:
            await _in_thread(end)
        return False


def _end_of(claim, error):
    """What ends the claim of a block that ended so, or None."""
    if not claim.acquired or claim.result is not None:
        return None
    if error is None:
        return lambda: claim.succeed(claim.value)
    if isinstance(error, Exception):
        return lambda: claim.fail(error)
    claim._interrupted(error)
    return None


def _is_async(function):
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))


def _inputs_of(name, bound):
    """The arguments of a call in one form, however they were given. Defaults stay out, so that a new parameter with a default
    makes no new work of what was done before."""
    args, named, positions = [], {}, True
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


def _same_json(value, default):
    try:
        return default is not inspect.Parameter.empty and json.dumps(value, sort_keys=True) == json.dumps(default, sort_keys=True)
    except (TypeError, ValueError):
        return False


async def _in_thread(function, *args, abandoned=None, **named):
    """Calls it in a thread of its own: the loop's pool is small, and long polls would fill it. A caller that is cancelled does not stop
    the call; its result is given to `abandoned` then. Without that, the process does not end before the call has."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    state = threading.Lock()
    ended = []  # (result, error)
    left = False

    def call():
        try:
            outcome = (function(*args, **named), None)
        except BaseException as error:  # for the caller
            outcome = (None, error)
        with state:
            ended.append(outcome)
            nobody_waits = left
        if nobody_waits:
            give_up()
            return
        try:
            loop.call_soon_threadsafe(lambda: done.done() or done.set_result(None))
        except RuntimeError:
            pass  # the loop was closed: the caller has been told

    def give_up():
        if abandoned is not None and ended[0][1] is None:
            abandoned(ended[0][0])

    threading.Thread(target=call, name="once-call", daemon=abandoned is not None).start()
    try:
        await done
    except BaseException:
        with state:
            left = True
            came_late = bool(ended)
        if came_late:
            threading.Thread(target=give_up, name="once-call").start()
        raise
    result, error = ended[0]
    if error is not None:
        raise error
    return result


def _result_of(status, answer):
    """What an answer that is no claim of ours means."""
    if status == 422:
        return Result("mismatch")
    if status != 200:
        code = answer.get("code", "")
        error = OnceError(status, code, answer.get("detail", ""))
        # It succeeded, and nobody has the value any more.
        return Result("succeeded" if code == "response-not-kept" else "unavailable", cached=True, error=error)
    attempt = answer.get("attempt", 0)
    if answer["status"] == "succeeded":
        return Result("succeeded", value=answer["value"], cached=True, attempt=attempt)
    return Result(answer["status"], attempt=attempt, retry_after=answer.get("retry_after", 0))
