#!/usr/bin/env python3
"""bench/creation/creation.py, shortly: what its table has, and what it counts. Arguments: repository, build folder."""

import contextlib
import io
import pathlib
import subprocess
import sys
import unittest
import unittest.mock

BUILD = sys.argv.pop(2)
SCRIPT = pathlib.Path(sys.argv.pop(1)).resolve() / "bench" / "creation" / "creation.py"
sys.path.insert(0, str(SCRIPT.parent))
sys.dont_write_bytecode = True
import creation  # noqa: E402

MS = 1_000_000


def spans(milliseconds):
    return [{"begin": 0, "end": milliseconds * MS}]


class Table(unittest.TestCase):
    """Of a run that takes a second or two."""

    @classmethod
    def setUpClass(cls):
        words = ["--processes", "2", "--threads", "3", "--memory", "2", "--sizes", "8,4096", "--runs", "2", "--rounds", "3",
                 "--communicators", "4", "--build", BUILD]
        done = subprocess.run([sys.executable, "-B", str(SCRIPT), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=100, check=False)
        if done.returncode != 0:
            raise AssertionError(f"exit code {done.returncode}: {done.stderr[-1000:]}")
        cls.lines = [line.rstrip() for line in done.stdout.splitlines()]

    def line(self, first):
        """The rest of the one line that begins so."""
        found = [line.strip()[len(first):] for line in self.lines if line.strip().startswith(first + "  ")]
        self.assertEqual(len(found), 1, f"{first!r} in {self.lines}")
        return found[0].split()

    def test_creation_by_processes_and_threads_has_a_median_the_worst_and_the_time_from_the_first_start(self):
        for name in ("2 processes", "3 threads", "3 threads, in one call"):
            median, worst, from_first = map(float, self.line(name)[:3])
            self.assertLess(0, median)
            self.assertLessEqual(median, worst)
            self.assertLessEqual(median, from_first)
        self.assertEqual(self.line("2 processes")[3:5], ["<", "20"])
        self.assertEqual(self.line("3 threads")[3:], [])

    def test_a_communicator_costs_a_process_memory_of_its_own_and_memory_that_is_shared(self):
        for when in ("before any call", "after calls with two neighbours"):
            own, mapped, part, _ = map(float, self.line(f"2  {when}"))
            self.assertLess(0, own)
            self.assertLess(0, part)
            self.assertLessEqual(part, mapped + 4)  # which counts files, too, that may be taken away meanwhile

    def test_an_all_reduce_of_one_rank_stands_beside_memcpy(self):
        for size in ("8 B", "4 KiB"):
            copy, _, reduction, _, ratio, in_place, _ = self.line(size)
            self.assertLess(0, min(map(float, (copy, reduction, ratio, in_place))))


class Figures(unittest.TestCase):
    def test_time_runs_from_the_last_start_to_the_last_end(self):
        self.assertEqual(creation.took([{"begin": 0, "end": 9 * MS}, {"begin": 4 * MS, "end": 8 * MS}]), (5, 9))

    def test_the_median_decides_about_a_target_and_the_worst_run_is_shown(self):
        cells, met = creation.creation_line("2 processes", [spans(90), spans(10), spans(12)])
        self.assertEqual((cells, met), (["2 processes", "12.00", "90.00", "12.00", "< 20 ok"], True))
        cells, met = creation.creation_line("2 processes", [spans(90), spans(10), spans(20)])
        self.assertEqual((cells[-1], met), ("< 20 MISSED", False))
        self.assertEqual(creation.creation_line("3 threads", [spans(5)])[1], None)

    def test_memory_is_the_worst_rank_s_for_each_time_of_looking(self):
        found = [{"when": when, "own": own, "mapped": 8, "part": 4} for own, when in ((1, "unused"), (3, "used"), (2, "unused"))]
        self.assertEqual(list(creation.memory_lines(8, found)), [["8", "unused", "2.0", "8.0", "4.0", "8.0"], ["8", "used", "3.0", "8.0", "4.0", "4.0"]])

    def main(self, milliseconds, *words):
        programs = unittest.mock.Mock()
        programs.processes.return_value = spans(milliseconds)
        words = ["creation", "--processes", "2", "--threads", "", "--memory", "", "--sizes", "", *words]
        with unittest.mock.patch.object(creation, "Programs", lambda _: programs), unittest.mock.patch.object(sys, "argv", words), \
                contextlib.redirect_stdout(io.StringIO()) as self.shown:
            return creation.main()

    def test_a_missed_target_is_an_exit_code_only_where_that_is_asked_for(self):
        self.assertEqual([self.main(30), self.main(30, "--targets"), self.main(10, "--targets")], [0, 1, 0])

    def test_a_table_that_was_not_asked_for_is_not_shown(self):
        self.main(10)
        self.assertIn("anello_comm_create", self.shown.getvalue())
        self.assertNotIn("memcpy", self.shown.getvalue())

    def test_rows_that_are_missing_are_an_error(self):
        with self.assertRaisesRegex(RuntimeError, "1 rows in place of 2"):
            creation.rows([sys.executable, "-c", "print('{\"begin\": 1}')"], 2)


if __name__ == "__main__":
    unittest.main()
