"""Progress: what an owner appends while it works, and what others read of it meanwhile."""
import os
import threading
import time
import unittest

from support import Api, ClaimsTest
from wire import wait_until


def follow(api, **members):
    return api.ask("POST", "/v1/claims/follow", {"scope": "test", **members})


class Progress(ClaimsTest):
    def append(self, api, claim, number, data):
        answer = api.owner("progress", claim, number=number, data=data)
        self.assertEqual((answer.status, answer.json), (200, {"status": "appended", "next": number + 1}))

    def test_pieces_are_read_while_the_owner_works_and_then_there_is_the_value(self):
        api = self.api()
        self.assertEqual(follow(api, key="a").json, {"status": "none"})
        claim = api.acquire(key="a")
        self.append(api, claim["claim"], 0, "Faster")
        text = '{"number": 1, "data": {"b":1.50,  "a":[1e2,"\\u00e9\\ud800",null]} }'
        self.assertEqual(api.ask("POST", f"/v1/claims/{claim['claim']}/progress", text).status, 200)
        first = follow(api, key="a")
        self.assertIn(b'"progress":["Faster",{"b":1.50,  "a":[1e2,"\\u00e9\\ud800",null]}]', first.body)
        self.assertEqual([first[name] for name in ("status", "attempt", "fence", "from", "next")],
                         ["in_progress", 1, claim["fence"], 0, 2])
        rest = api.ask("GET", f"/v1/claims/follow?scope=test&key=a&from=1&fence={first['fence']}")
        self.assertEqual((rest["from"], rest["next"], len(rest["progress"])), (1, 2, 1))
        api.owner("succeed", claim["claim"], value="Faster than light")
        ended = follow(api, key="a", **{"from": 2, "fence": first["fence"], "wait": "50s"})
        self.assertEqual((ended["status"], ended["value"]), ("succeeded", "Faster than light"))
        self.assertNotIn("progress", ended.json)

    def test_a_repeated_append_adds_nothing(self):
        api = self.api()
        claim = api.acquire(inputs={"a": 1})["claim"]
        for data in ("one", "one", "other"):
            self.append(api, claim, 0, data)
        self.append(api, claim, 1, "two")
        self.append(api, claim, 0, "one")
        self.assertEqual(follow(api, inputs={"a": 1})["progress"], ["one", "two"])

    def test_a_reader_that_waits_gets_a_piece_as_soon_as_it_is_there(self):
        gateway, api = self.start()
        claim = api.acquire(key="a")["claim"]
        answers = []
        waiters = [threading.Thread(target=lambda: answers.append(follow(api, key="a", wait="50s"))) for _ in range(3)]
        waiters.append(threading.Thread(target=lambda: answers.append(api.claim(key="a", wait="50s"))))
        for waiter in waiters:
            waiter.start()
        wait_until(lambda: gateway.metrics()["once_claims_waiting"] == 4, what="all of them to wait")
        began = time.monotonic()
        self.append(api, claim, 0, "p")
        for waiter in waiters[:3]:
            waiter.join()
        self.assertLess(time.monotonic() - began, 25)
        self.assertEqual([answer["progress"] for answer in answers], [["p"]] * 3)
        self.assertEqual(gateway.metrics()["once_claims_waiting"], 1, "the claim waits for the end")
        api.owner("succeed", claim, value=1)
        waiters[3].join()
        self.assertEqual(answers[3]["value"], 1)

    def test_a_reader_that_waits_learns_how_the_work_ended(self):
        gateway, api = self.start()
        for verb, members, status in (("succeed", {"value": 1}, "succeeded"), ("fail", {}, "failed"), ("release", {}, "none")):
            with self.subTest(verb=verb):
                claim = api.acquire(key=verb)["claim"]
                self.append(api, claim, 0, "p")
                answers = []
                waiter = threading.Thread(target=lambda: answers.append(follow(api, key=verb, wait="50s", **{"from": 1})))
                waiter.start()
                wait_until(lambda: gateway.metrics()["once_claims_waiting"] == 1)
                api.owner(verb, claim, **members)
                waiter.join()
                self.assertEqual(answers[0]["status"], status)
                self.assertNotIn("progress", answers[0].json)

    def test_an_owner_that_lost_its_claim_appends_nothing_and_the_next_attempt_begins_with_none(self):
        clock = self.clock()
        api = self.api(clock=clock)
        terms = {"key": "a", "lease": "1m", "on_unknown": "retry"}
        dead = api.acquire(**terms)
        self.append(api, dead["claim"], 0, "of the first")
        self.append(api, dead["claim"], 1, "of the first")
        read = follow(api, key="a")
        clock.advance(61)
        lapsed = follow(api, key="a", wait="50s")
        self.assertEqual((lapsed["status"], lapsed["progress"]), ("unknown", ["of the first"] * 2))
        taken = api.acquire(**terms)
        for number in (0, 1, 2):
            lost = api.owner("progress", dead["claim"], number=number, data="late")
            self.assertEqual((lost.status, lost["code"]), (409, "claim-lost"))
        place = {"from": read["next"], "fence": read["fence"]}
        self.assertEqual(follow(api, key="a", **place)["progress"], [])
        self.append(api, taken["claim"], 0, "of the second")
        again = follow(api, key="a", **place)
        self.assertEqual((again["attempt"], again["from"], again["progress"]), (2, 0, ["of the second"]))
        self.assertEqual(again["fence"], taken["fence"])
        api.owner("fail", taken["claim"])
        lost = api.owner("progress", taken["claim"], number=1, data="late")
        self.assertEqual((lost.status, lost["code"]), (409, "claim-lost"))

    def test_progress_survives_a_restart_and_goes_on(self):
        if os.environ.get("ONCE_E2E_STORE") == "memory:":
            self.skipTest("memory forgets")
        for way in ("stop", "kill"):
            with self.subTest(way=way):
                gateway, api = self.start()
                claim = api.acquire(key=way, lease="60s")["claim"]
                self.append(api, claim, 0, "before")
                getattr(gateway, way)()
                gateway, api = self.start()
                self.assertEqual(follow(api, key=way)["progress"], ["before"])
                self.append(api, claim, 0, "before")
                self.append(api, claim, 1, "after")
                self.assertEqual(follow(api, key=way)["progress"], ["before", "after"])
                gateway.stop()

    def test_another_tenant_reads_and_appends_nothing(self):
        tokens = {"acme": "a" * 16, "umbrella": "u" * 40}
        _, nobody = self.start(tokens=tokens)
        acme, umbrella = (Api(nobody.address, token) for token in tokens.values())
        claim = acme.acquire(key="a")["claim"]
        self.append(acme, claim, 0, "secret")
        self.assertEqual(follow(umbrella, key="a").json, {"status": "none"})
        stolen = umbrella.owner("progress", claim, number=1, data="x")
        self.assertEqual((stolen.status, stolen["code"]), (409, "claim-lost"))
        self.assertEqual((follow(nobody, key="a").status, nobody.owner("progress", claim, number=1, data="x").status), (401, 401))
        self.assertEqual(follow(acme, key="a")["progress"], ["secret"])

    def test_limits_have_answers_and_metrics(self):
        gateway, api = self.start("claims.max_body=2KiB", "claims.max_waiting=0")
        claim = api.acquire(key="a")["claim"]
        self.append(api, claim, 0, "x" * 1500)
        full = api.owner("progress", claim, number=1, data="x" * 500)
        self.assertEqual((full.status, full["code"]), (413, "body-too-large"))
        self.assertIn("claims.max_body", full["detail"])
        self.append(api, claim, 0, "x" * 1500)
        self.append(api, claim, 1, "x")
        self.assertEqual(follow(api, key="a", wait="50s", **{"from": 2})["progress"], [])
        metrics = gateway.metrics()
        self.assertEqual((metrics["once_claims_progress_refused_total"], metrics["once_claims_waits_refused_total"]), (1, 1))
        self.assertEqual(metrics['once_claims_requests_total{verb="progress",result="done"}'], 3)
        self.assertEqual(metrics['once_claims_requests_total{verb="follow",result="in_progress"}'], 1)
        self.assertEqual(api.owner("succeed", claim, value=1).status, 200, "the work is not hindered")

    def test_much_progress_is_read_in_parts(self):
        api = self.api()
        claim = api.acquire(key="a")["claim"]
        pieces = [letter * 100_000 for letter in "abcde"]
        for number, piece in enumerate(pieces):
            self.append(api, claim, number, piece)
        read, answers = [], 0
        while len(read) < len(pieces):
            answer = follow(api, key="a", **{"from": len(read)})
            self.assertEqual(answer["next"], len(read) + len(answer["progress"]))
            self.assertLess(len(answer.body), 300_000)
            read += answer["progress"]
            answers += 1
        self.assertEqual((read, answers), (pieces, 3))

    def test_what_is_not_valid_is_said(self):
        api = self.api()
        claim = api.acquire(key="k")["claim"]
        for body, wanted in (("", '"number" is missing'), ({"number": 0}, '"data" is missing'), ({"number": -1, "data": 1}, "whole number"),
                             ({"number": "0", "data": 1}, "whole number"), ({"number": 1.5, "data": 1}, "whole number"),
                             ({"number": 1, "data": 1}, "Pieces before piece 1 are missing"), ({"number": 0, "data": 1, "x": 1}, "Unknown member")):
            with self.subTest(body=body):
                answer = api.ask("POST", f"/v1/claims/{claim}/progress", body)
                self.assertEqual((answer.status, answer["code"]), (400, "claim-invalid"))
                self.assertIn(wanted, answer["detail"])
        good = {"key": "k"}
        for members in ({}, {**good, "from": -1}, {**good, "from": "0"}, {**good, "fence": "x"}, {**good, "next": 1}):
            self.assertEqual(follow(api, **members).status, 400, members)
        for query in ("", "scope=test", "scope=test&key=k&from=x", "scope=test&key=k&fence=-1", "scope=test&key=k&x=1",
                      "scope=test&key=k&from=1&from=2"):
            self.assertEqual(api.ask("GET", f"/v1/claims/follow?{query}").status, 400, query)
        self.assertEqual(api.ask("GET", f"/v1/claims/{claim}/progress").status, 405)
        self.assertEqual(follow(api, key="k")["progress"], [])


if __name__ == "__main__":
    unittest.main()
