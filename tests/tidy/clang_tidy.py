"""clang-tidy over src/, two files at a time. A file that passed is not looked at again until it, a header of ours that
it includes, its flags or .clang-tidy changes: the proof is a file named by the hash of all these.

clang_tidy.py BUILD_FOLDER [PART OF A PATH]
"""
import concurrent.futures
import hashlib
import json
import pathlib
import re
import subprocess
import sys

import sources

CLANG_TIDY = "clang-tidy-19"
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


def proof_of(entry, salt):
    files = {}
    closure(pathlib.Path(entry["file"]), files)
    digest = hashlib.sha256(salt)
    digest.update(entry["command"].encode())
    for path in sorted(files):
        digest.update(f"\0{path.name}\0{files[path]}".encode())
    return digest.hexdigest()


def check(entry, build):
    command = [CLANG_TIDY, "-p", str(build), "--quiet", entry["file"]]
    result = subprocess.run(command, capture_output=True, text=True)
    lines = [line for line in (result.stdout + result.stderr).splitlines() if not NOISE.match(line)]
    return result.returncode, "\n".join(lines)


def main():
    build = pathlib.Path(sys.argv[1])
    part = sys.argv[2] if len(sys.argv) > 2 else ""
    version = subprocess.run([CLANG_TIDY, "--version"], capture_output=True, text=True, check=True).stdout
    salt = (version + (sources.ROOT / ".clang-tidy").read_text()).encode()
    proofs = build / "clang-tidy"
    proofs.mkdir(exist_ok=True)

    ours = {str(sources.ROOT / path) for path in sources.tracked((".cpp",)) if path.parts[0] == "src"}
    database = json.loads((build / "compile_commands.json").read_text())
    entries = [entry for entry in database if entry["file"] in ours and part in entry["file"]]
    if not entries:
        sys.exit("no sources found in compile_commands.json")
    todo = [(entry, proof_of(entry, salt)) for entry in entries]
    todo = [(entry, proof) for entry, proof in todo if not (proofs / proof).exists()]
    print(f"{len(entries)} files, {len(todo)} to check", flush=True)

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        running = {pool.submit(check, entry, build): (entry, proof) for entry, proof in todo}
        for done in concurrent.futures.as_completed(running):
            entry, proof = running[done]
            status, output = done.result()
            if status == 0:
                (proofs / proof).touch()
            else:
                failed += 1
                print(output, flush=True)
    if failed:
        sys.exit(f"{failed} files with findings")


if __name__ == "__main__":
    main()
