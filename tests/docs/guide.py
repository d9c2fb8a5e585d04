"""A page as a reader follows it: one shell, from the first block to the last.

| block | what is done with it |
| --- | --- |
| sh, bash | typed into the page's shell; a command that fails fails the page |
| console | each `$ ` line is typed, what it prints must be what stands below; `…` is anything |
| yaml, python, js, json | a file of the name in the comment above, `<!-- file: app.py -->`; a later command must use it |
| yaml without a name | passes `once check`; one with apiVersion is a manifest, see manifests.py |
| json without a name | is JSON |
| nginx | a site: nginx serves it from here on |
| text, markdown | is read by people; nothing is run |

Comments before a block: `file: NAME`; `listens: PORT …` (what it starts is waited for); `server: postgres` (a database to use);
`dialect: NAME` (a text for clients of it names what it sets). Ports of the pages are rewritten to free ones, in files, commands
and output.
"""
import dataclasses
import fcntl
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import manifests
import support

sys.path.insert(0, str(support.ROOT / "tests" / "servers"))

import catalog  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
BLOCK = re.compile(r"^(?:<!-- (?P<notes>[^\n]*) -->\n)?```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
FILES = ("yaml", "python", "js", "json", "nginx")
READ = ("text", "markdown")
# Every port that a page may name. 8080 and 8081 are also what Once takes by itself.
PORTS = ("8080", "8081", "8082", "8090", "8091", "8443", "9000", "9001", "3000", "8000", "6379")
# Where pages have a database that is there already.
DATABASES = {"postgres": "postgres://postgres@127.0.0.1:5432/postgres"}
# Headers whose value is new each time: only their presence is compared.
NEW_EACH_TIME = ("Date", "X-Request-Id", "Original-Request-Id", "Idempotency-Expires")
CRASH_MARKS = ("Sanitizer", "runtime error:", "invariant broken")
DEADLINE = 60.0
# Who types is slower than a process that ends; a page is not.
KILL = """kill() {
  builtin kill "$@" || return
  case "$1" in -USR2|-HUP|-STOP|-CONT) ;; *) wait "${@: -1}" 2>/dev/null || true ;; esac
}
"""


@dataclasses.dataclass
class Block:
    kind: str
    text: str
    line: int
    notes: dict


def blocks(page):
    text = page.read_text()
    if re.search(r"^[ \t>]+```", text, re.MULTILINE):
        raise AssertionError(f"{page.name}: a fence that is indented is no block of its own, and nothing would run it")
    found = []
    for match in BLOCK.finditer(text):
        notes = dict(part.split(": ", 1) for part in match["notes"].split("; ")) if match["notes"] else {}
        found.append(Block(match["kind"], match["text"], text.count("\n", 0, match.start("kind")) + 1, notes))
    return found


def steps(session):
    """[(command, expected output)] of a console block. A line that ends in a backslash goes on in the next."""
    found, unfinished = [], False
    for line in session.splitlines(keepends=True):
        if line.startswith("$ "):
            found.append([line[2:], ""])
        elif unfinished:
            found[-1][0] += line
        else:
            found[-1][1] += line
        unfinished = line.endswith("\\\n") and not found[-1][1]
    return [tuple(step) for step in found]


def pattern(expected):
    """What is shown, as a regular expression: `…` is anything, and so are the headers that are new each time."""
    names = "|".join(NEW_EACH_TIME)
    shown = re.sub(rf"^({names}): .*$", r"\1: …", expected.strip(), flags=re.MULTILINE)
    return re.compile("".join(".*?" if part == "…" else re.escape(part) for part in re.split("(…)", shown)), re.DOTALL)


class Ports:
    """A port of this machine for each of these, kept from other pages until they are given back.

    They are below those that the system gives to clients: one of these could be taken between now and when it is used.
    """

    FIRST, BLOCK, BLOCKS = 20000, 16, 700

    def __init__(self, names):
        folder = pathlib.Path(tempfile.gettempdir()) / f"once-guide-ports-{os.getuid()}"
        folder.mkdir(exist_ok=True)
        for number in random.sample(range(self.BLOCKS), self.BLOCKS):
            self.lock = open(folder / str(number), "w")
            ports = [self.FIRST + self.BLOCK * number + n for n in range(len(names))]
            if self.mine() and all(map(bindable, ports)):
                self.here = dict(zip(names, map(str, ports)))
                return
            self.lock.close()
        raise AssertionError("no free ports")

    def mine(self):
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            return False

    def give_back(self):
        self.lock.close()


def bindable(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # what is only left of old connections does not count
        try:
            probe.bind(("127.0.0.1", port))
            return True
        except OSError:
            return False


def wait_until(predicate, what):
    until = time.monotonic() + DEADLINE
    while not (value := predicate()):
        if time.monotonic() > until:
            raise AssertionError(f"waited {DEADLINE:g} s in vain for {what}")
        time.sleep(0.02)
    return value


def python_with(*modules):
    """An interpreter that has these: ours, or Debian's, for which the packages are installed."""
    for program in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([program, "-c", f"import {', '.join(modules)}"], capture_output=True).returncode == 0:
            return program
    raise AssertionError(f"no Python here has {', '.join(modules)}; scripts/packages has what to install")


class Shell:
    """bash, with the programs of the pages in its PATH. Everything that it started ends with it."""

    def __init__(self, needs_python=("json",)):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="once-guide-"))
        os.chmod(self.folder, 0o755)  # nginx' workers are somebody else
        self.work, self.programs, self.said = (self.folder / name for name in ("work", "bin", "said"))
        for folder in (self.work, self.programs, self.said):
            folder.mkdir()
        self.taken = Ports(PORTS)
        self.ports = self.taken.here
        self.back = {here: there for there, here in self.ports.items()}
        self.words = {}
        self.servers = []
        self.count = 0
        self.install(needs_python)
        environment = {**os.environ, "PATH": f"{self.programs}:{os.environ['PATH']}:/usr/sbin", "HOME": str(self.work),
                       "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "bash", "--noprofile", "--norc"], cwd=self.work,
                                        env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        start_new_session=True)
        self.process.stdin.write(KILL)
        self.process.stdin.flush()

    def install(self, needs_python):
        """Stand-ins that add what a test needs: free ports, an end with the test, curl without its progress bar."""
        self.program("once", f"""
          words=" $* "
          case "$1" in
            serve|demo)
              [[ $words == *" --config "* || $words == *" --listen "* ]] || set -- "$@" --listen 127.0.0.1:{self.ports['8080']}
              [[ $words == *" --config "* || $words == *" --admin "* ]] || set -- "$@" --admin 127.0.0.1:{self.ports['8081']} ;;
            reload|keys)
              [[ $words == *" --admin "* || $words == *" --help "* ]] || set -- "$@" --admin 127.0.0.1:{self.ports['8081']} ;;
          esac
          exec setpriv --pdeathsig KILL {support.ONCE} "$@" """)
        self.program("curl", f'exec {shutil.which("curl")} -sS --max-time 50 "$@"')
        self.program("python3", f'exec setpriv --pdeathsig KILL {python_with(*needs_python)} "$@"')
        self.program("npm", f'[[ $1 == install ]] && ln -sfn "$ONCE_GUIDES_FOLDER/node_modules" node_modules')
        for name in ("node", "redis-server"):
            if where := shutil.which(name):
                self.program(name, f'exec setpriv --pdeathsig KILL {where} "$@"')

    def program(self, name, text):
        path = self.programs / name
        path.write_text("#!/bin/bash\n" + text + "\n")
        path.chmod(0o755)

    def here(self, text):
        """The text of a page, with this machine's ports and servers."""
        for word, here in self.words.items():
            text = text.replace(word, here)
        return re.sub(r"(?<![\d.])(" + "|".join(PORTS) + r")(?!\d)", lambda match: self.ports[match[1]], text)

    def there(self, text):
        """What this machine said, as a page would show it."""
        for here, port in self.back.items():
            text = re.sub(rf"(?<!\d){here}(?!\d)", port, text)
        return text.replace("\r\n", "\n")

    def run(self, text, must_succeed=True):
        """What the commands print. They are typed into the one shell of the page, so jobs and variables stay."""
        self.count += 1
        script, output = self.said / f"{self.count}.sh", self.said / f"{self.count}.out"
        script.write_text(self.here(text))
        self.process.stdin.write(f"set {'-' if must_succeed else '+'}e; . {script} >{output} 2>&1 </dev/null; echo done\n")
        self.process.stdin.flush()
        ended = self.process.stdout.readline() == "done\n"
        said = self.there(output.read_text(errors="replace"))
        if not ended:
            raise AssertionError(f"this failed:\n{text}\nit said:\n{said}")
        return said

    def start_server(self, name):
        """A database as somebody has it already, at the address that pages give it."""
        server = catalog.make(name)
        self.servers.append(server)
        server.start()
        self.words[DATABASES[name]] = server.url()

    def wait_listening(self, port):
        def listens():
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", int(self.ports[port]))) == 0

        try:
            wait_until(listens, f"port {port} to listen")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.everything_said()}") from None

    def write(self, name, text):
        path = self.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.here(text))
        return path

    def everything_said(self):
        return "\n".join(path.read_text(errors="replace")[-3000:] for path in sorted(self.said.glob("*.out")))

    def stop(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        for server in self.servers:
            server.stop()
        self.taken.give_back()
        said = self.everything_said()
        shutil.rmtree(self.folder, ignore_errors=True)
        if any(mark in said for mark in CRASH_MARKS):
            raise AssertionError(f"a program crashed:\n{said}")


class Follower:
    """Follows a page in a shell."""

    def __init__(self, page, shell):
        self.page = page
        self.shell = shell
        self.blocks = blocks(page)
        self.unused = {}  # files that no command has named yet: name -> line

    def follow(self):
        for block in self.blocks:
            try:
                self.take(block)
            except AssertionError as error:
                raise AssertionError(f"{self.page.relative_to(support.ROOT)}:{block.line}: {error}") from None
        if self.unused:
            raise AssertionError(f"{self.page.name}: nothing uses {self.unused}")

    def take(self, block):
        if block.kind in READ:
            check_dialect(block)
            return
        if "server" in block.notes:
            self.shell.start_server(block.notes["server"])
        if block.kind in ("sh", "bash"):
            self.run(block)
        elif block.kind == "console":
            self.compare(block)
        elif block.kind == "nginx":
            self.serve_site(block)
        elif block.kind in FILES and "file" in block.notes:
            self.write(block)
        elif block.kind == "yaml":
            self.check_yaml(block)
        elif block.kind == "json":
            check_json(block.text)
        else:
            raise AssertionError(f"nothing runs a block of the kind {block.kind!r}; say what it is for: sh, console, text, "
                                 "or name its file")
        for port in block.notes.get("listens", "").split():
            self.shell.wait_listening(port)

    def run(self, block):
        self.uses(block.text)
        self.shell.run(block.text)

    def compare(self, block):
        for command, expected in steps(block.text):
            self.uses(command)
            said = self.shell.run(command, must_succeed=False).strip()
            if not pattern(expected).fullmatch(said):
                raise AssertionError(f"$ {command}\nshould print\n{expected}\nand prints\n{said}")

    def uses(self, command):
        self.unused = {name: line for name, line in self.unused.items()
                       if name not in command and pathlib.Path(name).stem not in re.split(r"[\s:]", command)}

    def write(self, block):
        name, text = block.notes["file"], block.text
        if block.kind == "yaml" and "apiVersion:" in text:
            manifests.check(text)
        elif block.kind == "yaml":
            # What a file leaves out is 127.0.0.1:8080 and :8081, which a test may not take.
            missing = [f"{setting}: 127.0.0.1:{port}\n" for setting, port in (("listen", "8080"), ("admin", "8081"))
                       if not re.search(rf"^{setting}:", text, re.MULTILINE)]
            text = "".join(missing) + text
        elif block.kind == "json":
            check_json(text)
        self.shell.write(name, text)
        self.unused[name] = block.line

    def check_yaml(self, block):
        if "apiVersion:" in block.text:
            manifests.check(block.text)
            return
        file = self.shell.write("snippet.yaml", block.text)
        backend = [] if "upstreams:" in block.text else ["--upstream", "http://127.0.0.1:9000"]
        file.write_text(support.with_files(file.read_text(), self.shell.folder))
        done = subprocess.run([support.ONCE, "check", "--config", str(file), *backend], capture_output=True, text=True,
                              env={**os.environ, "ONCE_SECRET": "0123456789abcdef"})  # its file is not here
        if done.returncode != 0:
            raise AssertionError(done.stderr)

    def serve_site(self, block):
        """What nginx.conf of Debian has around a site, without its daemon, its user's folders and its logs."""
        site = self.shell.write("site.conf", block.text)
        folder = self.shell.folder / "nginx"
        folder.mkdir()
        os.chmod(folder, 0o777)
        temporary = "".join(f"{name}_temp_path {folder}/{name};\n"
                            for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        whole = self.shell.folder / "nginx.conf"
        whole.write_text(f"pid {folder}/pid;\nerror_log {folder}/error.log;\ndaemon off;\nevents {{}}\n"
                         f"http {{\naccess_log off;\n{temporary}include {site};\n}}\n")
        nginx = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin")
        self.shell.run(f"{nginx} -t -c {whole}")
        self.shell.run(f"setpriv --pdeathsig TERM {nginx} -c {whole} &")


def check_json(text):
    try:
        json.loads(text)
    except ValueError as error:
        raise AssertionError(f"this is no JSON: {error}") from None


def dialect_table(name):
    """What the reference says of a dialect: every setting of ietf, and of the others those that differ from it."""
    page = (support.CONFIGURATION / "dialects.md").read_text()
    table = page.split(f"## Dialect `{name}`")[1].split("\n## ")[0]
    return {name.strip("`"): value for name, value in re.findall(r"^\| (.+?) \| (.*) \|$", table, re.MULTILINE)}


def check_dialect(block):
    """A text that tells clients of a dialect, `<!-- dialect: NAME -->`, names what it sets, as the reference has it."""
    if "dialect" not in block.notes:
        return
    sets = dialect_table("ietf") | dialect_table(block.notes["dialect"])
    for setting in ("key.header", "longest key", "mismatch: status", "header of a replay"):
        if not re.search(rf"(?<![\w-]){sets[setting]}(?![\w-])", block.text):
            raise AssertionError(f"the text does not say that {setting} is {sets[setting]}")
    for method in ("POST", "PUT", "PATCH"):
        if (method in block.text) != (method in sets["key.methods"]):
            raise AssertionError(f"the text and the dialect disagree about {method}")
