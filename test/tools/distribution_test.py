#!/usr/bin/env python3
"""tools/distribution: what it says and refuses, or what it builds. Arguments: the repository, and Words or Builds."""

import os
import pathlib
import shutil
import subprocess
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(1)).resolve()


def distribution(*words, timeout=60):
    return subprocess.run([ROOT / "tools" / "distribution", *words], capture_output=True, text=True, check=False, timeout=timeout)


class Words(unittest.TestCase):
    def test_it_teaches_itself(self):
        done = distribution("--help")
        self.assertEqual(done.returncode, 0)
        self.assertIn("tools/distribution trixie", done.stdout)

    def test_what_is_no_distribution_or_compiler_is_refused_before_anything_is_made(self):
        for words in ([], ["../x"], ["trixie", "--compiler", "icc"], ["trixie", "--compiler", "g++;true"], ["--bogus"],
                      ["trixie", "--meson", "new"], ["trixie", "--meson", "1.0; true"]):
            with self.subTest(words=words):
                done = distribution(*words)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn("usage", done.stderr)


class Builds(unittest.TestCase):
    def test_everything_builds_and_the_unit_tests_pass_in_debian_13(self):
        if shutil.which("apt-get") is None or os.geteuid() != 0:
            self.skipTest("makes another distribution: needs Debian and root")
        if subprocess.run(["unshare", "--mount", "--pid", "--fork", "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("this system gives root no namespaces")
        done = distribution("trixie", timeout=9000)
        self.assertEqual(done.returncode, 0, "\n".join((done.stdout + done.stderr).splitlines()[-80:]))
        self.assertRegex(done.stdout, r"(?m)^[1-9]\d* passed, 0 failed")
        mounts = pathlib.Path("/proc/self/mounts").read_text()
        self.assertNotIn("build-distributions", mounts)


if __name__ == "__main__":
    unittest.main(verbosity=2)
