"""Flask under gunicorn with once.wsgi.Middleware."""
import unittest

from stories import Stories
from support import AppTest, sys


class Flask(Stories, AppTest):
    def serve(self, **over):
        # A journal belongs to one process: one worker, with threads.
        return self.start(sys.executable, "-m", "gunicorn", "flask_app:app", "--bind", "127.0.0.1:PORT", "--threads", "8",
                          "--log-level", "warning", "--pid", self.data / "pid", **over)


if __name__ == "__main__":
    unittest.main()
