"""Plants one bug after the other and looks whether the tests that must see it do.

mutation.py [--thorough] [--jobs N] [NAME…]    NAME: of a mutant, or a part of it; none: all

Each patch in patches/ is a mutant, behind a switch. All of them are built into one variant of the tree (variant.py), and
ONCE_MUTANT in the environment says which one is on. mutants.txt has for each the tests that must fail with it. They must
pass without. Mutants that only end-to-end tests can see run with --thorough.
"""
import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import variant
from select_tests import known_tests, to_build

TABLE = variant.ROOT / "tests/mutation/mutants.txt"
LOGS = variant.ROOT / "build/mutation/logs"
SURVIVES = "survives:"
NOT_PLANTED = "mutant does not apply"


class Wrong(Exception):
    """What is wrong with the table or the patches."""


@dataclasses.dataclass(frozen=True)
class Case:
    """A test of ctest; of its cases those that fit the filter, as GoogleTest or unittest -k takes it."""
    test: str
    filter: str = ""

    def __str__(self):
        return f"{self.test}={self.filter}" if self.filter else self.test


@dataclasses.dataclass(frozen=True)
class Mutant:
    name: str
    cases: tuple
    survives: str  # why no test sees it; empty: one must


@dataclasses.dataclass(frozen=True)
class Command:
    arguments: tuple
    folder: str
    environment: tuple
    labels: tuple


def read_table(text, patches):
    mutants = []
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        left, _, reason = line.partition(SURVIVES)
        name, *tests = left.split()
        cases = tuple(Case(*test.split("=", 1)) for test in tests)
        if not cases:
            raise Wrong(f"{name}: has no test that must fail")
        if SURVIVES in line and not reason.strip():
            raise Wrong(f"{name}: survives without a reason")
        mutants.append(Mutant(name, cases, reason.strip()))
    names = [mutant.name for mutant in mutants]
    for name in sorted(set(names) ^ set(patches)):
        raise Wrong(f"{name}: is {'not in mutants.txt' if name in patches else 'no patch'}")
    if names != sorted(set(names)):
        raise Wrong("mutants.txt: names must be in order, and each there once")
    return mutants


def is_quick(case, labels):
    return "e2e" not in labels[case.test]


def commands():
    shown = subprocess.run(["ctest", "--test-dir", str(variant.BUILD), "--show-only=json-v1"], capture_output=True, check=True, text=True)
    found = {}
    for test in json.loads(shown.stdout)["tests"]:
        properties = {each["name"]: each["value"] for each in test.get("properties", [])}
        found[test["name"]] = Command(tuple(test.get("command", ())), properties.get("WORKING_DIRECTORY", str(variant.BUILD)),
                                      tuple(properties.get("ENVIRONMENT", ())), tuple(properties.get("LABELS", ())))
    return found


@dataclasses.dataclass
class Ran:
    passed: bool
    seconds: float
    why: str = ""


class Runner:
    def __init__(self, tests):
        self.tests = tests
        self.limits = {}  # seconds, by case

    def run(self, case, mutant, log):
        """One test; of a mutant until its first failure."""
        command = self.tests[case.test]
        environment = os.environ | dict(each.split("=", 1) for each in command.environment)
        environment |= {"GTEST_BRIEF": "1", "GTEST_FAIL_FAST": "1", "ONCE_MUTANT": mutant}
        arguments = list(command.arguments)
        if "unittest" in arguments:
            arguments += ["-f", *(["-k", case.filter] if case.filter else [])]
        elif case.filter:
            environment["GTEST_FILTER"] = case.filter
        began = time.monotonic()
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("w") as out:
            process = subprocess.Popen(arguments, cwd=command.folder, env=environment, stdin=subprocess.DEVNULL, stdout=out,
                                       stderr=subprocess.STDOUT, start_new_session=True)
            try:
                status = process.wait(self.limits.get(case, 600))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGTERM)  # servers of the test end with it
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
                return Ran(False, time.monotonic() - began, "took too long")
        text = log.read_text(errors="replace")
        if NOT_PLANTED in text:
            raise Wrong(f"{mutant}: {text[text.index(NOT_PLANTED):].splitlines()[0]}")
        if "Ran 0 tests" in text:
            raise Wrong(f"{case}: no test has this name")
        return Ran(status == 0, time.monotonic() - began, f"see {log.relative_to(variant.ROOT)}")

    def without(self, case):
        ran = self.run(case, "", LOGS / "none" / f"{case}.log".replace("*", "_"))
        self.limits[case] = 30 + 10 * ran.seconds
        return ran

    def has_cases(self, case):
        """Whether a filter of GoogleTest fits any; without running a server."""
        program = self.tests[case.test].arguments[-1]
        listed = subprocess.run([program, "--gtest_list_tests", f"--gtest_filter={case.filter}"], capture_output=True, text=True)
        return any(line.startswith("  ") for line in listed.stdout.splitlines())

    def look_for(self, mutant):
        """The case that saw it; None: it survived."""
        for case in mutant.cases:
            if case in self.limits and not self.run(case, mutant.name, LOGS / mutant.name / f"{case.test}.log").passed:
                return case
        return None


