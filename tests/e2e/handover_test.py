"""A successor takes over a journal, which only one process can have: either side dies or hangs at each step. Somebody serves at
the end, nothing is executed twice, and the admin interface answers all the time."""
import fcntl
import os
import pathlib
import signal
import socket
import unittest

from harness import EndToEnd, Gateway
from wire import request_bytes, wait_until

FILE = """
upstreams: {{default: "http://127.0.0.1:{port}"}}
claims: {{listen: "unix:claims.sock"}}
timeouts: {{drain: {drain}}}
defaults: {{caller_missing: anonymous, on_unknown: hold}}
"""
LARGE = 32 << 20  # more than sockets hold


def state_of(pid):
    """As ps has it; Z: it has ended."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "Z"


class Handover(EndToEnd):
    def setUp(self):
        super().setUp()
        self.go = self.gate()
        self.server = self.backend(self.answer)
        self.old = None
        self.slow = None
        self.pid = None  # of the successor
        self.killed = False
        self.addCleanup(self.end)

    def answer(self, request, to):
        if request.get("Idempotency-Key") == "slow":
            self.go.wait()
        to.reply(201, body=b"x" * LARGE if request.get("Idempotency-Key") == "large" else b"done")

    def configure(self, drain="20m", **named):
        text = FILE.format(port=self.server.port, drain=drain)
        if self.old is None:
            self.old = Gateway("--set", "timeouts.body_idle=1h", "--set", "timeouts.header=5m", config=text, **named)
            self.old.wait_listening()
            self.assertEqual(self.old.ask(key="before").status, 201)
            return
        (self.old.folder / "new.yaml").write_text(text)
        os.replace(self.old.folder / "new.yaml", self.old.folder / "once.yaml")

    def end(self):
        if self.old is None:
            return
        self.go.set()
        for pid in (self.pid, None if self.killed else self.old.process.pid):
            if pid is not None and state_of(pid) != "Z":
                os.kill(pid, signal.SIGCONT)
                os.kill(pid, signal.SIGTERM)
        if self.pid is not None:
            wait_until(lambda: state_of(self.pid) == "Z", what="the successor to end")
        self.old._told = True
        self.old.stop(expect=-signal.SIGKILL if self.killed else 0)

    def said(self, message):
        return [line for line in self.old.log_lines() if line["message"] == message]

    def reach(self, step):
        """The old process, with a key that is recorded, and a successor that gets no further than this."""
        self.configure()
        if step == "starting":
            (self.old.folder / "once.yaml").unlink()
            os.mkfifo(self.old.folder / "once.yaml")  # who reads it waits for a writer
        else:
            self.slow = self.connect(self.old)
            self.slow.send_request(key="slow")
            wait_until(lambda: len(self.server.executions()) == 2)
        self.old.process.send_signal(signal.SIGUSR2)
        self.pid = wait_until(lambda: self.said("successor started"))[-1]["pid"]
        if step == "starting":
            return
        wait_until(lambda: self.said("handing over"))
        if step == "given":
            os.kill(self.pid, signal.SIGSTOP)
            wait_until(lambda: state_of(self.pid) == "T")
            self.go.set()
            self.assertEqual(self.slow.read_response().status, 201)
            wait_until(lambda: self.said("store closed for the successor"))

    def let_go_on(self, step):
        """The successor."""
        if step == "starting":
            fifo = self.old.folder / "once.yaml"
            text = FILE.format(port=self.server.port, drain="20m")
            with open(fifo, "w") as writer:
                writer.write(text)
        if step == "given":
            os.kill(self.pid, signal.SIGCONT)

    def kill_old(self):
        self.killed = True
        self.old.process.kill()
        self.old.process.wait()

    def assert_served(self, step):
        for key, status in ((f"new-{len(self.server.executions())}", "executed"), ("before", "replayed")):
            answer = self.old.ask(key=key)
            self.assertEqual((answer.status, answer.get("Idempotency-Status")), (201, status), answer)
        self.assertEqual((self.old.admin("/readyz").body, self.old.admin("/healthz").status), (b"ready\n", 200))
        if step != "starting":
            self.go.set()
            # Recorded, at work, or unknown: never a second time.
            wait_until(lambda: self.old.ask(key="slow").status in (201, 409))
        times = [key for request in self.server.executions() if (key := request.get("Idempotency-Key"))]
        self.assertEqual(len(times), len(set(times)), times)

    def assert_old_serves_on(self, step):
        wait_until(lambda: self.said("successor failed; this process keeps serving"))
        self.assertEqual(state_of(self.pid), "Z")
        self.pid = None
        self.assertIsNone(self.old.process.poll())
        self.assert_served(step)

    def the_old_process_is_killed_and_the_successor_serves(self, step):
        self.reach(step)
        self.kill_old()
        self.let_go_on(step)
        wait_until(lambda: len(self.said("listening")) == 2, what="the successor to listen")
        self.assert_served(step)

    def test_the_old_process_is_killed_and_the_successor_serves_while_starting(self):
        self.the_old_process_is_killed_and_the_successor_serves("starting")

    def test_the_old_process_is_killed_and_the_successor_serves_while_emptying(self):
        self.the_old_process_is_killed_and_the_successor_serves("emptying")

    def test_the_old_process_is_killed_and_the_successor_serves_while_given(self):
        self.the_old_process_is_killed_and_the_successor_serves("given")

    def the_successor_is_killed_and_the_old_process_serves_on(self, step):
        self.reach(step)
        waiting = self.connect(self.old) if step != "starting" else None
        if waiting:
            waiting.send_request(key="in-the-pause")
        os.kill(self.pid, signal.SIGKILL)
        self.assert_old_serves_on(step)
        if waiting:
            self.assertEqual(waiting.read_response().status, 201)

    def test_the_successor_is_killed_and_the_old_process_serves_on_while_starting(self):
        self.the_successor_is_killed_and_the_old_process_serves_on("starting")

    def test_the_successor_is_killed_and_the_old_process_serves_on_while_emptying(self):
        self.the_successor_is_killed_and_the_old_process_serves_on("emptying")

    def test_the_successor_is_killed_and_the_old_process_serves_on_while_given(self):
        self.the_successor_is_killed_and_the_old_process_serves_on("given")

    def a_step_takes_too_long_and_the_old_process_serves_on(self, step):
        clock = self.clock()
        self.configure(drain="70s", clock=clock)
        self.reach(step)
        clock.advance(36)  # a step may take half of drain
        self.assert_old_serves_on(step)
        if step == "emptying":  # which was no reason to cut it off
            self.assertEqual(self.slow.read_response().status, 201)

    def test_a_step_takes_too_long_and_the_old_process_serves_on_while_emptying(self):
        self.a_step_takes_too_long_and_the_old_process_serves_on("emptying")

    def test_a_step_takes_too_long_and_the_old_process_serves_on_while_given(self):
        self.a_step_takes_too_long_and_the_old_process_serves_on("given")

    def test_a_successor_that_never_starts_is_ended(self):
        clock = self.clock()
        self.configure(drain="70s", clock=clock)
        (self.old.folder / "once.yaml").unlink()
        os.mkfifo(self.old.folder / "once.yaml")
        self.old.process.send_signal(signal.SIGUSR2)
        self.pid = wait_until(lambda: self.said("successor started"))[-1]["pid"]
        clock.advance(36)  # a step may take half of drain
        self.assert_old_serves_on("starting")

    def test_after_a_successor_that_failed_another_one_takes_over(self):
        self.reach("given")
        os.kill(self.pid, signal.SIGKILL)
        self.assert_old_serves_on("given")
        self.old.process.send_signal(signal.SIGUSR2)
        self.pid = wait_until(lambda: self.said("successor started")[1:])[-1]["pid"]
        wait_until(lambda: len(self.said("listening")) == 2, what="the successor to listen")
        self.assertEqual(self.old.wait(), 0)
        self.assert_served("given")

    def test_the_successor_waits_for_a_journal_that_is_still_locked(self):
        self.reach("given")
        with open(self.old.folder / "once-data/journal/lock", "r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.kill_old()
            self.let_go_on("given")
            wait_until(lambda: self.said("waiting for the journal"))
        wait_until(lambda: len(self.said("listening")) == 2, what="the successor to listen")
        self.assert_served("given")

    def hand_over(self):
        self.old.process.send_signal(signal.SIGUSR2)
        self.pid = wait_until(lambda: self.said("successor started"))[-1]["pid"]
        wait_until(lambda: self.said("handing over"))

    def test_requests_that_come_slowly_are_refused_and_may_be_sent_again(self):
        clock = self.clock()
        self.configure(clock=clock)
        slow = {"body": request_bytes(key="body", fields=[("Content-Length", "1000")]) + b"x",
                "chunks": request_bytes(key="chunks", fields=[("Transfer-Encoding", "chunked")]) + b"5\r\nx",
                "head": b"POST / HTTP/1.1\r\nHost: api.test\r\nIdempotency-Key: head\r\n"}
        clients = {name: self.connect(self.old) for name in slow}
        for name, client in clients.items():
            self.assertEqual(client.ask("GET").status, 201)
            client.send(slow[name])
        self.hand_over()
        clock.advance(200)  # more than a quarter of the limit
        for name, client in clients.items():
            with self.subTest(name):
                client.send(b"x")
                answer = client.read_response()
                self.assertEqual((answer.status, answer.code, answer.problem["retryable"]),
                                 (503, "store-unavailable", True))
                self.assertEqual((answer.get("Retry-After"), answer.get("Connection")), ("1", "close"))
        wait_until(lambda: len(self.said("listening")) == 2, what="the successor to listen")
        for client in clients.values():
            client.close()
        self.assertEqual(self.old.wait(), 0)
        for name in slow:
            answer = self.old.ask(key=name)
            self.assertEqual((answer.status, answer.get("Idempotency-Status")), (201, "executed"))

    def test_an_answer_that_is_too_large_to_keep_is_recorded_before_the_store_is_handed_over(self):
        self.configure()
        client = self.connect(self.old)
        client.send_request(key="large")
        client.read(1)
        self.hand_over()
        self.assertEqual(len(client.read_to_end()[-LARGE:].lstrip(b"x")), 0)
        wait_until(lambda: len(self.said("listening")) == 2, what="the successor to listen")
        self.assertEqual(self.old.wait(), 0)
        again = self.old.ask(key="large")
        self.assertEqual((again.status, again.code), (409, "response-not-kept"))

    def the_admin_interface_answers_all_the_time(self, step):
        self.reach(step)
        for path, body in (("/healthz", b"ok\n"), ("/readyz", b"ready\n" if step == "emptying" else b"handing over\n")):
            answer = self.old.admin(path)
            self.assertEqual((answer.status, answer.body), (200, body))
        metrics = self.old.metrics()
        self.assertEqual(metrics['once_requests_total{result="executed"}'], 1 if step == "emptying" else 2)
        self.assertGreater(metrics["once_journal_syncs_total"], 0)
        self.assertEqual(self.old.admin("/v1/stats").status, 200)
        self.assertEqual(self.old.admin("/v1/keys").status, 200 if step == "emptying" else 503)
        self.go.set()
        self.let_go_on(step)
        self.assertEqual(self.old.wait(), 0)
        self.assert_served(step)

    def test_the_admin_interface_answers_all_the_time_while_emptying(self):
        self.the_admin_interface_answers_all_the_time("emptying")

    def test_the_admin_interface_answers_all_the_time_while_given(self):
        self.the_admin_interface_answers_all_the_time("given")

    def test_the_claims_api_goes_on_with_whoever_serves(self):
        self.reach("given")
        with socket.socket(socket.AF_UNIX) as waiting:
            waiting.settimeout(60)
            waiting.connect(str(self.old.folder / "claims.sock"))
            waiting.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: claims\r\n\r\n")
            os.kill(self.pid, signal.SIGKILL)
            self.assertTrue(waiting.recv(20).startswith(b"HTTP/1.1 200 "))
        self.assert_old_serves_on("given")

    def claims_api_answers(self):
        with socket.socket(socket.AF_UNIX) as asking:
            asking.settimeout(60)
            asking.connect(str(self.old.folder / "claims.sock"))
            asking.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: claims\r\n\r\n")
            return asking.recv(20).startswith(b"HTTP/1.1 200 ")

    def test_claims_can_be_renewed_until_the_store_is_given_up(self):
        """Their leases run on while requests at work come to their end."""
        self.reach("emptying")
        self.assertTrue(self.claims_api_answers())

    def test_without_a_disk_the_old_process_serves_on_and_opens_the_journal_when_there_is_one(self):
        broken = self.folder() / "broken"
        self.configure(env={**os.environ, "LD_PRELOAD": os.environ["ONCE_FAILING_DISK"], "ONCE_DISK_FAILS": str(broken)})
        broken.touch()
        for tries in (1, 2):
            self.old.process.send_signal(signal.SIGUSR2)
            self.pid = wait_until(lambda tries=tries: self.said("successor started")[tries - 1:])[-1]["pid"]
            wait_until(lambda tries=tries: self.said("successor failed; this process keeps serving")[tries - 1:])
            self.pid = None
            self.assertTrue(self.said("the store cannot be reopened; retrying"))
            self.assertEqual(self.old.ask("GET").status, 201)
            answer = self.old.ask(key="new")
            self.assertEqual((answer.status, answer.code), (503, "store-unavailable"))
            wait_until(lambda: self.old.admin("/readyz").status == 503, what="a new answer")  # it is kept for a second
        broken.unlink()
        wait_until(lambda: self.said("the store is open again"))
        wait_until(lambda: self.old.admin("/readyz").status == 200, what="a new answer")  # it is kept for a second
        self.assert_served("starting")

    def serving_successor(self):
        """One that serves, which the old process does not know yet: it stands still."""
        self.reach("given")
        self.old.process.send_signal(signal.SIGSTOP)
        self.let_go_on("given")
        wait_until(lambda: len(self.said("listening")) == 2, what="the successor to listen")

    def test_a_successor_that_dies_as_it_gets_ready_is_not_relied_upon(self):
        self.serving_successor()
        os.kill(self.pid, signal.SIGKILL)
        # All of it: the last of its threads to end may not be the first one.
        wait_until(lambda: state_of(self.pid) == "Z" and len(os.listdir(f"/proc/{self.pid}/task")) == 1)
        self.old.process.send_signal(signal.SIGCONT)
        self.assert_old_serves_on("given")

    def test_a_signal_to_stop_does_not_end_a_successor_that_serves(self):
        self.serving_successor()
        self.old.terminate()
        self.old.process.send_signal(signal.SIGCONT)
        self.assertEqual(self.old.wait(), 0)
        self.assert_served("given")

    def a_signal_to_stop_ends_both(self, step):
        self.reach(step)
        self.old.terminate()
        wait_until(lambda: state_of(self.pid) == "Z", what="the successor to end")
        self.go.set()
        self.assertEqual(self.old.wait(), 0)

    def test_a_signal_to_stop_ends_both_while_starting(self):
        self.a_signal_to_stop_ends_both("starting")

    def test_a_signal_to_stop_ends_both_while_emptying(self):
        self.a_signal_to_stop_ends_both("emptying")

    def test_a_signal_to_stop_ends_both_while_given(self):
        self.a_signal_to_stop_ends_both("given")


if __name__ == "__main__":
    unittest.main()
