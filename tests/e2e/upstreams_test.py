"""Backends with several servers: which one gets what, what happens when one dies, and what they are told."""
import contextlib
import itertools
import socket
import threading
import unittest

from harness import EndToEnd, Gateway, run_once
from wire import Backend, Client, wait_until


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
    def test_requests_go_round(self):
        servers = self.two()
        gateway = self.serving(servers)
        for name, key in [pair for _ in range(4) for pair in self.keyed_and_not()]:
            with self.subTest(name):
                self.assertEqual(gateway.ask("POST", key=key).status, 200)
        self.assertEqual([len(server.requests) for server in servers], [4, 4])

    def test_fewest_connections_go_first(self):
        gate = self.gate()

        def handler(request, connection):
            if request.target == "/slow":
                gate.wait()
            connection.reply(200)

        servers = self.two(handler)
        gateway = self.serving(servers, "balance: least_connections")
        slow = self.connect(gateway)
        slow.send_request("GET", "/slow")
        busy = wait_until(lambda: next((server for server in servers if server.requests), None))
        other = next(server for server in servers if server is not busy)
        for _ in range(6):
            self.assertEqual(gateway.ask("GET", "/").status, 200)
        self.assertEqual((len(busy.requests), len(other.requests)), (1, 6))
        gate.set()
        self.assertEqual(slow.read_response("GET").status, 200)

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

    def test_a_request_is_sent_to_a_second_server_only_if_the_first_got_nothing(self):
        servers = self.two(lambda request, connection: connection.close())
        gateway = self.serving(servers)
        answer = gateway.ask("POST", key="k", body=b"hello")
        self.assertEqual((answer.status, answer.code), (502, "outcome-unknown"))
        answer = gateway.ask("POST", body=b"hello")
        self.assertEqual((answer.status, answer.code), (502, "backend-lost"))
        self.assertEqual(sum(len(server.requests) for server in servers), 2)

    def test_nobody_there_is_502_and_the_key_stays_free(self):
        servers = self.two()
        for server in servers:
            server.stop_listening()
        gateway = self.serving(servers)
        for name, key in (("with a key", "k"), ("without a key", None)):
            with self.subTest(name):
                answer = gateway.ask("POST", key=key)
                self.assertEqual((answer.status, answer.code), (502, "bad-gateway"))
        servers[1].listen()
        self.assertEqual(gateway.ask("POST", key="k").get("Idempotency-Status"), "executed")


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

    def test_checks_that_are_wrong_do_not_stop_the_traffic(self):
        servers = self.two(lambda request, connection: connection.reply(404 if request.target == "/up" else 200))
        gateway = self.serving(servers, "health: {path: /up, interval: 100ms}")
        wait_until(lambda: self.up(gateway, servers[0]) == 0 and self.up(gateway, servers[1]) == 0)
        for name, key in self.keyed_and_not():
            with self.subTest(name):
                self.assertEqual(gateway.ask("POST", key=key).status, 200)


