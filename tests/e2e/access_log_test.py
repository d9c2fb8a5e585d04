"""The access log: what a line says, which requests have one, and where lines go."""
import json
import signal
import subprocess
import unittest

from harness import EndToEnd, Gateway, run_once
from wire import request_bytes, wait_until

FILE = """
upstreams: {{default: "http://127.0.0.1:{port}"}}
trusted_proxies: {proxies}
threads: 1  # lines of one event loop are in their order
log: {{access: {access}, access_file: "{file}"}}
defaults: {{caller_missing: anonymous}}
routes:
  - path: /orders/**
  - path: /documents/**
    conditional: {{if_match: on}}
"""


class AccessLog(EndToEnd):
    def configured(self, backend, access="true", file="", proxies="[]"):
        gateway = Gateway(config=self.text(backend, access, file, proxies))
        self.addCleanup(lambda: gateway.folder.exists() and gateway.stop())
        return gateway.wait_listening()

    def text(self, backend, access="true", file="", proxies="[]"):
        return FILE.format(port=backend.port, access=access, file=file, proxies=proxies)

    def reload(self, gateway, text):
        (gateway.folder / "once.yaml").write_text(text)
        return run_once("reload", "--admin", f"127.0.0.1:{gateway.admin_port}")

    def lines(self, gateway, count=1):
        """As many lines as there must be."""
        return wait_until(lambda: (lines := gateway.log_lines(gateway.stdout)) and len(lines) >= count and lines)

    def test_a_line_says_where_a_request_came_from_and_went_and_what_it_cost(self):
        backend = self.backend()
        gateway = self.configured(backend)
        with gateway.connect() as client:
            client.send(request_bytes("POST", "/orders/1?secret=query", key="one"))
            answer = client.read_response()
        with gateway.connect() as client:
            client.ask("POST", "/orders/1?secret=query", key="one")
            client.ask("GET", "/elsewhere")
        first, replay, other = self.lines(gateway, 3)
        server = f"127.0.0.1:{backend.port}"
        self.assertEqual((first["client"], first["route"], first["server"]), ("127.0.0.1", "/orders/**", server))
        self.assertGreater(first["bytes"], len(answer.body) + 50)
        self.assertTrue(0 < first["upstream_ms"] <= first["ms"], first)
        self.assertEqual((replay["result"], replay["server"], replay["upstream_ms"]), ("replayed", "", 0))
        self.assertEqual((other["route"], other["server"], other["result"]), ("", server, "passed"))
        self.assertGreater(other["upstream_ms"], 0)
        self.assertNotIn("secret", gateway.stdout)

    def test_a_reload_turns_it_on_and_off(self):
        backend = self.backend()
        gateway = self.configured(backend, access="off")
        gateway.ask("GET", "/orders/silent")
        self.assertEqual(self.reload(gateway, self.text(backend)).returncode, 0)
        gateway.ask("GET", "/orders/heard")
        self.assertEqual([line["path"] for line in self.lines(gateway)], ["/orders/heard"])
        self.assertEqual(self.reload(gateway, self.text(backend, access="off")).returncode, 0)
        gateway.ask("GET", "/orders/silent")
        gateway.terminate()
        self.assertEqual(gateway.wait(), 0)
        self.assertEqual([line["path"] for line in gateway.log_lines(gateway.stdout)], ["/orders/heard"])

    def test_sigusr1_opens_the_file_anew(self):
        backend = self.backend()
        folder = self.folder()
        file = folder / "access.log"
        gateway = self.configured(backend, file=file)
        gateway.ask("GET", "/orders/before")
        wait_until(lambda: file.read_text())
        file.rename(folder / "access.log.1")
        gateway.process.send_signal(signal.SIGUSR1)
        wait_until(file.exists)
        gateway.ask("GET", "/orders/after")
        gateway.terminate()
        self.assertEqual(gateway.wait(), 0)
        paths = [[json.loads(line)["path"] for line in name.read_text().splitlines()] for name in (folder / "access.log.1", file)]
        self.assertEqual(paths, [["/orders/before"], ["/orders/after"]])
        self.assertEqual(gateway.stdout, "")

    def test_a_reader_that_does_not_read_holds_up_no_request(self):
        backend = self.backend()
        folder = self.folder()
        fifo = folder / "pipe"
        subprocess.run(["mkfifo", str(fifo)], check=True)
        held = open(fifo, "r+b", buffering=0)  # both ends, so that nobody waits for the other
        self.addCleanup(held.close)
        gateway = self.configured(backend, file=fifo)
        path = "/orders/" + "x" * 2000
        with gateway.connect() as client:
            for _ in range(200):  # six times what a pipe holds
                self.assertEqual(client.ask("GET", path).status, 201)
        gateway.terminate()
        self.assertEqual(gateway.wait(), 0, "the end does not wait for it either")
        left_out = [line for line in gateway.log_lines() if line["message"] == "access log lines left out"]
        self.assertGreater(sum(line["count"] for line in left_out), 0)


if __name__ == "__main__":
    unittest.main()
