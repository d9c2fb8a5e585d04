"""A patch is applied where it belongs, or refused with a message that names it."""
import unittest

from apply import Unfit, mutated

SOURCE = "src/a.cpp"
TEXT = "one\ntwo\nthree\nfour\none\nfive\n"


def patch(name, *lines, source=SOURCE, what="Breaks a promise."):
    diff = "\n".join((f"--- a/{source}", f"+++ b/{source}", "@@ -90,2 +90,2 @@", *lines))
    return f"tests/sim/mutants/{name}.patch", f"{what}\n{diff}\n"


class Apply(unittest.TestCase):
    def refused(self, *patches):
        with self.assertRaises(Unfit) as raised:
            mutated(SOURCE, TEXT, patches)
        return str(raised.exception)

    def test_lines_are_found_wherever_they_moved(self):
        found = mutated(SOURCE, TEXT, [patch("m", " two", "-three", '+three || mutant("m")', " four")])
        self.assertEqual(found, 'one\ntwo\nthree || mutant("m")\nfour\none\nfive\n')

    def test_neighbours_are_each_placed_in_the_original(self):
        two = patch("a", " one", "-two", '+two || mutant("a")', " three")
        three = patch("b", " two", "-three", '+three || mutant("b")', " four")
        after = patch("c", " two", '+mutant("c");', " three")
        found = mutated(SOURCE, TEXT, [three, two, after])
        self.assertEqual(found, 'one\ntwo || mutant("a")\nmutant("c");\nthree || mutant("b")\nfour\none\nfive\n')

    def test_insertions_at_the_same_place_are_all_kept(self):
        first, second = patch("a", " two", '+mutant("a");', " three"), patch("b", " two", '+mutant("b");', " three")
        self.assertIn('two\nmutant("a");\nmutant("b");\nthree', mutated(SOURCE, TEXT, [second, first]))

    def test_a_patch_of_another_source_changes_nothing_here(self):
        self.assertEqual(mutated(SOURCE, TEXT, [patch("m", " no such line", '+mutant("m");', source="src/b.cpp")]), TEXT)

    def test_one_that_no_longer_applies_is_named(self):
        message = self.refused(patch("m", " two", "-3", '+mutant("m");', " four"))
        self.assertIn("tests/sim/mutants/m.patch: does not apply to src/a.cpp", message)
        self.assertIn("    3\n", message)

    def test_context_counts(self):
        self.assertIn("does not apply", self.refused(patch("m", " one", "-three", '+mutant("m");')))

    def test_one_that_fits_twice_is_named(self):
        message = self.refused(patch("m", " one", '+mutant("m");'))
        self.assertIn("m.patch: fits src/a.cpp in 2 places, at lines 1, 5", message)

    def test_two_of_the_same_line_are_refused(self):
        message = self.refused(patch("a", "-two", '+mutant("a");'), patch("b", "-two", '+mutant("b");'))
        self.assertIn("b.patch: changes the same line of src/a.cpp as tests/sim/mutants/a.patch", message)

    def test_the_switch_has_the_name_of_the_file(self):
        self.assertIn('has no mutant("m")', self.refused(patch("m", "-two", '+mutant("n");')))

    def test_the_promise_is_said(self):
        self.assertIn("which promise it breaks", self.refused(patch("m", "-two", '+mutant("m");', what="")))


if __name__ == "__main__":
    unittest.main()
