"""No way to exhaust or confuse the gateway: limits on callers, on everything together, and routes that cannot be walked
around."""
import collections
import contextlib
import itertools
import secrets
import socket
import threading
import unittest

from harness import STORE, EndToEnd
from wire import DEADLINE, Client, Stream, created, request_bytes, wait_until


def caller(name):
    return ("Authorization", f"Bearer {name}")


class Callers(EndToEnd):
    def ask(self, gateway, name, key, target="/", body=b"x"):
        return gateway.ask("POST", target, [caller(name)], body, key)

    def assert_limited(self, response):
        self.assertEqual((response.status, response.code), (429, "caller-limit"))
        self.assertTrue(response.problem["retryable"])
        self.assertGreaterEqual(int(response.get("Retry-After")), 1)

    def test_new_keys_of_one_caller(self):
        backend = self.backend()
        gateway = self.gateway(backend, "limits.caller.new_keys=1",
                               "defaults.ttl=1h", "journal.sync=never")
        # Keys come far faster than one a second; how many pass beside the burst is the machine's to say.
        answers = []
        while len(answers) < 30 or len(answers) < 1000 and all(answer.status == 201 for answer in answers):
            answers.append(self.ask(gateway, "anna", f"k{len(answers)}"))
        passed = [number for number, answer in enumerate(answers) if answer.status == 201]
        refused = [number for number, answer in enumerate(answers) if answer.status != 201]
        self.assertGreaterEqual(len(passed), 2)
        self.assertTrue(refused)
        self.assert_limited(answers[refused[0]])
        self.assertEqual(len(backend.executions()), len(passed))
        # Retries of what is known pass, however many; others are not affected.
        for _ in range(10):
            self.assertEqual(self.ask(gateway, "anna", "k0").get("Idempotency-Status"), "replayed")
        self.assertEqual(self.ask(gateway, "anna", "k0", body=b"other").code, "key-mismatch")
        self.assertEqual(self.ask(gateway, "bert", "k0").status, 201)
        self.assertEqual(gateway.metrics()['once_caller_limit_total{limit="new_keys"}'], len(refused))
        # Nothing was written for what was refused: after a while the same key is executed.
        wait_until(lambda: self.ask(gateway, "anna", f"k{refused[0]}").get("Idempotency-Status") == "executed")

    def test_callers_without_a_name_are_one(self):
        gateway = self.gateway(self.backend(), "limits.caller.new_keys=1", "journal.sync=never")
        statuses = []
        while len(statuses) < 10 or len(statuses) < 1000 and 429 not in statuses:
            statuses.append(gateway.ask("POST", "/", [], b"", f"k{len(statuses)}").status)
        self.assertEqual(set(statuses), {201, 429})
        self.assertEqual(self.ask(gateway, "anna", "k").status, 201)

    def test_requests_at_work_of_one_caller(self):
        gate = self.gate()

        def handler(request, connection):
            if request.target == "/slow":
                gate.wait()
            connection.reply(200)

        gateway = self.gateway(self.backend(handler), "limits.caller.in_flight=2")
        slow = [self.connect(gateway) for _ in range(2)]
        for number, client in enumerate(slow):
            client.send_request("POST", "/slow", [caller("anna")], b"", f"k{number}")
        wait_until(lambda: gateway.metrics()["once_in_flight"] == 2)
        self.assert_limited(self.ask(gateway, "anna", "k9"))
        self.assertEqual(self.ask(gateway, "bert", "k9").status, 200)
        self.assertEqual(gateway.ask("GET", "/", [caller("anna")]).status, 200)
        gate.set()
        for client in slow:
            self.assertEqual(client.read_response().status, 200)
        wait_until(lambda: self.ask(gateway, "anna", "k9").status == 200)

    def test_a_refused_caller_does_not_get_its_body_read(self):
        gate = self.gate()

        def handler(_, connection):
            gate.wait()
            connection.reply(200)

        gateway = self.gateway(self.backend(handler), "limits.caller.in_flight=1")
        first = self.connect(gateway)
        first.send_request("POST", "/", [caller("anna")], b"", "k")
        wait_until(lambda: gateway.metrics()["once_in_flight"] == 1)
        second = self.connect(gateway)
        second.send(request_bytes("POST", "/", [caller("anna"), ("Content-Length", "1000000")], key="k2"))
        self.assert_limited(second.read_response())
        self.assertTrue(second.closed())

    def test_stored_bytes_of_one_caller(self):
        backend = self.backend(lambda _, to: to.reply(200, body=b"y" * 40_000))
        gateway = self.gateway(backend, "limits.caller.stored_bytes=100KB", "defaults.ttl=1h")
        for number in range(3):
            self.assertEqual(self.ask(gateway, "anna", f"k{number}").status, 200)
        self.assert_limited(self.ask(gateway, "anna", "k3"))
        self.assertEqual(self.ask(gateway, "anna", "k2").get("Idempotency-Status"), "replayed")
        self.assertEqual(self.ask(gateway, "bert", "k3").status, 200)
        self.assertEqual(len(backend.executions()), 4)
        self.assertEqual(gateway.metrics()["once_callers"], 2)

    def test_stored_bytes_go_when_the_answers_expire(self):
        backend = self.backend(lambda _, to: to.reply(200, body=b"y" * 2000))
        clock = self.clock()
        gateway = self.gateway(backend, "limits.caller.stored_bytes=1KB", "defaults.ttl=1h", clock=clock)
        self.assertEqual(self.ask(gateway, "anna", "k0").status, 200)
        self.assert_limited(self.ask(gateway, "anna", "k1"))
        clock.advance_until(lambda: self.ask(gateway, "anna", "k1").status == 200, seconds=3660)


