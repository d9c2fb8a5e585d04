"""`once simulate`: which seeds it runs, and that it says so before anything else."""
import os
import re
import subprocess
import unittest

ONCE = os.environ["ONCE_BINARY"]
TOTALS = re.compile(r"(\d+) runs in \d+ s, (\d+) executions, (\d+) replays, (\d+) crashes, (\d+) changes by operators: no violation$", re.M)


def simulate(*options):
    return subprocess.run([ONCE, "simulate", *options], capture_output=True, text=True, timeout=120)


def totals(ran):
    return [int(number) for number in TOTALS.search(ran.stdout.rstrip("\n")).groups()]


class Seeds(unittest.TestCase):
    def test_runs_begin_at_the_seed_and_are_one_after_the_other(self):
        ran = simulate("--seed", "4711", "--runs", "3")
        self.assertEqual(ran.returncode, 0)
        lines = ran.stdout.splitlines()
        self.assertEqual(lines[0], "seeds 4711 to 4713")
        self.assertTrue(lines[-2].startswith("seeds 4711 to 4713: 3 runs"), lines[-2])
        self.assertRegex(lines[-1], r"^branches: \d+ of \d+ reached")
        alone = [totals(simulate("--seed", str(seed))) for seed in (4711, 4712, 4713)]
        self.assertEqual(totals(ran), [sum(each) for each in zip(*alone)])

    def test_one_seed_is_printed_with_its_setup(self):
        ran = simulate("--seed", "4711")
        self.assertTrue(ran.stdout.startswith("seed 4711\nstore "), ran.stdout)

    def test_a_random_base_is_printed_and_can_be_repeated(self):
        drawn = simulate("--seed", "random", "--runs", "2")
        base = re.match(r"seeds (\d+) to (\d+)\n", drawn.stdout)
        self.assertEqual(int(base[2]), int(base[1]) + 1)
        self.assertEqual(totals(simulate("--seed", base[1], "--runs", "2")), totals(drawn))
        again = simulate("--seed", "random", "--runs", "2")
        self.assertNotEqual(again.stdout.splitlines()[0], drawn.stdout.splitlines()[0])

    def test_seeds_until_time_is_up(self):
        ran = simulate("--seed", "4711", "--for", "1s")
        self.assertTrue(ran.stdout.startswith("seeds from 4711 on\n"), ran.stdout)
        self.assertGreater(totals(ran)[0], 0)

    def test_branches_are_counted_and_a_missing_one_fails(self):
        ran = simulate("--seed", "4711", "--runs", "3", "--branches")
        self.assertEqual(ran.returncode, 1, "three seeds cannot reach everything")
        counted = re.findall(r"^ +(\d+) ([\w ]+: .+?)(?: NOT REACHED| \(listed .+\))?$", ran.stdout, re.M)
        reached, of = re.search(r"^branches: (\d+) of (\d+) reached; not: ", ran.stdout, re.M).groups()
        self.assertEqual(len(counted), int(of))
        self.assertEqual(sum(int(count) > 0 for count, _ in counted), int(reached))
        self.assertGreater(int(reached), 0)
        one = simulate("--seed", "4711", "--runs", "3", "--branches", "--threads", "1")
        self.assertEqual(TOTALS.sub("", one.stdout), TOTALS.sub("", ran.stdout), "threads make no difference")

    def test_wrong_options(self):
        for options in (["--branches"], ["--runs", "0"], ["--runs", "2", "--trace"], ["--for", "1s", "--trace"], ["--seed", "randomly"],
                        ["--seed", "-1"], ["--runs", "-1"], ["--layer", "nothing"], ["--layer", "bytes", "--store", "sql-transaction"],
                        ["--store", "nothing"]):
            with self.subTest(options):
                ran = simulate(*options)
                self.assertEqual(ran.returncode, 2, ran.stdout)
                self.assertEqual(ran.stdout, "")

    def test_a_wrong_layer_is_answered_with_those_that_exist(self):
        self.assertIn("--layer: nothing is not one of exchanges,bytes", simulate("--layer", "nothing").stderr)
        self.assertIn("sql-transaction needs --layer exchanges", simulate("--layer", "bytes", "--store", "sql-transaction").stderr)

    def test_a_layer_is_that_of_every_seed(self):
        for layer, from_bytes in (("exchanges", False), ("bytes", True)):
            for seed in ("1", "2"):
                ran = simulate("--seed", seed, "--layer", layer)
                self.assertEqual((ran.returncode, "\nfrom bytes\n" in ran.stdout), (0, from_bytes), ran.stdout)


if __name__ == "__main__":
    unittest.main()
