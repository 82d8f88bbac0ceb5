"""The tests must find faults in the library. Each patch here puts one into a copy of the sources, which is built; then random
programs (model_test) must fail, or of a patch called results-.. the reductions (results_test). Prints what it took.

  bugs_test.py SOURCES [name..]    only these faults; SOURCES is the repository
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

SOURCES = pathlib.Path(sys.argv.pop(1)).resolve()
NAMES = [word for word in sys.argv[1:] if not word.startswith("-")]
MOST_PROGRAMS = 3000  # a fault that so many do not show is not found


def call(*words, cwd=None):
    ended = subprocess.run(words, cwd=cwd, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if ended.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, words))}:\n{ended.stdout[-3000:]}")
    return ended.stdout


class Bugs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not (SOURCES / ".git").exists():
            raise unittest.SkipTest("the sources are not those of a git repository")
        cls.folder = tempfile.TemporaryDirectory(prefix="anello-bugs-")
        cls.tree = pathlib.Path(cls.folder.name)
        for name in call("git", "ls-files", "-z", cwd=SOURCES).split("\0"):
            if name and (SOURCES / name).is_file():
                (cls.tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(SOURCES / name, cls.tree / name)
        call("meson", "setup", "build", "--buildtype=release", "-Dtools=disabled", "-Dbench=disabled", "-Dexamples=disabled",
             "-Dcuda=disabled", cwd=cls.tree)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def programs(self):
        """How many passed, and the first complaint: None when all did."""
        call("ninja", "-C", "build", "test/model/model_test", cwd=self.tree)
        ended = subprocess.run([self.tree / "build/test/model/model_test", "--programs", str(MOST_PROGRAMS), "--shrink", "0",
                                "--timeout", "4000"], text=True, capture_output=True, check=False, timeout=900)
        if ended.returncode == 0:
            return MOST_PROGRAMS, None
        found = re.search(r"^after (\d+) programs: FAILED over (\w+), program \d+: (.*)$", ended.stdout, re.M)
        self.assertTrue(found, ended.stdout + ended.stderr)
        return int(found[1]), f"{found[2]}: {found[3]}"

    def reductions(self):
        """The first complaint of each way to run them, and how many run without."""
        call("ninja", "-C", "build", "test/results/results_test", cwd=self.tree)
        for number, settings in enumerate([{}, {"ANELLO_ALGORITHM": "ring"}, {"ANELLO_ALGORITHM": "doubling"},
                                           {"ANELLO_INVARIANT": "1"}]):
            ended = subprocess.run([self.tree / "build/test/results/results_test"], text=True, capture_output=True, check=False,
                                   timeout=900, env={**os.environ, "RESULTS_RANKS": "5", **settings})
            if ended.returncode != 0:
                found = re.search(r"rank \d+ of \d+, .*|ranks \d+ and \d+ differ .*", ended.stdout)
                return number, f"{settings}: {found[0] if found else ended.stdout[-500:]}"
        return 4, None

    def test_without_a_fault_all_is_well(self):
        self.assertIsNone(self.programs()[1])
        self.assertIsNone(self.reductions()[1])

    def test_every_fault_is_found(self):
        patches = sorted((SOURCES / "test/bugs").glob("*.patch"))
        self.assertGreaterEqual(len(patches), 12)
        for patch in patches:
            if NAMES and patch.stem not in NAMES:
                continue
            with self.subTest(patch.stem):
                begin = time.monotonic()
                results = patch.stem.startswith("results-")
                unit = "runs" if results else "programs"
                # A patch that no longer fits is to be made anew: the sources have moved on.
                call("git", "apply", "-C1", patch, cwd=self.tree)
                try:
                    passed, trouble = self.reductions() if results else self.programs()
                finally:
                    call("git", "apply", "-C1", "-R", patch, cwd=self.tree)
                print(f"{patch.stem}: {'not found' if trouble is None else 'found'} after {passed} {unit}, "
                      f"{time.monotonic() - begin:.0f} s: {(trouble or '')[:150]}", flush=True)
                self.assertIsNotNone(trouble, f"{patch.stem}: {passed} {unit} do not find it")


if __name__ == "__main__":
    # The tree's own git, if any, must not be taken for that of a folder above.
    os.environ["GIT_CEILING_DIRECTORIES"] = tempfile.gettempdir()
    unittest.main(argv=[sys.argv[0], "-v", *(["Bugs.test_every_fault_is_found"] if NAMES else [])])