class Addresses(EndToEnd):
    """Where nobody checks who a caller is, anybody is as many callers as they like."""

    def client(self, gateway, address="127.0.0.1"):
        client = Client.__new__(Client)
        Stream.__init__(client, socket.create_connection(("127.0.0.1", gateway.port), DEADLINE, source_address=(address, 0)))
        self.addCleanup(client.close)
        return client

    def invent(self, client, most, fields=()):
        """New callers with new keys, until some of them are refused; the statuses, and a key and its caller that passed."""
        statuses, passed = collections.Counter(), None
        while sum(statuses.values()) < most and statuses[429] < 10:
            credentials, key = caller(secrets.token_hex(8)), secrets.token_hex(8)
            response = client.ask("POST", "/", [credentials, *fields], b"x", key)
            statuses[response.status] += 1
            if response.status != 429:
                passed = credentials, key
            else:
                self.assertEqual(response.code, "caller-limit")
                self.assertGreaterEqual(int(response.get("Retry-After")), 1)
        return statuses, passed

    def test_invented_callers_do_not_fill_the_store(self):
        def handler(request, connection):
            honest = request.get("Authorization") == "Bearer honest"
            connection.reply(201 if honest else 404, body=b"x" * (100 if honest else 4000))

        gateway = self.gateway(self.backend(handler), "journal.max_disk=8MiB", "memory.max_bytes=8MiB", "journal.sync=never")
        honest, attacker = self.client(gateway, "127.0.0.2"), self.client(gateway)
        self.assertEqual(honest.ask("POST", "/", [caller("honest")], b"x", "before").status, 201)
        statuses, (credentials, key) = self.invent(attacker, 5000)
        # In memory the address with the most is evicted instead, and nobody else notices.
        evicts = STORE == "memory:"
        self.assertEqual((set(statuses), statuses[429]), ({404}, 0) if evicts else ({404, 429}, 10), statuses)
        # A retry is never one too many.
        self.assertEqual(attacker.ask("POST", "/", [credentials], b"x", key).get("Idempotency-Status"), "replayed")
        for number in range(200):
            self.assertEqual(honest.ask("POST", "/", [caller("honest")], b"x", f"k{number}").status, 201)
        for key in ("before", "k0"):
            answer = honest.ask("POST", "/", [caller("honest")], b"x", key)
            self.assertEqual(answer.get("Idempotency-Status"), "replayed")
        metrics = gateway.metrics()
        self.assertEqual(metrics['once_caller_limit_total{limit="address_stored_bytes"}'], 0 if evicts else 10)
        self.assertEqual(metrics["once_store_full_total"], 0)
        if evicts:
            self.assertGreater(metrics["once_store_evictions_total"], 2000)
            return
        told = next(line for line in gateway.log_lines() if line["message"] == "caller over a limit")
        self.assertEqual((told["limit"], told["client"]), ("address_stored_bytes", "127.0.0.1"))

    def test_addresses_behind_a_trusted_proxy(self):
        gateway = self.gateway(self.backend(), "limits.address.stored_bytes=16KiB", "trusted_proxies=[127.0.0.1]", "journal.sync=never")
        proxy = self.client(gateway)
        for address, same_network in (("203.0.113.7", "203.0.113.7"), ("2001:db8:1:2::3", "2001:db8:1:2:4:5:6:7")):
            with self.subTest(address):
                statuses, _ = self.invent(proxy, 200, [("X-Forwarded-For", address)])
                self.assertEqual(statuses[429], 10)
                refused, _ = self.invent(proxy, 1, [("X-Forwarded-For", same_network)])
                self.assertEqual(refused[429], 1)
        for address in ("203.0.113.8", "2001:db8:1:3::3"):
            statuses, _ = self.invent(proxy, 1, [("X-Forwarded-For", address)])
            self.assertEqual(statuses[201], 1)
        # Nobody but a trusted proxy says where somebody else is.
        statuses, _ = self.invent(self.client(gateway, "127.0.0.2"), 200, [("X-Forwarded-For", "203.0.113.9")])
        self.assertEqual(statuses[429], 10)
        refused, _ = self.invent(self.client(gateway, "127.0.0.2"), 1, [("X-Forwarded-For", "203.0.113.10")])
        self.assertEqual(refused[429], 1)

    def test_new_keys_from_one_address(self):
        gateway = self.gateway(self.backend(), "limits.address.new_keys=1", "journal.sync=never")
        statuses, (credentials, key) = self.invent(self.client(gateway), 1000)
        self.assertEqual(statuses[429], 10)
        self.assertGreaterEqual(statuses[201], 2)
        client = self.client(gateway)
        for _ in range(5):
            self.assertEqual(client.ask("POST", "/", [credentials], b"x", key).get("Idempotency-Status"), "replayed")
        self.assertEqual(self.invent(self.client(gateway, "127.0.0.2"), 1)[0][201], 1)

    def test_callers_that_are_proven_are_not_counted(self):
        gateway = self.gateway(self.backend(), "limits.address.stored_bytes=16KiB", "trusted_proxies=[127.0.0.1]",
                               "defaults.caller=[proxy-header:X-Org]", "journal.sync=never")
        proxy = self.client(gateway)
        for number in range(100):
            self.assertEqual(proxy.ask("POST", "/", [("X-Org", f"org-{number}")], b"x", f"k{number}").status, 201)


