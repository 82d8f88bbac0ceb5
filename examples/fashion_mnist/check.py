#!/usr/bin/env python3
"""Trains on 1, 2 and 4 ranks and checks the guarantees of data parallelism:

  - the test accuracy after 5 epochs is at least 87 %, and within 0.5 points for any number of ranks
  - the first epoch's loss is the same within 1e-3
  - all ranks hold the same bits after every epoch
  - --timeline draws a step, and with both ways of sending, data sent after the backward pass does not count as hidden
  - with ANELLO_INVARIANT=1, 4 ranks end with the bits of one process that reduces 4 micro-batches in rank order,
    whether gradients travel in buckets (--sync buckets, two of them) or at once (--sync flat)

Each is printed with its figure. Exit code 0: all hold; 1: one does not; 77: skipped, the data set is not installed.
"""
import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree

FILES = [f"{name}-{part}-ubyte.gz" for name in ("train", "t10k") for part in ("images-idx3", "labels-idx1")]


def end(process):
    """Lets the launcher end its ranks, and ends the other processes of its session."""
    process.terminate()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        pass
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


class Runner:
    def __init__(self, options):
        self.options = options
        self.failures = 0

    def train(self, ranks, *arguments, invariant=False):
        """The JSON report of one training, or None if it failed (which is counted and printed)."""
        with tempfile.NamedTemporaryFile(suffix=".json") as report:
            command = [self.options.program, "--data", self.options.data, "--json", report.name, *arguments]
            if ranks > 1:
                command = [self.options.launcher, "-np", str(ranks), *command]
            environment = dict(os.environ)
            environment.pop("ANELLO_INVARIANT", None)
            if invariant:
                environment["ANELLO_INVARIANT"] = "1"
            name = f"{ranks} rank{'s' if ranks > 1 else ''}{', ANELLO_INVARIANT=1' if invariant else ''}"
            name = " ".join([name, *arguments])
            start = time.monotonic()
            process = subprocess.Popen(command, env=environment, start_new_session=True, stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
            try:
                output, _ = process.communicate(timeout=self.options.timeout)
            except subprocess.TimeoutExpired:
                end(process)
                self.state(False, f"{name}: ended within {self.options.timeout} s")
                return None
            seconds = time.monotonic() - start
            if process.returncode != 0:
                print(output)
                self.state(False, f"{name}: exit code {process.returncode}")
                return None
            data = json.load(report)
        if data["ranks"] != ranks:
            self.state(False, f"{name}: the program says it ran on {data['ranks']}")
            return None
        last = data["epochs"][-1]
        print(f"      {name}: {len(data['epochs'])} epochs in {seconds:.1f} s over {data['transport']}, loss of the "
              f"first {data['epochs'][0]['loss']:.5f}, accuracy {100 * last['accuracy']:.2f} %, "
              f"{last['images_per_s']:.0f} images/s, communicating {100 * last['communicating']:.1f} %, {data['hash']}",
              flush=True)
        return data

    def state(self, holds, sentence):
        print(f"{'ok  ' if holds else 'FAIL'}  {sentence}", flush=True)
        self.failures += 0 if holds else 1

    def check_ranks(self, numbers, lowest_accuracy, *arguments):
        runs = {ranks: self.train(ranks, *arguments) for ranks in numbers}
        runs = {ranks: run for ranks, run in runs.items() if run}
        if len(runs) < len(numbers):
            return
        which = ", ".join(map(str, numbers))
        accuracies = [100 * run["epochs"][-1]["accuracy"] for run in runs.values()]
        losses = [run["epochs"][0]["loss"] for run in runs.values()]
        self.state(min(accuracies) >= lowest_accuracy,
                   f"test accuracy on {which} ranks: lowest {min(accuracies):.2f} %, at least {lowest_accuracy} %")
        spread = max(accuracies) - min(accuracies)
        self.state(spread <= 0.5, f"test accuracy on {which} ranks: {spread:.2f} points apart, at most 0.5")
        spread = max(losses) - min(losses)
        self.state(spread <= 1e-3, f"loss of the first epoch on {which} ranks: {spread:.1e} apart, at most 1e-3")
        epochs = [epoch for run in runs.values() for epoch in run["epochs"]]
        equal = sum(epoch["equal"] for epoch in epochs)
        self.state(equal == len(epochs), f"parameters bit-equal on all ranks after {equal} of {len(epochs)} epochs")

    def check_timeline(self, ranks, *arguments):
        """For a network whose gradients fit into one bucket, which is full when the last gradient is ready."""
        for sync in ("buckets", "flat"):
            with tempfile.NamedTemporaryFile(suffix=".svg") as drawing:
                run = self.train(ranks, "--sync", sync, "--bucket-kib", "4096", "--timeline", drawing.name, *arguments)
                if not run:
                    continue
                texts = [each.text for each in ElementTree.parse(drawing.name).iter() if each.tag.endswith("}text")]
            rows = ["layer1.weights", "layer3.biases", "waiting", "bucket 0" if sync == "buckets" else "all gradients"]
            self.state(all(row in texts for row in rows), f"--sync {sync}: the time line shows {', '.join(rows)}")
            self.state(run["hidden"] == 0, f"--sync {sync}, at once after the backward pass: {100 * run['hidden']:.0f} % hidden")

    def check_invariance(self, ranks, *arguments):
        many = self.train(ranks, "--bucket-kib", "16", *arguments, invariant=True)
        flat = self.train(ranks, "--sync", "flat", *arguments, invariant=True)
        if many and flat:
            hashes = [[epoch["hash"] for epoch in run["epochs"]] for run in (many, flat)]
            self.state(hashes[0] == hashes[1], f"{ranks} ranks bit-equal with gradients in buckets and at once")
            self.state(many["buckets"] == 2 and flat["buckets"] == 0, f"{many['buckets']} buckets and {flat['buckets']}")
        one = self.train(1, *arguments, "--micro-batches", str(ranks), invariant=True)
        if many and one:
            hashes = [[epoch["hash"] for epoch in run["epochs"]] for run in (many, one)]
            same = sum(a == b for a, b in zip(*hashes))
            self.state(hashes[0] == hashes[1], f"{ranks} ranks bit-equal to one process with {ranks} micro-batches "
                                               f"after {same} of {len(hashes[0])} epochs")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--launcher", required=True, help="anellorun")
    parser.add_argument("--program", required=True, help="fashion-mnist")
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist", help="folder of the data set")
    parser.add_argument("--quick", action="store_true", help="1 and 2 ranks, one epoch over 12,000 images")
    parser.add_argument("--timeout", type=float, default=240, help="seconds that one training may take")
    options = parser.parse_args()
    absent = [name for name in FILES if not os.path.exists(os.path.join(options.data, name))]
    if absent:
        print(f"skipped: {options.data} has no {absent[0]}; install dataset-fashion-mnist")
        return 77
    runner = Runner(options)
    if options.quick:
        runner.check_ranks([1, 2], 78, "--quick")
        runner.check_timeline(2, "--quick")
        runner.check_invariance(2, "--quick")
    else:
        runner.check_ranks([1, 2, 4], 87)
        runner.check_timeline(2)
        runner.check_invariance(4)
    return 1 if runner.failures else 0


if __name__ == "__main__":
    sys.exit(main())
