"""The Node package for the tests here: installed beside the packages of package.json."""
import os
import pathlib
import shutil

import node_package
import npm
from node_package import ROOT, SOURCE, run, tarball  # noqa: F401: for the tests

HERE = pathlib.Path(__file__).resolve().parent
# The newest of every line that is in use; "" is the machine's own.
NODES = ("", "node18", "node22", "node24")


def project():
    """A folder in which the package and those of package.json can be imported. Tests of one build share it. (Express depends on another
    package of the name, so ours is in a folder of its own, below.)"""
    app = npm.install(HERE, node_package.folder() / "project", []) / "app"
    app.mkdir(exist_ok=True)
    if not (app / "package.json").exists():
        (app / "package.json").write_text('{"private": true, "type": "module"}')
    return node_package.unpack(app)


def programs(*names):
    """The project with these programs of ours. Tests that run at the same time never see half of one."""
    app = project()
    for name in names:
        if not (app / name).exists() or (app / name).read_bytes() != (HERE / name).read_bytes():
            copy = app / f"{name}.{os.getpid()}"
            shutil.copy(HERE / name, copy)
            copy.replace(app / name)
    return app


def add(folder, *options):
    """npm install of a tarball, as a user would. Its install script runs."""
    run("npm", "install", "--no-audit", "--no-fund", *options, cwd=folder)


def node(version=""):
    """The program of a line in NODES."""
    return os.environ.get("NODE", "node") if version == "" else str(node_package.folder() / "project" / "node_modules" / version / "bin" / "node")


if __name__ == "__main__":
    project()
