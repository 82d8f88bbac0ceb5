"""Horovod's operations on tensors of a CUDA device, over the fake driver."""

import time

import fake_cuda
import torch

import anello.horovod.torch as hvd
from anello.horovod.torch import staging
from case import main
from horovod_case import Ranks, of

N = 1000


def setUpModule():
    fake_cuda.install(staging)
    # PyTorch's own need a device.
    staging.on_host = fake_cuda.pinned
    staging._moved = lambda result, _: ((fake_cuda.on_device(result[0]), *result[1:]) if isinstance(result, tuple)
                                        else fake_cuda.on_device(result))


class Devices(Ranks):
    def mine(self, shape=(N,), dtype=torch.float32):
        return fake_cuda.on_device(of(self.rank, shape, dtype))

    def inputs(self, shape=(N,), dtype=torch.float32):
        return [of(rank, shape, dtype) for rank in range(self.size)]

    def is_there(self, tensor, expected):
        self.assertTrue(tensor.is_cuda)
        self.same(tensor.as_subclass(torch.Tensor), expected)

    def test_allreduce(self):
        for dtype in (torch.float32, torch.float16, torch.int64):
            x = self.mine(dtype=dtype)
            self.is_there(hvd.allreduce(x, op=hvd.Sum), sum(self.inputs(dtype=dtype)))
            self.is_there(x, of(self.rank, (N,), dtype))
            self.assertIs(hvd.allreduce_(x, op=hvd.Sum), x)
            self.is_there(x, sum(self.inputs(dtype=dtype)))

    def test_allreduce_in_place_of_every_other_element(self):
        whole = fake_cuda.on_device(torch.full((2 * N,), -1.0))
        whole[::2].copy_(of(self.rank, (N,)))
        hvd.allreduce_(whole[::2], op=hvd.Max)
        self.is_there(whole[::2], torch.stack(self.inputs()).amax(0))
        self.is_there(whole[1::2], torch.full((N,), -1.0))

    def test_a_group_and_tensors_that_travel_together(self):
        tensors = [self.mine((count,)) for count in (1, 17, 4000)]
        for result, count in zip(hvd.grouped_allreduce(tensors, op=hvd.Sum), (1, 17, 4000)):
            self.is_there(result, sum(self.inputs((count,))))
        handles = [hvd.allreduce_async_(tensor, op=hvd.Sum, name=f"together.{i}") for i, tensor in enumerate(tensors)]
        for handle, tensor in zip(handles, tensors):
            self.assertIs(hvd.synchronize(handle), tensor)
            self.is_there(tensor, sum(self.inputs(tuple(tensor.shape))))

    def test_others(self):
        self.is_there(hvd.allgather(self.mine((2, 3))), torch.cat(self.inputs((2, 3))))
        self.is_there(hvd.broadcast(self.mine(), self.size - 1), self.inputs()[-1])
        x = self.mine()
        hvd.broadcast_(x, 0)
        self.is_there(x, self.inputs()[0])
        self.is_there(hvd.reducescatter(self.mine((self.size, N)), op=hvd.Sum), sum(self.inputs((self.size, N)))[self.rank:][:1])
        rows, splits = hvd.alltoall(self.mine((self.size, N)), splits=[1] * self.size)
        self.is_there(rows, torch.stack([each[self.rank] for each in self.inputs((self.size, N))]))
        self.assertEqual(splits.tolist(), [1] * self.size)

    def test_ranks_may_differ_in_where_a_tensor_lies(self):
        x = self.mine() if self.rank == 0 else of(self.rank, (N,))
        self.same(hvd.allreduce(x, op=hvd.Sum).as_subclass(torch.Tensor), sum(self.inputs()))

    def test_an_operation_waits_for_the_kernels_before_it(self):
        x = fake_cuda.empty(1 << 20, dtype=torch.uint8)
        fake_cuda.hold(True)
        try:
            for byte in [9] * 100 + [3]:
                fake_cuda.current_stream().fill(x, byte)
            handle = hvd.allreduce_async(x, op=hvd.Sum)
            time.sleep(0.05)  # the engine has heard of it on all ranks
            self.assertFalse(hvd.poll(handle))
        finally:
            fake_cuda.hold(False)
        self.is_there(hvd.synchronize(handle), torch.full((1 << 20,), 3 * self.size, dtype=torch.uint8))

    def test_a_group_on_host_and_device_is_refused(self):
        with self.assertRaisesRegex(ValueError, "tensors of the CPU and of cuda:0 in one call"):
            hvd.grouped_allreduce([self.mine(), torch.ones(3)])


if __name__ == "__main__":
    main()
