"""Clients that pay for a request when a 402 asks them to, unchanged, as npm has them: x402 and MPP. The client and its credentials are
real. The backend takes whatever payment it is shown: no chain, no facilitator and no Stripe is asked."""
import base64
import json
import os
import pathlib
import subprocess
import threading
import unittest

import npm
from harness import EndToEnd
from wire import DEADLINE, wait_until

SOURCE = pathlib.Path(__file__).resolve().parent
PROOFS = {"x402": "PAYMENT-SIGNATURE", "mppx": "Authorization"}


def encoded(document):
    return base64.urlsafe_b64encode(json.dumps(document).encode()).decode().rstrip("=")


ASKS = {
    "x402": [("PAYMENT-REQUIRED", base64.b64encode(json.dumps({
        "x402Version": 2, "error": "payment required", "resource": {"url": "http://api.test/reports", "mimeType": "application/json"},
        "accepts": [{"scheme": "exact", "network": "eip155:84532", "amount": "1000", "payTo": "0x" + "22" * 20,
                     "asset": "0x036CbD53842c5426634e7929541eC2318f3dCF7e", "maxTimeoutSeconds": 60,
                     "extra": {"name": "USDC", "version": "2"}}]}).encode()).decode())],
    "mppx": [("WWW-Authenticate", 'Payment id="c-1", realm="api.test", method="stripe", intent="charge", request="' + encoded(
        {"amount": "100", "currency": "usd", "methodDetails": {"networkId": "n", "paymentMethodTypes": ["card"]}}) + '"')],
}


class Payments(EndToEnd):
    @classmethod
    def setUpClass(cls):
        cls.packages = npm.install(SOURCE, pathlib.Path(os.environ["ONCE_SDKS_FOLDER"]), ["pay.mjs"])

    def start(self, gateway, library):
        command = ["node", "pay.mjs", library, f"http://127.0.0.1:{gateway.port}/reports", "k"]
        return subprocess.Popen(command, cwd=self.packages, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)

    def pay(self, gateway, library):
        """What the library's user gets."""
        said, _ = self.start(gateway, library).communicate(timeout=2 * DEADLINE)
        return json.loads(said.splitlines()[-1])

    def test_a_paid_request_is_executed_once_though_its_answer_was_lost(self):
        for library, proof in PROOFS.items():
            with self.subTest(library):
                go = self.gate()
                paid = []

                def handler(request, to, library=library, proof=proof, go=go, paid=paid):
                    if request.get(proof) is None:
                        to.reply(402, ASKS[library], b"{}")
                        return
                    paid.append(request.get(proof))
                    go.wait(DEADLINE)
                    to.reply(200, [("Content-Type", "application/json"), ("Payment-Receipt", f"r-{len(paid)}")], b'{"report":7}')

                gateway = self.gateway(self.backend(handler))
                with self.start(gateway, library) as lost:
                    wait_until(lambda paid=paid: paid, what="the payment")
                    lost.kill()
                got = []
                again = threading.Thread(target=lambda library=library: got.append(self.pay(gateway, library)))
                again.start()
                wait_until(lambda gateway=gateway: gateway.metrics()["once_waiting"] == 1, what="the retry to wait for the first try")
                go.set()
                again.join()
                self.assertEqual(got, [{"ok": True, "status": 200, "body": '{"report":7}'}])
                self.assertEqual(self.pay(gateway, library), got[0])
                self.assertEqual(len(paid), 1)


if __name__ == "__main__":
    unittest.main()
