"""The manual has what --help has, for every command, and man takes it without a complaint."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import support

OPTION = re.compile(r"^  (-[^ ]+)(?: ([^ ].*?))?(?:  |$)", re.MULTILINE)
COMMAND = re.compile(r"^  ([a-z]+) +\S", re.MULTILINE)


def help_of(*command):
    return subprocess.run([support.ONCE, *command, "--help"], capture_output=True, text=True, check=True).stdout


def section(text, name):
    return text.split(f"\n{name}:\n", 1)[1].split("\n\n", 1)[0] if f"\n{name}:\n" in text else ""


def commands(*above):
    """Every command that --help leads to."""
    for name in COMMAND.findall(section(help_of(*above), "Subcommands")):
        yield (*above, name)
        yield from commands(*above, name)


class Manual(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="once-manual-"))
        subprocess.run([os.environ["ONCE_MANUAL"], str(cls.folder), "--date", "2026-01-02"], check=True)
        cls.all = list(commands())

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def page(self, name):
        return subprocess.run(["mandoc", "-Tutf8", "-Owidth=500", str(self.folder / name)], capture_output=True, text=True,
                              check=True).stdout.replace("\b", "")

    def plain(self, name):
        done = subprocess.run(["mandoc", "-Tascii", "-Owidth=500", str(self.folder / name)], capture_output=True, text=True, check=True)
        return re.sub(r".\x08", "", done.stdout)

    def test_every_command_has_its_page(self):
        self.assertIn(("serve",), self.all)
        self.assertIn(("journal", "verify"), self.all)
        pages = {f"once-{command[0]}.1" for command in self.all} | {"once.1", "once.yaml.5"}
        self.assertEqual({path.name for path in self.folder.iterdir()}, pages)

    def test_every_option_of_every_command_is_on_its_page(self):
        looked_at = 0
        for command in [(), *self.all]:
            page = self.plain(f"once-{command[0]}.1" if command else "once.1")
            if len(command) > 1:
                page = page.split("once " + " ".join(command) + "\n", 1)[1]
            for names, value in OPTION.findall(section(help_of(*command), "Options")):
                line = ", ".join(names.split(","))
                value = re.split(r"(?:Needs|Excludes):| REQUIRED", value.removesuffix(" ..."))[0].strip()
                with self.subTest(command=command, option=line):
                    self.assertRegex(page, rf"(?m)^ +{re.escape(line)}{' ' + re.escape(value) if value else ''}(?: |$)")
                looked_at += 1
        self.assertGreater(looked_at, 40)

    def test_every_setting_is_in_the_page_of_the_file(self):
        page = self.plain("once.yaml.5")
        names = [name for file in sorted((support.ROOT / "docs/reference/configuration").glob("*.md"))
                 for name in re.findall(r"^### `([\w.]+)`$", file.read_text(), re.MULTILINE)]
        self.assertGreater(len(names), 100)
        for name in names:
            with self.subTest(setting=name):
                self.assertRegex(page, rf"(?m)^ +{re.escape(name)}(?: |$)")

    def test_nothing_to_complain_about(self):
        for path in sorted(self.folder.iterdir()):
            with self.subTest(page=path.name):
                done = subprocess.run(["mandoc", "-Tlint", "-W", "warning", str(path)], capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stdout), (0, ""))
                done = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", str(path)], capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_exit_codes_are_a_section(self):
        self.assertRegex(self.plain("once-serve.1"), r"EXIT STATUS\n +0 stopped by a signal")

    def test_the_program_itself_does_not_write_it(self):
        done = subprocess.run([support.ONCE, "manual", str(self.folder)], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (2, ""))


if __name__ == "__main__":
    unittest.main()
