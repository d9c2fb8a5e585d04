"""Starting, telling how it goes, and stopping."""
import os
import pathlib
import re
import secrets
import signal
import subprocess
import tempfile
import threading
import unittest

from harness import STORE, EndToEnd, Gateway, Sharing, run_once
from wire import wait_until


class Draining(EndToEnd):
    def held_request(self, key="k", *settings):
        """A gateway with one request at the backend, which is answered when the gate opens."""
        go = self.gate()
        backend = self.backend(lambda _, to: go.wait() and to.reply(201, body=b"done"))
        gateway = self.gateway(backend, *settings)
        client = self.connect(gateway)
        client.send_request(key=key)
        wait_until(lambda: backend.executions())
        return gateway, client, go

    def refused(self, gateway):
        try:
            gateway.connect().close()  # each thread listens for itself: one may be a moment behind
        except ConnectionRefusedError:
            return True
        return False

    def draining(self, gateway):
        return gateway.admin("/readyz").status == 503

    def test_a_request_at_work_gets_its_answer_and_the_process_ends_well(self):
        for key in ("k", None):
            with self.subTest(key=key):
                gateway, client, go = self.held_request(key, "timeouts.drain=70s")
                gateway.terminate()
                wait_until(lambda gateway=gateway: self.draining(gateway))
                go.set()
                response = client.read_response()
                self.assertEqual((response.status, response.body), (201, b"done"))
                self.assertTrue(client.closed())
                self.assertEqual(gateway.wait(), 0)
                self.assertIn('"message":"stopped"', gateway.stderr)

    def test_while_draining_idle_connections_are_closed_and_new_ones_refused(self):
        gateway, client, go = self.held_request()
        fresh, used = self.connect(gateway), self.connect(gateway)
        self.assertEqual(used.ask(key="bad key").status, 400)
        self.assertEqual(gateway.admin("/readyz").body, b"ready\n")
        gateway.terminate()
        for idle in (fresh, used):
            self.assertTrue(idle.closed())
        self.assertEqual((gateway.admin("/readyz").status, gateway.admin("/healthz").status), (503, 200))
        wait_until(lambda: self.refused(gateway), what="new connections to be refused")
        go.set()
        self.assertEqual(client.read_response().status, 201)

    def test_with_a_delay_it_serves_on_while_it_says_that_it_is_not_ready(self):
        gateway = self.gateway(self.backend(), "timeouts.drain_delay=1h")
        gateway.terminate()
        wait_until(lambda: self.draining(gateway))
        self.assertEqual((gateway.admin("/readyz").body, gateway.admin("/healthz").status), (b"draining\n", 200))
        self.assertEqual(gateway.ask(key="k").status, 201)
        gateway.terminate()
        self.assertEqual(gateway.wait(), 1)
        gateway.stop(expect=1)

    def test_a_request_that_is_coming_in_is_served(self):
        gateway, held, go = self.held_request("k", "threads=1")
        client = self.connect(gateway)
        client.send(b"POST /late HTTP/1.1\r\nHost: api.test\r\n")
        wait_until(lambda: gateway.metrics()["once_connections_open"] == 2)
        self.assertEqual(gateway.ask(key="bad key").status, 400)  # so the one thread has read what came before
        gateway.terminate()
        wait_until(lambda: self.draining(gateway))
        go.set()
        client.send(b"Idempotency-Key: late\r\n\r\n")
        for served in (held, client):
            self.assertEqual(served.read_response().status, 201)
        self.assertEqual(gateway.wait(), 0)

    def test_what_the_kernel_let_in_before_the_signal_is_served(self):
        """Connections that nobody has accepted yet, and accepted ones, each with a request that nobody has read yet."""
        backend = self.backend()
        gateway = self.gateway(backend, "threads=1")
        accepted = [self.connect(gateway) for _ in range(5)]
        served = [self.connect(gateway) for _ in range(5)]
        for client in served:
            self.assertEqual(client.ask(key=secrets.token_hex(8)).status, 201)
        wait_until(lambda: gateway.metrics()["once_connections_open"] == len(accepted) + len(served))
        gateway.process.send_signal(signal.SIGSTOP)
        queued = [self.connect(gateway) for _ in range(200)]
        clients = accepted + served + queued
        for client in clients:
            client.send_request(key=secrets.token_hex(8))
        gateway.terminate()
        gateway.process.send_signal(signal.SIGCONT)
        for client in clients:
            self.assertEqual(client.read_response().status, 201)
        gateway.stop()
        self.assertEqual(len(backend.executions()), len(served) + len(clients))

    def test_what_takes_longer_than_the_limit_is_cut_off(self):
        for key in ("k", None):
            with self.subTest(key=key):
                gateway, client, _ = self.held_request(key, "timeouts.drain=200ms")
                gateway.terminate()
                self.assertEqual(gateway.wait(), 0)
                self.assertIn("stopped with running requests", gateway.stderr)
                self.assertTrue(client.closed())

    def test_a_second_signal_means_now(self):
        gateway, _, _ = self.held_request("k", "timeouts.drain=10m")
        gateway.terminate()
        wait_until(lambda: self.draining(gateway))
        gateway.terminate()
        self.assertEqual(gateway.wait(), 1)
        gateway.stop(expect=1)

    def test_requests_until_the_last_moment_lose_nothing(self):
        """Clients that retry over a restart: every request that was answered was executed once."""
        backend = self.backend()
        gateway = self.gateway(backend)
        answered = []

        def ask(worker):
            for number in range(10_000):
                try:
                    answer = gateway.ask(key=f"k-{worker}-{number}")
                except (OSError, EOFError):
                    return  # gone
                answered.append((f"k-{worker}-{number}", answer.status))

        threads = [threading.Thread(target=ask, args=(worker,)) for worker in range(4)]
        for thread in threads:
            thread.start()
        wait_until(lambda: len(answered) > 200)
        gateway.terminate()
        self.assertEqual(gateway.wait(), 0)
        for thread in threads:
            thread.join()
        self.assertEqual({status for _, status in answered}, {201})
        executed = [request.get("Idempotency-Key") for request in backend.executions()]
        self.assertEqual(len(executed), len(set(executed)))
        self.assertLessEqual({key for key, _ in answered}, set(executed))


