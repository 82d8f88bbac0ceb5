"""The faults still fit the sources, and what comes of them compiles: one that does not would only be missed by the nightly bugs_test.py.

  fit_test.py SOURCES BUILD
"""

import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCES, BUILD = (pathlib.Path(sys.argv.pop(1)).resolve() for _ in range(2))


def run(words, cwd):
    return subprocess.run(words, cwd=cwd, text=True, capture_output=True, check=False)


class Fit(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not (SOURCES / ".git").exists():
            raise unittest.SkipTest("the sources are not those of a git repository")
        cls.commands = {}
        for each in json.loads((BUILD / "compile_commands.json").read_text()):
            source = pathlib.Path(os.path.normpath(BUILD / each["file"]))
            if source.is_relative_to(SOURCES):
                cls.commands.setdefault(source.relative_to(SOURCES), each["command"])

    def check(self, changed, tree):
        """Compiles a source, or a header as a source of its folder would see it."""
        command = self.commands.get(changed) or next(each for source, each in self.commands.items() if source.parent == changed.parent)
        words = shlex.split(command)
        flags = [word for word in words[:words.index("-o")] if word != "-MD"]
        for flag in ("-MQ", "-MF"):
            if flag in flags:
                del flags[flags.index(flag):flags.index(flag) + 2]
        return run([*flags, "-I", BUILD / "include", "-fsyntax-only", "-x", "c++", tree / changed], tree / "build")

    def complaint(self, patch):
        with tempfile.TemporaryDirectory(prefix="anello-fit-") as folder:
            tree = pathlib.Path(folder)
            for part in ("include", "kernels", "lib", "transports"):
                shutil.copytree(SOURCES / part, tree / part)
            tried = run(["git", "apply", "-C1", patch], tree)
            if tried.returncode != 0:
                return f"to be made anew, the sources have moved on: {tried.stderr}"
            (tree / "build").mkdir()
            for changed in re.findall(r"^\+\+\+ b/(\S+)", patch.read_text(), re.M):
                tried = self.check(pathlib.Path(changed), tree)
                if tried.returncode != 0:
                    return f"does not compile: {tried.stderr[:2000]}"
        return None

    def test_every_fault_fits_the_sources(self):
        patches = sorted((SOURCES / "test/bugs").glob("*.patch"))
        self.assertTrue(patches)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for patch, complaint in zip(patches, pool.map(self.complaint, patches)):
                with self.subTest(patch.stem):
                    self.assertIsNone(complaint)


if __name__ == "__main__":
    unittest.main(verbosity=2)
