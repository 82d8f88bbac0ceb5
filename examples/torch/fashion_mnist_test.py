#!/usr/bin/env python3
"""Each way to start the trainer reaches one process's accuracy at the same global batch, and ranks end bit-equal."""

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
DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")
if not (DATA / "train-images-idx3-ubyte.gz").exists():
    print(f"{DATA} has no images; install dataset-fashion-mnist")
    sys.exit(77)
TRAINER = REPOSITORY / "examples/torch/fashion_mnist.py"


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
        # Shares of the test set, uneven, add up to what one rank says of all of it.
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
