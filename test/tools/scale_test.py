"""What docs/scale.md says: its table is what anello-plan says, and predictions are those of calls between four hosts."""

import os
import pathlib
import subprocess
import sys
import unittest

ROOT, BUILD = pathlib.Path(sys.argv.pop(1)), sys.argv.pop(1)


def run(*words):
    return subprocess.run([sys.executable, *map(str, words), "--build", BUILD], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=1200, check=False)


class Scale(unittest.TestCase):
    def test_the_page_has_the_table_of_the_command(self):
        done = run(ROOT / "bench/scale/page.py", "--check", ROOT / "docs/scale.md")
        self.assertEqual(done.returncode, 0, done.stdout)

    @unittest.skipIf(os.geteuid() != 0, "network namespaces need root")
    def test_calls_between_four_hosts_take_as_long_as_predicted(self):
        done = run(ROOT / "bench/compare/scale.py", "--hosts", "4", "--within", "15")
        self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    unittest.main()
