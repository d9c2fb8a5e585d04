"""Two gateways on one store that is a server, and a server that goes away and comes back. ONCE_E2E_SERVER is a name in
tests/servers/catalog.py."""
import collections
import itertools
import os
import secrets
import unittest

import catalog
from harness import EndToEnd, kept_part, run_once
from moved_clock import MovedClock
from wire import wait_until

NAME = os.environ["ONCE_E2E_SERVER"]
PATIENT = ("server.timeout=5m", "server.connect_timeout=1m")  # a server may pause; one that is gone says so at once
QUICK = ("server.timeout=1s", "server.connect_timeout=1s")
TELLS = NAME in ("postgres", "redis")  # MySQL has no way to tell


class Shared(EndToEnd):
    @classmethod
    def setUpClass(cls):
        cls.server = catalog.make(NAME)
        cls.addClassCleanup(cls.server.stop)
        cls.server.start()

    def pair(self, backend, *settings, **named):
        """Two gateways that mean the same by a key."""
        environment = {**os.environ, "ONCE_SECRET": secrets.token_hex(16)}
        return [self.gateway(backend, f"store={self.server.url()}", *PATIENT, *settings, env=environment, **named)
                for _ in range(2)]

    def clock(self):
        """Of the server and of the gateways that are given it."""
        return MovedClock(self.server.folder.clock)

    def held(self, body=b"done"):
        """A backend that answers when the gate opens."""
        go = self.gate()
        return self.backend(lambda _, to: go.wait() and to.reply(201, body=body)), go


class TwoGateways(Shared):
    def test_what_one_has_recorded_the_other_replays_byte_for_byte(self):
        backend = self.backend()
        one, other = self.pair(backend)
        first = one.ask(key="k", body=b"{}")
        again = other.ask(key="k", body=b"{}")
        self.assertEqual((first.status, again.get("Idempotency-Status")), (201, "replayed"))
        self.assertEqual(kept_part(again), kept_part(first))
        self.assertEqual(other.ask(key="k", body=b"other").status, 422)
        self.assertEqual(len(backend.requests), 1)

    def test_a_waiter_at_the_other_gateway_gets_the_answer(self):
        gates = collections.defaultdict(self.gate)
        backend = self.backend(lambda request, to: gates[request.get("Idempotency-Key")].wait() and to.reply(201, body=b"done"))
        one, other = self.pair(backend, "defaults.in_flight_wait=5m")
        keys = (f"k{number}" for number in itertools.count())

        def waits():
            """Whether the other gateway has ever been told of an end."""
            request = {"key": next(keys), "body": b"{}"}
            owner, waiter = self.connect(one), self.connect(other)
            before = len(backend.executions())
            owner.send_request(**request)
            wait_until(lambda: len(backend.executions()) > before)
            waiter.send_request(**request)
            wait_until(lambda: other.metrics()["once_waiting"] == 1)
            gates[request["key"]].set()
            self.assertEqual(kept_part(waiter.read_response()), kept_part(owner.read_response()))
            self.assertEqual(len(backend.executions()), before + 1)
            return other.metrics()["once_store_told_total"] >= 1

        told = waits()
        if TELLS and not told:  # it may have begun to listen later than the first of them ended
            wait_until(waits, what="the server to tell of an end")

    def test_a_slow_request_keeps_its_claim_for_longer_than_the_lease(self):
        go = self.gate()
        backend = self.backend(lambda request, to: (request.get("Idempotency-Attempt") != "1" or go.wait()) and to.reply(201))
        clock = self.clock()
        one, other = self.pair(backend, "defaults.lease=1m", "defaults.on_unknown=retry", "defaults.timeouts.response=24h",
                               "defaults.in_flight=reject", clock=clock)
        request = {"key": "k", "body": b"{}"}
        owner = self.connect(one)
        owner.send_request(**request)
        wait_until(backend.executions)
        for _ in range(8):  # two leases and more, a third of one at a time: a connection that is being made has a minute
            renewed = one.metrics()["once_leases_renewed_total"]
            clock.advance(21)
            wait_until(lambda renewed=renewed: one.metrics()["once_leases_renewed_total"] > renewed, what="a renewal")
        self.assertEqual(other.ask(**request).get("Idempotency-Status"), "in-flight")
        go.set()
        self.assertEqual(owner.read_response().status, 201)
        self.assertEqual(other.ask(**request).get("Idempotency-Status"), "replayed")
        self.assertEqual(len(backend.requests), 1)

    def test_what_a_dead_gateway_had_at_the_backend_is_taken_over_when_its_lease_has_lapsed(self):
        backend, go = self.held()
        one, other = self.pair(backend, "defaults.lease=5m", "defaults.on_unknown=retry", "defaults.in_flight=reject")
        owner = self.connect(one)
        owner.send_request(key="k", body=b"{}")
        wait_until(backend.executions)
        one.kill()
        go.set()
        self.assertEqual(other.ask(key="k", body=b"{}").code, "in-flight")
        self.clock().advance(301)  # by the clock of the store the lease is over, and by no other
        self.assertEqual(other.ask(key="k", body=b"{}").get("Idempotency-Status"), "executed")
        attempts = [request.get("Idempotency-Attempt") for request in backend.requests]
        fences = [int(request.get("Idempotency-Fence")) for request in backend.requests]
        self.assertEqual(attempts, ["1", "2"])
        self.assertLess(fences[0], fences[1])


