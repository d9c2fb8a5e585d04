"""Every C++ file is as clang-format leaves it. `format.py --fix` makes it so."""
import subprocess
import sys

import sources

files = [str(sources.ROOT / path) for path in sources.tracked(sources.CPP)]
if not files:
    sys.exit("no sources found")
mode = ["-i"] if "--fix" in sys.argv[1:] else ["--dry-run", "-Werror"]
result = subprocess.run(["clang-format-19", *mode, *files])
if result.returncode != 0:
    print("To fix: python3 tests/tidy/format.py --fix", file=sys.stderr)
sys.exit(result.returncode)
