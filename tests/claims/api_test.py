"""The claims API by itself: what each verb answers, whose work is whose, and what is refused."""
import os
import socket
import stat
import unittest

import schema
from support import Api, ClaimsTest, nonce
from wire import wait_until


class Verbs(ClaimsTest):
    def test_claim_work_succeed_and_everybody_gets_the_value_byte_for_byte(self):
        api = self.api()
        claim = api.acquire(key="a")
        self.assertEqual(claim["attempt"], 1)
        self.assertNotIn("previous", claim.json)
        value = '{"b":1.50,"a":[1e2,"\\u00e9\\ud800",null],  "a":2}'
        done = api.ask("POST", f"/v1/claims/{claim['claim']}/succeed", '{"value": %s }' % value)
        self.assertEqual(done.status, 200)
        self.assertNotIn(b'"value"', done.body)
        again = api.claim(key="a")
        self.assertIn(('"value":' + value).encode(), again.body)
        self.assertEqual((again["status"], again["attempt"]), ("succeeded", 1))
        self.assertEqual(again["expires_at"], done["expires_at"])
        self.assertIn(('"value":' + value).encode(), api.lookup(key="a").body)

    def test_a_copy_of_a_claim_that_arrives_after_its_owner_has_failed_is_in_progress(self):
        api = self.api()
        mine = nonce()
        claim = api.acquire(key="a", nonce=mine)["claim"]
        self.assertEqual(api.owner("fail", claim).status, 200)
        for wait in ({}, {"wait": "5m"}):
            self.assertEqual(api.claim(key="a", nonce=mine, **wait)["status"], "in_progress")
        # The same when a later attempt was given back.
        mine = nonce()
        again = api.acquire(key="a", nonce=mine)["claim"]
        self.assertEqual(api.owner("release", again).status, 200)
        for wait in ({}, {"wait": "5m"}):
            self.assertEqual(api.claim(key="a", nonce=mine, **wait)["status"], "in_progress")
        api.acquire(key="a")  # others go on

    def test_a_failed_attempt_is_followed_by_another(self):
        gateway, api = self.start()
        first = api.acquire(key="a")
        self.assertEqual(api.owner("fail", first["claim"], reason="model said no")["status"], "failed")
        self.assertEqual(api.lookup(key="a")["status"], "failed")
        second = api.acquire(key="a")
        self.assertEqual((second["attempt"], second["previous"]), (2, "failed"))
        self.assertGreater(second["fence"], first["fence"])
        line = next(line for line in gateway.log_lines() if line["message"] == "work failed")
        self.assertRegex(line["operation"], "^[0-9a-f]{16}$")
        self.assertEqual((line["tenant"], line["reason"]), ("local", "model said no"))

    def test_what_has_ended_cannot_end_otherwise(self):
        api = self.api()
        claim = api.acquire(key="a")["claim"]
        api.owner("succeed", claim, value=1)
        for verb in ("fail", "release", "renew"):
            answer = api.owner(verb, claim)
            self.assertEqual((answer.status, answer["code"]), (409, "claim-lost"), verb)
        other = api.owner("succeed", claim, value=2)
        self.assertEqual((other.status, other["value"]), (200, 1), "the first value stands, and is told")
        self.assertEqual(api.lookup(key="a")["value"], 1)

    def test_the_fingerprint_binds_a_key_to_its_request(self):
        api = self.api()
        api.acquire(key="a", fingerprint={"amount": 5, "to": "x"})
        answer = api.claim(key="a")
        self.assertEqual((answer.status, answer["code"]), (422, "key-mismatch"), "none is another one")
        same = api.ask("POST", "/v1/claims", '{"scope":"test","key":"a","fingerprint":{"to":"x","amount":5.0}}')
        self.assertEqual(same["status"], "in_progress")

    def test_the_value_is_kept_for_the_ttl_of_the_claim_or_of_the_end(self):
        api = self.api()
        first = api.acquire(key="a", ttl="7d")
        done = api.owner("succeed", first["claim"], value=1)
        self.assertGreaterEqual(done["expires_at"], first["expires_at"])
        self.assertEqual(done["expires_at"][:10], first["expires_at"][:10])
        short = api.acquire(key="b", ttl="7d")
        api.owner("succeed", short["claim"], value=1, ttl="1s")
        wait_until(lambda: api.lookup(key="b")["status"] == "none", what="it to expire")


