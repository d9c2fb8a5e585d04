"""docs/guides/claims.md: its curl session gives what it shows, and its programs run."""
import os
import re
import subprocess
import sys
import unittest

import node_package
from support import ROOT, ClaimsTest

PAGE = (ROOT / "docs" / "guides" / "claims.md").read_text()


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def comparable(text):
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", text)
    text = re.sub(r"[0-9a-f]{64}\.[0-9a-f]{32}", "CLAIM", text)
    return re.sub(r'"fence":\d+', '"fence":1', text).strip()


class Page(ClaimsTest):
    def run_in_data(self, command):
        done = subprocess.run(command, cwd=self.data, capture_output=True, text=True, timeout=60,
                              env={**os.environ, "PYTHONPATH": str(ROOT / "bindings" / "python")})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_the_session_gives_what_it_shows(self):
        self.start()
        session, = blocks("console")
        claim = None
        steps = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", session, re.MULTILINE)
        self.assertGreater(len(steps), 4)
        for command, expected in steps:
            answer = self.run_in_data(["sh", "-c", command.replace("CLAIM", claim or "").replace("curl ", "curl -sS --max-time 20 ")])
            found = re.search(r"[0-9a-f]{64}\.[0-9a-f]{32}", answer)
            claim = claim or (found and found[0])
            with self.subTest(command=command):
                self.assertEqual(comparable(answer), comparable(expected))

    def test_the_programs_run(self):
        self.start()
        python = [self.run_in_data([sys.executable, "-c", program]).splitlines() for program in blocks("python")]
        self.assertEqual(python, [["succeeded Once."], ["1 0 {'percent': 40}", "imported"]])
        node_package.unpack(self.data)
        node = []
        for program in blocks("javascript"):
            (self.data / "program.mjs").write_text(program)
            node.append(self.run_in_data([os.environ.get("NODE", "node"), "program.mjs"]).splitlines())
        self.assertEqual(node, [["succeeded Short."], ["1 0 { percent: 40 }", "imported"]])


if __name__ == "__main__":
    unittest.main()
