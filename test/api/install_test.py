#!/usr/bin/env python3
"""What meson install leaves serves a program outside this tree, by pkg-config and by CMake.
Arguments: the build folder, the C compiler."""

import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

OUTSIDE = pathlib.Path(__file__).resolve().parent / "outside"


def run(command, **environment):
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=100)
    if done.returncode != 0:
        raise AssertionError(f"{shlex.join(map(str, command))} returned {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


class Install(unittest.TestCase):
    build = None
    compiler = None

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        staged = pathlib.Path(cls.folder.name) / "staged"
        run(["meson", "install", "-C", cls.build, "--no-rebuild", "--quiet"], DESTDIR=str(staged))
        # As after unpacking a package somewhere: the prefix of the build is nowhere in the way.
        (config,) = staged.rglob("anello.pc")
        cls.library = config.parent.parent
        (header,) = staged.rglob("anello/anello.h")
        cls.prefix = header.parent.parent.parent

    def outside(self, program):
        self.assertIn("the sum is right", run([program], LD_LIBRARY_PATH=str(self.library)))

    def test_the_library_is_installed_under_its_soname(self):
        linked = (self.library / "libanello.so").resolve()
        self.assertRegex(linked.name, r"^libanello\.so\.0")
        self.assertIn("libanello.so.0", run(["readelf", "-d", linked]))

    def test_the_commands_are_installed(self):
        for name in ["anellorun", "anello-info", "anello-perf"]:
            self.assertTrue(os.access(self.prefix / "bin" / name, os.X_OK), name)

    def test_an_outside_program_builds_with_pkg_config_and_runs(self):
        flags = run(["pkg-config", f"--define-variable=prefix={self.prefix}", "--cflags", "--libs", "anello"],
                    PKG_CONFIG_PATH=str(self.library / "pkgconfig"))
        program = pathlib.Path(self.folder.name) / "by_pkg_config"
        run([*shlex.split(self.compiler), "-std=c11", OUTSIDE / "outside.c", "-o", program, *shlex.split(flags),
             "-pthread"])
        self.outside(program)

    def test_an_outside_program_builds_with_cmake_and_runs(self):
        if shutil.which("cmake") is None:
            self.skipTest("cmake is not installed")
        folder = pathlib.Path(self.folder.name) / "by_cmake"
        run(["cmake", "-G", "Ninja", "-S", OUTSIDE, "-B", folder, f"-Danello_DIR={self.library}/cmake/anello"])
        run(["cmake", "--build", folder])
        self.outside(folder / "outside")

    def test_cmake_refuses_a_version_that_is_not_compatible(self):
        if shutil.which("cmake") is None:
            self.skipTest("cmake is not installed")
        for version in ["0.2", "1.0"]:
            source = pathlib.Path(self.folder.name) / f"asks_{version}"
            source.mkdir()
            text = (OUTSIDE / "CMakeLists.txt").read_text().replace("anello 0.1 ", f"anello {version} ")
            (source / "CMakeLists.txt").write_text(text)
            shutil.copy(OUTSIDE / "outside.c", source)
            done = subprocess.run(["cmake", "-G", "Ninja", "-S", source, "-B", source / "build",
                                   f"-Danello_DIR={self.library}/cmake/anello"], capture_output=True, text=True)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("compatible", done.stderr)


if __name__ == "__main__":
    Install.build, Install.compiler, sanitizers = sys.argv[1:]
    if sanitizers != "none":
        Install = unittest.skip(f"a plain program cannot load a library built with -fsanitize={sanitizers}")(Install)
    unittest.main(argv=sys.argv[:1], verbosity=2)
