#!/usr/bin/env python3
"""The pipeline of torch.distributed.pipelining: two and four stages, by either schedule, end with the bits of one
process. pipeline_torch_test.py REPOSITORY ANELLORUN LIBRARY"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

REPOSITORY, LAUNCHER, LIBRARY = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
sys.path.insert(0, str(REPOSITORY / "test/python"))
import interpreter  # noqa: E402

PYTHON = [interpreter.or_skip(REPOSITORY), "-W", "ignore"]
interpreter.images_or_skip()


class Pipeline(unittest.TestCase):
    def run_ranks(self, ranks, *options):
        with tempfile.TemporaryDirectory() as scratch:
            report = pathlib.Path(scratch) / "report.json"
            before = [LAUNCHER, "-np", str(ranks)] if ranks > 1 else []
            done = subprocess.run([*before, *PYTHON, REPOSITORY / "examples/pipeline/pipeline.py", "--quick", "--json", report, *options],
                                  env=interpreter.environment(REPOSITORY, LIBRARY, scratch), stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, timeout=150, check=False)
            print(f"{ranks} ranks {' '.join(options)}: {done.stdout}", file=sys.stderr)
            return done, json.loads(report.read_text()) if done.returncode == 0 else None

    def test_stages_end_with_the_bits_of_one_process(self):
        done, alone = self.run_ranks(1)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertGreater(alone["epochs"][0]["accuracy"], 0.72)
        for ranks in (2, 4):
            for schedule in ("gpipe", "1f1b"):
                with self.subTest(ranks=ranks, schedule=schedule):
                    done, report = self.run_ranks(ranks, "--schedule", schedule)
                    self.assertEqual(done.returncode, 0, done.stdout)
                    self.assertEqual(report["digest"], alone["digest"])
                    self.assertEqual(report["epochs"], alone["epochs"])

    def test_more_ranks_than_layers_are_refused(self):
        done, _ = self.run_ranks(5)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("5 ranks, but 4 layers", done.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
