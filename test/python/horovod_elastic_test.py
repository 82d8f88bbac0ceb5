#!/usr/bin/env python3
"""Training goes on when a rank is killed: horovod_elastic_test.py REPOSITORY ANELLORUN LIBRARY

The ranks are started one by one, or by anellorun --keep-going, which lets the others live when one has died.
"""

import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import unittest

import interpreter

REPOSITORY, ANELLORUN, LIBRARY = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
PYTHON = interpreter.or_skip(REPOSITORY)
DEADLINE = 150  # torch is imported by four processes, two of them one after the other


class Elastic(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = pathlib.Path(scratch.name)
        self.around = interpreter.environment(REPOSITORY, LIBRARY, self.scratch)

    def run_ranks(self, size, text, killed=(), **environment):
        """Each rank's output; all but those killed must succeed."""
        program = self.scratch / "program.py"
        program.write_text(textwrap.dedent(text))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        ranks = []
        for rank in range(size):
            around = {**self.around, **environment, "RANK": str(rank), "WORLD_SIZE": str(size),
                      "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            ranks.append(subprocess.Popen([PYTHON, "-W", "ignore", str(program)], env=around, cwd=self.scratch,
                                          text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
        said = []
        try:
            for each in ranks:
                said.append(each.communicate(timeout=DEADLINE)[0])
        except subprocess.TimeoutExpired:
            self.fail(f"rank {len(said)} has not ended; before it: {said}")
        finally:
            for each in ranks:
                if each.poll() is None:
                    each.kill()
                    each.communicate()
        for rank, each in enumerate(ranks):
            self.assertEqual(each.returncode, -signal.SIGKILL if rank in killed else 0, f"rank {rank}: {said[rank]}")
        return said

    def run_under_anellorun(self, size, text, options=("--keep-going",), started=None):
        """The output of each rank, of so many that are started in all; the job must succeed, though a rank fails."""
        program = self.scratch / "program.py"
        program.write_text(textwrap.dedent(text))
        command = [str(ANELLORUN), "-np", str(size), *options, "--tag-output", PYTHON, "-W", "ignore", str(program)]
        ended = subprocess.run(command, env=self.around, cwd=self.scratch, timeout=DEADLINE, text=True, check=False,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(ended.returncode, 0, ended.stdout)
        return ["\n".join(line for line in ended.stdout.split("\n") if line.startswith(f"[{rank}] "))
                for rank in range(started or size)]

    def test_the_others_go_on_from_the_last_commit_until_one_is_left(self):
        said = self.run_ranks(3, """
            import copy, os, signal, torch, anello.horovod.torch as hvd
            hvd.init()
            first, killed = hvd.rank(), {0: 5, 2: 9}
            torch.manual_seed(1)
            model = torch.nn.Linear(4, 1)
            alone = copy.deepcopy(model)
            sgd = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
            optimizer = hvd.DistributedOptimizer(sgd, model.named_parameters())
            resets = []

            def backward(model, batch):
                model(torch.full((2, 4), batch / 20)).square().mean().backward()

            @hvd.elastic.run
            def train(state):
                print("begins at", state.batch, "with", hvd.size(), "as", hvd.rank(), flush=True)
                while state.batch < 14:
                    optimizer.zero_grad()
                    backward(model, state.batch)
                    if killed.get(first) == state.batch:
                        os.kill(os.getpid(), signal.SIGKILL)
                    optimizer.step()
                    state.batch += 1
                    if state.batch % 2 == 0:
                        state.commit()
                return "done"

            state = hvd.elastic.TorchState(model=model, optimizer=optimizer, batch=0)
            state.register_reset_callbacks([lambda: resets.append(hvd.size())])
            assert train(state) == "done"
            plain = torch.optim.SGD(alone.parameters(), lr=0.01, momentum=0.9)
            for batch in range(14):  # all ranks had equal batches
                plain.zero_grad()
                backward(alone, batch)
                plain.step()
            torch.testing.assert_close(model.weight, alone.weight)
            print("resets", resets)
        """, killed=(0, 2))
        self.assertIn("begins at 4 with 2 as 0", said[1])
        self.assertIn("begins at 4 with 2 as 1", said[2])
        self.assertIn("begins at 8 with 1 as 0", said[1])
        self.assertIn("resets [2, 1]", said[1])

    def test_a_sampler_gives_what_is_left_to_those_who_are_left(self):
        said = self.run_under_anellorun(3, """
            import os, signal, torch, anello.horovod.torch as hvd
            hvd.init()
            first, seen = hvd.rank(), []

            @hvd.elastic.run
            def train(state):
                for number, place in enumerate(state.sampler):
                    if first == 1 and number == 4:
                        os.kill(os.getpid(), signal.SIGKILL)
                    hvd.allreduce(torch.ones(1), name="step")
                    state.sampler.record_batch(number, 1)
                    seen.append(place)
                    state.commit()

            sampler = hvd.elastic.ElasticSampler(range(30), shuffle=True, seed=3)
            assert len(sampler) == 10
            train(hvd.elastic.TorchState(sampler=sampler))
            print("seen", *seen)
        """)
        seen = [set(said[rank].split("seen ")[1].split()) for rank in (0, 2)]
        self.assertEqual(len(seen[0] & seen[1]), 0)
        self.assertEqual(len(seen[0] | seen[1]), 30)  # also what only rank 1 knew that it had processed

    def discovery(self, first):
        """A file that lists hosts, and the script that prints it."""
        hosts, script = self.scratch / "hosts", self.scratch / "discover"
        hosts.write_text(first + "\n")
        script.write_text(f"#!/bin/sh\ncat {hosts}\n")
        script.chmod(0o755)
        return hosts, script

    def test_ranks_join_and_one_is_killed_and_the_result_is_that_of_one_process(self):
        hosts, script = self.discovery("localhost:2")
        said = self.run_under_anellorun(2, f"""
            import copy, os, signal, torch, anello.horovod.torch as hvd

            def list_slots(count):
                with open("{hosts}.new", "w") as file:
                    file.write(f"localhost:{{count}}")
                os.rename("{hosts}.new", "{hosts}")

            started = int(os.environ["RANK"])
            hvd.init()
            torch.manual_seed(1 + started)  # a rank that joins has other weights, until it has rank 0's
            model = torch.nn.Linear(4, 1)
            if started == 0:
                alone = copy.deepcopy(model)
            sgd = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
            optimizer = hvd.DistributedOptimizer(sgd, model.named_parameters())
            resets = []

            def backward(model, batch):
                model(torch.full((2, 4), batch % 20 / 20)).square().mean().backward()

            @hvd.elastic.run
            def train(state):
                print("begins at", state.batch, "with", hvd.size(), "as", hvd.rank(), flush=True)
                while not (state.grown and hvd.size() == 2 and state.batch >= state.grown + 6):
                    optimizer.zero_grad()
                    backward(model, state.batch)
                    optimizer.step()
                    state.batch += 1
                    if hvd.size() == 3 and not state.grown:
                        state.grown = state.batch
                    if state.batch == 4 and started == 0:
                        list_slots(3)
                    if started == 2 and state.batch == state.grown + 2:
                        list_slots(2)
                        os.kill(os.getpid(), signal.SIGKILL)
                    state.commit()

            state = hvd.elastic.TorchState(model=model, optimizer=optimizer, batch=0, grown=0)
            state.register_reset_callbacks([lambda: resets.append(hvd.size())])
            train(state)
            if started == 0:
                plain = torch.optim.SGD(alone.parameters(), lr=0.01, momentum=0.9)
                for batch in range(state.batch):  # all ranks had equal batches
                    plain.zero_grad()
                    backward(alone, batch)
                    plain.step()
                torch.testing.assert_close(model.weight, alone.weight)
            same = hvd.allgather(model.weight)
            assert torch.equal(same[0], same[1])
            print("grown", state.grown, "resets", resets)
        """, ["--max-np", "3", "--host-discovery-script", str(script)], started=3)
        grown = said[0].split("grown ")[1].split()[0]
        for rank in (0, 1):
            self.assertIn(f"begins at 0 with 2 as {rank}", said[rank])
            self.assertIn(f"begins at {int(grown) - 1} with 3 as {rank}", said[rank])
            self.assertIn(f"begins at {int(grown) + 2} with 2 as {rank}", said[rank])
            self.assertIn("resets [3, 2]", said[rank])
        self.assertIn(f"begins at {int(grown) - 1} with 3 as 2", said[2])

    def test_ranks_that_should_leave_end_and_the_others_need_no_state(self):
        hosts, script = self.discovery("localhost:3")
        said = self.run_under_anellorun(3, f"""
            import torch, anello.horovod.torch as hvd

            class State(hvd.elastic.TorchState):
                syncs = 0
                def sync(self):
                    super().sync()
                    State.syncs += 1

            hvd.init()

            @hvd.elastic.run
            def train(state):
                while hvd.size() == 3:
                    state.batch += 1
                    hvd.allreduce(torch.ones(1), name="step")
                    if state.batch == 3 and hvd.rank() == 0:
                        with open("{hosts}", "w") as file:
                            file.write("localhost:1")
                    state.check_host_updates()

            state = State(batch=0)
            train(state)
            print("at the end", state.batch > 2, State.syncs, hvd.rank(), hvd.size())
        """, ["--min-np", "1", "--host-discovery-script", str(script)])
        self.assertIn("at the end True 1 0 1", said[0])  # no state travelled after the others had left
        self.assertEqual(said[1:], ["", ""])

    def test_without_elastic_run_the_error_names_the_rank_and_init_brings_the_others_together(self):
        said = self.run_ranks(3, """
            import os, signal, time, torch, anello.horovod.torch as hvd
            hvd.init()
            if hvd.rank() == 1:
                hvd.allreduce(torch.ones(1), name="a")
                os.kill(os.getpid(), signal.SIGKILL)
            hvd.allreduce(torch.ones(1), name="a")
            begin = time.monotonic()
            for name in ("b", "c"):
                try:
                    hvd.allreduce(torch.ones(1), name=name)
                except hvd.HorovodInternalError as error:
                    print(name, error.rank, error, flush=True)
            assert time.monotonic() - begin < 10
            hvd.shutdown()
            hvd.init()
            print("size", hvd.size(), "sum", hvd.allreduce(torch.ones(1), op=hvd.Sum).item(), flush=True)
            if hvd.rank() == 0:  # the other one leaves, as a program does that ends
                try:
                    hvd.allreduce(torch.ones(1), name="too late")
                except hvd.HorovodInternalError as error:
                    print("left:", error.rank, error)
        """, killed=(1,))
        for rank in (0, 2):
            self.assertRegex(said[rank], "b 1 .*rank 1 .* is lost")
            self.assertIn("c 1 ", said[rank])
            self.assertIn("size 2 sum 2.0", said[rank])
        self.assertIn("left: 1 rank 1 has left: rank 1 has called shutdown, or its program has ended", said[0])


if __name__ == "__main__":
    sys.argv[1:4] = []
    unittest.main(verbosity=2)
