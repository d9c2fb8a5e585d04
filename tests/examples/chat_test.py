"""examples/chat: its session, and its page in a real browser (chat.test.mjs): eight stories of about two seconds each."""
import os
import pathlib
import shutil
import subprocess
import unittest

import npm
from session import ROOT, Session, load

from stage import Stage

PAGES = pathlib.Path(__file__).resolve().parent / "chat.test.mjs"
BROWSER_SECONDS = 120


class NewcomerTest(Session, unittest.TestCase):
    name, usual = "chat", {"once": 8080, "backend": 9000}


class BrowserTest(unittest.TestCase):
    def test_the_page_survives_reloads_and_lost_connections_and_the_model_is_called_once(self):
        folder = npm.install(ROOT / "tests" / "browser", pathlib.Path(os.environ["ONCE_BROWSER_FOLDER"]), ["support.mjs"])
        shutil.copy(PAGES, folder)
        with Stage(free_ports=True) as stage:
            chat = load("chat").Chat(stage, "--by-hand")
            env = {**os.environ, **{f"CHAT_{name.upper()}": str(port) for name, port in chat.ports.items()}}
            done = subprocess.run(["node", "--test", PAGES.name], cwd=folder, env=env, capture_output=True, text=True,
                                  timeout=BROWSER_SECONDS, stdin=subprocess.DEVNULL)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertNotIn("Sanitizer", chat.once.said)


if __name__ == "__main__":
    unittest.main()
