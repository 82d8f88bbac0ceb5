#!/usr/bin/env python3
"""The trainer for Horovod reaches on two ranks what one process reaches, and its ranks end bit-equal."""

import json
import os
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


class Page(unittest.TestCase):
    def test_the_page_shows_a_part_of_the_example(self):
        shown = (REPOSITORY / "docs/horovod.md").read_text().split("```python\n")[1].split("```")[0]
        self.assertIn(shown, (REPOSITORY / "examples/torch/horovod_fashion_mnist.py").read_text())


class Trainer(unittest.TestCase):
    def train(self, *options, launcher=()):
        with tempfile.TemporaryDirectory() as scratch:
            around = interpreter.environment(REPOSITORY, LIBRARY, scratch)
            around["PYTHONPATH"] += os.pathsep + str(REPOSITORY / "python/anello-horovod")
            report = pathlib.Path(scratch) / "report.json"
            program = REPOSITORY / "examples/torch/horovod_fashion_mnist.py"
            done = subprocess.run([*launcher, PYTHON, "-W", "ignore", program, "--quick", "--json", report, *options],
                                  env=around, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=150,
                                  check=False)
            self.assertEqual(done.returncode, 0, done.stdout)
            print(f"{' '.join(options) or 'as it is'}: {done.stdout}", file=sys.stderr)
            return json.loads(report.read_text())

    def test_two_ranks_reach_what_one_process_reaches(self):
        alone, two = self.train(), [LAUNCHER, "-np", "2"]
        self.assertGreater(alone["accuracy"], 0.72)
        for options in ((), ("--fp16-allreduce", "--gradient-predivide-factor", "2"), ("--use-adasum",)):
            report = self.train(*options, launcher=two)
            self.assertEqual(report["ranks"], 2)
            self.assertTrue(report["equal"])
            self.assertLess(abs(report["accuracy"] - alone["accuracy"]), 0.06 if "--use-adasum" in options else 0.01)
            self.assertLess(abs(report["loss"] - alone["loss"]), 0.2 if "--use-adasum" in options else 5e-3)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
