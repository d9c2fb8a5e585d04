"""Independent strict readers of HTTP/1.1, to ask what a stream of bytes means: Node's parser (llhttp) and nginx.

read(bytes) returns the requests that the reader saw in one connection, in order, and whether it found the stream wrong.
"""
import dataclasses
import hashlib
import json
import pathlib
import queue
import shutil
import socket
import subprocess
import tempfile
import threading

from wire import DEADLINE, Backend, Stream, wait_until

# Behind a stream that ends with a whole request. A reader that does not see it as it is has framed that one wrongly.
LAST = b"GET /last HTTP/1.1\r\nHost: reader.test\r\nConnection: close\r\n\r\n"


@dataclasses.dataclass(frozen=True)
class Seen:
    """What a reader takes for one request."""
    method: str
    target: str
    body: str  # SHA-256
    fields: tuple  # (name, value) of those that a generated request has of its own: X-F-…


def own_fields(pairs):
    return tuple((name.lower(), value.strip(" \t")) for name, value in pairs if name.lower().startswith("x-f-"))


def sha256(data):
    return hashlib.sha256(data).hexdigest()


@dataclasses.dataclass
class Reading:
    requests: list
    problem: str | None = None


def converse(port, data, whole):
    """Sends it all, reads to the end, and returns the port it was sent from."""
    with socket.create_connection(("127.0.0.1", port), DEADLINE) as sock:
        def send():
            try:
                sock.sendall(data + (LAST if whole else b""))
                if not whole:
                    sock.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # refused before its end, which shows in what was read

        sender = threading.Thread(target=send, daemon=True)
        sender.start()
        try:
            Stream(sock).read_to_end()
        except ConnectionResetError:
            pass
        sender.join(DEADLINE)
        return sock.getsockname()[1]


def without_last(seen, problem, whole):
    if not whole:
        return Reading(seen, problem)
    if problem is None and not (seen and seen[-1].target == "/last"):
        problem = "the request behind the last one was not seen"
    return Reading(seen[:-1], problem)


class NodeReader:
    def __init__(self):
        script = pathlib.Path(__file__).with_name("framing_reader.js")
        self.process = subprocess.Popen(["node", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())
        self._lines = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            self._lines.put(json.loads(line))

    def read(self, data, whole):
        port = converse(self.port, data, whole)
        # Node writes a request's line before it answers, and an unfinished one's as it sees the end of the stream.
        seen, problem = {}, None
        marker = converse(self.port, b"", True)
        while True:
            line = self._lines.get(timeout=DEADLINE)
            if line["port"] == marker:
                break
            if line["port"] != port:
                problem = f"a line of another connection: {line}"
            elif "problem" in line:
                problem = line["problem"]
            else:
                fields = zip(line["fields"][::2], line["fields"][1::2])
                seen[line["number"]] = Seen(line["method"], line["target"], line["body"], own_fields(fields))
        return without_last([seen[number] for number in sorted(seen)], problem, whole)

    def stop(self):
        self.process.stdin.close()
        self.process.wait(DEADLINE)
        self._reader.join(DEADLINE)
        self.process.stdout.close()


NGINX = """
daemon off;
master_process off;
pid {folder}/pid;
error_log stderr info;  # says why a request is refused
events {{}}
http {{
  log_format seen escape=json '{{"status":"$status","method":"$request_method","target":"$request_uri"}}';
  access_log {folder}/access seen;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  large_client_header_buffers 8 64k;
  client_max_body_size 0;
  keepalive_requests 1000000;
  underscores_in_headers on;
  merge_slashes off;
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://127.0.0.1:{backend};
      proxy_ignore_client_abort on;
    }}
  }}
}}
"""


class NginxReader:
    """nginx as a proxy in front of a recorder: what it passes on is what it has read, whole."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="once-e2e-"))
        self.recorder = Backend(lambda _, to: to.reply(200))
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        (self.folder / "nginx.conf").write_text(
            NGINX.format(folder=self.folder, port=self.port, backend=self.recorder.port))
        self._err = open(self.folder / "stderr", "wb")
        command = ["setpriv", "--pdeathsig", "KILL", "nginx", "-p", self.folder, "-e", "stderr", "-c",
                   self.folder / "nginx.conf"]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self._err, stderr=self._err)
        wait_until(self._listens, what="nginx to listen")
        self._lines = 0
        converse(self.port, b"", True)
        self._logged(1)

    def _listens(self):
        if self.process.poll() is not None:
            raise AssertionError((self.folder / "stderr").read_text())
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True

    def _logged(self, least):
        """The lines since the last look, once there are that many."""
        def lines():
            found = (self.folder / "access").read_text().splitlines(keepends=True)[self._lines:]
            return found if len(found) >= least and all(line.endswith("\n") for line in found) else None

        found = wait_until(lines, what="the lines of nginx's access log")
        self._lines += len(found)
        return [json.loads(line) for line in found]

    def read(self, data, whole):
        before = len(self.recorder.requests)
        converse(self.port, data, whole)
        converse(self.port, b"", True)  # its line is logged behind those of the stream
        passed = self.recorder.requests[before:-1]
        lines = self._logged(len(passed) + 1)[:-1]
        problem = next((self._reason(line) for line in lines if line["status"] != "200"), None)
        seen = [Seen(each.method, each.target, sha256(each.body), own_fields(each.fields)) for each in passed
                if each.complete]
        return without_last(seen, problem, whole)

    def _reason(self, line):
        told = (self.folder / "stderr").read_text(errors="replace").splitlines()
        why = next((text for text in reversed(told) if "client sent" in text), "")
        return f"{why.partition('client sent ')[2]}: nginx answered {line['status']} for {line['target']!r}"

    def stop(self):
        self.process.terminate()
        self.process.wait(DEADLINE)
        self._err.close()
        self.recorder.stop()
        shutil.rmtree(self.folder)
