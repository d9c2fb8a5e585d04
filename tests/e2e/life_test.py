"""Keys that die with the resource that their path names: scope: [path, life]."""
import json
import os
import unittest

from harness import EndToEnd

LIVES = "defaults.scope=path,life"


class Things:
    """A backend that makes, appends to and deletes what a path names. `refusal` is what it says instead of deleting."""

    def __init__(self):
        self.things = {}
        self.refusal = None
        self.on_delete = lambda to: None

    def handle(self, request, to):
        path = request.target.split("?")[0]
        if request.method == "PUT":
            self.things[path] = []
            return to.reply(201)
        if request.method == "DELETE":
            if self.refusal:
                return to.reply(self.refusal)
            found = self.things.pop(path, None)
            self.on_delete(to)
            return to.reply(404 if found is None else 204) if to.open else None
        if path not in self.things:
            return to.reply(404)
        self.things[path].append(request.body)
        return to.reply(201, body=f"{len(self.things[path])} here".encode())


class Lives(EndToEnd):
    def setUp(self):
        super().setUp()
        self.things = Things()
        self.store = self.backend(self.things.handle)

    def start(self, *settings, **named):
        gateway = self.gateway(self.store, LIVES, *settings, **named)
        self.assertEqual(gateway.ask("PUT", "/a").status, 201)
        self.assertEqual(self.append(gateway), "executed")
        return gateway

    def append(self, gateway, target="/a", key="k"):
        answer = gateway.ask(target=target, key=key, body=b"x")
        return answer.get("Idempotency-Status") or answer.status

    def renew(self, gateway, target="/a", **named):
        self.assertEqual(gateway.ask("DELETE", target, **named).status, 204)
        self.assertEqual(gateway.ask("PUT", "/a").status, 201)

    def test_a_thing_made_anew_has_keys_of_its_own_each_time(self):
        gateway = self.start()
        self.assertEqual(self.append(gateway), "replayed")
        for _ in range(3):
            self.renew(gateway)
            self.assertEqual([self.append(gateway), self.append(gateway)], ["executed", "replayed"])
            self.assertEqual(self.things.things["/a"], [b"x"])

    def test_the_first_append_after_the_end_belongs_to_the_new_life_however_soon_it_comes(self):
        gateway = self.start()
        with gateway.connect() as client:
            for number in range(40):
                statuses = [client.ask(*request, key=key, body=b"x").status
                            for request, key in ((("DELETE", "/a"), None), (("PUT", "/a"), None), (("POST", "/a"), "k"))]
                self.assertEqual(statuses, [204, 201, 201], number)
                self.assertEqual(client.ask("POST", "/a", key="k", body=b"x").get("Idempotency-Status"), "replayed")
                self.assertEqual(self.things.things["/a"], [b"x"], number)

    def test_operators_see_what_ended_and_find_the_key_of_this_life(self):
        gateway = self.start()
        self.renew(gateway)
        self.append(gateway)
        ended = json.loads(gateway.admin("/v1/keys?route=(life)").body)["keys"]  # on a server also of other tests
        self.assertEqual({key["state"] for key in ended}, {"failed"})
        asked = [("Once-Admin", "1"), ("Content-Type", "application/json")]
        find = b'{"key": "k", "method": "POST", "host": "api.test", "path": "/a"}'
        found = json.loads(gateway.admin("/v1/keys/find", "POST", asked, find).body)
        self.assertEqual((found["state"], found["attempt"]), ("succeeded", 1))
        self.assertGreater(found["started_at"], max(key["started_at"] for key in ended))

    @unittest.skipIf(os.environ.get("ONCE_E2E_STORE"), "the journal is meant")
    def test_a_restart_remembers_the_end(self):
        data = self.folder()
        settings = (f"store=journal:{data}/journal",)
        environment = {**os.environ, "ONCE_SECRET": "s" * 16}
        gateway = self.start(*settings, env=environment)
        self.assertEqual(gateway.ask("DELETE", "/a").status, 204)
        gateway.kill()
        self.things.things["/a"] = []
        gateway = self.gateway(self.store, LIVES, *settings, env=environment)
        self.assertEqual([self.append(gateway), self.append(gateway)], ["executed", "replayed"])


if __name__ == "__main__":
    unittest.main()
