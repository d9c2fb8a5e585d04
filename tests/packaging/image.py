"""The image that packaging/Containerfile makes, as data, and a pod's container of it, started as Kubernetes would: the entry point of
the image, the container's arguments behind it, its files in the folders where they are mounted, its environment.
"""
import contextlib
import json
import os
import pathlib
import re
import subprocess
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONTAINERFILE = ROOT / "packaging/Containerfile"
DATA = "/var/lib/once"
DEADLINE = 60


def steps():
    """(instruction, what follows it) of every line of the Containerfile."""
    text = re.sub(r"^#.*\n", "", CONTAINERFILE.read_text(), flags=re.MULTILINE)
    return [tuple(line.split(" ", 1)) for line in re.sub(r"\\\n\s*", "", text).splitlines() if line.strip()]


def last(name):
    return [rest for instruction, rest in steps() if instruction == name][-1]


def entry_point():
    return json.loads(last("ENTRYPOINT"))


def user():
    return int(last("USER").split(":")[0])


def name():
    """What the header says to build it as."""
    return re.search(r"^#   podman build .* -t (\S+) \.$", CONTAINERFILE.read_text(), re.MULTILINE)[1]


class Container:
    """Files are {mounted at: {name: text}}; a folder that is mounted and empty can be written to, and no other can."""

    def __init__(self, binary, arguments, files, environment):
        self.binary, self.arguments, self.environment = binary, arguments, environment
        self.files = files

    def _place(self, folder):
        """Returns the command, with the files in that folder."""
        places = {DATA: "/proc/none", **{at: f"{folder}{at}" for at in self.files}}

        def moved(text):
            # Names of services are known in a cluster only, and a backend's is looked up at the start.
            text = re.sub(r"(?<=http://)[\w.-]+(?=:\d)", "127.0.0.1", text)
            for at in sorted(places, key=len, reverse=True):
                text = re.sub(rf"{at}(?![\w-])", places[at], text)
            return text

        for at, files in self.files.items():
            pathlib.Path(places[at]).mkdir(parents=True)
            for file, text in files.items():
                path = pathlib.Path(places[at]) / file
                path.write_text(moved(text))
                path.chmod(0o400)
        first, *others = [*entry_point(), *self.arguments]
        if first != "/usr/bin/once":
            raise AssertionError(f"the entry point is {first}")
        return [self.binary, *map(moved, others)]

    def _environment(self):
        return {**{key: value for key, value in os.environ.items() if key != "ONCE_SECRET"}, **self.environment}

    def check(self):
        """Raises if `once check` takes anything ill of the command line, or of what it leads to."""
        with tempfile.TemporaryDirectory() as folder:
            binary, verb, *options = self._place(folder)
            if verb != "serve":
                raise AssertionError(f"it does not serve: {verb}")
            done = subprocess.run([binary, "check", *options], capture_output=True, text=True, env=self._environment())
            if done.returncode != 0:
                raise AssertionError(done.stderr)

    @contextlib.contextmanager
    def serving(self):
        """The line `listening` of its log, while it serves; on other ports, as those that it names may be taken."""
        environment = self._environment()
        with tempfile.TemporaryDirectory() as folder:
            command = [*self._place(folder), "--set", "listen=127.0.0.1:0", "--set", "admin=127.0.0.1:0"]
            with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
                overdue = threading.Timer(DEADLINE, process.kill)
                overdue.start()
                try:
                    yield self._listening(process)
                finally:
                    overdue.cancel()
                    process.kill()

    @staticmethod
    def _listening(process):
        said = ""
        for line in process.stderr:
            said += line
            if '"listening"' in line:
                return json.loads(line)
        raise AssertionError(f"it does not serve, and ends with {process.wait()}: {said}")