class Overload(EndToEnd):
    def test_requests_at_work_in_the_whole_process(self):
        gate = self.gate()

        def handler(request, connection):
            if request.target == "/slow":
                gate.wait()
            connection.reply(200)

        backend = self.backend(handler)
        gateway = self.gateway(backend, "limits.max_in_flight=2")
        slow = [self.connect(gateway) for _ in range(2)]
        for number, client in enumerate(slow):
            client.send_request("POST", "/slow", [], b"", f"k{number}")
        wait_until(lambda: gateway.metrics()["once_in_flight"] == 2)
        with self.connect(gateway) as client:
            # Before its body is read.
            client.send(request_bytes("POST", "/", [("Content-Length", "1000000")], key="k"))
            response = client.read_response()
            self.assertEqual((response.status, response.code, response.get("Retry-After")), (503, "overloaded", "1"))
            self.assertTrue(client.closed())
        self.assertEqual(gateway.ask("POST", "/", [], b"no key").status, 200)
        gate.set()
        for client in slow:
            self.assertEqual(client.read_response().status, 200)
        wait_until(lambda: gateway.ask(key="k").status == 200)
        self.assertGreaterEqual(gateway.metrics()['once_overloaded_total{limit="in_flight"}'], 1)

    def test_bodies_in_memory(self):
        gateway = self.gateway(self.backend(), "limits.max_body_memory=1MiB")
        holders = []
        for number in range(2):
            client = self.connect(gateway)
            client.send(request_bytes("POST", "/", [("Content-Length", "500000")], key=f"k{number}") + b"x" * 499_000)
            holders.append(client)
        wait_until(lambda: gateway.metrics()["once_body_bytes"] > 900_000)
        for fields, body in (([("Content-Length", "300000")], b""),
                             ([("Transfer-Encoding", "chunked")], b"493e0\r\n" + b"x" * 300_000 + b"\r\n")):
            with self.subTest(fields), self.connect(gateway) as client:
                with contextlib.suppress(OSError):
                    client.send(request_bytes("POST", "/", fields, key="big") + body)
                response = client.read_response()
                self.assertEqual((response.status, response.code), (503, "overloaded"))
        # Small bodies lie where they came in; without a key nothing is held.
        self.assertEqual(gateway.ask(key="small", body=b"x" * 1000).status, 201)
        self.assertEqual(gateway.ask(body=b"x" * 3_000_000).status, 201)
        for client in holders:
            client.send(b"x" * 1000)
            self.assertEqual(client.read_response().status, 201)
        # The connections are still open, and hold nothing of it.
        wait_until(lambda: gateway.metrics()["once_body_bytes"] == 0)
        self.assertEqual(gateway.ask(key="big", body=b"x" * 900_000).status, 201)
        self.assertEqual(holders[0].ask(key="again").status, 201)

    def test_announcing_large_bodies_costs_nobody_anything(self):
        gateway = self.gateway(self.backend(), "limits.max_body_memory=1MiB")
        for number in range(20):
            self.connect(gateway).send(request_bytes("POST", "/", [("Content-Length", "900000")], key=f"k{number}"))
        wait_until(lambda: gateway.metrics()["once_connections_open"] == 20)
        self.assertEqual(gateway.ask(key="real", body=b"x" * 700_000).status, 201)


