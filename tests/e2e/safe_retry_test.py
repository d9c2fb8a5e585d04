"""Requests that change nothing: when they are sent a second time, and to which server."""
import threading
import unittest

from upstreams_test import Upstreams, counted
from wire import wait_until


class SafeMethods(Upstreams):
    """What changes nothing may be sent to a second server."""

    def retries(self, gateway):
        return gateway.metrics()['once_upstream_retries_total{upstream="default"}']

    def servers(self, how):
        """The first closes a connection with a request on it, or answers 503."""
        first = (lambda request, connection: connection.close()) if how == "lost" else counted(503)
        return [self.backend(first), self.backend(counted())]

    def test_a_request_that_changes_nothing_is_sent_to_a_second_server(self):
        for how in "lost", "unavailable":
            servers = self.servers(how)
            gateway = self.serving(servers, f"retry: {{safe: {how}}}")
            for method in "GET", "HEAD", "OPTIONS", "GET":
                with self.subTest(how=how, method=method):
                    self.assertEqual(gateway.ask(method, "/").status, 200)
            self.assertEqual(self.retries(gateway), len(servers[0].requests))
            self.assertGreaterEqual(len(servers[0].requests), 2)

    def test_others_are_not(self):
        for how in "lost", "unavailable":
            servers = self.servers(how)
            gateway = self.serving(servers, f"retry: {{safe: {how}}}")
            for name, request in (("a write", {"method": "POST"}), ("with a key", {"method": "POST", "key": "k"}),
                                  ("an unsafe method", {"method": "DELETE"}), ("with a body", {"method": "GET", "body": b"x"}),
                                  ("a key that is ignored", {"method": "GET", "key": "k"})):
                with self.subTest(how=how, request=name):
                    statuses = {gateway.ask(**request).status for _ in range(2)}
                    self.assertIn(502 if how == "lost" else 503, statuses)
            self.assertEqual(self.retries(gateway), 0)

    def test_it_is_off_unless_it_is_asked_for(self):
        for how in "lost", "unavailable":
            with self.subTest(how=how):
                gateway = self.serving(self.servers(how))
                self.assertEqual(sorted(gateway.ask("GET", "/").status for _ in range(2)),
                                 [200, 502 if how == "lost" else 503])

    def test_503_is_an_answer_unless_it_is_asked_for(self):
        gateway = self.serving(self.servers("unavailable"), "retry: {safe: lost}")
        self.assertEqual(sorted(gateway.ask("GET", "/").status for _ in range(2)), [200, 503])

    def test_nothing_is_sent_again_once_the_client_has_seen_something_of_an_answer(self):
        def hints(request, connection):
            connection.send(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
            connection.close()

        servers = [self.backend(hints), self.backend(counted())]
        gateway = self.serving(servers, "retry: {safe: unavailable}")
        self.assertIn(502, {gateway.ask("GET", "/").status for _ in range(2)})
        self.assertEqual(self.retries(gateway), 0)

    def with_idle_connections(self, then, *settings, **named):
        """A gateway with idle connections to two servers. From now on then(server, connection) answers requests."""
        answering, gate, servers = threading.Event(), self.gate(), []

        def serve(number):
            def handler(request, connection):
                if answering.is_set():
                    then(servers[number], connection)
                else:
                    gate.wait()
                    connection.reply()
            return handler

        servers += [self.backend(serve(number)) for number in range(2)]
        gateway = self.serving(servers, *settings, **named)
        clients = [self.connect(gateway) for _ in range(6)]
        for client in clients:
            client.send_request("GET", "/")
        wait_until(lambda: sum(len(server.requests) for server in servers) == len(clients))
        gate.set()
        for client in clients:
            self.assertEqual(client.read_response("GET").status, 200)
        answering.set()
        for server in servers:
            server.requests.clear()
        return servers, gateway

    def test_a_request_on_an_idle_connection_that_is_closed_is_sent_once_more_to_the_same_server(self):
        for safe in "off", "lost":
            with self.subTest(safe=safe):
                servers, gateway = self.with_idle_connections(lambda server, connection: connection.close(),
                                                              f"retry: {{safe: {safe}}}")
                self.assertEqual(gateway.ask("GET", "/").code, "backend-lost")
                self.assertEqual(sorted(len(server.requests) for server in servers), [0, 2])
                self.assertEqual(self.retries(gateway), 0)

    def test_others_on_an_idle_connection_that_is_closed_are_not(self):
        shadow = "defaults: {mode: shadow}\n"
        for name, request, config in (
                ("a key", {"key": "k"}, ""),
                ("a key in shadow mode", {"key": "k"}, shadow),
                ("another method", {"fields": [("X-HTTP-Method-Override", "DELETE")]}, ""),
                ("another method, disguised", {"fields": [("X_Method_Override", "DELETE")]}, "")):
            with self.subTest(name):
                servers, gateway = self.with_idle_connections(lambda server, connection: connection.close(),
                                                              "retry: {safe: lost}", config=config)
                self.assertEqual(gateway.ask("GET", "/", **request).code, "backend-lost")
                self.assertEqual(sorted(len(server.requests) for server in servers), [0, 1])

    def test_nothing_is_sent_again_on_an_idle_connection_that_is_closed_after_an_interim_answer(self):
        def hints(_, connection):
            connection.send(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
            connection.close()

        servers, gateway = self.with_idle_connections(hints, "retry: {safe: lost}")
        answer = gateway.ask("GET", "/")
        self.assertEqual((answer.code, len(answer.interim)), ("backend-lost", 1))
        self.assertEqual(sorted(len(server.requests) for server in servers), [0, 1])

    def test_a_server_that_is_gone_with_its_idle_connections_is_replaced_only_if_it_is_asked_for(self):
        for safe, status in ("off", 502), ("lost", 200):
            with self.subTest(safe=safe):
                gone = []

                def die_once(server, connection, gone=gone):
                    if gone:
                        connection.reply()
                    else:
                        gone.append(server)
                        connection.close()
                        server.stop_listening()

                servers, gateway = self.with_idle_connections(die_once, f"retry: {{safe: {safe}}}")
                self.assertEqual(gateway.ask("GET", "/").status, status)
                self.assertEqual(sorted(len(server.requests) for server in servers), [int(safe == "lost"), 1])
                self.assertEqual(self.retries(gateway), int(safe == "lost"))

    def test_without_a_second_answer_the_first_one_counts(self):
        servers = [self.backend(counted(503)), self.backend(counted())]
        servers[1].stop_listening()
        gateway = self.serving(servers, "retry: {safe: unavailable}")
        for _ in range(4):
            answer = gateway.ask("GET", "/")
            self.assertEqual((answer.status, answer.body), (503, b"GET"))

    def test_retries_have_a_budget(self):
        servers = self.servers("unavailable")
        gateway = self.serving(servers, "retry: {safe: unavailable}")
        answers = [gateway.ask("GET", "/").status for _ in range(100)]
        self.assertEqual(answers.count(200) + answers.count(503), 100)
        self.assertGreater(answers.count(503), 20)
        self.assertIn(self.retries(gateway), range(18, 21))


if __name__ == "__main__":
    unittest.main()
