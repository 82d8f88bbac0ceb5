#!/usr/bin/env python3
"""What bench/compare makes of its rows: best settings, disturbed rows, ratios within rounds, targets, plots; which rows it measures
again; and what the pages say of it. Arguments: repository, build folder."""

import importlib.util
import os
import pathlib
import re
import sys
import tempfile
import types
import unittest
import unittest.mock

BUILD = sys.argv.pop(2)
ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(ROOT / "bench" / "compare"))
sys.dont_write_bytecode = True
import compare  # noqa: E402
import job  # noqa: E402
import machine  # noqa: E402
import measure  # noqa: E402
import plan  # noqa: E402
import plots  # noqa: E402
import settings  # noqa: E402
import table  # noqa: E402
import targets  # noqa: E402
import wheels  # noqa: E402

KIB, MIB = 1 << 10, 1 << 20


def row(library, micros, number=0, setting="a", size=4 * KIB, dirty=False, others=0.0, line=40.0, least=None, ranks=2):
    return {"operation": "allreduce", "ranks": ranks, "transport": "shm", "bytes": size, "dirty": dirty, "library": library,
            "setting": setting, "round": number, "others": others, "line_ns": [line, line], "median_us": micros,
            "min_us": micros * 0.9 if least is None else least}


def case(size=4 * KIB, dirty=False, ranks=2):
    return ("allreduce", ranks, "shm", size, dirty)


