"""tools/check_format.py finds a file that is not formatted, and mends it.

  check_format_test.py SOURCES
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCES = pathlib.Path(sys.argv.pop(1)).resolve()


class Format(unittest.TestCase):
    def setUp(self):
        if shutil.which("clang-format-14") is None:
            self.skipTest("needs clang-format-14")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = pathlib.Path(folder.name)
        shutil.copy2(SOURCES / ".clang-format", self.tree)
        (self.tree / "include").mkdir()
        (self.tree / "include/face.h").write_text("int   table;\n")
        (self.tree / "one.cpp").write_text("int one() { return 1; }\n")
        for words in (["init", "-q"], ["add", "-A"]):
            subprocess.run(["git", *words], cwd=self.tree, check=True)

    def check(self, *words):
        return subprocess.run([sys.executable, "-B", SOURCES / "tools/check_format.py", self.tree, *words], capture_output=True,
                              text=True, check=False)

    def test_a_formatted_tree_passes(self):
        ended = self.check()
        self.assertEqual((ended.returncode, ended.stdout), (0, "1 files checked\n"))

    def test_a_file_that_differs_is_named_and_mended(self):
        (self.tree / "one.cpp").write_text("int one(){return 1;}\n")
        ended = self.check()
        self.assertEqual(ended.returncode, 1)
        self.assertIn("one.cpp:1:", ended.stdout)
        self.assertEqual(self.check("--fix").returncode, 0)
        self.assertEqual((self.tree / "one.cpp").read_text(), "int one() { return 1; }\n")
        self.assertEqual(self.check().returncode, 0)

    def test_without_git_it_is_skipped(self):
        shutil.rmtree(self.tree / ".git")
        ended = self.check()
        self.assertEqual((ended.returncode, ended.stdout), (77, "needs the sources in a git repository\n"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
