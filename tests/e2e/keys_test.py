"""What operators do to keys: find one that is stuck, look at it, and settle it; over the API and with `once keys`."""
import base64
import json
import os
import pwd
import subprocess
import threading
import unittest

from harness import EndToEnd, run_once
from wire import DEADLINE, Client, wait_until

SECRET_KEY = "a-raw-key-that-no-log-may-hold"
BODY = b'{"amount":4711,"note":"a body that no log may hold"}'
STORE = os.environ.get("ONCE_E2E_STORE") or ""
# Redis may show a key again while its table grows.
SHOWS_ONCE = not STORE.startswith("redis")


def breaks_off(_, to):
    """A backend of which nobody knows whether it did the work."""
    to.close()


class Keys(EndToEnd):
    def admin(self, gateway, method, path, body=None, fields=(("Once-Admin", "1"),)):
        fields = (("Host", "localhost"), *fields)
        with Client(gateway.admin_port) as client:
            data = None if body is None else json.dumps(body).encode()
            response = client.ask(method, path, fields=fields, body=data)
        return response.status, json.loads(response.body)

    def get(self, gateway, path):
        status, body = self.admin(gateway, "GET", path)
        self.assertEqual(status, 200, body)
        return body

    def find(self, gateway, key=SECRET_KEY, token="alice"):
        status, body = self.admin(gateway, "POST", "/v1/keys/find", {
            "key": key, "method": "POST", "host": "api.test", "path": "/payments", "headers": [["Authorization", f"Bearer {token}"]]})
        self.assertEqual(status, 200, body)
        return body

    def act(self, gateway, action, key, **more):
        return self.admin(gateway, "POST", f"/v1/keys/{key['id']}/{action}",
                          {"version": key["version"], "by": "ops", "reason": "a test", **more})

    def cli(self, gateway, *arguments, **named):
        return run_once("keys", arguments[0], "--admin", f"127.0.0.1:{gateway.admin_port}", *arguments[1:], **named)

    def pay(self, gateway, key=SECRET_KEY, token="alice", body=BODY):
        return gateway.ask("POST", "/payments", fields=[("Authorization", f"Bearer {token}")], key=key, body=body)

    def stuck(self, *settings, keys=(SECRET_KEY,)):
        """A gateway with a key, or several, whose outcome is unknown and held; the backend works from then on."""
        state = {"broken": True}
        backend = self.backend(lambda request, to: breaks_off(request, to) if state["broken"]
                               else to.reply(201, body=b"made by the backend"))
        self.audit = self.folder() / "audit.log"
        gateway = self.gateway(backend, "defaults.on_unknown=hold", f"audit_log={self.audit}", *settings)
        for key in keys:
            self.assertEqual(self.pay(gateway, key=key).status, 502)
        state["broken"] = False
        self.assertEqual(self.pay(gateway).code, "outcome-unknown")
        return gateway, backend

    def audited(self):
        lines = [json.loads(line) for line in self.audit.read_text().splitlines()]
        return [(line["action"], line["result"], line["from"], line["to"]) for line in lines]

    def check_nothing_secret_in_logs(self, gateway):
        for text in (gateway.stderr, gateway.stdout):
            self.assertNotIn(SECRET_KEY, text)
            self.assertNotIn("alice", text)

    def check_nothing_secret_in(self, gateway):
        texts = [gateway.stderr, gateway.stdout, self.audit.read_text()]
        for text in texts:
            self.assertNotIn(SECRET_KEY, text)
            self.assertNotIn("no log may hold", text)
            self.assertNotIn("alice", text)


