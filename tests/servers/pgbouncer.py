"""PgBouncer in transaction mode in front of a PostgreSQL server of its own, with four sessions for everybody."""
import contextlib
import socket
import subprocess

import server
from postgres import Postgres

SETTINGS = """[databases]
* = host=127.0.0.1 port={server}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {folder}/users
admin_users = postgres
pool_mode = transaction
default_pool_size = 4
max_client_conn = 200
server_login_retry = 1
logfile = {folder}/pgbouncer.own.log
pidfile =
"""


class PgBouncer:
    def __init__(self):
        self.postgres = Postgres()
        self.folder = self.postgres.folder
        self.port = server.free_port()
        self.process = server.Process(self.folder, "pgbouncer", ["pgbouncer", self.folder.path / "pgbouncer.ini"],
                                      skewed=False)

    def url(self):
        return f"postgres://postgres@127.0.0.1:{self.port}/postgres"

    def environment(self):
        return {"ONCE_TEST_DIRECT": self.postgres.url()}

    def start(self):
        self.postgres.start()
        (self.folder.path / "users").write_text('"postgres" ""\n"strict" ""\n')
        (self.folder.path / "pgbouncer.ini").write_text(
            SETTINGS.format(server=self.postgres.port, port=self.port, folder=self.folder.path))
        self.restart()
        return self

    def kill(self):
        self.process.kill()

    def restart(self):
        self.process.start()
        server.wait_until(self._answers, "PgBouncer to answer")

    def pause(self):
        self.process.pause()

    def resume(self):
        self.process.resume()

    def command(self, text):
        """One of PgBouncer's own, as PAUSE."""
        console = f"postgres://postgres@127.0.0.1:{self.port}/pgbouncer"
        done = subprocess.run(["psql", "--no-psqlrc", "-qAtX", "-d", console, "-c", text], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip())

    def _answers(self):
        self.process.alive()
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
            return True
        return False

    def stop(self):
        self.process.stop()
        self.postgres.stop()
