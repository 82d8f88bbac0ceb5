"""Tensors on a CUDA device: every collective and message runs in streams, in order with the caller's own work."""

import time

import fake_cuda
import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

from case import Ranks, input_of, main

N = 1000


class Streams(Ranks):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        fake_cuda.install()

    def mine(self, shape=(N,), dtype=torch.float32, rank=None):
        return fake_cuda.on_device(input_of(self.rank if rank is None else rank, shape, dtype))

    def inputs(self, shape=(N,), dtype=torch.float32):
        return [input_of(rank, shape, dtype) for rank in range(self.size)]

    def host(self, tensor):
        """Its elements, after the current stream."""
        fake_cuda.current_stream().synchronize()
        return tensor.as_subclass(torch.Tensor).clone()

    def end(self, work, blocking):
        if not blocking:
            self.assertTrue(work.wait())
            self.assertIsNone(work.exception())

    # ---- Each call

    def test_all_reduce(self):
        for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.complex64):
            total = sum(self.inputs(dtype=dtype))
            for blocking in (True, False):
                x = self.mine(dtype=dtype)
                self.end(dist.all_reduce(x, async_op=not blocking), blocking)
                self.same(self.host(x), total)

    def test_all_reduce_of_every_other_element(self):
        for blocking in (True, False):
            whole = fake_cuda.on_device(torch.full((2 * N,), -1.0))
            x = whole[::2]
            x.copy_(self.inputs()[self.rank])
            self.end(dist.all_reduce(x, async_op=not blocking), blocking)
            self.same(self.host(whole)[::2], sum(self.inputs()))
            self.same(self.host(whole)[1::2], torch.full((N,), -1.0))

    def test_all_reduce_with_a_factor(self):
        for blocking in (True, False):
            x = self.mine()
            self.end(dist.all_reduce(x, dist._make_nccl_premul_sum(0.5), async_op=not blocking), blocking)
            self.same(self.host(x), sum(self.inputs()) * 0.5)
        y = self.mine(dtype=torch.int64)
        with self.assertRaisesRegex(ValueError, "integers cannot be multiplied by 0.5"):
            dist.all_reduce(y, dist._make_nccl_premul_sum(0.5))

    def test_broadcast(self):
        for blocking in (True, False):
            x = self.mine()
            self.end(dist.broadcast(x, self.size - 1, async_op=not blocking), blocking)
            self.same(self.host(x), self.inputs()[-1])

    def test_reduce(self):
        for blocking in (True, False):
            x = self.mine()
            self.end(dist.reduce(x, 0, ReduceOp.MAX, async_op=not blocking), blocking)
            if self.rank == 0:
                self.same(self.host(x), torch.stack(self.inputs()).amax(0))
            else:
                self.same(self.host(x), self.inputs()[self.rank])

    def test_all_gather_and_its_list(self):
        for blocking in (True, False):
            whole = fake_cuda.empty(self.size * N)
            self.end(dist.all_gather_into_tensor(whole, self.mine(), async_op=not blocking), blocking)
            self.same(self.host(whole), torch.cat(self.inputs()))
            parts = [fake_cuda.empty(N) for _ in range(self.size)]
            self.end(dist.all_gather(parts, self.mine(), async_op=not blocking), blocking)
            for part, expected in zip(parts, self.inputs()):
                self.same(self.host(part), expected)

    def test_reduce_scatter_and_its_list(self):
        for op, factor in ((ReduceOp.SUM, 1), (dist._make_nccl_premul_sum(2.0), 2)):
            for blocking in (True, False):
                x = fake_cuda.empty(N)
                source = fake_cuda.on_device(torch.cat([input_of(self.rank + each, (N,), torch.float32) for each in range(self.size)]))
                expected = factor * sum(input_of(rank + self.rank, (N,), torch.float32) for rank in range(self.size))
                self.end(dist.reduce_scatter_tensor(x, source, op, async_op=not blocking), blocking)
                self.same(self.host(x), expected)
                y = fake_cuda.empty(N)
                parts = [fake_cuda.on_device(part) for part in self.host(source).split(N)]
                self.end(dist.reduce_scatter(y, parts, op, async_op=not blocking), blocking)
                self.same(self.host(y), expected)
                self.same(torch.cat([self.host(part) for part in parts]), self.host(source))

    def test_gather_and_scatter(self):
        for blocking in (True, False):
            parts = [fake_cuda.empty(N) for _ in range(self.size)] if self.rank == 0 else None
            self.end(dist.gather(self.mine(), parts, 0, async_op=not blocking), blocking)
            for part, expected in zip(parts or (), self.inputs()):
                self.same(self.host(part), expected)
            sources = [self.mine(rank=rank) for rank in range(self.size)] if self.rank == 0 else None
            x = fake_cuda.empty(N)
            self.end(dist.scatter(x, sources, 0, async_op=not blocking), blocking)
            self.same(self.host(x), self.inputs()[self.rank])

    def test_all_to_all(self):
        expected = torch.cat([part.view(self.size, N)[self.rank] for part in self.inputs((self.size * N,))])
        for blocking in (True, False):
            source, x = self.mine((self.size * N,)), fake_cuda.empty(self.size * N)
            self.end(dist.all_to_all_single(x, source, async_op=not blocking), blocking)
            self.same(self.host(x), expected)
            parts = [fake_cuda.empty(N) for _ in range(self.size)]
            self.end(dist.all_to_all(parts, [fake_cuda.on_device(part) for part in self.host(source).split(N)],
                                     async_op=not blocking), blocking)
            self.same(torch.cat([self.host(part) for part in parts]), expected)

    def test_messages(self):
        following, before = (self.rank + 1) % self.size, (self.rank - 1) % self.size
        # Each rank sends first, and a message of this size ends when it is received: neither may wait for the other.
        shape = (1 << 21,)
        large = fake_cuda.empty(*shape)
        works = dist.batch_isend_irecv([dist.P2POp(dist.isend, self.mine(shape), following),
                                        dist.P2POp(dist.irecv, large, before)])
        for work in works:
            work.wait()
        self.same(self.host(large), self.inputs(shape)[before])
        x = fake_cuda.empty(N)
        if self.rank == 0:
            dist.send(self.mine(), following, tag=4)
            self.assertEqual(dist.recv(x), before)  # from any rank
            self.same(self.host(x), self.inputs()[before])
        elif self.rank == 1:
            dist.recv(x, before, tag=4)
            self.same(self.host(x), self.inputs()[before])
        if self.rank == self.size - 1:
            dist.send(self.mine(), following)

    def test_coalesced(self):
        with dist._coalescing_manager(async_ops=True) as both:
            wholes = [fake_cuda.empty(self.size * N) for _ in range(2)]
            for whole in wholes:
                dist.all_gather_into_tensor(whole, self.mine())
        both.wait()
        for whole in wholes:
            self.same(self.host(whole), torch.cat(self.inputs()))

    # ---- Order

    def test_a_call_waits_for_the_work_before_it_and_work_behind_it_waits_for_the_call(self):
        fake_cuda.hold(True)
        try:
            for blocking in (True, False):
                x, copy = (fake_cuda.empty(1 << 20, dtype=torch.uint8) for _ in range(2))
                for byte in [9] * 100 + [3]:  # takes longer than a call that does not wait for it
                    fake_cuda.current_stream().fill(x, byte)
                work = dist.all_reduce(x, async_op=not blocking)
                if not blocking:
                    self.assertFalse(work.is_completed())
                    work.wait()
                fake_cuda.current_stream().copy(copy, x)
                fake_cuda.hold(False)
                self.same(self.host(copy), torch.full((1 << 20,), 3 * self.size, dtype=torch.uint8))
                fake_cuda.hold(True)
        finally:
            fake_cuda.hold(False)

    def test_an_asynchronous_call_has_a_stream_of_its_own_and_its_memory_waits_for_it(self):
        fake_cuda.recorded.clear()
        x = self.mine()
        dist.all_reduce(x)
        self.assertEqual(fake_cuda.recorded, [])
        dist.all_reduce(x, async_op=True).wait()
        streams = {stream for address, stream in fake_cuda.recorded if address == x.data_ptr()}
        self.assertEqual(len(streams), 1)
        self.assertNotIn(fake_cuda.current_stream(), streams)
        # Also the memory between, which nobody else keeps.
        fake_cuda.recorded.clear()
        given = [self.mine(), *[fake_cuda.empty(N) for _ in range(self.size)]]
        dist.all_gather(given[1:], given[0], async_op=True).wait()
        self.assertTrue({address for address, _ in fake_cuda.recorded} - {tensor.data_ptr() for tensor in given})
        fake_cuda.current_stream().synchronize()

    def test_a_future_is_done_at_once_in_a_stream_that_waits_for_the_call(self):
        ordinary, torch.futures.Future = torch.futures.Future, fake_cuda.Future
        fake_cuda.hold(True)
        try:
            x = fake_cuda.empty(N, dtype=torch.uint8)
            fake_cuda.current_stream().fill(x, 1)
            future = dist.all_reduce(x, async_op=True).get_future()
            self.assertTrue(future.done())
            copy = fake_cuda.empty(N, dtype=torch.uint8)
            future.stream.copy(copy, x)
            fake_cuda.hold(False)
            future.stream.synchronize()
            self.same(self.host(copy), torch.full((N,), self.size, dtype=torch.uint8))
        finally:
            fake_cuda.hold(False)
            torch.futures.Future = ordinary

    def test_a_barrier_waits_for_the_streams(self):
        x = fake_cuda.empty(N, dtype=torch.uint8)
        fake_cuda.current_stream().fill(x, 1)
        work = dist.all_reduce(x, async_op=True)
        dist.barrier()
        self.assertTrue(work.is_completed())
        self.assertTrue(work.is_success())

    # ---- What is refused

    def test_tensors_of_host_and_device_in_one_call_are_refused(self):
        group = dist.new_group()
        if self.rank == 0:
            with self.assertRaisesRegex(ValueError, "tensors of the CPU and of cuda:0 in one call"):
                dist.all_gather_into_tensor(fake_cuda.empty(self.size * N), torch.ones(N), group=group)
        else:
            with self.assertRaisesRegex(RuntimeError, "rank 0"):
                dist.all_gather_into_tensor(torch.empty(self.size * N), torch.ones(N), group=group)

    def test_a_failure_is_raised_by_wait_and_by_the_next_call(self):
        group = dist.new_group()
        work = dist.all_reduce(self.mine(), group=group, async_op=True)
        fake_cuda.current_stream().synchronize()
        dist.barrier()
        if self.rank == 0:
            group.abort()
            return
        end = time.monotonic() + 20
        while work.exception() is None and time.monotonic() < end:
            time.sleep(0.005)
        with self.assertRaisesRegex(RuntimeError, "rank 0 has aborted"):
            work.wait()
        with self.assertRaisesRegex(RuntimeError, "rank 0 has aborted"):
            dist.all_reduce(self.mine(), group=group)


if __name__ == "__main__":
    main()
