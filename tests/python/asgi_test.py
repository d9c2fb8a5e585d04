"""FastAPI under uvicorn with once.Middleware."""
import asyncio
import json
import unittest

from once import asgi
from stories import Stories
from support import PROGRAMS, SERVER, AppTest, Asked, sys


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


class Starlette(AppTest):
    def test_five_lines(self):
        """As the README shows it, on a store that needs nothing."""
        (self.data / "main.py").write_text(
            "import once\n"
            "from fastapi import FastAPI\n"
            "app = FastAPI()\n"
            f"app.add_middleware(once.Middleware, settings={{'store': {self.store!r}}})\n"
            "app.post('/orders')(lambda: {'made': open('executions', 'a').write('x\\n')})\n")
        app = self.start(PROGRAMS / "python", "-m", "uvicorn", "main:app", "--port", "PORT", "--log-level", "warning")
        first, again = (app.ask("POST", "/orders", key="k") for _ in range(2))
        self.assertEqual([first.get("Idempotency-Status"), again.get("Idempotency-Status")], ["executed", "replayed"])
        self.assertEqual((first.status, self.executions()), (200, 1))


if __name__ == "__main__":
    unittest.main()
