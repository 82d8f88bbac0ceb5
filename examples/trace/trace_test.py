#!/usr/bin/env python3
"""Checks that the trace of two ranks has every call of both, each within its rank's time, and that of any program its
calls. Arguments: anellorun, the program, another program, the library to preload, the page that says how."""

import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest


class Trace(unittest.TestCase):
    launcher = program = other = preload = page = None

    def test_every_call_of_every_rank_is_in_the_file(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "trace.json"
            done = subprocess.run([self.launcher, "-np", "2", "--timeout", "60", self.program, str(file)],
                                  capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            events = json.loads(file.read_text())["traceEvents"]
        for rank in (0, 1):
            mine = [event for event in events if event["pid"] == rank]
            names = collections.Counter(event["name"] for event in mine)
            self.assertEqual(names, {"layer 0": 4, "layer 1": 4, "layer 2": 4, "allreduce": 4})
            numbers = sorted(event["args"]["sequence"] for event in mine)
            self.assertEqual(numbers, list(range(16)))
            for event in mine:
                self.assertEqual(event["ph"], "X")
                self.assertGreaterEqual(event["dur"], 0)
                self.assertEqual(event["args"]["result"], "ANELLO_OK")
                self.assertEqual(event["args"]["transport"], "shm")
                layer = event["name"] != "allreduce"
                self.assertEqual(event["args"]["bytes"], 400_000 if layer else 4)
                self.assertEqual(event["args"]["algorithm"], "staged" if layer else "exchange")
        # The same operation on both ranks cannot end on one before it has begun on the other.
        ends = {(e["pid"], e["args"]["sequence"]): e["ts"] + e["dur"] for e in events}
        for event in events:
            other = ends[1 - event["pid"], event["args"]["sequence"]]
            self.assertGreaterEqual(other, event["ts"])

    def test_a_program_that_knows_nothing_of_it_is_traced_as_the_page_says(self):
        commands = [line.strip() for line in pathlib.Path(self.page).read_text().splitlines()]
        together = next(line for line in commands if line.startswith("(echo '['"))
        with tempfile.TemporaryDirectory() as folder:
            words = ["env", f"LD_PRELOAD={self.preload}", "ASAN_OPTIONS=verify_asan_link_order=0", self.other]
            done = subprocess.run([self.launcher, "-np", "2", "--timeout", "60", *words], capture_output=True, text=True,
                                  check=False, cwd=folder, env=os.environ | {"OMP_NUM_THREADS": "1"})
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            subprocess.run(together, shell=True, check=True, cwd=folder)
            events = json.loads((pathlib.Path(folder) / "trace.json").read_text())
        self.assertEqual(sorted((event["pid"], event["name"]) for event in events), [(0, "allreduce"), (1, "allreduce")])


if __name__ == "__main__":
    Trace.launcher, Trace.program, Trace.other, Trace.preload, Trace.page = map(os.path.abspath, sys.argv[1:])
    unittest.main(argv=sys.argv[:1], verbosity=2)
