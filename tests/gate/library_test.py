"""library_test.py LIBRARY SOURCE BUILD RELEASED --sanitizer=NAME: what libonce.so shows to the programs that load it. The
list of functions is the interface: whoever changes it changes exports.txt, and knows that nothing may ever be taken away.

RELEASED is the library that is packaged. It is linked in another way than one with sanitizers, so it is looked at, too."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap

HERE = pathlib.Path(__file__).parent
FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-pedantic", "-Werror"]


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def exported(library):
    lines = output("nm", "--dynamic", "--defined-only", "--with-symbol-versions", library).splitlines()
    return sorted(line.split()[-1] for line in lines)


def declared(header):
    text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.DOTALL)
    return sorted(set(re.findall(r"\b(once_\w+)\(", text)))


def check_exports(library, source):
    expected = (HERE / "exports.txt").read_text().split()
    version = "ONCE_1"
    found = [name for name in exported(library) if name != version]
    assert found == [f"{name}@@{version}" for name in expected], f"libonce.so exports {found}"
    assert declared(source / "include/once/once.h") == expected, "once.h and exports.txt differ"


def check_marks(library):
    dynamic = output("readelf", "--dynamic", "--wide", library)
    assert "NODELETE" in dynamic, "a library with threads must not be unloaded"
    assert re.search(r"SYMBOLIC", dynamic), "the library must bind to its own code first"
    sections = output("readelf", "--sections", "--wide", library)
    assert ".llvmbc" not in sections and ".llvm.lto" not in sections, "there is bitcode in the library"


def check_needs(library):
    """What a host may have in another version is inside of it. libpq has no complete archive in Debian."""
    needed = set(re.findall(r"\(NEEDED\).*\[(\w+)", output("readelf", "--dynamic", "--wide", library)))
    others = {"libpq", "libyaml", "libfmt", "libz", "libstdc", "libm", "libgcc_s", "libc", "ld"}
    assert needed <= others, f"the library needs {needed - others}"


def check_compilers(library, source, sanitizer):
    with tempfile.TemporaryDirectory() as folder:
        for compiler in ("gcc", "clang-19"):
            for name in ("gate_test", "ending_test", "fork_test", "exit_test", "gate_program"):
                made = f"{folder}/{name}.o"
                output(compiler, *FLAGS, f"-I{source}/include", "-c", str(HERE / f"{name}.c"), "-o", made)
            # C++ reads the same header.
            made = f"{folder}/header.o"
            output(compiler, "-x", "c++", "-std=c++17", "-Wall", "-Wextra", "-pedantic", "-Werror", "-c",
                   f"{source}/include/once/once.h", "-o", made)
            if sanitizer:
                continue  # the program would have to bring the same one
            linked = f"{folder}/program"
            output(compiler, *FLAGS, f"-I{source}/include", str(HERE / "gate_test.c"), "-o", linked, library, "-lpthread",
                   f"-Wl,-rpath,{pathlib.Path(library).parent}")
            output(linked)


def check_installed(build, source, sanitizer):
    """What is installed can be built against as its users do, wherever it was put."""
    with tempfile.TemporaryDirectory() as folder:
        output("cmake", "--install", build, "--component", "capi", "--prefix", f"{folder}/first")
        pathlib.Path(folder, "first").rename(f"{folder}/prefix")
        package = next(pathlib.Path(folder).rglob("libonce.pc"))
        library = package.parent.parent
        environment = {**os.environ, "PKG_CONFIG_PATH": str(package.parent)}
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", "libonce"], env=environment, check=True,
                               capture_output=True, text=True).stdout.split()
        program = f"{folder}/sample"
        extra = [f"-fsanitize={sanitizer}"] if sanitizer else []
        output("clang-19", *extra, str(source / "tests/gate/sample.c"), "-o", program, *flags, f"-Wl,-rpath,{library}")
        data = pathlib.Path(folder, "data")
        data.mkdir()
        output(program, str(data))


def check_page(source):
    """Every block of code in docs/guides/gate.md is a part of a sample that is built and run."""
    samples = "".join((HERE / name).read_text() for name in ("sample.c", "sample.cpp"))
    parts = re.findall(r"(?:/\*|//) docs: \w+(?: \*/)?\n(.*?)\n *(?:/\*|//) docs: end", samples, re.DOTALL)
    known = {textwrap.dedent(part).strip() for part in parts}
    blocks = re.findall(r"```c(?:pp)?\n(.*?)```", (source / "docs/guides/gate.md").read_text(), re.DOTALL)
    assert {block.strip() for block in blocks} == known, "docs/guides/gate.md and the samples differ"


def main():
    library, source, build, released = sys.argv[1], *map(pathlib.Path, sys.argv[2:5])
    sanitizer = sys.argv[5].split("=", 1)[1]
    check_exports(library, source)
    check_marks(library)
    check_page(source)
    check_compilers(library, source, sanitizer)
    check_installed(build, source, sanitizer)
    if released.exists():
        check_exports(released, source)
        check_marks(released)
        check_needs(released)
        check_compilers(released, source, "")
    else:
        print("SKIPPED, the library of the release build was not tested: it is not there")


main()