def in_parallel(jobs, work, items, told):
    """Calls told(item, result) as they end."""
    lock = threading.Lock()
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        ending = {pool.submit(work, item): item for item in items}
        for done in concurrent.futures.as_completed(ending):
            with lock:
                told(ending[done], done.result())


def choose(mutants, arguments, labels):
    for case in {case for mutant in mutants for case in mutant.cases}:
        if case.test not in labels:
            raise Wrong(f"{case.test}: is no test of ctest")
    wanted = [mutant for mutant in mutants if not arguments.names or any(name in mutant.name for name in arguments.names)]
    if not wanted:
        raise Wrong("no mutant has this name")
    if arguments.thorough or arguments.names:
        return wanted
    quick = [dataclasses.replace(mutant, cases=tuple(case for case in mutant.cases if is_quick(case, labels))) for mutant in wanted]
    return [mutant for mutant in quick if mutant.cases]


def check_tests(runner, cases, jobs):
    """Each test passes without a mutant, and each filter fits some of its cases."""
    def is_filter(case):
        return case.filter and "unittest" not in runner.tests[case.test].arguments

    broken = [f"{case}: no test has this name" for case in cases if is_filter(case) and not runner.has_cases(case)]
    if broken:
        raise Wrong("\n".join(sorted(broken)))
    # Most programs are quick: once as a whole is less than once for each filter. Those with a server are not.
    ran_as = {case: Case(case.test) if is_filter(case) and "server" not in runner.tests[case.test].labels else case for case in cases}
    in_parallel(jobs, runner.without, sorted(set(ran_as.values()), key=str),
                lambda case, ran: None if ran.passed else broken.append(f"{case}: fails without a mutant; {ran.why}"))
    if broken:
        raise Wrong("\n".join(broken))
    for case, ran in ran_as.items():
        runner.limits[case] = runner.limits[ran]


def look(arguments):
    began = time.monotonic()
    mutants = read_table(TABLE.read_text(), [patch.stem for patch in variant.PATCHES.glob("*.patch")])
    variant.write_tree()
    variant.configure()
    declared = list(known_tests(variant.BUILD))
    labels = {name: test_labels for name, test_labels, _ in declared}
    chosen = choose(mutants, arguments, labels)
    needed = {case.test for mutant in chosen for case in mutant.cases}
    # What the commands name is built; what is loaded into servers is not named there.
    targets = to_build(variant.BUILD, [test for test in declared if test[0] in needed])
    variant.build([*targets, "skewed_clock", "failing_disk"], arguments.jobs)
    built = time.monotonic()

    runner = Runner(commands())
    check_tests(runner, {case for mutant in chosen for case in mutant.cases}, arguments.jobs)

    survivors, returned = [], []

    def told(mutant, case):
        if case is None and not mutant.survives:
            survivors.append(mutant.name)
        elif case is not None and mutant.survives:
            returned.append(mutant.name)
        print(f"{mutant.name}: {f'seen by {case.test}' if case else 'SURVIVES'}", flush=True)

    in_parallel(arguments.jobs, runner.look_for, chosen, told)
    known = sum(1 for mutant in chosen if mutant.survives)
    caught = len(chosen) - known - len(survivors)
    print(f"{len(chosen)} mutants: {caught} caught, {known} known to survive, {len(survivors)} not caught; "
          f"{built - began:.0f} s to build, {time.monotonic() - built:.0f} s to run")
    for name in sorted(survivors):
        print(f"not caught: {name}, {' '.join(map(str, next(m.cases for m in chosen if m.name == name)))}")
    for name in sorted(returned):
        print(f"caught, although mutants.txt says that it survives: {name}")
    return 1 if survivors or returned else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--thorough", action="store_true")
    parser.add_argument("--jobs", type=int, default=int(os.environ.get("ONCE_JOBS", "2")))
    parser.add_argument("names", nargs="*")
    try:
        sys.exit(look(parser.parse_args()))
    except (Wrong, variant.Unfit) as wrong:
        sys.exit(f"error: {wrong}")


if __name__ == "__main__":
    main()
