#!/usr/bin/python3
"""Runs declarative cases of Durable Streams against a server, with raw requests and without a client library.

    conform.py --url http://127.0.0.1:8080 cases/*.yaml        needs Debian's python3-yaml

Two dialects: a bare list of tests with `capture`, `expect.headers`, `expect.chunks` and `errorCode`, as the proposal for
Idempotency-Key has them, and suites with `tests`, `as`, `storeOffsetAs` and `chunkCount`, as the protocol's client suites have. An
action or an expectation that is not known is an error: nothing is skipped in silence.
"""
import argparse
import base64
import json
import re
import socket
import sys
import urllib.parse
import uuid

import yaml

SECONDS = 30
STATUS_ONLY = {"append", "close", "delete"}  # whose 200 in a suite is any 2xx: client libraries do not tell them apart
BODY = {"append", "server-append", "create", "close"}


class Failed(Exception):
    """A server did not do what a case expects."""


class Answer:
    def __init__(self, raw):
        head, _, body = raw.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        self.status = int(first.split(" ")[1])
        self.headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            self.headers[name.strip().lower()] = value.strip()
        self.body = unchunked(body) if self.headers.get("transfer-encoding") == "chunked" else body

    def json(self):
        try:
            return json.loads(self.body)
        except ValueError:
            raise Failed(f"no JSON: {self.body[:200]!r}") from None


def unchunked(body):
    whole = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        whole += body[:int(size, 16)]
        body = body[int(size, 16) + 2:]
    return whole


def send(address, method, target, headers, body):
    """Header values are sent unchanged."""
    fields = {"Host": f"{address[0]}:{address[1]}", "Connection": "close", **headers}
    if body is not None:
        fields["Content-Length"] = len(body)
    head = f"{method} {target} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in fields.items()) + "\r\n"
    with socket.create_connection(address, SECONDS) as connection:
        connection.sendall(head.encode("latin-1") + (body or b""))
        raw = b""
        while data := connection.recv(65536):
            raw += data
    return Answer(raw)


class Run:
    """One test: its variables and the data it has appended."""

    def __init__(self, url, wire_level):
        parts = urllib.parse.urlsplit(url)
        self.address, self.base = (parts.hostname, parts.port), parts.path.rstrip("/")
        self.wire_level = wire_level
        self.values = {"streamPath": f"/test-stream-{uuid.uuid4()}"}
        self.types = {}
        self.appended = []

    def value(self, text):
        """Replaces every ${name}; an unknown name is an error."""
        def resolve(match):
            if match[1] == "randomUUID":
                return str(uuid.uuid4())
            if match[1] not in self.values:
                raise Failed(f"${{{match[1]}}} is not set")
            return str(self.values[match[1]])

        return re.sub(r"\$\{([^}]+)\}", resolve, text) if isinstance(text, str) else text

    def do(self, operation):
        action = operation["action"]
        if action == "set":
            self.values[operation["name"]] = self.value(operation["value"]) if "value" in operation else \
                operation["repeat"] * operation["times"]
        elif action == "assert":
            self.compare(operation)
        elif action in METHODS:
            answer = self.ask(action, operation)
            self.check(action, operation, answer)
        else:
            raise Failed(f"the action {action} is not known")

    def compare(self, operation):
        for kind, both in operation.items():
            if kind == "action":
                continue
            left, right = self.value(both["left"]), self.value(both["right"])
            holds = {"equals": left == right, "notEquals": left != right, "contains": right in left}[kind]
            if not holds:
                raise Failed(f"{left!r} {kind} {right!r} does not hold")

    def ask(self, action, operation):
        path = self.value(operation.get("path", self.values["streamPath"]))
        headers = {name: self.value(value) for name, value in operation.get("headers", {}).items()}
        body = self.body(operation) if action in BODY else None
        target = self.base + path
        if action == "read":
            target += "?" + urllib.parse.urlencode({"offset": self.value(operation.get("offset", "-1"))})
        if kind := operation.get("contentType", self.types.get(path) if action in BODY else None):
            headers.setdefault("Content-Type", kind)
        for setting, name in HEADERS.items():
            if setting in operation:
                headers.setdefault(name, operation[setting])
        if action == "close" or operation.get("closed"):
            headers.setdefault("Stream-Closed", "true")
        answer = send(self.address, METHODS[action], target, headers, body)
        if action == "create":
            self.types[path] = answer.headers.get("content-type", "application/octet-stream")
            self.values[operation.get("as", "stream")] = path
        elif action in ("append", "server-append"):
            self.appended.append(body)
        return answer

    def body(self, operation):
        if "json" in operation:
            return json.dumps(operation["json"]).encode()
        if "binaryData" in operation:
            return base64.b64decode(operation["binaryData"])
        return self.value(operation.get("data", "")).encode()

    def check(self, action, operation, answer):
        for name, expected in operation.get("expect", {}).items():
            if name not in EXPECTATIONS:
                raise Failed(f"the expectation {name} is not known")
            found = EXPECTATIONS[name](self, answer, expected, action)
            if found is not None:
                raise Failed(f"{action}: {name} should be {expected!r}, is {found!r} ({answer.status} {answer.body[:200]!r})")
        for name, source in operation.get("capture", {}).items():
            kind, _, field = source.partition(".")
            if kind != "headers" or field.lower() not in answer.headers:
                raise Failed(f"nothing to capture: {source}")
            self.values[name] = answer.headers[field.lower()]

    # Each of these returns the difference as text, or None.

    def status(self, answer, expected, action):
        if not self.wire_level and expected == 200 and action in STATUS_ONLY:
            return None if answer.status // 100 == 2 else answer.status
        return differs(answer.status, expected)

    def fields(self, answer, expected, _):
        """A field that should be null must not be there."""
        found = {name: answer.headers.get(name.lower()) for name in expected}
        return differs(found, {name: self.value(value) for name, value in expected.items()})

    def subset(self, answer, expected, _):
        document = answer.json()
        return differs({name: document.get(name) for name in expected}, expected)

    def chunks(self, answer, expected, _):
        return differs(self.count(answer), expected)

    def count(self, answer):
        """Messages of a JSON stream; of bytes, how many of the pieces that were sent they are made of."""
        if answer.headers.get("content-type", "").startswith("application/json"):
            return len(answer.json())
        rest, count = answer.body, 0
        while rest:
            piece = next((piece for piece in self.appended if piece and rest.startswith(piece)), None)
            if piece is None:
                raise Failed(f"bytes that nobody sent: {rest[:200]!r}")
            rest, count = rest[len(piece):], count + 1
        return count

    def data(self, answer, expected, _):
        if answer.headers.get("content-type", "").startswith("application/json"):
            return differs(answer.json(), json.loads(expected))
        return differs(answer.body.decode(), expected)

    def contains(self, answer, expected, _):
        wanted = expected if isinstance(expected, list) else [expected]
        return None if all(text in answer.body.decode() for text in wanted) else answer.body.decode()

    def store_offset(self, answer, expected, _):
        self.values[expected] = answer.headers.get("stream-next-offset")
        return None if self.values[expected] else "no Stream-Next-Offset"


