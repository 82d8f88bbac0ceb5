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

    def test_names_that_are_none(self):
        with mock.patch.dict(os.environ, ANELLO_TORCH_AS="gloo, mpi"):
            with self.assertRaisesRegex(ValueError, "ANELLO_TORCH_AS has 'mpi'; it may have gloo and nccl"):
                stand_in.names()


if __name__ == "__main__":
    main()
