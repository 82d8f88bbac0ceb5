#!/usr/bin/env python3
"""tools/package: what it makes can be installed, works, and is the same in two runs. Argument: the repository."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile


HOME = "https://anello.invalid/home"


def run(*words, **more):
    ended = subprocess.run(words, capture_output=True, text=True, timeout=1700, **more)
    if ended.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, words))}: exit code {ended.returncode}\n"
                             + "\n".join((ended.stdout + ended.stderr).splitlines()[-40:]))
    return ended.stdout


class Packages(unittest.TestCase):
    repository = None

    @classmethod
    def setUpClass(cls):
        if shutil.which("apt-get") is None or os.geteuid() != 0:
            raise unittest.SkipTest("installs packages: needs Debian and root")
        scratch = tempfile.TemporaryDirectory(prefix="anello-packages-")
        cls.addClassCleanup(scratch.cleanup)
        cls.scratch = pathlib.Path(scratch.name)
        cls.made = [cls.scratch / "one", cls.scratch / "two"]
        for each in cls.made:
            run(cls.repository / "tools" / "package", "--out", each, "--url", HOME)

    def test_two_runs_give_the_same_bytes(self):
        names = [sorted(each.name for each in folder.iterdir()) for folder in self.made]
        self.assertEqual(names[0], names[1])
        self.assertGreaterEqual(len(names[0]), 4)
        for name in names[0]:
            with self.subTest(name=name):
                self.assertEqual(*[(folder / name).read_bytes() for folder in self.made])

    def test_the_wheel_starts_a_job_in_a_fresh_environment(self):
        wheel, = self.made[0].glob("*.whl")
        self.assertRegex(wheel.name, r"^anello-[\d.]+-py3-none-manylinux_2_\d+_x86_64\.whl$")
        with zipfile.ZipFile(wheel) as inside:
            metadata, = [name for name in inside.namelist() if name.endswith(".dist-info/METADATA")]
            self.assertIn(f"\nProject-URL: Homepage, {HOME}\n", inside.read(metadata).decode())
        fresh = self.scratch / "fresh"
        run(sys.executable, "-m", "venv", fresh)
        run(fresh / "bin" / "pip", "install", "--no-index", "--quiet", wheel)
        bare = {"PATH": f"{fresh}/bin:/usr/bin:/bin", "HOME": str(self.scratch)}
        self.works(bare)
        run(fresh / "bin" / "python", "-c", "import anello; anello.library.library()", env=bare, cwd=self.scratch)

    def works(self, environment):
        said = run("anellorun", "-np", "2", "anello-perf", "-b", "1K", "-e", "1K", "--no-ceilings", env=environment,
                   cwd=self.scratch)
        self.assertRegex(said, r"(?m)^ *1024 ")
        self.assertRegex(run("anello-info", env=environment, cwd=self.scratch), r"version +\d")
        for name in ("anello-plan", "anello-top", "anello-tune"):
            run(name, "--help", env=environment, cwd=self.scratch)

    def test_the_debian_packages_hold_what_they_promise(self):
        root = self.scratch / "root"
        for package in self.made[0].glob("*.deb"):
            run("dpkg-deb", "-x", package, root)
            self.assertEqual(run("dpkg-deb", "-f", package, "Homepage").strip(), HOME)
        for each in ("usr/bin/anellorun", "usr/share/man/man1/anellorun.1.gz", "usr/include/anello/anello.h",
                     "usr/share/bash-completion/completions/anello-perf"):
            self.assertTrue((root / each).exists(), each)
        library, = root.glob("usr/lib/*/libanello.so.0")
        self.works({"PATH": f"{root}/usr/bin:/usr/bin:/bin", "HOME": str(self.scratch),
                    "LD_LIBRARY_PATH": str(library.parent)})
        program = self.scratch / "program"
        run("cc", self.repository / "examples" / "allreduce.c", "-I", root / "usr/include", "-L", library.parent,
            "-lanello", "-o", program)
        said = run(root / "usr/bin/anellorun", "-np", "4", program, env={"LD_LIBRARY_PATH": str(library.parent)})
        self.assertEqual(len(re.findall(r"rank \d of 4: 6 4 12", said)), 4)


if __name__ == "__main__":
    Packages.repository = pathlib.Path(sys.argv[1])
    unittest.main(argv=sys.argv[:1], verbosity=2)
