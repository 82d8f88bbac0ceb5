#!/usr/bin/env python3
"""What ranks write when a communicator fails, and what anello-info --explain-dump says of it. Arguments: anellorun, anello-info, libanello."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from job import JobTest  # noqa: E402
from launcher import until  # noqa: E402

LAUNCHER, INFO, LIBRARY = map(os.path.abspath, sys.argv[1:4])
del sys.argv[1:4]
JobTest.launcher, JobTest.library = LAUNCHER, LIBRARY


class ExplainDump(JobTest):
    def explain(self, *paths):
        done = subprocess.run([INFO, "--explain-dump", *(paths or [self.dumps])], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def fails(self, *words, errors, alive=4, **variables):
        """The errors by rank, when each rank that is alive has written its file: one that is in no call has it written by another
        thread, which may come after the others' errors."""
        job = self.start(*words, ANELLO_DUMP_DIR=self.dumps, ANELLO_TIMEOUT_MS="1000", **variables)
        errors = self.errors(job, errors)
        until(lambda: len(self.files()) == alive, f"{alive} files, one of each rank")
        return errors

    def files(self):
        return sorted(name for name in os.listdir(self.dumps) if name.endswith(".json")) if os.path.isdir(self.dumps) else []

    def test_a_rank_that_never_enters_is_named_with_what_it_did_last(self):
        for transport in ("shm", "tcp"):
            with self.subTest(transport=transport):
                errors = self.fails("never", 2, 41, errors=3, ANELLO_TRANSPORT=transport)
                said = self.explain()
                self.assertRegex(said, r"Rank 2 \(host .*, pid \d+\) stopped first: it never entered operation 41, "
                                       r"allreduce\(count 1000, float32, sum\), in which ranks .*0.* wait")
                self.assertIn("Its last one is 40, allreduce(count 1000, float32, sum), which has ended", said)
                self.assertIn("rank 2: in no call; the last collective is 40", said)
                self.assertIn("ANELLO_ERR_TIMEOUT", said)
                for rank, error in errors.items():
                    self.assertRegex(error, rf"what this rank did last is in {self.dumps}/anello-\w{{16}}-rank{rank}-comm1\.json")
                for name in self.files():
                    os.unlink(os.path.join(self.dumps, name))

    def test_a_rank_that_computes_writes_its_file_too(self):
        self.fails("never", 1, 3, errors=3)
        names = self.files()
        self.assertEqual([name.split("-")[2] for name in names], ["rank0", "rank1", "rank2", "rank3"])
        dump = json.loads(pathlib.Path(self.dumps, names[1]).read_text())
        self.assertEqual((dump["world_rank"], dump["pid"], dump["totals"]["allreduce"]), (1, self.pids[1], {"calls": 3, "bytes": 12000}))
        self.assertEqual([(each["sequence"], each["state"]) for each in dump["collectives"]], [(0, "ended"), (1, "ended"), (2, "ended")])

    def test_at_most_64_operations_are_kept(self):
        self.fails("never", 1, 300, errors=3)
        dump = json.loads(pathlib.Path(self.dumps, self.files()[0]).read_text())
        self.assertEqual([each["sequence"] for each in dump["collectives"]], list(range(237, 301)))
        self.assertEqual([each["state"] for each in dump["collectives"]], ["ended"] * 63 + ["in flight"])
        self.assertEqual(dump["totals"]["allreduce"]["calls"], 301)

    def test_another_call_is_named(self):
        self.fails("broadcast", 1, 41, errors=4)
        said = self.explain()
        self.assertIn("The ranks disagree on operation 41, the calls differ: rank 1 called broadcast(count 1000, float32, root 0), "
                      "ranks 0, 2 and 3 called allreduce(count 1000, float32, sum).", said)
        self.assertNotIn("stopped first", said)

    def test_other_sizes_are_named(self):
        self.fails("sizes", 3, 5, errors=4)
        self.assertIn("operation 5, the sizes differ: rank 3 called allreduce(count 500, float32, sum), "
                      "ranks 0, 1 and 2 called allreduce(count 1000, float32, sum).", self.explain())

    def test_a_dead_rank_is_named(self):
        self.fails("killed", 3, 5, errors=3, alive=3)
        said = self.explain()
        self.assertIn("ranks 0, 1 and 2 are here, rank 3 is not", said)
        # The time is told if one of them waited long enough to have read the clock.
        self.assertRegex(said, r"Rank 3 is what the others wait for: it has not entered operation 5, allreduce\(count 1000, float32, sum\), "
                               r"in which ranks? .*[012] waits?")
        self.assertNotIn("stopped first", said)
        self.assertIn("Rank 3 is gone: its process has ended", said)

    def test_a_stopped_rank_is_named(self):
        job = self.start("stopped", 2, 5, ANELLO_DUMP_DIR=self.dumps, ANELLO_TIMEOUT_MS="3000")
        self.addCleanup(os.kill, self.pids[2], signal.SIGCONT)
        self.errors(job, 3)
        said = self.explain()
        self.assertIn("Rank 2 is what the others wait for: it has not entered operation 5", said)
        self.assertIn("Rank 2 was stopped by a signal or a debugger.", said)

    def test_ranks_that_wait_for_each_other_are_named(self):
        self.fails("circle", 0, 2, errors=2)
        self.assertIn("Ranks wait for each other in a circle: rank 0 waits for rank 1 in recv from rank 1, tag 7, 4000 bytes; "
                      "rank 1 waits for rank 0 in recv from rank 0, tag 7, 4000 bytes.", self.explain())

    def test_a_message_that_is_never_sent_is_named(self):
        self.fails("lonely_receive", 3, 2, errors=3)
        self.assertRegex(self.explain(), r"Rank 3 .*: ranks 0, 1 and 2 wait for a message from it \(recv from rank 3, tag 5, 4000 bytes\)")

    def test_without_the_variable_nothing_is_written(self):
        job = self.start("sizes", 3, 5)
        errors = self.errors(job, 4)
        self.assertEqual(self.files(), [])
        self.assertNotIn("did last", "".join(errors.values()))

    def test_a_folder_that_cannot_be_made_is_told_and_the_error_stays(self):
        job = self.start("sizes", 3, 5, ANELLO_DUMP_DIR=os.path.join(self.folder, "no", "such"))
        for error in self.errors(job, 4).values():
            self.assertIn("ranks disagree on operation 5", error)
            self.assertRegex(error, r"what this rank did last could not be written: mkdir .*/no/such: No such file or directory")

    def test_some_of_the_files_are_enough(self):
        self.fails("never", 2, 5, errors=3)
        path = os.path.join(self.dumps, self.files()[0])
        said = self.explain(path)
        self.assertIn("rank 0 is here, ranks 1, 2 and 3 are not", said)
        self.assertIn("Rank 2 is what the others wait for: it has not entered operation 5", said)

    def test_what_is_no_dump_is_refused_in_a_sentence(self):
        for content, words in (("{}", "is no dump of Anello's recorder"), ('{"format": 9}', "another version's format"), ("[", "is cut off")):
            path = pathlib.Path(self.folder, "anello-x.json")
            path.write_text(content)
            done = subprocess.run([INFO, "--explain-dump", path], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 2)
            self.assertRegex(done.stderr, f"anello-info: {path}: .*{words}")
            self.assertNotIn("json.exception", done.stderr)
            self.assertNotIn("dumps are the files", done.stderr)
        os.unlink(path)
        done = subprocess.run([INFO, "--explain-dump", "/etc/passwd"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr, "anello-info: /etc/passwd: it is no dump of Anello's recorder, or is cut off; dumps are the files "
                                      "anello-JOB-rankN-commC.json in ANELLO_DUMP_DIR\n")
        done = subprocess.run([INFO, "--explain-dump", self.folder], capture_output=True, text=True, timeout=60)
        self.assertIn("has no file anello-*.json", done.stderr)


if __name__ == "__main__":
    unittest.main()
