#!/usr/bin/env python3
"""anello-perf end to end: every collective verified over every transport, and its report.
Arguments: anellorun, anello-perf."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ANELLORUN, PERF = sys.argv[1:3]
del sys.argv[1:3]
COLLECTIVES = ["allreduce", "broadcast", "allgather", "reduce_scatter", "barrier", "sendrecv", "reduce", "gather",
               "scatter", "alltoall", "scan"]


class Perf(unittest.TestCase):
    def run_command(self, command, expected=0):
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, expected, f"{command}\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def report(self, launcher, *arguments):
        """The JSON report, and what was printed."""
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "report.json"
            text = self.run_command([*launcher, PERF, "--no-ceilings", "--json", file, *arguments])
            return json.loads(file.read_text()), text

    def check(self, report, text, ranks):
        self.assertIn("# Out of bounds values : 0 OK", text)
        self.assertEqual(len(report["ranks"]), ranks)
        self.assertEqual(report["out_of_bounds"], {"count": 0, "okay": True})
        self.assertTrue(report["results"])
        for row in report["results"]:
            for figures in (row["out_of_place"], row["in_place"]):
                if figures is not None:
                    self.assertEqual(figures["nwrong"], 0, row)
                    self.assertGreater(figures["time"], 0, row)

    def test_processes_over_each_transport(self):
        for transport in ("shm", "tcp"):
            for ranks in (1, 2, 4):
                for collective in COLLECTIVES:
                    with self.subTest(transport=transport, ranks=ranks, collective=collective):
                        launcher = [ANELLORUN, "-np", str(ranks), "-x", f"ANELLO_TRANSPORT={transport}"]
                        report, text = self.report(launcher, "--collective", collective, "-b", "4", "-e", "300K", "-f",
                                                   "27", "-n", "2")
                        self.check(report, text, ranks)
                        used = {word for rank in report["ranks"] for word in rank["transports"].split()[:1]}
                        self.assertEqual(used, {transport} if ranks > 1 else set())

    def test_threads(self):
        for ranks in (1, 2, 3, 4):
            for collective in COLLECTIVES:
                with self.subTest(ranks=ranks, collective=collective):
                    self.check(*self.report([], "--ranks", "threads", "-t", str(ranks), "--collective", collective,
                                            "-b", "4", "-e", "300K", "-f", "27", "-n", "2", "-c", "3"), ranks)

    def test_every_type_and_operation(self):
        report, text = self.report([], "--ranks", "threads", "-t", "3", "-b", "10000", "-n", "1", "-d", "all",
                                   "-o", "all")
        self.check(report, text, 3)
        cases = {(row["type"], row["redop"]) for row in report["results"]}
        # Integers know 11 operations, floats 5, complex numbers 3, bool 10, pairs 2, bytes none.
        sensible = 8 * 11 + 6 * 5 + 2 * 3 + 10 + 4 * 2
        self.assertEqual(len(cases), sensible)
        self.assertEqual(len(report["results"]), sensible)
        self.assertIn(f"# {22 * 13 - sensible} pairs of type and operation make no sense", text)

    def test_every_type_moves(self):
        for collective in ("allgather", "sendrecv"):
            report, text = self.report([], "--ranks", "threads", "-t", "3", "-b", "100000", "-n", "1", "-d", "all",
                                       "--collective", collective)
            self.check(report, text, 3)
            self.assertEqual(len({row["type"] for row in report["results"]}), 22)

    def test_what_is_measured_in_place(self):
        for collective in COLLECTIVES:
            report, text = self.report([], "--ranks", "threads", "-t", "3", "-b", "90K", "--collective", collective, "-n", "2",
                                       *(["-r", "1"] if collective in ("reduce", "gather", "scatter") else []))
            self.check(report, text, 3)
            self.assertEqual(report["results"][0]["in_place"] is not None, collective not in ("barrier", "sendrecv"), collective)
            self.assertEqual(report["results"][0]["out_of_place"] is not None, collective != "broadcast", collective)

    def test_every_root(self):
        for collective in ("broadcast", "reduce", "gather", "scatter"):
            with self.subTest(collective=collective):
                report, text = self.report([], "--ranks", "threads", "-t", "3", "-b", "1K", "--collective", collective,
                                           "-r", "-1")
                self.check(report, text, 3)
                self.assertEqual([row["root"] for row in report["results"]], [0, 1, 2])

    def test_the_figures_follow_from_each_other(self):
        report, text = self.report([], "--ranks", "threads", "-t", "2", "-b", "1M", "-e", "2M", "-n", "7", "--stats",
                                   "--dirty")
        self.check(report, text, 2)
        self.assertEqual([row["size"] for row in report["results"]], [1 << 20, 2 << 20])
        for row in report["results"]:
            self.assertEqual(row["count"] * 4, row["size"])
            for figures in (row["out_of_place"], row["in_place"]):
                self.assertAlmostEqual(figures["alg_bw"], row["size"] / figures["time"] / 1e3)
                self.assertAlmostEqual(figures["bus_bw"], figures["alg_bw"])  # 2(n-1)/n is 1 for two
                self.assertLessEqual(figures["min"], figures["median"])
                self.assertLessEqual(figures["median"], figures["p99"])
                self.assertLessEqual(figures["p99"], figures["maximum"])
                self.assertGreaterEqual(figures["variation"], 0)
        cells = [row[place]["bus_bw"] for row in report["results"] for place in ("out_of_place", "in_place")]
        self.assertAlmostEqual(report["average_bus_bandwidth"], sum(cells) / len(cells))

    def test_every_kind_of_memory(self):
        for memory in ("malloc", "mapped", "registered"):
            for collective in ("allreduce", "broadcast", "alltoall"):
                report, text = self.report([ANELLORUN, "-np", "3"], "-b", "3K", "-e", "3M", "-f", "1000", "-n", "2", "-I",
                                           "--memory", memory, "--collective", collective)
                self.check(report, text, 3)
                self.assertEqual(report["memory"], memory)
                self.assertIn(f"memory {memory};", text)

    def test_the_header_names_version_ranks_and_ceilings(self):
        text = self.run_command([PERF, "--ranks", "threads", "-t", "2", "-b", "8"])
        self.assertRegex(text, r"# anello-perf \d+\.\d+\.\d+, commit \S+")
        self.assertRegex(text, r"#   rank  1  host \S+  pid \d+  .* to 1 rank\n")
        self.assertRegex(text, r"# this host now: memcpy [\d.]+ GB/s.*loopback TCP [\d.]+ us one way and [\d.]+ GB/s")

    def test_each_size_is_explained(self):
        report, text = self.report([ANELLORUN, "-np", "2"], "-b", "8", "-e", "8000000", "-f", "1000000", "-n", "1", "--explain")
        self.check(report, text, 2)
        self.assertIn("# 8 B: exchange over the board; rank 0 sends 8 B, receives 8 B, reduces 8 B; a guess: ", text)
        self.assertRegex(text, r"# 8000000 B: staged, \d+ chunks of [\d.]+ kB, \d+ steps; rank 0 sends 8000.0 kB, receives 4000.0 kB,"
                               r" reduces 4000.0 kB; a guess: [\d.]+ us. Rule \d+ of \d+ is the first that holds and fits: staged, ")
        self.assertNotIn("direct", text)
        for collective in COLLECTIVES:
            self.check(*self.report([ANELLORUN, "-np", "2"], "-b", "64", "-n", "1", "--explain", "--collective", collective), 2)

    def test_buffers_that_ranks_reach_are_explained(self):
        for memory in ["mapped", "registered"]:
            report, text = self.report([ANELLORUN, "-np", "2"], "-b", "8000000", "-n", "1", "--explain", "--memory", memory)
            self.check(report, text, 2)
            self.assertIn(f" Where all ranks reach each other's buffers, as those of --memory {memory} over shared memory: direct.\n", text)

    def test_a_bandwidth_below_the_wanted_one_gives_1(self):
        text = self.run_command([PERF, "--ranks", "threads", "-t", "2", "-b", "8", "--no-ceilings",
                                 "--min-busbw", "1e6"], 1)
        self.assertIn("FAILED", text)

    def test_mistakes_give_2_and_are_named(self):
        for arguments, named in ((["-b", "12Q"], "12Q"), (["-d", "float17"], "float17"), (["-o", "xor"], "xor"),
                                 (["-b", "2M", "-e", "1M"], "-e"), (["-n", "0"], "--iters"), (["-t", "4"], "--ranks"),
                                 (["--collective", "all_to_some"], "all_to_some"),
                                 (["--collective", "scan", "-o", "avg"], "avg"), (["-b", "0", "-f", "2"], "-f"),
                                 (["surplus"], "surplus")):
            with self.subTest(arguments=arguments):
                self.assertIn(named, self.run_command([PERF, *arguments], 2))

    def test_a_call_that_fails_gives_3_on_every_rank(self):
        text = self.run_command([PERF, "--ranks", "threads", "-t", "2", "-b", "8", "--collective", "broadcast",
                                 "-r", "7", "--no-ceilings"], 3)
        self.assertIn("anello_broadcast", text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
