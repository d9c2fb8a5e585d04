"""File descriptors: the limit is raised, no more connections are taken than it allows, and a gateway that runs out says so instead of
calling its backend dead. And what else /readyz can check."""
import json
import resource
import secrets
import unittest

from harness import STORE, EndToEnd, Gateway
from wire import Client, wait_until

TOO_FEW = "too few file descriptors for limits.max_connections"


def limited(soft, hard):
    return {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))}


class WithUpstream(EndToEnd):
    def serving(self, backend, *upstream, settings=()):
        """A gateway with these settings of its only upstream."""
        text = f"upstreams:\n  default:\n    servers: [{backend.origin}]\n" + "".join(f"    {line}\n" for line in upstream)
        options = [part for setting in ("timeouts.drain=70s", "threads=1", *settings) for part in ("--set", setting)]
        gateway = Gateway(*options, config=text)
        self.addCleanup(lambda: gateway.folder.exists() and gateway.stop())
        return gateway.wait_listening()

    def up(self, gateway, backend):
        return gateway.metrics()[f'once_upstream_up{{upstream="default",server="{backend.origin}"}}'] == 1


class Limit(EndToEnd):
    def warnings(self, gateway):
        return [line for line in gateway.log_lines() if line["message"] == TOO_FEW]

    def test_the_soft_limit_is_raised_to_the_hard_one(self):
        gateway = self.gateway(self.backend(), **limited(100, 4096))
        self.assertEqual(gateway.metrics()["process_max_fds"], 4096)

    def test_by_default_no_more_connections_are_taken_than_there_are_descriptors_for(self):
        backend = self.backend()
        gateway = self.gateway(backend, **limited(200, 200))
        self.assertEqual(self.warnings(gateway), [])
        served = int(gateway.metrics()["once_connections_limit"])
        self.assertTrue(20 < served < 100, served)
        # Each with a connection to the backend, which none of them gives back.
        go = self.gate()
        backend.handler = lambda _, to: go.wait() and to.reply(201)
        clients = [self.connect(gateway) for _ in range(250)]
        for number, client in enumerate(clients):
            client.send_request(key=f"k{number}")
        wait_until(lambda: gateway.metrics()["once_connections_refused_total"] == 250 - served)
        self.assertEqual(gateway.admin("/readyz").status, 200)
        go.set()
        statuses = [client.read_response().status for client in clients]
        self.assertEqual((statuses.count(201), statuses.count(503)), (served, 250 - served))
        metrics = gateway.metrics()
        self.assertEqual([metrics[f'once_out_of_descriptors_total{{for="{use}"}}'] for use in ("client", "upstream", "service")], [0, 0, 0])

    def test_a_limit_that_is_written_and_too_high_is_a_warning(self):
        gateway = self.gateway(self.backend(), "limits.max_connections=10000", **limited(200, 200))
        (line,) = self.warnings(gateway)
        self.assertEqual((line["max_connections"], line["descriptors"]), (10_000, 200))
        self.assertGreater(line["needed"], 20_000)
        self.assertTrue(20 < line["served"] < 150, line)
        self.assertEqual(gateway.metrics()["once_connections_limit"], line["served"])


