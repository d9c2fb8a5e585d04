"""What the servers that tests start have in common: a folder of their own, free ports on loopback, a wall clock that a test
may move on, and an end that comes with the test's own, even if that is killed.
"""
import contextlib
import os
import pathlib
import pwd
import random
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time

DEADLINE = 60.0
FIRST_PORT, LAST_PORT = 10000, 32000
CHANCE = random.SystemRandom()  # tests that run at once must not draw the same


def free_port():
    """Below those that outgoing connections are given: what is free now is so when the server starts, and starts again."""
    while True:
        port = CHANCE.randrange(FIRST_PORT, LAST_PORT)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def wait_until(condition, what, deadline=DEADLINE):
    until = time.monotonic() + deadline
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > until:
            raise TimeoutError(f"waited {deadline:g} s for {what}")
        time.sleep(0.02)


def wait_stopped(pid):
    """After SIGSTOP a thread may go on for a moment, and finish what it was asked for."""
    def stopped():
        for task in pathlib.Path(f"/proc/{pid}/task").glob("*/stat"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
                if task.read_text().rsplit(")", 1)[1].split()[0] not in "TtZX":
                    return False
        return True

    wait_until(stopped, "a process to stop")


class Folder:
    """Of one server or a cluster of them. `user` owns it if we are root: some servers refuse to run as root."""

    def __init__(self, name, user=None):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix=f"once-{name}-"))
        self.user = user if user and os.geteuid() == 0 else None
        self.clock = self.path / "clock"
        self.clock.write_bytes(struct.pack("=q", 0))
        os.chmod(self.clock, 0o666)  # by mmap of the server, by pwrite of the test
        os.chmod(self.path, 0o755)
        self.give(self.path)

    def make(self, name):
        path = self.path / name
        path.mkdir()
        self.give(path)
        return path

    def give(self, path):
        if self.user:
            entry = pwd.getpwnam(self.user)
            os.chown(path, entry.pw_uid, entry.pw_gid)

    def as_user(self):
        """What stands before a command that must run as the folder's owner."""
        return ["setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--init-groups"] if self.user else []

    def advance(self, seconds):
        """Moves on the wall clock of every process that was started with the skewed clock."""
        skew = struct.unpack("=q", self.clock.read_bytes())[0] + int(seconds * 1000)
        with open(self.clock, "r+b") as file:
            file.write(struct.pack("=q", skew))

    def remove(self):
        shutil.rmtree(self.path, ignore_errors=True)


def build_folder():
    """Of CMake, if what is tested was built there."""
    for name in ("ONCE_BINARY", "ONCE_SKEWED_CLOCK"):
        for folder in pathlib.Path(os.environ.get(name, "/")).parents:
            if (folder / "CMakeCache.txt").exists():
                return folder
    return None


def made(folder, name, program, make):
    """folder/name as make() leaves it, which takes seconds. Made once for a build and a version of the program, and copied
    from then on."""
    path = folder.path / name
    version = int(os.stat(shutil.which(program)).st_mtime)
    build = build_folder()
    template = build / "server-templates" / f"{name}-{version}" if build else None
    copy = ["cp", "--archive", "--reflink=auto"]
    if template is not None and template.exists():
        subprocess.run([*copy, f"{template}/.", path], check=True)
        return
    make()
    if template is not None:
        template.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=template.parent) as own:
            subprocess.run([*copy, f"{path}/.", f"{own}/made"], check=True)
            with contextlib.suppress(OSError):  # another test was quicker
                os.rename(f"{own}/made", template)


class Process:
    """One server process that can be started again on what it left."""

    def __init__(self, folder, name, command, skewed=True):
        self.folder = folder
        self.name = name
        self.command = [str(part) for part in command]
        self.skewed = skewed
        self.process = None

    @property
    def log(self):
        return (self.folder.path / f"{self.name}.log").read_text(errors="replace")

    def start(self):
        # A password or a locale of the one who runs the tests has no business here.
        environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "TZ": "UTC"}
        clock = os.environ.get("ONCE_SKEWED_CLOCK")
        if clock and self.skewed:
            environment |= {"LD_PRELOAD": clock, "ONCE_CLOCK_SKEW_FILE": str(self.folder.clock)}
        with open(self.folder.path / f"{self.name}.log", "ab") as log:
            self.process = subprocess.Popen(
                [*self.folder.as_user(), "setpriv", "--pdeathsig", "KILL", *self.command], cwd=self.folder.path,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
        return self

    def alive(self):
        if self.process.poll() is not None:
            raise RuntimeError(f"{self.name} ended with {self.process.returncode}:\n{self.log[-3000:]}")
        return True

    def send(self, number):
        if self.process and self.process.poll() is None:
            self.process.send_signal(number)

    def kill(self):
        """As a crash."""
        self.send(signal.SIGKILL)
        self.process.wait()

    def pause(self):
        self.send(signal.SIGSTOP)
        if self.process:
            wait_stopped(self.process.pid)

    def resume(self):
        self.send(signal.SIGCONT)

    def stop(self, number=signal.SIGTERM):
        if self.process is None:
            return
        self.resume()
        self.send(number)
        try:
            self.process.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            self.kill()
