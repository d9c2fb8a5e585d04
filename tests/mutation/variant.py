"""The variant of the source tree that has all mutants of tests/mutation/patches in it: a copy in build/mutation/tree, which
is configured and built like any other tree, without sanitizers.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATCHES = ROOT / "tests/mutation/patches"
TREE = ROOT / "build/mutation/tree"
BUILD = ROOT / "build/mutation/build"

sys.path[:0] = [str(ROOT / "tests/sim/mutants"), str(ROOT / "scripts")]
from apply import Unfit, mutated  # noqa: E402


def patched_sources():
    """The patches of each source, as pairs of name and text."""
    found = {}
    for patch in sorted(PATCHES.glob("*.patch")):
        text = patch.read_text()
        sources = re.findall(r"^\+\+\+ b/(\S+)", text, re.M)
        if not sources:
            raise Unfit(f"{patch.name}: is not a unified diff with lines `+++ b/src/…`")
        for source in sources:
            found.setdefault(source, []).append((str(patch.relative_to(ROOT)), text))
    return found


def mutated_sources():
    """The patched sources, by name. Raises Unfit with all patches that do not apply."""
    sources, unfit = {}, []
    for source, patches in patched_sources().items():
        if not (ROOT / source).is_file():
            unfit.append(f"{patches[0][0]}: {source} does not exist")
            continue
        try:
            sources[source] = mutated(source, (ROOT / source).read_text(), patches)
        except Unfit as error:
            unfit.append(str(error))
    if unfit:
        raise Unfit("\n".join(unfit))
    return sources


def write_tree():
    """Copies what git knows, with the mutants. A file that is the same is left alone, so that only changes are built."""
    sources = mutated_sources()
    listed = subprocess.run(["git", "-c", "safe.directory=*", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard", "-z"],
                            capture_output=True, check=True, text=True).stdout.split("\0")
    names = {name for name in listed if name and (ROOT / name).is_file()}
    for name in names:
        content = sources[name].encode() if name in sources else (ROOT / name).read_bytes()
        copy = TREE / name
        if not copy.is_file() or copy.read_bytes() != content:
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(content)
            copy.chmod((ROOT / name).stat().st_mode)
    for path in TREE.rglob("*"):
        if path.is_file() and str(path.relative_to(TREE)) not in names:
            path.unlink()


def configure():
    """Not optimised: it is built more often than it runs for long."""
    subprocess.run(["cmake", "-S", str(TREE), "-B", str(BUILD), "-G", "Ninja", "-D", "CMAKE_CXX_COMPILER=clang++-19",
                    "-D", "CMAKE_AR=/usr/bin/llvm-ar-19", "-D", "CMAKE_RANLIB=/usr/bin/llvm-ranlib-19", "-D", "CMAKE_BUILD_TYPE=Mutation",
                    "-D", f"CMAKE_CXX_FLAGS=-O0 -g0 -include {TREE}/tests/mutation/mutant.hpp"], check=True, stdout=subprocess.DEVNULL)


def build(targets, jobs):
    subprocess.run(["ninja", "-C", str(BUILD), "-j", str(jobs), *targets], check=True)
