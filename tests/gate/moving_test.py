"""A service moves between the gateway and a gate: same file, same store, same keys. And what becomes of a request whose
process dies between begin and finish. ONCE_GATE_PROGRAM is gate_program.c."""
import os
import signal
import subprocess
import unittest

from harness import STORE, EndToEnd, Gateway
from wire import DEADLINE, wait_until

SHARED = bool(STORE and "://" in STORE)
EXECUTED, REPLAYED, IN_FLIGHT, MISMATCH, UNKNOWN = 1, 2, 3, 4, 5
SETTLED_LOST = 5

CONFIG = """
store: "{store}"
secret_file: {folder}/secret
server: {{timeout: 1m, connect_timeout: 30s}}
routes:
  - {{path: /hold, on_unknown: hold, lease: 2s, caller_missing: anonymous}}
  - {{path: /retry, on_unknown: retry, lease: 2s, in_flight: reject, caller_missing: anonymous}}
  - {{path: "/**", caller_missing: anonymous}}
"""


class GateProcess:
    """gate_program.c, line by line."""

    def __init__(self, config):
        self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", os.environ["ONCE_GATE_PROGRAM"], config],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        line = self.process.stdout.readline()
        assert line == "ready\n", f"the gate did not open: {line!r}"

    def tell(self, command):
        self.process.stdin.write(command + "\n")

    def hear(self):
        return self.process.stdout.readline().rstrip("\n").split(" ", 4)

    def ask(self, command):
        self.tell(command)
        return self.hear()

    def begin(self, target, key, body, host, caller="one"):
        return self.ask(f"begin POST {target} {body} Host={host} Idempotency-Key={key} Authorization={caller}")

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.close()

    def stop(self):
        self.process.stdin.close()
        code = self.process.wait(DEADLINE)
        self.process.stdout.close()
        assert code == 0, f"the gate's program ended with {code}"

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()


class Moving(EndToEnd):
    def setUp(self):
        super().setUp()
        self.home = self.folder()
        (self.home / "secret").write_text("0123456789abcdef0123456789abcdef\n")
        (self.home / "secret").chmod(0o600)
        self.store = STORE or f"journal:{self.home}/journal"
        self.config = CONFIG.format(store=self.store, folder=self.home)
        self.file = self.home / "once.yaml"
        self.file.write_text(self.config)
        self.key = os.urandom(8).hex()  # on a server that other tests use

    def open_gate(self):
        gate = GateProcess(str(self.file))
        self.addCleanup(lambda: gate.process.poll() is None and gate.kill())
        return gate

    def open_gateway(self, backend):
        gateway = Gateway("--config", str(self.file), "--upstream", f"http://127.0.0.1:{backend.port}",
                          env=dict(os.environ))
        self.addCleanup(lambda: gateway.folder.exists() and gateway.stop())
        return gateway.wait_listening()

    def ask(self, gateway, target, key, body):
        return gateway.ask("POST", target, [("Host", "api.example"), ("Authorization", "one")], body.encode(), key=key)

    def begin(self, gate, target, key, body, caller="one"):
        return gate.begin(target, key, body, "api.example", caller)

    def test_a_key_of_the_gateway_is_replayed_by_the_gate(self):
        backend = self.backend(lambda _, to: to.reply(201, body=b"behind"))
        gateway = self.open_gateway(backend)
        self.assertEqual(self.ask(gateway, "/pay?x=1", self.key, "body").status, 201)
        gateway.stop()  # a journal has one owner
        gate = self.open_gate()
        self.assertEqual(self.begin(gate, "/pay?x=1", self.key, "body"),
                         ["reply", "201", str(REPLAYED), "0", "behind"])
        self.assertEqual(self.begin(gate, "/pay?x=1", self.key, "other")[:3], ["reply", "422", str(MISMATCH)])
        self.assertEqual(self.begin(gate, "/pay?x=1", self.key, "body", caller="two")[:2], ["claim", "1"])
        gate.stop()
        self.assertEqual(len(backend.requests), 1)

    def test_a_key_of_the_gate_is_replayed_by_the_gateway(self):
        gate = self.open_gate()
        self.assertEqual(self.begin(gate, "/pay?x=1", self.key, "body")[:2], ["claim", "1"])
        self.assertEqual(gate.ask("finish 201 inside"), ["reply", "201", str(EXECUTED), "1", "inside"])
        gate.stop()
        backend = self.backend()
        gateway = self.open_gateway(backend)
        again = self.ask(gateway, "/pay?x=1", self.key, "body")
        self.assertEqual((again.status, again.body, again.get("Idempotency-Status"), again.get("Content-Type")),
                         (201, b"inside", "replayed", "text/plain"))
        self.assertEqual(self.ask(gateway, "/pay?x=1", self.key, "other").status, 422)
        self.assertEqual(len(backend.requests), 0)

    def claimed(self, gate):
        answer = self.begin(gate, "/retry", self.key, "body")
        return answer if answer[0] == "claim" else None

    @unittest.skipUnless(SHARED, "nobody else can take over")
    def test_an_owner_that_stood_still_is_told_that_it_has_lost(self):
        gate, other = self.open_gate(), self.open_gate()
        self.assertEqual(self.begin(gate, "/retry", self.key, "body")[:2], ["claim", "1"])
        gate.process.send_signal(signal.SIGSTOP)
        taken = wait_until(lambda: self.claimed(other), what="the lease to lapse")
        self.assertEqual(taken[1], "2")
        gate.process.send_signal(signal.SIGCONT)
        wait_until(lambda: gate.ask("lost") == ["lost", "1"], what="the owner to hear of it")
        self.assertEqual(other.ask("finish 200 theirs")[:3], ["reply", "200", str(EXECUTED)])
        answer = gate.ask("finish 200 mine")
        self.assertEqual(answer[:4], ["reply", "503", str(UNKNOWN), str(SETTLED_LOST)])
        self.assertEqual(self.begin(gate, "/retry", self.key, "body")[4], "theirs")
        gate.stop()
        other.stop()


if __name__ == "__main__":
    unittest.main()
