"""The documentation as data: its files, its fenced blocks, and a `once demo` to hold it against."""
import base64
import contextlib
import json
import os
import pathlib
import re
import secrets
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
CONFIGURATION = DOCS / "reference" / "configuration"
FOLLOWED = "<!-- tests/docs/guides_test.py follows this page from top to bottom. -->"
ONCE = os.environ["ONCE_BINARY"]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
README_ADDRESS = "127.0.0.1:8080"
FILE = re.compile(r"/etc/once/([\w./-]+)")


def pages():
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))]


def guides():
    """The pages that are followed: they say so at the top."""
    return [page for page in sorted(DOCS.rglob("*.md")) if FOLLOWED in page.read_text().splitlines()]


def reference():
    """The pages of the settings, as one text."""
    return "\n".join(page.read_text() for page in sorted(CONFIGURATION.glob("*.md")))


def settings():
    """The names of all settings."""
    return set(re.findall(r"^### `([\w.]+)`$", reference(), re.MULTILINE))


def blocks(path, language):
    """(line, text) of every fenced block in that language."""
    text = path.read_text()
    return [(text.count("\n", 0, match.start()) + 2, match[2]) for match in FENCE.finditer(text) if match[1] == language]


def openssl(*arguments):
    return subprocess.run(["openssl", *arguments], check=True, capture_output=True).stdout


def make_file(path):
    """What a setting that names such a file would find there."""
    path.parent.mkdir(exist_ok=True)
    if path.suffix == ".pem" and path.stem == "issuer":
        openssl("genpkey", "-algorithm", "ed25519", "-out", f"{path}.private")
        openssl("pkey", "-in", f"{path}.private", "-pubout", "-out", str(path))
    elif path.suffix == ".json":
        openssl("genpkey", "-algorithm", "ed25519", "-out", f"{path}.private")
        public = openssl("pkey", "-in", f"{path}.private", "-pubout", "-outform", "DER")[-32:]
        x = base64.urlsafe_b64encode(public).decode().rstrip("=")
        path.write_text(json.dumps({"keys": [{"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "kid": "1", "x": x}]}))
    elif path.suffix in (".pem", ".key"):
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={path.stem}",
                "-keyout", str(path.with_suffix(".key")), "-out", str(path.with_suffix(".pem")))
    elif path.suffix == ".crl":
        authority = path.with_suffix(".pem")
        if not authority.exists():
            make_file(authority)
        settings, index = pathlib.Path(f"{path}.conf"), pathlib.Path(f"{path}.index")
        index.write_text("")
        settings.write_text(f"[ca]\ndefault_ca = own\n[own]\ndatabase = {index}\ndefault_md = sha256\ndefault_crl_days = 30\n")
        openssl("ca", "-gencrl", "-config", str(settings), "-cert", str(authority), "-keyfile", str(path.with_suffix(".key")),
                "-out", str(path))
    else:
        path.write_text(secrets.token_hex(32))
        path.chmod(0o600)


def with_files(text, folder):
    """The snippet with real files for the certificates, keys and secrets it names, and a folder for its logs."""
    for name in sorted(set(FILE.findall(text))):
        path = pathlib.Path(folder) / name
        if not path.exists():
            make_file(path)
    return text.replace("/etc/once/", f"{folder}/").replace("/var/log/once/", f"{folder}/")


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
