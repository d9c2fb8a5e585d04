"""One try of a request, over httpx, requests or the standard library. None of them follows redirects or retries by itself.

Each says which of two things a failure was: nothing was sent, or the request may have been executed.
"""
from __future__ import annotations

import contextlib
import http.client
import ssl
import sys
import urllib.parse
from typing import Any, AsyncIterator, Iterator, Mapping, NamedTuple

from once.threads import in_thread


class Reply(NamedTuple):
    status: int
    headers: Any  # get() takes names in any case
    body: bytes


class Failed(Exception):
    """A try without a whole answer. sent: it may have been executed; final: every other try would fail in the same way."""

    def __init__(self, error: BaseException, sent: bool, final: bool = False) -> None:
        super().__init__(f"{type(error).__name__}: {error}")
        self.sent = sent
        self.final = final


@contextlib.contextmanager
def sync_transport(url: urllib.parse.SplitResult, session: Any, ca_file: str | None,
                   ssl_context: ssl.SSLContext | None) -> Iterator[Any]:
    if session is None:
        yield _Standard(url, _context(url, ca_file, ssl_context))
        return
    _refuse_certificates(ca_file, ssl_context)
    if _is_a(session, "requests", "Session"):
        yield _Requests(session)
    elif _is_a(session, "httpx", "Client"):
        yield _Httpx(session)
    else:
        raise TypeError(f"the session is a requests.Session or an httpx.Client, not {type(session).__name__}")


@contextlib.asynccontextmanager
async def async_transport(url: urllib.parse.SplitResult, session: Any, ca_file: str | None,
                          ssl_context: ssl.SSLContext | None) -> AsyncIterator[Any]:
    if session is not None:
        _refuse_certificates(ca_file, ssl_context)
        if not _is_a(session, "httpx", "AsyncClient"):
            raise TypeError(f"the session is an httpx.AsyncClient, not {type(session).__name__}")
        yield _AsyncHttpx(session)
        return
    context = _context(url, ca_file, ssl_context)
    try:
        import httpx
    except ImportError:
        yield _InThread(_Standard(url, context))
        return
    async with httpx.AsyncClient(verify=context or True) as client:
        yield _AsyncHttpx(client)


def _refuse_certificates(ca_file: str | None, ssl_context: ssl.SSLContext | None) -> None:
    if ca_file is not None or ssl_context is not None:
        raise ValueError("the session decides which certificates are trusted: leave out ca_file and ssl_context")


def _context(url: urllib.parse.SplitResult, ca_file: str | None, ssl_context: ssl.SSLContext | None) -> ssl.SSLContext | None:
    if ca_file is not None and ssl_context is not None:
        raise ValueError("give ca_file or ssl_context, not both: load the file into the context")
    return ssl_context or (ssl.create_default_context(cafile=ca_file) if url.scheme == "https" else None)


def _is_a(session: Any, module: str, name: str) -> bool:
    """Without importing the module: whoever made the session has."""
    kind = getattr(sys.modules.get(module), name, None)
    return kind is not None and isinstance(session, kind)


class _Standard:
    """A connection per try: a server that closes an idle one as the request goes out would look like an unknown outcome."""

    def __init__(self, url: urllib.parse.SplitResult, context: ssl.SSLContext | None) -> None:
        self._url = url
        self._context = context

    def send(self, method: str, _: str, fields: Mapping[str, str], body: bytes | None, timeout: float) -> Reply:
        sent = False
        target = (self._url.path or "/") + (f"?{self._url.query}" if self._url.query else "")
        connection = self._connection(timeout)
        try:
            connection.connect()
            sent = True
            # A server may refuse a body before its end, and then it has answered.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.request(method, target, body, dict(fields))
            got = connection.getresponse()
            return Reply(got.status, got.headers, got.read())
        except ssl.SSLCertVerificationError as error:
            raise Failed(error, sent, final=True) from error
        except (OSError, http.client.HTTPException) as error:
            raise Failed(error, sent) from error
        finally:
            connection.close()

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        if self._context is not None:
            return http.client.HTTPSConnection(self._url.netloc, timeout=timeout, context=self._context)
        return http.client.HTTPConnection(self._url.netloc, timeout=timeout)


class _InThread:
    def __init__(self, transport: _Standard) -> None:
        self._transport = transport

    async def send(self, *arguments: Any) -> Reply:
        reply: Reply = await in_thread(self._transport.send, *arguments, abandoned=lambda _: None)
        return reply


class _Requests:
    def __init__(self, session: Any) -> None:
        self._session = session

    def send(self, method: str, url: str, fields: Mapping[str, str], body: bytes | None, timeout: float) -> Reply:
        import requests
        try:
            got = self._session.request(method, url, data=body, headers=dict(fields), timeout=timeout, allow_redirects=False)
            _refuse_half(method, got)
            return Reply(got.status_code, got.headers, got.content)
        except requests.exceptions.SSLError as error:
            raise Failed(error, sent=False, final="CERTIFICATE_VERIFY_FAILED" in str(error)) from error
        except (requests.exceptions.ConnectTimeout, requests.exceptions.InvalidProxyURL) as error:
            raise Failed(error, sent=False) from error
        except requests.exceptions.ConnectionError as error:
            raise Failed(error, sent=not _never_connected(error)) from error
        except requests.exceptions.RequestException as error:
            raise Failed(error, sent=True) from error


def _refuse_half(method: str, got: Any) -> None:
    """requests takes a response for whole whose connection ended before its Content-Length."""
    length = got.headers.get("Content-Length", "")
    read = getattr(got.raw, "tell", lambda: None)()
    if read is None or not length.isdigit() or method == "HEAD" or got.status_code in (204, 304):
        return
    if read < int(length):
        raise Failed(EOFError(f"{read} of {length} bytes came"), sent=True)


def _never_connected(error: BaseException) -> bool:
    """requests has one ConnectionError for everything; urllib3's reason inside it tells them apart."""
    reason = getattr(error.args[0] if error.args else None, "reason", None)
    return type(reason).__name__ in ("NewConnectionError", "ConnectTimeoutError", "NameResolutionError")


class _Httpx:
    def __init__(self, client: Any) -> None:
        self._client = client

    def send(self, method: str, url: str, fields: Mapping[str, str], body: bytes | None, timeout: float) -> Reply:
        import httpx
        try:
            got = self._client.request(method, url, content=body, headers=dict(fields), timeout=timeout, follow_redirects=False)
            return Reply(got.status_code, got.headers, got.content)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise _httpx_failure(error) from error


class _AsyncHttpx:
    def __init__(self, client: Any) -> None:
        self._client = client

    async def send(self, method: str, url: str, fields: Mapping[str, str], body: bytes | None, timeout: float) -> Reply:
        import httpx
        try:
            got = await self._client.request(method, url, content=body, headers=dict(fields), timeout=timeout,
                                             follow_redirects=False)
            return Reply(got.status_code, got.headers, got.content)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise _httpx_failure(error) from error


def _httpx_failure(error: Exception) -> Failed:
    import httpx
    unsent = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError, httpx.UnsupportedProtocol,
              httpx.InvalidURL)
    return Failed(error, sent=not isinstance(error, unsent), final="CERTIFICATE_VERIFY_FAILED" in str(error))
