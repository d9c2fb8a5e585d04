"""The manual has what --help has, for every command, and man takes it without a complaint."""
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import support

OPTION = re.compile(r"^  (-[^ ]+)", re.MULTILINE)
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
        subprocess.run([support.ROOT / "scripts" / "manual", support.ONCE, cls.folder], check=True)
        cls.pages = {"-".join(("once", *command)) + ".1": command for command in ((), *commands())}

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def plain(self, name):
        done = subprocess.run(["mandoc", "-Tascii", "-Owidth=500", self.folder / name], capture_output=True, text=True, check=True)
        return re.sub(r".\x08", "", done.stdout)

    def test_every_command_has_its_page(self):
        self.assertLessEqual({"once.1", "once-serve.1", "once-journal-verify.1"}, set(self.pages))
        self.assertEqual({path.name for path in self.folder.iterdir()}, set(self.pages))

    def test_every_option_of_every_command_is_on_its_page(self):
        looked_at = 0
        for name, command in self.pages.items():
            page = self.plain(name)
            self.assertRegex(page, rf"(?m)^NAME\n +{name.removesuffix('.1')} - ")
            for option in OPTION.findall(section(help_of(*command), "Options")):
                with self.subTest(command=command, option=option):
                    self.assertRegex(page, rf"(?m)^ +{re.escape(option)}(?: |$)")
                looked_at += 1
        self.assertGreater(looked_at, 40)

    def test_nothing_to_complain_about(self):
        for path in sorted(self.folder.iterdir()):
            with self.subTest(page=path.name):
                done = subprocess.run(["mandoc", "-Tlint", "-W", "error", path], capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stdout), (0, ""))
                done = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", path], capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
