"""What PyTorch builds on a group beside DDP: optimizers, shards, DTensor, checkpoints, compilation, profiles."""

import copy
import shutil
import time

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from case import SCRATCH, TIMEOUT, Ranks, input_of, main, needs_numpy


def net():
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 4))


class Whole(Ranks):
    def batch(self, step, rank):
        torch.manual_seed(step * 10 + rank)
        return torch.randn(4, 8)

    def reference(self, steps=3, make=lambda parameters: torch.optim.Adam(parameters, lr=0.01)):
        model = net()
        optimizer = make(model.parameters())
        for step in range(steps):
            optimizer.zero_grad()
            (sum(model(self.batch(step, rank)).square().mean() for rank in range(self.size)) / self.size).backward()
            optimizer.step()
        return model

    def train(self, model, optimizer, steps=3):
        for step in range(steps):
            optimizer.zero_grad()
            model(self.batch(step, self.rank)).square().mean().backward()
            optimizer.step()
        return model


class Shards(Whole):
    @needs_numpy
    def test_zero_redundancy_optimizer(self):
        from torch.distributed.optim import ZeroRedundancyOptimizer

        for together in (False, True):
            model = DistributedDataParallel(net())
            optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01,
                                                parameters_as_bucket_view=together)
            self.train(model, optimizer)
            for one, other in zip(model.module.parameters(), self.reference().parameters()):
                self.close(one, other)
            optimizer.consolidate_state_dict(0)
            if self.rank == 0:
                self.assertEqual(len(optimizer.state_dict()["state"]), 6)

    def test_fully_shard(self):
        from torch.distributed.fsdp import fully_shard

        model = net()
        for layer in model:
            if isinstance(layer, nn.Linear):
                fully_shard(layer)
        fully_shard(model)
        self.train(model, torch.optim.Adam(model.parameters(), lr=0.01))
        for one, other in zip(model.parameters(), self.reference().parameters()):
            self.close(one.full_tensor(), other)

    def test_fsdp_of_the_first_kind(self):
        from torch.distributed.fsdp import FullyShardedDataParallel

        model = FullyShardedDataParallel(net(), device_id=torch.device("cpu"))
        self.train(model, torch.optim.Adam(model.parameters(), lr=0.01))
        with FullyShardedDataParallel.summon_full_params(model):
            for one, other in zip(model.parameters(), self.reference().parameters(), strict=True):
                self.close(one.detach(), other.detach())

    def test_dtensor_and_tensor_parallel(self):
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

        mesh = init_device_mesh("cpu", (self.size,))
        whole = input_of(0, (4 * self.size, 6), torch.float32)
        sharded = distribute_tensor(whole, mesh, [Shard(0)])
        self.same(sharded.to_local(), whole.chunk(self.size)[self.rank])
        self.same(sharded.full_tensor(), whole)
        self.close((sharded @ distribute_tensor(torch.ones(6, 2), mesh, [Replicate()])).full_tensor(), whole @ torch.ones(6, 2))
        self.close(sharded.redistribute(mesh, [Shard(1)]).full_tensor(), whole)
        self.close(sharded.sum().full_tensor(), whole.sum())
        self.assertIsInstance(sharded, DTensor)
        model, expected = net(), net()
        parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
        x = torch.ones(3, 8)
        self.close(model(x), expected(x))
        model(x).sum().backward()
        expected(x).sum().backward()
        self.close(model[0].weight.grad.full_tensor(), expected[0].weight.grad)

    def test_a_mesh_of_two_dimensions(self):
        from torch.distributed.device_mesh import init_device_mesh

        mesh = init_device_mesh("cpu", (1, self.size), mesh_dim_names=("replicate", "shard"))
        tensor = torch.ones(2)
        dist.all_reduce(tensor, group=mesh.get_group("shard"))
        dist.all_reduce(tensor, group=mesh.get_group("replicate"))
        self.same(tensor, torch.full((2,), float(self.size)))

    def test_functional_collectives(self):
        group = dist.group.WORLD
        mine = input_of(self.rank, (self.size * 2, 3), torch.float32)
        everybodys = [input_of(rank, (self.size * 2, 3), torch.float32) for rank in range(self.size)]
        self.same(functional.all_reduce(mine, "sum", group) + 0, sum(everybodys))
        self.same(functional.all_reduce(mine, "avg", group) + 0, sum(everybodys) / self.size)
        self.same(functional.all_gather_tensor(mine, 0, group) + 0, torch.cat(everybodys))
        self.same(functional.reduce_scatter_tensor(mine, "sum", 0, group) + 0, sum(everybodys).chunk(self.size)[self.rank])
        splits = [2] * self.size
        self.same(functional.all_to_all_single(mine, splits, splits, group) + 0,
                  torch.cat([each.chunk(self.size)[self.rank] for each in everybodys]))
        self.same(functional.broadcast(mine, 0, group) + 0, everybodys[0])
        self.same(functional.all_reduce_coalesced([mine, mine + 1], "sum", group)[1] + 0, sum(everybodys) + self.size)
        self.same(functional.all_gather_into_tensor_coalesced([mine], group)[0] + 0, torch.cat(everybodys))
        self.same(functional.reduce_scatter_tensor_coalesced([mine], "sum", [0], group)[0] + 0,
                  sum(everybodys).chunk(self.size)[self.rank])

    def test_post_local_sgd(self):
        from torch.distributed.algorithms.model_averaging import averagers

        model = net()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(float(self.rank))
                parameter.grad = torch.zeros_like(parameter)  # without one it is left as it is
        averagers.PeriodicModelAverager(period=1, warmup_steps=0).average_parameters(model.parameters())
        for one, other in zip(model.parameters(), net().parameters()):
            self.close(one, other + sum(range(self.size)) / self.size)


