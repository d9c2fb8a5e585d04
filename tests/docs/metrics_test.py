"""docs/reference/metrics.md names every metric that is served, and no other, with its type."""
import re
import unittest
import urllib.request

import support

ROW = re.compile(r"^\| `((?:once|process)_\w+)` \| (\w+) \|", re.MULTILINE)


def documented():
    return dict(ROW.findall((support.ROOT / "docs" / "reference" / "metrics.md").read_text()))


def served(store):
    with support.demo(*store) as demo:
        with urllib.request.urlopen(f"http://{demo.admin}/metrics", timeout=10) as answer:
            return dict(re.findall(r"^# TYPE (\w+) (\w+)$", answer.read().decode(), re.MULTILINE))


def in_source():
    code = "".join(path.read_text() for path in sorted((support.ROOT / "src" / "admin").glob("*.cpp")))
    stores = "".join(path.read_text() for path in sorted((support.ROOT / "src" / "store").rglob("*.cpp")))
    reported = re.findall(r'\bout\.(?:gauge|counter)\("(once_\w+)"', stores)
    return set(re.findall(r'"((?:once|process)_\w+)"', code)) | set(reported)


class Metrics(unittest.TestCase):
    def test_page_and_metrics_agree(self):
        stores = ([], ["--store", "memory:"], ["--store", "redis://127.0.0.1:1"])  # the last one cannot be reached
        self.assertEqual({name: kind for store in stores for name, kind in served(store).items()}, documented())

    def test_page_and_source_agree(self):
        self.assertEqual(set(documented()), in_source())


if __name__ == "__main__":
    unittest.main()
