#!/usr/bin/python3
"""An ordinary API without keys and ETags. It can be told to fail before or after it has done its work.

    backend.py [--port 9000]

    POST /tasks            makes a task              GET /tasks      all of them
    PUT, GET /users/ID     a document
    POST /faults           ["before", "after", …]: what becomes of the next tasks. before: 503 and nothing is made;
                           after: it is made, and the connection breaks; busy: 429 with Retry-After
"""
import argparse
import http.server
import json
import threading


class Api:
    def __init__(self):
        self.lock = threading.Lock()
        self.tasks = []
        self.users = {"123": {"name": "Ada"}}
        self.faults = []


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    api = None

    def document(self):
        return json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)) or b"null")

    def do_GET(self):
        with self.api.lock:
            if self.path == "/tasks":
                self.reply(200, self.api.tasks)
            elif (user := self.api.users.get(self.path.removeprefix("/users/"))) is not None:
                self.reply(200, user)
            else:
                self.reply(404, {"error": "there is none"})

    def do_PUT(self):
        with self.api.lock:
            self.api.users[self.path.removeprefix("/users/")] = user = self.document()
        self.reply(200, user)

    def do_POST(self):
        document = self.document()
        with self.api.lock:
            if self.path == "/faults":
                self.api.faults = document
                self.reply(200, document)
                return
            fault = self.api.faults.pop(0) if self.api.faults else None
            if fault == "before":
                self.reply(503, {"error": "not now"})
                return
            if fault == "busy":
                self.reply(429, {"error": "too many"}, {"Retry-After": "1"})
                return
            task = {"id": len(self.api.tasks) + 1, "by": self.headers["X-Agent-Id"], **document}
            self.api.tasks.append(task)
        if fault == "after":
            self.close_connection = True  # no response
            return
        self.reply(201, task)

    def reply(self, status, document, headers=None):
        body = json.dumps(document).encode() + b"\n"
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": len(body), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """The gateway has an access log."""


def main():
    parser = argparse.ArgumentParser(description="An API that can be told to fail.")
    parser.add_argument("--port", type=int, default=9000)
    handler = type("ApiHandler", (Handler,), {"api": Api()})
    with http.server.ThreadingHTTPServer(("127.0.0.1", parser.parse_args().port), handler) as server:
        server.serve_forever()


if __name__ == "__main__":
    main()
