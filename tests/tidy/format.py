"""Every C++ file is as clang-format leaves it, and every package-lock.json of npm has a line for each package. `format.py --fix` makes it
so; after `npm install` has written a list anew, too."""
import json
import subprocess
import sys

import sources

FIX = "--fix" in sys.argv[1:]


def a_line_each(lock):
    """The same JSON, which npm reads as well: a line for each package."""
    packages = ",\n".join(f"    {json.dumps(name)}: {json.dumps(value)}" for name, value in lock["packages"].items())
    others = "".join(f"  {json.dumps(name)}: {json.dumps(value)},\n" for name, value in lock.items() if name != "packages")
    return f'{{\n{others}  "packages": {{\n{packages}\n  }}\n}}\n'


def long_locks():
    """The lists of npm that are not written like that; with --fix, none after it."""
    for path in sources.tracked((".json",)):
        if path.name == "package-lock.json" and "node_modules" not in path.parts:
            text = (sources.ROOT / path).read_text()
            wanted = a_line_each(json.loads(text))
            if text != wanted and FIX:
                (sources.ROOT / path).write_text(wanted)
            elif text != wanted:
                yield f"{path}: not a line for each package"


def main():
    files = [str(sources.ROOT / path) for path in sources.tracked(sources.CPP)]
    if not files:
        sys.exit("no sources found")
    mode = ["-i"] if FIX else ["--dry-run", "-Werror"]
    status = subprocess.run(["clang-format-19", *mode, *files]).returncode
    for finding in long_locks():
        print(finding, file=sys.stderr)
        status = status or 1
    if status != 0:
        print("To fix: python3 tests/tidy/format.py --fix", file=sys.stderr)
    sys.exit(status)


if __name__ == "__main__":
    main()
