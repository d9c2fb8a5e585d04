"""Every page that says so at its top is followed from top to bottom: its files are written, its commands typed, its output compared.

ONCE_GUIDE names one page, such as start/quick-start; without it all are followed. ONCE_GUIDES_FOLDER is where npm's packages stay between two runs.
"""
import fcntl
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import unittest

import guide
import support

EXPRESS = guide.HERE / "express"
# Pages whose backends need more than Python's standard library.
MODULES = {"fastapi": ("fastapi", "uvicorn"), "django": ("django",), "guarantees-in-practice": ("psycopg2",)}


def install_express():
    """Into ONCE_GUIDES_FOLDER, where it stays until its list changes. Tests that run at once take turns."""
    folder = pathlib.Path(os.environ["ONCE_GUIDES_FOLDER"])
    folder.mkdir(parents=True, exist_ok=True)
    lists = [EXPRESS / name for name in ("package.json", "package-lock.json")]
    wanted = hashlib.sha256(b"".join(path.read_bytes() for path in lists)).hexdigest()
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        installed = folder / "node_modules" / "installed"
        if installed.exists() and installed.read_text() == wanted:
            return
        for path in lists:
            shutil.copy(path, folder)
        done = subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=folder, capture_output=True,
                              text=True, timeout=150, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise AssertionError(f"npm could not install tests/docs/express:\n{done.stdout}{done.stderr}")
        installed.write_text(wanted)


class Guides(unittest.TestCase):
    def follow(self, page):
        if "npm install" in page.read_text():
            install_express()
        shell = guide.Shell(MODULES.get(page.stem, ("json",)))
        self.addCleanup(shell.stop)
        follower = guide.Follower(page, shell)
        follower.follow()
        if follower.skipped:
            self.skipTest(f"{page.relative_to(support.ROOT)}: {'; '.join(follower.skipped)}")


def add_tests():
    """One for each page, so that a run names those that fail."""
    only = os.environ.get("ONCE_GUIDE")
    for page in support.guides():
        name = str(page.relative_to(support.DOCS).with_suffix(""))
        if only in (None, "", name):
            setattr(Guides, "test_" + re.sub(r"\W", "_", name), lambda self, page=page: self.follow(page))


add_tests()


if __name__ == "__main__":
    unittest.main()
