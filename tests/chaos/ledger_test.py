"""Exactly once: examples/ledger behind two gateways, all on one database. Backends, gateways and the database are killed at
every step, answers are cut, attempts overlap; in the end every transfer is in the ledger exactly once.

ONCE_CHAOS_SECONDS is for how long there is trouble, ONCE_CHAOS_STORE is postgres or mariadb.
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

import catalog
from harness import EndToEnd, Gateway, kept_part
from server import free_port
from wire import Client, wait_until

SECONDS = float(os.environ.get("ONCE_CHAOS_SECONDS", "10"))
STORE = os.environ.get("ONCE_CHAOS_STORE", "postgres")
HERE = pathlib.Path(__file__).resolve().parent
EXAMPLE = HERE.parents[1] / "examples" / "ledger"
CALLERS = 6
RESPONSE_TIMEOUT = 1.0
STEPS = ("before", "booked", "finished", "committed", "half")
CONFIG = f"""
defaults: {{ttl: 1h, lease: 1s, timeouts: {{response: {RESPONSE_TIMEOUT:g}s, connect: 1s}}}}
server: {{timeout: 1s, connect_timeout: 1s, connections: 2}}
timeouts: {{drain: 3s}}
routes: [{{path: /transfers, on_unknown: retry}}]
"""


class DyingBackend:
    """The example as a process that is started again whenever it died."""

    def __init__(self, database):
        self.port = free_port()
        self.deaths = 0
        self._over = threading.Event()
        self._database = database
        self._process = None
        self._likely = 0.03
        self._thread = threading.Thread(target=self._keep_alive, daemon=True)
        self._thread.start()

    def _keep_alive(self):
        while not self._over.is_set():
            environment = {"PATH": os.environ["PATH"], "LEDGER_EXAMPLE": str(EXAMPLE), "LEDGER_DATABASE": self._database,
                           "LEDGER_PORT": str(self.port), "LEDGER_SLOW_SECONDS": str(RESPONSE_TIMEOUT),
                           "LEDGER_DEATHS": json.dumps(dict.fromkeys(STEPS, self._likely)), "PYTHONDONTWRITEBYTECODE": "1"}
            # Debian's own interpreter has the drivers of the databases.
            self._process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "/usr/bin/python3", HERE / "dying_ledger.py"],
                                             env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self._process.wait()
            self.deaths += 1

    def listens(self):
        try:
            with Client(self.port):
                return True
        except OSError:
            return False

    def kill(self):
        self._process.kill()

    def be_well(self):
        self._likely = 0.0
        self.kill()
        wait_until(self.listens, what="the backend to listen")

    def stop(self):
        self._over.set()
        self.kill()
        self._thread.join()


class Order:
    def __init__(self, reference, amount):
        self.reference = reference
        self.body = json.dumps({"reference": reference, "from": "alice", "to": "bob", "amount": amount}).encode()
        self.amount = amount
        self.answer = None


class Customer(threading.Thread):
    """Retries each order until it is told that it was booked."""

    def __init__(self, story, number):
        super().__init__(daemon=True)
        self.story = story
        self.name = f"customer-{number}"
        self.orders = []
        self.statuses = collections.Counter()

    def run(self):
        try:
            while not self.story.over.is_set():
                order = Order(f"{self.name}-{len(self.orders)}", random.randint(1, 9))
                self.orders.append(order)
                wait_until(lambda order=order: self.booked(order), 90, order.reference)
        except BaseException as error:
            self.story.failures.append(error)
            raise

    def booked(self, order):
        response = self.story.ask(order, self.name)
        if response is None:
            return False
        self.statuses[response.status] += 1
        if response.status == 201:
            order.answer = response
            return True
        if response.status not in (409, 500, 502, 503, 504):
            raise AssertionError(f"{order.reference}: {response}")
        self.story.over.wait(0.02)
        return False


class ExactlyOnce(EndToEnd):
    def setUp(self):
        super().setUp()
        self.over = threading.Event()
        self.failures = []
        self.counts = collections.Counter()
        self.database = catalog.make(STORE)
        self.addCleanup(self.database.stop)
        self.database.start()
        self.database.sql((EXAMPLE / "ledger.sql").read_text())
        self.backend_process = DyingBackend(self.database.url())
        self.addCleanup(self.backend_process.stop)
        self.gateways = [None, None]
        for number in range(2):
            self.start_gateway(number)
        self.addCleanup(self.stop_gateways)

    def start_gateway(self, number):
        self.gateways[number] = Gateway(
            "--upstream", f"http://127.0.0.1:{self.backend_process.port}", "--store", self.database.url(), config=CONFIG,
            env={**os.environ, "ONCE_SECRET": "the same for both gateways"}).wait_listening()

    def stop_gateways(self):
        for gateway in self.gateways:
            if gateway and gateway.folder.exists():
                gateway.stop()

    def ask(self, order, caller):
        gateway = random.choice(self.gateways)
        if gateway is None:
            return None
        try:
            with Client(gateway.port) as client:
                client.sock.settimeout(random.choice((0.3, 5, 5)))
                return client.ask("POST", "/transfers", [("Authorization", caller), ("Content-Type", "application/json")],
                                  key=order.reference, body=order.body)
        except (OSError, EOFError):
            return None

    def make_trouble(self):
        while not self.over.wait(random.uniform(0.2, 1.5)):
            fault = random.choice((self.kill_gateway, self.kill_backend, self.kill_backend, self.kill_database,
                                   self.pause_database))
            self.counts[fault.__name__] += 1
            fault()

    def kill_gateway(self):
        number = random.randrange(2)
        gateway, self.gateways[number] = self.gateways[number], None
        gateway.kill()
        self.start_gateway(number)

    def kill_backend(self):
        self.backend_process.kill()

    def kill_database(self):
        self.database.kill()
        self.database.restart()

    def pause_database(self):
        self.database.pause()
        self.over.wait(random.uniform(0.1, 2))
        self.database.resume()

    def test_every_transfer_is_booked_exactly_once(self):
        customers = [Customer(self, number) for number in range(CALLERS)]
        for customer in customers:
            customer.start()
        try:
            self.make_trouble_until(time.monotonic() + SECONDS, customers)
        finally:
            self.over.set()
        for customer in customers:
            customer.join(120)
        self.assertEqual(self.failures, [])
        orders = [order for customer in customers for order in customer.orders]
        self.check_ledger(orders)
        self.check_replays(customers)
        statuses = sum((customer.statuses for customer in customers), collections.Counter())
        print(f"{len(orders)} transfers, {self.backend_process.deaths} deaths of the backend, faults {dict(self.counts)}, "
              f"statuses {dict(sorted(statuses.items()))}", flush=True)

    def make_trouble_until(self, end, customers):
        """A slow machine gets more time, so that enough has happened."""
        def enough():
            orders = sum(len(customer.orders) for customer in customers)
            return self.failures or time.monotonic() > end and orders > 20 and self.backend_process.deaths > 2

        def watch():
            try:
                wait_until(enough, SECONDS + 300, "enough to happen")
            except AssertionError as error:
                self.failures.append(error)
            self.over.set()

        watching = threading.Thread(target=watch)
        watching.start()
        self.make_trouble()
        watching.join()
        self.backend_process.be_well()

    def check_ledger(self, orders):
        rows = self.database.sql("SELECT reference, id, amount FROM transfers").splitlines()
        booked = collections.defaultdict(list)
        for row in rows:
            reference, transfer, amount = row.replace("\t", "|").split("|")
            booked[reference].append((transfer, int(amount)))
        for order in orders:
            self.assertIsNotNone(order.answer, order.reference)
            told = json.loads(order.answer.body)
            self.assertEqual(booked.pop(order.reference, []), [(told["transfer"], order.amount)], order.reference)
        self.assertEqual(booked, {}, "booked, but never asked for")
        moved = sum(order.amount for order in orders)
        balances = self.database.sql("SELECT balance FROM accounts ORDER BY name").split()
        self.assertEqual([int(balance) for balance in balances], [1000 - moved, 1000 + moved])

    def in_peace(self, order, customer):
        """None: the database took longer than it may."""
        fields = [("Authorization", customer.name), ("Content-Type", "application/json")]
        again = self.gateways[0].ask("POST", "/transfers", fields, key=order.reference, body=order.body)
        return None if again.status == 503 else again

    def check_replays(self, customers):
        for customer in customers:
            for order in customer.orders:
                again = wait_until(lambda order=order, customer=customer: self.in_peace(order, customer))
                self.assertEqual(again.get("Idempotency-Status"), "replayed")
                self.assertEqual(kept_part(again), kept_part(order.answer))


if __name__ == "__main__":
    unittest.main()
