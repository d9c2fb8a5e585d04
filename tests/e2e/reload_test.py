"""Changing a gateway that runs: its settings, and the program itself, without a request that fails."""
import contextlib
import ctypes
import json
import os
import pathlib
import resource
import signal
import socket
import subprocess
import time
import unittest

from harness import STORE, EndToEnd, Gateway, run_once
from traffic import Traffic, executions_by_key
from wire import Client, request_bytes, wait_until

FILE = """
upstreams: {{default: "http://127.0.0.1:{port}"}}
timeouts: {{drain: 70s}}
defaults: {{caller_missing: anonymous}}
routes:
  - path: /orders
    key: {{required: {required}}}
  - path: /**
"""


class Changing(EndToEnd):
    def configured(self, port, required="no", **named):
        gateway = Gateway(config=FILE.format(port=port, required=required), **named)
        self.addCleanup(lambda: gateway.folder.exists() and gateway.stop())
        return gateway.wait_listening()

    def write(self, gateway, text):
        (gateway.folder / "once.yaml").write_text(text)

    def said(self, gateway, message):
        return [line for line in gateway.log_lines() if line["message"] == message]

    def reload(self, gateway):
        return run_once("reload", "--admin", f"127.0.0.1:{gateway.admin_port}")


class Reload(Changing):
    def test_new_requests_are_served_by_the_new_settings(self):
        backend = self.backend()
        for how in ("signal", "command"):
            with self.subTest(how=how):
                gateway = self.configured(backend.port)
                with gateway.connect() as kept:
                    self.assertEqual(kept.ask(target="/orders").status, 201)
                    self.write(gateway, FILE.format(port=backend.port, required="yes"))
                    if how == "signal":
                        gateway.process.send_signal(signal.SIGHUP)
                        wait_until(lambda gateway=gateway: self.said(gateway, "reloaded"))
                    else:
                        done = self.reload(gateway)
                        self.assertEqual((done.returncode, done.stdout), (0, "reloaded\n"), done.stderr)
                    self.assertEqual(kept.ask(target="/orders").code, "key-required")
                    self.assertEqual(gateway.ask(target="/orders").code, "key-required")

    def test_a_request_at_work_ends_by_what_it_began_with(self):
        go = self.gate()
        old = self.backend(lambda _, to: go.wait() and to.reply(201, body=b"old"))
        new = self.backend(lambda _, to: to.reply(201, body=b"new"))
        gateway = self.configured(old.port)
        for key in ("k", None):
            with self.subTest(key=key):
                client = self.connect(gateway)
                client.send_request(key=key)
                wait_until(old.executions)
                self.write(gateway, FILE.format(port=new.port, required="no"))
                self.assertEqual(self.reload(gateway).returncode, 0)
                self.assertEqual(gateway.ask(key="other" + str(key)).body, b"new")
                go.set()
                self.assertEqual(client.read_response().body, b"old")
                self.assertEqual(client.ask(key="next" + str(key)).body, b"new")
                # And back, for the other kind of request.
                go.clear()
                old.requests.clear()
                self.write(gateway, FILE.format(port=old.port, required="no"))
                self.assertEqual(self.reload(gateway).returncode, 0)

    def test_a_bad_file_changes_nothing_and_says_what_is_wrong_where(self):
        backend = self.backend()
        gateway = self.configured(backend.port)
        bad = FILE.format(port=backend.port, required="perhaps")
        line = next(number for number, text in enumerate(bad.splitlines(), 1) if "perhaps" in text)
        self.write(gateway, bad)
        done = self.reload(gateway)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"once.yaml:{line}:", done.stderr)
        self.assertIn('key.required: expected yes or no, got "perhaps"', done.stderr)
        gateway.process.send_signal(signal.SIGHUP)
        wait_until(lambda: len(self.said(gateway, "reload refused")) == 2)
        self.assertEqual(gateway.ask(target="/orders").status, 201)
        (gateway.folder / "once.yaml").unlink()
        self.assertEqual(self.reload(gateway).returncode, 1)
        self.assertEqual(gateway.ask(target="/orders").status, 201)

    def test_keys_that_a_reload_forgets_are_told_by_route_and_setting(self):
        backend = self.backend()
        gateway = self.configured(backend.port)
        old = (gateway.folder / "once.yaml").read_text()
        self.assertEqual(gateway.ask("POST", "/orders", key="k", body=b"{}").get("Idempotency-Status"), "executed")
        told = "route /orders: scope changes from caller, method, path to caller, path: its keys are lost"
        new = old.replace("path: /orders\n", "path: /orders\n    scope: [caller, path]\n")
        self.write(gateway, new)
        dry = run_once("reload", "--dry-run", "--admin", f"127.0.0.1:{gateway.admin_port}")
        self.assertEqual((dry.returncode, dry.stdout.splitlines()[0]), (0, "the configuration is valid; nothing was changed"), dry.stderr)
        self.assertIn(told, dry.stdout)
        self.assertEqual(gateway.ask("POST", "/orders", key="k", body=b"{}").get("Idempotency-Status"), "replayed")
        self.assertEqual(self.said(gateway, "reloaded"), [])
        done = self.reload(gateway)
        self.assertEqual((done.returncode, told in done.stdout), (0, True), done.stdout + done.stderr)
        self.assertIn(told, self.said(gateway, "reloaded with a warning")[0]["warning"])
        self.assertEqual(gateway.ask("POST", "/orders", key="k", body=b"{}").get("Idempotency-Status"), "executed")
        folder = self.folder()
        (folder / "old.yaml").write_text(old + "threads: 3\n")
        (folder / "new.yaml").write_text(new)
        check = run_once("check", "--config", "new.yaml", "--against", "old.yaml", folder=folder)
        self.assertEqual((check.returncode, check.stderr.splitlines()[0]), (0, "warning: threads: changed, which needs a restart"))
        self.assertIn(told, check.stderr.splitlines()[1])
        self.write(gateway, new + "threads: 3\n")
        done = self.reload(gateway)
        self.assertEqual((done.returncode, "threads: changed, which needs a restart" in done.stderr), (1, True), done.stderr)

    def test_under_load_no_request_fails(self):
        backends = [self.backend(), self.backend()]
        gateway = self.configured(backends[0].port)
        with Traffic(gateway.port) as traffic:
            for number in range(1, 8):
                self.write(gateway, FILE.format(port=backends[number % 2].port, required="no"))
                done = self.reload(gateway)
                self.assertEqual(done.returncode, 0, done.stderr)
                traffic.more(20)
        self.assertEqual(traffic.failures, [])
        times = sum((executions_by_key(backend) for backend in backends), start=executions_by_key(self.backend()))
        self.assertEqual(set(times.values()), {1})
        self.assertTrue(all(backend.executions() for backend in backends))

    def test_the_level_of_the_log_is_changed(self):
        gateway = self.configured(self.backend().port)
        self.write(gateway, (gateway.folder / "once.yaml").read_text() + "log: {level: error}\n")
        self.assertEqual(self.reload(gateway).returncode, 0)
        lines = len(gateway.log_lines())
        self.assertEqual(self.reload(gateway).returncode, 0)
        self.assertEqual(len(gateway.log_lines()), lines)


