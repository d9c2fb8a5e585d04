"""Who a key belongs to: verified tokens, addresses behind proxies, and requests that do not say."""
import json
import os
import unittest

from harness import EndToEnd, run_once
from tokens import Pair, Secret, bearer, token

KEY = "callers-key"


class Missing(EndToEnd):
    def test_callers_that_are_known_by_something_else_are_counted_and_warned_about(self):
        gateway = self.gateway(self.backend(), "defaults.caller=header:X-Api-Key")
        self.assertEqual(gateway.stderr.count("warning: caller_missing is not set"), 1)
        for fields in ((), [("X-Api-Key", "one")], [("X-Api-Key", "")]):
            gateway.ask(key="k", fields=fields)
        gateway.ask()
        self.assertEqual(gateway.metrics()["once_keyed_without_caller_total"], 2)
        gateway = self.gateway(self.backend(), "defaults.caller_missing=anonymous")
        self.assertNotIn("caller_missing", gateway.stderr)

    def test_in_production_it_must_be_said(self):
        folder = self.folder()
        (folder / "once.yaml").write_text("environment: production\nupstreams: {default: 'http://127.0.0.1:9'}\nadmin: off\n"
                                          "routes:\n  - path: /a\n")
        for command in ("check", "serve"):
            done = run_once(command, "--config", "once.yaml", folder=folder, env={**os.environ, "ONCE_SECRET": "0" * 32})
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("once.yaml:5:5: caller_missing is not set", done.stderr)


class Callers(EndToEnd):
    def start(self, *settings, caller="jwt:sub", **named):
        self.backend_ = self.backend()
        return self.gateway(self.backend_, f"defaults.caller={caller}", *settings, **named)

    def result(self, gateway, *fields, key=KEY):
        """What became of a request with the same key."""
        answer = gateway.ask(key=key, fields=fields)
        return answer.get("Idempotency-Status") or answer.status

    def assert_refused(self, gateway, code, detail, *fields):
        seen = len(self.backend_.requests)
        answer = gateway.ask(key=KEY, fields=fields)
        self.assertEqual(answer.status, 401, answer.body)
        problem = json.loads(answer.body)
        self.assertEqual(problem["code"], code)
        self.assertIn(detail, problem["detail"])
        self.assertEqual(len(self.backend_.requests), seen, "the backend has seen it")
        return answer


class Proxies(Callers):
    def test_a_proxys_header_counts_from_a_trusted_proxy_only(self):
        both = [("X-Org-Id", "acme")], [("X-Org-Id", "other")]
        gateway = self.start("trusted_proxies=127.0.0.1", caller="proxy-header:X-Org-Id")
        self.assertEqual([self.result(gateway, *fields) for fields in (*both, *both)],
                         ["executed", "executed", "replayed", "replayed"])
        gateway = self.start("trusted_proxies=192.0.2.1", "defaults.caller_missing=reject", caller="proxy-header:X-Org-Id")
        self.assert_refused(gateway, "caller-required", "X-Org-Id from a trusted proxy", *both[0])


