"""Writers at two gateways on one store that is a server: of those that name the same state exactly one gets in.
ONCE_E2E_SERVER is a name in tests/servers/catalog.py; ONCE_E2E_ROUNDS says how often they race."""
import os
import secrets
import threading
import unittest

import catalog
from documents import Documents
from harness import EndToEnd
from moved_clock import MovedClock
from wire import DEADLINE, wait_until

NAME = os.environ["ONCE_E2E_SERVER"]
ROUNDS = int(os.environ.get("ONCE_E2E_ROUNDS") or 40)
PATIENT = ("server.timeout=5m", "server.connect_timeout=1m")  # a server may pause
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

    def pair(self, *settings, **named):
        environment = {**os.environ, "ONCE_SECRET": secrets.token_hex(16)}
        return [self.gateway(self.store, f"store={self.server.url()}", *PATIENT, *ON, *settings, env=environment, **named)
                for _ in range(2)]

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
        clock = MovedClock(self.server.folder.clock)
        one, other = self.pair("defaults.lease=1m", "defaults.in_flight_wait=1ms", "defaults.timeouts.response=24h",
                               "defaults.timeouts.stream_idle=24h", clock=clock)
        at_work, go = threading.Event(), self.gate()
        self.documents.on_write = lambda request: request.body == b"slow" and (at_work.set(), go.wait())
        tag = one.ask("GET", "/doc").get("ETag")
        writer = self.connect(one)
        writer.send_request("PUT", "/doc", [("If-Match", tag)], b"slow")
        self.assertTrue(at_work.wait(DEADLINE))
        for _ in range(8):  # two leases and more, a third of one at a time: a connection that is being made has a minute
            renewed = one.metrics()["once_leases_renewed_total"]
            clock.advance(21)
            wait_until(lambda renewed=renewed: one.metrics()["once_leases_renewed_total"] > renewed, what="a renewal")
        busy = other.ask("PUT", "/doc", [("If-Match", tag)], b"other")
        self.assertEqual((busy.status, busy.code), (409, "resource-busy"))
        go.set()
        self.assertEqual(writer.read_response().status, 200)
        def not_busy():
            """The resource is given back once its writer has its answer, and this gateway hardly waits for it."""
            answer = other.ask("PUT", "/doc", [("If-Match", tag)], b"other")
            return None if answer.code == "resource-busy" else answer

        self.assertEqual(wait_until(not_busy).status, 412)


if __name__ == "__main__":
    unittest.main()
