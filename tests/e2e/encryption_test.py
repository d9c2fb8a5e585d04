"""Recorded responses, encrypted at rest: nothing readable on disk, keys that are changed, and one that was dropped too early."""
import os
import unittest

from harness import EndToEnd, kept_part, run_once

ANSWER = b'{"card": "4242424242424242"}'


class Encryption(EndToEnd):
    def setUp(self):
        super().setUp()
        self.data = self.folder()
        self.server = self.backend(lambda _, to: to.reply(201, [("X-Secret", "very-secret-header")], ANSWER))

    def key(self, name, text=None):
        path = self.data / name
        path.write_text((text or f"{name} of at least sixteen bytes") + "\n")
        path.chmod(0o600)
        return path

    def start(self, *keys):
        keys = f"encryption.keys=[{', '.join(map(str, keys))}]"
        return self.gateway(self.server, keys, "log.level=info", env={**os.environ, "ONCE_SECRET": "s" * 16})

    def gateway(self, backend, *settings, **named):
        return super().gateway(backend, f"store=journal:{self.data}/journal", *settings, **named)

    def on_disk(self):
        return b"".join(path.read_bytes() for path in (self.data / "journal").iterdir())

    def test_an_answer_is_replayed_after_a_restart_and_cannot_be_read_on_disk(self):
        key = self.key("key")
        gateway = self.start(key)
        first = gateway.ask(key="k", body=b"{}")
        gateway.stop()
        for word in (b"4242", b"very-secret-header"):
            self.assertNotIn(word, self.on_disk())
        again = self.start(key).ask(key="k", body=b"{}")
        self.assertEqual((again.get("Idempotency-Status"), again.body), ("replayed", ANSWER))
        self.assertEqual(kept_part(again), kept_part(first))

    def test_without_keys_it_can(self):
        gateway = self.gateway(self.server)
        gateway.ask(key="k", body=b"{}")
        gateway.stop()
        self.assertIn(b"4242", self.on_disk())

    def test_keys_are_changed_and_answers_from_before_are_still_read(self):
        old, new = self.key("old"), self.key("new")
        for keys in ((), (old,), (new, old)):
            gateway = self.start(*keys)
            gateway.ask(key=f"k{len(keys)}", body=b"{}")
            gateway.stop()
        gateway = self.start(new, old)
        for number in range(3):
            self.assertEqual(gateway.ask(key=f"k{number}", body=b"{}").get("Idempotency-Status"), "replayed")
        self.assertEqual(len(self.server.requests), 3)

    def test_an_answer_whose_key_is_gone_is_not_executed_again(self):
        gateway = self.start(self.key("old"))
        gateway.ask(key="k", body=b"{}")
        gateway.stop()
        gateway = self.start(self.key("new"))
        answer = gateway.ask(key="k", body=b"{}")
        self.assertEqual((answer.status, answer.code), (503, "store-unavailable"))
        self.assertEqual(len(self.server.requests), 1)
        self.assertIn("encryption.keys", gateway.stderr)
        line = next(line for line in gateway.log_lines() if line["message"] == "outcome cannot be decrypted")
        self.assertRegex(line["operation"], "^[0-9a-f]{16}$")

    def test_a_key_that_cannot_be_used_is_a_clear_error(self):
        for path, why in ((self.data / "missing", "No such file"), (self.key("short", "short"), "at least 16")):
            result = run_once("serve", "--upstream", "http://127.0.0.1:1", "--set", f"encryption.keys={path}",
                              env={**os.environ, "ONCE_SECRET": "s" * 16})
            self.assertEqual(result.returncode, 2)
            self.assertIn("encryption.keys", result.stderr)
            self.assertIn(why, result.stderr)


if __name__ == "__main__":
    unittest.main()
