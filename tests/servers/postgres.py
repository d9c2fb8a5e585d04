"""A PostgreSQL server of its own for a test, on 127.0.0.1, durable as in production. With ONCE_BINARY in the environment the
schema is in its database when start() returns.
"""
import contextlib
import os
import pathlib
import signal
import subprocess

import server

PROGRAMS = pathlib.Path("/usr/lib/postgresql/15/bin")
SETTINGS = {"fsync": "on",
            "synchronous_commit": "on",
            "max_connections": "100",
            "listen_addresses": "127.0.0.1",
            "shared_buffers": "64MB",
            "max_wal_size": "2GB",
            "log_line_prefix": "%t [%p] "}
WITH_PASSWORD = "has_a_password"


def children(process_id):
    path = pathlib.Path(f"/proc/{process_id}/task/{process_id}/children")
    return [int(child) for child in path.read_text().split()]


def processes_in(folder):
    """Ids of processes that work there, as all of a server's do."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or is not ours to look at
            if (process / "cwd").resolve() == folder:
                found.append(int(process.name))
    return found


class Postgres:
    def __init__(self, name="postgres"):
        self.folder = server.Folder(name, user="postgres")
        self.port = server.free_port()
        self.data = self.folder.path / "postgres-data"
        settings = {**SETTINGS, "port": self.port, "unix_socket_directories": self.folder.path}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        self.server = server.Process(self.folder, name, [PROGRAMS / "postgres", "-D", self.data, *options])

    def url(self):
        return f"postgres://postgres@127.0.0.1:{self.port}/postgres"

    def start(self):
        if not self.data.exists():
            server.made(self.folder, self.data.name, PROGRAMS / "postgres", self._make_database)
        self.server.start()
        self._wait()
        if binary := os.environ.get("ONCE_BINARY"):
            subprocess.run([binary, "schema", "postgres", "--apply", self.url()], check=True, stdout=subprocess.DEVNULL)
        return self

    def stop(self):
        self.resume()
        self.server.stop(signal.SIGINT)  # a fast shutdown: nobody waits for clients to leave
        self.folder.remove()

    def sql(self, text):
        """What psql prints for it: one line a row, columns with | between them."""
        command = ["psql", "--no-psqlrc", "-qAtX", "-v", "ON_ERROR_STOP=1", "-d", self.url(), "-c", text]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip())
        return done.stdout.strip()

    def _signal_children(self, number):
        for child in children(self.server.process.pid):
            with contextlib.suppress(ProcessLookupError):  # one that has just ended by itself
                os.kill(child, number)

    def kill(self):
        """As a crash of the machine would: the server and every process it has."""
        self.server.pause()  # so that it starts no new ones
        self._signal_children(signal.SIGKILL)
        self.server.kill()
        # While one of them is left, the next server refuses to start.
        server.wait_until(lambda: not processes_in(self.data), "the server's processes to end")

    def restart(self):
        """On what the last one left; recovers what was committed."""
        if self.server.process.poll() is None:
            self.kill()
        self.server.start()
        self._wait()

    def pause(self):
        self.server.pause()
        self._signal_children(signal.SIGSTOP)
        for child in children(self.server.process.pid):
            server.wait_stopped(child)

    def resume(self):
        if self.server.process is None or self.server.process.poll() is not None:
            return
        self._signal_children(signal.SIGCONT)
        self.server.resume()

    def _make_database(self):
        subprocess.run([*self.folder.as_user(), PROGRAMS / "initdb", "-D", self.data, "-U", "postgres", "-A", "trust",
                        "-E", "UTF8", "--no-locale", "--no-sync"],
                       cwd=self.folder.path, check=True, stdout=subprocess.DEVNULL)
        # Everybody comes in as they say they are, but for one who has a password.
        access = self.data / "pg_hba.conf"
        access.write_text(f"host all {WITH_PASSWORD} 127.0.0.1/32 scram-sha-256\n" + access.read_text())

    def _answers(self):
        self.server.alive()
        probe = [PROGRAMS / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run(probe, check=False).returncode == 0

    def _wait(self):
        server.wait_until(self._answers, "PostgreSQL to answer")
