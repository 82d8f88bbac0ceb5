"""The faults still fit the sources: one that does not would only be missed by the nightly bugs_test.py.

  fit_test.py SOURCES
"""

import pathlib
import subprocess
import sys
import unittest

SOURCES = pathlib.Path(sys.argv.pop(1)).resolve()


class Fit(unittest.TestCase):
    def test_every_fault_fits_the_sources(self):
        if not (SOURCES / ".git").exists():
            self.skipTest("the sources are not those of a git repository")
        patches = sorted((SOURCES / "test/bugs").glob("*.patch"))
        self.assertTrue(patches)
        for patch in patches:
            with self.subTest(patch.stem):
                tried = subprocess.run(["git", "apply", "--check", "-C1", patch], cwd=SOURCES, text=True, capture_output=True, check=False)
                self.assertEqual(tried.returncode, 0, f"to be made anew, the sources have moved on: {tried.stderr}")


if __name__ == "__main__":
    unittest.main(verbosity=2)
