"""Backends with several servers: which one gets what, what happens when one dies, and what they are told."""
import contextlib
import itertools
import socket
import threading
import unittest

from harness import EndToEnd, Gateway
from wire import Backend, wait_until


def counted(status=200):
    """A handler that answers at once; the backend keeps what it got."""
    return lambda request, connection: connection.reply(status, body=request.method.encode())


class UnixBackend(Backend):
    """The same on a Unix socket."""

    def __init__(self, path, handler):
        self.path = path
        super().__init__(handler)

    def open_listener(self):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self.path))
        listener.listen()
        return listener


class Upstreams(EndToEnd):
    def setUp(self):
        super().setUp()
        self.keys = (f"key-{number}" for number in itertools.count())

    def keyed_and_not(self):
        return (("with a key", next(self.keys)), ("without a key", None))

    def two(self, handler=None):
        return [self.backend(handler or counted()) for _ in range(2)]

    def serving(self, servers, *settings, config="", threads=1, connect="5s"):
        """A gateway whose only upstream has these servers, and these lines of settings."""
        urls = ", ".join(f'"{server if isinstance(server, str) else f"http://127.0.0.1:{server.port}"}"'
                         for server in servers)
        text = f"upstreams:\n  default:\n    servers: [{urls}]\n" + "".join(f"    {line}\n" for line in settings)
        options = [part for setting in ("timeouts.drain=70s", f"threads={threads}", f"defaults.timeouts.connect={connect}") for part in ("--set", setting)]
        gateway = Gateway(*options, config=text + config)
        self.addCleanup(lambda: gateway.folder.exists() and gateway.stop())
        return gateway.wait_listening()

    def up(self, gateway, server):
        return gateway.metrics()[f'once_upstream_up{{upstream="default",server="http://127.0.0.1:{server.port}"}}']


class Balancing(Upstreams):
    def test_a_server_that_dies_under_load_costs_nobody_a_request(self):
        """But those it had in its hands: a keyed one of these is unknown, never executed twice."""
        servers = self.two()
        gateway = self.serving(servers, "health: {interval: 100ms}", threads=2)
        failures, done, stop = [], [], threading.Event()

        def load(keyed):
            number = 0
            with contextlib.ExitStack() as stack:
                client = stack.enter_context(gateway.connect())
                while not stop.is_set():
                    number += 1
                    key = f"{threading.get_ident()}-{number}" if keyed else None
                    response = client.ask("POST", body=b"x", key=key)
                    done.append(response.status)
                    if response.status != 200:
                        failures.append((keyed, response.status, response.body))
                    if response.get("Connection") == "close":
                        client = stack.enter_context(gateway.connect())

        threads = [threading.Thread(target=load, args=(number % 2 == 0,)) for number in range(6)]
        for thread in threads:
            thread.start()
        try:
            for server in servers:
                wait_until(lambda server=server: len(server.requests) > 50)
                server.stop_listening()
                so_far = len(done)
                wait_until(lambda so_far=so_far: len(done) > so_far + 100)
                alive = next(other for other in servers if other is not server)
                server.listen()
                seen = len(server.requests)
                wait_until(lambda server=server, seen=seen: len(server.requests) > seen + 20)
                self.assertTrue(alive.requests)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        # Each death catches at most what was at work on that server: no more than one request of each client.
        self.assertLessEqual(len(failures), len(servers) * len(threads), failures)
        for keyed, status, body in failures:
            self.assertEqual(status, 502)
            self.assertIn(b"outcome-unknown" if keyed else b"backend-lost", body)

    def test_nothing_fails_when_a_server_is_stopped_between_requests(self):
        servers = self.two()
        gateway = self.serving(servers)
        for name, key in self.keyed_and_not():
            gateway.ask("POST", key=key)
        servers[0].stop_listening()
        for name, key in [pair for _ in range(10) for pair in self.keyed_and_not()]:
            with self.subTest(name):
                self.assertEqual(gateway.ask("POST", key=key, body=b"hello").status, 200)
        line = wait_until(lambda: next((line for line in gateway.log_lines() if line["message"] == "server is down"),
                                       None))
        self.assertEqual((line["level"], line["upstream"], line["server"]),
                         ("warn", "default", f"http://127.0.0.1:{servers[0].port}"))
        self.assertEqual((self.up(gateway, servers[0]), self.up(gateway, servers[1])), (0, 1))