class CompareTable(unittest.TestCase):
    def verdict(self, rows, own="Anello"):
        results = table.figures(rows)
        return next(item for item in table.verdicts(results, 2) if item.own == own)

    def test_the_best_setting_of_a_library_counts(self):
        rows = [row("Anello", 1), row("MPICH", 9, setting="slow"), row("MPICH", 3, setting="fast")]
        figure = table.figures(rows)[case()]["MPICH"]
        self.assertEqual((figure.micros, figure.setting, figure.mark), (3, "fast", ""))

    def test_a_row_that_others_disturbed_does_not_count_beside_quiet_ones(self):
        rows = [row("MPICH", 3, 0), row("MPICH", 50, 1, others=1.0)]
        self.assertEqual(table.figures(rows)[case()]["MPICH"].micros, 3)

    def test_without_quiet_rows_fastest_batches_are_compared_and_marked(self):
        rows = [row("Anello", 4, least=2), row("MPICH", 9, others=1.0, least=4)]
        verdict = self.verdict(rows)
        self.assertEqual(verdict.peer_ratio, (0.5, "~"))

    def test_a_quiet_row_of_a_poor_setting_does_not_stand_for_the_library(self):
        rows = [row("MPICH", 50, setting="poor"), row("MPICH", 9, setting="good", others=1.0, least=4)]
        figure = table.figures(rows)[case()]["MPICH"]
        self.assertEqual((figure.micros, figure.setting, figure.mark), (4, "good", "~"))
        rows[0]["median_us"] = 4.5  # as good as the other's fastest
        self.assertEqual(table.figures(rows)[case()]["MPICH"].setting, "poor")

    def test_a_row_of_another_placement_of_the_processors_is_marked(self):
        rows = [row("Anello", 4, number) for number in range(3)] + [row("MPICH", 9, line=200.0)]
        self.assertEqual(self.verdict(rows).peer_ratio[1], "?")

    def test_ratios_are_medians_of_those_within_a_round(self):
        # The machine was twice as slow in round 2: medians of times alone would say 1.
        rows = [row("Anello", 1, 0), row("MPICH", 2, 0), row("Anello", 2, 1), row("MPICH", 4, 1), row("Anello", 9, 2),
                row("MPICH", 1, 2)]
        self.assertEqual(self.verdict(rows).peer_ratio, (0.5, ""))

    def test_the_fastest_peer_is_the_best_and_neither_anello_nor_a_ceiling_is_a_peer(self):
        rows = [row("Anello", 2), row("Anello mapped", 1), row("private", 0.5), row("MPICH", 4), row("Intel MPI", 3)]
        self.assertEqual(self.verdict(rows).peer, "Intel MPI")

    def test_where_peer_and_ceiling_disagree_the_ceiling_decides(self):
        near = self.verdict([row("Anello", 1.1), row("private", 1), row("MPICH", 1.1)])
        self.assertEqual((near.peer_met(), near.ceiling_met(), near.met()), (False, True, True))
        far = self.verdict([row("Anello", 2), row("private", 1), row("MPICH", 10)])
        self.assertEqual((far.peer_met(), far.ceiling_met(), far.met()), (True, False, False))
        self.assertEqual(len(table.missed([near, far])), 1)

    def test_small_calls_may_take_60_ns_more_than_their_share_of_the_ceiling(self):
        self.assertTrue(self.verdict([row("Anello", 0.179, size=8), row("private", 0.1, size=8)]).ceiling_met())
        self.assertFalse(self.verdict([row("Anello", 0.181, size=8), row("private", 0.1, size=8)]).ceiling_met())

    def test_a_ceiling_that_knows_no_rewriting_counts_for_rewritten_buffers_too(self):
        rows = [row("Anello mapped", 4, size=MIB, dirty=True, ranks=4), row("Anello mapped", 3, size=MIB, ranks=4),
                row("copy", 2, size=MIB, ranks=4)]
        verdicts = table.verdicts(table.figures(rows), 2)
        self.assertEqual([(item.case[4], item.ceiling_ratio[0]) for item in verdicts], [(False, 1.5), (True, 2.0)])
        self.assertEqual([item.ceiling_met() for item in verdicts], [True, False])

    def test_nothing_is_promised_where_no_target_is_stated(self):
        self.assertEqual(targets.goal("allreduce", 3, "shm", "Anello", 8, False, 2), targets.Goal())
        self.assertIsNone(targets.goal("allreduce", 8, "tcp", "Anello", 256 * MIB, False, 2).peer)

    def test_tables_hold_every_case_and_say_what_was_missed(self):
        rows = [row("Anello", 2), row("private", 1), row("MPICH", 1)]
        (title, header, lines), = table.verdict_tables(table.figures(rows), table.verdicts(table.figures(rows), 2))
        self.assertIn("2 ranks", title)
        self.assertEqual(len(lines[0]), len(header))
        self.assertIn("<= 0.8 MISSED", lines[0])
        self.assertIn("MISSED", table.as_text(title, header, lines))

    def test_the_summary_has_a_line_for_each_case_in_words_and_a_column_for_each_size(self):
        times = {"Anello": 1, "Anello mapped": 2, "MPICH": 4}
        rows = [row(library, micros, size=size, dirty=dirty) for library, micros in times.items()
                for size in (4, 4 * KIB, 16 * KIB) for dirty in (False, True) if size > 4 or not dirty]
        rows += [row(library, micros, size=8, ranks=4) for library, micros in (("Anello", 3), ("MPICH", 4))]
        (title, header, lines), = table.summary_tables(table.verdicts(table.figures(rows), 2))
        self.assertIn("below 1.00, Anello is faster", title)
        self.assertEqual(header, ["case", "4 B or 8 B", "4 KiB"])
        self.assertEqual(lines, [["all-reduce, 2 ranks, shared memory, ordinary buffers, untouched", "0.25", "0.25"],
                                 ["all-reduce, 2 ranks, shared memory, ordinary buffers, rewritten", "-", "0.25"],
                                 ["all-reduce, 2 ranks, shared memory, mapped buffers, untouched", "0.50", "0.50"],
                                 ["all-reduce, 2 ranks, shared memory, mapped buffers, rewritten", "-", "0.50"],
                                 ["all-reduce, 4 ranks, shared memory, ordinary buffers, untouched", "0.75", "-"]])

    def test_a_summary_without_any_of_the_usual_sizes_has_those_that_were_measured(self):
        rows = [row(library, 1, size=2 * MIB) for library in ("Anello", "MPICH")]
        (_, header, _), = table.summary_tables(table.verdicts(table.figures(rows), 2))
        self.assertEqual(header, ["case", "2 MiB"])
        self.assertEqual(table.summary_tables(table.verdicts(table.figures(rows[:1]), 2)), [])

    def test_a_disturbed_figure_is_called_so_in_words_that_a_note_explains(self):
        def notes(rows):
            return "; ".join(table.notes(table.figures(rows), table.verdicts(table.figures(rows), 2)))
        quiet = [row("Anello", 4), row("MPICH", 9)]
        self.assertNotIn("disturbed", notes(quiet))
        loud = [row("Anello", 4, least=2), row("MPICH", 9, others=1.0, least=4)]
        (_, _, lines), = table.summary_tables(table.verdicts(table.figures(loud), 2))
        self.assertEqual(lines[0][1], "0.50 (disturbed)")
        self.assertIn("(disturbed): other programs ran", notes(loud))

    def test_columns_of_markdown_stand_below_each_other(self):
        text = table.as_markdown("words", ["case", "8 B"], [["all-reduce", "1.00"], ["scan", "10.00"]])
        self.assertEqual(text.splitlines()[2:], ["| case       |   8 B |", "| ---------- | ----- |",
                                                 "| all-reduce |  1.00 |", "| scan       | 10.00 |"])


