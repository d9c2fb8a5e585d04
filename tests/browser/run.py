"""Runs the browser tests: npm puts playwright-core into the build folder, Debian's Chromium is the browser."""
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parent
LISTS = ("package.json", "package-lock.json")
INSTALL_SECONDS = 150


def install(folder):
    """The packages stay until their list changes."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in [*LISTS, *(path.name for path in SOURCE.glob("*.mjs"))]:
        shutil.copy(SOURCE / name, folder / name)
    installed = folder / "node_modules" / "installed"
    wanted = hashlib.sha256(b"".join((SOURCE / name).read_bytes() for name in LISTS)).hexdigest()
    if installed.exists() and installed.read_text() == wanted:
        return
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1", "--fetch-timeout=60000"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_SECONDS, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        sys.exit("These tests need the packages of tests/browser/package-lock.json and could not install them; "
                 f"can npm reach its registry from here?\n{done.stdout}{done.stderr}")
    installed.write_text(wanted)


def main():
    folder = pathlib.Path(os.environ["ONCE_BROWSER_FOLDER"])
    install(folder)
    environment = {**os.environ, "ONCE_SOURCE": str(SOURCE.parent.parent)}
    sys.exit(subprocess.run(["node", "--test", "all.test.mjs"], cwd=folder, env=environment, stdin=subprocess.DEVNULL).returncode)


if __name__ == "__main__":
    main()