class Tokens(Callers):
    def setUp(self):
        super().setUp()
        self.files = self.folder()
        self.secret = Secret(self.files)

    def test_a_refreshed_token_of_every_algorithm_gets_the_answer_and_another_subject_does_not(self):
        pairs = [Pair(self.files, algorithm) for algorithm in Pair.KINDS]
        paths = ",".join(str(pair.path) for pair in pairs)
        gateway = self.start(f"jwt.keys={paths}", f"jwt.secrets={self.secret.path}")
        for key in [*pairs, self.secret]:
            with self.subTest(algorithm=key.algorithm):
                name = KEY + key.algorithm
                self.assertEqual(self.result(gateway, bearer(key, sub="alice", jti="1"), key=name), "executed")
                self.assertEqual(self.result(gateway, bearer(key, sub="alice", jti="2"), key=name), "replayed")
                self.assertEqual(self.result(gateway, bearer(key, sub="mallory"), key=name), "executed")
        self.assertEqual(len(self.backend_.requests), 2 * 4)

    def test_who_does_not_say_is_one_of_many_or_refused(self):
        gateway = self.start(f"jwt.secrets={self.secret.path}")
        self.assertEqual(self.result(gateway), "executed")
        self.assertEqual(self.result(gateway, ("Authorization", "Basic eDp5")), "replayed")
        self.assertEqual(self.result(gateway, bearer(self.secret, sub="alice")), "executed")
        self.assert_refused(gateway, "token-invalid", "three base64url parts", ("Authorization", "Bearer nonsense"))

        gateway = self.start(f"jwt.secrets={self.secret.path}", "defaults.caller_missing=reject")
        answer = self.assert_refused(gateway, "caller-required", "a token with the claim sub")
        self.assertEqual(answer.get("WWW-Authenticate"), "Bearer")
        self.assert_refused(gateway, "caller-required", "the claim sub", bearer(self.secret, name="x"))
        self.assertEqual(self.result(gateway, bearer(self.secret, sub="alice")), "executed")
        # Without a key nothing is checked: that is the backend's business.
        self.assertEqual(gateway.ask(fields=[("Authorization", "Bearer nonsense")]).status, 201)

    def test_a_token_is_checked_once_and_never_written(self):
        gateway = self.start(f"jwt.secrets={self.secret.path}", "threads=1", "log.level=debug", "log.access=yes")
        field = bearer(self.secret, sub="very-secret-subject")
        for expected in ("executed", "replayed", "replayed"):
            self.assertEqual(self.result(gateway, field), expected)
        self.assert_refused(gateway, "token-invalid", "signature", (field[0], field[1][:-3] + "AAA"))
        metrics = gateway.metrics()
        counted = [metrics[f"once_tokens_{what}_total"] for what in ("verified", "remembered", "refused")]
        self.assertEqual(counted, [1, 2, 1])
        gateway.terminate()
        self.assertEqual(gateway.wait(), 0)
        refusals = [line for line in gateway.log_lines() if line["message"] == "caller refused"]
        self.assertEqual([line["reason"] for line in refusals], ["The token is not valid: its signature does not match."])
        for word in ("very-secret", field[1], self.secret.secret):
            self.assertNotIn(word, gateway.stdout + gateway.stderr)

    def test_with_the_next_reload_a_removed_key_is_good_for_nothing(self):
        old, new = Pair(self.files, "EdDSA", "old"), Pair(self.files, "EdDSA", "new")
        keys = self.files / "keys.pem"
        keys.write_bytes(old.path.read_bytes())
        gateway = self.start(f"jwt.keys={keys}", "threads=1")
        of_old, of_new = bearer(old, sub="alice"), bearer(new, sub="alice")
        self.assertEqual(self.result(gateway, of_old), "executed")
        self.assertEqual(self.result(gateway, of_old), "replayed")  # remembered by now
        self.assert_refused(gateway, "token-invalid", "its signature does not match", of_new)
        keys.write_bytes(new.path.read_bytes())
        done = run_once("reload", "--admin", f"127.0.0.1:{gateway.admin_port}")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assert_refused(gateway, "token-invalid", "its signature does not match", of_old)
        self.assertEqual(self.result(gateway, of_new), "replayed")
        keys.write_text("no key\n")
        done = run_once("reload", "--admin", f"127.0.0.1:{gateway.admin_port}")
        self.assertEqual(done.returncode, 1)
        self.assertIn("neither a PEM public key", done.stderr)
        self.assertEqual(self.result(gateway, of_new), "replayed")


class Addresses(Callers):
    def test_what_a_trusted_proxy_says_does(self):
        gateway = self.start("trusted_proxies=127.0.0.0/8,10.0.0.0/8", caller="client-ip")

        def asks(*forwarded):
            return self.result(gateway, *(("X-Forwarded-For", line) for line in forwarded))

        self.assertEqual(asks("1.2.3.4"), "executed")
        self.assertEqual(asks("6.6.6.6, 1.2.3.4"), "replayed")
        self.assertEqual(asks("6.6.6.6", "1.2.3.4, 10.1.1.1"), "replayed")
        self.assertEqual(asks("1.2.3.4, 6.6.6.6"), "executed")
        self.assertEqual(asks(), "executed")
        self.assertEqual(asks("1.2.3.4, unknown"), "replayed")  # the proxy that passed it on


if __name__ == "__main__":
    unittest.main()
