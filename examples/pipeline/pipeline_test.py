#!/usr/bin/env python3
"""The pipeline learns, and its weights have the same bits on 1, 2 and 4 ranks; more ranks than layers are refused."""

import re
import subprocess
import sys
import unittest

LAUNCHER, PROGRAM = sys.argv[1:3]


def run(ranks):
    return subprocess.run([LAUNCHER, "-np", str(ranks), "--timeout", "60", PROGRAM], capture_output=True, text=True, timeout=90)


class Pipeline(unittest.TestCase):
    def test_the_weights_do_not_depend_on_the_number_of_stages(self):
        hashes = set()
        for ranks in (1, 2, 4):
            done = run(ranks)
            self.assertEqual(done.returncode, 0, done.stderr)
            losses = [float(loss) for loss in re.findall(r"loss ([\d.]+)", done.stdout)]
            self.assertEqual(len(losses), 3, done.stdout)
            self.assertLess(losses[-1], 0.6 * losses[0])
            self.assertIn(f"{ranks} stage", done.stdout)
            hashes.add(re.search(r"weights ([0-9a-f]{16})", done.stdout)[1])
        self.assertEqual(len(hashes), 1, hashes)

    def test_more_ranks_than_layers_are_refused(self):
        done = run(5)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("5 ranks, but 4 layers", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