class Tenants(ClaimsTest):
    TOKENS = {"acme": "a" * 16, "umbrella": "u" * 40}

    def test_tenants_cannot_see_or_end_each_others_work(self):
        _, nobody = self.start(tokens=self.TOKENS)
        acme, umbrella = (Api(nobody.address, token) for token in self.TOKENS.values())
        mine = acme.acquire(key="a")
        self.assertEqual(umbrella.lookup(key="a")["status"], "none")
        theirs = umbrella.acquire(key="a", nonce="0" * 32)
        self.assertNotEqual(mine["claim"], theirs["claim"])
        for verb, members in (("succeed", {"value": 1}), ("fail", {}), ("renew", {}), ("release", {}),
                              ("progress", {"number": 0, "data": "x"})):
            stolen = umbrella.owner(verb, mine["claim"], **members)
            self.assertEqual((stolen.status, stolen["code"]), (409, "claim-lost"), verb)
        # The same nonce is another owner for each.
        self.assertNotEqual(acme.claim(key="b", nonce="0" * 32)["claim"].split(".")[1],
                            umbrella.claim(key="b", nonce="0" * 32)["claim"].split(".")[1])
        self.assertEqual(acme.owner("succeed", mine["claim"], value="acme's").status, 200)
        self.assertEqual(umbrella.lookup(key="a")["status"], "in_progress")
        self.assertEqual(acme.lookup(key="a")["value"], "acme's")

    def test_claims_are_counted_by_tenant_and_scope_with_bounded_labels(self):
        gateway, nobody = self.start(tokens=self.TOKENS)
        acme, umbrella = (Api(nobody.address, token) for token in self.TOKENS.values())
        first = acme.acquire(scope="copy", key="a")
        acme.claim(scope="copy", key="a")
        acme.owner("fail", first["claim"])
        acme.owner("succeed", acme.acquire(scope="copy", key="a")["claim"], value=1)
        acme.claim(scope="copy", key="a")
        for number in range(23):
            acme.acquire(scope=f'"drawn {number}"', key="a")
        umbrella.acquire(scope="copy", key="a")
        counted = {name: count for name, count in gateway.metrics().items() if name.startswith("once_claims_scope_")}
        of_acme, of_umbrella = 'tenant="acme",scope="copy"', 'tenant="umbrella",scope="copy"'
        drawn, others = [rf'tenant="acme",scope="\"drawn {number}\""' for number in range(19)], 'tenant="acme",scope="other"'
        requests, zero = "once_claims_scope_requests_total", dict.fromkeys((of_acme, of_umbrella, *drawn, others), 0)
        self.assertEqual(counted, {
            f'{requests}{{{of_acme},result="acquired"}}': 2, f'{requests}{{{of_acme},result="in_progress"}}': 1,
            f'{requests}{{{of_acme},result="succeeded"}}': 1, **{f'{requests}{{{labels},result="acquired"}}': 1 for labels in drawn},
            f'{requests}{{{others},result="acquired"}}': 4, f'{requests}{{{of_umbrella},result="acquired"}}': 1,
            **{f"once_claims_scope_takeovers_total{{{labels}}}": 0 for labels in zero},
            **{f"once_claims_scope_retries_after_failure_total{{{labels}}}": count for labels, count in {**zero, of_acme: 1}.items()}})

    def test_without_a_right_token_nothing_is_answered(self):
        gateway, nobody = self.start(tokens=self.TOKENS)
        right = self.TOKENS["acme"]
        for header in (None, "", "Bearer", "Bearer ", f"Bearer {right}x", f"Bearer {right[:-1]}", f"Basic {right}", right):
            headers = {} if header is None else {"Authorization": header}
            for method, target in (("POST", "/v1/claims"), ("GET", "/v1/claims?scope=a&key=b"),
                                   ("POST", f"/v1/claims/{'0' * 64}.{'0' * 32}/renew")):
                with self.subTest(header=header, target=target):
                    answer = nobody.ask(method, target, {"scope": "a", "key": "b"}, headers)
                    self.assertEqual((answer.status, answer["code"]), (401, "unauthorized"))
                    self.assertTrue(answer.headers["www-authenticate"].startswith("Bearer"))
        self.assertEqual(nobody.ask("POST", "/v1/claims", {"scope": "a", "key": "b"},
                                    {"Authorization": f"bearer {right}"}).status, 200, "the scheme has no case")
        self.assertEqual(nobody.ask("GET", "/openapi.json").status, 200, "the document is no secret")
        self.assertGreater(gateway.metrics()['once_claims_requests_total{verb="claim",result="unauthorized"}'], 0)
        self.assertNotIn(right, gateway.stderr)



