"""Conditional requests for a backend that has none: ETag and 304 on GET, If-Match and If-None-Match on writes."""
import contextlib
import threading
import time
import unittest

from documents import Documents
from harness import EndToEnd
from wire import DEADLINE, Client, request_bytes, wait_until

# A backend may pause between its head and its body.
LARGE = (1 << 20) + 1  # a body that gets no tag
ON = ("defaults.conditional.etag=on", "defaults.conditional.if_match=on")
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n" + b"x" * 2000
COUNT = 'once_preconditions_total{{result="{}"}}'.format


class Conditional(EndToEnd):
    def setUp(self):
        super().setUp()
        self.documents = Documents(doc=b"first")
        self.store = self.backend(self.documents.handle)

    def serve(self, *settings, **named):
        return self.gateway(self.store, *ON, *settings, **named)

    def tag(self, gateway, target="/doc", **named):
        tag = gateway.ask("GET", target, **named).get("ETag")
        self.assertIsNotNone(tag)
        return tag

    def write(self, gateway, body=b"second", method="PUT", target="/doc", match=None, none_match=None, key=None):
        fields = [("If-Match", match)] if match else []
        fields += [("If-None-Match", none_match)] if none_match else []
        return gateway.ask(method, target, fields=fields, body=body, key=key)