LIVES = "defaults.scope=path,life"


class Lives(Shared):
    def setUp(self):
        super().setUp()
        self.things = self.backend(lambda request, to: to.reply(204 if request.method == "DELETE" else 201))

    def append(self, gateway):
        return gateway.ask(target="/a", key="k", body=b"{}").get("Idempotency-Status")

    def test_a_life_that_ended_at_one_gateway_has_ended_at_the_other(self):
        one, other = self.pair(self.things, LIVES)
        self.assertEqual([self.append(one), self.append(other)], ["executed", "replayed"])
        self.assertEqual(one.ask("DELETE", "/a").status, 204)
        self.assertEqual([self.append(other), self.append(one), self.append(other)], ["executed"] + ["replayed"] * 2)


class ServerDown(Shared):
    def test_nothing_is_forwarded_while_it_is_down_and_all_is_well_when_it_is_back(self):
        backend = self.backend()
        one, other = self.pair(backend)
        first = one.ask(key="before", body=b"{}")
        self.server.kill()
        try:
            answer = one.ask(key="during", body=b"{}")
            self.assertEqual((answer.status, answer.code), (503, "store-unavailable"))
            self.assertGreaterEqual(int(answer.get("Retry-After")), 1)
            self.assertEqual(one.ask(key="before", body=b"{}").status, 503)
            wait_until(lambda: one.admin("/readyz").status == 503)
            self.assertEqual(one.admin("/readyz").body, b"store down\n")
            self.assertEqual(one.ask("GET").status, 201)  # nothing to protect
        finally:
            self.server.restart()
        self.assertEqual(len([request for request in backend.requests if request.method == "POST"]), 1)
        wait_until(lambda: other.admin("/readyz").status == 200)
        again = wait_until(lambda: next((a for a in [other.ask(key="before", body=b"{}")] if a.status != 503), None))
        self.assertEqual(kept_part(again), kept_part(first))
        self.assertEqual(wait_until(lambda: one.ask(key="during", body=b"{}").status == 201), True)

    def test_a_server_that_stands_still_is_given_up_in_time(self):
        backend = self.backend()
        one, _ = self.pair(backend, *QUICK)
        self.server.pause()
        try:
            answer = one.ask(key="k", body=b"{}")
            self.assertEqual((answer.status, answer.code), (503, "store-unavailable"))
        finally:
            self.server.resume()
        self.assertEqual(backend.requests, [])
        self.assertTrue(wait_until(lambda: one.ask(key="k", body=b"{}").status == 201))
        self.assertEqual(len(backend.requests), 1)

    def test_a_drain_waits_for_the_claims_that_are_taken_back(self):
        backend = self.backend()
        one, other = self.pair(backend, *QUICK)
        self.server.pause()
        try:
            answer = one.ask(key="k", body=b"{}")
            self.assertEqual((answer.status, answer.code), (503, "store-unavailable"))
            one.terminate()  # the server will make the claim when it goes on
        finally:
            self.server.resume()
        self.assertEqual(one.wait(), 0)
        wait_until(lambda: other.ask(key="k", body=b"{}").status == 201, what="the key to be free")
        self.assertEqual(len(backend.requests), 1)

    def test_in_shadow_mode_only_the_line_in_the_access_log_waits_for_it(self):
        one, _ = self.pair(self.backend(), "defaults.mode=shadow", "log.access=yes")
        client = self.connect(one)
        self.server.pause()
        try:
            for number in range(3):  # one after the other: none is held up by what the last one left to do
                self.assertEqual(client.ask("POST", f"/{number}", key=f"k{number}", body=b"{}").status, 201)
            self.assertEqual(one.log_lines(one.stdout), [])
        finally:
            self.server.resume()
        lines = wait_until(lambda: len(one.log_lines(one.stdout)) == 3 and one.log_lines(one.stdout))
        self.assertEqual(sorted((line["path"], line["shadow"], line["status"]) for line in lines),
                         [(f"/{number}", "executed", 201) for number in range(3)])


class Full(Shared):
    @unittest.skipUnless(NAME == "redis", "a limit that a command sets")
    def test_a_server_without_room_is_told_as_full_and_not_as_broken(self):
        gateway, _ = self.pair(self.backend())
        self.server.command("CONFIG", "SET", "maxmemory", 1)
        self.addCleanup(self.server.command, "CONFIG", "SET", "maxmemory", 0)
        refused = gateway.ask("POST", "/", key="k")
        self.assertEqual((refused.status, refused.code), (503, "store-full"))
        metrics = gateway.metrics()
        self.assertEqual((metrics["once_store_full_total"], metrics["once_store_errors_total"]), (1, 0))
        told = next(line for line in gateway.log_lines() if line["message"] == "the store is full")
        self.assertIn("maxmemory", told["error"])
        self.assertRegex(told["operation"], "^[0-9a-f]{16}$")


