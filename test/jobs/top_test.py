#!/usr/bin/env python3
"""anello-top on jobs of this host. Arguments: anellorun, anello-top, anello-info, libanello."""

import json
import os
import pathlib
import pty
import select
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from job import JobTest  # noqa: E402
from launcher import state, until  # noqa: E402

LAUNCHER, TOP, INFO, LIBRARY = map(os.path.abspath, sys.argv[1:5])
del sys.argv[1:5]
JobTest.launcher, JobTest.library = LAUNCHER, LIBRARY
NOBODY = 65534


def names_in(folder):
    """Of files that a rank could have left. Other tests use the folder meanwhile; they put theirs into folders."""
    return {each.name for each in os.scandir(folder) if "anello" in each.name and not each.is_dir()}


PYTHON = os.environ.get("ANELLO_TEST_PYTHON")


class Top(JobTest):
    def top(self, *options, code=0, **more):
        """What it prints of this job's processes."""
        which = [word for pid in self.pids.values() for word in ("--pid", str(pid))]
        done = subprocess.run([TOP, "-i", "0.3", *which, *options], capture_output=True, text=True, timeout=60, **more)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout if code == 0 else done.stderr

    def rows(self):
        return {row["rank"]: row for row in json.loads(self.top("--json"))["ranks"]}

    def rows_when(self, holds, what):
        rows = {}

        def are_so():
            rows.update(self.rows())
            return holds(rows)
        until(are_so, what)
        return rows

    def test_a_job_that_works_shows_its_calls_and_goes_on(self):
        self.start("working", ranks=3)
        rows = self.rows_when(lambda rows: all(row["calls_per_s"] > 0 for row in rows.values()), "all ranks work")
        self.assertEqual(sorted(rows), [0, 1, 2])
        for rank, row in rows.items():
            self.assertEqual((row["pid"], row["size"], row["state"], row["waits_for"], row["error"]), (self.pids[rank], 3, "works", [], None))
            self.assertEqual(row["operation"]["call"], "allreduce(count 1000, float32, sum)")
            self.assertEqual(row["totals"]["allreduce"]["bytes"], 4000 * row["totals"]["allreduce"]["calls"])
            self.assertAlmostEqual(row["bytes_per_s"] / row["calls_per_s"], 4000, delta=1)
        later = self.rows()
        for rank in rows:
            self.assertGreater(later[rank]["operation"]["sequence"], rows[rank]["operation"]["sequence"])

    def test_the_table_says_who_waits_for_whom(self):
        self.start("never", 1, 5, ranks=3)
        self.rows_when(lambda rows: rows[0]["state"] == rows[2]["state"] == "waits", "ranks 0 and 2 wait")
        table = self.top("--once")
        self.assertRegex(table, r"^job \w{16}: 3 of 3 ranks are on this host\n")
        for rank, there in ((0, rf"0  +{self.pids[0]}  +1  waits  +5  +0  +0  1  "), (1, rf"1  +{self.pids[1]}  +1  idle   +4  +0  +0  -  "),
                            (2, rf"2  +{self.pids[2]}  +1  waits  +5  +0  +0  1  ")):
            self.assertRegex(table, rf"(?m)^ +{there} +allreduce\(count 1000, float32, sum\)$", f"rank {rank}")

    def test_it_explains_a_job_that_hangs_and_writes_its_files(self):
        self.start("never", 2, 5, ranks=3)
        self.rows_when(lambda rows: rows[0]["waits_for"] == rows[1]["waits_for"] == [2], "ranks 0 and 1 wait for rank 2")
        self.assertIn("stopped first: it never entered operation 5, allreduce(count 1000, float32, sum), in which ranks 0 and 1 wait",
                      self.top("--explain"))
        self.top("--dump", self.dumps)
        self.assertEqual(len(os.listdir(self.dumps)), 3)
        said = subprocess.run([INFO, "--explain-dump", self.dumps], capture_output=True, text=True, timeout=60).stdout
        self.assertRegex(said, rf"Rank 2 \(host .*, pid {self.pids[2]}\) stopped first: it never entered operation 5")

    def test_a_stopped_rank_is_shown_while_it_is_stopped(self):
        self.start("stopped", 1, 5, ranks=3)
        self.addCleanup(os.kill, self.pids[1], signal.SIGCONT)
        rows = self.rows_when(lambda rows: rows[1]["state"] == "stopped" and rows[0]["waits_for"] == [1], "rank 1 is stopped")
        self.assertEqual(rows[1]["operation"], {"sequence": 4, "call": "allreduce(count 1000, float32, sum)", "in_flight": False})
        self.assertEqual(state(self.pids[1]), "T")

    def test_ranks_over_tcp_are_shown_too(self):
        self.start("never", 0, 5, ranks=3, ANELLO_TRANSPORT="tcp")
        rows = self.rows_when(lambda rows: 0 in rows[1]["waits_for"] + rows[2]["waits_for"], "some rank waits for rank 0")
        self.assertEqual(rows[0]["state"], "idle")

    def test_messages_are_shown_and_counted(self):
        self.start("lonely_receive", 0, 1, ranks=2)
        rows = self.rows_when(lambda rows: rows[1]["waits_for"] == [0], "rank 1 waits for rank 0")
        self.assertEqual(rows[1]["totals"]["recv"], {"calls": 1, "bytes": 0})
        self.assertRegex(self.top("--once"), r"waits  +0  +0  +0  0  +recv from 0 \(4000 bytes, tag 5\)")

    def test_an_error_is_shown(self):
        job = self.start("sizes", 1, 5, ranks=3)
        self.errors(job, 3)
        for row in self.rows().values():
            self.assertEqual((row["state"], row["error"]["name"]), ("failed", "ANELLO_ERR_MISMATCH"))

    def test_counters_for_prometheus(self):
        self.start("never", 1, 5, ranks=2)
        self.rows_when(lambda rows: rows[0]["state"] == "waits", "rank 0 waits")
        page = self.top("--prometheus")
        for line in page.splitlines():
            self.assertRegex(line, r'^(# (HELP|TYPE) anello_\w+ .*|anello_\w+\{(\w+="[^"]*",?)+\} \d+)$')
        labels = rf'job="\w{{16}}",rank="0",communicator="1",host="[^"]*",pid="{self.pids[0]}"'
        self.assertRegex(page, rf'(?m)^anello_calls_total{{{labels},kind="allreduce"}} 6$')
        self.assertRegex(page, rf'(?m)^anello_bytes_total{{{labels},kind="allreduce"}} 24000$')
        self.assertRegex(page, rf"(?m)^anello_waiting{{{labels}}} 1$")

    def test_a_terminal_gets_tables_until_it_is_interrupted(self):
        self.start("working", ranks=2)
        mine, its = pty.openpty()
        self.addCleanup(os.close, mine)
        top = subprocess.Popen([TOP, "-i", "0.1", "-p", str(self.pids[0])], stdout=its, stderr=its,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        os.close(its)
        self.addCleanup(top.wait)
        self.addCleanup(top.kill)
        seen, end = b"", time.monotonic() + 20
        while seen.count(b"\x1b[H\x1b[2J") < 3:
            self.assertTrue(select.select([mine], [], [], max(0, end - time.monotonic()))[0], seen)
            seen += os.read(mine, 65536)
        top.send_signal(signal.SIGINT)
        self.assertEqual(top.wait(timeout=20), -signal.SIGINT)

    def test_nothing_is_left_of_a_job_that_is_killed(self):
        before = names_in("/dev/shm"), names_in("/tmp")
        self.start("working", ranks=2)
        self.rows()
        found = [os.readlink(f"/proc/{self.pids[0]}/fd/{each}") for each in os.listdir(f"/proc/{self.pids[0]}/fd")]
        self.assertEqual(sum("anello-recorder" in each for each in found), 1)
        for pid in self.pids.values():
            os.kill(pid, signal.SIGKILL)
        for pid in self.pids.values():
            until(lambda pid=pid: state(pid) == "Z", "the rank has ended")
        self.top("--once", code=1)
        self.assertEqual((names_in("/dev/shm") - before[0], names_in("/tmp") - before[1]), (set(), set()))

    def test_ranks_of_torchrun_are_found(self):
        torch = PYTHON and subprocess.run([PYTHON, "-c", "import torch.distributed.run"], capture_output=True, timeout=120).returncode == 0
        if not torch:
            self.skipTest("needs a Python with torch: ANELLO_TEST_PYTHON")
        self.words = lambda ranks: (PYTHON, ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)])
        self.start("never", 1, 5, ranks=2, OMP_NUM_THREADS="1")
        rows = self.rows_when(lambda rows: rows[0]["waits_for"] == [1], "rank 0 waits for rank 1")
        self.assertEqual((rows[0]["pid"], rows[1]["pid"]), (self.pids[0], self.pids[1]))

    def test_another_user_sees_nothing(self):
        if os.geteuid() != 0:
            self.skipTest("needs root, to become another user")
        self.start("working", ranks=2)

        def become_nobody():
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        copy = pathlib.Path(self.folder, "anello-top")
        copy.write_bytes(pathlib.Path(TOP).read_bytes())
        copy.chmod(0o755)
        os.chmod(self.folder, 0o755)
        done = subprocess.run([copy, "--once", "--pid", str(self.pids[0])], capture_output=True, text=True, timeout=60, cwd="/",
                              preexec_fn=become_nobody)
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertIn("is another user's, and only that user or root may look at it", done.stderr)

    def test_processes_without_ranks_are_told_apart(self):
        self.pids = {}
        for pid, words in ((os.getpid(), "has no communicator of Anello"), (4194303, "does not exist")):
            done = subprocess.run([TOP, "--once", "--pid", str(pid)], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"process {pid} {words}", done.stderr)


if __name__ == "__main__":
    unittest.main()
