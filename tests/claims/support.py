"""The claims API of a real gateway, and a client that holds every answer against docs/reference/openapi.json."""
import dataclasses
import http.client
import json
import os
import pathlib
import secrets
import socket
import sys
import urllib.parse

import schema
from harness import EndToEnd, Gateway
from wire import DEADLINE

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bindings" / "python"))

# Nothing listens there: these tests send nothing to a backend.
NO_BACKEND = "http://127.0.0.1:9"


def nonce():
    return secrets.token_hex(16)


@dataclasses.dataclass
class Answer:
    status: int
    headers: dict
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)

    def __getitem__(self, name):
        return self.json[name]


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Api:
    """One connection a call, so that any number of threads may share it."""

    def __init__(self, address, token=None):
        self.address = address
        self.token = token

    @property
    def url(self):
        return self.address if self.address.startswith("unix:") else f"http://{self.address}"

    def connect(self):
        if self.address.startswith("unix:"):
            return UnixConnection(self.address.removeprefix("unix:"), DEADLINE)
        return http.client.HTTPConnection(self.address, timeout=DEADLINE)

    def ask(self, method, target, body=None, headers=None):
        headers = dict(headers or {})
        if self.token is not None:
            headers.setdefault("Authorization", f"Bearer {self.token}")
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
        connection = self.connect()
        try:
            connection.request(method, target, body, headers)
            got = connection.getresponse()
            answer = Answer(got.status, {name.lower(): value for name, value in got.getheaders()}, got.read())
        finally:
            connection.close()
        schema.check_response(method, target.split("?")[0], answer.status, answer.headers.get("content-type"),
                              answer.body)
        return answer

    def claim(self, scope="test", **members):
        return self.ask("POST", "/v1/claims", {"scope": scope, **members})

    def acquire(self, **members):
        answer = self.claim(**members)
        assert answer.status == 200 and answer["status"] == "acquired", answer
        return answer

    def lookup(self, scope="test", **query):
        return self.ask("GET", "/v1/claims?" + urllib.parse.urlencode({"scope": scope, **query}))

    def owner(self, verb, claim, **members):
        return self.ask("POST", f"/v1/claims/{claim}/{verb}", members or None)


class ClaimsTest(EndToEnd):
    """tokens: {tenant: token}. Without them the API is on a Unix socket."""

    def setUp(self):
        super().setUp()
        self.data = self.folder()

    def settings(self, tokens, listen):
        # A server may pause on a busy machine.
        options = [f"data_dir={self.data}", "timeouts.drain=70s", "server.timeout=1m", "server.connect_timeout=30s"]
        for tenant, token in tokens.items():
            file = self.data / f"{tenant}.token"
            file.write_text(token + "\n")
            file.chmod(0o600)
            options.append(f"claims.tokens.{tenant}={file}")
        return [*options, f"claims.listen={listen or ('127.0.0.1:0' if tokens else f'unix:{self.socket}')}"]

    @property
    def socket(self):
        return self.data / "claims.sock"

    def once(self, *settings, tokens=None, listen=None, clock=None):
        """A gateway, not waited for. The same data and secret each time in one test."""
        options = [part for setting in (*self.settings(tokens or {}, listen), *settings) for part in ("--set", setting)]
        environment = {**os.environ, "ONCE_SECRET": self.secret}
        gateway = Gateway("--upstream", NO_BACKEND, *options, env=environment, clock=clock)
        self.addCleanup(lambda: gateway.folder.exists() and gateway.stop())
        return gateway

    @property
    def secret(self):
        if not hasattr(self, "_secret"):
            self._secret = secrets.token_hex(16)
        return self._secret

    def start(self, *settings, **named):
        """The gateway, and its API without a token."""
        gateway = self.once(*settings, **named).wait_listening()
        line = next(line for line in gateway.log_lines() if line["message"] == "listening")
        return gateway, Api(line["claims"])

    def api(self, *settings, **named):
        return self.start(*settings, **named)[1]
