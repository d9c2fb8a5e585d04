"""Which tests a name or a change asks for, and what must be built for them. ./test calls it; the tests are those of a
configured build folder.

select_tests.py BUILD NAME…              tests by their ctest name, their source file, or as Suite.case of GoogleTest
select_tests.py BUILD --changed [REV]    tests of what differs from REV; without REV of what is not committed, or of the last commit

Prints three lines: a regular expression for ctest -R, the files to build, and a filter for GoogleTest (may be empty).
"""
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]

# A change in a folder: the tests that show soonest whether it works. `./test` runs all of them.
TESTS_OF = (
    (r"^src/store/(memory)/", r"^memory_store_test|^store_test|^sealed_store_test"),
    (r"^src/store/(journal)/", r"^journal_|^store_test"),
    (r"^src/store/(postgres)/", r"^postgres_store_test"),
    (r"^src/store/(mysql)/", r"^mysql_(store_test\.mariadb|plain_test)"),
    (r"^src/store/(redis)/", r"^redis_(store|replies)_test"),
    (r"^src/store/", r"^(store|memory_store|sealed_store)_test"),
    (r"^src/client/", r"^client_|^e2e\.send$"),
    (r"^(src/guard|include)/", r"^guard_test|^journal_guard_test"),
    (r"^src/claims/", r"^claims_test|^claims\.api$"),
    (r"^src/cli/", r"^e2e\.once$|^packaging\.(manual|completion)"),
    (r"^src/admin/page/", r"^browser\."),
    (r"^src/(http|gateway)/", r"^e2e\.(once|connection|streaming)$"),
    (r"^src/(\w+)/", r"^\1_test"),
    (r"^sim/", r"^sim_test"),
    (r"^tests/sim/mutant", r"^mutants_test|^sim\.mutants_apply$"),
    (r"^tests/(\w+)/(\w+)_test\.py$", r"^\1\.\2(\.|$)"),
    (r"^tests/.*/(\w+_test)\.cpp$", r"^\1$"),
    (r"^tests/fuzz/(\w+)\.cpp$", r"^fuzz\.\1$"),
    (r"^(docs/|README|CHANGELOG|CONTRIBUTING|llms)", r"^docs\.(pages|session)$"),
    (r"^docs/(\w+)/([\w-]+)\.md$", r"^docs\.\1\.\2$"),
    (r"^docs/(\w+)/([\w-]+)/([\w-]+)\.md$", r"^docs\.\1\.\2\.\3$"),
    (r"^packaging/", r"^packaging\.(schema|manifests)$"),
    (r"^examples/(\w+)/", r"^examples\.\1(_inside)?$"),
    (r"^bindings/python/once/(claims|results|running|sending|threads|transports)\.py$", r"^claims\.(python|readme)$|^python\.(package|streaming)$"),
    (r"^bindings/python/once/(streaming|server_sent)\.py$", r"^python\.(package|streaming)$"),
    (r"^bindings/python/once/django/", r"^python\.django"),
    (r"^bindings/python/", r"^python\.(package|asgi|wsgi|guard|process)$"),
    (r"^tests/python/(stories|support|apps)", r"^python\.(asgi|wsgi|django)$"),
)
ALWAYS = r"^tidy\.(format|bans|clang_tidy)$|^mutation\.apply$"


def git(*arguments):
    command = ["git", "-c", "safe.directory=*", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout.splitlines()


def changed_files(revision):
    if revision:
        return git("diff", "--name-only", revision) + git("ls-files", "--others", "--exclude-standard")
    uncommitted = [line[3:].split(" -> ")[-1] for line in git("status", "--porcelain", "-uall")]
    return uncommitted or git("diff", "--name-only", "HEAD~1")


def declared_commands(build):
    """ctest tells no command of a program that was never built; the file that declares the test has it."""
    declared = {}
    for file in build.rglob("CTestTestfile.cmake"):
        for name, command in re.findall(r'^add_test\(\[=\[(.+?)\]=\] (.*)\)$', file.read_text(), re.M):
            declared[name] = [command]
    return declared


def known_tests(build):
    declared = declared_commands(build)
    command = ["ctest", "--test-dir", str(build), "--show-only=json-v1"]
    listed = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)["tests"]
    for test in listed:
        labels = [p["value"] for p in test.get("properties", []) if p["name"] == "LABELS"]
        yield test["name"], labels[0] if labels else [], test.get("command") or declared.get(test["name"], [])


def matching(tests, pattern):
    return [test for test in tests if re.search(pattern, test[0]) or any(re.search(pattern, label) for label in test[1])]


def case_files(name):
    """Sources with a GoogleTest case of this name, Suite.case or a part of it."""
    parts = r"\w*,\s*\w*".join(map(re.escape, name.split(".")))
    pattern = re.compile(rf"TEST(_F|_P)?\([^)]*{parts}")
    return [path.stem for path in (ROOT / "tests").rglob("*_test.cpp") if pattern.search(path.read_text())]


def by_names(tests, names):
    chosen, filters = [], []
    for name in names:
        found = matching(tests, name)
        # What takes long is run only if it is what was asked for.
        found = [test for test in found if "thorough" not in test[1]] or found
        if not found:
            found = [test for stem in case_files(name) for test in matching(tests, f"^{stem}$")]
            filters.append(f"*{name}*")
        if not found:
            sys.exit(f"no test is called {name}; `./test --list` shows all")
        chosen += found
    return chosen, ":".join(filters)


def by_change(tests, files):
    chosen = matching(tests, ALWAYS)
    for file in files:
        for pattern, wanted in TESTS_OF:
            match = re.search(pattern, file)
            if match:
                chosen += matching(tests, match.expand(wanted))
    return chosen, ""


def to_build(build, tests):
    """What the commands of these tests name inside of the build folder, relative to it."""
    found = set()
    for _, _, command in tests:
        for path in re.findall(rf"{re.escape(str(build))}/[\w./+-]+", " ".join(command)):
            relative = path.removeprefix(f"{build}/")
            if subprocess.run(["ninja", "-C", str(build), "-t", "query", relative], capture_output=True).returncode == 0:
                found.add(relative)
    return sorted(found)


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    tests = list(known_tests(build))
    if sys.argv[2] == "--changed":
        chosen, cases = by_change(tests, changed_files(sys.argv[3] if len(sys.argv) > 3 else None))
    else:
        chosen, cases = by_names(tests, sys.argv[2:])
    print("^(" + "|".join(sorted({re.escape(name) for name, _, _ in chosen})) + ")$")
    print(" ".join(to_build(build, chosen)))
    print(cases)


if __name__ == "__main__":
    main()
