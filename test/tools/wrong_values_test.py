#!/usr/bin/env python3
"""What the programs say of options with wrong values: quickly, what was written and what may be, and nothing of how they work
inside. Arguments: the programs."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

PROGRAMS = {}
NUMBERS = ["x", "", "-5", "1e400", "99999999999999999999999", "nan", "0x10", "3 4", "7K7"]
# Of the library that reads the options, of the standard library, and of programs that were not meant to end.
INSIDE = re.compile(r"->\d|\bOR \{|std::|bad_alloc|_M_|\bstoi\b|\bstod\b|terminate|what\(\)|basic_|Could not convert|vector|exception|"
                    r"required \w+ missing|FAILED|Traceback")

# Of each program: words before, {option: values that are wrong}.
CASES = {
    "anellorun": (["true"], {
        "-np": NUMBERS + ["0", "70000"], "--nproc-per-node": ["two"], "--timeout": NUMBERS + ["0", "inf"],
        "--bind-to": ["cores", "", "1", "CORE"], "-x": ["", "=a", "NOT_SET_ANYWHERE"]}),
    "anello-perf": ([], {
        **{option: NUMBERS + ["9999999T", "8Q"] for option in ["-b", "-e", "-i"]}, "-f": NUMBERS + ["1", "0.5"], "-n": NUMBERS + ["0"],
        "-w": NUMBERS, "-c": NUMBERS, "-r": [value for value in NUMBERS if value] + ["-2"], "-t": NUMBERS + ["0", "2"],
        "-o": ["mean", "sum,mean"], "-d": ["float33", "float32;int8"], "--collective": ["all_reduced", ""], "--ranks": ["fibres", ""],
        "--memory": ["0", "huge", ""], "--min-busbw": NUMBERS}),
    "anello-plan": (["allreduce"], {
        "-c": NUMBERS + ["99999999999999"], "--element-bytes": NUMBERS + ["0"], "--root": NUMBERS + ["4096"], "-r": NUMBERS + ["0", "70000"],
        "--per-host": NUMBERS + ["4,x", "0,4"], "--bound-to": NUMBERS, "--board-bytes": NUMBERS, "--reach": ["all", "", "0"],
        "-a": ["round"], "--tuning": ["/no/such/file", "/", ""], "--chunk": NUMBERS, "--chunk-bytes": NUMBERS,
        "--latency": ["-1", "x", ""], "--rate": ["-1", "fast"], "--inside-latency": ["-0.5"], "--inside-rate": ["1e9"],
        "--view": ["list", ""], "--svg": ["/no/such/folder/file", "/"]}),
    "anello-tune": ([], {
        "-r": NUMBERS + ["1", "2,x", "1000"], "-c": ["allreduced", ""], "--memory": ["stack", ""], "--where": ["here", ""], "-b": NUMBERS + ["8Q", "2"],
        "-e": NUMBERS + ["4"], "--sizes": NUMBERS + ["1"], "--rounds": NUMBERS + ["0"], "--minutes": NUMBERS, "--table": ["/no/such/file", "/", ""],
        "--out": ["/dev/null/folder/file", "/"]}),
    "anello-info": ([], {"--explain-dump": ["/no/such/file", "/dev/null", "/proc/self/fdinfo"]}),
    "anello-top": (["--once"], {"-i": NUMBERS + ["0", "4000"], "-p": NUMBERS + ["0", "4194303"], "--dump": ["/dev/null/folder"], "-j": ["x"]}),
}


def run(program, *words):
    done = subprocess.run([PROGRAMS[program], *words], capture_output=True, text=True, timeout=20, stdin=subprocess.DEVNULL,
                          env={name: value for name, value in os.environ.items() if not name.startswith("ANELLO_")})
    return done.returncode, done.stdout, done.stderr


class WrongValues(unittest.TestCase):
    def judge(self, program, words, code, out, err):
        with self.subTest(command=" ".join([program, *map(repr, words)])):
            said = f"exit code {code}\n{out[-600:]}{err[-1500:]}"
            self.assertIn(code, (1, 2, 3), said)
            self.assertTrue(err.startswith(program + ": ") or "\n" + program + ": " in err, said)
            self.assertLess(len(err), 1500, said)
            self.assertIsNone(INSIDE.search(err + out), said)

    def test_a_wrong_value_is_named(self):
        for program, (rest, options) in CASES.items():
            for option, values in options.items():
                for value in values:
                    words = [f"{option}={value}" if option.startswith("--") else option] + ([] if option.startswith("--") else [value])
                    counted = ["-np", "1"] if program == "anellorun" and option not in ("-np", "--nproc-per-node") else []
                    whole = [*counted, *words, *rest]
                    code, out, err = run(program, *whole)
                    self.judge(program, whole, code, out, err)
                    if value and code == 2 and "," not in value and option not in ("-x", "--svg", "--out"):
                        self.assertIn(value, err, whole)

    def test_a_missing_value_and_an_unknown_option_are_named(self):
        for program, (rest, options) in CASES.items():
            for option in options:
                code, out, err = run(program, option)
                self.judge(program, [option], code, out, err)
            whole = [*(["-np", "1"] if program == "anellorun" else []), "--no-such-option", *rest]
            code, out, err = run(program, *whole)
            self.judge(program, whole, code, out, err)
            self.assertIn("--no-such-option", err)

    def test_help_shows_nothing_of_how_options_are_read(self):
        for program in CASES:
            code, out, err = run(program, "--help")
            self.assertEqual((code, err), (0, ""))
            self.assertNotRegex(out, r"->\d|\bOR \{|INT in \[|UINT|TEXT:|:FILE|SIZE \[", program)

    def test_hosts_and_nodes_that_cannot_be_had_are_named(self):
        for words, part in ((["--hostfile", "/no/file"], "/no/file"), (["-machinefile", "/no/file"], "/no/file"),
                            (["--nnodes", "2"], "--nproc-per-node"), (["--nnodes=1:4"], "1:4"),
                            (["--node-rank", "1"], "--nnodes"), (["--node-rank", "-1"], "'-1'")):
            for whole in ([*words, "-np", "2", "true"], ["-np", "2", *words, "true"]):
                code, out, err = run("anellorun", *whole)
                self.judge("anellorun", whole, code, out, err)
                self.assertEqual(code, 2)
                self.assertIn(part, err, whole)

    def test_a_file_that_cannot_be_written_is_named_before_anything_is_measured(self):
        for path in ["/no/such/folder/report", "/"]:
            code, out, err = run("anello-perf", "--ranks", "threads", "-t", "1", "-b", "8", "-n", "10000000", "-J", path)
            self.judge("anello-perf", ["-J", path], code, out, err)
            self.assertIn(f"cannot write '{path}'", err)
            self.assertNotIn("algbw", out, "the table has not begun")
        with tempfile.TemporaryDirectory() as folder:
            report = pathlib.Path(folder) / "report"
            report.write_text("of an earlier run")
            code, out, err = run("anello-perf", "--ranks", "threads", "-t", "1", "-b", "8", "-r", "9", "--collective", "broadcast", "-J", report)
            self.judge("anello-perf", ["-r", "9"], code, out, err)
            self.assertEqual(report.read_text(), "of an earlier run", "a run without results leaves it alone")
            code, out, err = run("anello-perf", "--ranks", "threads", "-t", "1", "-b", "8", "-n", "1", "-J", report)
            self.assertEqual(code, 0, err)
            self.assertIn('"program": "anello-perf"', report.read_text())

    def test_more_memory_than_there_is_is_said_so(self):
        code, out, err = run("anello-perf", "--ranks", "threads", "-t", "1", "-b", "512T", "--no-ceilings")
        self.judge("anello-perf", ["-b", "512T"], code, out, err)
        self.assertRegex(err, r"no memory for a buffer of \d+ bytes; take a smaller -e")
        for words in [["allreduce", "-r", "4096", "-a", "pairwise", "-c", "1000000"], ["allreduce", "-c", "1000000000000", "--chunk", "1"]]:
            code, out, err = run("anello-plan", *words)
            self.judge("anello-plan", words, code, out, err)
            self.assertIn("too many", err)

    def test_anello_tune_says_into_a_pipe_how_far_it_is(self):
        code, out, err = run("anello-tune", "--dry-run", "-r", "2", "-c", "broadcast", "-b", "8", "-e", "32", "--memory", "malloc", "--rounds", "1",
                             "--minutes", "0")
        self.assertEqual(code, 0, err)
        lines = [line for line in err.splitlines() if "broadcast of" in line]
        self.assertEqual(len(lines), 3, err)
        self.assertNotRegex(err, r"[\r\x1b]")


if __name__ == "__main__":
    PROGRAMS.update({pathlib.Path(word).name: word for word in sys.argv[1:]})
    unittest.main(argv=sys.argv[:1], verbosity=2)
