#!/usr/bin/env python3
"""Ranks that die, differ or leave: every other rank gets an error that names the rank and the cause, soon, and its interpreter
ends. failures_test.py REPOSITORY ANELLORUN LIBRARY"""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

import forking
import interpreter

REPOSITORY, _, LIBRARY = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
PYTHON = interpreter.or_skip(REPOSITORY)
DEADLINE = 60

PRELUDE = """
import os, signal, sys, time
from datetime import timedelta
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
dist.init_process_group("anello", init_method="file://" + os.environ["MEETING"], rank=rank, world_size=size,
                        timeout=timedelta(seconds=20))

def says(act, *texts):
    begin = time.monotonic()
    try:
        act()
    except RuntimeError as error:
        assert time.monotonic() - begin < 15, "late"
        assert all(text in str(error) for text in texts), str(error)
        print("said:", error, flush=True)
    else:
        raise SystemExit("silence")
"""


class Failures(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.running = set()
        self.addCleanup(self.end_all)

    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.template = forking.Template(PYTHON, interpreter.environment(REPOSITORY, LIBRARY, scratch.name))
        cls.addClassCleanup(cls.template.close)

    def end_all(self):
        for pid in self.running:
            os.kill(pid, signal.SIGKILL)

    def ranks(self, size, script, **environment):
        """(exit code, output) of each. They are no launcher's children, which would end them all with the first."""
        around = {**interpreter.environment(REPOSITORY, LIBRARY, self.scratch.name), "WORLD_SIZE": str(size),
                  "MEETING": os.path.join(self.scratch.name, "meeting"), "ANELLO_LOG": "off", **environment}
        outputs = [pathlib.Path(self.scratch.name, f"output{rank}") for rank in range(size)]
        pids = [self.template.start(PRELUDE + textwrap.dedent(script), {**around, "RANK": str(rank)}, output)
                for rank, output in enumerate(outputs)]
        self.running.update(pids)
        ends = []
        for pid, output in zip(pids, outputs):
            code, late = self.end_of(pid)
            ends.append((code, output.read_text(errors="replace") + late))
        return ends

    def end_of(self, pid):
        """The exit code, and what is to be said of it."""
        late = ""
        end = time.monotonic() + DEADLINE
        while (code := self.template.ended(pid)) is None:
            if time.monotonic() > end:
                os.kill(pid, signal.SIGKILL if late else signal.SIGABRT)
                late = f"\n(not finished after {DEADLINE} s)"
                end += 5
            time.sleep(0.01)
        self.running.discard(pid)
        return code, late

    def forget_the_meeting(self):
        """A FileStore is removed by the last that leaves it, unless that one was killed."""
        pathlib.Path(self.scratch.name, "meeting").unlink(missing_ok=True)

    def all_well(self, ends, but=()):
        for rank, (code, out) in enumerate(ends):
            if rank not in but:
                self.assertEqual(code, 0, f"rank {rank}:\n{out}")

    def test_a_rank_killed_in_the_middle_of_ddp_training(self):
        for options in ("", "find_unused_parameters=True", "static_graph=True", "gradient_as_bucket_view=True"):
            with self.subTest(options):
                ends = self.ranks(2, f"""
                    model = DistributedDataParallel(torch.nn.Sequential(*[torch.nn.Linear(50, 50) for _ in range(6)]),
                                                    bucket_cap_mb=0.01, {options})
                    def step():
                        model(torch.ones(2, 50)).sum().backward()
                    for _ in range(3):
                        step()
                    if rank == 1:
                        def die(gradient):
                            os.kill(os.getpid(), signal.SIGKILL)
                        model.module[2].weight.register_hook(die)
                    says(step, "rank 1")
                    # The next step finds a group that has failed.
                    says(lambda: dist.all_reduce(torch.ones(1)), "rank 1")
                    says(step, "rank 1")
                    print("ended at", time.monotonic())
                """)
                self.assertEqual(ends[1][0], -signal.SIGKILL)
                self.all_well(ends, but=(1,))
                self.assertIn("PEER_LOST", ends[0][1])
                end = float(re.search(r"ended at (\S+)", ends[0][1])[1])
                self.assertLess(time.monotonic() - end, 10)
                self.forget_the_meeting()

    def test_a_rank_killed_under_our_own_ddp(self):
        for options in ("", "find_unused_parameters=True", "static_graph=True", "gradient_as_bucket_view=True"):
            with self.subTest(options):
                ends = self.ranks(2, f"""
                    import anello.torch
                    layers = torch.nn.Sequential(*[torch.nn.Linear(50, 50) for _ in range(6)])
                    model = anello.torch.DistributedDataParallel(layers, bucket_cap_mb=0.01, {options})
                    def step():
                        model(torch.ones(2, 50)).sum().backward()
                    for _ in range(3):
                        step()
                    if rank == 1:
                        layers[2].weight.register_hook(lambda gradient: os.kill(os.getpid(), signal.SIGKILL))
                    says(step, "PEER_LOST", "rank 1", "step 3, bucket")
                    says(step, "PEER_LOST", "rank 1")
                """)
                self.all_well(ends, but=(1,))
                self.forget_the_meeting()

    def test_a_hook_hears_of_it_too(self):
        for hook in ("default_hooks.fp16_compress_hook", "default_hooks.allreduce_hook", "bf16_compress_hook"):
            with self.subTest(hook):
                ends = self.ranks(2, f"""
                    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
                    from anello.torch import bf16_compress_hook
                    model = DistributedDataParallel(torch.nn.Linear(5, 5))
                    model.register_comm_hook(None, {hook})
                    model(torch.ones(1, 5)).sum().backward()
                    if rank == 1:
                        os.kill(os.getpid(), signal.SIGKILL)
                    says(lambda: model(torch.ones(1, 5)).sum().backward(), "rank 1")
                """)
                self.all_well(ends, but=(1,))
                self.forget_the_meeting()

    def test_wait_future_exception_and_is_success_tell_of_it(self):
        ends = self.ranks(2, """
            if rank == 1:
                time.sleep(1)
                os.kill(os.getpid(), signal.SIGKILL)
            first, second = torch.ones(3), torch.ones(3)
            work = dist.all_reduce(first, async_op=True)
            other = dist.all_reduce(second, async_op=True)
            future = other.get_future()
            says(work.wait, "rank 1")
            says(work.wait, "rank 1")
            assert work.is_completed() and not work.is_success() and "rank 1" in str(work.exception())
            says(future.wait, "rank 1")
            says(lambda: future.then(lambda done: done.value()).wait(), "rank 1")
            says(dist.barrier, "rank 1")
            says(lambda: dist.send(torch.ones(1), 1), "rank 1")
        """)
        self.all_well(ends, but=(1,))

    def test_survivors_make_a_group_without_the_lost_rank(self):
        ends = self.ranks(3, """
            dist.barrier()
            if rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            if rank == 0:  # rank 2 does not know yet
                says(lambda: dist.all_reduce(torch.ones(1)), "rank 1")
            group = dist.new_group([0, 2], timeout=timedelta(seconds=20), use_local_synchronization=True)
            tensor = torch.ones(1)
            dist.all_reduce(tensor, group=group)
            assert tensor.item() == 2
            dist.destroy_process_group()
        """)
        self.all_well(ends, but=(1,))

    def test_ranks_that_call_different_things(self):
        ends = self.ranks(2, """
            def differ():
                dist.all_reduce(torch.ones(3 + rank))
                dist.barrier()
            says(differ, "MISMATCH")
            group = dist.new_group(timeout=timedelta(seconds=20))  # beside the one that has failed
            tensor = torch.ones(1)
            dist.all_reduce(tensor, group=group)
            assert tensor.item() == 2
        """)
        self.all_well(ends)

    def test_a_rank_that_leaves_by_an_exception_is_told_of(self):
        ends = self.ranks(2, """
            dist.barrier()
            if rank == 1:
                raise ValueError("this rank gives up")
            says(lambda: dist.all_reduce(torch.ones(1)), "rank 1")
        """)
        self.assertEqual(ends[1][0], 1)
        self.assertIn("this rank gives up", ends[1][1])
        self.all_well(ends, but=(1,))

    def test_interpreters_end_with_operations_and_futures_under_way(self):
        for what in ("work = dist.irecv(torch.ones(1), 1 - rank)", "future = dist.irecv(torch.ones(1), 1 - rank).get_future()",
                     "dist.all_reduce(torch.ones(1), async_op=True).get_future().then(lambda done: time.sleep(0.3))",
                     "dist.irecv(torch.ones(5)[::2], 1 - rank)"):
            with self.subTest(what):
                begin = time.monotonic()
                ends = self.ranks(2, f"""
                    dist.barrier()
                    {what}
                    print("the end")
                """)
                self.all_well(ends)
                self.assertLess(time.monotonic() - begin, 30)
                for _, out in ends:
                    self.assertEqual(out.strip(), "the end")
                self.forget_the_meeting()

    def test_operations_under_way_when_the_group_is_destroyed(self):
        ends = self.ranks(2, """
            work = dist.irecv(torch.ones(1), 1 - rank)
            future = dist.irecv(torch.ones(1), 1 - rank, tag=1).get_future()
            dist.barrier()
            dist.destroy_process_group()
            says(work.wait, "recv from rank")
            says(future.wait, "recv from rank")
        """)
        self.all_well(ends)

    def test_abort_ends_the_others(self):
        ends = self.ranks(2, """
            if rank == 1:
                dist.barrier()
                dist.group.WORLD.abort()
            else:
                # It may still be in the barrier when it hears.
                says(lambda: (dist.barrier(), dist.all_reduce(torch.ones(1))), "rank 1 has aborted")
        """)
        self.all_well(ends)

    def test_a_forked_child_does_not_touch_the_engine(self):
        ends = self.ranks(2, """
            dist.all_reduce(torch.ones(1), async_op=True).get_future().wait()
            held = dist.all_reduce(torch.ones(1), async_op=True)
            child = os.fork()
            if child == 0:
                says(lambda: dist.all_reduce(torch.ones(1)), "fork")
                says(lambda: dist.all_reduce(torch.ones(1), async_op=True), "fork")
                says(lambda: dist.send(torch.ones(1), 1 - rank), "fork")
                says(held.wait, "fork")
                dist.destroy_process_group()
                sys.exit(0)  # with all that runs at an interpreter's end
            assert os.waitpid(child, 0)[1] == 0
            held.wait()
            dist.barrier()
        """)
        self.all_well(ends)


if __name__ == "__main__":
    sys.argv[1:4] = []
    unittest.main(verbosity=2)
