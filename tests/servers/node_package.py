"""bindings/node as its users get it: built, packed into a tarball, and unpacked where a program imports it. For tests and examples."""
import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = ROOT / "bindings" / "node"
NPM_SECONDS = 200


def run(*command, cwd, env=None):
    done = subprocess.run(list(map(str, command)), cwd=cwd, env={**os.environ, **(env or {})}, capture_output=True, text=True,
                          timeout=NPM_SECONDS, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def folder():
    """Where the tarball is kept: ONCE_NODE_FOLDER, in the build tree."""
    return pathlib.Path(os.environ.get("ONCE_NODE_FOLDER") or ROOT / "build" / "node")


def library():
    """The shared library that is bundled: ONCE_LIBRARY, or the one that was built last; without one the package has none."""
    built = [ROOT / "build" / kind / "bindings" / "c" / "libonce.so" for kind in ("release", "dev")]
    named = os.environ.get("ONCE_LIBRARY")
    if named and not os.path.exists(named):
        raise RuntimeError(f"there is no {named}: build it first, with cmake --preset release && cmake --build --preset release --target once_c")
    return pathlib.Path(named) if named else next((file for file in built if file.exists()), None)


def sources():
    kept = [SOURCE / name for name in ("package.json", "package-lock.json", "tsconfig.json", "README.md")]
    for name in ("src", "native", "scripts"):
        kept += [file for file in sorted((SOURCE / name).iterdir()) if file.name != "once.h"]
    return [*kept, ROOT / "include" / "once" / "once.h"]


def tarball():
    """Made from the tree's sources; again only if one of them, or the library, has changed."""
    place = folder()
    place.mkdir(parents=True, exist_ok=True)
    with open(place / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        bundled = library()
        files = [*sources(), *([bundled] if bundled else [])]
        wanted = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
        packed = place / f"once-{wanted[:12]}.tgz"
        if not packed.exists():
            _pack(place, packed, bundled)
    return packed


def _pack(place, packed, bundled):
    tree = place / "tree" / "bindings" / "node"
    shutil.rmtree(place / "tree", ignore_errors=True)
    for file in sources():
        copy = place / "tree" / file.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)
    run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", cwd=tree)
    run("npm", "run", "build", cwd=tree, env={"ONCE_LIBRARY": str(bundled or "")})
    name = run("npm", "pack", "--silent", cwd=tree).split()[-1]
    for old in place.glob("once-*.tgz"):
        old.unlink()
    (tree / name).rename(packed)


def unpack(app):
    """Puts the package into app/node_modules, where programs in `app` find it."""
    packed = tarball()
    with open(folder() / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        target = app / "node_modules" / "once"
        installed = target / "installed"
        if not installed.exists() or installed.read_text() != packed.name:
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir(parents=True)
            run("tar", "xzf", packed, "-C", target, "--strip-components=1", cwd=app)
            installed.write_text(packed.name)
    return app


def compile_typescript(app, *files):
    """The files in `app` become JavaScript beside them, with the compiler and the types that the package itself is built with."""
    tools = folder() / "tree" / "bindings" / "node" / "node_modules"
    tarball()
    run("node", tools / "typescript" / "bin" / "tsc", "--strict", "--target", "es2022", "--module", "node16", "--moduleResolution", "node16",
        "--lib", "es2022,dom", "--typeRoots", tools / "@types", "--types", "node", "--skipLibCheck", "--noEmitOnError", *files, cwd=app)
