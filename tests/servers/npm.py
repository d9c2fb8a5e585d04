"""Packages from npm, in the versions of a package-lock.json, for tests with real client libraries and suites."""
import fcntl
import hashlib
import shutil
import subprocess

LISTS = ("package.json", "package-lock.json")
INSTALL_SECONDS = 150


def install(source, folder, programs=()):
    """Puts the packages that `source` lists, and its programs, into `folder` and returns that. The packages stay until their
    list changes; tests that run at the same time share them."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for name in (*LISTS, *programs):
            if not (folder / name).exists() or (folder / name).read_bytes() != (source / name).read_bytes():
                shutil.copy(source / name, folder / name)
        installed = folder / "node_modules" / "installed"
        wanted = hashlib.sha256(b"".join((source / name).read_bytes() for name in LISTS)).hexdigest()
        if not installed.exists() or installed.read_text() != wanted:
            _npm_ci(source, folder)
            installed.write_text(wanted)
    return folder


def _npm_ci(source, folder):
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1", "--fetch-timeout=60000"]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_SECONDS,
                              stdin=subprocess.DEVNULL)
        said = "" if done.returncode == 0 else done.stdout + done.stderr
    except FileNotFoundError:
        said = "there is no npm here"
    except subprocess.TimeoutExpired:
        said = f"npm did not end within {INSTALL_SECONDS} s"
    if said:
        raise AssertionError(f"This test needs the packages of {source}/package-lock.json and could not install "
                             f"them; can npm reach its registry from here?\n{said}")
