"""Progress: what an owner appends while it works, and what others read of it meanwhile."""
import os
import threading
import time
import unittest

from support import ClaimsTest
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

    def test_a_reader_that_waits_gets_a_piece_as_soon_as_it_is_there(self):
        gateway, api = self.start()
        claim = api.acquire(key="a")["claim"]
        answers = []
        waiters = [threading.Thread(target=lambda: answers.append(follow(api, key="a", wait="50s"))) for _ in range(3)]
        waiters += [threading.Thread(target=lambda ask=ask: answers.append(ask(key="a", wait="50s"))) for ask in (api.claim, api.lookup)]
        for waiter in waiters:
            waiter.start()
        wait_until(lambda: gateway.metrics()["once_claims_waiting"] == 5, what="all of them to wait")
        began = time.monotonic()
        self.append(api, claim, 0, "p")
        for waiter in waiters[:3]:
            waiter.join()
        self.assertLess(time.monotonic() - began, 25)
        self.assertEqual([answer["progress"] for answer in answers], [["p"]] * 3)
        self.assertEqual(gateway.metrics()["once_claims_waiting"], 2, "the others wait for the end")
        api.owner("succeed", claim, value=1)
        for waiter in waiters[3:]:
            waiter.join()
        self.assertEqual([answer["value"] for answer in answers[3:]], [1, 1])
        self.assertLess(time.monotonic() - began, 25)

    def test_a_claim_and_its_progress_survive_a_restart_and_go_on(self):
        if os.environ.get("ONCE_E2E_STORE") == "memory:":
            self.skipTest("memory forgets")
        for way in ("stop", "kill"):
            with self.subTest(way=way):
                gateway, api = self.start()
                claim = api.acquire(key=way, lease="60s")["claim"]
                self.append(api, claim, 0, "before")
                getattr(gateway, way)()
                gateway, api = self.start()
                self.assertEqual(api.claim(key=way)["owner"], "at_work")
                self.assertEqual(follow(api, key=way)["progress"], ["before"])
                self.append(api, claim, 0, "before")
                self.append(api, claim, 1, "after")
                self.assertEqual(follow(api, key=way)["progress"], ["before", "after"])
                self.assertEqual(api.owner("succeed", claim, value="done").status, 200)
                gateway.kill()
                gateway, api = self.start()
                self.assertEqual(api.claim(key=way)["value"], "done")
                gateway.stop()

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
        answer = api.ask("POST", f"/v1/claims/{claim}/progress", {"number": 1, "data": 1})
        self.assertEqual((answer.status, answer["code"]), (400, "claim-invalid"))
        self.assertIn("Pieces before piece 1 are missing", answer["detail"])
        self.assertEqual(follow(api, key="k", next=1).status, 400)
        self.assertEqual(api.ask("GET", "/v1/claims/follow?scope=test&key=k&from=x").status, 400)
        self.assertEqual(api.ask("GET", f"/v1/claims/{claim}/progress").status, 405)
        self.assertEqual(follow(api, key="k")["progress"], [])


if __name__ == "__main__":
    unittest.main()
