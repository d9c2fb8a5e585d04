"""The documentation as data: its files, its fenced blocks, and a `once demo` to hold it against."""
import contextlib
import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
GUIDES = ROOT / "docs" / "guides"
ONCE = os.environ["ONCE_BINARY"]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
README_ADDRESS = "127.0.0.1:8080"
CERTIFICATE = re.compile(r"/etc/once/([\w-]+)\.pem")


def pages():
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def guides():
    return sorted(GUIDES.rglob("*.md"))


def blocks(path, language):
    """(line, text) of every fenced block in that language."""
    text = path.read_text()
    return [(text.count("\n", 0, match.start()) + 2, match[2]) for match in FENCE.finditer(text) if match[1] == language]


def with_certificates(text, folder):
    """The snippet with real files for the certificates it names."""
    for name in sorted(set(CERTIFICATE.findall(text))):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
                        f"/CN={name}", "-keyout", f"{folder}/{name}.key", "-out", f"{folder}/{name}.pem"],
                       check=True, capture_output=True)
    return text.replace("/etc/once/", f"{folder}/")


class Demo:
    """What a running demo said at its start."""

    def __init__(self, process):
        self.process = process
        self.text = ""
        for line in process.stdout:
            self.text += line
            if "Ctrl-C" in line:
                break
        else:
            raise AssertionError(f"the demo did not start: {self.text}")
        self.address = re.search(r"Once http://([\d.:]+)", self.text)[1]
        self.admin = re.search(r"metrics http://([\d.:]+)", self.text)[1]

    def curl_lines(self):
        return [line.strip() for line in self.text.splitlines() if line.strip().startswith("curl ")]


@contextlib.contextmanager
def demo(*arguments):
    command = [ONCE, "demo", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--threads", "1", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, encoding="utf-8") as process:
        try:
            yield Demo(process)
        finally:
            process.terminate()
            process.stdout.read()
    if process.returncode != 0:
        raise AssertionError(f"the demo ended with {process.returncode}")


def shell(command):
    """What a command typed at a shell prints. curl is told to show no progress, and to give up in the end."""
    quiet = command.replace("curl ", "curl -sS --max-time 20 ", 1)
    done = subprocess.run(["sh", "-c", quiet], capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.stderr}")
    return done.stdout.replace("\r\n", "\n")