class SlowConnections(EndToEnd):
    """Clients that are just fast enough not to be cut off."""
    MOST = 8

    def handler(self, request, connection):
        if request.target == "/large":
            # Larger than what the kernels of both sides hold for a client that does not read.
            connection.send(b"HTTP/1.1 200 Fine\r\nContent-Length: 100000000\r\n\r\n")
            with contextlib.suppress(OSError):
                for _ in range(100):
                    connection.send(b"x" * 1_000_000)
            connection.close()
            return
        created(request, connection)

    def slow(self, gateway, address, data):
        sock = socket.socket()
        self.addCleanup(sock.close)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.settimeout(DEADLINE)
        sock.bind((address, 0))
        sock.connect(("127.0.0.1", gateway.port))
        sock.sendall(data)
        return Stream(sock)

    def gone(self, client):
        client.sock.setblocking(False)
        try:
            while client.sock.recv(65536):
                pass
        except BlockingIOError:
            return False
        except ConnectionResetError:
            pass
        return True

    def newcomer(self, gateway, address):
        sock = socket.create_connection(("127.0.0.1", gateway.port), DEADLINE, source_address=(address, 0))
        self.addCleanup(sock.close)
        sock.sendall(request_bytes("POST", key="k"))
        return sock.recv(100)[:12]

    def test_those_of_an_address_that_has_many_make_room(self):
        head = request_bytes("POST", "/", [("Content-Length", "1000000")], key="slow")
        kinds = {"reads slowly": request_bytes("GET", "/large"), "sends a body slowly": head + b"x" * 100,
                 "sends a header slowly": b"GET / HTTP/1.1\r\nHost: a"}
        for (name, data), rate in itertools.product(kinds.items(), (100, 0)):
            with self.subTest(name, min_rate=rate):
                clock = self.clock()
                gateway = self.gateway(self.backend(self.handler), f"limits.max_connections={self.MOST}", "threads=1",
                                       f"limits.min_rate={rate}", "timeouts.body_idle=1h", "timeouts.header=5m",
                                       "defaults.ttl=30d", clock=clock)
                lone = self.slow(gateway, "127.0.0.3", data)
                many = [self.slow(gateway, "127.0.0.1", data) for _ in range(self.MOST - 1)]
                if name == "reads slowly":
                    for client in (lone, *many):
                        client.read(1)
                wait_until(lambda: gateway.metrics()["once_connections_open"] == self.MOST)
                # Nobody has been waited for yet.
                self.assertIn(self.newcomer(gateway, "127.0.0.2"), (b"HTTP/1.1 503", b"HTTP/1.1 201"))
                clock.advance(20)
                for _ in range(2):
                    wait_until(lambda: self.newcomer(gateway, "127.0.0.2") in (b"HTTP/1.1 201", b"HTTP/1.1 200"))
                self.assertGreaterEqual(gateway.metrics()["once_connections_displaced_total"], 1)
                wait_until(lambda: any(self.gone(client) for client in many), what="one of many to be reset")
                # The one that is alone at its address stays, as slow as it is.
                self.assertFalse(self.gone(lone))
                for client in (lone, *many):
                    client.sock.close()
                gateway.stop()


    def test_one_that_sends_on_at_a_decent_speed_after_a_refusal_keeps_its_answer(self):
        gateway = self.gateway(self.backend(self.handler), f"limits.max_connections={self.MOST}", "threads=1")
        refused = b"GET /x\r\n\r\n"
        # What it has sent is worth a minute.
        decent = [self.slow(gateway, "127.0.0.1", refused + b"x" * (1 << 20)) for _ in range(self.MOST - 1)]
        slow = self.slow(gateway, "127.0.0.1", refused)
        over = threading.Event()

        def drip():
            while not over.wait(0.2):
                for client in [*decent, slow]:
                    with contextlib.suppress(OSError):
                        client.sock.send(b"x")

        def is_displaced():
            with socket.create_connection(("127.0.0.1", gateway.port), DEADLINE, source_address=("127.0.0.2", 0)) as sock:
                with contextlib.suppress(ConnectionError):
                    sock.sendall(request_bytes("POST", fields=[("Connection", "close")], key="k"))
                    while sock.recv(1000):
                        pass
            return gateway.metrics()["once_connections_displaced_total"] > 0

        def cannot_send(client):
            try:
                return client.sock.send(b"x") == 0
            except OSError:
                return True

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            wait_until(is_displaced, what="one of them to make room")
            wait_until(lambda: cannot_send(slow), what="the slow one to be reset")
            self.assertFalse(any(cannot_send(client) for client in decent))
            self.assertEqual({client.sock.recv(12) for client in decent}, {b"HTTP/1.1 400"})
        finally:
            over.set()
            thread.join()

    def test_those_that_go_on_sending_after_a_refusal_make_room(self):
        gateway = self.gateway(self.backend(self.handler), f"limits.max_connections={self.MOST}", "threads=1")
        refused = b"GET /x\r\n\r\n"
        many = [self.slow(gateway, "127.0.0.1", refused) for _ in range(self.MOST)]
        over = threading.Event()

        def drip():
            while not over.wait(0.2):
                for place, client in enumerate(many):
                    try:
                        client.sock.send(b"x")
                    except OSError:
                        with contextlib.suppress(OSError):
                            many[place] = self.slow(gateway, "127.0.0.1", refused)

        def is_displaced():
            # It closes, so that nothing idles that could be displaced instead.
            with socket.create_connection(("127.0.0.1", gateway.port), DEADLINE, source_address=("127.0.0.2", 0)) as sock:
                with contextlib.suppress(ConnectionError):
                    sock.sendall(request_bytes("POST", fields=[("Connection", "close")], key="k"))
                    while sock.recv(1000):
                        pass
            return gateway.metrics()["once_connections_displaced_total"] > 0

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            wait_until(is_displaced, what="one of them to make room")
        finally:
            over.set()
            thread.join()


