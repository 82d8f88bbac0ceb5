"""ANELLO_TORCH_AS=gloo: programs that ask for gloo get Anello's group, which answers as gloo."""

import os
import unittest
from unittest import mock

import torch
import torch.distributed as dist

from anello.torch import stand_in
from case import TIMEOUT, leave, main


class StandIn(unittest.TestCase):
    def groups(self, asked, told="gloo"):
        dist.init_process_group(asked, timeout=TIMEOUT)
        group = dist.group.WORLD
        self.assertEqual(type(group).__module__, "anello.torch.process_group")
        self.assertEqual(dist.get_backend(), told)
        self.assertTrue(dist.is_gloo_available())
        part = dist.new_group([0], backend="gloo")
        if dist.get_rank() == 0:
            self.assertEqual(type(part).__module__, "anello.torch.process_group")
            self.assertEqual(dist.get_backend(part), "gloo")
        x = torch.ones(3)
        dist.all_reduce(x)
        self.assertEqual(x.tolist(), [dist.get_world_size()] * 3)
        leave()

    def test_asked_for_gloo(self):
        self.groups("gloo")

    def test_asked_for_gloo_by_device(self):
        self.groups("cpu:gloo", "cpu:gloo")

    def test_asked_for_none(self):
        self.groups(None, "undefined")  # as PyTorch itself says

    def test_a_mesh_of_devices(self):
        from torch.distributed.device_mesh import init_device_mesh

        mesh = init_device_mesh("cpu", (int(os.environ["WORLD_SIZE"]),))
        self.assertEqual(type(mesh.get_group()).__module__, "anello.torch.process_group")
        leave()

    def test_what_servers_of_models_do_on_the_cpu(self):
        """vLLM and SGLang make a group for the CPU beside that of the devices, and plan and schedule over it."""
        dist.init_process_group("gloo", timeout=TIMEOUT)
        rank, size = dist.get_rank(), dist.get_world_size()
        group = dist.new_group(list(range(size)), backend="gloo", timeout=TIMEOUT, group_desc="tp:0:cpu")
        self.assertEqual(type(group).__module__, "anello.torch.process_group")
        self.assertEqual(dist.get_process_group_ranks(group), list(range(size)))
        batch = [{"requests": ["a", "b"], "step": 7}] if rank == 0 else [None]
        dist.broadcast_object_list(batch, src=0, group=group)
        self.assertEqual(batch[0]["step"], 7)
        # An object as bytes: its length first.
        length = torch.tensor([5 if rank == 0 else 0], dtype=torch.long)
        dist.broadcast(length, src=0, group=group)
        data = torch.arange(5, dtype=torch.uint8) if rank == 0 else torch.empty(int(length), dtype=torch.uint8)
        dist.broadcast(data, src=0, group=group)
        self.assertEqual(data.tolist(), [0, 1, 2, 3, 4])
        free_blocks = [None] * size
        dist.all_gather_object(free_blocks, 100 + rank, group=group)
        self.assertEqual(free_blocks, [100 + each for each in range(size)])
        # Whether any rank has work left.
        work = torch.tensor([rank], dtype=torch.int32)
        dist.all_reduce(work, op=dist.ReduceOp.MAX, group=group)
        self.assertEqual(work.item(), size - 1)
        # Tensors of a stage go to the next one.
        if rank == 0:
            dist.send(torch.full((4,), 2.5), dst=1, group=group)
        elif rank == 1:
            part = torch.empty(4)
            dist.recv(part, src=0, group=group)
            self.assertEqual(part.tolist(), [2.5] * 4)
        dist.barrier(group=group)
        leave()

    def test_names_that_are_none(self):
        with mock.patch.dict(os.environ, ANELLO_TORCH_AS="gloo, mpi"):
            with self.assertRaisesRegex(ValueError, "ANELLO_TORCH_AS has 'mpi'; it may have gloo and nccl"):
                stand_in.names()


if __name__ == "__main__":
    main()
