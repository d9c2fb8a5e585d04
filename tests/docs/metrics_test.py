"""docs/metrics.md names every metric that is served, and no other, with its type."""
import re
import unittest
import urllib.request

import support

ROW = re.compile(r"^\| `(once_\w+)` \| (\w+) \|", re.MULTILINE)


def documented():
    """{name: type}, of the whole page and of the part about lanes."""
    page = (support.ROOT / "docs" / "metrics.md").read_text()
    lanes = page[page.index("\n## Lanes"):]
    return dict(ROW.findall(page)), dict(ROW.findall(lanes.split("\n## ", 2)[1]))


def served():
    with support.demo() as demo:
        with urllib.request.urlopen(f"http://{demo.admin}/metrics", timeout=10) as answer:
            return dict(re.findall(r"^# TYPE (\w+) (\w+)$", answer.read().decode(), re.MULTILINE))


def in_source():
    code = "".join(path.read_text() for path in sorted((support.ROOT / "src" / "admin").glob("*.cpp")))
    return set(re.findall(r'"(once_\w+)"', code))


class Metrics(unittest.TestCase):
    def test_page_and_metrics_agree(self):
        on_page, of_lanes = documented()
        with_memory = {name: kind for name, kind in on_page.items() if name not in of_lanes}
        self.assertEqual(served(), with_memory)

    def test_page_and_source_agree(self):
        self.assertEqual(set(documented()[0]), in_source())


if __name__ == "__main__":
    unittest.main()