class Connections(EndToEnd):
    def test_connections_from_one_address(self):
        gateway = self.gateway(self.backend(), "limits.max_connections_per_address=2")
        clients = [self.connect(gateway) for _ in range(2)]
        for client in clients:
            self.assertEqual(client.ask("GET").status, 201)
        response = self.connect(gateway).ask("GET")
        self.assertEqual((response.status, response.code), (503, "too-many-connections"))
        other = socket.create_connection(("127.0.0.1", gateway.port), 20, source_address=("127.0.0.2", 0))
        self.addCleanup(other.close)
        other.sendall(request_bytes("GET"))
        self.assertTrue(other.recv(100).startswith(b"HTTP/1.1 201"))
        clients[0].close()
        wait_until(lambda: gateway.ask("GET").status == 201)

    def test_idle_connections_make_room(self):
        gateway = self.gateway(self.backend(), "limits.max_connections=3", "threads=1")
        idle = [self.connect(gateway) for _ in range(3)]
        for client in idle:
            self.assertEqual(client.ask("GET").status, 201)

        def admitted():
            client = self.connect(gateway)
            return client if client.ask("GET").status == 201 else None

        # As soon as they have rested for a moment; the one that did so the longest goes.
        fresh = wait_until(admitted)
        self.assertTrue(idle[0].closed())
        self.assertEqual(fresh.ask("GET").status, 201)
        self.assertEqual(idle[2].ask("GET").status, 201)
        self.assertGreaterEqual(gateway.metrics()["once_connections_displaced_total"], 1)

    def test_a_connection_that_rested_serves_on(self):
        clock = self.clock()
        gateway = self.gateway(self.backend(), "timeouts.idle=10m", clock=clock)
        client = self.connect(gateway)
        for number in range(3):
            self.assertEqual(client.ask(key=f"k{number}", body=b"x" * 20_000).status, 201)
            # Its body's memory is what a connection that is used keeps, and one that rests gives back.
            clock.advance_until(lambda: gateway.metrics()["once_body_bytes"] == 0, seconds=1)


