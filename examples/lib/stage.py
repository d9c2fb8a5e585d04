"""What the examples are started with: servers in temporary folders, gateways and programs on loopback. All of it ends with
the process that started it, by Ctrl-C or any other way.

    with Stage(free_ports=False) as stage:
        database = stage.server("mariadb")
        stage.once(config, "--store", database.url())
        stage.program("service", "node", "server.mjs", port=stage.port(3000))
"""
import argparse
import contextlib
import json
import os
import pathlib
import signal
import shutil
import socket
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "servers"))

import catalog  # noqa: E402
import node_package  # noqa: E402
from server import free_port, wait_until  # noqa: E402

END_SECONDS = 20


def once_binary():
    """ONCE_BINARY, or the binary that ./run has built."""
    built = [ROOT / "build" / kind / "once" for kind in ("release", "dev")]
    found = os.environ.get("ONCE_BINARY") or next((str(path) for path in built if path.exists()), None)
    if found is None:
        sys.exit("there is no build/release/once: build it first, with ./run, or name one in ONCE_BINARY")
    if not (os.path.isfile(found) and os.access(found, os.X_OK)):
        sys.exit(f"ONCE_BINARY is {found}, and that is no program that can be run")
    found = os.path.abspath(found)  # programs are started in folders of their own
    os.environ["ONCE_BINARY"] = found  # the servers apply their schema with it
    return found


class Program:
    """One process, with its output in a file."""

    def __init__(self, folder, name, command, env=None):
        self.name = name
        self.log = folder / f"{name}.log"
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *map(str, command)], cwd=folder,
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **(env or {})})

    @property
    def said(self):
        return self.log.read_text(errors="replace")

    def alive(self):
        if self.process.poll() is not None:
            raise RuntimeError(f"{self.name} ended with {self.process.returncode}:\n{self.said[-3000:]}")
        return True

    def kill(self):
        """Kills it, like a crash."""
        self.process.kill()
        self.process.wait()

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def stop(self):
        if self.process.poll() is None:
            self.resume()
            self.process.terminate()
            try:
                self.process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()


class Stage:
    def __init__(self, free_ports=False):
        self.free_ports = free_ports
        self.binary = once_binary()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="once-example-"))
        self._ends = contextlib.ExitStack()
        self._ends.callback(shutil.rmtree, self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._ends.close()

    def port(self, usual):
        """The port in the README, or a free one."""
        return free_port() if self.free_ports else usual

    def at_end(self, function):
        self._ends.callback(function)

    def server(self, name):
        server = catalog.make(name)
        self._ends.callback(server.stop)
        server.start()
        return server

    def program(self, name, *command, env=None, port=None):
        """Waits until it listens there, if a port is given."""
        program = Program(self.folder, name, command, env)
        self._ends.callback(program.stop)
        if port is not None:
            wait_until(lambda: program.alive() and listens(port), f"{name} to listen")
        return program

    def python(self):
        """An interpreter with Debian's packages and the package `once`, and its environment: ONCE_PYTHON, where the wheel is installed,
        or Debian's own with the source tree and the library that was built with the gateway."""
        if named := os.environ.get("ONCE_PYTHON"):
            return named, {"LD_PRELOAD": os.environ.get("ONCE_PYTHON_PRELOAD", "")}
        library = pathlib.Path(self.binary).parent / "bindings" / "c" / "libonce.so"
        if not library.exists():
            sys.exit(f"there is no {library}: build the target once_c, or name an interpreter with the package in ONCE_PYTHON")
        return "/usr/bin/python3", {"PYTHONPATH": str(ROOT / "bindings" / "python"), "ONCE_LIBRARY": str(library)}

    def node_package(self, folder):
        """Puts the package `once`, which npm builds first, into the folder's node_modules."""
        node_package.unpack(folder)

    def typescript(self, source, *names):
        """A folder with these programs, compiled, and the package `once`, which npm builds first."""
        app = self.folder / "app"
        app.mkdir()
        for name in names:
            shutil.copy(source / name, app)
        node_package.unpack(app)
        node_package.compile_typescript(app, *names)
        return app

    def once(self, config, *arguments, env=None, name="once"):
        """A gateway that serves; `listening` has its addresses."""
        gateway = self.program(name, self.binary, "serve", "--config", config, *arguments, env=env)

        def listening():
            gateway.alive()
            lines = (json.loads(line) for line in gateway.said.splitlines() if line.startswith("{") and line.endswith("}"))
            return next((line for line in lines if line["message"] == "listening"), None)

        gateway.listening = wait_until(listening, f"{name} to listen")
        return gateway

    def file(self, name, text):
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o600)
        return path


def listens(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def main(description, start, options=None):
    """start(stage) starts everything and returns the lines to print; options(parser) adds to what stage.given has. Ends
    with Ctrl-C or SIGTERM."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--free-ports", action="store_true", help="take free ports, not those of the README")
    if options is not None:
        options(parser)
    given = parser.parse_args()
    over = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: sys.exit(0))
    with Stage(given.free_ports) as stage:
        stage.given = given
        print("starting …", flush=True)
        for line in start(stage):
            print(line, flush=True)
        print("Ctrl-C ends it all.", flush=True)
        over.wait()