class Ejection(Upstreams):
    """Servers that can be reached and do not serve well."""

    def ejected(self, gateway, server):
        return gateway.metrics()[f'once_upstream_ejected{{upstream="default",server="http://127.0.0.1:{server.port}"}}']

    def said(self, gateway, message):
        return [line["server"] for line in gateway.log_lines() if line["message"] == message]

    def test_a_server_that_answers_5xx_gets_no_requests_until_one_that_tries_it_is_served(self):
        well = [False]

        def sick(request, connection):
            connection.reply(200 if well[0] else 503)

        servers = [self.backend(sick), self.backend(counted())]
        gateway = self.serving(servers, "eject: {failures: 2}", "health: {interval: 1s}")
        answers = [gateway.ask("POST", key=key).status for _ in range(5) for _, key in self.keyed_and_not()]
        self.assertEqual(answers.count(503), 2, "keyed or not, each counts, and is its client's answer")
        name = f"http://127.0.0.1:{servers[0].port}"
        self.assertEqual(self.said(gateway, "server is ejected"), [name])
        self.assertEqual((self.ejected(gateway, servers[0]), self.ejected(gateway, servers[1])), (1, 0))
        self.assertEqual(self.up(gateway, servers[0]), 1)
        seen = len(servers[0].requests)

        def tried_again():
            self.assertIn(gateway.ask("GET", "/").status, (200, 503))
            return len(servers[0].requests) > seen

        wait_until(tried_again)
        self.assertEqual(self.ejected(gateway, servers[0]), 1, "it is no better")
        well[0] = True
        wait_until(lambda: gateway.ask("GET", "/").status == 200 and not self.ejected(gateway, servers[0]))
        wait_until(lambda: self.said(gateway, "server is readmitted") == [name])
        self.assertEqual(gateway.metrics()['once_upstream_ejections_total{upstream="default"}'], 1)

    def test_a_server_that_loses_requests_is_ejected_and_nothing_is_sent_twice(self):
        servers = [self.backend(lambda request, connection: connection.close()), self.backend(counted())]
        gateway = self.serving(servers, "eject: {failures: 2}", "health: {interval: 5m}")
        answers = [gateway.ask("POST", key=next(self.keys)) for _ in range(8)]
        lost = [answer for answer in answers if answer.status != 200]
        self.assertEqual([answer.code for answer in lost], ["outcome-unknown"] * 2)
        self.assertEqual([len(server.requests) for server in servers], [2, 6])
        self.assertEqual(self.ejected(gateway, servers[0]), 1)

    def test_one_server_is_always_kept(self):
        servers = self.two(counted(500))
        gateway = self.serving(servers, "eject: {failures: 1}", "health: {interval: 5m}")
        self.assertEqual({gateway.ask("POST", key=next(self.keys)).status for _ in range(6)}, {500})
        self.assertEqual(sum(self.ejected(gateway, server) for server in servers), 1)

    def test_it_is_off_unless_it_is_asked_for(self):
        servers = [self.backend(counted(503)), self.backend(counted())]
        gateway = self.serving(servers)
        answers = [gateway.ask("POST", key=next(self.keys)).status for _ in range(20)]
        self.assertEqual(answers.count(503), 10)
        self.assertEqual(self.ejected(gateway, servers[0]), 0)


