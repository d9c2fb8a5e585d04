"""Backends over TLS: who they must prove to be, what a failure means for a key, and responses that somebody cut."""
import large_bodies
from harness import EndToEnd
from tls import Authority, TlsBackend, cut, end


class ToBackends(EndToEnd):
    def setUp(self):
        super().setUp()
        self.authority = Authority(self.folder())
        self.good = self.authority.serving(self.authority.issue("localhost", "DNS:localhost,IP:127.0.0.1"))

    def tls_backend(self, *args, context=None, **named):
        backend = TlsBackend(context or self.good, *args, **named)
        self.addCleanup(backend.stop)
        return backend

    def trusting_gateway(self, backend, *settings, **named):
        # The handshake is ours, and a machine may pause in it.
        return self.gateway(backend, f"upstream_tls.ca={self.authority.file}", "defaults.timeouts.connect=1m", *settings, **named)


class Forwarding(ToBackends):
    def test_by_name_and_by_address(self):
        for name in ("localhost", "127.0.0.1"):
            with self.subTest(name):
                backend = self.tls_backend(name=name)
                gateway = self.trusting_gateway(backend, base="/base")
                answers = [gateway.ask("POST", "/pay", key="k", body=b"x") for _ in range(2)]
                self.assertEqual([answer.get("Idempotency-Status") for answer in answers], ["executed", "replayed"])
                self.assertEqual([request.target for request in backend.executions()], ["/base/pay"])
                self.assertEqual(gateway.ask("GET", "/").status, 201)

    def test_connections_are_kept_and_sessions_taken_up(self):
        def handler(request, connection):
            last = request.target == "/last"
            connection.reply(200, [("Connection", "close")] if last else [])
            if last:
                end(connection)

        backend = self.tls_backend(handler)
        gateway = self.trusting_gateway(backend, "threads=1", "pool.idle_max=5m")
        client = self.connect(gateway)
        for target in ("/1", "/2", "/last"):
            self.assertEqual(client.ask("POST", target, body=b"x").status, 200)
        self.assertEqual(backend.handshakes, [False])
        self.assertEqual(client.ask("POST", "/4", body=b"x").status, 200)
        self.assertEqual(backend.handshakes, [False, True])

    def test_large_bodies_both_ways(self):
        gateway = self.trusting_gateway(self.tls_backend(large_bodies.echo), *large_bodies.SETTINGS)
        large_bodies.check_both_ways(self, self.connect(gateway))

    def test_a_certificate_is_shown_to_those_who_ask(self):
        context = self.authority.serving(self.authority.issue("asks", "DNS:localhost"), self.authority)
        backend = self.tls_backend(context=context)
        gateway = self.trusting_gateway(backend)
        self.assertEqual(gateway.ask("GET", "/").status, 502)
        certificate, key = self.authority.issue("gateway")
        gateway = self.trusting_gateway(backend, f"upstream_tls.certificate={certificate}", f"upstream_tls.key={key}")
        self.assertEqual(gateway.ask(key="k", body=b"x").status, 201)


class Verification(ToBackends):
    def refusal(self, certificate, reason, name="localhost", authority=None):
        """The key is not used up by a backend that could not prove itself: the next one is asked, as the first."""
        bad = self.authority.serving(certificate)
        backend = self.tls_backend(context=bad, name=name)
        gateway = self.gateway(backend, f"upstream_tls.ca={(authority or self.authority).file}", "defaults.timeouts.connect=1m")
        for _ in range(2):
            answer = gateway.ask(key="k", body=b"x")
            self.assertEqual((answer.status, answer.code), (502, "bad-gateway"))
        lines = [line for line in gateway.log_lines() if line["message"] == "TLS connection to a backend failed"]
        self.assertEqual([line["level"] for line in lines], ["warn"] * len(lines))
        self.assertIn(reason, lines[0]["reason"])
        self.assertEqual(backend.requests, [])
        return backend, gateway

    def test_the_wrong_name(self):
        backend, gateway = self.refusal(self.authority.issue("other", "DNS:other.test"), "hostname mismatch")
        backend.context = self.good
        answer = gateway.ask(key="k", body=b"x")
        self.assertEqual((answer.status, answer.body), (201, b"made by attempt 1"))
        self.assertEqual(answer.get("Idempotency-Status"), "executed")

    def test_no_verification_if_that_is_said(self):
        backend = self.tls_backend(context=self.authority.serving(self.authority.issue("other", "DNS:other.test")))
        gateway = self.gateway(backend, "upstream_tls.verify=no", "defaults.timeouts.connect=1m")
        self.assertEqual(gateway.ask(key="k", body=b"x").status, 201)
        self.assertIn("upstream_tls.verify is no", gateway.stderr)

    def test_a_backend_without_tls(self):
        backend = self.backend()
        plain = backend.port

        class Elsewhere:
            origin = f"https://localhost:{plain}"

        gateway = self.trusting_gateway(Elsewhere, "defaults.timeouts.connect=2s")
        answer = gateway.ask(key="k", body=b"x")
        self.assertEqual((answer.status, answer.code), (502, "bad-gateway"))
        self.assertEqual(backend.executions(), [])


class Truncation(ToBackends):
    """Whoever sits on the way can end a TCP connection. What was not announced as an end must not be taken for one."""

    def test_a_response_without_length_ends_where_the_backend_says_so(self):
        for ending, status, result in ((end, 200, "executed"), (cut, 502, "unknown")):
            with self.subTest(ending.__name__):
                def handler(_, connection):
                    connection.send(b"HTTP/1.1 200 OK\r\n\r\nhalf of it")
                    ending(connection)

                backend = self.tls_backend(handler)
                gateway = self.trusting_gateway(backend)
                answer = gateway.ask(key="k", body=b"x")
                self.assertEqual((answer.status, answer.get("Idempotency-Status")), (status, result))
                again = gateway.ask(key="k", body=b"x")
                self.assertEqual(again.status, 200 if ending is end else 409)
                self.assertEqual(len(backend.executions()), 1)

    def test_a_body_that_is_cut_is_an_unknown_outcome(self):
        def handler(_, connection):
            connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf of it")
            cut(connection)

        backend = self.tls_backend(handler)
        gateway = self.trusting_gateway(backend)
        answer = gateway.ask(key="k", body=b"x")
        self.assertEqual((answer.status, answer.code), (502, "outcome-unknown"))
