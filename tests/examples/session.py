"""The examples as somebody new to them has them: `run` is started, and what README.md shows is typed and compared."""
import contextlib
import email.utils
import importlib.machinery
import importlib.util
import pathlib
import re
import signal
import subprocess
import sys

from wire import DEADLINE, Backend, Client, wait_until

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples" / "lib"))
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Values that are new each time.
NEW_EACH_TIME = re.compile(r"(?im)^(date|x-request-id|original-request-id|idempotency-expires|location): .*$")


def load(name):
    """examples/NAME/run as a module."""
    path = ROOT / "examples" / name / "run"
    loader = importlib.machinery.SourceFileLoader(f"{name}_run", str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


def steps(name):
    """[(command, expected output)] of the console blocks of examples/NAME/README.md; `$ ` begins a command."""
    found = []
    for block in CONSOLE.findall((ROOT / "examples" / name / "README.md").read_text()):
        for line in block.splitlines(keepends=True):
            if line.startswith("$ "):
                found.append([line[2:].strip(), ""])
            elif found[-1][0].endswith("\\"):
                found[-1][0] += "\n" + line.rstrip()
            else:
                found[-1][1] += line
    return found


class Example:
    """A running examples/NAME/run on free ports."""

    def __init__(self, name, usual, *arguments, env=None):
        self.name = name
        self.usual = usual  # {part: port in the README}
        command = [str(ROOT / "examples" / name / "run"), "--free-ports", *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env=env)
        self.said = ""
        for line in self.process.stdout:
            self.said += line
            if "Ctrl-C" in line:
                break
        else:
            raise AssertionError(f"{name} did not start: {self.said}")
        self.ports = {part: int(port) for part, port in re.findall(r"^(\w+) +http://127\.0\.0\.1:(\d+)", self.said, re.MULTILINE)}

    def here(self, text):
        for part, port in self.usual.items():
            text = text.replace(f"127.0.0.1:{port}", f"127.0.0.1:{self.ports[part]}")
        return text

    def shell(self, command, env=None):
        command = self.here(command).replace("curl ", "curl -sS --max-time 20 ")
        done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=120, env=env)
        return done.stdout.replace("\r\n", "\n") + done.stderr

    def end(self, number):
        self.process.send_signal(number)
        self.process.stdout.read()
        self.process.stdout.close()
        return self.process.wait(3 * DEADLINE)


class Session:
    """Mixed into the test of an example: what its README shows is typed and compared."""

    maxDiff = 4000
    name = None
    usual = {}  # {part: port in the README}
    env = None

    def test_the_session_of_the_readme_gives_what_it_shows_and_ctrl_c_ends_all(self):
        with self.example(self.name, self.usual, env=self.env) as example:
            self.play(example, self.env)
            self.assertEqual(example.end(signal.SIGINT), 0)
            for port in example.ports.values():
                with self.assertRaises(ConnectionRefusedError):
                    Client(port)

    @contextlib.contextmanager
    def example(self, name, usual, *arguments, env=None):
        example = Example(name, usual, *arguments, env=env)
        try:
            yield example
        finally:
            if example.process.poll() is None:
                example.end(15)

    def play(self, example, env=None):
        for command, expected in steps(example.name):
            with self.subTest(command=command):
                answer = example.shell(command, env=env)
                self.assertEqual(comparable(answer), comparable(example.here(expected)))


class LossyLine(Backend):
    """Before a server: so many of its answers to POST do not arrive."""

    DROPPED = ("host", "content-length", "connection", "transfer-encoding", "keep-alive")

    def __init__(self, port, lost):
        self.behind, self.lost = port, lost
        super().__init__(self.forward)

    def forward(self, request, connection):
        is_post = request.method == "POST"
        with Client(self.behind) as client:
            answer = client.ask(request.method, request.target, self.passed(request.fields), request.body if is_post else None)
        if is_post and self.lost > 0:
            self.lost -= 1
            connection.reset()
            return
        connection.reply(answer.status, self.passed(answer.fields), answer.body)

    def passed(self, fields):
        return [field for field in fields if field[0].lower() not in self.DROPPED]


def kept_for(response):
    """Seconds from the answer until it is forgotten, by the gateway's own clock."""
    return (email.utils.parsedate_to_datetime(response.get("Idempotency-Expires")) -
            email.utils.parsedate_to_datetime(response.get("Date"))).total_seconds()


def comparable(text):
    return NEW_EACH_TIME.sub(r"\1", text).strip()


__all__ = ["Example", "LossyLine", "Session", "kept_for", "load", "steps", "wait_until", "ROOT"]