class Admin(Sharing):
    SAMPLE = re.compile(r'^([a-z_]+)(\{[a-z_]+="[^"\\]*"(,[a-z_]+="[^"\\]*")*\})? (-?[0-9.e+-]+|\+Inf|NaN)$')

    def test_metrics_are_what_prometheus_reads(self):
        gateway = self.gateway(self.backend(), own=True)
        gateway.ask(key="k")
        answer = gateway.admin("/metrics")
        self.assertEqual(answer.get("Content-Type"), "text/plain; version=0.0.4; charset=utf-8")
        self.assertTrue(answer.body.endswith(b"\n"))
        types, seen = {}, set()
        for line in answer.body.decode().splitlines():
            if line.startswith("# TYPE "):
                _, _, name, kind = line.split(" ")
                self.assertNotIn(name, types)
                types[name] = kind
            elif not line.startswith("# HELP "):
                match = self.SAMPLE.match(line)
                self.assertIsNotNone(match, line)
                sample = (match[1], match[2])
                self.assertNotIn(sample, seen)
                seen.add(sample)
                family = match[1] if match[1] in types else re.sub("_(bucket|sum|count)$", "", match[1])
                self.assertIn(family, types, line)
                self.assertEqual(types[family] == "counter", family.endswith("_total"), line)
        metrics = gateway.metrics()
        name = 'once_request_duration_seconds_{}{{result="executed"{}}}'
        buckets = [value for key, value in metrics.items() if key.startswith(name.format("bucket", ",le=")[:-1])]
        self.assertEqual(buckets, sorted(buckets))
        self.assertEqual((buckets[-1], metrics[name.format("count", "")]), (1, 1))

    def test_counters_move_with_what_happens(self):
        def handler(request, connection):
            connection.reply(500 if request.target == "/fails" else 201)

        backend = self.backend(handler)
        gateway = self.gateway(backend, own=True)
        before = gateway.metrics()
        gateway.ask("GET")
        for body in (b"1", b"1", b"2"):
            gateway.ask("POST", "/", key="k", body=body)
        for _ in range(2):
            gateway.ask("POST", "/fails", key="f")
        gateway.ask(key="")
        with self.connect(gateway) as client:
            client.send(b"broken\r\n\r\n")
            client.read_response()
        wait_until(lambda: gateway.metrics()["once_connections_open"] == 0)
        after = gateway.metrics()
        moved = {name: after[name] - before[name] for name in before
                 if after[name] != before[name] and "duration" not in name and "bytes" not in name and "route=" not in name}
        # How often a journal waits for its disk, and in what batches, is its own affair.
        other = ("once_backend_connects", "once_upstream_connections", "once_journal_", "once_store_batch_", "once_store_queue_depth",
                 "process_", "once_keys")
        self.assertEqual({name: value for name, value in moved.items() if not name.startswith(other)}, {
            'once_requests_total{result="passed"}': 1,
            'once_requests_total{result="executed"}': 3,
            'once_requests_total{result="replayed"}': 1,
            'once_requests_total{result="mismatch"}': 1,
            'once_requests_total{result="rejected"}': 2,
            'once_outcomes_total{outcome="succeeded"}': 1,
            'once_outcomes_total{outcome="failed"}': 2,
            'once_responses_total{class="2xx"}': 3,
            'once_responses_total{class="4xx"}': 3,
            'once_responses_total{class="5xx"}': 2,
            "once_retries_after_failure_total": 1,
            "once_keyed_without_caller_total": 5,
            "once_connections_total": 8,
            "once_store_records": 2,
        })
        self.assertEqual((after["once_in_flight"], after["once_waiting"]), (0, 0))
        if STORE is None:  # a claim and an outcome for each execution; whether the store is well is asked, too, now and then
            self.assertGreaterEqual(moved["once_store_batch_size_sum"], 6)
            self.assertGreaterEqual(moved["once_journal_syncs_total"], 6)
            self.assertEqual(after["once_journal_live_claims"], 0)

    def test_what_is_not_there(self):
        gateway = self.gateway(self.backend())
        answer = gateway.admin("/unknown")
        self.assertEqual((answer.status, answer.code), (404, "not-found"))
        for path, method, allow in (("/metrics", "DELETE", "GET, HEAD"), ("/v1/keys", "POST", "GET, HEAD"),
                                    ("/v1/keys/00/release", "GET", "POST"), ("/v1/login", "GET", "POST")):
            answer = gateway.admin(path, method, [("Once-Admin", "1")])
            self.assertEqual((answer.status, answer.code, answer.get("Allow")), (405, "method-not-allowed", allow), path)

    def test_admin_can_be_off(self):
        backend = self.backend()
        gateway = self.gateway(backend, config="admin: off\n", admin=None)
        self.assertIsNone(gateway.admin_port)
        self.assertEqual(gateway.ask(key="k").status, 201)

    @unittest.skipIf(STORE, "the journal is meant")
    def test_what_is_answered_at_once_is_nothing_to_the_journal(self):
        gateway = self.gateway(self.backend(), own=True)
        gateway.ask(key="k", body=b"1")
        before = gateway.metrics()
        with self.connect(gateway) as client:
            for body in (b"1", b"2") * 100:
                self.assertIn(client.ask(key="k", body=body).status, (201, 422))
        after = gateway.metrics()
        for name in ("once_store_batch_size_sum", "once_journal_syncs_total"):
            self.assertLess(after[name] - before[name], 100, name)  # whether it is well is asked every few seconds


