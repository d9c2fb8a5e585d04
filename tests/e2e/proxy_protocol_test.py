"""The PROXY protocol: a load balancer that only passes bytes on says whose connection it is. HAProxy sends real headers, the
tests those that it would not."""
import contextlib
import pathlib
import shutil
import socket
import struct
import subprocess
import tempfile
import unittest

from harness import EndToEnd, run_once
from tls import Authority, ClientSocket
from wire import DEADLINE, Client, Stream, wait_until

BALANCER = "127.0.0.1"  # whence connections to the gateway come
CLIENT = "127.0.0.5"    # a client of HAProxy: loopback is a whole network
SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
HEADER = b"PROXY TCP4 192.0.2.1 192.0.2.9 4711 443\r\n"


def version_2(address, command=1, family=0x11, extra=b""):
    body = socket.inet_aton(address) + socket.inet_aton("192.0.2.9") + struct.pack(">HH", 4711, 443) if address else b""
    return SIGNATURE + bytes([0x20 | command, family]) + struct.pack(">H", len(body + extra)) + body + extra


class HaProxy:
    """Passes connections on to `port`, with a header before them."""

    def __init__(self, port, how):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="once-e2e-"))
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        (self.folder / "haproxy.cfg").write_text(
            "global\n  maxconn 100\ndefaults\n  mode tcp\n  timeout connect 1m\n  timeout client 10m\n  timeout server 10m\n"
            f"listen all\n  bind 127.0.0.1:{self.port}\n  server once 127.0.0.1:{port} {how}\n")
        self._err = open(self.folder / "stderr", "wb")
        self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "haproxy", "-db", "-f", self.folder / "haproxy.cfg"],
                                        stdin=subprocess.DEVNULL, stdout=self._err, stderr=self._err)
        wait_until(self._listens, what="haproxy to listen")

    def _listens(self):
        if self.process.poll() is not None:
            raise AssertionError((self.folder / "stderr").read_text())
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port), 1).close()
            return True
        return False

    def stop(self):
        self.process.kill()
        self.process.wait()
        self._err.close()
        shutil.rmtree(self.folder)


class FromElsewhere(Client):
    """A client whose address is not that of everybody else here."""

    def __init__(self, port, address=CLIENT):
        Stream.__init__(self, socket.create_connection(("127.0.0.1", port), DEADLINE, source_address=(address, 0)))


class Proxied(EndToEnd):
    def proxied(self, *settings, backend=None, listener="listen", **named):
        self.backend_ = backend or self.backend()
        return self.gateway(self.backend_, f"proxy_protocol.{listener}=yes", f"proxy_protocol.from=[{BALANCER}]", *settings, **named)

    def haproxy(self, port, how):
        balancer = HaProxy(port, how)
        self.addCleanup(balancer.stop)
        return balancer

    def introduced(self, gateway, header=HEADER):
        client = self.connect(gateway)
        client.send(header)
        return client

    def forwarded(self):
        return self.backend_.requests[-1].get("X-Forwarded-For")

    def refused(self, gateway, reason):
        return gateway.metrics()[f'once_proxy_protocol_refused_total{{reason="{reason}"}}']


class Real(Proxied):
    def test_the_client_is_the_one_that_haproxy_names(self):
        gateway = self.proxied("log.access=yes")
        for number, how in enumerate(("send-proxy", "send-proxy-v2", "send-proxy-v2 proxy-v2-options crc32c")):
            with self.subTest(how):
                balancer = self.haproxy(gateway.port, how)
                with FromElsewhere(balancer.port) as client:
                    for key in None, f"key-{number}":
                        self.assertEqual(client.ask(key=key, body=b"{}").status, 201)
                        self.assertEqual(self.forwarded(), CLIENT)
        self.assertEqual([self.refused(gateway, reason) for reason in ("malformed", "untrusted", "late")], [0, 0, 0])

    def test_it_comes_before_the_tls_handshake(self):
        authority = Authority(self.folder())
        certificate, key = authority.issue("server", "DNS:localhost")
        gateway = self.proxied("tls.listen=127.0.0.1:0", f"tls.certificates=[{certificate}]", f"tls.keys=[{key}]", listener="tls")
        for how in "send-proxy", "send-proxy-v2":
            with self.subTest(how):
                balancer = self.haproxy(gateway.tls_port, how)
                client = FromElsewhere(balancer.port)
                self.addCleanup(client.close)
                context = authority.trusting()
                context.sslsocket_class = ClientSocket
                client.sock = context.wrap_socket(client.sock, server_hostname="localhost", suppress_ragged_eofs=False)
                client.sock.take_turns(DEADLINE)
                self.assertEqual(client.ask(key=how, body=b"{}").status, 201)
                self.assertEqual(self.forwarded(), CLIENT)
                self.assertEqual(self.backend_.requests[-1].get("X-Forwarded-Proto"), "https")
        self.assertEqual(gateway.ask("GET", "/").status, 201, "the other port is as it was")
        self.assertEqual(self.forwarded(), BALANCER)


