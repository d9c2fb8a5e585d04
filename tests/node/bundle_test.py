"""once/fetch in a browser: every common bundler can bundle it, and the bundle runs where there is nothing of Node."""
import json
import subprocess
import unittest

import package


class Bundles(unittest.TestCase):
    def bundled(self, bundler):
        project = package.programs("bundle.mjs", "browser_entry.mjs")
        done = subprocess.run([package.node(), "bundle.mjs", bundler], cwd=project, capture_output=True, text=True, timeout=100)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return json.loads(done.stdout.splitlines()[-1])

    def test_every_bundle_runs(self):
        for bundler in ("webpack", "esbuild", "vite"):
            with self.subTest(bundler):
                ran = self.bundled(bundler)
                self.assertEqual(ran["got"], {"status": 201, "text": "made"})
                first, second = ran["sent"]
                self.assertEqual(first, second, "the same key and bytes on a retry")
                self.assertEqual(len(first["key"]), 36)
                self.assertEqual(ran["events"], ["a", "b"])
                self.assertEqual([chat["offset"] for chat in ran["chats"]], [None, None], "a page of another origin cannot see where it begins")
                self.assertEqual(len({chat["key"] for chat in ran["chats"]}), 1)
                self.assertEqual(ran["nodeNames"], [])


if __name__ == "__main__":
    unittest.main()
