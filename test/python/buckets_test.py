"""Where the buckets of torch's DistributedDataParallel lie, and for how long."""

import gc
import os
import resource
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

from case import Ranks, main

WIDTH = 200
SMALLEST = 16 << 10


def mappings():
    """(begin, end) of each piece of Anello's memory in this process."""
    with open("/proc/self/maps", encoding="utf-8") as lines:
        fields = [line.split() for line in lines if "/memfd:anello" in line]
    return [tuple(int(number, 16) for number in each[0].split("-")) for each in fields]


def is_mapped(tensor):
    first = tensor.data_ptr()
    return any(begin <= first and first + tensor.numel() * tensor.itemsize <= end for begin, end in mappings())


def own_memory():
    """Bytes of memory that this rank has made for others to map and not yet freed."""
    gc.collect()  # DDP is part of a cycle
    pools = {}
    for each in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{each}").startswith("/memfd:anello-regions "):
                about = os.fstat(int(each))
                pools[about.st_ino] = about.st_blocks * 512
        except OSError:  # listdir's own
            pass
    return sum(pools.values())


def settled_memory():
    """The same once the threads that complete calls have let go of theirs."""
    before, since = own_memory(), time.monotonic()
    while time.monotonic() - since < 0.3:
        time.sleep(0.02)
        if (now := own_memory()) != before:
            before, since = now, time.monotonic()
    return before


class Places(Ranks):
    def network(self, dtype=torch.float32):
        torch.manual_seed(3)
        return nn.Sequential(*[nn.Linear(WIDTH, WIDTH) for _ in range(4)]).to(dtype)

    def wrap(self, group=None, **options):
        """A model with several buckets once they are rebuilt, and a list to which each step adds where they were."""
        places = []

        def note(state, bucket):
            if bucket.buffer().nbytes >= SMALLEST:
                places.append(is_mapped(bucket.buffer()))
            return default_hooks.allreduce_hook(group, bucket)

        model = DistributedDataParallel(self.network(options.pop("dtype", torch.float32)), process_group=group, bucket_cap_mb=0.2,
                                        **options)
        model.register_comm_hook(None, note)
        return model, places

    def step(self, model):
        parameter = next(model.parameters())
        model.zero_grad()
        model(torch.full((2, WIDTH), 1.0 + self.rank, dtype=parameter.dtype)).sum().backward()

    def check(self, model):
        """The mean of the ranks' gradients, against that of one process with all inputs."""
        reference = self.network(next(model.parameters()).dtype)
        for rank in range(self.size):
            inputs = torch.full((2, WIDTH), 1.0 + rank, dtype=next(reference.parameters()).dtype)
            (reference(inputs).sum() / self.size).backward()
        for one, other in zip(model.module.parameters(), reference.parameters()):
            torch.testing.assert_close(one.grad, other.grad, rtol=2e-2 if one.dtype is torch.bfloat16 else 1e-4, atol=1e-3)

    def test_first_and_rebuilt_buckets_lie_in_memory_that_ranks_map(self):
        for options in ({}, {"gradient_as_bucket_view": True}, {"find_unused_parameters": True}, {"static_graph": True},
                        {"dtype": torch.bfloat16}, {"dtype": torch.float64}):
            with self.subTest(options):
                model, places = self.wrap(**options)
                for step in range(3):
                    places.clear()
                    self.step(model)
                    self.assertTrue(places and all(places), f"step {step}: {places}")
                    self.check(model)
                self.assertGreater(len(places), 1)

    def test_the_modules_of_other_backends_groups_have_ordinary_buckets(self):
        group = dist.new_group(backend="gloo")
        model, places = self.wrap(group)
        for _ in range(3):
            self.step(model)
        self.assertTrue(places and not any(places), places)
        self.check(model)
        dist.destroy_process_group(group)

    def test_buckets_give_their_memory_back(self):
        self.step(self.wrap()[0])  # the group makes memory of its own
        before = settled_memory()
        for options in ({}, {"gradient_as_bucket_view": True}):
            model, places = self.wrap(**options)
            for _ in range(3):
                self.step(model)
            self.assertGreater(len(places), 3)
            self.assertGreater(settled_memory(), before)
            del model
            self.assertEqual(settled_memory(), before)

    def test_gradients_outlive_the_module_and_the_group(self):
        before = settled_memory()
        group = dist.new_group()
        model, _ = self.wrap(group, gradient_as_bucket_view=True)
        for _ in range(3):
            self.step(model)
        kept = model.module[0].weight.grad
        expected = kept.clone()
        del model
        dist.destroy_process_group(group)
        self.assertTrue(is_mapped(kept))
        self.same(kept, expected)
        child = os.fork()
        if child == 0:
            fine = torch.equal(kept, expected)
            del kept  # is not the child's to free
            os._exit(0 if fine else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.same(kept, expected)
        self.assertGreater(settled_memory(), before)
        del kept
        self.assertEqual(settled_memory(), before)

    def test_where_one_rank_has_no_such_memory_its_buckets_are_ordinary(self):
        warm, _ = self.wrap()  # imports what DDP imports
        self.step(warm)
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        if self.rank == 0:
            resource.setrlimit(resource.RLIMIT_FSIZE, (SMALLEST, limits[1]))
        try:
            model = DistributedDataParallel(self.network())
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        places = []
        model.register_comm_hook(None, lambda _, bucket: places.append(is_mapped(bucket.buffer())) or
                                 default_hooks.allreduce_hook(None, bucket))
        self.step(model)
        self.assertEqual(places, [self.rank != 0])
        self.check(model)

    def test_small_buckets_are_ordinary(self):
        before = settled_memory()
        model = DistributedDataParallel(nn.Linear(10, 10))
        model(torch.ones(1, 10)).sum().backward()
        self.assertEqual(settled_memory(), before)


if __name__ == "__main__":
    main()