def differs(found, expected):
    return None if found == expected else found


def header_is(name):
    """A header that is a flag: "true" or not there."""
    return lambda run, answer, expected, action: differs(answer.headers.get(name) == "true", expected)


METHODS = {"create": "PUT", "append": "POST", "server-append": "POST", "close": "POST", "read": "GET", "head": "HEAD",
           "delete": "DELETE"}
HEADERS = {"seq": "Stream-Seq", "ttlSeconds": "Stream-TTL", "expiresAt": "Stream-Expires-At", "producerId": "Producer-Id",
           "producerEpoch": "Producer-Epoch", "producerSeq": "Producer-Seq"}
EXPECTATIONS = {
    "status": Run.status, "headers": Run.fields, "body": Run.subset, "chunks": Run.chunks, "chunkCount": Run.chunks,
    "data": Run.data, "dataContains": Run.contains, "dataContainsAll": Run.contains, "storeOffsetAs": Run.store_offset,
    "errorCode": lambda run, answer, expected, action: differs(answer.json().get("code"), expected),
    "contentType": lambda run, answer, expected, action: differs(answer.headers.get("content-type"), expected),
    "hasOffset": lambda run, answer, expected, action: differs("stream-next-offset" in answer.headers, expected),
    "upToDate": header_is("stream-up-to-date"), "streamClosed": header_is("stream-closed"),
}


def tests_of(document):
    """(id, steps, whether its statuses are those on the wire) of either dialect."""
    for test in document if isinstance(document, list) else document["tests"]:
        yield test["id"], [*test.get("setup", []), *test["operations"], *test.get("cleanup", [])], isinstance(document, list)


def run_file(url, path):
    """{id: None, or what went wrong}"""
    with open(path, encoding="utf-8") as file:
        document = yaml.safe_load(file)
    results = {}
    for name, steps, wire_level in tests_of(document):
        run = Run(url, wire_level)
        try:
            for step in steps:
                run.do(step)
            results[name] = None
        except Failed as failure:
            results[name] = str(failure)
    return results


def main():
    parser = argparse.ArgumentParser(description="Runs declarative cases of Durable Streams.")
    parser.add_argument("--url", required=True, help="with the path that streams are under")
    parser.add_argument("files", nargs="+")
    given = parser.parse_args()
    failed = 0
    for path in given.files:
        for name, failure in run_file(given.url, path).items():
            print(f"{'failed' if failure else 'passed'}  {name}{': ' + failure if failure else ''}")
            failed += failure is not None
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
