#!/usr/bin/env python3
"""Runs PyTorch's own DistributedTest over backends and prints, or writes as a page, what came of each case.

    test/python/conformance.py                                        gloo and anello, on 2 and on 4 ranks
    test/python/conformance.py --backend anello --ranks 2 --case test_all_to_all test_barrier_timeout_global
    test/python/conformance.py --markdown docs/pytorch-conformance.md

Ends with 0 where anello fails no case and gloo passes none that anello does not, with 1 otherwise, with 77 and the reason where
there is no Python that can run the suite: it needs torch 2.13 or newer, numpy and expecttest. ANELLO_TEST_PYTHON names one.
"""

import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import conformance_page
import interpreter

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
STARTING = 120  # seconds until the suite is imported


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--backend", default="anello,gloo", help="anello,gloo")
    parser.add_argument("--ranks", default="2,4", help="2,4")
    parser.add_argument("--case", nargs="+", default=[], help="only these")
    parser.add_argument("--cases", type=pathlib.Path, help="only those that this file has a line for")
    parser.add_argument("--seconds", type=int, default=60, help="deadline of a case (60)")
    parser.add_argument("--library", type=pathlib.Path, default=os.environ.get("ANELLO_LIBRARY"),
                        help="libanello.so.0; else ANELLO_LIBRARY, else that of build/")
    parser.add_argument("--json", type=pathlib.Path, help="all outcomes with all of their text")
    parser.add_argument("--markdown", type=pathlib.Path, help="the page")
    parser.add_argument("--log", type=pathlib.Path, help="what the ranks print")
    asked = parser.parse_args()
    if asked.cases:
        asked.case += [line for line in asked.cases.read_text().split("\n") if line and not line.startswith("#")]
    if asked.library is None:
        asked.library = REPOSITORY / "build" / "lib" / "api" / "libanello.so.0"
    asked.library = asked.library.resolve()  # ranks run elsewhere
    return asked


class Run:
    """All cases over one backend on one number of ranks, in a process that forks the ranks."""

    def __init__(self, python, backend, ranks, asked, log):
        self.name = f"{backend} on {ranks} ranks"
        self.command = [python, "-W", "ignore", str(HERE / "conformance_ranks.py"), backend, str(ranks), str(asked.seconds)]
        self.asked, self.log = asked, log
        self.torch, self.outcomes = None, {}

    def __call__(self):
        with tempfile.TemporaryDirectory() as scratch:
            around = interpreter.environment(REPOSITORY, self.asked.library, scratch)
            results = pathlib.Path(scratch) / "results"
            os.mkfifo(results)
            # Of its own session, so that a process that does not end can be ended with all of its ranks.
            process = subprocess.Popen([*self.command, str(results), *self.asked.case], env=around, cwd=scratch,
                                       stdout=self.log, stderr=subprocess.STDOUT, start_new_session=True)
            try:
                self._follow(process, results)
            finally:
                self._end(process)

    def _follow(self, process, results):
        lines, end = os.open(results, os.O_RDONLY | os.O_NONBLOCK), time.monotonic() + STARTING
        try:
            unread = b""
            while True:
                ended = process.poll() is not None
                try:
                    came = os.read(lines, 1 << 16)
                except BlockingIOError:
                    came = b""
                if came:
                    *whole, unread = (unread + came).split(b"\n")
                    for line in whole:
                        self._take(json.loads(line))
                    end = time.monotonic() + self.asked.seconds + 60
                elif ended:
                    break
                elif time.monotonic() > end:
                    raise RuntimeError(f"{self.name}: nothing came of the next case")
                else:
                    time.sleep(0.05)
        finally:
            os.close(lines)
        if process.returncode != 0 or not self.outcomes or len(self.outcomes) != self.expected:
            raise RuntimeError(f"{self.name}: ended with {process.returncode} after {len(self.outcomes)} cases; --log tells more")

    def _take(self, line):
        if "case" not in line:
            self.torch, self.expected = line["torch"], len(line["cases"])
            return
        self.outcomes[line["case"]] = line
        if line["outcome"] != "skipped":
            print(f"{self.name} {len(self.outcomes):3d}/{self.expected} {line['case']}: {line['outcome']}, {line['seconds']} s",
                  flush=True)

    def _end(self, process):
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)


def find_python():
    python, why = interpreter.with_torch(REPOSITORY, also=("numpy", "expecttest"))
    if python is None:
        print(why)
        sys.exit(77)
    return python


def main():
    asked = arguments()
    python = find_python()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # by which Meson ends it; the ranks go with it
    begin, runs = time.monotonic(), {}
    with open(asked.log or os.devnull, "w", encoding="utf-8") as log:
        for backend in asked.backend.split(","):
            for ranks in map(int, asked.ranks.split(",")):
                run = runs[backend, ranks] = Run(python, backend, ranks, asked, log)
                run()
    outcomes = {column: run.outcomes for column, run in runs.items()}
    report = conformance_page.Report(outcomes, next(iter(runs.values())).torch,
                                    round(time.monotonic() - begin), asked.seconds)
    if asked.json:
        asked.json.write_text(json.dumps([{"backend": backend, "ranks": ranks, **outcome}
                                          for (backend, ranks), run in outcomes.items() for outcome in run.values()], indent=1))
    if asked.markdown:
        asked.markdown.write_text(report.page())
    print(report.summary())
    sys.exit(1 if report.failures() else 0)


if __name__ == "__main__":
    main()
