#!/usr/bin/env python3
"""Ranks under a real Slurm, on one node and on two. Arguments: a folder for Debian's packages of Slurm, a library
that is named as an MPI is, a rank."""

import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "support"))
import cases  # noqa: E402
import slurm_cluster  # noqa: E402

RANK = os.path.abspath(sys.argv.pop())
MPI = os.path.abspath(sys.argv.pop())
PACKAGES = os.path.abspath(sys.argv.pop())


class Slurm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0:
            raise unittest.SkipTest("needs root: Slurm's daemons start jobs for users")
        try:
            cls.cluster = slurm_cluster.Cluster(slurm_cluster.fetch(PACKAGES), ["node01", "node02"])
        except (OSError, subprocess.CalledProcessError) as error:
            raise unittest.SkipTest(str(error)) from None
        cls.addClassCleanup(cls.cluster.close)

    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir="/tmp")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def srun(self, *options, check=True, **variables):
        # quiet: it would tell when the nodes have not yet cleaned up after the step before.
        done = self.cluster.run("srun", "--quiet", *options, RANK, check=False,
                                variables={"TIMEOUT_MS": "20000"} | variables)
        if check:
            self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        return done

    def file(self):
        return f"file://{self.folder}/meeting"

    def test_ranks_of_one_node_need_nothing(self):
        self.assertEqual(self.srun("-n", "4").stdout, "sum 4\n" * 4)

    def test_two_steps_at_once_do_not_meet(self):
        steps = [subprocess.Popen([f"{self.cluster.root}/usr/bin/srun", "--quiet", "-n", "4", RANK], text=True,
                                  env=self.cluster.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                 for _ in range(2)]
        self.assertEqual([step.communicate(timeout=60) for step in steps], [("sum 4\n" * 4, "")] * 2)

    def test_ranks_meet_over_a_file_and_leave_none(self):
        for options in (["-n", "4"], ["-N", "2", "-n", "4"]):
            for way in ("URL", "ANELLO_URL"):
                with self.subTest(options=options, way=way):
                    self.assertEqual(self.srun(*options, **{way: self.file()}).stdout, "sum 4\n" * 4)
                    self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_file_that_a_killed_job_has_left_is_no_obstacle(self):
        environment = {"RANK": "0", "WORLD_SIZE": "2", "URL": self.file(), "PATH": os.environ["PATH"]}
        rank = subprocess.Popen([RANK], env=environment)
        end = time.monotonic() + 20
        while not (self.folder / "meeting").exists() and time.monotonic() < end:
            time.sleep(0.01)
        rank.kill()
        rank.wait()
        self.assertEqual((self.folder / "meeting").stat().st_mode & 0o777, 0o600)
        self.assertEqual(self.srun("-n", "4", URL=self.file()).stdout, "sum 4\n" * 4)

    def test_nodes_of_the_list_tell_where_to_meet(self):
        secret = self.folder / "secret"
        secret.write_bytes(os.urandom(32))
        secret.chmod(0o600)
        # On a cluster, every node can resolve the names of all. Here ranks see a file of names of their own.
        names = self.folder / "hosts"
        names.write_text("127.0.0.1 localhost node01 node02\n")
        script = f"mount --bind {names} /etc/hosts && exec {RANK}"
        done = self.cluster.run("srun", "-N", "2", "-n", "4", "unshare", "-m", "sh", "-c", script, check=False,
                                variables={"ANELLO_SECRET_FILE": str(secret), "TIMEOUT_MS": "20000"})
        self.assertEqual((done.stdout, done.stderr), ("sum 4\n" * 4, ""))

    def test_the_key_space_of_pmi_2_tells_ranks_of_several_nodes_where_to_meet(self):
        done = self.cluster.run("srun", "--quiet", "--mpi=pmi2", "-N", "2", "-n", "4", "sh", "-c", "exec " + RANK, check=False,
                                variables={"TIMEOUT_MS": "20000"})
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "sum 4\n" * 4, ""))

    def test_a_rank_that_does_not_come_to_the_key_space_is_no_hang(self):
        script = "if [ $SLURM_PROCID = 1 ]; then sleep 20; else exec " + RANK + "; fi"
        done = self.cluster.run("srun", "-K0", "--mpi=pmi2", "-N", "2", "-n", "2", "sh", "-c", script, check=False,
                                variables={"TIMEOUT_MS": "2000"})
        self.assertIn("(PMI_FD): not all ranks came in time", done.stdout)

    def test_pmi_2_stays_the_mpi_s_that_is_in_the_process(self):
        done = self.cluster.run("srun", "--quiet", "--mpi=pmi2", "-N", "2", "-n", "2", "env", f"LD_PRELOAD={MPI}", RANK, check=False,
                                variables={"TIMEOUT_MS": "2000"})
        self.assertIn("(PMI-2) stays MPI's", done.stderr)
        self.assertNotIn("PMI_FD", done.stdout)

    def test_with_a_secret_pmi_2_is_left_alone(self):
        secret = self.folder / "secret"
        secret.write_bytes(os.urandom(32))
        secret.chmod(0o600)
        script = "exec 2>&1; " + RANK + "; exec {} -c '{}'".format(sys.executable, (
            "import os, socket; s = socket.socket(fileno=int(os.environ[\"PMI_FD\"])); "
            "s.sendall(b\"cmd=init pmi_version=2 pmi_subversion=0\\n\"); print(s.recv(100))"))
        done = self.cluster.run("srun", "--quiet", "--mpi=pmi2", "-N", "2", "-n", "2", "sh", "-c", script, check=False,
                                variables={"ANELLO_SECRET_FILE": str(secret), "TIMEOUT_MS": "2000"})
        self.assertEqual(done.stdout.count("response_to_init rc=0"), 2, done.stdout + done.stderr)

    def test_ranks_on_several_nodes_without_a_secret_are_told_how_to_give_one(self):
        done = self.srun("-N", "2", "-n", "2", check=False, MASTER_ADDR="127.0.0.1", MASTER_PORT="4100")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("there is no secret", done.stdout)
        self.assertIn("ANELLO_URL=file:///path", done.stdout)

    def test_a_world_of_one_in_a_job_of_several_is_said_aloud(self):
        done = self.cluster.run("salloc", "-n", "3", RANK, check=False)
        self.assertIn("sum 1\n", done.stdout)
        self.assertIn("though its Slurm job has SLURM_NTASKS=3: srun has not started it. Start it with srun", done.stderr)

    def test_a_rank_that_dies_is_named_to_the_others(self):
        script = "if [ $SLURM_PROCID = 1 ]; then kill -9 $$; fi; exec " + RANK
        done = self.cluster.run("srun", "-K0", "-n", "3", "sh", "-c", script, check=False, variables={"TIMEOUT_MS": "3000"})
        self.assertIn("rank 1 of 3 did not come", done.stdout)


if __name__ == "__main__":
    cases.run()