class Exhausted(WithUpstream):
    def busy_connection(self, gateway):
        """One that is no longer idle, so that it is not closed for another."""
        client = self.connect(gateway)
        client.send(b"POST / HTTP/1.1\r\nHost: localhost\r\n")
        return client

    def test_it_is_said_and_the_backend_is_not_called_dead(self):
        def answer(request, connection):
            connection.reply(201 if request.method == "POST" else 200)

        backend = self.backend(answer)
        gateway = self.serving(backend, "health: {path: /up, interval: 100ms}", settings=["timeouts.header=5m"])
        admin = Client(gateway.admin_port)
        self.addCleanup(admin.close)

        def asked(target):
            return admin.ask("GET", target, [("Host", "localhost")]).body.decode()

        def out_of(use):
            name = f'once_out_of_descriptors_total{{for="{use}"}} '
            return next(float(line[len(name):]) for line in asked("/metrics").splitlines() if line.startswith(name))

        early = self.busy_connection(gateway)
        wait_until(lambda: gateway.metrics()["once_connections_open"] == 1)
        self.assertEqual(out_of("client"), 0)
        limit = int(gateway.metrics()["process_open_fds"]) + 10
        _, hard = resource.prlimit(gateway.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(gateway.process.pid, resource.RLIMIT_NOFILE, (limit, hard))
        others = [self.busy_connection(gateway) for _ in range(30)]
        wait_until(lambda: out_of("client") > 0, what="descriptors to run out")
        before = wait_until(lambda: out_of("upstream"), what="health checks without a descriptor")

        early.send(b"Idempotency-Key: k\r\nContent-Length: 0\r\n\r\n")
        response = early.read_response()
        self.assertEqual((response.status, response.code), (503, "upstream-busy"))
        wait_until(lambda: out_of("upstream") > before + 3, what="more health checks")
        # On a connection of its own: one descriptor is kept for that.
        response = wait_until(lambda: gateway.admin("/readyz"))
        self.assertEqual((response.status, response.body), (503, b"out of file descriptors\n"))
        self.assertEqual(gateway.admin("/healthz").status, 200)
        self.assertGreaterEqual(out_of("service"), 1)
        self.assertTrue(self.up(gateway, backend))
        said = [line for line in gateway.log_lines() if line["message"] == "out of file descriptors"]
        self.assertEqual({line["limit"] for line in said}, {limit})
        self.assertTrue(all("Too many open files" in line["error"] for line in said), said)
        firing = [alert["name"] for alert in json.loads(asked("/v1/stats"))["alerts"] if alert["state"] == "firing"]
        self.assertIn("OnceOutOfDescriptors", firing)

        for client in others:
            client.close()
        wait_until(lambda: gateway.admin("/readyz").body == b"ready\n")
        response = gateway.ask(key="k")
        self.assertEqual((response.status, response.get("Idempotency-Status")), (201, "executed"))
        self.assertEqual([request.method for request in backend.executions() if request.method == "POST"], ["POST"])
        self.assertNotIn("server is down", {line["message"] for line in gateway.log_lines()})


class Checks(WithUpstream):
    def answer_of(self, gateway):
        response = gateway.admin("/readyz")
        return response.status, response.body

    def test_no_upstream_is_up(self):
        backend = self.backend()
        plain, checking = (self.serving(backend, "health: {interval: 30m}", settings=[f"readyz.checks=[{checks}]"])
                           for checks in ("store", "store, upstreams"))
        backend.stop()
        for gateway in (plain, checking):
            wait_until(lambda gateway=gateway: gateway.ask("GET").status == 502 and not self.up(gateway, backend))
        self.assertEqual(self.answer_of(plain), (200, b"ready\n"))
        for _ in range(2):
            self.assertEqual(self.answer_of(checking), (503, b"no upstream is up\n"))
        said = [line["why"] for line in checking.log_lines() if line["message"] == "not ready"]
        self.assertEqual(said, ["no upstream is up"])

    def test_without_health_checks_it_is_ready_again_by_itself(self):
        """No request comes while it is not ready, so none could find out."""
        backend = self.backend()
        gateway = self.serving(backend, "health: {interval: 1s}", settings=["readyz.checks=[upstreams]"])
        backend.stop()
        wait_until(lambda: gateway.ask("GET").status == 502 and self.answer_of(gateway)[0] == 503)
        wait_until(lambda: self.answer_of(gateway) == (200, b"ready\n"))
        self.assertIn("ready again", {line["message"] for line in gateway.log_lines()})

    @unittest.skipIf(STORE, "the journal is meant")
    def test_the_store_is_full(self):
        backend = self.backend(lambda _, to: to.reply(201, body=secrets.token_bytes(200_000)))
        for checks in ("store", "store, room"):
            gateway = self.gateway(backend, f"readyz.checks=[{checks}]", "journal.max_disk=4MiB",
                                   "limits.address.stored_bytes=1GiB")
            self.assertEqual(self.answer_of(gateway), (200, b"ready\n"))
            number = 0
            while gateway.ask(key=f"k{number}").status != 503:
                number += 1
            self.assertEqual(self.answer_of(gateway), (503, b"store full\n") if "room" in checks else (200, b"ready\n"))


if __name__ == "__main__":
    unittest.main()
