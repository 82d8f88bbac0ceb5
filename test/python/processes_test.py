#!/usr/bin/env python3
"""The package in processes as programs start them: spawned, forked for data, under torchrun; and what importing it costs.
processes_test.py REPOSITORY ANELLORUN LIBRARY"""

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
PYTHON = interpreter.or_skip(REPOSITORY)
DEADLINE = 100


class Processes(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = pathlib.Path(scratch.name)
        self.around = interpreter.environment(REPOSITORY, LIBRARY, self.scratch)

    def run_program(self, text, *before, python=PYTHON, options=("-W", "ignore"), succeeds=True, **environment):
        program = self.scratch / "program.py"
        program.write_text(textwrap.dedent(text))
        ended = subprocess.run([*before, python, *options, str(program)], env={**self.around, **environment}, timeout=DEADLINE,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, cwd=self.scratch)
        if succeeds:
            self.assertEqual(ended.returncode, 0, ended.stdout)
        return ended.stdout

    def test_spawned_ranks_and_what_one_raises(self):
        out = self.run_program("""
            import os, torch, torch.distributed as dist, torch.multiprocessing as mp

            def rank(number, size, meeting, fails):
                dist.init_process_group("anello", init_method=f"file://{meeting}", rank=number, world_size=size)
                tensor = torch.ones(2)
                dist.all_reduce(tensor)
                assert tensor[0].item() == size
                assert os.stat(meeting).st_mode & 0o777 == 0o600  # the secret has been in it
                if fails:
                    dist.all_reduce(torch.ones(2 + number))
                    dist.barrier()
                dist.destroy_process_group()

            if __name__ == "__main__":
                here = os.path.abspath("meeting")
                mp.spawn(rank, (2, here, False), nprocs=2)
                try:
                    mp.spawn(rank, (2, here + "2", True), nprocs=2)
                except mp.ProcessRaisedException as raised:
                    assert "ANELLO_ERR_MISMATCH" in str(raised), raised
                    print("raised")
        """)
        self.assertIn("raised", out)

    def test_data_loader_workers_forked_while_operations_are_under_way(self):
        self.run_program("""
            import torch, torch.distributed as dist
            from torch.nn.parallel import DistributedDataParallel
            from torch.utils.data import DataLoader, TensorDataset
            from torch.utils.data.distributed import DistributedSampler

            dist.init_process_group("anello")
            size = dist.get_world_size()
            data = TensorDataset(torch.arange(64.0).reshape(32, 2))
            sampler = DistributedSampler(data, shuffle=False)
            model = DistributedDataParallel(torch.nn.Linear(2, 1))
            seen = torch.zeros(1)
            for epoch in range(2):
                pending = dist.all_reduce(torch.ones(5), async_op=True)
                pending.get_future()
                loader = DataLoader(data, batch_size=4, sampler=sampler, num_workers=2, multiprocessing_context="fork")
                for batch, in loader:
                    model(batch).sum().backward()
                    seen += batch.sum()
                pending.wait()
            dist.all_reduce(seen)
            assert seen.item() == 2 * sum(range(64)), seen
            dist.destroy_process_group()
        """, str(ANELLORUN), "-np", "2")

    def test_torchrun(self):
        self.run_program("""
            import torch, torch.distributed as dist
            dist.init_process_group("anello")
            tensor = torch.ones(1)
            dist.all_reduce(tensor)
            dist.destroy_process_group()
            dist.init_process_group("anello")  # over the launcher's store, which is still the same
            dist.all_reduce(tensor)
            assert tensor.item() == 4
            open(f"rank{dist.get_rank()} was here", "w").close()
        """, PYTHON, "-W", "ignore", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", python="--no-python",
            options=(PYTHON,))
        self.assertEqual(len(list(self.scratch.glob("* was here"))), 2)

    def test_torchrun_starts_all_ranks_anew_where_one_was_killed(self):
        self.run_program("""
            import os, signal, torch, torch.distributed as dist
            dist.init_process_group("anello")
            rank, attempt = dist.get_rank(), os.environ["TORCHELASTIC_RESTART_COUNT"]
            model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 1))
            for step in range(4):
                if attempt == "0" and rank == 1 and step == 2:
                    os.kill(os.getpid(), signal.SIGKILL)
                model(torch.full((2, 3), rank + 1.0)).sum().backward()
                assert model.module.weight.grad[0, 0].item() == 3 * (step + 1), model.module.weight.grad
            open(f"rank {rank} ended in attempt {attempt}", "w").close()
            dist.destroy_process_group()
        """, PYTHON, "-W", "ignore", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=1",
            python="--no-python", options=(PYTHON,))
        self.assertEqual({each.name for each in self.scratch.glob("rank *")},
                         {"rank 0 ended in attempt 1", "rank 1 ended in attempt 1"})

    def test_importing_torch_makes_the_backend_known_and_loads_nothing_else(self):
        out = self.run_program("""
            import sys, torch
            assert "anello" in torch.distributed.Backend.backend_list
            print(sorted(name for name in sys.modules if name.split(".")[0] == "anello"))
            assert torch.distributed.Backend.default_device_backend_map["cpu"] == "gloo"
        """)
        self.assertIn("['anello', 'anello.errors', 'anello.torch', 'anello.torch.register']", out)

    def test_importing_torch_costs_less_than_half_a_percent_more(self):
        costs = []
        # Of the processor, whose speed shows in both: others may have it meanwhile.
        for _ in range(5):
            out = self.run_program("""
                import importlib.metadata, time
                begin = time.thread_time()
                import torch
                torch_s = time.thread_time() - begin
                entry, = importlib.metadata.entry_points(group="torch.backends", name="anello")
                begin = time.thread_time()
                entry.load()()
                print("share", (time.thread_time() - begin) / torch_s)
            """, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
            costs.append(float(out.split()[-1]))
        self.assertLess(min(costs), 0.005)

    def test_importing_anello_does_not_import_torch(self):
        out = self.run_program("""
            import sys, anello
            anello.Communicator, anello.AnelloError, anello.version()
            print([name for name in sys.modules if name.split(".")[0] == "torch"])
        """)
        self.assertIn("[]", out)

    def test_importing_torch_works_without_the_library_and_making_a_group_says_what_is_missing(self):
        out = self.run_program("""
            import torch, torch.distributed as dist
            try:
                dist.init_process_group("anello", store=dist.HashStore(), rank=0, world_size=1)
            except RuntimeError as error:
                print("said:", error)
        """, ANELLO_LIBRARY="/nowhere/libanello.so.0")
        self.assertIn("ANELLO_LIBRARY", out)

    def test_importing_torch_works_where_registering_fails(self):
        out = self.run_program("""
            import builtins, warnings
            ordinary = builtins.__import__

            def fails(name, *more):  # in the middle of register(), which imports this by that name
                if name == "torch.distributed" and more[0] and more[0].get("__name__") == "anello.torch.register":
                    raise ValueError("nothing works today")
                return ordinary(name, *more)

            builtins.__import__ = fails
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                import torch
            assert any("nothing works today" in str(each.message) for each in caught), caught
            print(torch.ones(2).sum().item())
        """)
        self.assertIn("2.0", out)

    def wheel(self):
        asked = subprocess.run([PYTHON, "-c", "import setuptools; print(setuptools.__version__)"], capture_output=True, text=True,
                               timeout=DEADLINE, check=False)
        if asked.returncode != 0 or [int(part) for part in asked.stdout.split(".")[:2]] < [70, 1]:
            self.skipTest("the Python with torch has no setuptools of version 70.1 or later")
        source = self.scratch / "source"
        shutil.copytree(REPOSITORY / "python", source, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
        subprocess.run([PYTHON, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-index", "--wheel-dir",
                        self.scratch, source], env=self.around, timeout=DEADLINE, check=True, capture_output=True)
        wheel, = self.scratch.glob("*.whl")
        self.assertRegex(wheel.name, r"^anello-[0-9.]+-py3-none-linux_x86_64\.whl$")
        return wheel

    def test_the_wheel_installed_into_a_fresh_venv_has_the_library_inside(self):
        wheel, fresh = self.wheel(), self.scratch / "fresh"
        subprocess.run([PYTHON, "-m", "venv", fresh], timeout=DEADLINE, check=True, capture_output=True)
        python = str(fresh / "bin" / "python")
        where = "import sysconfig; print(sysconfig.get_path('purelib'))"
        theirs, ours = (subprocess.run([each, "-c", where], timeout=DEADLINE, check=True, capture_output=True, text=True).stdout.strip()
                        for each in (PYTHON, python))
        subprocess.run([python, "-m", "pip", "install", "--no-deps", "--no-index", wheel], timeout=DEADLINE, check=True,
                       capture_output=True, env={**os.environ, "PYTHONPATH": ""})
        pathlib.Path(ours, "torch.pth").write_text(theirs + "\n")  # not installed again, which takes minutes and a network
        out = self.run_program("""
            import sys, torch, torch.distributed as dist
            import anello
            dist.init_process_group("anello")
            tensor = torch.ones(1)
            dist.all_reduce(tensor)
            assert tensor.item() == 2
            if dist.get_rank() == 0:
                print(anello.__file__, [line.split()[-1] for line in open("/proc/self/maps") if "libanello" in line][0])
            dist.destroy_process_group()
        """, str(ANELLORUN), "-np", "2", python=python, PYTHONPATH="", ANELLO_LIBRARY="")
        self.assertEqual(out.split()[-2:], [ours + "/anello/__init__.py", ours + "/anello/libanello.so.0"])

    def test_neither_collectives_nor_our_ddp_load_dynamo(self):
        out = self.run_program("""
            import sys, torch, torch.distributed as dist
            import anello.torch
            dist.init_process_group("anello", store=dist.HashStore(), rank=0, world_size=1)
            model = anello.torch.DistributedDataParallel(torch.nn.Linear(3, 1))  # torch's own does load it, over gloo, too
            model(torch.ones(1, 3)).sum().backward()
            dist.all_reduce(torch.ones(1))
            dist.all_reduce(torch.ones(1), async_op=True).get_future().wait()
            print("torch._dynamo" in sys.modules)
        """)
        self.assertIn("False", out)

    def test_pytorchs_variable_keeps_the_buckets_of_ddp_ordinary(self):
        for value, module in (("1", "torch._C._distributed_c10d"), ("0", "anello.torch.buckets"), ("", "anello.torch.buckets")):
            out = self.run_program("""
                import torch, torch.distributed as dist
                dist.init_process_group("anello", store=dist.HashStore(), rank=0, world_size=1)
                print(dist.Reducer.__module__)
            """, DDP_DISABLE_COMM_MEM=value)
            self.assertEqual(out.strip(), module)

    def test_a_group_of_one(self):
        self.run_program("""
            import torch, torch.distributed as dist
            dist.init_process_group("anello", store=dist.HashStore(), rank=0, world_size=1)
            tensor = torch.ones(3)
            dist.all_reduce(tensor)
            outputs = [torch.zeros(3)]
            dist.all_gather(outputs, tensor)
            dist.barrier()
            dist.monitored_barrier()
            assert outputs[0].tolist() == tensor.tolist() == [1, 1, 1]
            dist.destroy_process_group()
        """)


if __name__ == "__main__":
    sys.argv[1:4] = []
    unittest.main(verbosity=2)
