"""One try of a request, over httpx, requests or the standard library. None of them follows redirects or retries by itself.

Each says which of two things a failure was: nothing was sent, or the request may have been executed. send() returns the whole answer.
open() returns one whose body is read as it comes, undecoded: read() gives b"" at its clean end, and raises if it is cut off.
"""
from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import sys
import urllib.parse
from typing import Any, AsyncIterator, Iterator, Mapping, NamedTuple

from once.threads import in_thread

_READ = 16 << 10


class Reply(NamedTuple):
    status: int
    headers: Any  # get() takes names in any case
    body: bytes


class Failed(Exception):
    """A try without a complete answer. sent: it may have been executed; final: every other try would fail in the same way; idle: no bytes
    arrived for too long."""

    def __init__(self, error: BaseException, sent: bool, final: bool = False, idle: bool = False) -> None:
        super().__init__(f"{type(error).__name__}: {error}")
        self.sent = sent
        self.final = final
        self.idle = idle


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
    """Without importing the module: the creator of the session has imported it."""
    kind = getattr(sys.modules.get(module), name, None)
    return kind is not None and isinstance(session, kind)


class _Standard:
    """One connection per try: if a server closed an idle one as the request goes out, the outcome would be unknown."""

    def __init__(self, url: urllib.parse.SplitResult, context: ssl.SSLContext | None) -> None:
        self._url = url
        self._context = context

    def send(self, method: str, url: str, fields: Mapping[str, str], body: bytes | None, timeout: float) -> Reply:
        with contextlib.closing(self.open(method, url, fields, body, timeout)) as got:
            return Reply(got.status, got.headers, b"".join(iter(got.read, b"")))

    def open(self, method: str, _: str, fields: Mapping[str, str], body: bytes | None, timeout: float) -> _OpenStandard:
        sent = False
        target = (self._url.path or "/") + (f"?{self._url.query}" if self._url.query else "")
        connection = self._connection(timeout)
        try:
            connection.connect()
            sent = True
            # A server may refuse a body before its end, and then it has answered.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.request(method, target, body, dict(fields))
            sock = connection.sock
            return _OpenStandard(connection, sock, connection.getresponse())
        except ssl.SSLCertVerificationError as error:
            connection.close()
            raise Failed(error, sent, final=True) from error
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise Failed(error, sent) from error
        except BaseException:
            connection.close()
            raise

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        if self._context is not None:
            return http.client.HTTPSConnection(self._url.netloc, timeout=timeout, context=self._context)
        return http.client.HTTPConnection(self._url.netloc, timeout=timeout)


