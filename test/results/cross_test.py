"""Reductions by every algorithm, in several chunks, over every transport, on 1 to 9 ranks, as they are and invariant."""

import itertools
import os
import subprocess
import sys
import unittest

RESULTS_TEST = sys.argv.pop(1)
ALGORITHMS = ["", "ring", "pairwise", "doubling", "halving", "tree", "chain", "exchange"]


class Cross(unittest.TestCase):
    def test_every_combination(self):
        for algorithm, chunk, invariant, transport in itertools.product(ALGORITHMS, ["0", "100", "100000"], ["0", "1"],
                                                                        ["inproc", "shm", "tcp"]):
            settings = {"ANELLO_ALGORITHM": algorithm, "ANELLO_CHUNK_BYTES": chunk, "ANELLO_INVARIANT": invariant,
                        "RESULTS_TRANSPORTS": transport, "RESULTS_RANKS": "1,2,3,4,5,6,7,8,9"}
            with self.subTest(**settings):
                ended = subprocess.run([RESULTS_TEST], env={**os.environ, **settings}, capture_output=True, text=True,
                                       timeout=900, check=False)
                self.assertEqual(ended.returncode, 0, ended.stdout[-3000:])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
