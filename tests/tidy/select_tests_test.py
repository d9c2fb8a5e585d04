"""That ./test NAME and ./test --changed choose the tests that they should."""
import os
import pathlib
import re
import sys
import unittest

import sources

sys.path.insert(0, str(sources.ROOT / "scripts"))
import select_tests  # noqa: E402

BUILD = pathlib.Path(os.environ["ONCE_BUILD"]).resolve()
TESTS = list(select_tests.known_tests(BUILD))


def names(tests):
    return {name for name, _, _ in tests}


class SelectTests(unittest.TestCase):
    def test_by_the_name_of_a_test(self):
        chosen, cases = select_tests.by_names(TESTS, ["e2e.limits"])
        self.assertEqual((names(chosen), cases), ({"e2e.limits"}, ""), "what only a thorough run does is left out")
        self.assertIn("once", select_tests.to_build(BUILD, chosen))

    def test_by_a_source(self):
        chosen, cases = select_tests.by_names(TESTS, ["lane_test"])
        self.assertEqual((names(chosen), cases), ({"store_test"}, ""))
        self.assertEqual(select_tests.to_build(BUILD, chosen), ["tests/unit/store/store_test"])

    def test_a_program_that_was_never_built_is_built(self):
        command = select_tests.declared_commands(BUILD)["store_test"]
        self.assertEqual(select_tests.to_build(BUILD, [("store_test", [], command)]), ["tests/unit/store/store_test"])

    def test_by_a_case(self):
        for case in ("LaneTest.a_batch_has_its_limit", "LaneTest", "a_batch_has_its_limit"):
            chosen, cases = select_tests.by_names(TESTS, [case])
            self.assertEqual((names(chosen), cases), ({"store_test"}, f"*{case}*"))

    def test_what_takes_long_is_run_if_it_is_asked_for(self):
        self.assertEqual(names(select_tests.by_names(TESTS, ["tidy.analyzer"])[0]), {"tidy.analyzer"})
        self.assertNotIn("tidy.analyzer", names(select_tests.by_names(TESTS, ["tidy"])[0]))

    def test_an_unknown_name_is_refused(self):
        with self.assertRaises(SystemExit):
            select_tests.by_names(TESTS, ["no_such_test"])

    def test_every_source_has_tests_next_to_it(self):
        always = names(select_tests.by_change(TESTS, [])[0])
        for path in sources.tracked(sources.CPP):
            if path.parts[0] in ("src", "sim", "include"):
                chosen = names(select_tests.by_change(TESTS, [str(path)])[0])
                self.assertTrue(chosen - always, path)

    def test_a_changed_test_is_run(self):
        self.assertIn("e2e.limits", names(select_tests.by_change(TESTS, ["tests/e2e/limits_test.py"])[0]))
        self.assertIn("store_test", names(select_tests.by_change(TESTS, ["tests/unit/store/lane_test.cpp"])[0]))

    def test_a_changed_page_is_followed(self):
        for page, test in ("start/quick-start", "docs.start.quick-start"), ("guides/put-it-before/nginx", "docs.guides.put-it-before.nginx"):
            self.assertIn(test, names(select_tests.by_change(TESTS, [f"docs/{page}.md"])[0]))

    def test_a_changed_mutant_is_looked_for(self):
        chosen = names(select_tests.by_change(TESTS, ["tests/sim/mutants/hold_executes.patch"])[0])
        self.assertLessEqual({"mutants_test", "sim.mutants_apply"}, chosen)

    def test_the_table_of_the_longest_tests_names_tests(self):
        """./test starts them first."""
        table = re.findall(r"^\| `([^`]*)` \| \d+ \|", (sources.ROOT / "docs/design/testing.md").read_text(), re.MULTILINE)
        self.assertGreater(len(table), 10)
        self.assertLessEqual(set(table), names(TESTS))


if __name__ == "__main__":
    unittest.main()
