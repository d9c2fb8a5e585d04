"""Services of service.mjs, started and killed by tests."""
import json
import os
import subprocess
import tempfile
import threading

import package
from harness import EndToEnd
from wire import Client, wait_until

SECRET = "0123456789abcdef0123456789abcdef"
JSON = [("Content-Type", "application/json")]
SHARED = {"defaults.max_request_body": "8MiB", "defaults.record.max_body": "1MiB"}


class Service:
    def __init__(self, framework, store, node="", **settings):
        project = package.programs("service.mjs")
        options = {"store": store, "settings": settings, "log": "off"}
        self.process = subprocess.Popen([package.node(node), "service.mjs", framework, json.dumps(options)], cwd=project,
                                        env={**os.environ, "ONCE_SECRET": SECRET}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True)
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(self.process.stderr.read())
        self.port = json.loads(line)["port"]
        # Of a test that shares it with others: the prefix of its keys, and how many calls there were before it.
        self.prefix, self.called_before = "", 0

    def key(self, key):
        return None if key is None else self.prefix + key

    def ask(self, method="POST", target="/orders", body=None, key=None, fields=()):
        with Client(self.port) as client:
            data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
            return client.ask(method, target, [*JSON, *fields], data, key=self.key(key))

    def seen(self):
        return json.loads(self.ask("GET", "/seen").body)

    def calls(self, path="/orders"):
        return [call for call in self.seen()["calls"][self.called_before:] if call["path"] == path]

    def go(self):
        """Lets the held executions go on, which must have begun."""
        wait_until(lambda: self.seen()["waiting"] > 0, what="an execution to be held")
        self.ask(target="/go")

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
        self.process.communicate(timeout=60)


class Services(EndToEnd):
    def shared(self):
        """The service of this class's framework that its tests share. A test sees only its own keys and calls."""
        if "process" not in type(self).__dict__:
            store = tempfile.TemporaryDirectory()
            self.addClassCleanup(store.cleanup)
            type(self).process = Service(self.framework, f"journal:{store.name}/journal", **SHARED)
            self.addClassCleanup(self.process.stop)
        self.process.prefix, self.process.called_before = f"{self._testMethodName}-", len(self.process.seen()["calls"])
        return self.process

    def service(self, framework, store=None, **named):
        service = Service(framework, store or f"journal:{self.folder()}", **named)
        self.addCleanup(service.stop)
        return service

    def in_background(self, *arguments, **named):
        """A call in a thread; result() waits for it."""
        return Call(*arguments, **named)


class Call:
    def __init__(self, function, *arguments, **named):
        def run():
            try:
                self.answer = function(*arguments, **named)
            except Exception as error:  # noqa: BLE001: told by result()
                self.error = error

        self.answer = self.error = None
        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()

    def result(self):
        self.thread.join(60)
        if self.error:
            raise self.error
        return self.answer
