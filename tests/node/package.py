"""The Node package as a user gets it: packed into a tarball and installed with npm."""
import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess

import npm

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = ROOT / "bindings" / "node"
HERE = pathlib.Path(__file__).resolve().parent
# Of the build: ONCE_NODE_FOLDER is in the build tree, ONCE_LIBRARY the shared library that the package bundles.
FOLDER = pathlib.Path(os.environ["ONCE_NODE_FOLDER"])
LIBRARY = pathlib.Path(os.environ.get("ONCE_LIBRARY", ""))
NPM_SECONDS = 200
# The newest of every line that is in use; "" is the machine's own.
NODES = ("", "node18", "node22", "node24")


def run(*command, cwd, env=None):
    done = subprocess.run(command, cwd=cwd, env={**os.environ, **(env or {})}, capture_output=True, text=True, timeout=NPM_SECONDS,
                          stdin=subprocess.DEVNULL)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def sources():
    kept = [SOURCE / name for name in ("package.json", "package-lock.json", "tsconfig.json", "README.md")]
    for folder in ("src", "native", "scripts"):
        kept += [file for file in sorted((SOURCE / folder).iterdir()) if file.name != "once.h"]
    return [*kept, ROOT / "include" / "once" / "once.h"]


def tarball():
    """Made from the tree's sources; again only if one of them, or the library, has changed."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with open(FOLDER / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        files = [*sources(), *([LIBRARY] if LIBRARY.is_file() else [])]
        wanted = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
        packed = FOLDER / f"once-{wanted[:12]}.tgz"
        if not packed.exists():
            _pack(packed)
    return packed


def _pack(packed):
    tree = FOLDER / "tree" / "bindings" / "node"
    shutil.rmtree(FOLDER / "tree", ignore_errors=True)
    for file in sources():
        copy = FOLDER / "tree" / file.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)
    run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", cwd=tree)
    run("npm", "run", "build", cwd=tree, env={"ONCE_LIBRARY": str(LIBRARY) if LIBRARY.is_file() else ""})
    name = run("npm", "pack", "--silent", cwd=tree).split()[-1]
    for old in FOLDER.glob("once-*.tgz"):
        old.unlink()
    (tree / name).rename(packed)


def project():
    """A folder in which the package, from its tarball, and those of tests/node can be imported. Tests of one build share it. (Express
    depends on another package of the name, so ours is in a folder of its own, below.)"""
    packed = tarball()
    app = npm.install(HERE, FOLDER / "project", []) / "app"
    with open(FOLDER / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        installed = app / "installed"
        if not installed.exists() or installed.read_text() != packed.name:
            shutil.rmtree(app, ignore_errors=True)
            target = app / "node_modules" / "once"
            target.mkdir(parents=True)
            run("tar", "xzf", packed, "-C", target, "--strip-components=1", cwd=app)
            (app / "package.json").write_text('{"private": true, "type": "module"}')
            installed.write_text(packed.name)
    return app


def add(folder, *options):
    """npm install of a tarball, as a user would. Its install script runs."""
    run("npm", "install", "--no-audit", "--no-fund", *map(str, options), cwd=folder)


def node(version=""):
    """The program of a line in NODES."""
    return os.environ.get("NODE", "node") if version == "" else str(FOLDER / "project" / "node_modules" / version / "bin" / "node")
