#!/usr/bin/env python3
"""The trainer with Apex's names: two ranks reach what one process does at the same global batch, each level of
optimization trains, and training that was resumed ends with the same bits. apex_fashion_mnist_test.py REPOSITORY
ANELLORUN LIBRARY"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

REPOSITORY, LAUNCHER, LIBRARY = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
sys.path.insert(0, str(REPOSITORY / "test/python"))
import interpreter  # noqa: E402

PYTHON = interpreter.or_skip(REPOSITORY)
interpreter.images_or_skip()
TRAINER = REPOSITORY / "examples/torch/apex_fashion_mnist.py"
ALONE, TWO_RANKS = [PYTHON, "-W", "ignore", TRAINER], [LAUNCHER, "-np", "2"]
MULTIPROC = [PYTHON, "-W", "ignore", "-m", "apex.parallel.multiproc", "--world-size", "2"]


class Trainer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.scratch = pathlib.Path(scratch.name)
        cls.around = interpreter.environment(REPOSITORY, LIBRARY, scratch.name)

    def train(self, *options, launcher=(), epochs=1):
        report = self.scratch / "report.json"
        report.unlink(missing_ok=True)
        words = [*launcher, TRAINER] if launcher is MULTIPROC else [*launcher, *ALONE]
        done = subprocess.run([*words, "--quick", "--epochs", str(epochs), "--json", report, *options], env=self.around,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False,
                              cwd=self.scratch)
        self.assertEqual(done.returncode, 0, done.stdout)
        print(f"{' '.join(map(str, options))}: {done.stdout}", file=sys.stderr)
        return json.loads(report.read_text())

    def test_two_ranks_reach_what_one_process_reaches(self):
        alone, two = (self.train("--opt-level", "O0", "--sync-bn", launcher=each) for each in ((), TWO_RANKS))
        self.assertTrue(two["equal"])
        self.assertEqual((alone["ranks"], two["ranks"]), (1, 2))
        one, other = alone["epochs"][-1], two["epochs"][-1]
        self.assertGreater(one["accuracy"], 0.78)
        self.assertLess(abs(one["accuracy"] - other["accuracy"]), 0.005)
        self.assertLess(abs(one["loss"] - other["loss"]), 1e-3)

    def test_levels_in_16_bits(self):
        for options in (["--opt-level", "O3", "--delay-allreduce"],
                        ["--opt-level", "O2", "--keep-batchnorm-fp32", "False", "--loss-scale", "128.0", "--larc",
                         "--clip", "10"]):
            with self.subTest(options=options):
                report = self.train(*options, launcher=TWO_RANKS)
                self.assertTrue(report["equal"])
                self.assertGreater(report["epochs"][-1]["accuracy"], 0.78)

    def test_a_checkpoint_goes_on_to_the_same_bits(self):
        saved, options = self.scratch / "saved.pt", ["--opt-level", "O2", "--sync-bn"]
        whole = self.train(*options, launcher=TWO_RANKS, epochs=2)
        self.train(*options, "--checkpoint", saved, launcher=TWO_RANKS)
        resumed = self.train(*options, "--resume", saved, launcher=TWO_RANKS, epochs=2)
        self.assertEqual(resumed["digest"], whole["digest"])

    def test_the_launcher_of_apex(self):
        report = self.train("--opt-level", "O1", launcher=MULTIPROC)
        self.assertEqual((report["ranks"], report["equal"]), (2, True))
        self.assertGreater(report["epochs"][-1]["accuracy"], 0.78)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
