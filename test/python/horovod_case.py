"""What cases of the Horovod interface that run as ranks share."""

import os
import unittest

import torch

import anello.horovod.torch as hvd


class Ranks(unittest.TestCase):
    """After init, until the class ends."""

    environment = {}  # HOROVOD_* variables of this class
    process_sets = None

    @classmethod
    def setUpClass(cls):
        os.environ.update(cls.environment)
        hvd.init(process_sets=cls.process_sets)
        cls.rank, cls.size = hvd.rank(), hvd.size()

    @classmethod
    def tearDownClass(cls):
        hvd.barrier()
        hvd.shutdown()
        for name in cls.environment:
            del os.environ[name]

    def setUp(self):
        torch.manual_seed(7)

    def same(self, actual, expected):
        torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)

    def close(self, actual, expected, tolerance=1e-5):
        torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)

    def everywhere(self, tensor):
        """The tensors of all ranks."""
        return hvd.allgather(tensor.detach().reshape(1, *tensor.shape))

    def equal_everywhere(self, tensor):
        for each in self.everywhere(tensor):
            self.same(each, tensor.detach())


def of(rank, shape, dtype=torch.float32):
    """What a rank contributes: small whole numbers, which add exactly."""
    count = torch.Size(shape).numel()
    return ((torch.arange(count) * 3 + rank * 5 + 1) % 7).to(dtype).reshape(shape)
