#!/usr/bin/env python3
"""run_tests.py counts right, and no bad end of a program passes for a good one. Argument: the repository."""

import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(ROOT / "tools"))
sys.dont_write_bytecode = True
import run_tests  # noqa: E402

BEGIN = '<?xml version="1.0"?>\n<Catch name="t"><Group name="t">\n'
END = "</Group></Catch>\n"


def case(name, success="true", inside=""):
    return f'<TestCase name="{name}">{inside}<OverallResult success="{success}"/></TestCase>\n'


class RunTests(unittest.TestCase):
    def catch2(self, cases, code=0, output="", end=END):
        outcome = run_tests.Outcome("t")
        run_tests.judge_catch2(outcome, code, BEGIN + cases + end, output)
        return outcome

    def unittest_of(self, output, code):
        outcome = run_tests.Outcome("t")
        self.assertTrue(run_tests.judge_unittest(outcome, code, output))
        return outcome

    def program(self, script, timeout=20):
        with tempfile.TemporaryDirectory() as folder:
            test = {"name": "p", "cmd": ["/bin/sh", "-c", script], "workdir": folder, "env": {"GREETING": "hello"},
                    "timeout": timeout}
            return run_tests.run(test, folder, [], {}, 1)

    def counts(self, outcome):
        return outcome.passed, len(outcome.failed), len(outcome.skipped)

    def test_catch2_cases_are_counted(self):
        outcome = self.catch2(case("one") + case("two", "false") + case("three"), code=1)
        self.assertEqual(self.counts(outcome), (2, 1, 0))
        self.assertEqual(outcome.failed, ["two"])

    def test_a_report_of_catch2_3_is_read_like_one_of_2(self):
        outcome = run_tests.Outcome("t")
        report = ('<?xml version="1.0"?>\n<Catch2TestRun name="t" xml-format-version="3" catch2-version="3.7.1">\n'
                  + case("one") + case("two", "false", '<Expression success="false" filename="a.cpp" line="7"/>')
                  + '<OverallResults successes="1" failures="1"/>\n</Catch2TestRun>\n')
        run_tests.judge_catch2(outcome, 1, report, "")
        self.assertEqual((self.counts(outcome), outcome.failed), ((1, 1, 0), ["two"]))

    def test_a_program_with_catch2s_main_is_known_wherever_catch2_lies(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "p"
            for text, expected in ((b"\x7fELF..._ZN5Catch7SessionC1Ev", True), (b"\x7fELF..._ZN5Catch16AssertionHandlerD1Ev", False),
                                   (b"#!/bin/sh N5Catch7Session", False)):
                program.write_bytes(text)
                self.assertEqual(run_tests.is_catch2(program), expected, text)

    def test_a_failed_expression_is_shown_with_its_place_and_values(self):
        inside = ('<Section name="s"><Expression success="false" type="CHECK" filename="a.cpp" line="7">'
                  "<Original> x == 1 </Original><Expanded> 2 == 1 </Expanded></Expression></Section>")
        outcome = self.catch2(case("one", "false", inside), code=1)
        self.assertIn("a.cpp:7: Expression: x == 1 2 == 1", outcome.output)

    def test_a_case_that_says_skipped_is_skipped_with_its_reason(self):
        for inside in ("<StdOut>\nSKIPPED: no loopback\n</StdOut>", "<Warning> SKIPPED: no loopback </Warning>"):
            outcome = self.catch2(case("one") + case("two", inside=inside))
            self.assertEqual(self.counts(outcome), (1, 0, 1))
            self.assertEqual(outcome.skipped, [("two", "no loopback")])

    def test_a_failed_case_that_also_says_skipped_has_failed(self):
        outcome = self.catch2(case("one", "false", "<StdOut>SKIPPED: no</StdOut>"), code=1)
        self.assertEqual(self.counts(outcome), (0, 1, 0))

    def test_a_skip_printed_past_catch2_is_counted(self):
        outcome = self.catch2(case("one") + case("two"), output="SKIPPED: no loopback\n")
        self.assertEqual(self.counts(outcome), (1, 0, 1))

    def test_a_report_that_ends_in_the_middle_names_the_case(self):
        outcome = self.catch2(case("one") + '<TestCase name="two"><Section name="s">', code=-11, end="")
        self.assertEqual(self.counts(outcome), (1, 1, 0))
        self.assertEqual(outcome.failed, ["two: the program ended here"])

    def test_a_bad_end_after_good_cases_is_a_failure(self):
        outcome = self.catch2(case("one"), code=23, output="ERROR: LeakSanitizer: detected memory leaks")
        self.assertEqual(self.counts(outcome), (1, 1, 0))
        self.assertIn("LeakSanitizer", outcome.output)

    def test_a_program_without_cases_has_failed(self):
        self.assertEqual(self.counts(self.catch2("")), (0, 1, 0))
        outcome = run_tests.Outcome("t")
        run_tests.judge_catch2(outcome, 0, "", "")
        self.assertEqual(self.counts(outcome), (0, 1, 0))

    def test_unittest_output_is_counted(self):
        outcome = self.unittest_of("test_a (m.T.test_a) ... ok\ntest_b (m.T.test_b) ... skipped 'needs two'\n"
                                   "test_c (m.T.test_c) ... FAIL\n\nFAIL: test_c (m.T.test_c) (x=1)\n"
                                   "FAIL: test_c (m.T.test_c) (x=2)\n\nRan 3 tests in 0.1s\n\nFAILED (failures=2, skipped=1)\n", 1)
        self.assertEqual(self.counts(outcome), (1, 1, 1))
        self.assertEqual(outcome.skipped, [("test_b", "needs two")])

    def test_unittest_that_ends_badly_or_runs_nothing_has_failed(self):
        self.assertEqual(self.counts(self.unittest_of("Ran 2 tests in 0.1s\n\nOK\n", 1)), (2, 1, 0))
        self.assertEqual(self.counts(self.unittest_of("Ran 0 tests in 0.0s\n\nOK\n", 0)), (0, 1, 0))

    def test_other_programs_are_one_case(self):
        self.assertEqual(self.counts(self.program("test $GREETING = hello")), (1, 0, 0))
        self.assertEqual(self.program("exit 3").failed, ["the program ended with exit code 3"])
        self.assertEqual(self.program("kill -9 $$").failed, ["the program ended with signal 9 (Killed)"])
        self.assertEqual(self.program("echo; echo no loopback; exit 77").skipped, [("p", "no loopback")])

    def test_a_program_that_does_not_end_is_ended_and_has_failed(self):
        outcome = self.program("sleep 300 & wait", timeout=0.2)
        self.assertEqual(self.counts(outcome), (0, 1, 0))
        self.assertLess(outcome.seconds, 20)

    def test_names_may_come_before_and_after_what_else_is_asked_for(self):
        for words in (["f", "--nightly", "a", "b c"], ["--nightly", "f", "a", "b c"], ["f", "a", "b c", "--nightly"]):
            options = run_tests.parse(words)
            self.assertEqual((str(options.folder), options.names, options.nightly), ("f", ["a", "b c"], True))

    def test_nightly_tests_are_left_out_by_name_and_run_when_asked_for(self):
        tests = [{"name": "a", "suite": ["x:s"], "is_parallel": True, "timeout": 30},
                 {"name": "b", "suite": ["x:nightly"], "is_parallel": True, "timeout": 30}]
        self.assertEqual([[t["name"] for t in run_tests.selection(tests, [], False)[0]],
                          run_tests.selection(tests, [], False)[1]], [["a"], ["b"]])
        self.assertEqual(len(run_tests.selection(tests, [], True)[0]), 2)
        self.assertEqual([t["name"] for t in run_tests.selection(tests, ["nightly"], True)[0]], ["b"])
        self.assertEqual(run_tests.selection(tests, ["nothing"], True)[0], [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
