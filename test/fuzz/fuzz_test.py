"""Each fuzz target for a while, from its corpus on, under AddressSanitizer and UndefinedBehaviorSanitizer. What it finds is left in the
build folder, which the failure names.

  fuzz_test.py SOURCES FOLDER [SECONDS [name..]]    FOLDER: for a build of its own, with clang
"""

import pathlib
import shutil
import subprocess
import sys
import unittest

SOURCES = pathlib.Path(sys.argv.pop(1)).resolve()
FOLDER = pathlib.Path(sys.argv.pop(1)).resolve()
SECONDS = int(sys.argv.pop(1)) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 60
NAMES = [word for word in sys.argv[1:] if not word.startswith("-")]


def clang():
    """The compiler, or None where it cannot make fuzzers."""
    for name in ("clang++-14", "clang++"):
        found = shutil.which(name)
        if found is None:
            continue
        tried = subprocess.run([found, "-fsanitize=fuzzer,address", "-x", "c++", "-", "-o", "/dev/null"], text=True, capture_output=True,
                               check=False, input="extern \"C\" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }")
        if tried.returncode == 0:
            return found
    return None


class Fuzz(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        compiler = clang()
        if compiler is None:
            raise unittest.SkipTest("no clang that makes fuzzers: install clang-14 and libclang-rt-14-dev")
        if not (FOLDER / "build.ninja").exists():
            cls.call("env", f"CC={compiler.replace('clang++', 'clang')}", f"CXX={compiler}", "meson", "setup", FOLDER, SOURCES,
                     "--buildtype=debugoptimized", "-Dfuzz=enabled", "-Db_sanitize=address,undefined", "-Db_lundef=false", "-Dtests=enabled",
                     "-Dtools=disabled", "-Dbench=disabled", "-Dexamples=disabled", "-Dcuda=disabled")
        cls.names = NAMES or sorted(each.name for each in (SOURCES / "test/fuzz/corpus").iterdir())
        cls.call("ninja", "-C", FOLDER, *(f"test/fuzz/fuzz_{name}" for name in cls.names))

    @staticmethod
    def call(*words):
        ended = subprocess.run([str(word) for word in words], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if ended.returncode != 0:
            raise AssertionError(f"{' '.join(map(str, words))}:\n{ended.stdout[-3000:]}")

    def test_targets(self):
        for name in self.names:
            with self.subTest(name):
                place = FOLDER / "found" / name
                corpus = place / "corpus"
                corpus.mkdir(parents=True, exist_ok=True)
                ended = subprocess.run([FOLDER / "test/fuzz" / f"fuzz_{name}", f"-max_total_time={SECONDS}", "-timeout=20", "-rss_limit_mb=2048",
                                        "-max_len=4096", f"-artifact_prefix={place}/", corpus, SOURCES / "test/fuzz/corpus" / name],
                                       text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=SECONDS + 300)
                last = [line for line in ended.stdout.splitlines() if line.startswith(("Done", "SUMMARY", "==", "artifact"))]
                print(name, *last[-3:], sep="\n  ", flush=True)
                self.assertEqual(ended.returncode, 0, f"{name}: see {place}\n{ended.stdout[-3000:]}")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
