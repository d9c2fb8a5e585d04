"""docs/reference/logging.md lists every line that is logged, with its level, and every field of the access log."""
import re
import unittest

import support

CALL = re.compile(r'log_?\w*(?:\.|->)(debug|info|warn|error|always)\(\s*"([^"]+)"(.*?)\);', re.DOTALL)
OF_LOG = re.compile(r'clock_\.now\(\), LogLevel::(\w+), "([^"]+)"(.*?)\)\)', re.DOTALL)  # what the log says of itself


def logged():
    """{message: (level, [fields])} of every call in the source."""
    found = {}
    for path in sorted((support.ROOT / "src").rglob("*.cpp")):
        for level, message, rest in CALL.findall(path.read_text()) + OF_LOG.findall(path.read_text()):
            found[message] = (level, re.findall(r'\{"(\w+)",', rest))
    return found


ACCESS = re.compile(r'log_line\(format, now, LogLevel::info, "request",(.*?)\);', re.DOTALL)


class Logging(unittest.TestCase):
    def test_page_lists_every_message_with_level_and_fields(self):
        page = (support.ROOT / "docs" / "reference" / "logging.md").read_text()
        rows = re.findall(r"^\| `([^`]+)` \| (debug|info|warn|error|always) \| ([^|]*)\|", page, re.MULTILINE)
        on_page = {message: (level, re.findall(r"`(\w+)`", fields)) for message, level, fields in rows}
        in_source = logged()
        access = ACCESS.search((support.ROOT / "src/gateway/access_line.cpp").read_text())[1]
        self.assertEqual(on_page, in_source)
        section = page.split("## The access log")[1].split("\n## ")[0]
        first_cells = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
        self.assertEqual(re.findall(r"`(\w+)`", " ".join(first_cells)), re.findall(r'\{"(\w+)",', access))


if __name__ == "__main__":
    unittest.main()
