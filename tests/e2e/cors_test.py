"""What scripts of other origins are told: preflights, and every kind of answer."""
import unittest

from harness import EndToEnd, run_once
from wire import created, wait_until

APP, OTHER, EVIL = "https://app.example", "https://other.example", "https://evil.example"
ORIGINS = f"defaults.cors.origins=[{APP},{OTHER}]"
OURS = {"idempotency-status", "idempotency-replayed", "original-request-id", "idempotency-expires", "x-request-id",
        "retry-after", "etag", "idempotency-attempt", "idempotency-offset", "idempotency-stopped"}


def of(origin):
    return [("Origin", origin)]


def exposed(answer):
    return {name.strip().lower() for value in answer.all("Access-Control-Expose-Headers") for name in value.split(",")}


class Answers(EndToEnd):
    def check(self, answer, origin=APP):
        self.assertEqual(answer.all("Access-Control-Allow-Origin"), [origin])
        self.assertLessEqual(OURS, exposed(answer))
        self.assertIn("Origin", answer.all("Vary"))

    def test_every_kind_of_answer_says_who_may_read_it(self):
        gateway = self.gateway(self.backend(), ORIGINS, "defaults.key.required=yes")
        self.check(gateway.ask("GET", fields=of(APP)))
        first = gateway.ask(key="k", body=b"{}", fields=of(APP))
        self.check(first)
        again = gateway.ask(key="k", body=b"{}", fields=of(OTHER))
        self.assertEqual(again.get("Idempotency-Status"), "replayed")
        self.check(again, OTHER)
        for answer in (gateway.ask(key="k", body=b"another", fields=of(APP)), gateway.ask(body=b"{}", fields=of(APP)),
                       gateway.ask(key="", body=b"{}", fields=of(APP))):
            self.assertGreaterEqual(answer.status, 400)
            self.check(answer)

    def test_in_flight_and_a_backend_that_is_not_there(self):
        go = self.gate()
        backend = self.backend(lambda request, to: go.wait() and created(request, to))
        gateway = self.gateway(backend, ORIGINS, "defaults.in_flight=reject")
        owner = self.connect(gateway)
        owner.send_request(key="k", body=b"{}", fields=of(APP))
        wait_until(backend.executions)
        busy = gateway.ask(key="k", body=b"{}", fields=of(APP))
        self.assertEqual(busy.code, "in-flight")
        self.check(busy)
        go.set()
        self.check(owner.read_response())
        backend.stop_listening()
        for key in (None, "other"):
            down = gateway.ask(key=key, body=b"{}", fields=of(APP))
            self.assertEqual(down.status, 502)
            self.check(down)

    def test_a_request_that_is_refused_before_it_is_claimed(self):
        backend = self.backend()
        gateway = self.gateway(backend, ORIGINS, "defaults.caller_missing=reject", "defaults.max_request_body=1KiB", "defaults.max_large_request=0",
                               "defaults.conditional.if_match=required")
        alice = ("Authorization", "alice")
        self.assertEqual(gateway.ask(key="first", body=b"{}", fields=[*of(APP), alice]).status, 201)
        for code, refused in (("caller-required", gateway.ask(key="k", body=b"{}", fields=of(APP))),
                              ("body-too-large", gateway.ask(key="k", body=b"x" * 2000, fields=[*of(APP), alice])),
                              ("bad-request", gateway.ask(key="k", body=b"{}", fields=[*of(APP), alice, ("Authorization", "bob")])),
                              # The backend would not see the key.
                              ("bad-request", gateway.ask(key="k", body=b"{}", fields=[*of(APP), alice, ("Connection", "Idempotency-Key")])),
                              ("precondition-required", gateway.ask("PUT", body=b"{}", fields=[*of(APP), alice])),
                              ("key-invalid", gateway.ask(key="k" * 300, body=b"{}", fields=[*of(APP), alice]))):
            with self.subTest(code):
                self.assertEqual(refused.code, code)
                self.check(refused)
        self.assertEqual(len(backend.requests), 1)

    def test_a_lookup_is_readable_by_the_origins_of_its_operation(self):
        gateway = self.gateway(self.backend(), ORIGINS)
        alice = ("Authorization", "alice")
        self.assertEqual(gateway.ask(key="k", body=b"{}", fields=[*of(APP), alice]).status, 201)
        for key, status in (("k", 201), ("none", 404)):
            answer = gateway.ask("GET", key=key, fields=[*of(OTHER), alice, ("Idempotency-Lookup", "POST")])
            self.assertEqual(answer.status, status)
            self.check(answer, OTHER)

    def test_a_stream_shows_its_attempt_and_a_preflight_allows_to_resume_it(self):
        def stream(_, to):
            to.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")

        gateway = self.gateway(self.backend(stream), ORIGINS, "defaults.record.stream=auto")
        first = gateway.ask(key="k", body=b"{}", fields=of(APP))
        self.assertEqual((first.get("Idempotency-Attempt"), first.body), ("1", b"hello"))
        self.check(first)
        wanted = "idempotency-key,idempotency-offset,idempotency-attempt,last-event-id"
        preflight = gateway.ask("OPTIONS", fields=[*of(APP), ("Access-Control-Request-Method", "POST"),
                                                   ("Access-Control-Request-Headers", wanted)])
        self.assertEqual(preflight.get("Access-Control-Allow-Headers"), wanted.replace(",", ", "))
        rest = gateway.ask(key="k", body=b"{}", fields=[*of(APP), ("Idempotency-Offset", "2")])
        self.assertEqual((rest.get("Idempotency-Offset"), rest.body), ("2", b"llo"))
        self.check(rest)

    def test_what_the_backend_says_is_replaced_and_what_it_exposes_kept(self):
        fields = [("Access-Control-Allow-Origin", "https://somebody.example"), ("Access-Control-Allow-Credentials", "true"),
                  ("Access-Control-Expose-Headers", "X-Total"), ("Vary", "Accept")]
        gateway = self.gateway(self.backend(lambda _, to: to.reply(201, fields, b"x")), ORIGINS)
        for key in (None, "k", "k"):
            answer = gateway.ask(key=key, body=b"{}", fields=of(APP))
            self.check(answer)
            self.assertIn("x-total", exposed(answer))
            self.assertIsNone(answer.get("Access-Control-Allow-Credentials"))
            self.assertEqual(answer.all("Vary"), ["Accept", "Origin"])

    def test_another_origin_or_none_gets_what_the_backend_says(self):
        fields = [("Access-Control-Allow-Origin", "https://somebody.example")]
        gateway = self.gateway(self.backend(lambda _, to: to.reply(201, fields, b"x")), ORIGINS)
        for key in (None, "k", "k"):
            for headers in (of(EVIL), of("null"), []):
                answer = gateway.ask(key=key, body=b"{}", fields=headers)
                self.assertEqual(answer.all("Access-Control-Allow-Origin"), ["https://somebody.example"])
                self.assertEqual(answer.all("Access-Control-Expose-Headers"), [])
                self.assertEqual(answer.all("Vary"), ["Origin"])  # for caches

    def test_off_by_default(self):
        gateway = self.gateway(self.backend())
        for key in (None, "k"):
            answer = gateway.ask(key=key, body=b"{}", fields=of(APP))
            self.assertEqual((answer.get("Access-Control-Allow-Origin"), answer.get("Vary")), (None, None))

    def test_a_304_of_ours_says_it_too(self):
        gateway = self.gateway(self.backend(lambda _, to: to.reply(200, body=b"x")), ORIGINS, "defaults.conditional.etag=on")
        tag = gateway.ask("GET", fields=of(APP)).get("ETag")
        answer = gateway.ask("GET", fields=[*of(APP), ("If-None-Match", tag)])
        self.assertEqual(answer.status, 304)
        self.check(answer)


