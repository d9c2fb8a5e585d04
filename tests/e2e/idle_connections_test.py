"""Ten thousand connections that idle between two requests take less than 150 MB of the release binary."""
import os
import resource
import socket
import unittest

from harness import EndToEnd
from wire import request_bytes, wait_until

RELEASE = os.environ.get("ONCE_RELEASE_BINARY", "")
CONNECTIONS = int(os.environ.get("ONCE_E2E_CONNECTIONS", "10000"))
LIMIT = 150_000_000


class IdleConnections(EndToEnd):
    BODY = b"x" * 40_000  # what a connection held on to would be seen

    def setUp(self):
        super().setUp()
        if not os.access(RELEASE, os.X_OK):
            self.skipTest(f"skipped: there is no release binary at {RELEASE or 'ONCE_RELEASE_BINARY'}")
        needed = CONNECTIONS * 3 // 2 + 500  # a quarter of what the gateway may open is kept for backends
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard != resource.RLIM_INFINITY and hard < needed:
            self.skipTest(f"skipped: {needed} open files are needed, {hard} are allowed")
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))
        before = os.environ["ONCE_BINARY"]
        os.environ["ONCE_BINARY"] = RELEASE
        self.addCleanup(os.environ.__setitem__, "ONCE_BINARY", before)

    def test_they_take_little_and_serve_on(self):
        gateway = self.gateway(self.backend(), "limits.max_connections=20000", "timeouts.idle=10m",
                               "threads=2", "store=memory:")
        clients = []
        self.addCleanup(lambda: [client.close() for client in clients])
        for number in range(CONNECTIONS):
            # 20,000 ports of one address are not enough for everybody on the machine.
            source = (f"127.0.0.{2 + number % 8}", 0)
            client = socket.create_connection(("127.0.0.1", gateway.port), 20, source_address=source)
            clients.append(client)
            client.sendall(request_bytes("POST", "/", [], self.BODY, f"k{number}"))
            self.assertTrue(client.recv(65536).startswith(b"HTTP/1.1 201"))
        self.assertEqual(gateway.metrics()["once_connections_open"], CONNECTIONS)
        wait_until(lambda: gateway.resident_bytes() < LIMIT, what=f"{LIMIT} bytes, not {gateway.resident_bytes()}")
        print(f"\n{CONNECTIONS} idle connections: {gateway.resident_bytes() / 1e6:.0f} MB resident", flush=True)
        for number in (0, CONNECTIONS // 2, CONNECTIONS - 1):
            clients[number].sendall(request_bytes("POST", "/", [], self.BODY, f"k{number}"))
            self.assertIn(b"Idempotency-Status: replayed", clients[number].recv(65536))


if __name__ == "__main__":
    unittest.main()
