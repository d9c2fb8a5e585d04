"""No way to exhaust the store. tests/unit/gateway/limits and limits_net_test.cpp have the limits one by one."""
import collections
import secrets
import unittest

from harness import STORE, EndToEnd


def caller(name):
    return ("Authorization", f"Bearer {name}")


class Addresses(EndToEnd):
    """Where nobody checks who a caller is, anybody is as many callers as they like."""

    def invent(self, client, most):
        """New callers with new keys, until some of them are refused; the statuses, and a key and its caller that passed."""
        statuses, passed = collections.Counter(), None
        while sum(statuses.values()) < most and statuses[429] < 10:
            credentials, key = caller(secrets.token_hex(8)), secrets.token_hex(8)
            response = client.ask("POST", "/", [credentials], b"x", key)
            statuses[response.status] += 1
            if response.status != 429:
                passed = credentials, key
            else:
                self.assertEqual(response.code, "caller-limit")
                self.assertGreaterEqual(int(response.get("Retry-After")), 1)
        return statuses, passed

    def test_invented_callers_do_not_fill_the_store(self):
        def handler(request, connection):
            honest = request.get("Authorization") == "Bearer honest"
            connection.reply(201 if honest else 404, body=b"x" * (100 if honest else 4000))

        gateway = self.gateway(self.backend(handler), "journal.max_disk=8MiB", "memory.max_bytes=8MiB", "journal.sync=never")
        honest, attacker = self.connect(gateway, address="127.0.0.2"), self.connect(gateway)
        self.assertEqual(honest.ask("POST", "/", [caller("honest")], b"x", "before").status, 201)
        statuses, (credentials, key) = self.invent(attacker, 5000)
        # In memory the address with the most is evicted instead, and nobody else notices.
        evicts = STORE == "memory:"
        self.assertEqual((set(statuses), statuses[429]), ({404}, 0) if evicts else ({404, 429}, 10), statuses)
        # A retry is never one too many.
        self.assertEqual(attacker.ask("POST", "/", [credentials], b"x", key).get("Idempotency-Status"), "replayed")
        for number in range(200):
            self.assertEqual(honest.ask("POST", "/", [caller("honest")], b"x", f"k{number}").status, 201)
        for key in ("before", "k0"):
            answer = honest.ask("POST", "/", [caller("honest")], b"x", key)
            self.assertEqual(answer.get("Idempotency-Status"), "replayed")
        metrics = gateway.metrics()
        self.assertEqual(metrics['once_caller_limit_total{limit="address_stored_bytes"}'], 0 if evicts else 10)
        self.assertEqual(metrics["once_store_full_total"], 0)
        if evicts:
            self.assertGreater(metrics["once_store_evictions_total"], 2000)
            return
        told = next(line for line in gateway.log_lines() if line["message"] == "caller over a limit")
        self.assertEqual((told["limit"], told["client"]), ("address_stored_bytes", "127.0.0.1"))


if __name__ == "__main__":
    unittest.main()
