"""docs/design/architecture.md and the map in CONTRIBUTING.md name what is there: functions in their files, types, folders."""
import functools
import re
import unittest

import support

PAGE = (support.ROOT / "docs" / "design" / "architecture.md").read_text()
CONTRIBUTING = (support.ROOT / "CONTRIBUTING.md").read_text()
STEP = re.compile(r"^\| (\d+) \| (?:– )?`([\w/.]+): ([\w:]+)` \|", re.MULTILINE)
NODE = re.compile(r'\w+\["([^"]*)"\]')
MEMBER = re.compile(r"\b([A-Z]\w+)::(\w+)\b")
FOLDER = re.compile(r"`((?:src|include|bindings|sim|tests|bench|examples|packaging|scripts|cmake|docs)[\w/]*)`")
NO_FOLDERS = {"build", "node_modules", "once-data"}


@functools.cache
def files():
    return [path.read_text() for folder in ("src", "include") for path in sorted((support.ROOT / folder).rglob("*.[hc]pp"))]


@functools.cache
def members():
    return {found for text in files() for found in MEMBER.findall(text)}


@functools.cache
def functions():
    return {found for text in files() for found in re.findall(r"\b(\w+)\(", text)}


def defines(text, name):
    """Whether a source has this function, constructor or member function."""
    wanted = re.escape(name) if "::" in name else rf"(?:{name}::)?{name}"
    return re.search(rf"\b{wanted}\(", text) is not None


def is_member(owner, member):
    """Defined outside of its class, or named in the file that has the class."""
    if (owner, member) in members():
        return True
    return any(re.search(rf"\b(?:class|struct|enum class) {owner}\b", text) and re.search(rf"\b{member}\b", text) for text in files())


class Architecture(unittest.TestCase):
    def test_every_step_of_a_keyed_post_is_in_its_file(self):
        steps = STEP.findall(PAGE)
        self.assertEqual([int(number) for number, *_ in steps], list(range(1, len(steps) + 1)))
        self.assertGreater(len(steps), 20)
        for number, file, name in steps:
            with self.subTest(step=number):
                self.assertTrue(defines((support.ROOT / "src" / "gateway" / file).read_text(), name), f"{file}: {name}")

    def test_every_member_that_the_page_names_is_there(self):
        named = set(MEMBER.findall(PAGE))
        self.assertGreater(len(named), 50)
        for owner, member in sorted(named):
            with self.subTest(name=f"{owner}::{member}"):
                self.assertTrue(is_member(owner, member))

    def test_every_node_of_a_graph_names_a_function(self):
        for node in NODE.findall(PAGE):
            with self.subTest(node=node):
                self.assertIn(re.match(r"(?:\w+::)*(\w+)", node)[1], functions())

    def test_the_map_in_contributing_has_every_folder_and_no_other(self):
        table = CONTRIBUTING.split("## Where things are")[1]
        named = {folder for line in table.splitlines() if line.startswith("|") for folder in FOLDER.findall(line.split("|")[1])}
        for folder in sorted(named):
            with self.subTest(folder=folder):
                self.assertTrue((support.ROOT / folder).is_dir())
        there = {path for parent in ("", "src", "src/gateway") for path in (support.ROOT / parent).iterdir() if path.is_dir()}
        missing = {str(path.relative_to(support.ROOT)) for path in there if path.name not in NO_FOLDERS and not path.name.startswith(".")}
        self.assertEqual(missing - named - {"src", "include"}, set())


if __name__ == "__main__":
    unittest.main()
