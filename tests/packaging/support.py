"""What the tests of the package share: the repository, the binary, and the configurations in it."""
import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
ONCE = os.environ["ONCE_BINARY"]
RELEASE = ROOT / "build/release"
# For what takes hundreds of runs: a sanitizer makes every start slow.
FAST_ONCE = str(RELEASE / "once") if (RELEASE / "once").exists() else ONCE


def configurations():
    """Every configuration file of Once that the repository holds."""
    return [path for path in (*ROOT.glob("examples/**/once.yaml"), *ROOT.glob("packaging/**/once.yaml"),
                              *ROOT.glob("docs/**/once.yaml"))]