class Health(Upstreams):
    def test_checks_take_a_server_out_and_back_in(self):
        sick = threading.Event()

        def handler(server):
            def handle(request, connection):
                if request.target == "/up":
                    connection.reply(500 if server == 0 and sick.is_set() else 204)
                else:
                    connection.reply(200, body=str(server).encode())
            return handle

        servers = [self.backend(handler(number)) for number in range(2)]
        gateway = self.serving(servers, "health: {path: /up, interval: 100ms}")
        wait_until(lambda: self.up(gateway, servers[0]) == 1)
        sick.set()
        wait_until(lambda: self.up(gateway, servers[0]) == 0)
        self.assertEqual({gateway.ask("GET", "/").body for _ in range(6)}, {b"1"})
        self.assertEqual({gateway.ask("POST", "/", key=next(self.keys)).body for _ in range(6)}, {b"1"})
        sick.clear()
        wait_until(lambda: self.up(gateway, servers[0]) == 1)
        self.assertEqual({gateway.ask("GET", "/").body for _ in range(6)}, {b"0", b"1"})
        said = [line["message"] for line in gateway.log_lines() if line["message"].startswith("server is")]
        self.assertEqual(said, ["server is down", "server is up again"])
        check = next(request for request in servers[0].requests if request.target == "/up")
        self.assertEqual((check.method, check.get("Host")), ("GET", f"127.0.0.1:{servers[0].port}"))


class Ejection(Upstreams):
    """Servers that can be reached and do not serve well."""

    def ejected(self, gateway, server):
        return gateway.metrics()[f'once_upstream_ejected{{upstream="default",server="http://127.0.0.1:{server.port}"}}']

    def said(self, gateway, message):
        return [line["server"] for line in gateway.log_lines() if line["message"] == message]

    def test_a_server_that_answers_5xx_gets_no_requests(self):
        servers = [self.backend(counted(503)), self.backend(counted())]
        gateway = self.serving(servers, "eject: {failures: 2}", "health: {interval: 5m}")
        answers = [gateway.ask("POST", key=key).status for _ in range(5) for _, key in self.keyed_and_not()]
        self.assertEqual(answers.count(503), 2, "keyed or not, each counts, and is its client's answer")
        name = f"http://127.0.0.1:{servers[0].port}"
        self.assertEqual(self.said(gateway, "server is ejected"), [name])
        self.assertEqual((self.ejected(gateway, servers[0]), self.ejected(gateway, servers[1])), (1, 0))
        self.assertEqual(self.up(gateway, servers[0]), 1)
        self.assertEqual(gateway.metrics()['once_upstream_ejections_total{upstream="default"}'], 1)


class Limits(Upstreams):
    def queued(self, gateway):
        return gateway.metrics()['once_upstream_queued{upstream="default"}']

    def test_too_many_are_refused_and_their_keys_stay_free(self):
        go = self.gate()
        backend = self.backend(lambda request, to: (request.target != "/held" or go.wait()) and to.reply(200))
        gateway = self.serving([backend], "max_connections: 1", "queue: 1", connect="1m")
        self.connect(gateway).send_request("GET", "/held")
        wait_until(lambda: backend.requests)
        waits = self.connect(gateway)
        waits.send_request("GET", "/waits")
        wait_until(lambda: self.queued(gateway) == 1)
        for name, key in (("with a key", "k"), ("without a key", None)):
            with self.subTest(name):
                answer = gateway.ask("POST", "/more", key=key, body=b"x")
                self.assertEqual((answer.status, answer.code), (503, "upstream-busy"))
                self.assertEqual((answer.problem["retryable"], answer.get("Retry-After")), (True, "1"))
        self.assertEqual(gateway.metrics()['once_upstream_queue_refused_total{upstream="default"}'], 2)
        go.set()
        self.assertEqual(waits.read_response("GET").status, 200)
        answer = gateway.ask("POST", "/more", key="k", body=b"x")
        self.assertEqual((answer.status, answer.get("Idempotency-Status")), (200, "executed"))


class Places(Upstreams):
    def test_a_unix_socket(self):
        path = self.folder() / "app.sock"
        backend = UnixBackend(path, counted())
        self.addCleanup(backend.stop)
        gateway = self.serving([f"unix:{path}"], "host: upstream")
        for name, key in self.keyed_and_not():
            with self.subTest(name):
                self.assertEqual(gateway.ask("POST", key=key).status, 200)
                self.assertEqual(backend.requests[-1].get("Host"), "localhost")

    def test_a_name_that_does_not_exist_does_not_stop_the_start(self):
        name = "http://no-such-host.invalid:80"
        gateway = self.serving([name])
        for kind, key in self.keyed_and_not():
            with self.subTest(kind):
                answer = gateway.ask("POST", key=key, body=b"hello")
                self.assertEqual((answer.status, answer.code), (502, "bad-gateway"))
                self.assertTrue(answer.problem["retryable"])
        self.assertEqual(gateway.metrics()[f'once_upstream_up{{upstream="default",server="{name}"}}'], 0)
        warnings = [line for line in gateway.log_lines() if line["message"].startswith("server name cannot be resolved")]
        self.assertEqual([(line["server"], line["upstream"]) for line in warnings], [(name, "default")])


if __name__ == "__main__":
    unittest.main()
