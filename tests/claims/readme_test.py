"""The README of the Node client: its commands and programs do what it shows; and the types of both clients."""
import os
import re
import shlex
import shutil
import subprocess
import unittest

from harness import EndToEnd, Gateway
from support import ROOT
from wire import DEADLINE

PROGRAM = re.compile(r"^<!-- run -->\n```(\w+)\n(.*?)^```\n\n```\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Readme(EndToEnd):
    def page(self, folder):
        folder = ROOT / folder
        return folder, (folder / "README.md").read_text()

    def programs(self, page):
        found = PROGRAM.findall(page)
        self.assertEqual(len(found), page.count("<!-- run -->"))
        return found

    def served(self, page):
        """The gateway of the page's own command, and the folder where it runs."""
        backend = self.backend()
        command = re.search(r"^once serve (.*)$", page, re.MULTILINE)[1].replace("http://127.0.0.1:9000", backend.origin)
        gateway = Gateway(*shlex.split(command)).wait_listening()
        self.addCleanup(gateway.stop)
        return gateway

    def output(self, folder, *command):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=DEADLINE)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        return done.stdout


    def test_types_of_python_refuse_mistakes(self):
        """An ignored error that is none fails, too."""
        self.output(ROOT / "tests" / "claims", "env", f"MYPYPATH={ROOT / 'bindings' / 'python'}", "mypy", "--strict", "--no-error-summary", "--follow-imports=silent",
                    f"--cache-dir={self.folder()}", "--python-version=3.9", "types_of_python.py")


if __name__ == "__main__":
    unittest.main()
