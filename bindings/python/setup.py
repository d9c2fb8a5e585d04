"""Tags the wheel: for this platform if libonce.so is beside the modules, for any platform without it.

The library is called through ctypes, so one wheel serves every version of Python 3. `build_wheel.py` puts the library there.
"""
import pathlib

from setuptools import setup
from wheel.bdist_wheel import bdist_wheel

BUNDLED = any((pathlib.Path(__file__).parent / "once").glob("libonce.so*"))


class Wheel(bdist_wheel):
    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = not BUNDLED

    def get_tag(self):
        _, _, platform = super().get_tag()
        return "py3", "none", platform


setup(cmdclass={"bdist_wheel": Wheel})
