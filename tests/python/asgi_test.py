"""FastAPI under uvicorn with once.Middleware."""
import asyncio
import json
import os
import unittest

import catalog
from once import asgi
from stories import Stories
from harness import Gateway
from support import HERE, SERVER, AppTest, Asked, sys
from wire import Backend, Client


class FastApi(Stories, AppTest):
    def serve(self, **over):
        return self.start(sys.executable, "-m", "uvicorn", "fastapi_app:app", "--port", "PORT", "--log-level", "warning", **over)

    def test_a_sync_handler_has_its_claim_in_its_thread(self):
        app = self.serve()
        self.assertEqual(json.loads(app.ask("POST", "/threaded", key="k").body), {"order": 1, "attempt": 1})
        self.assertEqual(app.ask("POST", "/threaded", key="k").get("Idempotency-Status"), "replayed")

    @unittest.skipUnless(SERVER, "a journal belongs to one process")
    def test_two_processes_share_a_store(self):
        apps = [self.serve(), self.serve()]
        asked = [Asked(app, "POST", "/slow", key="k") for app in apps for _ in range(2)]
        self.begun()
        self.let_go()
        self.assertEqual(len({each.answer.body for each in asked}), 1)
        self.assertEqual(self.executions(), 1)


@unittest.skipUnless(SERVER, "a journal belongs to one process")
class BesideAGateway(AppTest):
    """The same settings, secret and store: a service can move between the two without losing a key."""

    def test_a_key_of_one_is_replayed_by_the_other(self):
        backend = Backend(lambda request, connection: connection.reply(201, [("Content-Type", "text/plain")], b"from the backend"))
        self.addCleanup(backend.stop)
        # Its store is that of with_server.py, too.
        gateway = Gateway("--upstream", backend.origin, "--set", "defaults.caller=none",
                          env={**os.environ, "ONCE_SECRET": self.secret}).wait_listening()
        self.addCleanup(gateway.stop)
        app = self.start(sys.executable, "-m", "uvicorn", "fastapi_app:app", "--port", "PORT", "--log-level", "warning")
        for key, order in (("first at the gateway", (gateway, app)), ("first at the middleware", (app, gateway))):
            answers = []
            for each in order:
                with Client(each.port) as client:
                    answers.append(client.ask("POST", "/orders?x=1", [("Idempotency-Key", key.replace(" ", "-"))], body=b"the same"))
            self.assertEqual([answer.get("Idempotency-Status") for answer in answers], ["executed", "replayed"], key)
            self.assertEqual((answers[0].status, answers[0].body), (answers[1].status, answers[1].body))
        self.assertEqual((len(backend.requests), self.executions()), (1, 1))


class Reading(unittest.TestCase):
    def read(self, *sizes):
        """How much is read of a body that comes in these pieces, if 8 bytes are allowed."""
        messages = [{"type": "http.request", "body": b"x" * size, "more_body": True} for size in sizes]
        messages[-1]["more_body"] = False

        async def receive():
            return messages.pop(0)

        return len(asyncio.run(asgi._read(receive, 8)))

    def test_a_body_that_is_too_large_is_not_taken_for_its_first_bytes(self):
        self.assertEqual([self.read(8), self.read(4, 4), self.read(8, 1), self.read(4, 8, 8)], [8, 8, 9, 12])


@unittest.skipIf(SERVER, "it has a server of its own")
class Stalled(AppTest):
    def test_a_store_that_does_not_answer_does_not_block_the_event_loop(self):
        """Everything else is served meanwhile."""
        server = catalog.make("redis")
        self.addCleanup(server.stop)
        server.start()
        app = self.start(sys.executable, "-m", "uvicorn", "fastapi_app:app", "--port", "PORT", "--log-level", "warning",
                         store=server.url(), server__timeout="1m", defaults__lease="5m")
        self.assertEqual(app.ask("POST", "/orders", key="before").status, 201)
        server.pause()
        stuck = [Asked(app, "POST", "/orders", key=f"k{number}") for number in range(10)]
        for _ in range(50):
            self.assertEqual(app.ask("GET", "/ping").status, 200)
        self.assertTrue(all(each.is_alive() for each in stuck), "they wait for the store")
        server.resume()
        self.assertEqual({each.answer.status for each in stuck}, {201})


class Starlette(AppTest):
    def test_a_test_client_may_start_the_application_again_and_again(self):
        """As the tests of an application do: every client has an event loop of its own."""
        said = self.python(f"""
import sys
sys.path.insert(0, {str(HERE / "apps")!r})
from fastapi_app import app
from starlette.testclient import TestClient
said = []
for _ in range(2):
    with TestClient(app) as client:
        said += [client.post("/orders", headers={{"Idempotency-Key": "k"}}).headers["Idempotency-Status"] for _ in range(2)]
client = TestClient(app)
app.middleware_stack = None
said += [client.post("/orders", headers={{"Idempotency-Key": "k"}}).headers["Idempotency-Status"] for _ in range(2)]
print(*said)
""")
        self.assertEqual(said, "executed replayed replayed replayed replayed replayed")


if __name__ == "__main__":
    unittest.main()