class Headers(Proxied):
    def test_a_client_that_the_proxy_does_not_know_has_no_address(self):
        gateway = self.proxied(f"trusted_proxies=[{BALANCER}, unix]", "limits.address.new_keys=1")
        unix = SIGNATURE + b"\x21\x31\x00\xd8" + b"x" * 216
        for header in b"PROXY UNKNOWN\r\n", version_2("", family=0), unix:
            with self.subTest(header):
                client = self.introduced(gateway, header)
                claims = [("X-Forwarded-For", "198.51.100.1"), ("X-Real-IP", "198.51.100.1")]
                self.assertEqual(client.ask("GET", "/", claims).status, 201)
                self.assertEqual((self.forwarded(), self.backend_.requests[-1].get("X-Real-IP")), (None, None),
                                 "it is not the proxy, so nobody believes it")
        asked = [client.ask(key=f"k{number}", body=b"{}").status for number in range(5)]
        self.assertIn(429, asked, "all of them together are limited like one address")

    def test_what_is_malformed_is_closed_counted_and_logged(self):
        backend = self.backend()
        gateway = self.proxied(backend=backend)
        wrong = (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"\x16\x03\x01\x02\x00\x01", b"PROXY TCP4 1.2.3.4\r\n", SIGNATURE + b"\x11",
                 b"PROXY TCP4 192.0.2.1 192.0.2.9 4711 443\n", b"PROXY " + b"x" * 200)
        for header in wrong:
            with self.subTest(header):
                client = self.introduced(gateway, header)
                self.assertTrue(client.closed())
        client = self.connect(gateway)
        client.send(HEADER[:20])
        client.sock.shutdown(socket.SHUT_WR)
        self.assertTrue(client.closed())
        wait_until(lambda: self.refused(gateway, "malformed") == len(wrong) + 1)
        lines = [line for line in gateway.log_lines() if line["message"] == "connection refused, no PROXY header"]
        self.assertEqual({(line["level"], line["peer"], line["reason"]) for line in lines}, {("warn", BALANCER, "malformed")})
        self.assertEqual(backend.received, b"")
        # Who only looks whether somebody listens is no error.
        self.connect(gateway).close()
        self.assertEqual(self.introduced(gateway).ask("GET", "/").status, 201)
        self.assertEqual(self.refused(gateway, "malformed"), len(wrong) + 1)

    def test_others_are_refused(self):
        authority = Authority(self.folder())
        certificate, key = authority.issue("server", "DNS:localhost")
        gateway = self.proxied("tls.listen=127.0.0.1:0", f"tls.certificates=[{certificate}]", f"tls.keys=[{key}]",
                               "proxy_protocol.tls=yes")
        for header in b"", HEADER:
            with FromElsewhere(gateway.port) as client:
                client.send(header)
                answer = client.read_response()
                self.assertEqual((answer.status, answer.code), (403, "forbidden"))
                self.assertTrue(client.closed())
            with FromElsewhere(gateway.tls_port) as client:
                client.send(header)
                self.assertTrue(client.closed())
        self.assertEqual(self.refused(gateway, "untrusted"), 4)
        self.assertEqual(self.backend_.received, b"")


class Settings(Proxied):
    def test_a_reload_changes_it(self):
        backend = self.backend()
        text = f"upstreams: {{a: http://127.0.0.1:{backend.port}}}\n"
        gateway = self.gateway(backend, config=text)
        self.assertEqual(gateway.ask("GET", "/").status, 201)
        (gateway.folder / "once.yaml").write_text(text + f"proxy_protocol: {{listen: yes, from: [{BALANCER}]}}\n")
        done = run_once("reload", "--admin", f"127.0.0.1:{gateway.admin_port}")
        self.assertEqual(done.returncode, 0, done.stderr)
        client = self.introduced(gateway)
        self.assertEqual(client.ask("GET", "/").status, 201)
        self.assertEqual(backend.requests[-1].get("X-Forwarded-For"), "192.0.2.1")


if __name__ == "__main__":
    unittest.main()
