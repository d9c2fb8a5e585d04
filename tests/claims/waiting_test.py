"""Owners that are at work, dead or slow, and those who wait for them."""
import json
import threading
import unittest

from support import ClaimsTest, nonce
from wire import wait_until


class Leases(ClaimsTest):
    def test_a_dead_owner_is_taken_over_after_the_threshold_only_and_its_result_refused(self):
        clock = self.clock()
        gateway, api = self.start(clock=clock)
        terms = {"key": "a", "lease": "1m", "takeover_after": "10m"}
        dead = api.acquire(**terms)
        self.assertEqual(api.claim(**terms).json.get("owner"), "at_work")
        clock.advance(61)
        early = api.claim(**terms)
        self.assertEqual(early.json.get("owner"), "gone", early.json)
        self.assertIn(early["retry_after"], range(1, 600 - 60))
        self.assertEqual(api.lookup(key="a")["status"], "unknown")
        self.assertEqual(api.claim(**{**terms, "on_unknown": "hold"})["status"], "unknown")
        clock.advance(300)
        self.assertEqual(api.claim(**terms).json.get("owner"), "gone")
        clock.advance(300)
        taken = api.acquire(**terms)
        self.assertEqual((taken["attempt"], taken["previous"]), (2, "unknown"))
        for verb, members in (("succeed", {"value": "stale"}), ("fail", {}), ("renew", {}), ("release", {})):
            self.assertEqual(api.owner(verb, dead["claim"], **members).status, 409, verb)
        api.owner("succeed", taken["claim"], value="fresh")
        self.assertEqual(api.claim(**terms)["value"], "fresh")
        metrics = gateway.metrics()
        self.assertEqual(metrics["once_claims_takeovers_total"], 1)
        self.assertEqual(metrics['once_claims_scope_takeovers_total{tenant="local",scope="test"}'], 1)

    def test_an_operator_settles_what_a_dead_owner_left_whatever_its_scope_is_called(self):
        clock = self.clock()
        gateway, api = self.start(clock=clock)
        scope = "(eu) payments"
        api.acquire(scope=scope, key="a", lease="1m")
        clock.advance(61)
        fields = [("Host", "localhost"), ("Once-Admin", "1")]
        find = json.dumps({"scope": scope, "key": "a"}).encode()
        # The store's connections are a minute older now, so that a first look may be refused.
        found = wait_until(lambda: (answer := gateway.admin("/v1/keys/find", "POST", fields, find)).status == 200 and answer,
                           what="the key to be found")
        key = json.loads(found.body)
        resolve = json.dumps({"version": key["version"], "state": "failed"}).encode()
        done = gateway.admin(f"/v1/keys/{key['id']}/resolve", "POST", fields, resolve)
        self.assertEqual(done.status, 200, done.body)
        self.assertEqual(api.claim(scope=scope, key="a")["previous"], "failed")

    def test_a_claim_that_is_asked_for_again_after_its_lease_begins_it_anew(self):
        clock = self.clock()
        api = self.api(clock=clock)
        terms = {"key": "a", "on_unknown": "retry", "nonce": nonce()}
        first = api.acquire(**terms, lease="1m")
        clock.advance(61)
        self.assertEqual(api.lookup(key="a")["status"], "unknown")
        again = api.acquire(**terms, lease="1m")
        self.assertEqual((again["claim"], again["attempt"]), (first["claim"], 1))
        self.assertGreater(again["lease_until"], first["lease_until"])
        self.assertEqual(api.claim(key="a", on_unknown="retry")["status"], "in_progress")


class LongPolls(ClaimsTest):
    def test_when_the_owner_fails_one_of_those_that_wait_goes_on(self):
        gateway, api = self.start()
        claim = api.acquire(key="a")["claim"]
        answers = []
        waiters = [threading.Thread(target=lambda: answers.append(api.claim(key="a", wait="50s"))) for _ in range(5)]
        for waiter in waiters:
            waiter.start()
        wait_until(lambda: gateway.metrics()["once_claims_waiting"] == 5, what="all of them to wait")
        api.owner("fail", claim)
        wait_until(lambda: answers, what="one of them to go on")
        wait_until(lambda: gateway.metrics()["once_claims_waiting"] == 4, what="the others to wait again")
        self.assertEqual([answer["status"] for answer in answers], ["acquired"])
        api.owner("succeed", answers[0]["claim"], value="v")
        for waiter in waiters:
            waiter.join()
        self.assertEqual([answer["status"] for answer in answers], ["acquired"] + ["succeeded"] * 4)

    def test_nobody_claims_for_a_client_that_has_left(self):
        gateway, api = self.start()
        claim = api.acquire(key="a")["claim"]
        left = api.connect()
        left.request("POST", "/v1/claims", json.dumps({"scope": "test", "key": "a", "wait": "30s"}))
        wait_until(lambda: gateway.metrics()["once_claims_waiting"] == 1)
        left.close()
        wait_until(lambda: gateway.metrics()["once_claims_waiting"] == 0, what="it to be noticed")
        api.owner("fail", claim)
        self.assertEqual(api.lookup(key="a")["status"], "failed")

    def test_a_gateway_that_ends_answers_those_that_wait(self):
        gateway, api = self.start()
        api.acquire(key="a")
        answers = []
        waiter = threading.Thread(target=lambda: answers.append(api.claim(key="a", wait="30s")))
        waiter.start()
        wait_until(lambda: gateway.metrics()["once_claims_waiting"] == 1)
        gateway.stop()
        waiter.join()
        self.assertEqual(answers[0]["status"], "in_progress")


if __name__ == "__main__":
    unittest.main()
