"""Many keys at once: after a crash nobody settles hundreds of them one by one. Over the API and with `once keys`."""
import json
import threading
import unittest


from keys_test import SECRET_KEY, STORE, Keys
from wire import wait_until


class Many(Keys):
    COUNT = 12

    def crashed(self):
        """Keys whose outcome is unknown, and one that succeeded."""
        gateway, backend = self.stuck(keys=(SECRET_KEY, *(f"key-{i}" for i in range(self.COUNT - 1))))
        self.assertEqual(self.pay(gateway, key="fine").status, 201)
        caller = self.find(gateway)["caller"]  # a store that is shared holds keys of other tests, too
        return gateway, backend, caller

    def keys_of(self, gateway, caller, state="unsettled"):
        keys, cursor = [], ""
        while cursor is not None:
            page = self.get(gateway, f"/v1/keys?limit=5&state={state}&caller={caller}" + (f"&cursor={cursor}" if cursor else ""))
            keys += page["keys"]
            cursor = page["next"]
        return {key["id"]: key for key in keys}

    def bulk(self, gateway, action, keys, **more):
        return self.admin(gateway, "POST", f"/v1/keys/{action}", {
            "keys": [{"id": key["id"], "version": key["version"]} for key in keys], "by": "ops", "reason": "a crash", **more})

    def test_many_are_released_at_once_and_what_changed_meanwhile_is_left_alone(self):
        gateway, backend, caller = self.crashed()
        before = len(backend.requests)
        keys = self.keys_of(gateway, caller)
        self.assertEqual((len(keys), {key["state"] for key in keys.values()}), (self.COUNT, {"unknown"}))
        changed = self.find(gateway)
        self.assertEqual(self.act(gateway, "resolve", changed, state="succeeded", response={"status": 299})[0], 200)
        gone = self.find(gateway, "key-0")
        self.assertEqual(self.act(gateway, "forget", gone)[0], 200)
        already = len(self.audited())
        status, answer = self.bulk(gateway, "release", keys.values())
        self.assertEqual(status, 200, answer)
        self.assertEqual({name: answer[name] for name in ("done", "changed", "refused", "failed", "unknown", "left")},
                         {"done": self.COUNT - 2, "changed": 2, "refused": 0, "failed": 0, "unknown": 0, "left": 0})
        results = {key["id"]: key["result"] for key in answer["keys"]}
        self.assertEqual({results[changed["id"]], results[gone["id"]]}, {"changed"})
        status, answer = self.bulk(gateway, "forget", [changed])
        self.assertEqual((status, answer["done"], answer["changed"]), (200, 0, 1), "anything can be forgotten, but not unseen")
        self.assertEqual(self.pay(gateway).status, 299)
        for i in range(1, self.COUNT - 1):
            self.assertEqual(self.pay(gateway, key=f"key-{i}").get("Idempotency-Status"), "executed")
        self.assertEqual(len(backend.requests), before + self.COUNT - 2)
        lines = self.audited()[already:]
        self.assertEqual([lines.count(("release", result, "unknown", "none")) for result in ("begun", "done")], [self.COUNT - 2] * 2)
        self.assertEqual(lines.count(("release", "refused", "succeeded", "succeeded")), 1)
        self.assertEqual(lines.count(("release", "refused", "none", "none")), 1)
        logged = [line for line in gateway.log_lines() if line["message"] == "audit" and line["reason"] == "a crash"]
        self.assertEqual(len({line["operation"] for line in logged}), self.COUNT, "a line for each key")
        self.check_nothing_secret_in(gateway)

    @unittest.skipIf("://" in STORE or STORE == "memory:", "the owner is the process where the journal is")
    def test_what_a_crash_left_started_is_settled_with_what_is_unknown(self):
        data = self.folder()
        backend = self.backend(lambda _, to: to.close())
        options = ("defaults.on_unknown=hold", f"data_dir={data}")
        gateway = self.gateway(backend, *options)
        self.assertEqual(self.pay(gateway).status, 502)
        go = self.gate()
        hanging = self.backend(lambda _, to: go.wait() and to.close())
        gateway.kill()
        gateway = self.gateway(hanging, *options)

        def slow():
            with self.assertRaises(OSError):
                self.pay(gateway, "slow")

        thread = threading.Thread(target=slow)
        thread.start()
        wait_until(lambda: hanging.requests, what="the request to be at the backend")
        gateway.kill()
        go.set()
        thread.join()
        gateway = self.gateway(backend, *options)
        caller = self.find(gateway)["caller"]
        self.assertEqual([key["state"] for key in self.keys_of(gateway, caller).values()], ["started", "unknown"])
        self.assertEqual(len(self.keys_of(gateway, caller, "lapsed")), 1)
        out = self.cli(gateway, "resolve", "--failed", "--caller", caller, "--yes")
        self.assertEqual((out.returncode, "2 keys: 1 lapsed, 1 unknown" in out.stdout, "resolved 2 keys" in out.stdout),
                         (0, True, True), out.stdout + out.stderr)
        self.assertEqual({key["state"] for key in self.keys_of(gateway, caller, "failed").values()}, {"failed"})

    def test_mistakes_are_told_and_nothing_is_done_without_an_audit(self):
        gateway, _, caller = self.crashed()
        keys = list(self.keys_of(gateway, caller).values())
        for body in ({}, {"keys": []}, {"keys": [{"id": keys[0]["id"]}]}, {"keys": keys * 20}, {"keys": [keys[0], keys[0]]}):
            status, problem = self.admin(gateway, "POST", "/v1/keys/release", body)
            self.assertEqual((status, problem["code"]), (400, "parameter-invalid"), body)
        self.assertEqual(self.bulk(gateway, "resolve", keys)[0], 400, "how did they end?")
        self.assertEqual(self.admin(gateway, "GET", "/v1/keys/release")[0], 400)
        self.assertEqual(self.admin(gateway, "POST", "/v1/keys/burn", {})[0], 404)
        self.assertIn(self.admin(gateway, "POST", "/v1/keys/release", {"keys": keys}, fields=())[0], (400, 403))
        self.audit.unlink(missing_ok=True)
        self.audit.mkdir()  # nobody writes to a folder
        status, problem = self.bulk(gateway, "release", keys)
        self.assertEqual((status, "Nothing was changed" in problem["detail"]), (503, True), problem)
        self.assertEqual(len(self.keys_of(gateway, caller)), self.COUNT)

    def test_the_command_line_shows_first_and_changes_only_what_it_showed(self):
        gateway, backend, caller = self.crashed()
        before = len(backend.requests)
        chosen = ("--state", "unknown", "--route", "/**", "--caller", caller)
        for more in ((), ("--dry-run",)):
            out = self.cli(gateway, "release", *chosen, *more)
            self.assertEqual((out.returncode, "--yes" in out.stderr), (0, False) if more else (2, True), out.stderr)
            self.assertIn(f"{self.COUNT} keys: {self.COUNT} unknown\n", out.stdout)
            self.assertIn(self.find(gateway)["id"][:16], out.stdout)
        listed = json.loads(self.cli(gateway, "release", *chosen, "--dry-run", "--json").stdout)["keys"]
        self.assertEqual({key["id"] for key in listed}, set(self.keys_of(gateway, caller)))
        self.assertEqual(len(self.keys_of(gateway, caller)), self.COUNT, "nothing was changed")
        started = sorted(key["started_at"] for key in listed)
        for times, count in ((("--before", started[0]), 1), (("--after", started[-1]), 1), (("--before", "2001-01-01T00:00Z"), 0)):
            fitting = json.loads(self.cli(gateway, "list", *chosen, *times, "--json").stdout)["keys"]
            self.assertGreaterEqual(len(fitting), count)
            self.assertLess(len(fitting), self.COUNT if started[0] < started[-1] else self.COUNT + 1)
        out = self.cli(gateway, "resolve", "--succeeded", *chosen, "--yes", "--by", "carol", "--reason", "the bank has them")
        self.assertEqual((out.returncode, f"resolved {self.COUNT} keys; changed meanwhile and skipped: 0" in out.stdout),
                         (0, True), out.stdout + out.stderr)
        self.assertEqual(self.pay(gateway).code, "response-not-kept")
        self.assertEqual(len(backend.requests), before)
        out = self.cli(gateway, "release", *chosen, "--yes")
        self.assertEqual((out.returncode, out.stdout), (0, "no keys\n"))
        out = self.cli(gateway, "forget", "--state", "succeeded", "--caller", caller, "--yes", "--json")
        answer = json.loads(out.stdout)
        self.assertEqual((out.returncode, answer["done"], len(answer["keys"])), (0, self.COUNT + 1, self.COUNT + 1), out.stderr)
        last = json.loads(self.audit.read_text().splitlines()[0])
        self.assertEqual((last["by"], last["reason"]), ("carol", "the bank has them"))
        self.check_nothing_secret_in(gateway)


if __name__ == "__main__":
    unittest.main()