class Reading(Conditional):
    def test_a_response_gets_a_strong_tag_and_a_second_one_304(self):
        self.documents.fields = [("Cache-Control", "max-age=5"), ("Vary", "Accept"), ("Content-Language", "en"),
                                 ("Last-Modified", "Sun, 15 Nov 2026 00:00:00 GMT"), ("X-Of-Its-Own", "1")]
        gateway = self.serve()
        client = self.connect(gateway)
        first = client.ask("GET", "/doc", fields=[("Accept-Encoding", "gzip")])
        self.assertEqual((first.status, first.body), (200, b"first"))
        self.assertRegex(first.get("ETag"), r'^"[0-9a-f]{32}"$')
        self.assertIsNone(self.store.requests[0].get("Accept-Encoding"))
        for condition in (first.get("ETag"), f'"other", W/{first.get("ETag")}', "*"):
            again = client.ask("GET", "/doc", fields=[("If-None-Match", condition)])
            self.assertEqual((again.status, again.get("ETag"), again.get("Cache-Control"), again.get("Vary")),
                             (304, first.get("ETag"), "max-age=5", "Accept"))
            for name in ("Content-Type", "Content-Length", "Content-Language", "Last-Modified"):
                self.assertIsNone(again.get(name))
        self.documents.documents["/doc"] = b"second"
        changed = client.ask("GET", "/doc", fields=[("If-None-Match", first.get("ETag"))])
        self.assertEqual((changed.status, changed.body), (200, b"second"))
        self.assertNotEqual(changed.get("ETag"), first.get("ETag"))
        self.assertEqual(gateway.metrics()["once_not_modified_total"], 3)

    def test_the_tag_is_of_type_and_bytes_and_the_same_at_every_gateway(self):
        one, other = self.serve(), self.serve()
        tag = self.tag(one)
        self.assertEqual(self.tag(other), tag)
        self.assertEqual(self.tag(one, fields=[("If-None-Match", "no quotes")]), tag)
        self.documents.type = "text/html"
        self.assertNotEqual(self.tag(one), tag)

    def test_a_chunked_response_is_tagged_and_one_too_large_or_too_slow_is_not(self):
        go = self.gate()

        def handle(request, to):
            if request.target == "/large":
                return to.reply(200, body=b"x" * LARGE)
            to.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")
            if request.target == "/chunked-large":
                to.send(f"{LARGE:x}\r\n".encode() + b"x" * LARGE + b"\r\n")
            if request.target == "/slow":
                go.wait()
            to.send(b"0\r\n\r\n")

        gateway = self.gateway(self.backend(handle), *ON)
        client = self.connect(gateway)
        chunked = client.ask("GET", "/chunked")
        self.assertEqual(chunked.body, b"first")
        self.assertEqual(client.ask("GET", "/chunked", fields=[("If-None-Match", chunked.get("ETag"))]).status, 304)
        for target, length in (("/large", LARGE), ("/chunked-large", LARGE + 5)):
            answer = client.ask("GET", target, fields=[("If-None-Match", "*")])
            self.assertEqual((answer.status, len(answer.body), answer.get("ETag")), (200, length, None))
        client.send_request("GET", "/slow")
        client.read_until(b"\r\n5\r\nfirst\r\n")  # before it has ended
        go.set()
        client.read_until(b"0\r\n\r\n")
        self.assertEqual(client.ask("GET", "/chunked").status, 200)

    def test_event_streams_ranges_heads_and_other_statuses_pass_as_they_come(self):
        go = self.gate()

        def handle(request, to):
            if request.target == "/events":
                to.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")
                go.wait()
                to.send(b"0\r\n\r\n")
            elif request.target == "/missing":
                to.reply(404, body=b"")
            elif request.method == "HEAD":
                to.send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")
            else:
                to.reply(206 if request.get("Range") else 200, body=b"first")

        backend = self.backend(handle)
        gateway = self.gateway(backend, *ON)
        client = self.connect(gateway)
        client.send_request("GET", "/events")
        client.read_until(b"first\r\n")
        go.set()
        client.read_until(b"0\r\n\r\n")
        ranged = client.ask("GET", "/", fields=[("Range", "bytes=0-4"), ("Accept-Encoding", "br")])
        self.assertEqual((ranged.status, ranged.get("ETag"), backend.requests[-1].get("Accept-Encoding")), (206, None, "br"))
        self.assertIsNone(client.ask("HEAD", "/").get("ETag"))
        self.assertIsNone(client.ask("GET", "/missing").get("ETag"))

    def test_a_backend_that_dies_in_the_midst_is_said(self):
        def handle(_, to):
            to.send(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\nhalf")
            to.close()

        answer = self.gateway(self.backend(handle), *ON).ask("GET", "/doc")
        self.assertEqual((answer.status, answer.code), (502, "backend-lost"))

    def test_a_backend_with_tags_of_its_own_is_left_alone(self):
        seen = []

        def handle(request, to):
            seen.append((request.method, request.get("If-None-Match"), request.get("If-Match")))
            if request.method == "GET" and request.get("If-None-Match") == '"its-own"':
                return to.reply(304, [("ETag", '"its-own"')])
            if request.method == "PUT" and request.get("If-Match") != '"its-own"':
                return to.reply(412, body=b"says the backend")
            return to.reply(200, [("ETag", '"its-own"')], b"first")

        gateway = self.gateway(self.backend(handle), *ON)
        self.assertEqual(gateway.ask("GET", "/doc").all("ETag"), ['"its-own"'])
        self.assertEqual(gateway.ask("GET", "/doc", fields=[("If-None-Match", '"its-own"')]).status, 304)
        refused = self.write(gateway, match='"another"')
        self.assertEqual((refused.status, refused.body), (412, b"says the backend"))
        self.assertEqual(self.write(gateway, match='"its-own"').status, 200)
        self.assertEqual(seen[-1], ("PUT", None, '"its-own"'))
        self.assertEqual(gateway.metrics()[COUNT("left-to-backend")], 2)

    def test_off_by_default(self):
        gateway = self.gateway(self.store)
        self.assertIsNone(gateway.ask("GET", "/doc", fields=[("Accept-Encoding", "br")]).get("ETag"))
        self.assertEqual(self.store.requests[-1].get("Accept-Encoding"), "br")
        self.assertEqual(self.write(gateway, match='"any"').status, 200)
        self.assertEqual(self.store.requests[-1].get("If-Match"), '"any"')


class Writing(Conditional):
    def test_a_write_that_names_the_state_passes_and_one_that_names_another_gets_412(self):
        gateway = self.serve()
        client = self.connect(gateway)
        tag = self.tag(gateway)
        for condition in (f'"x", {tag}', "*"):
            self.assertEqual(client.ask("PUT", "/doc", fields=[("If-Match", condition)], body=b"first").status, 200)
        written = self.documents.writes[-1]
        self.assertEqual((written.get("If-Match"), written.body), (None, b"first"))
        for method in ("PUT", "PATCH", "DELETE"):
            for condition in ('"another"', "W/" + tag):
                refused = client.ask(method, "/doc", fields=[("If-Match", condition)], body=b"lost")
                self.assertEqual((refused.status, refused.code, refused.get("ETag")), (412, "precondition-failed", tag))
        self.assertEqual(len(self.documents.writes), 2)
        self.assertEqual(gateway.metrics()[COUNT("failed")], 6)
        self.assertEqual(self.write(gateway, b"second", match=tag).status, 200)
        self.assertEqual(self.write(gateway, b"third", match=tag).status, 412)
        self.assertEqual(self.documents.documents["/doc"], b"second")

    def test_what_is_not_there_or_was_deleted_matches_nothing(self):
        gateway = self.serve()
        tag = self.tag(gateway)
        for condition in ("*", '"x"'):
            missing = self.write(gateway, target="/missing", match=condition)
            self.assertEqual((missing.status, missing.get("ETag")), (412, None))
        self.assertEqual(self.write(gateway, None, "DELETE", match=tag).status, 200)
        self.assertEqual(self.write(gateway, match=tag).status, 412)

    def test_only_one_creates(self):
        gateway = self.serve()
        self.assertEqual(self.write(gateway, b"new", target="/new", none_match="*").status, 200)
        again = self.write(gateway, b"again", target="/new", none_match="*")
        self.assertEqual((again.status, again.get("ETag")), (412, self.tag(gateway, "/new")))
        self.assertEqual(self.documents.documents["/new"], b"new")
        self.assertIsNone(self.documents.writes[-1].get("If-None-Match"))

    def test_required_refuses_what_says_nothing(self):
        gateway = self.serve("defaults.conditional.if_match=required")
        for method in ("PUT", "PATCH", "DELETE"):
            refused = self.write(gateway, method=method)
            self.assertEqual((refused.status, refused.code), (428, "precondition-required"))
        self.assertEqual(self.write(gateway, match=self.tag(gateway)).status, 200)
        self.assertEqual(gateway.ask("POST", "/doc", body=b"x").status, 200)
        self.assertEqual(self.write(self.serve()).status, 200)

    def test_a_condition_that_is_none_gets_400(self):
        gateway = self.serve()
        for condition in ("abc", '"open', '"a" "b"', '*, "a"', ","):
            self.assertEqual(self.write(gateway, match=condition).code, "bad-request", condition)
        self.assertEqual(self.documents.writes, [])

    def test_the_state_is_read_as_the_writer_would_and_asks_for_nothing_else(self):
        gateway = self.serve("defaults.key.methods=[PUT]")
        fields = [("Authorization", "Bearer me"), ("Cookie", "a=b"), ("Accept", "text/plain"), ("Content-Type", "a/b"),
                  ("X-Tenant", "t"), ("X-HTTP-Method-Override", "DELETE"), ("Expect", "100-continue"),
                  ("Accept-Encoding", "gzip"), ("If-Unmodified-Since", "Sun, 15 Nov 2026 00:00:00 GMT"),
                  ("If-Match", self.tag(gateway))]
        self.assertEqual(gateway.ask("PUT", "/doc?x=1", fields=fields, body=b"second", key="k").status, 200)
        read = self.store.requests[1]
        self.assertEqual((read.method, read.target, read.body), ("GET", "/doc?x=1", b""))
        self.assertEqual({name for name, _ in read.fields},
                         {"Host", "Authorization", "Cookie", "Accept", "X-Tenant", "X-Request-Id", "X-Forwarded-For",
                          "X-Forwarded-Host", "X-Forwarded-Proto", "Via"})
        self.assertEqual(self.store.requests[2].get("X-HTTP-Method-Override"), "DELETE")

    def test_two_spellings_of_a_path_are_one_resource(self):
        go = self.gate()
        backend = self.backend(lambda request, to: (request.method != "PUT" or go.wait()) and to.reply(200, body=b"state"))
        gateway = self.gateway(backend, *ON, "defaults.in_flight_wait=200ms")
        tag = self.tag(gateway, "/doc/a")
        first = self.connect(gateway)
        first.send_request("PUT", "/doc/a", fields=[("If-Match", tag)], body=b"one")
        wait_until(lambda: any(request.method == "PUT" for request in backend.requests))
        self.assertEqual(self.write(gateway, target="/doc/%61", match=tag).code, "resource-busy")
        go.set()
        self.assertEqual(first.read_response().status, 200)

    def test_a_route_in_shadow_mode_is_not_guarded(self):
        gateway = self.serve("defaults.mode=shadow", "defaults.conditional.if_match=required")
        self.assertEqual(self.write(gateway).status, 200)
        self.assertIsNone(gateway.ask("GET", "/doc").get("ETag"))

    def test_a_state_that_cannot_be_read_stops_the_write(self):
        status = 500
        backend = self.backend(lambda request, to: to.reply(status if request.method == "GET" else 200))
        gateway = self.gateway(backend, *ON)
        for status, expected in ((500, (502, "bad-gateway")), (403, (412, "precondition-failed")),
                                 (302, (412, "precondition-failed"))):
            answer = self.write(gateway, match='"x"')
            self.assertEqual((answer.status, answer.code), expected)
        backend.stop_listening()
        answer = self.write(gateway, match='"x"')
        self.assertEqual((answer.status, answer.code, answer.problem["retryable"]), (502, "bad-gateway", True))
        self.assertEqual([request.method for request in backend.requests], ["GET"] * 3)

    def test_what_has_no_tag_matches_only_a_star(self):
        self.documents.documents["/doc"] = b"x" * LARGE
        gateway = self.serve()
        self.assertEqual(self.write(gateway, match='"x"').status, 412)
        self.assertEqual(self.write(gateway, match="*").status, 200)

    def test_a_slow_uploader_does_not_make_another_writer_wait(self):
        gateway = self.serve("defaults.in_flight_wait=20s")
        one, two = b"a" * 1000, b"b" * 1000
        for field, first, second in ((("Content-Length", 2000), one, two),
                                     (("Transfer-Encoding", "chunked"), b"3e8\r\n" + one,
                                      b"\r\n3e8\r\n" + two + b"\r\n0\r\n\r\n")):
            with self.subTest(field=field):
                slow = self.connect(gateway)
                slow.send(request_bytes("PUT", "/doc", [("If-Match", "*"), field]) + first)
                wait_until(lambda: gateway.metrics()["once_body_bytes"] >= 1000)
                self.assertEqual(self.write(gateway, b"another", match="*").status, 200)
                slow.send(second)
                self.assertEqual(slow.read_response().status, 200)
                written = self.documents.writes[-1]
                self.assertEqual((written.body, written.all("Content-Length"), written.get("Transfer-Encoding")),
                                 (one + two, ["2000"], None))
        # What the client announced is what the backend hears of: nothing stays nothing.
        self.assertEqual(self.write(gateway, None, "DELETE", match="*").status, 200)
        self.assertIsNone(self.documents.writes[-1].get("Content-Length"))

    def test_the_body_of_a_write_has_the_limits_of_one_with_a_key(self):
        gateway = self.serve("defaults.max_request_body=1KiB", "timeouts.body_idle=100ms", "limits.min_rate=0")
        client = self.connect(gateway)
        large = self.write(gateway, b"x" * 1025, match="*")
        self.assertEqual((large.status, large.code), (413, "body-too-large"))
        client.send(request_bytes("PUT", "/doc", [("If-Match", "*"), ("Content-Length", 2)]) + b"x")
        late = client.read_response()
        self.assertEqual((late.status, late.code), (408, "request-timeout"))
        self.assertEqual([request.method for request in self.store.requests], [])

    def test_a_body_that_is_waited_for_is_asked_for_and_the_next_request_follows_it(self):
        client = self.connect(self.serve())
        head = request_bytes("PUT", "/doc", [("If-Match", "*"), ("Content-Length", 6), ("Expect", "100-continue")])
        client.send(head)
        client.read_until(b"HTTP/1.1 100 Continue\r\n\r\n")
        client.send(b"second" + request_bytes("PUT", "/doc", [("If-Match", '"x"')], b"lost") + request_bytes("GET", "/doc"))
        self.assertEqual([client.read_response().status for _ in range(3)], [200, 412, 200])
        self.assertEqual([(write.body, write.get("Expect")) for write in self.documents.writes], [(b"second", None)])

    def test_a_client_that_leaves_does_not_cancel_its_write(self):
        for key, early in ((None, b""), (None, ANSWER[:1000]), ("k", ANSWER[:1000])):
            for late in (ANSWER[len(early):], ANSWER[len(early):-1]):
                with self.subTest(key=key, early=len(early), late=len(late)):
                    self.leave_in_the_midst(key, early, late)

    def leave_in_the_midst(self, key, early, late):
        """The resource is free as soon as the whole response has come. If it never does, not for five minutes."""
        got, go = threading.Event(), self.gate()

        def handle(request, to):
            if request.method == "GET" or request.body == b"next":
                return to.reply(200, body=b"state")
            to.send(early)
            got.set()
            go.wait()
            to.send(late)
            return to.close()

        gateway = self.gateway(self.backend(handle), *ON, "defaults.key.methods=[PUT]", "defaults.lease=5m",
                               "defaults.record.max_body=500", "defaults.in_flight_wait=1ms")
        writer = self.connect(gateway)
        writer.send_request("PUT", "/doc", [("If-Match", "*")], b"first", key)
        self.assertTrue(got.wait(DEADLINE))
        if early:
            writer.read_until(b"x")
        writer.reset()
        self.assertEqual(self.write(gateway, b"next", match="*").code, "resource-busy")
        go.set()
        wait_until(lambda: gateway.metrics()["once_connections_open"] == 0)
        if early + late == ANSWER:
            wait_until(lambda: self.write(gateway, b"next", match="*").status == 200, what="the resource to be free")
        else:
            self.assertEqual(self.write(gateway, b"next", match="*").status, 409)

    def test_writers_of_one_resource_come_one_by_one_and_the_second_finds_it_changed(self):
        at_write, go = threading.Event(), self.gate()
        self.documents.on_write = lambda _: (at_write.set(), go.wait())
        gateway = self.serve()
        tag = self.tag(gateway)
        first, second, plain, elsewhere = (self.connect(gateway) for _ in range(4))
        first.send_request("PUT", "/doc", [("If-Match", tag)], b"second")
        self.assertTrue(at_write.wait(DEADLINE))
        second.send_request("PUT", "/doc?other=name", [("If-Match", tag), ("Host", "other.test")], b"third")
        plain.send_request("PATCH", "/doc", body=b"fourth")
        wait_until(lambda: gateway.metrics()["once_waiting"] == 2)
        self.assertEqual(len([r for r in self.store.requests if r.method != "GET"]), 1)
        elsewhere.send_request("PUT", "/other", [("If-None-Match", "*")], b"not held up")
        wait_until(lambda: len([r for r in self.store.requests if r.method != "GET"]) == 2)
        go.set()
        self.assertEqual(first.read_response().status, 200)
        self.assertEqual(second.read_response().status, 412)
        self.assertEqual(plain.read_response().status, 200)
        self.assertEqual(elsewhere.read_response().status, 200)

    def test_a_client_that_leaves_while_it_waits_takes_its_write_with_it(self):
        for leave in (Client.close, Client.reset):
            with self.subTest(leave=leave.__name__):
                at_write, go = threading.Event(), self.gate()
                self.documents.on_write = lambda _, at_write=at_write, go=go: (at_write.set(), go.wait())
                gateway = self.serve()
                first, second = self.connect(gateway), self.connect(gateway)
                first.send_request("PUT", "/doc", body=b"first")
                self.assertTrue(at_write.wait(DEADLINE))
                second.send_request("PUT", "/doc", body=b"stale")
                wait_until(lambda gateway=gateway: gateway.metrics()["once_waiting"] == 1)
                leave(second)
                go.set()
                self.assertEqual(first.read_response("PUT").status, 200)
                wait_until(lambda gateway=gateway: gateway.metrics()["once_connections_open"] == 1)
                self.assertNotIn(b"stale", [request.body for request in self.store.requests])

    def test_a_backend_that_is_silent_frees_the_resource_when_its_time_is_over(self):
        for early in (b"", ANSWER[:1000]):
            with self.subTest(early=len(early)):
                got, go = threading.Event(), self.gate()

                def handle(request, to, early=early, got=got, go=go):
                    if request.method == "GET":
                        return to.reply(200, body=b"state")
                    with contextlib.suppress(OSError):  # too late already
                        to.send(early)
                    got.set()
                    return go.wait()

                gateway = self.gateway(self.backend(handle), *ON, "defaults.timeouts.response=200ms",
                                       "defaults.timeouts.stream_idle=10m")
                writer = self.connect(gateway)
                writer.send_request("PUT", "/doc", body=b"first")
                self.assertTrue(got.wait(DEADLINE))
                writer.reset()
                wait_until(lambda gateway=gateway: gateway.metrics()["once_connections_open"] == 0)

    def test_a_writer_that_waits_too_long_is_told_to_come_back(self):
        at_write, go = threading.Event(), self.gate()
        self.documents.on_write = lambda _: (at_write.set(), go.wait())
        gateway = self.serve("defaults.in_flight_wait=100ms")
        first = self.connect(gateway)
        first.send_request("PUT", "/doc", [("If-Match", self.tag(gateway))], b"second")
        self.assertTrue(at_write.wait(DEADLINE))
        busy = self.write(gateway, match="*")
        self.assertEqual((busy.status, busy.code, busy.get("Retry-After")), (409, "resource-busy", "1"))
        go.set()
        self.assertEqual(first.read_response().status, 200)

    def test_after_an_unknown_end_the_resource_is_free_when_the_lease_has_lapsed(self):
        for key in (None, "k"):
            with self.subTest(key=key):
                died = []

                def die_once(_, died=died):
                    if not died:
                        died.append(True)
                        raise EOFError  # the backend closes without a word

                self.documents.on_write = die_once
                clock = self.clock()
                gateway = self.serve("defaults.lease=10m", "defaults.in_flight_wait=100ms", "defaults.key.methods=[PUT]",
                                     clock=clock)
                lost = self.write(gateway, match="*", key=key)
                self.assertEqual((lost.status, lost.code), (502, "outcome-unknown" if key else "backend-lost"))
                for _ in range(3):
                    self.assertEqual(self.write(gateway, match="*").code, "resource-busy")
                    clock.advance(180)
                clock.advance(180)
                self.assertEqual(self.write(gateway, match="*").status, 200)


class Keyed(Conditional):
    def serve(self, *settings, **named):
        return super().serve("defaults.key.methods=[POST,PUT,PATCH]", *settings, **named)

    def test_a_replay_is_not_checked_and_a_retry_of_what_went_through_is_no_412(self):
        gateway = self.serve("defaults.conditional.if_match=required")
        tag = self.tag(gateway)
        first = self.write(gateway, match=tag, key="k")
        self.assertEqual((first.status, first.get("Idempotency-Status")), (200, "executed"))
        self.assertNotEqual(self.tag(gateway), tag)
        asked = len(self.store.requests)
        for match in (tag, None):
            again = self.write(gateway, match=match, key="k")
            self.assertEqual((again.status, again.body, again.get("Idempotency-Status")), (200, first.body, "replayed"))
        self.assertEqual(len(self.store.requests), asked)
        self.assertIsNone(self.documents.writes[0].get("If-Match"))

    def test_a_refused_write_leaves_its_key_free(self):
        gateway = self.serve("defaults.conditional.if_match=required")
        self.assertEqual(self.write(gateway, key="k").status, 428)
        self.assertEqual(self.write(gateway, match="bad", key="k").status, 400)
        refused = self.write(gateway, match='"another"', key="k")
        self.assertEqual((refused.status, refused.get("Idempotency-Status")), (412, None))
        self.assertEqual(self.documents.writes, [])
        done = self.write(gateway, match=refused.get("ETag"), key="k")
        self.assertEqual((done.status, done.get("Idempotency-Status")), (200, "executed"))
        self.assertEqual(len(self.documents.writes), 1)

    def test_an_answer_too_large_to_keep_frees_the_resource_when_it_has_gone_by(self):
        def handle(request, to):
            to.reply(200, body=b"x" * 5000 if request.method == "PUT" else b"first")

        gateway = self.gateway(self.backend(handle), *ON, "defaults.key.methods=[PUT]", "defaults.record.max_body=1000",
                               "defaults.in_flight_wait=20s")
        client = self.connect(gateway)
        for key in "ab":
            self.assertEqual(len(client.ask("PUT", "/doc", [("If-Match", "*")], b"x", key).body), 5000)
        self.assertEqual(gateway.metrics()[COUNT("passed")], 2)


if __name__ == "__main__":
    unittest.main()
