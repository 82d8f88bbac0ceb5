"""TORCH_DISTRIBUTED_DEBUG=DETAIL: collectives that differ are an error on all ranks before any of them is called."""

import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

from case import Ranks, main


class Detail(Ranks):
    def differ(self, first, others, *texts):
        """What rank 0 and the others call; the group goes on."""
        with self.assertRaisesRegex(RuntimeError, "Detected mismatch between collectives") as caught:
            (first if self.rank == 0 else others)()
        for text in texts:
            self.assertIn(text, str(caught.exception))
        tensor = torch.ones(2)
        dist.all_reduce(tensor)
        self.same(tensor, torch.full((2,), float(self.size)))

    def test_what_the_library_would_not_have_seen(self):
        self.differ(lambda: dist.all_reduce(torch.ones(2, 3)), lambda: dist.all_reduce(torch.ones(3, 2)),
                    "Rank 0 is running collective: all_reduce([2, 3] torch.float32, SUM)",
                    "Rank 1 is running collective: all_reduce([3, 2] torch.float32, SUM)")
        self.differ(lambda: dist.broadcast(torch.ones(2), 0), lambda: dist.broadcast(torch.ones(2), 1), "root 0", "root 1")
        self.differ(lambda: dist.broadcast(torch.ones(2), 0), lambda: dist.all_reduce(torch.ones(2)), "broadcast(", "all_reduce(")

    def test_what_it_would_have_seen(self):
        self.differ(lambda: dist.all_reduce(torch.ones(2)), lambda: dist.all_reduce(torch.ones(2), ReduceOp.MAX), "SUM", "MAX")
        self.differ(lambda: dist.all_reduce(torch.ones(2)), lambda: dist.all_reduce(torch.ones(2).long()), "float32", "int64")
        self.differ(lambda: dist.all_reduce(torch.ones(2), async_op=True), lambda: dist.barrier(), "barrier()")

    def test_parts_may_differ(self):
        sizes = [rank + 1 for rank in range(self.size)]
        parts = [torch.zeros(size) for size in sizes]
        dist.all_gather(parts, torch.ones(sizes[self.rank]))
        dist.gather(torch.ones(1), [torch.zeros(1) for _ in sizes] if self.rank == 0 else None, 0)
        dist.scatter(torch.zeros(1), [torch.ones(1) for _ in sizes] if self.rank == 0 else None, 0)
        sends = [self.rank + receiver for receiver in range(self.size)]
        dist.all_to_all_single(torch.zeros(sum(sends)), torch.ones(sum(sends)), sends, sends)
        for part in parts:
            self.same(part, torch.ones_like(part))

    def test_who_does_not_come_is_named(self):
        group = dist.new_group(timeout=timedelta(seconds=0.5))
        if self.rank == 0:
            begin = time.monotonic()
            with self.assertRaisesRegex(RuntimeError, "Rank 1 failed to pass monitoredBarrier"):
                dist.all_reduce(torch.ones(1), group=group)
            self.assertLess(time.monotonic() - begin, 10)
        dist.barrier()


if __name__ == "__main__":
    main()
