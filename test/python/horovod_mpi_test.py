#!/usr/bin/env python3
"""hvd.init and hvd.ProcessSet with communicators of mpi4py, under a real mpirun. Needs a Python that has torch and
mpi4py, and Open MPI: horovod_mpi_test.py REPOSITORY ANELLORUN LIBRARY

HOROVOD_MPI_ALL=1: also the cases of which others have most; each starts ranks that import torch.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

import interpreter

REPOSITORY, ANELLORUN, LIBRARY = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
DEADLINE = 100


def needs():
    """The Python, and the words that start ranks."""
    python, why_not = interpreter.with_torch(REPOSITORY, ["mpi4py"])
    mpirun = shutil.which("mpirun.openmpi") or shutil.which("mpirun")
    if python is not None and mpirun is None:
        why_not = "there is no mpirun; install openmpi-bin"
    elif python is not None:
        version = subprocess.run([mpirun, "--version"], capture_output=True, text=True, timeout=60, check=False).stdout
        if "Open MPI" not in version and "OpenRTE" not in version:
            why_not = f"{mpirun} is not Open MPI's"
    if why_not:
        print(why_not)
        sys.exit(77)
    words = "--allow-run-as-root --oversubscribe --mca btl self,vader,tcp --mca mpi_yield_when_idle 1"
    return python, [mpirun, *words.split()]


PYTHON, MPIRUN = needs()


by_night = unittest.skipUnless(os.environ.get("HOROVOD_MPI_ALL") == "1", "tools/test --nightly runs it")


class Mpi(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = pathlib.Path(scratch.name)
        around = interpreter.environment(REPOSITORY, LIBRARY, self.scratch)
        self.around = {"MPI4PY_MPIABI": "openmpi", **around}  # wheels of mpi4py choose between several MPIs

    def run_program(self, ranks, text):
        program = self.scratch / "program.py"
        begin = """
            import os
            import torch
            import anello.horovod.torch as hvd
            from mpi4py import MPI

            world = MPI.COMM_WORLD
            launched = world.Get_rank()

            def say(*words):
                os.write(1, (" ".join(map(str, words)) + os.linesep).encode())  # in one piece: ranks share the pipe
        """
        program.write_text(textwrap.dedent(begin) + textwrap.dedent(text))
        ended = subprocess.run([*MPIRUN, "-np", str(ranks), PYTHON, "-W", "ignore", str(program)], env=self.around,
                               cwd=self.scratch, timeout=DEADLINE, text=True, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, check=False)
        self.assertEqual(ended.returncode, 0, ended.stdout)
        return sorted(line for line in ended.stdout.splitlines() if line.startswith("rank "))

    @by_night
    def test_the_whole_world(self):
        self.assertEqual(self.run_program(3, """
            hvd.init(comm=world)
            sums = hvd.allreduce(torch.ones(2), op=hvd.Sum).tolist()
            say("rank", hvd.rank(), hvd.rank() == launched, hvd.size(), sums)
        """), [f"rank {rank} True 3 [3.0, 3.0]" for rank in range(3)])

    def test_the_ranks_are_those_of_the_communicator(self):
        said = self.run_program(4, """
            half = world.Split(launched % 2, -launched)  # 2, 0 and 3, 1
            for _ in range(2):
                hvd.init(half)
                sum = int(hvd.allreduce(torch.tensor([launched]), op=hvd.Sum))
                say("rank", launched, "is", hvd.rank(), "of", hvd.size(), sum)
                hvd.shutdown()
        """)
        self.assertEqual(said, sorted(2 * ["rank 0 is 1 of 2 2", "rank 1 is 1 of 2 4", "rank 2 is 0 of 2 2",
                                           "rank 3 is 0 of 2 4"]))

    @by_night
    def test_beside_a_communicator_that_moves_data_itself(self):
        self.assertEqual(self.run_program(2, """
            hvd.init(comm=world.Dup())
            for step in range(20):
                handle = hvd.allreduce_async(torch.full((1000,), float(step)), name="a", op=hvd.Sum)
                assert world.allreduce(step) == 2 * step
                assert hvd.synchronize(handle)[0].item() == 2 * step
            say("rank", hvd.rank(), "done")
        """), ["rank 0 done", "rank 1 done"])

    def test_process_sets(self):
        said = self.run_program(4, """
            parts = hvd.ProcessSet(world.Split(launched % 2, launched))
            middle = hvd.ProcessSet(world.Create(world.group.Incl([2, 1])))  # MPI.COMM_NULL elsewhere
            assert parts.size() is None
            hvd.init(world, process_sets=[parts, middle, hvd.ProcessSet([0, 3])])
            assert parts.ranks == [launched % 2, launched % 2 + 2]
            sum = int(hvd.allreduce(torch.tensor([launched]), op=hvd.Sum, process_set=parts))
            inner = None
            if middle.included():
                inner = middle.rank(), hvd.allgather(torch.tensor([launched]), process_set=middle).tolist()
            say("rank", launched, sum, middle.ranks, inner, hvd.get_process_set_ids_and_ranks())
        """)
        sets = {0: [0, 1, 2, 3], 1: [0, 2], 2: [1, 3], 3: [2, 1], 4: [0, 3]}
        inner = {0: None, 1: (1, [2, 1]), 2: (0, [2, 1]), 3: None}
        self.assertEqual(said, [f"rank {rank} {2 if rank % 2 == 0 else 4} [2, 1] {inner[rank]} {sets}"
                                for rank in range(4)])

    @by_night
    def test_process_sets_that_are_added_later(self):
        self.assertEqual(self.run_program(3, """
            hvd.init(world, process_sets="dynamic")
            added = hvd.add_process_set(world.Split(min(launched, 1)))
            say("rank", launched, added.ranks, hvd.broadcast_object(launched, added.ranks[-1], process_set=added))
        """), ["rank 0 [0] 0", "rank 1 [1, 2] 2", "rank 2 [1, 2] 2"])

    def test_what_cannot_be(self):
        self.assertEqual(self.run_program(2, """
            def refused(call, *words):
                try:
                    call()
                except ValueError as error:
                    return all(word in str(error) for word in words)

            part = world.Split(0 if launched == 0 else MPI.UNDEFINED)
            if launched == 1:
                assert refused(lambda: hvd.init(part), "COMM_NULL")
            between = world.Split(launched).Create_intercomm(0, world, 1 - launched)
            assert refused(lambda: hvd.init(between), "Merge")
            assert refused(lambda: hvd.ProcessSet(between), "Merge")
            assert refused(lambda: hvd.init([world, part]), "process_sets=")
            if launched == 0:
                hvd.init(part)
                assert hvd.size() == 1
            say("rank", launched)
        """), ["rank 0", "rank 1"])

    def test_rank_0_that_cannot_open_a_place_leaves_nobody_waiting(self):
        said = self.run_program(2, """
            from anello import communicator
            from anello.errors import AnelloError

            def fail():
                raise AnelloError("no descriptor is left")

            communicator.new_unique_id = fail
            try:
                hvd.init(world)
            except (AnelloError, RuntimeError) as error:
                say("rank", launched, error)
        """)
        self.assertIn("no descriptor is left", said[0])
        self.assertEqual(said[1], "rank 1 init on rank 1: rank 0 could not open a place to meet; it says why")

    def test_without_one_mpi4py_is_not_imported(self):
        program = "import sys, anello.horovod.torch as hvd; hvd.init(); print('mpi4py' in sys.modules)"
        ended = subprocess.run([PYTHON, "-W", "ignore", "-c", program], env=self.around, text=True, check=True,
                               timeout=DEADLINE, stdout=subprocess.PIPE)
        self.assertEqual(ended.stdout, "False\n")


if __name__ == "__main__":
    sys.argv[1:4] = []
    unittest.main(verbosity=2)
