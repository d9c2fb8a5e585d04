"""Links lead somewhere, configuration snippets can be served, and no page names what is not there."""
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import support

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)
SOURCE = re.compile(r"`((?:src|tests|docs|scripts|bench|cmake)/[\w./-]+)`")
NAMED = re.compile(r"(?<![\w.])docs/[\w./-]+\.(?:md|json)\b")
FOLDERS = ("src", "include", "sim", "tests", "scripts", "packaging", "bindings", "examples", "cmake", "bench")
TEXT = {".cpp", ".hpp", ".h", ".c", ".py", ".ts", ".js", ".mjs", ".txt", ".cmake", ".in", ".yml", ".yaml", ".sh", ".json", ".service"}


def sources():
    return [path for folder in FOLDERS for path in sorted((support.ROOT / folder).rglob("*"))
            if path.suffix in TEXT and "node_modules" not in path.parts]


def anchor(heading):
    """As GitHub and GitLab make them."""
    plain = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", lambda match: match[1] or "", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def without_code(text):
    return support.FENCE.sub("", text)


class Pages(unittest.TestCase):
    def test_every_relative_link_resolves(self):
        looked_at = 0
        beside = [page for folder in ("bindings", "examples") for page in sorted((support.ROOT / folder).glob("*/*.md"))]
        for page in [*support.pages(), *beside]:
            for link in LINK.findall(without_code(page.read_text())):
                if re.match(r"\w+:", link):
                    continue
                path, _, fragment = link.partition("#")
                target = (page.parent / path).resolve() if path else page
                with self.subTest(page=str(page.relative_to(support.ROOT)), link=link):
                    self.assertTrue(target.exists(), "no such file")
                    if fragment:
                        self.assertIn(fragment, [anchor(heading) for heading in HEADING.findall(target.read_text())])
                looked_at += 1
        self.assertGreater(looked_at, 20)

    def test_every_file_named_in_code_font_exists(self):
        for page in support.pages():
            for name in SOURCE.findall(page.read_text()):
                with self.subTest(page=str(page.relative_to(support.ROOT)), file=name):
                    self.assertTrue((support.ROOT / name).exists())

    def test_every_page_that_a_source_names_exists(self):
        looked_at = 0
        for path in sources():
            for name in NAMED.findall(path.read_text()):
                with self.subTest(file=str(path.relative_to(support.ROOT)), page=name):
                    self.assertTrue((support.ROOT / name).exists())
                looked_at += 1
        self.assertGreater(looked_at, 50)

    def test_every_page_is_in_an_index(self):
        """In docs/README.md, or in the README.md of its folder, which is in that one."""
        linked = {index.parent: {(index.parent / link.partition("#")[0]).resolve() for link in LINK.findall(index.read_text())}
                  for index in sorted(support.DOCS.rglob("README.md"))}
        for page in sorted(support.DOCS.rglob("*.md")):
            index = support.DOCS if page.name == "README.md" else page.parent
            if page != support.DOCS / "README.md":
                with self.subTest(page=str(page.relative_to(support.ROOT))):
                    self.assertIn(page, linked.get(index, linked[support.DOCS]))

    def test_llms_txt_has_every_page_of_the_four_sections(self):
        text = (support.ROOT / "llms.txt").read_text()
        linked = {support.ROOT / link for link in LINK.findall(text)}
        for page in linked:
            self.assertTrue(page.exists(), page)
        for section in ("start", "guides", "operate", "reference"):
            for page in sorted((support.DOCS / section).rglob("*.md")):
                index = page.parent / "README.md"
                with self.subTest(page=str(page.relative_to(support.ROOT))):
                    self.assertIn(index if index.exists() else page, linked)

    def test_the_index_fits_a_screen(self):
        self.assertLessEqual(len((support.DOCS / "README.md").read_text().splitlines()), 50)

    def test_every_yaml_snippet_passes_once_check(self):
        looked_at = 0
        for page in support.pages():
            for line, text in support.blocks(page, "yaml"):
                if "apiVersion:" in text:  # a manifest; tests/docs/manifests.py looks at it
                    continue
                with self.subTest(page=str(page.relative_to(support.ROOT)), line=line), \
                        tempfile.TemporaryDirectory() as folder:
                    file = pathlib.Path(folder) / "once.yaml"
                    (file.parent / "conf.d").mkdir()
                    file.write_text(support.with_files(text, folder))
                    # One that is not a whole configuration need not say where the backend is, or who a caller is.
                    backend = [] if "upstreams:" in text else ["--upstream", "http://127.0.0.1:9000",
                                                               "--set", "defaults.caller_missing=reject"]
                    named = dict.fromkeys(re.findall(r"\$\{(\w+)\}", text), "example")
                    done = subprocess.run([support.ONCE, "check", "--config", str(file), *backend],
                                          capture_output=True, text=True,
                                          env={**os.environ, **named, "ONCE_SECRET": "0123456789abcdef"})  # a service's own
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertEqual(done.stderr, "", "a snippet to copy has no warnings")
                looked_at += 1
        self.assertGreater(looked_at, 2)

    def test_the_examples_pass_once_check_without_a_warning(self):
        # Agents name themselves in a header, as the example's clients do; that it is no proof is its point.
        meant = {"agents": "clients can set this header themselves"}
        files = sorted((support.ROOT / "examples").glob("*/once.yaml"))
        self.assertGreater(len(files), 1)
        with tempfile.TemporaryDirectory() as folder:
            for name in ("jwt.secret", "launchbase.token"):
                secret = pathlib.Path(folder) / name
                secret.write_text("0123456789abcdef0123456789abcdef\n")
                secret.chmod(0o600)
            for file in files:
                with self.subTest(file=str(file.relative_to(support.ROOT))):
                    # What their `run` adds: a store on a server, and the secret of tokens.
                    done = subprocess.run([support.ONCE, "check", "--config", str(file), "--store", "postgres://127.0.0.1/once",
                                           "--set", "jwt.secrets=jwt.secret"], capture_output=True, text=True, cwd=folder,
                                          env={**os.environ, "ONCE_SECRET": "0123456789abcdef",
                                               "ONCE_ADMIN_TOKEN": "0123456789abcdef"})
                    known = meant.get(file.parent.name)
                    warnings = [line for line in done.stderr.splitlines() if known is None or known not in line]
                    self.assertEqual((done.returncode, warnings), (0, []))


if __name__ == "__main__":
    unittest.main()
