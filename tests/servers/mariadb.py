"""A MariaDB server on loopback, as durable as in production, with a database and a user named once."""
import os
import signal
import subprocess
import sys

from server import DEADLINE, Folder, Process, free_port, made, wait_until

# What a first start needs before the network is open. The password stands in the URL.
ACCOUNTS = """
CREATE DATABASE IF NOT EXISTS once CHARACTER SET utf8mb4;
CREATE USER IF NOT EXISTS once@'127.0.0.1' IDENTIFIED BY 'once';
CREATE USER IF NOT EXISTS once@localhost IDENTIFIED BY 'once';
GRANT ALL ON *.* TO once@'127.0.0.1' WITH GRANT OPTION;
GRANT ALL ON *.* TO once@localhost WITH GRANT OPTION;
"""

# May do everything but make or call procedures.
NO_ROUTINES = """
REVOKE CREATE ROUTINE, ALTER ROUTINE, EXECUTE ON *.* FROM once@'127.0.0.1';
REVOKE CREATE ROUTINE, ALTER ROUTINE, EXECUTE ON *.* FROM once@localhost;
"""

# Many servers at once would run out of the kernel's places for asynchronous I/O.
NO_AIO = "--innodb-use-native-aio=0"
SMALL = [NO_AIO, "--innodb-buffer-pool-size=64M", "--innodb-log-file-size=48M", "--innodb-flush-log-at-trx-commit=1",
         "--performance-schema=OFF", "--key-buffer-size=1M", "--aria-pagecache-buffer-size=1M", "--max-connections=200",
         "--skip-log-bin", "--skip-name-resolve"]


class Node:
    """One server process and its data, which stay when it is killed and started again."""

    def __init__(self, folder, name, extra=(), skewed=True):
        self.folder = folder
        self.port = free_port()
        self.data = folder.make(name)
        # A socket's path has at most 107 bytes; the folder's is short.
        self.socket = self.data / "s"
        self.certificate = folder.path / "certificate.pem"
        key = folder.path / "key.pem"
        self.process = Process(folder, name, [
            "mariadbd", "--no-defaults", f"--datadir={self.data}", f"--socket={self.socket}", f"--port={self.port}",
            "--bind-address=127.0.0.1", f"--pid-file={self.data}/pid", f"--tmpdir={self.data}", f"--ssl-cert={self.certificate}",
            f"--ssl-key={key}", *SMALL, *extra], skewed=skewed)
        if not self.certificate.exists():
            self.certify(key)

    def certify(self, key):
        """As its own authority, by the name localhost only: a client that checks names refuses 127.0.0.1."""
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                        "-keyout", key, "-out", self.certificate, "-days", "7300", "-subj", "/CN=localhost",
                        "-addext", "subjectAltName=DNS:localhost"], check=True, capture_output=True)
        self.folder.give(key)

    def install(self):
        made(self.folder, self.data.name, "mariadbd", self._install)

    def _install(self):
        done = subprocess.run([*self.folder.as_user(), "mariadb-install-db", "--no-defaults", f"--datadir={self.data}",
                               "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve",
                               f"--tmpdir={self.data}", NO_AIO],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              cwd=self.folder.path)
        if done.returncode != 0:
            raise RuntimeError(f"mariadb-install-db failed:\n{done.stdout}")

    def run(self):
        self.process.start()
        return self

    def ready(self):
        """It answers; in a cluster also: it takes writes."""
        self.process.alive()
        done = self.client("SELECT COUNT(*) FROM mysql.global_priv", check=False)
        return done.returncode == 0

    def wait(self, deadline=DEADLINE):
        wait_until(self.ready, f"{self.process.name} to answer", deadline)
        return self

    def client(self, text, check=True, database=None):
        command = ["mariadb", "--no-defaults", f"--socket={self.socket}", "--user=root", "--batch",
                   "--skip-column-names"]
        return subprocess.run([*command, *([database] if database else [])], input=text, text=True,
                              capture_output=True, check=check, cwd=self.folder.path)


def apply_schema(url):
    """As people do it, if the program is built. A store's own test brings its schema along."""
    if binary := os.environ.get("ONCE_BINARY"):
        subprocess.run([binary, "schema", "mysql", "--apply", url], check=True, stdout=sys.stderr)


class MariaDb:
    accounts = ACCOUNTS
    options = ""

    def __init__(self, name="mariadb"):
        self.folder = Folder(name, user="mysql")
        self.node = Node(self.folder, name)

    def start(self):
        self.node.install()
        self.node.run().wait()
        self.node.client(self.accounts)
        apply_schema(self.url())
        return self

    def url(self):
        return f"mysql://once:once@127.0.0.1:{self.node.port}/once{self.options}"

    def sql(self, text):
        """Rows as lines, columns separated by tabs."""
        return self.node.client(text, database="once").stdout

    def kill(self):
        self.node.process.kill()

    def pause(self):
        self.node.process.pause()

    def resume(self):
        self.node.process.resume()

    def restart(self):
        """On what it left; also after kill()."""
        self.node.process.stop()
        self.node.run().wait()

    def stop(self):
        self.node.process.stop(signal.SIGKILL)  # what it holds is thrown away
        self.folder.remove()


class MariaDbPlain(MariaDb):
    """Without stored procedures, as TiDB and Vitess are; whoever uses it has no right to any."""

    accounts = ACCOUNTS + NO_ROUTINES
    options = "?procedures=off"

    def __init__(self):
        super().__init__("mariadb_plain")
