"""Owners that are at work, dead or slow, and those who wait for them."""
import json
import threading
import time
import unittest

from support import ClaimsTest, nonce
from wire import wait_until


def in_threads(work, count):
    results = [None] * count

    def run(i):
        results[i] = work(i)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


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

    def test_renewals_hold_a_claim_past_the_threshold(self):
        clock = self.clock()
        api = self.api(clock=clock)
        terms = {"key": "a", "lease": "1m", "on_unknown": "retry"}
        claim = api.acquire(**terms)
        for _ in range(6):
            clock.advance(30)
            self.assertEqual(api.owner("renew", claim["claim"], lease="1m").status, 200)
            self.assertEqual(api.claim(**terms)["status"], "in_progress")
        self.assertEqual(api.owner("succeed", claim["claim"], value=1).status, 200)

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

    def test_retry_takes_a_lapsed_claim_at_once(self):
        clock = self.clock()
        api = self.api(clock=clock)
        terms = {"key": "a", "lease": "1m", "on_unknown": "retry"}
        api.acquire(**terms)
        self.assertEqual(api.claim(**terms)["status"], "in_progress")
        clock.advance(61)
        self.assertEqual(api.claim(**terms)["status"], "acquired")


class LongPolls(ClaimsTest):
    def test_a_waiting_claim_gets_the_value_as_soon_as_it_is_there(self):
        gateway, api = self.start()
        claim = api.acquire(key="a")["claim"]
        answers = []
        waiters = [threading.Thread(target=lambda: answers.append(api.claim(key="a", wait="50s"))) for _ in range(3)]
        waiters.append(threading.Thread(target=lambda: answers.append(api.lookup(key="a", wait="50s"))))
        for waiter in waiters:
            waiter.start()
        wait_until(lambda: gateway.metrics()["once_claims_waiting"] == 4, what="all of them to wait")
        began = time.monotonic()
        api.owner("succeed", claim, value="v")
        for waiter in waiters:
            waiter.join()
        self.assertLess(time.monotonic() - began, 25)
        self.assertEqual([answer["value"] for answer in answers], ["v"] * 4)

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

    def test_more_than_may_wait_are_answered_at_once(self):
        gateway, api = self.start("claims.max_waiting=1")
        claim = api.acquire(key="a")["claim"]
        first = threading.Thread(target=lambda: api.claim(key="a", wait="50s"))
        first.start()
        wait_until(lambda: gateway.metrics()["once_claims_waiting"] == 1)
        self.assertEqual(api.claim(key="a", wait="50s")["status"], "in_progress")
        self.assertEqual(gateway.metrics()["once_claims_waits_refused_total"], 1)
        self.assertEqual(gateway.metrics()["once_claims_waiting"], 1)
        api.owner("succeed", claim, value=1)
        first.join()

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


class AtOnce(ClaimsTest):
    def test_of_a_hundred_one_gets_it_and_the_others_its_value(self):
        gateway, api = self.start()
        runs = []

        def caller(i):
            while True:
                answer = api.claim(inputs={"prompt": "expensive"}, wait="10s", nonce=nonce())
                if answer["status"] == "acquired":
                    runs.append(i)
                    api.owner("succeed", answer["claim"], value={"by": i})
                    return {"by": i}
                if answer["status"] == "succeeded":
                    return answer["value"]

        values = in_threads(caller, 100)
        self.assertEqual(len(runs), 1)
        self.assertEqual(values, [{"by": runs[0]}] * 100)
        metrics = gateway.metrics()
        self.assertEqual(metrics['once_claims_requests_total{verb="claim",result="acquired"}'], 1)
        self.assertEqual(metrics['once_claims_requests_total{verb="claim",result="succeeded"}'], 99)


if __name__ == "__main__":
    unittest.main()
