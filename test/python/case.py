"""What cases that run as ranks share."""

import os
import pathlib
import sys
import unittest
from datetime import timedelta

import torch
import torch.distributed as dist

TIMEOUT = timedelta(seconds=20)
SCRATCH = pathlib.Path(os.environ.get("TEST_SCRATCH", "."))

try:
    import numpy  # noqa: F401
    HAS_NUMPY = True
except ImportError:
    HAS_NUMPY = False
needs_numpy = unittest.skipUnless(HAS_NUMPY, "PyTorch needs numpy for this, which this Python lacks")


_times_left = 0


def leave():
    """Destroys the groups and waits until all have. A rank that is early could meet the others' old TCPStore, which is about to
    go; that is so with every backend."""
    global _times_left
    dist.destroy_process_group()
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    _times_left += 1
    store = dist.FileStore(f"{SCRATCH}/left{_times_left}", size)
    store.set(f"rank{rank}", "")
    store.wait([f"rank{other}" for other in range(size)], TIMEOUT)


class Ranks(unittest.TestCase):
    """The default group, made anew for each class."""

    @classmethod
    def setUpClass(cls):
        dist.init_process_group("anello", timeout=TIMEOUT)
        cls.rank, cls.size = dist.get_rank(), dist.get_world_size()

    @classmethod
    def tearDownClass(cls):
        leave()

    def setUp(self):
        torch.manual_seed(7)

    def same(self, actual, expected):
        torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)

    def close(self, actual, expected):
        torch.testing.assert_close(actual, expected)


def input_of(rank, shape, dtype):
    """What a rank contributes: another number in each element, small enough to be added exactly in any type."""
    count = torch.Size(shape).numel()
    values = (torch.arange(count) * 3 + rank * 5 + 1) % 7
    if dtype is torch.bool:
        return (values % 2 == 0).reshape(shape)
    if dtype.is_complex:
        return torch.complex(values.double(), (values + rank).double()).to(dtype).reshape(shape)
    return values.to(torch.float64).to(dtype).reshape(shape)


def main(modules=()):
    """Each rank's output goes to a file of its own, which run_ranks puts together. Without modules, the program's cases."""
    rank = os.environ["RANK"]
    with open(SCRATCH / f"rank{rank}.log", "w", encoding="utf-8") as log:
        runner = unittest.TextTestRunner(stream=log, verbosity=2)
        argv = [sys.argv[0], *modules] if modules else None
        program = unittest.main(module=None if modules else "__main__", argv=argv, testRunner=runner, exit=False)
    sys.exit(0 if program.result.wasSuccessful() else 1)
