"""The curl session in README.md and the one that `once demo` prints are run, and give what is written there."""
import re
import unittest

import support
from guide import pattern, steps


def status_of(answer):
    return int(re.match(r"HTTP/1\.1 (\d{3})", answer)[1])


class ReadmeSession(unittest.TestCase):
    def test_readme_session_gives_what_it_shows(self):
        sessions = [text for _, text in support.blocks(support.ROOT / "README.md", "console") if "$ curl" in text]
        self.assertEqual(len(sessions), 1, "README.md has one curl session")
        session = steps(sessions[0])
        self.assertIn("Idempotency-Replayed: true", session[-1][1], "the session ends in a replay")
        with support.demo() as demo:
            for command, expected in session:
                answer = support.shell(command.replace(support.README_ADDRESS, demo.address))
                with self.subTest(command=command):
                    self.assertIsNotNone(pattern(expected).fullmatch(answer.strip()), answer)


class DemoSession(unittest.TestCase):
    def test_printed_session_ends_in_a_replay_and_modes_do_what_they_say(self):
        with support.demo() as demo:
            lines = demo.curl_lines()
            first, listed, again = (support.shell(line) for line in lines[:3])
            self.assertEqual(status_of(first), 201)
            self.assertIn("Idempotency-Status: executed", first)
            self.assertIn('"count":1', listed)
            self.assertEqual(status_of(again), 201)
            self.assertIn("Idempotency-Replayed: true", again)
            self.assertEqual(first.split("\n\n")[1], again.split("\n\n")[1])
            wanted = {"slow": [201, 201], "fail": [500, 201], "flaky": [502, 409], "refuse": [429, 429]}
            modes = {re.search(r"mode=(\w+)", line)[1]: line for line in lines[3:]}
            self.assertEqual(modes.keys(), wanted.keys())
            for mode, line in modes.items():
                with self.subTest(mode=mode):
                    self.assertEqual([status_of(support.shell(line)) for _ in range(2)], wanted[mode])
            self.assertIn('"count":4', support.shell(lines[1]), "flaky paid once, refuse never")


if __name__ == "__main__":
    unittest.main()