class Restart(Changing):
    def successor(self, gateway):
        """Its pid, when it serves. It is ended before the folder of the first one goes."""
        before, started = len(self.said(gateway, "successor started")), len(self.said(gateway, "listening"))
        gateway.process.send_signal(signal.SIGUSR2)
        pid = wait_until(lambda: self.said(gateway, "successor started")[before:])[-1]["pid"]
        self.addCleanup(self.end, pid)
        wait_until(lambda: len(self.said(gateway, "listening")) > started, what="the successor to listen")
        return pid

    def end(self, pid):
        try:
            os.kill(pid, signal.SIGTERM)
            wait_until(lambda: not pathlib.Path(f"/proc/{pid}").exists() or
                       " Z " in pathlib.Path(f"/proc/{pid}/stat").read_text(), what="the successor to end")
        except (ProcessLookupError, FileNotFoundError):
            pass

    def test_under_load_no_request_fails(self):
        backend = self.backend()
        gateway = self.configured(backend.port)
        with Traffic(gateway.port) as traffic:
            pid = self.successor(gateway)
            self.assertEqual(gateway.wait(), 0)
            traffic.more(100)
        self.assertEqual(traffic.failures, [])
        self.assertEqual(set(executions_by_key(backend).values()), {1})
        self.assertEqual(gateway.admin("/readyz").status, 200)
        self.assertNotEqual(pid, gateway.process.pid)

    def test_a_request_at_work_is_finished_by_the_old_process(self):
        go = self.gate()
        backend = self.backend(lambda _, to: go.wait() and to.reply(201, body=b"done"))
        gateway = self.configured(backend.port)
        client = self.connect(gateway)
        client.send_request(key="k")
        wait_until(backend.executions)
        gateway.process.send_signal(signal.SIGUSR2)
        wait_until(lambda: self.said(gateway, "handing over") or self.said(gateway, "draining"))
        self.addCleanup(self.end, self.said(gateway, "successor started")[0]["pid"])
        go.set()
        response = client.read_response()
        self.assertEqual((response.status, response.body), (201, b"done"))
        self.assertTrue(client.closed())
        self.assertEqual(gateway.wait(), 0)
        wait_until(lambda: len(self.said(gateway, "listening")) == 2)
        self.assertEqual(gateway.ask(key="other").status, 201)

    def test_a_successor_that_cannot_start_changes_nothing(self):
        backend = self.backend()
        gateway = self.configured(backend.port)
        good = (gateway.folder / "once.yaml").read_text()
        self.write(gateway, "nonsense: yes\n")
        with Traffic(gateway.port) as traffic:
            gateway.process.send_signal(signal.SIGUSR2)
            wait_until(lambda: self.said(gateway, "successor failed; this process keeps serving"))
            traffic.more(50)
        self.assertEqual(traffic.failures, [])
        self.write(gateway, good)
        self.successor(gateway)
        self.assertEqual(gateway.wait(), 0)
        self.assertEqual(gateway.ask(key="k").status, 201)

    def test_a_request_behind_another_does_not_meet_a_store_that_was_given_up(self):
        go = self.gate()
        backend = self.backend(lambda request, to: (request.method != "GET" or go.wait()) and to.reply(201, body=b"done"))
        gateway = self.configured(backend.port)
        client = self.connect(gateway)
        client.send(request_bytes("GET", "/slow") + request_bytes("POST", "/", key="k", body=b"x"))
        wait_until(lambda: backend.requests)
        self.successor(gateway)
        go.set()
        self.assertEqual(client.read_response("GET").status, 201)
        self.assertTrue(client.closed())
        self.assertEqual(gateway.wait(), 0)
        again = gateway.ask(key="k", body=b"x")
        self.assertEqual((again.status, again.get("Idempotency-Status")), (201, "executed"))


