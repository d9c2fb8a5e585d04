"""Which files are ours to check."""
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("src", "include", "tests", "bench", "sim", "examples")
CPP = (".cpp", ".hpp")


def tracked(suffixes):
    """Tracked files with one of these suffixes, relative to the root; outside git, every such file in our folders."""
    # The tree may belong to another user than the one who runs the tests.
    command = ["git", "-c", "safe.directory=*", "-C", str(ROOT), "ls-files", "-z"]
    try:
        listed = subprocess.run(command, capture_output=True, check=True, text=True).stdout.split("\0")
        paths = [pathlib.PurePosixPath(name) for name in listed if name]
    except (OSError, subprocess.CalledProcessError):
        paths = [
            pathlib.PurePosixPath(path.relative_to(ROOT)) for folder in FOLDERS for path in (ROOT / folder).rglob("*")
        ]
    return sorted(path for path in paths if path.suffix in suffixes and (ROOT / path).is_file())
