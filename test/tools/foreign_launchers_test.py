#!/usr/bin/env python3
"""anello-perf as ranks that somebody else starts: mpirun of Open MPI and of MPICH, what srun and torchrun set.
Argument: anello-perf."""

import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

PERF = sys.argv.pop(1)
LIMIT = 60
# What this process may itself have been given by a launcher.
FOREIGN = ("RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "OMPI_", "PMI", "SLURM_", "HYDRA_", "MPI_", "ANELLO_")


def clean_environment():
    return {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}


def version_of(program):
    try:
        return subprocess.run([program, "--version"], capture_output=True, text=True, timeout=LIMIT, check=False).stdout
    except FileNotFoundError:
        return ""


def launcher(words, *names):
    """The first of these programs that is of that make; None: there is none."""
    for name in names:
        path = shutil.which(name)
        if path and words in version_of(path):
            return path
    return None


class ForeignLaunchers(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.report = pathlib.Path(self.folder.name) / "report.json"
        self.command = [PERF, "-b", "8", "-e", "1M", "-f", "64", "-n", "2", "--no-ceilings", "--json", str(self.report)]

    def check(self, ranks):
        report = json.loads(self.report.read_text())
        self.assertEqual(len(report["ranks"]), ranks)
        self.assertEqual(report["out_of_bounds"], {"count": 0, "okay": True})
        self.assertEqual(len(report["results"]), 3)

    def run_under(self, program, *arguments):
        done = subprocess.run([program, *arguments, *self.command], capture_output=True, text=True, timeout=LIMIT,
                              env=clean_environment() | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"},
                              stdin=subprocess.DEVNULL, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.check(3)

    def run_ranks(self, environment_of, size):
        """A process a rank, with the variables that a launcher would set."""
        ranks = [subprocess.Popen(self.command, env=clean_environment() | environment_of(rank), text=True,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                 for rank in range(size)]
        try:
            for rank in ranks:
                text, _ = rank.communicate(timeout=LIMIT)
                self.assertEqual(rank.returncode, 0, text)
        finally:
            for rank in ranks:
                if rank.poll() is None:
                    rank.kill()
                rank.communicate()
        self.check(size)

    def test_mpirun_of_open_mpi(self):
        program = launcher("Open MPI", "mpirun.openmpi", "mpirun")
        if program is None:
            self.skipTest("Open MPI's mpirun is not installed (openmpi-bin)")
        self.run_under(program, "-np", "3", "--oversubscribe")

    def test_mpiexec_of_mpich(self):
        program = launcher("HYDRA", "mpiexec.hydra", "mpiexec.mpich", "mpiexec")
        if program is None:
            self.skipTest("MPICH's mpiexec is not installed (mpich)")
        self.run_under(program, "-n", "3")
        self.run_under(program, "-n", "3", "sh", "-c", '"$0" "$@"; exit $?')  # a shell between it and the rank

    def test_mpiexec_of_mpich_on_several_hosts(self):
        """Two names of this host, which mpiexec takes for two: only its key space tells the ranks where to meet."""
        program = launcher("HYDRA", "mpiexec.hydra", "mpiexec.mpich", "mpiexec")
        if program is None:
            self.skipTest("MPICH's mpiexec is not installed (mpich)")
        self.run_under(program, "-launcher", "fork", "-hosts", "localhost,127.0.0.2", "-ppn", "2", "-n", "3")

    def test_srun(self):
        program = shutil.which("srun")
        if program is None:
            self.skipTest("Slurm's srun is not installed; its variables are tested without it")
        if subprocess.run(["sinfo"], capture_output=True, timeout=LIMIT, check=False).returncode != 0:
            self.skipTest("srun is installed, but there is no Slurm cluster to ask")
        self.run_under(program, "-n", "3", "--overcommit")

    def test_what_srun_sets(self):
        step = str(os.getpid())
        self.run_ranks(lambda rank: {"SLURM_PROCID": str(rank), "SLURM_NTASKS": "3", "SLURM_LOCALID": str(rank),
                                     "SLURM_JOB_ID": step, "SLURM_STEP_ID": "0", "SLURM_NNODES": "1"}, 3)

    def test_what_torchrun_sets(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        self.run_ranks(lambda rank: {"RANK": str(rank), "WORLD_SIZE": "3", "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "3",
                                     "GROUP_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
                                     "TORCHELASTIC_RUN_ID": "none", "OMP_NUM_THREADS": "1"}, 3)

    def test_torchrun(self):
        program = shutil.which("torchrun")
        if program is None:
            self.skipTest("torchrun is not installed (PyTorch); its variables are tested without it")
        self.run_under(program, "--nproc-per-node", "3", "--standalone", "--no-python")


if __name__ == "__main__":
    unittest.main(verbosity=2)
