"""docs/design/requirements.md: every row names a test, and every test, file and setting that it names is there."""
import ast
import functools
import re
import unittest

import support

PAGE = support.ROOT / "docs" / "design" / "requirements.md"
CODE = re.compile(r"`([^`]+)`")
GTEST = re.compile(r"^TEST(?:_F|_P)?\((\w+), (\w+)\)", re.MULTILINE)
SETTING = re.compile(r"([a-z_]+(?:\.[a-z_]+)*): \S.*")
FILE = re.compile(r"(?:src|tests|docs|scripts|bench|sim|include|bindings|clients|examples|packaging)/[\w./-]+")


def rows(text):
    """(section, line, cells) of every row of every table."""
    section = None
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("## "):
            section = line[3:]
        elif line.startswith("|") and not re.match(r"\|( --- \|)+$", line):
            yield section, number, [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


@functools.cache
def built(folder, name):
    """Whether the build knows this test: by the CMakeLists.txt of its folder, or of the nearest one above it."""
    while not (folder / "CMakeLists.txt").exists():
        folder = folder.parent
    return re.search(rf"\b{re.escape(name)}\b", (folder / "CMakeLists.txt").read_text()) is not None


@functools.cache
def python_tests():
    found = set()
    for path in sorted((support.ROOT / "tests").rglob("*_test.py")):
        if not built(path.parent, path.stem.removesuffix("_test")):
            continue
        for each in ast.parse(path.read_text()).body:
            if isinstance(each, ast.ClassDef):
                found |= {f"{path.stem}.{each.name}.{item.name}" for item in each.body
                          if isinstance(item, ast.FunctionDef) and item.name.startswith("test")}
    return found


@functools.cache
def cpp_tests():
    files = [path for path in sorted((support.ROOT / "tests").rglob("*_test.cpp")) if built(path.parent, path.name)]
    return {f"{suite}.{case}" for path in files for suite, case in GTEST.findall(with_headers(path))}


@functools.cache
def with_headers(path):
    """The text of a test, and of the headers among the tests that it includes: a suite for every store is in some."""
    text = path.read_text()
    headers = re.findall(r'^#include "(tests/[^"]+)"$', text, re.MULTILINE)
    return "".join([text, *(with_headers(support.ROOT / header) for header in headers)])


@functools.cache
def settings():
    return support.settings()


def is_test(name):
    return name in python_tests() or name in cpp_tests()


def findings(text):
    """(line, what is wrong)"""
    for section, number, cells in rows(text):
        if cells[-1] == "proven by":
            continue
        if len(cells) != 3 or not all(cells):
            yield number, f"not required, met by, proven by: {cells}"
            continue
        proofs = CODE.findall(cells[2])
        if not proofs:
            yield number, f"no test: {cells[0]}"
        # A suite in another language is named by its file.
        yield from ((number, f"no such test: {name}") for name in proofs
                    if not is_test(name) and not (name.startswith("tests/") and (support.ROOT / name).is_file()))
        for name in CODE.findall(cells[1]):
            if FILE.fullmatch(name) and not (support.ROOT / name).exists():
                yield number, f"no such file: {name}"
            if (setting := SETTING.fullmatch(name)) and setting[1] not in settings():
                yield number, f"no such setting: {name}"


class Requirements(unittest.TestCase):
    def test_every_row_names_tests_files_and_settings_that_exist(self):
        self.assertEqual(list(findings(PAGE.read_text())), [])

    def test_every_section_has_rows(self):
        text = PAGE.read_text()
        sections = re.findall(r"^## (.*)$", text, re.MULTILINE)
        self.assertGreaterEqual(len(sections), 2)
        counted = [section for section, *_ in rows(text)]
        for section in sections:
            self.assertGreater(counted.count(section), 5, section)

    def test_what_is_wrong_is_found(self):
        good = ("| x | `ttl: 24h` in `tests/docs/requirements_test.py` | "
                "`requirements_test.Requirements.test_every_section_has_rows` |")
        self.assertEqual(list(findings(good)), [])
        for before, after, what in (
                ("`requirements_test.Requirements.test_every_section_has_rows`", "somehow", "no test"),
                ("test_every_section", "test_no_section", "no such test"),
                ("requirements_test.R", "another_test.R", "no such test"),
                ("tests/docs/requirements_test.py", "tests/docs/nothing_test.py", "no such file"),
                ("ttl", "tll", "no such setting"),
                ("| x |", "|", "not required")):
            with self.subTest(what=what):
                (_, text), = findings(good.replace(before, after, 1))
                self.assertTrue(text.startswith(what), text)


if __name__ == "__main__":
    unittest.main()
