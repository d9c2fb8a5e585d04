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


if __name__ == "__main__":
    unittest.main()
