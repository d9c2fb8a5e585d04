"""What is typed is completed, in bash itself."""
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import support

LOG_LEVELS = {"debug", "info", "warn", "error", "off"}


class Bash(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.script = subprocess.run([support.ONCE, "completion", "bash"], capture_output=True, text=True, check=True).stdout

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="once-shell-"))
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "once.yaml").touch()
        (self.folder / "other").mkdir()

    def complete(self, line):
        # As readline cuts it.
        words = re.findall(r"=|[^\s=]+", line)
        if line[-1] in " ":
            words.append("")
        script = self.script + '\nCOMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _once; printf "%s\\n" "${COMPREPLY[@]}"'
        done = subprocess.run(["bash", "-c", script, "bash", *words], capture_output=True, text=True, check=True, cwd=self.folder)
        self.assertEqual(done.stderr, "")
        return set(done.stdout.split())

    def test_words(self):
        self.assertEqual(self.complete("once se"), {"serve", "send"})
        self.assertEqual(self.complete("once journal "), {"verify", "repair"})
        self.assertIn("completion", self.complete("once "))
        self.assertNotIn("manual", self.complete("once "))
        self.assertEqual(self.complete("once journal repair --y"), {"--yes"})
        self.assertEqual(self.complete("once serve --st"), {"--store"})
        self.assertEqual(self.complete("once serve --yes"), set())

    def test_values(self):
        self.assertEqual(self.complete("once simulate --store jou"), {"journal"})
        self.assertEqual(self.complete("once keys list --state unk"), {"unknown"})
        self.assertEqual(self.complete("once serve --config on"), {"once.yaml"})
        self.assertEqual({word.rstrip("/") for word in self.complete("once journal verify o")}, {"other"})
        self.assertTrue({word.removesuffix("=").split("=")[0] for word in self.complete("once serve --set log.")} >=
                        {"log.level", "log.format", "log.access"})
        self.assertEqual({word.split("=")[-1] for word in self.complete("once serve --set log.level=")}, LOG_LEVELS)
        self.assertEqual({word.split("=")[-1] for word in self.complete("once check --config a --set defaults.mode=sh")}, {"shadow"})


if __name__ == "__main__":
    unittest.main()
