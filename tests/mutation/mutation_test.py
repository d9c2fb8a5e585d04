"""Every mutant applies and has a test that must see it, and a wrong table is refused."""
import unittest

import variant
from mutation import TABLE, Case, Wrong, read_table


class Mutants(unittest.TestCase):
    def test_all_apply_and_are_in_the_table(self):
        variant.mutated_sources()
        self.assertGreater(len(read_table(TABLE.read_text(), [patch.stem for patch in variant.PATCHES.glob("*.patch")])), 100)

    def test_a_line_is_a_name_and_its_tests(self):
        one, two = read_table("# words\na  core_test store_test=A*:B*\n\nb  core_test  survives: nobody can tell\n", ["a", "b"])
        self.assertEqual(one.cases, (Case("core_test"), Case("store_test", "A*:B*")))
        self.assertEqual((one.survives, two.survives), ("", "nobody can tell"))

    def test_what_is_wrong_is_said(self):
        for table, patches, message in (("a  core_test\n", ["a", "b"], "b: is not in mutants.txt"),
                                        ("a  core_test\n", [], "a: is no patch"),
                                        ("a\n", ["a"], "a: has no test"),
                                        ("a  core_test survives:\n", ["a"], "a: survives without a reason"),
                                        ("b  core_test\na  core_test\n", ["a", "b"], "in order")):
            with self.subTest(table), self.assertRaises(Wrong) as raised:
                read_table(table, patches)
            self.assertIn(message, str(raised.exception))


if __name__ == "__main__":
    unittest.main()
