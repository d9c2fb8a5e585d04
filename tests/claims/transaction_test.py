"""Claims of the API that end inside of a database's own transaction, and gateways that share a server.

ONCE_E2E_SERVER says which: postgres or mariadb.
"""
import os
import subprocess
import threading
import time
import unittest

import catalog
from support import ClaimsTest
from wire import wait_until

SERVER = os.environ.get("ONCE_E2E_SERVER", "postgres")
CALL = "SELECT" if SERVER == "postgres" else "CALL"
JSON = '{"Content-Type": "application/json"}'


class Transactions(ClaimsTest):
    @classmethod
    def setUpClass(cls):
        cls.server = catalog.make(SERVER)
        cls.server.start()
        cls.addClassCleanup(cls.server.stop)

    def start_here(self, name):
        return self.start(f"store={self.server.url()}", listen=f"unix:{self.data}/{name}.sock")

    def finish(self, claim, body, headers=JSON):
        self.server.sql(f"{CALL} once_finish('{claim}', 200, '{headers}', '{body}')")

    def test_what_a_transaction_recorded_is_the_value(self):
        _, api = self.start_here("a")
        claim = api.acquire(key="json")["claim"]
        self.finish(claim, '{"paid": 5.0}')
        self.assertIn(b'"value":{"paid": 5.0}', api.claim(key="json").body)
        mine = api.owner("succeed", claim, value="something else")
        self.assertEqual((mine.status, mine["value"]), (200, {"paid": 5.0}), "what was committed stands, and is told")
        text = api.acquire(key="text")["claim"]
        self.finish(text, "plain", '{"Content-Type": "text/plain"}')
        self.assertEqual(api.lookup(key="text")["value"], "plain")

    def test_operators_find_claims_by_tenant_and_scope(self):
        _, api = self.start_here("a")
        api.acquire(scope="copy.propose", key="listed")
        rows = self.server.sql("SELECT tenant, route, state FROM once_keys WHERE route = 'copy.propose'")
        self.assertEqual(rows.replace("\t", "|").strip(), "local|copy.propose|started")


if __name__ == "__main__":
    unittest.main()