class Operating(Shared):
    def test_no_password_is_shown(self):
        scheme, rest = self.server.url().split("://")
        url = f"{scheme}://somebody:very-secret-word@{rest.split('@')[-1]}"
        gateway = ("--upstream", "http://127.0.0.1:1", "--store", url)
        environment = {**os.environ, "ONCE_SECRET": "s" * 16}
        for command in (("check", *gateway), ("sweep", "--store", url), ("config",),
                        ("serve", *gateway, "--set", "server.connections=0")):
            result = run_once(*command, env=environment)
            self.assertNotIn("very-secret-word", result.stdout + result.stderr)

    @unittest.skipIf(NAME == "redis", "Redis has no tables to look into")
    def test_operators_see_whose_a_key_is_without_seeing_who_that_is(self):
        one, _ = self.pair(self.backend(), "defaults.ttl=1h")
        callers = ("Bearer very-secret-token", "Bearer another", "Bearer very-secret-token")
        for number, caller in enumerate(callers):
            one.ask("POST", "/payments", key=f"seen-{number}", body=b"{}", fields=[("Authorization", caller)])
        one.ask("POST", "/payments", key="seen-nobody", body=b"{}")
        rows = self.server.sql("SELECT tenant, route, state FROM once_keys WHERE expires_at IS NOT NULL ORDER BY started_at, id "
                               "LIMIT 1000").replace("\t", "|").splitlines()
        rows = [row.split("|") for row in rows if row.endswith("|/**|succeeded")]
        tenants = [row[0] for row in rows[-4:]]
        self.assertEqual(sorted(len(tenant) for tenant in tenants), [0, 16, 16, 16])
        self.assertEqual(len(set(tenants)), 3)
        self.assertNotIn("very-secret", str(rows))

    @unittest.skipIf(NAME == "redis", "Redis forgets by itself")
    def test_expired_keys_are_swept_by_the_command_and_by_the_gateway(self):
        backend = self.backend()
        one, other = self.pair(backend, "defaults.ttl=1h")
        for number in range(30):
            one.ask(key=f"k{number}", body=b"{}")
        count = 30
        if NAME == "postgres":  # more than a transaction removes
            count += 1000
            self.server.sql("INSERT INTO once_operations SELECT (jsonb_populate_record(o, jsonb_build_object('id', '\\x' || md5(n::text) || "
                            "md5('of ' || n)))).* FROM once_operations o, generate_series(1, 1000) n WHERE o.id = "
                            "(SELECT id FROM once_operations WHERE expires_at IS NOT NULL ORDER BY started_at DESC LIMIT 1)")
        self.assertEqual(self.swept(), 0)
        for gateway in (one, other):
            gateway.stop()
        clock = self.clock()
        clock.advance(3660)
        self.assertEqual(self.swept(), count)
        sweeping = self.pair(backend, "defaults.ttl=1h", clock=clock)
        sweeping[0].ask(key="k", body=b"{}")

        def swept():
            """A clock that jumps on and on leaves no time for a connection to be made."""
            try:
                return wait_until(lambda: sum(each.metrics()["once_store_swept_total"] for each in sweeping) == 1, 5)
            except AssertionError:
                return False

        clock.advance_until(swept, seconds=601)

    @unittest.skipIf(NAME == "redis", "Redis has no schema")
    def test_the_schema_is_applied_by_a_command_and_missed_with_a_clear_word(self):
        self.server.sql("CREATE DATABASE empty")
        server, _, place = self.server.url().rpartition("/")
        _, question_mark, options = place.partition("?")
        url = f"{server}/empty{question_mark}{options}"
        kind = url.split(":")[0]
        without = run_once("serve", "--upstream", "http://127.0.0.1:1", "--store", url, "--listen", "127.0.0.1:0",
                           env={**os.environ, "ONCE_SECRET": "s" * 16})
        self.assertEqual(without.returncode, 1, without)
        self.assertIn(f"once schema {kind} --apply", without.stderr)
        for _ in range(2):
            applied = run_once("schema", kind, "--apply", url)
            self.assertEqual(applied.returncode, 0, applied)
        self.assertEqual(run_once("sweep", "--store", url).stdout, "0 expired records removed\n")
        printed = run_once("schema", kind)
        self.assertIn("once_finish", printed.stdout)
        if kind == "mysql":
            plain = run_once("schema", kind, "--procedures", "off")
            self.assertEqual(plain.returncode, 0, plain)
            self.assertIn("CREATE TABLE IF NOT EXISTS once_operations", plain.stdout)
            self.assertNotIn("CREATE PROCEDURE", plain.stdout)
            both = run_once("schema", kind, "--procedures", "off", "--apply", url)
            self.assertEqual((both.returncode, both.stdout), (2, ""))
        other = run_once("schema", "mysql" if kind == "postgres" else "postgres", "--apply", url)
        self.assertEqual((other.returncode, other.stdout), (2, ""))

    def swept(self):
        """How many the command sweeps."""
        result = run_once("sweep", "--store", self.server.url())
        self.assertEqual(result.returncode, 0, result)
        return int(result.stdout.split()[0])


if __name__ == "__main__":
    unittest.main()