@needs_numpy
class Checkpoints(Whole):
    def folder(self, name):
        folder = SCRATCH / name
        if self.rank == 0:
            shutil.rmtree(folder, ignore_errors=True)
        dist.barrier()
        return folder

    def test_save_and_load_of_shards(self):
        import torch.distributed.checkpoint as checkpoint
        from torch.distributed.fsdp import fully_shard

        model = fully_shard(net())
        self.train(model, torch.optim.Adam(model.parameters(), lr=0.01))
        folder = self.folder("checkpoint")
        checkpoint.save({"model": model.state_dict()}, checkpoint_id=folder)
        fresh = fully_shard(net())
        state = {"model": fresh.state_dict()}
        checkpoint.load(state, checkpoint_id=folder)
        fresh.load_state_dict(state["model"])
        for one, other in zip(fresh.parameters(), model.parameters()):
            self.same(one.full_tensor(), other.full_tensor())

    def test_async_save_while_the_main_thread_trains(self):
        import torch.distributed.checkpoint as checkpoint

        # PyTorch does not order the saving thread's collectives and ours alike on all ranks, so each has its group.
        saving = dist.new_group()
        model = DistributedDataParallel(net())
        before = copy.deepcopy(model.module.state_dict())
        folder = self.folder("async")
        saved = checkpoint.async_save({"model": model.module.state_dict()}, checkpoint_id=folder, process_group=saving)
        self.train(model, torch.optim.SGD(model.parameters(), lr=0.1), steps=5)
        saved.result(timeout=60)
        state = {"model": net().state_dict()}
        checkpoint.load(state, checkpoint_id=folder)
        for name, value in before.items():
            self.same(state["model"][name], value)

    def test_async_save_over_the_default_group(self):
        import torch.distributed.checkpoint as checkpoint

        folder = self.folder("default")
        checkpoint.async_save({"model": net().state_dict()}, checkpoint_id=folder).result(timeout=60)
        dist.barrier()


class Profile(Ranks):
    def test_names_and_sizes_of_operations(self):
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiled:
            dist.all_reduce(torch.ones(12, 5))
            dist.broadcast(torch.ones(7), 0)
            dist.barrier()
            model = DistributedDataParallel(nn.Linear(3, 2))
            model(torch.ones(1, 3)).sum().backward()
        events = {}
        for event in profiled.events():
            events.setdefault(event.name, []).append(event.input_shapes)
        self.assertIn([[12, 5]], events["anello:all_reduce"])
        self.assertIn([[8]], events["anello:all_reduce"])  # DDP's bucket
        self.assertIn([[7]], events["anello:broadcast"])
        self.assertIn("anello:barrier", events)

    def test_an_operation_is_shown_until_it_is_complete_and_as_asynchronous(self):
        from torch.profiler import ProfilerActivity, profile

        late = 0.3
        store = dist.FileStore(f"{SCRATCH}/called", self.size)
        with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiled:
            dist.barrier()
            tensor = torch.ones(5)
            if self.rank == 0:
                store.wait([f"called{other}" for other in range(1, self.size)], TIMEOUT)
                time.sleep(late)  # what the others' event has to show
            work = dist.all_reduce(tensor, async_op=True)
            store.set(f"called{self.rank}", "")
            work.wait()
            whole = torch.empty(self.size * 3)
            dist.all_gather_into_tensor(whole, torch.ones(3))
            with self.assertRaises(ValueError):
                dist.all_gather_into_tensor(whole, torch.ones(4))
        events = {event.name: event for event in profiled.events() if event.name.startswith("anello:")}
        self.assertEqual(set(events), {"anello:barrier", "anello:all_reduce", "anello:all_gather_single"})
        self.assertTrue(all(event.is_async for event in events.values()))
        self.assertEqual(events["anello:all_gather_single"].input_shapes, [[4]])  # the last one, which was refused
        if self.rank != 0:
            self.assertGreater(events["anello:all_reduce"].time_range.elapsed_us(), late * 0.99e6)


class Compiled(Whole):
    def test_a_compiled_ddp_module_trains(self):
        for backend in ("eager", "aot_eager"):
            torch._dynamo.reset()
            model = DistributedDataParallel(net())
            self.train(torch.compile(model, backend=backend), torch.optim.Adam(model.parameters(), lr=0.01))
            for one, other in zip(model.module.parameters(), self.reference().parameters()):
                self.close(one, other)

    def test_compiled_collectives(self):
        @torch.compile(backend="aot_eager")
        def compute(x):
            y = x * 2
            dist.all_reduce(y)
            return y + functional.all_reduce(x, "sum", dist.group.WORLD)

        self.same(compute(torch.ones(3)), torch.full((3,), 3.0 * self.size))


if __name__ == "__main__":
    main()