class Limits(Upstreams):
    def slow(self):
        """A backend whose requests wait for a gate each, in the order of their arrival."""
        gates = {}

        def handler(request, connection):
            if request.target in gates:
                gates[request.target].wait()
            connection.reply(200, body=request.target.encode())

        return self.backend(handler), gates

    def held(self, *settings, longest="1m"):
        """A gateway at its limit of one connection; what holds it, and how to let it go."""
        backend, gates = self.slow()
        gates["/held"] = self.gate()
        gateway = self.serving([backend], "max_connections: 1", *settings, connect=longest)
        holder = self.connect(gateway)
        holder.send_request("GET", "/held")
        wait_until(lambda: backend.requests)
        return backend, gates, gateway, holder

    def queued(self, gateway):
        return gateway.metrics()['once_upstream_queued{upstream="default"}']

    def test_requests_wait_in_their_order(self):
        backend, gates, gateway, holder = self.held()
        waiting = []
        for number in range(6):
            client = self.connect(gateway)
            client.send_request("POST", f"/{number}", key=f"k{number}" if number % 2 else None)
            waiting.append(client)
            wait_until(lambda number=number: self.queued(gateway) == number + 1)
        self.assertEqual([request.target for request in backend.requests], ["/held"])
        gates["/held"].set()
        self.assertEqual(holder.read_response("GET").status, 200)
        for number, client in enumerate(waiting):
            self.assertEqual(client.read_response().body, f"/{number}".encode())
        self.assertEqual([request.target for request in backend.requests[1:]], [f"/{number}" for number in range(6)])
        self.assertEqual(self.queued(gateway), 0)

    def test_too_many_are_refused_and_their_keys_stay_free(self):
        backend, gates, gateway, _ = self.held("queue: 1")
        waits = self.connect(gateway)
        waits.send_request("GET", "/waits")
        wait_until(lambda: self.queued(gateway) == 1)
        for name, key in (("with a key", "k"), ("without a key", None)):
            with self.subTest(name):
                answer = gateway.ask("POST", "/more", key=key, body=b"x")
                self.assertEqual((answer.status, answer.code), (503, "upstream-busy"))
                self.assertEqual((answer.problem["retryable"], answer.get("Retry-After")), (True, "1"))
        self.assertEqual(gateway.metrics()['once_upstream_queue_refused_total{upstream="default"}'], 2)
        gates["/held"].set()
        self.assertEqual(waits.read_response("GET").status, 200)
        answer = gateway.ask("POST", "/more", key="k", body=b"x")
        self.assertEqual((answer.status, answer.get("Idempotency-Status")), (200, "executed"))

    def test_nobody_waits_for_ever(self):
        _, _, gateway, _ = self.held(longest="1s")
        for name, key in self.keyed_and_not():
            with self.subTest(name):
                self.assertEqual(gateway.ask("POST", key=key).code, "upstream-busy")

    def test_a_client_that_leaves_takes_its_request_along_if_it_had_no_key(self):
        backend, gates, gateway, holder = self.held()
        for end in (Client.close, Client.reset):
            leaves = gateway.connect()
            leaves.send_request("POST", "/leaves", body=b"x")
            wait_until(lambda: self.queued(gateway) == 1)
            end(leaves)
            wait_until(lambda: self.queued(gateway) == 0)
        keyed = gateway.connect()
        keyed.send_request("POST", "/keyed", key="k", body=b"x")
        wait_until(lambda: self.queued(gateway) == 1)
        keyed.close()
        self.assertEqual(self.queued(gateway), 1)
        gates["/held"].set()
        holder.read_response("GET")
        wait_until(lambda: len(backend.executions()) == 2)
        self.assertEqual(backend.executions()[1].target, "/keyed")
        wait_until(lambda: gateway.ask("POST", "/keyed", key="k", body=b"x").get("Idempotency-Status") == "replayed")

    def test_a_tunnel_holds_its_place_until_it_ends(self):
        def handler(request, connection):
            if request.get("Upgrade"):
                connection.send(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
                connection.send(connection.stream.read(4))
                connection.stream.read_to_end()
                connection.close()
            else:
                connection.reply(200)

        gateway = self.serving([self.backend(handler)], "max_connections: 1", connect="1s")
        tunnel = self.connect(gateway)
        tunnel.send_request("GET", "/", fields=[("Connection", "upgrade"), ("Upgrade", "websocket")])
        self.assertEqual(tunnel.read_response("GET").status, 101)
        tunnel.send(b"ping")
        self.assertEqual(tunnel.read(4), b"ping")
        self.assertEqual(gateway.ask("GET", "/").code, "upstream-busy")
        tunnel.close()
        wait_until(lambda: gateway.ask("GET", "/").status == 200)

    def test_there_are_never_more_connections_than_allowed(self):
        lock, now, most, go = threading.Lock(), [0], [0], self.gate()

        def handler(_, connection):
            with lock:
                now[0] += 1
                most[0] = max(most[0], now[0])
            go.wait()
            with lock:
                now[0] -= 1
            connection.reply(200)

        backend = self.backend(handler)
        gateway = self.serving([backend], "max_connections: 3", threads=2, connect="1m")

        def load(number):
            with gateway.connect() as client:
                for turn in range(20):
                    key = f"{number}-{turn}" if number % 2 else None
                    self.assertEqual(client.ask("POST", key=key).status, 200)

        # Each thread has its share, and the kernel says whose a connection is: so many that all are used, but by a miracle.
        threads = [threading.Thread(target=load, args=(number,)) for number in range(24)]
        for thread in threads:
            thread.start()
        wait_until(lambda: self.queued(gateway) == 21)
        go.set()
        for thread in threads:
            thread.join()
        self.assertEqual(len(backend.executions()), 480)
        self.assertEqual(most[0], 3)


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

    def test_a_name(self):
        backend = self.backend(counted())
        gateway = self.serving([f"http://localhost:{backend.port}"])
        for name, key in self.keyed_and_not():
            with self.subTest(name):
                self.assertEqual(gateway.ask("POST", key=key).status, 200)
        self.assertFalse([line for line in gateway.log_lines() if line["level"] == "warn"])

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

    def test_a_name_that_does_not_exist_takes_no_requests_from_the_others(self):
        backend = self.backend(counted())
        gateway = self.serving(["http://no-such-host.invalid", backend])
        for kind, key in [pair for _ in range(4) for pair in self.keyed_and_not()]:
            with self.subTest(kind):
                self.assertEqual(gateway.ask("POST", key=key).status, 200)
        config = gateway.folder / "once.yaml"
        config.write_text(config.read_text().replace("no-such-host", "no-other-host"))
        reloaded = run_once("reload", "--admin", f"127.0.0.1:{gateway.admin_port}")
        self.assertEqual(reloaded.returncode, 0, reloaded.stderr)
        self.assertEqual(gateway.ask("POST", key=next(self.keys)).status, 200)
        self.assertEqual(self.up(gateway, backend), 1)

    def test_mistakes_are_told_with_their_line(self):
        folder = self.folder()
        (folder / "once.yaml").write_text("upstreams:\n  a:\n    servers: [http://x]\n    qeue: 1\n  b: {queue: 2}\n"
                                          "  c:\n    servers: [ftp://x]\n")
        ended = run_once("check", "--config", "once.yaml", folder=folder)
        self.assertEqual(ended.returncode, 2)
        self.assertEqual([line.split(" ", 1)[0] if line.startswith("once.yaml") else line.split(": ", 1)[1].split(" ")[0]
                          for line in ended.stderr.splitlines()],
                         ["once.yaml:4:5:", "once.yaml:5:3:", "once.yaml:7:14:"], ended.stderr)
        self.assertIn('unknown setting "qeue"; did you mean "queue"?', ended.stderr)


class Told(Upstreams):
    """What the backend is told of the host, the path and the client."""

    def seen(self, gateway, backend, **named):
        """The request as the backend got it, with a key and without: both alike."""
        requests = []
        for _, key in self.keyed_and_not():
            self.assertEqual(gateway.ask(key=key, **named).status, 200)
            requests.append(backend.requests[-1])
        for name in ("Host", "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "Forwarded"):
            self.assertEqual(requests[0].all(name), requests[1].all(name))
        self.assertEqual(requests[0].target, requests[1].target)
        return requests[0]

    def test_the_host(self):
        backend = self.backend(counted())
        for rule, expected in (("keep", "api.test"), ("upstream", f"127.0.0.1:{backend.port}"),
                               ("shop.internal", "shop.internal")):
            with self.subTest(rule):
                gateway = self.serving([backend], f"host: {rule}")
                request = self.seen(gateway, backend)
                self.assertEqual(request.all("Host"), [expected])
                self.assertEqual(request.all("X-Forwarded-Host"), ["api.test"])

    def test_a_prefix_that_is_stripped(self):
        backend = self.backend(counted())
        routes = "routes:\n  - {path: /api/**, strip_prefix: /api}\n  - {path: /**}\n"
        gateway = self.serving([backend], "base_path: /v1", config=routes)
        for target, expected in (("/api/a?b=c", "/v1/a?b=c"), ("/api", "/v1/"), ("/api?x", "/v1/?x"),
                                 ("/apis/a", "/v1/apis/a"), ("/a", "/v1/a")):
            with self.subTest(target):
                self.assertEqual(self.seen(gateway, backend, target=target).target, expected)
        sent = len(backend.requests)
        for target in ("/api/../api/secret", "/api/%2e%2e/api/secret", "/%61pi/x", "//api/x", "/..%5Cadmin", "/api//evil.test/x",
                       "/x/../admin"):
            with self.subTest(target):
                self.assertEqual(gateway.ask("GET", target).status, 400)
        self.assertEqual(len(backend.requests), sent)
        self.assertEqual(self.seen(gateway, backend, target="/api/caf%C3%A9%20x").target, "/v1/caf%C3%A9%20x")
        self.assertEqual(gateway.ask("POST", "/api/a", key="k").get("Idempotency-Status"), "executed")
        self.assertEqual(gateway.ask("POST", "/a", key="k").get("Idempotency-Status"), "executed",
                         "keys know the path as the client sent it")

    SPOOFED = [("X-Forwarded-For", "6.6.6.6"), ("X-Forwarded-Proto", "https"), ("X-Forwarded-Host", "evil.test"),
               ("Forwarded", "for=6.6.6.6")]
    NAMES = [name for name, _ in SPOOFED]

    def told(self, request):
        return [request.get(name) for name in self.NAMES]

    def test_where_a_request_came_from(self):
        backend = self.backend(counted())
        theirs = [value for _, value in self.SPOOFED]
        plain = ["127.0.0.1", "http", "api.test"]
        element = 'for=127.0.0.1;proto=http;host="api.test"'
        for fields, expected in (("x-forwarded", [*plain, None]), ("forwarded", [None, None, None, element]),
                                 ("both", [*plain, element]), ("off", theirs)):
            with self.subTest(fields):
                gateway = self.serving([backend], f"forwarded: {fields}")
                self.assertEqual(self.told(self.seen(gateway, backend, fields=self.SPOOFED)), expected)

    def test_a_proxy_that_is_trusted_is_believed(self):
        backend = self.backend(counted())
        gateway = self.serving([backend], "forwarded: both", config="trusted_proxies: [127.0.0.0/8]\n")
        self.assertEqual(self.told(self.seen(gateway, backend, fields=self.SPOOFED)),
                         ["6.6.6.6, 127.0.0.1", "https", "evil.test",
                          'for=6.6.6.6, for=127.0.0.1;proto=http;host="api.test"'])


if __name__ == "__main__":
    unittest.main()
