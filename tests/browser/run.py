"""Runs the browser tests: npm puts playwright-core into the build folder, Debian's Chromium is the browser."""
import os
import pathlib
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(SOURCE.parent / "servers"))
import npm  # noqa: E402

folder = npm.install(SOURCE, pathlib.Path(os.environ["ONCE_BROWSER_FOLDER"]), [path.name for path in SOURCE.glob("*.mjs")])
environment = {**os.environ, "ONCE_SOURCE": str(SOURCE.parent.parent)}
sys.exit(subprocess.run(["node", "--test", "all.test.mjs"], cwd=folder, env=environment, stdin=subprocess.DEVNULL).returncode)
