"""Work that happens once, with the claims API of a gateway. Standard library only.

    claims = ClaimsClient("http://127.0.0.1:8082", token="...")          # or ClaimsClient("unix:/run/once/claims.sock")

    result = claims.run(lambda: call_the_model(prompt), scope="copy.propose", inputs={"text": hash_text(prompt)})
    if result.ok:
        return result.value              # fresh, or from the caller that did it first (result.cached)
    if result.status == "in_progress":
        return busy(result.retry_after)

As a decorator, and as a context manager:

    @claims.with_idempotency(scope="invoices.send", inputs=lambda invoice_id: {"invoice": invoice_id})
    def send(invoice_id): ...            # send(7) returns a Result

    with claims.with_idempotency(scope="imports", key="2026-03-01") as claim:
        if claim.acquired:
            claim.value = do_import()    # recorded when the block ends; an exception fails the claim
    print(claim.result.value)

An owner may report progress, which others read while it works:

    claim.progress({"percent": 40})      # of a claim that is held

    following = claims.follow(scope="imports", key="2026-03-01", wait="5m")
    for piece in following:              # or: async for
        print(piece.data)
    print(following.result)

The decorator turns an async function into an async function; there are also `await claims.run_async(work, ...)` and `async with`.
While the work runs, a thread renews its lease. Results never raise for work that is in progress, failed or unknown, nor when the
gateway cannot be reached. Mistakes in the program (a bad token, a bad argument) raise OnceError, TypeError or ValueError.
"""
from __future__ import annotations

import dataclasses
import http.client
import json
import random
import secrets
import socket
import ssl
import threading
import time
import urllib.parse
from typing import Any

from once import running
from once.following import Following
from once.results import Duration, OnceError, Result, duration_text, seconds
from once.threads import in_thread

RETRIED = (408, 425, 429, 502, 503, 504)
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0
_PATIENCE_FOR_PROGRESS = 2.0  # seconds; the work continues without it


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class ClaimsClient(running.Runner):
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

    def claim(self, *, scope: str, key: str | None = None, inputs: Any = None,  # type: ignore[override]
              fingerprint: Any = None, ttl: Duration = "24h", lease: Duration = "30s", takeover_after: Duration = "5m",
              on_unknown: str = "takeover", wait: Duration = 0) -> Claim:
        """A claim: acquired, or with the result that prevents it. Options are those of with_idempotency()."""
        if (key is None) == (inputs is None):
            raise ValueError("say which piece of work it is with key= or inputs=, not with both")
        body = {"scope": scope, "ttl": duration_text(ttl), "lease": duration_text(lease),
                "takeover_after": duration_text(takeover_after), "on_unknown": on_unknown, "nonce": secrets.token_hex(16)}
        body.update({"key": key} if key is not None else {"inputs": inputs})
        if fingerprint is not None:
            body["fingerprint"] = fingerprint
        until = time.monotonic() + seconds(wait)
        while True:
            left = max(0.0, until - time.monotonic())
            try:
                status, answer = self._ask("POST", "/v1/claims", {**body, "wait": duration_text(left)}, waits=left)
            except OSError as error:
                return Claim(self, lease, None, Result("unavailable", error=error))
            if status == 200 and answer["status"] == "acquired":
                return Claim(self, lease, answer, None)
            again = status == 200 and answer["status"] == "in_progress" and time.monotonic() < until
            if not again:
                return Claim(self, lease, None, _result_of(status, answer))
            # The gateway's longest wait is shorter than the caller's, or too many clients were waiting there.
            time.sleep(min(max(0.0, until - time.monotonic()), answer["retry_after"], random.uniform(0.1, 1)))

    async def claim_async(self, **options: Any) -> Claim:
        # If the caller is cancelled, the work will not begin.
        claim: Claim = await in_thread(self.claim, abandoned=lambda claim: claim.acquired and claim.release(), **options)
        return claim

    def lookup(self, *, scope: str, key: str | None = None, inputs: Any = None, wait: Duration = 0) -> Result | None:
        """The state of the work, without claiming it. None: it was never claimed."""
        body = {"scope": scope, "wait": duration_text(wait)}
        body.update({"key": key} if key is not None else {"inputs": inputs})
        try:
            status, answer = self._ask("POST", "/v1/claims/lookup", body, waits=seconds(wait))
        except OSError as error:
            return Result("unavailable", error=error)
        return None if status == 200 and answer["status"] == "none" else _result_of(status, answer)

    def follow(self, *, scope: str, key: str | None = None, inputs: Any = None, wait: Duration = "5m") -> Following:
        """The progress of the work from its beginning, as its owner appends it: an iterator, also for `async for`.

        It ends when the work has ended, when its owner is gone, or after `wait`. The pieces of work that has succeeded are gone; the
        value is in `result`."""
        if (key is None) == (inputs is None):
            raise ValueError("say which piece of work it is with key= or inputs=, not with both")
        name = {"key": key} if key is not None else {"inputs": inputs}
        return Following(self._ask, _result_of, {"scope": scope, **name}, wait)

    def _ask(self, method, target, body, waits=0.0, patience=None, timeout=None):
        """Returns (status, answer). Repeats a request without an answer, or with one that asks for a retry; finally raises OSError."""
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
            # Full jitter, so that clients that failed together do not retry together.
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
                pass  # the gateway may refuse a body before its end, and then it has answered
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()