def end_if_there(pid):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@contextlib.contextmanager
def stopped(thread):
    """One thread of a process of ours; the others go on."""
    seize, interrupt, detach, any_thread = 0x4206, 0x4207, 17, 0x40000000
    ptrace = ctypes.CDLL(None, use_errno=True).ptrace
    ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
    for request in (seize, interrupt):
        if ptrace(request, thread, None, None) != 0:
            raise OSError(ctypes.get_errno(), "ptrace")
    os.waitpid(thread, any_thread)
    try:
        yield
    finally:
        ptrace(detach, thread, None, None)


class ServiceManager(EndToEnd):
    """As systemd starts it: with a socket that listens already, and one to say how it goes."""

    def setUp(self):
        super().setUp()
        self.folder_ = self.folder()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.addCleanup(self.listener.close)
        self.port = self.listener.getsockname()[1]
        self.notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notified.settimeout(60)
        self.addCleanup(self.notified.close)
        self.notified.bind(str(self.folder_ / "notify"))

    def start(self, backend, names="http", *options, admin="off", watchdog=None):
        environment = {**os.environ, "NOTIFY_SOCKET": str(self.folder_ / "notify"), "LISTEN_FDS": "1",
                       "LISTEN_FDNAMES": names, **(watchdog or {})}
        # The number of the process is known only there.
        command = 'exec 3<&"$1"; shift; export LISTEN_PID=$$; exec "$@"'
        fd = self.listener.fileno()
        arguments = [os.environ["ONCE_BINARY"], "serve", "--listen", "127.0.0.1:1", "--admin", admin,
                     "--upstream", f"http://127.0.0.1:{backend.port}", "--store", STORE or "journal:", *options]
        errors = open(self.folder_ / "stderr", "wb")
        process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "bash", "-c", command, "bash", str(fd), *arguments],
                                   cwd=self.folder_, env=environment, pass_fds=[fd], stdout=subprocess.DEVNULL,
                                   stderr=errors)
        self.addCleanup(errors.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        self.assertEqual(self.notified.recv(200), b"READY=1")
        return process

    def pending(self):
        """What was said and not read yet."""
        said = []
        self.notified.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                said.append(self.notified.recv(200))
        self.notified.settimeout(60)
        return said

    def test_it_serves_the_socket_it_was_given_and_tells_how_it_goes(self):
        for names in ("http", "once.socket", ""):
            with self.subTest(names=names):
                process = self.start(self.backend(), names)
                with Client(self.port) as client:
                    self.assertEqual(client.ask(key="k" + names).status, 201)
                process.send_signal(signal.SIGHUP)
                self.assertTrue(self.notified.recv(200).startswith(b"RELOADING=1\nMONOTONIC_USEC="))
                self.assertEqual(self.notified.recv(200), b"READY=1")
                process.terminate()
                self.assertEqual(self.notified.recv(200), b"STOPPING=1")
                self.assertEqual(process.wait(), 0)

    def test_signs_of_life_come_from_it_and_from_its_successor(self):
        process = self.start(self.backend(), watchdog={"WATCHDOG_USEC": "200000"})
        for _ in range(3):
            self.assertEqual(self.notified.recv(200), b"WATCHDOG=1")
        process.send_signal(signal.SIGUSR2)
        said = set()
        while not any(word.startswith(b"MAINPID=") for word in said) or b"READY=1" not in said:
            said.add(self.notified.recv(200))
        self.assertNotIn(b"STOPPING=1", said)  # the service goes on, for its manager
        pid = int(next(word for word in said if word.startswith(b"MAINPID="))[8:])
        self.addCleanup(end_if_there, pid)
        self.assertEqual(process.wait(), 0)
        self.assertNotIn(b"STOPPING=1", self.pending())
        self.assertEqual(self.notified.recv(200), b"WATCHDOG=1")  # nobody else is left to send it
        os.kill(pid, signal.SIGTERM)
        while self.notified.recv(200) != b"STOPPING=1":
            pass
        wait_until(lambda: not pathlib.Path(f"/proc/{pid}").exists() or
                   " Z " in pathlib.Path(f"/proc/{pid}/stat").read_text(), what="the successor to end")

    @unittest.skipIf(STORE, "the store has no part in it")
    def test_signs_of_life_need_no_new_descriptor(self):
        """A manager that got none would end a process that serves."""
        process = self.start(self.backend(), watchdog={"WATCHDOG_USEC": "200000"})
        self.assertEqual(self.notified.recv(200), b"WATCHDOG=1")
        limits = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (3, limits[1]))
        self.pending()
        for _ in range(3):
            self.assertEqual(self.notified.recv(200), b"WATCHDOG=1")
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, limits)

    @unittest.skipIf(STORE, "the store has no part in it")
    def test_a_hung_event_loop_ends_the_signs_of_life(self):
        limit = 0.2
        process = self.start(self.backend(), "http", "--set", "threads=1", "--set", f"claims.listen=unix:{self.folder_}/claims",
                             admin="127.0.0.1:0", watchdog={"WATCHDOG_USEC": str(int(limit * 1e6))})
        threads = [int(thread) for thread in os.listdir(f"/proc/{process.pid}/task") if int(thread) != process.pid]
        silent = 0
        for thread in threads:
            self.assertEqual(self.notified.recv(200), b"WATCHDOG=1")
            with stopped(thread):
                self.pending()
                time.sleep(5 * limit)
                # One may have been due when the thread stopped.
                silent += len(self.pending()) <= 1
        # Clients, the admin interface and the claims API have a loop each.
        self.assertGreaterEqual(silent, 3)
        self.assertEqual(self.notified.recv(200), b"WATCHDOG=1")

    def log_lines(self):
        return [json.loads(line) for line in (self.folder_ / "stderr").read_text().splitlines() if line.startswith("{")]

    def test_it_can_be_watched_until_it_has_ended(self):
        go = self.gate()
        backend = self.backend(lambda _, to: go.wait() and to.reply(201))
        process = self.start(backend, admin="127.0.0.1:0")
        admin = next(line["admin"] for line in self.log_lines() if line["message"] == "listening")
        with Client(self.port) as client:
            client.send_request(key="k")
            wait_until(backend.executions)
            process.terminate()
            self.assertEqual(self.notified.recv(200), b"STOPPING=1")
            with Client(int(admin.rsplit(":", 1)[1])) as watcher:
                local = [("Host", "localhost")]
                wait_until(lambda: watcher.ask("GET", "/readyz", local).status == 503)
                self.assertEqual(watcher.ask("GET", "/metrics", local).status, 200)
            go.set()
            self.assertEqual(client.read_response().status, 201)
        self.assertEqual(process.wait(), 0)
        draining = next(line for line in self.log_lines() if line["message"] == "draining")
        self.assertFalse(draining["successor"])

    def test_a_restart_by_the_manager_fails_no_request(self):
        backend = self.backend()
        process = self.start(backend)
        with Traffic(self.port) as traffic:
            for _ in range(2):
                process.terminate()
                self.assertEqual(self.notified.recv(200), b"STOPPING=1")
                self.assertEqual(process.wait(), 0)
                process = self.start(backend)
                traffic.more(20)
        self.assertEqual(traffic.failures, [])
        self.assertEqual(set(executions_by_key(backend).values()), {1})

    def test_what_is_no_socket_is_refused(self):
        done = subprocess.run(["bash", "-c", 'exec 3</dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec "$@"', "bash",
                               os.environ["ONCE_BINARY"], "serve", "--upstream", "http://127.0.0.1:9"],
                              cwd=self.folder_, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertIn("LISTEN_FDS: descriptor 3 is not a listening socket", done.stderr)

    def test_signs_of_life_are_not_sent_for_another_process(self):
        process = self.start(self.backend(), watchdog={"WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"})
        process.send_signal(signal.SIGHUP)
        self.assertTrue(self.notified.recv(200).startswith(b"RELOADING=1"))


if __name__ == "__main__":
    unittest.main()