class UnixSocket(ClaimsTest):
    def test_it_is_for_user_and_group_and_goes_with_the_process(self):
        gateway, api = self.start()
        self.assertEqual(stat.S_IMODE(os.stat(self.socket).st_mode), 0o660)
        self.assertEqual(api.acquire(key="a")["attempt"], 1)
        gateway.stop()
        self.assertFalse(self.socket.exists())

    def test_what_somebody_listens_on_or_is_no_socket_is_not(self):
        path = self.data / "taken"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            listener.listen()
            refused = self.once(listen=f"unix:{path}")
            self.assertEqual(refused.wait(), 1)
            self.assertIn("in use", refused.stderr)
            refused.stop(expect=1)
            self.assertTrue(path.is_socket())
        file = self.data / "file"
        file.write_text("precious")
        refused = self.once(listen=f"unix:{file}")
        self.assertEqual(refused.wait(), 1)
        refused.stop(expect=1)
        self.assertEqual(file.read_text(), "precious")


class Renewal(ClaimsTest):
    def test_a_renewal_that_names_no_lease_does_not_shorten_a_long_one(self):
        api = self.api()
        claim = api.acquire(key="long", lease="1h")
        renewed = api.owner("renew", claim["claim"])
        self.assertEqual(renewed.status, 200)
        self.assertGreaterEqual(renewed["lease_until"], claim["lease_until"])
        short = api.owner("renew", claim["claim"], lease="5s")
        self.assertLess(short["lease_until"], claim["lease_until"])


