"""The upload of docs/guides/streams.md is run as it stands: the file arrives once, and a retry gets the recorded response."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import support

sys.path.insert(0, str(support.ROOT / "tests" / "e2e"))

from harness import EndToEnd  # noqa: E402

PAGE = support.ROOT / "docs" / "guides" / "streams.md"
SIZE = (8 << 20) + 1  # more than max_request_body


class Upload(EndToEnd):
    def test_the_command_of_the_page_uploads_a_file_once(self):
        [command] = [text for _, text in support.blocks(PAGE, "sh") if "-T backup.tar" in text]
        self.assertIn("http://localhost:8080/", command)
        backend = self.backend()
        gateway = self.gateway(backend)
        command = command.replace("curl ", "curl -sSi --max-time 60 ").replace("localhost:8080", f"127.0.0.1:{gateway.port}")
        with tempfile.TemporaryDirectory(prefix="once-docs-") as folder:
            (pathlib.Path(folder) / "backup.tar").write_bytes(b"x" * SIZE)
            for status in "executed", "replayed":
                done = subprocess.run(["sh", "-c", command], cwd=folder, env={**os.environ, "TOKEN": "me"},
                                      capture_output=True, text=True, timeout=90, stdin=subprocess.DEVNULL)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(f"Idempotency-Status: {status}", done.stdout)
        [request] = backend.requests
        self.assertEqual((request.method, request.target, len(request.body)), ("POST", "/files", SIZE))


if __name__ == "__main__":
    unittest.main()
