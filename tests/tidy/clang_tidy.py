"""clang-tidy over src/: the sources of a layer together, in units larger than those that are compiled, two at a time. Its checks read
the headers of the standard library, too, which takes most of the time. A unit that passed is not checked again until one of
its sources, a header of ours, its flags or .clang-tidy changes: the proof is a file named by the hash of all these, in the
cache folder of the user, so that another clone of the same sources finds it.

The static analyzer takes longer than all other checks. It looks at the folders in which handles of C libraries are opened and
closed by hand. With --analyze it looks at every folder, and all checks are on.

clang_tidy.py BUILD_FOLDER [--analyze] [PART OF A PATH]
"""
import collections
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
LINES = 6000  # of a unit, at most
# A unit includes its sources, which is what this one warns of.
NOT_FOR_UNITS = "-bugprone-suspicious-include"
# These take a fifth of the time, and the compiler, the linker, clang-format or a ban of ours finds the same, or src/ has nothing of that kind;
# one is a matter of taste. Only --analyze has them.
RARE = ("bugprone-assert-side-effect", "bugprone-bad-signal-to-kill-thread", "bugprone-chained-comparison",
        "bugprone-misplaced-operator-in-strlen-in-alloc", "bugprone-multiple-statement-macro", "bugprone-not-null-terminated-result",
        "bugprone-suspicious-semicolon", "bugprone-suspicious-string-compare", "concurrency-thread-canceltype-asynchronous",
        "google-global-names-in-headers", "misc-definitions-in-headers", "performance-type-promotion-in-math-fn", "readability-non-const-parameter")
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
    named = [(path.parent / name).resolve() for name in INCLUDE.findall(path.read_text())] if path.suffix == ".cxx" else [path]
    return [str(name.relative_to(sources.ROOT)) for name in named if name.is_relative_to(sources.ROOT)]


def flags_of(entry):
    """How these sources are compiled, without names of files."""
    return re.sub(r" -o \S+ -c \S+$", "", entry["command"]).replace("-fPIE", "-fPIC")


def units_of(entries, folder):
    """The sources of ours in these entries as units in `folder`: those of a layer that are compiled alike and checked alike."""
    groups, seen = {}, set()
    for entry in entries:
        for source in sources_of(entry):
            if source in seen:
                continue
            seen.add(source)
            parts = pathlib.PurePath(source).parts
            with_handles = source.startswith(tuple(f"{handles}/" for handles in WITH_HANDLES))
            groups.setdefault((parts[1], with_handles, flags_of(entry)), []).append(source)
    names = collections.Counter()
    for (layer, with_handles, flags), found in sorted(groups.items()):
        lines = {source: (sources.ROOT / source).read_text().count("\n") for source in found}
        parts = -(-sum(lines.values()) // LINES)
        for part in range(parts):
            chosen = found[part * len(found) // parts : (part + 1) * len(found) // parts]
            path = folder / f"{layer}_{names[layer]}.cxx"
            names[layer] += 1
            path.write_text("".join(f'#include "{sources.ROOT / source}"\n' for source in chosen))
            yield {"directory": str(folder), "file": str(path), "command": f"{flags} -c {path}", "with_handles": with_handles,
                   "lines": sum(lines[source] for source in chosen)}


def checks_of(unit, analyze):
    if analyze:
        return NOT_FOR_UNITS
    return ",".join([NOT_FOR_UNITS, *(f"-{name}" for name in RARE), *([] if unit["with_handles"] else ["-clang-analyzer-*"])])


def proof_of(unit, checks, salt):
    files = {}
    closure(pathlib.Path(unit["file"]), files)
    digest = hashlib.sha256(salt)
    digest.update(f"{checks}\0{unit['command']}".replace(str(sources.ROOT), "").encode())
    for path in sorted(files):
        digest.update(f"\0{path.name}\0{files[path]}".replace(str(sources.ROOT), "").encode())
    return digest.hexdigest()


def check(unit, checks, folder):
    command = [CLANG_TIDY, "-p", str(folder), "--quiet", f"--checks={checks}", unit["file"]]
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
    entries = [entry for entry in database if any(source.startswith("src/") for source in sources_of(entry))]
    folder = build / "tidy"
    folder.mkdir(exist_ok=True)
    units = [unit for unit in units_of(entries, folder) if any(part in source for source in sources_of(unit))]
    known = ("directory", "file", "command")  # another member makes it no database
    (folder / "compile_commands.json").write_text(json.dumps([{name: unit[name] for name in known} for unit in units]))
    expected = {str(path) for path in sources.tracked((".cpp",)) if path.parts[0] == "src" and part in str(path)}
    missed = expected - {source for unit in units for source in sources_of(unit)}
    if not units or missed:
        sys.exit(f"not in compile_commands.json: {', '.join(sorted(missed)) or 'anything'}")
    todo = [(unit, checks_of(unit, analyze)) for unit in sorted(units, key=lambda unit: -unit["lines"])]
    todo = [(unit, checks, proof_of(unit, checks, salt)) for unit, checks in todo]
    todo = [(unit, checks, proof) for unit, checks, proof in todo if not (proofs / proof).exists()]
    print(f"{len(expected)} files in {len(units)} units, {len(todo)} units to check", flush=True)

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        running = {pool.submit(check, unit, checks, folder): proof for unit, checks, proof in todo}
        for done in concurrent.futures.as_completed(running):
            status, output = done.result()
            if status == 0:
                (proofs / running[done]).touch()
            else:
                failed += 1
                print(output, flush=True)
    if failed:
        sys.exit(f"{failed} units with findings")


if __name__ == "__main__":
    main()
