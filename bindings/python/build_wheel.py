#!/usr/bin/python3
"""build_wheel.py OUTPUT_FOLDER [LIBONCE_SO [ONCE]]: builds the wheel, with the library in it if one is named. Needs no network.

ONCE is the program, which prints the schema that Django's migration applies.

It works on a copy, so nothing is written into the source tree. The interpreter needs pip, setuptools and wheel.
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


def build(output, library=None, program=None):
    """Returns the path of the wheel."""
    output = pathlib.Path(output).resolve()
    with tempfile.TemporaryDirectory(prefix="once-wheel-") as folder:
        source = pathlib.Path(folder) / "source"
        shutil.copytree(HERE, source, ignore=shutil.ignore_patterns("__pycache__", "*.so*", "build", "*.egg-info"))
        if library is not None:
            shutil.copy(pathlib.Path(library).resolve(), source / "once" / "libonce.so")
        if program is not None:
            (source / "once" / "schema").mkdir()
            printed = subprocess.run([program, "schema", "postgres"], check=True, stdout=subprocess.PIPE).stdout
            (source / "once" / "schema" / "postgres.sql").write_bytes(printed)
        made = pathlib.Path(folder) / "made"
        subprocess.run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps", "--no-index",
                        "--disable-pip-version-check", "--wheel-dir", made, source], check=True)
        wheel, = made.glob("*.whl")
        output.mkdir(parents=True, exist_ok=True)
        return pathlib.Path(shutil.copy(wheel, output))


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3, 4):
        sys.exit(__doc__)
    print(build(*sys.argv[1:]))