class Claim(running.Claim):
    """A thread renews its lease while it is held."""

    def __init__(self, client: ClaimsClient, lease: Duration, acquired: Any, result: Result | None) -> None:
        super().__init__(acquired is not None, result)
        self._client = client
        self._lease = lease
        self.lost = threading.Event()  # set when another attempt took over: the work may stop
        self._ended = threading.Event()
        self._appending = threading.Lock()
        self._appended = 0  # pieces of progress
        self._unanswered: list[Any] = []  # the last one, if it got no answer
        if acquired is not None:
            self.handle = acquired["claim"]
            self.attempt = acquired["attempt"]
            self.fence = acquired["fence"]
            threading.Thread(target=self._renew, daemon=True, name="once-renew").start()

    def succeed(self, value: Any, ttl: Duration | None = None) -> Result:
        body = {"value": value} if ttl is None else {"value": value, "ttl": duration_text(ttl)}
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            # Do not fail the claim: the work was done, and would be repeated at once.
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
        reason = type(error).__name__ if isinstance(error, BaseException) else str(error or "")
        if self._end("fail", {"reason": reason[:100]}) is None and self.result.status == "lost":
            return self.result
        return self._ended_with(Result("failed", attempt=self.attempt, error=error))

    def release(self) -> Result:
        if self._end("release", {}) is not None:
            self.result = Result("released", attempt=self.attempt)
        return self.result

    def progress(self, data: Any) -> bool:
        if not self.acquired:
            raise RuntimeError("this claim was not acquired")
        json.dumps(data, allow_nan=False)  # raises for a mistake in the program before anything is sent
        with self._appending:
            # The last piece may have been recorded. Send it again under its number first, or the next piece would be taken for it.
            return all(self._append(piece) for piece in [*self._unanswered, data])

    async def progress_async(self, data: Any) -> bool:
        recorded: bool = await in_thread(self.progress, data)
        return recorded

    def _append(self, data):
        if self.lost.is_set() or self._ended.is_set():
            return False
        self._unanswered = [data]
        try:
            status, _ = self._client._ask("POST", f"/v1/claims/{self.handle}/progress", {"number": self._appended, "data": data},
                                        patience=_PATIENCE_FOR_PROGRESS)
        except OSError:
            return False
        except OnceError as error:
            self._unanswered = []
            if error.status == 413:
                return False
            raise
        self._unanswered = []
        if status != 200:
            self.lost.set()
            return False
        self._appended += 1
        return True

    async def succeed_async(self, value: Any) -> Result:
        result: Result = await in_thread(self.succeed, value)
        return result

    async def fail_async(self, error: Any = None) -> Result:
        result: Result = await in_thread(self.fail, error)
        return result

    def _end(self, verb, body):
        """The answer, or None with the reason in self.result."""
        if not self.acquired:
            raise RuntimeError("this claim was not acquired")
        self._ended.set()
        try:
            status, answer = self._client._ask("POST", f"/v1/claims/{self.handle}/{verb}", body)
        except (OSError, OnceError) as error:
            self.result = Result("unavailable", attempt=self.attempt, error=error)
            return None
        if status == 200:
            return answer
        self.lost.set()
        self.result = Result("lost", attempt=self.attempt)
        return None

    def interrupted(self, error: BaseException) -> None:
        self._ended.set()
        self.result = Result("unknown", attempt=self.attempt, error=error)

    def _refused(self, value, error):
        return Result("unavailable", value=value, attempt=self.attempt, error=error, reason="value-refused", claim=self)

    def _ended_with(self, result):
        self.result = result
        return result

    def _renew(self):
        # Renews three times per lease, counted from when the last renewal was sent. One without an answer ends after half of that time, and
        # the next follows soon, so that several may fail before the lease ends.
        interval = seconds(self._lease) / 3
        pause = min(1.0, interval / 4)
        due = time.monotonic() + interval
        while not self._ended.wait(max(0.0, due - time.monotonic())):
            began = time.monotonic()
            try:
                status, _ = self._client._ask("POST", f"/v1/claims/{self.handle}/renew",
                                            {"lease": duration_text(self._lease)}, patience=0, timeout=interval / 2)
            except OSError:
                due = time.monotonic() + random.uniform(pause / 2, pause)
                continue
            except OnceError:
                status = None  # refused; a retry would be refused again
            if status == 409 and not self._ended.is_set():
                self.lost.set()
                return
            due = began + interval


def _result_of(status, answer):
    """The result for an answer without an acquired claim."""
    if status == 422:
        return Result("mismatch")
    if status != 200:
        code = answer.get("code", "")
        error = OnceError(status, code, answer.get("detail", ""))
        # The work succeeded, but its value was not kept.
        return Result("succeeded" if code == "response-not-kept" else "unavailable", cached=True, error=error)
    attempt = answer.get("attempt", 0)
    if answer["status"] == "succeeded":
        return Result("succeeded", value=answer["value"], cached=True, attempt=attempt)
    return Result(answer["status"], attempt=attempt, retry_after=answer.get("retry_after", 0))