class Starting(EndToEnd):
    def test_an_address_in_use_is_said_and_ends_with_1(self):
        backend = self.backend()
        gateway = self.gateway(backend)
        upstream = f"http://127.0.0.1:{backend.port}"
        for listen, admin in ((gateway.port, 0), (0, gateway.admin_port)):
            with self.subTest(listen=listen, admin=admin), tempfile.TemporaryDirectory() as folder:
                result = run_once("serve", "--upstream", upstream, "--listen", f"127.0.0.1:{listen}", "--admin",
                                  f"127.0.0.1:{admin}", folder=folder)
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertIn("in use", result.stderr)
                self.assertIn(str(listen or admin), result.stderr)
        self.assertEqual(gateway.ask(key="k").status, 201)

    def test_mistakes_in_the_configuration_are_all_said_with_their_place(self):
        mistakes = ("listen: nowhere\ndefaults:\n  ttl: soon\n  tll: 1h\n"
                    "routes:\n  - path: /a\n    key: {requird: yes}\n")
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "once.yaml").write_text(mistakes)
            for command in ["serve", "--upstream", "http://127.0.0.1:1"], ["check"]:
                with self.subTest(command[0]):
                    result = run_once(*command, "--config", "once.yaml", folder=folder)
                    self.assertEqual(result.returncode, 2)
                    places = re.findall(r"once\.yaml:(\d+):(\d+): ", result.stderr + result.stdout)
                    self.assertEqual([int(line) for line, _ in places], [1, 3, 4, 7])
                    self.assertIn('did you mean "ttl"?', result.stderr + result.stdout)

    def test_signals_wait_for_a_process_that_reads_its_configuration(self):
        backend = self.backend()
        file = self.folder() / "once.yaml"
        text = f'upstreams: {{default: "http://127.0.0.1:{backend.port}"}}\ndefaults: {{caller_missing: anonymous}}\n'
        os.mkfifo(file)
        gateway = Gateway("--config", str(file))
        self.addCleanup(gateway.stop)

        def being_read():
            try:
                return os.open(file, os.O_WRONLY | os.O_NONBLOCK)  # refused as long as nobody reads
            except OSError:
                return None

        fifo = wait_until(being_read)
        for early in (signal.SIGUSR1, signal.SIGHUP):
            gateway.process.send_signal(early)
        (file.parent / "again.yaml").write_text(text)
        os.replace(file.parent / "again.yaml", file)  # what the reload reads
        os.write(fifo, text.encode())
        os.close(fifo)
        gateway.wait_listening()
        wait_until(lambda: "reloaded" in [line["message"] for line in gateway.log_lines()])
        self.assertEqual(gateway.ask("GET", "/").status, 201)

    def test_what_a_variable_holds_is_not_shown_by_whatever_refuses_it(self):
        folder = self.folder()
        backend = self.backend()
        value = "top-secret-0123456789"
        environment = {name: text for name, text in os.environ.items() if name != "ONCE_SECRET"} | {"HELD": value}
        good = f'upstreams: {{default: "http://127.0.0.1:{backend.port}"}}\ndefaults: {{caller_missing: reject}}\n'
        start = ("--config", "once.yaml", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", "memory:")
        for bad in ('encryption: {keys: ["${HELD}"]}', 'jwt: {secrets: ["${HELD}"]}', 'jwt: {keys: ["x/${HELD}"]}',
                    'secret_file: "${HELD}"', 'admin_token: "file:${HELD}"', 'admin_token: "env:${HELD}"', 'include: "${HELD}"',
                    'claims: {listen: "127.0.0.1:0", tokens: {t: "${HELD}"}}',
                    'tls: {listen: "127.0.0.1:0", certificates: ["${HELD}"], keys: ["${HELD}"]}',
                    'upstream_tls: {ca: "${HELD}"}', 'log: {access: yes, access_file: "/nowhere/${HELD}"}',
                    'data_dir: "/proc/${HELD}"\nsecret_file: ""', 'routes: [{path: /x, upstream: "${HELD}"}]'):
            text = good.replace("http:", "https:") if bad.startswith("upstream_tls") else good
            (folder / "once.yaml").write_text(text + bad + "\n")
            said = ""
            for command in ("check", "serve"):
                done = run_once(command, *start, folder=folder, env=environment)
                said += done.stdout + done.stderr
            self.assertNotIn(value, said, bad)
            if not bad.startswith("data_dir"):  # there the folder above is named, which cannot be written to
                self.assertIn("HELD}", said, bad)
        # The same goes for the log of a reload, and what it answers.
        gateway = Gateway(config=good, env=environment)
        self.addCleanup(gateway.stop)
        gateway.wait_listening()
        (gateway.folder / "once.yaml").write_text(good + 'log: {access: yes, access_file: "/nowhere/${HELD}"}\n')
        done = run_once("reload", "--admin", f"127.0.0.1:{gateway.admin_port}")
        self.assertIn("/nowhere/${HELD}: No such file", done.stderr)
        refused = next(line for line in gateway.log_lines() if line["message"] == "reload refused")
        self.assertEqual((value in gateway.stderr, value in done.stderr, "${HELD}" in refused["error"]), (False, False, True))

    def test_version(self):
        result = run_once("version")
        self.assertEqual(result.returncode, 0)
        self.assertRegex(result.stdout, r"\d+\.\d+\.\d+")
        for flag in ("--version", "-V"):
            same = run_once(flag)
            self.assertEqual((same.returncode, same.stdout), (0, result.stdout), flag)


class Memory(EndToEnd):
    def test_other_processes_of_its_user_cannot_read_it(self):
        """Of a process that can be traced or dumped these files belong to its user, of another one to root."""
        command = [os.environ["ONCE_BINARY"], "serve", "--upstream", "http://127.0.0.1:9", "--store", "memory:",
                   "--listen", "127.0.0.1:0", "--admin", "off"]
        nobody = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd="/", **nobody,
                                   env={**os.environ, "ONCE_SECRET": "0" * 32})
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertTrue(any('"listening"' in line for line in process.stderr))
        self.assertEqual(os.stat(f"/proc/{process.pid}/environ").st_uid, 0)


if __name__ == "__main__":
    unittest.main()