class ComparePlan(unittest.TestCase):
    class Options:
        operations, ranks, sizes, rounds, seed, quick = ["allreduce"], [2, 8], [8, 256 * MIB], 2, 1, False

    class Setting:
        library = "Anello"

        @staticmethod
        def takes(size, ranks):
            return ranks == 2 or size < MIB

    def test_a_setting_is_asked_for_the_sizes_that_it_takes_and_that_memory_holds(self):
        cells, too_large = plan.cells(self.Options, [self.Setting], 2 << 30)
        self.assertEqual({(cell.round, cell.ranks, cell.sizes) for cell in cells},
                         {(number, ranks, sizes) for number in (0, 1) for ranks, sizes in ((2, (8, 256 * MIB)), (8, (8,)))})
        self.assertEqual(too_large, [256 * MIB])


class CompareRun(unittest.TestCase):
    """Over files in the places of loops and library, and a job whose rows the test makes."""

    KEYS = ("Anello/default/shm", "Anello mapped/anello_mem_alloc/shm", "MPICH/release-gather/shm")

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.build = folder.name
        for path in ("bench/compare/anello_loop", "bench/compare/mpich_loop", "lib/api/libanello.so.0.1.0"):
            self.write(path, "first")
        self.options = types.SimpleNamespace(quick=True, repeats=2, minutes=None, rounds=1, build=self.build,
                                             out=os.path.join(self.build, "rows.json"))
        self.asked = []  # (key of the setting, sizes), of each job
        self.others = {}  # by size: how loud each of its samples is, in turn; 0 after that
        self.failing = ""  # key of the setting whose jobs fail
        for module, name, other in ((job, "run", self.job), (machine, "others_now", lambda: 0.0),
                                    (measure, "progress", lambda _: None)):
            patch = unittest.mock.patch.object(module, name, other)
            patch.start()
            self.addCleanup(patch.stop)

    def write(self, path, text):
        path = os.path.join(self.build, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        pathlib.Path(path).write_text(text, encoding="utf-8")

    def job(self, setting, ranks, sizes, *_):
        self.asked.append((setting.key, tuple(sizes)))
        rows = []
        for size in sizes:
            loud = self.others.get(size)
            rows.append({"operation": "allreduce", "ranks": ranks, "bytes": size, "dirty": False, "line_ns": [40.0, 40.0],
                         "others": loud.pop(0) if loud else 0.0, "median_us": len(self.asked), "min_us": 1})
        if setting.key == self.failing:
            raise job.JobFailed("exit code 1", rows[:1])
        return rows

    def run_all(self, keys=KEYS, sizes=(8, MIB)):
        """The rows, and the settings that were measured for them."""
        self.asked = []
        cells = [plan.Cell(0, next(item for item in settings.SETTINGS if item.key == key), 2, tuple(sizes)) for key in keys]
        rows = measure.Run(self.options).all(cells)
        return rows, [key for key, _ in self.asked]

    def test_rows_of_the_same_build_are_taken_over(self):
        first, measured = self.run_all()
        self.assertEqual((len(first), measured), (6, list(self.KEYS)))
        self.assertEqual(self.run_all(), (first, []))

    def test_without_a_file_nothing_is_taken_over(self):
        self.options.out = None
        self.run_all()
        self.assertEqual(self.run_all()[1], list(self.KEYS))

    def test_another_library_makes_the_rows_of_both_of_its_kinds_of_memory_stale_and_no_peer_s(self):
        first, _ = self.run_all()
        self.write("lib/api/libanello.so.0.1.0", "second")
        second, measured = self.run_all()
        self.assertEqual(measured, list(self.KEYS[:2]))
        self.assertEqual(len(second), 6)
        self.assertEqual(second[4:], first[4:])

    def test_another_loop_makes_the_rows_of_its_library_stale(self):
        self.run_all()
        self.write("bench/compare/mpich_loop", "second")
        self.assertEqual(self.run_all()[1], ["MPICH/release-gather/shm"])

    def test_other_sizes_and_other_windows_are_measured(self):
        self.run_all(self.KEYS[:1])
        self.assertEqual(len(self.run_all(self.KEYS[:1], (8,))[1]), 1)
        self.options.quick = False
        self.assertEqual(len(self.run_all(self.KEYS[:1])[1]), 1)

    def test_a_disturbed_size_is_measured_again_by_itself_and_the_quietest_of_its_samples_counts(self):
        self.others = {MIB: [1.0, 0.3, 0.6]}
        rows, _ = self.run_all(self.KEYS[:1])
        self.assertEqual([sizes for _, sizes in self.asked], [(8, MIB), (MIB,), (MIB,)])
        self.assertEqual({row["bytes"]: (row["others"], row["median_us"]) for row in rows}, {8: (0.0, 1), MIB: (0.3, 2)})

    def test_a_size_that_was_quiet_at_last_is_not_measured_again(self):
        self.others = {MIB: [1.0]}
        rows, measured = self.run_all(self.KEYS[:1])
        self.assertEqual((len(measured), [row["others"] for row in rows]), (2, [0.0, 0.0]))

    def test_rows_before_a_failure_count_in_this_run_and_are_measured_again_by_the_next(self):
        self.failing = self.KEYS[2]
        self.assertEqual(len(self.run_all()[0]), 5)
        self.failing = ""
        rows, measured = self.run_all()
        self.assertEqual((len(rows), measured), (6, [self.KEYS[2]]))


class ComparePlots(unittest.TestCase):
    ROWS = [row(library, micros, size=size, ranks=ranks, dirty=dirty) for library, micros in (("Anello", 1), ("MPICH", 2), ("private", 1))
            for size in (8, 4 * KIB) for ranks in (2, 4) for dirty in (False, True)]

    def test_a_page_has_each_library_s_times_and_the_ratios_beside_their_targets(self):
        results = table.figures(self.ROWS)
        pages = plots.curves(results, table.verdicts(results, 2))
        self.assertEqual([page["name"] for page in pages], ["allreduce-2-shm", "allreduce-4-shm"])
        panel = pages[0]["panels"][0]
        self.assertEqual(panel["time"], {"Anello": [(8, 1), (4 * KIB, 1)], "MPICH": [(8, 2), (4 * KIB, 2)],
                                         "private": [(8, 1), (4 * KIB, 1)]})
        self.assertEqual(panel["peer"], {"Anello": [(8, 0.5), (4 * KIB, 0.5)]})
        self.assertEqual(panel["goals"]["peer Anello"], [(8, 0.7), (4 * KIB, 0.8)])

    def test_the_same_rows_are_drawn_to_the_same_bytes(self):
        if not wheels.python(wheels.PLOTTING, BUILD) and not importlib.util.find_spec("matplotlib"):
            self.skipTest("matplotlib is not there (bench/compare/compare --install --plots DIR)")
        results = table.figures([item for item in self.ROWS if item["ranks"] == 2])
        drawn = []
        for _ in range(2):
            with tempfile.TemporaryDirectory() as folder:
                self.assertEqual(plots.write(results, table.verdicts(results, 2), folder, "facts", BUILD), "")
                drawn.append({path.name: path.read_bytes() for path in pathlib.Path(folder).iterdir()})
        self.assertEqual(set(drawn[0]), {"allreduce-2-shm.svg"})
        self.assertTrue(drawn[0] == drawn[1], "two drawings differ")


class ComparePages(unittest.TestCase):
    def quick(self):
        with unittest.mock.patch.object(sys, "argv", ["compare", "--quick"]):
            return compare.parse()

    def test_the_page_of_figures_shows_what_a_quick_run_draws(self):
        page = (ROOT / "docs" / "performance-tables.md").read_text(encoding="utf-8")
        drawn = {f"allreduce-{ranks}-{transport}.svg" for ranks in self.quick().ranks for transport in self.quick().transports}
        self.assertEqual(set(re.findall(r"\(plots/([^)]*)\)", page)), drawn)
        kept = {path.name: path.stat().st_size for path in (ROOT / "docs" / "plots").glob("allreduce-*")}
        self.assertLessEqual(set(kept), drawn)
        self.assertLess(max(kept.values(), default=0), 200 * KIB)

    def test_the_settings_that_a_quick_run_leaves_out_are_those_that_the_pages_name(self):
        left_out = {(item.library, item.transport, item.name) for item in settings.SETTINGS if not item.quick}
        page = (ROOT / "bench" / "compare" / "README.md").read_text(encoding="utf-8")
        section = page.split("## What --quick leaves out\n")[1].split("\n## ")[0]
        lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("|")]
        self.assertEqual({tuple(line[:3]) for line in lines[2:]}, left_out)
        self.assertIn(f"it leaves out [{len(left_out)}](bench", (ROOT / "README.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    unittest.main()
