"""The client's connection on real sockets: leaving early, pipelining, keeping it open, and asking before sending."""
import http.client
import unittest

from harness import Sharing
from wire import DEADLINE, request_bytes, wait_until

KEY = "connection-key"


class Leaving(Sharing):
    """A disconnect changes nothing for a keyed request."""

    def test_a_client_that_resets_while_the_backend_works(self):
        go = self.gate()
        backend = self.backend(lambda _, to: go.wait() and to.reply(201, body=b"done"))
        gateway = self.gateway(backend)
        client = gateway.connect()
        client.send_request(key=KEY, body=b"{}")
        wait_until(backend.executions)
        client.reset()
        go.set()
        answer = wait_until(lambda: (found := gateway.ask(key=KEY, body=b"{}")).status != 409 and found)
        self.assertEqual((answer.status, answer.body), (201, b"done"))
        self.assertEqual(answer.get("Idempotency-Status"), "replayed")
        self.assertEqual(len(backend.requests), 1)

    def test_a_client_that_resets_right_after_sending_executes_at_most_once(self):
        # The reset may overtake the request in the kernel: then nothing was received, and a retry executes.
        backend = self.backend()
        gateway = self.gateway(backend)
        for number in range(20):
            client = gateway.connect()
            client.send_request(key=f"k{number}")
            client.reset()
            wait_until(lambda number=number: gateway.ask(key=f"k{number}").status == 201)
        self.assertEqual(len(backend.requests), 20)


class Persistence(Sharing):
    def test_five_pipelined_requests_are_answered_in_order(self):
        backend = self.backend(lambda request, to: to.reply(200, body=request.target.encode() + request.body))
        client = self.connect(self.gateway(backend))
        client.send(request_bytes("POST", "/1", body=b"a", key="k1") + request_bytes("GET", "/2") +
                    request_bytes("POST", "/3", body=b"c") +
                    request_bytes("POST", "/4", [("Transfer-Encoding", "chunked")], key="k4") + b"1\r\nd\r\n0\r\n\r\n" +
                    request_bytes("POST", "/1", body=b"a", key="k1"))
        answers = [client.read_response() for _ in range(5)]
        self.assertEqual([answer.body for answer in answers], [b"/1a", b"/2", b"/3c", b"/4d", b"/1a"])
        self.assertEqual([answer.get("Idempotency-Status") for answer in answers],
                         ["executed", None, None, "executed", "replayed"])
        self.assertEqual([request.target for request in backend.requests], ["/1", "/2", "/3", "/4"])

    def test_many_requests_on_one_connection_use_one_connection_to_the_backend(self):
        backend = self.backend(own=True)
        gateway = self.gateway(backend, "threads=1", "pool.idle_max=2m")
        client = self.connect(gateway)
        for number in range(50):
            self.assertEqual(client.ask("POST", f"/{number}", key=f"k{number}", body=b"").status, 201)
            self.assertEqual(client.ask("GET", f"/{number}").status, 201)
        self.assertEqual(len(backend.requests), 100)
        self.assertEqual(len(backend.streams), 1)
        self.assertEqual(gateway.metrics()["once_backend_connects_total"], 1)


class Expecting(Sharing):
    EXPECT = [("Expect", "100-continue"), ("Content-Length", "5")]

    def test_with_a_good_key_the_body_is_asked_for(self):
        backend = self.backend()
        client = self.connect(self.gateway(backend))
        client.send_request(fields=self.EXPECT, key=KEY)
        self.assertEqual(client.read_until(b"\r\n\r\n"), b"HTTP/1.1 100 Continue\r\n\r\n")
        self.assertEqual(backend.received, b"")
        client.send(b"hello")
        self.assertEqual(client.read_response().status, 201)
        self.assertEqual((backend.requests[0].body, backend.requests[0].get("Expect")), (b"hello", None))

    def test_a_backend_that_ignores_it_keeps_nobody_waiting(self):
        backend = self.backend()  # answers when it has the body, and says nothing before
        client = self.connect(self.gateway(backend))
        client.send_request(fields=self.EXPECT)
        self.assertEqual(client.read_until(b"\r\n\r\n"), b"HTTP/1.1 100 Continue\r\n\r\n")
        client.send(b"hello")
        self.assertEqual(client.read_response().status, 201)
        self.assertEqual(backend.requests[0].body, b"hello")


class EarlyAnswers(Sharing):
    """A response that comes before the body is read reaches a client that sends all of it first."""

    BODY = bytes(24 << 20)  # more than kernels hold

    def ask(self, gateway, fields):
        """As most libraries do: http.client reads nothing before everything is sent."""
        connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=DEADLINE)
        self.addCleanup(connection.close)
        connection.request("POST", "/", self.BODY, fields)
        response = connection.getresponse()
        response.read()
        return response.status, response.getheader("Connection")

    def test_a_body_that_is_too_large(self):
        backend = self.backend()
        gateway = self.gateway(backend, "defaults.max_request_body=1KiB", "defaults.max_large_request=0")
        self.assertEqual(self.ask(gateway, {"Idempotency-Key": KEY}), (413, "close"))
        self.assertEqual(backend.received, b"")
        self.assertEqual(gateway.ask(key=KEY, body=b"{}").get("Idempotency-Status"), "executed")

    def test_a_backend_that_answers_early(self):
        for closes in (True, False):
            with self.subTest(closes=closes):
                def handler(_, connection, closes=closes):
                    connection.reply(413, [("Connection", "close")] if closes else [])
                    if not closes:
                        connection.stream.read_to_end()  # until Once has closed
                    connection.close()

                gateway = self.gateway(self.backend(handler, read_body=False))
                self.assertEqual(self.ask(gateway, {}), (413, "close"))


if __name__ == "__main__":
    unittest.main()
