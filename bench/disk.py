"""A folder on a real disk, gone when it is no longer needed: in memory a sync costs nothing."""
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile

IN_MEMORY = ("tmpfs", "ramfs")


def is_on_disk(folder):
    kind = subprocess.run(["stat", "-f", "-c", "%T", folder], capture_output=True, text=True, check=False).stdout
    return kind.strip() not in ("", *IN_MEMORY) and os.access(folder, os.W_OK)


@contextlib.contextmanager
def temporary_folder(parent=None):
    parents = [parent] if parent else [tempfile.gettempdir(), "/var/tmp", os.getcwd()]
    chosen = next((each for each in parents if is_on_disk(each)), None)
    if chosen is None:
        sys.exit(f"none of these is a folder on a disk: {' '.join(parents)}")
    folder = tempfile.mkdtemp(prefix="once-bench-", dir=chosen)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