class _OpenStandard:
    def __init__(self, connection: http.client.HTTPConnection, sock: Any, got: http.client.HTTPResponse) -> None:
        self.status = got.status
        self.headers = got.headers
        self._connection = connection
        self._socket = sock
        self._got = got
        self._left = got.length  # None: the body is chunked, or ends with the connection

    def read(self) -> bytes:
        if self._left == 0:
            return b""
        try:
            part = self._got.read1(_READ)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Failed(error, sent=True, idle=isinstance(error, socket.timeout)) from error
        self._left = _counted(self._left, part)
        return part

    def close(self) -> None:
        self._got.close()
        self._connection.close()

    def interrupt(self) -> None:
        """Ends a read() in another thread."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)


def _counted(left: int | None, part: bytes) -> int | None:
    """The remaining length of the body, if it is known, after this part."""
    if left is None:
        return None
    if not part and left > 0:
        raise Failed(EOFError(f"{left} bytes of the body did not come"), sent=True)
    return left - len(part)


class _InThread:
    def __init__(self, transport: _Standard) -> None:
        self._transport = transport

    async def open(self, *arguments: Any) -> _OpenInThread:
        return _OpenInThread(await in_thread(self._transport.open, *arguments, abandoned=lambda opened: opened.close()))

    async def send(self, *arguments: Any) -> Reply:
        reply: Reply = await in_thread(self._transport.send, *arguments, abandoned=lambda _: None)
        return reply


class _OpenInThread:
    def __init__(self, opened: _OpenStandard) -> None:
        self.status = opened.status
        self.headers = opened.headers
        self._opened = opened
        self._is_reading = False
        self._is_closed = False

    async def read(self) -> bytes:
        part: bytes = await in_thread(self._read, abandoned=lambda _: None)
        return part

    def _read(self) -> bytes:
        self._is_reading = True
        try:
            return self._opened.read()
        finally:
            self._is_reading = False
            if self._is_closed:
                self._opened.close()

    def interrupt(self) -> None:
        self._opened.interrupt()

    async def close(self) -> None:
        self._is_closed = True
        self._opened.interrupt()
        if not self._is_reading:  # else the thread closes it
            self._opened.close()


class _Requests:
    def __init__(self, session: Any) -> None:
        self._session = session

    def send(self, method: str, url: str, fields: Mapping[str, str], body: bytes | None, timeout: float) -> Reply:
        got = self._request(method, url, fields, body, timeout)
        _refuse_half(method, got)
        return Reply(got.status_code, got.headers, got.content)

    def open(self, method: str, url: str, fields: Mapping[str, str], body: bytes | None, timeout: float) -> _OpenRequests:
        return _OpenRequests(method, self._request(method, url, fields, body, timeout, stream=True))

    def _request(self, method: str, url: str, fields: Mapping[str, str], body: bytes | None, timeout: float, stream: bool = False) -> Any:
        import requests
        try:
            return self._session.request(method, url, data=body, headers=dict(fields), timeout=timeout, allow_redirects=False,
                                         stream=stream)
        except requests.exceptions.SSLError as error:
            raise Failed(error, sent=False, final="CERTIFICATE_VERIFY_FAILED" in str(error)) from error
        except (requests.exceptions.ConnectTimeout, requests.exceptions.InvalidProxyURL) as error:
            raise Failed(error, sent=False) from error
        except requests.exceptions.ConnectionError as error:
            raise Failed(error, sent=not _never_connected(error)) from error
        except requests.exceptions.RequestException as error:
            raise Failed(error, sent=True) from error


class _OpenRequests:
    def __init__(self, method: str, got: Any) -> None:
        self.status = got.status_code
        self.headers = got.headers
        self._got = got
        length = got.headers.get("Content-Length", "")
        has_body = method != "HEAD" and self.status not in (204, 304)
        self._left = int(length) if has_body and length.isdigit() else None
        self._parts = got.raw.stream(_READ, decode_content=False)

    def read(self) -> bytes:
        import urllib3
        try:
            part: bytes = next(self._parts, b"")
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise Failed(error, sent=True, idle=isinstance(error, urllib3.exceptions.ReadTimeoutError)) from error
        self._left = _counted(self._left, part)
        return part

    def close(self) -> None:
        self._got.close()


def _refuse_half(method: str, got: Any) -> None:
    """requests accepts a response as complete even if its connection ended before its Content-Length."""
    length = got.headers.get("Content-Length", "")
    read = getattr(got.raw, "tell", lambda: None)()
    if read is None or not length.isdigit() or method == "HEAD" or got.status_code in (204, 304):
        return
    if read < int(length):
        raise Failed(EOFError(f"{read} of {length} bytes came"), sent=True)


def _never_connected(error: BaseException) -> bool:
    """requests has one ConnectionError for all failures; urllib3's reason inside it distinguishes them."""
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


    def open(self, method: str, url: str, fields: Mapping[str, str], body: bytes | None, timeout: float) -> _OpenHttpx:
        import httpx
        try:
            request = self._client.build_request(method, url, content=body, headers=dict(fields), timeout=timeout)
            return _OpenHttpx(self._client.send(request, stream=True, follow_redirects=False))
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise _httpx_failure(error) from error


class _OpenHttpx:
    def __init__(self, got: Any) -> None:
        self.status = got.status_code
        self.headers = got.headers
        self._got = got
        self._parts = got.iter_raw()

    def read(self) -> bytes:
        import httpx
        try:
            return next(self._parts, b"")
        except httpx.HTTPError as error:
            raise _httpx_failure(error) from error

    def close(self) -> None:
        self._got.close()


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


    async def open(self, method: str, url: str, fields: Mapping[str, str], body: bytes | None, timeout: float) -> _OpenAsyncHttpx:
        import httpx
        try:
            request = self._client.build_request(method, url, content=body, headers=dict(fields), timeout=timeout)
            return _OpenAsyncHttpx(await self._client.send(request, stream=True, follow_redirects=False))
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise _httpx_failure(error) from error


class _OpenAsyncHttpx:
    def __init__(self, got: Any) -> None:
        self.status = got.status_code
        self.headers = got.headers
        self._got = got
        self._parts = got.aiter_raw()

    async def read(self) -> bytes:
        import httpx
        try:
            part: bytes = await self._parts.__anext__()
            return part
        except StopAsyncIteration:
            return b""
        except httpx.HTTPError as error:
            raise _httpx_failure(error) from error

    async def close(self) -> None:
        await self._got.aclose()


def _httpx_failure(error: Exception) -> Failed:
    import httpx
    unsent = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError, httpx.UnsupportedProtocol,
              httpx.InvalidURL)
    return Failed(error, sent=not isinstance(error, unsent), final="CERTIFICATE_VERIFY_FAILED" in str(error),
                  idle=isinstance(error, httpx.ReadTimeout))