class Preflights(EndToEnd):
    def ask(self, gateway, origin=APP, method="PUT", headers="content-type,idempotency-key", target="/doc"):
        return gateway.ask("OPTIONS", target, fields=[*of(origin), ("Access-Control-Request-Method", method),
                                                      ("Access-Control-Request-Headers", headers)])

    def test_are_answered_without_the_backend(self):
        backend = self.backend()
        gateway = self.gateway(backend, ORIGINS, "defaults.cors.credentials=yes")
        answer = self.ask(gateway)
        self.assertEqual((answer.status, answer.body), (204, b""))
        self.assertEqual(answer.get("Access-Control-Allow-Origin"), APP)
        self.assertEqual(answer.get("Access-Control-Allow-Credentials"), "true")
        self.assertEqual(answer.get("Access-Control-Allow-Methods"), "PUT")
        self.assertEqual(answer.get("Access-Control-Allow-Headers"), "content-type, idempotency-key")
        self.assertEqual(answer.get("Access-Control-Max-Age"), "600")
        self.assertTrue(answer.get("Vary").startswith("Origin"))
        self.assertEqual(self.ask(gateway, headers="a b").status, 400)
        self.assertEqual(backend.requests, [])
        self.assertEqual(gateway.metrics()["once_preflights_total"], 1)

    def test_others_go_to_the_backend(self):
        backend = self.backend()
        gateway = self.gateway(backend, ORIGINS)
        self.assertEqual(self.ask(gateway, origin=EVIL).status, 201)
        self.assertEqual(gateway.ask("OPTIONS", "/doc", fields=of(APP)).status, 201)
        self.assertEqual(len(backend.requests), 2)

    def test_take_the_route_of_the_method_that_they_ask_about(self):
        backend = self.backend()
        config = f"""
upstreams: {{a: "http://127.0.0.1:{backend.port}"}}
routes:
  - path: /doc
    methods: [PUT]
    key: {{header: X-Key}}
    cors: {{origins: {APP}}}
  - path: /doc
    methods: [POST]
    cors: {{origins: {OTHER}}}
"""
        gateway = self.gateway(backend, config=config)
        self.assertEqual(self.ask(gateway, headers="a").get("Access-Control-Allow-Headers"), "a, X-Key")
        self.assertEqual(self.ask(gateway, OTHER, "POST").status, 204)
        self.assertEqual(backend.requests, [])
        self.ask(gateway, APP, "POST")
        self.ask(gateway, APP, "DELETE")
        self.assertEqual(len(backend.requests), 2)
        # A lookup and a stop are about a PUT or a POST: which one, only the request itself says.
        for method, headers in (("GET", "idempotency-lookup"), ("DELETE", "idempotency-key, idempotency-stop")):
            for origin in (APP, OTHER):
                answer = self.ask(gateway, origin, method, headers)
                self.assertEqual((answer.status, answer.get("Access-Control-Allow-Origin")), (204, origin))
                self.assertEqual(answer.get("Access-Control-Allow-Methods"), method)
        self.assertEqual(self.ask(gateway, EVIL, "DELETE", "idempotency-stop").status, 201)
        self.assertEqual(len(backend.requests), 3)


class Settings(EndToEnd):
    def test_what_would_let_every_page_act_as_its_visitor_is_refused(self):
        for settings, word in ((("cors.origins=*", "cors.credentials=yes"), "needs explicit cors.origins"),
                               ((f"cors.origins=[*,{APP}]",), "cannot be combined with others"),
                               (("cors.credentials=yes",), "needs cors.origins"),
                               (("cors.origins=https://App.example/",), "an origin such as")):
            options = [part for setting in settings for part in ("--set", f"defaults.{setting}")]
            result = run_once("check", "--upstream", "http://127.0.0.1:1", *options)
            self.assertNotEqual(result.returncode, 0)
            self.assertIn(word, result.stdout + result.stderr)


if __name__ == "__main__":
    unittest.main()
