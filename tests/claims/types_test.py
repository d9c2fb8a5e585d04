"""The types of the Python package refuse mistakes in programs that use the claims API."""
import subprocess
import tempfile
import unittest

from support import ROOT
from wire import DEADLINE


class Types(unittest.TestCase):
    def test_types_refuse_mistakes(self):
        """An ignored error that is none fails, too."""
        with tempfile.TemporaryDirectory() as cache:
            done = subprocess.run(["env", f"MYPYPATH={ROOT / 'bindings' / 'python'}", "mypy", "--strict", "--no-error-summary",
                                   "--follow-imports=silent", f"--cache-dir={cache}", "--python-version=3.9", "types_of_python.py"],
                                  cwd=ROOT / "tests" / "claims", capture_output=True, text=True, timeout=DEADLINE)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)


if __name__ == "__main__":
    unittest.main()
