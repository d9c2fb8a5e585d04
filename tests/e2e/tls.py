"""Certificates, clients and backends for tests of TLS. The certificates are made by `openssl`, the rest is Python's own."""
import contextlib
import datetime
import pathlib
import select
import socket
import ssl
import subprocess
import threading

from wire import DEADLINE, Backend, Client, created

NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def openssl(*arguments, **named):
    return subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=DEADLINE, **named)


class Authority:
    """Signs certificates: NAME.pem with its key in NAME.key, in one folder."""

    def __init__(self, folder, name="ca"):
        self.folder = pathlib.Path(folder)
        self.name = name
        openssl("req", "-x509", *NEW_KEY, "-subj", f"/CN={name}", "-keyout", self.path(f"{name}.key"), "-out", self.file)

    def path(self, name):
        return str(self.folder / name)

    @property
    def file(self):
        return self.path(f"{self.name}.pem")

    def issue(self, name, alt_names="", subject=None, days=2):
        """Negative days: it has expired. Returns the files of the certificate and of its key."""
        key, request, certificate = (self.path(f"{name}.{kind}") for kind in ("key", "csr", "pem"))
        extra = ("-addext", f"subjectAltName={alt_names}") if alt_names else ()
        openssl("req", *NEW_KEY, "-subj", subject or f"/CN={name}", *extra, "-keyout", key, "-out", request)
        openssl("x509", "-req", "-in", request, "-CA", self.file, "-CAkey", self.path(f"{self.name}.key"),
                "-copy_extensions", "copyall", "-days", str(days), "-out", certificate)
        pathlib.Path(key).chmod(0o600)
        return certificate, key

    def revocation_list(self, *revoked, name="crl.pem", seconds=86400):
        """A list of these certificates (files). Negative seconds: it has expired."""
        settings, index = pathlib.Path(self.path("ca.cnf")), pathlib.Path(self.path("index.txt"))
        settings.write_text(f"[ca]\ndefault_ca=ours\n[ours]\ndatabase={index}\ndefault_md=sha256\n")
        index.write_text("")
        signer = ("-config", settings, "-cert", self.file, "-keyfile", self.path(f"{self.name}.key"))
        for certificate in revoked:
            openssl("ca", *signer, "-revoke", certificate)
        now = datetime.datetime.now(datetime.timezone.utc)
        dates = (now - datetime.timedelta(days=2), now + datetime.timedelta(seconds=seconds))
        last, following = (f"{date:%Y%m%d%H%M%SZ}" for date in dates)
        openssl("ca", *signer, "-gencrl", "-crl_lastupdate", last, "-crl_nextupdate", following, "-out", self.path(name))
        return self.path(name)

    def trusting(self, certificate=None, **settings):
        """A client's context that trusts this authority; it may show a certificate of its own."""
        context = ssl.create_default_context(cafile=self.file)
        if certificate:
            context.load_cert_chain(*certificate)
        for name, value in settings.items():
            setattr(context, name, value)
        return context

    def serving(self, certificate, client_authority=None):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        if client_authority:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(client_authority.file)
        return context


class ClientSocket(ssl.SSLSocket):
    """One thread may send while another receives. OpenSSL wants a connection to be used by one at a time, and Python
    leaves that to us: without turns, a receive is now and then told of an end that never came."""

    def take_turns(self, timeout):
        self.turn = threading.Lock()
        self.limit = timeout
        self.settimeout(0)

    def recv(self, size):
        return self._in_turn(super().recv, size)

    def sendall(self, data):
        rest = memoryview(data)
        while rest:
            rest = rest[self._in_turn(super().send, rest[:65536]):]

    def unwrap(self):
        return self._in_turn(super().unwrap)

    def _in_turn(self, act, *arguments):
        while True:
            with self.turn:
                try:
                    return act(*arguments)
                except ssl.SSLWantReadError:
                    wanted = ([self], [], [])
                except ssl.SSLWantWriteError:
                    wanted = ([], [self], [])
            if not any(select.select(*wanted, self.limit)):
                raise TimeoutError("timed out")


class TlsClient(Client):
    """One secure connection to the gateway. An end that was not announced raises SSLEOFError."""

    def __init__(self, port, context, name="localhost", timeout=DEADLINE):
        super().__init__(port, timeout)
        context.sslsocket_class = ClientSocket
        try:
            self.sock = context.wrap_socket(self.sock, server_hostname=name, suppress_ragged_eofs=False)
        except (ssl.SSLError, OSError):
            self.sock.close()
            raise
        self.sock.take_turns(timeout)

    def end(self):
        """Announces the end of what this side says."""
        with contextlib.suppress(OSError):
            self.sock.unwrap()


class TlsBackend(Backend):
    """A backend that speaks TLS. `context` may be replaced: the next connection uses it."""

    def __init__(self, context, handler=created, name="localhost", **named):
        self.context = context
        self.name = name  # that the gateway is told
        self.handshakes = []  # True: the session of an earlier one was taken up
        self.refused = []  # errors of handshakes that failed
        super().__init__(handler, **named)

    @property
    def origin(self):
        return f"https://{self.name}:{self.port}"

    def _serve(self, connection):
        try:
            connection.sock = self.context.wrap_socket(connection.sock, server_side=True)
        except OSError as error:  # ssl.SSLError is one
            self.refused.append(error)
            connection.sock.close()
            return
        self._socks.append(connection.sock)
        connection.stream.sock = connection.sock
        self.handshakes.append(connection.sock.session_reused)
        super()._serve(connection)


def cut(connection):
    """Ends the connection as somebody on the way could: no end is announced."""
    connection.open = False
    connection.sock.shutdown(socket.SHUT_RDWR)


def end(connection):
    """Announces the end."""
    connection.open = False
    with contextlib.suppress(OSError):
        connection.sock.unwrap()
