#!/usr/bin/env python3
"""What meson install leaves works: its programs start wherever it lies, and a program outside this tree is built with it, by
pkg-config and by CMake. Arguments: the build folder, the C compiler, the sanitizers, the repository."""

import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

OUTSIDE = pathlib.Path(__file__).resolve().parent / "outside"
# What would let a program find the library, or pkg-config its file, without what was installed.
HELPERS = ("LD_LIBRARY_PATH", "LD_PRELOAD", "PKG_CONFIG_PATH", "DESTDIR")


def run(command, **environment):
    plain = {name: value for name, value in os.environ.items() if name not in HELPERS}
    done = subprocess.run(command, capture_output=True, text=True, env={**plain, **environment}, timeout=100)
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

    def start_all(self, programs):
        for name in ["anellorun", "anello-info", "anello-perf", "anello-plan", "anello-top", "anello-tune"]:
            run([programs / name, "--help"])
        out = run([programs / "anellorun", "-np", "2", programs / "anello-perf", "-b", "8", "-e", "8", "-n", "5", "-w", "1"])
        self.assertIn("#wrong", out)

    def test_the_commands_start_where_they_were_put(self):
        self.start_all(self.prefix / "bin")

    def test_the_commands_start_after_the_tree_was_moved(self):
        moved = pathlib.Path(self.folder.name) / "moved" / "elsewhere"
        shutil.copytree(self.prefix, moved, symlinks=True)
        self.start_all(moved / "bin")

    def test_no_installed_program_looks_into_the_folder_it_was_built_in(self):
        for program in (self.prefix / "bin").iterdir():
            self.assertNotIn(str(self.build), run(["readelf", "-d", program]), program)

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


# In a mount namespace of its own, so that the machine keeps its /usr, its loader's cache and its build folder's logs: what
# README.md says, word for word, into the prefix that meson takes by itself.
AS_README_SAYS = """
mount -t tmpfs none {room}
for place in /usr/local /etc /var/cache/ldconfig; do
  mkdir -p {room}/upper$place {room}/work$place
  mount -t overlay overlay -o lowerdir=$place,upperdir={room}/upper$place,workdir={room}/work$place $place
done
meson install -C {build} --no-rebuild --quiet
cd {room}
cp {repository}/examples/allreduce.c prog.c
{compiler} prog.c $(pkg-config --cflags --libs anello) -o prog
hash -r
anellorun -np 4 ./prog
anellorun -np 2 anello-perf -b 8 -e 8 -n 5 -w 1
anello-info > /dev/null
"""


class AsReadmeSays(unittest.TestCase):
    build = compiler = repository = None

    def test_after_meson_install_everything_runs(self):
        options = {each["name"]: each["value"] for each in json.loads(run(["meson", "introspect", self.build, "--buildoptions"]))}
        if options["prefix"] != "/usr/local":
            self.skipTest(f"the build folder installs into {options['prefix']}")
        if os.geteuid() != 0:
            self.skipTest("needs root, for a mount namespace")
        with tempfile.TemporaryDirectory() as folder:
            names = {"room": folder, "build": self.build, "repository": self.repository, "compiler": self.compiler}
            quoted = {name: shlex.quote(str(value)) for name, value in names.items() if name != "compiler"}
            script = AS_README_SAYS.format(compiler=self.compiler, **quoted)
            if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode != 0:
                self.skipTest("this system gives root no mount namespace")
            path = "/usr/local/bin:" + os.environ["PATH"]
            out = run(["unshare", "--mount", "bash", "-eux", "-c", script], PATH=path)
        self.assertIn("rank 3 of 4: 6 4 12", out)
        self.assertIn("#wrong", out)


if __name__ == "__main__":
    Install.build, Install.compiler, sanitizers, AsReadmeSays.repository = sys.argv[1:]
    AsReadmeSays.build, AsReadmeSays.compiler = Install.build, Install.compiler
    if sanitizers != "none":
        reason = f"a plain program cannot load a library built with -fsanitize={sanitizers}"
        Install, AsReadmeSays = unittest.skip(reason)(Install), unittest.skip(reason)(AsReadmeSays)
    unittest.main(argv=sys.argv[:1], verbosity=2)
