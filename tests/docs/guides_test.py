"""Every page that says so at its top is followed from top to bottom: its files are written, its commands typed, its output compared.

ONCE_GUIDE names one page, such as start/quick-start; without it all are followed. ONCE_GUIDES_FOLDER is where npm's packages stay between two runs.
"""
import os
import pathlib
import re
import sys
import unittest

import guide
import support

sys.path.insert(0, str(support.ROOT / "tests" / "servers"))
import npm  # noqa: E402

EXPRESS = guide.HERE / "express"
# Pages whose backends need more than Python's standard library.
MODULES = {"fastapi": ("fastapi", "uvicorn"), "django": ("django",), "guarantees-in-practice": ("psycopg2",)}


class Guides(unittest.TestCase):
    def follow(self, page):
        if "npm install" in page.read_text():
            npm.install(EXPRESS, pathlib.Path(os.environ["ONCE_GUIDES_FOLDER"]))
        shell = guide.Shell(MODULES.get(page.stem, ("json",)))
        self.addCleanup(shell.stop)
        guide.Follower(page, shell).follow()


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
