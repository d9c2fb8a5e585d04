"""Runs `node --test` on claims.test.mjs in a project that has the package installed, beside a gateway of its own."""
import json
import os
import subprocess
import threading
import unittest

import package
from support import ROOT, ClaimsTest
from tls import Authority
from wire import Backend

from once import ClaimsClient


class NodeClient(ClaimsTest):
    def https(self, authority, upstream):
        """The URL of a gateway that speaks TLS."""
        certificate, key = authority.issue("server", "DNS:localhost")
        self.data = self.folder()
        gateway, _ = self.start(f"upstreams.default={upstream}", "tls.listen=127.0.0.1:0", f"tls.certificates=[{certificate}]",
                                f"tls.keys=[{key}]")
        return f"https://localhost:{gateway.tls_port}"

    def test_node_tests_pass(self):
        gate = threading.Event()
        self.addCleanup(gate.set)

        def handler(request, connection):
            if request.target == "/slow":
                gate.wait(0.5)  # as if it worked
            connection.reply(201, [("Content-Type", "application/json")], b'{"made":true}')

        backend = Backend(handler)
        self.addCleanup(backend.stop)
        tokens = {"launchbase": "l" * 20, "umbrella": "u" * 20}
        clock = self.clock()
        gateway, api = self.start(f"upstreams.default=http://127.0.0.1:{backend.port}", "claims.max_body=64KiB", tokens=tokens,
                                  clock=clock)
        inputs = json.loads((ROOT / "tests" / "claims" / "languages.json").read_text())["inputs"]
        ClaimsClient(api.url, tokens["launchbase"]).run(lambda: "from Python", scope="languages", inputs=inputs)
        sockets = {}
        for name, known in {"ONCE_SOCKET": None, "ONCE_SOCKET_WITH_TOKENS": tokens}.items():
            self.data = self.folder()
            sockets[name] = self.start(tokens=known, listen=f"unix:{self.socket}")[1].url
        authority, other = (Authority(self.folder()) for _ in range(2))
        environment_of_tls = {
            "ONCE_HTTPS_URL": self.https(authority, f"http://127.0.0.1:{backend.port}"),
            "ONCE_CLAIMS_HTTPS_URL": self.https(authority, api.url),
            "ONCE_UNTRUSTED_URL": self.https(other, f"http://127.0.0.1:{backend.port}"),
            "NODE_EXTRA_CA_CERTS": authority.file,
        }
        project = package.programs("claims.test.mjs")
        environment = {**os.environ, "ONCE_CLAIMS_URL": api.url, "ONCE_CLAIMS_TOKEN_LAUNCHBASE": tokens["launchbase"],
                       "ONCE_CLAIMS_TOKEN_UMBRELLA": tokens["umbrella"], "ONCE_URL": f"http://127.0.0.1:{gateway.port}",
                       "ONCE_METRICS": f"http://127.0.0.1:{gateway.admin_port}/metrics", "ONCE_CLOCK": str(clock.path),
                       "ONCE_LANGUAGES": str(ROOT / "tests" / "claims" / "languages.json"),
                       **sockets, **environment_of_tls}
        done = subprocess.run([package.node(), "--test", "--test-reporter=tap", "claims.test.mjs"], cwd=project, env=environment,
                              capture_output=True, text=True, timeout=200)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"# pass [1-9]\d")
        self.assertEqual(len([r for r in backend.executions() if r.target == "/slow"]), 1)


if __name__ == "__main__":
    unittest.main()
