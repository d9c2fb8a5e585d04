"""What commands say to somebody who got their options wrong, or who asks the wrong address."""
import unittest

from harness import EndToEnd, run_once
from wire import created


class WrongWords(EndToEnd):
    def test_an_unknown_command_is_answered_with_those_that_exist(self):
        for words, known in ((("keys", "frob"), ("`once keys`", "list, show, find, release, resolve, forget, stop, export")),
                             (("journal", "frob"), ("`once journal`", "verify, repair")),
                             (("frob",), ("`once`", "serve", "keys", "version"))):
            done = run_once(*words)
            self.assertEqual((done.returncode, done.stdout), (2, ""), words)
            for word in ('unknown command "frob"', *known):
                self.assertIn(word, done.stderr)
        self.assertIn('did you mean "list"?', run_once("keys", "lst").stderr)
        self.assertIn('did you mean "serve"?', run_once("serv").stderr)

    def test_a_configuration_without_a_name_is_refused(self):
        for command in ("serve", "check", "sweep"):
            with self.subTest(command):
                done = run_once(command, "--config", "")
                self.assertEqual(done.returncode, 2, done)
                self.assertIn("--config: the name of the file is empty", done.stderr)

    def test_a_password_in_the_url_of_a_backend_is_not_shown(self):
        folder = self.folder()
        for url in ("http://robin:pa55word@backend:9000", "http://pa55word@backend", "ftp://robin:pa55word@backend",
                    "robin:pa55word@backend", "http://backend/?token=pa55word", "http://robin:pa55@pa55word@backend/base"):
            (folder / "url.yaml").write_text(f"upstreams: {{default: '{url}'}}\n")
            (folder / "servers.yaml").write_text(f"upstreams: {{default: {{servers: ['{url}']}}}}\n")
            for options in (("--upstream", url), ("--set", f"upstreams.default={url}"), ("--config", "url.yaml"),
                            ("--config", "servers.yaml")):
                with self.subTest(url=url, options=options):
                    done = run_once("check", *options, folder=folder)
                    self.assertEqual(done.returncode, 2, done)
                    self.assertNotIn("pa55", done.stdout + done.stderr)
                    self.assertIn("***", done.stderr)

    def test_check_takes_the_file_by_itself(self):
        folder = self.folder()
        (folder / "once.yaml").write_text("upstreams: {a: http://a}\n")
        self.assertEqual(run_once("check", "once.yaml", folder=folder).returncode, 0)
        done = run_once("check", "once.yaml", "--config", "once.yaml", folder=folder)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("--config", done.stderr)
        self.assertEqual(run_once("check", "missing.yaml", folder=folder).returncode, 2)

    def test_a_store_that_needs_no_sweeping_is_not_swept(self):
        for store in ("redis://user:pa55word@127.0.0.1:1", "memory:", "journal:x"):
            with self.subTest(store):
                done = run_once("sweep", "--store", store)
                self.assertEqual((done.returncode, done.stdout), (2, ""), done)
                self.assertIn("needs no sweeping: it removes expired records itself", done.stderr)
                self.assertNotIn("pa55word", done.stderr)


class WrongAddress(EndToEnd):
    def test_the_address_for_clients_is_not_taken_for_the_admin_interface(self):
        backend = self.backend(created)
        gateway = self.gateway(backend)
        for backend_is_down in (False, True):
            if backend_is_down:
                backend.stop_listening()
            for command in (("reload",), ("reload", "--dry-run"), ("keys", "list"), ("health",)):
                with self.subTest(command=command, backend_is_down=backend_is_down):
                    done = run_once(*command, "--admin", f"127.0.0.1:{gateway.port}")
                    self.assertEqual((done.returncode, done.stdout), (2, ""), done)
                    self.assertIn(f"127.0.0.1:{gateway.port} answers as the address for clients does", done.stderr)
        for command in (("reload",), ("keys", "list"), ("health",)):
            self.assertEqual(run_once(*command, "--admin", f"127.0.0.1:{gateway.admin_port}").returncode, 0)


if __name__ == "__main__":
    unittest.main()
