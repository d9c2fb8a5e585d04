"""Clients over TLS: certificates by name, versions and protocols, client certificates, and everything that also works
without it."""
import pathlib
import ssl
import subprocess
import threading

import large_bodies
import reload_test
from harness import EndToEnd, kept_part, run_once
from large_bodies import LARGE
from tls import Authority, TlsClient
from wire import DEADLINE, Client, wait_until

SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"


class OverTls(EndToEnd):
    def setUp(self):
        super().setUp()
        self.authority = Authority(self.folder())
        self.certificate, self.key = self.authority.issue("server", "DNS:localhost,DNS:*.wild.test")

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
        gateway = self.tls_gateway(backend)
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

    def test_keys_are_agreed_on_curves_only(self):
        gateway = self.tls_gateway(self.backend())
        self.assertIn(b"New, TLS", self.s_client(gateway, "-tls1_3", "-groups", "P-384"))
        self.assertNotIn(b"New, TLS", self.s_client(gateway, "-tls1_3", "-groups", "ffdhe2048"))

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

    def test_only_over_tls(self):
        gateway = self.tls_gateway(self.backend(), "listen=off")
        self.assertIsNone(gateway.port)
        self.assertEqual(self.tls_connect(gateway).ask("GET", "/").status, 201)

    def test_large_bodies_both_ways(self):
        gateway = self.tls_gateway(self.backend(large_bodies.echo), *large_bodies.SETTINGS)
        large_bodies.check_both_ways(self, self.tls_connect(gateway))

    def test_a_client_that_leaves_in_the_middle_of_a_response(self):
        def handler(_, connection):
            connection.reply(200, body=LARGE)

        gateway = self.tls_gateway(self.backend(handler))
        for leave in (Client.close, Client.reset, TlsClient.end):
            client = self.tls_connect(gateway)
            client.send_request("GET", "/")
            client.read(len(LARGE) // 2)
            leave(client)
            client.close()
        wait_until(lambda: gateway.metrics()["once_connections_open"] == 0, what="no connection")
        self.assertEqual(self.tls_connect(gateway).ask("GET", "/").status, 200)

    def test_events_come_one_by_one_and_a_client_that_leaves_is_noticed(self):
        go = self.gate()
        left = threading.Event()

        def handler(_, connection):
            connection.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n")
            go.wait()
            connection.send(b"data: 2\n\n")
            connection.stream.read_to_end()
            left.set()
            connection.close()

        client = self.tls_connect(self.tls_gateway(self.backend(handler)))
        client.send_request("GET", "/events")
        client.read_until(b"data: 1\n\n")
        go.set()
        client.read_until(b"data: 2\n\n")
        client.close()
        self.assertTrue(left.wait(DEADLINE))

    def test_a_websocket_is_a_tunnel(self):
        def handler(_, connection):
            connection.send(SWITCH + b"hello")
            connection.send(connection.stream.read(4)[::-1])
            connection.send(connection.stream.read(len(LARGE)))
            connection.close()

        client = self.tls_connect(self.tls_gateway(self.backend(handler)))
        client.send_request("GET", "/socket", [("Connection", "Upgrade"), ("Upgrade", "websocket")])
        self.assertEqual(client.read_response().status, 101)
        self.assertEqual(client.read(5), b"hello")
        client.send(b"ping")
        self.assertEqual(client.read(4), b"gnip")
        sender = threading.Thread(target=client.send, args=(LARGE,))
        sender.start()
        self.assertEqual(client.read(len(LARGE)), LARGE)
        sender.join()
        self.assertTrue(client.closed())  # announced

    def test_a_response_that_ends_with_the_connection_is_announced_and_a_broken_one_is_not(self):
        def handler(request, connection):
            connection.send(b"HTTP/1.1 200 OK\r\n" + (b"Content-Length: 99\r\n" if request.target == "/broken" else b"") +
                            b"\r\nsome")
            connection.close()

        gateway = self.tls_gateway(self.backend(handler))
        whole = self.tls_connect(gateway)
        whole.send_request("GET", "/whole", version="HTTP/1.0")
        self.assertEqual(whole.read_response("GET").body, b"some")
        broken = self.tls_connect(gateway)
        broken.send_request("GET", "/broken", version="HTTP/1.0")
        with self.assertRaises((ssl.SSLEOFError, ConnectionResetError)):
            while broken.sock.recv(1000):
                pass

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

    def test_a_drain_announces_the_end_of_idle_connections(self):
        gateway = self.tls_gateway(self.backend())
        client = self.tls_connect(gateway)
        self.assertEqual(client.ask("GET", "/").status, 201)
        silent = Client(gateway.tls_port)  # in the middle of a handshake
        self.addCleanup(silent.close)
        wait_until(lambda: gateway.metrics()["once_connections_open"] == 2, what="both connections")
        gateway.stop()
        self.assertTrue(client.closed())

    def test_hundreds_of_connections_leave_nothing_behind(self):
        gateway = self.tls_gateway(self.backend())
        context = self.authority.trusting()
        self.tls_connect(gateway).ask("GET", "/")

        def open_files():
            return gateway.metrics()["process_open_fds"]

        wait_until(lambda: gateway.metrics()["once_connections_open"] <= 1)
        before = open_files()
        for i in range(500):
            client = TlsClient(gateway.tls_port, context)
            if i % 3 == 0:
                client.send_request("GET", "/")
            if i % 5 == 0:
                client.reset()
            elif i % 5 == 1:
                client.end()
            client.close()
        wait_until(lambda: gateway.metrics()["once_connections_open"] <= 1, what="the connections to be gone")
        # Those to the backend rest for a while.
        wait_until(lambda: open_files() <= before, what="the files to be closed")


class Handshakes(OverTls):
    def wait_failed(self, gateway, count):
        """The client may know it a moment before it is counted."""
        wait_until(lambda: gateway.metrics()["once_tls_handshakes_failed_total"] == count, what=f"{count} failed handshakes")

    def test_the_certificate_for_the_name_is_shown_or_else_the_first(self):
        other = self.authority.issue("other", "DNS:other.test")
        gateway = self.tls_gateway(self.backend(), certificates=[self.certificate, other[0]], keys=[other[1], self.key])
        for name, shown in (("localhost", "server"), ("other.test", "other"), ("OTHER.test", "other"), ("a.wild.test", "server"),
                            ("unknown.test", "server"), (None, "server")):
            with self.subTest(name=name):
                ask = ["-servername", name] if name else ["-noservername"]
                done = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{gateway.tls_port}", *ask],
                                      input=b"", capture_output=True, timeout=DEADLINE)
                self.assertIn(f"subject=CN = {shown}".encode(), done.stdout)

    def test_old_versions_are_refused(self):
        gateway = self.tls_gateway(self.backend(), "tls.min_version=1.3")
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

    def test_two_authorities_may_call_two_clients_by_one_name(self):
        backend = self.backend()
        second = Authority(self.folder(), "second")
        both = self.folder() / "both.pem"
        both.write_text(pathlib.Path(self.authority.file).read_text() + pathlib.Path(second.file).read_text())
        gateway = self.tls_gateway(backend, f"tls.client_ca={both}", "defaults.caller=mtls:subject",
                                   "defaults.caller_missing=reject")
        for authority in (self.authority, second):
            certificate = authority.issue("billing")
            client = self.tls_connect(gateway, context=self.authority.trusting(certificate))
            self.assertEqual(client.ask(key="k").get("Idempotency-Status"), "executed")

    def test_an_optional_client_certificate(self):
        gateway = self.tls_gateway(self.backend(), f"tls.client_ca={self.authority.file}", "tls.client_auth=optional")
        stranger = Authority(self.folder(), "stranger").issue("client")
        good = self.authority.issue("client")
        self.assertEqual(self.tls_connect(gateway).ask("GET", "/").status, 201)
        self.assertIn("UNKNOWN_CA", self.refused(gateway, context=self.authority.trusting(stranger)))
        self.assertEqual(self.tls_connect(gateway, context=self.authority.trusting(good)).ask("GET", "/").status, 201)

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

    def test_an_authority_without_a_list_vouches_for_nobody(self):
        second = Authority(self.folder(), "second")
        both = self.folder() / "both.pem"
        both.write_text(pathlib.Path(self.authority.file).read_text() + pathlib.Path(second.file).read_text())
        gateway = self.tls_gateway(self.backend(), f"tls.client_ca={both}",
                                   f"tls.client_crl={self.authority.revocation_list()}")
        client = self.authority.trusting(self.authority.issue("client"))
        self.assertEqual(self.tls_connect(gateway, context=client).ask("GET", "/").status, 201)
        self.refused(gateway, context=self.authority.trusting(second.issue("client")))

    def test_plain_http_is_told_so(self):
        backend = self.backend()
        gateway = self.tls_gateway(backend)
        with Client(gateway.tls_port) as client:
            answer = client.ask("POST", "/pay", body=b"x" * 100_000, key="k")
        self.assertEqual((answer.status, answer.code), (400, "bad-request"))
        self.assertIn("TLS", answer.problem["detail"])
        with Client(gateway.tls_port) as client:
            client.send(b"\x00\x01 nonsense")
            client.closed()
        self.assertEqual(backend.requests, [])
        self.wait_failed(gateway, 2)

    def test_a_handshake_that_takes_too_long_is_ended(self):
        gateway = self.tls_gateway(self.backend(), "timeouts.header=200ms", "log.level=debug")
        with Client(gateway.tls_port) as client:
            self.assertTrue(client.closed())
        line = wait_until(lambda: next((line for line in gateway.log_lines() if line["message"] == "TLS handshake failed"), None))
        self.assertEqual(line["reason"], "it took too long")


