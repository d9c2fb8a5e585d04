"""once.send(), and clients of the claims API over TLS, through real gateways."""
import ssl
import unittest
import warnings

from support import ClaimsTest
from tls import Authority

from once import ClaimsClient, NotAnswered, OnceWarning, send, sending


class Send(ClaimsTest):
    def setUp(self):
        super().setUp()
        sending._warned.clear()

    def https(self, backend):
        """A gateway that speaks TLS, and the authority to trust."""
        authority = Authority(self.folder())
        certificate, key = authority.issue("server", "DNS:localhost")
        gateway = self.gateway(backend, "tls.listen=127.0.0.1:0", f"tls.certificates=[{certificate}]", f"tls.keys=[{key}]")
        return f"https://localhost:{gateway.tls_port}", authority

    def warned(self, act):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            act()
        return [str(each.message) for each in seen if each.category is OnceWarning]

    def test_through_a_gateway(self):
        backend = self.backend()
        url = f"http://127.0.0.1:{self.gateway(backend).port}/orders?x=1"

        def story():
            first = send(url, "é", headers={"Content-Type": "text/plain"})
            again = send(url, "é".encode(), headers={"content-type": "text/plain", "idempotency-key": first.key})
            self.assertEqual((first.status, first.replayed, again.replayed, again.key), (201, False, True, first.key))
            self.assertEqual((again.body, again.tries), (first.body, 1))
            self.assertEqual(send(url, b"other", key=first.key).status, 422)

        self.assertEqual(self.warned(story), [])
        self.assertEqual([request.body for request in backend.requests], ["é".encode()])

    def test_over_tls(self):
        url, authority = self.https(self.backend())
        self.assertEqual(send(url, b"x", ca_file=authority.file).status, 201)
        self.assertEqual(send(url, b"x", ssl_context=authority.trusting()).status, 201)
        with self.assertRaises(NotAnswered) as raised:
            send(url, b"x")
        self.assertFalse(raised.exception.sent)
        self.assertIsInstance(raised.exception.__cause__, ssl.SSLCertVerificationError)

    def test_claims_over_tls(self):
        _, api = self.start(tokens={"acme": "a" * 20})

        class Front:
            port = int(api.address.rsplit(":", 1)[1])
            origin = api.url

        url, authority = self.https(Front)
        once = ClaimsClient(url + "/", "a" * 20, ca_file=authority.file)
        self.assertEqual(once.run(lambda: 7, scope="jobs", key="k").value, 7)
        self.assertTrue(once.run(self.fail, scope="jobs", key="k").cached)
        distrusting = ClaimsClient(url, "a" * 20).run(self.fail, scope="jobs", key="k")
        self.assertEqual(distrusting.status, "unavailable")
        self.assertIsInstance(distrusting.error, ssl.SSLCertVerificationError)

    def test_mistakes_say_what_to_do(self):
        for act, text in ((lambda: send("localhost/x"), "begins with http:// or https://"),
                          (lambda: send("http://localhost/", open), "read it first"),
                          (lambda: ClaimsClient("localhost:8082"), "https://HOST"),
                          (lambda: ClaimsClient("http://localhost", ca_file="x"), "https://"),
                          (lambda: ClaimsClient("http://localhost").claim(scope="s"), "key= or inputs="),
                          (lambda: ClaimsClient("http://localhost").claim(scope="s", key="k", wait="soon"), "such as \"30s\""),
                          (lambda: ClaimsClient("https://localhost", ca_file="x", ssl_context=ssl.create_default_context()), "not both")):
            with self.assertRaisesRegex((TypeError, ValueError), text):
                act()


if __name__ == "__main__":
    unittest.main()
