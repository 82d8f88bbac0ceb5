#!/usr/bin/env python3
"""Python processes that meet over a file, by the argument url or by ANELLO_URL: file_meeting_test.py REPOSITORY
ANELLORUN LIBRARY. Needs no torch."""

import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

REPOSITORY, ANELLORUN, LIBRARY = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
DEADLINE = 40

PROGRAM = """
import array, os, sys, anello

PATIENCE = float(os.environ.get("PATIENCE", 20))

def meet(rank, size, url):
    if url == "from the environment":
        return anello.Communicator.create(timeout=PATIENCE)
    return anello.Communicator.create(rank, size, url, timeout=PATIENCE)

rank, size, url, value = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
try:
    with meet(rank, size, url) as comm:
        numbers = array.array("i", [value])
        comm.allreduce(numbers)
        print(f"rank {comm.rank} of {comm.size}: {numbers[0]}")
except anello.AnelloError as error:
    print(error.name, error)
"""


class FileMeeting(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.path = self.folder / "the meeting"  # as_uri writes %20

    def start(self, rank, size=2, value=1, url=None, **variables):
        around = {name: text for name, text in os.environ.items() if not name.startswith(("ANELLO_", "SLURM_"))}
        around |= {"PYTHONPATH": str(REPOSITORY / "python"), "ANELLO_LIBRARY": str(LIBRARY), "PYTHONUNBUFFERED": "1"}
        words = [sys.executable, "-B", "-c", PROGRAM, str(rank), str(size), url or f"file://{self.path}", str(value)]
        process = subprocess.Popen(words, env=around | variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True)
        self.addCleanup(self.end, process)
        return process

    def end(self, process):
        process.kill()
        process.wait()
        process.stdout.close()

    def says(self, process):
        return process.communicate(timeout=DEADLINE)[0].strip()

    def written(self):
        end = time.monotonic() + DEADLINE
        while not self.path.exists() or self.path.stat().st_size == 0:
            self.assertLess(time.monotonic(), end, "no file")
            time.sleep(0.005)
        return self.path.read_bytes()

    def assert_met(self, ranks, total):
        said = [self.says(rank) for rank in ranks]
        self.assertEqual(said, [f"rank {rank} of {len(ranks)}: {total}" for rank in range(len(ranks))])
        self.assertEqual(list(self.folder.iterdir()), [], "no file is left")

    def test_the_argument_url(self):
        first = self.start(0)
        self.written()
        self.assertEqual(self.path.stat().st_mode & 0o777, 0o600)
        self.assert_met([first, self.start(1)], 2)

    def test_the_variable(self):
        def start(rank):
            return self.start(rank, url="from the environment", ANELLO_URL=f"file://{self.path}", RANK=str(rank),
                              WORLD_SIZE="2")
        second = start(1)
        self.assert_met([start(0), second], 2)

    def test_the_file_of_a_killed_job_is_taken_over(self):
        for order in ((0, 1), (1, 0)):
            with self.subTest(order=order):
                dead = self.start(0, value=100)
                old = self.written()
                self.end(dead)
                self.assertEqual(self.path.read_bytes(), old)
                ranks = {rank: self.start(rank) for rank in order}
                self.assert_met([ranks[0], ranks[1]], 2)

    def test_two_jobs_never_mix(self):
        first = self.start(0, value=1)
        before = self.written()
        # Another job's rank 0 is refused, and rank 1 of a job with another name as well.
        self.assertIn("the ranks of another job are about to meet over the file", self.says(self.start(0, value=100)))
        self.assertEqual(self.path.read_bytes(), before)
        self.end(first)
        named = self.start(0, value=1, ANELLO_JOB="one")
        while self.written() == before:
            time.sleep(0.005)
        stranger = self.start(1, value=100, ANELLO_JOB="two", PATIENCE="2")
        own = self.start(1, value=1, ANELLO_JOB="one")
        self.assert_met([named, own], 2)
        self.assertIn("ANELLO_ERR_RENDEZVOUS", self.says(stranger))

    def test_two_jobs_at_two_files_at_once(self):
        other = f"file://{self.folder}/other"
        ranks = [self.start(rank, value=value, url=url) for url, value in ((None, 1), (other, 100)) for rank in (0, 1)]
        self.assertEqual([self.says(rank) for rank in ranks],
                         ["rank 0 of 2: 2", "rank 1 of 2: 2", "rank 0 of 2: 200", "rank 1 of 2: 200"])

    def test_a_file_that_others_can_read_is_refused(self):
        first = self.start(0)
        self.written()
        self.path.chmod(0o644)
        self.assertIn("others may read or write it", self.says(self.start(1)))
        self.end(first)


if __name__ == "__main__":
    sys.argv[1:4] = []
    unittest.main(verbosity=2)
