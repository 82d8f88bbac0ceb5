#!/usr/bin/env python3
"""The example of docs/pytorch.md; and each way to start the trainer reaches one process's accuracy at the same global batch, and ranks end bit-equal."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

REPOSITORY, LAUNCHER, LIBRARY = (pathlib.Path(argument) for argument in sys.argv[1:4])
sys.path.insert(0, str(REPOSITORY / "test/python"))
import interpreter  # noqa: E402

PYTHON = interpreter.or_skip(REPOSITORY)
interpreter.images_or_skip()
TRAINER = REPOSITORY / "examples/torch/fashion_mnist.py"


class Page(unittest.TestCase):
    def test_the_first_example_prints_what_the_page_says(self):
        with tempfile.TemporaryDirectory() as scratch:
            done = subprocess.run([LAUNCHER, "-np", "2", PYTHON, "-W", "ignore", REPOSITORY / "examples/torch/allreduce.py"],
                                  env=interpreter.environment(REPOSITORY, LIBRARY, scratch), capture_output=True, text=True, timeout=100,
                                  check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        page = (REPOSITORY / "docs/pytorch.md").read_text()
        shown = [line.strip() for line in page.split("\n") if line.startswith("    rank ")]
        self.assertEqual(len(shown), 4)
        self.assertEqual(sorted(done.stdout.splitlines()), sorted(shown))


class Trainer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.around = interpreter.environment(REPOSITORY, LIBRARY, cls.scratch.name)
        cls.alone = cls.train()

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    @classmethod
    def train(cls, *options, launcher=()):
        report = pathlib.Path(cls.scratch.name) / "report.json"
        report.unlink(missing_ok=True)
        done = subprocess.run([*launcher, PYTHON, "-W", "ignore", TRAINER, "--quick", "--json", report, *options], env=cls.around,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=150, check=False)
        assert done.returncode == 0, done.stdout
        print(f"{' '.join(options) or 'as it is'}: {done.stdout}", file=sys.stderr)
        return json.loads(report.read_text())

    def equals_one_process(self, report):
        self.assertEqual(report["ranks"], 2)
        self.assertTrue(report["equal"])
        mine, alone = report["epochs"][-1], self.alone["epochs"][-1]
        self.assertGreater(alone["accuracy"], 0.72)
        self.assertLess(abs(mine["accuracy"] - alone["accuracy"]), 0.005)
        self.assertLess(abs(mine["loss"] - alone["loss"]), 1e-3)
        # Uneven shares of the test set add up to one rank's result for the whole set.
        self.assertAlmostEqual(report["alone"][0], mine["test_loss"], places=5)
        self.assertEqual(report["alone"][1], mine["accuracy"])

    def test_a_launcher_and_torchs_ddp(self):
        self.equals_one_process(self.train(launcher=[LAUNCHER, "-np", "2"]))

    def test_a_launcher_and_our_own_ddp(self):
        self.equals_one_process(self.train("--ddp", "anello", launcher=[LAUNCHER, "-np", "2"]))

    def test_ranks_that_torch_spawns(self):
        self.equals_one_process(self.train("--spawn", "2"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
