"""package.py FOLDER LIBONCE_SO ONCE: builds the wheel and installs it into a fresh virtual environment, FOLDER/venv.

As a user does it, but without a network: frameworks come from Debian's packages, so it is Debian's interpreter.
"""
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
INTERPRETER = "/usr/bin/python3"


def main():
    folder, library, program = pathlib.Path(sys.argv[1]).resolve(), *sys.argv[2:]
    shutil.rmtree(folder, ignore_errors=True)
    built = subprocess.run([INTERPRETER, ROOT / "bindings" / "python" / "build_wheel.py", folder / "dist", library, program], check=True,
                           stdout=subprocess.PIPE, text=True).stdout.strip()
    if not built.endswith("-py3-none-linux_x86_64.whl"):
        sys.exit(f"{built} is not tagged for this platform")
    subprocess.run([INTERPRETER, "-m", "venv", "--system-site-packages", folder / "venv"], check=True)
    subprocess.run([folder / "venv" / "bin" / "pip", "install", "--quiet", "--no-index", "--no-deps", "--disable-pip-version-check",
                    built], check=True)


if __name__ == "__main__":
    main()
