"""Attacks with slow clients, by the real slowhttptest: everybody else is served as if nothing happened, and the
attackers' connections go."""
import contextlib
import os
import subprocess
import unittest

from harness import EndToEnd
from traffic import Traffic
from wire import wait_until

SECONDS = int(os.environ.get("ONCE_E2E_SECONDS", "6"))
CONNECTIONS = 400
LOOK = 0.2  # seconds between two looks at the metrics
LIMITS = ("timeouts.header=2s", "timeouts.body_idle=2s", "limits.min_rate=100")


class SlowClients(EndToEnd):
    def attack(self, gateway, *options, path="/"):
        """Runs slowhttptest while others are served; returns the metrics of before its end."""
        command = ["slowhttptest", "-c", str(CONNECTIONS), "-r", "200", "-l", str(SECONDS), "-p", "3",
                   "-u", f"http://127.0.0.1:{gateway.port}{path}", *options]
        with Traffic(gateway.port, clients=2, body=b"x" * 2000, replays=True) as traffic:
            attacker = subprocess.Popen(command, cwd=self.folder(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
            self.addCleanup(attacker.kill)
            before, connected, ended = len(traffic.answered), 0, False
            while not ended:
                metrics = gateway.metrics()
                connected = max(connected, metrics["once_connections_open"])
                with contextlib.suppress(subprocess.TimeoutExpired):
                    ended = attacker.wait(LOOK) is not None
        self.assertGreater(connected, CONNECTIONS / 4, "there was no attack")
        self.assertEqual(traffic.failures, [])
        self.assertGreater(len(traffic.answered), before)
        wait_until(lambda: gateway.metrics()["once_connections_open"] == 0)
        return metrics

    def test_slow_headers(self):
        gateway = self.gateway(self.backend(), *LIMITS)
        metrics = self.attack(gateway, "-H", "-i", "1")
        self.assertGreater(metrics['once_responses_total{class="4xx"}'], CONNECTIONS / 4)  # 408

    def test_slow_bodies(self):
        # Without a key they stream to the backend; with one made from a header they are held in memory.
        for name, settings in (("streamed", ()), ("held", ("defaults.key.derive=[header:Host]",))):
            with self.subTest(name):
                gateway = self.gateway(self.backend(), *LIMITS, *settings)
                metrics = self.attack(gateway, "-B", "-i", "1", "-s", "8192", "-x", "10", "-t", "POST")
                self.assertGreater(metrics["once_slow_clients_total"], CONNECTIONS / 4)
                gateway.stop()

    def test_slow_readers(self):
        large = b"x" * 1_000_000

        def handler(request, connection):
            connection.reply(200 if request.target == "/large" else 201, body=large if request.target == "/large" else b"")

        gateway = self.gateway(self.backend(handler), *LIMITS)
        metrics = self.attack(gateway, "-X", "-n", "1", "-z", "16", "-w", "256", "-y", "512", "-k", "1", path="/large")
        self.assertGreater(metrics["once_slow_clients_total"], CONNECTIONS / 8)


if __name__ == "__main__":
    unittest.main()
