"""Lookups by key: a GET that says what became of a request, and executes nothing."""
import json
import threading

from harness import EndToEnd, kept_part
from wire import DEADLINE, wait_until

ME = ("Authorization", "Bearer me")


def look(gateway, key="k", method="GET", of="POST", target="/payments", fields=(ME,)):
    named = [("Idempotency-Key", key)] if key else []
    return gateway.ask(method, target, [*named, ("Idempotency-Lookup", of), *fields])


class Lookups(EndToEnd):
    def post(self, gateway, key="k", body=b"amount=1", target="/payments"):
        return gateway.ask("POST", target, [("Idempotency-Key", key), ME], body)

    def test_the_recorded_answer_is_given_without_a_body_to_compare(self):
        backend = self.backend()
        gateway = self.gateway(backend)
        first = self.post(gateway)
        found = look(gateway)
        self.assertEqual((found.status, found.get("Idempotency-Status")), (201, "replayed"))
        self.assertEqual(kept_part(found), kept_part(first))
        self.assertEqual(len(backend.requests), 1)

    def test_head_gives_the_head_alone(self):
        gateway = self.gateway(self.backend())
        first = self.post(gateway)
        with gateway.connect() as client:
            client.send_request("HEAD", "/payments", [("Idempotency-Key", "k"), ("Idempotency-Lookup", "POST"), ME])
            line, fields, _ = client.read_head()
            self.assertIn("201", line)
            self.assertIn(("Content-Length", str(len(first.body))), fields)
            # Nothing follows: the next response begins at once.
            client.send_request("HEAD", "/payments", [("Idempotency-Key", "other"), ("Idempotency-Lookup", "POST"), ME])
            self.assertIn("404", client.read_head()[0])

    def test_a_key_is_found_only_where_it_was_used(self):
        gateway = self.gateway(self.backend())
        self.post(gateway)
        for what, answer in {
                "another key": look(gateway, key="other"),
                "another caller": look(gateway, fields=[("Authorization", "Bearer you")]),
                "another path": look(gateway, target="/other"),
                "another method": look(gateway, of="PATCH"),
                "another host": look(gateway, fields=[ME, ("Host", "elsewhere.example")]),
                "a method without keys": look(gateway, of="PUT"),
        }.items():
            self.assertEqual((answer.status, answer.code), (404, "key-not-found"), what)
            retryable = json.loads(answer.body)["retryable"]
            self.assertEqual(retryable, what != "a method without keys", what)

    def test_wrong_lookups_are_refused(self):
        backend = self.backend()
        gateway = self.gateway(backend)
        self.post(gateway)
        for what, answer, expected in [
                ("no key", look(gateway, key=None), (400, "key-required")),
                ("no caller", look(gateway, fields=()), (401, "caller-required")),
                ("an empty caller", look(gateway, fields=[("Authorization", "")]), (401, "caller-required")),
                ("a payment", look(gateway, fields=[("Authorization", "Payment eyJ9")]), (401, "caller-required")),
                ("a method that changes nothing", look(gateway, of="GET"), (400, "bad-request")),
                ("no method", look(gateway, of="what"), (400, "bad-request")),
                ("a bad key", look(gateway, key="\"open"), (400, "key-invalid")),
        ]:
            self.assertEqual((answer.status, answer.code), expected, what)
        self.assertEqual(len(backend.requests), 1)

    def test_what_is_at_work_unknown_or_failed(self):
        go = self.gate()

        def handler(request, connection):
            if request.target == "/slow":
                go.wait(DEADLINE)
                connection.reply(200)
            elif request.target == "/lost":
                connection.reset()
            else:
                connection.reply(500)

        backend = self.backend(handler)
        gateway = self.gateway(backend)
        slow = threading.Thread(target=lambda: self.post(gateway, target="/slow"))
        slow.start()
        wait_until(lambda: backend.requests)
        at_work = look(gateway, target="/slow")
        self.assertEqual((at_work.status, at_work.code), (409, "in-flight"))
        go.set()
        slow.join()
        self.assertEqual(look(gateway, target="/slow").status, 200)
        self.assertEqual(self.post(gateway, target="/lost").code, "outcome-unknown")
        unknown = look(gateway, target="/lost")
        self.assertEqual((unknown.status, unknown.code), (409, "outcome-unknown"))
        self.assertEqual(self.post(gateway, target="/fails").status, 500)
        self.assertEqual(look(gateway, target="/fails").code, "key-not-found")
        self.assertEqual(len(backend.requests), 3)

    def test_it_attaches_to_a_stream(self):
        more = self.gate()

        def handler(_, connection):
            connection.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
                            b"9\r\ndata: 1\n\n\r\n")
            more.wait(DEADLINE)
            connection.send(b"9\r\ndata: 2\n\n\r\n0\r\n\r\n")

        backend = self.backend(handler)
        gateway = self.gateway(backend, "defaults.record.stream=auto")
        owner = self.connect(gateway)
        owner.send_request("POST", "/payments", [("Idempotency-Key", "k"), ME], b"amount=1")
        owner.read_until(b"data: 1\n\n\r\n")
        reader = self.connect(gateway)
        reader.send_request("GET", "/payments", [("Idempotency-Key", "k"), ("Idempotency-Lookup", "POST"), ME])
        self.assertIn(("Idempotency-Status", "attached"), reader.read_head()[1])
        reader.read_until(b"data: 1\n\n\r\n")
        more.set()
        reader.read_until(b"data: 2\n\n\r\n0\r\n\r\n")
        owner.read_until(b"0\r\n\r\n")
        self.assertEqual(look(gateway).body, b"data: 1\n\ndata: 2\n\n")
        self.assertEqual(len(backend.requests), 1)
