#!/usr/bin/env python3
"""Both parameter servers, C++ and Python. Arguments: anellorun, the program, the repository, the library, and for C++
the library of watched.cpp. Synchronous workers equal one worker with all of the batch. Asynchronous ones learn from stale
gradients, and go on when one of them is killed."""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

LAUNCHER, PROGRAM, REPOSITORY, LIBRARY = (pathlib.Path(argument).resolve() for argument in sys.argv[1:5])
WATCHED = pathlib.Path(sys.argv[5]).resolve() if len(sys.argv) > 5 else None
sys.path.insert(0, str(REPOSITORY / "test/python"))
import interpreter  # noqa: E402

interpreter.images_or_skip()
COMMAND = [PROGRAM]
if PROGRAM.suffix == ".py":
    COMMAND = [interpreter.or_skip(REPOSITORY), "-W", "ignore", PROGRAM.with_name("watched.py"), PROGRAM]


def watched(wish):
    """Options of anellorun: in Python, watched.py does what the library does."""
    return ["-x", wish, *(["-x", f"LD_PRELOAD={WATCHED}", "-x", "ASAN_OPTIONS=verify_asan_link_order=0"] if WATCHED else [])]


class ParameterServer(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.json = pathlib.Path(scratch.name) / "report.json"
        self.around = interpreter.environment(REPOSITORY, LIBRARY, scratch.name)

    def train(self, ranks, *options, launching=()):
        """The report of a run, whose last epoch is the only one."""
        command = [LAUNCHER, "-np", str(ranks), *launching, *COMMAND, "--quick", "--json", self.json, *options]
        done = subprocess.run(command, env=self.around, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        print(f"{ranks} ranks {' '.join(options)}: {done.stdout}", file=sys.stderr)
        report = json.loads(self.json.read_text())
        self.assertEqual(report["workers"], ranks - 1)
        self.assertEqual(sum(report["staleness"]), report["gradients"])
        self.assertEqual(len(report["epochs"]), 1)
        return report

    def test_synchronous_workers_equal_one_worker_with_all_of_the_batch(self):
        one = self.train(2, "--mode", "sync", "--batch", "200")
        two = self.train(3, "--mode", "sync", "--batch", "100")
        self.assertGreater(one["epochs"][0]["accuracy"], 0.65)
        self.assertLess(abs(one["epochs"][0]["accuracy"] - two["epochs"][0]["accuracy"]), 0.003)
        self.assertLess(abs(one["epochs"][0]["loss"] - two["epochs"][0]["loss"]), 1e-4)
        self.assertEqual((one["updates"], one["gradients"]), (60, 60))
        self.assertEqual((two["updates"], two["gradients"]), (60, 120))
        self.assertEqual(two["staleness"], [120])

    def train_in_step(self, *options):
        """As train, with three workers each of which sends a gradient once all have the weights for theirs."""
        with tempfile.TemporaryDirectory() as folder:
            return self.train(4, *options, launching=watched(f"IN_STEP={folder}"))

    def test_asynchronous_workers_learn_from_stale_gradients(self):
        for mode in ("async", "dc-asgd"):
            report = self.train_in_step("--mode", mode, "--batch", "50")
            self.assertEqual((report["updates"], report["gradients"]), (240, 240))
            self.assertGreater(report["epochs"][0]["accuracy"], 0.7)
            # Of three gradients of a round at most one is fresh. A gradient misses those of its round that come before
            # it, and those of the round before that came after its worker's.
            self.assertGreaterEqual(sum(report["staleness"][1:]), 160)
            missed = sum(updates * gradients for updates, gradients in enumerate(report["staleness"]))
            self.assertEqual(missed, 3 + 79 * 6)

    def test_compensation_acts_on_stale_gradients_alone(self):
        alone = [self.train(2, "--mode", mode, "--compensation", "1e7")["epochs"][0]["loss"] for mode in ("async", "dc-asgd")]
        self.assertEqual(alone[0], alone[1])
        # So much of it is harmful, where asynchronous workers learn without it.
        several = self.train_in_step("--mode", "dc-asgd", "--batch", "50", "--compensation", "1e7")
        self.assertLess(several["epochs"][0]["accuracy"], 0.5)

    def kill_the_second_worker(self, mode, moment, steps):
        """What a job said whose second worker is killed at this moment, and the ranks that failed, with their ends."""
        program = [*COMMAND, "--quick", "--json", self.json, "--mode", mode, "--steps", str(steps)]
        killed = watched(f"KILLED_BEFORE={moment}")
        command = [LAUNCHER, "--keep-going", "--tag-output", "-np", "2", *program, ":",
                   "-np", "1", *killed, *program, ":", "-np", "1", *program]
        done = subprocess.run(command, env=self.around, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=120, check=False)
        ends = re.findall(r"^anellorun: rank (\d) .* ended with (signal 9|exit code \d+)", done.stdout, re.MULTILINE)
        return done.stdout, {int(rank): end for rank, end in ends}

    def test_asynchronous_workers_go_on_without_one_that_is_killed(self):
        for mode in ("async", "dc-asgd"):
            for moment in ("gradient 40", "announcement 40"):
                with self.subTest(mode=mode, moment=moment):
                    said, ends = self.kill_the_second_worker(mode, moment, 300)
                    self.assertEqual(ends, {2: "signal 9"}, said)
                    self.assertIn("[0] worker 2 is lost, and 2 go on: ", said)
                    report = json.loads(self.json.read_text())
                    self.assertEqual(report["lost"], [2])
                    self.assertEqual(report["gradients"], 2 * 300 + 39)
                    self.assertGreater(report["epochs"][-1]["accuracy"], report["epochs"][0]["accuracy"])

    def test_a_synchronous_server_names_the_worker_that_was_killed(self):
        said, ends = self.kill_the_second_worker("sync", "gradient 40", 300)
        self.assertEqual(ends, {0: "exit code 1", 1: "exit code 1", 2: "signal 9", 3: "exit code 1"}, said)
        self.assertRegex(said, r"(?m)^\[0\] .*rank 2 .*is lost")
        for other in (1, 3):
            self.assertRegex(said, rf"(?m)^\[{other}\] .*rank 0 ")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
