"""The types of the package under tsc --strict: from ES modules and CommonJS, with a current TypeScript and with Debian's."""
import subprocess
import unittest

import package

STRICT = ("--strict", "--noEmit", "--target", "es2022", "--lib", "es2022,dom,dom.iterable", "--module", "node16", "--moduleResolution", "node16")
COMMON_JS = """import once = require("once");
import express = require("once/express");
import { fetchOnce } from "once/fetch";

const gate: Promise<once.Gate> = express.once({ store: "memory:" }).gate;
const response: Promise<Response> = fetchOnce("https://api.example/");
const stream: Promise<once.OnceStream> = once.streamOnce("https://api.example/");
export { gate, response, stream };
"""


class Types(unittest.TestCase):
    def compile(self, compiler, *files):
        done = subprocess.run([*compiler, *STRICT, *files], cwd=package.project(), capture_output=True, text=True, timeout=100)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    def own_compiler(self):
        return [package.node(), str(package.project().parent / "node_modules" / "typescript" / "bin" / "tsc")]

    def test_they_allow_and_refuse_what_they_should(self):
        package.programs("types.mts")
        self.compile(self.own_compiler(), "--skipLibCheck", "types.mts")

    def test_the_declarations_are_right_by_themselves(self):
        """Without skipLibCheck, so that the package's own .d.ts files are checked."""
        (package.project() / "common.cts").write_text(COMMON_JS)
        self.compile(self.own_compiler(), "--types", "node", "common.cts")

    def test_debians_typescript_takes_them_too(self):
        (package.project() / "old.cts").write_text(COMMON_JS)
        self.compile(["tsc"], "--skipLibCheck", "--types", "node", "old.cts")


if __name__ == "__main__":
    unittest.main()
