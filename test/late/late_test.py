"""Results over the late engine are wrong when it leaves steps out: what the suites over it check, they check.

Arguments: results_test, and the folder of the library with that engine.
"""

import os
import subprocess
import sys
import unittest

RESULTS_TEST, LIBRARY = sys.argv.pop(1), sys.argv.pop(1)


class Late(unittest.TestCase):
    def run_results(self, **settings):
        environment = {**os.environ, "LD_LIBRARY_PATH": LIBRARY, "RESULTS_RANKS": "3", "RESULTS_TRANSPORTS": "inproc", **settings}
        return subprocess.run([RESULTS_TEST], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=200)

    def test_all_steps(self):
        done = self.run_results()
        self.assertEqual(done.returncode, 0, done.stdout[-2000:])

    def test_one_step_in_a_thousand_is_left_out(self):
        done = self.run_results(LATE_ENGINE_SKIP="1000")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("FAILED", done.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
