"""Runs cases of PyTorch's DistributedTest on one backend and one number of ranks: what conformance.py starts, a process of its
own for each such pair. conformance_ranks.py BACKEND RANKS SECONDS RESULTS [CASE..]

The suite, its class for several processes and its judgement of their exit codes are PyTorch's. Two things differ. Ranks are forked
off this process, which has imported torch and started no thread, where PyTorch spawns them: importing torch takes longer than
most cases. And the suite decides by names of backends what to run, so a backend that it does not know is run as gloo is.
"""

import functools
import json
import os
import pathlib
import sys
import time
import traceback
import unittest

BACKEND, RANKS, SECONDS, RESULTS = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]

# Read while the suite is imported, and by its decorators, for which every backend is gloo.
os.environ.update(BACKEND="gloo", WORLD_SIZE=str(RANKS), INIT_METHOD="file://",
                  DISTRIBUTED_TESTS_DEFAULT_TIMEOUT=str(SECONDS))

import torch
import torch.distributed as dist
from torch.testing._internal import common_distributed, common_utils

_REASON_TO_SKIP = common_utils.skip_but_pass_in_sandcastle_if


def _skip_but_for_all_to_all(condition, reason):
    """Of all_to_all with tensors of the CPU the suite thinks that MPI alone has it."""
    return _REASON_TO_SKIP(condition and not (reason.startswith("Only MPI") and "all_to_all" in reason), reason)


def _skip_below_three(case):
    """These want a group of ranks 1 and 2; the suite skips them below 8 ranks, which no machine of its own tests has."""

    @functools.wraps(case)
    def of_three(*arguments, **named):
        if RANKS < 3:
            sys.exit(common_distributed.TEST_SKIPS["small_worldsize"].exit_code)
        return case(*arguments, **named)

    return of_three


common_utils.skip_but_pass_in_sandcastle_if = _skip_but_for_all_to_all
common_distributed.skip_if_small_worldsize = _skip_below_three
common_distributed.TIMEOUT_OVERRIDE.clear()

from torch.testing._internal.distributed import distributed_test as suite


class _AsGloo(str):
    """A backend's name that is found equal to gloo's, too, where a case asks at run time."""

    def __eq__(self, other):
        return str.__eq__(self, other) or other == "gloo"

    def __ne__(self, other):
        return not self == other

    __hash__ = str.__hash__


def _treat_as_gloo(name):
    os.environ["BACKEND"] = name
    suite.BACKEND = _AsGloo(name)
    for names in common_distributed.DistTestCases.backend_feature.values():
        if "gloo" in names:
            names.add(name)
    for names in (suite.PROFILING_SUPPORTED_BACKENDS, suite.SEND_RECV_PROFILING_SUPPORTED_BACKENDS,
                  suite.CUDA_PROFILING_SUPPORTED_BACKENDS):
        names.append(name)


class Case(suite.TestDistBackend, suite.DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        suite.INIT_METHOD = os.environ["INIT_METHOD"]  # of the folder that was made for this case
        self._start_processes(torch.multiprocessing.get_context("fork").Process)

    def tearDown(self):
        processes = self.processes
        super().tearDown()
        for process in processes:
            process.join(5)
            if process.exitcode is None:
                process.kill()
                process.join(5)

    @classmethod
    def _run(cls, rank, test_name, file_name, pipe, **kwargs):
        try:
            super()._run(rank, test_name, file_name, pipe, **kwargs)
        except Exception:
            if pipe.closed:  # PyTorch's, at the end of the case; what is raised after it is judged by the exit code
                raise
            pipe.send(traceback.format_exc())
            sys.exit(cls.TEST_ERROR_EXIT_CODE)

    def run_test(self, test_name, parent_pipe):
        case = getattr(self, test_name)

        def telling_why_not():
            try:
                case()
            except unittest.SkipTest as skipped:
                _why_not(self.rank).write_text(str(skipped))
                raise

        setattr(self, test_name, telling_why_not)
        super().run_test(test_name, parent_pipe)

    def _check_return_codes(self, fn, elapsed_time):
        try:
            super()._check_return_codes(fn, elapsed_time)
        except unittest.SkipTest as skipped:
            why = _why_not(0)
            raise unittest.SkipTest(why.read_text() if why.exists() else str(skipped)) from None
        # PyTorch looks at rank 0's alone.
        if fn not in self.skip_return_code_checks:
            codes = [process.exitcode for process in self.processes]
            self.assertEqual(codes, codes[:1] * len(codes), "exit codes of the ranks")


def _why_not(rank):
    return pathlib.Path(os.environ["TEMP_DIR"]) / f"skipped{rank}"


class Outcome(unittest.TestResult):
    """kind: passed, failed, skipped or timed out. text: why it did not pass, as PyTorch or Python says it."""

    kind, text = "passed", ""

    def addSkip(self, test, reason):
        self.kind, self.text = "skipped", reason

    def addError(self, test, err):
        text = self._exc_info_to_string(err, test)
        self.kind, self.text = "timed out" if "terminated or timed out after" in text else "failed", text

    addFailure = addError

    def addExpectedFailure(self, test, err):
        self.kind, self.text = "skipped", "PyTorch expects it to fail"

    def addUnexpectedSuccess(self, test):
        self.kind, self.text = "failed", "PyTorch expects it to fail"


def main():
    _treat_as_gloo(BACKEND)
    known = unittest.TestLoader().getTestCaseNames(Case)
    names = sys.argv[5:] or known
    with open(RESULTS, "w", encoding="utf-8", buffering=1) as results:
        results.write(json.dumps({"torch": torch.__version__, "cases": names}) + "\n")
        Case.setUpClass()
        for name in names:
            print(f"==== {name}", flush=True)
            outcome, start = Outcome(), time.monotonic()
            if name in known:
                Case(name).run(outcome)
            else:
                outcome.kind, outcome.text = "failed", "this PyTorch has no such case"
            results.write(json.dumps({"case": name, "outcome": outcome.kind, "text": outcome.text,
                                      "seconds": round(time.monotonic() - start, 2)}) + "\n")
        Case.tearDownClass()


if __name__ == "__main__":
    main()
