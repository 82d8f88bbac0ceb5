#!/usr/bin/env python3
"""Another project has this one as a Meson subproject, static and shared, with header libraries from wraps, and builds, installs and
runs without root. Argument: the repository."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

NOBODY = 65534
PATH = "/usr/bin:/bin"
SYSTEM = pathlib.Path("/usr/include")
OUTER = """project('outer', 'c', default_options: ['c_std=c11', 'buildtype=plain'])
anello = dependency('anello', default_options: ['tools=disabled', 'bench=disabled'])
executable('outside', 'outside.c', dependencies: [anello, dependency('threads')], install: true,
  install_rpath: get_option('prefix') / get_option('libdir'))
"""
WRAP = "[wrap-file]\ndirectory = {name}\n\n[provide]\ndependency_names = {name}\n"
# What wraps would bring, made of the system's headers.
WRAPPED = {"asio": ["asio.hpp", "asio"], "fmt": ["fmt"], "spdlog": ["spdlog"], "nlohmann_json": ["nlohmann"]}
HEADERS = """project('{name}', 'cpp')
meson.override_dependency('{name}', declare_dependency(include_directories: include_directories('include')))
"""


class Subproject(unittest.TestCase):
    repository = None

    def setUp(self):
        if not shutil.which("meson", path=PATH):
            self.skipTest(f"needs meson where every user finds it: in {PATH}")
        for name, headers in WRAPPED.items():
            if not (SYSTEM / headers[0]).exists():
                self.skipTest(f"makes a wrap of {name} from {SYSTEM}/{headers[0]}, which is not there")
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=self.repository, capture_output=True, text=True, check=False)
        if listed.returncode != 0:
            self.skipTest("needs the sources in a git repository")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.outer, self.build, self.prefix = [self.folder / name for name in ("outer", "build", "installed")]
        for name in filter(None, listed.stdout.split("\0")):
            if (self.repository / name).is_file():
                place = self.outer / "subprojects" / "anello" / name
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(self.repository / name, place)
        (self.outer / "meson.build").write_text(OUTER)
        for name in ("outside.c", "CMakeLists.txt"):
            shutil.copy(self.repository / "test" / "api" / "outside" / name, self.outer)
        for name in ["anello", *WRAPPED]:
            (self.outer / "subprojects" / f"{name}.wrap").write_text(WRAP.format(name=name))
        for name, headers in WRAPPED.items():
            place = self.outer / "subprojects" / name
            (place / "include").mkdir(parents=True)
            (place / "meson.build").write_text(HEADERS.format(name=name))
            for header in headers:
                (place / "include" / header).symlink_to(SYSTEM / header)
        if os.geteuid() == 0:
            for each in [self.folder, *self.folder.rglob("*")]:
                os.chown(each, NOBODY, NOBODY, follow_symlinks=False)

    def run_as_nobody(self, *command):
        other = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
        done = subprocess.run(command, capture_output=True, text=True, timeout=3000, check=False, cwd=self.folder, **other,
                              env={"PATH": PATH, "HOME": str(self.folder), "LC_ALL": "C.UTF-8"})
        self.assertEqual(done.returncode, 0, "\n".join((done.stdout + done.stderr).splitlines()[-40:]))
        return done.stdout

    def needed(self, kind):
        """What the loader needs for the installed program, after it was built and ran."""
        self.run_as_nobody("meson", "configure", self.build, f"-Danello:default_library={kind}")
        self.run_as_nobody("ninja", "-C", self.build)
        self.run_as_nobody("meson", "install", "-C", self.build, "--no-rebuild")
        program = self.prefix / "bin" / "outside"
        self.assertIn("the sum is right", self.run_as_nobody(program))
        return self.run_as_nobody("readelf", "-d", program)

    def test_it_is_built_and_runs_static_then_shared(self):
        self.run_as_nobody("meson", "setup", self.build, self.outer, f"--prefix={self.prefix}",
                           f"--force-fallback-for={','.join(WRAPPED)}")
        commands = (self.build / "compile_commands.json").read_text()
        for name in WRAPPED:
            self.assertIn(f"/subprojects/{name}/include", commands)
        self.assertNotIn("libanello", self.needed("static"))
        self.assertEqual(list(self.prefix.rglob("libanello.so*")), [])
        (archive,) = self.prefix.rglob("libanello.a")
        shown = self.run_as_nobody("nm", "--extern-only", "--defined-only", "--format=posix", archive)
        names = [line.split()[0] for line in shown.splitlines() if len(line.split()) > 1]
        self.assertIn("anello_allreduce", names)
        self.assertEqual([name for name in names if not name.startswith("anello_")], [])
        by_hand = "cc outer/outside.c $(pkg-config --cflags --libs anello) -o by_pkg_config; ./by_pkg_config"
        self.run_as_nobody("sh", "-euc", f"export PKG_CONFIG_PATH={archive.parent}/pkgconfig; {by_hand}")
        if shutil.which("cmake", path=PATH):
            self.run_as_nobody("cmake", "-S", self.outer, "-B", "by_cmake", f"-Danello_DIR={archive.parent}/cmake/anello")
            self.run_as_nobody("sh", "-euc", "cmake --build by_cmake; by_cmake/outside")
        archive.unlink()
        self.assertIn("libanello.so.0", self.needed("shared"))
        self.assertEqual(list(self.prefix.rglob("libanello.a")), [])


if __name__ == "__main__":
    Subproject.repository = pathlib.Path(sys.argv[1])
    unittest.main(argv=sys.argv[:1], verbosity=2)
