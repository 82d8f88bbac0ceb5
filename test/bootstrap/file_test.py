#!/usr/bin/env python3
"""Ranks that meet over a file. Argument: a rank."""

import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

RANK = os.path.abspath(sys.argv.pop())


class File(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.path = self.folder / "meeting"

    def start(self, rank, size=2, job="", **variables):
        environment = {"RANK": str(rank), "WORLD_SIZE": str(size), "URL": f"file://{self.path}", "TIMEOUT_MS": "20000", "ANELLO_JOB": job,
                       "PATH": os.environ["PATH"]}
        process = subprocess.Popen([RANK], env=environment | variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def written(self):
        end = time.monotonic() + 20
        while not self.path.exists():
            self.assertLess(time.monotonic(), end, "no file")
            time.sleep(0.005)
        return self.path.read_bytes()

    def met(self, *ranks):
        self.assertEqual([rank.communicate(timeout=40)[0] for rank in ranks], [f"sum {len(ranks)}\n"] * len(ranks))
        self.assertEqual(list(self.folder.iterdir()), [], "no file is left")

    def test_ranks_meet_in_any_order(self):
        self.met(*[self.start(rank, 3) for rank in (2, 0, 1)])
        first = self.start(0)
        self.written()
        self.met(first, self.start(1))

    def test_the_file_is_for_its_owner_alone(self):
        os.umask(0)
        self.addCleanup(os.umask, 0o022)
        rank = self.start(0)
        self.written()
        self.assertEqual(self.path.stat().st_mode & 0o777, 0o600)
        self.path.chmod(0o644)
        other = self.start(1)
        self.assertIn(f"the meeting file {self.path} cannot be used: others may read or write it", other.communicate(timeout=20)[0])
        rank.kill()

    def test_a_dead_jobs_file_is_taken_over_whoever_comes_first(self):
        for order in ((0, 1), (1, 0)):
            dead = self.start(0)
            old = self.written()
            dead.kill()
            dead.communicate()
            first = self.start(order[0])
            time.sleep(0.2)
            second = self.start(order[1])
            self.met(first, second)
            self.assertFalse(self.path.exists())
            self.assertTrue(old)

    def test_a_job_that_waits_for_its_ranks_keeps_its_file(self):
        first = self.start(0)
        before = self.written()
        out, _ = self.start(0).communicate(timeout=20)
        self.assertIn(f"the ranks of another job are about to meet over the file {self.path} (process {first.pid} on host", out)
        self.assertEqual(self.path.read_bytes(), before)
        self.met(first, self.start(1))

    def test_ranks_of_two_jobs_never_meet(self):
        first = self.start(0, job="one")
        self.written()
        stranger = self.start(1, job="two", TIMEOUT_MS="1000")
        self.assertIn(f"the file {self.path} is of another job, one", stranger.communicate(timeout=20)[0])
        self.met(first, self.start(1, job="one"))

    def test_a_rank_0_that_does_not_come_is_named(self):
        out, _ = self.start(1, TIMEOUT_MS="500").communicate(timeout=20)
        self.assertIn(f"rank 0 of 2 did not come within 500 ms: there is no file {self.path}", out)
        dead = self.start(0)
        self.written()
        dead.kill()
        dead.communicate()
        out, _ = self.start(1, TIMEOUT_MS="500").communicate(timeout=20)
        self.assertIn(f"is of process {dead.pid} on host", out)

    def test_what_is_no_meeting_file_is_left_alone(self):
        self.path.write_text("my thesis\n")
        self.path.chmod(0o600)
        for rank in range(2):
            out, _ = self.start(rank).communicate(timeout=20)
            self.assertIn("it is not one of Anello's", out)
        self.assertEqual(self.path.read_text(), "my thesis\n")
        self.path.unlink()
        self.path.symlink_to(self.folder / "elsewhere")
        for rank in range(2):
            out, _ = self.start(rank).communicate(timeout=20)
            self.assertIn("it is a symbolic link", out)
        self.path.unlink()
        self.path.mkdir()
        self.assertIn("cannot be used", self.start(0).communicate(timeout=20)[0])

    def test_addresses_that_are_none_are_refused(self):
        for url in ("file://", "file:///", "file://relative"):
            out, _ = self.start(0, URL=url).communicate(timeout=20)
            self.assertIn("is not one of env://, tcp://host:port, unix://name, file:///path", out)


if __name__ == "__main__":
    unittest.main(verbosity=2)
