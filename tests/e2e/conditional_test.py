"""Conditional requests for a backend that has none. tests/unit/gateway/exchange/conditional_net_test.cpp has each case."""
import threading
import unittest

from documents import Documents
from harness import Sharing
from wire import DEADLINE, wait_until

ON = ("defaults.conditional.etag=on", "defaults.conditional.if_match=on")
COUNT = 'once_preconditions_total{{result="{}"}}'.format


class Conditional(Sharing):
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
        gateway = self.serve(own=True)
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


class Writing(Conditional):
    def test_a_write_that_names_the_state_passes_and_one_that_names_another_gets_412(self):
        gateway = self.serve(own=True)
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

    def test_writers_of_one_resource_come_one_by_one_and_the_second_finds_it_changed(self):
        at_write, go = threading.Event(), self.gate()
        self.documents.on_write = lambda _: (at_write.set(), go.wait())
        gateway = self.serve(own=True)
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


if __name__ == "__main__":
    unittest.main()