class Routes(EndToEnd):
    CONFIG = "routes:\n  - {path: /v1/payments, key: {required: yes}}\n  - {path: /**}\n"
    SPELLINGS = ("/v1//payments", "/v1/%70ayments", "/v1/x/../payments", "/v1/./payments",
                 "/v1/%2e/payments", "/v1/x/%2E%2e/payment%73", "/v1/payments?x=/../")

    def test_no_spelling_walks_around_a_route(self):
        backend = self.backend()
        gateway = self.gateway(backend, config=self.CONFIG)
        self.assertEqual(gateway.ask("POST", "/v1/other", [], b"").status, 201)
        for number, target in enumerate(("/v1/payments", *self.SPELLINGS)):
            with self.subTest(target):
                refused = gateway.ask("POST", target, [], b"")
                self.assertEqual((refused.status, refused.code), (400, "key-required"))
                # What the backend gets is what was sent, byte for byte.
                self.assertEqual(gateway.ask("POST", target, [], b"", f"k{number}").get("Idempotency-Status"), "executed")
                self.assertEqual(backend.requests[-1].target, target)

    def test_an_encoded_slash_is_part_of_its_segment_and_leads_around_no_route(self):
        gateway = self.gateway(self.backend(), config=self.CONFIG)
        self.assertEqual(gateway.ask("POST", "/v1%2Fother", [], b"").status, 201)
        self.assertEqual(gateway.ask("POST", "/v1%2Fpayments", [], b"").code, "bad-request")

    def test_a_path_that_some_read_as_a_host_is_refused(self):
        gateway = self.gateway(self.backend(), config=self.CONFIG)
        for target in ("//v1/payments", "//x/v1/payments"):
            self.assertEqual(gateway.ask("POST", target, [], b"", "k").code, "bad-request", target)

    def test_paths_that_cannot_be_told(self):
        backend = self.backend()
        gateway = self.gateway(backend, config=self.CONFIG)
        for target in ("/..", "/v1/../../payments", "/v1/payments%00", "/v1/%0d%0apayments", "/v1//../payments",
                       "/v1/x/..%2Fpayments"):
            for method in ("GET", "POST"):
                with self.subTest(target, method=method):
                    refused = gateway.ask(method, target, [], b"")
                    self.assertEqual((refused.status, refused.code), (400, "bad-request"))
        self.assertEqual(backend.received, b"")


class Headers(EndToEnd):
    def test_too_many_and_too_large(self):
        backend = self.backend(created)
        gateway = self.gateway(backend, "limits.max_header_bytes=4KiB")
        cases = ((431, "headers-too-large", "/", [(f"X-{number}", "y") for number in range(110)]),
                 (431, "headers-too-large", "/", [("X-Large", "y" * 5000)]),
                 (414, "uri-too-long", "/" + "y" * 1100, []))
        for status, code, target, fields in cases:
            with self.subTest(code):
                response = gateway.ask("POST", target, fields, b"", "k")
                self.assertEqual((response.status, response.code), (status, code))
        self.assertEqual(backend.received, b"")
        self.assertEqual(gateway.ask("POST", "/", [(f"X-{number}", "y") for number in range(15)], b"", "k").status, 201)


if __name__ == "__main__":
    unittest.main()
