"""Flask under gunicorn with once.wsgi.Middleware."""
import unittest

from stories import Stories
from support import AppTest, sys


class Flask(Stories, AppTest):
    def serve(self, **over):
        # A journal belongs to one process: one worker, with threads.
        return self.start(sys.executable, "-m", "gunicorn", "flask_app:app", "--bind", "127.0.0.1:PORT", "--threads", "8",
                          "--log-level", "warning", "--pid", self.data / "pid", **over)

    def test_a_url_names_the_host_whatever_the_header_says(self):
        app = self.serve()
        host = ("Host", "a.test")
        first = app.ask("POST", "/orders?x=1", [host], {"book": 7}, key="k")
        again = app.ask("POST", "http://a.test/orders?x=1", [("Host", "b.test")], {"book": 7}, key="k")
        self.assertEqual((again.get("Idempotency-Status"), again.body), ("replayed", first.body))
        other = app.ask("POST", "http://b.test/orders?x=1", [host], {"book": 7}, key="k")
        self.assertEqual(other.get("Idempotency-Status"), "executed")


if __name__ == "__main__":
    unittest.main()
