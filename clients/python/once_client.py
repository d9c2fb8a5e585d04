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

While the work runs its lease is renewed by a thread. Results never throw for work that is in progress, failed, or whose
outcome nobody knows, nor when the gateway is away; what the programmer got wrong (a bad token, a bad argument) raises OnceError.
"""
import dataclasses
import datetime
import functools
import hashlib
import http.client
import json
import random
import re
import secrets
import socket
import threading
import time
import urllib.parse

__all__ = ["Claim", "Once", "OnceError", "Result", "hash_text"]

RETRIED = (408, 425, 429, 502, 503, 504)
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0
# White space as JavaScript has it; Python's has U+001C to U+001F and U+0085 and lacks U+FEFF.
_SPACE = re.compile("[\\t-\\r \\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000\\ufeff]+")


class OnceError(Exception):
    """The gateway refused a request as it stands: asking again would not help."""

    def __init__(self, status, code, detail):
        super().__init__(f"{status} {code}: {detail}")
        self.status = status
        self.code = code
        self.detail = detail


@dataclasses.dataclass(frozen=True)
class Result:
    """How it ended.

    status: succeeded; in_progress (somebody else is at it: see retry_after); failed (the work raised: see error); unknown
    (nobody knows, and on_unknown is hold); mismatch (the key belongs to another fingerprint); lost (another attempt took
    over while we worked: what we did was not recorded); unavailable (the gateway could not be asked; if the work was done, its
    value is here and nowhere else); released.

    With the reason "value-refused" the work was done and its value cannot be recorded: it is no JSON, or larger than
    claims.max_body. Nothing renews the claim any more, so the work will be done again unless claim.succeed(something else)
    comes before that.
    """
    status: str
    value: object = None
    cached: bool = False  # the value is from an earlier run
    attempt: int = 0
    retry_after: float = 0
    error: object = None  # the exception, if there was one
    reason: str = ""  # "value-refused", or nothing
    claim: object = None  # the Claim that still stands, after value-refused

    @property
    def ok(self):
        return self.status == "succeeded"


def hash_text(text):
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
    number, unit = re.fullmatch(r"(\d+)(ms|s|m|h|d)", value).groups()
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
    """A gateway's claims API. Any number of threads may share one.

    address: http://HOST:PORT or unix:PATH. token: names the tenant, and nothing else does; not needed on a Unix socket
    without tokens.
    timeout: of one request, long polls not counted. patience: how long a request that got no answer is repeated; all of
    them are safe to repeat.
    """

    def __init__(self, address, token=None, *, timeout=10.0, patience=30.0):
        self._address = address
        self._token = token
        self._timeout = timeout
        self._patience = patience
        if not address.startswith(("http://", "unix:")):
            raise ValueError("the address is http://HOST:PORT or unix:PATH")

    def run(self, work, **options):
        """Does the work unless it was done, or is being done, by anybody. Options are those of with_idempotency()."""
        claim = self.claim(**options)
        if not claim.acquired:
            return claim.result
        try:
            value = work()
        except Exception as error:  # whatever it raises is how it failed
            return claim.fail(error)
        except BaseException as error:  # the process is asked to end
            claim.fail(error)
            raise
        return claim.succeed(value)

    def with_idempotency(self, *, scope, **options):
        """A decorator or a context manager.

        scope: what kind of work it is. key or inputs: which piece of it; of a decorated function inputs (or key) may be a
        function of its arguments, and are the arguments themselves if absent. ttl ("24h"): how long the value is kept.
        lease ("30s"): how long a silent owner counts as at work. takeover_after ("5m"), on_unknown ("takeover", "retry",
        "hold"): when work that nobody knows the end of is done again. wait ("0s"): how long to wait for an owner at work.
        fingerprint: what must be the same for the same key.
        """
        return _Idempotent(self, scope, options)

    def claim(self, *, scope, key=None, inputs=None, fingerprint=None, ttl="24h", lease="30s", takeover_after="5m",
              on_unknown="takeover", wait=0):
        """A Claim: acquired, or with the result that stands in its way."""
        if (key is None) == (inputs is None):
            raise ValueError("exactly one of key and inputs is needed")
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

    def lookup(self, *, scope, key=None, inputs=None, wait=0):
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
            connection = http.client.HTTPConnection(urllib.parse.urlsplit(self._address).netloc, timeout=timeout)
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

    def __init__(self, once, lease, acquired, result):
        self._once = once
        self._lease = lease
        self.result = result
        self.value = None  # what a with block records
        self.acquired = acquired is not None
        self.lost = threading.Event()  # set when another attempt took over: the work may stop
        self._ended = threading.Event()
        if acquired is not None:
            self.handle = acquired["claim"]  # for once_finish() in a transaction; a secret of this owner
            self.attempt = acquired["attempt"]
            self.fence = acquired["fence"]
            threading.Thread(target=self._renew, daemon=True, name="once-renew").start()

    def succeed(self, value, ttl=None):
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

    def fail(self, error=None):
        """The next one who asks may try again."""
        reason = type(error).__name__ if isinstance(error, BaseException) else str(error or "")
        if self._end("fail", {"reason": reason[:100]}) is None and self.result.status == "lost":
            return self.result
        return self._ended_with(Result("failed", attempt=self.attempt, error=error))

    def release(self):
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

    def __call__(self, function):
        @functools.wraps(function)
        def wrapper(*args, **named):
            options = dict(self._options)
            for name in ("key", "inputs"):
                if callable(options.get(name)):
                    options[name] = options[name](*args, **named)
            if options.get("key") is None and options.get("inputs") is None:
                options["inputs"] = {"args": list(args), "named": named}
            return self._once.run(lambda: function(*args, **named), scope=self._scope, **options)

        return wrapper

    def __enter__(self):
        claim = self._once.claim(scope=self._scope, **self._options)
        if not hasattr(self._open, "claims"):
            self._open.claims = []
        self._open.claims.append(claim)
        return claim

    def __exit__(self, kind, error, trace):
        claim = self._open.claims.pop()
        if claim.acquired and claim.result is None:
            if error is not None:
                claim.fail(error)
            else:
                claim.succeed(claim.value)
        return False


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
