"""Keyed requests at a backend that closes connections as they are taken: none is lost, none runs twice.

ONCE_E2E_SECONDS makes it shorter or longer.
"""
import collections
import json
import os
import pathlib
import random
import subprocess
import threading
import time
import unittest

from harness import EndToEnd
from wire import Client

SECONDS = float(os.environ.get("ONCE_E2E_SECONDS", "12"))
CLIENTS = 8
LEAST = 60 * CLIENTS  # requests; a slow machine gets more time
SEED = 1  # of the pauses; the race itself is the kernel's


class NodeBackend:
    def __init__(self):
        script = pathlib.Path(__file__).with_name("short_keepalive_backend.js")
        self.process = subprocess.Popen(["node", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())

    def executions(self):
        with Client(self.port) as client:
            return json.loads(client.ask("GET", "/counts").body)

    def stop(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


class ShortKeepAlive(EndToEnd):
    def start(self):
        backend = NodeBackend()
        self.addCleanup(backend.stop)
        return backend, self.gateway(backend)

    def converse(self, gateway, number, until, together, seen, failures):
        """Bursts of all clients at a time, then a pause of all around the backend's limit. Some are retried."""
        drawn, pauses = random.Random(SEED + number), random.Random(SEED)
        client = gateway.connect()
        count = 0
        try:
            while time.monotonic() < until or len(seen) < LEAST:
                together.wait()
                for _ in range(drawn.randint(1, 3)):
                    count += 1
                    key = f"{number}-{count}"
                    body = b"x" * drawn.randint(0, 300)
                    answers = [client.ask("POST", "/", key=key, body=body)]
                    if drawn.random() < 0.1:
                        answers.append(client.ask("POST", "/", key=key, body=body))
                    seen[key] = [(answer.status, answer.get("Idempotency-Status")) for answer in answers]
                together.wait()
                time.sleep(pauses.choice((pauses.uniform(0.005, 0.120), pauses.uniform(0.045, 0.056))))
        except threading.BrokenBarrierError:
            pass  # the first to end ends all
        except Exception as error:
            failures.append(f"client {number}, request {count}: {error!r}")
        finally:
            together.abort()
            client.close()

    def test_requests_around_the_backends_keep_alive_timeout(self):
        backend, gateway = self.start()
        seen, failures = {}, []
        together = threading.Barrier(CLIENTS)
        until = time.monotonic() + SECONDS
        threads = [threading.Thread(target=self.converse, args=(gateway, number, until, together, seen, failures))
                   for number in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        metrics = gateway.metrics()
        endings = collections.Counter(answers[0] for answers in seen.values())
        connects = int(metrics["once_backend_connects_total"])
        print(f"{len(seen)} keys, {connects} connections, {dict(endings)}", flush=True)
        self.assertEqual(endings, {(201, "executed"): len(seen)})
        self.assertEqual({answer for answers in seen.values() for answer in answers[1:]}, {(201, "replayed")})
        self.assertEqual(backend.executions(), dict.fromkeys(seen, 1))
        self.assertEqual(metrics['once_requests_total{result="unknown"}'], 0)


if __name__ == "__main__":
    unittest.main()
