"""Writers at two gateways on one store that is a server: of those that name the same state exactly one gets in.
ONCE_E2E_SERVER is a name in tests/servers/catalog.py; ONCE_E2E_ROUNDS says how often they race."""
import os
import secrets
import threading
import unittest

import catalog
from documents import Documents
from harness import EndToEnd
from wire import DEADLINE, wait_until

NAME = os.environ["ONCE_E2E_SERVER"]
ROUNDS = int(os.environ.get("ONCE_E2E_ROUNDS") or 40)
ON = ("defaults.conditional.etag=on", "defaults.conditional.if_match=on", "defaults.key.methods=[PUT]")


class TwoGateways(EndToEnd):
    @classmethod
    def setUpClass(cls):
        cls.server = catalog.make(NAME)
        cls.addClassCleanup(cls.server.stop)
        cls.server.start()

    def setUp(self):
        super().setUp()
        self.documents = Documents(doc=b"first")
        self.store = self.backend(self.documents.handle)

    def pair(self, *settings):
        environment = {**os.environ, "ONCE_SECRET": secrets.token_hex(16)}
        return [self.gateway(self.store, f"store={self.server.url()}", *ON, *settings, env=environment) for _ in range(2)]

    def race(self, clients, condition, target, round_number):
        """All write at once, every other one with a key; their answers in order."""
        answers = [None] * len(clients)
        start = threading.Barrier(len(clients))

        def write(number):
            start.wait()
            key = f"{round_number}-{number}" if number % 3 == 2 else None
            answers[number] = clients[number].ask("PUT", target, [condition], f"{round_number}-{number}".encode(), key)

        threads = [threading.Thread(target=write, args=(number,)) for number in range(len(clients))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return answers

    def test_of_writers_that_name_the_same_state_exactly_one_passes_in_every_round(self):
        gateways = self.pair()
        clients = [self.connect(gateways[number % 2]) for number in range(6)]
        for number in range(ROUNDS):
            tag = clients[number % 6].ask("GET", "/doc").get("ETag")
            answers = self.race(clients, ("If-Match", tag), "/doc", number)
            statuses = sorted(answer.status for answer in answers)
            self.assertEqual(statuses, [200] + [412] * 5, (number, [answer.body for answer in answers]))
            winner = next(i for i, answer in enumerate(answers) if answer.status == 200)
            self.assertEqual(self.documents.documents["/doc"], f"{number}-{winner}".encode())
            self.assertEqual(len(self.documents.writes), number + 1)

    def test_exactly_one_creates_in_every_round(self):
        gateways = self.pair()
        clients = [self.connect(gateways[number % 2]) for number in range(4)]
        for number in range(ROUNDS // 4):
            answers = self.race(clients, ("If-None-Match", "*"), f"/new-{number}", number)
            self.assertEqual(sorted(answer.status for answer in answers), [200] + [412] * 3, number)

    def die_at(self, method):
        """Kills a gateway while the backend works on this request of its write. The other gateway, and their tag."""
        one, other = self.pair("defaults.lease=5m", "defaults.in_flight_wait=1ms")
        tag = one.ask("GET", "/doc").get("ETag")
        at_work, go = threading.Event(), self.gate()
        self.documents.on_get = self.documents.on_write = (
            lambda request: request.method == method and (at_work.set(), go.wait()))
        self.connect(one).send_request("PUT", "/doc", [("If-Match", tag)], b"of the dead")
        self.assertTrue(at_work.wait(DEADLINE))
        one.kill()
        self.documents.on_get = self.documents.on_write = lambda _: None
        go.set()
        return other, tag

    def test_a_gateway_that_dies_keeps_its_resource_until_its_lease_has_lapsed(self):
        for method, stands, status in (("GET", b"first", 200), ("PUT", b"of the dead", 412)):
            with self.subTest(dies_at=method):
                self.documents.documents["/doc"] = b"first"
                other, tag = self.die_at(method)
                wait_until(lambda stands=stands: self.documents.documents["/doc"] == stands)
                asked = len(self.store.requests)
                for _ in range(3):
                    self.assertEqual(other.ask("PUT", "/doc", [("If-Match", tag)], b"second").code, "resource-busy")
                self.assertEqual(len(self.store.requests), asked)  # neither read nor written
                self.server.folder.advance(301)  # by the clock of the store the lease is over, and by no other
                self.assertEqual(other.ask("PUT", "/doc", [("If-Match", tag)], b"second").status, status)
                self.assertEqual([request.method for request in self.store.requests[asked:]],
                                 ["GET", "PUT"] if status == 200 else ["GET"])

    def test_a_slow_write_keeps_the_resource_for_longer_than_its_lease(self):
        one, other = self.pair("defaults.lease=1s", "defaults.in_flight_wait=1ms")
        go = self.gate()
        self.documents.on_write = lambda request: request.body.startswith(b"slow") and go.wait()

        def attempt(number):  # a writer that stands still for longer than its lease loses the resource
            go.clear()
            tag = wait_until(lambda: one.ask("GET", "/doc").get("ETag"))
            renewed = one.metrics()["once_leases_renewed_total"]
            writer = self.connect(one)
            try:
                writer.send_request("PUT", "/doc", [("If-Match", tag)], b"slow %d" % number)
                wait_until(lambda: one.metrics()["once_leases_renewed_total"] >= renewed + 6, what="two leases to have gone by")
                busy = other.ask("PUT", "/doc", [("If-Match", tag)], b"other %d" % number)
                self.assertEqual(busy.status, 409)
                self.assertEqual(busy.code, "resource-busy")
            finally:
                go.set()
            self.assertEqual(writer.read_response().status, 200)
            late = other.ask("PUT", "/doc", [("If-Match", tag)], b"other %d" % number)
            self.assertEqual(late.status, 412)

        self.tried(attempt)


if __name__ == "__main__":
    unittest.main()