class Changes(OverTls):
    said, successor, end = reload_test.Restart.said, reload_test.Restart.successor, reload_test.Restart.end

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

    def test_a_reload_reads_who_may_come_again(self):
        trusted = self.folder() / "clients.pem"
        trusted.write_bytes(pathlib.Path(self.authority.file).read_bytes())
        gateway = self.tls_gateway(self.backend(), f"tls.client_ca={trusted}")
        client = self.authority.trusting(self.authority.issue("client"))
        self.assertEqual(self.tls_connect(gateway, context=client).ask("GET", "/").status, 201)
        strangers = Authority(self.folder(), "strangers")
        trusted.write_bytes(pathlib.Path(strangers.file).read_bytes())
        self.assertEqual(self.reload(gateway).returncode, 0)
        self.assertIn("UNKNOWN_CA", self.refused(gateway, context=client))

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
        gateway = self.tls_gateway(self.backend())
        port = gateway.tls_port
        self.assertEqual(self.tls_connect(gateway).ask(key="k", body=b"x").get("Idempotency-Status"), "executed")
        self.successor(gateway)
        self.assertEqual(gateway.wait(), 0)
        self.assertEqual(gateway.tls_port, port)
        self.assertEqual(self.tls_connect(gateway).ask(key="k", body=b"x").get("Idempotency-Status"), "replayed")


