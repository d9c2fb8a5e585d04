"""Multipart bodies have a new boundary on every try: real clients build them anew and are still recognised."""
import json
import os
import subprocess
import unittest

import requests
from harness import Sharing
from wire import DEADLINE

# Builds the form anew for each request, as an application that retries does.
NODE = """
const [url, key, content] = process.argv.slice(1);
const said = [];
for (let i = 0; i < 2; ++i) {
  const form = new FormData();
  form.append("title", "r\\u00e9sum\\u00e9");
  form.append("file", new Blob([content], { type: "text/plain" }), "a.txt");
  const answer = await fetch(url, { method: "POST", body: form, headers: { "Idempotency-Key": key } });
  said.push([answer.status, answer.headers.get("Idempotency-Status")]);
}
console.log(JSON.stringify(said));
"""


class Multipart(Sharing):
    def setUp(self):
        super().setUp()
        self.server = self.backend()

    def start(self, *settings):
        self.once = self.gateway(self.server, *settings)
        self.url = f"http://127.0.0.1:{self.once.port}/files"

    def upload(self, key, content=b"hello\r\n--", name="a.txt", kind="text/plain", **fields):
        answer = requests.post(self.url, headers={"Idempotency-Key": key}, data=fields or {"title": "x"},
                               files={"file": (name, content, kind)}, timeout=DEADLINE)
        return answer.headers.get("Idempotency-Status"), answer.status_code

    def boundaries(self):
        return {request.get("Content-Type") for request in self.server.requests}

    def test_python_requests(self):
        self.start()
        self.assertEqual(self.upload("a"), ("executed", 201))
        self.assertEqual(self.upload("a"), ("replayed", 201))
        for other in ({"content": b"hello"}, {"name": "b.txt"}, {"kind": "text/html"}, {"title": "y"}, {"other": "x"}):
            self.assertEqual(self.upload("a", **other), ("mismatch", 422), other)
        self.assertEqual(len(self.server.requests), 1)
        self.assertEqual(self.upload("b"), ("executed", 201))
        self.assertEqual(len(self.boundaries()), 2)  # so the client does draw a new one

    def test_node_form_data(self):
        self.start()
        for content, expected in (("one", [[201, "executed"], [201, "replayed"]]), ("two", [[422, "mismatch"]] * 2)):
            done = subprocess.run([os.environ.get("NODE", "node"), "--input-type=module", "-e", NODE, "--", self.url, "node", content],
                                  capture_output=True, text=True, timeout=DEADLINE)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(done.stdout), expected)
        self.assertEqual(len(self.server.requests), 1)

    def test_curl(self):
        self.start()
        said = []
        for value in ("1", "1", "2"):
            done = subprocess.run(["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "-H", "Idempotency-Key: c",
                                   "-F", f"a={value}", self.url], capture_output=True, text=True, timeout=DEADLINE)
            said.append(done.stdout)
        self.assertEqual(said, ["201", "201", "422"])
        self.assertEqual(len(self.server.requests), 1)


if __name__ == "__main__":
    unittest.main()
