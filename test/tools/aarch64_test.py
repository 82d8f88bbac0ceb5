#!/usr/bin/env python3
"""tools/aarch64: reductions and copies built for AArch64 pass their tests under qemu. Argument: the repository."""

import os
import pathlib
import shutil
import subprocess
import sys
import unittest


class Aarch64(unittest.TestCase):
    repository = None

    def test_the_programs_pass_under_qemu(self):
        if shutil.which("apt-get") is None or os.geteuid() != 0:
            self.skipTest("installs a cross compiler and qemu: needs Debian and root")
        ended = subprocess.run([self.repository / "tools" / "aarch64"], capture_output=True, text=True, timeout=7000,
                               check=False)
        self.assertEqual(ended.returncode, 0, "\n".join((ended.stdout + ended.stderr).splitlines()[-80:]))
        self.assertRegex(ended.stdout, r"[1-9]\d* programs passed, 0 failed")


if __name__ == "__main__":
    Aarch64.repository = pathlib.Path(sys.argv[1])
    unittest.main(argv=sys.argv[:1], verbosity=2)