class Settings(OverTls):
    def check(self, *settings, expect):
        options = [part for setting in settings for part in ("--set", setting)]
        done = run_once("check", "--upstream", "http://127.0.0.1:1", *options, folder=self.authority.folder)
        self.assertEqual(done.returncode, 2 if expect else 0, done.stderr)
        return done.stderr

    def test_mistakes_are_found_by_check(self):
        on = "tls.listen=127.0.0.1:0"
        other = self.authority.issue("other")
        with open(self.authority.path("empty.pem"), "w", encoding="ascii"):
            pass
        for settings, words in (
                (("listen=off",), "listen and tls.listen are both off"),
                ((on,), "tls.certificates is empty"),
                ((on, "tls.certificates=[none.pem]"), "tls.certificates: cannot read none.pem: No such file or directory"),
                ((on, "tls.certificates=[empty.pem]", "tls.keys=[server.key]"), "tls: there is no PEM certificate in empty.pem"),
                ((on, "tls.certificates=[server.pem]"), "tls: there is no PEM private key in server.pem"),
                ((on, "tls.certificates=[server.pem]", f"tls.keys=[{other[1]}]"), "no key matches the certificate in server.pem"),
                ((on, "tls.certificates=[server.pem]", "tls.keys=[server.key]", "tls.client_ca=none.pem"),
                 "tls.client_ca: cannot read none.pem: No such file or directory"),
                ((on, "tls.certificates=[server.pem]", "tls.keys=[server.key]", "tls.client_ca=ca.pem", "tls.client_crl=none.crl"),
                 "tls.client_crl: cannot read none.crl: No such file or directory"),
                ((on, "tls.certificates=[server.pem]", "tls.keys=[server.key]", "tls.client_ca=server.key"),
                 "tls: there are no trusted certificates in server.key: expected certificates in PEM format"),
                ((on, "tls.certificates=[server.pem]", "tls.keys=[server.key]", "tls.client_crl=x"), "tls.client_crl"),
                (("listen=127.0.0.1:9999", "tls.listen=127.0.0.1:9999", "tls.certificates=[x]"), "already used by another listener"),
                (("upstreams.default=https://localhost", "upstream_tls.ca=none.pem"), 
                 "upstream_tls.ca: cannot read none.pem: No such file or directory"),
        ):
            with self.subTest(words):
                self.assertIn(words, self.check(*settings, expect=True))

    def test_an_expired_certificate_and_a_readable_key_are_warnings(self):
        self.authority.issue("old", "DNS:localhost", days=-1)
        pathlib.Path(self.authority.path("old.key")).chmod(0o644)
        said = self.check("tls.listen=127.0.0.1:0", "tls.certificates=[old.pem]", "tls.keys=[old.key]", expect=False)
        self.assertIn("warning: tls: the certificate in old.pem expired on", said)
        self.assertIn("other users can read the key in old.key", said)
        said = self.check("upstreams.default=https://localhost", "upstream_tls.verify=no", expect=False)
        self.assertIn("upstream_tls.verify is no", said)
