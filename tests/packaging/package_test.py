"""The Debian package in a clean Debian 12: installed, served as its unit says, reloaded, upgraded, removed, purged. And that of
the C interface: a program is built with what is in it, and runs.

Needs root, mmdebstrap and, the first time, a network. The clean system is kept in build/packaging, so that it is fetched once.
"""
import contextlib
import hashlib
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

import support

sys.path[:0] = [str(support.ROOT / "tests/e2e"), str(support.ROOT / "tests/servers")]
from harness import Backend, created  # noqa: E402
from server import free_port  # noqa: E402
from wire import wait_until  # noqa: E402

CACHE = support.ROOT / "build/packaging"
DEADLINE = 60


def run(*command, check=True, **named):
    done = subprocess.run(command, capture_output=True, text=True, **named)
    if check and done.returncode != 0:
        raise AssertionError(f"{shlex.join(map(str, command))} ended with {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done


def skip(why):
    print(f"SKIPPED, the package was not tested: {why}", file=sys.stderr, flush=True)
    raise unittest.SkipTest(why)


def mirror():
    """Where this system gets its own packages from."""
    places = [*pathlib.Path("/etc/apt").glob("sources.list"), *pathlib.Path("/etc/apt/sources.list.d").glob("*")]
    for place in places:
        found = re.search(r"^(?:URIs: |deb (?:\[.*?\] )?)(https?://\S+/debian)/?(?:\s|$)", place.read_text(), re.MULTILINE)
        if found:
            return found[1]
    skip("no Debian mirror in /etc/apt")


def build(name):
    if not (support.RELEASE / "CMakeCache.txt").exists():
        skip("build/release is not there: cmake --preset release")
    run("cmake", "--build", str(support.RELEASE), "--target", "package")
    packages = list(support.RELEASE.glob(f"{name}_*.deb"))
    assert len(packages) == 1, packages
    return packages[0]


def clean_system(package):
    """An archive of a Debian 12 that has what the package depends on, and nothing else."""
    depends = run("dpkg-deb", "-f", package, "Depends").stdout
    names = sorted({re.split(r"[ (|]", name.strip())[0] for name in depends.split(",")})
    archive = CACHE / f"bookworm-{hashlib.sha256(' '.join(names).encode()).hexdigest()[:12]}.tar"
    if archive.exists():
        return archive
    CACHE.mkdir(parents=True, exist_ok=True)
    made = archive.with_suffix(".part.tar")
    done = run("mmdebstrap", "--variant=essential", "--dpkgopt=force-unsafe-io", f"--include={','.join(names)}", "bookworm", str(made), mirror(),
               check=False)
    if done.returncode != 0:
        skip(f"mmdebstrap ended with {done.returncode}: {(done.stdout + done.stderr)[-800:]}")
    os.rename(made, archive)
    return archive


def unit_value(text, name):
    return re.findall(rf"^{name}=(.*)$", text, re.MULTILINE)


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0:
            skip("not root")
        if not shutil.which("mmdebstrap"):
            skip("no mmdebstrap")
        cls.package = build("once")
        archive = clean_system(cls.package)
        cls.root = pathlib.Path(tempfile.mkdtemp(prefix="once-root-", dir=CACHE))
        cls.addClassCleanup(shutil.rmtree, cls.root)
        run("tar", "-C", str(cls.root), "-xf", str(archive))
        os.chmod(cls.root, 0o755)
        # A container without /dev mounted; these are all that anybody asks for.
        for name, minor in (("null", 3), ("urandom", 9), ("random", 8), ("zero", 5)):
            path = cls.root / "dev" / name
            if not path.exists():
                os.mknod(path, 0o20666, os.makedev(1, minor))
                os.chmod(path, 0o666)
        shutil.copy(cls.package, cls.root / "tmp/once.deb")

    def inside(self, *command, **named):
        environment = {"PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
        return run("chroot", str(self.root), *command, env=environment, **named)

    def files(self):
        """Every file and folder, but what dpkg keeps of itself and what any package leaves in logs."""
        ignored = ("proc/", "run/", "var/lib/dpkg", "var/log", "var/cache", "tmp", "etc/passwd", "etc/group", "etc/shadow", "etc/gshadow", "etc/subuid",
                   "etc/subgid", "var/backups")
        found = set()
        for folder, folders, names in os.walk(self.root):
            for name in (*folders, *names):
                path = os.path.relpath(os.path.join(folder, name), self.root)
                if not path.startswith(ignored):
                    found.add(path)
        return found

    def test_1_what_is_in_it(self):
        fields = run("dpkg-deb", "-f", str(self.package)).stdout
        self.assertIn("Package: once\n", fields)
        version = run(str(support.RELEASE / "once"), "version").stdout.split()[1]
        self.assertIn(f"Version: {version}-1\n", fields)
        for library in ("libssl3", "libpq5", "libmariadb3", "libhiredis", "libyaml-cpp", "libcurl4"):
            self.assertIn(library, fields)
        listed = run("dpkg-deb", "-c", str(self.package)).stdout
        for path in ("usr/bin/once", "etc/once/once.yaml", "etc/logrotate.d/once", "lib/systemd/system/once.service", "lib/systemd/system/once.socket",
                     "lib/systemd/system/once-sweep.timer", "usr/share/man/man1/once.1.gz", "usr/share/man/man1/once-serve.1.gz",
                     "usr/share/bash-completion/completions/once",
                     "usr/share/doc/once/copyright",
                     "usr/share/doc/once/changelog.Debian.gz", "usr/share/once/once.schema.json", "usr/share/doc/once/docs/start/install.md"):
            self.assertRegex(listed, rf"(?m) \./{re.escape(path)}$")
        self.assertNotRegex(listed, r"(?m)^.{7}w.*[^/]$|secret")

    def test_2_lintian_finds_no_error(self):
        if not shutil.which("lintian"):
            self.skipTest("no lintian")
        done = run("lintian", "--allow-root", "--tag-display-limit", "0", "--fail-on", "error,warning", str(self.package), check=False)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr[-500:])

    def test_3_its_life(self):
        before = self.files()
        self.install_is_cut_off()
        self.inside("dpkg", "--configure", "once")
        self.look_at_what_was_made()
        with contextlib.ExitStack() as stack:
            backend = Backend(created)
            stack.callback(backend.stop)
            self.serve_and_reload(backend)
        self.upgrade_keeps_the_configuration()
        wanted = self.root / "etc/systemd/system/multi-user.target.wants/once.service"
        wanted.parent.mkdir(exist_ok=True)
        wanted.symlink_to("/lib/systemd/system/once.service")  # as systemctl enable does
        other = self.root / "etc/systemd/system/multi-user.target.wants/once-more.service"
        other.symlink_to("/lib/systemd/system/once-more.service")  # somebody else's
        self.inside("dpkg", "-r", "once")
        self.assertFalse((self.root / "usr/bin/once").exists())
        self.assertTrue((self.root / "etc/once/secret").exists(), "a removal keeps what a purge takes")
        self.assertTrue((self.root / "var/lib/once/journal").exists())
        self.inside("dpkg", "-P", "once")
        self.assertFalse(wanted.is_symlink())
        self.assertTrue(other.is_symlink())
        other.unlink()
        self.assertEqual(self.files() - before - {"etc/systemd/system/multi-user.target.wants"}, set())
        self.assertEqual(before - self.files(), set())

    def install_is_cut_off(self):
        """Of the secret there is a part only, or the script is killed: none is in place then, and the next attempt makes a whole one."""
        program = self.root / "usr/local/bin/od"
        for script in ("echo 0123456789", 'kill -KILL "$PPID"'):
            program.write_text(f"#!/bin/sh\n{script}\n")
            program.chmod(0o755)
            done = self.inside("dpkg", "-i", "/tmp/once.deb", check=False)
            self.assertNotEqual(done.returncode, 0, done.stdout)
            self.assertFalse((self.root / "etc/once/secret").exists())
            self.assertFalse((self.root / "etc/once/admin-token").exists())
        program.unlink()
        left = list((self.root / "etc/once").glob("secret.*"))
        self.assertEqual([file.stat().st_mode & 0o777 for file in left], [0o600], "only by the kill, which lets nobody clean up")

    def look_at_what_was_made(self):
        group = re.search(r"^once:x:(\d+):", (self.root / "etc/group").read_text(), re.MULTILINE)[1]
        secrets = [self.root / "etc/once" / name for name in ("secret", "admin-token")]
        for secret in secrets:
            status = secret.stat()
            self.assertEqual((status.st_mode & 0o777, status.st_uid, status.st_gid), (0o640, 0, int(group)))
            self.assertRegex(secret.read_text(), r"^[0-9a-f]{64}\n$")
        self.assertNotEqual(*(secret.read_text() for secret in secrets))
        status = (self.root / "etc/once/once.yaml").stat()
        self.assertEqual((status.st_mode & 0o777, status.st_uid, status.st_gid), (0o640, 0, int(group)))
        self.assertRegex((self.root / "etc/passwd").read_text(), r"(?m)^once:.*:/usr/sbin/nologin$")
        self.assertEqual((self.root / "var/lib/once").stat().st_mode & 0o777, 0o750)
        self.assertEqual(list((self.root / "etc/systemd/system").rglob("once*")), [], "nothing is enabled unasked")

    def serve_and_reload(self, backend):
        config = self.root / "etc/once/once.yaml"
        port, admin = (free_port() for _ in range(2))
        text = config.read_text().replace("http://127.0.0.1:9000", f"http://127.0.0.1:{backend.port}")
        config.write_text(text.replace("127.0.0.1:8080", f"127.0.0.1:{port}").replace("127.0.0.1:8081", f"127.0.0.1:{admin}"))
        unit = (self.root / "lib/systemd/system/once.service").read_text()
        self.as_service(unit, *shlex.split(unit_value(unit, "ExecReload")[0]))
        self.a_mistake_ends_it_for_good(unit, config)
        process = subprocess.Popen(self.service_command(unit, *shlex.split(unit_value(unit, "ExecStart")[0])), stderr=subprocess.PIPE,
                                   text=True, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
        try:
            self.use(process, port, admin, unit, config)
        finally:
            process.kill()
            process.wait()
            log = process.stderr.read()
            process.stderr.close()
        self.assertEqual(process.returncode, 0, log)
        self.assertNotIn("warning", log, "also none about the secret")
        self.assertIn('"reloaded"', log)

    def a_mistake_ends_it_for_good(self, unit, config):
        text = config.read_text()
        config.write_text(text + "\nno_such_setting: 1\n")
        done = run(*self.service_command(unit, *shlex.split(unit_value(unit, "ExecStart")[0])), check=False)
        self.assertEqual(str(done.returncode), unit_value(unit, "RestartPreventExitStatus")[0], done.stderr)
        config.write_text(text)

    def use(self, process, port, admin, unit, config):
        ready = wait_until(lambda: self.answers(f"http://127.0.0.1:{admin}/readyz") or process.poll() is not None, deadline=DEADLINE)
        self.assertTrue(ready and process.poll() is None)
        self.as_service(unit, "/usr/bin/once", "health", "--ready", "--admin", f"127.0.0.1:{admin}")
        statuses = [self.pay(port) for _ in range(2)]
        self.assertEqual(statuses, ["executed", "replayed"])
        owner = (self.root / "var/lib/once/journal").stat().st_uid
        self.assertNotEqual(owner, 0, "it does not run as root")
        # What ExecReload does: a look, and a signal.
        self.assertEqual([shlex.split(line)[0] for line in unit_value(unit, "ExecReload")], ["/usr/bin/once", "/bin/kill"])
        self.assertIn("#   ttl: 24h", config.read_text())
        config.write_text(config.read_text().replace("#   ttl: 24h", "  ttl: 48h"))
        process.send_signal(signal.SIGHUP)
        wait_until(lambda: "48h" in self.expiry(port), deadline=DEADLINE)
        process.send_signal(signal.SIGTERM)
        process.wait(DEADLINE)

    def expiry(self, port):
        """How long a new key is kept, in hours, as a word."""
        answer = self.post(port, f"key-{time.monotonic_ns()}")
        from email.utils import parsedate_to_datetime
        kept = parsedate_to_datetime(answer.headers["Idempotency-Expires"]) - parsedate_to_datetime(answer.headers["Date"])
        return f"{round(kept.total_seconds() / 3600)}h"

    def post(self, port, key):
        request = urllib.request.Request(f"http://127.0.0.1:{port}/payments", data=b'{"amount": 1}', method="POST",
                                         headers={"Idempotency-Key": key, "Content-Type": "application/json",
                                                  "Authorization": "Bearer a-caller"})
        with urllib.request.urlopen(request, timeout=DEADLINE) as answer:
            answer.read()
            return answer

    def pay(self, port):
        return self.post(port, "order-1").headers["Idempotency-Status"]

    def answers(self, url):
        with contextlib.suppress(OSError):
            with urllib.request.urlopen(url, timeout=5) as answer:
                return answer.status == 200
        return False

    def service_command(self, unit, *command):
        user, group = unit_value(unit, "User")[0], unit_value(unit, "Group")[0]
        return ["chroot", f"--userspec={user}:{group}", str(self.root), *command]

    def as_service(self, unit, *command):
        return run(*self.service_command(unit, *command), env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})

    def upgrade_keeps_the_configuration(self):
        config = self.root / "etc/once/once.yaml"
        secrets = [self.root / "etc/once" / name for name in ("secret", "admin-token")]
        made = [file.read_text() for file in secrets]
        kept = config.read_text()
        config.chmod(0o644)  # whoever wants that keeps it
        self.inside("dpkg", "-i", "/tmp/once.deb")
        self.assertEqual(config.read_text(), kept)
        self.assertEqual(config.stat().st_mode & 0o777, 0o644)
        self.assertEqual([file.read_text() for file in secrets], made)


class CInterface(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.package = build("libonce-dev")
        cls.root = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        run("dpkg-deb", "-x", str(cls.package), str(cls.root))

    def test_what_is_in_it(self):
        fields = run("dpkg-deb", "-f", str(self.package)).stdout
        self.assertIn("Package: libonce-dev\n", fields)
        self.assertRegex(fields, r"(?m)^Depends: .*libpq5.*libyaml-cpp")
        self.assertNotRegex(fields, r"(?m)^Depends: .*(libssl|libmariadb|libhiredis)", "these are inside of the library")
        files = sorted(path.name for path in self.root.rglob("*") if not path.is_dir())
        self.assertEqual(files, ["copyright", "libonce.pc", "libonce.so", "libonce.so.0", files[4], "once.h"])
        self.assertRegex(files[4], r"^libonce\.so\.0\.\d+\.\d+$")

    def test_a_program_is_built_with_it(self):
        configured = next(self.root.rglob("libonce.pc"))
        flags = run("pkg-config", "--cflags", "--libs", "libonce", env={**os.environ, "PKG_CONFIG_PATH": str(configured.parent)}).stdout
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        program, data = folder / "sample", folder / "data"
        run("gcc", "-std=c11", str(support.ROOT / "tests/gate/sample.c"), "-o", str(program), *flags.split())
        data.mkdir()
        done = run(str(program), str(data), env={"LD_LIBRARY_PATH": str(configured.parent.parent)})
        self.assertIn("charged", done.stdout)


if __name__ == "__main__":
    unittest.main()
