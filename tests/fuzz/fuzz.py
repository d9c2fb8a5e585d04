"""Runs a fuzz target.

fuzz.py short PROGRAM         its corpus and a fixed number of new inputs from a fixed seed, the same in every run; with
                              ONCE_FUZZ_SECONDS new inputs from a new seed for so long; for ctest
fuzz.py canary PROGRAM        passes only if the fuzzer finds the planted bug
fuzz.py long TARGET MINUTES   for as long as you like, in build/dev (or $ONCE_BUILD); new paths go to the corpus
"""
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = pathlib.Path(os.environ.get("ONCE_BUILD", ROOT / "build/dev"))
SHORT_INPUTS = 10_000
FEWER_INPUTS = {"journal_recovery": 500, "config": 500, "yaml": 2_000, "token": 5_000}  # each takes longer there
CANARY_SECONDS = 60  # most; it is found in one

DICTIONARIES = {
    "request_head": "http", "response_head": "http", "scope": "http", "body": "http", "proxy_header": "proxy",
    "json_canonical": "json", "claims_request": "json", "token": "json", "config": "yaml", "yaml": "yaml",
}  # fmt: skip


def name_of(program):
    return pathlib.Path(program).name.removeprefix("fuzz_")


def corpus_of(target):
    return HERE / "corpus" / target


def options(target, findings):
    found = [f"-artifact_prefix={findings}/", "-timeout=10", "-rss_limit_mb=2048", "-max_len=4096", "-print_final_stats=1"]
    if target in DICTIONARIES:
        found.append(f"-dict={HERE}/dictionaries/{DICTIONARIES[target]}.dict")
    return found


def run(command, **how):
    print(" ".join(map(str, command)), flush=True)
    return subprocess.run(command, **how)


def short(program):
    target = name_of(program)
    seeds = sorted(corpus_of(target).iterdir())
    findings = pathlib.Path(program).parent / "findings" / target
    findings.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as new:
        if run([program, *options(target, findings), *seeds]).returncode != 0:
            sys.exit("an input of the corpus fails")
        limits = ["-seed=1", f"-runs={FEWER_INPUTS.get(target, SHORT_INPUTS)}"]
        if "ONCE_FUZZ_SECONDS" in os.environ:
            limits = [f"-max_total_time={os.environ['ONCE_FUZZ_SECONDS']}"]
        if run([program, *options(target, findings), *limits, new, corpus_of(target)]).returncode != 0:
            sys.exit(f"a new input fails: it is in {findings}")


def canary(program):
    with tempfile.TemporaryDirectory() as new:
        limits = ["-seed=1", f"-max_total_time={CANARY_SECONDS}"]
        done = run([program, *options("canary", new), *limits, new], capture_output=True, text=True)
    output = done.stdout + done.stderr
    print(output[-4000:])
    if done.returncode == 0:
        sys.exit("the planted bug was not found: the fuzzer does not see the branches")
    if "AddressSanitizer: heap-buffer-overflow" not in output:
        sys.exit("it failed, but not as planted")


def long(target, minutes):
    program = BUILD / "tests/fuzz" / f"fuzz_{target}"
    findings = program.parent / "findings" / target
    found = program.parent / "found" / target  # stays, so that the next run goes on from here
    for folder in (findings, found):
        folder.mkdir(parents=True, exist_ok=True)
    limits = [f"-max_total_time={round(float(minutes) * 60)}"]
    failed = run([program, *options(target, findings), *limits, found, corpus_of(target)]).returncode != 0
    # Only what reaches code that no seed reaches.
    least = ["-set_cover_merge=1", "-use_counters=0"]
    run([program, *least, *options(target, findings), corpus_of(target), found], check=True)
    for path in corpus_of(target).iterdir():
        if len(path.name) == 40:  # as the fuzzer names them
            path.rename(path.with_name(path.name[:12]))
    if failed:
        sys.exit(f"an input fails: it is in {findings}; with its fix it goes to {corpus_of(target)}")


if __name__ == "__main__":
    commands = {"short": short, "canary": canary, "long": long}
    if len(sys.argv) < 3 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    commands[sys.argv[1]](*sys.argv[2:])
