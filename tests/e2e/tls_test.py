"""Clients over TLS: versions and protocols, sessions, client certificates, and what a reload reads again."""
import pathlib
import ssl
import subprocess
import tempfile

import large_bodies
import reload_test
from harness import Sharing, kept_part, run_once
from tls import Authority, TlsClient
from wire import DEADLINE, Client, wait_until


class OverTls(Sharing):
    """One authority and one certificate for the stories of a class."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = tempfile.TemporaryDirectory(prefix="once-e2e-")
        cls.addClassCleanup(folder.cleanup)
        cls.authority = Authority(folder.name)
        cls.certificate, cls.key = cls.authority.issue("server", "DNS:localhost,DNS:*.wild.test")

    def tls_gateway(self, backend, *settings, certificates=None, keys=None, **named):
        return self.gateway(backend, "tls.listen=127.0.0.1:0", f"tls.certificates=[{', '.join(certificates or [self.certificate])}]",
                            f"tls.keys=[{', '.join(keys or [self.key])}]", *settings, **named)

    def tls_connect(self, gateway, name="localhost", context=None):
        client = TlsClient(gateway.tls_port, context or self.authority.trusting(), name)
        self.addCleanup(client.close)
        return client

    def refused(self, gateway, **named):
        """The reason for which the gateway refuses a client. With TLS 1.3 a client learns of it when it reads."""
        with self.assertRaises(OSError) as raised:
            self.tls_connect(gateway, **named).ask("GET", "/")
        return getattr(raised.exception, "reason", None) or str(raised.exception)


class Serving(OverTls):
    def test_curl_and_a_replay(self):
        backend = self.backend()
        gateway = self.tls_gateway(backend, own=True)
        command = ["curl", "-sS", "--cacert", self.authority.file, "-H", "Idempotency-Key: k", "-d", "x", "-i",
                   f"https://localhost:{gateway.tls_port}/pay"]
        first, second = (subprocess.run(command, check=True, capture_output=True, timeout=DEADLINE).stdout for _ in range(2))
        self.assertIn(b"Idempotency-Status: executed", first)
        self.assertIn(b"Idempotency-Status: replayed", second)
        self.assertEqual(len(backend.executions()), 1)
        self.assertEqual(gateway.metrics()["once_tls_handshakes_total"], 2)

    def s_client(self, gateway, *arguments):
        command = ["openssl", "s_client", "-connect", f"127.0.0.1:{gateway.tls_port}", "-ign_eof", *arguments]
        request = b"GET / HTTP/1.1\r\nHost: a.wild.test\r\nConnection: close\r\n\r\n"
        return subprocess.run(command, input=request, capture_output=True, timeout=DEADLINE, check=False).stdout

    def test_a_session_is_resumed_only_under_its_name(self):
        gateway = self.tls_gateway(self.backend())
        for version in ("-tls1_2", "-tls1_3"):
            with self.subTest(version):
                session = str(self.folder() / "session")
                first = self.s_client(gateway, version, "-servername", "a.wild.test", "-sess_out", session)
                self.assertIn(b"New, TLS", first)
                again, other, none = (self.s_client(gateway, version, *name, "-sess_in", session) for name in
                                      (("-servername", "A.wild.test"), ("-servername", "b.wild.test"), ("-noservername",)))
                self.assertIn(b"Reused, TLS", again)
                self.assertIn(b"New, TLS", other)
                self.assertIn(b"New, TLS", none)

    def test_a_key_is_the_same_with_and_without_tls_and_over_kept_connections(self):
        backend = self.backend()
        gateway = self.tls_gateway(backend)
        client = self.tls_connect(gateway)
        first = client.ask(key="k", body=b"x")
        again = client.ask(key="k", body=b"x")
        plain = gateway.ask(key="k", body=b"x")
        self.assertEqual([answer.get("Idempotency-Status") for answer in (first, again, plain)],
                         ["executed", "replayed", "replayed"])
        self.assertEqual(kept_part(first), kept_part(plain))

    def test_large_bodies_both_ways(self):
        gateway = self.tls_gateway(self.backend(large_bodies.echo), *large_bodies.SETTINGS)
        large_bodies.check_both_ways(self, self.tls_connect(gateway))

    def test_a_drain_announces_the_end_of_idle_connections(self):
        gateway = self.tls_gateway(self.backend(), own=True)
        client = self.tls_connect(gateway)
        self.assertEqual(client.ask("GET", "/").status, 201)
        silent = Client(gateway.tls_port)  # in the middle of a handshake
        self.addCleanup(silent.close)
        wait_until(lambda: gateway.metrics()["once_connections_open"] == 2, what="both connections")
        gateway.stop()
        self.assertTrue(client.closed())

    def test_keys_are_agreed_on_curves_only(self):
        gateway = self.tls_gateway(self.backend())
        self.assertIn(b"New, TLS", self.s_client(gateway, "-tls1_3", "-groups", "P-384"))
        self.assertNotIn(b"New, TLS", self.s_client(gateway, "-tls1_3", "-groups", "ffdhe2048"))

    def test_keys_are_changed_in_the_middle(self):
        gateway = self.tls_gateway(self.backend())
        process = subprocess.Popen(["openssl", "s_client", "-connect", f"127.0.0.1:{gateway.tls_port}", "-CAfile",
                                    self.authority.file, "-tls1_3"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, bufsize=0)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(process.stdin.close)
        seen = bytearray()

        def read_until(mark):
            while mark not in seen:
                data = process.stdout.read(65536)
                self.assertTrue(data, bytes(seen[-500:]))
                seen.extend(data)

        read_until(b"Verify return code")
        process.stdin.write(b"K\n")  # a new key for both directions
        read_until(b"KEYUPDATE")
        process.stdin.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        read_until(b"made by attempt")


class Handshakes(OverTls):
    def wait_failed(self, gateway, count):
        """The client may know it a moment before it is counted."""
        wait_until(lambda: gateway.metrics()["once_tls_handshakes_failed_total"] == count, what=f"{count} failed handshakes")

    def test_old_versions_are_refused(self):
        gateway = self.tls_gateway(self.backend(), "tls.min_version=1.3", own=True)
        old = self.authority.trusting(maximum_version=ssl.TLSVersion.TLSv1_2)
        self.assertEqual(self.refused(gateway, context=old), "TLSV1_ALERT_PROTOCOL_VERSION")
        self.assertEqual(self.tls_connect(gateway).ask("GET", "/").status, 201)
        self.wait_failed(gateway, 1)
        gateway = self.tls_gateway(self.backend())
        self.assertEqual(self.tls_connect(gateway, context=old).ask("GET", "/").status, 201)
        old.maximum_version = ssl.TLSVersion.TLSv1_1
        old.set_ciphers("ALL:@SECLEVEL=0")
        self.refused(gateway, context=old)

    def test_only_http_1_1_is_agreed_on(self):
        gateway = self.tls_gateway(self.backend())
        for offered, agreed in ((["h2", "http/1.1"], "http/1.1"), (["http/1.1"], "http/1.1"), ([], None)):
            context = self.authority.trusting()
            context.set_alpn_protocols(offered)
            client = self.tls_connect(gateway, context=context)
            self.assertEqual(client.sock.selected_alpn_protocol(), agreed)
            self.assertEqual(client.ask("GET", "/").status, 201)
        context = self.authority.trusting()
        context.set_alpn_protocols(["h2"])
        self.assertIn("no application protocol", self.refused(gateway, context=context).lower().replace("_", " "))

    def test_a_required_client_certificate(self):
        backend = self.backend()
        gateway = self.tls_gateway(backend, f"tls.client_ca={self.authority.file}")
        good = self.authority.issue("client", subject="/O=Shop/CN=client")
        stranger = Authority(self.folder(), "stranger").issue("client")
        self.assertIn("CERTIFICATE_REQUIRED", self.refused(gateway))
        self.assertIn("UNKNOWN_CA", self.refused(gateway, context=self.authority.trusting(stranger)))
        expired = self.authority.issue("expired", days=-1)
        self.assertIn("EXPIRED", self.refused(gateway, context=self.authority.trusting(expired)))
        self.assertEqual(backend.requests, [])
        client = self.tls_connect(gateway, context=self.authority.trusting(good))
        self.assertEqual(client.ask("GET", "/").status, 201)

    def test_a_key_belongs_to_whom_the_certificate_names(self):
        backend = self.backend(lambda request, to: to.reply(201, body=str(len(backend.requests)).encode()))
        gateway = self.tls_gateway(backend, f"tls.client_ca={self.authority.file}", "tls.client_auth=optional",
                                   "defaults.caller=mtls:subject", "defaults.caller_missing=reject")
        shop, renewed = (self.authority.issue(name, subject="/O=Shop/CN=till") for name in ("first", "renewed"))
        other = self.authority.issue("other", subject="/O=Shop/CN=another till")
        answers = [self.tls_connect(gateway, context=self.authority.trusting(certificate)).ask(key="k")
                   for certificate in (shop, renewed, other)]
        self.assertEqual([answer.get("Idempotency-Status") for answer in answers], ["executed", "replayed", "executed"])
        self.assertEqual([answer.body for answer in answers], [b"1", b"1", b"2"])
        for without in (self.tls_connect(gateway), self.connect(gateway)):
            self.assertEqual(without.ask(key="k").code, "caller-required")
        self.assertEqual(len(backend.requests), 2)

    def test_a_revoked_client_certificate(self):
        clock = self.clock()
        good, revoked = (self.authority.issue(name) for name in ("good", "revoked"))
        lists = self.authority.revocation_list(revoked[0])
        gateway = self.tls_gateway(self.backend(), f"tls.client_ca={self.authority.file}", f"tls.client_crl={lists}",
                                   "tls.client_auth=optional", clock=clock)
        self.assertIn("CERTIFICATE_REVOKED", self.refused(gateway, context=self.authority.trusting(revoked)))
        good_client = self.authority.trusting(good)
        self.assertEqual(self.tls_connect(gateway, context=good_client).ask("GET", "/").status, 201)
        clock.advance(36 * 3600)  # the list is good for a day, the certificate for two
        self.assertIn("EXPIRED", self.refused(gateway, context=good_client))
        self.assertEqual(self.tls_connect(gateway).ask("GET", "/").status, 201, "who shows none has nothing revoked")

    def test_plain_http_is_told_so(self):
        backend = self.backend()
        gateway = self.tls_gateway(backend, own=True)
        with Client(gateway.tls_port) as client:
            answer = client.ask("POST", "/pay", body=b"x" * 100_000, key="k")
        self.assertEqual((answer.status, answer.code), (400, "bad-request"))
        self.assertIn("TLS", answer.problem["detail"])
        with Client(gateway.tls_port) as client:
            client.send(b"\x00\x01 nonsense")
            client.closed()
        self.assertEqual(backend.requests, [])
        self.wait_failed(gateway, 2)


class Changes(OverTls):
    said, successor, end = reload_test.Restart.said, reload_test.Restart.successor, reload_test.Restart.end

    def setUp(self):
        super().setUp()
        self.authority = Authority(self.folder())
        self.certificate, self.key = self.authority.issue("server", "DNS:localhost")

    def reload(self, gateway):
        return run_once("reload", "--admin", f"127.0.0.1:{gateway.admin_port}")

    def shown(self, gateway):
        client = self.tls_connect(gateway)
        self.assertEqual(client.ask("GET", "/").status, 201)
        return client.sock.getpeercert()["serialNumber"]

    def test_a_reload_reads_the_certificates_again(self):
        gateway = self.tls_gateway(self.backend())
        before = self.tls_connect(gateway)
        old = before.sock.getpeercert()["serialNumber"]
        self.assertEqual(before.ask("GET", "/").status, 201)
        self.authority.issue("server", "DNS:localhost")
        self.assertEqual(self.shown(gateway), old)
        self.assertEqual(self.reload(gateway).returncode, 0)
        new = self.shown(gateway)
        self.assertNotEqual(new, old)
        self.assertEqual(before.ask("GET", "/").status, 201)
        pathlib.Path(self.key).write_text("no key", encoding="ascii")
        refused = self.reload(gateway)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("there is no PEM private key in", refused.stderr)
        self.assertEqual(self.shown(gateway), new)

    def test_a_reload_reads_what_was_revoked_again(self):
        certificate = self.authority.issue("client")
        client = self.authority.trusting(certificate)
        lists = self.authority.revocation_list()
        gateway = self.tls_gateway(self.backend(), f"tls.client_ca={self.authority.file}", f"tls.client_crl={lists}")
        self.assertEqual(self.tls_connect(gateway, context=client).ask("GET", "/").status, 201)
        self.authority.revocation_list(certificate[0])
        self.assertEqual(self.reload(gateway).returncode, 0)
        self.assertIn("CERTIFICATE_REVOKED", self.refused(gateway, context=client))
        for change, message in ((lambda: self.authority.revocation_list(seconds=-3600), " expired on "),
                                (lambda: pathlib.Path(lists).write_text("nothing"), "there is no PEM revocation list"),
                                (pathlib.Path(lists).unlink, "cannot read ")):
            change()
            refused = self.reload(gateway)
            self.assertEqual(refused.returncode, 1)
            self.assertIn(message, refused.stderr)
            self.assertIn("CERTIFICATE_REVOKED", self.refused(gateway, context=client), "what was read last still holds")

    def test_a_successor_takes_over_the_socket(self):
        gateway = self.tls_gateway(self.backend(), own=True)
        port = gateway.tls_port
        self.assertEqual(self.tls_connect(gateway).ask(key="k", body=b"x").get("Idempotency-Status"), "executed")
        self.successor(gateway)
        self.assertEqual(gateway.wait(), 0)
        self.assertEqual(gateway.tls_port, port)
        self.assertEqual(self.tls_connect(gateway).ask(key="k", body=b"x").get("Idempotency-Status"), "replayed")
