#!/usr/bin/env python3
"""The trainer for ImageNet learns made-up images on two ranks, and goes on from a checkpoint to the same bits.
imagenet_test.py REPOSITORY ANELLORUN LIBRARY"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

REPOSITORY, LAUNCHER, LIBRARY = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
sys.path.insert(0, str(REPOSITORY / "test/python"))
import interpreter  # noqa: E402

TRAINER = [interpreter.or_skip(REPOSITORY), "-W", "ignore", REPOSITORY / "examples/torch/imagenet.py"]
SMALL = ["--dummy", "--dummy-images", "256", "--arch", "resnet18", "--width", "8", "--classes", "8", "--image-size", "32", "--batch", "32",
         "--epochs", "3", "--workers", "0", "--print-every", "4"]


class ImageNet(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = pathlib.Path(scratch.name)
        self.around = interpreter.environment(REPOSITORY, LIBRARY, scratch.name)

    def train(self, *options, ranks=2):
        report = self.scratch / "report.json"
        report.unlink(missing_ok=True)
        before = [LAUNCHER, "-np", str(ranks)] if ranks > 1 else []
        done = subprocess.run([*before, *TRAINER, *SMALL, "--json", report, *options], env=self.around, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=150, check=False, cwd=self.scratch)
        print(done.stdout, file=sys.stderr)
        self.assertEqual(done.returncode, 0, done.stdout)
        return json.loads(report.read_text()), done.stdout

    def test_it_learns_and_goes_on_from_a_checkpoint_to_the_same_bits(self):
        whole, said = self.train("--amp")
        self.assertEqual((whole["ranks"], whole["equal"], len(whole["epochs"])), (2, True, 3))
        self.assertRegex(said, r"epoch 1  4/8  loss [\d.]+  rate [\d.]+  [\d.]+ images/s")
        last = whole["epochs"][-1]
        self.assertEqual(last["test"]["images"], 64)  # each once
        self.assertEqual(last["train"]["images"], 256)
        self.assertGreater(last["test"]["top1"], 0.5)
        self.assertGreaterEqual(last["test"]["top5"], last["test"]["top1"])
        self.train("--amp", "--until", "1", "--checkpoint", "early.pt")
        resumed, _ = self.train("--amp", "--resume", "early.pt")
        self.assertEqual((resumed["first"], len(resumed["epochs"])), (2, 2))
        self.assertEqual(resumed["digest"], whole["digest"])
        self.assertEqual(resumed["epochs"], whole["epochs"][1:])

    def test_one_process(self):
        alone, _ = self.train("--until", "1", ranks=1)
        self.assertEqual((alone["ranks"], alone["epochs"][0]["test"]["images"]), (1, 64))

    def test_the_networks_are_those_of_torchvision(self):
        count = "import resnet; print(*[sum(p.numel() for p in resnet.resnet(n).parameters()) for n in resnet.SHAPES])"
        said = subprocess.run([TRAINER[0], "-W", "ignore", "-c", count], env=self.around, cwd=REPOSITORY / "examples/torch", check=True,
                              capture_output=True, text=True, timeout=120).stdout
        self.assertEqual(said.split(), ["11689512", "21797672", "25557032", "44549160"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
