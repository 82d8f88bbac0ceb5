"""Puts libanello into the wheel: the one that ANELLO_LIBRARY names, else that of the clone's build folder, else one
that is built now with Meson and Ninja. If ANELLO_PROGRAMS names a folder, its programs go into the wheel, too: they must
find the library in the folder above theirs, as those of tools/package do. The wheel is for this platform, but for any
Python 3: no code is compiled against Python."""

import os
import pathlib
import shutil
import subprocess
import tempfile

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py
from setuptools.dist import Distribution

SONAME = "libanello.so.0"
HERE = pathlib.Path(__file__).resolve().parent
CLONE = HERE.parent


def built_library(scratch):
    named = os.environ.get("ANELLO_LIBRARY")
    if named:
        return pathlib.Path(named)
    built = CLONE / "build" / "lib" / "api" / SONAME
    if built.exists():
        return built
    if not (CLONE / "meson.build").exists():
        raise SystemExit(f"There is no {SONAME} and no source to build it from. ANELLO_LIBRARY may name one.")
    for tool in ("meson", "ninja"):
        if shutil.which(tool) is None:
            raise SystemExit(f"{built} is not there, and cannot be built without {tool}. In the clone, tools/quickstart "
                             "builds it.")
    options = ["--buildtype=release", "-Dtools=disabled", "-Dbench=disabled", "-Dexamples=disabled", "-Dtests=disabled"]
    subprocess.run(["meson", "setup", scratch, str(CLONE), *options], check=True)
    subprocess.run(["meson", "compile", "-C", scratch, "anello"], check=True)
    return pathlib.Path(scratch) / "lib" / "api" / SONAME


class WithLibrary(build_py):
    def run(self):
        super().run()
        if not self.editable_mode:  # a clone in use finds the library of its build folder
            with tempfile.TemporaryDirectory(prefix="anello-build-") as scratch:
                shutil.copyfile(built_library(scratch), pathlib.Path(self.build_lib) / "anello" / SONAME)
            programs = os.environ.get("ANELLO_PROGRAMS")
            if programs:
                into = pathlib.Path(self.build_lib) / "anello" / "bin"
                shutil.copytree(programs, into, dirs_exist_ok=True)


class ForAnyPython(bdist_wheel):
    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


class OfThisPlatform(Distribution):
    def has_ext_modules(self):
        return True


setup(cmdclass={"build_py": WithLibrary, "bdist_wheel": ForAnyPython}, distclass=OfThisPlatform)
