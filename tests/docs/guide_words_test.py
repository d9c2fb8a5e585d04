"""What the pages that are followed name is there: metrics, settings, alerts."""
import json
import re
import unittest

import guide
import support

REMOVED = re.compile(r"^\| setting \| instead \|\n(?:\|.*\n)+", re.MULTILINE)


class Words(unittest.TestCase):
    """What the pages name is there."""

    def test_every_metric_named_is_a_metric(self):
        documented = set(re.findall(r"`(once_\w+)`", (support.ROOT / "docs" / "reference" / "metrics.md").read_text()))
        for page in support.guides():
            for name in re.findall(r"`(once_\w+)[`{]", page.read_text()):
                with self.subTest(page=page.name, metric=name):
                    self.assertTrue(name in documented or re.fullmatch(r"once_(finish|claim|fail|renew|release|schema)", name))

    def test_every_setting_named_is_a_setting(self):
        """`record.statuses` and the like, where a page writes them with their section."""
        known = support.settings()
        sections = {name.split(".")[0] for name in known if "." in name}
        for page in support.guides():
            text = REMOVED.sub("", guide.BLOCK.sub("", page.read_text()))
            for name in re.findall(r"`((?:" + "|".join(sections) + r")\.[a-z_.]+)`", text):
                with self.subTest(page=page.name, setting=name):
                    self.assertIn(name, known)

    def test_every_setting_that_is_gone_is_listed_with_what_an_error_says(self):
        source = (support.ROOT / "src" / "config" / "removed.cpp").read_text()
        gone = dict(re.findall(r'RemovedSetting\{"([\w.]+)",\s+"([^"]+)"\}', source))
        worded = re.findall(r'RemovedSetting\{"(wording\.\w+)", by_dialect\}', source)
        self.assertEqual(len(gone) + len(worded), source.count("RemovedSetting{"))
        rows = [row.split(" | ") for row in REMOVED.search((support.DOCS / "operate" / "upgrade.md").read_text())[0].splitlines()[2:]]
        *listed, (wording, _) = [(names.strip("| "), text.strip("| ").replace("`", "")) for names, text in rows]
        self.assertEqual({name.strip("`"): text for name, text in listed}, gone)
        self.assertEqual(wording.replace("`", "").split(", "), [worded[0], *(name.removeprefix("wording.") for name in worded[1:])])

    def test_express_is_the_version_that_the_test_installs(self):
        wanted = json.loads((guide.HERE / "express" / "package.json").read_text())["dependencies"]["express"]
        page = (support.DOCS / "guides" / "put-it-before" / "express.md").read_text()
        self.assertEqual(re.findall(r"npm install express@(\S+)", page), [wanted])

    def test_every_section_of_the_runbook_says_the_same_five_things(self):
        sections = re.split(r"^### (Once\w+)$", (support.DOCS / "operate" / "runbook.md").read_text(), flags=re.MULTILINE)[1:]
        for name, text in zip(sections[::2], sections[1::2]):
            with self.subTest(alert=name):
                said = re.findall(r"^- \*\*(It means|Clients see|Look at|Do|Afterwards)\*\*", text, re.MULTILINE)
                self.assertEqual(said, ["It means", "Clients see", "Look at", "Do", "Afterwards"])


if __name__ == "__main__":
    unittest.main()
