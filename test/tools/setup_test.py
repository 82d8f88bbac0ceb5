#!/usr/bin/env python3
"""tools/setup.sh installs what is missing and nothing else, against a dpkg-query and an apt-get of the test's own.
Argument: the repository."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
# installed/ holds a file for each package that is; refused/ one for each that apt-get cannot install.
DPKG_QUERY = """#!/bin/sh
for package; do :; done
[ -e "$STATE/installed/$package" ] && printf installed
"""
APT_GET = """#!/bin/bash
echo "$*" >> "$STATE/calls"
[[ " $* " == *" install "* ]] || exit 0
for word; do [ -e "$STATE/refused/$word" ] && exit 100; done
for word; do case $word in [a-z]*) touch "$STATE/installed/$word";; esac; done
"""


class Setup(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.state = pathlib.Path(folder.name)
        for name in ("bin", "installed", "refused"):
            (self.state / name).mkdir()
        for name, text in (("dpkg-query", DPKG_QUERY), ("apt-get", APT_GET), ("sudo", '#!/bin/sh\nexec "$@"\n')):
            (self.state / "bin" / name).write_text(text)
            (self.state / "bin" / name).chmod(0o755)
        self.packages = self.shell('printf "%s" "$packages" | cut -s -d"|" -f1').stdout.split()

    def shell(self, script):
        environment = {**os.environ, "STATE": str(self.state), "PATH": f"{self.state}/bin:{os.environ['PATH']}"}
        return subprocess.run(["bash", "-c", f"source {ROOT}/tools/setup.sh; {script}"], env=environment, timeout=60,
                              capture_output=True, text=True)

    def installed(self, *without):
        for name in self.packages:
            if name not in without:
                (self.state / "installed" / name).touch()

    def calls(self):
        file = self.state / "calls"
        return file.read_text().splitlines() if file.exists() else []

    def row(self, output, name):
        return next(line for line in output.splitlines() if line.split()[:1] == [name])

    def test_where_all_is_there_apt_is_not_called(self):
        self.installed()
        done = self.shell("install_packages")
        self.assertEqual((done.returncode, self.calls()), (0, []), done.stderr)
        for name in self.packages:
            self.assertTrue(self.row(done.stdout, name).endswith(" found"))

    def test_what_is_missing_is_installed_in_one_go_and_the_second_run_installs_nothing(self):
        self.installed("catch2", "g++")
        done = self.shell("install_packages")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(self.calls()), 2)
        self.assertTrue(self.calls()[0].endswith("update -qq"))
        self.assertTrue(self.calls()[1].endswith("--no-install-recommends g++ catch2"))
        self.assertTrue(self.row(done.stdout, "catch2").endswith(" installed"))
        self.assertTrue(self.row(done.stdout, "meson").endswith(" found"))
        self.assertEqual(self.shell("install_packages").returncode, 0)
        self.assertEqual(len(self.calls()), 2)

    def test_ccache_is_not_asked_for(self):
        self.installed("ccache")
        done = self.shell("install_packages")
        self.assertEqual((done.returncode, self.calls()), (0, []))
        self.assertIn("left out", self.row(done.stdout, "ccache"))

    def test_a_package_that_is_not_needed_is_left_out_with_what_it_serves(self):
        self.installed("dataset-fashion-mnist", "catch2")
        (self.state / "refused" / "dataset-fashion-mnist").touch()
        done = self.shell("install_packages")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("left out, and with it the trainer", self.row(done.stdout, "dataset-fashion-mnist"))
        self.assertTrue(self.row(done.stdout, "catch2").endswith(" installed"))

    def test_without_a_package_that_is_needed_it_ends_and_names_it(self):
        self.installed("libasio-dev")
        (self.state / "refused" / "libasio-dev").touch()
        done = self.shell("install_packages; echo went on")
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot go on without libasio-dev", done.stderr)
        self.assertNotIn("went on", done.stdout)

    def test_hardware_that_is_not_there_is_no_reason_to_stop(self):
        self.installed()
        output = self.shell("install_packages").stdout
        for name in ("CUDA", "InfiniBand"):
            self.assertIn("left out", self.row(output, name))

    def test_mistakes_in_the_options_give_2_and_install_nothing(self):
        for command in ("test --bogus", "quickstart --bogus"):
            with self.subTest(command=command):
                self.assertEqual(self.shell(f"exec {ROOT}/tools/{command}").returncode, 2)
        self.assertEqual(self.calls(), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