class Refusals(ClaimsTest):
    def test_what_is_not_valid_is_said(self):
        api = self.api()
        good = {"scope": "s", "key": "k"}
        for body, wanted in (
                ("{", "JSON object"), ({"scope": "s"}, "Exactly one"), ({**good, "inputs": 1}, "Exactly one"),
                ({**good, "scope": ""}, "scope"), ({**good, "ttl": "soon"}, "duration"), ({**good, "on_unknown": "x"}, "takeover"),
                ({**good, "nonce": "0" * 31}, "32 hex"), ('{"scope":"s","inputs":{"a":1,"a":2}}', "canonical")):
            with self.subTest(body=body):
                answer = api.ask("POST", "/v1/claims", body)
                self.assertEqual((answer.status, answer["code"]), (400, "claim-invalid"))
                self.assertIn(wanted, answer["detail"])
        claim = api.acquire(key="k")["claim"]
        for verb, body in (("succeed", {"value": 1, "x": 1}), ("renew", {"lease": 1}), ("fail", {"reason": 1}), ("release", {"x": 1})):
            self.assertEqual(api.ask("POST", f"/v1/claims/{claim}/{verb}", body).status, 400, (verb, body))
        self.assertEqual(api.ask("GET", "/v1/claims?scope=a&key=%zz").status, 400)
        self.assertEqual(api.lookup(scope="é ü", key="a&b=c%")["status"], "none")

    def test_what_is_not_there_is_said(self):
        api = self.api()
        for method, target, status in (("GET", "/", 404), ("POST", "/v1/claims/", 404), ("GET", "/v1/claims/x", 404),
                                       ("POST", "/v1/claims/x/steal", 404), ("PUT", "/v1/claims", 405),
                                       ("GET", "/v1/claims/x/renew", 405), ("POST", "/openapi.json", 405)):
            self.assertEqual(api.ask(method, target).status, status, (method, target))
        for handle in ("x", "0" * 64, f"{'0' * 64}.{'0' * 32}", f"{'g' * 64}.{'0' * 32}"):
            self.assertEqual(api.owner("renew", handle).status, 409, handle)

    def test_limits_have_answers_and_metrics(self):
        gateway, api = self.start("claims.max_body=2KiB", "claims.max_connections=2")
        claim = api.acquire(key="a")["claim"]
        fits = api.owner("succeed", claim, value="x" * 1500)
        self.assertEqual(fits.status, 200)
        self.assertEqual(api.ask("POST", "/v1/claims", b"x" * (4 << 20)).status, 413)
        api.acquire(key="b")
        held = [api.connect() for _ in range(2)]
        for connection in held:
            connection.request("GET", "/v1/claims?scope=test&key=b&wait=60s")
        wait_until(lambda: gateway.metrics()["once_claims_waiting"] == 2)
        self.assertEqual(api.claim(key="c").status, 503)
        for connection in held:
            connection.close()
        metrics = gateway.metrics()
        self.assertEqual((metrics["once_claims_bodies_refused_total"], metrics["once_claims_connections_refused_total"]),
                         (1, 1))

    def test_what_clients_send_and_do_not_read_is_within_the_memory_for_bodies(self):
        gateway, api = self.start("limits.max_body_memory=1MiB")

        def held(what):
            return gateway.metrics()[f'once_held_bytes{{what="{what}"}}']

        value = "x" * 900_000
        self.assertEqual(api.owner("succeed", api.acquire(key="a")["claim"], value=value).status, 200)
        claim = api.acquire(key="b")["claim"]
        wait_until(lambda: held("request") == 0 and held("replay") == 0)
        # A client that does not read.
        idle = api.connect()
        self.addCleanup(idle.close)
        idle.request("GET", "/v1/claims?scope=test&key=a")
        wait_until(lambda: held("replay") > 900_000)
        for refused in (api.lookup(key="a"), api.claim(key="a"), api.owner("succeed", claim, value=value)):
            self.assertEqual((refused.status, refused["code"], refused.headers["retry-after"]), (503, "overloaded", "1"))
        self.assertEqual(api.lookup(key="b")["status"], "in_progress", "small answers need no memory")
        self.assertEqual(gateway.metrics()['once_overloaded_total{limit="body_memory"}'], 3)
        idle.close()
        wait_until(lambda: held("replay") == 0)
        # One that sends a part of its body and no more.
        slow = api.connect()
        self.addCleanup(slow.close)
        slow.putrequest("POST", f"/v1/claims/{claim}/succeed")
        slow.putheader("Content-Length", "900013")
        slow.endheaders()
        slow.send(b'{"value": "' + b"x" * 800_000)
        wait_until(lambda: held("request") >= 800_000)
        self.assertEqual(api.lookup(key="a").status, 503)
        slow.send(b"x" * 100_000 + b'"}')
        self.assertEqual(slow.getresponse().status, 200)
        wait_until(lambda: held("request") == 0)
        self.assertEqual(len(api.lookup(key="a")["value"]), 900_000)

    def test_a_body_is_not_read_before_the_token(self):
        gateway, nobody = self.start(tokens=Tenants.TOKENS)
        connection = nobody.connect()
        self.addCleanup(connection.close)
        connection.putrequest("POST", "/v1/claims")
        connection.putheader("Content-Length", "1000000")
        connection.endheaders()
        answer = connection.getresponse()
        self.assertEqual((answer.status, answer.getheader("Connection")), (401, "close"))
        self.assertEqual(gateway.metrics()['once_claims_requests_total{verb="claim",result="unauthorized"}'], 1)

    def test_idle_connections_keep_nobody_out(self):
        gateway, api = self.start("claims.max_connections=50")
        idle = [api.connect() for _ in range(120)]
        for connection in idle:
            connection.connect()
            self.addCleanup(connection.close)
        api.acquire(key="a")
        metrics = gateway.metrics()
        self.assertGreaterEqual(metrics["once_claims_connections_displaced_total"], 71)
        self.assertEqual(metrics["once_claims_connections_refused_total"], 0)

    def test_the_document_is_served_as_it_stands(self):
        served = self.api().ask("GET", "/openapi.json")
        self.assertEqual(served.body.decode(), (schema.ROOT / "docs" / "reference" / "openapi.json").read_text())


if __name__ == "__main__":
    unittest.main()
