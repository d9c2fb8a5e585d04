"""clang-tidy over src/ as it is compiled: the sources of a folder together, two such units at a time. A unit that passed is
not checked again until one of its sources, a header of ours, its flags or .clang-tidy changes: the proof is a file named by
the hash of all these, in the cache folder of the user, so that another clone of the same sources finds it.

The static analyzer takes longer than all other checks. It looks at the folders in which handles of C libraries are opened and
closed by hand; with --analyze at every folder.

clang_tidy.py BUILD_FOLDER [--analyze] [PART OF A PATH]
"""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

import sources

CLANG_TIDY = "clang-tidy-19"
# Folders with handles of OpenSSL, libpq, libmariadb, hiredis, libcurl and descriptors.
WITH_HANDLES = ("src/base", "src/client", "src/http", "src/store/postgres", "src/store/mysql", "src/store/redis")
# A unit includes its sources, which is what this one warns of.
NOT_FOR_UNITS = "-bugprone-suspicious-include"
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
# Diagnostics in headers of others are counted aloud, but not shown.
NOISE = re.compile(r"^\d+ warnings? (and \d+ errors? )?(generated|treated as errors?)\.?$")


def closure(path, seen):
    """`path` and every header of ours that it includes, directly or not."""
    if path in seen:
        return
    seen[path] = text = path.read_text()
    for name in INCLUDE.findall(text):
        for folder in (path.parent, sources.ROOT / "src", sources.ROOT / "include", sources.ROOT):
            if (folder / name).is_file():
                closure((folder / name).resolve(), seen)
                break


def sources_of(entry):
    """The sources of ours that a unit includes, or the file itself, relative to the root."""
    path = pathlib.Path(entry["file"])
    named = [pathlib.Path(name) for name in INCLUDE.findall(path.read_text())] if path.suffix == ".cxx" else [path]
    return [str(name.relative_to(sources.ROOT)) for name in named if name.is_relative_to(sources.ROOT)]


def checks_of(entry, analyze):
    folder = str(pathlib.PurePath(sources_of(entry)[0]).parent)
    return NOT_FOR_UNITS if analyze or folder in WITH_HANDLES else f"{NOT_FOR_UNITS},-clang-analyzer-*"


def proof_of(entry, checks, salt):
    files = {}
    closure(pathlib.Path(entry["file"]), files)
    digest = hashlib.sha256(salt)
    digest.update(f"{checks}\0{entry['command']}".replace(str(sources.ROOT), "").encode())
    for path in sorted(files):
        digest.update(f"\0{path.name}\0{files[path]}".replace(str(sources.ROOT), "").encode())
    return digest.hexdigest()


def check(entry, checks, build):
    command = [CLANG_TIDY, "-p", str(build), "--quiet", f"--checks={checks}", entry["file"]]
    result = subprocess.run(command, capture_output=True, text=True)
    lines = [line for line in (result.stdout + result.stderr).splitlines() if not NOISE.match(line)]
    return result.returncode, "\n".join(lines)


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--analyze"]
    analyze = "--analyze" in sys.argv[1:]
    build = pathlib.Path(arguments[0]).resolve()
    part = arguments[1] if len(arguments) > 1 else ""
    version = subprocess.run([CLANG_TIDY, "--version"], capture_output=True, text=True, check=True).stdout
    salt = (version + (sources.ROOT / ".clang-tidy").read_text()).encode()
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    proofs = cache / "once" / "clang-tidy"
    proofs.mkdir(parents=True, exist_ok=True)

    database = json.loads((build / "compile_commands.json").read_text())
    entries = [entry for entry in database if any(s.startswith("src/") and part in s for s in sources_of(entry))]
    expected = {str(path) for path in sources.tracked((".cpp",)) if path.parts[0] == "src" and part in str(path)}
    missed = expected - {source for entry in entries for source in sources_of(entry)}
    if not entries or missed:
        sys.exit(f"not in compile_commands.json: {', '.join(sorted(missed)) or 'anything'}")
    todo = [(entry, checks_of(entry, analyze)) for entry in entries]
    todo = [(entry, checks, proof_of(entry, checks, salt)) for entry, checks in todo]
    todo = [(entry, checks, proof) for entry, checks, proof in todo if not (proofs / proof).exists()]
    print(f"{len(expected)} files in {len(entries)} units, {len(todo)} units to check", flush=True)

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        running = {pool.submit(check, entry, checks, build): (entry, proof) for entry, checks, proof in todo}
        for done in concurrent.futures.as_completed(running):
            entry, proof = running[done]
            status, output = done.result()
            if status == 0:
                (proofs / proof).touch()
            else:
                failed += 1
                print(output, flush=True)
    if failed:
        sys.exit(f"{failed} units with findings")


if __name__ == "__main__":
    main()
