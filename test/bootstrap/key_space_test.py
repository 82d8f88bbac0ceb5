#!/usr/bin/env python3
"""The key space of MPICH's own mpiexec, which serves both versions of PMI. Argument: key_space_rank."""

import os
import shutil
import subprocess
import sys
import unittest

RANK = os.path.abspath(sys.argv.pop())
FOREIGN = ("PMI", "SLURM_", "HYDRA_", "MPI")


class KeySpace(unittest.TestCase):
    def setUp(self):
        self.mpiexec = shutil.which("mpiexec.hydra")
        if self.mpiexec is None:
            self.skipTest("MPICH's mpiexec is not installed (mpich)")

    def run_ranks(self, version, *options):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
        done = subprocess.run([self.mpiexec, *options, "-n", "3", RANK, version], env=environment, capture_output=True, text=True,
                              timeout=60, stdin=subprocess.DEVNULL, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "both\n" * 3), done.stderr)

    def test_ranks_of_one_host(self):
        for version in "12":
            with self.subTest(version=version):
                self.run_ranks(version)

    def test_ranks_of_two_hosts(self):
        """Two names of this host, which mpiexec takes for two, with a proxy each."""
        for version in "12":
            with self.subTest(version=version):
                self.run_ranks(version, "-launcher", "fork", "-hosts", "localhost,127.0.0.2", "-ppn", "2")


if __name__ == "__main__":
    unittest.main(verbosity=2)
