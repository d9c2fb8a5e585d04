"""docs/operate/dashboard.md lists every path of the admin interface with its methods, and no other."""
import json
import re
import unittest
import urllib.error
import urllib.request

import support

ROW = re.compile(r"^\| `(GET|POST|GET, POST) (/\S*)` \| (yes|no) \|", re.MULTILINE)


def documented():
    page = (support.ROOT / "docs" / "operate" / "dashboard.md").read_text()
    return {path: (methods.split(", "), token == "yes") for methods, path, token in ROW.findall(page)}


class AdminPaths(unittest.TestCase):
    def test_page_and_interface_agree(self):
        with support.demo() as demo:
            with urllib.request.urlopen(f"http://{demo.admin}/v1", timeout=10) as answer:
                rows = json.load(answer)
            with self.assertRaises(urllib.error.HTTPError) as unknown:
                urllib.request.urlopen(f"http://{demo.admin}/v2", timeout=10)
        served = {row["path"]: ([each for each in row["methods"].split(", ") if each != "HEAD"], row["token"]) for row in rows}
        self.assertEqual(served, documented())
        detail = json.load(unknown.exception)["detail"]
        self.assertEqual([path for path in served if path not in detail], [])

    def test_a_wrong_method_says_which_are_right(self):
        with support.demo() as demo:
            for path, (methods, _) in documented().items():
                request = urllib.request.Request(f"http://{demo.admin}{path}", method="DELETE", headers={"Once-Admin": "1"})
                with self.assertRaises(urllib.error.HTTPError) as refused:
                    urllib.request.urlopen(request, timeout=10)
                self.assertEqual(refused.exception.code, 405, path)
                allowed = refused.exception.headers["Allow"].split(", ")
                self.assertEqual([each for each in allowed if each != "HEAD"], methods, path)


if __name__ == "__main__":
    unittest.main()