class Settling(Keys):
    def test_a_key_and_the_log_name_the_request_of_the_latest_attempt(self):
        gateway, backend = self.stuck()
        found = self.find(gateway)
        sent = backend.requests[0].get("X-Request-Id")
        self.assertEqual((found["route"], found["method"], found["path"], found["request_id"]), ("/**", "POST", "/payments", sent))
        line, = [line for line in gateway.log_lines() if line["message"] == "outcome unknown"]
        self.assertEqual((line["level"], line["request"], line["operation"], line["method"], line["route"]),
                         ("warn", sent, found["id"][:16], "POST", "/**"))
        shown = self.cli(gateway, "show", found["id"]).stdout
        self.assertRegex(shown, rf"caller +[0-9a-f]{{16}}\nroute +/\*\*\nmethod +POST\npath +/payments\nrequest_id +{sent}\n")
        listed = self.cli(gateway, "list", "--caller", found["caller"]).stdout  # beside those of other gateways on the server
        self.assertRegex(listed, rf"CALLER +ROUTE +REQUEST .* REQUEST ID\n(.*\n)*.* POST /payments .* {sent}\n")
        self.assertIn(f'"request_id":"{sent}"', self.cli(gateway, "export").stdout)
        self.assertEqual(self.act(gateway, "release", found)[0], 200)
        fields = [("Authorization", "Bearer alice"), ("X-Request-Id", "the-retry")]
        self.assertEqual(gateway.ask("POST", "/payments?card=4242", fields=fields, key=SECRET_KEY, body=BODY).status, 201)
        again = self.find(gateway)
        self.assertEqual((again["path"], again["request_id"]), ("/payments", "the-retry"), "without the query")
        self.assertEqual(gateway.ask("POST", "/payments?card=4242", fields=fields[:1], key=SECRET_KEY, body=BODY).status, 201)
        self.assertEqual(self.find(gateway), again, "a replay is no attempt")

    def test_a_stuck_key_is_found_and_resolved_and_the_retry_gets_that_response(self):
        gateway, backend = self.stuck()
        found = self.find(gateway)
        self.assertEqual((found["state"], found["live"], found["route"], found["attempt"]), ("unknown", False, "/**", 1))
        listed = self.get(gateway, f"/v1/keys?state=unknown&caller={found['caller']}")["keys"]
        self.assertEqual(listed, [found])
        self.assertEqual(self.get(gateway, f"/v1/keys/{found['id'][:16]}"), found)
        binary = bytes(range(256))
        status, done = self.act(gateway, "resolve", found, state="succeeded", response={
            "status": 202, "headers": [["Content-Type", "application/x-thing"], ["X-Made-By", "an operator"]],
            "body_base64": base64.b64encode(binary).decode()})
        self.assertEqual((status, done.get("done"), done.get("state")), (200, "resolved", "succeeded"), done)
        retry = self.pay(gateway)
        self.assertEqual(retry.reason, "Accepted")
        self.assertEqual((retry.status, retry.body, retry.get("X-Made-By"), retry.get("Content-Type")),
                         (202, binary, "an operator", "application/x-thing"))
        self.assertEqual(retry.get("Idempotency-Status"), "replayed")
        self.assertEqual(len(backend.requests), 1)
        shown = self.get(gateway, f"/v1/keys/{found['id']}?body=1")
        self.assertEqual(base64.b64decode(shown["outcome"]["body_base64"]), binary)
        self.assertEqual(self.audited(), [("resolve", "begun", "unknown", "succeeded"),
                                          ("resolve", "done", "unknown", "succeeded")])
        lines = [line for line in gateway.log_lines() if line["message"] == "audit"]
        self.assertEqual([(line["action"], line["result"], line["by"], line["peer"]) for line in lines],
                         [("resolve", "done", "ops", "127.0.0.1")])
        self.check_nothing_secret_in(gateway)

    def test_a_key_whose_owner_is_at_work_is_refused(self):
        go = self.gate()
        backend = self.backend(lambda _, to: go.wait() and to.reply(201, body=b"done"))
        self.audit = self.folder() / "audit.log"
        gateway = self.gateway(backend, f"audit_log={self.audit}")
        answers = []
        thread = threading.Thread(target=lambda: answers.append(self.pay(gateway)))
        thread.start()
        wait_until(lambda: backend.requests, what="the request to be at the backend")
        found = self.find(gateway)
        self.assertEqual((found["state"], found["live"]), ("started", True))
        for action, more in (("resolve", {"state": "succeeded"}), ("release", {}), ("forget", {})):
            status, problem = self.act(gateway, action, found, **more)
            self.assertEqual((status, problem["code"]), (409, "in-flight"), action)
        go.set()
        thread.join()
        self.assertEqual(answers[0].status, 201)

    def test_an_action_that_cannot_be_audited_is_not_done(self):
        gateway, _ = self.stuck()
        self.audit.mkdir()  # nobody writes to a folder
        found = self.find(gateway)
        status, problem = self.act(gateway, "release", found)
        self.assertEqual(status, 503, problem)
        self.assertEqual(self.find(gateway), found)
        self.audit.rmdir()
        self.assertEqual(self.act(gateway, "release", found)[0], 200)

    def test_of_operators_who_resolve_at_once_one_wins_and_the_others_are_told(self):
        gateway, _ = self.stuck()
        found = self.find(gateway)
        together = threading.Barrier(4)
        answers = {}

        def resolve(name):
            together.wait()
            answers[name] = self.act(gateway, "resolve", found, state="succeeded", response={"status": 200, "body": name})

        threads = [threading.Thread(target=resolve, args=(f"operator {i}",)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        winners = [name for name, (status, _) in answers.items() if status == 200]
        self.assertEqual(len(winners), 1, answers)
        self.assertEqual({problem["code"] for status, problem in answers.values() if status != 200}, {"claim-lost"})
        self.assertEqual(self.pay(gateway).body, winners[0].encode())

    def test_a_raw_key_in_a_url_reaches_no_log(self):
        gateway, _ = self.stuck()
        for action in ("release", "forget"):
            self.assertEqual(self.admin(gateway, "POST", f"/v1/keys/{SECRET_KEY}/{action}", {"version": "v"})[0], 400)
        lines = [json.loads(line) for line in self.audit.read_text().splitlines()]
        self.assertEqual([(line["result"], line["operation"]) for line in lines], [("refused", "")] * 2)
        self.assertNotIn(SECRET_KEY[:16], gateway.stderr + self.audit.read_text())
        self.assertEqual(self.admin(gateway, "POST", f"/v1/keys/{'0A' * 32}/release", {"version": "v"})[0], 404)
        self.assertEqual(json.loads(self.audit.read_text().splitlines()[-1])["operation"], "0a" * 8)

    @unittest.skipIf("://" in STORE or STORE == "memory:", "the journal is meant")
    def test_a_restart_remembers_what_operators_did(self):
        data = self.folder()
        gateway, backend = self.stuck(f"data_dir={data}")
        self.pay(gateway, key="to-be-resolved")
        found = self.find(gateway)
        self.assertEqual(self.act(gateway, "resolve", found, state="succeeded", response={"status": 299})[0], 200)
        other = self.find(gateway, "to-be-resolved")
        self.assertEqual(self.act(gateway, "forget", other)[0], 200)
        gateway.kill()
        gateway = self.gateway(backend, "defaults.on_unknown=hold", f"data_dir={data}")
        self.assertEqual(self.pay(gateway).status, 299)
        again = self.find(gateway)
        self.assertEqual((again["caller"], again["route"]), (found["caller"], "/**"), "labels are in the journal")
        self.assertEqual(self.pay(gateway, key="to-be-resolved").get("Idempotency-Status"), "executed")


class Listing(Keys):
    COUNT = 600 if "://" in STORE else 2500

    def test_every_key_is_listed_once_while_traffic_goes_on(self):
        self.audit = self.folder() / "audit.log"
        # Thousands of keys, one by one: what a disk takes for each is not the point.
        gateway = self.gateway(self.backend(), "journal.sync=never", "keys.count_every=1s")
        with gateway.connect() as client:
            for i in range(self.COUNT):
                client.ask("POST", "/payments", fields=[("Authorization", "Bearer alice")], key=f"key-{i}", body=b"{}")
        caller = self.find(gateway, "key-0")["caller"]
        self.assertEqual(len({self.find(gateway, f"key-{i}")["caller"] for i in (1, 99, self.COUNT - 1)} | {caller}), 1)
        over = threading.Event()

        def traffic():
            i = 0
            with gateway.connect() as client:
                while not over.is_set():
                    client.ask("POST", "/payments", fields=[("Authorization", "Bearer bob")], key=f"more-{i}", body=b"{}")
                    i += 1

        thread = threading.Thread(target=traffic)
        thread.start()
        seen = []
        cursor = ""
        try:
            while cursor is not None:
                query = f"/v1/keys?limit=300&caller={caller}" + (f"&cursor={cursor}" if cursor else "")
                page = self.get(gateway, query)
                self.assertLessEqual(len(page["keys"]), 300)
                seen += [key["id"] for key in page["keys"]]
                cursor = page["next"]
        finally:
            over.set()
            thread.join()
        self.assertEqual(len(set(seen)), self.COUNT)
        if SHOWS_ONCE:
            self.assertEqual(len(seen), self.COUNT)
        name = 'once_keys{state="succeeded"}'
        wait_until(lambda: gateway.metrics().get(name, 0) >= self.COUNT, what="the keys to be counted")
        out = self.cli(gateway, "list", "--all", "--json", "--caller", caller)
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertEqual({key["id"] for key in json.loads(out.stdout)["keys"]}, set(seen))
        out = self.cli(gateway, "export", "--caller", caller)
        self.assertEqual(len({json.loads(line)["id"] for line in out.stdout.splitlines()}), self.COUNT)

    @unittest.skipUnless(STORE.startswith(("postgres", "mysql", "redis")), "connections are those to a server")
    def test_a_list_has_a_connection_of_its_own(self):
        gateway = self.gateway(self.backend(), "server.connections=1", "keys.count_every=0s")
        self.assertEqual(self.pay(gateway).status, 201)
        before = gateway.metrics()["once_store_connections"]
        self.get(gateway, "/v1/keys")
        after = gateway.metrics()["once_store_connections"]
        self.assertGreater(after, before)
        self.assertLessEqual(after, before + (before if "cluster" in STORE else 1))  # of a cluster, one to each server
        self.get(gateway, "/v1/keys")
        self.assertEqual(gateway.metrics()["once_store_connections"], after)
        self.assertNotIn('once_keys{state="succeeded"}', gateway.metrics())


class CommandLine(Keys):
    def test_a_stuck_key_is_settled_from_the_command_line(self):
        gateway, backend = self.stuck()
        out = self.cli(gateway, "list", "--state", "unknown", "--newer-than", "1h", "--limit", "1000", "--json")
        self.assertEqual(out.returncode, 0, out.stderr)
        ids = [key["id"] for key in json.loads(out.stdout)["keys"]]
        found = subprocess.run(
            [os.environ["ONCE_BINARY"], "keys", "find", "--admin", f"127.0.0.1:{gateway.admin_port}", "--path", "/payments",
             "--host", "api.test",
             "--header", "Authorization: Bearer alice", "--json"],
            input=SECRET_KEY + "\n", capture_output=True, text=True, timeout=DEADLINE)
        self.assertEqual(found.returncode, 0, found.stderr)
        key = json.loads(found.stdout)
        self.assertIn(key["id"], ids)
        short = key["id"][:16]
        out = self.cli(gateway, "show", short)
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertIn("unknown", out.stdout)
        for command in ("release", "forget"):
            out = self.cli(gateway, command, short)
            self.assertEqual((out.returncode, "--yes" in out.stderr), (2, True), "nobody is there to be asked")
        self.assertEqual(self.cli(gateway, "resolve", short, "--yes").returncode, 2)
        body = self.folder() / "body"
        body.write_bytes(b'{"settled":true}')
        out = self.cli(gateway, "resolve", short, "--succeeded", "--status", "201", "--header", "X-By: hand",
                       "--body-file", str(body), "--reason", "the bank has it", "--by", "carol", "--yes")
        self.assertEqual((out.returncode, out.stdout), (0, f"resolved {short}\n"), out.stderr)
        retry = self.pay(gateway)
        self.assertEqual((retry.status, retry.body, retry.get("X-By")), (201, b'{"settled":true}', "hand"))
        self.assertEqual((retry.reason, retry.get("Content-Type")), ("Created", "application/json"))
        out = self.cli(gateway, "show", key["id"], "--body")
        self.assertIn('{"settled":true}', out.stdout)
        self.assertEqual(self.cli(gateway, "release", short, "--yes").returncode, 3)
        self.assertEqual(self.cli(gateway, "forget", short, "--yes").returncode, 0)
        self.assertEqual(self.cli(gateway, "show", short).returncode, 1)
        self.assertEqual(self.pay(gateway).get("Idempotency-Status"), "executed")
        self.assertEqual(len(backend.requests), 2)
        last = json.loads(self.audit.read_text().splitlines()[1])
        self.assertEqual((last["by"], last["reason"], last["operation"]), ("carol", "the bank has it", short))
        self.check_nothing_secret_in(gateway)

    def test_what_a_backend_said_does_not_steer_the_terminal(self):
        said = "\x1b[2Jpaid\n\tby \x7f\x9b2Jé"
        gateway = self.gateway(self.backend(lambda _, to: to.reply(201, body=said.encode())))
        self.pay(gateway)
        key = self.find(gateway)["id"]
        self.assertIn("\n?[2Jpaid\n\tby ???2Jé\n", self.cli(gateway, "show", key, "--body").stdout)
        self.assertEqual(json.loads(self.cli(gateway, "show", key, "--body", "--json").stdout)["outcome"]["body"], said)

    def test_the_audit_has_the_name_of_the_user(self):
        gateway, _ = self.stuck()
        nameless = {name: value for name, value in os.environ.items() if name not in ("SUDO_USER", "USER", "LOGNAME")}
        out = self.cli(gateway, "forget", self.find(gateway)["id"], "--yes", env=nameless)
        self.assertEqual(out.returncode, 0, out.stderr)
        last = json.loads(self.audit.read_text().splitlines()[-1])
        self.assertEqual(last["by"], pwd.getpwuid(os.getuid()).pw_name)

    def test_find_says_what_is_missing_and_takes_secrets_from_a_file(self):
        gateway, _ = self.stuck()
        key, headers = self.folder() / "key", self.folder() / "headers"
        key.write_text(SECRET_KEY + "\n")
        headers.write_text("\nAuthorization: Bearer alice\n")
        found = self.find(gateway)["id"]
        from_file = ("--key-file", str(key), "--header-file", str(headers), "--json")
        for options in (("--path", "http://api.test/payments"), ("--path", "/payments", "--host", "api.test", "--method", "post"),
                        ("--path", "http://api.test/payments", "--host", "API.test:80")):
            out = self.cli(gateway, "find", *options, *from_file)
            self.assertEqual((out.returncode, json.loads(out.stdout or "{}").get("id")), (0, found), out.stderr)
        for options, code, words in ((("--path", "/payments"), 2, "--host HOST, or --path https://HOST/PATH"),
                                     (("--path", "http://api.test/payments", "--host", "other.test"), 2, "api.test, but \"host\" is other.test"),
                                     (("--path", "http://other.test/payments"), 1, "Host, path and caller are part of a key"),
                                     (("--path", "http://api.test/payments", "--method", "get"), 2, "No route protects"),
                                     (("--path", "http://api.test/payments", "--header", "nonsense"), 2, "expected 'Name: value'")):
            out = self.cli(gateway, "find", *options, *from_file)
            self.assertEqual((out.returncode, words in out.stderr), (code, True), (options, out.stderr))
        for options in (("--header-file", "-"), ("--header-file", "-", "--key-file", "-"), ("--header-file", "/nowhere/at/all", "--key", "k")):
            out = self.cli(gateway, "find", "--path", "http://api.test/payments", *options)
            self.assertEqual((out.returncode, "--header-file" in out.stderr), (2, True), out.stderr)
        self.assertIn("/nowhere/at/all cannot be read: No such file or directory", out.stderr)
        self.check_nothing_secret_in_logs(gateway)

    def test_wrong_options_are_named(self):
        wrong = {"--state": "bogus", "--older-than": "xx", "--newer-than": "soon", "--limit": "0"}
        for option, value in wrong.items():
            out = run_once("keys", "list", option, value)
            self.assertEqual((out.returncode, f"{option}: expected " in out.stderr), (2, True), out.stderr)
        text = run_once("keys", "list", "--help").stdout
        self.assertNotIn("UINT", text)
        self.assertIn("{started,succeeded,failed,unknown,tombstone,lapsed,unsettled}", text)

    def test_a_list_that_is_cut_says_so_and_how_to_go_on(self):
        gateway = self.gateway(self.backend())
        for i in range(5):
            self.pay(gateway, key=f"key-{i}")
        out = self.cli(gateway, "list", "--limit", "2")
        self.assertEqual((out.returncode, len(out.stdout.splitlines())), (0, 3), out.stderr)
        self.assertIn("there are more", out.stderr)
        seen, cursor = [], ()
        while cursor is not None:
            out = self.cli(gateway, "list", "--limit", "2", "--json", *cursor)
            page = json.loads(out.stdout)
            seen += [key["id"] for key in page["keys"]]
            self.assertEqual("there are more" in out.stderr, page["next"] is not None)
            cursor = ("--cursor", page["next"]) if page["next"] else None
        self.assertEqual((len(seen), len(set(seen))), (5, 5))
        whole = self.cli(gateway, "list")
        self.assertEqual((len(whole.stdout.splitlines()), whole.stderr), (6, ""))

    def test_nobody_answers(self):
        out = run_once("keys", "list", "--admin", "127.0.0.1:1")
        self.assertEqual((out.returncode, "no answer from" in out.stderr), (1, True))
        self.assertEqual(run_once("keys", "show", "xyz").returncode, 2)
        self.assertEqual(run_once("keys").returncode, 2)


if __name__ == "__main__":
    unittest.main()
