"""The reference server of Durable Streams and its conformance suite, as npm has them.

package.json says which versions, package-lock.json what exactly they are. vitest is older than what the suite asks for,
because it must run on Debian's own Node 18.
"""
import collections
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

from wire import DEADLINE, wait_until

SOURCE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(SOURCE.parent / "servers"))
import npm  # noqa: E402
PROGRAMS = ("serve.mjs", "append.mjs", "suite.test.mjs", "vitest.config.mjs")
RUN_SECONDS = 150


def install():
    """Puts packages and programs into ONCE_STREAMS_FOLDER and returns it."""
    return npm.install(SOURCE, pathlib.Path(os.environ["ONCE_STREAMS_FOLDER"]), PROGRAMS)


class Reference:
    """A fresh reference server."""

    def __init__(self, folder):
        self._out = tempfile.NamedTemporaryFile(prefix="once-streams-")
        # It ends with the test, even with one that is killed for taking too long.
        self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "node", "serve.mjs"], cwd=folder,
                                        stdin=subprocess.DEVNULL, stdout=self._out, stderr=subprocess.STDOUT)
        self.port = wait_until(self._listening, what="the reference server to listen")

    def _listening(self):
        said = pathlib.Path(self._out.name).read_text()
        if self.process.poll() is not None:
            raise AssertionError(f"the reference server ended with {self.process.returncode}:\n{said}")
        found = re.search(r"^http://127\.0\.0\.1:(\d+)$", said, re.MULTILINE)
        return found and int(found[1])

    def stop(self):
        self.process.send_signal(signal.SIGKILL)  # it has nothing to lose
        self.process.wait(DEADLINE)
        self._out.close()


def run_suite(folder, port, seed, report, names=()):
    """Runs the whole suite, or only the tests of these full names; {(full name, which of that name): status}."""
    report.unlink(missing_ok=True)
    command = ["node", "node_modules/vitest/vitest.mjs", "run", "--reporter=json", f"--outputFile={report}"]
    if names:
        command += ["-t", f"^({'|'.join(javascript_pattern(name) for name in sorted(names))})$"]
    environment = {**os.environ, "CI": "1", "SUITE_URL": f"http://127.0.0.1:{port}", "SUITE_SEED": str(seed)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=RUN_SECONDS,
                          stdin=subprocess.DEVNULL)
    if not report.exists():  # it ends with 1 if a test fails; some do
        raise AssertionError(f"the suite left no report:\n{done.stdout}{done.stderr}")
    return results(json.loads(report.read_text()))


def javascript_pattern(text):
    return re.sub(r"[.*+?^${}()|[\]\\]", r"\\\g<0>", text)


def results(report):
    found, seen = {}, collections.Counter()
    for file in report["testResults"]:
        for test in file["assertionResults"]:
            name = test["fullName"].strip()
            found[name, seen[name]] = test["status"]
            seen[name] += 1
    return found
