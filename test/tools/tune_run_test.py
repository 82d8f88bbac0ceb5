"""anello-tune as a person uses it. Arguments: anello-tune, anello-plan. What it finds depends on the machine; that what it
writes is used, and what it prints and returns, does not."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

TUNE, PLAN = sys.argv[1:3]
del sys.argv[1:3]
SHORT = ["--rounds", "2", "--minutes", "0", "--ranks", "2", "--up-to", "64K"]
HEAD = "anello-tuning 1\nmachine {}\n"


def run(*words, **more):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ANELLO_")} | more
    return subprocess.run([TUNE, *words], env=environment, capture_output=True, text=True, timeout=120, check=False)


class Tune(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.place = pathlib.Path(self.directory.name, "anello", "tuning")

    def test_a_quick_run_writes_a_table_that_can_be_read(self):
        ended = run("--quick", *SHORT, XDG_CONFIG_HOME=self.directory.name)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertIn(f"written to {self.place}", ended.stdout)
        table = self.place.read_text()
        self.assertRegex(table, r"^anello-tuning 1\nmachine \S.*, \d+ processors\n# collective")
        self.assertIn(table, ended.stdout)
        subprocess.run([PLAN, "explain", "allreduce", "--tuning", self.place], check=True, stdout=subprocess.DEVNULL)
        self.assertEqual([each.name for each in self.place.parent.iterdir()], ["tuning"])

    def test_dry_runs_write_nothing_and_every_collective_can_be_measured(self):
        collectives = "allreduce,broadcast,reduce,allgather,reduce_scatter,gather,scatter,alltoall,scan,exscan"
        ended = run("--dry-run", "--collectives", collectives, "--sizes", "2", *SHORT, XDG_CONFIG_HOME=self.directory.name)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertFalse(self.place.exists())
        ended = run("--dry-run", "--where", "network", "--sizes", "2", "--collectives", "allreduce", *SHORT)
        self.assertEqual(ended.returncode, 0, ended.stderr)

    def test_dense_finds_a_table_that_chooses_badly(self):
        machine = re.search(r"^machine (.*)$", run("--quick", "--dry-run", "--sizes", "2", *SHORT).stdout, re.M).group(1)
        table = pathlib.Path(self.directory.name, "bad")
        # A ring of chunks of 64 bytes.
        table.write_text(HEAD.format(machine) + "allreduce memory none any 0 any ring 64\n")
        ended = run("--dense", "--table", str(table), "--memory", "malloc", "--sizes", "4", "--from", "4K", *SHORT)
        self.assertEqual(ended.returncode, 1, ended.stdout + ended.stderr)
        self.assertIn("SLOWER THAN THE BEST WAY", ended.stdout)
        rows = [line.split() for line in ended.stdout.splitlines() if re.match(r" *\d+ +[\d.]+ ", line)]
        self.assertEqual(len(rows), 4)
        self.assertGreater(float(rows[3][3]), 2)

    def test_what_makes_no_sense_is_refused(self):
        for words, told in [(["--from", "1K", "--up-to", "512"], "--from must be"), (["--ranks", "1"], "not a whole number from 2"),
                            (["--collectives", "allredcue"], "allredcue"), (["--dense", "--table", "/no/such"], "/no/such")]:
            ended = run(*words)
            self.assertNotIn(ended.returncode, (0, 1))
            self.assertIn(told, ended.stdout + ended.stderr)
        bad = pathlib.Path(self.directory.name, "bad")
        bad.write_text(HEAD.format("x") + "allreduce memory\n")
        ended = run("--dense", "--table", str(bad))
        self.assertEqual(ended.returncode, 2)
        self.assertIn(f"{bad}, line 3: it has 2 fields", ended.stderr)

    def test_help_teaches(self):
        told = run("--help").stdout
        for word in ["Examples:", "--dense", "--quick", "median over rounds", "ANELLO_TUNING"]:
            self.assertIn(word, told)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
