"""`once send --stop` at a real gateway."""
import os
import pathlib
import signal
import subprocess
import tempfile
import unittest

from keyed_stream_test import Script, event
from send_stream_test import Streaming

ME = ["-H", "Authorization: Bearer me", "-H", "Content-Type: application/json"]
PROMPT = '{"prompt": "hi"}'


class SendStop(Streaming):
    def start_gateway(self, *settings, **named):
        self.script = Script()
        self.served = self.backend(self.script)
        gateway = self.gateway(self.served, *settings, **named)
        self.addCleanup(self.script.tell, False)  # before anybody waits for a stream that nobody ends
        return gateway

    def again(self, gateway, *fields):
        named = [("Host", f"127.0.0.1:{gateway.port}"), ("Idempotency-Key", "k"), ("Authorization", "Bearer me"),
                 ("Content-Type", "application/json"), *fields]
        return gateway.ask("POST", "/v1/chat", named, PROMPT.encode())

    def sends(self, gateway, *arguments, key=("--key", "k"), caller=ME):
        process = subprocess.Popen([os.environ["ONCE_BINARY"], "send", "POST", f"http://127.0.0.1:{gateway.port}/v1/chat", "-d", PROMPT, *caller,
                                    *key, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def test_once_send_stop(self):
        gateway = self.start_gateway()
        reading = self.sends(gateway, "--stream", "--retries", "100")
        self.script.tell(event(0))
        self.output(reading, len(event(0)))
        code, _, stderr = self.ended(self.sends(gateway, "--stop"))
        self.assertEqual(code, 0, stderr)
        self.assertIn("once: stopped", stderr)
        code, rest, stderr = self.ended(reading)
        self.assertEqual((code, rest), (0, b""), stderr)
        self.assertIn("stopped by its caller", stderr)
        code, _, stderr = self.ended(self.sends(gateway, "--stop"))
        self.assertEqual(code, 0, stderr)

    def test_a_stop_with_the_key_file_of_the_request(self):
        gateway = self.start_gateway()
        folder = tempfile.TemporaryDirectory(prefix="once-e2e-")
        self.addCleanup(folder.cleanup)
        file = pathlib.Path(folder.name) / "chat.key"
        code, _, stderr = self.ended(self.sends(gateway, "--stop", key=["--key-file", str(file)]))
        self.assertEqual(code, 1, stderr)
        self.assertIn(f"there is no key file {file}", stderr)
        self.assertFalse(file.exists())
        reading = self.sends(gateway, "--stream", key=["--key-file", str(file)])
        self.script.tell(event(0))
        self.output(reading, len(event(0)))
        code, _, stderr = self.ended(self.sends(gateway, "--stop", key=["--key-file", str(file)]))
        self.assertEqual(code, 0, stderr)
        self.assertIn("once: stopped", stderr)
        self.assertEqual(self.ended(reading)[0], 0)

    def test_a_stop_is_suggested_only_for_a_request_that_may_have_a_caller(self):
        gateway = self.start_gateway()
        for key, caller, suggested in ("k", ME[:2], True), ("anonymous", [], False):
            with self.subTest(key=key):
                reading = self.sends(gateway, "--stream", key=["--key", key], caller=caller)
                self.script.tell(event(0))
                self.output(reading, len(event(0)))
                reading.send_signal(signal.SIGINT)
                code, _, stderr = self.ended(reading)
                self.assertEqual(code, 130, stderr)
                self.assertIn("left; the request continues", stderr)
                self.assertIn("once: try 1: cancelled\n", stderr)
                self.assertEqual(f"--stop --key {key}" in stderr, suggested, stderr)
                self.script.tell(None)

    def test_once_send_stops_on_interrupt(self):
        gateway = self.start_gateway()
        reading = self.sends(gateway, "--stream", "--stop-on-interrupt")
        self.script.tell(event(0))
        self.output(reading, len(event(0)))
        reading.send_signal(signal.SIGINT)
        code, _, stderr = self.ended(reading)
        self.assertEqual(code, 130, stderr)
        self.assertIn("once: stopped", stderr)
        replay = self.again(gateway)
        self.assertEqual((replay.get("Idempotency-Stopped"), replay.body), ("true", event(0)))


if __name__ == "__main__":
    unittest.main()
