"""The addon inside of Node: several versions of it, real servers, TLS beside Node's own OpenSSL, workers, and processes that end with a
claim in their hands."""
import os
import subprocess
import unittest

import catalog
import package
from services import SECRET, Services
from wire import wait_until


OTHER_OPENSSL = ("node18", "node24")  # the oldest and the newest that Node brings


class Processes(Services):
    def node(self, *arguments, version="", env=None, expect=0):
        project = package.programs("gate.test.mjs", "exit.mjs")
        done = subprocess.run([package.node(version), *arguments], cwd=project, capture_output=True, text=True, timeout=100,
                              env={**os.environ, "ONCE_SECRET": SECRET, **(env or {})})
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done.stdout

    def server(self, name):
        server = catalog.make(name)
        self.addCleanup(server.stop)
        server.start()
        return server

    def run_gate(self, url, version=""):
        said = self.node("--test", "--test-reporter=tap", "gate.test.mjs", version=version, env={"ONCE_TEST_URL": url})
        self.assertRegex(said, r"# pass 1\d")


class Versions(Processes):
    def test_every_version_of_node(self):
        for version in package.NODES:
            with self.subTest(version or "the machine's own"):
                self.run_gate(f"journal:{self.folder()}", version)

    def test_middlewares_in_every_version_that_they_support(self):
        for framework, versions in (("express", package.NODES), ("http", package.NODES), ("fastify", ("node22", "node24")),
                                    ("handler", package.NODES[1:])):
            for version in versions:
                with self.subTest(framework, node=version):
                    service = self.service(framework, node=version)
                    first, again = (service.ask(body={"a": 1}, key="k") for _ in range(2))
                    self.assertEqual((first.status, again.get("Idempotency-Status"), again.body), (201, "replayed", first.body))
                    service.stop()


class Servers(Processes):
    def test_postgresql(self):
        self.run_gate(self.server("postgres").url())

    def test_postgresql_over_tls(self):
        """libpq has its own reference to OpenSSL, beside the library's."""
        server = self.server("postgres")
        key, certificate = (server.data / f"server.{kind}" for kind in ("key", "crt"))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
                        "/CN=localhost", "-keyout", key, "-out", certificate], check=True, capture_output=True)
        for file in (key, certificate):
            file.chmod(0o600)
            server.folder.give(file)
        server.sql("ALTER SYSTEM SET ssl = on")
        server.sql("SELECT pg_reload_conf()")
        url = f"{server.url()}?sslmode=require"
        wait_until(lambda: server.sql("SHOW ssl") == "on", what="the server to offer TLS")
        for version in OTHER_OPENSSL:
            self.run_gate(url, version)

    def test_mariadb_over_tls(self):
        """Its client library is linked into ours, and takes the OpenSSL that is there."""
        server = self.server("mariadb")
        server.node.client("ALTER USER once@'127.0.0.1' REQUIRE SSL")
        url = f"{server.url().replace('127.0.0.1', 'localhost')}?ssl-mode=verify-identity&ssl-ca={server.node.certificate}"
        for version in OTHER_OPENSSL:
            self.run_gate(url, version)

    def test_a_sweep_that_fails_is_told(self):
        server = self.server("postgres")
        program = """
import { once } from "node:events";
import { Gate } from "once";
const gate = await Gate.open({ store: process.env.ONCE_TEST_URL, log: "off" });
console.log(await gate.cleanupExpiredKeys());
await once(process.stdin, "data");
await gate.cleanupExpiredKeys().catch((error) => console.log(error.code));
process.exit();
"""
        node = subprocess.Popen([package.node(), "--input-type=module", "-e", program], cwd=package.project(), text=True,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                env={**os.environ, "ONCE_SECRET": SECRET, "ONCE_TEST_URL": server.url()})
        self.addCleanup(node.kill)
        self.assertEqual(node.stdout.readline(), "0\n")
        server.sql("ALTER TABLE once_operations RENAME TO elsewhere")
        self.assertEqual(node.communicate("go\n", timeout=100)[0], "unavailable\n")

    def test_redis_over_tls(self):
        """Node's executable exports an OpenSSL of its own, of another version."""
        url = self.server("redis_tls").url()
        for version in OTHER_OPENSSL:
            self.run_gate(url, version)


class Ends(Processes):
    def test_a_closed_gate_is_garbage(self):
        program = """
import { Gate } from "once";
async function openAndClose() {
  const gate = await Gate.open({ store: "memory:", log: "off" });
  await gate.close();
  return new WeakRef(gate.engine);
}
const engine = await openAndClose();
const until = Date.now() + 60_000;
while (engine.deref() !== undefined && Date.now() < until) {
  await new Promise(setImmediate);
  gc();
}
console.log(engine.deref() === undefined);
"""
        self.assertEqual(self.node("--expose-gc", "--input-type=module", "-e", program), "true\n")

    def test_a_worker_with_a_busy_claim_can_be_terminated(self):
        program = """
const { Worker } = require("node:worker_threads");
const code = `
const { parentPort } = require("node:worker_threads");
const { Gate } = require("once");
(async () => {
  const gate = await Gate.open({ store: "memory:", log: "off" });
  await gate.claim({ scope: "s", key: "k" });
  void gate.claim({ scope: "s", key: "k", wait: "60s" });
  parentPort.postMessage("busy");
})();`;
(async () => {
  for (let i = 0; i < 3; ++i) {
    const worker = new Worker(code, { eval: true });
    await new Promise((resolve) => worker.once("message", resolve));
    await worker.terminate();
  }
  console.log("the process goes on");
})();
"""
        for version in package.NODES:
            with self.subTest(version or "the machine's own"):
                self.assertEqual(self.node("--input-type=commonjs", "-e", program, version=version), "the process goes on\n")

    def test_a_process_with_a_busy_claim_ends_when_it_should(self):
        for how, status in (("exit", 7), ("throw", 1), ("return", 0)):
            with self.subTest(how):
                self.assertEqual(self.node("exit.mjs", how, f"journal:{self.folder()}", expect=status), "true\n")


if __name__ == "__main__":
    unittest.main()
